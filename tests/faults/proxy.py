"""A proxy to Postgres that can stop, break and recover, between a server and its database."""

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.accepting import accepting

Direction = Literal["asked", "answered"]
"""Towards Postgres, and back."""


@dataclass
class Trap:
    """An action that runs once, after a number of bytes in one direction."""

    direction: Direction
    after: int
    spring: Callable[[], None]
    passed: int = 0
    """The bytes that have passed in that direction."""

    def take(self, size: int) -> int | None:
        """Count ``size`` more bytes; return how many of them pass before the action, None for all."""
        left = self.after - self.passed
        self.passed += min(size, left)
        return left if size >= left else None


@dataclass
class Proxy:
    """Forwards bytes in both directions until a test stops it."""

    database_url: str
    directory: Path
    """The directory of the socket, like Postgres' own; its path is short."""
    flows: list[threading.Event] = field(default_factory=lambda: [threading.Event()])
    """Set while bytes are forwarded; the last one is for future connections."""
    is_cut: bool = False
    open_sockets: list[socket.socket] = field(default_factory=list)
    refused: int = 0
    """The number of new connections that were refused."""
    trap: Trap | None = None
    """The actions that have not run yet."""
    round_trips: int = 0
    """The number of times that a request followed an answer."""
    _last: Direction = "answered"
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, url: str) -> str:
        """Return ``url`` with the socket of this proxy."""
        return make_conninfo(url, host=str(self.directory), port=5432)

    def stop(self) -> None:
        """Forward nothing any more, without closing anything: a cable without a machine at its end."""
        for flow in self.flows:
            flow.clear()

    def hang(self) -> None:
        """Forward nothing any more on the current connections; new ones are not affected."""
        self.stop()
        flow = threading.Event()
        flow.set()
        self.flows.append(flow)

    def cut(self) -> None:
        """Close all connections and refuse new ones: a machine without a Postgres."""
        # A client reconnects at once; its new connection must be closed with the others or refused.
        with self._lock:
            self.is_cut = True
            sockets, self.open_sockets = self.open_sockets, []
        for each in sockets:
            _shut(each)

    def break_off(self) -> None:
        """Close all connections, and accept new ones at once."""
        self.cut()
        self.restore()

    def restore(self) -> None:
        """Forward again. Bytes that were held back arrive late."""
        self.is_cut = False
        for flow in self.flows:
            flow.set()

    def forward(self, near: socket.socket) -> None:
        """Forward an accepted connection to Postgres until both directions have ended."""
        with self._lock:
            far = None if self.is_cut else self._connect()
            if far is None:
                self.refused += 1
                near.close()
                return
            self.open_sockets += [near, far]
            flow = self.flows[-1]
        answers = threading.Thread(
            target=self._pump, args=(far, near, "answered", flow), daemon=True
        )
        answers.start()
        self._pump(near, far, "asked", flow)
        # A thread that reads from a number must not find another connection under it.
        answers.join()
        near.close()
        far.close()

    def _connect(self) -> socket.socket | None:
        """Return a connection to Postgres, None if it does not listen."""
        where = conninfo_to_dict(self.database_url)
        host, port = str(where["host"]), where.get("port") or 5432
        if not host.startswith("/"):
            with suppress(OSError):
                return socket.create_connection((host, int(port)))
            return None
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(f"{host}/.s.PGSQL.{port}")
        except OSError:
            far.close()
            return None
        return far

    def _pump(
        self,
        source: socket.socket,
        target: socket.socket,
        direction: Direction,
        flow: threading.Event,
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                flow.wait()
                trap, ahead = self._take(direction, len(data))
                target.sendall(data[:ahead])
                if trap is not None:
                    trap.spring()
                    flow.wait()
                    target.sendall(data[ahead:])
        for each in (source, target):
            _shut(each)

    def _take(self, direction: Direction, size: int) -> tuple[Trap | None, int]:
        """Return the action that ``size`` more bytes start, and how many of them come before it."""
        with self._lock:
            self.round_trips += (direction, self._last) == ("asked", "answered")
            self._last = direction
            trap = self.trap
            if trap is None or trap.direction != direction:
                return None, size
            ahead = trap.take(size)
            if ahead is None:
                return None, size
            self.trap = None
            return trap, ahead


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy(database_url: str) -> Iterator[Proxy]:
    """Run a proxy to the database of ``database_url`` to the end of the block."""
    # The path of a socket may have a hundred characters, and pytest's directories have longer ones.
    with (
        tempfile.TemporaryDirectory(prefix="svc-way-") as directory,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        way = Proxy(database_url, Path(directory))
        way.restore()
        listener.bind(f"{directory}/.s.PGSQL.5432")
        listener.listen()
        with accepting(listener, way.forward):
            yield way
        way.restore()
        way.cut()
