"""What a service manager learns of a process that it has started: that it is ready, and that it stops.

The manager, such as systemd for a unit with ``Type=notify``, listens on the Unix socket that NOTIFY_SOCKET
names, and takes a line as a datagram (sd_notify(3)). A process that was started otherwise sends nothing.

Servers are ready once they answer. Until then systemd keeps units waiting that are ordered after them, and
``systemctl restart`` does not return.
"""

import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"

_PAUSE_S: Final = 0.05
_ANSWER_TIMEOUT_S: Final = 6.0
"""Longer than /readyz takes where the database does not answer."""


def send(notify_socket: str | None, state: str) -> None:
    """Send a line to the service manager, if there is one."""
    if notify_socket is None:
        return
    # A name without a file is written with "@" for its first byte, which is zero.
    address = f"\0{notify_socket[1:]}" if notify_socket.startswith("@") else notify_socket
    # A manager that waits for the line reports by itself that it did not come.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(address)
        sender.sendall(state.encode())


def send_ready_once_answered(
    notify_socket: str | None, addresses: Sequence[tuple[str, int]], path: str
) -> None:
    """Send READY as soon as this process, or a worker of it, answers ``path`` with 200; return at once."""
    if notify_socket is not None:
        threading.Thread(target=_await, args=(notify_socket, addresses, path), daemon=True).start()


def _await(notify_socket: str, addresses: Sequence[tuple[str, int]], path: str) -> None:
    while not answers(addresses, path):
        # A server that begins to answer sends no signal, so it is asked again and again.
        time.sleep(_PAUSE_S)
    send(notify_socket, READY)


def answers(addresses: Sequence[tuple[str, int]], path: str, host: str = "localhost") -> bool:
    """Whether one of the addresses answers ``path`` with 200.

    The large modules of an HTTP client are not needed for this; ``host`` is the Host header.
    """
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    for host_and_port in addresses:
        with suppress(OSError), socket.create_connection(host_and_port, timeout=2) as connection:
            connection.settimeout(_ANSWER_TIMEOUT_S)
            connection.sendall(request.encode())
            with connection.makefile("rb") as answer:
                return answer.readline().startswith(b"HTTP/1.1 200 ")
    return False


def main() -> int:
    """Whether all ports of the command line are ready, for the health check of a container."""
    ports = map(int, sys.argv[1:])
    return 0 if all(answers([("127.0.0.1", port)], "/readyz") for port in ports) else 1


if __name__ == "__main__":
    sys.exit(main())
