"""Rows that belong to no single day: goals, rules, integrations, trips and weekly insights."""

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from random import Random
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from deploy.demo.days import HOUR, Life, Row

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

"""The first bytes of every invented secret."""

INTEGRATIONS: Final = (
    ("github", "code", "active", None),
    ("apple_health", "health", "active", None),
    ("whoop", "health", "expired", "token_expired"),
    ("listenbrainz", "music", "active", None),
    ("trakt", "content", "error", "rate_limited"),
    ("swarm", "location", "disconnected", None),
)


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


def integrations(since: datetime, until: datetime) -> Iterator[Row]:
    """Yield present and past connections to other services."""
    for number, (provider, kind, status, error) in enumerate(INTEGRATIONS):
        yield {
            "provider": provider,
            "kind": kind,
            "status": status,
            "connected_at": since + number * HOUR,
            "last_sync_at": until - (number + 1) * HOUR,
            "last_error": error,
        }


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
