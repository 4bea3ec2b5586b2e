"""Changes of level: the division of days into segments, against all divisions that there are."""

import math
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.timeline.changes import LEAST, changes, divide, noise

WEEKDAYS = [day % 7 for day in range(400)]


def spread(values: Sequence[float]) -> float:
    """Return the sum of squared distances from the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def cost(values: Sequence[float], starts: Sequence[int], penalty: float) -> float:
    """Return what a division costs."""
    edges = [0, *starts, len(values)]
    return sum(spread(values[left:right]) for left, right in pairwise(edges)) + penalty * len(
        starts
    )


def cheapest(values: Sequence[float], least: int, penalty: float) -> float:
    """Return the lowest cost of any division, by comparing all beginnings of the last segment."""
    best = [-penalty, *[math.inf] * len(values)]
    for end in range(least, len(values) + 1):
        best[end] = min(
            best[start] + spread(values[start:end]) + penalty for start in range(end - least + 1)
        )
    return best[-1]


@given(
    st.lists(st.integers(-20, 20).map(lambda n: n / 20), min_size=1, max_size=45),
    st.integers(1, 8),
    st.sampled_from([0.01, 0.1, 0.5, 2.0, 50.0]),
)
def test_no_division_costs_less(values: list[float], least: int, penalty: float) -> None:
    starts = divide(values, least, penalty)

    assert all(right - left >= least for left, right in pairwise([0, *starts, len(values)])) or (
        not starts
    )
    if len(values) >= least:
        assert cost(values, starts, penalty) == pytest.approx(cheapest(values, least, penalty))


def test_the_example_by_hand() -> None:
    # One change: 2 zeros and 3 ones lie on their means, which costs the penalty alone. None would cost
    # 2 · 0.6² + 3 · 0.4² = 1.2.
    assert divide([0, 0, 1, 1, 1], 2, 1.1) == [2]
    assert divide([0, 0, 1, 1, 1], 2, 1.3) == []
    # The cheapest place is not allowed with segments of three values.
    assert divide([0, 0, 1, 1, 1], 3, 1.1) == []


def test_the_noise_of_weeks_by_hand() -> None:
    # Means of 0, 1 and 3: squared differences of 1 and 4, half their mean, times seven; the rest is no week.
    assert noise([0] * 7 + [1] * 7 + [3] * 7 + [99] * 6) == pytest.approx(7 * 2.5 / 2)
    assert noise([5] * 13) == 0


def level(day: int) -> float:
    """Return the usual value of a day: less on weekends, and more from day 100 on."""
    return (2 if WEEKDAYS[day] > 4 else 8) + (3 if day >= 100 else 0)


def test_a_new_level_has_its_first_day() -> None:
    drawn = random.Random(7)
    values = [level(day) + drawn.gauss(0, 1) for day in range(200)]

    assert changes(values, WEEKDAYS[:200]) == [100]


@pytest.mark.parametrize("scale", [1e-15, 1e15])
def test_changes_are_the_same_on_every_scale(scale: float) -> None:
    drawn = random.Random(7)
    values = [scale * (level(day) + drawn.gauss(0, 1)) for day in range(200)]

    assert changes(values, WEEKDAYS[:200]) == [100]


def test_a_weekly_rhythm_is_no_change() -> None:
    assert changes([level(day) for day in range(100)], WEEKDAYS[:100]) == []


@pytest.mark.parametrize("values", [[], [0.0] * 400, [7.5] * 400, [1.0] * (2 * LEAST - 1)])
def test_days_that_are_alike_have_no_change(values: list[float]) -> None:
    assert changes(values, WEEKDAYS[: len(values)]) == []


@pytest.mark.parametrize("alike", [0.0, 0.3])
def test_random_years_without_a_change_have_hardly_any(alike: float) -> None:
    # A day is like the day before to some degree, as sleep and work are.
    drawn = random.Random(19)

    def year() -> list[float]:
        values, value = [], drawn.gauss(0, 1)
        for day in range(365):
            value = alike * value + math.sqrt(1 - alike * alike) * drawn.gauss(0, 1)
            values.append(value + level(day % 100))
        return values

    assert sum(bool(changes(year(), WEEKDAYS[:365])) for _ in range(20)) <= 1


def test_who_changes_an_answer_changes_no_later_one() -> None:
    values = [level(day) + (100.0 if day >= 40 else 0.0) + day % 2 for day in range(80)]

    changes(values, WEEKDAYS[:80]).clear()

    assert changes(values, WEEKDAYS[:80]) == [40]
