"""The outlines of countries, from ``countries.txt``; README.md says where they come from.

Each line of the file is one arc, a part of a coast or border with points in hundredths of a degree, which
neighbours share; or one ring, the numbers of its arcs, of which a negative one is walked from its end.

``python outlines.py countries-50m.json > countries.txt`` makes the file.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("countries.txt")
UNITS: Final = 100
"""Units of the file in a degree."""
TOLERANCE: Final = 0.042
"""How far, in degrees, a line of the file may be from the one of the origin."""
LEAST: Final = 0.2
"""The size of the smallest islands, in degrees."""

_DIGITS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)}

Point = tuple[float, float]
"""Longitude and latitude, in degrees. Arcs across the antimeridian go on beyond 180."""


@dataclass(frozen=True)
class Line:
    """Points that follow each other, and the box around them."""

    points: Sequence[Point]
    west: float
    south: float
    east: float
    north: float

    @classmethod
    def of(cls, points: Sequence[Point]) -> "Line":
        """Return the line through some points."""
        x, y = [point[0] for point in points], [point[1] for point in points]
        return cls(points, min(x), min(y), max(x), max(y))


@dataclass(frozen=True)
class Outlines:
    """The land of all countries, and the lines around them."""

    rings: Sequence[Line]
    """Closed lines around land. Lakes are rings as well, so land has an odd number of rings around it."""
    lines: Sequence[Line]
    """Coasts and borders, each once, without the edges of the flat map."""


@cache
def outlines() -> Outlines:
    """Return all outlines."""
    arcs: list[list[Point]] = []
    rings: list[Line] = []
    for line in FILE.read_text("ascii").splitlines():
        kind, _, text = line.partition(" ")
        if kind == "arc":
            arcs.append(_decoded(text))
        else:
            rings.append(Line.of(_joined(arcs, [int(number) for number in text.split(",")])))
    lines = [Line.of(part) for arc in arcs for part in _drawn(arc)]
    return Outlines(rings, lines)


@cache
def coarser(distance: float) -> Outlines:
    """Return all outlines for a small scale: without what is smaller than ``distance``, in degrees."""
    whole = outlines()
    return Outlines(_thinned(whole.rings, distance), _thinned(whole.lines, distance))


def _thinned(lines: Sequence[Line], distance: float) -> list[Line]:
    thinned = []
    for line in lines:
        if max(line.east - line.west, line.north - line.south) < distance:
            continue
        points = [line.points[0]]
        for point in line.points[1:-1]:
            if abs(point[0] - points[-1][0]) + abs(point[1] - points[-1][1]) >= distance:
                points.append(point)
        thinned.append(Line.of([*points, line.points[-1]]))
    return thinned


def _joined(arcs: Sequence[Sequence[Point]], numbers: Sequence[int]) -> list[Point]:
    """Return the points of a ring. A negative number is the complement of an arc's, walked from its end."""
    points: list[Point] = []
    for number in numbers:
        arc = arcs[number] if number >= 0 else arcs[~number][::-1]
        points += arc[1:] if points else arc
    if abs(points[-1][0] - points[0][0]) > 180:
        # Around a pole; there is land only around the southern one.
        points += [(points[-1][0], -90.0), (points[0][0], -90.0), points[0]]
    return points


def _drawn(arc: Sequence[Point]) -> Iterator[list[Point]]:
    """Return the parts of an arc that do not run along the edges of the flat map."""
    part: list[Point] = []
    for before, after in pairwise(arc):
        if (abs(before[0]) == abs(after[0]) == 180) or (before[1] == after[1] <= -89.9):
            if len(part) > 1:
                yield part
            part = []
        else:
            if not part:
                part.append(before)
            part.append(after)
    if len(part) > 1:
        yield part


def _decoded(text: str) -> list[Point]:
    """Return the points of an arc from the differences between them, five bits in each letter."""
    points: list[Point] = []
    place, numbers, bits, number = [0, 0], 0, 0, 0
    for digit in text:
        value = _VALUES[digit]
        number |= (value & 31) << bits
        if value & 32:
            bits += 5
            continue
        place[numbers % 2] += -(number >> 1) - 1 if number & 1 else number >> 1
        numbers += 1
        number = bits = 0
        if numbers % 2 == 0:
            points.append((place[0] / UNITS, place[1] / UNITS))
    return points


def _unwrapped(points: Sequence[Point]) -> list[Point]:
    """Return points across the antimeridian with longitudes beyond 180, so that neighbours are close."""
    unwrapped = [points[0]]
    for x, y in points[1:]:
        unwrapped.append((x - 360 * round((x - unwrapped[-1][0]) / 360), y))
    return unwrapped


def _encoded(points: Sequence[Point]) -> str:
    """Return what ``_decoded`` reads."""
    text, before = "", (0, 0)
    for point in points:
        at = round(point[0] * UNITS), round(point[1] * UNITS)
        for difference in (at[0] - before[0], at[1] - before[1]):
            number = difference << 1 if difference >= 0 else ~difference << 1 | 1
            while number >= 32:
                text += _DIGITS[number & 31 | 32]
                number >>= 5
            text += _DIGITS[number]
        before = at
    return text


def _simplified(points: Sequence[Point], tolerance: float) -> list[Point]:
    """Return the points without those that are nearly on the line between others (Douglas and Peucker)."""
    kept = {0, len(points) - 1}
    parts = [(0, len(points) - 1)]
    while parts:
        first, last = parts.pop()
        distance, place = max(
            (
                (_distance(points[n], points[first], points[last]), n)
                for n in range(first + 1, last)
            ),
            default=(0.0, 0),
        )
        if distance > tolerance:
            kept.add(place)
            parts += [(first, place), (place, last)]
    return [points[n] for n in sorted(kept)]


def _distance(point: Point, first: Point, last: Point) -> float:
    """Return the distance of a point from the line between two others, in degrees of latitude."""
    narrow = math.cos(math.radians(point[1]))
    x, y = (point[0] - first[0]) * narrow, point[1] - first[1]
    width, height = (last[0] - first[0]) * narrow, last[1] - first[1]
    length = math.hypot(width, height)
    return abs(width * y - height * x) / length if length > 1e-9 else math.hypot(x, y)


def _converted(topology: dict[str, Any]) -> Iterator[str]:
    """Return the lines of the file from a TopoJSON file of countries."""
    scale, start = topology["transform"]["scale"], topology["transform"]["translate"]
    arcs: list[list[Point]] = []
    for arc in topology["arcs"]:
        x = y = 0
        points = []
        for across, upwards in arc:
            x, y = x + across, y + upwards
            points.append((x * scale[0] + start[0], y * scale[1] + start[1]))
        arcs.append(_unwrapped(points))
    wanted: list[list[int]] = []
    for country in topology["objects"]["countries"]["geometries"]:
        shapes = country["arcs"] if country["type"] == "MultiPolygon" else [country["arcs"]]
        rings = sorted(
            (ring for shape in shapes for ring in shape), key=lambda ring: -_size(arcs, ring)
        )
        # The largest island of each country stays, however small it is.
        wanted += [ring for n, ring in enumerate(rings) if n == 0 or _size(arcs, ring) >= LEAST]
    used = sorted({max(number, ~number) for ring in wanted for number in ring})
    places = {number: place for place, number in enumerate(used)}
    for number in used:
        arc = arcs[number]
        short = _simplified(arc, TOLERANCE)
        # A ring of one arc would vanish if its ends alone were left.
        yield "arc " + _encoded(short if len(short) > 3 or arc[0] != arc[-1] else arc)
    for ring in wanted:
        yield "ring " + ",".join(
            str(places[number] if number >= 0 else ~places[~number]) for number in ring
        )


def _size(arcs: Sequence[Sequence[Point]], ring: Sequence[int]) -> float:
    box = Line.of(_joined(arcs, ring))
    return max((box.east - box.west) * math.cos(math.radians(box.north)), box.north - box.south)


if __name__ == "__main__":
    sys.stdout.writelines(
        f"{line}\n" for line in _converted(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    )
