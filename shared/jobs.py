"""Background jobs of a server: work that runs again after each interval.

    start ──up to one interval──► run ──one interval, a tenth more or less──► run ──► … until the server stops

All jobs of both servers run in this loop. A run that fails is logged and changes nothing for the next one.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import psycopg

from shared import schema
from shared.pool import Connection, Pool
from shared.settings import Settings


@dataclass(frozen=True)
class Job:
    """Work that needs a connection, and the log line for a failure."""

    work: Callable[[Connection], Awaitable[object]]
    interval: timedelta
    log: logging.Logger
    failure: str


@asynccontextmanager
async def running(chosen: Settings, workers: Pool, jobs: Iterable[Job]) -> AsyncIterator[None]:
    """Run each of ``jobs`` again and again until the end of the block, unless SVC_JOBS is off.

    A run takes its connection from ``workers``, and waits as long as other jobs have them all. At the end,
    runs are cancelled: their transactions are rolled back, and another process or the next start does that
    work.
    """
    tasks = [asyncio.create_task(_repeat(job, workers)) for job in jobs if chosen.jobs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _repeat(job: Job, workers: Pool) -> None:
    # Servers that are started together must not all run a job at the same moment.
    wait = job.interval.total_seconds() * _uniform(0, 1)
    while True:
        await asyncio.sleep(wait)
        try:
            async with workers.connection() as connection:
                await job.work(connection)
        except psycopg.Error as error:
            # A message of Postgres may quote a person's data, so only its kind is logged.
            if not schema.log_mismatch(error):
                job.log.warning("%s: %s", job.failure, type(error).__name__)
        except Exception:
            # Without this, the task would end silently and the job would never run again.
            job.log.exception("%s", job.failure)
        wait = job.interval.total_seconds() * _uniform(0.9, 1.1)


def _uniform(least: float, most: float) -> float:
    return random.uniform(least, most)  # noqa: S311 -- the waits need not be unpredictable
