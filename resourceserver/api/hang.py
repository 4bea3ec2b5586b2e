"""Notices a database that hangs, so that nobody waits for it longer than a moment.

    an answer is late ──► `select 1` in vain ──► once more in vain ──► the database hangs
                                                                              │
    questions are asked again ◄── `select 1` is answered ◄── all questions fail at once

A database that is gone says so: connections break or cannot be made. One that hangs says nothing, and each
question would be waited for as long as a slow one may take. The probe has a connection of its own and asks
what is always answered at once, so a slow question never counts as a database that hangs.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import psycopg

from shared.pipeline import Pipelines
from shared.probes import ALIVE

LATE_S: Final = 0.5
"""How long an answer may take before the database is probed."""
_PAUSE_S: Final = 0.25
"""How long to wait before looking again."""
_PROBE_S: Final = 1.0
"""How long a probe may take."""
_PROBES: Final = 2
"""How many probes have to fail one after the other."""


@asynccontextmanager
async def noticed(probe: Pipelines, watched: Sequence[Pipelines]) -> AsyncIterator[None]:
    """Let what is asked of ``watched`` fail while the database hangs, to the end of the block."""
    task = asyncio.create_task(_watch(probe, watched), name="hang-watch")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(probe: Pipelines, watched: Sequence[Pipelines]) -> None:
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
    """Tell whether probes remain without any answer, be it an error."""
    for _ in range(_PROBES):
        try:
            async with asyncio.timeout(_PROBE_S):
                await probe.run((ALIVE,))
        except TimeoutError:
            # Only this connection may be dead, so the next probe has a new one.
            probe.halt()
            probe.resume()
        except psycopg.Error as error:
            # Refused or broken connections say that the database is gone. One that cannot be made in time
            # says nothing, like an answer that does not come.
            if not isinstance(error.__cause__, TimeoutError):
                return False
        else:
            return False
    return True
