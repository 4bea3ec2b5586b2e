"""The network between the servers and their database, as a process of its own.

``python -m tests.bench.faults.wire URL`` prints the directory of its socket, and reads ``stop`` and
``restore``, a line each, from its standard input until that ends.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from psycopg.conninfo import make_conninfo

from tests.faults.proxy import proxy


@dataclass(frozen=True)
class Wire:
    """The process, seen from outside."""

    directory: str
    orders: IO[str]

    def url(self, url: str) -> str:
        """Return ``url`` by way of this network."""
        return make_conninfo(url, host=self.directory, port=5432)

    def stop(self) -> None:
        """Carry nothing any more, and close nothing."""
        self._send("stop")

    def restore(self) -> None:
        """Carry again what was held back, and everything new."""
        self._send("restore")

    def _send(self, order: str) -> None:
        self.orders.write(f"{order}\n")
        self.orders.flush()


@contextmanager
def wire(database_url: str) -> Iterator[Wire]:
    """Run the process until the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.faults.wire", database_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Wire(process.stdout.readline().strip(), process.stdin)
        process.stdin.close()


def main() -> None:
    """Carry bytes until the end of the standard input."""
    with proxy(sys.argv[1]) as way:
        print(way.directory, flush=True)  # noqa: T201 -- the answer to the process that started this one
        for order in sys.stdin:
            if order == "stop\n":
                way.stop()
            else:
                way.restore()


if __name__ == "__main__":
    main()
