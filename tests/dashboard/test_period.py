"""Periods in addresses: what they name, and which ones lie beside them."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.api.parameters import FIRST_DAY, LAST_DAY
from resourceserver.dashboard.period import (
    Day,
    Misaddressed,
    Month,
    Range,
    Week,
    Year,
    day_start,
    month_of,
    week_of,
)


@dataclass(frozen=True)
class Calendar:
    today: date
    week_starts_on: int = 1


SATURDAY = Calendar(date(2026, 11, 21))
CALENDARS = st.builds(Calendar, st.dates(date(1950, 1, 1), date(2100, 1, 1)), st.integers(1, 7))


def test_a_day_has_the_days_beside_it() -> None:
    day = Day.parse({"day": "2026-11-20"}).period(SATURDAY)
    assert (day.first, day.last) == (date(2026, 11, 20), date(2026, 11, 20))
    assert day.title == "Friday, 20 November 2026"
    assert (day.previous, day.following) == ("/day/2026-11-19", "/day/2026-11-21")


def test_no_address_leads_past_today_or_before_the_calendar() -> None:
    assert Day.parse({}).period(SATURDAY).following is None
    assert Day.parse({"day": "2026-11-21"}).period(SATURDAY).following is None
    assert Day.parse({"day": str(FIRST_DAY)}).period(SATURDAY).previous is None
    assert Week.parse({}).period(SATURDAY).following is None
    assert Year.parse({"year": "1900"}).period(SATURDAY).previous is None
    first = Year.parse({"year": "1900"}).period(SATURDAY).instant_query("Asia/Tokyo")
    assert first == {"from": "1900-01-01T00:00:00Z", "to": "1900-12-31T15:00:00Z"}


@pytest.mark.parametrize(
    ("starts_on", "first"),
    [(1, "2026-11-16"), (7, "2026-11-15"), (6, "2026-11-14"), (5, "2026-11-13"), (4, "2026-11-19")],
)
def test_a_week_contains_its_thursday_whatever_day_it_starts_on(starts_on: int, first: str) -> None:
    week = Week.parse({"week": "2026-W47"}).period(Calendar(date(2026, 11, 21), starts_on))
    assert str(week.first) == first
    assert week.first <= date(2026, 11, 19) <= week.last == week.first + timedelta(days=6)


@given(CALENDARS)
def test_the_current_week_contains_today_and_its_name_is_read_again(calendar: Calendar) -> None:
    week = Week.parse({}).period(calendar)
    assert week.first <= calendar.today <= week.last
    assert week.first.isoweekday() == calendar.week_starts_on
    path = week_of(calendar.today, calendar)
    assert path is not None
    assert Week.parse({"week": path.removeprefix("/week/")}).period(calendar).first == week.first


@given(CALENDARS, st.sampled_from([Day, Week, Month, Year]))
def test_the_period_before_ends_where_this_one_begins(
    calendar: Calendar, kind: type[Day | Week | Year]
) -> None:
    here = kind.parse({}).period(calendar)
    assert here.previous is not None
    name, value = here.previous.strip("/").split("/")
    before = kind.parse({name: value}).period(calendar)
    assert before.last == here.first - timedelta(days=1)
    assert before.following is not None


def test_a_range_is_the_last_days_unless_it_is_named() -> None:
    usual = Range.parse({"path": "/trends"}).period(SATURDAY)
    assert (len(usual.days), usual.last) == (91, SATURDAY.today)
    named = Range.parse({"path": "/trends", "from": "2026-11-01", "to": "2026-11-10"})
    period = named.period(SATURDAY)
    assert period.day_query == {"from": "2026-11-01", "to": "2026-11-10"}
    assert period.previous == "/trends?from=2026-10-22&to=2026-10-31"
    assert period.following == "/trends?from=2026-11-11&to=2026-11-20"


def test_a_range_keeps_the_query_of_its_view() -> None:
    period = Range.parse({"path": "/trends?by=week", "to": "2026-11-10"}).period(SATURDAY)
    assert period.path == "/trends?by=week&from=2026-08-12&to=2026-11-10"
    assert period.current == "/trends?by=week"
    assert period.following == "/trends?by=week&from=2026-11-11&to=2027-02-09"


def test_a_week_over_new_year_names_both_years() -> None:
    week = Week.parse({"week": "2026-W53"}).period(SATURDAY)
    assert week.title == "28 December 2026 to 3 January 2027"
    assert week.previous == "/week/2026-W52"


def test_a_week_has_one_before_it_in_the_calendar() -> None:
    first = Week.parse({"week": "1900-W03"}).period(SATURDAY)
    assert (first.previous, first.following) == (None, "/week/1900-W04")
    assert week_of(date(1900, 1, 15), SATURDAY) == "/week/1900-W03"
    assert week_of(FIRST_DAY, SATURDAY) is None
    with pytest.raises(Misaddressed):
        Week.parse({"week": "1900-W02"})


def test_a_month_has_the_months_beside_it() -> None:
    december = Month.parse({"month": "2025-12"}).period(SATURDAY)
    assert (december.first, december.last) == (date(2025, 12, 1), date(2025, 12, 31))
    assert december.title == "December 2025"
    assert (december.previous, december.following) == ("/month/2025-11", "/month/2026-01")
    now = Month.parse({}).period(SATURDAY)
    assert (now.path, now.previous, now.following) == ("/month", "/month/2026-10", None)
    assert Month.parse({"month": "1900-02"}).period(SATURDAY).previous is None
    assert month_of(date(1900, 1, 31)) is None
    for text in ("1900-01", "2026-13", "2026-1", "9999-01"):
        with pytest.raises(Misaddressed):
            Month.parse({"month": text})


@given(
    st.dates(FIRST_DAY, LAST_DAY),
    st.none() | st.dates(FIRST_DAY, LAST_DAY),
    CALENDARS,
)
def test_half_a_range_is_completed_within_the_calendar(
    first: date, last: date | None, calendar: Calendar
) -> None:
    for parts in ({"from": str(first)}, {"to": str(last or first)}):
        period = Range.parse({"path": "/trends", **parts}).period(calendar)
        assert FIRST_DAY <= period.first <= period.last <= LAST_DAY
        assert (period.last - period.first).days < 3700


def test_a_range_that_begins_at_the_end_of_the_calendar_is_one_day() -> None:
    period = Range.parse({"path": "/trends", "from": "9998-12-31"}).period(SATURDAY)

    assert (period.first, period.last) == (date(9998, 12, 31), date(9998, 12, 31))
    assert period.title == "31 December 9998"


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (Day, {"day": "2026-02-30"}),
        (Day, {"day": "1899-12-31"}),
        (Day, {"day": "９999-01-01"}),  # noqa: RUF001 -- a digit that is not ASCII
        (Week, {"week": "2026-W54"}),
        (Week, {"week": "2026-47"}),
        (Week, {"week": "0000-W01"}),
        (Week, {"week": "9999-W52"}),
        (Year, {"year": "26"}),
        (Year, {"year": "0000"}),
        (Range, {"path": "/", "from": "2026-11-02", "to": "2026-11-01"}),
        (Range, {"path": "/", "from": "1900-01-01", "to": "2026-11-01"}),
        (Range, {"path": "/", "from": "x"}),
    ],
)
def test_what_names_no_period_is_refused(kind: type[Day | Range], parts: dict[str, str]) -> None:
    with pytest.raises(Misaddressed):
        kind.parse(parts)


@pytest.mark.parametrize(
    ("day", "tz", "starts"),
    [
        # Clocks skip midnight, and the day begins at one o'clock.
        ("2026-03-29", "Asia/Beirut", "2026-03-28T22:00:00+00:00"),
        # Midnight comes twice.
        ("2026-11-01", "America/Havana", "2026-11-01T04:00:00+00:00"),
        # The zone skipped this whole day.
        ("2011-12-30", "Pacific/Apia", "2011-12-30T10:00:00+00:00"),
        ("2011-12-31", "Pacific/Apia", "2011-12-30T10:00:00+00:00"),
    ],
)
def test_a_day_starts_with_its_first_instant(day: str, tz: str, starts: str) -> None:
    assert day_start(date.fromisoformat(day), tz) == datetime.fromisoformat(starts)
    assert day_start(date.fromisoformat(day), tz).tzinfo is UTC
