"""Pools of connections for what runs long or holds a transaction open.

Whoever takes a connection uses it alone until giving it back, while many short requests share one
connection of ``shared.pipeline``. The pool is psycopg's own. Its defaults suit programs that can wait;
ours connects only when it is used, and refuses whoever finds no connection within ``database.WAIT_S``, as
a pipeline does.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from shared import database
from shared.pipeline import NotConnectedError

Connection = psycopg.AsyncConnection[Any]

_MOST_WAITING: Final = 16
"""How many may wait for a connection of one pool; further ones are refused at once."""
_IDLE_S: Final = 60.0
"""How long a connection stays open unused. Each minute at most one is closed."""


def _has_ended(connection: Connection) -> bool:
    """Whether the server has ended ``connection``, as it does when it is restarted.

    The pool's own ``check`` asks the server and waits for the answer, which may not come; and it pauses for a
    second after the second connection that is found dead.
    """
    try:
        # The first call reads the server's last message, the second one the end behind it.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return False


@dataclass(eq=False)
class Pool:
    """A few connections of one role; they can be taken within an ``async with`` block of the pool."""

    connections: AsyncConnectionPool[Connection]
    places: asyncio.Semaphore
    """One for each connection that there may be."""
    waiting: int = 0
    """How many wait for a place."""

    @classmethod
    def to(cls, url: str, *, size: int) -> "Pool":
        """Return a pool of at most ``size`` connections to ``url``."""
        connections = AsyncConnectionPool(
            url,
            connection_class=Connection,
            # What runs here is seldom enough that nothing needs to be prepared.
            kwargs={"autocommit": True, "prepare_threshold": None},
            min_size=0,
            max_size=size,
            open=False,
            timeout=database.WAIT_S,
            # Places bound who waits. The pool's own bound counts those who have given up waiting too, until a
            # connection is made; where they are too many it refuses all others, and never connects again.
            max_waiting=0,
            max_idle=_IDLE_S,
            # By default the pause between two attempts grows to minutes, for which nobody gets a connection.
            reconnect_timeout=database.WAIT_S,
            num_workers=1,
        )
        return cls(connections, asyncio.Semaphore(size))

    async def __aenter__(self) -> Self:
        """Let connections be taken."""
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

        Raises NotConnectedError where none can be made, and OperationalError where all stay busy.
        """
        await self._take_place()
        try:
            connection = await self.connections.getconn()
            while _has_ended(connection):
                # The pool drops it and makes another one.
                await self.connections.putconn(connection)
                connection = await self.connections.getconn()
        except BaseException as error:
            self.places.release()
            if isinstance(error, PoolTimeout):
                raise NotConnectedError("no connection can be made in time") from error
            raise
        return connection

    async def _take_place(self) -> None:
        if self.waiting >= _MOST_WAITING:
            raise psycopg.OperationalError("too many wait for a connection")
        self.waiting += 1
        try:
            async with asyncio.timeout(database.WAIT_S):
                await self.places.acquire()
        except TimeoutError as error:
            raise psycopg.OperationalError("every connection is busy") from error
        finally:
            self.waiting -= 1

    async def give_back(self, connection: Connection) -> None:
        """Let others have ``connection``. A transaction that is still open is rolled back."""
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
