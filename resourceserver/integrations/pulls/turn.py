"""The worker's pull of one connection of one person a turn.

    due ──claim──► secrets opened ──pull──► items ──transactions──► state stored, due again in an hour
     ▲                                 └──► failed: why, since when, due again later each time
     └─ a killed worker: ten minutes later, from the state before

While a service is asked no database connection is used, so few are enough for all pulls of a worker: one with
the worker's login for jobs, one with the importer's that writes, each behind a lock.
"""

import base64
import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

from resourceserver.integrations.format import Person
from resourceserver.integrations.imports import batches, deliveries, receipts
from resourceserver.integrations.imports.arrays import Array, ArrayDumper
from resourceserver.integrations.imports.batches import Batch
from resourceserver.integrations.imports.deliveries import Counts
from resourceserver.integrations.imports.writing import Target
from resourceserver.integrations.pulls.pulling import Fetch, Item, Pull, Pulled, PullFailed, Source
from shared import SCHEMA_VERSION, connections, database, pipeline, queries, schema
from shared.fetcher import FetchFailed
from shared.metrics import PULL_RECORDS, PULLS
from shared.sealing import Opener, SealingError
from shared.settings import Settings

log = logging.getLogger("svc.worker")

SQL: Final = queries.load(Path(__file__).with_name("turn.sql"))

LONGEST_S: Final = 300.0
"""The longest transaction of a pull; a statement takes at most 60 s (sql/roles.sql)."""
_FIRST_WAIT: Final = timedelta(minutes=5)
_LONGEST_WAIT: Final = timedelta(hours=6)
_REFUSED_WAIT: Final = timedelta(hours=24)
_LONGEST_RETRY_AFTER: Final = timedelta(days=1)
_ATTEMPTS: Final = 3

T = TypeVar("T")


class Stopped(Exception):
    """the worker stops, or has lost the turn"""


class Ended(Exception):
    """the connection has ended meanwhile, or another pull of it has begun"""


class Claimed(NamedTuple):
    """A connection that is to be pulled."""

    connection_id: UUID
    import_id: UUID
    kind: str
    settings: dict[str, str]
    state: dict[str, Any]
    failures: int
    timezone: str
    now: datetime
    secrets: list[tuple[str, str, str]]
    """Field, id of the key, and sealed bytes as base64."""


class Taken(NamedTuple):
    """What a turn has done."""

    line: str
    """What the log says about it; nothing if no connection was due."""
    wait: timedelta | None
    """The time until the person's next pull; None if nothing is to be pulled."""


class Failure(NamedTuple):
    """Why a pull has failed, and when it is tried again."""

    problem: str
    wait: timedelta
    is_refused: bool = False
    retry_after: timedelta | None = None
    """How long the service wants to be left alone, if it has said so."""


@dataclass(eq=False)
class Shared:
    """A database connection that pulls use in turns."""

    login: str
    prepare: bool
    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: psycopg.Connection[Any] | None = None

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Hold the connection for a transaction; a broken one is replaced."""
        with self.lock:
            if self.connection is None or self.connection.closed:
                self.connection = psycopg.connect(
                    self.login,
                    autocommit=True,
                    connect_timeout=10,
                    prepare_threshold=5 if self.prepare else None,
                )
                database.prepare_nothing_if_pooled(self.connection)
                self.connection.adapters.register_dumper(Array, ArrayDumper)
            with _broken_off(self.connection), self.connection.transaction():
                yield self.connection

    def close(self) -> None:
        """Close the connection."""
        with self.lock, suppress(psycopg.Error):
            if self.connection is not None:
                self.connection.close()


@dataclass(eq=False)
class Pulls:
    """All pulls of a worker."""

    by_kind: Mapping[str, Pull]
    opener: Opener
    fetch: Fetch
    full_urls: bool
    jobs: Shared
    importer: Shared

    @classmethod
    def to(
        cls, chosen: Settings, by_kind: Mapping[str, Pull], opener: Opener, fetch: Fetch
    ) -> "Pulls":
        """Return the pulls of ``chosen``. Raises SettingsError if a role has no login."""
        jobs, importer = (
            Shared(database.login(chosen, role), chosen.prepare) for role in ("worker", "importer")
        )
        return cls(by_kind, opener, fetch, chosen.full_urls, jobs, importer)

    def close(self) -> None:
        """Close the connections to the database."""
        self.jobs.close()
        self.importer.close()

    def take(self, user_id: UUID, stop: threading.Event) -> Taken:
        """Pull the connection of a person that has waited longest. When ``stop`` is set, it soon ends.

        Raises Stopped and psycopg.Error; the connection is then due again some minutes later.
        """
        claimed = self._claim(user_id)
        line = ""
        if claimed is not None:
            line = f"connection_id={claimed.connection_id} connection={claimed.kind} "
            try:
                line += self._pull(user_id, claimed, stop)
            except Ended:
                line += "ended"
        with self._job(user_id) as job:
            row = job.execute(SQL["next_pull"], self._values(user_id)).fetchone()
        return Taken(line, None if row is None else row[0])

    def _values(self, user_id: UUID) -> dict[str, Any]:
        return {"user_id": user_id, "kinds": list(self.by_kind)}

    def _claim(self, user_id: UUID) -> Claimed | None:
        with self._job(user_id) as job:
            row = job.execute(SQL["claim_pull"], self._values(user_id)).fetchone()
        return None if row is None else Claimed(*row)

    def _pull(self, user_id: UUID, claimed: Claimed, stop: threading.Event) -> str:
        """Pull and write; return what the log says. Raises Ended, Stopped and psycopg.Error."""
        key_hash = receipts.new_key()
        try:
            pulled, counts = self._write(user_id, claimed, key_hash, stop)
            named = pulled.retry_after and min(pulled.retry_after, _LONGEST_RETRY_AFTER)
            end = {"state": Jsonb(pulled.state), "retry_after": named}
            self._note(user_id, claimed, key_hash, "end_pull", end)
        except batches.OF_A_VALUE as error:
            # The same pull would bring it again.
            return self._fail(user_id, claimed, key_hash, error)
        except (Stopped, Ended, psycopg.OperationalError, psycopg.InterfaceError):
            raise
        except Exception as error:
            return self._fail(user_id, claimed, key_hash, error)
        PULLS.add(claimed.kind, "done")
        for outcome in ("added", "changed", "known", "refused"):
            PULL_RECORDS.add(claimed.kind, outcome, amount=getattr(counts, outcome))
        return f"read={counts.read} new={counts.added} changed={counts.changed}"

    def _fail(self, user_id: UUID, claimed: Claimed, key_hash: bytes, error: Exception) -> str:
        """Note why a pull has failed; return what the log says."""
        failure = self._judge(error, claimed)
        end = {"claimed_at": claimed.now, **failure._asdict()}
        self._note(user_id, claimed, key_hash, "fail_pull", end)
        PULLS.add(claimed.kind, failure.problem)
        return f"problem={failure.problem} wait_s={failure.wait.total_seconds():.0f}"

    def _note(
        self,
        user_id: UUID,
        claimed: Claimed,
        key_hash: bytes,
        statement: str,
        end: dict[str, Any],
    ) -> None:
        """Note how a pull has ended. Raises Ended if it is not the newest one of its connection."""
        values = {
            "user_id": user_id,
            "connection_id": claimed.connection_id,
            "import_id": claimed.import_id,
            "key_hash": key_hash,
        }
        with self._job(user_id) as job:
            if job.execute(SQL[statement], {**values, **end}).fetchone() is None:
                raise Ended

    def _write(
        self, user_id: UUID, claimed: Claimed, key_hash: bytes, stop: threading.Event
    ) -> tuple[Pulled, Counts]:
        pull = self.by_kind[claimed.kind]
        with self._job(user_id) as job:
            values = {"user_id": user_id, "import_id": claimed.import_id, "key_hash": key_hash}
            if job.execute(SQL["begin_pull"], values).fetchone() is None:
                raise Ended
        zone = ZoneInfo(claimed.timezone)
        pulled = pull(
            Source(
                claimed.settings,
                self._opened(user_id, claimed),
                claimed.state,
                Person(zone, claimed.now),
                self.fetch,
            )
        )
        write = _Writing(self, user_id, claimed, zone, key_hash)
        counts, last = Counts(), Batch()
        items = _Items(pulled.items, stop)
        for batch in deliveries.batches_of(items):
            if last.count:
                counts = counts.plus(write(last, None))
            last = batch
        # The last batch is written together with the end, and also if a failure followed it.
        counts = counts.plus(write(last, None if items.error else pulled.finish))
        if items.error is not None:
            raise items.error
        return pulled, counts

    def _opened(self, user_id: UUID, claimed: Claimed) -> dict[str, str]:
        return {
            name: self.opener.open(
                key_id,
                base64.b64decode(sealed),
                user_id=user_id,
                connection_id=claimed.connection_id,
                field=name,
            )
            for name, key_id, sealed in claimed.secrets
        }

    def _judge(self, error: Exception, claimed: Claimed) -> Failure:
        """Return what a failure means for the connection."""
        wait = min(_FIRST_WAIT * (1 << min(claimed.failures, 10)), _LONGEST_WAIT)
        wait *= random.uniform(0.75, 1.25)  # noqa: S311 -- the wait need not be unpredictable
        match error:
            case PullFailed(is_refused=True):
                return Failure(error.code, _REFUSED_WAIT, is_refused=True)
            case PullFailed(retry_after=timedelta() as named):
                named = min(named, _LONGEST_RETRY_AFTER)
                return Failure(error.code, max(wait, named), retry_after=named)
            case PullFailed() | FetchFailed():
                return Failure(error.code, wait)
            case SealingError():
                return Failure("secret_unreadable", _REFUSED_WAIT)
        # What it says may quote the answer of the service, so only where it happened is logged.
        log.error(
            "connection=%s failed: %s at %s",
            claimed.kind,
            type(error).__name__,
            _place(error),
        )
        return Failure("failed", wait)

    @contextmanager
    def _job(self, user_id: UUID) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of the worker for one person."""
        with self.jobs.transaction() as connection:
            with pipeline.first_statement():
                connection.execute(SQL["open_job"], {"user_id": user_id, **schema.VERSION})
            yield connection


@dataclass(frozen=True)
class _Writing:
    """Writes batches in sessions of the import of a connection."""

    pulls: Pulls
    user_id: UUID
    claimed: Claimed
    zone: ZoneInfo
    key_hash: bytes

    def __call__(self, batch: Batch, finish: Callable[[Target], None] | None) -> Counts:
        """Write a batch, and do the last work if there is one. Raises Ended and psycopg.Error."""
        try:
            return self._transact(batch, finish, in_halves=False)
        except batches.OF_A_VALUE:
            return self._transact(batch, finish, in_halves=True)

    def _transact(
        self, batch: Batch, finish: Callable[[Target], None] | None, *, in_halves: bool
    ) -> Counts:
        kind = connections.KINDS[self.claimed.kind]
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self.pulls.importer.transaction() as connection:
                    connection.execute(
                        receipts.SQL["open_import"],
                        {
                            "user_id": self.user_id,
                            "import_id": self.claimed.import_id,
                            "key_hash": self.key_hash,
                            "version": SCHEMA_VERSION,
                        },
                    )
                    target = Target(
                        connection,
                        self.user_id,
                        self.claimed.import_id,
                        self.zone,
                        self.pulls.full_urls,
                        is_current=True,
                    )
                    counts = deliveries.write(target, kind, batch, in_halves=in_halves)
                    if finish is not None:
                        finish(target)
                        target.mark_days()
                    return counts
            except errors.ForeignKeyViolation:
                # What a row refers to was removed meanwhile; it is added again.
                if attempt == _ATTEMPTS:
                    raise
            except psycopg.Error as error:
                if error.sqlstate == "SV401":
                    raise Ended from error
                raise
        raise AssertionError


@dataclass
class _Items:
    """The items of a pull until a failure or ``stop``, and the failure."""

    items: Iterable[Item]
    stop: threading.Event
    error: Exception | None = None

    def __iter__(self) -> Iterator[Item]:
        """Yield the items before the failure."""
        try:
            for item in self.items:
                if self.stop.is_set():
                    raise Stopped
                yield item
        except Exception as error:
            self.error = error


@contextmanager
def _broken_off(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Break a connection off at the end of ``LONGEST_S``: a database that hangs never says so."""
    # Its number stays ours until it is closed.
    wire = socket.socket(fileno=os.dup(connection.fileno()))

    def shut() -> None:
        with suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)

    clock = threading.Timer(LONGEST_S, shut)
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        clock.join()
        wire.close()


def _place(error: Exception) -> str:
    """Return file and line of the innermost frame of an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "?"
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
