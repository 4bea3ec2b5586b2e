"""The checks of fragments: what a header lists is what precedes the fragment, and what it provides.

They read the columns of common table expressions from the text, as far as they can: those of ``select *``
cannot be read.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from shared import queries

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
_FROM: Final = re.compile(r"\bfrom\s+")
_FROM_ENDS: Final = re.compile(
    r"\b(?:where|group by|having|window|order by|limit|offset|for|on conflict|returning)\b"
    r"|\b(?:union|except|intersect|select)\b|;"
)
_FROM_ITEM: Final = re.compile(r",\s*|\bjoin\s+|\busing\s+(?!#)")
_TABLE: Final = re.compile(r"(?!(?:lateral|rows from)\b)(\w+)\b(?![.#])")
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
    """A statement or a fragment, with what its header lists."""

    name: str
    is_fragment: bool
    text: str
    needs: Mapping[str, Columns]
    gives: Mapping[str, Columns]

    @cached_property
    def code(self) -> str:
        """The text without comments and strings, whose parentheses are therefore balanced."""
        return _bare(self.text)

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
        return tables_read(self.code)


def _bare(text: str) -> str:
    without = _TEXT.sub("''", _COMMENT.sub("", text))
    return _NOT_A_TABLE.sub(r"\1", without)


def tables_read(text: str) -> frozenset[str]:
    """Return the tables without a schema that a text reads from."""
    code = _bare(text)
    found = set[str]()
    for begin in _FROM.finditer(code):
        clause = _FROM_ENDS.split(_without_parentheses(code, begin.end()), maxsplit=1)[0]
        tables = map(_TABLE.match, _FROM_ITEM.split(clause))
        found.update(table[1] for table in tables if table is not None)
    return frozenset(found)


def check(paths: Iterable[Path]) -> None:
    """Check all statements and fragments of ``paths``, which may include each other's fragments.

    Raises ValueError for two fragments of one name, KeyError for an unknown fragment, FragmentError for a
    fragment whose requirements are not met where it is included.
    """
    every = [_block(block) for path in paths for block in queries.blocks(path)]
    fragments: dict[str, Block] = {}
    for block in every:
        if block.is_fragment and fragments.setdefault(block.name, block) is not block:
            raise ValueError(f"there are two fragments {block.name}")
    for block in every:
        _check(block, fragments)
        if not block.is_fragment:
            _check_ends(block)


def check_functions(path: Path) -> None:
    """Check a file without headers, such as one of functions. Raises KeyError and FragmentError as above."""
    fragments = {
        block.name: _block(block) for shared in queries.SHARED for block in queries.blocks(shared)
    }
    # A common table expression ends with its statement, so the next function must not refer to it.
    for statement in _STATEMENT_END.split(_COMMENT.sub("", path.read_text(encoding="utf-8"))):
        _check(Block(path.name, is_fragment=False, text=statement, needs={}, gives={}), fragments)


def _block(written: queries.Block) -> Block:
    listed: dict[str, dict[str, Columns]] = {"needs": {}, "gives": {}}
    for word, table, columns in written.promises:
        listed[word][table] = frozenset(re.findall(r"\w+", columns))
    return Block(written.name, written.is_fragment, written.text, **listed)


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
    """Return the text up to its end or the parenthesis that closes here, with ``#`` for each pair inside."""
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
    else:
        parts.append(code[begin:])
    return "".join(parts)
