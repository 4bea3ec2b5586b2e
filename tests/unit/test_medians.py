"""Medians and quartiles, of known days and of windows of days, against the standard library."""

import statistics

from hypothesis import given
from hypothesis import strategies as st

from resourceserver.timeline.medians import median, quantile, windows

NUMBERS = st.floats(min_value=-1e15, max_value=1e15)


def test_a_quartile_lies_between_two_values() -> None:
    ordered = [10.0, 20.0, 40.0, 80.0]

    assert [quantile(ordered, part) for part in (0, 0.25, 0.5, 0.75, 1)] == [10, 17.5, 30, 50, 80]


@given(st.lists(st.integers(-1000, 1000), min_size=2))
def test_quartiles_are_those_of_the_standard_library(values: list[int]) -> None:
    ordered = sorted(values)

    quartiles = [quantile(ordered, part) for part in (0.25, 0.5, 0.75)]

    assert quartiles == statistics.quantiles(ordered, method="inclusive")
    assert median(ordered) == statistics.median(ordered)


@given(st.lists(st.none() | NUMBERS), st.integers(1, 9))
def test_a_window_has_the_known_days_up_to_each_day(
    values: list[float | None], length: int
) -> None:
    slow = [
        tuple(
            sorted(value for value in values[max(0, n - length + 1) : n + 1] if value is not None)
        )
        for n in range(len(values))
    ]

    assert list(windows(values, length)) == slow
