"""The marks of days that must be rolled up, and the job that does it."""

import asyncio
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from starlette.testclient import TestClient

import resourceserver.app
from deploy.migrate import SQL_DIR
from resourceserver.timeline import rollups, rounds
from shared import database, schema
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import MakeRollups, Person, mark_all_days
from tests.endpoints.histories import add_coding, add_sessions
from tests.endpoints.timeline import CodingSession, Session, since_epoch
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]

APPS = {"app": "Code", "device": "laptop"}
CODING = {"project": "svc", "device": "laptop"}


def post(api: TestClient, person: Person, stream: str, *events: dict[str, Any]) -> None:
    answer = api.post(
        f"/api/v1/ingest/{stream}",
        json={"events": events},
        headers=person.headers(f"ingest:{stream.replace('-', '_')}"),
    )
    assert answer.status_code == 200
    assert answer.json()["rejected"] == []


def event(started_at: str, ended_at: str, **more: Any) -> dict[str, Any]:
    return {"started_at": started_at, "ended_at": ended_at} | more


def due(owner: Rows) -> list[date]:
    return [day for (day,) in owner.execute("select date from activity.rollup_due order by date")]


@pytest.mark.parametrize(("stream", "names"), [("app-sessions", APPS), ("coding-sessions", CODING)])
def test_ingest_marks_the_days_that_its_sessions_overlap(
    api: TestClient, owner: Rows, alice: Person, stream: str, names: dict[str, Any]
) -> None:
    post(
        api,
        alice,
        stream,
        event("2025-06-20T23:00:00Z", "2025-06-21T01:00:00Z", **names),
        event("2025-06-16T23:00:00Z", "2025-06-17T00:00:00Z", **names),
        event("2025-06-18T00:00:00Z", "2025-06-18T00:00:00Z", **names),
    )

    assert due(owner) == [
        date(2025, 6, 16),
        date(2025, 6, 18),
        date(2025, 6, 20),
        date(2025, 6, 21),
    ]


def test_a_duplicate_marks_nothing(
    api: TestClient, owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    hour = event("2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z", **APPS)
    post(api, alice, "app-sessions", hour)
    make_rollups()

    post(api, alice, "app-sessions", hour)

    assert due(owner) == []


def test_another_write_to_a_day_renews_its_mark(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    post(api, alice, "app-sessions", event("2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z", **APPS))
    owner.execute("update activity.rollup_due set marked_at = '2025-06-16', is_left_raw = true")

    post(api, alice, "app-sessions", event("2025-06-16T11:00:00Z", "2025-06-16T12:00:00Z", **APPS))

    assert owner.execute(
        "select marked_at > now() - interval '1 minute', is_left_raw from activity.rollup_due"
    ).fetchall() == [(True, False)]


def test_a_day_is_rolled_up_two_minutes_after_the_last_write(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    for day in ("16", "17"):
        hour = event(f"2025-06-{day}T09:00:00Z", f"2025-06-{day}T10:00:00Z", **APPS)
        post(api, alice, "app-sessions", hour)
    owner.execute(
        "update activity.rollup_due set marked_at = now() - interval '121 s' where date = '2025-06-16'"
    )
    owner.execute(
        "update activity.rollup_due set marked_at = now() - interval '100 s' where date = '2025-06-17'"
    )

    made = make(deployment)

    assert made == 1
    assert due(owner) == [date(2025, 6, 17)]


def make(deployment: Settings) -> int:
    """Run the job of a server once."""

    async def work() -> int:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            return await rollups.make_due(worker)

    return asyncio.run(work())


def test_all_days_with_sessions_or_rollups_and_the_days_after_them_are_marked(
    owner: Rows, alice: Person, bob: Person, make_rollups: MakeRollups
) -> None:
    noon = since_epoch("2025-06-16T12:00:00+00:00")
    day = 86_400_000
    add_sessions(owner, alice, [Session(f"{n}", "a", "Code", noon, noon + 1) for n in range(3)])
    add_coding(
        owner,
        alice,
        [CodingSession("1", "a", "svc", None, None, noon + 30 * day, noon + 30 * day + 1)],
    )
    add_sessions(owner, alice, [Session("4", "a", "Code", noon + 60 * day, noon + 60 * day)])
    add_sessions(owner, bob, [Session("1", "a", "Code", noon + 90 * day, noon + 90 * day)])
    make_rollups()
    owner.execute("delete from activity.app_session where idempotency_key = '4'")

    owner.execute("select svc.mark_all_days(%s)", [alice.user_id])

    assert due(owner) == [
        date(2025, 6, 16),
        date(2025, 6, 17),
        date(2025, 7, 16),
        date(2025, 7, 17),
        date(2025, 8, 15),
        date(2025, 8, 16),
    ]


def test_a_change_of_title_rules_renews_rollups_at_once(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    hour = event("2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z", title="Mail", **APPS)
    post(api, alice, "app-sessions", hour)

    owner.execute(
        "select * from svc.insert_rule(%s, 'title', 'exact', 'Mail', 'Email')", [alice.user_id]
    )
    make(deployment)

    assert due(owner) == []


def test_days_are_those_of_utc_in_any_time_zone_of_the_database(owner: Rows, alice: Person) -> None:
    # In Berlin one of these days has 23 hours and the other one 25.
    late = since_epoch("2025-03-30T23:30:00+00:00")
    early = since_epoch("2025-10-26T00:00:00+00:00")
    add_sessions(owner, alice, [Session("1", "a", "Code", late, late)])
    add_coding(owner, alice, [CodingSession("1", "a", "svc", None, None, late, late)])
    add_sessions(owner, alice, [Session("2", "a", "Code", early, early)])
    owner.execute("delete from activity.rollup_due")

    with owner.transaction():
        owner.execute("set local timezone = 'Europe/Berlin'")
        owner.execute("set local statement_timeout = '10s'")
        owner.execute("select svc.mark_all_days(%s)", [alice.user_id])

    assert due(owner) == [
        date(2025, 3, 30),
        date(2025, 3, 31),
        date(2025, 10, 26),
        date(2025, 10, 27),
    ]


def test_a_running_server_writes_rollups(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    post(api, alice, "app-sessions", event("2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z", **APPS))
    owner.execute("update activity.rollup_due set marked_at = now() - interval '1 hour'")
    app = resourceserver.app.create(
        replace(deployment, jobs=True), roll_up_every=timedelta(milliseconds=50)
    )

    with AppClient(app):
        wait_for(lambda: not due(owner), "the rollups of all marked days")

    assert owner.execute(
        "select sum(owned_ms) from activity.app_time where grain = 4"
    ).fetchone() == (3_600_000,)


@pytest.mark.usefixtures("short_wait")
def test_a_job_survives_an_unreachable_database(
    deployment: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_LOG", schema.RateLimitedLog())
    nowhere = replace(
        deployment,
        jobs=True,
        role_urls={"worker": "postgresql://nobody@localhost:1/nothing?connect_timeout=2"},
    )
    app = resourceserver.app.create(nowhere, roll_up_every=timedelta(milliseconds=10))

    with AppClient(app) as server:
        wait_for(lambda: "the database does not answer" in caplog.text, "a turn that failed")
        answer = server.get("/api/v1/capabilities")

    assert answer.status_code == 200


def test_a_person_whose_days_fail_does_not_delay_others(
    api: TestClient,
    owner: Rows,
    alice: Person,
    bob: Person,
    make_rollups: MakeRollups,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for person in (alice, bob):
        hour = event("2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z", **APPS)
        post(api, person, "app-sessions", hour)
    owner.execute(
        sql.SQL(
            "alter table activity.label add constraint broken check (user_id <> {}) not valid"
        ).format(alice.user_id)
    )

    try:
        made = make_rollups()
    finally:
        owner.execute("alter table activity.label drop constraint broken")

    assert made == 1
    # And is left alone for a while.
    assert owner.execute(
        "select user_id, marked_at > now() + interval '9 minutes' from activity.rollup_due"
    ).fetchall() == [(alice.user_id, True)]
    assert f"rollups of {alice.user_id} are made later: 23514" in caplog.text


def test_a_deleted_account_gets_no_rollups(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    noon = since_epoch("2025-06-16T12:00:00+00:00")
    add_sessions(owner, alice, [Session("1", "a", "Code", noon, noon + 1)])
    mark_all_days(owner)
    owner.execute("delete from identity.user")

    made = make_rollups()

    assert made == 0
    assert owner.execute("select count(*) from activity.app_time").fetchone() == (0,)


def test_the_migration_marks_days_older_than_rollups(db: Rows) -> None:
    migration = (SQL_DIR / "migrations" / "0016_rollups.sql").read_bytes()
    db.execute("drop table activity.rollup_due, activity.label, activity.app_time cascade")
    db.execute("drop table activity.coding_time, activity.app_timeline cascade")
    db.execute("drop index activity.app_session_by_app")
    db.execute(
        """
        with person as (
            insert into identity.user (email) values ('old@example.org') returning user_id
        ),
        laptop as (
            insert into activity.device (user_id, name)
            select user_id, 'laptop' from person
            returning user_id, device_id
        ),
        used as (
            insert into activity.app_session (user_id, idempotency_key, device_id, app, started_at, ended_at)
            select user_id, started_at, device_id, 'Code', started_at::timestamptz, ended_at::timestamptz
              from laptop
             cross join (values ('2025-06-16 23:00Z', '2025-06-17 00:00Z'),
                                ('2025-06-18 23:00Z', '2025-06-19 00:00:00.001Z'),
                                ('2025-06-21 00:00Z', '2025-06-21 00:00Z')) as session (
                                    started_at, ended_at
                                )
        )
        insert into activity.coding_session
               (user_id, idempotency_key, device_id, project, started_at, ended_at)
        select user_id, '1', device_id, 'svc', '2025-06-23 10:00Z', '2025-06-23 11:00Z'
          from laptop
        """
    )

    db.execute(migration)

    assert due(db) == [
        date(2025, 6, 16),
        date(2025, 6, 18),
        date(2025, 6, 19),
        date(2025, 6, 21),
        date(2025, 6, 23),
    ]
