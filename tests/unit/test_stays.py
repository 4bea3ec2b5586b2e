"""Stays in points: what one is, and that it does not depend on anything far away in time."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.derived import zones
from resourceserver.derived.stays import (
    GAP,
    LEFT_OVER,
    LONGEST,
    MINUTE,
    RADIUS_M,
    SHORTEST,
    SLOT,
    Stay,
    Stays,
    distance_m,
    position,
    vector,
)

Points = list[tuple[int, float, float]]

HOME: Final = (52.52, 13.405)
METRE: Final = 1 / 111_195
"""Degrees of latitude."""


def found(points: Iterable[tuple[int, float, float]]) -> list[Stay]:
    """Return the stays in points."""
    stays = Stays()
    ended = [stays.add(*point) for point in points]
    return [stay for stay in (*ended, *stays.finish()) if stay is not None]


def times(stays: Iterable[Stay]) -> list[tuple[float, float]]:
    """Return the first and last minutes."""
    return [(stay.started_at / MINUTE, stay.ended_at / MINUTE) for stay in stays]


def still(first: int, last: int, north_m: float = 0, every: int = 1) -> Points:
    """Return points at one position, in minutes."""
    return [
        (minute * MINUTE, HOME[0] + north_m * METRE, HOME[1])
        for minute in range(first, last + 1, every)
    ]


@st.composite
def walks(draw: st.DrawFn) -> Points:
    """Return the points of a person who stays, moves or is not seen, and whose positions jump."""
    at, north, points = draw(st.integers(0, 10**12)), 0.0, []
    for _ in range(draw(st.integers(1, 8))):
        step = draw(st.sampled_from([SLOT, MINUTE, 4 * MINUTE, 20 * MINUTE]))
        speed = draw(st.sampled_from([0.0, 0.0, 3.0, 50.0, 500.0]))
        for _ in range(draw(st.integers(1, 25))):
            noise = draw(st.sampled_from([0.0, 20.0, -60.0, 99.0, 5000.0]))
            points.append((at, HOME[0] + (north + noise) * METRE, HOME[1]))
            at, north = at + step, north + speed
        at += draw(st.sampled_from([0, 0, 2 * MINUTE, GAP, GAP + 1, 10 * GAP]))
    return points


@given(walks())
def test_a_stay_is_five_minutes_within_100_m_of_its_centre(points: Points) -> None:
    stays = found(points)

    for stay in stays:
        assert SHORTEST <= stay.ended_at - stay.started_at <= LONGEST
        inside = [
            at
            for at, *degrees in points
            if stay.started_at <= at <= stay.ended_at
            and distance_m(vector(*degrees), stay.centre) <= RADIUS_M + 1e-3
        ]
        assert (inside[0], inside[-1]) == (stay.started_at, stay.ended_at)
        within = [at for at, *_ in points if stay.started_at <= at <= stay.ended_at]
        # An absence is short, or seen at one point alone.
        for before, after in pairwise(inside):
            outside = [at for at in within if before < at < after]
            assert len(outside) < 2 or outside[-1] - before < SHORTEST or outside[0] == outside[-1]
    assert all(one.ended_at < other.started_at for one, other in pairwise(stays))


@given(walks(), walks(), st.booleans())
def test_points_far_away_in_time_change_nothing(
    points: Points, others: Points, is_before: bool
) -> None:
    shift = -(10**13) if is_before else 10**13

    together = sorted([*points, *((at + shift, north, east) for at, north, east in others)])

    own = [stay for stay in found(together) if abs(stay.started_at - points[0][0]) < 10**12]
    assert own == found(points)


@given(walks())
def test_after_a_stay_nothing_of_the_points_before_is_remembered(points: Points) -> None:
    stays = found(points)

    for number, stay in enumerate(stays):
        later = (stay.ended_at // SLOT + 1) * SLOT
        assert found(point for point in points if point[0] >= later) == stays[number + 1 :]


@given(walks())
def test_of_ten_seconds_the_most_exact_point_counts(points: Points) -> None:
    noisy = [
        (at - at % SLOT + extra, latitude + far * METRE, longitude, accuracy)
        for at, latitude, longitude in points
        for extra, far, accuracy in ((0, 700, None), (1, 0, 5.0), (1, 900, 50.0), (9_999, 0, 90.0))
    ]

    stays = Stays()
    ended = [stays.add(*point) for point in noisy]

    assert [stay for stay in (*ended, *stays.finish()) if stay is not None] == found(
        (at - at % SLOT + 1, latitude, longitude) for at, latitude, longitude in points
    )


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (still(0, 5), [(0, 5)]),
        (still(0, 4), []),
        # There and back within five minutes, and one that jumps.
        (still(0, 20) + still(21, 24, 500) + still(25, 30), [(0, 30)]),
        (still(0, 20) + still(30, 30, 9_000) + still(34, 40), [(0, 40)]),
        # Away for longer.
        (still(0, 20) + still(21, 26, 500) + still(27, 40), [(0, 20), (21, 26), (27, 40)]),
        (still(0, 20) + still(36, 36, 9_000) + still(40, 50), [(0, 20), (40, 50)]),
        # Seldom seen, and not seen.
        ([*still(0, 180, every=180)], [(0, 180)]),
        ([*still(0, 181, every=181)], []),
        (still(0, 20) + still(201, 220), [(0, 20), (201, 220)]),
        # Nobody walks at this speed for five minutes without leaving the circle.
        ([(n * MINUTE, HOME[0] + 60 * n * METRE, HOME[1]) for n in range(60)], []),
    ],
)
def test_where_stays_begin_and_end(points: Points, expected: list[tuple[int, int]]) -> None:
    assert times(found(points)) == expected


def test_a_long_stay_is_divided() -> None:
    points = still(0, 20 * 24 * 60, every=60)

    stays = found(points)

    assert [stay.ended_at - stay.started_at for stay in stays] == [
        LONGEST,
        LONGEST,
        6 * 24 * 60 * MINUTE - 2 * 60 * MINUTE,
    ]


@pytest.mark.parametrize("longitude", [180, -180, 0])
@pytest.mark.parametrize("latitude", [-90, -17, 0, 89.9999, 90])
def test_poles_and_the_antimeridian_are_places_like_others(
    latitude: float, longitude: float
) -> None:
    west, east = longitude - 0.0002, longitude + 0.0002
    around = [(n * MINUTE, latitude, (west, east)[n % 2]) for n in range(10)]
    wrapped = [(at, north, (far + 180) % 360 - 180) for at, north, far in around]

    (stay,) = found(wrapped)

    assert times([stay]) == [(0, 9)]
    assert distance_m(stay.centre, vector(latitude, longitude)) < 30
    assert position(vector(latitude, 12)) == pytest.approx((latitude, 12), abs=1e-9)


def test_what_a_stated_visit_leaves_of_a_stay_counts_from_half_an_hour_on() -> None:
    short, long = LEFT_OVER // MINUTE - 1, LEFT_OVER // MINUTE

    def beside(before: int, after: int) -> list[tuple[float, float]]:
        stays = Stays()
        ended = [stays.add(*point) for point in still(0, before)]
        ended += stays.cut(100 * MINUTE, 200 * MINUTE)
        ended += [stays.add(*point) for point in still(200, 200 + after)]
        return times(stay for stay in (*ended, *stays.finish()) if stay is not None)

    assert beside(short, short) == []
    assert beside(long, short) == [(0, long)]
    assert beside(short, long) == [(200, 200 + long)]


def test_a_stay_hours_before_and_after_a_stated_visit_is_not_part_of_it() -> None:
    stays = Stays()
    ended = [stays.add(*point) for point in still(0, 10)]
    ended += stays.cut(10 * MINUTE + GAP + 1, 400 * MINUTE)
    ended += [stays.add(*point) for point in still(600, 610)]

    assert times(stay for stay in (*ended, *stays.finish()) if stay is not None) == [
        (0, 10),
        (600, 610),
    ]


def test_memory_does_not_grow_with_the_points() -> None:
    stays = Stays()
    for at in range(10 * MINUTE):
        stays.add(at, HOME[0] + at * METRE, HOME[1])

    assert len(stays._moving) <= SHORTEST // SLOT + 1


def test_zones_of_positions() -> None:
    assert zones.zone(*HOME) == "Europe/Berlin"
    assert zones.zone(0, -179.9) == "Etc/GMT+12"
    assert zones.zone(90, 0) == "Etc/GMT"
