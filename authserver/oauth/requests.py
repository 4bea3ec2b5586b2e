"""Pending authorization requests, stored under a random id that forms and links contain.

A request belongs to the browser that sent it, by the hash of that browser's session; when the browser gets a
new session, its requests move to it. An invalid request is stored too, as an error: the client receives the
error after the person has signed in.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

from authserver import rows
from authserver.rows import Database, Parameters
from shared import tokens
from shared.tokens import Token

SQL: Final = rows.load("oauth/requests.sql")

LIFETIME: Final = timedelta(minutes=15)
_AFTER_SIGN_IN: Final = UUID(int=1)
"""The user id in the ids of requests that only a later sign-in may answer. Nobody can remove it from an id:
the request is stored under the hash of the whole id."""


@dataclass(frozen=True)
class PendingRequest:
    """A request with a valid client and redirect URI. The rest is either valid or an error."""

    client_id: str
    client_name: str | None
    redirect_uri: str
    state: str | None
    scopes: list[str] | None = None
    resource: str | None = None
    code_challenge: str | None = None
    error: str | None = None
    error_description: str | None = None
    error_parameter: str | None = None
    """The parameter whose value is wrong, while the request is answered. It is not stored."""
    client_redirect_uris: list[str] = field(default_factory=list)
    """All redirect URIs of the client, as it is stored."""
    is_device: bool = False
    """Whether it is the request of a device, which gets its answer when it polls (device.py)."""
    has_later_sign_in: bool = False
    """Whether the person has authenticated since the request: here, or at the provider. It is not stored."""


@dataclass(frozen=True)
class ExpiredRequest:
    """A request that has expired without a decision."""

    client_name: str | None
    redirect_uri: str


@dataclass(frozen=True)
class PendingKey:
    """The key of a pending request: its id, and the session of the browser."""

    request_id: Token
    session: Token

    @property
    def needs_later_sign_in(self) -> bool:
        """Whether the person must sign in, or confirm it, after the request (``prompt=login``)."""
        return self.request_id.user_id == _AFTER_SIGN_IN

    @property
    def parameters(self) -> Parameters:
        """The parameters of statements about the request."""
        return {"request_hash": self.request_id.hash, "session_hash": self.session.hash}


@dataclass(frozen=True)
class _Taken:
    request_hash: bytes


async def store(
    database: Database,
    session: Token,
    request: PendingRequest,
    *,
    needs_later_sign_in: bool = False,
) -> Token:
    """Store ``request`` for the browser with ``session`` and return its id."""
    whose = _AFTER_SIGN_IN if needs_later_sign_in else tokens.NOBODY
    waiting = PendingKey(tokens.mint(tokens.REQUEST, whose), session)
    parameters = {**vars(request), **waiting.parameters, "lifetime": LIFETIME}
    await rows.execute(database, SQL["store"], parameters)
    return waiting.request_id


async def find(database: Database, waiting: PendingKey) -> PendingRequest | None:
    """Return a pending request of this browser, or None."""
    parameters = {**waiting.parameters, "user_id": waiting.session.user_id, "lifetime": LIFETIME}
    return await rows.one(database, PendingRequest, SQL["pending"], parameters)


async def late(database: Database, waiting: PendingKey) -> ExpiredRequest | None:
    """Return an expired request of this browser, or None if there is none."""
    return await rows.one(database, ExpiredRequest, SQL["late"], waiting.parameters)


async def take(database: Database, waiting: PendingKey) -> bool:
    """Delete a request in order to answer it. False: it was taken before."""
    return await rows.one(database, _Taken, SQL["take"], waiting.parameters) is not None
