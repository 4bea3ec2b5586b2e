"""The versions of the code that the database accepts."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from deploy.migrate import SQL_DIR, version_of
from shared import SCHEMA_VERSION, tokens
from tests.conftest import Connect, Person, assign
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

OPEN = "call svc.open_token_session(%(user_id)s, %(hash)s, '{}', '{}'"
CALLS = {
    "reader": [OPEN],
    "ingester": [OPEN],
    "worker": [
        "call svc.open_job(%(user_id)s",
        "select svc.people_with_summaries_due(%(user_id)s, 1",
        "select svc.people_with_rollups_due(%(user_id)s, '0', 1",
        "select svc.people_with_old_sessions(%(user_id)s, 1, 1",
        "select svc.remove_old_sessions(%(user_id)s, 1",
        "select svc.note_uses(array[%(user_id)s], array[%(hash)s], array[now()]",
    ],
}

OLDEST = 20
"""The oldest version of the code that the schema accepts."""

LOCK = "lock table svc.schema_version in access exclusive mode"


def refusal(connection: Rows, statement: str, parameters: Any) -> str | None:
    try:
        connection.execute(statement, parameters)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def test_the_code_has_the_version_of_the_newest_migration() -> None:
    newest = max((SQL_DIR / "migrations").glob("[0-9]*.sql"))

    assert version_of(newest) == SCHEMA_VERSION


@pytest.mark.parametrize("role", sorted(CALLS))
@pytest.mark.parametrize(
    ("version", "sqlstate"),
    [
        ("", "57SV1"),
        (", p_version => null", "57SV1"),
        (f", p_version => {OLDEST - 1}", "57SV1"),
        (f", p_version => {SCHEMA_VERSION}", None),
        (f", p_version => {SCHEMA_VERSION + 1}", "57SV2"),
    ],
)
def test_other_versions_are_refused(
    connect_as: Connect, alice: Person, role: str, version: str, sqlstate: str | None
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    connection = connect_as(role)
    parameters = {"user_id": alice.user_id, "hash": token.hash}

    for call in CALLS[role]:
        assert refusal(connection, f"{call}{version})", parameters) == sqlstate, call


@pytest.mark.parametrize("role", ["reader", "authserver", "worker"])
def test_the_check_accepts_the_same_versions(connect_as: Connect, role: str) -> None:
    connection = connect_as(role)

    found = [
        refusal(connection, "select svc.check_version(%s)", [version])
        for version in (None, 0, OLDEST - 1, SCHEMA_VERSION, SCHEMA_VERSION + 1)
    ]

    assert found == ["57SV1", "57SV1", "57SV1", None, "57SV2"]


def test_every_version_is_refused_without_a_version_of_the_schema(owner: Rows) -> None:
    with owner.transaction(force_rollback=True):
        owner.execute("delete from svc.schema_version")

        found = refusal(owner, "select svc.check_version(%s)", [SCHEMA_VERSION])

    assert found == "P0002"


def test_an_outdated_server_is_refused_before_the_token_is_checked(connect_as: Connect) -> None:
    found = refusal(
        connect_as("reader"), "call svc.open_token_session(gen_random_uuid(), '', '{}', '{}')", None
    )

    assert found == "57SV1"


def test_a_session_without_a_version_reads_nothing(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    # The policy of an empty table is not always evaluated.
    owner.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop')", [alice.user_id]
    )
    reader = connect_as("reader")

    with reader.transaction(force_rollback=True):
        # As `open_session` did, in a transaction that waited while the schema changed.
        assign(reader, "svc.user_id", str(alice.user_id))
        assign(reader, "svc.token_hash", token.hash.hex())

        assert refusal(reader, "select from activity.device", None) == "57SV1"


def test_a_job_without_a_version_reads_nothing(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    owner.execute(
        "insert into activity.summary_due (user_id, date) values (%s, '2025-06-16')",
        [alice.user_id],
    )
    worker = connect_as("worker")

    with worker.transaction():
        assign(worker, "svc.job_user_id", str(alice.user_id))
        before = worker.execute("select from activity.summary_due").fetchall()
    with worker.transaction():
        worker.execute("call svc.open_job(%s, %s)", [alice.user_id, SCHEMA_VERSION])
        now = worker.execute("select from activity.summary_due").fetchall()

    assert (before, now) == ([], [()])


EVERY_CALL = pytest.mark.parametrize(
    ("role", "call"),
    [
        *((role, f"{call}, ") for role, calls in sorted(CALLS.items()) for call in calls),
        ("authserver", "select svc.check_version("),
    ],
)


@EVERY_CALL
def test_a_call_that_waited_for_a_migration_is_checked_against_its_version(
    connect_as: Connect, owner: Rows, alice: Person, role: str, call: str
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    parameters = {"user_id": alice.user_id, "hash": token.hash}
    statement = f"{call}p_version => {SCHEMA_VERSION})"
    connection = connect_as(role)
    (before,) = owner.execute("select oldest_code from svc.schema_version").fetchall()

    try:
        with ThreadPoolExecutor() as threads:
            with owner.transaction():
                owner.execute(LOCK)
                owner.execute("update svc.schema_version set oldest_code = 9000")
                refused = threads.submit(refusal, connection, statement, parameters)
                wait_for_rivals(owner, 1)
            assert refused.result(timeout=60) == "57SV1"
    finally:
        owner.execute("update svc.schema_version set oldest_code = %s", before)


@EVERY_CALL
def test_a_call_that_waits_for_a_migration_locks_no_user_data(
    connect_as: Connect, owner: Rows, alice: Person, role: str, call: str
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    parameters = {"user_id": alice.user_id, "hash": token.hash}
    connection = connect_as(role)

    with ThreadPoolExecutor() as threads:
        with owner.transaction():
            owner.execute(LOCK)
            answer = threads.submit(
                refusal, connection, f"{call}p_version => {SCHEMA_VERSION})", parameters
            )
            wait_for_rivals(owner, 1)
            locked = owner.execute(
                """
                select distinct relation::regclass::text
                  from pg_locks
                  join pg_class on pg_class.oid = relation
                 where pid = %s
                   and granted
                   and relnamespace in ('activity'::regnamespace, 'identity'::regnamespace,
                                        'oauth'::regnamespace)
                """,
                [connection.info.backend_pid],
            ).fetchall()
        assert answer.result(timeout=60) is None

    assert locked == []


@pytest.mark.parametrize("role", ["authserver", "ingester", "reader", "worker"])
def test_servers_use_read_committed_for_any_default_of_the_database(
    connect_as: Connect, owner: Rows, role: str
) -> None:
    (name,) = owner.execute("select quote_ident(current_database())").fetchall()[0]
    setting = f"alter database {name} {{}} default_transaction_isolation"

    owner.execute(setting.format("set") + " = 'repeatable read'")
    try:
        found = connect_as(role).execute("show transaction_isolation").fetchall()
    finally:
        owner.execute(setting.format("reset"))

    assert found == [("read committed",)]


def test_an_exclusive_lock_waits_for_open_sessions_and_blocks_new_checks(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    inside, late = connect_as("worker"), connect_as("authserver")

    with inside.transaction():
        inside.execute("call svc.open_job(%s, %s)", [alice.user_id, SCHEMA_VERSION])
        with owner.transaction(force_rollback=True):
            owner.execute("set local lock_timeout = '50ms'")
            assert refusal(owner, LOCK, None) == "55P03"
    with owner.transaction():
        owner.execute(LOCK)
        late.execute("set lock_timeout = '50ms'")

        assert refusal(late, "select svc.check_version(%s)", [SCHEMA_VERSION]) == "55P03"
