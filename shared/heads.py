"""Bounds on the heads of requests, and answers to those that cannot be read.

A head is the request line and the headers. The application sees only complete heads. The web server waits for
the end of an incomplete one forever and keeps all of it in memory, so this protocol closes connections whose
head is too large or too late. The application makes the answer, as for every other request: it finds the
status in the scope.

    connection ──► head arrives ──► body, answer ──► idle ──► next head ...
                   HEAD_S,          the routes'      the web server's
                   MAX_HEAD_BYTES   own limits       timeout_keep_alive

The head of an answer leaves together with the first part of its body (``Joining``).

The bound on connections replaces the web server's ``limit_concurrency``, whose answer is plain text.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from shared.draining import DRAIN

MAX_HEAD_BYTES: Final = 64 * 1024
"""Somewhat more than the largest address and headers that the application accepts."""
HEAD_S: Final = 10.0
"""How long a head may take, from its first byte or, on a new connection, from the start of the connection."""
MAX_CONNECTIONS: Final = 1000
"""Open connections of one process, whose heads take at most 64 MB together. Requests on further ones are
answered 503."""
NEW_S: Final = 0.5
"""How long a new connection may wait for its first byte when a process stops that is one of several."""

UNREADABLE: Final = "svc.unreadable"
"""The scope's key for the status of a request that no route may handle."""

_REQUEST_LINE: Final = re.compile(rb"(?:\A|\n)[!#$%&'*+.^_`|~0-9A-Za-z-]+ \S+ HTTP/1\.[01]\r?\n")


class BoundedHeads(HttpToolsProtocol):
    """The web server's protocol for one connection, with bounds on heads.

    A timer is set when a connection opens, and later only for a head that is incomplete after its first
    piece, so an ordinary request costs none.
    """

    max_head_bytes = MAX_HEAD_BYTES
    head_s = HEAD_S
    max_connections = MAX_CONNECTIONS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take the arguments of the web server."""
        super().__init__(*args, **kwargs)
        self._is_in_head = True
        self._head_bytes = 0
        """Bytes of the incomplete head; 0 if the piece in which it begins has the end of another message
        too."""
        self._head_started: float | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._is_refused = False

    # uvicorn declares the narrower transport too.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head."""
        super().connection_made(Joining(transport, self.loop))
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def data_received(self, data: bytes) -> None:
        """Parse a piece of one message or more."""
        if not self._is_refused:
            self._unset_keepalive_if_required()
        while data and not self._is_refused:
            piece = data
            if self._is_in_head:
                # A piece that is larger than the rest of a head's bound may be its end and a body.
                piece = data[: self.max_head_bytes - self._head_bytes]
                self._head_bytes += len(piece)
            data = data[len(piece) :]
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserError as error:
                self._refuse(_status_of(error, piece), is_more_expected=True)
            except httptools.HttpParserUpgrade:
                # A server may ignore the header (RFC 9110, section 7.8), and this one has no other protocol.
                pass
            if not self._is_in_head:
                continue
            if self._head_bytes >= self.max_head_bytes:
                self._refuse(431, is_more_expected=True)
            elif self._head_started is None and (self._head_bytes or self._has_begun()):
                self._start_clock()

    def on_headers_complete(self) -> None:
        """Hand the request to the application."""
        self._is_in_head = False
        self._head_bytes = 0
        self._head_started = None
        if len(self.connections) > self.max_connections:
            # ASGI allows further keys; uvicorn's type of a scope does not name ours.
            self.scope[UNREADABLE] = 503  # type: ignore[typeddict-unknown-key]
        if (drain := getattr(self.config, "drain", None)) is not None:
            self.scope[DRAIN] = drain  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait for the next head."""
        super().on_message_complete()
        self._is_in_head = True

    def shutdown(self) -> None:
        """Close the connection when its answers are complete; a new one may have a request on its way.

        Its client would not know whether a request was executed that arrives while it is closed.
        """
        drain = getattr(self.config, "drain", None)
        if self.cycle is None and drain is not None and drain.waits and not self._is_refused:
            self.loop.call_later(NEW_S, super().shutdown)
        else:
            super().shutdown()

    def _has_begun(self) -> bool:
        """Whether any bytes of the next head other than line ends have arrived."""
        return self.scope is not (None if self.cycle is None else self.cycle.scope)

    def _start_clock(self) -> None:
        self._head_started = self.loop.time()
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self._check_clock)

    def _check_clock(self) -> None:
        self._head_timer = None
        if self._head_started is None or self._is_refused or self.transport.is_closing():
            return
        left_s = self._head_started + self.head_s - self.loop.time()
        if self.cycle is not None and not self.cycle.response_complete:
            # The web server may stop reading until that answer is complete, which is not the client's fault.
            self._start_clock()
        elif left_s > 0:
            self._head_timer = self.loop.call_later(left_s, self._check_clock)
        elif self._has_begun():
            self._refuse(408, is_more_expected=False)
        else:
            # A browser may have opened the connection in advance; an answer would be to a later request.
            self.transport.close()

    def _refuse(self, status: int, *, is_more_expected: bool) -> None:
        """Have the application answer the incomplete request with ``status``, after those before it.

        The connection closes after that. If more data is expected, the client may close it first, within the
        timeout of an idle connection.
        """
        self._is_refused = True
        self.on_message_begin()
        scope: Any = self.scope
        scope |= {"method": "-", "path": "", "raw_path": b"", "query_string": b""}
        scope[UNREADABLE] = status
        transport = HalfClosing(self.transport) if is_more_expected else self.transport
        before, self.cycle = self.cycle, self._last_cycle(transport)
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        elif not before.more_body:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))
        elif before.response_started or self.pipeline:
            # The error is in a body whose answer has begun, and cannot be replaced any more.
            self.cycle = before
            self.transport.close()
        else:
            before.disconnected = True
            before.message_event.set()
            self._start_asgi_task(self.cycle, self.app)

    def _last_cycle(self, transport: Any) -> RequestResponseCycle:
        return RequestResponseCycle(
            scope=self.scope,
            transport=transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=False,
            on_response=self.on_response_complete,
        )


_ANSWER: Final = b"HTTP/1.1 "
"""The beginning of the head of an answer."""
_SMALL: Final = 16 * 1024
"""A body that is copied behind the head, which takes less time than to send two buffers."""


class Joining(asyncio.Transport):
    """A transport that sends the head of an answer together with the first part of the body.

    The web server writes them one after the other, and its transport would send each at once: two system
    calls, and two packets, for the first of which the client wakes in vain. A head without a body, and one
    whose body comes later, are sent when the event loop gets on.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Keep the transport that sends."""
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head: bytes | None = None
        # These are called for every request, so the instance has the transport's own methods, without a
        # call in between. A type checker knows methods of a class alone, hence the ignored assignments.
        self.is_closing = transport.is_closing  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]
        self.pause_reading = transport.pause_reading  # type: ignore[method-assign]
        self.resume_reading = transport.resume_reading  # type: ignore[method-assign]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send ``data``, and before it the head that waits; the head of an answer waits."""
        head, self._head = self._head, None
        if head is not None and len(data) < _SMALL:
            self._transport.write(b"".join((head, data)))
        elif head is not None:
            self._transport.writelines((head, data))
        elif isinstance(data, bytes) and data.startswith(_ANSWER):
            self._head = data
            self._loop.call_soon(self._send_head)
        else:
            self._transport.write(data)

    def _send_head(self) -> None:
        head, self._head = self._head, None
        if head is not None:
            self._transport.write(head)

    def write_eof(self) -> None:
        """Stop sending, after the head that waits."""
        self._send_head()
        self._transport.write_eof()

    def close(self) -> None:
        """Close the connection, after the head that waits."""
        self._send_head()
        self._transport.close()


@dataclass(frozen=True)
class HalfClosing:
    """A transport whose ``close`` only stops sending.

    Closing a connection on which data still arrives resets it, and the client may lose the answer (RFC 9112,
    section 9.6).
    """

    transport: asyncio.Transport

    def write(self, data: bytes) -> None:
        """Send ``data``."""
        self.transport.write(data)

    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.transport.is_closing()

    def close(self) -> None:
        """Send nothing more."""
        if not self.transport.is_closing():
            self.transport.write_eof()


def _status_of(error: httptools.HttpParserError, piece: bytes) -> int:
    """Return the status for a message that cannot be parsed.

    That is 501 for a method that is not known (RFC 9110, section 9.1), and 400 for anything else.
    """
    is_method = isinstance(error, httptools.HttpParserInvalidMethodError)
    return 501 if is_method and _REQUEST_LINE.search(piece) else 400
