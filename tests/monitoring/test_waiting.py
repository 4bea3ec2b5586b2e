"""How much work waits, as a worker tells Prometheus."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from resourceserver.worker.waiting import Waiting
from shared import SCHEMA_VERSION
from shared.listening import Address
from shared.settings import Settings
from tests import processes
from tests.conftest import Connect, Person, person
from tests.monitoring.scraping import scrape, value
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]


def add_turn(owner: Rows, person: Person, kind: str, due: str, leased: str | None = None) -> None:
    owner.execute(
        "insert into svc.turn (user_id, kind, due_at, leased_until)"
        " values (%s, %s, now() + %s::interval, now() + %s::interval)",
        [person.user_id, kind, due, leased],
    )


def mark(owner: Rows, table: tuple[str, str], person: Person, date: str, marked: str) -> None:
    statement = "insert into {} (user_id, date, marked_at) values (%s, %s, now() + %s::interval)"
    owner.execute(sql.SQL(statement).format(sql.Identifier(*table)), [person.user_id, date, marked])


def test_marks_and_turns_that_wait_are_counted_by_kind(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    mark(owner, ("activity", "rollup_due"), alice, "2025-10-20", "-10 min")
    mark(owner, ("activity", "rollup_due"), alice, "2025-10-21", "-20 min")
    mark(owner, ("activity", "rollup_due"), bob, "2025-10-21", "-5 min")
    mark(owner, ("location", "derivation_due"), bob, "2025-10-21", "-1 min")
    add_turn(owner, alice, "rollups", "-2 min")
    add_turn(owner, bob, "rollups", "-4 min", "-3 min")
    add_turn(owner, alice, "import", "-8 min", "1 min")
    add_turn(owner, bob, "pull", "1 hour")

    rows = connect_as("worker").execute(
        "select kind, people_marked, round(oldest_mark_s / 60), turns_due, turns_running,"
        " round(oldest_turn_s / 60) from svc.work_waiting(%s) order by kind",
        [SCHEMA_VERSION],
    )

    assert rows.fetchall() == [
        ("import", 0, 0, 0, 1, 0),
        ("pull", 0, 0, 0, 0, 0),
        ("rollups", 2, 20, 2, 0, 3),
        ("visits", 1, 1, 0, 0, 0),
    ]


def test_people_whose_spans_are_to_be_made_are_counted_with_those_of_rollups(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    carol = person(owner, "carol")
    mark(owner, ("activity", "rollup_due"), alice, "2025-10-20", "-10 min")
    for marked_person, marked in ((alice, "-5 min"), (bob, "-30 min"), (carol, "10 min")):
        owner.execute(
            "insert into activity.attention_due (user_id, marked_at)"
            " values (%s, now() + %s::interval)",
            [marked_person.user_id, marked],
        )

    rows = connect_as("worker").execute(
        "select kind, people_marked, round(oldest_mark_s / 60) from svc.work_waiting(%s)",
        [SCHEMA_VERSION],
    )

    assert rows.fetchall() == [("rollups", 2, 30)]


def test_what_nobody_waits_for_is_0_and_what_is_not_known_is_left_out(
    deployment: Settings, owner: Rows, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(waiting: Waiting) -> None:
        url = processes.role_urls(deployment, ["worker"])["worker"]
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as worker:
            await waiting.look(worker)

    add_turn(owner, alice, "undo", "-2 min")
    waiting = Waiting(("rollups",))
    before = list(waiting.readings())
    asyncio.run(look(waiting))

    assert before == []
    assert {(gauge.name, *labels) for gauge, labels, value in waiting.readings() if not value} == {
        ("svc_work_people_marked", "rollups"),
        ("svc_work_oldest_mark_seconds", "rollups"),
        ("svc_work_turns_due", "rollups"),
        ("svc_work_turns_running", "rollups"),
        ("svc_work_oldest_turn_seconds", "rollups"),
        ("svc_work_people_marked", "undo"),
        ("svc_work_oldest_mark_seconds", "undo"),
        ("svc_work_turns_running", "undo"),
    }
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert list(waiting.readings()) == []


@pytest.fixture
def worker_port(deployment: Settings, tmp_path: Path) -> Iterator[int]:
    """The port at which a worker answers with its metrics."""
    port = processes.neighbouring_ports(1)
    chosen = replace(deployment, worker_metrics_listen=(Address("127.0.0.1", port),))
    logins = processes.role_urls(chosen, ("worker", "importer"))
    url = f"http://127.0.0.1:{port}/metrics"
    with processes.running(["resource", "work"], chosen, logins, url, tmp_path / "log"):
        yield port


def test_a_worker_counts_and_times_its_turns(worker_port: int, owner: Rows, alice: Person) -> None:
    add_turn(owner, alice, "undo", "-1 s")

    def turns() -> float:
        return value(scrape(worker_port), "svc_turns_total", kind="undo", outcome="done")

    wait_for(turns, "the worker takes the turn")
    samples = scrape(worker_port)
    assert turns() == 1
    assert value(samples, "svc_turn_duration_seconds_count", kind="undo") == 1
    assert value(samples, "svc_pool_connections_max", pool="jobs") == 3
    assert str(alice.user_id) not in str(samples)
