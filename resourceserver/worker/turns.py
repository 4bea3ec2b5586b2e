"""What a turn of the worker is: its kind, its outcome, and how long it waits after a failure.

A turn is work for one person: one import, one month of rollups. It does one unit of work; where more is left,
it goes to the end of the queue, so that nobody waits behind all the work of another person. A worker may be
killed at any moment, and another one then does the turn again: what a handler does must be repeatable.
"""

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

from shared import queries
from shared.jobs import Job

SQL: Final = queries.load(Path(__file__).with_name("turns.sql"))

LAST: Final = timedelta(0)
"""The wait of a turn that comes again, behind all others that are due."""
_FIRST_WAIT: Final = timedelta(seconds=5)
_LONGEST_WAIT: Final = timedelta(minutes=10)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Turn:
    """A turn that a worker has."""

    user_id: UUID
    kind: str
    attempt: int
    """1, unless earlier attempts failed or their workers were killed."""


@dataclass(frozen=True)
class Outcome:
    """What a turn has done."""

    log: str = ""
    """What the log line says of it, as ``key=value``; nothing is logged of a turn that did nothing."""
    wait: timedelta | None = None
    """The time after which the person's next turn is due; None: when something makes it due."""


class Later(Exception):
    """The turn failed, and the next attempt should come after a time that the other side has named."""

    def __init__(self, wait: timedelta) -> None:
        """Keep the time."""
        super().__init__()
        self.wait = wait


Handler = Callable[[Turn], Awaitable[Outcome]]
"""Does the work of a turn. It is cancelled when the worker stops or has lost the turn."""


@dataclass(frozen=True)
class Kind:
    """A kind of work."""

    name: str
    handle: Handler
    places: int = 1
    """The most turns of this kind that a worker does at once."""
    look: Job | None = None
    """The job that makes turns due, for a kind whose work is listed elsewhere."""
    frees_space: bool = False
    """Whether turns are taken while the disk is full, since they remove more than they write."""


def backoff(attempt: int) -> timedelta:
    """Return the wait after the failure of an attempt: twice as long each time, half more or less."""
    wait = min(_FIRST_WAIT * (1 << min(attempt - 1, 10)), _LONGEST_WAIT)
    return wait * random.uniform(0.5, 1.5)  # noqa: S311 -- the wait need not be unpredictable


async def in_thread(work: Callable[[threading.Event], Result]) -> Result:
    """Return the result of ``work``, done in a thread of its own; for handlers that block.

    A cancellation sets the event of ``work``, which then should end soon, and waits for its end: the turn is
    given back only when nothing is done for it any more.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        future = asyncio.get_running_loop().run_in_executor(threads, work, stop)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([future])
            if future.exception() is None:
                return future.result()
            raise
