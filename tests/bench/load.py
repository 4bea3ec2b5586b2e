"""A load generator that costs little: one request, sent again and again on a few connections.

Runs in a process of its own (``python -m tests.bench.load``) and prints requests per second. It stops
by itself.
"""

import asyncio
import sys
import time
from typing import Final, cast

import uvloop

_END_OF_HEADERS: Final = b"\r\n\r\n"


class Client(asyncio.Protocol):
    """Sends the request, waits for the whole answer, and sends it again until the time is over."""

    def __init__(self, request: bytes, until: float, done: asyncio.Future[int]) -> None:
        """Take note of what to send, for how long, and where to leave the count."""
        self.request = request
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
        if time.monotonic() < self.until:
            self.transport.write(self.request)
        else:
            self.transport.close()
            self.done.set_result(self.answers)

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


async def run(port: int, request: bytes, connections: int, seconds: float) -> float:
    """Return the answers per second that ``connections`` clients got."""
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    counts: list[asyncio.Future[int]] = [loop.create_future() for _ in range(connections)]
    for done in counts:
        await loop.create_connection(
            # mypy cannot infer a lambda whose default binds the loop variable.
            lambda done=done: Client(request, started + seconds, done),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
    answers = sum(await asyncio.gather(*counts))
    return answers / (time.monotonic() - started)


def main() -> None:
    """Read port, connections and seconds from the arguments and the request from standard input."""
    port, connections, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    request = sys.stdin.buffer.read()
    sys.stdout.write(f"{uvloop.run(run(port, request, connections, seconds))}\n")


if __name__ == "__main__":
    main()
