"""A slow model of the invented life: rows from lists of the REST API, and sums of them in Python."""

import json
import re
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from tests.mcp.assistant import Assistant


def _zone() -> ZoneInfo:
    """Return a zone with summer time in which the current day lasts at least another three hours.

    A run over midnight would have questions and answers about different days.
    """
    berlin = ZoneInfo("Europe/Berlin")
    return berlin if datetime.now(berlin).hour < 21 else ZoneInfo("America/Los_Angeles")


ZONE: Final = _zone()
TODAY: Final = datetime.now(ZONE).date()
DAYS: Final = 70
"""The length of the life in days; today is the last one."""
_MS: Final = timedelta(milliseconds=1)

Row = dict[str, Any]
Days = tuple[date, date]
"""The first and the last day of a range."""


class Piece(NamedTuple):
    """A stretch of time that one session owns."""

    start: datetime
    end: datetime
    row: Row

    @property
    def ms(self) -> int:
        """Its length."""
        return (self.end - self.start) // _MS


@dataclass
class Life:
    """The rows of one person, each list read once."""

    assistant: Assistant
    lists: dict[str, list[Row]] = field(default_factory=dict)
    timelines: dict[str, list[Piece]] = field(default_factory=dict)

    # Days

    @property
    def today(self) -> date:
        """The current day, the same one during a whole run."""
        return TODAY

    def ago(self, days: int) -> date:
        """Return the day that was so many days before today."""
        return self.today - timedelta(days=days)

    def last(self, days: int) -> Days:
        """Return so many days that end today."""
        return self.ago(days - 1), self.today

    def next(self, days: int) -> Days:
        """Return so many days that begin tomorrow."""
        return self.today + timedelta(days=1), self.today + timedelta(days=days)

    @property
    def yesterday(self) -> Days:
        """The day before today."""
        return self.ago(1), self.ago(1)

    def week(self, before: int = 0) -> Days:
        """Return the days from Monday to Sunday of this week, or of one before."""
        monday = self.ago(self.today.weekday() + 7 * before)
        return monday, monday + timedelta(days=6)

    def month(self, before: int = 0) -> Days:
        """Return the days of this month, or of one before."""
        months = self.today.year * 12 + self.today.month - 1 - before
        return _first_of(months), _first_of(months + 1) - timedelta(days=1)

    def quarter(self, before: int = 0) -> Days:
        """Return the days of this quarter, or of one before."""
        months = self.today.year * 12 + (self.today.month - 1) // 3 * 3 - 3 * before
        return _first_of(months), _first_of(months + 3) - timedelta(days=1)

    @property
    def all(self) -> Days:
        """All days of the life."""
        return self.last(DAYS)

    def past(self, days: Days) -> list[date]:
        """Return those of these days that have begun, in order."""
        each = (days[0] + timedelta(days=n) for n in range((days[1] - days[0]).days + 1))
        return [day for day in each if day <= self.today]

    def hours(self, day: date, first: int, last: int) -> tuple[datetime, datetime]:
        """Return the instants of two hours of a day."""
        return midnight(day).replace(hour=first), midnight(day).replace(hour=last)

    def weekend(self, before: int = 1) -> Days:
        """Return Saturday and Sunday of the last week, or of one before."""
        monday, sunday = self.week(before)
        return monday + timedelta(days=5), sunday

    # Rows

    def rows(self, path: str, at: str, days: Days | None = None) -> list[Row]:
        """Return the rows of a list whose time ``at`` is on one of the days, the newest first."""
        if path not in self.lists:
            self.lists[path] = list(self._read(path))
        start, end = edges(days or self.all)
        return [row for row in self.lists[path] if start <= instant(row[at]) < end]

    def overlapping(self, path: str, days: Days) -> list[Row]:
        """Return the rows of a list of sessions that overlap the days."""
        start, end = edges(days)
        wide = days[0] - timedelta(days=2), days[1]
        return [row for row in self.rows(path, "started_at", wide) if _overlaps(row, start, end)]

    def _read(self, path: str) -> Iterator[Row]:
        start, end = self.ago(DAYS + 5), self.today + timedelta(days=15)
        given = {"from": str(start), "to": str(end)}
        if path.startswith("health/recovery"):
            yield from self.get(path, **given | {"to": str(self.today)})["data"]
            return
        begin, until = edges((start, end))
        given = {"from": begin.isoformat(), "to": until.isoformat()}
        if path in ("recordings", "insights"):
            given = {}
        cursor: dict[str, str] = {}
        while True:
            page = self.get(path, **given, **cursor, limit="1000")
            yield from page["data"]
            if not page.get("next_cursor"):
                return
            cursor = {"cursor": page["next_cursor"]}

    def get(self, path: str, **given: str) -> Any:
        """Return an answer of the REST API."""
        path, _, query = path.partition("?")
        more = dict(pair.split("=") for pair in query.split("&") if pair)
        headers = self.assistant.headers
        response = self.assistant.client.get(
            f"/api/v1/{path}", params=given | more, headers=headers
        )
        assert response.status_code == 200, response.text
        return response.json()

    # Time that sessions own

    def pieces(self, kind: Literal["apps", "coding"], days: Days) -> Iterator[Piece]:
        """Yield the owned time of these days in order, clipped to them."""
        yield from self.between(kind, *edges(days))

    def between(
        self, kind: Literal["apps", "coding"], start: datetime, end: datetime
    ) -> Iterator[Piece]:
        """Yield the owned time between two instants in order, clipped to them."""
        if kind not in self.timelines:
            every = self.rows(f"sessions/{kind}", "started_at", (self.ago(DAYS + 1), self.today))
            self.timelines[kind] = owned(row for row in every if not row.get("idle"))
        timeline = self.timelines[kind]
        # A session takes at most a day.
        first = bisect_left(timeline, start - timedelta(days=1), key=_start)
        last = bisect_left(timeline, end, key=_start)
        for piece in timeline[first:last]:
            if start < piece.end:
                yield Piece(max(piece.start, start), min(piece.end, end), piece.row)

    def spent(
        self, kind: Literal["apps", "coding"], days: Days, by: Callable[[Row], Any]
    ) -> Counter[Any]:
        """Return the owned time by a property of sessions."""
        times: Counter[Any] = Counter()
        for piece in self.pieces(kind, days):
            times[by(piece.row)] += piece.ms
        return times

    def tracked(self, days: Days) -> int:
        """Return the time in applications."""
        return sum(piece.ms for piece in self.pieces("apps", days))

    def coded(self, days: Days) -> int:
        """Return the coding time."""
        return sum(piece.ms for piece in self.pieces("coding", days))

    def how(self, productivity: str, days: Days) -> int:
        """Return the productive, neutral or distracting time."""
        return self.spent("apps", days, productive)[productivity]

    def by_hour(self, days: Days, how: str | None = None) -> Counter[int]:
        """Return the time in applications by the local hour of the day."""
        times: Counter[int] = Counter()
        for piece in self.pieces("apps", days):
            if how not in (None, productive(piece.row)):
                continue
            for start, end in pairwise(_cut(piece.start, piece.end)):
                times[start.astimezone(ZONE).hour] += (end - start) // _MS
        return times

    # Other sums

    def streaks(self, days: Days) -> list[Row]:
        """Return the streaks of focus that overlap the days."""
        return self.overlapping("analytics/focus-streaks", days)

    def samples(self, metric: str, days: Days) -> list[Row]:
        """Return the readings of a metric that overlap the days."""
        return self.overlapping(f"health/samples?metric_type={metric}", days)

    def sum_of(self, metric: str, days: Days) -> float:
        """Return the sum of a metric, of which the watch has readings whenever the phone has some.

        A reading is divided at midnight by its length.
        """
        start, end = edges(days)
        total = 0.0
        for row in self.samples(metric, days):
            if row["source"]["name"] != "Watch":
                continue
            first, last = instant(row["started_at"]), instant(row["ended_at"])
            share = (min(last, end) - max(first, start)) / (last - first)
            total += row["value"] * share
        return total

    def pulse(self, days: Days) -> list[int]:
        """Return all readings of the heart rate."""
        return [row["bpm"] for row in self.rows("health/heart-rate", "recorded_at", days)]

    def nights(self, days: Days) -> list[Row]:
        """Return the days on which a main sleep ended, in order."""
        rows = self.lists.setdefault("health/recovery", [])
        rows += self._read("health/recovery") if not rows else ()
        found = [row for row in rows if row["sleep"] and row["sleep"]["started_at"]]
        return [row for row in found if str(days[0]) <= row["date"] <= str(days[1])]

    def meetings(self, days: Days) -> list[Row]:
        """Return the events that count as meetings, in order."""
        start, end = edges(days)
        wide = days[0] - timedelta(days=2), days[1]
        events = self.rows("calendar/events", "starts_at", wide)
        return [
            event
            for event in reversed(events)
            if (event["status"], event["response"]) == ("confirmed", "accepted")
            and not event["all_day"]
            and instant(event["ends_at"]) > start
            and instant(event["starts_at"]) < end
        ]

    def met(self, days: Days) -> int:
        """Return the time in meetings; where two overlap, it counts once."""
        start, end = edges(days)
        total, until = timedelta(), start
        for event in sorted(self.meetings(days), key=lambda each: instant(each["starts_at"])):
            begin = max(instant(event["starts_at"]), until)
            until = max(until, min(instant(event["ends_at"]), end))
            total += max(until - begin, timedelta())
        return total // _MS

    def visits(self, days: Days) -> list[Row]:
        """Return stays and check-ins that were not declined, the newest first.

        A stay that began before the days counts where it lasts into them.
        """
        start, end = edges(days)
        return [
            event
            for event in self.rows("locations/events", "started_at")
            if event["status"] != "declined"
            and instant(event["started_at"]) < end
            and (
                instant(event["started_at"]) >= start
                or (event["ended_at"] is not None and instant(event["ended_at"]) > start)
            )
        ]


def owned(rows: Iterable[Row]) -> list[Piece]:
    """Return the owner of each stretch of time: the session that started last.

    Sessions are painted over each other in the order of their starts.
    """
    # Of two that start at once, the one on the first device by name is painted last.
    by_device = sorted(rows, key=lambda row: row["device"]["name"], reverse=True)
    painted: list[Piece] = []
    for row in sorted(by_device, key=lambda row: instant(row["started_at"])):
        new = Piece(instant(row["started_at"]), instant(row["ended_at"]), row)
        kept = []
        while painted and painted[-1].end > new.start:
            old = painted.pop()
            if old.end > new.end:
                kept.append(Piece(max(old.start, new.end), old.end, old.row))
            if old.start < new.start:
                painted.append(Piece(old.start, new.start, old.row))
        painted += [new] if new.ms else []
        painted += reversed(kept)
    return painted


def _start(piece: Piece) -> datetime:
    return piece.start


@cache
def instant(text: str) -> datetime:
    """Return the instant of a text."""
    return datetime.fromisoformat(text)


def midnight(day: date) -> datetime:
    """Return the start of a day."""
    return datetime.combine(day, time(), ZONE)


def edges(days: Days) -> tuple[datetime, datetime]:
    """Return the instants at which these days begin and end."""
    return midnight(days[0]), midnight(days[1] + timedelta(days=1))


def at(day: date, clock: str) -> str:
    """Return a local time as a person writes it, without an offset."""
    return f"{day}T{clock}"


def local(text: str) -> str:
    """Return an instant in words, in the person's own time zone: ``Mon 2026-11-16 07:12``."""
    return f"{instant(text).astimezone(ZONE):%a %Y-%m-%d %H:%M}"


def clocks(answer: Any) -> list[str]:
    """Return all instants in words that an answer, or a part of it, has."""
    return re.findall(r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d", json.dumps(answer))


def usual_clock(instants: list[datetime]) -> str:
    """Return the median of local times of day; those after midnight come after those of the evening."""
    minutes = []
    for each in instants:
        clock = each.astimezone(ZONE).time()
        minutes.append((clock.hour * 60 + clock.minute - 720) % 1440)
    median = round(statistics.median(minutes)) + 720
    return f"{median // 60 % 24:02}:{median % 60:02}"


def productive(row: Row) -> Any:
    """Return how productive the category of a session is."""
    return row["productivity"]


def _overlaps(row: Row, start: datetime, end: datetime) -> bool:
    return instant(row["started_at"]) < end and instant(row["ended_at"]) > start


def _cut(start: datetime, end: datetime) -> list[datetime]:
    """Return the edges of a stretch of time and of the hours in it."""
    first = start.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    hours = [first + timedelta(hours=n) for n in range(48)]
    return [start, *(hour for hour in hours if hour < end), end]


def _first_of(months: int) -> date:
    return date(months // 12, months % 12 + 1, 1)
