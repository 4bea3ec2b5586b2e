"""Rounds of the jobs that work on days: turns of people, a connection for commands, days in a row."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from itertools import groupby
from typing import Final, TypeVar
from uuid import UUID

import psycopg

from shared.pool import Connection

Days = tuple[date, date]
"""The first and the last of some days in a row."""
MONTH: Final = 31
"""Most days that are gone about in one statement."""
PEOPLE: Final = 100
"""How many people are listed at a time."""
TURN: Final = timedelta(seconds=30)
"""How long a turn of one person may take; a month of days usually takes less than a second."""

Progress = TypeVar("Progress")


async def go_round(
    due: Callable[[UUID], Awaitable[list[UUID]]],
    turn: Callable[[UUID, Progress | None], Awaitable[Progress | None]],
) -> None:
    """Give each person who is due one turn after the other, round after round, until all have finished.

    ``due`` lists at most ``PEOPLE`` ids after one, in order. It is asked again in each round, so that a
    person with years of work keeps nobody waiting for longer than a turn. ``turn`` returns how far it is, or
    None when it has finished; a person who has finished waits for the next run, even if something is due
    again.
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
    """A connection for the time of the block, for a command, which needs one alone and only once."""
    worker = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)
    try:
        yield worker
    finally:
        await worker.close()


def in_a_row(days: Iterable[date], most: int = MONTH) -> Iterator[Days]:
    """Yield the days as few stretches without a gap, each of at most ``most`` days."""
    # Days in a row have the same distance from their places in the order.
    ordered = enumerate(sorted(days))
    for _, stretch in groupby(ordered, key=lambda numbered: numbered[1].toordinal() - numbered[0]):
        together = [day for _, day in stretch]
        for start in range(0, len(together), most):
            part = together[start : start + most]
            yield part[0], part[-1]
