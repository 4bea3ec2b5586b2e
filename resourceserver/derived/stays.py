"""Stays: stretches of time in which a person did not move, found in their points.

    moving ──five minutes of points within 100 m of their mean──► staying ──► moving
                                                                     │
        five minutes outside, three hours without a point, a visit that a source states, or a week

A stay begins with five minutes of points that all lie within 100 m of their mean, its centre, which is
fixed from then on. It lasts until the last point within 100 m of the centre. Being outside for less than
five minutes does not end it, because positions jump; nor does a single point outside, if the next one is
inside again within a quarter of an hour. After a stay nothing of the points before is remembered, so memory
stays small, and what follows can be found without them.

Points are vectors from the centre of the Earth: means and distances are then right at the poles and at the
antimeridian too.
"""

from collections import deque
from dataclasses import dataclass, field
from math import asin, atan2, cos, degrees, hypot, radians, sin
from typing import Final, NamedTuple

EARTH_M: Final = 6_371_008.8
"""The mean radius of the Earth, as svc.distance_m has it."""
RADIUS_M: Final = 100.0
MINUTE: Final = 60_000
SHORTEST: Final = 5 * MINUTE
"""The length of the shortest stay, and of the absence that ends one. All times are in milliseconds."""
GAP: Final = 180 * MINUTE
"""Longer without a point, nobody knows where the person was."""
LONGEST: Final = 7 * 24 * 60 * MINUTE
"""A longer stay is divided, so that what is found anew after a change lies near it."""
ALONE: Final = 15 * MINUTE
"""How long after the last point inside a single point outside is taken for a jump."""
LEFT_OVER: Final = 30 * MINUTE
"""The shortest rest of a stay beside a stated visit: two views of one visit differ about its edges."""
SLOT: Final = 10_000
"""Of each ten seconds the most exact point is used, so that a point each millisecond costs no more memory."""

Vector = tuple[float, float, float]
"""A position, in Earth radii."""

NEAR: Final = (RADIUS_M / EARTH_M) ** 2
"""The square of 100 m, in Earth radii: over so short a way the ground is flat."""
_FAR: Final = (2 * RADIUS_M / EARTH_M) ** 2


class Stay(NamedTuple):
    """A stretch of time within 100 m of a centre."""

    started_at: int
    ended_at: int
    centre: Vector


_Located = tuple[int, Vector]
"""A time and a position."""


def vector(latitude: float, longitude: float) -> Vector:
    """Return the position with these degrees."""
    north, east = radians(latitude), radians(longitude)
    return cos(north) * cos(east), cos(north) * sin(east), sin(north)


def position(of: Vector) -> tuple[float, float]:
    """Return the latitude and the longitude of a position, in degrees."""
    x, y, z = of
    return degrees(atan2(z, hypot(x, y))), degrees(atan2(y, x))


def distance_m(one: Vector, other: Vector) -> float:
    """Return the distance of two positions over the ground, in metres."""
    return 2 * EARTH_M * asin(min(1.0, square(one, other) ** 0.5 / 2))


def square(one: Vector, other: Vector) -> float:
    """Return the square of the straight distance of two positions, in Earth radii."""
    x, y, z = one[0] - other[0], one[1] - other[1], one[2] - other[2]
    return x * x + y * y + z * z


_Box = tuple[float, float, float, float]
"""Degrees of the northern, eastern, southern and western edge."""
_NOWHERE: Final[_Box] = (-180.0, -360.0, 180.0, 360.0)


def _box(centre: Vector) -> _Box:
    """Return edges between which each position is within 100 m of a centre.

    Half a side is 0.7 of that, so that a corner is nearer than the radius: its square is the sum of two times
    0.49 of the radius' square. A degree of longitude is longest at the edge that is nearest to the equator.
    """
    latitude, longitude = position(centre)
    north = degrees(0.7 * RADIUS_M / EARTH_M)
    longest = cos(radians(max(0.0, abs(latitude) - north)))
    east = north / longest
    return latitude + north, longitude + east, latitude - north, longitude - east


@dataclass(slots=True)
class Stays:
    """The search for stays in points that come in the order of time."""

    _best: tuple[float, int, float, float] | None = None
    """The most exact point of the current slot: accuracy, time, latitude, longitude."""
    _last_at: int | None = None
    _moving: deque[_Located] = field(default_factory=deque)
    """The points of the last five minutes, while no stay has begun."""
    _centre: Vector | None = None
    _surely_inside: _Box = _NOWHERE
    """Degrees between which a point is within 100 m of the centre."""
    _started_at: int = 0
    _ended_at: int = 0
    _outside: list[_Located] = field(default_factory=list)
    """The points since the last one inside."""
    _is_after_cut: bool = False
    """Whether no point was used since a stated visit, or all since then belong to one stay."""

    @property
    def settled_at(self) -> int:
        """An instant before which no further stay begins, once a point was added."""
        if self._centre is not None:
            return self._started_at
        if self._moving:
            return self._moving[0][0]
        return 0 if self._best is None else self._best[1]

    def add(
        self, at: int, latitude: float, longitude: float, accuracy_m: float | None = None
    ) -> Stay | None:
        """Take the next point; return the stay that has ended, if one has."""
        point = (float("inf") if accuracy_m is None else accuracy_m, at, latitude, longitude)
        best, self._best = self._best, point
        if best is None:
            return None
        if best[1] // SLOT == at // SLOT:
            self._best = min(best, point)
            return None
        return self._use(best)

    def cut(self, begins_at: int, ends_at: int) -> list[Stay]:
        """End what goes on, because a stated visit begins; return the stays that have ended.

        The points of a stated visit are not added. A stay that touches one may be too short to count.
        """
        found = self._use_best()
        is_near = self._last_at is not None and begins_at - self._last_at <= GAP
        found.append(self._end(is_cut=is_near))
        self._moving.clear()
        self._last_at = ends_at
        self._is_after_cut = True
        return [stay for stay in found if stay is not None]

    def finish(self) -> list[Stay]:
        """Return the stays that have ended, because there are no more points."""
        return [stay for stay in (*self._use_best(), self._end()) if stay is not None]

    def _use_best(self) -> list[Stay | None]:
        best, self._best = self._best, None
        return [] if best is None else [self._use(best)]

    def _use(self, point: tuple[float, int, float, float]) -> Stay | None:
        _, at, latitude, longitude = point
        last_at, self._last_at = self._last_at, at
        north, east, south, west = self._surely_inside
        if (
            west <= longitude <= east
            and south <= latitude <= north
            and last_at is not None
            and at - last_at <= GAP
            and at - self._started_at <= LONGEST
        ):
            # Most points, without a vector.
            self._outside.clear()
            self._ended_at = at
            return None
        here = vector(latitude, longitude)
        ended = None
        if last_at is not None and at - last_at > GAP:
            ended = self._end()
            self._moving.clear()
            self._is_after_cut = False
        if self._centre is None:
            self._move(at, here)
        elif square(self._centre, here) <= NEAR:
            self._outside.clear()
            if at - self._started_at > LONGEST:
                ended = self._end()
                self._move(at, here)
            else:
                self._ended_at = at
        else:
            self._outside.append((at, here))
            away = at - self._ended_at
            if away >= SHORTEST and (len(self._outside) > 1 or away >= ALONE):
                outside = list(self._outside)
                ended = self._end()
                for each in outside:
                    # Only with the last of them can the next stay begin: all others are within five minutes.
                    self._move(*each)
        return ended

    def _move(self, at: int, here: Vector) -> None:
        """Take a point while no stay has begun; one begins if the last five minutes lie close together."""
        points = self._moving
        points.append((at, here))
        while square(points[0][1], here) > _FAR:
            self._drop()
        while at - points[0][0] >= SHORTEST:
            centre = _mean(points)
            if all(square(centre, there) <= NEAR for _, there in points):
                self._centre, self._started_at, self._ended_at = centre, points[0][0], at
                self._surely_inside = _box(centre)
                points.clear()
                return
            self._drop()

    def _drop(self) -> None:
        self._moving.popleft()
        self._is_after_cut = False

    def _end(self, *, is_cut: bool = False) -> Stay | None:
        """End the stay, if there is one, and return it unless a stated visit has left too little of it."""
        if self._centre is None:
            return None
        stay = Stay(self._started_at, self._ended_at, self._centre)
        is_left_over = is_cut or self._is_after_cut
        self._centre, self._surely_inside, self._is_after_cut = None, _NOWHERE, False
        self._outside.clear()
        return None if is_left_over and stay.ended_at - stay.started_at < LEFT_OVER else stay


def _mean(points: deque[_Located]) -> Vector:
    """Return the middle of some points, which are close together."""
    x = y = z = 0.0
    for _, (a, b, c) in points:
        x, y, z = x + a, y + b, z + c
    length = (x * x + y * y + z * z) ** 0.5
    return x / length, y / length, z / length
