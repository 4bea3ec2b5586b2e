"""Registered applications. All of them are public clients: their ids are no secrets."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from authserver import rows
from authserver.rows import Connection
from shared import queries, tokens

SQL: Final = queries.load(Path(__file__).with_name("clients.sql"))


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


async def find(connection: Connection, client_id: str) -> Client | None:
    """Return the client of that id, or None. An id that is not shaped like ours is not looked up."""
    if not tokens.is_client_id(client_id):
        return None
    return await rows.one(connection, Client, SQL["client"], {"client_id": client_id})


async def register(connection: Connection, client: Client) -> datetime:
    """Store a new client and return when."""
    stored = await rows.one(connection, _Registered, SQL["register"], vars(client))
    assert stored is not None  # noqa: S101 -- an insert answers a row or raises
    return stored.created_at


async def note_authorization(connection: Connection, client_id: str) -> None:
    """Remember that somebody let the client in just now."""
    await connection.execute(SQL["note_authorization"], {"client_id": client_id})
