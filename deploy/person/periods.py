"""Days, weeks and spans of days that a person names, in the time zone of the profile."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

_WEEK: Final = re.compile(r"(\d{4})-?[Ww](\d\d)", re.ASCII)
_SPAN: Final = re.compile(r"(\d{1,4})([dw])", re.ASCII)
_DAYS: Final = {"d": 1, "w": 7}
_MOST_DAYS: Final = 3700


@dataclass(frozen=True)
class Period:
    """Calendar days in a zone, both ends included."""

    first: date
    last: date
    zone: ZoneInfo

    @property
    def days(self) -> dict[str, str]:
        """The parameters of an endpoint for calendar days."""
        return {"from": str(self.first), "to": str(self.last), "tz": self.zone.key}

    @property
    def instants(self) -> dict[str, str]:
        """The parameters of an endpoint for instants: from the first midnight to the one after the last."""
        return {
            "from": self._midnight(self.first),
            "to": self._midnight(self.last + timedelta(days=1)),
        }

    def _midnight(self, day: date) -> str:
        """Return the first instant of a day. Where a clock skips midnight, it is the end of the gap."""
        at = datetime.combine(day, time(), self.zone).astimezone(UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def clock(self, instant: str | None) -> str:
        """Return the local time of an instant of the API, or a dash for none."""
        if instant is None:
            return "-"
        return f"{datetime.fromisoformat(instant).astimezone(self.zone):%H:%M}"


def zone(name: str) -> ZoneInfo:
    """Return a time zone. Raises ClickException if this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise click.ClickException(f"{name!r} is not a time zone such as Europe/Berlin") from error


def today(where: ZoneInfo) -> date:
    """Return the current day in a zone."""
    return datetime.now(where).date()


def this_day(where: ZoneInfo) -> Period:
    """Return the current day."""
    day = today(where)
    return Period(day, day, where)


def week(text: str | None, where: ZoneInfo) -> Period:
    """Return an ISO week by its name, or the current one. Its name was checked by ``week_name``."""
    year, number, _ = today(where).isocalendar()
    if text is not None and (match := _WEEK.fullmatch(text)):
        year, number = int(match[1]), int(match[2])
    monday = date.fromisocalendar(year, number, 1)
    return Period(monday, monday + timedelta(days=6), where)


def last(days: int, where: ZoneInfo) -> Period:
    """Return so many days, the current one included."""
    day = today(where)
    return Period(day - timedelta(days=days - 1), day, where)


def week_name(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Return the name of a week unchanged. Raises BadParameter if there is no such week."""
    if text is None:
        return None
    match = _WEEK.fullmatch(text)
    try:
        if match is not None:
            date.fromisocalendar(int(match[1]), int(match[2]), 7)
            return text
    except ValueError:
        pass
    raise click.BadParameter(f"{text!r} is not a week such as 2026-W47")


def span(_: click.Context, __: click.Parameter, text: str) -> int:
    """Return the number of days of a span. Raises BadParameter."""
    match = _SPAN.fullmatch(text)
    days = int(match[1]) * _DAYS[match[2]] if match else 0
    if not 1 <= days <= _MOST_DAYS:
        raise click.BadParameter(
            f"{text!r} is not a span such as 7d or 4w, of {_MOST_DAYS} days at most"
        )
    return days
