"""Regularity of sleep and usual times, against a model that looks at each minute."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.timeline.medians import quantile
from resourceserver.timeline.nights import DAY_MS, Span, alike, apart, clock, index, usual

FIRST = date(2025, 6, 16)
MINUTE = 60_000
HOUR = 60 * MINUTE
EPOCH = date(1970, 1, 1)


def at(day: date, minutes: int) -> int:
    """Return a time as in spans, so many minutes after the midnight with which a day begins."""
    return (day - EPOCH).days * DAY_MS + minutes * MINUTE


def night(day: date, bedtime: int, wake_up: int) -> Span:
    """Return a sleep that ends on a day; both are hours after its midnight."""
    return at(day, bedtime * 60), at(day, wake_up * 60)


def test_waking_up_an_hour_later_leaves_23_of_24_hours_alike() -> None:
    second = FIRST + timedelta(days=1)

    agreeing = alike({FIRST: night(FIRST, -1, 6), second: night(second, -1, 7)}, [])

    assert agreeing == {second: 23 * HOUR}
    assert index(23 * HOUR, DAY_MS) == 91.7


def test_only_pairs_of_known_days_count() -> None:
    days = [FIRST + timedelta(days=n) for n in (0, 1, 3, 5, 6)]

    agreeing = alike({day: night(day, -1, 6) for day in days}, [])

    assert agreeing == {days[1]: DAY_MS, days[4]: DAY_MS}


def test_a_nap_counts_on_its_day() -> None:
    second = FIRST + timedelta(days=1)
    nights = {day: night(day, -1, 6) for day in (FIRST, second, second + timedelta(days=1))}

    # From 13:00 to 14:00 on the first day, which is after the noon with which the second one begins.
    agreeing = alike(nights, [night(FIRST, 13, 14)])

    assert list(agreeing.values()) == [23 * HOUR, 23 * HOUR]


def test_a_nap_within_a_main_sleep_changes_nothing() -> None:
    second = FIRST + timedelta(days=1)
    nights = {day: night(day, -1, 6) for day in (FIRST, second)}

    assert alike(nights, [night(FIRST, 1, 2), night(FIRST, 5, 6)]) == {second: DAY_MS}


@pytest.mark.parametrize(
    ("agreeing_ms", "compared_ms", "value"),
    [
        (0, 0, None),
        (DAY_MS, DAY_MS, 100.0),
        (DAY_MS // 2, DAY_MS, 0.0),
        (0, DAY_MS, -100.0),
        (DAY_MS // 2 + 21_600, DAY_MS, 0.1),
        (DAY_MS // 2 + 21_599, DAY_MS, 0.0),
    ],
)
def test_the_index_has_one_decimal(agreeing_ms: int, compared_ms: int, value: float | None) -> None:
    assert index(agreeing_ms, compared_ms) == value


SLEEPS = st.tuples(st.integers(-18 * 60, 20 * 60), st.integers(1, 16 * 60))


@given(
    st.dictionaries(st.integers(0, 4), SLEEPS, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), SLEEPS), max_size=3),
)
def test_every_minute_is_compared(
    mains: dict[int, tuple[int, int]], naps: list[tuple[int, tuple[int, int]]]
) -> None:
    def span(n: int, sleep: tuple[int, int]) -> Span:
        return (
            at(FIRST, n * 1440 + sleep[0]),
            at(FIRST, n * 1440 + sleep[0] + sleep[1]),
        )

    main = {FIRST + timedelta(days=n): span(n, sleep) for n, sleep in mains.items()}
    rest = [span(n, sleep) for n, sleep in naps]

    def is_asleep(minute: int) -> bool:
        return any(start <= at(FIRST, minute) < end for start, end in [*main.values(), *rest])

    assert alike(main, rest) == {
        FIRST + timedelta(days=n): MINUTE
        * sum(
            is_asleep(minute) == is_asleep(minute - 1440)
            for minute in range((n - 1) * 1440 + 720, n * 1440 + 720)
        )
        for n in sorted(mains)
        if n - 1 in mains
    }


def minutes(*times: int) -> list[float]:
    return [time * MINUTE for time in times]


def test_ten_to_and_ten_past_midnight_meet_at_midnight() -> None:
    found = usual(minutes(1430, 10))

    assert found is not None
    assert [clock(found.lower_quartile), clock(found.median), clock(found.upper_quartile)] == [
        "23:55",
        "00:00",
        "00:05",
    ]


def test_a_usual_time_is_a_median() -> None:
    found = usual(minutes(1380, 1390, 1400, 1410, 300))

    assert found is not None
    assert clock(found.median) == "23:20"


def test_opposite_times_have_no_usual_one() -> None:
    assert usual([]) is None
    assert usual(minutes(0, 720)) is None
    assert usual(minutes(60, 420, 780, 1140)) is None


@given(
    st.lists(st.integers(0, 715), min_size=1, max_size=9),
    st.integers(0, 1439),
    st.integers(-5, 20_000),
)
def test_times_of_half_a_day_are_ordered_wherever_it_begins(
    times: list[int], begin: int, days: int
) -> None:
    found = usual([time + begin * MINUTE + days * DAY_MS for time in minutes(*times)])

    assert found is not None
    ordered = sorted(minutes(*times))
    for part, name in ((0.25, "lower_quartile"), (0.5, "median"), (0.75, "upper_quartile")):
        assert apart(quantile(ordered, part) + begin * MINUTE, getattr(found, name)) < 1


def test_a_clock_has_minutes() -> None:
    times = [0, 29_999, 30_000, DAY_MS - 30_001, DAY_MS - 30_000, 7 * HOUR + 5 * MINUTE]

    assert [clock(time) for time in times] == [
        "00:00", "00:00", "00:01", "23:59", "00:00", "07:05",
    ]  # fmt: skip
