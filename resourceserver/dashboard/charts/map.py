"""Maps: places as circles over the outlines of countries, with a scale and lines of latitude and longitude.

The projection is equirectangular with its middle latitude as the standard parallel, so that shapes around the
middle are right. Nothing is fetched: the outlines are files of this package.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from resourceserver.dashboard.charts import svg
from resourceserver.dashboard.charts.escaping import escaped
from resourceserver.dashboard.charts.outlines import Line, Outlines, Point, coarser, outlines
from resourceserver.dashboard.charts.svg import Key

ASPECT: Final = 1.6
"""Width over height, as in charts.css."""
GRID: Final = (1600, 1000)
"""The size of the drawing in its own units."""
MARGIN: Final = 0.15
LEAST_HEIGHT: Final = 0.02
"""The height of the smallest map, in degrees: about two kilometres."""
COARSE: Final = 1.0
"""Below this height, in degrees, outlines of countries are too inexact to be drawn."""
SMALLEST_CIRCLE: Final = 4.0
LARGEST_CIRCLE: Final = 17.0
APART: Final = (4.0, 4.5)
"""How far numbers are from each other, across and down, in percent. Others are left out."""
_METRES: Final = 111_195
"""The length of a degree of latitude."""
_STEPS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 15, 30, 45, 60, 90),
)


@dataclass(frozen=True)
class Spot:
    """A place on the ground."""

    latitude: float
    longitude: float
    value: float | None
    """What its circle's area means, such as the time in it; None for a place without, which is a ring."""
    title: str = ""
    href: str = ""
    number: int | None = None
    """What it is called in the table beside the map."""


@dataclass(frozen=True)
class Box:
    """A part of the earth in degrees. West is from -180 to 180; east may be larger than 180."""

    west: float
    south: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The middle latitude."""
        return self.south + self.height / 2

    @property
    def width_m(self) -> float:
        """The width at the middle latitude, in metres."""
        return self.width * _narrow(self.middle) * _METRES

    def across(self, longitude: float) -> float:
        """Return the place of a longitude, in percent from the left."""
        return 100 * ((longitude - self.west) % 360) / self.width

    def down(self, latitude: float) -> float:
        """Return the place of a latitude, in percent from the top."""
        return 100 * (self.south + self.height - latitude) / self.height


@dataclass(frozen=True)
class Circle:
    """A spot with its position in percent and its radius in pixels."""

    spot: Spot
    x: float
    y: float
    radius: float
    is_numbered: bool


@dataclass(frozen=True)
class Degree:
    """A line of latitude or longitude, with its place in percent."""

    place: float
    label: str


@dataclass(frozen=True)
class Map:
    """Circles over outlines."""

    name: str
    box: Box
    circles: tuple[Circle, ...]
    """The largest first, so that it covers none."""
    across: tuple[Degree, ...]
    down: tuple[Degree, ...]
    bar: tuple[float, str]
    """The length of the scale, in percent of the width, and in words."""
    legend: tuple[Key, ...]
    height: int = 480

    @property
    def has_outlines(self) -> bool:
        """Whether the map is large enough for outlines of countries."""
        return self.box.height >= COARSE

    def svg(self) -> Markup:
        """Return the ``<svg>`` element."""
        body = ['<rect class="sea" width="100%" height="100%"/>']
        if self.has_outlines:
            land, lines = _paths(self.box)
            body.append(
                f'<svg width="100%" height="100%" viewBox="0 0 {GRID[0]} {GRID[1]}" '
                f'preserveAspectRatio="none"><path class="land" d="{land}"/>'
                f'<path class="coast" d="{lines}"/></svg>'
            )
        for n, each in enumerate(self.across):
            at = svg.number(each.place)
            roomy = " roomy" if n % 2 else ""
            body.append(
                f'<line class="rule" x1="{at}%" x2="{at}%" y2="100%"/>'
                f'<text class="degree{roomy}" x="{at}%" y="12" text-anchor="middle">{each.label}</text>'
            )
        for each in self.down:
            at = svg.number(each.place)
            body.append(
                f'<line class="rule" x2="100%" y1="{at}%" y2="{at}%"/>'
                f'<text class="degree" x="4" y="{at}%" dy="-3">{each.label}</text>'
            )
        body += [self._circle(each) for each in self.circles]
        length, words = self.bar
        start = svg.number(97 - length)
        body.append(
            f'<line class="bar" x1="{start}%" x2="97%" y1="97%" y2="97%"/>'
            f'<text class="degree" x="97%" y="97%" dy="-6" text-anchor="end">{escaped(words)}</text>'
        )
        links = any(each.spot.href for each in self.circles)
        return svg.frame(self.name, self.height, "".join(body), gutter="map", links=links)

    @staticmethod
    def _circle(each: Circle) -> str:
        x, y, radius = svg.number(each.x), svg.number(each.y), svg.number(each.radius)
        style = "ring" if each.spot.value is None else "stay"
        shape = f'<circle class="{style}" cx="{x}%" cy="{y}%" r="{radius}"/>'
        if each.is_numbered:
            shape += (
                f'<text class="spot" x="{x}%" y="{y}%" dx="{svg.number(each.radius + 3)}" dy="4">'
                f"{each.spot.number}</text>"
            )
        return svg.mark(shape, each.spot.title, each.spot.href)


def places(
    name: str, spots: Iterable[Spot], *, circles: str = "a larger circle is more time"
) -> Map | None:
    """Return the map around some places; None without any."""
    given = sorted(spots, key=lambda spot: -(spot.value or 0))
    if not given:
        return None
    box = around([(spot.longitude, spot.latitude) for spot in given])
    largest = max((spot.value or 0 for spot in given), default=0) or 1
    placed: list[Circle] = []
    for spot in given:
        x, y = box.across(spot.longitude), box.down(spot.latitude)
        is_apart = all(
            abs(other.x - x) > APART[0] or abs(other.y - y) > APART[1]
            for other in placed
            if other.is_numbered
        )
        placed.append(
            Circle(spot, x, y, _radius(spot.value, largest), spot.number is not None and is_apart)
        )
    legend = []
    if any(spot.value is not None for spot in given):
        legend.append(Key("stay", circles))
    if any(spot.value is None for spot in given):
        legend.append(Key("ring", "a check-in, without a time"))
    if box.height >= COARSE:
        legend.append(Key("land", "land"))
    return Map(name, box, tuple(placed), *_degrees(box), _bar(box), tuple(legend))


def around(points: Sequence[Point]) -> Box:
    """Return the smallest box with a margin around some points, in the shape of a map.

    It lies across the antimeridian where that is the shorter way. Beyond the poles it is empty.
    """
    south, north = min(y for _, y in points), max(y for _, y in points)
    west, width = _shortest([x for x, _ in points])
    middle = (south + north) / 2
    narrow = _narrow(middle)
    height = max(
        (north - south) * (1 + 2 * MARGIN),
        width * (1 + 2 * MARGIN) * narrow / ASPECT,
        LEAST_HEIGHT,
    )
    wide = min(height * ASPECT / narrow, 360.0)
    start = west + width / 2 - wide / 2
    return Box((start + 180) % 360 - 180, middle - height / 2, wide, height)


def distance_m(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the distance between two places, each of a latitude and a longitude, along a great circle."""
    (south, west), (north, east) = one, other
    half = (
        math.sin(math.radians(north - south) / 2) ** 2
        + math.cos(math.radians(south))
        * math.cos(math.radians(north))
        * math.sin(math.radians(east - west) / 2) ** 2
    )
    return 2 * math.degrees(math.asin(math.sqrt(min(1.0, half)))) * _METRES


def _narrow(latitude: float) -> float:
    """Return how long a degree of longitude is, in degrees of latitude; at the poles a little."""
    return max(math.cos(math.radians(latitude)), 0.01)


def _shortest(longitudes: Iterable[float]) -> tuple[float, float]:
    """Return the west end and the width of the shortest arc with all of some longitudes."""
    ordered = sorted({x % 360 for x in longitudes})
    gaps = [
        ((after - before) % 360 or 360, after)
        for before, after in zip(ordered, [*ordered[1:], ordered[0]], strict=True)
    ]
    gap, west = max(gaps)
    return west, 360 - gap


def _radius(value: float | None, largest: float) -> float:
    share = math.sqrt((value or 0) / largest)
    return SMALLEST_CIRCLE + (LARGEST_CIRCLE - SMALLEST_CIRCLE) * share


def _degrees(box: Box) -> tuple[tuple[Degree, ...], tuple[Degree, ...]]:
    """Return the lines of longitude and of latitude, each at most 6 and 4."""
    step = _step(box.width, 6)
    across = [
        Degree(box.across(x), _label((x + 180) % 360 - 180, step, "EW"))
        for x in _multiples(box.west, box.west + box.width, step)
    ]
    step = _step(box.height, 4)
    down = [
        Degree(box.down(y), _label(y, step, "NS"))
        for y in _multiples(max(box.south, -90), min(box.south + box.height, 90), step)
    ]
    # Labels at the edges would be cut.
    return (
        tuple(each for each in across if 8 <= each.place <= 94),
        tuple(each for each in down if 8 <= each.place <= 98),
    )


def _step(span: float, most: int) -> float:
    return next((step for step in _STEPS if span / step <= most), _STEPS[-1])


def _multiples(low: float, high: float, step: float) -> Iterator[float]:
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield number * step


def _label(degrees: float, step: float, sides: str) -> str:
    decimals = max(0, math.ceil(-math.log10(step) - 1e-9))
    text = f"{abs(degrees):.{decimals}f}°"
    if float(text[:-1]) in (0, 180):
        return text
    return f"{text}\u00a0{sides[0] if degrees > 0 else sides[1]}"


def _bar(box: Box) -> tuple[float, str]:
    """Return the longest round distance that fits into a third of the width, as it is in the middle."""
    power = 10.0 ** math.floor(math.log10(box.width_m / 3))
    metres = next(power * n for n in (5, 2, 1) if power * n <= box.width_m / 3)
    words = f"{metres / 1000:g} km" if metres >= 1000 else f"{metres:g} m"
    return 100 * metres / box.width_m, words


@lru_cache(maxsize=64)
def _paths(box: Box) -> tuple[str, str]:
    """Return the paths of land and of its outlines in a box, in units of the grid."""
    # Details of less than a pixel are left out before they are computed.
    known: Outlines = (
        outlines() if box.width < 40 else coarser(0.1) if box.width < 150 else coarser(0.25)
    )
    east, north = box.west + box.width, box.south + box.height
    land, lines = [], []
    for shift in (-360, 0, 360):
        west, right = box.west - shift, east - shift

        def is_near(line: Line, west: float = west, right: float = right) -> bool:
            return (
                line.west < right
                and line.east > west
                and line.south < north
                and line.north > box.south
            )

        for ring in filter(is_near, known.rings):
            inside = _clipped(ring.points, west, box.south, right, north)
            if len(inside) > 2 and (path := _path(inside, box, shift)):
                land.append(path + "z")
        for line in filter(is_near, known.lines):
            lines += [
                path
                for part in _parts(line.points, west, box.south, right, north)
                if (path := _path(part, box, shift))
            ]
    return "".join(land), "".join(lines)


def _path(points: Sequence[Point], box: Box, shift: float) -> str:
    """Return a path of whole units, without steps that are too small to be seen."""
    scale_x, scale_y = GRID[0] / box.width, GRID[1] / box.height
    north = box.south + box.height
    steps: list[str] = []
    before: tuple[int, int] | None = None
    for x, y in points:
        at = round((x + shift - box.west) * scale_x), round((north - y) * scale_y)
        if before is None:
            steps.append(f"M{at[0]} {at[1]}l")
        elif abs(at[0] - before[0]) + abs(at[1] - before[1]) < 4:
            continue
        else:
            steps.append(f"{at[0] - before[0]} {at[1] - before[1]}")
        before = at
    if len(steps) < 2:
        return ""
    return steps[0] + " ".join(steps[1:]).replace(" -", "-")


def _clipped(
    points: Sequence[Point], west: float, south: float, east: float, north: float
) -> Sequence[Point]:
    """Return the part of a ring within a box (Sutherland and Hodgman), which may run along its edges."""
    for axis, limit, sign in ((0, west, 1), (0, east, -1), (1, south, 1), (1, north, -1)):
        inside: list[Point] = []
        before = points[-1] if points else (0.0, 0.0)
        was = sign * (before[axis] - limit) >= 0
        for point in points:
            within = sign * (point[axis] - limit) >= 0
            if within != was:
                share = (limit - before[axis]) / (point[axis] - before[axis])
                inside.append(
                    (
                        before[0] + share * (point[0] - before[0]),
                        before[1] + share * (point[1] - before[1]),
                    )
                )
            if within:
                inside.append(point)
            before, was = point, within
        points = inside
    return points


def _parts(
    points: Sequence[Point], west: float, south: float, east: float, north: float
) -> Iterator[Sequence[Point]]:
    """Return the parts of a line that are in a box or near it."""
    part: list[Point] = []
    for before, after in pairwise(points):
        if (
            max(before[0], after[0]) < west
            or min(before[0], after[0]) > east
            or max(before[1], after[1]) < south
            or min(before[1], after[1]) > north
        ):
            if part:
                yield part
            part = []
        else:
            if not part:
                part.append(before)
            part.append(after)
    if part:
        yield part
