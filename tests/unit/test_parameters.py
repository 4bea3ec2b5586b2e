"""Instants, days and zones in query parameters."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.api.parameters import parse_day, parse_instant, parse_zone

NOON = datetime(2025, 6, 16, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2025-06-16T12:30:00Z",
        "2025-06-16t12:30:00z",
        "2025-06-16 12:30:00Z",
        "2025-06-16T12:30Z",
        "2025-06-16T12:30:00.000Z",
        "2025-06-16T12:30:00,000Z",
        "2025-06-16T14:30:00+02:00",
        "2025-06-16T14:30:00+0200",
        "2025-06-16T14:30:00+02",
        "2025-06-16T14:30:00 02:00",
        "2025-06-16T14:30:00 +02:00",
        "2025-06-16T18:15+05:45",
        "2025-06-16T07:00:00-05:30",
        "20250616T123000Z",
        "20250616T1230Z",
    ],
)
def test_an_instant_has_several_forms(text: str) -> None:
    assert parse_instant(text) == NOON


def test_an_instant_is_cut_to_milliseconds() -> None:
    assert parse_instant("2025-06-16T12:30:00.0019999Z") == NOON + timedelta(milliseconds=1)


# A day's distance from the ends of the calendar, so that every offset stays within it.
MOMENTS = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 -- hypothesis takes naive bounds
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001 -- the same: naive bounds
    timezones=st.just(UTC),
)


@given(MOMENTS, st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_an_instant_is_the_same_at_any_offset(at: datetime, offset: int) -> None:
    local = at.astimezone(timezone(timedelta(minutes=offset)))

    parsed = parse_instant(local.isoformat())

    assert parsed == at.replace(microsecond=at.microsecond // 1000 * 1000)
    assert parsed.utcoffset() == timedelta()


@given(st.text())
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    for parse in (parse_instant, parse_day, parse_zone):
        try:
            parse(text)
        except ValueError:
            continue


@pytest.mark.parametrize(
    "text", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"]
)
def test_a_zone_is_a_name_of_the_zone_database(text: str) -> None:
    assert parse_zone(text) == text
