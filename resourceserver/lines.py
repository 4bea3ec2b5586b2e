"""Lines to the database: a few connections in pipeline mode, shared by all requests in flight.

    request A ── open_session, question, sync ─┐                    ┌─► A's results
    request B ── open_session, question, sync ─┼─► one connection ──┼─► B's results
    request C ── open_session, question, sync ─┘    (in order)      └─► C's results

A request does not wait for a connection of its own: it appends its statements to those under way, and
one callback hands the results out in the order of the asking. Each sync ends an implicit transaction,
so requests share a connection and nothing else; an error skips to the sync of its own request.

This is libpq's pipeline mode, driven through ``psycopg.pq``: a question costs a fraction of the Python
that a pooled connection and a cursor cost (``make bench``). A question that takes long would hold up
those behind it, so such have lines of their own, with one request at a time on each.
"""

import asyncio
import itertools
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from shared import database

_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")
_NUMBERS: Final = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement with named parameters, in the form in which libpq takes it."""

    name: bytes
    """Under which each connection prepares it once."""
    text: bytes
    parameters: tuple[str, ...]
    """The names for $1, $2, …"""


def statement(text: str) -> Statement:
    """Return ``text``, whose parameters are written ``%(name)s``, as a statement for libpq."""
    parameters = tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))
    numbers = {name: f"${number}" for number, name in enumerate(parameters, 1)}
    numbered = _PLACEHOLDER.sub(lambda found: numbers[found[1]], text)
    return Statement(f"svc_{next(_NUMBERS)}".encode(), numbered.encode(), parameters)


Step = tuple[Statement, Mapping[str, Any]]


def _array(values: list[str]) -> bytes:
    escaped = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return ("{" + ",".join(f'"{value}"' for value in escaped) + "}").encode()


# How values are written for Postgres; it knows from the statement what type each has.
_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    str: str.encode,
    int: lambda value: b"%d" % value,
    UUID: lambda value: value.hex.encode(),
    bytes: lambda value: b"\\x" + value.hex().encode(),
    datetime: lambda value: value.isoformat().encode(),
    date: lambda value: value.isoformat().encode(),
    list: _array,
}


def _written(parameters: tuple[str, ...], values: Mapping[str, Any]) -> list[bytes | None]:
    given = [values[name] for name in parameters]
    return [None if value is None else _WRITERS[type(value)](value) for value in given]


@dataclass(eq=False)
class _Turn:
    """What one request waits for: the results between two syncs."""

    answer: asyncio.Future[PGresult]
    last: PGresult | None = None
    error: psycopg.Error | None = None

    def take(self, result: PGresult) -> None:
        """Keep the newest result, and the first error."""
        if result.status == pq.ExecStatus.FATAL_ERROR:
            self.error = self.error or psycopg.errors.error_from_result(result)
        elif result.status != pq.ExecStatus.PIPELINE_ABORTED:
            self.last = result

    def end(self) -> None:
        """Hand over what came. Somebody who has stopped waiting gets nothing."""
        if self.answer.done():
            return
        if self.error is not None:
            self.answer.set_exception(self.error)
        elif self.last is not None:
            self.answer.set_result(self.last)
        else:
            self.answer.set_exception(psycopg.InternalError("the server sent no result"))


@dataclass(eq=False)
class Line:
    """One connection in pipeline mode; it connects when first asked, and again after a loss."""

    url: str
    prepare: bool
    turns: deque[_Turn] = field(default_factory=deque)
    _connection: psycopg.AsyncConnection[Any] | None = None
    # libpq forgets the socket of a connection that it has given up; the event loop must not.
    _socket: int = -1
    _connecting: asyncio.Task[None] | None = None
    _prepared: set[bytes] = field(default_factory=set)
    _is_writing: bool = False

    async def run(self, steps: Sequence[Step]) -> PGresult:
        """Return the result of the last of ``steps``, which run in one transaction.

        Raises psycopg.Error: the first step's that failed, or OperationalError for a lost connection.
        """
        if self._connection is None:
            await self._connect()
        return await self._send(steps)

    async def _connect(self) -> None:
        # All who come while the connection is being made wait for the same one.
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._make_connection())
        try:
            await asyncio.shield(self._connecting)
        finally:
            if self._connecting is not None and self._connecting.done():
                self._connecting = None

    async def _make_connection(self) -> None:
        try:
            async with asyncio.timeout(database.WAIT_S):
                connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        except TimeoutError as error:
            raise psycopg.OperationalError("the database does not answer") from error
        connection.pgconn.enter_pipeline_mode()
        self._connection = connection
        self._prepared = set()
        self._socket = connection.pgconn.socket
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def _send(self, steps: Sequence[Step]) -> asyncio.Future[PGresult]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[PGresult] = loop.create_future()
        pgconn = self._pgconn()
        if pgconn is None:
            answer.set_exception(psycopg.OperationalError("the connection is lost"))
            return answer
        try:
            if self.prepare:
                self._prepare(pgconn, steps)
            for wanted, values in steps:
                written = _written(wanted.parameters, values)
                if self.prepare:
                    pgconn.send_query_prepared(wanted.name, written)
                else:
                    pgconn.send_query_params(wanted.text, written)
            pgconn.pipeline_sync()
            self.turns.append(_Turn(answer))
            self._write()
        except psycopg.OperationalError as error:
            self._lose(error)
            if not answer.done():
                answer.set_exception(error)
        return answer

    def _prepare(self, pgconn: PGconn, steps: Sequence[Step]) -> None:
        """Prepare what this connection has not seen yet, in transactions before the request's own.

        In the request's own, a refused session would skip the preparing too, and the statement would
        be missing from then on.
        """
        for wanted, _ in steps:
            if wanted.name in self._prepared:
                continue
            pgconn.send_prepare(wanted.name, wanted.text)
            pgconn.pipeline_sync()
            self._prepared.add(wanted.name)
            prepared = asyncio.get_running_loop().create_future()
            prepared.add_done_callback(partial(self._check_prepared, wanted.name))
            self.turns.append(_Turn(prepared))

    def _check_prepared(self, name: bytes, prepared: asyncio.Future[PGresult]) -> None:
        # Who asked is told by the statement itself, which fails too; the next to ask prepares again.
        if not prepared.cancelled() and prepared.exception() is not None:
            self._prepared.discard(name)

    def _write(self) -> None:
        """Send what libpq has buffered; where the socket is full, go on when it is not."""
        pgconn = self._pgconn()
        if pgconn is None:
            return
        is_full = pgconn.flush() == 1
        if is_full != self._is_writing:
            loop = asyncio.get_running_loop()
            if is_full:
                loop.add_writer(self._socket, self._write_more)
            else:
                loop.remove_writer(self._socket)
            self._is_writing = is_full

    def _write_more(self) -> None:
        try:
            self._write()
        except psycopg.OperationalError as error:
            self._lose(error)

    def _read(self) -> None:
        """Hand out the results that have arrived, in the order of the asking."""
        pgconn = self._pgconn()
        if pgconn is None:
            return
        try:
            pgconn.consume_input()
            # What was held back while the server was busy sending can go out now.
            if self._is_writing:
                self._write()
            while self.turns and not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    continue
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    self.turns.popleft().end()
                else:
                    self.turns[0].take(result)
        except psycopg.OperationalError as error:
            self._lose(error)

    def _pgconn(self) -> PGconn | None:
        return None if self._connection is None else self._connection.pgconn

    def _lose(self, error: psycopg.OperationalError) -> None:
        """Give the connection up, and tell all who wait for its answers."""
        self.close()
        turns, self.turns = self.turns, deque()
        for turn in turns:
            # The server may have said why before it hung up.
            turn.error = turn.error or error
            turn.end()

    def close(self) -> None:
        """Close the connection, if there is one. Questions under way are not answered any more."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        if self._is_writing:
            loop.remove_writer(self._socket)
            self._is_writing = False
        connection.pgconn.finish()


@dataclass(frozen=True)
class Lines:
    """A few lines of one role; each question takes the least busy one."""

    lines: tuple[Line, ...]
    places: asyncio.Semaphore

    @classmethod
    def to(cls, url: str, *, size: int, depth: int, prepare: bool) -> "Lines":
        """Return ``size`` lines to ``url``, each for at most ``depth`` requests at a time.

        They connect when they are first needed.
        """
        lines = tuple(Line(url, prepare) for _ in range(size))
        return cls(lines, asyncio.Semaphore(size * depth))

    async def run(self, steps: Sequence[Step], *, may_repeat: bool = True) -> PGresult:
        """Return the result of the last of ``steps``.

        ``may_repeat`` is for questions: they are asked once more where their connection was lost, and
        by then may have been answered once already. Raises psycopg.Error, among them OperationalError
        where no place becomes free in time.
        """
        if self.places.locked():
            try:
                async with asyncio.timeout(database.WAIT_S):
                    await self.places.acquire()
            except TimeoutError as error:
                raise psycopg.OperationalError("every connection is busy") from error
        else:
            # Does not wait, and so needs no timer.
            await self.places.acquire()
        try:
            line = min(self.lines, key=lambda line: len(line.turns))
            try:
                return await line.run(steps)
            except psycopg.OperationalError as error:
                # A lost connection has no SQLSTATE, or one that says the server is going away.
                if may_repeat and (error.sqlstate or "57P").startswith("57P"):
                    return await line.run(steps)
                raise
        finally:
            self.places.release()

    def close(self) -> None:
        """Close all lines."""
        for line in self.lines:
            line.close()
