"""The session of an import: what its key opens, and what else the importer's login reaches."""

import hashlib
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from resourceserver.integrations.imports import receipts, undo
from shared import SCHEMA_VERSION
from tests.conftest import Connect, Person, assign

Rows = psycopg.Connection[Any]

KEY: Final = hashlib.sha256(b"key").digest()
LISTEN: Final = """
    insert into music.listen (user_id, listened_at, track, artist, source, provider_key)
    values (%s, '2025-06-16 09:00Z', 'Andromeda', %s, 'spotify', 'a')
    """
PART: Final = """
    insert into profile.import_part (user_id, import_id, name, position)
    values (%s, %s, 'a', 0)
    """


def start(owner: Rows, person: Person, key: bytes = KEY) -> UUID:
    """Return the id of a running import."""
    row = owner.execute(
        """
        insert into profile.import (user_id, file_name, file_size, digest, key_hash)
        values (%s, 'file', 1, %s, %s)
        returning import_id
        """,
        [person.user_id, KEY, key],
    ).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def open_import(
    connection: Rows,
    person: Person,
    import_id: UUID,
    key: bytes = KEY,
    version: int = SCHEMA_VERSION,
) -> None:
    connection.execute(
        "call svc.open_import(%s, %s, %s, %s)", [person.user_id, import_id, key, version]
    )


@pytest.fixture
def marked(owner: Rows, alice: Person, bob: Person) -> tuple[Person, Person]:
    """Alice and bob, each with a listen that bears their name."""
    for person, name in ((alice, "alice"), (bob, "bob")):
        owner.execute(LISTEN, [person.user_id, name])
    return alice, bob


def artists(connection: Rows) -> list[str]:
    return [row[0] for row in connection.execute("select artist from music.listen")]


def test_a_session_reaches_the_rows_of_its_person_alone(
    connect_as: Connect, marked: tuple[Person, Person], owner: Rows
) -> None:
    alice, bob = marked
    import_id, other_id = start(owner, alice), start(owner, bob)
    importer = connect_as("importer")

    with importer.transaction():
        open_import(importer, alice, import_id)
        inside = artists(importer)
        changed = importer.execute("update music.listen set album = 'x'").rowcount
        importer.execute(PART, [alice.user_id, import_id])
        receipts = importer.execute("select import_id from profile.import").fetchall()
    outside = artists(importer)

    assert inside == ["alice"]
    assert changed == 1
    assert receipts == [(import_id,)]
    assert outside == []
    for statement, values in ((LISTEN, [bob.user_id, "x"]), (PART, [bob.user_id, other_id])):
        with importer.transaction(force_rollback=True):
            open_import(importer, alice, import_id)
            with pytest.raises(errors.InsufficientPrivilege), importer.transaction():
                importer.execute(statement, values)


def test_a_session_reaches_the_receipt_of_its_own_import_alone(
    connect_as: Connect, alice: Person, owner: Rows
) -> None:
    import_id, other_id = start(owner, alice), start(owner, alice, hashlib.sha256(b"x").digest())
    importer = connect_as("importer")

    with importer.transaction(force_rollback=True):
        open_import(importer, alice, import_id)
        with pytest.raises(errors.InsufficientPrivilege), importer.transaction():
            importer.execute(PART, [alice.user_id, other_id])


@pytest.mark.parametrize(
    "ending",
    [
        "update profile.import set key_hash = sha256('other')",
        "update profile.import set status = 'interrupted'",
        "update profile.import set status = 'done'",
        "delete from profile.import",
    ],
)
def test_an_import_ends_after_its_open_session_and_opens_no_other(
    connect_as: Connect, marked: tuple[Person, Person], owner: Rows, ending: LiteralString
) -> None:
    alice, _ = marked
    import_id = start(owner, alice)
    importer = connect_as("importer")

    with importer.transaction():
        open_import(importer, alice, import_id)
        with owner.transaction():
            owner.execute("set local lock_timeout = '100ms'")
            with pytest.raises(errors.LockNotAvailable), owner.transaction():
                owner.execute(ending)
        assert artists(importer) == ["alice"]

    owner.execute(ending)
    with pytest.raises(psycopg.Error) as refused:
        open_import(importer, alice, import_id)
    assert refused.value.sqlstate == "SV401"


def test_a_deleted_account_closes_the_open_session_of_its_import(
    connect_as: Connect, marked: tuple[Person, Person], owner: Rows
) -> None:
    alice, _ = marked
    import_id = start(owner, alice)
    importer = connect_as("importer")

    with importer.transaction():
        open_import(importer, alice, import_id)
        before = artists(importer)
        owner.execute("delete from identity.user")
        after = artists(importer)

    assert (before, after) == (["alice"], [])
    with pytest.raises(psycopg.Error) as refused:
        open_import(importer, alice, import_id)
    assert refused.value.sqlstate == "SV401"


def test_undoing_an_import_removes_what_a_killed_run_is_still_writing(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    import_id = start(owner, alice)
    killed = connect_as("importer")
    values = {"user_id": alice.user_id, "import_id": import_id}

    with killed.transaction():
        open_import(killed, alice, import_id)
        killed.execute(LISTEN, [alice.user_id, "alice"])
        killed.execute("update music.listen set import_id = %s", [import_id])
        with owner.transaction():
            owner.execute("set local lock_timeout = '100ms'")
            with pytest.raises(errors.LockNotAvailable), owner.transaction():
                owner.execute(receipts.SQL["note_undone"], values)
    undo.undo(owner, alice.user_id, import_id)

    assert owner.execute("select from music.listen").fetchall() == []


def test_a_wrong_key_and_the_import_of_another_open_nothing(
    connect_as: Connect, marked: tuple[Person, Person], owner: Rows
) -> None:
    alice, bob = marked
    import_id = start(owner, alice)
    importer = connect_as("importer")

    for person, key in ((alice, hashlib.sha256(b"guess").digest()), (bob, KEY)):
        with pytest.raises(psycopg.Error) as refused:
            open_import(importer, person, import_id, key)
        assert refused.value.sqlstate == "SV401"


def test_settings_alone_open_nothing(
    connect_as: Connect, marked: tuple[Person, Person], owner: Rows
) -> None:
    alice, bob = marked
    own_id, other_id = start(owner, alice), start(owner, bob, hashlib.sha256(b"x").digest())
    importer = connect_as("importer")
    forgeries = [
        {"svc.import_id": str(other_id)},
        {"svc.import_id": str(other_id), "svc.user_id": str(bob.user_id)},
        {"svc.user_id": str(bob.user_id)},
        {"svc.import_key": ""},
    ]

    for forgery in forgeries:
        with importer.transaction():
            open_import(importer, alice, own_id)
            for name, value in forgery.items():
                assign(importer, name, value)
            assert artists(importer) == [], forgery


def test_code_that_is_too_old_opens_nothing(
    connect_as: Connect, alice: Person, owner: Rows
) -> None:
    import_id = start(owner, alice)

    with pytest.raises(psycopg.Error) as refused:
        open_import(connect_as("importer"), alice, import_id, version=18)

    assert refused.value.sqlstate == "57SV1"


FILLED: Final = {
    "activity.screen_time": "source",
    "code.event": "provider",
    "content.calendar": "provider",
    "content.calendar_event": "source",
    "content.play": "source",
    "content.recording": "source",
    "content.title": "source",
    "health.heart_rate": "source",
    "health.sample": "source",
    "health.sleep": "source",
    "location.event": "source",
    "location.place": "source",
    "location.point": "source",
    "music.listen": "source",
}
"""The tables that integrations fill, with the column that names where a row comes from."""
SESSIONS: Final = {"activity.app_session", "activity.coding_session"}
"""These are known by the key of ingest."""
PARTS: Final = {"activity.beat", "health.bucket", "health.message", "health.sleep_stage"}
"""From these, receivers compute records; their primary keys say what is known."""


def test_a_record_of_a_source_has_one_row(db: Rows) -> None:
    rows = db.execute(
        """
        select attrelid::regclass::text,
               (
                   select array_agg(pg_get_constraintdef(oid))
                     from pg_constraint
                    where conrelid = attrelid
                      and contype = 'u'
                      and conname like '%is_known_once'
               )
          from pg_attribute
         where attname = 'import_id'
           and attrelid::regclass::text not like 'profile.%'
           and attrelid in (select svc.tables_of_people())
        """
    ).fetchall()

    keys = {table: constraints for table, constraints in rows if table in FILLED}
    assert {table for table, _ in rows} == {*FILLED, *SESSIONS, *PARTS}
    assert keys == {
        table: [f"UNIQUE (user_id, {source}, provider_key)"] for table, source in FILLED.items()
    }
