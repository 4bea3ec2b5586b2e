"""Pools of connections for work that runs long or holds a transaction open.

A connection of the pool has one user at a time, while many short requests share one connection of
``shared.pipeline``. The pool is psycopg's own. Its defaults suit programs that can wait; here it connects
only when it is used, and refuses a request that gets no connection within ``database.WAIT_S``, as a pipeline
does.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from shared import database, priority
from shared.metrics import Load
from shared.pipeline import NotConnectedError

Connection = psycopg.AsyncConnection[Any]

_MOST_WAITING: Final = 16
"""The most requests that wait for a connection of one pool; further ones are refused at once."""
_IDLE_S: Final = 60.0
"""How long an unused connection stays open. At most one is closed each minute."""


def _has_ended(connection: Connection) -> bool:
    """Whether the server has ended ``connection``, as it does when it is restarted.

    The pool's own ``check`` sends a statement and waits for the answer, which may not come; and it pauses for
    a second after the second dead connection.
    """
    try:
        # The first call reads the server's last message, the second one the end behind it.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return False


async def _configure(connection: Connection) -> None:
    """Let a new connection prepare nothing if it leads to a pooler, and give way.

    Raises OperationalError, also if the database does not answer within ``database.WAIT_S``. The pool makes
    one connection at a time, so one that never ended would be its last.
    """
    limit = asyncio.get_running_loop().call_later(database.WAIT_S, _break_off, connection)
    try:
        if connection.prepare_threshold is not None and await database.leads_to_pooler(connection):
            connection.prepare_threshold = None
    except BaseException:
        await connection.close()
        raise
    finally:
        limit.cancel()
    priority.let_give_way(connection)


def _break_off(connection: Connection) -> None:
    """End the network connection under ``connection``, so that whatever waits for it fails at once.

    A canceled statement would first ask the database to cancel it, and wait up to ten seconds for that.
    """
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as connected, suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


@dataclass(eq=False)
class Pool:
    """A few connections of one role; they can be taken within an ``async with`` block of the pool."""

    connections: AsyncConnectionPool[Connection]
    places: asyncio.Semaphore
    """One place for each possible connection."""
    wait_s: float | None
    """How long to wait for a place; None for as long as it takes."""
    waiting: int = 0
    """The number of requests that wait for a place."""

    @classmethod
    def to(
        cls,
        url: str,
        *,
        size: int,
        is_patient: bool = False,
        prepare: bool = False,
    ) -> "Pool":
        """Return a pool of at most ``size`` connections to ``url``.

        ``prepare`` is for work that sends the same statements for one person after the other: each
        connection prepares them, unless it leads to a pooler. ``is_patient`` is for work that waits for a
        place for as long as it takes; other work waits for ``database.WAIT_S``.
        """
        connections = AsyncConnectionPool(
            url,
            connection_class=Connection,
            # Other statements run too seldom to be worth preparing.
            kwargs={"autocommit": True, "prepare_threshold": 0 if prepare else None},
            min_size=0,
            max_size=size,
            open=False,
            configure=_configure,
            timeout=database.WAIT_S,
            # Places limit the waiting requests. The pool's own limit also counts requests that were canceled,
            # until a connection is made; with too many of them it refuses all others, and never connects
            # again.
            max_waiting=0,
            max_idle=_IDLE_S,
            # By default the pause between two attempts grows to minutes, in which no request gets a
            # connection.
            reconnect_timeout=database.WAIT_S,
            num_workers=1,
        )
        return cls(connections, asyncio.Semaphore(size), None if is_patient else database.WAIT_S)

    async def __aenter__(self) -> Self:
        """Open the pool."""
        await self.connections.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close all connections; one that is still in use is closed when it is given back."""
        await self.connections.close()

    async def take(self) -> Connection:
        """Return a connection, which must be given back.

        Raises NotConnectedError if none can be made, and OperationalError if all stay busy.
        """
        await self._take_place()
        try:
            connection = await self._get()
            while _has_ended(connection):
                # The pool drops it and makes another one.
                await self.connections.putconn(connection)
                connection = await self._get()
        except BaseException as error:
            self.places.release()
            if isinstance(error, PoolTimeout):
                raise NotConnectedError("no connection can be made in time") from error
            raise
        return connection

    async def _get(self) -> Connection:
        """Return a connection of psycopg's pool, which loses a cancellation that comes as it gets one."""
        task = asyncio.current_task()
        cancellations = task.cancelling() if task else 0
        connection = await self.connections.getconn()
        if task and task.cancelling() > cancellations:
            await self.connections.putconn(connection)
            raise asyncio.CancelledError
        return connection

    async def _take_place(self) -> None:
        if self.waiting >= _MOST_WAITING:
            raise psycopg.OperationalError("too many wait for a connection")
        self.waiting += 1
        try:
            async with asyncio.timeout(self.wait_s):
                await self.places.acquire()
        except TimeoutError as error:
            raise psycopg.OperationalError("every connection is busy") from error
        finally:
            self.waiting -= 1

    def load(self) -> Load:
        """Return how busy the connections are, for metrics."""
        stats = self.connections.get_stats()
        used = stats["pool_size"] - stats["pool_available"]
        return Load(stats["pool_size"], stats["pool_max"], used, self.waiting)

    async def give_back(self, connection: Connection) -> None:
        """Return ``connection`` to the pool. A transaction that is still open is rolled back."""
        try:
            await self.connections.putconn(connection)
        finally:
            self.places.release()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for the time of the block. Raises what ``take`` does."""
        connection = await self.take()
        try:
            yield connection
        finally:
            await self.give_back(connection)
