"""One delivery of points: the way from a request to the commit, for applications that only know success.

    key ──► body ──► read ──► written ──► the application's answer
     │        │        └── nothing in it ──► the application's answer
    401       └── too large, damaged ──► counted ──► the application's answer

A body that can never be taken is counted and answered like any other, since these applications would send it
again and again, and nothing newer. Only what can be taken later is refused (408, 429, 503).
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request

from resourceserver.ingest.route import (
    EndedEarly,
    InvalidJSON,
    PayloadTooLarge,
    UnsupportedMediaType,
)
from resourceserver.integrations.format import Person
from resourceserver.integrations.receivers import credentials
from resourceserver.integrations.receivers.receiving import Item, Opened, Receiving
from resourceserver.integrations.records import Refused

SMALL: Final = 32 * 1024
"""Bytes of a body that is read without a thread."""
ENCRYPTED: Final = "encrypted_messages"
"""The reason of each message that only its sender can read, and the problem of its connection."""

Read = Callable[[bytearray, Person], Sequence[Item]]


async def deliver(
    receiving: Receiving, request: Request, kind: str, read: Read, *, most_bytes: int
) -> None:
    """Write what ``read`` finds in the body of a request that has its key in a header.

    Raises WrongKey and what can be sent again later: TooSlow, TooManyRequests, DatabaseUnavailable.
    """
    opened = await receiving.open(request, kind, credentials.key(request))
    await write(receiving, request, opened, read, most_bytes=most_bytes)


async def write(
    receiving: Receiving, request: Request, opened: Opened, read: Read, *, most_bytes: int
) -> None:
    """Write what ``read`` finds in the body of a request whose connection is open; raises as ``deliver``."""
    try:
        async with receiving.body(request, opened, most_bytes=most_bytes) as body:
            items = await parse(read, body, person(opened))
            if items:
                await receiving.take(opened, items, problem=_problem(items))
    except EndedEarly:
        # The application got no answer, so it sends the same again.
        raise
    except (PayloadTooLarge, UnsupportedMediaType, InvalidJSON) as problem:
        await receiving.take(opened, [Refused(problem.code, problem.message)])


def person(opened: Opened) -> Person:
    """Return what readers need of the person of a connection."""
    return Person(opened.zone, datetime.now(UTC))


async def parse(read: Read, body: bytearray, whose: Person) -> Sequence[Item]:
    """Return what ``read`` returns; a large body is read in a thread, so that it delays no other request."""
    if len(body) <= SMALL:
        return read(body, whose)
    return await asyncio.to_thread(read, body, whose)


def _problem(items: Sequence[Item]) -> str | None:
    """Return the code of the problem that a delivery shows, if it is one that people can solve."""
    is_encrypted = any(isinstance(each, Refused) and each.reason == ENCRYPTED for each in items)
    return ENCRYPTED if is_encrypted else None
