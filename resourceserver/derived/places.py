"""The places of derived visits.

A visit is at the place of a check-in during it, if that is within 100 m of its centre; else at the nearest
place where a source states a visit; else at the nearest place that was derived before; else at a new one,
which is named by its coordinates. Places of check-ins alone do not count otherwise: near a home there are
many.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import floor
from typing import Final
from uuid import UUID, uuid4

from resourceserver.derived import stays, zones
from resourceserver.derived.stays import EARTH_M, RADIUS_M, Vector

_CELL: Final = 2.1 * RADIUS_M / EARTH_M
"""The edge of a cell: what lies within 100 m is in at most two cells in each direction."""


@dataclass
class Place:
    """A place where visits may be."""

    place_id: UUID
    centre: Vector
    is_derived: bool
    is_used: bool = False
    """Whether derived visits are at it."""
    name: str = ""
    """The coordinates of a new place."""

    @cached_property
    def zone(self) -> str | None:
        """Return the time zone of the place, which many visits ask for."""
        return zones.zone(*stays.position(self.centre))


@dataclass
class _Grid:
    """Places, by the cells in which they are."""

    _cells: dict[tuple[int, ...], list[Place]] = field(default_factory=lambda: defaultdict(list))

    def add(self, place: Place) -> None:
        """Take a place."""
        self._cells[_cell(place.centre)].append(place)

    def nearest(self, centre: Vector) -> Place | None:
        """Return the nearest place within 100 m."""
        if not self._cells:
            return None
        # The order of distances is that of their squares, which cost a fraction.
        near = [
            (square, place.place_id, place)
            for place in self._around(centre)
            if (square := stays.square(centre, place.centre)) <= stays.NEAR
        ]
        return min(near)[2] if near else None

    def _around(self, centre: Vector) -> list[Place]:
        """Return the places in the eight cells around the corner that is nearest to a position."""
        x, y, z = (floor(each / _CELL + 0.5) for each in centre)
        return [
            place
            for cell in (
                *((x, y, z), (x, y, z - 1), (x, y - 1, z), (x, y - 1, z - 1)),
                *((x - 1, y, z), (x - 1, y, z - 1), (x - 1, y - 1, z), (x - 1, y - 1, z - 1)),
            )
            if cell in self._cells
            for place in self._cells[cell]
        ]


@dataclass
class Places:
    """The places of one person, by where they are."""

    _stated: _Grid = field(default_factory=_Grid)
    _derived: _Grid = field(default_factory=_Grid)
    _by_id: dict[UUID, Place] = field(default_factory=dict)
    new: list[Place] = field(default_factory=list)

    def __iter__(self) -> Iterator[Place]:
        """Yield all places."""
        return iter(self._by_id.values())

    def add(self, place: Place) -> None:
        """Take a place."""
        (self._derived if place.is_derived else self._stated).add(place)
        self._by_id[place.place_id] = place

    def of(
        self, centre: Vector, check_ins: Iterable[tuple[UUID, Vector]], kept: UUID | None
    ) -> Place:
        """Return the place of a visit with this centre; ``kept`` is its place so far."""
        near = [(stays.distance_m(centre, there), place_id) for place_id, there in check_ins]
        if near and min(near)[0] <= RADIUS_M:
            place_id = min(near)[1]
            return self._by_id.get(place_id) or Place(place_id, centre, is_derived=False)
        stated = self._stated.nearest(centre)
        if stated is not None:
            return stated
        own = None if kept is None else self._by_id.get(kept)
        if own is None or not own.is_derived or stays.distance_m(centre, own.centre) > RADIUS_M:
            own = self._derived.nearest(centre) or self._new(centre)
        return self.stated_beside(own) or own

    def stated_beside(self, place: Place) -> Place | None:
        """Return the stated place that a derived one stands for, because a later file has named it."""
        return self._stated.nearest(place.centre) if place.is_derived else None

    def _new(self, centre: Vector) -> Place:
        latitude, longitude = (round(degrees, 5) for degrees in stays.position(centre))
        name = f"{latitude:.5f}, {longitude:.5f}"
        place = Place(uuid4(), stays.vector(latitude, longitude), is_derived=True, name=name)
        self.new.append(place)
        self.add(place)
        return place


def _cell(centre: Vector) -> tuple[int, ...]:
    return tuple(floor(each / _CELL) for each in centre)
