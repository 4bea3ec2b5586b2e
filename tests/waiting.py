"""Waits for an effect of another process, thread or task, with a time limit.

A test must not sleep and hope: it waits for the row, the lock or the line in a log that shows that the other
side has reached the point that the test needs.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import psycopg
import pytest

Found = TypeVar("Found")

LIMIT_S: Final = 60.0
"""Far longer than any of these effects takes on a busy machine."""
_PAUSE_S: Final = 0.01


def wait_for(find: Callable[[], Found], what: str, limit_s: float = LIMIT_S) -> Found:
    """Return the first true result of ``find``, and fail with ``what`` if there is none in time."""
    until = time.monotonic() + limit_s
    while not (found := find()):
        if time.monotonic() > until:
            pytest.fail(f"timed out after {limit_s:.0f} s: {what}")
        time.sleep(_PAUSE_S)
    return found


async def wait_for_async(find: Callable[[], Found], what: str, limit_s: float = LIMIT_S) -> Found:
    """Do the same among other tasks of this thread."""
    until = time.monotonic() + limit_s
    while not (found := find()):
        if time.monotonic() > until:
            pytest.fail(f"timed out after {limit_s:.0f} s: {what}")
        await asyncio.sleep(_PAUSE_S)
    return found


def wait_for_rivals(owner: psycopg.Connection[Any], count: int) -> None:
    """Return when so many connections wait for a lock, or more.

    A test does not always decide how many wait: requests of one person may go to two connections.
    """

    def waiting() -> bool:
        # Within a transaction the activity of others stays as it was first seen.
        owner.execute("select pg_stat_clear_snapshot()")
        # The wait events of pg_stat_activity are visible to superusers alone.
        row = owner.execute(
            "select count(distinct pid) >= %s from pg_locks join pg_stat_activity using (pid) "
            "where datname = current_database() and not granted",
            (count,),
        ).fetchone()
        return row == (True,)

    wait_for(waiting, f"{count} connections that wait for a lock")
