"""The session of a token: one transaction, the only way in which a request reads the database.

A read is two statements between two syncs of a pipeline, which Postgres runs as one implicit transaction: the
first opens the token's session, the second runs the query under row-level security. An error in the first
skips the second. So a revoked token is refused at once, no credential is cached, and nothing is left on the
connection for its next user.

Keep them two: folded into one, they can silently answer nothing (sql/session.sql).

An answer of several statements is one transaction as well, with an explicit begin and commit, because all its
statements must see the data as of one moment. It ends after its last statement, never at a sync between them:
a sync would end the session, and every policy would silently return nothing.
"""

import asyncio
import math
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.pq.abc import PGresult
from pydantic_core import from_json
from starlette.requests import Request

from resourceserver.api import usage
from resourceserver.api.errors import (
    DatabaseUnavailable,
    InsufficientScope,
    InvalidParameter,
    OutdatedSchema,
    OutdatedServer,
    StorageFull,
    TookTooLong,
    Unauthorized,
)
from resourceserver.api.turns import Turns
from resourceserver.api.usage import Usage
from shared import database, metrics, pipeline, queries, schema, storage, tokens, web
from shared.metrics import Pooled, Reading
from shared.pipeline import Pipelines, Results, Sequel, Statement, Step, Unfinished
from shared.replica import LOG_POSITION, OFF, Position, Replica, State
from shared.settings import Settings
from shared.tokens import Token

SQL: Final = queries.load(Path(__file__).with_name("session.sql"))
OPEN_SESSION: Final = pipeline.statement(SQL["open_token_session"])
_HOLD_SCHEMA: Final = pipeline.statement(SQL["hold_schema"])
_LIMIT_ANSWER: Final = pipeline.statement(SQL["limit_answer"])
_NOTE_FIRST_USE: Final = pipeline.statement(usage.SQL["note_first_use"])

QUICK_MS = 2000
"""The statement timeout of a quick read."""
QUICK_S = 7.0
"""The time limit of a quick read, from the request to its answer. Opening a session may take 4 s of it, while
a migration tries to get its locks (sql/migrate.sql)."""
QUICK_PATIENCE_S: Final = 3.0
"""The part of it that a read may wait for its turn."""
MOST_QUICK: Final = 16
"""The most quick reads of one person at once."""
_DEPTH: Final = 256
"""The most quick reads that wait for one connection."""
PATIENT_S: Final = 25.0
"""The time limit of other answers: a little longer than the server's own limit (sql/roles.sql)."""
MOST_PATIENT: Final = 3
"""The most long reads of one person at once."""
_MOST_KNOWN: Final = 10_000
"""The number of accepted tokens that are remembered."""
_ENDS_RETRY: Final = 2
"""The column of ``open_token_session`` that says whether the use of the token must be noted at once."""
SHARED_S: Final = 2.0
"""How long a process counts as shared after it has served one person and then another."""
PARTS_MS: Final = 20_000
"""The time that all parts of an answer may take together in the database: the limit of one statement."""


@dataclass(frozen=True)
class Credential:
    """A well-formed token and the requirements of the request."""

    token: Token
    scopes: tuple[str, ...]
    resources: tuple[str, ...]
    """The accepted audiences; a token that is limited to another one is refused."""
    notes: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
    """Values about the caller for the request's log line."""

    def needing(self, scopes: tuple[str, ...]) -> "Credential":
        """Return the same credential for a request that needs other scopes."""
        return Credential(self.token, scopes, self.resources, self.notes)

    @property
    def person(self) -> int:
        """The key under which the requests of the token's owner are counted: a UUID is slow to hash."""
        return self.token.user_id.int

    def parameters(self, limit_ms: int | None = None) -> dict[str, Any]:
        """Return the arguments of ``open_token_session``; ``limit_ms`` is for each statement after it."""
        return {
            "user_id": self.token.user_id,
            "token_hash": self.token.hash,
            "scopes": list(self.scopes),
            "resources": list(self.resources),
            "limit_ms": limit_ms,
            **schema.VERSION,
        }


def credential(request: Request, scopes: tuple[str, ...], resources: tuple[str, ...]) -> Credential:
    """Return the credential of a request. Raises Unauthorized."""
    text = bearer(request)
    if not text:
        raise Unauthorized(scopes)
    token = tokens.parse(tokens.ACCESS, text)
    if token is None:
        raise Unauthorized.invalid_token(scopes)
    return Credential(token, scopes, resources, web.notes(request))


def bearer(request: Request) -> str:
    """Return the text of the bearer token of a request (RFC 6750, section 2.1); empty if it has none."""
    given = [value for name, value in request.scope["headers"] if name == b"authorization"]
    scheme, _, text = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return text.strip(b" ").decode("latin-1") if scheme.lower() == b"bearer" else ""


@dataclass(frozen=True)
class Question:
    """A read of several statements in one transaction, which see the data as of one moment."""

    frame: Step
    """The statement that runs first. Its row has the values that the parts share, as one JSON object."""
    statements: tuple[Statement, ...]
    """All statements that ``parts`` may return."""
    parts: Callable[[dict[str, Any]], Mapping[str, Step]]
    """Returns the statements by name from ``frame``. Each has one row with one value."""
    more: Callable[[Mapping[str, bytes]], Mapping[str, Step]] | None = None
    """Returns further parts from all answers so far, and is called again until it returns none."""


@dataclass
class Served:
    """Whether a process serves several people at the moment."""

    person: int | None = None
    """The person whose request was accepted last."""
    changed_at: float = -math.inf
    """When it was that of another person than the one before."""

    def note(self, person: int) -> None:
        """Note that a request of ``person`` was accepted."""
        if person != self.person:
            self.person, self.changed_at = person, time.monotonic()

    def is_shared(self) -> bool:
        """Tell whether requests of different people were accepted in the last moments."""
        return time.monotonic() - self.changed_at < SHARED_S


@dataclass(frozen=True)
class Reader:
    """Reads as the ``reader`` role."""

    quick: Pipelines
    """Connections for short index searches."""
    patient: Pipelines
    """Connections for reads that may take long."""
    turns: Turns
    """The places for ``patient``."""
    quick_turns: Turns
    """The places for ``quick``."""
    first_uses: Pipelines
    """A connection of the ``worker`` role, which notes first uses. It is needed only while refreshes can be
    repeated (SVC_REFRESH_RETRY_SECONDS)."""
    usage: Usage = field(default_factory=Usage)
    """The tokens that were accepted."""
    known: dict[bytes, None] = field(default_factory=dict, repr=False)
    """The hashes of tokens that were accepted lately: their requests count for their owner. This grants no
    access; each read opens a session of its own."""
    served: Served = field(default_factory=Served)
    """Whose requests were accepted last."""
    parts_ms: int = PARTS_MS
    """The time that all parts of an answer may take together."""
    replica: Replica | None = None
    """Where long reads run if it can answer them; None without one."""

    @classmethod
    def of(cls, chosen: Settings) -> "Reader":
        """Return a reader for ``chosen``; it connects at the first read."""
        url = database.login(chosen, "reader")
        quick = Pipelines.to(
            url,
            size=chosen.quick_connections,
            depth=_DEPTH,
            patience_s=QUICK_S,
            prepare=chosen.prepare,
            # For further reads of a person, unless there is one connection for all.
            giving_way=min(1, chosen.quick_connections - 1),
        )
        return cls(
            quick,
            Pipelines.to(
                url,
                size=chosen.patient_connections,
                depth=1,
                patience_s=PATIENT_S,
                prepare=chosen.prepare,
                giving_way=pipeline.giving_way(chosen.patient_connections),
            ),
            Turns(chosen.patient_connections, MOST_PATIENT, name="long_reads"),
            Turns(
                chosen.quick_connections * _DEPTH, MOST_QUICK, QUICK_PATIENCE_S, name="quick_reads"
            ),
            Pipelines.to(
                database.login(chosen, "worker"),
                size=1,
                depth=_DEPTH,
                patience_s=QUICK_S,
                prepare=chosen.prepare,
            ),
            replica=Replica.of(chosen, quick, PATIENT_S),
        )

    async def read(
        self, who: Credential, question: Statement, params: Mapping[str, Any], *, is_quick: bool
    ) -> bytes:
        """Return the single value of the query's single row, as Postgres wrote it.

        The query has the parameter ``user_id`` besides ``params``. Raises Unauthorized, InsufficientScope and
        DatabaseUnavailable.
        """
        values = {**params, "user_id": who.token.user_id}
        try:
            await self.know(who)
            if is_quick:
                opening = (OPEN_SESSION, who.parameters(QUICK_MS))
                opened, result = await self._ask_quickly(who, (opening, (question, values)))
            else:
                async with self.turns.place(who.person):
                    opening = (OPEN_SESSION, who.parameters())
                    opened, result = await self._ask_patiently(who, (opening, (question, values)))
        except psycopg.Error as error:
            raise self._problem(error, who, params) from error
        note(who, opened)
        answer = result.get_value(0, 0)
        if answer is None:
            # Every query has a row, unless its user was deleted after the session was opened.
            raise Unauthorized.invalid_token(who.scopes)
        self.accept(who)
        return answer

    async def read_parts(self, who: Credential, question: Question) -> dict[str, bytes]:
        """Return the value of the question's ``frame``, and of each of its parts by name.

        It takes two round trips, and another for each call of ``more``. Parts with the same statement and the
        same parameters run once. All parts together have the time of one statement, and if one fails, there
        is no answer. Raises Unauthorized, InsufficientScope and DatabaseUnavailable.
        """
        frame, values = question.frame
        common = {"user_id": who.token.user_id}
        first: tuple[Step, ...] = (
            (pipeline.BEGIN, {}),
            (_HOLD_SCHEMA, {}),
            (OPEN_SESSION, who.parameters()),
            (frame, {**values, **common}),
        )
        names = ["frame"]
        repeated = _Repeated()

        def following(results: Results) -> Sequence[Step] | Unfinished:
            if len(results) == len(first):
                # A repeated transaction calls this again from the start.
                del names[1:]
                repeated.forget()
            received = _answers(names, results[len(first) - 1 :])
            if None in received.values():
                return [(pipeline.COMMIT, {})]
            answers = {name: value for name, value in received.items() if value is not None}
            wanted: Mapping[str, Step] = {}
            if len(names) == 1:
                wanted = question.parts(from_json(answers["frame"]))
            steps: list[Step] = []
            while not steps:
                # The first parts may be none, as where a grant lacks their scopes.
                if not wanted and question.more is not None:
                    wanted = question.more(repeated.added(answers))
                if not wanted:
                    break
                for name, (statement, own) in repeated.new(wanted).items():
                    names.append(name)
                    steps.append((_LIMIT_ANSWER, {"limit_ms": self.parts_ms}))
                    steps.append((statement, {**own, **common}))
                wanted = {}
            if steps and question.more is not None:
                return Unfinished(steps)
            return [*steps, (pipeline.COMMIT, {})]

        sequel = Sequel((_LIMIT_ANSWER, *question.statements, pipeline.COMMIT), following)
        await self.know(who)
        try:
            async with self.turns.place(who.person):
                results = await self._ask_patiently(who, first, sequel)
        except psycopg.Error as error:
            raise self._problem(error, who, values) from error
        note(who, results[len(first) - 2])
        received = _answers(names, results[len(first) - 1 : -1])
        answer = {name: value for name, value in received.items() if value is not None}
        if len(answer) < len(received):
            # Every part has a row, unless its user was deleted after the session was opened.
            raise Unauthorized.invalid_token(who.scopes)
        self.accept(who)
        return repeated.added(answer)

    async def know(self, who: Credential) -> None:
        """Check that the token is valid, before its requests count for its owner.

        It takes a round trip unless the token was accepted before. Raises what ``check`` does.
        """
        if who.token.hash not in self.known:
            await self.check(who)

    def accept(self, who: Credential) -> None:
        """Remember that the token was accepted just now."""
        self.usage.note(who.token)
        self.served.note(who.person)
        if who.token.hash not in self.known:
            if len(self.known) >= _MOST_KNOWN:
                del self.known[next(iter(self.known))]
            self.known[who.token.hash] = None

    async def check(self, who: Credential) -> None:
        """Open and leave the session: raises what ``read`` would for this credential.

        Each process calls this at its first use of a token, so a first use is noted here.
        """
        try:
            (opened,) = await self._ask_quickly(who, ((OPEN_SESSION, who.parameters()),))
            if opened.get_value(0, _ENDS_RETRY) == b"t":
                await self._note_first_use(who)
        except psycopg.Error as error:
            if error.sqlstate == "SV403" and error.diag.message_detail:
                await self._note_first_use(who)
            raise self._problem(error, who) from error
        note(who, opened)
        self.accept(who)

    async def _note_first_use(self, who: Credential) -> None:
        """Let the refresh that issued the token not be repeated any more.

        Raises DatabaseUnavailable, TookTooLong.
        """
        token = {"user_id": who.token.user_id, "token_hash": who.token.hash}
        try:
            async with asyncio.timeout(QUICK_S):
                await self.first_uses.run(((_NOTE_FIRST_USE, {**token, **schema.VERSION}),))
        except psycopg.Error as error:
            raise self._problem(error, who) from error
        except TimeoutError as error:
            raise TookTooLong from error

    async def _ask_quickly(self, who: Credential, steps: Sequence[Step]) -> Results:
        """Return the results of ``steps``, which count for the token's owner once the token is known.

        Raises psycopg.Error, TookTooLong, and what ``Turns.take`` does.
        """
        try:
            async with asyncio.timeout(QUICK_S):
                if who.token.hash not in self.known:
                    return await self.quick.run(steps)
                await self.quick_turns.take(who.person)
                try:
                    return await self.quick.run(steps, person=who.person)
                finally:
                    self.quick_turns.give_back(who.person)
        except TimeoutError as error:
            raise TookTooLong from error

    async def _ask_patiently(
        self, who: Credential, steps: Sequence[Step], sequel: Sequel | None = None
    ) -> Results:
        """Return the results of a long read, from the replica if it can answer, else from the primary.

        Raises psycopg.Error, TookTooLong, and what ``Turns.take`` does.
        """
        # A person's second and third long read at a time give way to others.
        gives_way = self.turns.held[who.person] > 1
        replica = self.replica
        if replica is None:
            return await self.patient.run(steps, sequel=sequel, gives_way=gives_way)
        if replica.is_usable and (position := await self.position(who)) is not None:
            results = await replica.read(
                partial(replica.run, position, steps, sequel, gives_way=gives_way)
            )
            if results is not None:
                return results
        results = await self.patient.run(steps, sequel=sequel, gives_way=gives_way)
        metrics.READS.add("primary")
        return results

    async def position(self, who: Credential) -> Position | None:
        """Check the token at the primary, and return the state of the data that a replica must have.

        None if no replica can have it now. Raises psycopg.Error, TookTooLong, and what ``Turns.take`` does.
        """
        opening = (OPEN_SESSION, who.parameters(QUICK_MS))
        _, result = await self._ask_quickly(who, (opening, LOG_POSITION))
        return Position.of(result)

    @property
    def replica_state(self) -> State:
        """The state of the replica, for probes."""
        return OFF if self.replica is None else self.replica.state

    @property
    def pools(self) -> dict[str, Pooled]:
        """The connections, by the names that metrics have for them."""
        own: dict[str, Pooled] = {
            "quick": self.quick,
            "patient": self.patient,
            "first_uses": self.first_uses,
        }
        return own if self.replica is None else {**own, **self.replica.pools}

    def readings(self) -> Iterable[Reading]:
        """Return what metrics say of the replica, if there is one."""
        return () if self.replica is None else self.replica.readings()

    def replica_watched(self) -> AbstractAsyncContextManager[None]:
        """Look at the replica for the time of the block, if there is one."""
        return nullcontext() if self.replica is None else self.replica.watched()

    def _problem(
        self, error: psycopg.Error, who: Credential, params: Container[str] = ()
    ) -> Exception:
        found = problem(error, who, params)
        if isinstance(found, Unauthorized):
            self.known.pop(who.token.hash, None)
        return found

    def close(self) -> None:
        """Close all connections."""
        for connections in (self.quick, self.patient, self.first_uses, self.replica):
            if connections is not None:
                connections.close()


@dataclass(frozen=True)
class _Repeated:
    """The parts of an answer that have the statement and the parameters of an earlier part.

    All parts see the data as of one moment, so they would have the same answer.
    """

    ran: dict[bytes, list[tuple[str, Mapping[str, Any]]]] = field(default_factory=dict)
    """The parts that run, with their parameters, by the names of their statements."""
    names: dict[str, str] = field(default_factory=dict)
    """The name of the part that runs, for each one that repeats it."""

    def new(self, wanted: Mapping[str, Step]) -> dict[str, Step]:
        """Return those of ``wanted`` that repeat no earlier part."""
        found: dict[str, Step] = {}
        for name, (statement, values) in wanted.items():
            used = {each: values[each] for each in statement.parameters if each in values}
            alike = self.ran.setdefault(statement.name, [])
            earlier = next((known for known, given in alike if given == used), None)
            if earlier is None:
                alike.append((name, used))
                found[name] = (statement, values)
            else:
                self.names[name] = earlier
        return found

    def added(self, answers: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return ``answers`` with those of the repeated parts that have one."""
        again = {name: answers[ran] for name, ran in self.names.items() if ran in answers}
        return {**answers, **again}

    def forget(self) -> None:
        """Forget all parts."""
        self.ran.clear()
        self.names.clear()


def _answers(names: Sequence[str], results: Results) -> dict[str, bytes | None]:
    """Return the answers of a frame and its parts by name; None for one without a row.

    Before each part comes the result of the call that limits its time.
    """
    return {
        name: result.get_value(0, 0) if result.ntuples else None
        for name, result in zip(names, [results[0], *results[2::2]], strict=True)
    }


def note(who: Credential, opened: PGresult) -> None:
    """Add client and grant of the accepted token to the request's log line."""
    for column, name in enumerate(("client_id", "grant_id")):
        value = opened.get_value(0, column)
        if value is not None:
            who.notes[name] = value.decode()


def problem(error: psycopg.Error, who: Credential, params: Container[str] = ()) -> Exception:
    """Return the problem for a database error; the service's own errors are recognised by SQLSTATE alone.

    ``params`` are the names of the parameters that the query takes from the request.
    """
    match error.sqlstate:
        case "SV401":
            return Unauthorized.invalid_token(who.scopes)
        case "SV403":
            return InsufficientScope(who.scopes, error.diag.message_primary or "")
        case "22023" if "tz" in params:
            # Python knows the zone, but the database does not.
            return InvalidParameter("tz", "is not known to the database")
    return unavailable(error)


def unavailable(error: psycopg.Error) -> Exception:
    """Return the problem for a database error that no token and no parameter causes."""
    if error.sqlstate == "57014":
        # Statements are canceled only by their time limit.
        return TookTooLong()
    if error.sqlstate == storage.DISK_FULL:
        storage.log_full(error)
        return StorageFull()
    mismatch = schema.log_mismatch(error)
    if mismatch is schema.OUTDATED_SERVER:
        return OutdatedServer()
    if mismatch is schema.OUTDATED_SCHEMA:
        return OutdatedSchema()
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable()
    return error
