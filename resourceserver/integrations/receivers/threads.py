"""Threads with a connection each, whose work fails after a moment while the database hangs.

A thread that waits for a database that hangs would wait for ever: nothing closes its connection, and the time
limit of a statement is the database's own. So the watch of the process (``shared.hang``) ends the
connections of all threads, as it fails the statements of others.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, local
from typing import Any, NamedTuple, TypeVar

import psycopg

from resourceserver.integrations.imports.arrays import Array, ArrayDumper
from shared import database
from shared.metrics import Load

T = TypeVar("T")
Connection = psycopg.Connection[Any]


class _Held(NamedTuple):
    """The connection of a thread, with a socket of our own to it."""

    connection: Connection
    wire: socket.socket
    """Any thread may end the connection with it at any moment: its number stays ours until it is closed."""


@dataclass(eq=False)
class Threads:
    """As many threads as connections; a thread connects at its first use."""

    login: str
    size: int
    prepare: bool
    """Whether connections prepare statements, unless they lead to a pooler."""
    is_halted: bool = False
    """Whether all work is refused, because the database hangs."""
    _executor: ThreadPoolExecutor = field(init=False)
    _own: local = field(default_factory=local)
    """The connection of each thread."""
    _held: set[_Held] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)
    """Held while ``_held`` changes."""
    _waiting: dict[asyncio.Future[Any], float] = field(default_factory=dict)
    """The results that are waited for, and since when."""

    def __post_init__(self) -> None:
        """Make the threads."""
        self._executor = ThreadPoolExecutor(self.size, thread_name_prefix="receiver")

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, done in a thread.

        Raises what it raises, and OperationalError if the database hangs.
        """
        if self.is_halted:
            raise _silent()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def ended(done: Future[T]) -> None:
            # The loop can be closed already, if nobody waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, result, done)

        self._waiting[result] = time.monotonic()
        begun = self._executor.submit(work)
        begun.add_done_callback(ended)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            # A client that is gone does not end a transaction half-way: its place is held until the end.
            await asyncio.wait([result])
            result.exception()
            raise
        finally:
            del self._waiting[result]
            # Work that was given up before a thread has begun it is not done any more.
            begun.cancel()

    def connection(self) -> Connection:
        """Return the connection of the current thread. Raises OperationalError."""
        held: _Held | None = getattr(self._own, "held", None)
        if held is not None and not held.connection.closed:
            return held.connection
        if held is not None:
            self._own.held = None
            with self._lock:
                self._held.discard(held)
            held.wire.close()
        connection = psycopg.connect(
            self.login, autocommit=True, prepare_threshold=0 if self.prepare else None
        )
        database.prepare_nothing_if_pooled(connection)
        connection.adapters.register_dumper(Array, ArrayDumper)
        held = _Held(connection, socket.socket(fileno=os.dup(connection.fileno())))
        with self._lock:
            self._held.add(held)
        self._own.held = held
        return connection

    def load(self) -> Load:
        """Return how busy the connections are, for metrics. Work beyond the threads waits for one."""
        wanted = len(self._waiting)
        return Load(len(self._held), self.size, min(wanted, self.size), max(wanted - self.size, 0))

    def longest_wait_s(self) -> float:
        """Return the longest time that a current result has been waited for."""
        return time.monotonic() - min(self._waiting.values(), default=time.monotonic())

    def halt(self) -> None:
        """Refuse all work until ``resume``, and fail what is under way."""
        self.is_halted = True
        for result in self._waiting:
            if not result.done():
                result.set_exception(_silent())
        with self._lock:
            for held in self._held:
                with suppress(OSError):
                    held.wire.shutdown(socket.SHUT_RDWR)

    def resume(self) -> None:
        """Accept work again."""
        self.is_halted = False

    async def close(self) -> None:
        """End what is still under way, which nobody waits for, and close all connections."""
        self.halt()
        await asyncio.to_thread(self._executor.shutdown)
        for held in self._held:
            held.wire.close()
            with suppress(psycopg.Error):
                held.connection.close()


def _silent() -> psycopg.OperationalError:
    return psycopg.OperationalError("the database does not answer")


def _settle(result: "asyncio.Future[T]", done: Future[T]) -> None:
    """Pass on what became of work, unless it was given up."""
    if result.done() or done.cancelled():
        return
    error = done.exception()
    if error is None:
        result.set_result(done.result())
    else:
        result.set_exception(error)
