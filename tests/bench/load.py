"""A load generator that costs little: a few connections, each with one request under way at a time.

Runs in a process of its own (``python -m tests.bench.load``), reads an ``Order`` as JSON from standard
input and prints requests per second. It stops by itself.
"""

import asyncio
import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final, cast

import uvloop

_END_OF_HEADERS: Final = b"\r\n\r\n"
_REFRESH_TOKEN: Final = re.compile(rb"svc_rt_[0-9A-Za-z]{71}")


@dataclass(frozen=True)
class Order:
    """What to send."""

    port: int
    requests: list[str]
    """One for each connection, which sends it again and again. A refresh token in it gives way to the one
    that came last, so that a refresh goes on as a client's would."""
    seconds: float

    def text(self) -> str:
        """Return the order as the process reads it."""
        return json.dumps(asdict(self))


class Client(asyncio.Protocol):
    """Sends the request, waits for the whole answer, and sends the next until the time is over."""

    def __init__(self, request: bytes, until: float, done: asyncio.Future[int]) -> None:
        """Take note of what to send, for how long, and where to leave the count."""
        self.request = request
        self.is_refresh = _REFRESH_TOKEN.search(request) is not None
        self.until = until
        self.done = done
        self.answers = 0
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        # uvloop's transports are no subclass of asyncio's, which only describe them.
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Count the answer when it is whole. Anything but 200 ends the run."""
        self.received += data
        head, separator, body = self.received.partition(_END_OF_HEADERS)
        if not separator or len(body) < _length(head):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(head.decode(errors="replace")))
            self.transport.close()
            return
        self.answers += 1
        self.received = b""
        if time.monotonic() >= self.until:
            self.transport.close()
            self.done.set_result(self.answers)
            return
        if self.is_refresh:
            self.request = _with_token_of(self.request, body)
        self.transport.write(self.request)

    def connection_lost(self, error: Exception | None) -> None:
        """Report a connection that ended before its time."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server hung up"))


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise RuntimeError("an answer without Content-Length")


def _with_token_of(request: bytes, body: bytes) -> bytes:
    issued = _REFRESH_TOKEN.search(body)
    if issued is None:
        raise RuntimeError("an answer without a refresh token")
    # All are equally long, and so is the request with any of them.
    return _REFRESH_TOKEN.sub(issued[0], request)


async def run(order: Order) -> float:
    """Return the answers per second that all connections got together."""
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    counts: list[asyncio.Future[int]] = []
    for request in order.requests:
        done: asyncio.Future[int] = loop.create_future()
        client = partial(Client, request.encode(), started + order.seconds, done)
        await loop.create_connection(client, "127.0.0.1", order.port)
        counts.append(done)
    answers = sum(await asyncio.gather(*counts))
    return answers / (time.monotonic() - started)


if __name__ == "__main__":
    sys.stdout.write(f"{uvloop.run(run(Order(**json.load(sys.stdin))))}\n")
