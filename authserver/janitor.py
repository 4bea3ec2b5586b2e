"""The janitor, who removes what nobody needs any more: on a timer in each server, and by command.

It goes through its list in order, since what hangs on a row in great numbers goes before the row. Each
statement is a short transaction about a batch of rows that nobody else has locked. So any number of
janitors can be at work at once and beside requests, and whatever one of them leaves out, or is stopped
at, is there for the next turn.

What replay detection needs stays: a spent code as long as its grant, a rotated refresh token until it
would have expired.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import psycopg

from authserver import rows, sessions
from authserver.rows import Database
from shared.lines import Statement

log = logging.getLogger("svc.janitor")

SQL: Final = rows.load("janitor.sql", "throttle.sql")

INTERVAL: Final = timedelta(minutes=10)
BATCH: Final = 200

_MOST_BATCHES: Final = 5000
"""Of one kind in one turn, so that a turn ends however fast rows come."""
_PAUSE_S: Final = 0.02

KINDS: Final[tuple[tuple[str, Statement], ...]] = (
    ("authorization requests that expired", SQL["expired_requests"]),
    ("sign-in sessions without use for 30 days", SQL["idle_sessions"]),
    ("one-time links, a day after their end", SQL["ended_links"]),
    ("access tokens, a day after their end", SQL["expired_access_tokens"]),
    ("rotated refresh tokens that expired", SQL["expired_refresh_tokens"]),
    ("refresh tokens of grants revoked a day ago", SQL["refresh_tokens_of_revoked_grants"]),
    ("grants revoked a day ago", SQL["revoked_grants"]),
    ("grants not refreshed for 90 days", SQL["lapsed_grants"]),
    ("grants whose code was never redeemed", SQL["unredeemed_grants"]),
    ("API tokens, a day after their end", SQL["expired_api_tokens"]),
    ("applications that nobody let in within a day", SQL["unauthorized_clients"]),
    ("applications that nobody has used for 90 days", SQL["idle_clients"]),
    ("counts of attempts with nothing left to remember", SQL["forget_attempts"]),
    ("security events older than 400 days", SQL["old_security_events"]),
)


@dataclass(frozen=True)
class Removal:
    """How many rows of a kind were removed."""

    kind: str
    count: int


async def clean(database: Database, *, batch: int = BATCH) -> list[Removal]:
    """Remove what can go, ``batch`` rows at a time, and return what that was. Raises psycopg.Error."""
    return [Removal(kind, await _remove(database, statement, batch)) for kind, statement in KINDS]


async def _remove(database: Database, statement: Statement, batch: int) -> int:
    parameters = {"batch": batch, "idle_lifetime": sessions.IDLE_LIFETIME}
    removed = 0
    for _ in range(_MOST_BATCHES):
        count = await rows.execute(database, statement, parameters)
        removed += count
        if count < batch:
            break
        # Requests go first.
        await asyncio.sleep(_PAUSE_S)
    return removed


@asynccontextmanager
async def at_work(database: Database, interval: timedelta = INTERVAL) -> AsyncIterator[None]:
    """Have the janitor come about every ``interval`` until the end of the block."""
    turns = asyncio.create_task(_take_turns(database, interval.total_seconds()))
    try:
        yield
    finally:
        turns.cancel()
        await asyncio.wait([turns])


async def _take_turns(database: Database, interval_s: float) -> None:
    # Servers that are started together shall not all come at once, now or later.
    wait_s = interval_s * _between(0, 1)
    while True:
        await asyncio.sleep(wait_s)
        try:
            removals = await clean(database)
        except psycopg.Error as error:
            log.warning("the janitor comes again later: %s", " ".join(str(error).split()))
        else:
            _note(removals)
        wait_s = interval_s * _between(0.9, 1.1)


def _between(least: float, most: float) -> float:
    return random.uniform(least, most)  # noqa: S311 -- nothing depends on nobody's guessing it


def _note(removals: list[Removal]) -> None:
    found = [f"{removal.count} {removal.kind}" for removal in removals if removal.count]
    if found:
        log.info("removed: %s", "; ".join(found))
