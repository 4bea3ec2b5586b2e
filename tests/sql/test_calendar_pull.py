"""The removal of events that a calendar no longer has: what a session of an import can reach with it."""

import hashlib
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from shared import SCHEMA_VERSION
from tests.conftest import Connect, Person

Rows = psycopg.Connection[Any]

KEY: Final = hashlib.sha256(b"key").digest()


def start(owner: Rows, person: Person, name: str) -> UUID:
    """Return the id of a running import."""
    row = owner.execute(
        """
        insert into profile.import (user_id, file_name, file_size, digest, key_hash)
        values (%s, %s, 1, sha256(%s), %s)
        returning import_id
        """,
        [person.user_id, name, name.encode(), KEY],
    ).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def add_events(owner: Rows, person: Person, import_id: UUID, **hours: tuple[int, int]) -> None:
    """Add events of an import on 16 June 2025, each from one hour to another."""
    (calendar_id,) = owner.execute(
        """
        insert into content.calendar (user_id, name, provider)
        values (%s, 'Work', 'icalendar')
        returning calendar_id
        """,
        [person.user_id],
    ).fetchone() or (None,)
    for key, (starts, ends) in hours.items():
        owner.execute(
            """
            insert into content.calendar_event (
                user_id, calendar_id, import_id, source, provider_key, status, starts_at, ends_at
            )
            values (
                %s, %s, %s, 'icalendar', %s, 'confirmed',
                timestamptz '2025-06-16 00:00Z' + %s * interval '1 hour',
                timestamptz '2025-06-16 00:00Z' + %s * interval '1 hour'
            )
            """,
            [person.user_id, calendar_id, import_id, key, starts, ends],
        )


def remove(importer: Rows, *keys: str) -> int:
    """Remove the events from 8 to 16 o'clock except those with these keys."""
    row = importer.execute(
        "select svc.remove_calendar_events('2025-06-16 08:00Z', '2025-06-16 16:00Z', %s)",
        [list(keys)],
    ).fetchone()
    return row[0] if row else 0


def test_what_an_import_has_added_within_a_window_goes_unless_it_is_kept(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    pulled, file, foreign = (
        start(owner, alice, "a"),
        start(owner, alice, "b"),
        start(owner, bob, "c"),
    )
    add_events(
        owner,
        alice,
        pulled,
        before=(6, 7),
        into=(7, 8),
        kept=(9, 10),
        gone=(9, 10),
        last=(15, 17),
        after=(16, 17),
    )
    add_events(owner, alice, file, of_a_file=(9, 10))
    add_events(owner, bob, foreign, of_bob=(9, 10))
    importer = connect_as("importer")

    with importer.transaction():
        importer.execute(
            "call svc.open_import(%s, %s, %s, %s)", [alice.user_id, pulled, KEY, SCHEMA_VERSION]
        )
        removed = remove(importer, "kept", "of_nothing")

    left = owner.execute("select provider_key from content.calendar_event").fetchall()
    assert removed == 3
    assert {key for (key,) in left} == {"before", "kept", "after", "of_a_file", "of_bob"}


def test_without_an_open_session_nothing_is_removed(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    import_id = start(owner, alice, "a")
    add_events(owner, alice, import_id, event=(9, 10))
    importer = connect_as("importer")

    with importer.transaction():
        # What the session of an import has, but for its key.
        for name, value in (
            ("user_id", alice.user_id),
            ("import_id", import_id),
            ("version", SCHEMA_VERSION),
        ):
            setting, literal = sql.Identifier("svc", name), sql.Literal(str(value))
            importer.execute(sql.SQL("set local {} = {}").format(setting, literal))
        with pytest.raises(psycopg.Error) as refused, importer.transaction():
            remove(importer)

    assert refused.value.sqlstate == "SV401"
    assert owner.execute("select count(*) from content.calendar_event").fetchone() == (1,)
