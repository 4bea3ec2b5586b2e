"""Writers, the job and readers of rollups at the same time."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any

import psycopg
from starlette.testclient import TestClient

from resourceserver.timeline import rollups, rounds
from shared import database, schema
from shared.settings import Settings
from tests.conftest import Connect, MakeRollups, Person
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

DAY = date(2025, 6, 16)


def events(count: int, device: str, *days: str) -> dict[str, Any]:
    """Return a batch of as many minutes on each of some days."""
    return {
        "events": [
            {
                "idempotency_key": f"{device} {day} {n}",
                "device": device,
                "app": "Code",
                "started_at": f"{day}T{n // 60:02}:{n % 60:02}:00Z",
                "ended_at": f"{day}T{n // 60:02}:{n % 60:02}:30Z",
            }
            for day in days
            for n in range(count)
        ]
    }


def post(api: TestClient, headers: dict[str, str], batch: dict[str, Any]) -> int:
    return api.post("/api/v1/ingest/app-sessions", json=batch, headers=headers).status_code


@contextmanager
def in_background(work: Any, *arguments: Any) -> Iterator[Future[Any]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work, *arguments)


def session_counts(api: TestClient, headers: dict[str, str]) -> list[int]:
    """Return the numbers of sessions on the 16th, the 17th and the 18th of June in an answer."""
    params = {"from": "2025-06-16", "to": "2025-06-18"}
    answer = api.get("/api/v1/analytics/daily", params=params, headers=headers)
    return [day["session_count"] for day in answer.json()["data"]]


def tracked(owner: Rows) -> int | None:
    row = owner.execute(
        "select sum(owned_ms)::bigint from activity.app_time where grain = 3"
    ).fetchone()
    return None if row is None else row[0]


def due(owner: Rows) -> list[date]:
    return [day for (day,) in owner.execute("select date from activity.rollup_due order by date")]


def test_a_write_during_a_rollup_waits_and_marks_the_day_again(
    api: TestClient, owner: Rows, connect_as: Connect, alice: Person, make_rollups: MakeRollups
) -> None:
    headers = alice.headers("ingest:app_sessions")
    post(api, headers, events(2, "laptop", "2025-06-16"))
    job = connect_as("worker")
    days = {"user_id": alice.user_id, "from": DAY, "to": DAY}
    marks = {"after": date.min, "quiet": timedelta(0), "limit": 31}

    with job.transaction():
        job.execute(rollups.SQL["begin_for"], {**days, **schema.VERSION})
        job.execute(rollups.SQL["take_turn"], days)
        taken = job.execute(rollups.SQL["take_marks"], days | marks).fetchall()
        with in_background(post, api, headers, events(2, "phone", "2025-06-16")) as writer:
            wait_for_rivals(owner, 1)
            # The job does not see uncommitted rows of the writer.
            job.execute(rollups.SQL["add_labels"], days)
            job.execute(rollups.SQL["make_app_quarters"], days)
            job.execute(rollups.SQL["add_up_app"], days | {"unit": "hour", "grain": 2})
            job.execute(rollups.SQL["add_up_app"], days | {"unit": "day", "grain": 3})
            job.execute(rollups.SQL["remove_marks"], days | {"dates": [DAY]})
            has_waited = not writer.done()
            job.execute("commit")
            status = writer.result()
            job.execute("begin")

    assert taken == [(DAY,)]
    assert has_waited
    assert status == 200
    assert due(owner) == [DAY]
    assert tracked(owner) == 60_000
    make_rollups()
    assert owner.execute(
        "select sum(started) from activity.app_time where grain = 3"
    ).fetchone() == (4,)


def test_a_day_with_an_open_write_is_left_for_later(
    owner: Rows, api: TestClient, connect_as: Connect, alice: Person, make_rollups: MakeRollups
) -> None:
    post(api, alice.headers("ingest:app_sessions"), events(1, "a", "2025-06-16", "2025-06-18"))

    with owner.transaction():
        owner.execute("update activity.rollup_due set marked_at = now() where date = %s", [DAY])
        made = make_rollups()

    assert made == 1
    assert due(owner) == [DAY]


def test_a_person_in_another_job_is_skipped(
    api: TestClient,
    owner: Rows,
    connect_as: Connect,
    alice: Person,
    bob: Person,
    make_rollups: MakeRollups,
) -> None:
    for person in (alice, bob):
        post(api, person.headers("ingest:app_sessions"), events(1, "laptop", "2025-06-16"))
    other = connect_as("worker")

    with other.transaction():
        other.execute(rollups.SQL["take_turn"], {"user_id": alice.user_id})
        meanwhile = make_rollups()
    afterwards = make_rollups()

    assert (meanwhile, afterwards) == (1, 1)


def test_a_change_of_title_rules_marks_days_rolled_up_before_its_commit(
    api: TestClient,
    owner: Rows,
    connect_as: Connect,
    deployment: Settings,
    alice: Person,
    make_rollups: MakeRollups,
) -> None:
    post(api, alice.headers("ingest:app_sessions"), events(1, "laptop", "2025-06-16"))
    make_rollups()

    with psycopg.connect(deployment.database_url or "") as changing:
        changing.execute("select svc.mark_all_days(%s)", [alice.user_id])
        # A day that was marked later is not rolled up by rules that are about to change.
        post(api, alice.headers("ingest:app_sessions"), events(1, "laptop", "2025-06-18"))
        meanwhile = make_rollups()

    assert meanwhile == 0
    assert due(owner) == [DAY, date(2025, 6, 17), date(2025, 6, 18)]


def test_marks_and_the_rows_that_they_select_share_one_snapshot(
    api: TestClient, owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    headers = alice.headers()
    days = ("2025-06-16", "2025-06-18")
    post(api, headers, events(1, "laptop", *days))
    make_rollups()
    owner.execute(
        "insert into activity.rollup_due (user_id, date) values (%s, %s)", [alice.user_id, DAY]
    )
    before = session_counts(api, headers)

    with owner.transaction():
        owner.execute("lock table activity.app_time in access exclusive mode")
        with in_background(session_counts, api, headers) as reader:
            # The statement must not combine rows from before and after the commit. Its transaction has the
            # snapshot of its first statement.
            # the moment of its first statement.
            wait_for_rivals(owner, 1)
            post(api, headers, events(1, "phone", *days))
            owner.execute("commit")
            counts = reader.result()
        owner.execute("begin")

    assert (before, counts) == ([1, 0, 1], [1, 0, 1])
    assert session_counts(api, headers) == [2, 0, 2]


def test_a_read_while_a_rebuild_waits_for_a_writer_is_complete(
    api: TestClient, owner: Rows, deployment: Settings, alice: Person, make_rollups: MakeRollups
) -> None:
    headers = alice.headers()
    post(api, headers, events(1, "laptop", "2025-06-16", "2025-06-18"))
    make_rollups()

    async def rebuild() -> int:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            return await rollups.rebuild(worker, alice.user_id)

    with owner.transaction():
        owner.execute(
            "insert into activity.rollup_due (user_id, date) values (%s, %s)", [alice.user_id, DAY]
        )
        with in_background(asyncio.run, rebuild()) as rebuilder:
            wait_for_rivals(owner, 1)
            counts = session_counts(api, headers)
            owner.execute("commit")
            made = rebuilder.result()
        owner.execute("begin")

    assert counts == [1, 0, 1]
    assert made == 4
    assert session_counts(api, headers) == [1, 0, 1]


def test_no_rollups_are_written_while_labels_are_removed(
    owner: Rows, connect_as: Connect, deployment: Settings, alice: Person
) -> None:
    job = connect_as("worker")

    async def rebuild() -> int:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            return await rollups.rebuild(worker, alice.user_id)

    with owner.transaction():
        owner.execute("lock table activity.label in share mode")
        with in_background(asyncio.run, rebuild()) as rebuilder:
            wait_for_rivals(owner, 1)
            # A rollup could use a label that is about to be removed.
            turn = job.execute(rollups.SQL["take_turn"], {"user_id": alice.user_id}).fetchone()
            owner.execute("commit")
            rebuilder.result()
        owner.execute("begin")

    assert turn == (False,)
