"""Authorization requests that wait for a person, kept here under a random id that the forms carry.

A request belongs to the browser that brought it, by the hash of that browser's session, and moves
along when the session gets a new id. One that is not valid waits as well, as the error that its
application is told of once somebody has signed in.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from authserver import rows
from authserver.rows import Connection
from shared import queries, tokens
from shared.tokens import Token

SQL: Final = queries.load(Path(__file__).with_name("requests.sql"))

LIFETIME: Final = timedelta(minutes=15)


@dataclass(frozen=True)
class PendingRequest:
    """A request whose client and redirect URI are good; either whole, or an error."""

    client_id: str
    client_name: str | None
    redirect_uri: str
    state: str | None
    scopes: list[str] | None = None
    resource: str | None = None
    code_challenge: str | None = None
    error: str | None = None
    error_description: str | None = None


@dataclass(frozen=True)
class _Taken:
    request_hash: bytes


async def store(connection: Connection, session: Token, request: PendingRequest) -> Token:
    """Keep ``request`` for the browser with ``session`` and return the id under which it waits."""
    request_id = tokens.mint(tokens.REQUEST, tokens.NOBODY)
    await connection.execute(
        SQL["store"],
        vars(request)
        | {
            "request_hash": request_id.hash,
            "session_hash": session.hash,
            "lifetime": LIFETIME,
        },
    )
    return request_id


async def find(connection: Connection, session: Token, request_id: Token) -> PendingRequest | None:
    """Return a request that waits in this browser, or None."""
    key = {"request_hash": request_id.hash, "session_hash": session.hash}
    return await rows.one(connection, PendingRequest, SQL["pending"], key)


async def take(connection: Connection, session: Token, request_id: Token) -> bool:
    """Take a request away to answer it; False for whoever comes second."""
    key = {"request_hash": request_id.hash, "session_hash": session.hash}
    return await rows.one(connection, _Taken, SQL["take"], key) is not None


async def carry_over(connection: Connection, session: Token, new_session: Token) -> None:
    """Give what waits under ``session`` to ``new_session``, its successor in the same browser."""
    await connection.execute(
        SQL["carry_over"],
        {"session_hash": session.hash, "new_session_hash": new_session.hash},
    )
