"""Connections in the database: what their keys open, and what remains after their end."""

from datetime import UTC, datetime
from typing import Any, Final, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from shared import SCHEMA_VERSION, keys, tokens
from shared.connections import KINDS
from shared.tokens import Token
from tests.conftest import Connect, Person
from tests.connecting import Connected, connect, state

Rows = psycopg.Connection[Any]

LISTEN: Final = """
    insert into music.listen (user_id, listened_at, track, artist, source, provider_key, import_id)
    values (%s, '2025-06-16 09:00Z', 'Andromeda', 'Weyes Blood', 'listenbrainz', %s, %s)
    """


def sign_in(person: Person, *, proved: str = "0 s") -> Token:
    """Return a sign-in session of a person, which was proved some time ago."""
    session = tokens.mint(tokens.SESSION, person.user_id)
    person.connection.execute(
        "insert into identity.session (user_id, session_hash, authenticated_at) "
        "values (%s, %s, now() - %s::interval)",
        [person.user_id, session.hash, proved],
    )
    return session


def key_hash(connected: Connected) -> bytes:
    found = keys.hash_of(connected.key or "")
    assert found is not None
    return found


def open_receiver(connection: Rows, connected: Connected, kind: str = "listenbrainz") -> Any:
    return connection.execute(
        "call svc.open_receiver(%s, %s, %s)", [key_hash(connected), kind, SCHEMA_VERSION]
    ).fetchone()


def receive(importer: Rows, connected: Connected, person: Person, name: str = "a") -> None:
    """Write a listen in the session of a connection."""
    with importer.transaction():
        import_id = open_receiver(importer, connected)[2]
        importer.execute(LISTEN, [person.user_id, name, import_id])
        importer.execute("select svc.note_delivery(1, true)")


def ask(authserver: Rows, statement: LiteralString, *values: Any) -> Any:
    (answer,) = authserver.execute(statement, values).fetchone() or (None,)
    return answer


def add(authserver: Rows, person: Person, session: Token, connection_id: UUID) -> Any:
    return ask(
        authserver,
        "select svc.add_connection(%s, %s, %s, 'owntracks', 'location', 'Phone', %s, %s, "
        "'{}', '{}', '{}', '{}')",
        person.user_id,
        session.hash,
        connection_id,
        Jsonb({}),
        keys.hash_of(keys.new(KINDS["owntracks"], person.user_id)),
    )


def end(authserver: Rows, person: Person, connected: Connected, *, is_removed: bool) -> Any:
    return ask(
        authserver,
        "select svc.end_connection(%s, %s, %s, %s)",
        person.user_id,
        sign_in(person).hash,
        connected.connection_id,
        is_removed,
    )


def test_a_key_opens_its_own_connection_alone(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    importer = connect_as("importer")
    own, other = connect(owner, alice, "listenbrainz"), connect(owner, bob, "listenbrainz")
    receive(importer, other, bob)

    with importer.transaction():
        opened = open_receiver(importer, own)
        seen = importer.execute("select count(*) from music.listen").fetchone()

    assert opened[:2] == (alice.user_id, own.connection_id)
    assert seen == (0,)
    with pytest.raises(psycopg.Error, match="unknown"):
        open_receiver(importer, own, "owntracks")
    with pytest.raises(errors.InsufficientPrivilege):
        receive(importer, own, bob)


def test_a_look_up_opens_no_session_and_does_not_wait_for_the_end_of_a_connection(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    importer = connect_as("importer")
    own = connect(owner, alice, "listenbrainz")
    receive(importer, own, alice)
    look_up = "call svc.open_receiver(%s, 'listenbrainz', %s, p_opens => false)"

    with owner.transaction():
        owner.execute("select from profile.import for update")
        with importer.transaction():
            importer.execute("set local lock_timeout = '100 ms'")
            opened = importer.execute(look_up, [key_hash(own), SCHEMA_VERSION]).fetchone()
            seen = importer.execute("select count(*) from music.listen").fetchone()
            written = importer.execute("select pg_current_xact_id_if_assigned()").fetchone()

    assert opened is not None
    assert opened[:2] == (alice.user_id, own.connection_id)
    assert (seen, written) == ((0,), (None,))
    with pytest.raises(psycopg.Error, match="unknown"):
        importer.execute(look_up, [b"another", SCHEMA_VERSION])


def test_a_delivery_waits_for_the_disk_although_an_import_does_not(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    importer = connect_as("importer")
    own = connect(owner, alice, "listenbrainz")
    receive(importer, own, alice)

    with importer.transaction():
        open_receiver(importer, own)
        waits = importer.execute("show synchronous_commit").fetchone()

    assert waits == ("on",)


def test_a_forged_setting_opens_nothing(connect_as: Connect, owner: Rows, alice: Person) -> None:
    importer = connect_as("importer")
    own = connect(owner, alice, "listenbrainz")
    receive(importer, own, alice)

    with importer.transaction():
        open_receiver(importer, own)
        importer.execute("set local svc.import_key = 'ff'")
        seen = importer.execute("select count(*) from music.listen").fetchone()

    assert seen == (0,)


def test_an_application_may_read_only_what_its_person_has_allowed(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    reader, importer = connect_as("reader"), connect_as("importer")
    allowed = connect(owner, alice, "listenbrainz", scopes=("read:music",))
    other = connect(owner, alice, "listenbrainz")
    receive(importer, allowed, alice)

    def read(connected: Connected, scope: str) -> Any:
        with reader.transaction():
            reader.execute(
                "call svc.open_reading_key(%s, 'listenbrainz', %s, %s)",
                [key_hash(connected), scope, SCHEMA_VERSION],
            )
            return reader.execute("select count(*) from music.listen").fetchone()

    assert read(allowed, "read:music") == (1,)
    for connected, scope in ((allowed, "read:activity"), (other, "read:music")):
        with pytest.raises(psycopg.Error) as caught:
            read(connected, scope)
        assert caught.value.sqlstate == "SV403"
    with reader.transaction():
        # A key without a scope is none of a session, however its settings are forged.
        reader.execute(f"set local svc.user_id = '{alice.user_id}'")
        reader.execute(f"set local svc.token_hash = '{key_hash(other).hex()}'")
        reader.execute(f"set local svc.version = '{SCHEMA_VERSION}'")
        assert reader.execute("select count(*) from music.listen").fetchone() == (0,)


def test_a_new_key_replaces_the_earlier_one(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    authserver, importer = connect_as("authserver"), connect_as("importer")
    connected = connect(owner, alice, "listenbrainz")
    renewed = Connected(connected.connection_id, keys.new(KINDS["listenbrainz"], alice.user_id))

    (created_at,) = owner.execute(
        """
        update profile.integration_key
           set created_at = created_at - interval '1 hour'
        returning created_at
        """
    ).fetchone() or (None,)

    def renew(session: Token, created_at: datetime | None = created_at) -> Any:
        return ask(
            authserver,
            "select svc.renew_connection_key(%s, %s, %s, %s, %s)",
            alice.user_id,
            session.hash,
            connected.connection_id,
            key_hash(renewed),
            created_at,
        )

    assert renew(sign_in(alice, proved="15 min")) == "signed_out"
    assert renew(sign_in(alice), datetime(2020, 1, 1, tzinfo=UTC)) == "gone"
    receive(importer, connected, alice, "a")
    assert renew(sign_in(alice)) is None
    assert renew(sign_in(alice)) == "gone"
    receive(importer, renewed, alice, "b")
    with pytest.raises(psycopg.Error) as caught:
        receive(importer, connected, alice, "c")
    assert caught.value.sqlstate == "SV401"
    assert owner.execute("select count(*) from music.listen").fetchone() == (2,)


@pytest.mark.parametrize("is_removed", [False, True])
def test_the_end_of_a_connection_keeps_or_removes_what_it_brought(
    connect_as: Connect, owner: Rows, alice: Person, is_removed: bool
) -> None:
    authserver, importer, worker = map(connect_as, ("authserver", "importer", "worker"))
    connected, other = (connect(owner, alice, "listenbrainz") for _ in range(2))
    receive(importer, connected, alice, "a")
    receive(importer, other, alice, "b")

    assert end(authserver, alice, connected, is_removed=is_removed) is None
    worker.execute("select svc.remove_undone(%s, %s)", [alice.user_id, SCHEMA_VERSION])

    assert owner.execute("select provider_key from music.listen order by 1").fetchall() == (
        [("b",)] if is_removed else [("a",), ("b",)]
    )
    assert state(owner, connected)["reached"] == "stopped"
    with pytest.raises(psycopg.Error, match="unknown"):
        receive(importer, connected, alice, "c")
    assert end(authserver, alice, connected, is_removed=False) == "gone"
    assert end(authserver, alice, connected, is_removed=True) == ("gone" if is_removed else None)


def test_a_connection_needs_a_fresh_sign_in_and_there_are_at_most_fifty(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    authserver = connect_as("authserver")

    assert add(authserver, alice, sign_in(alice, proved="15 min"), uuid4()) == "signed_out"
    assert add(authserver, alice, sign_in(bob), uuid4()) == "signed_out"
    session = sign_in(alice)
    assert [add(authserver, alice, session, uuid4()) for _ in range(51)] == [None] * 50 + [
        "too_many"
    ]
    rows = authserver.execute(
        "select count(*), min(state) from svc.connections(%s, %s)", [alice.user_id, session.hash]
    ).fetchone()
    assert rows == (50, "waiting")


def test_a_pause_is_part_of_what_a_request_learns(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    authserver, importer = connect_as("authserver"), connect_as("importer")
    connected = connect(owner, alice, "listenbrainz")

    def pause(is_paused: bool) -> bool:
        statement: LiteralString = "select svc.pause_connection(%s, %s, %s, %s)"
        answer = ask(
            authserver,
            statement,
            alice.user_id,
            sign_in(alice).hash,
            connected.connection_id,
            is_paused,
        )
        return bool(answer)

    assert pause(True)
    assert (open_receiver(importer, connected)[5], state(owner, connected)["reached"]) == (
        True,
        "paused",
    )
    assert pause(False)
    assert (open_receiver(importer, connected)[5], state(owner, connected)["reached"]) == (
        False,
        "waiting",
    )


def test_settings_change_for_the_own_connections_of_applications_alone(
    connect_as: Connect, owner: Rows, alice: Person, bob: Person
) -> None:
    authserver, session = connect_as("authserver"), sign_in(alice)
    own, ended = connect(owner, alice, "wakatime"), connect(owner, alice, "wakatime")
    owner.execute(
        "update profile.connection set stopped_at = now() where connection_id = %s",
        [ended.connection_id],
    )
    pulled, foreign = connect(owner, alice, "gitlab"), connect(owner, bob, "wakatime")
    statement: LiteralString = (
        """select svc.change_connection_settings(%s, %s, %s, '{"gap_minutes": "20"}')"""
    )

    answers = [
        ask(authserver, statement, alice.user_id, session_hash, each.connection_id)
        for each, session_hash in (
            (own, session.hash),
            (pulled, session.hash),
            (foreign, session.hash),
            (ended, session.hash),
            (own, sign_in(bob).hash),
        )
    ]

    assert answers == [True, False, False, False, False]
    changed = owner.execute(
        """select connection_id from profile.connection where settings = '{"gap_minutes": "20"}'"""
    ).fetchall()
    assert changed == [(own.connection_id,)]


def test_a_problem_lasts_until_usable_records_come(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    importer = connect_as("importer")
    connected = connect(owner, alice, "listenbrainz")
    reached = []

    for note in ("0, false", "0, false, 'encrypted_messages'", "0, false", "1, true"):
        with importer.transaction():
            open_receiver(importer, connected)
            importer.execute(f"select svc.note_delivery({note})".encode())
        reached.append(
            (state(owner, connected)["reached"], state(owner, connected)["record_count"])
        )

    assert reached == [("waiting", 0), ("failing", 0), ("failing", 0), ("live", 1)]


def test_a_pause_does_not_shorten_the_wait_for_the_next_pull(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    authserver, session = connect_as("authserver"), sign_in(alice)
    connected = connect(owner, alice, "calendar")
    owner.execute("update profile.connection set next_pull_at = now() + interval '1 day'")
    due_at = state(owner, connected)["next_pull_at"]

    for is_paused in (True, False):
        assert ask(
            authserver,
            "select svc.pause_connection(%s, %s, %s, %s)",
            alice.user_id,
            session.hash,
            connected.connection_id,
            is_paused,
        )

    assert state(owner, connected)["next_pull_at"] == due_at


def test_connections_that_have_ended_hide_none_that_lasts(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    session = sign_in(alice)
    lasting = connect(owner, alice, "listenbrainz")
    for _ in range(200):
        ended = connect(owner, alice, "owntracks")
        owner.execute(
            "select svc.stop_connection(%s, %s, false)", [alice.user_id, ended.connection_id]
        )

    listed = connect_as("authserver").execute(
        "select connection_id, state from svc.connections(%s, %s)", [alice.user_id, session.hash]
    )

    assert listed.fetchone() == (lasting.connection_id, "waiting")
