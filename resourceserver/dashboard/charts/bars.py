"""Bars: upright ones by hour or day, and lying ones for a list of names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from markupsafe import Markup

from resourceserver.dashboard.charts import svg
from resourceserver.dashboard.charts.scale import DURATION, Tick, Unit, labelled, scale
from resourceserver.dashboard.charts.svg import Key

TOP: Final = 10
LIST_ROW: Final = 38
LINE: Final = 16
"""What a second line adds to the height of a lying bar."""
MOST_LETTERS: Final = 24
"""The longest line above a lying bar, beside its value on a narrow phone."""
WIDEST: Final = 14.0
"""The width of a bar among few, in percent."""


@dataclass(frozen=True)
class Bar:
    """One bar: its value, or its parts from the axis outwards."""

    label: str
    value: float | None = None
    """None where nobody reported, which is not zero."""
    parts: Sequence[float] = ()
    """The values of the parts, which are not negative. Then ``value`` is not used."""
    usual: float | None = None
    """What is normal for this bar."""
    title: str = ""
    href: str = ""
    text: str = ""
    """The value in words, beside a lying bar."""
    second: str = ""
    """What follows the label of a lying bar, on a second line if both are too long for one."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines above a lying bar."""
        first = svg.cut(self.label, MOST_LETTERS)
        if not self.second:
            return (first,)
        both = svg.cut(f"{self.label} {self.second}", MOST_LETTERS)
        return (first, svg.cut(self.second, MOST_LETTERS)) if "…" in both else (both,)

    @property
    def is_missing(self) -> bool:
        """Whether nobody reported."""
        return self.value is None and not self.parts

    @property
    def values(self) -> Sequence[float]:
        """The values that are stacked."""
        return self.parts or (() if self.value is None else (self.value,))


class Piece(NamedTuple):
    """A part of a bar: where it starts and how long it is, along the bar."""

    start: float
    length: float
    style: str


class Placed(NamedTuple):
    """A bar with its position: percent across and pixels down, or the other way round if it lies."""

    bar: Bar
    across: float
    width: float
    pieces: tuple[Piece, ...]
    usual: float | None


@dataclass(frozen=True)
class Bars:
    """Upright bars. Without any value they have no ticks; without any bar all of it is hatched."""

    name: str
    height: float
    plot: float
    placed: tuple[Placed, ...]
    ticks: tuple[Tick, ...]
    legend: tuple[Key, ...]

    def svg(self) -> Markup:
        """Return the ``<svg>`` element."""
        fill, body = svg.hatched(self.name), [svg.hatch(self.name), svg.axis_left(self.ticks)]
        labels = labelled([each.bar.label for each in self.placed])
        if not self.placed:
            body.append(svg.rect(0, TOP, 100, self.plot, "missing", fill=fill))
        for place, each in enumerate(self.placed):
            if each.bar.is_missing:
                shape = svg.rect(each.across, TOP, each.width, self.plot, "missing", fill=fill)
            else:
                shape = "".join(
                    svg.rect(each.across, piece.start, each.width, piece.length, piece.style)
                    for piece in each.pieces
                )
            if each.usual is not None:
                shape += svg.rect(each.across, each.usual - 1.5, each.width, 3, "usual")
            body.append(svg.mark(shape, each.bar.title, each.bar.href, each.bar.label))
            if place in labels:
                middle = each.across + each.width / 2
                body.append(
                    svg.label_below(
                        middle, self.height - 4, each.bar.label, is_narrow=labels[place]
                    )
                )
        links = any(each.bar.href for each in self.placed)
        return svg.frame(self.name, self.height, "".join(body), gutter="gutter", links=links)


@dataclass(frozen=True)
class TopBars:
    """Lying bars under their names."""

    name: str
    height: float
    placed: tuple[Placed, ...]
    legend: tuple[Key, ...]

    def svg(self) -> Markup:
        """Return the ``<svg>`` element."""
        fill, body = svg.hatched(self.name), [svg.hatch(self.name)]
        for each in self.placed:
            bar, y = each.bar, each.across
            lines = bar.lines
            below = y + 17 + LINE * (len(lines) - 1)
            if bar.is_missing:
                shape = svg.rect(0, below, 100, each.width, "missing", fill=fill)
            else:
                shape = svg.rect(0, below, 100, each.width, "track") + "".join(
                    svg.rect(piece.start, below, piece.length, each.width, piece.style)
                    for piece in each.pieces
                )
            if each.usual is not None:
                shape += svg.upright(each.usual, below - 3, each.width + 6, "usual")
            words = [
                svg.text(0, y + 12 + LINE * number, line, "row-label")
                for number, line in enumerate(lines)
            ]
            shape = "".join(words) + shape
            if bar.text:
                shape += svg.text(100, y + 12, svg.cut(bar.text, MOST_LETTERS), "amount", "end")
            body.append(svg.mark(shape, bar.title, bar.href, f"{bar.label} {bar.second}".strip()))
        links = any(each.bar.href for each in self.placed)
        return svg.frame(self.name, self.height, "".join(body), links=links)


def bars(
    name: str,
    values: Iterable[Bar],
    *,
    unit: Unit = DURATION,
    parts: Sequence[str] = (),
    usual: str = "usual",
    height: int = 170,
) -> Bars:
    """Return upright bars, in the order of time. ``parts`` names the parts of stacked bars."""
    given = list(values)
    plot = height - TOP - 22
    ends = _ends(given)
    axis = scale(ends, unit)
    slot = 100 / max(1, len(given))
    width = min(slot * 0.8, WIDEST)
    placed = []
    for place, bar in enumerate(given):
        pieces, at = [], 0.0
        for number, value in enumerate(bar.values):
            here, there = axis.down(at, TOP, plot), axis.down(at + value, TOP, plot)
            pieces.append(Piece(min(here, there), abs(there - here), _style(bar, number)))
            at += value
        usual_at = None if bar.usual is None else axis.down(bar.usual, TOP, plot)
        placed.append(Placed(bar, slot * (place + 0.5) - width / 2, width, tuple(pieces), usual_at))
    legend = _legend(given, parts, usual)
    ticks = axis.ticks_down(TOP, plot) if ends else ()
    return Bars(name, height, plot, tuple(placed), ticks, legend)


def top(
    name: str,
    values: Iterable[Bar],
    *,
    parts: Sequence[str] = (),
    usual: str = "usual",
) -> TopBars:
    """Return lying bars, one under the other. The longest fills the width; negative values have none."""
    given = list(values)
    longest = max(_ends(given), default=0.0) or 1.0
    placed, height = [], 0
    for bar in given:
        pieces, at = [], 0.0
        for number, value in enumerate(bar.values):
            length = 100 * (max(0.0, value) / longest)
            pieces.append(Piece(at, length, _style(bar, number)))
            at += length
        usual_at = None if bar.usual is None else 100 * (max(0.0, bar.usual) / longest)
        placed.append(Placed(bar, height, 12, tuple(pieces), usual_at))
        height += LIST_ROW + LINE * (len(bar.lines) - 1)
    return TopBars(name, height or LIST_ROW, tuple(placed), _legend(given, parts, usual))


def _ends(given: Sequence[Bar]) -> list[float]:
    """Return how far each bar and its mark reach."""
    ends = [float(sum(bar.values)) for bar in given if not bar.is_missing]
    return ends + [bar.usual for bar in given if bar.usual is not None]


def _style(bar: Bar, number: int) -> str:
    return f"part c{number % 6 + 1}" if bar.parts else "part c1"


def _legend(given: Sequence[Bar], parts: Sequence[str], usual: str) -> tuple[Key, ...]:
    keys = [Key(f"part c{number % 6 + 1}", words) for number, words in enumerate(parts)]
    if any(bar.usual is not None for bar in given):
        keys.append(Key("usual", usual))
    if not given or any(bar.is_missing for bar in given):
        keys.append(svg.NOT_REPORTED)
    return tuple(keys)
