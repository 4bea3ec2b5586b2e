"""Named SQL, kept in ``.sql`` files beside the module that runs it.

A file is a series of blocks, each opened by a header line:

    -- name: app_usage          a statement, with named parameters such as %(from)s
    -- fragment: spans          common table expressions that several statements share

A line ``--include spans`` includes a fragment in a statement or in another fragment. There is no other
templating: the file has the text that is executed. Files of functions may include the fragments of SHARED.

The header of a fragment lists the common table expressions that must precede it, and those of its own that
later ones may read, each with its columns:

    -- needs: slot (position, starts_at, ends_at)
    -- gives: span (position, grain, starts_at, ends_at)

Both are checked when a file is loaded, as far as the columns of a common table expression can be read from
its text: those of ``select *`` cannot.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

SHARED: Final = (
    Path(__file__).with_name("answer.sql"),
    Path(__file__).with_name("definitions.sql"),
)
"""The fragments that all files may include, even those of functions of the database."""

_HEADER: Final = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_INCLUDE: Final = re.compile(r"^ *--include (\w+)$", re.MULTILINE)
_PROMISE: Final = re.compile(r"^-- (needs|gives): (\w+) \(([\w,\s-]*)\)\n", re.MULTILINE)
_COMMENT: Final = re.compile(r"^ *--(?!include ).*\n?", re.MULTILINE)
_STATEMENT_END: Final = re.compile(r";$", re.MULTILINE)
_TEXT: Final = re.compile(r"'[^']*'")
_STEP: Final = re.compile(
    r"^ *--include (?P<include>\w+)$"
    r"|^ *(?:with (?:recursive )?)?(?P<table>\w+)(?: \((?P<columns>[\w, ]+)\))?"
    r" as (?:not )?(?:materialized )?\($",
    re.MULTILINE,
)
_NOT_A_TABLE: Final = re.compile(r"(\bextract\(\s*\w+|\bdistinct)\s+from\b")
_REFERENCE: Final = re.compile(r"\b(?:from|join)\s+(?!lateral\b)(\w+)\b(?![.(])")
_RETURNED: Final = re.compile(r"\breturning\s+(.*)\Z", re.DOTALL)
_PARENTHESIS: Final = re.compile(r"[()]")
_SELECTED: Final = re.compile(
    r"\bselect\s+(?:distinct\s+(?:on\s+#\s+)?)?(.*?)(?:\bfrom\b|\bwhere\b|\bunion\b|\Z)", re.DOTALL
)

Columns = frozenset[str]
Tables = Mapping[str, Columns | None]
"""Common table expressions by name, with their columns; None where these cannot be read."""


class FragmentError(ValueError):
    """A fragment that lacks a required table or its end, or does not provide what its header lists."""


@dataclass(frozen=True)
class Step:
    """A common table expression of a block, or a fragment that it includes."""

    depth: int
    """The number of parentheses around it."""
    name: str
    is_included: bool
    columns: Columns | None


@dataclass(frozen=True)
class Block:
    """A statement or a fragment as written in its file."""

    name: str
    is_fragment: bool
    text: str
    needs: Mapping[str, Columns]
    gives: Mapping[str, Columns]

    @cached_property
    def code(self) -> str:
        """The text without comments and strings, whose parentheses are therefore balanced."""
        without = _TEXT.sub("''", _COMMENT.sub("", self.text))
        return _NOT_A_TABLE.sub(r"\1", without)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Its common table expressions and included fragments, in their order."""
        steps: list[Step] = []
        depth, end = 0, 0
        for found in _STEP.finditer(self.code):
            between = self.code[end : found.start()]
            depth += between.count("(") - between.count(")")
            end = found.start()
            if found["include"] is None:
                columns = _columns(self.code, found)
                steps.append(Step(depth, found["table"], False, columns))
            else:
                steps.append(Step(depth, found["include"], True, None))
        return tuple(steps)

    @cached_property
    def references(self) -> frozenset[str]:
        """The tables without a schema that it reads from."""
        return frozenset(_REFERENCE.findall(self.code))


def load(*paths: Path) -> dict[str, str]:
    """Return the statements of ``paths`` by name; fragments may be used across these files.

    Raises ValueError for a name given twice, KeyError for an unknown fragment, FragmentError for a fragment
    whose requirements are not met where it is included.
    """
    statements: dict[str, Block] = {}
    fragments: dict[str, Block] = {}
    for path in (*SHARED, *paths):
        for block in blocks(path):
            known = fragments if block.is_fragment else statements
            if block.name in known:
                raise ValueError(f"{path.name}: {block.name} is defined twice")
            known[block.name] = block

    used = dict.fromkeys(
        name
        for each in (*statements.values(), *fragments.values())
        for name in _INCLUDE.findall(each.text)
    )
    for block in (*statements.values(), *(fragments[name] for name in used)):
        _check(block, fragments)
    for block in statements.values():
        _check_ends(block)
    return {name: _whole(block.text, fragments) for name, block in statements.items()}


def written_out(path: Path) -> str:
    """Return the text of a file without headers, such as one of functions, with its fragments.

    It may use those of SHARED. Raises KeyError and FragmentError as ``load`` does.
    """
    text = path.read_text(encoding="utf-8")
    fragments = {block.name: block for shared in SHARED for block in blocks(shared)}
    # A common table expression ends with its statement, so the next function must not refer to it.
    for statement in _STATEMENT_END.split(_COMMENT.sub("", text)):
        _check(Block(path.name, is_fragment=False, text=statement, needs={}, gives={}), fragments)
    return _whole(text, fragments)


def blocks(path: Path) -> tuple[Block, ...]:
    """Return the statements and fragments of a file."""
    return _parsed(path.read_text(encoding="utf-8"))


# Many files share fragments, so the result of parsing a block is cached by its text.
@cache
def _parsed(text: str) -> tuple[Block, ...]:
    return tuple(_blocks(text))


def _blocks(file: str) -> Iterator[Block]:
    parts = _HEADER.split(file)
    for kind, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        promised: dict[str, dict[str, Columns]] = {"needs": {}, "gives": {}}
        for promise, table, columns in _PROMISE.findall(text):
            promised[promise][table] = frozenset(re.findall(r"\w+", columns))
        yield Block(name, kind == "fragment", _PROMISE.sub("", text).strip(), **promised)


def _whole(text: str, fragments: Mapping[str, Block]) -> str:
    """Return ``text`` with all fragments in the place of the lines that include them."""
    return _INCLUDE.sub(lambda include: _whole(fragments[include[1]].text, fragments), text)


def _check(block: Block, fragments: Mapping[str, Block]) -> None:
    """Raise FragmentError unless all tables exist that a block and its fragments refer to."""
    # With the depth of parentheses of each. A name within them hides the same name outside.
    known: list[tuple[int, str, Columns | None]] = [
        (0, table, columns) for table, columns in block.needs.items()
    ]
    named = set(block.needs)
    for step in block.steps:
        # A table within parentheses is not visible after them.
        known = [each for each in known if each[0] <= step.depth]
        if step.is_included:
            fragment = fragments[step.name]
            _compare(block, fragment, {table: columns for _, table, columns in known})
            known += [(step.depth, table, columns) for table, columns in fragment.gives.items()]
        else:
            known.append((step.depth, step.name, step.columns))
        named.update(table for _, table, _ in known)
    if block.is_fragment and (missing := block.references - named):
        raise FragmentError(f"{block.name} reads {min(missing)}, which it neither has nor needs")
    given = {table: columns for depth, table, columns in known if depth == 0}
    for table, columns in block.gives.items():
        own = given.get(table, frozenset())
        if own is not None and (missing := columns - own):
            raise FragmentError(f"{block.name} does not give {table}.{min(missing)}")


def _check_ends(statement: Block) -> None:
    """Raise FragmentError unless a statement has the end of each answer that it begins."""
    begun, ended = (
        sum(step.name == name for step in statement.steps if step.is_included)
        for name in ("answer", "end_of_answer")
    )
    if begun != ended:
        raise FragmentError(f"{statement.name} needs '--include end_of_answer' for each 'answer'")


def _compare(block: Block, fragment: Block, known: Tables) -> None:
    """Raise FragmentError unless ``block`` meets the requirements of a fragment that it includes."""
    for table, columns in fragment.needs.items():
        given = known.get(table, frozenset())
        if given is not None and (missing := columns - given):
            raise FragmentError(f"{block.name}: {fragment.name} needs {table}.{min(missing)}")


def _columns(code: str, step: re.Match[str]) -> Columns | None:
    """Return the columns of the common table expression that begins with ``step``."""
    if step["columns"] is not None:
        return frozenset(step["columns"].split(", "))
    body = _without_parentheses(code, step.end())
    selected = _RETURNED.search(body) or _SELECTED.search(body)
    if selected is None:
        return None
    names = [re.search(r"(\w+)\s*$", item) for item in selected[1].split(",")]
    return frozenset(name[1] for name in names if name is not None) if all(names) else None


def _without_parentheses(code: str, start: int) -> str:
    """Return the text up to the parenthesis that closes here, with ``#`` for each pair inside."""
    depth, begin, parts = 0, start, list[str]()
    for parenthesis in _PARENTHESIS.finditer(code, start):
        if depth == 0:
            parts.append(code[begin : parenthesis.start()])
        depth += 1 if parenthesis[0] == "(" else -1
        if depth < 0:
            break
        if depth == 0:
            parts.append("#")
            begin = parenthesis.end()
    return "".join(parts)
