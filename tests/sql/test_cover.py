"""svc.cover: the spans of buckets of time, raw and rolled up."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

Rows = psycopg.Connection[Any]

RAW, QUARTERS, HOURS, DAYS, MONTHS = range(5)


class Span(NamedTuple):
    """A row that svc.cover returns."""

    position: int
    is_first: bool
    grain: int
    starts_at: datetime
    ends_at: datetime


def cover(
    db: Rows, starts: list[datetime], ends: list[datetime], raw_days: list[date]
) -> list[Span]:
    """Return the spans of buckets."""
    rows = db.execute(
        """
        select position, is_first, grain, starts_at at time zone 'UTC', ends_at at time zone 'UTC'
          from svc.cover(%s::timestamptz[], %s::timestamptz[], %s::date[])
        """,
        [starts, ends, raw_days],
    ).fetchall()
    return [Span(*row[:3], *(at.replace(tzinfo=UTC) for at in row[3:])) for row in rows]


def spans(db: Rows, start: str, end: str, *raw_days: date) -> list[tuple[int, str, str]]:
    """Return grain and edges of the spans of one bucket, in UTC and without seconds."""
    return [
        (span.grain, f"{span.starts_at:%m-%d %H:%M}", f"{span.ends_at:%m-%d %H:%M}")
        for span in cover(
            db, [datetime.fromisoformat(start)], [datetime.fromisoformat(end)], [*raw_days]
        )
    ]


def test_a_long_range_has_months_in_the_middle_and_shorter_slots_at_the_edges(db: Rows) -> None:
    found = spans(db, "2025-01-13T10:07:03Z", "2025-06-05T13:22Z")

    assert found == [
        (RAW, "01-13 10:07", "01-13 10:15"),
        (QUARTERS, "01-13 10:15", "01-13 11:00"),
        (HOURS, "01-13 11:00", "01-14 00:00"),
        (DAYS, "01-14 00:00", "02-01 00:00"),
        (MONTHS, "02-01 00:00", "06-01 00:00"),
        (DAYS, "06-01 00:00", "06-05 00:00"),
        (HOURS, "06-05 00:00", "06-05 13:00"),
        (QUARTERS, "06-05 13:00", "06-05 13:15"),
        (RAW, "06-05 13:15", "06-05 13:22"),
    ]


def test_a_month_with_a_raw_day_is_covered_by_days(db: Rows) -> None:
    found = spans(db, "2025-02-01T00:00Z", "2025-06-01T00:00Z", date(2025, 3, 31), date(2025, 4, 1))

    assert found == [
        (MONTHS, "02-01 00:00", "03-01 00:00"),
        (DAYS, "03-01 00:00", "03-31 00:00"),
        (RAW, "03-31 00:00", "04-02 00:00"),
        (DAYS, "04-02 00:00", "05-01 00:00"),
        (MONTHS, "05-01 00:00", "06-01 00:00"),
    ]


def test_a_raw_day_and_an_edge_beside_it_are_one_span(db: Rows) -> None:
    found = spans(db, "2025-06-16T23:50Z", "2025-06-18T00:10Z", date(2025, 6, 17))

    assert found == [(RAW, "06-16 23:50", "06-18 00:10")]


def test_raw_days_outside_a_bucket_change_nothing(db: Rows) -> None:
    found = spans(
        db, "2025-06-16T00:00Z", "2025-06-17T00:00Z", date(2025, 6, 15), date(2025, 6, 17)
    )

    assert found == [(DAYS, "06-16 00:00", "06-17 00:00")]


@pytest.mark.parametrize(
    ("tz", "expected"),
    [
        ("Europe/Berlin", [(HOURS, "06-15 22:00", "06-16 22:00")]),
        (
            "Asia/Kathmandu",
            [
                (QUARTERS, "06-15 18:15", "06-15 19:00"),
                (HOURS, "06-15 19:00", "06-16 18:00"),
                (QUARTERS, "06-16 18:00", "06-16 18:15"),
            ],
        ),
    ],
)
def test_a_local_day_is_hours_and_quarters(
    db: Rows, tz: str, expected: list[tuple[int, str, str]]
) -> None:
    starts, ends = (datetime(2025, 6, day, tzinfo=ZoneInfo(tz)) for day in (16, 17))

    found = spans(db, starts.isoformat(), ends.isoformat())

    assert found == expected


def test_buckets_have_separate_spans_and_empty_ones_have_none(db: Rows) -> None:
    edges = [datetime(2025, 6, 16, hour, tzinfo=UTC) for hour in (9, 10, 10, 12)]

    found = cover(db, edges[:-1], edges[1:], [])

    assert found == [
        Span(1, True, HOURS, edges[0], edges[1]),
        Span(3, True, HOURS, edges[2], edges[3]),
    ]


@pytest.mark.parametrize("edges", [[], [datetime(2025, 6, 16, tzinfo=UTC)]])
def test_an_empty_range_has_no_spans(db: Rows, edges: list[datetime]) -> None:
    found = cover(db, edges, edges, [date(2025, 6, 16)])

    assert found == []


def test_the_longest_range_has_few_spans(db: Rows) -> None:
    found = spans(db, "0001-01-01T00:00Z", "9999-12-31T23:59:59Z", date(2025, 6, 16))

    assert found == [
        (MONTHS, "01-01 00:00", "06-01 00:00"),
        (DAYS, "06-01 00:00", "06-16 00:00"),
        (RAW, "06-16 00:00", "06-17 00:00"),
        (DAYS, "06-17 00:00", "07-01 00:00"),
        (MONTHS, "07-01 00:00", "12-01 00:00"),
        (DAYS, "12-01 00:00", "12-31 00:00"),
        (HOURS, "12-31 00:00", "12-31 23:00"),
        (QUARTERS, "12-31 23:00", "12-31 23:45"),
        (RAW, "12-31 23:45", "12-31 23:59"),
    ]


STEPS = {
    QUARTERS: timedelta(minutes=15),
    HOURS: timedelta(hours=1),
    DAYS: timedelta(days=1),
}


def slot_of(at: datetime, grain: int) -> tuple[datetime, datetime]:
    """Return the slot of the grain that contains an instant."""
    if grain == MONTHS:
        start = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        return start, (start + timedelta(days=31)).replace(day=1)
    start = at - (at - datetime(2000, 1, 1, tzinfo=UTC)) % STEPS[grain]
    return start, start + STEPS[grain]


EDGES = st.lists(
    st.one_of(
        st.builds(
            lambda quarters: datetime(2023, 12, 30, tzinfo=UTC) + quarters * timedelta(minutes=15),
            st.integers(0, 100 * 96),
        ),
        st.builds(
            lambda days: datetime(2023, 12, 30, tzinfo=UTC) + timedelta(days=days),
            st.integers(0, 100),
        ),
        st.builds(
            lambda ms: datetime(2023, 12, 30, tzinfo=UTC) + timedelta(milliseconds=ms),
            st.integers(0, 100 * 86_400_000),
        ),
    ),
    min_size=2,
    max_size=8,
).map(sorted)
RAW_DAYS = st.lists(st.dates(date(2023, 12, 29), date(2024, 4, 9)), unique=True, max_size=12).map(
    sorted
)


@given(edges=EDGES, raw_days=RAW_DAYS)
def test_any_buckets_are_covered_exactly_by_whole_slots_without_marks(
    db: Rows, edges: list[datetime], raw_days: list[date]
) -> None:
    starts, ends = edges[:-1], edges[1:]

    found = cover(db, starts, ends, raw_days)

    for position, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        of_bucket = [span for span in found if span.position == position]
        # In order, without a gap, from the first instant to the last.
        assert [span.starts_at for span in of_bucket] == ([start] if start < end else []) + [
            span.ends_at for span in of_bucket[:-1]
        ]
        assert [span.ends_at for span in of_bucket[-1:]] == ([end] if start < end else [])
        assert [span.is_first for span in of_bucket] == [n == 0 for n in range(len(of_bucket))]
        # Neighbours differ, so that no span can be joined to the next one.
        assert all(span.grain != following.grain for span, following in pairwise(of_bucket))
    assert [span.position for span in found] == sorted(span.position for span in found)
    for span in found:
        assert span.starts_at < span.ends_at
        if span.grain == RAW:
            continue
        assert span.starts_at == slot_of(span.starts_at, span.grain)[0]
        assert span.ends_at == slot_of(span.ends_at, span.grain)[0]
        assert not any(
            span.starts_at.date() <= day <= (span.ends_at - timedelta(milliseconds=1)).date()
            for day in raw_days
        )


@given(edges=EDGES, raw_days=RAW_DAYS)
def test_the_cover_uses_the_largest_possible_slots(
    db: Rows, edges: list[datetime], raw_days: list[date]
) -> None:
    starts, ends = edges[:-1], edges[1:]

    found = cover(db, starts, ends, raw_days)

    def is_whole(start: datetime, end: datetime, position: int) -> bool:
        """Tell whether a slot is in the bucket and is rolled up."""
        last = (end - timedelta(milliseconds=1)).date()
        return (
            starts[position - 1] <= start
            and end <= ends[position - 1]
            and not any(start.date() <= day <= last for day in raw_days)
        )

    for span in found:
        for grain in (QUARTERS, HOURS, DAYS, MONTHS)[span.grain :]:
            # If a slot of a larger grain could replace a part of the span, it is one of these.
            first = slot_of(span.starts_at, grain)
            second = slot_of(first[1], grain)
            last = slot_of(span.ends_at - timedelta(milliseconds=1), grain)
            assert not is_whole(*first, span.position)
            assert second[0] >= span.ends_at or not is_whole(*second, span.position)
            assert not is_whole(*last, span.position)
