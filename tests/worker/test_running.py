"""The loop of a worker, with kinds of these tests and the real database."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest

from resourceserver.uploads.directory import Directory
from resourceserver.worker import running, turns
from resourceserver.worker.kinds import IMPORT, SUMMARIES, kinds
from resourceserver.worker.running import LEASE, Worker
from resourceserver.worker.turns import LAST, Kind, Later, Outcome, Turn
from shared import SCHEMA_VERSION, database, schema
from shared.pool import Pool
from shared.settings import Settings
from tests.conftest import Connect, Person
from tests.conftest import person as new_person
from tests.endpoints.histories import add_sessions
from tests.endpoints.timeline import Session, since_epoch
from tests.integrations import samples
from tests.uploads.test_import import upload
from tests.waiting import wait_for_async

Rows = psycopg.Connection[Any]

LISTENS: Final = samples.tidal().content
SHORT: Final = timedelta(seconds=0.3)
"""A lease that is renewed each tenth of a second."""


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOOK_EVERY_S", 0.05)


@asynccontextmanager
async def working(
    deployment: Settings, *kinds: Kind, lease: timedelta = LEASE
) -> AsyncIterator[None]:
    """Run a worker for the time of a block, and stop it in order."""
    stop = asyncio.Event()
    async with Pool.to(database.login(deployment, "worker"), size=1, is_patient=True) as control:
        task = asyncio.create_task(
            Worker({kind.name: kind for kind in kinds}, control, lease).run(stop)
        )
        try:
            yield
        finally:
            stop.set()
            await task


def make_due(owner: Rows, person: Person, kind: str = "import") -> None:
    owner.execute("select svc.make_due(%s, %s)", [person.user_id, kind])


def rows(owner: Rows) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select kind, due_at <= now(), leased_until is not null, attempts from svc.turn order by kind"
    ).fetchall()


def test_a_turn_with_more_to_do_comes_again_behind_the_others(
    deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    served: list[UUID] = []

    async def one_of_three(turn: Turn) -> Outcome:
        served.append(turn.user_id)
        return Outcome(wait=LAST if served.count(turn.user_id) < 3 else None)

    async def run() -> None:
        async with working(deployment, Kind("import", one_of_three)):
            await wait_for_async(lambda: len(served) == 6 and rows(owner) == [], "six turns")

    make_due(owner, alice)
    make_due(owner, bob)
    asyncio.run(run())

    assert served == [alice.user_id, bob.user_id] * 3


def test_a_kind_has_its_places_and_others_wait(
    deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    begun: list[str] = []
    go_on = asyncio.Event()

    async def wait(turn: Turn) -> Outcome:
        begun.append(turn.kind)
        await go_on.wait()
        return Outcome()

    async def run() -> None:
        kinds = [Kind("one", wait), Kind("two", wait, places=2)]
        async with working(deployment, *kinds):
            await wait_for_async(lambda: len(begun) == 3, "three turns")
            waiting = [leased for _, _, leased, _ in rows(owner)].count(False)
            go_on.set()
            await wait_for_async(lambda: rows(owner) == [], "the last turn")
        assert waiting == 1

    for person in (alice, bob):
        make_due(owner, person, "one")
        make_due(owner, person, "two")
    asyncio.run(run())

    assert sorted(begun[:3]) == ["one", "two", "two"]


def test_two_imports_are_done_at_once_and_never_two_of_one_person(
    deployment: Settings, owner: Rows, alice: Person, bob: Person, tmp_path: Path
) -> None:
    people = (alice, bob, new_person(owner, "carol"))
    directory = Directory(tmp_path / "uploads", 0)
    directory.prepare()
    chosen = replace(deployment, upload_dir=directory.path)

    def begun() -> list[UUID]:
        found = owner.execute("select user_id from profile.import order by started_at")
        return [user_id for (user_id,) in found]

    async def run() -> None:
        # Imports cannot write their listens, and so go on, until this transaction ends.
        with closing(psycopg.connect(deployment.database_url or "")) as other:
            other.execute("lock table music.listen in exclusive mode")
            async with (
                Pool.to(database.login(deployment, "worker"), size=1, is_patient=True) as workers,
                working(deployment, kinds(workers, chosen=chosen)[IMPORT]),
            ):
                try:
                    await wait_for_async(lambda: waiting_for_a_lock(owner) == 2, "two imports")
                    # What comes meanwhile for a person whose import is being done waits for its end.
                    upload(directory, alice, LISTENS, "later.csv")
                    leased = [leased for _, _, leased, _ in rows(owner)]
                    at_once = begun()
                finally:
                    other.rollback()
                await wait_for_async(lambda: rows(owner) == [], "the other imports")
        assert sorted(leased) == [False, True, True]
        assert set(at_once) == {alice.user_id, bob.user_id}

    for each in people:
        upload(directory, each, LISTENS, "streaming.csv")
    asyncio.run(run())

    assert sorted(begun()) == sorted([alice.user_id, *(each.user_id for each in people)])
    brought = owner.execute("select user_id from music.listen").fetchall()
    assert {user_id for (user_id,) in brought} == {each.user_id for each in people}


def waiting_for_a_lock(owner: Rows) -> int:
    found = owner.execute(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and wait_event_type = 'Lock'"
    ).fetchone()
    return 0 if found is None else int(found[0])


def test_a_failure_is_logged_without_data_and_put_off(
    deployment: Settings, owner: Rows, alice: Person, caplog: pytest.LogCaptureFixture
) -> None:
    failures = {
        "broken": ValueError("a mistake"),
        "limited": Later(timedelta(hours=1)),
        "refused": psycopg.errors.UniqueViolation("secret"),
    }

    async def fail(turn: Turn) -> Outcome:
        raise failures[turn.kind]

    async def run() -> None:
        async with working(deployment, *(Kind(name, fail) for name in failures)):
            await wait_for_async(
                lambda: [row[1:] for row in rows(owner)] == [(False, False, 1)] * 3, "three ends"
            )

    for name in failures:
        make_due(owner, alice, name)
    asyncio.run(run())

    assert "secret" not in caplog.text
    assert "kind=refused" in caplog.text
    assert "ValueError: a mistake" in caplog.text
    (limited,) = owner.execute(
        "select round(extract(epoch from due_at - now()) / 60) from svc.turn where kind = 'limited'"
    ).fetchone() or (0,)
    assert 58 <= limited <= 60


def test_the_wait_after_failures_doubles_up_to_minutes() -> None:
    waits = [turns.backoff(attempt).total_seconds() for attempt in (1, 2, 3, 50)]

    assert 2.5 <= waits[0] <= 7.5
    assert 5 <= waits[1] <= 15
    assert 10 <= waits[2] <= 30
    assert 300 <= waits[3] <= 900
    assert len({turns.backoff(1) for _ in range(9)}) > 1


def test_a_lease_is_renewed_while_the_work_lasts(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    ends: set[datetime] = set()
    begun: list[Turn] = []
    done = asyncio.Event()

    async def wait(turn: Turn) -> Outcome:
        begun.append(turn)
        await done.wait()
        return Outcome("done=yes")

    def renewed() -> bool:
        ends.update(at for (at,) in owner.execute("select leased_until from svc.turn"))
        return len(ends) > 6

    async def run() -> None:
        async with (
            working(deployment, Kind("import", wait), lease=SHORT),
            working(deployment, Kind("import", wait), lease=SHORT),
        ):
            # Twice the time of a lease.
            await wait_for_async(renewed, "six renewals")
            done.set()
            await wait_for_async(lambda: rows(owner) == [], "the end")

    make_due(owner, alice)
    asyncio.run(run())

    assert len(begun) == 1


def test_a_worker_that_has_lost_its_turn_stops_its_work(
    deployment: Settings, owner: Rows, alice: Person, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[Turn] = []

    async def wait(turn: Turn) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(turn)
            raise
        return Outcome()

    async def run() -> None:
        async with working(deployment, Kind("import", wait), lease=SHORT):
            await wait_for_async(lambda: [row[2] for row in rows(owner)] == [True], "the turn")
            # As if another worker had claimed it.
            owner.execute("update svc.turn set leased_until = now() + interval '1 hour'")
            await wait_for_async(lambda: stopped, "the end of the work")

    make_due(owner, alice)
    asyncio.run(run())

    assert [row[2:] for row in rows(owner)] == [(True, 1)]
    assert "lost" in caplog.text


def test_a_stop_waits_for_threads_and_gives_turns_back(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def block(stop: threading.Event) -> Outcome:
        begun.set()
        assert stop.wait(60)
        ended.set()
        raise InterruptedError

    async def run() -> None:
        async with working(deployment, Kind("import", lambda _: turns.in_thread(block))):
            await wait_for_async(begun.is_set, "the thread")

    make_due(owner, alice)
    asyncio.run(run())

    assert ended.is_set()
    assert rows(owner) == [("import", True, False, 0)]


def test_work_that_ends_while_it_is_stopped_is_done(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    begun = threading.Event()

    def block(stop: threading.Event) -> Outcome:
        begun.set()
        assert stop.wait(60)
        return Outcome()

    async def run() -> None:
        async with working(deployment, Kind("import", lambda _: turns.in_thread(block))):
            await wait_for_async(begun.is_set, "the thread")

    make_due(owner, alice)
    asyncio.run(run())

    assert rows(owner) == []


def test_a_worker_waits_for_a_database_that_is_away(
    deployment: Settings,
    owner: Rows,
    ending_as: Connect,
    alice: Person,
    bob: Person,
) -> None:
    served: list[UUID] = []

    async def serve(turn: Turn) -> Outcome:
        served.append(turn.user_id)
        return Outcome()

    async def run() -> None:
        async with working(deployment, Kind("import", serve)):
            await wait_for_async(lambda: served, "the first turn")
            await asyncio.to_thread(
                ending_as("worker").execute,
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'svc worker' and datname = current_database()",
            )
            make_due(owner, bob)
            await wait_for_async(lambda: len(served) == 2, "the second turn")

    make_due(owner, alice)
    asyncio.run(run())

    assert served == [alice.user_id, bob.user_id]


@pytest.mark.parametrize(
    ("version", "oldest_code", "advice"),
    [
        (SCHEMA_VERSION - 1, 20, "the schema is too old for this server"),
        (SCHEMA_VERSION + 1, SCHEMA_VERSION + 1, "this server is too old for the schema"),
    ],
)
def test_a_worker_that_does_not_fit_the_schema_takes_no_turn_and_says_so(
    deployment: Settings,
    owner: Rows,
    alice: Person,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    oldest_code: int,
    advice: str,
) -> None:
    monkeypatch.setattr(schema, "_LOG", schema.RateLimitedLog())
    change = "update svc.schema_version set version = %s, oldest_code = %s"
    served: list[UUID] = []

    async def serve(turn: Turn) -> Outcome:
        served.append(turn.user_id)
        return Outcome()

    async def run() -> None:
        async with working(deployment, Kind("import", serve)):
            await wait_for_async(lambda: advice in caplog.text, "the line")
            assert served == []
            owner.execute(change, kept)
            await wait_for_async(lambda: served, "the turn")

    kept = owner.execute("select version, oldest_code from svc.schema_version").fetchone()
    make_due(owner, alice)
    try:
        owner.execute(change, [version, oldest_code])
        asyncio.run(run())
    finally:
        owner.execute(change, kept)

    assert served == [alice.user_id]


def test_the_summaries_of_one_person_do_not_wait_for_those_of_another(
    deployment: Settings, owner: Rows, connect_as: Connect, alice: Person, bob: Person
) -> None:
    start = since_epoch("2025-06-16T09:00:00Z")
    for person in (alice, bob):
        minute = Session("a", "laptop", "Code", start, start + 60_000)
        add_sessions(owner, person, [minute])
        owner.execute(
            "insert into activity.summary_due (user_id, date) values (%s, '2025-06-16')",
            [person.user_id],
        )
        make_due(owner, person, SUMMARIES)
    done = "select user_id from activity.daily_summary"

    async def run() -> list[tuple[Any, ...]]:
        workers = Pool.to(database.login(deployment, "worker"), size=2, is_patient=True)
        async with workers, working(deployment, kinds(workers)[SUMMARIES]):
            with rival.transaction():
                # Alice's turn, the first, waits for this row.
                rival.execute(
                    """
                    insert into activity.daily_summary (
                        user_id, date, tz, status, final_at, tracked_ms, productive_ms, neutral_ms,
                        distracted_ms, coding_ms, app_switches, focus_ms, longest_focus_ms,
                        top_apps, top_categories, top_projects
                    )
                    values (%s, '2025-06-16', 'UTC', 'final', now(), 0, 0, 0, 0, 0, 0, 0, 0, '[]', '[]', '[]')
                    """,
                    [alice.user_id],
                )
                await wait_for_async(
                    lambda: owner.execute(done).fetchall() == [(bob.user_id,)], "bob's summary"
                )
                return owner.execute(
                    "select leased_until is not null, attempts from svc.turn where user_id = %s",
                    [alice.user_id],
                ).fetchall()

    rival = psycopg.connect(deployment.database_url or "", autocommit=True)
    with closing(rival):
        waiting = asyncio.run(run())

    # Hers is still in its first attempt: it was not put off before his.
    assert waiting == [(True, 1)]
