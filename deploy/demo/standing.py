"""Rows that belong to no single day: goals, rules, connections, trips and weekly insights."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from random import Random
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from deploy.demo.days import HOUR, Life, Row
from shared.connections import KINDS, State

_FIRST_POSITION: Final = date(2000, 1, 1)
_MINUTES_MS: Final = 60_000
_HOURS_MS: Final = 3_600_000

_GOALS: Final[tuple[Row, ...]] = (
    {
        "title": "Three hours of code on weekdays",
        "metric": "coding_ms",
        "comparison": "at_least",
        "target": 3 * _HOURS_MS,
        "period": "day",
        "days_of_week": [1, 2, 3, 4, 5],
    },
    {
        "title": "No more than 75 minutes of distraction",
        "metric": "distracted_ms",
        "comparison": "at_most",
        "target": 75 * _MINUTES_MS,
        "period": "day",
    },
    {
        "title": "Twenty-five hours of focus a week",
        "metric": "focus_ms",
        "comparison": "at_least",
        "target": 25 * _HOURS_MS,
        "period": "week",
    },
    {
        "title": "Bring harbour forward every month",
        "metric": "coding_ms",
        "comparison": "at_least",
        "target": 30 * _HOURS_MS,
        "period": "month",
        "projects": ["harbour"],
    },
)

_RULES: Final = (
    ("title", "contains", "budget", "Business"),
    ("title", "regex", r"^(Gauge|Minutes) ", "Business"),
    ("app", "exact", "Camera", "Photography"),
    ("domain", "exact", "duckduckgo.com", "Reference"),
)
SCORES: Final = {"Photography": 1, "Utilities": -1}

FORMER_INTEGRATIONS: Final = ("github", "apple_health", "whoop", "listenbrainz", "trakt", "swarm")
"""The providers of the rows that earlier versions of the demo wrote in place of connections."""
_CONNECTIONS: Final[tuple[tuple[str, str, State, str | None], ...]] = (
    ("github", "GitHub", "live", None),
    ("calendar", "Work", "live", None),
    ("calendar", "Own", "failing", "timed_out"),
    ("listenbrainz_user", "ListenBrainz", "live", None),
    ("gitlab", "GitLab", "refused", "key_refused"),
    ("lastfm", "Last.fm", "paused", None),
)
"""Kind, name, state and problem of each connection. None of them is ever pulled."""


def goals(life: Life, rng: Random, since: datetime) -> Iterator[Row]:
    """Yield the person's goals."""
    empty = {
        "days_of_week": [1, 2, 3, 4, 5, 6, 7],
        "categories": [],
        "apps": [],
        "projects": [],
        "languages": [],
        "is_enabled": True,
    }
    for number, goal in enumerate(_GOALS):
        key = {"goal_id": life.row_id(rng), "created_at": since + number * HOUR}
        yield empty | goal | key


def category_rules(life: Life, rng: Random) -> Iterator[Row]:
    """Yield the person's category rules."""
    for priority, (field, match, pattern, category) in enumerate(_RULES, 1):
        yield {
            "category_rule_id": life.row_id(rng),
            "priority": priority,
            "field": field,
            "match": match,
            "pattern": pattern,
            "category": category,
        }


def category_scores() -> Iterator[Row]:
    """Yield the productivity scores that the person has set."""
    for category, score in SCORES.items():
        yield {"category": category, "score": score}


def connections(
    life: Life, rng: Random, since: datetime, until: datetime
) -> tuple[list[Row], list[Row], list[Row]]:
    """Return connections to other services, the import of each, and the only part of each import."""
    rows: list[Row] = []
    imports: list[Row] = []
    parts: list[Row] = []
    for number, (kind, name, state, problem) in enumerate(_CONNECTIONS):
        connection_id, import_id = life.row_id(rng), life.row_id(rng)
        began, last = since + number * HOUR, until - (number + 1) * HOUR
        paused_at = last if state == "paused" else None
        count = rng.randint(200, 5000)
        day = last.astimezone(UTC).date()
        rows.append(
            {
                "connection_id": connection_id,
                "kind": kind,
                "data": KINDS[kind].data,
                "name": name,
                "import_id": import_id,
                "created_at": began,
                "first_record_at": began,
                "last_record_at": last,
                "record_count": count,
                "problem": problem,
                "failing_since": None if problem is None else last,
                "is_refused": state == "refused",
                "paused_at": paused_at,
                "last_pull_at": last,
            }
        )
        imports.append(
            {
                "import_id": import_id,
                "file_name": name,
                "file_size": 0,
                "digest": sha256(connection_id.bytes).digest(),
                "status": "running",
                "connection_id": connection_id,
                "started_at": began,
            }
        )
        parts.append(
            {
                "import_id": import_id,
                "name": day.isoformat(),
                "position": (day - _FIRST_POSITION).days,
                "format": kind,
                "source": KINDS[kind].source,
                "kind": KINDS[kind].data,
                "records": count,
                "added": count,
                "first_at": began,
                "last_at": last,
                "is_finished": True,
            }
        )
    return rows, imports, parts


def whole_day_events(life: Life, rng: Random, calendar_id: UUID) -> Iterator[Row]:
    """Yield the trips as events of whole days, in the home time zone."""
    zone = ZoneInfo(life.home_zone)
    for begin, last in life.trips():
        end = last + timedelta(days=1)
        yield {
            "calendar_event_id": life.row_id(rng),
            "source": "caldav",
            "calendar_id": calendar_id,
            "title": "Away",
            "description": "Passport, charger, the good shoes",
            "location": None,
            "starts_at": datetime.combine(begin, time(), zone),
            "ends_at": datetime.combine(end, time(), zone),
            "start_date": begin,
            "end_date": end,
            "timezone": life.home_zone,
            "status": "confirmed",
            "response": None,
            "organizer_name": None,
            "organizer_is_self": True,
            "attendee_count": 0,
            "series_id": None,
            "conference_url": None,
            "updated_at": datetime.combine(begin, time(), zone) - 240 * HOUR,
        }


def insights(life: Life, coding_ms: Mapping[date, int]) -> Iterator[Row]:
    """Yield an insight for each whole week; ``coding_ms`` is the coding time by day."""
    rng = life.rng("insights")
    zone = ZoneInfo(life.home_zone)
    week = life.first + timedelta(days=-life.first.weekday() % 7)
    before: int | None = None
    while week + timedelta(days=6) <= life.last:
        last = week + timedelta(days=6)
        coded = sum(coding_ms.get(week + timedelta(days=number), 0) for number in range(7))
        change = round(100 * (coded - before) / before, 2) if before else None
        hours = round(coded / _HOURS_MS, 1)
        yield {
            "insight_id": life.row_id(rng),
            "week_start": week,
            "week_end": last,
            "tz": life.home_zone,
            "title": "A week of building" if hours > 8 else "A quiet week",
            "summary": f"You programmed for **{hours} hours** this week.",
            "highlights": json.dumps(
                [
                    {
                        "kind": "change",
                        "metric": "coding_ms",
                        "text": f"{hours} hours of code",
                        "value": coded,
                        "previous": before,
                        "change_percent": change,
                    }
                ]
            ),
            "model": None,
            "generated_at": datetime.combine(last + timedelta(days=1), time(6), zone),
        }
        before, week = coded, week + timedelta(days=7)
