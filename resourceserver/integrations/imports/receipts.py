"""The receipt of an import: what became of each record, kept in the transaction that wrote it.

So a run that was killed at any moment has a receipt that says exactly what it has written. The next run of
the same file with the same name goes on under the same import, and skips as many records of each member as
the receipt counts.

    begin ──► running ──┬──► done        something usable was in it
                ▲       ├──► failed      nothing was
                │       └──► interrupted by Ctrl-C, a database that is gone, or a disk that is full
                └─ the same file again ─┘

The owner's login begins and ends imports. All else happens in the import's own session, with the login of
the importer, which can begin none. Its key is random; a run that takes over has another one, so that the
earlier run writes nothing any more.
"""

import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg

from shared import queries, schema

SQL: Final = queries.load(Path(__file__).with_name("receipts.sql"))
EXAMPLES: Final = 3
"""How many examples of each reason are kept."""

Connection = psycopg.Connection[tuple[Any, ...]]
Receipt = dict[str, Any]
"""A receipt as JSON (``receipt`` in receipts.sql)."""


_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.1


class AlreadyRunning(Exception):
    """another process is importing this file right now"""


@dataclass(frozen=True)
class Import:
    """One import that runs."""

    user_id: UUID
    import_id: UUID
    key_hash: bytes
    started_at: datetime
    """When its first run began: a later run reads the file as that one did."""


@contextmanager
def as_owner(connection: Connection) -> Iterator[None]:
    """A transaction with the rights of the owner of the tables, on a schema that fits this code."""
    with connection.transaction():
        connection.execute(SQL["become_owner"])
        schema.check(connection)
        yield


def begin(
    owner: Connection,
    user_id: UUID,
    *,
    file_name: str,
    file_size: int,
    digest: bytes,
    chosen_format: str | None,
) -> Import:
    """Begin an import, or go on with one of this very file; ``owner`` holds its lock until it is closed.

    Raises AlreadyRunning.
    """
    values = {
        "user_id": user_id,
        "digest": digest,
        "chosen_format": chosen_format,
        "file_name": file_name,
        "file_size": file_size,
        "key_hash": new_key(),
    }
    # Two processes that bring the same file at the same moment must not both begin.
    lock(owner, f"{user_id} {digest.hex()}")
    with as_owner(owner):
        unfinished = owner.execute(SQL["unfinished"], values).fetchone()
    import_id = uuid4() if unfinished is None else unfinished[0]
    lock(owner, str(import_id))
    statement = "begin_import" if unfinished is None else "take_over"
    with as_owner(owner):
        row = owner.execute(SQL[statement], values | {"import_id": import_id}).fetchone()
    if row is None:
        raise AlreadyRunning
    return Import(user_id, row[0], values["key_hash"], row[1])  # type: ignore[arg-type] # bytes, as above


def new_key() -> bytes:
    """Return the hash of a new key of an import; nobody needs the key itself."""
    return hashlib.sha256(secrets.token_bytes(32)).digest()


def lock(connection: Connection, what: str) -> None:
    """Lock an import or a file until the connection is closed. Raises AlreadyRunning.

    The server releases the locks of a closed connection a moment later, so several attempts are made.
    By the login's own right: on a server of ours, other roles may not keep locks (sql/embedded/database.sql).
    """
    for _ in range(_ATTEMPTS):
        if connection.execute(SQL["try_lock"], {"what": what}).fetchone() == (True,):
            return
        # A command has nothing else to do meanwhile.
        time.sleep(_PAUSE_S)
    raise AlreadyRunning


def end(owner: Connection, running: Import, status: str, problem: str | None) -> bool:
    """End a run; return False if it is over already."""
    with as_owner(owner):
        return end_in(owner, running, status, problem)


def end_in(session: Connection, running: Import, status: str, problem: str | None) -> bool:
    """End a run in a transaction that may; return False if it is over already."""
    values = {
        "user_id": running.user_id,
        "import_id": running.import_id,
        "key_hash": running.key_hash,
        "status": status,
        "problem": problem,
    }
    return session.execute(SQL["end_import"], values).fetchone() is not None


def read(owner: Connection, user_id: UUID, import_id: UUID) -> Receipt | None:
    """Return the receipt of an import, or None."""
    with as_owner(owner):
        return read_in(owner, user_id, import_id)


def read_in(session: Connection, user_id: UUID, import_id: UUID) -> Receipt | None:
    """Return the receipt of an import, or None, in a transaction that may read it."""
    values = {"user_id": user_id, "import_id": import_id}
    row = session.execute(SQL["receipt"], values).fetchone()
    return None if row is None else row[0]
