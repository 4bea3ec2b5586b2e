"""`svc migrate` beside running servers: waits of sessions for each other, and unchanged policies."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from deploy.migrate import SQL_DIR, MigrationError, migrate
from shared import SCHEMA_VERSION, database
from shared.listening import port_of
from shared.settings import Settings
from tests import processes
from tests.conftest import Person, person
from tests.deploy import schemas
from tests.deploy.schemas import Load, Migrating, Rows
from tests.faults.test_export import download
from tests.limits import SERVERS_WAIT_S
from tests.waiting import wait_for

ADDS_A_COLUMN = {
    "9000_note": f"-- Usable from version {SCHEMA_VERSION} on.\n"
    "alter table activity.app_session add column note text;\n"
}


@pytest.fixture
def owner(database_of_its_own: Settings) -> Iterator[Rows]:
    """A connection to it with all rights."""
    with schemas.owning(database_of_its_own) as connection:
        yield connection


@contextmanager
def reading(chosen: Settings, alice: Person) -> Iterator[Rows]:
    """A reader's connection with a transaction that has read sessions and ends when it is closed."""
    with closing(psycopg.connect(database.role_url(chosen, "reader"))) as connection:
        connection.execute("set idle_in_transaction_session_timeout = '60s'")
        token = schemas.token_of(alice)
        connection.execute(
            "call svc.open_token_session(%s, %s, array['read:activity'], '{}', p_version => %s)",
            [alice.user_id, token.hash, SCHEMA_VERSION],
        )
        connection.execute("select count(*) from activity.app_session")
        yield connection


def policies(owner: Rows) -> list[tuple[Any, ...]]:
    """Return all policies with the transactions that made them."""
    return owner.execute(
        "select oid, xmin::text, polname, polrelid::regclass::text from pg_policy order by oid"
    ).fetchall()


# The time limits for locks of a migration, recorded within a migration and within the standing files.
NOTES_ITS_LIMIT = {
    "9000_note": f"-- Usable from version {SCHEMA_VERSION} on.\n"
    "create table svc.noted_limit as select current_setting('lock_timeout')::interval as waits;\n"
    "alter table activity.app_session add column note text;\n"
}
NOTES_ITS_LIMIT_AGAIN = (
    "insert into svc.noted_limit values (current_setting('lock_timeout')::interval);\n"
)


def wait_patiently(owner: Rows) -> None:
    """Let servers wait for locks, and exports for their clients, far longer than any test lasts.

    So the result of the test does not depend on the speed of this machine.
    """
    for role in ("svc_reader", "svc_ingester"):
        for limit in ("lock_timeout", "idle_in_transaction_session_timeout", "statement_timeout"):
            owner.execute(
                sql.SQL("alter role {} in database {} set {} = '120s'").format(
                    sql.Identifier(role), sql.Identifier(owner.info.dbname), sql.Identifier(limit)
                )
            )


def waiting(owner: Rows) -> set[tuple[str, str]]:
    """Return which login waits for a lock of which other."""
    return set(
        owner.execute(
            """
            select waiting.usename,
                   holding.usename
              from pg_stat_activity as waiting
              join pg_stat_activity as holding
                on holding.pid = any (pg_blocking_pids(waiting.pid))
             where waiting.datname = current_database()
            """
        ).fetchall()
    )


def test_readers_and_writers_are_served_while_a_migration_waits_for_an_export_and_a_question(
    database_of_its_own: Settings, owner: Rows, tmp_path: Path
) -> None:
    chosen = database_of_its_own
    alice = person(owner, "alice")
    schemas.fill(owner, alice, 5_000)
    directory = schemas.with_migrations(tmp_path, **NOTES_ITS_LIMIT)
    with (directory / "views.sql").open("a") as views:
        views.write(NOTES_ITS_LIMIT_AGAIN)
    migrator = owner.info.user
    wait_patiently(owner)

    with processes.service(chosen, tmp_path) as service:
        load = Load(service.base_url, alice.headers())
        try:
            with (
                reading(chosen, alice) as question,
                download(port_of(service.base_url), alice) as export,
            ):
                export.read_until(b'"app_sessions"')
                migration = Migrating(chosen, directory)
                wait_for(
                    lambda: (
                        (found := waiting(owner)) >= {(migrator, "svc_reader")}
                        and found & {("svc_reader", migrator), ("svc_ingester", migrator)}
                    ),
                    "others wait for a migration that waits",
                )
                wait_for(lambda: migration.tries, "the migration gives up waiting")
                load.wait_for_more()
                export.read_all()
                assert export.status == 200
                assert export.body["resources"]["app_sessions"]
                # The export has released its lock, and the read has not.
                tries = migration.tries
                wait_for(lambda: migration.tries > tries, "the migration tries again")
                question.close()
                migration.end()
                load.wait_for_more()
        finally:
            load.end()

    assert {answer.kind for answer in load.answers} == {"read", "write"}
    assert {answer.status for answer in load.answers} == {200}
    assert owner.execute("select note from activity.app_session limit 1").fetchall() == [(None,)]
    lines = [line for line in migration.lines if line.startswith("waiting for a lock")]
    assert all("canceling statement due to lock timeout" in line for line in lines)
    assert all("\n" not in line for line in lines)
    noted = owner.execute("select extract(epoch from waits)::integer from svc.noted_limit")
    limits = noted.fetchall()
    assert limits == [(1,), (1,)]
    assert limits[0][0] < SERVERS_WAIT_S


def test_a_migration_stops_waiting_before_the_requests_behind_it_time_out(owner: Rows) -> None:
    limits = owner.execute(
        """
        select rolname,
               extract(epoch from split_part(setting, '=', 2)::interval)::integer
          from pg_roles
         cross join unnest(rolconfig) as setting
         where rolname like 'svc\\_%' and setting like 'lock\\_timeout=%'
         order by rolname
        """
    ).fetchall()

    assert limits == [
        ("svc_authserver", 5),
        ("svc_importer", 5),
        ("svc_ingester", 5),
        ("svc_reader", 5),
        ("svc_worker", 5),
    ]


def test_a_lock_that_is_never_released_is_one_line_and_a_second_run_finishes(
    database_of_its_own: Settings, owner: Rows, tmp_path: Path
) -> None:
    chosen = database_of_its_own
    alice = person(owner, "alice")
    directory = schemas.with_migrations(tmp_path, **ADDS_A_COLUMN)

    with reading(chosen, alice), pytest.raises(MigrationError) as failure:
        migrate(chosen, print, directory=directory, pauses_s=())

    assert "run 'svc migrate' again" in str(failure.value)
    assert "\n" not in str(failure.value)
    messages: list[str] = []
    migrate(chosen, messages.append, directory=directory)
    assert messages == ["applying 9000_note.sql"]


def test_a_run_that_changes_no_table_waits_for_no_lock(
    database_of_its_own: Settings, owner: Rows
) -> None:
    chosen = database_of_its_own
    alice = person(owner, "alice")
    before = policies(owner)
    owner.execute(
        "update svc.applied_file set digest = 'old' where name not like '0%' and name <> 'views.sql'"
    )
    messages: list[str] = []

    with reading(chosen, alice):
        migrate(chosen, messages.append, pauses_s=())

    assert "applying policies.sql" in messages
    assert policies(owner) == before


@pytest.mark.parametrize(
    "change",
    [
        "alter policy own_rows on activity.goal using (true)",
        "alter policy own_rows on activity.goal with check (true)",
        "alter policy own_rows on activity.goal to svc_reader",
        "alter policy own_rows on activity.goal to svc_reader, svc_worker",
        "drop policy own_rows on activity.goal",
        "alter table activity.goal disable row level security",
        """
        drop policy own_rows on activity.goal;
        create policy own_rows on activity.goal as restrictive to svc_reader, svc_ingester
            using (user_id = (select svc.session_user_id()))
            with check (user_id = (select svc.session_user_id()))
        """,
        """
        drop policy own_rows on activity.goal;
        create policy own_rows on activity.goal for select to svc_reader, svc_ingester
            using (user_id = (select svc.session_user_id()))
        """,
    ],
)
def test_a_policy_that_differs_is_replaced(db: Rows, change: str) -> None:
    def policy() -> list[tuple[Any, ...]]:
        return db.execute(
            """
            select policyname, permissive, roles::text[], cmd, qual, with_check, relrowsecurity
              from pg_policies
              join pg_class on pg_class.oid = 'activity.goal'::regclass
             where schemaname = 'activity' and tablename = 'goal'
             order by policyname
            """
        ).fetchall()

    right = policy()
    db.execute(change)
    assert policy() != right

    db.execute((SQL_DIR / "policies.sql").read_text())

    assert policy() == right
