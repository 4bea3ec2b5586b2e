"""Statements that the servers' roles may not run on the embedded server (sql/embedded)."""

from typing import Any, Final

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege, QueryCanceled
from psycopg.sql import SQL

from shared import database
from shared.settings import Settings
from tests.conftest import Connect

Rows = psycopg.Connection[Any]

ROLES: Final = ("authserver", "ingester", "reader", "worker")
FORBIDDEN: Final = (
    "set_config('statement_timeout', '0', true)",
    "pg_advisory_lock(1)",
    "pg_advisory_lock_shared(1, 2)",
    "pg_try_advisory_lock(1)",
    "pg_advisory_unlock_all()",
    "pg_advisory_xact_lock_shared(1)",
    "pg_try_advisory_xact_lock_shared(1)",
    "lo_creat(-1)",
    "lo_from_bytea(0, 'x')",
    "lo_get(1)",
    "pg_logical_emit_message(false, 'x', 'y')",
    "pg_terminate_backend(pg_backend_pid())",
    "pg_cancel_backend(pg_backend_pid())",
)
LOCKS: Final = ("pg_advisory_xact_lock(1)", "pg_try_advisory_xact_lock(1, 2)")


@pytest.fixture(autouse=True)
def ours(db: Rows) -> None:
    """Skip on a server that is not embedded: no rights are revoked there."""
    if db.execute("select current_setting('svc.is_embedded', true)").fetchone() != ("on",):
        pytest.skip("the server is not embedded")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("call", FORBIDDEN)
def test_no_role_may_call_a_function_that_leaves_something_behind_or_lifts_a_limit(
    connect_as: Connect, role: str, call: str
) -> None:
    with pytest.raises(InsufficientPrivilege):
        connect_as(role).execute(f"select {call}")


@pytest.mark.parametrize("call", LOCKS)
def test_only_the_worker_may_take_advisory_locks_of_a_transaction(
    connect_as: Connect, call: str
) -> None:
    for role in ("authserver", "ingester", "reader"):
        with pytest.raises(InsufficientPrivilege):
            connect_as(role).execute(f"select {call}")
    connect_as("worker").execute(f"select {call}")


def test_all_functions_of_these_families_are_revoked_from_public(db: Rows) -> None:
    left = db.execute(
        """
        select oid::regprocedure::text
          from pg_catalog.pg_proc
         where has_function_privilege('public', oid, 'execute')
           and proname ~ 'advisory|^lo_|^lo(read|write)$|emit_message|_backend$|^set_config$'
           and proname !~ '^pg_(stat|get)_'
        """
    ).fetchall()

    assert left == []


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("place", ["postgres", "template1"])
def test_no_role_connects_to_another_database(deployment: Settings, role: str, place: str) -> None:
    url = database.role_url(deployment, role)

    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(url, dbname=place)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_cannot_fill_the_disk_with_temporary_files(connect_as: Connect, role: str) -> None:
    connection = connect_as(role)
    limit = connection.execute("show temp_file_limit").fetchone()

    assert limit is not None
    assert limit[0] in ("256MB", "1GB", "2GB")
    with pytest.raises(InsufficientPrivilege):
        connection.execute("set temp_file_limit = -1")


def test_the_time_limit_of_pages_ends_with_the_transaction(connect_as: Connect) -> None:
    connection = connect_as("authserver")
    limits = SQL("select current_setting('statement_timeout'), current_setting('lock_timeout')")
    before = connection.execute(limits).fetchone()
    with connection.transaction():
        connection.execute("select svc.limit_page()")
        inside = connection.execute(limits).fetchone()

    assert inside == ("5s", "2s")
    assert connection.execute(limits).fetchone() == before


def test_an_answer_keeps_its_time_limit(connect_as: Connect) -> None:
    connection = connect_as("reader")

    with connection.transaction(force_rollback=True):
        connection.execute("select svc.limit_answer(50)")
        with pytest.raises(QueryCanceled):
            connection.execute("select pg_sleep(60)")
