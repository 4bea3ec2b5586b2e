"""A way to Postgres that can stop, break and come back, between a server and its database."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo


@dataclass
class Proxy:
    """Hands bytes on in both directions, as long as nobody says otherwise."""

    database_url: str
    directory: Path
    """Holds the socket, as Postgres' own directory does; its path is short."""
    flows: threading.Event = field(default_factory=threading.Event)
    is_cut: bool = False
    open_sockets: list[socket.socket] = field(default_factory=list)

    def url(self, url: str) -> str:
        """Return ``url`` with the way through here."""
        return make_conninfo(url, host=str(self.directory), port=5432)

    def stop(self) -> None:
        """Hand nothing on any more, and say nothing of it: a cable without a machine at its end."""
        self.flows.clear()

    def cut(self) -> None:
        """End all connections and refuse new ones: a machine without a Postgres."""
        self.is_cut = True
        for each in self.open_sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.open_sockets.clear()

    def restore(self) -> None:
        """Be a way again. What was under way arrives late."""
        self.is_cut = False
        self.flows.set()

    def accept(self, listener: socket.socket) -> None:
        """Take connections until ``listener`` is closed."""
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            if self.is_cut:
                near.close()
                continue
            far = self._connect()
            self.open_sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _connect(self) -> socket.socket:
        where = conninfo_to_dict(self.database_url)
        host, port = str(where["host"]), where.get("port") or 5432
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        far = socket.socket(socket.AF_UNIX)
        far.connect(f"{host}/.s.PGSQL.{port}")
        return far

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.flows.wait()
                target.sendall(data)
        for each in (source, target):
            each.close()


@contextmanager
def proxy(database_url: str, directory: Path) -> Iterator[Proxy]:
    """Run a way to the database of ``database_url`` to the end of the block."""
    way = Proxy(database_url, directory)
    way.restore()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/.s.PGSQL.5432")
        listener.listen()
        threading.Thread(target=way.accept, args=(listener,), daemon=True).start()
        yield way
        # Accepting ends only with the socket shut down; closing it alone wakes nobody.
        listener.shutdown(socket.SHUT_RDWR)
        way.restore()
        way.cut()
