"""The route of messages about health.

The key may be in any header, since two of the applications send nothing but headers that their person writes:
in ``Authorization``, or alone in another one such as ``X-API-Key``. Applications send again what was answered
with 408, 429 or 5xx, and nothing else; so a body that no later attempt could make better is 400.
"""

import asyncio
import hashlib
import json
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api.errors import PRIVATE, Problem
from resourceserver.api.session import Reader
from resourceserver.integrations.format import Person
from resourceserver.integrations.imports import batches
from resourceserver.integrations.imports.deliveries import Counts
from resourceserver.integrations.imports.writing import Target
from resourceserver.integrations.receivers import credentials
from resourceserver.integrations.receivers.health import messages, writing
from resourceserver.integrations.receivers.health.messages import Message, Unrecognised
from resourceserver.integrations.receivers.health.writing import Prepared
from resourceserver.integrations.receivers.receiving import Opened, Receiving
from resourceserver.integrations.records import Refused
from resourceserver.integrations.values import example
from shared import tokens

PATH: Final = "/receive/health"
MOST_BYTES: Final = 20 * 1024 * 1024
"""The most bytes of a body."""


class UnknownMessage(Problem):
    """the body is no message of an application that this address serves"""

    status = 400
    code = "invalid_request"


def routes(receiving: Receiving, _reader: Reader) -> list[Route]:
    """Return the route of the receiver."""

    async def receive_health(request: Request) -> Response:
        opened = await receiving.open(request, "health", key(request))
        async with receiving.body(request, opened, most_bytes=MOST_BYTES, media_types=None) as body:
            counts = await _receive(receiving, opened, bytes(body))
        return Response(
            json.dumps({"status": "ok", **counts._asdict()}, separators=(",", ":")),
            headers=PRIVATE,
            media_type="application/json",
        )

    return [Route(PATH, receive_health, methods=["POST"], name="receive_health")]


def key(request: Request) -> str:
    """Return the key of a request; empty without one."""
    authorized = credentials.key(request)
    if authorized:
        return authorized
    for name, value in request.headers.items():
        # A scheme such as Bearer may stand before it.
        text = value.strip().rpartition(" ")[2]
        if name != "cookie" and tokens.parse(tokens.INTEGRATION, text) is not None:
            return text
    return ""


async def _receive(receiving: Receiving, opened: Opened, body: bytes) -> Counts:
    """Write the message of a body. Raises UnknownMessage, and what ``Receiving.transact`` does."""
    if opened.is_paused:
        return Counts()
    person = Person(opened.zone, datetime.now(UTC))
    try:
        prepared, digest = await asyncio.to_thread(_prepare, body, person)
    except Unrecognised as error:
        quoted = example(body[:1000].decode("utf-8", "replace"))
        await receiving.take(opened, [Refused("unknown_message", quoted)])
        raise UnknownMessage(str(error)) from error
    in_halves = False

    def work(target: Target, fresh: Opened) -> Counts:
        if fresh.is_paused:
            return Counts()
        return writing.write(target, prepared, digest, in_halves=in_halves) or Counts()

    try:
        return await receiving.transact(opened, work)
    except batches.OF_A_VALUE:
        in_halves = True
        return await receiving.transact(opened, work)


def _prepare(body: bytes, person: Person) -> tuple[Prepared, bytes]:
    message: Message = messages.parse(body)
    return writing.prepare(message, person), hashlib.sha256(body).digest()
