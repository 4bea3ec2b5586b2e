"""The watch over a database that hangs, so that requests fail after a moment instead of waiting.

    an answer is late ──► `select 1` fails ──► it fails again ──► the database hangs
                                                                         │
    statements are sent again ◄── `select 1` is answered ◄── all waiting statements fail at once

A stopped database causes errors: connections break or are refused. A database that hangs causes none, and
each statement would wait for its whole time limit. The probe has a connection of its own and sends a
statement that is always answered at once, so a slow statement never counts as a database that hangs.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import psycopg

from shared.pipeline import Pipelines
from shared.probes import ALIVE

LATE_S: Final = 0.5
"""The time after which a missing answer starts a probe."""
_PAUSE_S: Final = 0.25
"""The pause between two looks at the waiting times."""
PROBE_S = 1.0
"""The time limit of a probe."""
_PROBES: Final = 2
"""The number of consecutive failed probes that means a hang."""


class Watched(Protocol):
    """Connections whose statements can be failed, such as ``Pipelines``."""

    def longest_wait_s(self) -> float:
        """Return the longest time that a current answer has been waited for."""

    def halt(self) -> None:
        """Refuse every request until ``resume``, including those that wait for an answer."""

    def resume(self) -> None:
        """Accept requests again."""


@asynccontextmanager
async def noticed(probe: Pipelines, watched: Sequence[Watched]) -> AsyncIterator[None]:
    """Fail the statements of ``watched`` while the database hangs, until the end of the block."""
    task = asyncio.create_task(_watch(probe, watched), name="hang-watch")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(probe: Pipelines, watched: Sequence[Watched]) -> None:
    while True:
        await asyncio.sleep(_PAUSE_S)
        if max(each.longest_wait_s() for each in watched) < LATE_S or not await _hangs(probe):
            continue
        for each in watched:
            each.halt()
        while await _hangs(probe):
            pass
        for each in watched:
            each.resume()


async def _hangs(probe: Pipelines) -> bool:
    """Tell whether consecutive probes get neither an answer nor an error."""
    for _ in range(_PROBES):
        try:
            async with asyncio.timeout(PROBE_S):
                await probe.run((ALIVE,))
        except TimeoutError:
            # Perhaps only this connection is dead, so the next probe has a new one.
            probe.halt()
            probe.resume()
        except psycopg.Error as error:
            # A refused or broken connection means that the database is stopped. A timeout while connecting
            # means nothing, like an answer that does not come.
            if not isinstance(error.__cause__, TimeoutError):
                return False
        else:
            return False
    return True
