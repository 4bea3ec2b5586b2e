"""The kinds of work that the worker does: a list to which a kind is added with its handler.

Rollups, summaries and visits have lists of their own, the marks that each write sets in its transaction. The
worker looks through these lists, as a job of the resource server does without a worker, and makes a turn due
for each person on them. So a write costs no more than its marks, servers of an older version need not know of
turns, and a turn that is lost is made due again.
"""

import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Generic, TypeVar
from uuid import UUID

from resourceserver.derived import derivation
from resourceserver.integrations.formats import FORMATS
from resourceserver.integrations.imports import turn as imports
from resourceserver.integrations.imports.receipts import AlreadyRunning
from resourceserver.integrations.imports.running import Interrupted, Over
from resourceserver.integrations.imports.turn import FileMissing, Taken
from resourceserver.integrations.pulls.sources import PULLS
from resourceserver.integrations.pulls.turn import Pulls, Stopped
from resourceserver.integrations.pulls.turn import Taken as Pulled
from resourceserver.timeline import rollups, summaries
from resourceserver.uploads.directory import Directory
from resourceserver.worker import retention, turns, undo
from resourceserver.worker.turns import LAST, SQL, Kind, Later, Outcome, Turn
from shared import settings
from shared.fetcher import Fetcher
from shared.jobs import Job
from shared.pool import Connection, Pool
from shared.sealing import Opener
from shared.settings import Settings

log = logging.getLogger("svc.worker")

ROLLUPS: Final = "rollups"
SUMMARIES: Final = "summaries"
VISITS: Final = "visits"
UNDO: Final = "undo"
RETENTION: Final = "retention"
IMPORT: Final = "import"
PULL: Final = "pull"
_DAYS_AT_ONCE: Final = 2
"""The turns of rollups, and those of summaries, that a worker does at once. While the database computes for
one person, the worker sends the statements of another."""
_BUSY: Final = timedelta(seconds=30)
"""When an import is tried again that a command is doing now."""
_MISSING: Final = timedelta(minutes=10)
"""When an import is tried again whose file is missing."""

Progress = TypeVar("Progress")
PeopleDue = Callable[[Connection, UUID], Awaitable[list[UUID]]]


def kinds(
    workers: Pool,
    *,
    roll_up_every: timedelta = rollups.INTERVAL,
    sum_up_every: timedelta = summaries.INTERVAL,
    derive_every: timedelta = derivation.INTERVAL,
    chosen: Settings | None = None,
) -> dict[str, Kind]:
    """Return all kinds by name; ``workers`` has connections of the worker role.

    Uploaded files are imported if ``chosen`` has a directory for them.
    """
    importing = () if chosen is None or chosen.upload_dir is None else (_imports(chosen),)
    pulling = () if chosen is None else (_pulls(chosen),)
    removing = () if chosen is None else (_retention(workers, chosen.keep_raw_years),)
    listed = (
        *importing,
        *pulling,
        Kind(
            ROLLUPS,
            _Days(workers, rollups.take_turn),
            places=_DAYS_AT_ONCE,
            look=_look(ROLLUPS, rollups.people_due, roll_up_every),
        ),
        Kind(
            SUMMARIES,
            _Days(workers, summaries.take_turn),
            places=_DAYS_AT_ONCE,
            look=_look(SUMMARIES, summaries.people_due, sum_up_every),
        ),
        Kind(
            VISITS,
            _Days(workers, derivation.take_turn),
            look=_look(VISITS, derivation.people_due, derive_every),
        ),
        Kind(UNDO, undo.handler(workers), frees_space=True),
        *removing,
    )
    return {kind.name: kind for kind in listed}


def _look(kind: str, people_due: PeopleDue, interval: timedelta) -> Job:
    """Return the job that makes turns due for all people on a list."""

    async def look(worker: Connection) -> None:
        after = UUID(int=0)
        while people := await people_due(worker, after):
            await worker.execute(SQL["add_turns"], {"kind": kind, "user_ids": people})
            after = people[-1]

    return Job(look, interval, log, f"{kind} are looked for later")


def _retention(workers: Pool, years: int | None) -> Kind:
    """Return the kind that removes sessions older than ``years``, if any go at all. It frees space."""

    async def people_due(worker: Connection, after: UUID) -> list[UUID]:
        return await retention.people_due(worker, after, years)

    return Kind(
        RETENTION,
        retention.handler(workers, years),
        look=_look(RETENTION, people_due, retention.INTERVAL),
        frees_space=True,
    )


def _imports(chosen: Settings) -> Kind:
    """Return the kind of imports. A write of the last byte of an upload makes its turn due."""
    directory = Directory(chosen.upload_dir or chosen.data_dir, 0)

    async def take(turn: Turn) -> Outcome:
        def work(stop: threading.Event) -> Taken:
            return imports.take(chosen, directory, FORMATS, turn.user_id, stop)

        try:
            taken = await turns.in_thread(work)
        except (AlreadyRunning, Over) as error:
            raise Later(_BUSY) from error
        except FileMissing as error:
            log.error("user_id=%s %s", turn.user_id, error.__doc__)
            raise Later(_MISSING) from error
        except Interrupted as error:
            raise Later(turns.backoff(turn.attempt)) from error
        return Outcome(taken.line, LAST if taken.has_more else None)

    return Kind(IMPORT, take, places=settings.IMPORTS)


def _pulls(chosen: Settings) -> Kind:
    """Return the kind of pulls. A new connection makes the first turn of a person due."""
    pulls = Pulls.to(
        chosen,
        PULLS,
        Opener(chosen.sealing_private_keys),
        Fetcher(chosen.fetch_networks).fetch,
    )

    async def take(turn: Turn) -> Outcome:
        def work(stop: threading.Event) -> Pulled:
            return pulls.take(turn.user_id, stop)

        try:
            taken = await turns.in_thread(work)
        except Stopped as error:
            raise Later(turns.backoff(turn.attempt)) from error
        return Outcome(taken.line, taken.wait)

    return Kind(PULL, take, places=settings.PULLS)


@dataclass(eq=False)
class _Days(Generic[Progress]):
    """Does about a month of one person's days, and keeps in mind how far it is."""

    workers: Pool
    take_turn: Callable[[Connection, UUID, Progress | None], Awaitable[tuple[int, Progress | None]]]
    progress: dict[UUID, Progress] = field(default_factory=dict)
    """Of people whose next turn is due. Another worker that takes it begins anew, which does no harm."""

    async def __call__(self, turn: Turn) -> Outcome:
        """Take one turn."""
        async with self.workers.connection() as worker:
            days, rest = await self.take_turn(
                worker, turn.user_id, self.progress.pop(turn.user_id, None)
            )
        if rest is not None:
            self.progress[turn.user_id] = rest
        return Outcome(f"days={days}" if days else "", None if rest is None else LAST)
