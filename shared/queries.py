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

``tests/sql/test_fragments.py`` checks both for all files, so that no start of a program has to.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
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


@dataclass(frozen=True)
class Block:
    """A statement or a fragment as written in its file."""

    name: str
    is_fragment: bool
    text: str
    """Without the lines of its header."""
    promises: tuple[tuple[str, str, str], ...]
    """The lines ``needs`` and ``gives`` of its header: the word, the table and its columns."""


def load(*paths: Path) -> dict[str, str]:
    """Return the statements of ``paths`` by name; fragments may be used across these files.

    Raises ValueError for a name given twice, KeyError for an unknown fragment.
    """
    statements: dict[str, Block] = {}
    fragments: dict[str, Block] = {}
    for path in (*SHARED, *paths):
        for block in blocks(path):
            known = fragments if block.is_fragment else statements
            if block.name in known:
                raise ValueError(f"{path.name}: {block.name} is defined twice")
            known[block.name] = block
    return {name: _whole(block.text, fragments) for name, block in statements.items()}


def written_out(path: Path) -> str:
    """Return the text of a file without headers, such as one of functions, with its fragments.

    It may use those of SHARED. Raises KeyError for an unknown fragment.
    """
    fragments = {block.name: block for shared in SHARED for block in blocks(shared)}
    return _whole(path.read_text(encoding="utf-8"), fragments)


def blocks(path: Path) -> tuple[Block, ...]:
    """Return the statements and fragments of a file."""
    return _parsed(path.read_text(encoding="utf-8"))


# Many modules load the same files of fragments, so the blocks of a file are cached by its text.
@cache
def _parsed(text: str) -> tuple[Block, ...]:
    return tuple(_blocks(text))


def _blocks(file: str) -> Iterator[Block]:
    parts = _HEADER.split(file)
    for kind, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        promises = tuple(_PROMISE.findall(text))
        yield Block(name, kind == "fragment", _PROMISE.sub("", text).strip(), promises)


def _whole(text: str, fragments: Mapping[str, Block]) -> str:
    """Return ``text`` with all fragments in the place of the lines that include them."""
    return _INCLUDE.sub(lambda include: _whole(fragments[include[1]].text, fragments), text)
