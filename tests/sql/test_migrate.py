"""Bringing roles and schema up to date."""

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from deploy import migrate as migration
from deploy.migrate import MigrationError, migrate
from shared import queries
from shared.settings import Settings
from tests.conftest import administer


@pytest.fixture
def empty(deployment: Settings, request: pytest.FixtureRequest) -> Any:
    """A new, empty database on the server of this run."""
    with psycopg.connect(deployment.database_url or "") as connection:
        name = f"{connection.info.dbname}_empty"
    administer(deployment.database_url or "", sql.SQL("create database {}"), name)
    yield replace(
        deployment, database_url=make_conninfo(deployment.database_url or "", dbname=name)
    )
    administer(deployment.database_url or "", sql.SQL("drop database {} with (force)"), name)


def test_a_second_run_applies_nothing(deployment: Settings, owner: psycopg.Connection[Any]) -> None:
    said: list[str] = []

    migrate(deployment, said.append)

    assert not owner.closed
    assert said == []


def test_a_run_stores_the_dashboard_and_its_redirect_uri_follows_the_base_url(
    deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    stored = []
    for base_url in ("http://localhost:8401", "http://localhost:8401", "https://api.example.org"):
        migrate(replace(deployment, base_url=base_url), print)
        stored += owner.execute(
            "select client_id, client_name, redirect_uris, created_at, xmin::text from oauth.client"
        ).fetchall()

    first, unchanged, moved = stored
    assert first[:2] == ("svc_client_dashboard0000000000000", "This service's own pages")
    assert first[2] == ["http://localhost:8401/signed-in"]
    assert unchanged == first
    assert moved[:4] == (*first[:2], ["https://api.example.org/signed-in"], first[3])


def test_concurrent_migrations_create_one_schema(empty: Settings) -> None:
    said: list[str] = []
    failures: list[Exception] = []

    def start() -> None:
        try:
            migrate(empty, said.append)
        except Exception as error:
            failures.append(error)

    servers = [threading.Thread(target=start) for _ in range(4)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()

    assert failures == []
    applied = [line for line in said if line.startswith("applying ")]
    assert sorted(applied) == sorted(set(applied))
    assert "applying 0001_identity.sql" in said


def test_a_migration_that_changed_after_it_ran_is_refused(deployment: Settings, db: Any) -> None:
    with psycopg.connect(deployment.database_url or "", autocommit=True) as owner:
        kept = owner.execute(
            "select digest from svc.applied_file where name = '0001_identity.sql'"
        ).fetchone()
        owner.execute("update svc.applied_file set digest = 'x' where name = '0001_identity.sql'")
        try:
            with pytest.raises(MigrationError, match=r"0001_identity\.sql was changed"):
                migrate(deployment, print)
        finally:
            owner.execute(
                "update svc.applied_file set digest = %s where name = '0001_identity.sql'", kept
            )


def test_a_migration_missing_before_an_applied_one_is_named(deployment: Settings) -> None:
    with psycopg.connect(deployment.database_url or "", autocommit=True) as owner:
        kept = owner.execute(
            "delete from svc.applied_file where name = '0001_identity.sql' returning name, digest"
        ).fetchone()
        try:
            with pytest.raises(MigrationError, match=r"0001_identity\.sql must run before"):
                migrate(deployment, print)
        finally:
            owner.execute("insert into svc.applied_file (name, digest) values (%s, %s)", kept)


def test_a_schema_of_a_newer_program_is_refused(deployment: Settings) -> None:
    with psycopg.connect(deployment.database_url or "", autocommit=True) as owner:
        owner.execute("insert into svc.applied_file (name, digest) values ('9999_later.sql', 'x')")
        try:
            with pytest.raises(
                MigrationError, match=r"newer than this program: it has 9999_later\.sql"
            ):
                migrate(deployment, print)
        finally:
            owner.execute("delete from svc.applied_file where name = '9999_later.sql'")


def test_an_unreachable_server_is_one_line(deployment: Settings) -> None:
    nowhere = replace(deployment, database_url="postgresql://nobody@127.0.0.1:1/svc")

    with pytest.raises(MigrationError) as failure:
        migrate(nowhere, print)

    assert "\n" not in str(failure.value)


def test_this_servers_time_zones_are_right(db: psycopg.Connection[Any]) -> None:
    statements = queries.load(migration.SQL_DIR / "migrate.sql")

    assert db.execute(statements["wrong_zones"]).fetchall() == []


def test_data_older_than_summaries_is_marked_and_counted(
    empty: Settings,
) -> None:
    statements = queries.load(migration.SQL_DIR / "migrate.sql")
    files = sorted((migration.SQL_DIR / "migrations").glob("00*.sql"))
    with psycopg.connect(empty.database_url or "") as owner:
        owner.execute(statements["grant_owner_access"])
        owner.execute(statements["become_owner"])
        for path in files[:11]:
            owner.execute(path.read_text())
        owner.execute(
            """
            with person as (
                insert into identity.user (email) values ('alice@example.org') returning user_id
            ),
            laptop as (
                insert into activity.device (user_id, name)
                select user_id, 'laptop' from person
                returning user_id, device_id
            )
            insert into activity.app_session (
                user_id, idempotency_key, device_id, app, started_at, ended_at
            )
            select user_id, started_at, device_id, 'Code', started_at::timestamptz,
                   ended_at::timestamptz
              from laptop
             cross join (values ('2025-06-16 09:00Z', '2025-06-16 10:00Z'),
                                ('2025-06-16 23:00Z', '2025-06-17 00:00Z'),
                                ('2025-06-18 23:00Z', '2025-06-19 00:00:00.001Z'),
                                ('2025-06-21 00:00Z', '2025-06-21 00:00Z')) as session (
                                    started_at, ended_at
                                )
            """
        )

        owner.execute(files[11].read_text())

        assert files[11].name == "0012_activity.sql"
        assert owner.execute(
            "select date::text from activity.summary_due order by date"
        ).fetchall() == [("2025-06-16",), ("2025-06-18",), ("2025-06-19",), ("2025-06-21",)]
        assert owner.execute(
            "select stream, event_count from activity.device_stream"
        ).fetchall() == [("app_sessions", 4)]


def test_summaries_older_than_the_services_rules_are_renewed(
    empty: Settings,
) -> None:
    statements = queries.load(migration.SQL_DIR / "migrate.sql")
    files = sorted((migration.SQL_DIR / "migrations").glob("00*.sql"))
    with psycopg.connect(empty.database_url or "") as owner:
        owner.execute(statements["grant_owner_access"])
        owner.execute(statements["become_owner"])
        owner.execute(statements["prepare_ledger"])
        for path in files[:16]:
            owner.execute(path.read_text())
        owner.execute(
            """
            with person as (
                insert into identity.user (email) values ('alice@example.org') returning user_id
            ),
            summary as (
                insert into activity.daily_summary
                select user_id, date, 'UTC', 'final', now(), 0, 0, 0, 0, 0, 0, 0, 0, '[]', '[]', '[]'
                  from person, unnest(array['2025-06-16', '2025-06-18']::date[]) as date
            )
            insert into activity.summary_due
            select user_id, marked.date, marked.at
              from person,
                   (
                       values ('2025-06-18'::date, '2100-01-01 00:00Z'::timestamptz),
                              ('2025-06-19', '2000-01-01 00:00Z')
                   ) as marked (date, at)
            """
        )

        owner.execute(files[16].read_text())

        assert files[16].name == "0017_default_rules.sql"
        assert owner.execute(
            """
            select date::text, marked_at > '2100-01-01 00:00Z', marked_at < '2000-01-02 00:00Z'
              from activity.summary_due
             order by date
            """
        ).fetchall() == [
            ("2025-06-16", False, False),
            ("2025-06-18", True, False),
            ("2025-06-19", False, True),
        ]


def test_grants_and_policies_may_run_again(db: psycopg.Connection[Any]) -> None:
    # A clone of a database has the same tables, and not the database's own privileges.
    db.execute(queries.load(migration.SQL_DIR / "migrate.sql")["grant_owner_access"])
    db.execute("set role svc_owner")

    for name in migration._STANDING:
        db.execute(queries.written_out(migration.SQL_DIR / name).encode())


def test_no_two_standing_files_have_the_same_name() -> None:
    # The ledger knows them by their names alone.
    names = [Path(name).name for name in migration._STANDING]

    assert len(set(names)) == len(names)


def test_a_changed_file_also_runs_the_grants(empty: Settings) -> None:
    migrate(empty, print)
    with psycopg.connect(empty.database_url or "", autocommit=True) as owner:
        owner.execute("update svc.applied_file set digest = 'old' where name = 'session.sql'")
    said: list[str] = []

    migrate(empty, said.append)

    assert said == ["applying session.sql", "applying grants.sql"]


def test_a_connection_is_unchanged_afterwards(empty: Settings) -> None:
    with psycopg.connect(empty.database_url or "", autocommit=True) as connection:
        migration._Migrator(connection, print, migration.SQL_DIR, (), empty.base_url).run()

        left = connection.execute(
            """
            select current_user = session_user,
                   current_setting('lock_timeout'),
                   (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())
            """
        ).fetchone()

    assert left == (True, "0", 0)


def test_a_new_function_needs_a_grant(empty: Settings) -> None:
    migrate(empty, print)
    with psycopg.connect(empty.database_url or "", autocommit=True) as owner:
        owner.execute("set role svc_owner")
        owner.execute("create function svc.later() returns integer language sql return 1")
        row = owner.execute(
            "select has_function_privilege('svc_ingester', 'svc.later()', 'execute')"
        ).fetchone()

    assert row == (False,)


def test_no_runtime_role_may_create_temporary_tables(empty: Settings) -> None:
    migrate(empty, print)
    with psycopg.connect(empty.database_url or "") as owner:
        may = owner.execute(
            """
            select rolname
              from pg_roles
             where rolname in ('svc_authserver', 'svc_ingester', 'svc_reader', 'svc_worker')
               and has_database_privilege(rolname, current_database(), 'temporary')
            """
        ).fetchall()

    assert may == []


def test_a_migration_waits_at_most_four_seconds_for_the_locks_of_a_statement() -> None:
    for path in (migration.SQL_DIR / "migrations").glob("[0-9]*.sql"):
        limit_s = 4
        words = re.finditer(
            r"^set local lock_timeout = '(\d+)s';|^lock table ([^;]+) in ",
            path.read_text(),
            re.MULTILINE,
        )
        for seconds, tables in (found.groups() for found in words):
            if seconds:
                limit_s = int(seconds)
            else:
                # The limit holds for each table, and tables locked before it stay locked meanwhile.
                assert limit_s * len(tables.split(",")) <= 4, path.name

        assert limit_s == 4, path.name
