"""The job that writes rollups: stored sums of days and months, so that reads need not add sessions up.

    a tracker writes sessions ──► days are marked ──quiet for two minutes──► days are rolled up
                                           ▲                                        │
                       title rules change ─┘         no day of it is marked ──► and their month,
                                                     and the spans of days that are over (kept.sql)

Answers do not depend on the time of the job: reads take marked days from raw sessions and all others from
rollups, so the job only makes them faster. A day that is written to each minute waits until it is quiet.

A worker does this work in turns of one person each (resourceserver/worker), or without a worker every server
runs the job, in rounds (rounds.py). Either way a person with years of marks does not delay others, and one
process at a time works on a person.
"""

import asyncio
import logging
from calendar import monthrange
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.errors import QueryCanceled

from resourceserver.timeline import rounds
from shared import pipeline, queries, schema
from shared.jobs import Job
from shared.pool import Connection

log = logging.getLogger("svc.rollups")

_HERE: Final = Path(__file__).parent
SQL: Final = queries.load(
    _HERE / "timeline.sql", _HERE / "segments.sql", _HERE / "kept.sql", _HERE / "rollups.sql"
)

INTERVAL: Final = timedelta(seconds=10)
QUIET: Final = timedelta(minutes=2)
"""How long a day must be without writes before it is rolled up; trackers send something every minute."""
_PATIENCE: Final = timedelta(minutes=10)
"""The delay before days that failed are tried again."""
_DAYS: Final = rounds.MONTH
"""The days of one transaction. Trackers that write to one of them wait for its end."""
_MOST_EDGES: Final = 10_000
"""The most quarter-hour boundaries that a day's sessions may cross: those of a hundred that last all day."""
_SPANS: Final = 7
"""The spans of one transaction: as many as a month and its sixths are."""
_GRAINS: Final = {"hour": 2, "day": 3, "month": 4}
Span = tuple[date, date]
"""The first and the last day of a span."""
Named = tuple[str, Mapping[str, Any]]
"""The name of a statement, with its parameters."""
_MOST_DIFFERENCES: Final = 1000
"""The most differences that a check reports of each month and grain."""
_CHECKS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("check_app_quarters", {"most": _MOST_DIFFERENCES}),
    ("check_coding_quarters", {"most": _MOST_DIFFERENCES}),
    *(
        (f"check_{what}_sums", {"most": _MOST_DIFFERENCES, "unit": unit, "grain": grain})
        for unit, grain in _GRAINS.items()
        for what in ("app", "coding")
    ),
)


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the background job that writes rollups. It needs connections of the ``worker`` role."""
    return Job(make_due, interval, log, "rollups are made later")


@dataclass(frozen=True)
class SpansLeft:
    """Which spans of a person have not had their turn."""

    marked_at: datetime | None = None
    """The mark that the turn before saw. With another one, all spans have to be looked at again."""
    before: Span = (date.max, date.max)
    """The span that had its turn last. The newest comes first, and of those with the same
    end the shortest."""
    at_once: int = _SPANS


@dataclass(frozen=True)
class Progress:
    """The state between a person's turns."""

    after: date = date.min
    """The last marked day that had its turn. Without it, a day that is marked all the time would never
    end."""
    at_once: int = _DAYS
    too_long: date | None = None
    """A day that exceeded the time limit by itself, to be left raw."""
    spans: SpansLeft | None = None
    """Set when no days are left, and spans are."""


async def make_due(
    worker: Connection, quiet: timedelta = QUIET, turn: timedelta = rounds.TURN
) -> int:
    """Roll up the days whose marks are older than ``quiet``; return their number.

    People take turns of about a month of days, none longer than ``turn``. A person whose days fail is skipped
    for a while. Raises psycopg.Error unless the error is about one person.
    """
    days = 0

    async def take_one(user_id: UUID, progress: Progress | None) -> Progress | None:
        nonlocal days
        try:
            made, rest = await take_turn(worker, user_id, progress, quiet=quiet, turn=turn)
        except (psycopg.Error, TimeoutError) as error:
            if worker.broken or (isinstance(error, psycopg.Error) and schema.mismatch_of(error)):
                raise
            reason = error.sqlstate if isinstance(error, psycopg.Error) else "too long"
            log.warning("rollups of %s are made later: %s", user_id, reason)
            await _put_off(worker, user_id, quiet)
            return None
        days += made
        return rest

    await rounds.go_round(lambda after: people_due(worker, after, quiet), take_one)
    return days


async def people_due(worker: Connection, after: UUID, quiet: timedelta = QUIET) -> list[UUID]:
    """Return at most ``rounds.PEOPLE`` ids after one, of people with marks that are older than ``quiet``."""
    with pipeline.first_statement():
        cursor = await worker.execute(
            SQL["people_due"],
            {"after": after, "quiet": quiet, "limit": rounds.PEOPLE, **schema.VERSION},
        )
    return [user_id for (user_id,) in await cursor.fetchall()]


async def take_turn(
    worker: Connection,
    user_id: UUID,
    progress: Progress | None = None,
    *,
    quiet: timedelta = QUIET,
    turn: timedelta = rounds.TURN,
) -> tuple[int, Progress | None]:
    """Roll up about a month of due days of one person, unless another process does so now.

    Returns their number, and the state for the person's next turn, None when nothing is left for one. Raises
    psycopg.Error, and TimeoutError for days that exceed ``turn``.
    """
    return await _take_turn(
        worker, user_id, progress or Progress(), quiet=quiet, lock="take_turn", turn=turn
    )


async def make_now(worker: Connection, user_id: UUID) -> int:
    """Roll up all marked days of one person, after what another process does; return their number.

    Raises psycopg.Error.
    """
    days = 0
    rest: Progress | None = Progress()
    while rest is not None:
        made, rest = await _take_turn(
            worker, user_id, rest, quiet=timedelta(0), lock="await_turn", turn=None
        )
        days += made
    return days


async def rebuild(worker: Connection, user_id: UUID) -> int:
    """Roll up all days of a person again, while trackers and readers go on; return their number.

    Nothing of the old rollups is kept. If it is interrupted, the remaining days are marked, and the job rolls
    them up. Raises psycopg.Error.
    """
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(SQL["wait_longer"])
        await worker.execute(SQL["take_longer"])
        await worker.execute(SQL["mark_all_days"], {"user_id": user_id})
        await worker.execute(SQL["forget_strays"], {"user_id": user_id})
    days = await make_now(worker, user_id)
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(SQL["wait_longer"])
        await worker.execute(SQL["await_turn"], {"user_id": user_id})
        await worker.execute(SQL["forget_unused_labels"], {"user_id": user_id})
    return days


@dataclass(frozen=True)
class Difference:
    """A difference between a stored rollup and the sessions."""

    at: str
    """The start of the slot, the day of a timeline, or the days of a span."""
    grain: int | None
    """The grain of the slot; None for a timeline, 0 for a span."""
    name: str | None
    """The application or the project; None for an application without a label, a timeline, and a span."""
    detail: str | None
    """The domain or the language, if any."""
    session_id: str | None
    """The session of a row about one session."""
    column: str | None
    """The column that differs; None if a whole row is missing or should not exist."""
    stored: str | None
    """The stored value; None if the row is missing or the column is null."""
    expected: str | None
    """The right value; None if the row should not exist or the column should be null."""


async def check(worker: Connection, user_id: UUID) -> AsyncGenerator[Difference]:
    """Yield the differences between stored rollups and those that sessions give now, months in order.

    Marked days are left out, because reads do not use their rollups. A few statements read each month. The
    snapshot of each has the mark of every write that it has, so the check is right while trackers write.
    Raises psycopg.Error.
    """
    extent = await _read(worker, user_id, "extent", {})
    for first, last in extent:
        # The first span may be a quarter of a year that began before.
        for month in _months(first.replace(month=first.month - (first.month - 1) % 3, day=1), last):
            for name, more in _CHECKS:
                for row in await _read(worker, user_id, name, month | more):
                    yield Difference(*row)
            for begin, end in await _read(worker, user_id, "spans", month):
                span = {"from": begin, "to": end, "most": _MOST_DIFFERENCES}
                for name in ("check_span", "check_streaks", "check_detours"):
                    for row in await _read(worker, user_id, name, span):
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
    """Yield the first and the last day of each month from that of ``first`` to that of ``last``."""
    for number in range(first.year * 12 + first.month - 1, last.year * 12 + last.month):
        yield _month(date(number // 12, number % 12 + 1, 1))


def _month(day: date) -> dict[str, Any]:
    _, length = monthrange(day.year, day.month)
    return {"from": day.replace(day=1), "to": day.replace(day=length)}


async def _take_turn(
    worker: Connection,
    user_id: UUID,
    progress: Progress,
    *,
    quiet: timedelta,
    lock: str,
    turn: timedelta | None,
) -> tuple[int, Progress | None]:
    """Roll up some due days of one person, if ``lock``, a statement, reserves them.

    Returns their number, and the state for the next turn. If the days exceed the time limit together, later
    turns do one day each. A day that exceeds it alone, because it has millions of sessions, is left raw.
    """
    if progress.spans is not None:
        return 0, await _make_spans(worker, user_id, progress.spans, lock=lock, turn=turn)
    marks: list[date] = []
    is_due = False
    limit_s = None if turn is None else turn.total_seconds()
    try:
        async with asyncio.timeout(limit_s), worker.transaction():
            own: dict[str, Any] = {"user_id": user_id}
            *_, ((taken,),) = await _trip(
                worker,
                ("begin_for", {**own, **schema.VERSION}),
                ("wait_longer", {}),
                ("commit_soon", {}),
                (lock, own),
            )
            if taken is False:
                return 0, None
            which = {"after": progress.after, "quiet": quiet, "limit": progress.at_once}
            # Only now: marks that another process needs must not be locked.
            dates, due = await _trip(
                worker, ("take_marks", {**own, **which}), ("attention_is_due", own)
            )
            marks = [day for (day,) in dates]
            days, is_marked = await _make(worker, user_id, marks, progress.too_long)
            is_due = is_marked or bool(due)
    except (QueryCanceled, TimeoutError):
        if not marks or progress.too_long in marks:
            raise
        too_long = marks[0] if len(marks) == 1 else progress.too_long
        return 0, replace(progress, at_once=1, too_long=too_long)
    if len(marks) < progress.at_once:
        # In a transaction of its own: a span that cannot be made must not undo the sums of its days.
        return days, Progress(spans=SpansLeft()) if is_due else None
    return days, replace(progress, after=marks[-1])


async def _make_spans(
    worker: Connection,
    user_id: UUID,
    left: SpansLeft,
    *,
    lock: str,
    turn: timedelta | None,
) -> Progress | None:
    """Make some spans of one person's days (kept.sql), if ``lock``, a statement, reserves them.

    Returns the state for the next turn, None when nothing is left for one. If the spans exceed the time limit
    together, later turns make one each. One that exceeds it alone is left out: reads do without it.
    """
    spans: list[Span] = []
    limit_s = None if turn is None else turn.total_seconds()
    try:
        async with asyncio.timeout(limit_s), worker.transaction():
            own: dict[str, Any] = {"user_id": user_id}
            *_, ((taken,),), seen = await _trip(
                worker,
                ("begin_for", {**own, **schema.VERSION}),
                ("wait_longer", {}),
                ("commit_soon", {}),
                (lock, own),
                ("take_attention", own),
            )
            if taken is False or not seen:
                return None
            ((marked_at,),) = seen
            if marked_at != left.marked_at:
                left = SpansLeft(marked_at, at_once=left.at_once)
            before_first, before_last = left.before
            which = {
                "before_first": before_first,
                "before_last": before_last,
                "limit": left.at_once,
            }
            (found,) = await _trip(worker, ("spans_due", {**own, **which}))
            spans = [(first, last) for first, last in found]
            days = [{**own, "from": first, "to": last} for first, last in spans]
            await _trip(
                worker,
                *(
                    (statement, each)
                    for each in days
                    for statement in ("forget_span", "make_span", "add_streaks", "add_detours")
                ),
            )
            if len(spans) < left.at_once:
                await _trip(
                    worker,
                    ("forget_outdated_spans", own),
                    ("remove_attention_mark", {**own, "marked_at": marked_at}),
                )
                return None
    except (QueryCanceled, TimeoutError):
        if not spans:
            raise
        if len(spans) > 1 or left.at_once > 1:
            return Progress(spans=replace(left, at_once=1))
    return Progress(spans=replace(left, before=spans[-1]))


async def _put_off(worker: Connection, user_id: UUID, quiet: timedelta) -> None:
    """Skip a person whose days failed for a while; the next try may take as long."""
    async with worker.transaction():
        await worker.execute(SQL["begin_for"], {"user_id": user_id, **schema.VERSION})
        await worker.execute(
            SQL["put_off"], {"user_id": user_id, "quiet": quiet, "while": _PATIENCE}
        )
        await worker.execute(SQL["put_off_attention"], {"user_id": user_id, "while": _PATIENCE})


async def _make(
    worker: Connection, user_id: UUID, dates: list[date], too_long: date | None
) -> tuple[int, bool]:
    """Roll up days whose marks are locked, and their months.

    Returns the number of days not left raw, and whether spans of these days are to be made. ``too_long`` is a
    day to be left raw, however many sessions it has.
    """
    crowded = {day for day in dates if day == too_long}
    ranges = [
        {"user_id": user_id, "from": first, "to": last} for first, last in rounds.in_a_row(dates)
    ]
    examined = [days | {"most": _MOST_EDGES} for days in ranges if days["from"] != too_long]
    doubts = await _trip(
        worker,
        *(("forget_days", days) for days in ranges),
        *(("may_be_crowded", days) for days in examined),
    )
    doubtful = [
        days for days, ((doubt,),) in zip(examined, doubts[len(ranges) :], strict=True) if doubt
    ]
    for rows in await _trip(worker, *(("crowded_days", days) for days in doubtful)):
        crowded.update(day for (day,) in rows)
    complete = [day for day in dates if day not in crowded]
    months = [
        {"user_id": user_id} | _month(month)
        for month in sorted({day.replace(day=1) for day in dates})
    ]
    # The months come after the days and their marks: a month with a marked day is read by days, so it needs
    # no rollup.
    marked = await _trip(
        worker,
        *(
            step
            for first, last in rounds.in_a_row(complete)
            for step in _day_steps({"user_id": user_id, "from": first, "to": last})
        ),
        ("remove_marks", {"user_id": user_id, "dates": complete}),
        ("leave_raw", {"user_id": user_id, "dates": sorted(crowded)}),
        *(("forget_month", days) for days in months),
        *(("mark_attention", days) for days in ranges),
        *(("has_marks", days) for days in months),
    )
    await _trip(
        worker,
        *(
            step
            for days, ((is_marked,),) in zip(
                months, marked[len(marked) - len(months) :], strict=True
            )
            if not is_marked
            for step in _sum_steps("month", days)
        ),
    )
    spans_marked = marked[len(marked) - len(months) - len(ranges) : len(marked) - len(months)]
    return len(complete), any(spans_marked)


def _day_steps(days: dict[str, Any]) -> Iterator[Named]:
    """Yield the statements that write the rollups of consecutive days."""
    for statement in ("add_labels", "make_app_quarters", "make_coding_quarters"):
        yield statement, days
    yield from _sum_steps("hour", days)
    yield from _sum_steps("day", days)


def _sum_steps(unit: str, days: dict[str, Any]) -> Iterator[Named]:
    for statement in ("add_up_app", "add_up_coding"):
        yield statement, days | {"unit": unit, "grain": _GRAINS[unit]}


async def _trip(worker: Connection, *steps: Named) -> list[list[Any]]:
    """Send the statements of these names in one round trip, and return the rows of each."""
    return await rounds.trip(worker, *((SQL[name], parameters) for name, parameters in steps))
