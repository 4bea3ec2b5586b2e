"""Sessions of old years are removed, and what their sums answer stays the same."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from deploy.operators.imports import import_files
from deploy.operators.retention import retention as command
from deploy.operators.rollups import rollup
from resourceserver.timeline import summaries
from resourceserver.worker import retention
from resourceserver.worker.kinds import kinds
from resourceserver.worker.turns import LAST, Outcome, Turn
from shared import database
from shared.pool import Pool
from shared.settings import Settings
from tests.conftest import MakeRollups, Person, mark_all_days
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

YEARS: Final = 2
RANGE: Final = {"from": "2019-03-01T00:00:00Z", "to": "2019-05-01T00:00:00Z"}
DAYS: Final = {"from": "2019-03-01", "to": "2019-04-30", "tz": "Europe/Berlin"}
KEPT: Final = datetime.now(UTC).replace(hour=9, minute=0, second=0) - timedelta(days=10)


def event(key: str, at: str, minutes: int, app: str, **more: Any) -> dict[str, Any]:
    return {
        "idempotency_key": key,
        "device": "laptop",
        "started_at": at,
        "duration_ms": minutes * 60_000,
        "app": app,
        "title": f"draft {key}",
    } | more


OLD: Final = [
    event("march", "2019-03-04T09:00:00Z", 20, "Code", category="Development"),
    event("mail", "2019-03-04T09:20:00Z", 7, "Mail"),
    event("again", "2019-03-04T09:27:00Z", 44, "Code", category="Development"),
    event("away", "2019-03-06T12:00:00Z", 30, "Code", idle=True),
    event("midnight", "2019-03-31T23:40:00Z", 50, "Code", url="https://github.com/x"),
    event("april", "2019-04-08T21:50:00Z", 25, "Mail"),
]
NEW: Final = [event("new", f"{KEPT:%FT%TZ}", 30, "Code")]
CODING: Final = [
    {
        "idempotency_key": "coding",
        "device": "laptop",
        "started_at": "2019-03-04T09:02:00Z",
        "duration_ms": 900_000,
        "project": "svc",
        "language": "Python",
        "file": "main.py",
    }
]


@pytest.fixture
def post(api: TestClient) -> Callable[..., dict[str, Any]]:
    """Sends events of a person, as a tracker does."""

    def send(
        who: Person, events: list[dict[str, Any]], stream: str = "app-sessions"
    ) -> dict[str, Any]:
        scope = f"ingest:{stream.replace('-', '_')}"
        answer = api.post(
            f"/api/v1/ingest/{stream}", json={"events": events}, headers=who.headers(scope)
        )
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    return send


@pytest.fixture
def remove(deployment: Settings, owner: Rows) -> Callable[[Person], list[Outcome]]:
    """Takes the turns of a person until nothing is left, as a worker does, but without its waits."""
    chosen = replace(deployment, keep_raw_years=YEARS, upload_dir=None)
    login = database.login(chosen, "worker")

    def turns(who: Person) -> list[Outcome]:
        async def take() -> list[Outcome]:
            async with Pool.to(login, size=1, is_patient=True, prepare=True) as workers:
                kind = kinds(workers, chosen=chosen)["retention"]
                outcomes = []
                while True:
                    outcomes.append(await kind.handle(Turn(who.user_id, "retention", 1)))
                    if outcomes[-1].wait is None:
                        return outcomes
                    owner.execute(
                        "update activity.raw_limit set closed_at = now() - interval '1 day'"
                    )

        return asyncio.run(take())

    return turns


@pytest.fixture
def take(deployment: Settings) -> Callable[[Person, int], list[Outcome]]:
    """Takes so many turns of a person, as a worker does, but one at once after the other."""
    login = database.login(deployment, "worker")

    def turns(who: Person, count: int) -> list[Outcome]:
        async def run() -> list[Outcome]:
            async with Pool.to(login, size=1, is_patient=True, prepare=True) as workers:
                handle = retention.handler(workers, YEARS)
                return [await handle(Turn(who.user_id, "retention", 1)) for _ in range(count)]

        return asyncio.run(run())

    return turns


@pytest.fixture
def sum_up(deployment: Settings) -> Callable[..., None]:
    """Writes the summaries of a person that are due, and then all of them again if ``is_all``."""

    def work(who: Person, *, is_all: bool = False) -> None:
        async def take() -> None:
            async with (
                Pool.to(
                    database.login(deployment, "worker"), size=1, is_patient=True, prepare=True
                ) as workers,
                workers.connection() as worker,
            ):
                _, rest = await summaries.take_turn(worker, who.user_id, quiet=None)
                while rest is not None:
                    _, rest = await summaries.take_turn(worker, who.user_id, rest, quiet=None)
                if is_all:
                    await summaries.make_all(worker, who.user_id)

        asyncio.run(take())

    return work


@pytest.fixture
def history(
    owner: Rows,
    alice: Person,
    bob: Person,
    post: Callable[..., dict[str, Any]],
    make_rollups: MakeRollups,
    sum_up: Callable[..., None],
) -> None:
    """The same history of alice and of bob, rolled up and summed up."""
    owner.execute(
        "insert into activity.category_rule (user_id, priority, field, match, pattern, category)"
        " values (%s, 1, 'title', 'contains', 'mail', 'Writing')",
        [alice.user_id],
    )
    for who in (alice, bob):
        assert post(who, OLD + NEW)["accepted"] == 7
        assert post(who, CODING, "coding-sessions")["accepted"] == 1
    make_rollups()
    for who in (alice, bob):
        sum_up(who)
    assert owner.execute("select count(*) from activity.summary_due").fetchone() == (0,)


QUESTIONS: Final = {
    "analytics/app-usage": RANGE,
    "analytics/categories": RANGE,
    "analytics/coding": RANGE,
    "analytics/context-switches": RANGE,
    "analytics/focus-streaks": RANGE,
    "analytics/focus-breaks": RANGE,
    "analytics/daily-categories": RANGE | {"tz": "Asia/Kathmandu"},
    "analytics/daily": DAYS,
    "analytics/hourly": {"date": "2019-03-04", "tz": "America/St_Johns"},
    "analytics/hours": {"from": "2019-03-04", "to": "2019-03-06", "tz": "America/St_Johns"},
    "analytics/normal": {"date": "2019-04-08", "tz": "Europe/Berlin"},
    "analytics/day-difference": {"date": "2019-04-08", "tz": "Europe/Berlin"},
    "analytics/switch-costs": RANGE,
    "analytics/trend": {"metric": "tracked_ms", "from": "2019-03-01", "to": "2019-04-30"},
    "sessions/daily": RANGE | {"tz": "Europe/Berlin"},
    "account/summaries": {"from": "2019-03-01", "to": "2019-04-30"},
    "account/correlation": {
        "metric_a": "tracked_ms",
        "metric_b": "session_count",
        "from": "2019-03-01",
        "to": "2019-04-30",
    },
}


def answers(api: TestClient, who: Person) -> dict[str, bytes]:
    headers = who.headers("read:activity")
    found = {}
    for path, params in QUESTIONS.items():
        answer = api.get(f"/api/v1/{path}", params=params, headers=headers)
        assert answer.status_code == 200, (path, answer.text)
        found[path] = answer.content
    return found


def listed(api: TestClient, who: Person, path: str) -> dict[str, Any]:
    answer = api.get(f"/api/v1/{path}", params=RANGE, headers=who.headers("read:activity"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def call(api: TestClient, who: Person, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return what a tool answers."""
    answer = api.post(
        "/mcp",
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        },
        headers=who.headers("read:activity") | {"Accept": "application/json, text/event-stream"},
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()["result"]["structuredContent"]
    return body


PERIOD: Final = {"from": "2019-03-01", "to": "2019-04-30"}


def test_sums_of_removed_sessions_stay_the_same_and_lists_say_what_is_gone(
    api: TestClient,
    owner: Rows,
    alice: Person,
    bob: Person,
    history: None,
    remove: Callable[[Person], list[Outcome]],
) -> None:
    before, of_bob = answers(api, alice), answers(api, bob)
    breakdown = call(api, alice, "get_time_breakdown", **PERIOD, group_by=["app", "day"])
    by_app = listed(api, alice, "sessions/by-app")

    outcomes = remove(alice)

    assert [each.log.split()[1:] for each in outcomes if each.log.startswith("before=")] == [
        ["app_sessions=4", "coding_sessions=1"],
        ["app_sessions=2", "coding_sessions=0"],
    ]
    assert (
        owner.execute(
            "select user_id, idempotency_key from activity.app_session where idempotency_key = 'new'"
            " or user_id = %s",
            [alice.user_id],
        ).rowcount
        == 2
    )
    assert answers(api, alice) == before
    assert answers(api, bob) == of_bob
    after = call(api, alice, "get_time_breakdown", **PERIOD, group_by=["app", "day"])
    limit = after.pop("removed_before")
    assert "removed_before" not in breakdown
    assert {**after, "generated_at": ""} == {**breakdown, "generated_at": ""}
    apps, coding = listed(api, alice, "sessions/apps"), listed(api, alice, "sessions/coding")
    assert (apps["data"], coding["data"]) == ([], [])
    assert apps["removed_before"] == coding["removed_before"] == f"{limit}T00:00:00.000Z"
    assert listed(api, bob, "sessions/apps")["removed_before"] is None
    after_by_app = listed(api, alice, "sessions/by-app")
    assert after_by_app.pop("removed_before") == f"{limit}T00:00:00.000Z"
    assert by_app.pop("removed_before") is None
    for each in (*by_app["data"], *after_by_app["data"]):
        each.pop("sessions")
    assert after_by_app == by_app
    sessions = call(api, alice, "list_sessions", **PERIOD)
    assert (sessions["data"], sessions["removed_before"]) == ([], limit)
    assert call(api, alice, "get_data_status")["removed_before"] == limit
    exported = api.get("/api/v1/export", headers=alice.headers("read:activity"))
    assert exported.headers["Export-Removed-Before"] == limit
    assert exported.json()["removed_before"] == limit
    assert len(exported.json()["resources"]["app_sessions"]) == 1


def test_applications_of_a_day_stay_and_nothing_removed_counts_as_unreported(
    api: TestClient, alice: Person, history: None, remove: Callable[[Person], list[Outcome]]
) -> None:
    def day(**params: str) -> dict[str, Any]:
        answer = api.get(
            "/api/v1/analytics/day-timeline",
            params={"date": "2019-03-04"} | params,
            headers=alice.headers("read:activity"),
        )
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    before = day()
    remove(alice)
    after = day()

    assert after["data"]["apps"] == before["data"]["apps"]
    # The quarters of an hour in which sessions were: 9:00 to 10:11.
    assert [(each["starts_at"], each["ends_at"]) for each in after["data"]["unreported"]] == [
        ("2019-03-04T00:00:00.000Z", "2019-03-04T09:00:00.000Z"),
        ("2019-03-04T10:15:00.000Z", "2019-03-05T00:00:00.000Z"),
    ]


WITHIN: Final = {"from": "2019-03-04T09:05:00Z", "to": "2019-05-01T00:00:00Z"}
"""Its first ten minutes, up to a quarter of an hour, are known from single sessions alone."""


@pytest.mark.parametrize(
    ("path", "params", "total", "missing_ms"),
    [
        ("analytics/app-usage", WITHIN, "tracked_ms", 600_000),
        ("analytics/categories", WITHIN, "tracked_ms", 600_000),
        ("analytics/daily-categories", WITHIN, "tracked_ms", 600_000),
        ("analytics/coding", WITHIN, "coding_ms", 600_000),
        ("sessions/daily", WITHIN, "tracked_ms", 600_000),
        ("sessions/daily", RANGE | {"to": "2019-04-08T22:05:00Z"}, "tracked_ms", 300_000),
        ("sessions/daily", RANGE | {"from": "2019-03-04T09:15:00Z"}, "tracked_ms", 0),
        ("analytics/day-timeline", {"date": "2019-03-04"}, "coding_ms", 900_000),
    ],
)
def test_an_answer_that_lacks_time_of_removed_sessions_says_so(
    api: TestClient,
    alice: Person,
    bob: Person,
    history: None,
    remove: Callable[[Person], list[Outcome]],
    path: str,
    params: dict[str, str],
    total: str,
    missing_ms: int,
) -> None:
    remove(alice)
    after, complete = (
        api.get(f"/api/v1/{path}", params=params, headers=who.headers("read:activity")).json()
        for who in (alice, bob)
    )

    assert complete["totals"][total] - after["totals"][total] == missing_ms
    limit = "2019-05-01T00:00:00.000Z" if missing_ms else None
    assert (after["removed_before"], complete["removed_before"]) == (limit, None)


def test_nothing_computes_the_days_of_removed_sessions_again(
    api: TestClient,
    deployment: Settings,
    owner: Rows,
    alice: Person,
    history: None,
    remove: Callable[[Person], list[Outcome]],
    post: Callable[..., dict[str, Any]],
    make_rollups: MakeRollups,
    sum_up: Callable[..., None],
) -> None:
    before = answers(api, alice)
    remove(alice)

    late = post(alice, [event("late", "2019-03-04T15:00:00Z", 60, "Game"), OLD[0]])
    limit = owner.execute("select closed_before::text from activity.raw_limit").fetchone()
    rebuilt = CliRunner().invoke(rollup, ["rebuild", "alice@example.org"], obj=deployment)
    checked = CliRunner().invoke(rollup, ["check", "alice@example.org"], obj=deployment)
    # As every change of a title rule does.
    mark_all_days(owner)
    owner.execute("select svc.mark_all_summaries(%s, 1)", [alice.user_id])
    # Whatever else may set a mark.
    owner.execute(
        "insert into activity.rollup_due (user_id, date, marked_at)"
        " values (%s, '2019-03-04', '2020-01-01')",
        [alice.user_id],
    )
    make_rollups()
    owner.execute("delete from activity.rollup_due")
    sum_up(alice, is_all=True)

    assert limit is not None
    assert (late["accepted"], late["duplicates"]) == (0, 0)
    assert [(each["index"], each["code"], each["message"]) for each in late["rejected"]] == [
        (
            number,
            "timestamp_out_of_range",
            f"started_at: is before {limit[0]}, and sessions of that time are kept here as sums only",
        )
        for number in (0, 1)
    ]
    assert (rebuilt.exit_code, rebuilt.output.startswith("rebuilt")) == (0, True), rebuilt.output
    assert (checked.exit_code, checked.stdout) == (0, "0 differences\n")
    after = answers(api, alice)
    # It says when each was written.
    summaries_before, summaries_after = (
        [{**row, "generated_at": ""} for row in json.loads(each.pop("account/summaries"))["data"]]
        for each in (before, after)
    )
    assert after == before
    assert summaries_after == summaries_before


def test_undoing_an_import_leaves_sums_of_removed_sessions_and_says_so(
    api: TestClient,
    deployment: Settings,
    owner: Rows,
    alice: Person,
    history: None,
    remove: Callable[[Person], list[Outcome]],
    make_rollups: MakeRollups,
    sum_up: Callable[..., None],
) -> None:
    (brought,) = owner.execute(
        "insert into profile.import (user_id, file_name, file_size, digest, status)"
        " values (%s, 'file', 1, sha256('file'), 'done') returning import_id",
        [alice.user_id],
    ).fetchall()
    given = [brought[0], alice.user_id]
    owner.execute("update activity.app_session set import_id = %s where user_id = %s", given)
    owner.execute("update activity.coding_session set import_id = %s where user_id = %s", given)
    before = answers(api, alice)
    remove(alice)

    undone = CliRunner().invoke(import_files, ["--undo", str(brought[0])], obj=deployment)
    make_rollups()
    sum_up(alice)

    assert undone.exit_code == 0, undone.output
    assert undone.stdout.splitlines() == [
        f"removed the records that import {brought[0]} added",
        "sums of days before 2019-05-01 stay as they are, since single sessions of that time are removed",
    ]
    assert owner.execute(
        "select count(*) from activity.app_session where user_id = %s", [alice.user_id]
    ).fetchone() == (0,)
    assert answers(api, alice) == before


def test_sessions_wait_for_their_rollups_and_for_batches_that_are_being_written(
    owner: Rows,
    alice: Person,
    post: Callable[..., dict[str, Any]],
    take: Callable[[Person, int], list[Outcome]],
) -> None:
    post(alice, OLD)

    closed, early = take(alice, 2)
    owner.execute("delete from activity.rollup_due; delete from activity.summary_due")
    (too_soon,) = take(alice, 1)
    owner.execute("update activity.raw_limit set closed_at = now() - interval '11 minutes'")
    owner.execute(
        "insert into activity.summary_due (user_id, date) values (%s, '2019-03-04')",
        [alice.user_id],
    )
    (summary_missing,) = take(alice, 1)
    owner.execute("delete from activity.summary_due")
    (removed,) = take(alice, 1)

    assert closed.log.startswith("closed_before=")
    assert [each.log for each in (early, too_soon, summary_missing)] == ["", "", ""]
    assert removed.log == "before=2019-04-01 app_sessions=4 coding_sessions=0"
    assert removed.wait == LAST


def test_a_month_is_removed_whole_or_not_at_all(
    deployment: Settings,
    owner: Rows,
    alice: Person,
    history: None,
    remove: Callable[[Person], list[Outcome]],
) -> None:
    count = "select count(*) from activity.app_session where user_id = %s"
    login = database.login(deployment, "worker")

    async def killed() -> None:
        async with Pool.to(login, size=1, is_patient=True, prepare=True) as workers:
            handle = retention.handler(workers, YEARS)
            await handle(Turn(alice.user_id, "retention", 1))
            owner.execute("update activity.raw_limit set closed_at = now() - interval '1 day'")
            with owner.transaction():
                # The turn waits for this row when it has deleted the sessions before it.
                owner.execute(
                    "select from activity.app_session where user_id = %s"
                    " and idempotency_key = 'again' for update",
                    [alice.user_id],
                )
                task = asyncio.ensure_future(handle(Turn(alice.user_id, "retention", 1)))
                await asyncio.sleep(0.5)
                task.cancel()
                with pytest.raises((asyncio.CancelledError, psycopg.Error)):
                    await task

    asyncio.run(killed())
    held = owner.execute(count, [alice.user_id]).fetchone()

    remove(alice)

    assert held == (7,)
    assert owner.execute(count, [alice.user_id]).fetchone() == (1,)
    assert owner.execute(
        "select sum(app_sessions)::integer from activity.removed_day where user_id = %s",
        [alice.user_id],
    ).fetchone() == (6,)


def listing(chosen: Settings, *words: str) -> Any:
    """Return what ``svc retention`` prints as JSON."""
    printed = CliRunner().invoke(command, [*words, "--json"], obj=chosen)
    assert printed.exit_code == 0, printed.output
    return json.loads(printed.stdout)


def test_the_operator_sees_beforehand_how_many_sessions_would_go(
    deployment: Settings,
    owner: Rows,
    alice: Person,
    history: None,
    remove: Callable[[Person], list[Outcome]],
) -> None:
    unset = CliRunner().invoke(command, [], obj=deployment)
    owner.execute(
        "insert into activity.rollup_due (user_id, date) values (%s, '2019-04-02')", [alice.user_id]
    )
    before = listing(deployment, "--years", str(YEARS))
    owner.execute("delete from activity.rollup_due")
    remove(alice)
    after = listing(replace(deployment, keep_raw_years=YEARS))

    assert (unset.exit_code, unset.output) == (
        1,
        "Error: SVC_KEEP_RAW_YEARS is not set, so all sessions are kept: try a number with --years\n",
    )
    assert before[0]["older_than"] == before[1]["older_than"]
    assert [
        (row["account"], row["app_sessions"], row["coding_sessions"], row["waits_for"])
        for row in before
    ] == [("alice@example.org", 6, 1, "2019-04-02"), ("bob@example.org", 6, 1, None)]
    assert [(row["app_sessions"], row["removed_before"]) for row in after] == [
        (0, "2019-05-01"),
        (6, None),
    ]


@pytest.mark.parametrize(
    ("years", "removed", "limit"), [(3, None, 3), (3, 2, 2), (None, 2, 2), (None, None, None)]
)
def test_closed_months_that_are_kept_and_not_removed_are_opened_again(
    deployment: Settings,
    owner: Rows,
    alice: Person,
    post: Callable[..., dict[str, Any]],
    years: int | None,
    removed: int | None,
    limit: int | None,
) -> None:
    """All numbers are of years before now; sessions have been kept for one."""
    owner.execute(
        "insert into activity.raw_limit (user_id, closed_before, removed_before)"
        " select %s, svc.raw_limit_day('UTC', 1), svc.raw_limit_day('UTC', %s)",
        [alice.user_id, removed],
    )
    late = [event("late", f"{datetime.now(UTC) - timedelta(days=500):%FT%TZ}", 10, "Code")]
    refused = post(alice, late)
    login = database.login(deployment, "worker")

    async def take() -> tuple[list[UUID], list[Outcome], list[UUID]]:
        async with Pool.to(login, size=1, is_patient=True, prepare=True) as workers:
            handle = retention.handler(workers, years)
            async with workers.connection() as worker:
                due = await retention.people_due(worker, UUID(int=0), years)
            outcomes = [await handle(Turn(alice.user_id, "retention", 1)) for _ in range(2)]
            async with workers.connection() as worker:
                return due, outcomes, await retention.people_due(worker, UUID(int=0), years)

    due, outcomes, due_then = asyncio.run(take())

    assert (due, due_then) == ([alice.user_id], [])
    assert outcomes[0].log.startswith("opened_from=")
    assert outcomes[1] == Outcome()
    assert owner.execute(
        "select closed_before = svc.raw_limit_day('UTC', %s) from activity.raw_limit", [limit]
    ).fetchall() == ([] if limit is None else [(True,)])
    assert (refused["accepted"], post(alice, late)["accepted"]) == (0, 1)


def test_no_month_is_removed_that_is_kept_since_the_number_of_years_was_raised(
    owner: Rows, alice: Person, history: None, take: Callable[[Person, int], list[Outcome]]
) -> None:
    owner.execute(
        "insert into activity.raw_limit (user_id, closed_before, closed_at, removed_before)"
        " select %s, due + interval '1 year', now() - interval '1 day', due"
        "   from svc.raw_limit_day('UTC', %s) as due",
        [alice.user_id, YEARS],
    )
    owner.execute(
        "update activity.app_session"
        "   set started_at = due - interval '10 minutes', ended_at = due + interval '10 minutes'"
        "  from svc.raw_limit_day('UTC', %s) as due"
        " where user_id = %s and idempotency_key <> 'new'",
        [YEARS, alice.user_id],
    )

    opened, outcome = take(alice, 2)

    assert opened.log.startswith("opened_from=")
    assert outcome == Outcome()
    assert owner.execute(
        "select count(*) from activity.app_session where user_id = %s", [alice.user_id]
    ).fetchone() == (7,)


@pytest.mark.parametrize(
    ("zone", "now", "limit"),
    [
        ("UTC", "2026-11-01T00:00:00Z", "2024-11-01"),
        ("UTC", "2026-10-31T23:59:59Z", "2024-10-01"),
        # It is the first of November there, and two years ago that day began in October in UTC.
        ("Pacific/Kiritimati", "2026-10-31T10:00:00Z", "2024-10-01"),
        ("Pacific/Kiritimati", "2026-11-01T10:00:00Z", "2024-11-01"),
        ("America/Los_Angeles", "2026-11-01T06:00:00Z", "2024-10-01"),
        ("UTC", "2028-02-29T12:00:00Z", "2026-02-01"),
    ],
)
def test_a_session_is_kept_for_whole_years_of_days_where_the_person_lives(
    owner: Rows, zone: str, now: str, limit: str
) -> None:
    assert owner.execute("select svc.raw_limit_day(%s, 2, %s)::text", [zone, now]).fetchone() == (
        limit,
    )


def test_sessions_that_change_while_they_are_removed_stay(
    deployment: Settings, owner: Rows, alice: Person, history: None
) -> None:
    login = database.login(deployment, "worker")

    async def take() -> None:
        async with Pool.to(login, size=1, is_patient=True, prepare=True) as workers:
            handle = retention.handler(workers, YEARS)
            await handle(Turn(alice.user_id, "retention", 1))
            owner.execute("update activity.raw_limit set closed_at = now() - interval '1 day'")
            with owner.transaction():
                owner.execute(
                    "update activity.app_session set ended_at = ended_at + interval '1 minute'"
                    " where user_id = %s and idempotency_key = 'again'",
                    [alice.user_id],
                )
                task = asyncio.ensure_future(handle(Turn(alice.user_id, "retention", 1)))
                await asyncio.to_thread(wait_for_rivals, owner, 1)
                owner.execute(
                    "insert into activity.rollup_due (user_id, date) values (%s, '2019-03-04')",
                    [alice.user_id],
                )
            outcomes.append(await task)

    outcomes: list[Outcome] = []
    asyncio.run(take())

    assert [(each.log, each.wait) for each in outcomes] == [("", timedelta(minutes=11))]
    assert owner.execute(
        "select count(*) from activity.app_session where user_id = %s", [alice.user_id]
    ).fetchone() == (7,)
