"""A streaming replica of the database, on which long reads may run (SVC_READER_REPLICA_URL).

    primary   the token is checked there, and says 401 or 403; the answer has the position of the log
       │
    replica   waits a moment until it has replayed so far ── it has not, or any error ──┐
       │                                                                                │
       └── session and statements, as at the primary                  the same read at the primary

So a revoked token reads nothing, and everybody reads what any process has written before the request: the
position stands for all that is acknowledged at the primary. A position for each person would need another
write in every transaction, and where it was forgotten, people would read old data.

Short reads stay at the primary. The check of their token takes the primary as long as the whole read. Exports
stay there as well: the replay can cancel any transaction of a replica, and an export that has begun cannot be
repeated (resourceserver/export/reading.py).

A watch looks every second whether the replica can be used. Any doubt sends reads to the primary.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import psycopg
from psycopg.pq.abc import PGresult

from shared import database, metrics, pipeline, queries, schema
from shared.metrics import Pooled, Reading
from shared.pipeline import Pipelines, Results, Sequel, Step
from shared.settings import Settings

log = logging.getLogger("svc.replica")

SQL: Final = queries.load(Path(__file__).with_name("replica.sql"))
LOG_POSITION: Final[Step] = (pipeline.statement(SQL["log_position"]), {})
"""Asks the primary for the position of its log."""
_AWAIT_REPLAY: Final = pipeline.statement(SQL["await_replay"])

WAIT_MS: Final = 50
"""How long a read waits for the replica, which is a few milliseconds behind while others write."""
MOST_LAG_MS: Final = 1000
"""A replica that is further behind is not used."""
LOOK_EVERY_S: Final = 1.0
"""The pause between two looks at the replica."""
PAUSE_S: Final = 0.25
"""How long reads go to the primary without a try after one has waited in vain."""
_ANSWER_S: Final = 1.5
"""How long a server may take to answer a look, besides the lag."""
_REPEATABLE_S: Final = 10.0
"""A read that has failed after more than this took too long, and is not repeated at the primary, so that both
tries together keep to the time of one answer."""

Status = Literal["ok", "behind", "away", "off"]
T = TypeVar("T")


@dataclass(frozen=True)
class State:
    """What probes and metrics report of the replica."""

    status: Status
    """``away``: it does not answer, or is no replica of this primary."""
    lag_ms: int | None = None
    """How long it takes to have what the primary has; None if that is not known."""


OFF: Final = State("off")
"""There is no replica."""


@dataclass(frozen=True)
class Position:
    """A state of the primary: everything that was acknowledged there by some moment."""

    cluster: int
    timeline: int
    log_end: str

    @classmethod
    def of(cls, result: PGresult) -> "Position | None":
        """Return the position in the answer to ``LOG_POSITION``; None if no replica can have it now."""
        cluster, timeline, log_end = (result.get_value(0, column) for column in range(3))
        if cluster is None or timeline is None or log_end is None:
            return None
        return cls(int(cluster), int(timeline), log_end.decode())

    def parameters(self, wait_ms: int) -> dict[str, Any]:
        """Return the parameters of ``await_replay``."""
        return {
            "cluster": self.cluster,
            "timeline": self.timeline,
            "log_end": self.log_end,
            "wait_ms": wait_ms,
        }


@dataclass(eq=False)
class Replica:
    """The replica of one process, and what is known of it."""

    primary: Pipelines
    """A connection to the primary for short statements."""
    patient: Pipelines
    """Connections to the replica, with one read at a time on each."""
    look: Pipelines
    """The connection of the watch."""
    state: State = State("away")
    _paused_until: float = 0.0
    _ok_at: float | None = None
    """The moment of the last state of the primary that the replica had in time."""
    _position: Position | None = None
    """The last state of the primary that was looked for."""
    _is_logged: bool = False
    _log: schema.RateLimitedLog = field(default_factory=lambda: schema.RateLimitedLog(log))

    @classmethod
    def of(cls, chosen: Settings, primary: Pipelines, patience_s: float) -> "Replica | None":
        """Return the replica of ``chosen``, if it has one; it connects when it is looked at.

        An answer may take ``patience_s`` seconds.
        """
        url = database.replica_login(chosen)
        if url is None:
            return None
        return cls(
            primary,
            Pipelines.to(
                url,
                size=chosen.patient_connections,
                depth=1,
                patience_s=patience_s,
                prepare=chosen.prepare,
                giving_way=pipeline.giving_way(chosen.patient_connections),
            ),
            Pipelines.to(
                url,
                size=1,
                depth=1,
                patience_s=MOST_LAG_MS / 1000 + _ANSWER_S,
                prepare=chosen.prepare,
            ),
        )

    @property
    def pools(self) -> dict[str, Pooled]:
        """The connections, by the names that metrics have for them."""
        return {"replica": self.patient}

    @property
    def is_usable(self) -> bool:
        """Whether a read may try the replica now."""
        return self.state.status == "ok" and time.monotonic() >= self._paused_until

    async def run(
        self,
        position: Position,
        steps: Sequence[Step],
        sequel: Sequel | None = None,
        *,
        gives_way: bool = False,
    ) -> Results:
        """Return the results of ``steps``, and of ``sequel``'s after them, with all that ``position`` has.

        ``gives_way`` is for reads that others should not wait for. Raises psycopg.Error.
        """
        awaited: Step = (_AWAIT_REPLAY, position.parameters(WAIT_MS))
        if sequel is None:
            # Each statement has a snapshot of its own, since the isolation of the role is read committed.
            before: tuple[Step, ...] = (awaited,)
            following = None
        else:
            # One snapshot is for all steps of the read, and it must be taken after the wait.
            before = ((pipeline.BEGIN, {}), awaited, (pipeline.COMMIT, {}))
            following = Sequel(
                sequel.statements, lambda results: sequel.steps(results[len(before) :])
            )
        # A lost connection is not tried again here, because the primary can answer.
        results = await self.patient.run(
            (*before, *steps), sequel=following, may_repeat=False, gives_way=gives_way
        )
        return results[len(before) :]

    async def read(self, read: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of a read at the replica, or None if it must be repeated at the primary.

        Raises psycopg.Error for a read that took too long, and what is not an error of the database.
        """
        started = time.monotonic()
        try:
            result = await read()
        except psycopg.Error as error:
            took_s = time.monotonic() - started
            if took_s >= _REPEATABLE_S and error.sqlstate == "57014":
                raise
            self._leave(error)
            if took_s >= _REPEATABLE_S:
                raise
            return None
        metrics.READS.add("replica")
        return result

    def _leave(self, error: psycopg.Error) -> None:
        """Count a failed read, and let others not try the same in vain."""
        reason = _reason(error)
        metrics.REPLICA_FAILURES.add(reason)
        if reason == "behind":
            self._paused_until = time.monotonic() + PAUSE_S
        elif reason in ("unfit", "unreachable"):
            # Only until the next look.
            self._become(State("away"), _text(error))

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look at the replica again and again until the end of the block."""
        task = asyncio.create_task(self._watch(), name="replica-watch")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        started = time.monotonic()
        present: PGresult | None = None
        # A read asks the primary itself, so a slow primary does not count against the replica.
        with suppress(TimeoutError, psycopg.Error):
            async with asyncio.timeout(_ANSWER_S):
                (present,) = await self.primary.run((LOG_POSITION,))
        if present is not None and present.get_value(0, 0) is None:
            self._become(
                State("away"), "the primary is in recovery, or its synchronous_commit is off"
            )
            return
        # Without a new position, it is at least seen whether the replica still answers: reads that wait for
        # a silent one must fail, so that the primary answers them.
        position = (None if present is None else Position.of(present)) or self._position
        if position is None:
            return
        self._position = position
        awaited: Step = (_AWAIT_REPLAY, position.parameters(MOST_LAG_MS))
        try:
            async with asyncio.timeout(MOST_LAG_MS / 1000 + _ANSWER_S):
                await self.look.run((awaited, schema.STEP), may_repeat=False)
        except TimeoutError:
            self._become(State("away"), "it does not answer in time")
        except psycopg.Error as error:
            if _reason(error) == "behind":
                lag_ms = None if self._ok_at is None else _since_ms(self._ok_at)
                self._become(State("behind", lag_ms), f"it is more than {MOST_LAG_MS} ms behind")
            else:
                self._become(State("away"), _text(error))
        else:
            if present is None:
                self._become(State("ok"))
            else:
                self._ok_at = started
                self._become(State("ok", _since_ms(started)))

    def _become(self, state: State, reason: str = "") -> None:
        """Change the state. Reads that wait for a replica without an answer fail, and go to the primary."""
        before, self.state = self.state, state
        if state.status == "away":
            if before.status != "away":
                self.patient.halt()
        elif self.patient.halted.is_set():
            self.patient.resume()
        if state.status != "ok":
            self._is_logged = True
            self._log.write(
                "the replica of SVC_READER_REPLICA_URL is not used: all reads go to the primary",
                reason,
            )
        elif self._is_logged:
            self._is_logged = False
            log.info("the replica of SVC_READER_REPLICA_URL is used")

    def readings(self) -> Iterator[Reading]:
        """Yield whether the replica is used and how far it is behind, for metrics."""
        yield metrics.REPLICA_OK, (), float(self.state.status == "ok")
        if self.state.lag_ms is not None:
            yield metrics.REPLICA_LAG, (), self.state.lag_ms / 1000

    def close(self) -> None:
        """Close all connections."""
        self.patient.close()
        self.look.close()


def _since_ms(moment: float) -> int:
    return round((time.monotonic() - moment) * 1000)


def _text(error: psycopg.Error) -> str:
    """Return the message of an error in one line."""
    return " ".join((error.diag.message_primary or str(error)).split())


def _reason(error: psycopg.Error) -> str:
    """Return why a read could not be answered by the replica, as a label of metrics."""
    match error.sqlstate:
        case "57SV4":
            return "behind"
        case "57SV3":
            return "unfit"
        case "40001" | "40P01" | "57014" | "55P03":
            # The replay of the log cancels what reads rows or holds locks that are gone at the primary.
            return "conflict"
    if schema.mismatch_of(error) not in (None, schema.NOT_CONNECTED):
        return "unfit"
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return "unreachable"
    return "other"
