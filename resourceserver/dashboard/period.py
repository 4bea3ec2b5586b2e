"""The periods that addresses of views name: days, weeks, months, years and ranges of days."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final, Protocol, Self
from zoneinfo import ZoneInfo

from resourceserver.api.parameters import (
    FIRST_DAY,
    LAST_DAY,
    MOST_DAYS,
    parse_cursor,
    parse_day,
    parse_instant,
)

_WEEK: Final = re.compile(r"(\d{4})-W(\d\d)", re.ASCII)
_MONTH: Final = re.compile(r"(\d{4})-(\d\d)", re.ASCII)
_YEAR: Final = re.compile(r"\d{4}", re.ASCII)

RANGES: Final[Mapping[str, int]] = {
    "2 weeks": 14,
    "4 weeks": 28,
    "3 months": 91,
    "A year": 365,
    "3 years": 3 * 365,
    "10 years": 3653,
}
"""Ranges up to today by their days. Those of weeks and of 3 months have each weekday equally often."""


class Misaddressed(Exception):
    """The address of a view names no period; the message says what it should look like."""


class Calendar(Protocol):
    """What a period needs to know of the person's calendar."""

    @property
    def today(self) -> date:
        """The current day in the person's time zone."""

    @property
    def week_starts_on(self) -> int:
        """The first weekday, as an ISO weekday: 1 is Monday."""


@dataclass(frozen=True)
class Period:
    """Calendar days, both ends included, and how one gets to the ones beside it."""

    first: date
    last: date
    title: str
    """The period in words, such as ``Saturday, 21 November 2026``."""
    path: str
    """The path of the view for this period."""
    previous: str | None = None
    """The path of the same view for the period before; None if there is none."""
    following: str | None = None
    """The same for the period after, if it has begun."""
    current: str | None = None
    """The same for the current period, where it is not the first path of the view."""

    @property
    def days(self) -> list[date]:
        """All days of the period."""
        length = (self.last - self.first).days + 1
        return [self.first + timedelta(days=n) for n in range(length)]

    @property
    def day_query(self) -> dict[str, str]:
        """The parameters ``from`` and ``to`` of endpoints that take calendar days."""
        return {"from": str(self.first), "to": str(self.last)}

    def instant_query(self, tz: str) -> dict[str, str]:
        """Return ``from`` and ``to`` of endpoints that take instants: the midnights of the zone ``tz``.

        East of Greenwich the first day of all begins with the first instant that endpoints take.
        """
        return {
            "from": written(max(day_start(self.first, tz), day_start(FIRST_DAY, "UTC"))),
            "to": written(day_start(self.last + timedelta(days=1), tz)),
        }


def day_start(day: date, tz: str) -> datetime:
    """Return the first instant of a calendar day in a zone, in UTC.

    Where clocks skip midnight, the day begins when they go on; where midnight comes twice, at the first.
    """
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(tz)).astimezone(UTC)


def written(at: datetime) -> str:
    """Return an instant as it stands in addresses of the API, in UTC and without fractions of a second."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def rewritten(instant: str) -> str:
    """Return an instant in the one way that Figures read, of all the ways in which the API does."""
    return parse_instant(instant).isoformat(timespec="milliseconds")


def long_day(day: date) -> str:
    """Return a day in words, with its weekday."""
    return f"{day:%A}, {day.day} {day:%B} {day.year}"


class Address(Protocol):
    """What an address names; the period follows once the person's calendar is known."""

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Return the address with these parts of its path and query. Raises Misaddressed."""

    def period(self, calendar: Calendar) -> Period:
        """Return the period for a person's calendar."""


@dataclass(frozen=True)
class Day:
    """One day, ``/day/2026-11-21``, or today, ``/``."""

    day: date | None

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the part ``day``; without one it is today."""
        if "day" not in parts:
            return cls(None)
        try:
            return cls(parse_day(parts["day"]))
        except ValueError as error:
            raise Misaddressed(f"The day {error}.") from error

    def period(self, calendar: Calendar) -> Period:
        """Return the day as a period."""
        day = self.day or calendar.today
        return Period(
            day,
            day,
            long_day(day),
            f"/day/{day}" if self.day else "/",
            f"/day/{day - timedelta(days=1)}" if day > FIRST_DAY else None,
            f"/day/{day + timedelta(days=1)}" if day < calendar.today else None,
        )


@dataclass(frozen=True)
class PartOfDay:
    """One day, ``/day/2026-11-21``, or today, ``/day``, and a part of it.

    The part is ``?from=2026-11-21T08:00:00Z&to=2026-11-21T09:30:00Z``.
    """

    day: Day

    LONGEST = timedelta(hours=48)
    """A night out may end on the day after."""

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the part ``day``, and check the parts ``from`` and ``to``."""
        given = {}
        for name in ("from", "to"):
            try:
                given[name] = parse_instant(parts[name]) if name in parts else None
            except ValueError as error:
                raise Misaddressed(f"The part “{name}” of the address {error}.") from error
        start, end = given["from"], given["to"]
        for at in (start, end):
            # Beyond, the clock of a zone may have no date.
            if at is not None and not FIRST_DAY <= at.date() <= LAST_DAY + timedelta(days=1):
                raise Misaddressed(f"It must lie between {FIRST_DAY} and {LAST_DAY}.")
        if (start is None) != (end is None):
            raise Misaddressed("A part of a day has a start and an end.")
        if start is not None and end is not None and not start <= end <= start + cls.LONGEST:
            raise Misaddressed("A part of a day ends after its start, and within 48 hours.")
        return cls(Day.parse(parts))

    def period(self, calendar: Calendar) -> Period:
        """Return the whole day as a period."""
        period = self.day.period(calendar)
        return period if self.day.day else replace(period, path="/day")


@dataclass(frozen=True)
class Week:
    """One week, ``/week/2026-W47``, or the current one, ``/week``.

    It has the number of the ISO week (ISO 8601) whose Thursday it contains, and begins with the first weekday
    of the person's profile.
    """

    thursday: date | None

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the part ``week``; without one it is the current week."""
        if "week" not in parts:
            return cls(None)
        match = _WEEK.fullmatch(parts["week"])
        try:
            if match is None:
                raise ValueError
            thursday = date.fromisocalendar(int(match[1]), int(match[2]), 4)
        except ValueError as error:
            raise Misaddressed("A week must look like 2026-W47.") from error
        return cls(_within(thursday))

    def period(self, calendar: Calendar) -> Period:
        """Return the week as a period."""
        thursday = self.thursday or _thursday(calendar.today, calendar.week_starts_on)
        first = thursday - timedelta(days=(4 - calendar.week_starts_on) % 7)
        last = first + timedelta(days=6)
        following = thursday + timedelta(days=7)
        return Period(
            first,
            last,
            f"{first.day} {first:%B}{'' if first.year == last.year else f' {first.year}'}"
            f" to {last.day} {last:%B %Y}",
            f"/week/{week_name(thursday)}" if self.thursday else "/week",
            _week_path(thursday - timedelta(days=7)),
            _week_path(following) if last < calendar.today else None,
        )


def _thursday(day: date, week_starts_on: int) -> date:
    """Return the Thursday in the week of a day, if weeks start on that ISO weekday."""
    first = day - timedelta(days=(day.isoweekday() - week_starts_on) % 7)
    return first + timedelta(days=(4 - week_starts_on) % 7)


def week_name(day: date) -> str:
    """Return the name of the ISO week of a day, such as ``2026-W47``."""
    year, week, _ = day.isocalendar()
    return f"{year:04}-W{week:02}"


def week_of(day: date, calendar: Calendar) -> str | None:
    """Return the path of the week that contains a day; None if no page has it."""
    return _week_path(_thursday(day, calendar.week_starts_on))


@dataclass(frozen=True)
class Month:
    """One month, ``/month/2026-11``, or the current one, ``/month``."""

    first: date | None

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the part ``month``; without one it is the current month."""
        if "month" not in parts:
            return cls(None)
        match = _MONTH.fullmatch(parts["month"])
        try:
            if match is None:
                raise ValueError
            first = date(int(match[1]), int(match[2]), 1)
        except ValueError as error:
            raise Misaddressed("A month must look like 2026-11.") from error
        if month_path(first) is None:
            raise Misaddressed(f"It must lie between {FIRST_DAY} and {LAST_DAY}.")
        return cls(first)

    def period(self, calendar: Calendar) -> Period:
        """Return the month as a period."""
        first = self.first or calendar.today.replace(day=1)
        following = following_month(first)
        return Period(
            first,
            following - timedelta(days=1),
            f"{first:%B} {first.year}",
            f"/month/{first:%Y-%m}" if self.first else "/month",
            month_path(month_before(first)),
            month_path(following) if following <= calendar.today else None,
        )


def month_of(day: date) -> str | None:
    """Return the path of the month that contains a day; None if no page has it."""
    return month_path(day.replace(day=1))


def month_before(first: date) -> date:
    """Return the first day of the month before the one that begins on ``first``."""
    return (first - timedelta(days=1)).replace(day=1)


def following_month(first: date) -> date:
    """Return the first day of the month after the one that begins on ``first``."""
    return (first + timedelta(days=31)).replace(day=1)


def month_path(first: date) -> str | None:
    """Return the path of the month that begins on a day; None if it has no page.

    The first month of the calendar has none, since there is no month before it to compare it with.
    """
    if not following_month(FIRST_DAY) <= first <= LAST_DAY - timedelta(days=31):
        return None
    return f"/month/{first:%Y-%m}"


@dataclass(frozen=True)
class Year:
    """One year, ``/year/2026``, or the current one, ``/year``."""

    number: int | None
    suffix: str = ""
    """What follows the year in the path, such as ``/review``."""

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the part ``year``; without one it is the current year."""
        if "year" not in parts:
            return cls(None)
        text = parts["year"]
        if not _YEAR.fullmatch(text) or not FIRST_DAY.year <= int(text) <= LAST_DAY.year:
            raise Misaddressed("A year must look like 2026.")
        return cls(int(text))

    def period(self, calendar: Calendar) -> Period:
        """Return the year as a period."""
        number = self.number or calendar.today.year
        return Period(
            date(number, 1, 1),
            date(number, 12, 31),
            str(number),
            f"/year/{number}{self.suffix}" if self.number else f"/year{self.suffix}",
            f"/year/{number - 1}{self.suffix}" if number > FIRST_DAY.year else None,
            f"/year/{number + 1}{self.suffix}" if number < calendar.today.year else None,
        )


@dataclass(frozen=True)
class Range:
    """Any days, ``?from=2026-09-01&to=2026-11-21``, both included; without them the last ``LENGTH`` days."""

    first: date | None
    last: date | None
    path: str
    """The path of the view, which may have a query of its own."""
    length: int

    LENGTH = RANGES["3 months"]
    MOST = MOST_DAYS
    """The most days of a range."""

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the parts ``from`` and ``to``, and ``path``, that of the view."""
        given = {}
        for name in ("from", "to"):
            try:
                given[name] = parse_day(parts[name]) if parts.get(name) else None
            except ValueError as error:
                raise Misaddressed(f"The part “{name}” of the address {error}.") from error
        first, last = given["from"], given["to"]
        if first is not None and last is not None:
            if first > last:
                raise Misaddressed("The range ends before it begins.")
            if (last - first).days >= cls.MOST:
                raise Misaddressed(f"A range has at most {cls.MOST} days.")
        return cls(first, last, parts["path"], cls.LENGTH)

    def period(self, calendar: Calendar) -> Period:
        """Return the range as a period. If one end is missing, the other one says where it lies."""
        step = timedelta(days=self.length - 1)
        last = self.last
        if last is None:
            start = self.first or calendar.today
            # The calendar may end sooner than the longest range.
            length = min(max((calendar.today - start).days, 0), self.MOST - 1)
            last = start + timedelta(days=length)
        first = self.first or max(last - step, FIRST_DAY)
        width = last - first + timedelta(days=1)
        before, after = first - timedelta(days=1), last + timedelta(days=1)
        return Period(
            first,
            last,
            f"{last.day} {last:%B %Y}"
            if first == last
            else f"{first.day} {first:%B %Y} to {last.day} {last:%B %Y}",
            self._path(first, last) if self.first or self.last else self.path,
            self._path(max(first - width, FIRST_DAY), before) if first > FIRST_DAY else None,
            self._path(after, min(last + width, LAST_DAY)) if last < calendar.today else None,
            self.path,
        )

    def _path(self, first: date, last: date) -> str:
        return f"{self.path}{'&' if '?' in self.path else '?'}from={first}&to={last}"


@dataclass(frozen=True)
class PagedRange(Range):
    """A range of days with a list, of which ``&cursor=`` is a later page."""

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the range, and check the cursor, which is no part of the period."""
        try:
            if "cursor" in parts:
                parse_cursor(parts["cursor"])
        except ValueError as error:
            raise Misaddressed(f"The part “cursor” of the address {error}.") from error
        return super().parse(parts)


def year_until(day: date) -> tuple[date, date]:
    """Return the first and the last day of the 365 days that end with a day."""
    return max(day - timedelta(days=364), FIRST_DAY), day


def _week_path(thursday: date) -> str | None:
    """Return the path of a week; None if it is not in the calendar."""
    return f"/week/{week_name(thursday)}" if _is_within(thursday) else None


def _within(day: date) -> date:
    """Return a Thursday whose week is in the calendar. Raises Misaddressed."""
    if not _is_within(day):
        raise Misaddressed(f"It must lie between {FIRST_DAY} and {LAST_DAY}.")
    return day


def _is_within(thursday: date) -> bool:
    """Tell whether the week of a Thursday is in the calendar, and the week before it."""
    return FIRST_DAY + timedelta(days=14) <= thursday <= LAST_DAY - timedelta(days=7)
