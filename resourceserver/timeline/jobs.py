"""What the jobs of the worker share: they come back every so often, and go about days in a row."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from itertools import groupby
from typing import Final

import psycopg

from shared import schema
from shared.pool import Connection, Pool

Days = tuple[date, date]
"""The first and the last of some days in a row."""
MONTH: Final = 31
"""Most days that are gone about in one statement."""


@asynccontextmanager
async def repeated(
    work: Callable[[Connection], Awaitable[object]],
    workers: Pool,
    every: timedelta,
    log: logging.Logger,
    failure: str,
) -> AsyncIterator[None]:
    """Have ``work`` done about ``every`` so often until the end of the block.

    ``workers`` are connections of the ``worker`` role. Where it cannot be done, ``log`` is told ``failure``.
    What is under way at the end is given up, and done by whoever comes next.
    """
    turns = asyncio.create_task(_take_turns(work, workers, every.total_seconds(), log, failure))
    try:
        yield
    finally:
        turns.cancel()
        await asyncio.gather(turns, return_exceptions=True)


async def _take_turns(
    work: Callable[[Connection], Awaitable[object]],
    workers: Pool,
    interval_s: float,
    log: logging.Logger,
    failure: str,
) -> None:
    # Servers that are started together shall not all come at once.
    await asyncio.sleep(interval_s * random.random())  # noqa: S311 -- nobody gains by guessing it
    while True:
        try:
            async with workers.connection() as worker:
                await work(worker)
        except psycopg.Error as error:
            if not schema.log_mismatch(error):
                log.warning("%s: %s", failure, type(error).__name__)
        except Exception:
            # Nobody waits for this task, so it would end without a word.
            log.exception("%s", failure)
        await asyncio.sleep(interval_s)


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
