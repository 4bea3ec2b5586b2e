"""A PostgreSQL that this process started before it replaced its own image by a smaller one.

Only numbers and paths survive such a replacement; they are enough to watch the server and to stop it.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.postgres import postmaster


@dataclass
class StartedPostgres:
    """The server's process. Every field but ``status`` can be written as JSON."""

    pid: int
    data_dir: str
    socket_dir: str
    lock: int
    """The descriptor that holds the lock of the data directory until this process ends."""
    status: int | None = None

    @property
    def cluster(self) -> Path:
        """The directory of the cluster."""
        return Path(self.data_dir) / "postgres"

    def poll(self) -> int | None:
        """Return the exit status of the server once it has ended, None while it runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def stop(self) -> None:
        """Stop the server, within a bounded time. Raises EmbeddedError where it does not stop."""
        try:
            postmaster.stop(self.pid, self.cluster, lambda: self.poll() is not None)
        finally:
            remove_socket_dir(Path(self.socket_dir), Path(self.data_dir))


def remove_socket_dir(socket_dir: Path, data_dir: Path) -> None:
    """Remove the directory of the socket where it lies outside of the data directory."""
    if socket_dir.parent != data_dir:
        with suppress(OSError):
            socket_dir.rmdir()
