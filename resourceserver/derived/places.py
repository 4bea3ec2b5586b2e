"""The places of derived visits.

A visit is at the place of a check-in during it, if that is within 100 m of its centre; else at the nearest
place where a source states a visit; else at the nearest place that was derived before; else at a new one,
which is named by its coordinates. Places of check-ins alone do not count otherwise: near a home there are
many.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4

from resourceserver.derived import stays
from resourceserver.derived.stays import EARTH_M, RADIUS_M, Vector

_CELL: Final = RADIUS_M / EARTH_M


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


@dataclass
class Places:
    """The places of one person, by where they are."""

    _cells: dict[tuple[int, int, int], list[Place]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _by_id: dict[UUID, Place] = field(default_factory=dict)
    new: list[Place] = field(default_factory=list)

    def __iter__(self) -> Iterator[Place]:
        """Yield all places."""
        return iter(self._by_id.values())

    def add(self, place: Place) -> None:
        """Take a place."""
        self._cells[_cell(place.centre)].append(place)
        self._by_id[place.place_id] = place

    def of(
        self, centre: Vector, check_ins: Iterable[tuple[UUID, Vector]], kept: UUID | None
    ) -> Place:
        """Return the place of a visit with this centre; ``kept`` is its place so far."""
        near = [(stays.distance_m(centre, there), place_id) for place_id, there in check_ins]
        if near and min(near)[0] <= RADIUS_M:
            place_id = min(near)[1]
            return self._by_id.get(place_id) or Place(place_id, centre, is_derived=False)
        stated = self.nearest(centre, is_derived=False)
        if stated is not None:
            return stated
        own = None if kept is None else self._by_id.get(kept)
        if own is None or not own.is_derived or stays.distance_m(centre, own.centre) > RADIUS_M:
            own = self.nearest(centre, is_derived=True) or self._new(centre)
        return self.stated_beside(own) or own

    def nearest(self, centre: Vector, *, is_derived: bool) -> Place | None:
        """Return the nearest stated or derived place within 100 m."""
        near = [
            (distance, place.place_id, place)
            for place in self._around(centre)
            if place.is_derived == is_derived
            and (distance := stays.distance_m(centre, place.centre)) <= RADIUS_M
        ]
        return min(near)[2] if near else None

    def stated_beside(self, place: Place) -> Place | None:
        """Return the stated place that a derived one stands for, because a later file has named it."""
        return self.nearest(place.centre, is_derived=False) if place.is_derived else None

    def _new(self, centre: Vector) -> Place:
        latitude, longitude = (round(degrees, 5) for degrees in stays.position(centre))
        name = f"{latitude:.5f}, {longitude:.5f}"
        place = Place(uuid4(), stays.vector(latitude, longitude), is_derived=True, name=name)
        self.new.append(place)
        self.add(place)
        return place

    def _around(self, centre: Vector) -> Iterator[Place]:
        x, y, z = _cell(centre)
        for dx in (-1, 0, 1):
            for dy in (-1, 0, 1):
                for dz in (-1, 0, 1):
                    yield from self._cells.get((x + dx, y + dy, z + dz), ())


def _cell(centre: Vector) -> tuple[int, int, int]:
    x, y, z = centre
    return int(x // _CELL), int(y // _CELL), int(z // _CELL)
