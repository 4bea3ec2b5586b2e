"""Registered applications. All of them are public clients: their ids are no secrets."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from authserver import rows
from authserver.rows import Database
from shared import tokens

SQL: Final = rows.load("clients.sql")


@dataclass(frozen=True)
class Client:
    """An application as it registered itself; its name is its own claim."""

    client_id: str
    client_name: str | None
    redirect_uris: list[str]
    scopes: list[str] | None


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
