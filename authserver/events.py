"""Security events of accounts and grants, in an append-only table and in the log.

The statements of other modules (``changes.py``) record their events with the fragments of ``events.sql``.
Neither table nor log contains secrets or typed text: people sometimes type their password into the e-mail
field.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final
from uuid import UUID

from starlette.requests import Request

from authserver import rows
from authserver.rows import Database, Parameters
from shared import tokens
from shared.metrics import SECURITY_EVENTS

log = logging.getLogger("svc.security")

SQL: Final = rows.load("events.sql")


@dataclass(frozen=True)
class RequestOrigin:
    """Which request did something, and from which address it came."""

    request_id: str | None = None
    address: str | None = None

    @property
    def parameters(self) -> Parameters:
        """The parameters of statements that record events."""
        return {"request_id": self.request_id, "address": self.address}


COMMAND: Final = RequestOrigin()
"""For what the operator does on the command line, without a request."""


@dataclass(frozen=True)
class Event:
    """A security event of an account or of one of its grants."""

    event: str
    user_id: UUID
    client_id: str | None = None
    grant_id: UUID | None = None


@dataclass(frozen=True)
class StoredEvent:
    """An event as it is stored."""

    occurred_at: datetime
    event: str
    client_id: str | None
    grant_id: UUID | None
    address: str | None
    request_id: str | None


@dataclass(frozen=True)
class AccountEvent:
    """An event as the owner of the account sees it."""

    occurred_at: datetime
    event_id: UUID
    event: str
    client_id: str | None
    title: str | None
    """The name of the API token or application, if that still exists."""
    address: str | None


@dataclass(frozen=True)
class Cursor:
    """The position of an event in the order of events."""

    occurred_at: datetime
    event_id: UUID


NEWEST: Final = Cursor(datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))
"""A position after all events."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """Return an instant in microseconds since 1970, the precision of the database."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def cursor(at_microseconds: int, event_id: str) -> Cursor:
    """Return the position of an event by its instant, in microseconds since 1970, and its id in hex."""
    return Cursor(_EPOCH + timedelta(microseconds=at_microseconds), UUID(hex=event_id))


def request_origin(request: Request) -> RequestOrigin:
    """Return the origin of what ``request`` does."""
    return RequestOrigin(request.scope["svc.request_id"], _address(request))


def _address(request: Request) -> str | None:
    """Return the client's IP address in canonical form, or None.

    A proxy may forward any text; text that is not an address is neither stored nor logged.
    """
    try:
        ip = ip_address(request.client.host.partition("%")[0] if request.client else "")
    except ValueError:
        return None
    return str(getattr(ip, "ipv4_mapped", None) or ip)


async def record_failed_sign_in(
    database: Database, user_id: UUID | None, origin: RequestOrigin
) -> None:
    """Record a failed sign-in. ``user_id`` is None if there is no such account."""
    parameters = {"user_id": user_id or tokens.NOBODY, **origin.parameters}
    write_log(await rows.every(database, Event, SQL["failed_sign_in"], parameters), origin)


async def of_user(database: Database, user_id: UUID, limit: int) -> list[StoredEvent]:
    """Return the newest ``limit`` events of an account and its grants, newest first."""
    parameters = {"user_id": user_id, "limit": limit}
    return await rows.every(database, StoredEvent, SQL["events"], parameters)


async def account_events(
    database: Database, user_id: UUID, before: Cursor, limit: int
) -> list[AccountEvent]:
    """Return at most ``limit`` events of an account before the position ``before``, newest first."""
    parameters = {"user_id": user_id, "limit": limit, **vars(before)}
    return await rows.every(database, AccountEvent, SQL["event_page"], parameters)


def write_log(new_events: Iterable[Event], origin: RequestOrigin) -> None:
    """Write committed events to the log."""
    for event in new_events:
        SECURITY_EVENTS.add(event.event)
        log.info(
            "event=%s user_id=%s client_id=%s grant_id=%s address=%s request_id=%s",
            event.event,
            event.user_id,
            event.client_id or "-",
            event.grant_id or "-",
            origin.address or "-",
            origin.request_id or "-",
        )
