"""A day that has too much of everything, with the longest names that are accepted."""

import asyncio
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import psycopg

from deploy.demo import command
from resourceserver.timeline import rollups, rounds, summaries
from shared import database
from shared.settings import Settings

_ODD: Final = (
    "\u05e9" * 255,
    "\u200b" * 255,
    "W" * 255,
    "\u202eabc" * 63,
    "<script>alert(1)</script>",
)
"""Right-to-left, invisible, unbreakable and reversing names, and one that looks like HTML."""
_LONG: Final = ("\u05e9" * 1024, "\u200b" * 1024, "W" * 1024, "\u202eabc" * 256, "\u0301" * 1024)
"""The same as titles; the last one has accents without a letter."""

_STATEMENTS: Final = (
    """
    insert into activity.device (user_id, name)
    values (%(user_id)s, repeat('W', 128))
    """,
    """
    insert into activity.app_session (
        user_id, device_id, idempotency_key, app, title, domain, started_at, ended_at
    )
    select user_id, device_id, 'crowd-' || n,
           case when n %% 500 < 5 then (%(odd)s::text[])[1 + n %% 5] else 'Application ' || n %% 500 end,
           (%(long)s::text[])[1 + n / 500 %% 5],
           case n %% 3 when 0 then repeat('w', 63) || n %% 400 || '.example' end,
           %(first)s + (n - 1) * %(length)s / %(count)s, %(first)s + n * %(length)s / %(count)s
      from activity.device, generate_series(1, %(count)s) as n
     where user_id = %(user_id)s
    """,
    """
    insert into activity.coding_session (
        user_id, device_id, idempotency_key, project, language, started_at, ended_at
    )
    select user_id, device_id, 'crowd-' || n,
           case when n %% 60 < 5 then (%(odd)s::text[])[1 + n %% 5] else 'project-' || n end,
           left('language-' || n || repeat('x', 64), 64),
           %(first)s + (n - 1) * %(length)s / 300, %(first)s + n * %(length)s / 300
      from activity.device, generate_series(1, 300) as n
     where user_id = %(user_id)s
    """,
    """
    insert into activity.goal (user_id, title, metric, comparison, target, period)
    select %(user_id)s, left(coalesce((%(odd)s::text[])[n], 'Goal ' || n), 200), 'tracked_ms', 'at_least',
           3600000, 'day'
      from generate_series(1, 30) as n
    """,
    """
    insert into music.listen (user_id, listened_at, track, artist, album, played_ms, source, provider_key)
    select %(user_id)s, %(first)s + n * %(length)s / 300, (%(long)s::text[])[1 + n %% 5],
           case when n <= 50 then (%(long)s::text[])[1 + n %% 5] else 'Artist ' || n end,
           (%(long)s::text[])[1 + n %% 5], 200000, 'test', 'crowd-' || n
      from generate_series(1, 299) as n
    """,
    """
    with calendar as (
        insert into content.calendar (user_id, name, provider, provider_key)
        values (%(user_id)s, repeat('W', 1024), 'test', 'crowd')
        returning calendar_id
    )
    insert into content.calendar_event (
        user_id, calendar_id, title, starts_at, ends_at, status, response, attendee_count, provider_key
    )
    select %(user_id)s, calendar_id, (%(long)s::text[])[1 + n %% 5],
           %(first)s + n * %(length)s / 60, %(first)s + (n + 2) * %(length)s / 60,
           'confirmed', 'accepted', 5, 'crowd-' || n
      from calendar, generate_series(0, 57) as n
    """,
    """
    insert into code.event (
        user_id, provider, provider_key, type, action, occurred_at, repository, title, url
    )
    select %(user_id)s, 'test', 'crowd-' || n, 'commit', 'pushed', %(first)s + n * %(length)s / 60,
           (%(long)s::text[])[1 + n %% 5], (%(long)s::text[])[1 + n %% 5], 'https://example.org/' || n
      from generate_series(0, 59) as n
    """,
    """
    insert into content.recording (
        user_id, recorded_at, duration_ms, title, source, transcript_status, transcript
    )
    select %(user_id)s, %(first)s + n * %(length)s / 60, 60000, (%(long)s::text[])[1 + n %% 5], 'test',
           'ready', repeat((%(long)s::text[])[1 + n %% 5], 20)
      from generate_series(0, 59) as n
    """,
    """
    insert into content.insight (
        user_id, week_start, week_end, tz, title, summary, highlights, generated_at
    )
    -- The newest week has one of each title, since insights of one week are in no order of their own.
    select %(user_id)s, %(first)s::date + 3 - n / 5, %(first)s::date + 9 - n / 5, 'UTC',
           (%(long)s::text[])[1 + n %% 5], (%(long)s::text[])[1 + n %% 5],
           json_build_array(json_build_object('kind', 'change', 'text', (%(long)s::text[])[1 + n %% 5])),
           %(first)s
      from generate_series(0, 29) as n
    """,
    """
    with place as (
        insert into location.place (user_id, name, city, latitude, longitude, provider_key)
        select %(user_id)s, (%(long)s::text[])[1 + n %% 5], (%(long)s::text[])[1 + n %% 5],
               52.5, 13.0 + n, 'crowd-' || n
          from generate_series(0, 29) as n
        returning place_id, provider_key
    )
    insert into location.event (
        user_id, type, status, started_at, ended_at, place_id, source, provider_key
    )
    select %(user_id)s, 'visit', 'confirmed', %(first)s + n * %(length)s / 30,
           %(first)s + (n + 1) * %(length)s / 30, place_id, 'test', 'crowd-' || n
      from place, lateral (values (replace(provider_key, 'crowd-', '')::integer)) as number (n)
    """,
)


def crowd(
    connection: psycopg.Connection[Any],
    deployment: Settings,
    user_id: UUID,
    first: datetime,
    last: datetime,
    *,
    sessions: int,
) -> None:
    """Fill the time between two instants of an account without data, and compute what is derived from it."""
    given = {
        "user_id": user_id,
        "first": first,
        "length": last - first,
        "count": sessions,
        "odd": list(_ODD),
        "long": list(_LONG),
    }
    with connection.transaction():
        for statement in _STATEMENTS:
            connection.execute(statement, given)
        connection.execute(command.SQL["count_streams"], {"user_id": user_id})
        connection.execute("select svc.mark_all_days(%s)", [user_id])
    asyncio.run(_compute(database.login(deployment, "worker"), user_id))


async def _compute(login: str, user_id: UUID) -> None:
    async with rounds.connected(login) as worker:
        await rollups.rebuild(worker, user_id)
        await summaries.make_all(worker, user_id)
