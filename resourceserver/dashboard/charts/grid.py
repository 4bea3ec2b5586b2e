"""Grids of cells: the hours of a week, and the days of a year.

A cell's level, from 0 to 4, is its value's share of the largest value of the grid. Levels differ in size as
well as in colour.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from markupsafe import Markup

from resourceserver.dashboard.charts import svg
from resourceserver.dashboard.charts.escaping import escaped
from resourceserver.dashboard.charts.svg import Key

LEVELS: Final = 4
_DAY: Final = timedelta(days=1)
_MONTHS: Final = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]
_WEEKDAYS: Final = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


@dataclass(frozen=True)
class Cell:
    """One hour or day."""

    value: float | None
    """None where nobody reported, which is not zero."""
    title: str = ""
    href: str = ""
    is_other: bool = False
    """Whether the cell is of the second kind, such as distracted time, which has a line through it."""


@dataclass(frozen=True)
class Placed:
    """A cell in its column and row, with its level; None where nobody reported."""

    cell: Cell
    column: int
    row: int
    level: int | None


@dataclass(frozen=True)
class Label:
    """A label of a column or a row."""

    place: int
    words: str
    is_narrow: bool = True


@dataclass(frozen=True)
class Grid:
    """Cells in columns and rows, with labels above and on the left."""

    name: str
    columns: int
    rows: int
    cell_height: int
    placed: tuple[Placed, ...]
    above: tuple[Label, ...]
    left: tuple[Label, ...]
    legend: tuple[Key, ...]
    is_in_tab_order: bool = True
    """Whether links of cells are stops of the tab key."""

    @property
    def height(self) -> int:
        """The height in pixels."""
        return 18 + self.rows * self.cell_height

    def svg(self) -> Markup:
        """Return the ``<svg>`` element."""
        body: list[str] = []
        for label in self.above:
            x = 100 * label.place / self.columns
            style = "axis-above" if label.is_narrow else "axis-above roomy"
            body.append(svg.text(x, 11, label.words, style))
        for label in self.left:
            y = 18 + self.cell_height * (label.place + 0.5) + 4
            body.append(
                f'<text class="axis" x="-6" y="{svg.number(y)}">{escaped(label.words)}</text>'
            )
        cells = "".join(self._cell(each) for each in self.placed)
        body.append(
            f'<svg class="cells" y="18" width="100%" height="{self.rows * self.cell_height}" '
            f'viewBox="0 -.5 {self.columns} {self.rows}" preserveAspectRatio="none">{cells}</svg>'
        )
        links = any(each.cell.href for each in self.placed)
        return svg.frame(self.name, self.height, "".join(body), gutter="gutter", links=links)

    def _cell(self, each: Placed) -> str:
        cell = each.cell
        # A cell is a thick line, which is the shortest element of all; so a year is a small page.
        shape = f'<path d="M{each.column} {each.row}h.9"/>'
        style = "n" if each.level is None else f"l{each.level}"
        if cell.is_other and each.level:
            style += " other"
            shape += f'<path class="through" d="M{each.column} {each.row}h.9"/>'
        name = cell.title or cell.href
        title = f"<title>{escaped(svg.cut(name, 60))}</title>" if name else ""
        if cell.href:
            stop = "" if self.is_in_tab_order else ' tabindex="-1"'
            return f'<a class="{style}" href="{escaped(cell.href)}"{stop}>{title}{shape}</a>'
        return f'<g class="{style}">{title}{shape}</g>'


def week(
    name: str,
    rows: Sequence[tuple[str, Sequence[Cell | None]]],
    *,
    words: str = "a larger cell is more",
    other: str = "",
) -> Grid:
    """Return a grid with a row for each day, of its label and the cells of its 24 hours.

    None is an hour that there is not, such as one of the future. ``other`` says what cells of the second
    kind are.
    """
    columns = max((len(cells) for _, cells in rows), default=24)
    level = leveller(cell.value for _, cells in rows for cell in cells if cell is not None)
    placed = tuple(
        Placed(cell, column, row, level(cell.value))
        for row, (_, cells) in enumerate(rows)
        for column, cell in enumerate(cells)
        if cell is not None
    )
    above = tuple(
        Label(hour, f"{hour:02}", hour % 6 == 0) for hour in range(0, min(columns, 24), 3)
    )
    left = tuple(Label(row, svg.cut(label, 6)) for row, (label, _) in enumerate(rows))
    legend = _legend(placed, words, other)
    return Grid(name, columns, len(rows), 20, placed, above, left, legend)


def year(
    name: str,
    first: date,
    last: date,
    cells: Mapping[date, Cell],
    *,
    week_starts_on: int = 0,
    from_zero: bool = True,
    words: str = "a larger cell is more",
) -> Grid:
    """Return the heat map of the days from ``first`` to ``last``: a column for each week.

    A day without a cell is empty, as the days of the future are. The week starts on the weekday with this
    number, 0 for Monday. Values that never come near zero, such as sleep, differ more if their levels do not
    begin there. The tab key does not stop at hundreds of cells: the table has the same links.
    """
    start = first - _DAY * ((first.weekday() - week_starts_on) % 7)
    columns = (last - start).days // 7 + 1
    level = leveller((cell.value for cell in cells.values()), from_zero=from_zero)
    placed, above = [], []
    for number in range((last - first).days + 1):
        day = first + _DAY * number
        column, row = divmod((day - start).days, 7)
        # The label is above the column of the first; the first column has the month that it starts in.
        if day.day == 1:
            above.append(Label(column, _MONTHS[day.month - 1], day.month % 3 == 1))
        if (cell := cells.get(day)) is not None:
            placed.append(Placed(cell, column, row, level(cell.value)))
    left = tuple(Label(row, _WEEKDAYS[(row + week_starts_on) % 7]) for row in range(0, 7, 2))
    legend = _legend(placed, words, "")
    return Grid(
        name, columns, 7, 16, tuple(placed), tuple(above), left, legend, is_in_tab_order=False
    )


def leveller(
    values: Iterable[float | None], *, from_zero: bool = True
) -> Callable[[float | None], int | None]:
    """Return the function that gives a value its level: 0 for zero, 4 for the largest value.

    The largest value is that of the 95th percentile, so that one extreme day does not pale all others.
    Values below zero have the level of their size. If levels do not begin at zero, the value of the 5th
    percentile and smaller ones have level 1.
    """
    sizes = sorted(abs(value) for value in values if value)
    largest = sizes[math.ceil(len(sizes) * 0.95) - 1] if sizes else 1.0
    smallest = 0.0 if from_zero or not sizes else sizes[math.ceil(len(sizes) * 0.05) - 1]

    def level(value: float | None) -> int | None:
        if value is None:
            return None
        if smallest and smallest < largest and value:
            share = (abs(value) - smallest) / (largest - smallest)
            return max(1, min(LEVELS, math.ceil(LEVELS * share)))
        return min(LEVELS, math.ceil(LEVELS * (abs(value) / largest)))

    return level


def _legend(placed: Sequence[Placed], words: str, other: str) -> tuple[Key, ...]:
    keys = [Key("scale", words)]
    if other and any(each.cell.is_other for each in placed):
        keys.append(Key("other", other))
    if any(each.level is None for each in placed):
        keys.append(Key("n", svg.NOT_REPORTED.words))
    return tuple(keys)
