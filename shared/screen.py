"""Text on a terminal: without characters that a terminal interprets, and in tables that fit its width."""

import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import click

_IGNORABLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Printable characters that draw nothing: fillers, and selectors that change a neighbour's width."""
_MOST_MARKS: Final = 4
"""The most marks on one letter. More are written to draw over other lines."""
_LEAST_ELASTIC: Final = 12
"""The columns that an elastic cell keeps, however narrow the terminal is."""

_FIRST_STRONG_ISOLATE: Final = "\u2068"
_POP_ISOLATE: Final = "\u2069"
_RIGHT_TO_LEFT: Final = frozenset(("R", "AL", "AN"))


def plain(value: str) -> str:
    """Return ``value`` without the characters that a terminal interprets or does not draw.

    Browsers and applications choose their own names; an escape sequence in a name could overwrite other
    text on the screen.
    """
    visible = _IGNORABLE.sub("", "".join(letter for letter in value if letter.isprintable()))
    return visible if visible.isascii() else "".join(_with_few_marks(visible))


def _with_few_marks(text: str) -> Iterator[str]:
    marks = 0
    for letter in text:
        marks = marks + 1 if unicodedata.category(letter) in ("Mn", "Me") else 0
        if marks <= _MOST_MARKS:
            yield letter


def width(text: str) -> int:
    """Return the columns that ``text`` takes on a terminal: two for each wide letter, none for a mark."""
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf") or "\u1160" <= letter <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def shortened(value: str, columns: int) -> str:
    """Return ``value``, cut to this many columns."""
    if width(value) <= columns:
        return value
    kept, left = "", columns - 1
    for letter in value:
        left -= _width_of(letter)
        if left < 0:
            break
        kept += letter
    return f"{kept}…"


def table(
    header: Sequence[str],
    lines: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    elastic: str | None = None,
) -> None:
    """Print ``lines`` under ``header``, in columns if they fit the terminal.

    The columns named in ``right`` are aligned to the right; that named by ``elastic`` is cut where the
    terminal is too narrow for it.
    """
    cells = [[plain(cell) for cell in line] for line in (header, *lines)]
    screen = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if screen is not None and elastic is not None:
        _cut(cells, list(header).index(elastic), screen)
    widths = _widths(cells)
    if screen is not None and _total(widths) > screen and len(cells) > 1:
        _print_blocks(cells, screen)
        return
    for line in cells:
        aligned = (
            _aligned(cell, columns, to_right=title in right, is_screen=screen is not None)
            for title, cell, columns in zip(header, line, widths, strict=True)
        )
        click.echo("  ".join(aligned).rstrip())


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width, column)) for column in zip(*cells, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _cut(cells: Sequence[list[str]], column: int, screen: int) -> None:
    """Shorten the cells of a column so that the table fits, if it then keeps enough columns."""
    widths = _widths(cells)
    left = screen - (_total(widths) - widths[column])
    if left >= _LEAST_ELASTIC:
        for line in cells:
            line[column] = shortened(line[column], left)


def _aligned(cell: str, columns: int, *, to_right: bool, is_screen: bool) -> str:
    """Return a cell with the spaces that fill its column.

    Letters that run from right to left are isolated on a screen. Otherwise they would move the neighbouring
    cells to other places.
    """
    spaces = " " * (columns - width(cell))
    if is_screen and any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in cell):
        cell = f"{_FIRST_STRONG_ISOLATE}{cell}{_POP_ISOLATE}"
    return spaces + cell if to_right else cell + spaces


def _print_blocks(cells: Sequence[Sequence[str]], screen: int) -> None:
    """Print a table that is wider than the terminal: each of its lines as a block, a line for each cell."""
    header, *lines = cells
    margin = max(map(len, header)) + 2
    for number, line in enumerate(lines):
        if number:
            click.echo()
        for title, cell in zip(header, line, strict=True):
            first, *further = textwrap.wrap(cell, max(20, screen - margin)) or [""]
            click.echo(f"{title:<{margin}}{first}".rstrip())
            for rest in further:
                click.echo(" " * margin + rest)


def print_facts(*facts: tuple[str, str]) -> None:
    """Print one line for each name and value."""
    for name, value in facts:
        click.echo(f"{name:<15}  {plain(value)}")


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which gets an s in the plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
