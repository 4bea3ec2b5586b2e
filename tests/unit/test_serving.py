"""The last moment of a server: connections that the system has accepted for it are answered."""

import asyncio
import errno
import socket
from contextlib import closing

import pytest
import uvicorn

from shared.serving import _Server


class Listener(socket.socket):
    """A listener whose first connection is gone by the time that it is accepted, and that then fails."""

    accepted = 0

    def accept(self) -> tuple[socket.socket, object]:
        """Accept the second connection."""
        self.accepted += 1
        if self.accepted == 1:
            raise ConnectionAbortedError
        if self.accepted == 2:
            return super().accept()
        raise OSError(errno.EMFILE, "Too many open files")


async def answer(scope: object, receive: object, send: object) -> None:
    pytest.fail("a request reached a server that stops")


def test_a_server_stops_although_a_client_has_gone_and_files_run_out() -> None:
    async def stop(listener: Listener) -> int:
        server = _Server(uvicorn.Config(answer, lifespan="off", log_config=None))
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        server.servers = []
        await server.shutdown([listener])
        return listener.accepted

    with Listener() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with closing(socket.create_connection(listener.getsockname())):
            assert asyncio.run(stop(listener)) == 3
        assert listener.fileno() == -1
