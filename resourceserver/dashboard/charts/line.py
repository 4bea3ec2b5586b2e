"""Lines: a series beside its median, and values in a band of their own normal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from resourceserver.dashboard.charts import svg
from resourceserver.dashboard.charts.scale import (
    DURATION,
    NUMBER,
    Scale,
    Tick,
    Unit,
    labelled,
    runs,
    scale,
)
from resourceserver.dashboard.charts.svg import Key

TOP: Final = 18
WIDTH: Final = 1000.0
MOST_DOTS: Final = 62
"""A series of more points is a line without dots, unless a point is alone or has an address."""


@dataclass(frozen=True)
class Point:
    """A value of a day, week or month."""

    label: str
    value: float | None
    """None where nobody reported: the line has a gap there."""
    usual: float | None = None
    """The median of the time before, drawn as a second line."""
    title: str = ""
    href: str = ""


@dataclass(frozen=True)
class Change:
    """A point at which the series changed its level."""

    place: int
    label: str
    """Such as its date; it stands above the mark."""


@dataclass(frozen=True)
class Range:
    """A value with the range in which it is normal, or the range of a day with its median."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    title: str = ""
    href: str = ""

    @property
    def is_outside(self) -> bool:
        """Whether the value is outside its range."""
        if self.value is None:
            return False
        is_low = self.low is not None and self.value < self.low
        return is_low or (self.high is not None and self.value > self.high)


@dataclass(frozen=True)
class Spot:
    """A point's place: percent from the left, and pixels from the top; None where nobody reported."""

    point: Point | Range
    x: float
    y: float | None
    is_outside: bool = False


@dataclass(frozen=True)
class Line:
    """Points, the line through them, and what goes beside it."""

    name: str
    height: int
    plot: float
    spots: tuple[Spot, ...]
    path: str
    usual_path: str
    band_path: str
    gaps: tuple[tuple[float, float], ...]
    """Where nobody reported: from and to, in percent."""
    changes: tuple[tuple[float, Change], ...]
    ticks: tuple[Tick, ...]
    legend: tuple[Key, ...]
    has_dots: bool

    def svg(self) -> Markup:
        """Return the ``<svg>`` element."""
        fill = svg.hatched(self.name)
        body = [svg.hatch(self.name), self._paths(("band", self.band_path))]
        body += [
            svg.rect(start, TOP, end - start, self.plot, "missing", fill=fill)
            for start, end in self.gaps
        ]
        body.append(svg.axis_left(self.ticks))
        body.append(self._paths(("median", self.usual_path), ("line", self.path)))
        for x, change in self.changes:
            anchor = "start" if x < 12 else "end" if x > 88 else "middle"
            body.append(
                f'<line class="change" x1="{svg.number(x)}%" x2="{svg.number(x)}%" y1="{TOP - 2}" '
                f'y2="{svg.number(TOP + self.plot)}"/>'
                + svg.text(x, 11, svg.cut(change.label, 16), "change-label", anchor)
            )
        body += [self._spot(place) for place in range(len(self.spots))]
        for place, is_narrow in labelled([spot.point.label for spot in self.spots]).items():
            spot = self.spots[place]
            body.append(
                svg.label_below(spot.x, self.height - 4, spot.point.label, is_narrow=is_narrow)
            )
        links = any(spot.point.href for spot in self.spots)
        return svg.frame(self.name, self.height, "".join(body), gutter="gutter", links=links)

    def _paths(self, *paths: tuple[str, str]) -> str:
        drawn = "".join(f'<path class="{style}" d="{path}"/>' for style, path in paths if path)
        return svg.stretched(TOP, WIDTH, self.plot, drawn) if drawn else ""

    def _spot(self, place: int) -> str:
        spot = self.spots[place]
        if spot.y is None:
            return ""
        beside = self.spots[max(0, place - 1) : place + 2]
        is_alone = sum(each.y is not None for each in beside) == 1
        if not (self.has_dots or is_alone or spot.point.href or spot.is_outside):
            return ""
        x, y = svg.number(spot.x), svg.number(spot.y)
        if spot.is_outside:
            # A ring, so that it does not take colours to see it.
            shape = f'<circle class="outside" cx="{x}%" cy="{y}" r="4.5"/>'
        else:
            shape = f'<circle class="dot" cx="{x}%" cy="{y}" r="{3 if self.has_dots else 2}"/>'
        return svg.mark(shape, spot.point.title, spot.point.href, spot.point.label)


def line(
    name: str,
    points: Iterable[Point],
    *,
    unit: Unit = DURATION,
    changes: Sequence[Change] = (),
    words: str = "",
    usual: str = "median of 28 days",
    from_zero: bool = True,
    height: int = 200,
) -> Line:
    """Return a series with its median, marked changes, and gaps where nobody reported.

    ``words`` and ``usual`` say in the legend what the two lines are.
    """
    given = list(points)
    known = [each for point in given for each in (point.value, point.usual) if each is not None]
    axis, plot = scale(known, unit, from_zero=from_zero), height - TOP - 22
    values = [point.value for point in given]
    medians = [point.usual for point in given]
    legend = [Key("line", words)] if words else []
    legend += [Key("median", usual)] if any(each is not None for each in medians) else []
    legend += [Key("change", "change of level")] if changes else []
    return Line(
        name=name,
        height=height,
        plot=plot,
        spots=_spots(given, values, axis, plot),
        path=_path(values, axis, plot),
        usual_path=_path(medians, axis, plot),
        band_path="",
        gaps=_gaps(values),
        changes=tuple(
            (_x(change.place, len(given)), change)
            for change in changes
            if 0 <= change.place < len(given)
        ),
        ticks=axis.ticks_down(TOP, plot) if known else (),
        legend=(*legend, *([svg.NOT_REPORTED] if None in values or not values else [])),
        has_dots=len(given) <= MOST_DOTS,
    )


def band(
    name: str,
    ranges: Iterable[Range],
    *,
    unit: Unit = NUMBER,
    words: str = "",
    normal: str = "own normal range",
    height: int = 200,
) -> Line:
    """Return values in the band between ``low`` and ``high``. A value outside of it is a ring."""
    given = list(ranges)
    known = [each for one in given for each in (one.value, one.low, one.high) if each is not None]
    axis, plot = scale(known, unit, from_zero=False), height - TOP - 22
    values = [each.value for each in given]
    legend = [Key("line", words)] if words else []
    legend += [Key("band", normal)] if any(each.low is not None for each in given) else []
    legend += [Key("outside", "outside of it")] if any(each.is_outside for each in given) else []
    return Line(
        name=name,
        height=height,
        plot=plot,
        spots=_spots(given, values, axis, plot),
        path=_path(values, axis, plot),
        usual_path="",
        band_path=_band(given, axis, plot),
        gaps=_gaps(values),
        changes=(),
        ticks=axis.ticks_down(TOP, plot) if known else (),
        legend=(*legend, *([svg.NOT_REPORTED] if None in values or not values else [])),
        has_dots=len(given) <= MOST_DOTS,
    )


def _x(place: int, count: int) -> float:
    """Return the middle of a point's slot, in percent."""
    return 100 * (place + 0.5) / count


def _spots(
    given: Sequence[Point | Range], values: Sequence[float | None], axis: Scale, plot: float
) -> tuple[Spot, ...]:
    return tuple(
        Spot(
            point,
            _x(place, len(given)),
            None if value is None else axis.down(value, TOP, plot),
            isinstance(point, Range) and point.is_outside,
        )
        for place, (point, value) in enumerate(zip(given, values, strict=True))
    )


def _gaps(values: Sequence[float | None]) -> tuple[tuple[float, float], ...]:
    if not values:
        return ((0, 100),)
    count = len(values)
    return tuple(
        (100 * start / count, 100 * end / count)
        for start, end in runs([value is None for value in values])
    )


def _coordinates(place: int, value: float, count: int, axis: Scale, plot: float) -> str:
    x, y = WIDTH / 100 * _x(place, count), axis.down(value, 0, plot)
    return f"{svg.number(x)} {svg.number(y)}"


def _path(values: Sequence[float | None], axis: Scale, plot: float) -> str:
    """Return a path through the values, which starts anew after each gap."""
    return "".join(
        "M"
        + "L".join(
            _coordinates(place, value, len(values), axis, plot)
            for place, value in enumerate(values[start:end], start)
            if value is not None
        )
        for start, end in runs([value is not None for value in values])
        if end - start > 1
    )


def _band(given: Sequence[Range], axis: Scale, plot: float) -> str:
    """Return the outline of the ranges: along their high ends, and back along the low ones."""
    paths = []
    for start, end in runs([each.low is not None and each.high is not None for each in given]):
        highs, lows = [], []
        for place, each in enumerate(given[start:end], start):
            if each.low is not None and each.high is not None:
                highs.append(_coordinates(place, each.high, len(given), axis, plot))
                lows.append(_coordinates(place, each.low, len(given), axis, plot))
        if len(highs) == 1:
            # The band of a single value is as wide as a hundredth of the chart.
            x, y = highs[0].split(" ")
            paths.append(f"M{svg.number(float(x) - 5)} {y}h10V{lows[0].split(' ')[1]}h-10z")
        else:
            paths.append(f"M{'L'.join(highs + lows[::-1])}z")
    return "".join(paths)
