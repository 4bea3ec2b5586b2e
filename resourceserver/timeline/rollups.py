"""The job that makes rollups: what somebody's days and months came to, so that reads need not add it up.

    somebody writes measurements ──► days are marked ──quiet for two minutes──► days are made
                                          ▲                                        │
                       title rules change ┘          no day of it is marked ──► and their month

Nothing depends on when we come. Who reads takes marked days from raw sessions and everything else from
rollups, so answers are the same at every moment, and we make them fast. A day that is written to each
minute is left alone until it is quiet.

Every server does this. A person is one server's at a time, and the others go on to the next.
"""

import logging
from calendar import monthrange
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.errors import QueryCanceled

from resourceserver.timeline import jobs
from shared import pipeline, queries, schema
from shared.jobs import Job
from shared.pool import Connection

log = logging.getLogger("svc.rollups")

SQL: Final = queries.load(Path(__file__).with_name("rollups.sql"))

INTERVAL: Final = timedelta(seconds=10)
QUIET: Final = timedelta(minutes=2)
"""How long nothing was written to a day before it is made; trackers send something every minute."""
_PATIENCE: Final = timedelta(minutes=10)
"""After which days are tried again that could not be made."""
_PEOPLE: Final = 100
"""Asked for at a time."""
_DAYS: Final = jobs.MONTH
"""Made in one transaction. Whoever writes to one of them waits for its end."""
_MOST_EDGES: Final = 10_000
"""How many edges of quarters of an hour sessions of a day may reach over: as a hundred that last all day."""
_GRAINS: Final = {"hour": 2, "day": 3, "month": 4}
_MOST_DIFFERENCES: Final = 1000
"""Told of each month and grain."""
_CHECKS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("check_app_quarters", {"most": _MOST_DIFFERENCES}),
    ("check_coding_quarters", {"most": _MOST_DIFFERENCES}),
    *(
        (f"check_{what}_sums", {"most": _MOST_DIFFERENCES, "unit": unit, "grain": grain})
        for unit, grain in _GRAINS.items()
        for what in ("app", "coding")
    ),
)
_NOBODY: Final = UUID(int=0)


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the background job that makes rollups. It needs connections of the ``worker`` role."""
    return Job(make_due, interval, log, "rollups are made later")


async def make_due(worker: Connection, quiet: timedelta = QUIET) -> int:
    """Make the days whose marks have been quiet for so long; return how many that were.

    Somebody whose days cannot be made is passed over, and left alone for a while. Raises psycopg.Error
    where that is not about one person.
    """
    days = 0
    after = _NOBODY
    while True:
        with pipeline.first_statement():
            cursor = await worker.execute(
                SQL["people_due"],
                {"after": after, "quiet": quiet, "limit": _PEOPLE, **schema.VERSION},
            )
        people = [user_id for (user_id,) in await cursor.fetchall()]
        for after in people:
            try:
                days += await _make_due_of(worker, after, quiet, "take_turn")
            except psycopg.Error as error:
                if worker.broken or schema.mismatch_of(error):
                    raise
                log.warning("rollups of %s are made later: %s", after, error.sqlstate)
                await _put_off(worker, after, quiet)
        if len(people) < _PEOPLE:
            return days


async def rebuild(worker: Connection, user_id: UUID) -> int:
    """Make all days of somebody anew while they are read and written; return how many that were.

    Nothing is left of what was rolled up before. What breaks off halfway has marked all days and made some.
    Raises psycopg.Error.
    """
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(SQL["wait_longer"])
        await worker.execute(SQL["take_longer"])
        await worker.execute(SQL["mark_all_days"], {"user_id": user_id})
        await worker.execute(SQL["forget_strays"], {"user_id": user_id})
    days = await _make_due_of(worker, user_id, timedelta(0), "await_turn")
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(SQL["wait_longer"])
        await worker.execute(SQL["await_turn"], {"user_id": user_id})
        await worker.execute(SQL["forget_unused_labels"], {"user_id": user_id})
    return days


@dataclass(frozen=True)
class Difference:
    """Something that is rolled up otherwise than it would be now."""

    at: str
    """When the slot begins, or the day of a timeline."""
    grain: int | None
    """Of the slot; None for a timeline."""
    name: str | None
    """The application or the project; None where the application has no label, and for a timeline."""
    detail: str | None
    """The domain or the language, if any."""
    session_id: str | None
    """Of a row about one session."""
    column: str | None
    """None where a whole row is missing or too much."""
    stored: str | None
    """None where a row is missing, or nothing is stored in the column."""
    expected: str | None
    """None where a row should not be there, or nothing should be stored in the column."""


async def check(worker: Connection, user_id: UUID) -> AsyncGenerator[Difference]:
    """Yield where rollups are not what they would be if they were made now, months in order.

    Marked days are left out, for nobody relies on them. Each month is looked at in a few statements, and
    each sees a moment at which whoever writes had marked what they wrote; so it is right while others
    write. Raises psycopg.Error.
    """
    extent = await _read(worker, user_id, "extent", {})
    for first, last in extent:
        for month in _months(first, last):
            for name, more in _CHECKS:
                for row in await _read(worker, user_id, name, month | more):
                    yield Difference(*row)


async def _read(
    worker: Connection, user_id: UUID, name: str, parameters: dict[str, Any]
) -> list[Any]:
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(SQL["take_longer"])
        cursor = await worker.execute(SQL[name], parameters | {"user_id": user_id})
        return await cursor.fetchall()


def _months(first: date, last: date) -> Iterator[dict[str, Any]]:
    """Yield the first and the last day of each month from that of one day to that of another."""
    for number in range(first.year * 12 + first.month - 1, last.year * 12 + last.month):
        yield _month(date(number // 12, number % 12 + 1, 1))


def _month(day: date) -> dict[str, Any]:
    _, length = monthrange(day.year, day.month)
    return {"from": day.replace(day=1), "to": day.replace(day=length)}


async def _make_due_of(worker: Connection, user_id: UUID, quiet: timedelta, turn: str) -> int:
    """Make what is due of one person, if ``turn``, a statement, says that it is ours to make.

    Where days take too long together, each is made by itself from then on. One that still takes too long,
    as it has millions of sessions, is left raw.
    """
    days = 0
    # On and on, since a mark that is set again and again would otherwise never let us go.
    after = date.min
    at_once = _DAYS
    too_long: date | None = None
    while True:
        marks: list[date] = []
        try:
            async with worker.transaction():
                await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
                await worker.execute(SQL["wait_longer"])
                if await _value(worker, turn, user_id=user_id) is False:
                    return days
                marks = await _dates(
                    worker, "take_marks", user_id=user_id, after=after, quiet=quiet, limit=at_once
                )
                days += await _make(worker, user_id, marks, too_long)
        except QueryCanceled:
            if not marks or too_long in marks:
                raise
            if len(marks) == 1:
                (too_long,) = marks
            at_once = 1
            continue
        if len(marks) < at_once:
            return days
        after = marks[-1]


async def _put_off(worker: Connection, user_id: UUID, quiet: timedelta) -> None:
    """Leave somebody alone for a while whose days could not be made; the next try may take as long."""
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(
            SQL["put_off"], {"user_id": user_id, "quiet": quiet, "while": _PATIENCE}
        )


async def _make(worker: Connection, user_id: UUID, dates: list[date], too_long: date | None) -> int:
    """Make days whose marks are ours, and their months; return how many days were not left raw.

    One that took ``too_long`` is left raw, however many sessions it has.
    """
    crowded = {day for day in dates if day == too_long}
    for first, last in jobs.in_a_row(dates):
        days = {"user_id": user_id, "from": first, "to": last}
        await worker.execute(SQL["forget_days"], days)
        if first != too_long and await _value(worker, "may_be_crowded", **days, most=_MOST_EDGES):
            crowded.update(await _dates(worker, "crowded_days", **days, most=_MOST_EDGES))
    complete = [day for day in dates if day not in crowded]
    for first, last in jobs.in_a_row(complete):
        days = {"user_id": user_id, "from": first, "to": last}
        for statement in ("add_labels", "make_app_quarters", "make_coding_quarters"):
            await worker.execute(SQL[statement], days)
        await _add_up(worker, "hour", days)
        await _add_up(worker, "day", days)
    await worker.execute(SQL["remove_marks"], {"user_id": user_id, "dates": complete})
    if crowded:
        await worker.execute(SQL["leave_raw"], {"user_id": user_id, "dates": sorted(crowded)})
    for month in sorted({day.replace(day=1) for day in dates}):
        days = {"user_id": user_id} | _month(month)
        await worker.execute(SQL["forget_month"], days)
        # Of a month with a marked day its days are read.
        if not await _value(worker, "has_marks", **days):
            await _add_up(worker, "month", days)
    return len(complete)


async def _add_up(worker: Connection, unit: str, days: dict[str, Any]) -> None:
    for statement in ("add_up_app", "add_up_coding"):
        await worker.execute(SQL[statement], days | {"unit": unit, "grain": _GRAINS[unit]})


async def _value(worker: Connection, name: str, **parameters: Any) -> Any:
    row = await (await worker.execute(SQL[name], parameters)).fetchone()
    return None if row is None else row[0]


async def _dates(worker: Connection, name: str, **parameters: Any) -> list[date]:
    return [day for (day,) in await (await worker.execute(SQL[name], parameters)).fetchall()]
