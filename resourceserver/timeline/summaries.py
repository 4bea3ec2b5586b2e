"""The job that sums days up: stored summaries that follow what was measured.

    somebody writes measurements ──► days are marked ──every few minutes──► days are summed up
                                                                               │
                             provisional ──the day is over, and an hour more──► final

Whoever writes measurements marks the days in the same transaction. We read the marks, sum their days up,
and remove those that nobody has set again meanwhile, so nothing is missed; and no tracker waits, since we
lock marks only at the very end. Every server does this; a person is one server's at a time, and the others
go on to the next. Days are those of the person's own zone as it is when they are summed up.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg

from resourceserver.timeline import jobs
from resourceserver.timeline.jobs import Days
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
_PEOPLE: Final = 100
"""Asked for at a time."""
_MARKS: Final = jobs.MONTH
"""Read in one transaction, so that it does not take long."""
_DOMAINS: Final = ("app_time", "coding", "switches", "focus")
"""Of what a summary is made."""
_NOBODY: Final = UUID(int=0)

Mark = tuple[date, datetime]
"""A day in UTC, and when it was marked."""
EVER: Final[Days] = (date.min, date.max)


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the background job that sums days up. It needs connections of the ``worker`` role."""
    return Job(make_due, interval, log, "days are summed up later")


async def make_due(worker: Connection) -> int:
    """Sum up what is marked, and what has been provisional long enough; return how many days that were.

    Somebody whose days cannot be summed up is passed over. Raises psycopg.Error where that is not
    about one person.
    """
    days = 0
    after = _NOBODY
    while True:
        with pipeline.first_statement():
            cursor = await worker.execute(
                SQL["people_due"], {"after": after, "limit": _PEOPLE, **schema.VERSION}
            )
        people = [user_id for (user_id,) in await cursor.fetchall()]
        for after in people:
            try:
                days += await _make_due_of(worker, after)
            except psycopg.Error as error:
                if worker.broken or schema.mismatch_of(error):
                    raise
                log.warning("the days of %s are summed up later: %s", after, error.sqlstate)
        if len(people) < _PEOPLE:
            return days


async def _make_due_of(worker: Connection, user_id: UUID) -> int:
    """Sum up what is due of one person, unless another does so at the moment."""
    days = 0
    # On and on, since a mark that is set again and again would otherwise never let us go.
    after = date.min
    while True:
        async with worker.transaction():
            await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
            if not await _value(worker, "take_turn", user_id=user_id):
                return days
            marks = await _marks(worker, user_id, after=after, limit=_MARKS)
            days += await _make_again(worker, user_id, [day for day, _ in marks])
            await _remove(worker, user_id, marks)
        if len(marks) < _MARKS:
            return days
        after = marks[-1][0]


async def _make_again(worker: Connection, user_id: UUID, marks: list[date]) -> int:
    """Sum up what changed when something was measured on the days that were marked, and what is over."""
    person = await _row(worker, "person", user_id=user_id)
    if person is None:
        await _forget(worker, user_id, EVER)
        return 0
    due = set(await _dates(worker, "days_whose_time_has_come", user_id=user_id))
    for first, last in jobs.in_a_row(marks):
        days = {"from": first, "to": last}
        affected = await _row(worker, "affected_days", user_id=user_id, tz=person[0], **days)
        due.update(_every_day(*affected) if affected is not None else ())
    return await _make(worker, user_id, person[0], jobs.in_a_row(due))


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
            parts = list(jobs.in_a_row(_every_day(person[1], person[2])))
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
