"""The change to a new key: every secret of a connection is opened and sealed to the newest key.

Servers and worker may run meanwhile: a worker that has the newest key and the older ones opens each secret
before and after. A run that was interrupted can be repeated.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import psycopg

from shared import queries, schema, sealing
from shared.sealing import Opener, SealingError

_SQL: Final = queries.load(Path(__file__).with_name("resealing.sql"))


class Resealed(NamedTuple):
    """How many secrets were sealed anew, and how many no key opens."""

    changed: int
    unopened: int


class _Secret(NamedTuple):
    user_id: UUID
    connection_id: UUID
    field: str
    key_id: str
    sealed: bytes


def reseal(url: str, private_keys: Sequence[str]) -> Resealed:
    """Seal to the first of ``private_keys`` what is sealed to another key; ``url`` is the owner's login."""
    public, opener = sealing.public_key_of(private_keys[0]), Opener(private_keys)
    changed = unopened = 0
    with psycopg.connect(url, connect_timeout=5, autocommit=True) as database:
        database.execute(_SQL["become_owner"])
        schema.check(database)
        for secrets in _older_secrets(database, sealing.key_id_of(public)):
            replaced = []
            for secret in secrets:
                try:
                    replaced.append(_sealed_anew(secret, public, opener))
                except SealingError:
                    unopened += 1
            with database.transaction(), database.cursor() as cursor:
                cursor.executemany(_SQL["replace_secret"], replaced)
                changed += max(cursor.rowcount, 0)
    return Resealed(changed, unopened)


def _older_secrets(
    database: psycopg.Connection[Any], newest_key_id: str
) -> Iterator[list[_Secret]]:
    """Yield all secrets that are sealed to another key, some at a time."""
    nil = UUID(int=0)
    last = _Secret(nil, nil, "", "", b"")
    while True:
        parameters = {
            "newest_key_id": newest_key_id,
            "user_id": last.user_id,
            "connection_id": last.connection_id,
            "field": last.field,
        }
        secrets = [
            _Secret(*row) for row in database.execute(_SQL["older_secrets"], parameters).fetchall()
        ]
        if not secrets:
            return
        yield secrets
        last = secrets[-1]


def _sealed_anew(secret: _Secret, public: str, opener: Opener) -> dict[str, Any]:
    """Return the parameters that replace a secret. Raises SealingError."""
    place = {"user_id": secret.user_id, "connection_id": secret.connection_id}
    text = opener.open(secret.key_id, secret.sealed, field=secret.field, **place)
    key_id, sealed = sealing.seal(public, text, field=secret.field, **place)
    return {
        **place,
        "field": secret.field,
        "key_id": key_id,
        "sealed": sealed,
        "older": secret.sealed,
    }
