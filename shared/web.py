"""The parts of every answer of both servers: a request id, one log line, and safe headers."""

import asyncio
import logging
import os
import re
import secrets
import time
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared import draining
from shared.metrics import REQUESTS

access_log = logging.getLogger("svc.access")
error_log = logging.getLogger("svc.error")

_NOTED: Final = "svc.noted"
_STATUS: Final = "svc.status"
_NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")
_CLOSE: Final = (b"connection", b"close")
# Load balancers send hexadecimal digits or a UUID. Other text could be a secret of the sender.
_REQUEST_ID: Final = re.compile(rb"[0-9A-Fa-f-]{8,36}")


_CURRENT_REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id", default="-")


def current_request_id() -> str:
    """Return the id of the current request, which is also in its log line."""
    return _CURRENT_REQUEST_ID.get()


@dataclass(frozen=True)
class RequestLog:
    """A middleware that gives each request an id and writes its log line after the answer.

    The line holds the route's name and never the path, query, headers or body, so it contains no secret. A
    request id from a proxy is kept if it is well formed.
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
        _CURRENT_REQUEST_ID.set(request_id.decode())
        own_headers = ((b"x-request-id", request_id), _NO_SNIFFING)

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope[_STATUS] = message["status"]
                message["headers"] = [*message["headers"], *own_headers]
                if draining.is_draining(scope):
                    message["headers"].append(_CLOSE)
            await send(message)

        try:
            await self.app(scope, receive, send_named)
        finally:
            duration_s = time.perf_counter() - started
            if REQUESTS.is_on:
                status = str(scope.get(_STATUS, 500))
                REQUESTS.add(getattr(scope.get("route"), "name", "none"), status, duration_s)
            if access_log.isEnabledFor(logging.INFO):
                access_log.handle(AccessRecord(_line(scope, duration_s * 1000)))


def _line(scope: Scope, duration_ms: float) -> str:
    route, method, noted = scope.get("route"), scope["method"], scope.get(_NOTED, {})
    # A method is free text; one with other characters could forge a line of its own.
    return (
        f"request_id={scope['svc.request_id']} route={getattr(route, 'name', 'none')} "
        f"method={method if method.isalpha() else 'other'} status={scope.get(_STATUS, 500)} "
        f"duration_ms={duration_ms:.1f} "
        f"client_id={noted.get('client_id', '-')} grant_id={noted.get('grant_id', '-')}"
    )


def answer_has_started(scope: Scope) -> bool:
    """Tell whether the status of the answer to a request has been sent."""
    return _STATUS in scope


def notes(request: Request) -> dict[str, object]:
    """Return the values about the caller in the request's log line, to which handlers add.

    They are ``client_id`` and ``grant_id``, and must come from the database or be well formed, so that no
    line can be forged.
    """
    found: dict[str, object] = request.scope.setdefault(_NOTED, {})
    return found


_MAX_TAKEN_BYTES: Final = 41 * 1024 * 1024
"""The most bytes that are read of a refused body: somewhat more than the largest allowed body."""
_TAKING_TIMEOUT_S: Final = 30.0
_LONGEST_PAUSE_S: Final = 3.0
"""The time without any data after which the client counts as having stopped."""


@dataclass(frozen=True)
class RefusedBody:
    """The outermost middleware: closes the connection of a request whose body was not read to its end.

    It does not close it at once: closing a connection on which data still arrives resets it, and then the
    answer is lost; a reverse proxy that is still sending answers 502 instead (RFC 9112, section 9.6). So the
    answer is sent, its handler ends and frees the data that it has read, and the rest of the body is
    discarded, within bounds.
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
                # Without this, the web server would read the rest, however long it is.
                message["headers"] = [*message["headers"], _CLOSE]
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


_CONSTANTS: Final = {
    "pathname": __file__,
    "filename": os.path.basename(__file__),
    "module": __name__,
    "lineno": 0,
    "funcName": "-",
    "relativeCreated": 0.0,
    **dict.fromkeys(("thread", "threadName", "process", "processName", "taskName")),
    **dict.fromkeys(("exc_info", "exc_text", "stack_info")),
}


class AccessRecord(logging.LogRecord):
    """The record of a request's line.

    The constructor of an ordinary record also stores the place in the code, the thread and the process, which
    takes longer than to write the line. Here they are constants, for formatters that name them.
    """

    def __init__(self, line: str) -> None:
        """Take the line as it is to be written."""
        # Formatters look into the dictionary of the record itself, and at no attribute of its class.
        self.__dict__.update(_CONSTANTS)
        self.name = access_log.name
        self.levelno, self.levelname = logging.INFO, "INFO"
        self.msg, self.args = line, ()
        self.created = time.time()
        self.msecs = self.created % 1 * 1000
