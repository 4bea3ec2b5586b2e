"""Authorization requests that wait for a person, kept here under a random id that the forms carry.

A request belongs to the browser that brought it, by the hash of that browser's session, and moves
along when the session gets a new id. One that is not valid waits as well, as the error that its
application is told of once somebody has signed in.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from authserver import rows
from authserver.rows import Database, Parameters
from shared import tokens
from shared.tokens import Token

SQL: Final = rows.load("oauth/requests.sql")

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
class LateRequest:
    """A request that nobody answered in time."""

    client_name: str | None
    redirect_uri: str


@dataclass(frozen=True)
class PendingKey:
    """Where a request waits: under an id, in one browser."""

    request_id: Token
    session: Token

    @property
    def parameters(self) -> Parameters:
        """What statements about the request take."""
        return {"request_hash": self.request_id.hash, "session_hash": self.session.hash}


@dataclass(frozen=True)
class _Taken:
    request_hash: bytes


async def store(database: Database, session: Token, request: PendingRequest) -> Token:
    """Keep ``request`` for the browser with ``session`` and return the id under which it waits."""
    waiting = PendingKey(tokens.mint(tokens.REQUEST, tokens.NOBODY), session)
    parameters = {**vars(request), **waiting.parameters, "lifetime": LIFETIME}
    await rows.execute(database, SQL["store"], parameters)
    return waiting.request_id


async def find(database: Database, waiting: PendingKey) -> PendingRequest | None:
    """Return a request that waits in this browser, or None."""
    return await rows.one(database, PendingRequest, SQL["pending"], waiting.parameters)


async def late(database: Database, waiting: PendingKey) -> LateRequest | None:
    """Return a request that waited in this browser for too long, or None where that is not known."""
    return await rows.one(database, LateRequest, SQL["late"], waiting.parameters)


async def take(database: Database, waiting: PendingKey) -> bool:
    """Take a request away to answer it; False for whoever comes second."""
    return await rows.one(database, _Taken, SQL["take"], waiting.parameters) is not None
