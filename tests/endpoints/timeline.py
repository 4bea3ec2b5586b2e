"""A slow and simple model of the owners of time (contract: the latest start wins), and of local time.

All times are whole milliseconds since EPOCH.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from itertools import groupby, pairwise
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

EPOCH = datetime(2025, 6, 16, tzinfo=UTC)

SCORES = {"Development": 2, "Reference": 1, "Communication": 0, "News": -1, "Games": -2}
"""The service's scores of some categories; any other scores 0."""


@dataclass(frozen=True)
class Session:
    """One app session."""

    key: str
    device: str
    app: str
    started: int
    ended: int
    idle: bool = False
    category: str = "Uncategorized"
    title: str | None = None
    domain: str | None = None
    own_score: int | None = None
    """The score of its category that its owner has set."""

    @property
    def score(self) -> int:
        """The score of its category."""
        return SCORES.get(self.category, 0) if self.own_score is None else self.own_score

    def rank(self) -> tuple[bytes, ...]:
        """Return the sort key of sessions that start at once: the smallest owns the time."""
        return self.device.encode(), self.app.encode(), self.key.encode()


@dataclass(frozen=True)
class CodingSession:
    """One coding session."""

    key: str
    device: str
    project: str
    language: str | None
    file: str | None
    started: int
    ended: int
    added: int | None = None
    removed: int | None = None
    idle: bool = False

    def rank(self) -> tuple[bytes, ...]:
        """Return the sort key of sessions that start at once: the smallest owns the time."""
        names = self.device, self.project, self.language or "", self.file or "", self.key
        return tuple(name.encode() for name in names)


S = TypeVar("S", Session, CodingSession)


def owner(sessions: Sequence[S], at: int) -> S | None:
    """Return the session that owns the millisecond that begins at ``at``."""
    running = [s for s in sessions if not s.idle and s.started <= at < s.ended]
    if not running:
        return None
    latest = max(s.started for s in running)
    return min((s for s in running if s.started == latest), key=lambda s: s.rank())


def segments(sessions: Sequence[S], start: int, end: int) -> list[tuple[int, int, S]]:
    """Return (from, to, owner) for the owned time between ``start`` and ``end``, in order.

    Between two neighbouring edges nothing begins or ends, so one look at each such stretch is enough for all
    of its milliseconds.
    """
    edges = {start, end} | {s.started for s in sessions} | {s.ended for s in sessions}
    inside = sorted(edge for edge in edges if start <= edge <= end)
    owned = []
    for left, right in pairwise(inside):
        session = owner(sessions, left)
        if session is not None:
            owned.append((left, right, session))
    return owned


def owned_ms(sessions: Sequence[S], start: int, end: int) -> dict[S, int]:
    """Return how long each session owns the time between ``start`` and ``end``."""
    owned: dict[S, int] = defaultdict(int)
    for left, right, session in segments(sessions, start, end):
        owned[session] += right - left
    return owned


def counted(sessions: Sequence[S], start: int, end: int) -> list[S]:
    """Return the sessions that count in the half-open range, including those that own nothing of it."""
    return [
        s
        for s in sessions
        if not s.idle
        and start < end
        and s.started < end
        and (s.ended > start or (s.started == s.ended and s.started >= start))
    ]


@dataclass(frozen=True)
class Span:
    """A day or an hour of local time."""

    date: date
    start: int
    end: int
    hour: int = 0
    utc_offset: str = ""


def since_epoch(text: str) -> int:
    """Return the instant that ``text`` names."""
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


def instant(milliseconds: int) -> str:
    """Return an instant in the form of answers."""
    at = EPOCH + timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def _minutes(first: date, last: date, zone: str) -> list[tuple[int, datetime]]:
    """Return every minute that may lie on these days, with its local time."""
    midnight = datetime(first.year, first.month, first.day, tzinfo=UTC) - timedelta(hours=24)
    begin = (midnight - EPOCH) // timedelta(milliseconds=1)
    tz = ZoneInfo(zone)
    return [
        (at, (EPOCH + timedelta(milliseconds=at)).astimezone(tz))
        for at in range(begin, begin + ((last - first).days + 3) * 86_400_000, 60_000)
    ]


@cache
def days(first: date, last: date, zone: str) -> list[Span]:
    """Return the days, each from its first minute to that of the next; a skipped one has no length."""
    minutes = _minutes(first, last + timedelta(days=1), zone)
    dates = [first + timedelta(days=n) for n in range((last - first).days + 2)]
    starts = [
        (
            [at for at, local in minutes if local.date() == day]
            or [at for at, local in minutes if local.date() > day]
        )[0]
        for day in dates
    ]
    return [Span(dates[n], start, end) for n, (start, end) in enumerate(pairwise(starts))]


@cache
def hours(first: date, last: date, zone: str) -> list[Span]:
    """Return the hours of these days: minutes that share date, hour and offset."""
    spans = []
    for (day, hour, offset), group in groupby(
        _minutes(first, last, zone),
        # The date, the hour and the offset.
        key=lambda minute: (minute[1].date(), minute[1].hour, minute[1].isoformat()[19:]),
    ):
        minutes = list(group)
        if first <= day <= last:
            spans.append(Span(day, minutes[0][0], minutes[-1][0] + 60_000, hour, offset))
    return spans


def touched(start: int, end: int, zone: str) -> list[Span]:
    """Return the days that overlap a range, clipped to it; one that the zone skipped has no length."""
    tz = ZoneInfo(zone)
    first, last = (
        (EPOCH + timedelta(milliseconds=at)).astimezone(tz).date() for at in (start, end)
    )
    cut = [
        Span(day.date, max(day.start, start), min(day.end, end))
        for day in days(first, last + timedelta(days=1), zone)
    ]
    return [day for day in cut if day.start < day.end or start < day.start == day.end < end]


def rounded(part: int, whole: int, decimals: str = "1") -> Decimal:
    """Return ``part / whole`` rounded half up to as many decimals as ``decimals`` has."""
    return (Decimal(part) / whole).quantize(Decimal(decimals), ROUND_HALF_UP)


def percent(part: int, whole: int) -> float | None:
    """Return a share in the form of answers."""
    return float(rounded(100 * part, whole, "0.01")) if whole else None


def average(total: int, count: int) -> int | None:
    """Return an average in the form of answers."""
    return int(rounded(total, count)) if count else None


def productivity(score: int) -> str:
    """Return the productivity of a category's score."""
    return "productive" if score >= 1 else "distracting" if score <= -1 else "neutral"


def per_category(sessions: Sequence[Session], start: int, end: int) -> list[dict[str, Any]]:
    """Return one row per category, longest first, without its share."""
    owned = owned_ms(sessions, start, end)
    present = counted(sessions, start, end)
    scores = {s.category: s.score for s in present}
    rows = [
        {
            "category": category,
            "productivity": productivity(score),
            "score": score,
            "total_ms": sum(owned.get(s, 0) for s in present if s.category == category),
            "app_count": len({s.app for s in present if s.category == category}),
            "session_count": len([s for s in present if s.category == category]),
        }
        for category, score in scores.items()
    ]
    return sorted(rows, key=lambda row: (-row["total_ms"], row["category"].encode()))


def by_productivity(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Return the sums of ``per_category`` by the productivity of the categories."""
    names = {"productive": "productive_ms", "neutral": "neutral_ms", "distracting": "distracted_ms"}
    return {
        name: sum(row["total_ms"] for row in rows if row["productivity"] == kind)
        for kind, name in names.items()
    }
