"""What every answer of both servers has: a request id, one log line, and safe headers."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

access_log = logging.getLogger("svc.access")
error_log = logging.getLogger("svc.error")

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"

_NOTED: Final = "svc.noted"
# What balancers make: hexadecimal digits or a UUID. Anything wider could be a secret of the sender's.
_REQUEST_ID: Final = re.compile(rb"[0-9A-Fa-f-]{8,36}")


@dataclass(frozen=True)
class RequestLog:
    """A middleware that names each request and writes its one line when it has been answered.

    The line holds the route's name and never the path, query, headers or body, so no secret can be in
    it. A request id sent by a proxy is kept where it is well formed.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        scope["svc.request_id"] = request_id.decode()
        status = 500

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        try:
            await self.app(scope, receive, send_named)
        finally:
            route = scope.get("route")
            noted = scope.get(_NOTED, {})
            access_log.info(
                "request_id=%s route=%s method=%s status=%d duration_ms=%.1f client_id=%s grant_id=%s",
                request_id.decode(),
                getattr(route, "name", "none"),
                # A method is free text; one that is no word could forge a line of its own.
                scope["method"] if scope["method"].isalpha() else "other",
                status,
                (time.perf_counter() - started) * 1000,
                noted.get("client_id", "-"),
                noted.get("grant_id", "-"),
            )


def notes(request: Request) -> dict[str, object]:
    """Return what the request's log line says of who asked, for whoever finds out to add to it.

    That is ``client_id`` and ``grant_id``. What is noted must come from the database or be well formed, so
    that no line can be forged.
    """
    found: dict[str, object] = request.scope.setdefault(_NOTED, {})
    return found


_MAX_TAKEN_BYTES: Final = 41 * 1024 * 1024
"""How much of a body is taken that is refused: somewhat more than the largest that is not."""
_TAKING_TIMEOUT_S: Final = 30.0
_LONGEST_PAUSE_S: Final = 3.0
"""After so long without any data the client is taken to have stopped sending."""


@dataclass(frozen=True)
class RefusedBody:
    """The outermost middleware: closes the connection of a request whose body was not read to its end.

    Not at once: to close a connection on which data still arrive is to reset it, and then the answer is lost.
    A reverse proxy that is still sending answers 502 instead (RFC 9112, section 9.6). So the answer goes out,
    its handler ends and lets go of what it has read, and the rest of the body is discarded, within bounds.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http" or not _has_body(scope):
            await self.app(scope, receive, send)
            return
        taken = 0
        is_read = is_open = False

        async def receive_counted() -> Message:
            nonlocal taken, is_read
            message = await receive()
            taken += len(message.get("body", b""))
            is_read = is_read or not message.get("more_body", False)
            return message

        async def send_but_the_end(message: Message) -> None:
            nonlocal is_open
            if message["type"] == "http.response.start" and not is_read:
                # Else the web server would take in the rest, however long it is.
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            elif message["type"] == "http.response.body" and not is_read:
                is_open = not message.get("more_body", False)
                message = {**message, "more_body": True}
            await send(message)

        await self.app(scope, receive_counted, send_but_the_end)
        if is_open:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TAKING_TIMEOUT_S):
                    while not is_read and taken < _MAX_TAKEN_BYTES:
                        async with asyncio.timeout(_LONGEST_PAUSE_S):
                            await receive_counted()
            await send({"type": "http.response.body", "body": b""})


MAX_HEADER_BYTES: Final = 32 * 1024
"""Names and values of all headers of a request together."""


@dataclass(frozen=True)
class HeaderLimit:
    """A middleware that refuses more headers than any client needs (431; RFC 6585, section 5)."""

    app: ASGIApp
    answer: Callable[[str], Response]
    """Makes the answer for a path."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] == "http" and _header_bytes(scope) > MAX_HEADER_BYTES:
            await self.answer(scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)


MAX_ADDRESS_BYTES: Final = 16 * 1024
"""The path and the query of a request together, as they were sent."""


@dataclass(frozen=True)
class AddressLimit:
    """A middleware that refuses addresses longer than any that we give out (414; RFC 9110, 15.5.15)."""

    app: ASGIApp
    answer: Callable[[str], Response]
    """Makes the answer for a path."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] == "http":
            path = scope.get("raw_path") or scope["path"].encode()
            if len(path) + len(scope["query_string"]) > MAX_ADDRESS_BYTES:
                await self.answer(scope["path"])(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _header_bytes(scope: Scope) -> int:
    return sum(len(name) + len(value) for name, value in scope["headers"])


@dataclass(frozen=True)
class LastResort:
    """A middleware that answers what no handler expected, and writes it down under the request's id.

    It stands inside RequestLog, so that this answer too has its id and its line.
    """

    app: ASGIApp
    answer: Callable[[str], Response]
    """Makes the answer for a path; it says nothing of what went wrong."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_started = False

        async def send_noted(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self.app(scope, receive, send_noted)
        except Exception:
            error_log.exception("request_id=%s unexpected error", scope.get("svc.request_id"))
            if has_started:
                # The answer cannot be mended any more; its connection is broken off.
                raise
            await self.answer(scope["path"])(scope, receive, send)


def _has_body(scope: Scope) -> bool:
    """Tell whether a request announces a body (RFC 9112, section 6)."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return bytes(value)
    return secrets.token_hex(8).encode()


def configure_logging() -> None:
    """Send our log lines, and the web server's warnings, to standard error."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    # Nothing of this is in our lines, and each request would pay for it. These are the switches that
    # the logging HOWTO documents, the private one included.
    logging._srcfile = None  # noqa: SLF001 -- the HOWTO names it, and there is no public one
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    for noisy in ("httpx2", "httpcore2", "psycopg"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
