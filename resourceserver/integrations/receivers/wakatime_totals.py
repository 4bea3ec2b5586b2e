"""What editors and widgets read of WakaTime's interface: coding time of the last two weeks.

The numbers are those of ``/api/v1/analytics/coding``, by its own statement; so they cover all coding
sessions of the person, whichever way these came. A person allows it for a connection when its key is created.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from resourceserver.api.errors import Problem
from resourceserver.api.session import Reader
from resourceserver.endpoints import coding
from resourceserver.integrations.receivers import reading
from resourceserver.integrations.receivers.receiving import Opened
from shared import pipeline

SCOPE: Final = "read:activity"
DAYS: Final = 14
"""The days that can be read: today and those before it."""

MOST_HEARTBEATS: Final = 20_000
"""The most beats of an answer: editors send some thousand a day, and nothing limits what a key may send."""

_CODING: Final = pipeline.statement(coding.SQL["coding"])
_HEARTBEATS: Final = pipeline.load(Path(__file__).with_name("wakatime_totals.sql"))["heartbeats"]
_RANGES: Final = {
    "today": (0, 0),
    "yesterday": (1, 1),
    "last 7 days": (6, 0),
    "last 7 days from yesterday": (7, 1),
    "last 14 days": (13, 0),
}
"""The first and the last day of a range, in days before today."""


class InvalidRange(Problem):
    """only the last 14 days can be read; give start and end as YYYY-MM-DD"""

    status = 400
    code = "invalid_parameter"


@dataclass(frozen=True)
class Days:
    """Local days of a person, the last one included."""

    first: date
    last: date
    zone: ZoneInfo

    def all(self) -> list[date]:
        """Return each day."""
        return [
            self.first + timedelta(number) for number in range((self.last - self.first).days + 1)
        ]

    @property
    def edges(self) -> tuple[datetime, datetime]:
        """When the first day begins and the last one ends."""
        return self.start(self.first), self.start(self.last + timedelta(1))

    def start(self, day: date) -> datetime:
        """Return the first instant of a day: midnight, or the end of the gap in which it would be."""
        return datetime(day.year, day.month, day.day, tzinfo=self.zone).astimezone(UTC)


def named_range(name: str, today: date, zone: ZoneInfo) -> Days:
    """Return the days of a range such as ``last_7_days``; of a longer one, those that can be read."""
    first, last = _RANGES.get(name.lower().replace("_", " "), (DAYS - 1, 0))
    return Days(today - timedelta(first), today - timedelta(last), zone)


def days_between(start: str, end: str, today: date, zone: ZoneInfo) -> Days:
    """Return the days from ``start`` to ``end``, which may be words as well. Raises InvalidRange."""
    words = {"today": today, "yesterday": today - timedelta(1)}
    try:
        first, last = (words.get(each) or date.fromisoformat(each[:10]) for each in (start, end))
    except ValueError as error:
        raise InvalidRange from error
    oldest = today - timedelta(DAYS - 1)
    if not oldest <= first <= last or (last - first).days >= DAYS + 1:
        raise InvalidRange
    return Days(first, last, zone)


@dataclass(frozen=True)
class Totals:
    """The coding time of a person, read with the key of a connection."""

    reader: Reader
    opened: Opened
    now: datetime

    @property
    def today(self) -> date:
        """The local day."""
        return self.now.astimezone(self.opened.zone).date()

    async def status_bar(self) -> dict[str, Any]:
        """Return the coding time of today."""
        today = Days(self.today, self.today, self.opened.zone)
        return {
            "cached_at": _instant(self.now),
            "data": _summary(today, await self._coding(today)),
            "has_team_features": False,
        }

    async def summaries(self, days: Days) -> dict[str, Any]:
        """Return the coding time of each day."""
        each = [Days(day, day, days.zone) for day in days.all()]
        found = [await self._coding(day) for day in each]
        totals_ms = [one["totals"]["coding_ms"] for one in found]
        return {
            "data": [_summary(day, one) for day, one in zip(each, found, strict=True)],
            "cumulative_total": _time(sum(totals_ms)) | {"seconds": sum(totals_ms) / 1000},
            "daily_average": _average(totals_ms),
            "start": _instant(days.edges[0]),
            "end": _instant(days.edges[1]),
        }

    async def stats(self, name: str) -> dict[str, Any]:
        """Return the coding time of a range; of one longer than ``DAYS``, of its days that can be read."""
        days = named_range(name, self.today, self.opened.zone)
        whole = await self._coding(days)
        each = [Days(day, day, days.zone) for day in days.all()]
        per_day = {str(day.first): (await self._coding(day))["totals"]["coding_ms"] for day in each}
        total_ms = whole["totals"]["coding_ms"]
        best, best_ms = max(per_day.items(), key=lambda item: item[1])
        average = _average(list(per_day.values()))
        return {
            "data": _parts(whole)
            | {
                "total_seconds": total_ms / 1000,
                "human_readable_total": _words(total_ms),
                "daily_average": average["seconds"],
                "human_readable_daily_average": average["text"],
                "days_including_holidays": average["days_including_holidays"],
                "days_minus_holidays": average["days_minus_holidays"],
                "holidays": average["holidays"],
                "best_day": {
                    "date": best,
                    "total_seconds": best_ms / 1000,
                    "text": _words(best_ms),
                }
                if best_ms
                else None,
                "range": name,
                "start": _instant(days.edges[0]),
                "end": _instant(days.edges[1]),
                "timezone": days.zone.key,
                "status": "ok",
                "percent_calculated": 100,
                "is_up_to_date": True,
                "is_already_updating": False,
                "is_stuck": False,
            }
        }

    async def since_today(self) -> dict[str, Any]:
        """Return the sum of all days that can be read."""
        days = named_range("", self.today, self.opened.zone)
        total_ms = (await self._coding(days))["totals"]["coding_ms"]
        return {
            "data": _time(total_ms)
            | {
                "is_up_to_date": True,
                "percent_calculated": 100,
                "range": {
                    "start": _instant(days.edges[0]),
                    "start_date": str(days.first),
                    "end": _instant(days.edges[1]),
                    "end_date": str(days.last),
                    "timezone": days.zone.key,
                },
            }
        }

    async def projects(self) -> dict[str, Any]:
        """Return the projects, the one with the most time first."""
        days = named_range("", self.today, self.opened.zone)
        found = (await self._coding(days))["data"]["projects"]
        return {
            "data": [
                {
                    "id": each["project"],
                    "name": each["project"],
                    "last_heartbeat_at": each["last_coded_at"],
                    "human_readable_last_heartbeat_at": each["last_coded_at"],
                }
                for each in found
            ],
            "total": len(found),
            "total_pages": 1,
            "page": 1,
        }

    async def heartbeats(self, days: Days) -> dict[str, Any]:
        """Return the first ``MOST_HEARTBEATS`` beats that came through the connection."""
        start, end = days.edges
        values = {
            "from": start,
            "to": end,
            "import_id": self.opened.import_id,
            "most": MOST_HEARTBEATS,
        }
        found = await reading.read(self.reader, self.opened, SCOPE, _HEARTBEATS, values)
        return {
            "data": json.loads(found),
            "start": _instant(start),
            "end": _instant(end),
            "timezone": days.zone.key,
        }

    async def _coding(self, days: Days) -> Any:
        """Return the answer of the API about coding in these days."""
        start, end = days.edges
        values = {"from": start, "to": end}
        return json.loads(await reading.read(self.reader, self.opened, SCOPE, _CODING, values))


def _summary(day: Days, coded: Any) -> dict[str, Any]:
    """Return the coding time of one day."""
    start, end = day.edges
    return _parts(coded) | {
        "grand_total": _time(coded["totals"]["coding_ms"]),
        "range": {
            "date": str(day.first),
            "start": _instant(start),
            "end": _instant(end),
            "text": f"{day.first:%a %b %d %Y}",
            "timezone": day.zone.key,
        },
    }


def _parts(coded: Any) -> dict[str, Any]:
    """Return lists of what the time was spent on; those that the API has no sums for are empty."""
    total_ms = coded["totals"]["coding_ms"]
    category = [{"name": "Coding", "total_ms": total_ms, "percent": 100}] if total_ms else []
    return {
        "categories": [_part(each["name"], each) for each in category],
        "projects": [_part(each["project"], each) for each in coded["data"]["projects"]],
        "languages": [_part(each["language"], each) for each in coded["data"]["languages"]],
        **{name: [] for name in ("dependencies", "editors", "machines", "operating_systems")},
    }


def _part(name: str, row: Any) -> dict[str, Any]:
    total_ms = row["total_ms"]
    return _time(total_ms) | {
        "name": name,
        "percent": row["percent"] or 0,
        "seconds": total_ms // 1000 % 60,
        "digital": f"{total_ms // 3_600_000}:{total_ms // 60_000 % 60:02}:{total_ms // 1000 % 60:02}",
    }


def _time(total_ms: int) -> dict[str, Any]:
    """Return a duration in all the ways in which it is shown."""
    hours, minutes = divmod(total_ms // 60_000, 60)
    return {
        "total_seconds": total_ms / 1000,
        "hours": hours,
        "minutes": minutes,
        "digital": f"{hours}:{minutes:02}",
        "decimal": f"{total_ms / 3_600_000:.2f}",
        "text": _words(total_ms),
    }


def _words(total_ms: int) -> str:
    hours, minutes = divmod(total_ms // 60_000, 60)
    if not hours and not minutes:
        return _counted(total_ms // 1000, "sec")
    parts = [(hours, "hr"), (minutes, "min")]
    return " ".join(_counted(count, unit) for count, unit in parts if count)


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _average(totals_ms: Sequence[int]) -> dict[str, Any]:
    """Return the average of the days with coding time."""
    active = sum(1 for each in totals_ms if each)
    average_ms = sum(totals_ms) // active if active else 0
    return {
        "seconds": average_ms / 1000,
        "text": _words(average_ms),
        "days_including_holidays": len(totals_ms),
        "days_minus_holidays": active,
        "holidays": len(totals_ms) - active,
    }


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
