"""The log line of a resource server whose worker does not run."""

import logging
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest

import resourceserver.app
from resourceserver.worker import overdue
from shared import SCHEMA_VERSION
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Connect, Person
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]


def add_turn(owner: Rows, person: Person, kind: str, due: str, leased: str | None = None) -> None:
    owner.execute(
        "insert into svc.turn (user_id, kind, due_at, leased_until)"
        " values (%s, %s, now() + %s::interval, now() + %s::interval)",
        [person.user_id, kind, due, leased],
    )


def is_overdue(connect_as: Connect) -> Any:
    worker = connect_as("worker")
    return worker.execute("select svc.is_work_overdue(%s)", [SCHEMA_VERSION]).fetchone()


def test_work_is_overdue_when_it_waits_and_no_worker_has_a_turn(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    add_turn(owner, alice, "import", "-14 min")
    recent = is_overdue(connect_as)
    add_turn(owner, alice, "undo", "-16 min")
    late = is_overdue(connect_as)
    add_turn(owner, bob, "import", "-16 min", "30 s")
    busy = is_overdue(connect_as)

    assert [recent, late, busy] == [(False,), (True,), (False,)]


def test_marked_days_are_overdue_when_no_worker_makes_turns_of_them(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    owner.execute(
        "insert into activity.rollup_due (user_id, date, marked_at)"
        " values (%s, %s, now() - interval '16 min')",
        [alice.user_id, date(2025, 6, 16)],
    )
    late = is_overdue(connect_as)
    # The days of this person fail, and a worker has put them off.
    add_turn(owner, alice, "rollups", "5 min")
    put_off = is_overdue(connect_as)

    assert [late, put_off] == [(True,), (False,)]


def test_a_server_logs_that_its_worker_does_not_run(
    deployment: Settings, owner: Rows, alice: Person, caplog: pytest.LogCaptureFixture
) -> None:
    add_turn(owner, alice, "undo", "-16 min")
    app = resourceserver.app.create(
        replace(deployment, jobs=True, worker=True),
        look_for_worker_every=timedelta(milliseconds=50),
    )

    with caplog.at_level(logging.ERROR), AppClient(app):
        wait_for(lambda: overdue.OVERDUE in caplog.text, "the line")
