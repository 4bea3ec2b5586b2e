"""Functions that the jobs about days share: turns of people, round trips, commands' connection, ranges."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import date, timedelta
from functools import cache
from itertools import groupby
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg

from shared import pipeline
from shared.pool import Connection

Days = tuple[date, date]
"""The first and the last of some consecutive days."""
MONTH: Final = 31
"""The most days that one statement covers."""
PEOPLE: Final = 100
"""The number of people in one list."""
TURN: Final = timedelta(seconds=30)
"""The time limit of one person's turn; a month of days usually takes less than a second."""

Step = tuple[str, Mapping[str, Any]]
"""A statement with its parameters."""

Progress = TypeVar("Progress")

# psycopg keeps what it has parsed of short statements alone, and parses a long one anew at each execution.
_numbered: Final = cache(pipeline.statement)


async def go_round(
    due: Callable[[UUID], Awaitable[list[UUID]]],
    turn: Callable[[UUID, Progress | None], Awaitable[Progress | None]],
) -> None:
    """Give each person who has due days one turn after the other, in rounds, until all have finished.

    ``due`` lists at most ``PEOPLE`` ids after one, in order. Each round calls it again, so that a person with
    years of work delays others by at most a turn. ``turn`` returns the person's progress, or None when they
    have finished; a finished person waits for the next run, even if more days become due.
    """
    finished: set[UUID] = set()
    progress: dict[UUID, Progress] = {}
    while True:
        going: dict[UUID, Progress] = {}
        after = UUID(int=0)
        while True:
            people = await due(after)
            for after in people:
                if after in finished:
                    continue
                state = await turn(after, progress.get(after))
                if state is None:
                    finished.add(after)
                else:
                    going[after] = state
            if len(people) < PEOPLE:
                break
        if not going:
            return
        progress = going


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """A connection for the time of the block, for a command, which needs only one."""
    worker = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)
    try:
        yield worker
    finally:
        await worker.close()


async def trip(worker: Connection, *steps: Step) -> list[list[Any]]:
    """Send statements in one round trip, and return the rows of each. Raises psycopg.Error."""
    if not steps:
        return []
    cursors = []
    async with worker.pipeline():
        for text, parameters in steps:
            statement = _numbered(text)
            cursor = psycopg.AsyncRawCursor(worker)
            await cursor.execute(
                statement.text, [parameters[name] for name in statement.parameters]
            )
            cursors.append(cursor)
    return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


def in_a_row(days: Iterable[date], most: int = MONTH) -> Iterator[Days]:
    """Yield the days as few ranges without a gap, each of at most ``most`` days."""
    # The difference between a day and its place in the order is constant within a range.
    ordered = enumerate(sorted(days))
    for _, stretch in groupby(ordered, key=lambda numbered: numbered[1].toordinal() - numbered[0]):
        together = [day for _, day in stretch]
        for start in range(0, len(together), most):
            part = together[start : start + most]
            yield part[0], part[-1]
