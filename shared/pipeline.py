"""Pipelines to the database: a few connections in pipeline mode, shared by all requests in flight.

    request A ── open_session, query, sync ─┐                    ┌─► A's results
    request B ── open_session, query, sync ─┼─► one connection ──┼─► B's results
    request C ── open_session, query, sync ─┘    (in order)      └─► C's results

A request does not wait for a connection of its own: it appends its statements to those that were sent before,
and one callback hands the results out in the order of the requests. Each sync ends an implicit transaction,
so requests share a connection and nothing else; an error skips to the sync of its own request.

This is libpq's pipeline mode, used through ``psycopg.pq``: a query costs a fraction of the Python time that a
pooled connection and a cursor cost (``make bench``). A slow query would delay those behind it, so slow ones
have connections of their own, with one request at a time on each.
"""

import asyncio
import hashlib
import re
import selectors
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from shared import database, priority, queries
from shared.metrics import Load

IDLE_S: Final = 300.0
"""How long a connection stays open without a request. Its backend keeps 50 MiB of plans once it has answered
many different questions."""
_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")
_LAYOUT: Final = re.compile(r"^ *(?:--.*\n)?", re.MULTILINE)
"""Indentation and lines of comments: two fifths of the text that each connection keeps of its prepared
statements. No text in a statement spans lines."""


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement with named parameters, in the form in which libpq takes it."""

    name: bytes
    """The name under which each connection prepares it. The same name means the same text in every process,
    so that a pooler that mixes up prepared statements can never return the answer of another one."""
    text: bytes
    parameters: tuple[str, ...]
    """The parameter names for $1, $2, …"""


def statement(text: str) -> Statement:
    """Return ``text``, whose parameters are written ``%(name)s``, as a statement for libpq."""
    parameters = tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))
    numbers = {name: f"${number}" for number, name in enumerate(parameters, 1)}
    numbered = _PLACEHOLDER.sub(lambda match: numbers[match[1]], _LAYOUT.sub("", text))
    digest = hashlib.sha256(numbered.encode()).hexdigest()
    return Statement(f"svc_{digest[:32]}".encode(), numbered.encode(), parameters)


def load(*paths: Path) -> dict[str, Statement]:
    """Return the statements of ``paths`` by name, as ``shared.queries`` finds them."""
    return {name: statement(text) for name, text in queries.load(*paths).items()}


Step = tuple[Statement, Mapping[str, Any]]
Results = Sequence[PGresult]
"""One result for each statement, in their order."""


@dataclass(frozen=True)
class Unfinished:
    """Steps, at least one, whose results decide what follows them."""

    steps: Sequence[Step]


@dataclass(frozen=True)
class Sequel:
    """Steps that follow in the same transaction and depend on the results so far."""

    statements: tuple[Statement, ...]
    """All statements that ``steps`` may return; they are prepared before."""
    steps: Callable[[Results], Sequence[Step] | Unfinished]
    """Returns the next steps from all results before them; it is called again after unfinished ones. It runs
    in the event loop, so it must be quick, and it starts again from the beginning if the transaction was
    rolled back and is repeated."""


BEGIN: Final = statement("begin isolation level repeatable read")
"""As the first step, it makes all steps see the data as of one moment. COMMIT must be the last.

The second step locks `svc.schema_version`, and the third checks the version."""
COMMIT: Final = statement("commit")
_ROLLBACK: Final = statement("rollback")
_BACKEND: Final = statement(database.SQL["backend"])


def _array(values: list[str | None]) -> bytes:
    if None not in values:
        joined = '","'.join(cast("list[str]", values))
        if "\\" not in joined and joined.count('"') == 2 * len(values) - 2:
            # Usually nothing needs escaping, and a list may have thousands of days or instants.
            return f'{{"{joined}"}}'.encode()
    return ("{" + ",".join(map(_element, values)) + "}").encode()


def _element(value: str | None) -> str:
    if value is None:
        return "null"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# The text that Postgres reads for each type of value; Postgres knows the types from the statement.
_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    str: str.encode,
    bool: lambda value: b"true" if value else b"false",
    int: lambda value: b"%d" % value,
    # The shortest text that reads back as the same number. Postgres accepts nan and inf as Python writes
    # them.
    float: lambda value: repr(value).encode(),
    UUID: lambda value: value.hex.encode(),
    bytes: lambda value: b"\\x" + value.hex().encode(),
    datetime: lambda value: value.isoformat().encode(),
    date: lambda value: value.isoformat().encode(),
    timedelta: lambda value: f"{value // timedelta(microseconds=1)} microseconds".encode(),
    list: _array,
}


_HAS_NUL: Final = methodcaller("__contains__", 0)


def _written(parameters: tuple[str, ...], values: Mapping[str, Any]) -> list[bytes | None]:
    given = [values[name] for name in parameters]
    written = [None if value is None else _WRITERS[type(value)](value) for value in given]
    # libpq would take a NUL for the end of the value and send only the part before it.
    if any(map(_HAS_NUL, filter(None, written))):
        raise psycopg.DataError("Postgres stores no NUL in text")
    return written


class ConnectionLostError(psycopg.OperationalError):
    """A connection that worked broke before the answer came; the statements may have been executed."""


class NotConnectedError(psycopg.OperationalError):
    """The connection attempt failed."""


class MissingObjectError(psycopg.OperationalError):
    """The first statement of a transaction needs a schema, table or function that is missing or not granted.

    The first statement is the one that checks whether code and schema fit, so the schema is too old. After
    BEGIN these are two: the lock, and the check. If a later statement needs a missing object, that is a
    mistake of the code, and the error stays unchanged.
    """

    def __init__(self, error: psycopg.Error) -> None:
        """Keep the message of Postgres."""
        super().__init__(error.diag.message_primary or "")
        self.sqlstate = error.sqlstate


_MISSING: Final = (
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
    # The type of a table's rows is missing together with the table.
    psycopg.errors.UndefinedObject,
    # Rights are granted last, so an object without rights counts as missing.
    psycopg.errors.InsufficientPrivilege,
)


@contextmanager
def first_statement() -> Iterator[None]:
    """Raise MissingObjectError for the first statement of a block that sends it without a pipeline."""
    try:
        yield
    except _MISSING as error:
        raise MissingObjectError(error) from error


Preparations = Mapping[bytes, asyncio.Future[Results]]
"""By the names of statements: the result of preparing each, pending or done."""


def _statements(sequel: Sequel | None) -> tuple[Statement, ...]:
    return () if sequel is None else sequel.statements


class _OutdatedError(psycopg.OperationalError):
    """A prepared statement is gone, or its result has other columns since the schema changed.

    Nothing of the request has been done: the error rolled its whole transaction back.
    """

    def __init__(self, prepared: Preparations, reason: psycopg.Error) -> None:
        super().__init__(str(reason))
        self.prepared = prepared


def _is_stale_plan(error: psycopg.Error) -> bool:
    """Whether ``error`` means "cached plan must not change result type".

    It has no SQLSTATE of its own: 0A000 stands for everything that Postgres does not support. The name of the
    function that raises it identifies it. The message does not, since servers translate it.
    """
    return (
        isinstance(error, psycopg.errors.FeatureNotSupported)
        and error.diag.source_function == "RevalidateCachedQuery"
    )


@dataclass(eq=False)
class _Turn:
    """One request in the pipeline, and its results, which arrive between two syncs."""

    answer: asyncio.Future[Results]
    prepared: Preparations = field(default_factory=dict)
    """The results of preparing its statements, by their names; all of them come before it."""
    sequel: Sequel | None = None
    """Steps that are still to be sent; until then, the transaction stays open."""
    has_begun: bool = False
    """Whether its first step is BEGIN, so that an error leaves a transaction to be rolled back."""
    missing: int = 0
    """The number of results that must come before the sequel can be sent."""
    results: list[PGresult] = field(default_factory=list)
    error: psycopg.Error | None = None
    failure: Exception | None = None
    """The error of the code that returns the steps of the sequel; its transaction is rolled back."""

    def take(self, result: PGresult) -> None:
        """Keep a result, or the first error."""
        if result.status == pq.ExecStatus.FATAL_ERROR:
            self.error = self.error or psycopg.errors.error_from_result(result)
            self.missing = 0
        elif result.status != pq.ExecStatus.PIPELINE_ABORTED:
            self.results.append(result)
            self.missing -= 1

    def end(self) -> None:
        """Set the result of the request, unless it has been canceled."""
        if self.answer.done():
            return
        if self.failure is not None:
            self.answer.set_exception(self.failure)
        elif self.error is not None:
            self.answer.set_exception(self._cause(self.error))
        elif self.results:
            self.answer.set_result(self.results)
        else:
            self.answer.set_exception(psycopg.InternalError("the server sent no result"))

    def _cause(self, error: psycopg.Error) -> BaseException:
        """Return the cause of ``error``: a statement that could not be prepared, or that is outdated."""
        cause: BaseException = error
        if isinstance(error, psycopg.errors.InvalidSqlStatementName):
            failures = (preparing.exception() for preparing in self.prepared.values())
            cause = next(filter(None, failures), None) or _OutdatedError(self.prepared, error)
        elif _is_stale_plan(error):
            cause = _OutdatedError(self.prepared, error)
        # The version check is the first statement; after BEGIN it is the third, after the lock.
        if len(self.results) <= 2 * self.has_begun and isinstance(cause, _MISSING):
            return MissingObjectError(cause)
        return cause

    def fail(self, error: Exception) -> None:
        """Fail the request, unless it has been canceled."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(eq=False)
class Pipeline:
    """One connection in pipeline mode; it connects at the first request, and again after a loss."""

    url: str = field(repr=False)
    prepare: bool
    """Whether to prepare statements, unless a pooler stands between."""
    patience_s: float
    """How long an answer may take before the connection counts as dead. The time that it waits behind others
    does not count, so that slow answers never close a working connection for other requests."""
    gives_way: bool = False
    """Whether its work gives way to that of other connections (``shared.priority``)."""
    idle_s: float = IDLE_S
    """How long it stays open without a request."""
    requests: int = 0
    """The number of requests that use it, including those that wait until it is connected."""
    people: Counter[Hashable] = field(default_factory=Counter, repr=False)
    """How many of these requests each person has."""
    _turns: deque[_Turn] = field(default_factory=deque)
    _first_since: float = 0.0
    """The time since when the first turn has been the first."""
    _connection: psycopg.AsyncConnection[Any] | None = None
    # The event loop watches this selector, and the selector watches libpq's socket. uvloop stops watching
    # a socket at its first error (EPOLLERR), when data may be unread and the end of the connection not
    # yet seen. A selector's descriptor reports no errors. This class closes it, while libpq may close
    # its socket at any time and the system may give the number to another connection.
    _selector: selectors.DefaultSelector | None = None
    _connecting: asyncio.Task[None] | None = None
    _prepared: dict[bytes, asyncio.Future[Results]] = field(default_factory=dict)
    _is_pooled: bool = False
    """Whether the current connection leads to a pooler (``database.prepare_nothing_if_pooled``)."""
    _is_writing: bool = False
    _watch: asyncio.TimerHandle | None = None
    _rest: asyncio.TimerHandle | None = None

    async def run(self, steps: Sequence[Step], sequel: Sequel | None = None) -> Results:
        """Return the results of ``steps``, and of ``sequel``'s after them. All run in one transaction.

        ``sequel`` is for connections with one request at a time: the transaction stays open until its steps
        are known. Raises psycopg.Error: that of the first step that failed; ConnectionLostError;
        OperationalError if there is no connection or the answer takes too long.
        """
        try:
            return await self._try(steps, sequel, prepare=self.prepare)
        except _OutdatedError as error:
            self._forget(error.prepared)
        # Without preparing: the statement could become outdated again before it is used, by another change of
        # the schema, or because a pooler keeps the old one. A statement that is parsed in the transaction
        # that uses it holds locks against changes of its tables and views.
        return await self._try(steps, sequel, prepare=False)

    async def _try(self, steps: Sequence[Step], sequel: Sequel | None, *, prepare: bool) -> Results:
        if self._connection is None:
            await self._connect()
        try:
            return await self._send(steps, sequel, prepare=prepare)
        except asyncio.CancelledError:
            # The next request must not be sent into a transaction that is still open.
            if sequel is not None:
                self._lose(ConnectionLostError("nobody waits for the answer any more"))
            raise

    async def _connect(self) -> None:
        # Requests that come while the connection is being made wait for the same attempt.
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._make_connection())
        await asyncio.shield(self._connecting)

    async def _make_connection(self) -> None:
        until = asyncio.get_running_loop().time() + database.WAIT_S
        try:
            async with asyncio.timeout_at(until):
                connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
                self._use(connection)
                self._is_pooled = await self._leads_to_pooler(connection)
        except TimeoutError as error:
            failure = NotConnectedError("it takes too long to connect")
            self._lose(failure)
            raise failure from error
        except psycopg.OperationalError as error:
            failure = NotConnectedError(str(error))
            self._lose(failure)
            raise failure from error
        finally:
            self._connecting = None
        if self.gives_way:
            priority.let_give_way(connection)

    def _use(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Send requests on a new connection from now on. Raises OperationalError."""
        connection.pgconn.enter_pipeline_mode()
        self._connection = connection
        self._prepared = {}
        # Requests that come before the answer prepare nothing either.
        self._is_pooled = True
        loop = asyncio.get_running_loop()
        self._first_since = loop.time()
        self._rest = loop.call_later(self.idle_s, self._close_if_idle)
        try:
            self._selector = selectors.DefaultSelector()
            self._selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            loop.add_reader(self._selector.fileno(), self._read)
        except OSError as error:
            raise psycopg.OperationalError(f"the connection cannot be watched: {error}") from error

    async def _leads_to_pooler(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        """Whether a pooler stands between (``database.leads_to_pooler``).

        It is asked as a request: psycopg tries for ten seconds to end a statement that takes too long.
        """
        (backend,) = await self._send(((_BACKEND, {}),), None, prepare=False)
        return backend.get_value(0, 0) != b"%d" % connection.info.backend_pid

    def _send(
        self, steps: Sequence[Step], sequel: Sequel | None, *, prepare: bool
    ) -> asyncio.Future[Results]:
        loop = asyncio.get_running_loop()
        prepare = prepare and not self._is_pooled
        turn = _Turn(
            loop.create_future(),
            sequel=sequel,
            has_begun=steps[0][0] is BEGIN,
            missing=len(steps),
        )
        # Before anything is sent: an invalid value must not leave half a turn behind.
        ready = [(wanted, _written(wanted.parameters, values)) for wanted, values in steps]
        pgconn = self._pgconn()
        if pgconn is None:
            turn.fail(ConnectionLostError("the connection is lost"))
            return turn.answer
        if self._turns and self._turns[-1].sequel is not None:
            raise psycopg.InterfaceError("another request's transaction is open on this connection")
        if not self._turns:
            self._first_since = loop.time()
        try:
            if prepare:
                statements = [wanted for wanted, _ in steps]
                turn.prepared = self._prepare(pgconn, [*statements, *_statements(sequel)])
            self._ask(pgconn, ready, prepare=prepare)
            if sequel is None:
                pgconn.pipeline_sync()
            else:
                pgconn.send_flush_request()
            self._turns.append(turn)
            self._write()
        except psycopg.OperationalError as error:
            turn.fail(ConnectionLostError(str(error)))
            self._lose(ConnectionLostError(str(error)))
        if self._watch is None and self._turns:
            self._watch = loop.call_later(self.patience_s, self._look_after_the_first)
        return turn.answer

    def _ask(
        self,
        pgconn: PGconn,
        ready: Sequence[tuple[Statement, list[bytes | None]]],
        *,
        prepare: bool,
    ) -> None:
        for wanted, written in ready:
            if prepare:
                pgconn.send_query_prepared(wanted.name, written)
            else:
                pgconn.send_query_params(wanted.text, written)

    def _go_on(self, pgconn: PGconn, turn: _Turn, sequel: Sequel) -> None:
        """Send the next steps of a turn, unless a statement has failed, and the sync that ends it.

        If the code that returns these steps fails, the transaction is rolled back and the connection stays.
        """
        turn.sequel = None
        if turn.error is None:
            try:
                following = sequel.steps(turn.results)
                is_last = not isinstance(following, Unfinished)
                steps = following.steps if isinstance(following, Unfinished) else following
                ready = [(wanted, _written(wanted.parameters, values)) for wanted, values in steps]
            except Exception as error:  # A half transaction must never be committed.
                turn.failure = error
                # It rolls back an implicit transaction too, which the sync would commit.
                ready, is_last = [(_ROLLBACK, [])], True
            prepare = bool(turn.prepared) and turn.failure is None
            self._ask(pgconn, ready, prepare=prepare)
            if not is_last:
                turn.sequel = sequel
                turn.missing = len(ready)
                pgconn.send_flush_request()
                self._write()
                return
        pgconn.pipeline_sync()
        self._write()

    def _roll_back(self, pgconn: PGconn) -> None:
        """End a transaction that has failed after BEGIN: a sync leaves it open."""
        if self._turns:
            raise psycopg.OperationalError(
                "another request came into a transaction that has failed"
            )
        loop = asyncio.get_running_loop()
        self._ask(pgconn, [(_ROLLBACK, [])], prepare=False)
        pgconn.pipeline_sync()
        rolled_back = loop.create_future()
        # No task awaits it: without this, asyncio logs an error if the connection is lost before.
        rolled_back.add_done_callback(asyncio.Future.exception)
        self._turns.append(_Turn(rolled_back))
        self._first_since = loop.time()
        self._write()

    def _prepare(self, pgconn: PGconn, statements: Sequence[Statement]) -> Preparations:
        """Prepare the statements that are new on this connection, in transactions before the request's own.

        In the request's own, a refused session would skip the preparing too, and the statement would
        be missing from then on. Returns the result of preparing each of ``statements``.
        """
        loop = asyncio.get_running_loop()
        for wanted in statements:
            if wanted.name in self._prepared:
                continue
            # The server may have an outdated one of this name; closing an unknown one is no error.
            pgconn.send_close_prepared(wanted.name)
            pgconn.send_prepare(wanted.name, wanted.text)
            pgconn.pipeline_sync()
            preparing = self._prepared[wanted.name] = loop.create_future()
            preparing.add_done_callback(partial(self._check_prepared, wanted.name))
            self._turns.append(_Turn(preparing))
        return {wanted.name: self._prepared[wanted.name] for wanted in statements}

    def _check_prepared(self, name: bytes, preparing: asyncio.Future[Results]) -> None:
        # The request learns of the failure from the statement itself; the next request prepares it again.
        if preparing.exception() is not None:
            self._forget({name: preparing})

    def _forget(self, prepared: Preparations) -> None:
        """Let the next request prepare again, unless one has done so since ``prepared`` was read."""
        for name, preparing in prepared.items():
            if self._prepared.get(name) is preparing:
                del self._prepared[name]

    def _write(self) -> None:
        """Send the data that libpq has buffered; if the socket is full, go on when it is not."""
        pgconn = self._pgconn()
        if pgconn is None or self._selector is None:
            return
        is_full = pgconn.flush() == 1
        if is_full != self._is_writing:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_full else 0)
            self._selector.modify(pgconn.socket, events)
            self._is_writing = is_full

    def _read(self) -> None:
        """Hand out the results that have arrived, in the order of the requests, and send waiting sequels."""
        pgconn = self._pgconn()
        if pgconn is None:
            return
        try:
            pgconn.consume_input()
            if self._is_writing:
                self._write()
            while self._turns and not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    if pgconn.status != pq.ConnStatus.OK:
                        # libpq has closed the connection without an error of this call, because it did not
                        # understand the server. From now on each result is None.
                        raise psycopg.OperationalError(pgconn.get_error_message())
                    continue
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    turn = self._turns.popleft()
                    if self._turns:
                        self._first_since = asyncio.get_running_loop().time()
                    turn.end()
                    if turn.has_begun and turn.error is not None:
                        self._roll_back(pgconn)
                    continue
                turn = self._turns[0]
                turn.take(result)
                if turn.sequel is not None and turn.missing <= 0:
                    self._go_on(pgconn, turn, turn.sequel)
        except psycopg.OperationalError as error:
            self._lose(ConnectionLostError(str(error)))

    def _look_after_the_first(self) -> None:
        """Close a connection whose first turn takes too long; else check again when it would have.

        The server's own time limit cannot end a statement if the server, or the network to it, has stopped.
        One timer for a connection is enough, since only the first turn is being answered.
        """
        self._watch = None
        if not self._turns:
            return
        loop = asyncio.get_running_loop()
        left = self._first_since + self.patience_s - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._look_after_the_first)
        else:
            self._lose(psycopg.OperationalError("the database does not answer"))

    def _close_if_idle(self) -> None:
        """Close a connection that nobody has used for long, and with it the memory of its backend.

        One timer for a connection is enough, which is set again for the rest of the time.
        """
        self._rest = None
        loop = asyncio.get_running_loop()
        left = self.idle_s if self._turns else self._first_since + self.idle_s - loop.time()
        if left > 0:
            self._rest = loop.call_later(left, self._close_if_idle)
        else:
            self._lose(psycopg.OperationalError("nobody has used the connection"))

    def _pgconn(self) -> PGconn | None:
        return None if self._connection is None else self._connection.pgconn

    def _lose(self, error: psycopg.OperationalError) -> None:
        """Close the connection, and fail all requests that wait for it."""
        connection, self._connection = self._connection, None
        selector, self._selector = self._selector, None
        if selector is not None:
            asyncio.get_running_loop().remove_reader(selector.fileno())
            selector.close()
            self._is_writing = False
        if connection is not None:
            connection.pgconn.finish()
        for timer in (self._watch, self._rest):
            if timer is not None:
                timer.cancel()
        self._watch = self._rest = None
        turns, self._turns = self._turns, deque()
        for turn in turns:
            turn.fail(error)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    def waited_s(self) -> float:
        """Return how long the current answer has been waited for."""
        return asyncio.get_running_loop().time() - self._first_since if self._turns else 0.0

    def give_up(self, error: psycopg.OperationalError) -> None:
        """Close the connection. All requests that wait for an answer fail with ``error``."""
        self._lose(error)

    def close(self) -> None:
        """Close the connection, and stop making one. Requests that still wait fail."""
        if self._connecting is not None:
            self._connecting.cancel()
        self._lose(psycopg.OperationalError("the server is stopping"))


def giving_way(connections: int) -> int:
    """Return how many of a number of connections for long reads give way.

    The others are for the first read of each person, which may be a short one.
    """
    return max(1, min(3, connections - 1))


@dataclass(eq=False)
class Pipelines:
    """A few connections of one role; each request takes the one with the fewest requests.

    Further requests of a person who waits for answers go to the connection that gives way, unless others have
    more requests there than there are on the person's own connection.
    """

    pipelines: tuple[Pipeline, ...]
    places: asyncio.Semaphore
    halted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while every request is refused, because the database hangs."""
    waiting: int = 0
    """The number of requests that wait for a place."""

    @classmethod
    def to(
        cls,
        url: str,
        *,
        size: int,
        depth: int,
        patience_s: float,
        prepare: bool,
        giving_way: int = 0,
    ) -> "Pipelines":
        """Return ``size`` connections to ``url``, each for at most ``depth`` requests at a time.

        They connect at the first request. An answer may take ``patience_s`` seconds. The last ``giving_way``
        of them give way: their work does not keep the others waiting for a processor.
        """
        pipelines = tuple(
            Pipeline(url, prepare, patience_s, gives_way=number >= size - giving_way)
            for number in range(size)
        )
        return cls(pipelines, asyncio.Semaphore(size * depth))

    async def run(
        self,
        steps: Sequence[Step],
        *,
        sequel: Sequel | None = None,
        may_repeat: bool = True,
        person: Hashable = None,
        gives_way: bool = False,
    ) -> Results:
        """Return the results of ``steps``, and of ``sequel``'s after them.

        ``person`` is the one whose request it is, if that is known. ``gives_way`` is for those that others
        should not wait for: of free connections, they take one that gives way, and other requests one that
        does not. ``sequel`` takes further round trips, and
        connections with one request at a time. ``may_repeat`` is for reads: they are sent once more if their
        connection was lost, when they may already have been executed. Steps that failed because of an
        outdated prepared statement are sent once more in any case: the error rolled their transaction back,
        so no step may end that transaction by itself. Raises psycopg.Error, including OperationalError if no
        place becomes free in time.
        """
        await self._take_place()
        if self.halted.is_set():
            self.places.release()
            raise psycopg.OperationalError("the database does not answer")
        pipeline = self._pipeline_for(person, gives_way=gives_way)
        pipeline.requests += 1
        pipeline.people[person] += 1
        try:
            try:
                return await pipeline.run(steps, sequel)
            except ConnectionLostError:
                if not may_repeat:
                    raise
            return await pipeline.run(steps, sequel)
        finally:
            pipeline.requests -= 1
            pipeline.people[person] -= 1
            if not pipeline.people[person]:
                del pipeline.people[person]
            self.places.release()

    def _pipeline_for(self, person: Hashable, *, gives_way: bool) -> Pipeline:
        current = [each for each in self.pipelines if person is not None and person in each.people]
        if not current:
            return min(
                self.pipelines, key=lambda each: (each.requests, each.gives_way is not gives_way)
            )
        giving_way = [each for each in self.pipelines if each.gives_way]
        for pipeline in giving_way:
            if pipeline in current:
                return pipeline
        # Not behind the many requests of another person.
        return min([*current, *giving_way], key=attrgetter("requests"))

    async def _take_place(self) -> None:
        if not self.places.locked():
            # This does not wait, and so needs no timer.
            await self.places.acquire()
            return
        self.waiting += 1
        try:
            async with asyncio.timeout(database.WAIT_S):
                await self.places.acquire()
        except TimeoutError as error:
            raise psycopg.OperationalError("every connection is busy") from error
        finally:
            self.waiting -= 1

    def load(self) -> Load:
        """Return how busy the connections are, for metrics."""
        return Load(
            sum(pipeline.is_connected for pipeline in self.pipelines),
            len(self.pipelines),
            sum(pipeline.requests for pipeline in self.pipelines),
            self.waiting,
        )

    def longest_wait_s(self) -> float:
        """Return the longest time that a current answer has been waited for."""
        return max(pipeline.waited_s() for pipeline in self.pipelines)

    def halt(self) -> None:
        """Refuse every request until ``resume``, including those that wait for an answer."""
        self.halted.set()
        for pipeline in self.pipelines:
            pipeline.give_up(psycopg.OperationalError("the database does not answer"))

    def resume(self) -> None:
        """Accept requests again."""
        self.halted.clear()

    def close(self) -> None:
        """Close all connections."""
        for pipeline in self.pipelines:
            pipeline.close()
