"""A person's own normal: quartiles, the usual range, and the words for a value."""

import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.timeline import normal
from resourceserver.timeline.normal import Normal

HOUR = 3_600_000
VALUES = st.lists(st.integers(0, 100 * HOUR), max_size=8)


def of(values: list[int], least: int = normal.LEAST_MS) -> Normal:
    return Normal.of(values, decimals=0, least=least)


def test_seven_days_by_hand() -> None:
    usual = of([7 * HOUR, 3 * HOUR, 4 * HOUR, 5 * HOUR, 4 * HOUR, 6 * HOUR, 5 * HOUR])

    assert usual == Normal(
        7, 5 * HOUR, 4 * HOUR, 5 * HOUR + HOUR // 2, 3 * HOUR + HOUR // 4, 6 * HOUR + HOUR // 4
    )
    assert usual.compare(6 * HOUR + HOUR // 4) == "usual"
    assert usual.compare(6 * HOUR + HOUR // 4 + 1) == "more_than_usual"
    assert usual.compare(3 * HOUR + HOUR // 4 - 1) == "less_than_usual"
    assert usual.compare(None) is None


@pytest.mark.parametrize(
    ("values", "least", "usual_from", "usual_to"),
    [
        # Days that are all alike have no distance between quartiles: a tenth of the median counts as usual.
        ([10 * HOUR] * 8, normal.LEAST_MS, 9 * HOUR, 11 * HOUR),
        # Of a median of ten minutes a tenth is one minute, so five minutes count.
        ([600_000] * 8, normal.LEAST_MS, 300_000, 900_000),
        # Nothing is less than nothing.
        ([0] * 8, normal.LEAST_MS, 0, 300_000),
        # Counts have no smallest difference but the tenth.
        ([5000] * 4, 0, 4500, 5500),
    ],
)
def test_the_usual_range_is_never_narrow(
    values: list[int], least: int, usual_from: int, usual_to: int
) -> None:
    usual = of(values, least)

    assert (usual.usual_from, usual.usual_to) == (usual_from, usual_to)


def test_too_few_days_have_a_median_and_no_usual_range() -> None:
    usual = of([HOUR, 2 * HOUR, 3 * HOUR])

    assert (usual.median, usual.usual_from, usual.usual_to) == (2 * HOUR, None, None)
    assert usual.compare(99 * HOUR) == "too_few_days"


@given(VALUES)
def test_quartiles_are_those_of_the_standard_library(values: list[int]) -> None:
    usual = of(values)

    if len(values) < 2:
        expected: tuple[normal.Number | None, ...] = tuple(values * 3) or (None, None, None)
    else:
        parts = statistics.quantiles(map(Fraction, values), n=4, method="inclusive")
        expected = tuple(normal.rounded(part, 0) for part in parts)
    assert (usual.lower_quartile, usual.median, usual.upper_quartile) == expected


@given(VALUES.filter(lambda values: len(values) >= normal.FEWEST_DAYS))
def test_the_quartiles_and_a_tenth_on_each_side_of_the_median_are_usual(values: list[int]) -> None:
    usual = of(values)

    assert usual.median is not None
    for value in (usual.lower_quartile, usual.upper_quartile, usual.median):
        assert usual.compare(value) == "usual"
    near = max(int(usual.median) // 10 - 1, 0)
    assert usual.compare(usual.median + near) == usual.compare(usual.median - near) == "usual"


def test_rounding_is_half_up() -> None:
    assert [normal.rounded(Fraction(n, 2), 0) for n in (-3, -1, 1, 3)] == [-1, 0, 1, 2]
    assert normal.percent(1, 3) == 33.33
    assert normal.percent(-1, 8) == -12.5
    assert normal.percent(1, 0) is normal.percent(None, 1) is normal.percent(1, None) is None
