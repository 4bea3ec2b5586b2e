"""Registered applications. All of them are public clients: their ids are no secrets."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from authserver import events, rows
from authserver.events import Event, RequestOrigin
from authserver.rows import Database
from shared import tokens

SQL: Final = rows.load("oauth/clients.sql", "events.sql")

_BATCH: Final = 5000
"""Rows of one statement of a removal: far from the time that one may take (sql/roles.sql)."""


@dataclass(frozen=True)
class Client:
    """An application as it registered itself; its name is its own claim."""

    client_id: str
    client_name: str | None
    redirect_uris: list[str]
    scopes: list[str] | None


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
    """How many live ones it has."""


@dataclass(frozen=True)
class ClientGrant:
    """What somebody lets a client do now."""

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
    """Return the client of that id, or None. An id that is not shaped like ours is not looked up."""
    if not tokens.is_client_id(client_id):
        return None
    return await rows.one(database, Client, SQL["client"], {"client_id": client_id})


async def register(database: Database, client: Client) -> datetime:
    """Store a new client and return when."""
    stored = await rows.one(database, _Registered, SQL["register"], vars(client))
    assert stored is not None  # noqa: S101 -- an insert answers a row or raises
    return stored.created_at


async def registrations(database: Database, limit: int) -> list[Registration]:
    """Return at most ``limit`` clients: those let in most lately first, then the newest of the others."""
    parameters = {"client_id": None, "limit": limit}
    return await rows.every(database, Registration, SQL["registrations"], parameters)


async def count(database: Database) -> int:
    """Return how many clients there are."""
    counted = await rows.one(database, _Count, SQL["count"], {})
    assert counted is not None  # noqa: S101 -- a count is a row
    return counted.count


async def registration(database: Database, client_id: str) -> Registration | None:
    """Return the client of that id as it is registered, or None."""
    parameters = {"client_id": client_id, "limit": 1}
    return await rows.one(database, Registration, SQL["registrations"], parameters)


async def live_grants(database: Database, client_id: str) -> list[ClientGrant]:
    """Return what people let a client do now, by e-mail address."""
    return await rows.every(database, ClientGrant, SQL["client_grants"], {"client_id": client_id})


async def remove(
    database: Database, client_id: str, origin: RequestOrigin, *, batch: int = _BATCH
) -> list[Event]:
    """Remove a client with all its grants, of which those that lived are returned as revoked.

    All of them are dead first. What is left of them then may be any amount, and goes ``batch`` rows at a
    time. Whoever is stopped on the way can begin again. Somebody may let the client in until the last
    statement, which ends that as well.
    """
    whose = {"client_id": client_id, "batch": batch}
    ended: list[Event] = []
    while await rows.execute(database, SQL["unrevoked"], whose):
        ended += await events.execute(
            database, SQL["revoke"], whose, origin, preceded_by=SQL["lock_client"]
        )
    for statement in ("remove_refresh_tokens", "remove_access_tokens", "remove_grants"):
        while await rows.execute(database, SQL[statement], whose) == batch:
            pass
    return ended + await events.execute(
        database, SQL["remove"], whose, origin, preceded_by=SQL["lock_client"]
    )
