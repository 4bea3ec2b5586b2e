"""The lists of rows that have an instant of their own, and how a row gets into each."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person


@dataclass(frozen=True)
class List:
    """A list, its limits, and a statement that puts a row of no length at %(at)s into it."""

    path: str
    scope: str
    default: int
    cap: int
    insert: LiteralString
    params: dict[str, str] = field(default_factory=dict)
    """Parameters besides the range."""
    is_of_a_range: bool = True
    """Whether from and to are required."""

    def put(self, owner: psycopg.Connection[Any], person: Person, at: datetime) -> str:
        """Return the id of a new row of ``person`` at ``at``."""
        row = owner.execute(self.insert, {"user_id": person.user_id, "at": at}).fetchone()
        assert row is not None
        assert isinstance(row[0], UUID)
        return str(row[0])

    def ask(self, api: TestClient, person: Person, **params: str) -> dict[str, Any]:
        """Return the answer for June 2025, or for the range in ``params``."""
        june = {"from": "2025-06-01T00:00:00Z", "to": "2025-07-01T00:00:00Z"}
        answer = api.get(
            self.path,
            params=(june if self.is_of_a_range else {}) | self.params | params,
            headers=person.headers(self.scope),
        )
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body


LISTS = {
    "codehost_activity": List(
        "/api/v1/codehost/activity",
        "read:code",
        50,
        500,
        """
        insert into code.event
               (user_id, provider, provider_key, type, action, occurred_at, repository)
        values (%(user_id)s, 'github', gen_random_uuid(), 'commit', 'pushed', %(at)s, 'me/svc')
        returning event_id
        """,
        is_of_a_range=False,
    ),
    "health_samples": List(
        "/api/v1/health/samples",
        "read:health",
        1000,
        10000,
        """
        with metric as (
            insert into health.metric (user_id, metric_type, unit, aggregation)
            values (%(user_id)s, 'weight', 'kg', 'avg')
            on conflict do nothing
        ),
        source as (
            insert into health.source as known (user_id, provider, name)
            values (%(user_id)s, 'apple_health', 'Scale')
            on conflict (user_id, provider, name, device) do update set name = known.name
            returning source_id
        )
        insert into health.sample (user_id, metric_type, source_id, started_at, ended_at, value)
        select %(user_id)s, 'weight', source_id, %(at)s, %(at)s, 70
          from source
        returning sample_id
        """,
        params={"metric_type": "weight"},
    ),
    "heart_rate": List(
        "/api/v1/health/heart-rate",
        "read:health",
        1000,
        10000,
        """
        insert into health.heart_rate (user_id, recorded_at, bpm)
        values (%(user_id)s, %(at)s, 60)
        returning heart_rate_id
        """,
    ),
    "heart_rate_as_samples": List(
        "/api/v1/health/samples",
        "read:health",
        1000,
        10000,
        """
        insert into health.heart_rate (user_id, recorded_at, bpm)
        values (%(user_id)s, %(at)s, 60)
        returning heart_rate_id
        """,
        params={"metric_type": "heart_rate"},
    ),
    "music_history": List(
        "/api/v1/music/history",
        "read:music",
        100,
        1000,
        """
        insert into music.listen (user_id, listened_at, track, artist, source)
        values (%(user_id)s, %(at)s, 'Andromeda', 'Gorillaz', 'spotify')
        returning listen_id
        """,
    ),
    "locations": List(
        "/api/v1/locations",
        "read:location",
        1000,
        10000,
        """
        insert into location.point (user_id, recorded_at, latitude, longitude, source)
        values (%(user_id)s, %(at)s, 52.37, 4.89, 'owntracks')
        returning point_id
        """,
    ),
    "location_events": List(
        "/api/v1/locations/events",
        "read:location",
        100,
        1000,
        """
        with place as (
            insert into location.place (user_id, name)
            values (%(user_id)s, 'Café X')
            returning place_id
        )
        insert into location.event (user_id, type, status, started_at, place_id, source)
        select %(user_id)s, 'check_in', 'confirmed', %(at)s, place_id, 'swarm'
          from place
        returning event_id
        """,
    ),
    "recordings": List(
        "/api/v1/recordings",
        "read:content",
        20,
        200,
        """
        insert into content.recording (user_id, recorded_at, duration_ms, source)
        values (%(user_id)s, %(at)s, 1000, 'phone')
        returning recording_id
        """,
        is_of_a_range=False,
    ),
    "insights": List(
        "/api/v1/insights",
        "read:content",
        12,
        104,
        """
        insert into content.insight
               (user_id, week_start, week_end, tz, title, summary, generated_at)
        select %(user_id)s, monday, monday + 6, 'UTC', 'A week', '', '2025-07-01 00:00:00+00'
          from (select (%(at)s at time zone 'UTC')::date) as week (monday)
        returning insight_id
        """,
        is_of_a_range=False,
    ),
    "calendar_events": List(
        "/api/v1/calendar/events",
        "read:content",
        250,
        2500,
        """
        with calendar as (
            insert into content.calendar (user_id, name, provider)
            values (%(user_id)s, 'Work', 'google')
            returning calendar_id
        )
        insert into content.calendar_event (user_id, calendar_id, starts_at, ends_at, status)
        select %(user_id)s, calendar_id, %(at)s, %(at)s, 'confirmed'
          from calendar
        returning calendar_event_id
        """,
    ),
}
