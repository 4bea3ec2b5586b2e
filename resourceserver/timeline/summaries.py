"""The job that writes daily summaries and renews them after changes.

    a tracker writes rows ──► days are marked ──quiet for three minutes,──► days are summed up
                                                or every half an hour                 │
                                    provisional ──the day is over, and an hour more──► final

Every write of measurements marks its days in the same transaction. The job reads the marks, sums the days
up, and removes the marks that nobody has set again since, so no change is missed; and trackers never
wait, since marks are locked only at the very end. A worker does this work in turns of one person each
(resourceserver/worker), or without a worker every server runs the job, in rounds (rounds.py). Either way a
person with years of marks does not delay others, and one process at a time works on a person. Days are
those of the person's time zone at the time of the job.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg

from resourceserver.timeline import rounds
from resourceserver.timeline.rounds import Days
from shared import pipeline, queries, schema
from shared.jobs import Job
from shared.pool import Connection

log = logging.getLogger("svc.summaries")

_HERE: Final = Path(__file__).parent
SQL: Final = queries.load(
    _HERE / "timeline.sql",
    _HERE / "segments.sql",
    _HERE / "metrics.sql",
    _HERE / "summaries.sql",
)

INTERVAL: Final = timedelta(minutes=5)
"""The interval of the job."""
QUIET: Final = timedelta(minutes=3)
"""How long a day must be without writes before it is summed up: a minute longer than before it is rolled up,
since to sum rollups up takes half as long as sessions."""
PATIENCE: Final = timedelta(minutes=30)
"""How old the summary of a day may be that is never quiet. A day without one does not wait."""
_MARKS: Final = rounds.MONTH
_TURN_OF_COMMAND: Final = rounds.TURN + timedelta(seconds=50)
"""How long a turn of a command may take, with the wait for another process that sums up the same days."""
"""The days of one transaction, so that it does not take long."""
_DOMAINS: Final = ("app_time", "coding", "switches", "focus")
"""The domains of a summary, each with a statement."""

Mark = tuple[date, datetime]
"""A day in UTC, and the time of its mark."""


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the background job that sums days up. It needs connections of the ``worker`` role."""
    return Job(make_due, interval, log, "days are summed up later")


@dataclass(frozen=True)
class Progress:
    """The state between a person's turns."""

    after: date = date.min
    """The last marked day that had its turn. Without it, a day that is marked all the time would never
    end."""
    at_once: int = _MARKS


async def make_due(
    worker: Connection, turn: timedelta = rounds.TURN, *, quiet: timedelta | None = QUIET
) -> int:
    """Sum up marked days, and provisional ones that are over; return their number.

    Days that are not ``quiet`` wait for at most ``PATIENCE``; with None, no day waits. People take turns of
    about a month of days. If the days take longer than ``turn``, they are summed up one by one, and a single
    day that does is left for the next run, as are the days of a person that fail. Raises psycopg.Error
    unless the error is about one person.
    """
    days = 0

    async def take_one(user_id: UUID, progress: Progress | None) -> Progress | None:
        nonlocal days
        try:
            made, rest = await take_turn(worker, user_id, progress, turn, quiet=quiet)
        except psycopg.Error as error:
            if worker.broken or schema.mismatch_of(error):
                raise
            log.warning("the days of %s are summed up later: %s", user_id, error.sqlstate)
            return None
        days += made
        return rest

    await rounds.go_round(lambda after: people_due(worker, after, quiet), take_one)
    return days


async def people_due(
    worker: Connection, after: UUID, quiet: timedelta | None = QUIET
) -> list[UUID]:
    """Return at most ``rounds.PEOPLE`` ids after one, of people with days to sum up."""
    marks = {"after": after, "limit": rounds.PEOPLE, "quiet": quiet, "patience": PATIENCE}
    with pipeline.first_statement():
        cursor = await worker.execute(SQL["people_due"], {**marks, **schema.VERSION})
    return [user_id for (user_id,) in await cursor.fetchall()]


async def take_turn(
    worker: Connection,
    user_id: UUID,
    progress: Progress | None = None,
    turn: timedelta = rounds.TURN,
    *,
    quiet: timedelta | None = QUIET,
) -> tuple[int, Progress | None]:
    """Sum up about a month of due days of one person, unless another process does so now.

    Returns their number, and the state for the person's next turn, None when nothing is left for one. Raises
    psycopg.Error.
    """
    return await _take_turn(
        worker, user_id, progress or Progress(), turn, quiet=quiet, lock="take_turn"
    )


async def make_now(worker: Connection, user_id: UUID) -> int:
    """Sum up all due days of one person, after what another process does; return their number.

    A day that takes longer by itself than ``_TURN_OF_COMMAND`` stays due. Raises psycopg.Error.
    """
    days = 0
    rest: Progress | None = Progress()
    while rest is not None:
        made, rest = await _take_turn(
            worker, user_id, rest, _TURN_OF_COMMAND, quiet=None, lock="await_turn"
        )
        days += made
    return days


async def _take_turn(
    worker: Connection,
    user_id: UUID,
    progress: Progress,
    turn: timedelta,
    *,
    quiet: timedelta | None,
    lock: str,
) -> tuple[int, Progress | None]:
    """Sum up some due days of one person, if ``lock``, a statement, reserves them."""
    marks: list[Mark] = []
    try:
        async with asyncio.timeout(turn.total_seconds()), worker.transaction():
            own: dict[str, Any] = {"user_id": user_id}
            which = {"after": progress.after, "limit": progress.at_once}
            _, _, _, (taken,), marks, zones, over = await _trip(
                worker,
                ("begin_for", {**own, **schema.VERSION}),
                ("wait_longer", {}),
                ("commit_soon", {}),
                (lock, own),
                ("read_marks", {**own, **which, "quiet": quiet, "patience": PATIENCE}),
                ("zone", own),
                ("days_whose_time_has_come", own),
            )
            if taken[0] is False:
                return 0, None
            if not zones:
                await _forget(worker, user_id)
                return 0, None
            ((tz,),) = zones
            due = {day for (day,) in over}
            due |= await _affected(worker, user_id, tz, [day for day, _ in marks])
            days = await _make(worker, user_id, tz, rounds.in_a_row(due), marks)
    except TimeoutError:
        log.warning("the days of %s take too long and are put off", user_id)
        if len(marks) > 1:
            return 0, replace(progress, at_once=1)
        return 0, Progress(marks[0][0], at_once=1) if marks else None
    if len(marks) < progress.at_once:
        return days, None
    return days, replace(progress, after=marks[-1][0])


async def _affected(worker: Connection, user_id: UUID, tz: str, marks: list[date]) -> set[date]:
    """Return the days that changes on marked days affect."""
    affected = await _trip(
        worker,
        *(
            ("affected_days", {"user_id": user_id, "tz": tz, "from": first, "to": last})
            for first, last in rounds.in_a_row(marks)
        ),
    )
    return {day for rows in affected for first, last in rows for day in _every_day(first, last)}


async def make_all(worker: Connection, user_id: UUID) -> int:
    """Sum up all days of a person again, in their current time zone; return how many have a summary now.

    For changes without new measurements: another time zone, other category rules. About a month is one
    transaction; after an interruption some days are done. Raises psycopg.Error.
    """
    async with _turn(worker, user_id):
        # Marks set until now are covered, because all days are summed up.
        marks = await _marks(worker, user_id)
        person = await _row(worker, "person", user_id=user_id)
        if person is None or person[1] is None:
            await _forget(worker, user_id)
            parts = []
        else:
            extent = {"user_id": user_id, "from": person[1], "to": person[2]}
            await worker.execute(SQL["forget_other_days"], extent)
            parts = list(rounds.in_a_row(_every_day(person[1], person[2])))
    count = 0
    for part in parts:
        async with _turn(worker, user_id):
            person = await _row(worker, "person", user_id=user_id)
            # An account that was deleted meanwhile gets no summaries.
            count += 0 if person is None else await _make(worker, user_id, person[0], [part])
    async with _turn(worker, user_id):
        await worker.execute(SQL["remove_marks"], _named(user_id, marks))
    return count


@asynccontextmanager
async def _turn(worker: Connection, user_id: UUID) -> AsyncIterator[None]:
    """A transaction that alone sums up the person's days; it waits for another one to end."""
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(SQL["await_turn"], {"user_id": user_id})
        yield


async def _make(
    worker: Connection, user_id: UUID, tz: str, parts: Iterable[Days], marks: Sequence[Mark] = ()
) -> int:
    """Sum up days, and remove marks; return the number of days that have a summary now."""
    sums = []
    for first, last in parts:
        days = {"user_id": user_id, "tz": tz, "from": first, "to": last}
        # A write between these statements marks its days, which are then summed up again.
        _, *summed = await _trip(
            worker, ("forget_days", days), *((f"sum_{name}", days) for name in _DOMAINS)
        )
        sums.append(days | {name: text for name, ((text,),) in zip(_DOMAINS, summed, strict=True)})
    stored = await _trip(
        worker, *(("store_days", each) for each in sums), ("remove_marks", _named(user_id, marks))
    )
    return sum(len(days) for days in stored)


async def _trip(worker: Connection, *steps: tuple[str, Mapping[str, Any]]) -> list[list[Any]]:
    """Send the statements of these names in one round trip, and return the rows of each."""
    return await rounds.trip(worker, *((SQL[name], parameters) for name, parameters in steps))


async def _forget(worker: Connection, user_id: UUID) -> None:
    """Remove all summaries and marks, those of a deleted account."""
    ever = {"user_id": user_id, "from": date.min, "to": date.max}
    marks = await _marks(worker, user_id)
    await _trip(worker, ("forget_days", ever), ("remove_marks", _named(user_id, marks)))


async def _marks(worker: Connection, user_id: UUID) -> list[Mark]:
    """Return all marks of a person."""
    every = {"after": date.min, "limit": None, "quiet": None, "patience": None}
    return await (await worker.execute(SQL["read_marks"], {"user_id": user_id, **every})).fetchall()


def _named(user_id: UUID, marks: Sequence[Mark]) -> dict[str, Any]:
    """Return the parameters of the statement that removes marks."""
    dates, marked_at = [day for day, _ in marks], [at for _, at in marks]
    return {"user_id": user_id, "dates": dates, "marked_at": marked_at}


async def _row(worker: Connection, name: str, **parameters: Any) -> tuple[Any, ...] | None:
    return await (await worker.execute(SQL[name], parameters)).fetchone()


def _every_day(first: date, last: date) -> Iterator[date]:
    return (first + timedelta(days=n) for n in range((last - first).days + 1))
