"""What the jobs that work on days share: a connection for commands, and days as a few stretches."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import date
from itertools import groupby
from typing import Final

import psycopg

from shared.pool import Connection

Days = tuple[date, date]
"""The first and the last of some days in a row."""
MONTH: Final = 31
"""Most days that are gone about in one statement."""


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
