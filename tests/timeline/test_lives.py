"""Extreme amounts of activity: answers are right, and the same with and without rollups."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.timeline import rollups, rounds
from resourceserver.timeline.rollups import Difference
from shared import database
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import MakeRollups, Person
from tests.endpoints.histories import ask

Rows = psycopg.Connection[Any]
Body = dict[str, Any]

HOUR = 3_600_000


def post(api: TestClient, person: Person, stream: str, events: list[Body]) -> None:
    """Post events, named by their place, a thousand at a time."""
    named = [
        {"idempotency_key": f"{n}", "device": "laptop"} | event for n, event in enumerate(events)
    ]
    for start in range(0, len(named), 1000):
        answer = api.post(
            f"/api/v1/ingest/{stream}",
            json={"events": named[start : start + 1000]},
            headers=person.headers("ingest:app_sessions", "ingest:coding_sessions"),
        )
        assert answer.status_code == 200
        assert answer.json()["rejected"] == []


def event(start: datetime, length: timedelta, **more: str) -> Body:
    edges = {"started_at": start.isoformat(), "ended_at": (start + length).isoformat()}
    return edges | more


def looks(api: TestClient, person: Person, requests: dict[str, Body]) -> dict[str, Body]:
    """Return the answer to each question."""
    return {
        path: ask(api, person, f"/api/v1/{path}", **params) for path, params in requests.items()
    }


def differences(deployment: Settings, person: Person) -> list[Difference]:
    """Return the differences that `svc rollup check` would print."""

    async def found() -> list[Difference]:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            return [each async for each in rollups.check(worker, person.user_id)]

    return asyncio.run(found())


WINTER = {"start": "2024-11-01T00:00:00Z", "end": "2025-03-01T00:00:00Z"}
THIRD = 120 * 8 * HOUR


def test_four_months_without_a_pause_on_three_devices_adds_up_everywhere(
    api: TestClient, deployment: Settings, alice: Person, make_rollups: MakeRollups
) -> None:
    # Each device is used for 24 hours from its own hour on, every day.
    day = timedelta(hours=24)
    events = [
        event(
            datetime(2024, 11, 1, hour, tzinfo=UTC) + n * day,
            day,
            device=device,
            app=app,
            category=category,
        )
        for n in range(120)
        for hour, device, app, category in (
            (0, "laptop", "Code", "Development"),
            (8, "phone", "Mail", "Communication"),
            (16, "tablet", "Chess", "Games"),
        )
    ]
    post(api, alice, "app-sessions", events)
    requests = {
        "analytics/app-usage": WINTER,
        "analytics/categories": WINTER,
        "analytics/daily": {"start": "2024-11-01", "end": "2025-02-28"},
        "analytics/daily-categories": WINTER,
        "analytics/hourly": {"date": "2025-01-15"},
        "analytics/context-switches": WINTER,
        "analytics/focus-streaks": WINTER,
        "sessions/by-app": WINTER,
        "sessions/daily": WINTER,
    }

    raw = looks(api, alice, requests)
    made = make_rollups()
    bodies = looks(api, alice, requests)

    # The last two sessions reach into the first of March.
    assert made == 121
    assert differences(deployment, alice) == []
    assert bodies == raw
    # The latest start owns the time, so each has eight hours of each day.
    assert [
        (row["app"], row["total_ms"], row["session_count"], row["longest_session_ms"])
        for row in bodies["analytics/app-usage"]["data"]
    ] == [(app, THIRD, 120, 8 * HOUR) for app in ("Chess", "Code", "Mail")]
    assert [
        (row["category"], row["total_ms"]) for row in bodies["analytics/categories"]["data"]
    ] == [("Communication", THIRD), ("Development", THIRD), ("Games", THIRD)]
    first, *others = (
        [row[name] for name in ("tracked_ms", "productive_ms", "app_switches", "session_count")]
        for row in bodies["analytics/daily"]["data"]
    )
    # The first session has none before it, and phone and tablet continue from the day before.
    assert first == [24 * HOUR, 8 * HOUR, 2, 3]
    assert others == [[24 * HOUR, 8 * HOUR, 3, 5]] * 119
    assert [row["tracked_ms"] for row in bodies["analytics/daily-categories"]["data"]] == [
        24 * HOUR
    ] * 120
    assert [
        (row["categories"][0]["category"], row["total_ms"])
        for row in bodies["analytics/hourly"]["data"]
    ] == [("Development", HOUR)] * 8 + [("Communication", HOUR)] * 8 + [("Games", HOUR)] * 8
    assert bodies["analytics/context-switches"]["totals"] == {
        "switch_count": 3 * 120 - 1,
        "average_before_ms": 8 * HOUR,
        "median_before_ms": 8 * HOUR,
        "per_active_hour": 0.1,
    }
    assert bodies["analytics/focus-streaks"]["totals"] == {
        "streak_count": 120,
        "focus_ms": THIRD,
        "longest_ms": 8 * HOUR,
        "average_ms": 8 * HOUR,
    }
    assert [len(row["sessions"]) for row in bodies["sessions/by-app"]["data"]] == [20, 20, 20]
    assert bodies["sessions/daily"]["totals"] == {
        "session_count": 3 * 120,
        "tracked_ms": 3 * THIRD,
    }


@contextmanager
def sluggish(owner: Rows, day: str) -> Iterator[None]:
    """Make rollups of a day take a minute, as if there were millions of sessions."""
    owner.execute(
        sql.SQL(
            "create function svc.nap() returns trigger language plpgsql as $$ begin"
            " perform pg_sleep(60) where new.starts_at::date = {}; return new; end $$"
        ).format(day)
    )
    owner.execute(
        "create trigger nap before insert on activity.app_time for each row execute function svc.nap()"
    )
    try:
        yield
    finally:
        owner.execute("drop function svc.nap cascade")


DAY = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}


def test_thousands_of_sessions_in_an_hour_are_rolled_up_and_add_up(
    api: TestClient, deployment: Settings, alice: Person, make_rollups: MakeRollups
) -> None:
    # A second each, so that five or six overlap.
    nine, second = datetime(2025, 6, 16, 9, tzinfo=UTC), timedelta(seconds=1)
    events = [
        event(nine + n * timedelta(milliseconds=180), second, app=f"App {n % 50}")
        for n in range(20_000)
    ]
    post(api, alice, "app-sessions", events)
    requests = {
        "analytics/app-usage": DAY,
        "analytics/daily": {"start": "2025-06-16", "end": "2025-06-16"},
        "analytics/hourly": {"date": "2025-06-16"},
        "analytics/context-switches": DAY,
        "sessions/by-app": DAY,
    }

    raw = looks(api, alice, requests)
    made = make_rollups()
    bodies = looks(api, alice, requests)

    assert made == 1
    assert differences(deployment, alice) == []
    assert bodies == raw
    # Each owns the time until the next one starts, and the last one its whole second.
    assert bodies["analytics/app-usage"]["totals"] == {
        "tracked_ms": HOUR + 820,
        "app_count": 50,
        "session_count": 20_000,
        "domains_ms": 0,
        "without_domain_ms": HOUR + 820,
    }
    assert [row["total_ms"] for row in bodies["analytics/hourly"]["data"]] == (
        [0] * 9 + [HOUR, 820] + [0] * 13
    )
    # No application is used for a whole second, except the last one.
    assert bodies["analytics/daily"]["totals"]["app_switches"] == 0
    assert bodies["analytics/context-switches"]["totals"]["switch_count"] == 0
    assert {row["session_count"] for row in bodies["sessions/by-app"]["data"]} == {400}


def test_slow_days_are_rolled_up_one_by_one_and_a_day_that_is_too_slow_alone_is_left_raw(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    noons = [datetime(2025, 6, day, 12, tzinfo=UTC) for day in (16, 17, 18)]
    post(api, alice, "app-sessions", [event(at, timedelta(hours=1), app="Code") for at in noons])

    async def make() -> int:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            await worker.execute("set statement_timeout = '2s'")
            return await rollups.make_due(worker, quiet=timedelta(0))

    with sluggish(owner, "2025-06-17"):
        made = asyncio.run(make())

    assert made == 2
    assert owner.execute("select date::text, is_left_raw from activity.rollup_due").fetchall() == [
        ("2025-06-17", True)
    ]
    body = ask(api, alice, "/api/v1/analytics/daily", start="2025-06-16", end="2025-06-18")
    assert [row["tracked_ms"] for row in body["data"]] == [HOUR] * 3
    assert differences(deployment, alice) == []


def test_an_answer_that_would_take_too_long_is_refused_with_the_reason(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    (name,) = owner.execute("select quote_ident(current_database())").fetchone() or ("",)
    owner.execute(f"alter role svc_reader in database {name} set statement_timeout = '300ms'")
    chosen = replace(deployment, base_url="http://testserver")
    # Before the transaction, because others see its changes only after its end.
    headers = alice.headers("read:activity")

    try:
        with AppClient(resourceserver.app.create(chosen)) as impatient, owner.transaction():
            owner.execute("lock table activity.app_session in access exclusive mode")
            answer = impatient.get(
                "/api/v1/analytics/app-usage",
                params={"from": DAY["start"], "to": DAY["end"]},
                headers=headers,
            )
    finally:
        owner.execute(f"alter role svc_reader in database {name} reset all")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json() == {
        "error": "database_unavailable",
        "message": "the database did not finish in time; try again later, or with less at once",
    }
