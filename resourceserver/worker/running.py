"""The loop of a worker: it claims turns, renews their leases while they last, and ends them.

                 ┌────────────── look every 2 s, and at once after a turn
                 ▼
    claim ──► a turn ──► its kind's handler ──┬─► done: gone, or due again after a time
                 │                            ├─► failed: put off, longer with each attempt
          renew each 20 s                     └─► stopped: given back
                 │
                 └─► lost, because this worker did not renew it in time: the handler is cancelled

The database decides who has a turn (sql/functions/turns.sql), so any number of workers may run side by side.
While it does not answer, the worker waits.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg

from resourceserver.worker import turns
from resourceserver.worker.turns import SQL, Kind, Later, Outcome, Turn
from shared import pipeline, schema
from shared.metrics import TURNS
from shared.pool import Pool
from shared.storage import Storage

log = logging.getLogger("svc.worker")

LOOK_EVERY_S = 2.0
LEASE: Final = timedelta(seconds=60)


@dataclass
class _Lease:
    """A turn with the proof that this worker has it."""

    turn: Turn
    leased_until: datetime | None
    """What the database has as the end of the lease; None: the turn is lost."""
    began: float = field(default_factory=time.monotonic)

    @property
    def key(self) -> dict[str, Any]:
        """The parameters of statements about this turn."""
        return {
            "user_id": self.turn.user_id,
            "kind": self.turn.kind,
            "leased_until": self.leased_until,
        }

    def count(self, outcome: str) -> None:
        """Count the turn, which has ended, for metrics."""
        TURNS.add(self.turn.kind, outcome, time.monotonic() - self.began)

    def line(self, what: str) -> str:
        """Return a log line about the turn."""
        return (
            f"kind={self.turn.kind} user_id={self.turn.user_id} attempt={self.turn.attempt}"
            f" duration_ms={(time.monotonic() - self.began) * 1000:.0f} {what}"
        )


@dataclass(eq=False)
class Worker:
    """Takes turns of the given kinds, by name; ``control`` has the login of the worker role."""

    kinds: Mapping[str, Kind]
    control: Pool
    lease: timedelta = LEASE
    storage: Storage = field(default_factory=Storage)
    """The disk of the database; while it is full, no turn is taken that would write much."""
    at_work: dict[asyncio.Task[None], tuple[str, asyncio.Future[Outcome]]] = field(
        default_factory=dict
    )
    """By the task that attends to a turn: its kind, and its handler's work."""

    async def run(self, stop: asyncio.Event) -> None:
        """Take turns until ``stop`` is set; then give back what is not done."""
        stopped = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                lease = await self._claim()
                if lease is not None:
                    self._begin(lease)
                    continue
                await asyncio.wait(
                    [stopped, *self.at_work],
                    timeout=LOOK_EVERY_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
        finally:
            stopped.cancel()
            for _, work in self.at_work.values():
                work.cancel()
            await asyncio.gather(*self.at_work)

    def _begin(self, lease: _Lease) -> None:
        kind = self.kinds[lease.turn.kind]
        work = asyncio.ensure_future(kind.handle(lease.turn))
        task = asyncio.create_task(self._attend(lease, work))
        self.at_work[task] = (kind.name, work)
        task.add_done_callback(self.at_work.pop)

    async def _claim(self) -> _Lease | None:
        """Return the next turn of a kind with a free place, or None."""
        busy = Counter(kind for kind, _ in self.at_work.values())
        is_full = self.storage.is_full()
        kinds = [
            kind.name
            for kind in self.kinds.values()
            if busy[kind.name] < kind.places and (kind.frees_space or not is_full)
        ]
        if not kinds:
            return None
        row = await self._ask("claim_turn", kinds=kinds, **schema.VERSION)
        if row is None:
            return None
        user_id, kind_name, leased_until, attempt = row
        return _Lease(Turn(user_id, kind_name, attempt), leased_until)

    async def _attend(self, lease: _Lease, work: "asyncio.Future[Outcome]") -> None:
        """Renew the lease of a turn until its work ends, and end the turn."""
        renew_every_s = self.lease.total_seconds() / 3
        while not (await asyncio.wait([work], timeout=renew_every_s))[0]:
            await self._renew(lease)
            if lease.leased_until is None:
                work.cancel()
                await asyncio.wait([work])
        if lease.leased_until is None:
            lease.count("lost")
            log.warning("%s", lease.line("lost"))
        elif work.cancelled():
            lease.count("given_back")
            log.info("%s", lease.line("given back"))
            await self._ask("give_back_turn", **lease.key)
        elif (error := work.exception()) is not None:
            lease.count("put_off" if isinstance(error, Later) else "failed")
            await self._put_off(lease, error)
        else:
            lease.count("done")
            if work.result().log:
                log.info("%s", lease.line(work.result().log))
            await self._ask("finish_turn", **lease.key, wait=work.result().wait)

    async def _renew(self, lease: _Lease) -> None:
        try:
            row = await self._execute("renew_turn", **lease.key)
        except psycopg.Error:
            # The turn may be another worker's by the time the database answers again, which then says so.
            return
        lease.leased_until = None if row is None else row[0]

    async def _put_off(self, lease: _Lease, error: BaseException) -> None:
        wait = error.wait if isinstance(error, Later) else turns.backoff(lease.turn.attempt)
        what = f"failed: {type(error).__name__}, next attempt in {wait.total_seconds():.0f} s"
        if isinstance(error, psycopg.Error):
            # A message of Postgres may quote a person's data, so only its kind is logged.
            if not schema.log_mismatch(error):
                log.warning("%s", lease.line(what))
        elif isinstance(error, Later | TimeoutError):
            log.warning("%s", lease.line(what))
        else:
            log.error("%s", lease.line(what), exc_info=error)
        await self._ask("put_off_turn", **lease.key, wait=wait)

    async def _ask(self, name: str, **parameters: Any) -> tuple[Any, ...] | None:
        """Return the row of a statement; None without one, or if the database does not answer."""
        try:
            return await self._execute(name, **parameters)
        except psycopg.Error as error:
            if not schema.log_mismatch(error):
                log.warning("%s failed: %s", name, type(error).__name__)
            return None

    async def _execute(self, name: str, **parameters: Any) -> tuple[Any, ...] | None:
        async with self.control.connection() as connection:
            with pipeline.first_statement():
                cursor = await connection.execute(SQL[name], {"lease": self.lease, **parameters})
            return await cursor.fetchone()
