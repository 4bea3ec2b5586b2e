"""Applications (clients). All of them are public clients: they have no secrets.

A client registers, or its id is the address of a document that describes it (``documents``). Grants and
pending requests refer to a row in both cases; that of a document is a copy of what was last fetched.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from authserver import changes, rows
from authserver.events import Event, RequestOrigin
from authserver.oauth import client_ids
from authserver.rows import Database

SQL: Final = rows.load("oauth/clients.sql", "oauth/retry.sql", "events.sql")

_BATCH: Final = 5000
"""Rows per deleting statement: it stays far below the statement_timeout of the role (sql/roles.sql)."""


@dataclass(frozen=True)
class Client:
    """A client as it describes itself. The name is its own claim."""

    client_id: str
    client_name: str | None
    redirect_uris: list[str]
    scopes: list[str] | None
    is_device: bool = False
    """Whether it has registered the grant type of devices."""


@dataclass(frozen=True)
class Registration:
    """A client as the operator sees it."""

    client_id: str
    client_name: str | None
    redirect_uris: list[str]
    scopes: list[str] | None
    created_at: datetime
    last_authorized_at: datetime | None
    grants: int
    """The number of its live grants."""


@dataclass(frozen=True)
class ClientGrant:
    """A live grant of a client, as the operator sees it."""

    grant_id: UUID
    email: str
    scopes: list[str]
    resource: str | None
    created_at: datetime


@dataclass(frozen=True)
class _Count:
    count: int


@dataclass(frozen=True)
class _Registered:
    created_at: datetime


async def find(database: Database, client_id: str) -> Client | None:
    """Return the client with that id, or None. An id of neither form is not looked up."""
    if not client_ids.is_well_formed(client_id):
        return None
    return await rows.one(database, Client, SQL["client"], {"client_id": client_id})


async def register(database: Database, client: Client) -> datetime:
    """Store a new client and return its time of registration."""
    stored = await rows.one(database, _Registered, SQL["register"], vars(client))
    assert stored is not None  # noqa: S101 -- an insert returns a row or raises
    return stored.created_at


async def store_document(database: Database, client: Client) -> None:
    """Store what the document of a client says now, unless it is stored already."""
    await rows.execute(database, SQL["store_document"], vars(client))


async def store_unchecked(database: Database, client: Client) -> None:
    """Store a client whose document has not been fetched, so that its request can wait for a sign-in.

    Nothing of the row is used before ``store_document`` has replaced it.
    """
    await rows.execute(database, SQL["store_unchecked"], vars(client))


async def registrations(database: Database, limit: int) -> list[Registration]:
    """Return at most ``limit`` clients: by latest consent, then those without one by registration."""
    parameters = {"client_id": None, "limit": limit}
    return await rows.every(database, Registration, SQL["registrations"], parameters)


async def count(database: Database) -> int:
    """Return the number of clients."""
    counted = await rows.one(database, _Count, SQL["count"], {})
    assert counted is not None  # noqa: S101 -- a count is a row
    return counted.count


async def registration(database: Database, client_id: str) -> Registration | None:
    """Return the registration of the client with that id, or None."""
    parameters = {"client_id": client_id, "limit": 1}
    return await rows.one(database, Registration, SQL["registrations"], parameters)


async def live_grants(database: Database, client_id: str) -> list[ClientGrant]:
    """Return the live grants of a client, by e-mail address."""
    return await rows.every(database, ClientGrant, SQL["client_grants"], {"client_id": client_id})


async def remove(
    database: Database, client_id: str, origin: RequestOrigin, *, batch: int = _BATCH
) -> list[Event]:
    """Delete a client with all its grants, and return an event for each grant that was live.

    All grants are revoked first. Then their rows, which may be many, are deleted ``batch`` at a time. An
    interrupted deletion can be repeated. A person may consent to the client until the last statement, which
    deletes that grant as well.
    """
    parameters = {"client_id": client_id, "batch": batch}
    ended: list[Event] = []
    while await rows.execute(database, SQL["unrevoked"], parameters):
        ended += await changes.run(
            database, SQL["revoke"], parameters, origin, preceded_by=SQL["lock_client"]
        )
    for statement in ("remove_refresh_tokens", "remove_access_tokens", "remove_grants"):
        while await rows.execute(database, SQL[statement], parameters) == batch:
            pass
    return ended + await changes.run(
        database, SQL["remove"], parameters, origin, preceded_by=SQL["lock_client"]
    )
