"""Connections of people in tests."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb

from shared import keys, sealing
from shared.connections import KINDS
from tests.conftest import Person


class Connected(NamedTuple):
    """A connection, and its key where its application sends."""

    connection_id: UUID
    key: str | None


def connect(
    owner: psycopg.Connection[Any],
    person: Person,
    kind: str,
    *,
    scopes: tuple[str, ...] = (),
    **settings: Any,
) -> Connected:
    """Begin a connection of ``person``; one that is pulled gets no secrets."""
    chosen = KINDS[kind]
    key = None if chosen.key is None else keys.new(chosen, person.user_id)
    connection_id = uuid4()
    refused = owner.execute(
        "select svc.put_connection(%s, %s, %s, %s, %s, %s, %s, %s, '{}', '{}', '{}')",
        [
            person.user_id,
            connection_id,
            kind,
            chosen.data,
            chosen.title,
            Jsonb(settings),
            None if key is None else keys.hash_of(key),
            list(scopes),
        ],
    ).fetchone()
    assert refused == (None,)
    return Connected(connection_id, key)


def seal(
    owner: psycopg.Connection[Any],
    person: Person,
    connected: Connected,
    private: str,
    secrets: Mapping[str, str],
) -> None:
    """Give a connection secrets, which ``private`` opens."""
    for name, text in secrets.items():
        key_id, sealed = sealing.seal(
            sealing.public_key_of(private),
            text,
            user_id=person.user_id,
            connection_id=connected.connection_id,
            field=name,
        )
        owner.execute(
            "insert into profile.connection_secret (user_id, connection_id, field, key_id, sealed)"
            " values (%s, %s, %s, %s, %s)",
            [person.user_id, connected.connection_id, name, key_id, sealed],
        )


def state(owner: psycopg.Connection[Any], connected: Connected) -> dict[str, Any]:
    """Return the row of a connection, with its state."""
    cursor = owner.execute(
        """
        select *,
               svc.connection_state(
                   stopped_at, paused_at, is_refused, problem, last_record_at
               ) as reached
          from profile.connection
         where connection_id = %s
        """,
        [connected.connection_id],
    )
    assert cursor.description is not None
    names = [column.name for column in cursor.description]
    return dict(zip(names, cursor.fetchone() or (), strict=True))
