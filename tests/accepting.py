"""A listener whose connections are served in threads, for hosts and proxies of tests."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def accepting(listener: socket.socket, serve: Callable[[socket.socket], object]) -> Iterator[None]:
    """Serve each connection in a thread of its own until the end of the block."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        # A listener that is only closed would keep its thread in accept(). And one that is closed before the
        # thread has ended could be the next test's: the thread may be about to call accept() on a number
        # that the next listener gets.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
