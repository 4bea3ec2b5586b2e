"""The job that sums days up: stored summaries that follow what was measured.

    somebody writes measurements ──► days are marked ──every few minutes──► days are summed up
                                                                               │
                             provisional ──the day is over, and an hour more──► final

Whoever writes measurements marks the days in the same transaction. We read the marks, sum their days up,
and remove those that nobody has set again meanwhile, so nothing is missed; and no tracker waits, since we
lock marks only at the very end. Every server does this; a person is one server's at a time, and the others
go on to the next. People take turns (rounds.py), so that one with years of marks keeps nobody waiting. Days
are those of the person's own zone as it is when they are summed up.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
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
"""A tracker that sends something every minute has its day summed up no more often."""
_MARKS: Final = rounds.MONTH
"""Read in one transaction, so that it does not take long."""
_DOMAINS: Final = ("app_time", "coding", "switches", "focus")
"""Of what a summary is made."""

Mark = tuple[date, datetime]
"""A day in UTC, and when it was marked."""
EVER: Final[Days] = (date.min, date.max)


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the background job that sums days up. It needs connections of the ``worker`` role."""
    return Job(make_due, interval, log, "days are summed up later")


@dataclass(frozen=True)
class _Progress:
    """How far a person's marks have been read."""

    after: date = date.min
    """The last marked day that had its turn. Without it, a mark that is set all the time would never end."""
    at_once: int = _MARKS


async def make_due(worker: Connection, turn: timedelta = rounds.TURN) -> int:
    """Sum up what is marked, and what has been provisional long enough; return how many days that were.

    People take turns of about a month of days. Days that take longer than ``turn`` are summed up one by one,
    and a single one is left for the next run, as are the days of a person that cannot be summed up. Raises
    psycopg.Error where that is not about one person.
    """
    days = 0

    async def due(after: UUID) -> list[UUID]:
        with pipeline.first_statement():
            cursor = await worker.execute(
                SQL["people_due"], {"after": after, "limit": rounds.PEOPLE, **schema.VERSION}
            )
        return [user_id for (user_id,) in await cursor.fetchall()]

    async def take_turn(user_id: UUID, progress: _Progress | None) -> _Progress | None:
        nonlocal days
        try:
            made, rest = await _take_turn(worker, user_id, progress or _Progress(), turn)
        except psycopg.Error as error:
            if worker.broken or schema.mismatch_of(error):
                raise
            log.warning("the days of %s are summed up later: %s", user_id, error.sqlstate)
            return None
        days += made
        return rest

    await rounds.go_round(due, take_turn)
    return days


async def _take_turn(
    worker: Connection, user_id: UUID, progress: _Progress, turn: timedelta
) -> tuple[int, _Progress | None]:
    """Sum up some due days of one person, unless another does so now; return how many, and what is left."""
    marks: list[Mark] = []
    try:
        async with asyncio.timeout(turn.total_seconds()), worker.transaction():
            await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
            if not await _value(worker, "take_turn", user_id=user_id):
                return 0, None
            marks = await _marks(worker, user_id, after=progress.after, limit=progress.at_once)
            days = await _make_again(worker, user_id, [day for day, _ in marks])
            await _remove(worker, user_id, marks)
    except TimeoutError:
        log.warning("the days of %s take too long and are put off", user_id)
        if len(marks) > 1:
            return 0, replace(progress, at_once=1)
        return 0, _Progress(marks[0][0], at_once=1) if marks else None
    if len(marks) < progress.at_once:
        return days, None
    return days, replace(progress, after=marks[-1][0])


async def _make_again(worker: Connection, user_id: UUID, marks: list[date]) -> int:
    """Sum up what changed when something was measured on the days that were marked, and what is over."""
    person = await _row(worker, "person", user_id=user_id)
    if person is None:
        await _forget(worker, user_id, EVER)
        return 0
    due = set(await _dates(worker, "days_whose_time_has_come", user_id=user_id))
    for first, last in rounds.in_a_row(marks):
        days = {"from": first, "to": last}
        affected = await _row(worker, "affected_days", user_id=user_id, tz=person[0], **days)
        due.update(_every_day(*affected) if affected is not None else ())
    return await _make(worker, user_id, person[0], rounds.in_a_row(due))


async def make_all(worker: Connection, user_id: UUID) -> int:
    """Sum all days of somebody up anew, in their present zone; return how many have a summary now.

    For what changes days without measuring anything: another zone, other category rules. About a month
    is one transaction; what breaks off halfway has made some days. Raises psycopg.Error.
    """
    async with _turn(worker, user_id):
        # What was marked until now is among all days.
        marks = await _marks(worker, user_id)
        person = await _row(worker, "person", user_id=user_id)
        if person is None or person[1] is None:
            await _forget(worker, user_id, EVER)
            parts = []
        else:
            extent = {"user_id": user_id, "from": person[1], "to": person[2]}
            await worker.execute(SQL["forget_other_days"], extent)
            parts = list(rounds.in_a_row(_every_day(person[1], person[2])))
    count = 0
    for part in parts:
        async with _turn(worker, user_id):
            person = await _row(worker, "person", user_id=user_id)
            # Who has left meanwhile gets no summaries any more.
            count += 0 if person is None else await _make(worker, user_id, person[0], [part])
    async with _turn(worker, user_id):
        await _remove(worker, user_id, marks)
    return count


@asynccontextmanager
async def _turn(worker: Connection, user_id: UUID) -> AsyncIterator[None]:
    """A transaction about one person, who is ours to its end; another who has them is waited for."""
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(SQL["await_turn"], {"user_id": user_id})
        yield


async def _make(worker: Connection, user_id: UUID, tz: str, parts: Iterable[Days]) -> int:
    count = 0
    for first, last in parts:
        await _forget(worker, user_id, (first, last))
        days = {"user_id": user_id, "tz": tz, "from": first, "to": last}
        # Whatever is written between these marks its days, which are summed up once more.
        summed = {name: await _value(worker, f"sum_{name}", **days) for name in _DOMAINS}
        result = await worker.execute(SQL["store_days"], days | summed)
        count += result.rowcount
    return count


async def _forget(worker: Connection, user_id: UUID, days: Days) -> None:
    await worker.execute(SQL["forget_days"], {"user_id": user_id, "from": days[0], "to": days[1]})


async def _marks(
    worker: Connection, user_id: UUID, *, after: date = date.min, limit: int | None = None
) -> list[Mark]:
    parameters = {"user_id": user_id, "after": after, "limit": limit}
    return await (await worker.execute(SQL["read_marks"], parameters)).fetchall()


async def _remove(worker: Connection, user_id: UUID, marks: list[Mark]) -> None:
    dates, marked_at = [day for day, _ in marks], [at for _, at in marks]
    await worker.execute(
        SQL["remove_marks"], {"user_id": user_id, "dates": dates, "marked_at": marked_at}
    )


async def _row(worker: Connection, name: str, **parameters: Any) -> tuple[Any, ...] | None:
    return await (await worker.execute(SQL[name], parameters)).fetchone()


async def _value(worker: Connection, name: str, **parameters: Any) -> Any:
    row = await _row(worker, name, **parameters)
    return None if row is None else row[0]


async def _dates(worker: Connection, name: str, **parameters: Any) -> list[date]:
    return [day for (day,) in await (await worker.execute(SQL[name], parameters)).fetchall()]


def _every_day(first: date, last: date) -> Iterator[date]:
    return (first + timedelta(days=n) for n in range((last - first).days + 1))
