"""Coefficients and chances, against values that are known to ten digits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.timeline.correlation import (
    Correlation,
    autocorrelation,
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
def test_what_has_no_coefficient_says_why(pairs: list[tuple[float, float]], reason: str) -> None:
    assert correlate(pairs, "pearson") == Correlation(reason=reason)  # type: ignore[arg-type] # of two
    assert correlate(pairs, "spearman") == Correlation(reason=reason)  # type: ignore[arg-type] # of two


def test_three_pairs_have_a_coefficient_and_no_interval() -> None:
    found = correlate([(1, 1), (2, 3), (3, 2)], "pearson")

    assert digits(found.coefficient) == "0.5"
    assert digits(found.p_value) == "0.6666666667"
    assert found.interval is None


def test_what_goes_together_exactly_leaves_nothing_to_chance() -> None:
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


# What else has to be reckoned with


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        # Each day is like the one before, but for one: ρ₁ is 1 / √3.
        ([0, 0, 0, 1, 1], [0, 0, 0, 1, 1], 2.5),
        # A day that is not known breaks the row.
        ([0, 0, 0, 1, 1, None, 7], [0, 0, 0, 1, 1, None, 3], 2.5),
        ([0, 0, 1, 1, 0], [0, 0, 0, 1, 1], 5.0),
        ([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], 0.0),
        # Where one goes up and down as the other goes on, days count as many as they are, and not more.
        ([1, 2, 3, 4, 5], [1, 2, 1, 2, 1], 5.0),
        ([1, 1, 1, 1, 1], [1, 2, 3, 4, 5], 5.0),
        ([None] * 5, [1, 2, 3, 4, 5], 5.0),
    ],
)
def test_days_that_are_like_those_before_count_for_fewer(
    left: list[float | None], right: list[float | None], count: float
) -> None:
    found = independent(5, autocorrelation(left), autocorrelation(right))

    assert found == pytest.approx(count)


def test_two_pairs_and_fewer_prove_nothing() -> None:
    assert [p_value(1, n) for n in (0.0, 1.5, 2.0)] == [1, 1, 1]
    assert p_value(1, 3) == 0


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.9, 0.8, 0.01], [1.0, 1.0, 0.03]),
        ([0.02, 0.02], [0.04, 0.04]),
    ],
)
def test_p_values_are_corrected_for_so_many_comparisons(
    given: list[float], found: list[float]
) -> None:
    assert corrected(given) == pytest.approx(found)
