"""A load generator that costs little: a few connections, each with one request under way at a time.

Runs in a process of its own (``python -m tests.bench.load``), reads an ``Order`` as JSON from standard
input and prints a ``Report`` as JSON. It stops by itself.
"""

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from typing import Final, cast

import uvloop

_END_OF_HEADERS: Final = b"\r\n\r\n"
_ISSUED: Final = re.compile(rb'"refresh_token": ?"([^"]+)"')
_PRESENTED: Final = re.compile(rb"(?<=refresh_token=)[\w-]+")


@dataclass(frozen=True)
class Order:
    """The requests to send."""

    port: int
    requests: list[list[str]]
    """For each connection, its requests, one after the other. A refresh token in one is replaced by the last
    one received, so that refreshes continue as a client's would."""
    seconds: float | None
    """How long they are sent again and again; None for once."""

    def carried_out(self) -> "Report":
        """Run a process with the order; returns its report."""
        completed = subprocess.run(
            [sys.executable, "-m", "tests.bench.load"],
            input=json.dumps(asdict(self)),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=(self.seconds or 0) + 60,
        )
        return Report(**json.loads(completed.stdout))


@dataclass(frozen=True)
class Report:
    """The result of an order."""

    per_second: float
    """The number of answers of all connections together."""
    median_ms: float
    """The times from sending a request to its whole answer."""


class Client(asyncio.Protocol):
    """Sends a request, waits for the whole answer, and sends the next until the time is over."""

    def __init__(
        self, requests: Iterator[bytes], until: float, done: asyncio.Future[list[float]]
    ) -> None:
        """Keep the requests, the duration, and the list for the time of each answer."""
        self.requests = requests
        self.until = until
        self.done = done
        self.took_s: list[float] = []
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        # uvloop's transports are no subclass of asyncio's, which only describe them.
        self.transport = cast("asyncio.Transport", transport)
        self._send(next(self.requests))

    def _send(self, request: bytes) -> None:
        self.sent_at = time.monotonic()
        self.transport.write(request)

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
        now = time.monotonic()
        self.took_s.append(now - self.sent_at)
        self.received = b""
        request = None if now >= self.until else next(self.requests, None)
        if request is None:
            self.transport.close()
            self.done.set_result(self.took_s)
        else:
            self._send(_with_token_of(request, body))

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
    issued = _ISSUED.search(body)
    # All tokens of a server are equally long, and so is the request with any of them.
    return request if issued is None else _PRESENTED.sub(issued[1], request)


async def run(order: Order) -> Report:
    """Send what is ordered."""
    loop = asyncio.get_running_loop()
    prepared = [[request.encode() for request in requests] for requests in order.requests]
    started = time.monotonic()
    until = float("inf") if order.seconds is None else started + order.seconds
    clients: list[asyncio.Future[list[float]]] = []
    for requests in prepared:
        done: asyncio.Future[list[float]] = loop.create_future()
        turns = iter(requests) if order.seconds is None else cycle(requests)
        await loop.create_connection(partial(Client, turns, until, done), "127.0.0.1", order.port)
        clients.append(done)
    took_s = [each for taken in await asyncio.gather(*clients) for each in taken]
    elapsed_s = time.monotonic() - started
    return Report(len(took_s) / elapsed_s, statistics.median(took_s) * 1000)


if __name__ == "__main__":
    json.dump(asdict(uvloop.run(run(Order(**json.load(sys.stdin))))), sys.stdout)
