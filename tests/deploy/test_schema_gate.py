"""Servers and schemas that do not fit each other: the answers, and the lines of the log."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from starlette.testclient import TestClient

import authserver.app
import resourceserver.app
from deploy.migrate import _STANDING, SQL_DIR, MigrationError, migrate
from resourceserver.description import probes
from resourceserver.timeline import rollups, rounds, summaries
from shared import SCHEMA_VERSION, database, schema, tokens
from shared.pool import Connection
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person, person
from tests.deploy import schemas
from tests.mcp.assistant import Assistant
from tests.waiting import wait_for

RAISES = f"-- Usable from version {SCHEMA_VERSION + 1} on.\n"
NAME = f"{SCHEMA_VERSION + 1:04d}_test"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the log lines about the schema; earlier lines are removed."""
    monkeypatch.setattr(schema, "_LOG", schema.RateLimitedLog())
    messages: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Kept()
    schema.log.addHandler(handler)
    yield messages
    schema.log.removeHandler(handler)


@contextmanager
def servers(chosen: Settings) -> Iterator[tuple[TestClient, TestClient]]:
    """The authorization server and the resource server, without a network."""
    chosen = replace(chosen, base_url="http://testserver", auth_url="http://authserver")
    with (
        AppClient(
            authserver.app.create(chosen), "http://authserver", raise_server_exceptions=False
        ) as auth,
        AppClient(resourceserver.app.create(chosen), raise_server_exceptions=False) as resource,
    ):
        yield auth, resource


def refresh(auth: TestClient) -> tuple[int, str]:
    """Request new tokens, and return the status and the error."""
    answer = auth.post(
        "/oauth/token",
        data={
            "grant_type": "refresh_token",
            "client_id": "svc_client_0000000000000000000000",
            "refresh_token": tokens.mint(tokens.REFRESH, tokens.NOBODY).text,
        },
    )
    return answer.status_code, answer.json()["error"]


def unknown_token() -> dict[str, str]:
    """Return the headers of a request with a well-formed token that belongs to no person."""
    return {"Authorization": f"Bearer {tokens.mint(tokens.ACCESS, tokens.NOBODY).text}"}


def test_both_servers_are_ready_where_the_schema_fits(database_of_its_own: Settings) -> None:
    with servers(database_of_its_own) as both:
        for server in both:
            ready, alive = server.get("/readyz"), server.get("/healthz")

            assert (ready.status_code, ready.json()) == (200, {"status": "ready", "replica": "off"})
            assert ready.headers["cache-control"] == "no-store"
            assert alive.status_code == 200
            assert alive.json()["build"]["commit"] == "abc1234"
            assert probes.Ready.model_validate_json(ready.content)
            assert probes.Alive.model_validate_json(alive.content)


def test_a_probe_answers_under_any_name(database_of_its_own: Settings) -> None:
    with servers(database_of_its_own) as both:
        for server in both:
            assert server.get("/readyz", headers={"Host": "10.0.0.7"}).status_code == 200


@pytest.mark.usefixtures("short_wait")
def test_both_servers_report_a_database_that_does_not_answer(deployment: Settings) -> None:
    nowhere = dict.fromkeys(
        ("authserver", "reader", "ingester", "worker"), "host=127.0.0.1 port=1 dbname=svc"
    )
    with servers(replace(deployment, role_urls=nowhere)) as both:
        for server in both:
            for path in ("/readyz", "/healthz"):
                answer = server.get(path)

                assert answer.status_code == 503
                assert answer.json()["error"] == "database_unavailable"
                assert answer.headers["retry-after"] == "1"
                described = probes.NotReady if path == "/readyz" else probes.Unavailable
                assert described.model_validate_json(answer.content)


def test_a_server_stays_ready_while_a_migration_tries_to_get_a_lock(
    database_of_its_own: Settings,
) -> None:
    chosen = database_of_its_own
    with (
        servers(chosen) as (_, resource),
        schemas.owning(chosen) as owner,
        ThreadPoolExecutor() as threads,
    ):
        with owner.transaction():
            owner.execute("lock table svc.schema_version in access exclusive mode")
            answer = threads.submit(resource.get, "/readyz")
            wait_for(
                lambda: (
                    answer.done()
                    or owner.execute(
                        "select from pg_locks where clock_timestamp() - waitstart > interval '2 s'"
                    ).fetchall()
                ),
                "the probe waits for 2 s",
            )
        ready = answer.result(timeout=60)

    assert ready.status_code == 200


def test_an_outdated_server_is_refused_everywhere_and_logs_the_advice_once(
    database_of_its_own: Settings, tmp_path: Path, lines: list[str]
) -> None:
    chosen = database_of_its_own
    with schemas.owning(chosen) as owner:
        alice = person(owner, "alice")
        headers = alice.headers()
    event = {
        "idempotency_key": "k",
        "device": "laptop",
        "app": "Mail",
        "started_at": "2025-06-17T09:00:00Z",
        "ended_at": "2025-06-17T09:00:30Z",
        "source": "test",
    }
    migrate(chosen, lambda _: None, directory=schemas.with_migrations(tmp_path, **{NAME: RAISES}))

    with servers(chosen) as (auth, resource):
        answers = [
            resource.get("/api/v1/me", headers=headers),
            resource.get("/api/v1/analytics/daily", params={"from": "?"}, headers=headers),
            resource.get("/api/v1/export", headers=headers),
            resource.post("/api/v1/ingest/app-sessions", json={"events": [event]}, headers=headers),
            resource.get("/readyz"),
            auth.get("/readyz"),
        ]
        refreshed = refresh(auth)
        link = tokens.mint(tokens.LINK, tokens.NOBODY).text
        page = auth.get("/join", params={"link": link})
        alive = resource.get("/healthz")

    for answer in answers:
        assert (answer.status_code, answer.json()["error"]) == (503, "outdated_server")
        assert answer.headers["retry-after"] == "1"
    assert refreshed == (503, "outdated_server")
    assert page.status_code == 503
    assert "The service is busy" in page.text
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["retry-after"] == "1"
    assert alive.status_code == 200
    assert lines == [
        "this server is too old for the schema: start the version that the schema was made for "
        f"(57SV1: the server has version {SCHEMA_VERSION}, and the schema can be used from version "
        f"{SCHEMA_VERSION + 1} on)"
    ]


def test_a_migration_that_older_code_can_use_excludes_no_server(
    database_of_its_own: Settings, tmp_path: Path
) -> None:
    chosen = database_of_its_own
    harmless = f"-- Usable from version {SCHEMA_VERSION} on.\n"
    migrate(chosen, lambda _: None, directory=schemas.with_migrations(tmp_path, **{NAME: harmless}))

    with servers(chosen) as both:
        assert [server.get("/readyz").status_code for server in both] == [200, 200]


def unready(chosen: Settings) -> list[tuple[int, str]]:
    """Return the answers of both servers to a few requests: statuses and errors."""
    with servers(chosen) as (auth, resource):
        answers = [
            resource.get("/api/v1/me", headers=unknown_token()),
            resource.post("/api/v1/ingest/app-sessions", json={}, headers=unknown_token()),
            resource.get("/readyz"),
            auth.get("/readyz"),
        ]
        tool = Assistant(resource, unknown_token()).call("get_goals")
        assert tool.status_code == 503, tool.text
        return [
            *((answer.status_code, answer.json()["error"]) for answer in answers),
            refresh(auth),
        ]


UNREADY = [(503, "database_unavailable")] * 4 + [(503, "temporarily_unavailable")]


def test_an_empty_database_is_503_and_logs_the_advice_once(
    empty: Settings, lines: list[str]
) -> None:
    assert unready(empty) == UNREADY
    assert lines == [
        "the schema is too old for this server: run 'svc migrate' of this version "
        '(3F000: schema "svc" does not exist)'
    ]


@pytest.mark.usefixtures("short_wait")
def test_a_missing_database_is_503_and_logged(
    deployment: Settings, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = make_conninfo(deployment.database_url or "", dbname="svc_not_there")

    with caplog.at_level(logging.WARNING):
        assert unready(replace(deployment, database_url=nowhere)) == UNREADY
    (line,) = lines
    assert [record.name for record in caplog.records if record.name.startswith("svc.")] == [
        "svc.schema"
    ]
    assert line.startswith("the database does not answer; if it is new, run 'svc migrate'")
    assert 'database "svc_not_there" does not exist' in line
    assert "\n" not in line


@pytest.mark.parametrize("prepare", [True, False])
def test_a_schema_without_versions_is_503(
    database_of_its_own: Settings, lines: list[str], prepare: bool
) -> None:
    chosen = replace(database_of_its_own, prepare=prepare)
    with schemas.owning(chosen) as owner:
        owner.execute("drop function svc.check_version cascade")
        owner.execute("drop procedure svc.open_session, svc.open_token_session")
        owner.execute(
            "create procedure svc.open_session(uuid, bytea, text[], text[]) language sql as ''"
        )

    assert unready(chosen) == UNREADY
    assert len(lines) == 1


def test_an_error_of_the_code_after_the_check_is_500_and_not_reported_as_a_mismatch(
    database_of_its_own: Settings, lines: list[str]
) -> None:
    chosen = database_of_its_own
    with schemas.owning(chosen) as owner:
        headers = person(owner, "alice").headers()
        owner.execute("alter function svc.days rename to days_of_before")
        owner.execute("alter table oauth.client rename to client_of_before")

    with servers(chosen) as (auth, resource):
        answer = resource.get(
            "/api/v1/analytics/daily",
            params={"from": "2025-06-16", "to": "2025-06-17"},
            headers=headers,
        )

        refreshed = refresh(auth)

    assert (answer.status_code, answer.json()["error"]) == (500, "internal_error")
    assert refreshed == (500, "server_error")
    assert lines == []


def test_jobs_and_exports_report_a_schema_without_versions(
    database_of_its_own: Settings, lines: list[str]
) -> None:
    chosen = database_of_its_own
    with schemas.owning(chosen) as owner:
        owner.execute("drop table svc.schema_version cascade")
        owner.execute("drop function svc.people_with_summaries_due, svc.people_with_rollups_due")

    async def run(work: Callable[[Connection], Awaitable[int]]) -> None:
        async with rounds.connected(database.login(chosen, "worker")) as worker:
            await work(worker)

    with servers(chosen) as (_, resource):
        exported = resource.get("/api/v1/export", headers=unknown_token())
    for work in (summaries.make_due, rollups.make_due):
        with pytest.raises(psycopg.Error) as failure:
            asyncio.run(run(work))
        assert schema.mismatch_of(failure.value) is schema.OUTDATED_SCHEMA

    assert (exported.status_code, exported.json()["error"]) == (503, "database_unavailable")
    assert len(lines) == 1


def test_busy_connections_are_not_reported_as_an_unreachable_database(lines: list[str]) -> None:
    found = schema.log_mismatch(psycopg.OperationalError("every connection is busy"))

    assert found is None
    assert lines == []


def tables(chosen: Settings) -> list[tuple[object, ...]]:
    """Return the parts of a schema: columns, functions, views, policies, rights, and the applied files."""
    with schemas.owning(chosen) as owner:
        return owner.execute(
            """
            select 'column', table_schema || '.' || table_name, column_name, data_type
              from information_schema.columns
             where table_schema not in ('pg_catalog', 'information_schema')
             union all
            select 'function', oid::regprocedure::text, md5(prosrc), proacl::text
              from pg_proc
             where pronamespace = 'svc'::regnamespace
             union all
            select 'view', schemaname || '.' || viewname, md5(definition), viewowner
              from pg_views
             where schemaname in ('oauth', 'identity')
             union all
            select 'policy', schemaname || '.' || tablename, policyname, qual
              from pg_policies
             union all
            select 'file', name, digest, ''
              from svc.applied_file
             union all
            select 'version', version::text, oldest_code::text, ''
              from svc.schema_version
             order by 1, 2, 3, 4
            """
        ).fetchall()


def test_the_next_run_finishes_a_run_that_was_killed_at_any_file(
    empty: Settings, database_of_its_own: Settings
) -> None:
    migrations = sorted(path.name for path in (SQL_DIR / "migrations").glob("[0-9]*.sql"))
    # These are applied in one transaction: a kill at each of them would only repeat the ones before.
    standing = [Path(name).name for name in (*_STANDING[::12], _STANDING[-1])]

    with schemas.killer(empty) as killed_at:
        for name in (*migrations, *standing):
            assert killed_at(f"applying {name}") == signal.SIGKILL
            # An empty database; all but the last migration; all of them; and the end of the rest is lost.
            if name in (migrations[0], migrations[-1], standing[0], standing[-1]):
                assert unready(empty) == UNREADY
    messages: list[str] = []
    migrate(empty, messages.append)

    assert messages[0] == "applying views.sql"
    assert messages[-1] == "applying grants.sql"
    assert tables(empty) == tables(database_of_its_own)


def test_a_migration_that_fails_is_one_line_and_changes_nothing_and_a_second_run_finishes(
    database_of_its_own: Settings, tmp_path: Path
) -> None:
    chosen = database_of_its_own
    good = f"-- Usable from version {SCHEMA_VERSION} on.\ncreate table svc.later (later integer);\n"
    bad = f"{good}alter table svc.later add column later integer;\n"
    before = tables(chosen)

    with pytest.raises(MigrationError) as failure:
        migrate(chosen, print, directory=schemas.with_migrations(tmp_path / "bad", **{NAME: bad}))

    assert "\n" not in str(failure.value)
    assert f"{NAME}.sql" in str(failure.value)
    assert 'column "later" of relation "later" already exists' in str(failure.value)
    assert tables(chosen) == before
    messages: list[str] = []
    mended = schemas.with_migrations(tmp_path / "good", **{NAME: good})
    migrate(chosen, messages.append, directory=mended)
    assert messages == [f"applying {NAME}.sql"]


@pytest.mark.parametrize(
    "text",
    ["create table svc.later ();\n", f"-- Usable from version {SCHEMA_VERSION + 2} on.\n"],
)
def test_a_migration_that_does_not_state_the_oldest_version_is_refused(
    database_of_its_own: Settings, tmp_path: Path, text: str
) -> None:
    directory = schemas.with_migrations(tmp_path, **{NAME: text})

    with pytest.raises(MigrationError, match=f"{NAME}.sql must begin with"):
        migrate(database_of_its_own, print, directory=directory)


def test_a_second_run_at_the_same_time_reports_that_it_waits(
    database_of_its_own: Settings, tmp_path: Path
) -> None:
    chosen = database_of_its_own
    # The first run holds the schema's lock until lock (1, 1) is free, and tries again and again to take it. A
    # statement that waits for a lock fails after a second, and then the run would release the schema's lock.
    text = f"""-- Usable from version {SCHEMA_VERSION} on.
        do $$
        begin
            while not pg_try_advisory_xact_lock(1, 1) loop
                perform pg_sleep(0.01);
            end loop;
        end
        $$;
        """
    directory = schemas.with_migrations(tmp_path, **{NAME: text})
    with schemas.owning(chosen) as other:
        with other.transaction():
            other.execute("select pg_advisory_xact_lock(1, 1)")
            first = schemas.Migrating(chosen, directory)
            wait_for(lambda: first.lines, "the first run begins")
            second = schemas.Migrating(chosen, directory)
            wait_for(lambda: second.lines, "the second run says something")
        first.end()
        second.end()

    assert second.lines == ["another 'svc migrate' is running on this database; waiting for it"]
    assert first.lines[0] == f"applying {NAME}.sql"


def test_running_transactions_have_ended_when_a_migration_excludes_them(
    database_of_its_own: Settings, tmp_path: Path
) -> None:
    chosen = database_of_its_own
    with schemas.owning(chosen) as owner:
        alice: Person = person(owner, "alice")
    directory = schemas.with_migrations(
        tmp_path, **{NAME: f"{RAISES}create table svc.later (later integer);\n"}
    )

    with schemas.owning(chosen) as worker:
        with worker.transaction():
            worker.execute("call svc.open_job(%s, %s)", [alice.user_id, SCHEMA_VERSION])
            migration = schemas.Migrating(chosen, directory)
            wait_for(lambda: migration.tries, "the migration gives up waiting")
            assert worker.execute("select to_regclass('svc.later')").fetchone() == (None,)
        migration.end()
        with pytest.raises(psycopg.OperationalError) as refused:
            worker.execute("call svc.open_job(%s, %s)", [alice.user_id, SCHEMA_VERSION])

    assert refused.value.sqlstate == "57SV1"
