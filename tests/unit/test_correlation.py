"""Coefficients and chances, against values that are known to ten digits."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.timeline.correlation import (
    Correlation,
    autocorrelation,
    compare,
    corrected,
    correlate,
    deviation,
    incomplete_beta,
    independent,
    mean,
    p_value,
    ranks,
)

RISING = list(zip(range(1, 11), [2, 1, 4, 3, 7, 5, 8, 6, 10, 9], strict=True))
TIED = list(zip([10, 20, 20, 30, 40, 50, 60], [5, 3, 3, 8, 8, 9, 1], strict=True))
NUMBERS = st.floats(min_value=-1e300, max_value=1e300)


def digits(number: float | None, significant: int = 10) -> str:
    """Return a number as it is compared here."""
    assert number is not None
    return f"{number:.{significant}g}"


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_ten_rising_pairs(method: str) -> None:
    found = correlate(RISING, method)  # type: ignore[arg-type] # one of the two that there are

    assert digits(found.coefficient) == digits(0.9030303030303)
    assert digits(found.p_value, 9) == "0.000343612198"
    assert found.interval is not None
    assert [digits(end, 6) for end in found.interval] == ["0.633718", "0.977103"]


def test_seven_pairs_with_ties() -> None:
    pearson, spearman = correlate(TIED, "pearson"), correlate(TIED, "spearman")

    assert digits(pearson.coefficient, 9) == "0.0727053619"
    assert digits(pearson.p_value) == "0.876897511"
    assert digits(spearman.coefficient) == "0.1100963765"
    assert digits(spearman.p_value) == "0.8142252838"


@pytest.mark.parametrize(
    ("a", "b", "x", "value"),
    [
        (2, 3, 0.4, "0.5248"),
        (0.5, 0.5, 0.25, "0.3333333333"),
        (10, 0.5, 0.9, "0.1516409096"),
        (45, 0.5, 0.99, "0.3429095632"),
        (1849, 0.5, 0.999, "0.05443366761"),
        (0.5, 44, 0.001, "0.2326786305"),
        (30, 40, 0.5, "0.8857998873"),
        (7, 7, 0.5, "0.5"),
        (3, 4, 0.0, "0"),
        (3, 4, 1.0, "1"),
    ],
)
def test_the_incomplete_beta_function_has_its_known_values(
    a: float, b: float, x: float, value: str
) -> None:
    assert digits(incomplete_beta(a, b, x, 1 - x)) == value


@pytest.mark.parametrize(
    ("degrees", "r", "p"),
    [
        (1, 0.5, "0.6666666667"),
        (2, 0.3, "0.7"),
        (3, -0.99, "0.001198619511"),
        (10, 0.42, "0.1740435057"),
        (48, 0.9, "6.207067394e-19"),
        (56, 0.3121, "0.01707674845"),
        (90, -0.2, "0.05594496799"),
        (365, 0.15, "0.003975544884"),
        (998, -0.5, "2.27810193e-64"),
        (3698, 0.05, "0.002348117473"),
        (8, 1e-6, "0.9999978125"),
    ],
)
def test_two_tails_of_students_t_distribution(degrees: int, r: float, p: str) -> None:
    assert digits(incomplete_beta(degrees / 2, 0.5, (1 - r) * (1 + r), r * r)) == p


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([], "not_enough_days"),
        ([(1, 1), (2, 2)], "not_enough_days"),
        ([(1, 1), (1, 2), (1, 3)], "no_variation"),
        ([(0.1, 0.1), (0.2, 0.1), (0.3, 0.1)], "no_variation"),
    ],
)
def test_a_missing_coefficient_has_a_reason(pairs: list[tuple[float, float]], reason: str) -> None:
    assert correlate(pairs, "pearson") == Correlation(reason=reason)  # type: ignore[arg-type] # of two
    assert correlate(pairs, "spearman") == Correlation(reason=reason)  # type: ignore[arg-type] # of two


def test_three_pairs_have_a_coefficient_and_no_interval() -> None:
    found = correlate([(1, 1), (2, 3), (3, 2)], "pearson")

    assert digits(found.coefficient) == "0.5"
    assert digits(found.p_value) == "0.6666666667"
    assert found.interval is None


def test_an_exact_correlation_has_a_p_value_of_zero() -> None:
    same = correlate([(0.1, 0.1), (0.2, 0.2), (0.7, 0.7), (0.3, 0.3)], "pearson")
    opposite = correlate([(1, 9), (2, 8), (3, 7), (4, 6)], "spearman")

    assert same == Correlation(1.0, 0.0, (1.0, 1.0))
    assert opposite == Correlation(-1.0, 0.0, (-1.0, -1.0))


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert ranks([30, 10, 20, 20, 40, 40, 40]) == [4, 1, 2.5, 2.5, 6, 6, 6]


def test_the_deviation_is_that_of_a_sample() -> None:
    assert mean([2, 4, 4, 4, 5, 5, 7, 9]) == 5
    assert digits(deviation([2, 4, 4, 4, 5, 5, 7, 9])) == "2.138089935"
    assert math.isfinite(deviation([1.7e308, -1.7e308]))


@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30))
def test_any_numbers_have_a_coefficient_within_bounds_or_a_reason(
    pairs: list[tuple[float, float]],
) -> None:
    found = correlate(pairs, "pearson")

    assert (found.coefficient is None) == (found.reason is not None)
    if found.coefficient is not None and found.p_value is not None:
        assert -1 <= found.coefficient <= 1
        assert 0 <= found.p_value <= 1
        assert found == correlate([(b, a) for a, b in pairs], "pearson")
    if found.interval is not None and found.coefficient is not None:
        low, high = found.interval
        assert low <= found.coefficient <= high
    assert all(math.isfinite(mean([a, b])) for a, b in pairs)


# Days, weekdays and independent days

LEFT, RIGHT = ([pair[side] for pair in RISING] for side in (0, 1))


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_without_adjustment_the_coefficient_is_that_of_the_pairs(method: str) -> None:
    found = compare([*LEFT, None, 3], [*RIGHT, 4, None], method)  # type: ignore[arg-type] # one of the two

    assert found.correlation == correlate(RISING, method)  # type: ignore[arg-type] # one of the two
    assert found.n == 10
    assert found.n_effective == pytest.approx(independent(10, 1, autocorrelation(RIGHT)))
    assert digits(found.p_value_adjusted) == digits(p_value(0.9030303030303, found.n_effective))


def test_each_weekday_mean_but_one_costs_a_day() -> None:
    """The rest of left is 1, -1, -1, 1 and so on, that of right the same with one pair exchanged."""
    week = [10.0, 20, 30, 40, 50, 60, 70]
    left = [mean + sign for sign in (1, -1) for mean in week]
    right = [
        5 * mean - sign * (-3 if n == 0 else 3) for sign in (1, -1) for n, mean in enumerate(week)
    ]

    found = compare(left, right, "pearson", [n % 7 for n in range(14)])

    r = found.correlation.coefficient
    assert digits(r, 6) == digits(-5 / 7, 6)
    assert r is not None
    assert found.n == 14
    assert found.n_effective <= 14 - 6
    assert found.correlation.p_value == found.p_value_adjusted == p_value(r, found.n_effective)


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        # Seven means of eight days leave one degree of freedom.
        ([*range(8)], [3, 1, 4, 1, 5, 9, 2, 6], "not_enough_days"),
        ([*range(14)], [None] * 14, "not_enough_days"),
        # The weekday explains every value; the rest is rounding errors.
        ([0.1 * (n % 7) for n in range(21)], [n * n % 11 for n in range(21)], "no_variation"),
        ([7] * 21, [7] * 21, "no_variation"),
    ],
)
def test_too_little_may_remain_after_weekday_means(
    left: list[float | None], right: list[float | None], reason: str
) -> None:
    found = compare(left, right, "pearson", [n % 7 for n in range(len(left))])

    assert found.correlation == Correlation(reason=reason)  # type: ignore[arg-type] # of two
    assert found.p_value_adjusted is None


def test_unrelated_metrics_that_share_a_week_are_significant_as_often_as_chance_says() -> None:
    """Both are lower at weekends, and each day is like the one before; otherwise they are unrelated."""
    chance = random.Random(1935)
    weekdays = [n % 7 for n in range(90)]

    def metric() -> list[float | None]:
        values: list[float | None] = []
        level = chance.gauss(0, 1)
        for weekday in weekdays:
            level = 0.5 * level + math.sqrt(0.75) * chance.gauss(0, 1)
            values.append(level - (1.5 if weekday > 4 else 0))
        return values

    pairs = [(metric(), metric()) for _ in range(400)]
    plain = [compare(a, b, "pearson") for a, b in pairs]
    adjusted = [compare(a, b, "pearson", weekdays) for a, b in pairs]

    def significant(p_values: list[float | None]) -> float:
        return sum(p is not None and p < 0.05 for p in p_values) / len(pairs)

    assert significant([each.correlation.p_value for each in plain]) > 0.6
    assert 0.025 < significant([each.correlation.p_value for each in adjusted]) < 0.075
    # Neither of the two corrections is enough alone.
    assert significant([each.p_value_adjusted for each in plain]) > 0.5
    apart = [p_value(each.correlation.coefficient or 0, 84) for each in adjusted]
    assert significant([*apart]) > 0.09


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        # Each day equals the one before, except one: ρ₁ is 1 / √3.
        ([0, 0, 0, 1, 1], [0, 0, 0, 1, 1], 2.5),
        # A day that is not known breaks the row.
        ([0, 0, 0, 1, 1, None, 7], [0, 0, 0, 1, 1, None, 3], 2.5),
        ([0, 0, 1, 1, 0], [0, 0, 0, 1, 1], 5.0),
        ([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], 0.0),
        # Opposite autocorrelations do not make days count as more than there are.
        ([1, 2, 3, 4, 5], [1, 2, 1, 2, 1], 5.0),
        ([1, 1, 1, 1, 1], [1, 2, 3, 4, 5], 5.0),
        ([None] * 5, [1, 2, 3, 4, 5], 5.0),
    ],
)
def test_autocorrelated_days_count_as_fewer(
    left: list[float | None], right: list[float | None], count: float
) -> None:
    found = independent(5, autocorrelation(left), autocorrelation(right))

    assert found == pytest.approx(count)


def test_two_pairs_have_a_p_value_of_one() -> None:
    assert [p_value(1, n) for n in (0.0, 1.5, 2.0)] == [1, 1, 1]
    assert p_value(1, 3) == 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.9, 0.8, 0.01], [1.0, 1.0, 0.03]),
        ([0.02, 0.02], [0.04, 0.04]),
    ],
)
def test_p_values_are_corrected_for_the_number_of_comparisons(
    given: list[float], expected: list[float]
) -> None:
    assert corrected(given) == pytest.approx(expected)
