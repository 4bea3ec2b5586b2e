"""The janitor: deletes expired and unused rows, on a timer in each server and by command.

It works through its list in order: numerous dependent rows are deleted before the row that they refer to.
Each statement is a short transaction on a batch of rows and skips locked rows. So several janitors can run
at once and beside requests, and rows that one run skips are left for the next. A kind that cannot be
deleted does not prevent the others.

Rows that replay detection needs are kept: a spent code as long as its grant, and a rotated refresh token that
does not name its grant until it would have expired. One that names its grant (lineage.py) is kept for a day.
The dashboard's spent codes are deleted when their tokens have ended (oauth/grants.sql).
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import psycopg

from authserver import rows
from authserver.people import sessions
from shared import pipeline, queries, schema
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.jobs import Job
from shared.pool import Connection

log = logging.getLogger("svc.janitor")

_HERE: Final = Path(__file__).parent
SQL: Final = queries.load(_HERE / "janitor.sql", _HERE / "people/throttle.sql")

INTERVAL: Final = timedelta(minutes=10)
BATCH: Final = 200

_MAX_BATCHES: Final = 5000
"""Per kind and run, so that a run ends however fast rows are added."""
_PAUSE_S: Final = 0.02


@dataclass(frozen=True)
class Kind:
    """Rows that are deleted for one reason, and the statement that deletes a batch of them."""

    name: str
    statement: str
    prepare: str | None = None
    """Runs to completion first. It deletes nothing."""


KINDS: Final = (
    Kind("authorization requests that expired", SQL["expired_requests"]),
    Kind("sign-in sessions without use for 30 days", SQL["idle_sessions"]),
    Kind("sign-ins at the provider that were not completed", SQL["expired_provider_sign_ins"]),
    Kind("logouts at the provider, an hour after them", SQL["old_provider_logouts"]),
    Kind("one-time links, a day after their end", SQL["ended_links"]),
    Kind("links to reset a password that expired", SQL["expired_resets"]),
    Kind("passkey challenges, a day after their end", SQL["spent_challenges"]),
    Kind("access tokens, a day after their end", SQL["expired_access_tokens"]),
    Kind("rotated refresh tokens that expired", SQL["expired_refresh_tokens"]),
    Kind("refresh tokens rotated a day ago", SQL["rotated_refresh_tokens"]),
    Kind("answers to refreshes that cannot be repeated", SQL["expired_answers"]),
    Kind("refresh tokens of grants revoked a day ago", SQL["refresh_tokens_of_revoked_grants"]),
    Kind("grants revoked a day ago", SQL["revoked_grants"], prepare=SQL["record_last_use"]),
    Kind("grants not refreshed for 90 days", SQL["lapsed_grants"]),
    Kind("grants whose code was never redeemed", SQL["unredeemed_grants"]),
    Kind("grants that no device fetched", SQL["unfetched_grants"]),
    Kind("requests of devices, a day after their end", SQL["expired_devices"]),
    Kind("API tokens, a day after their end", SQL["expired_api_tokens"]),
    Kind("documents of applications without a consent for a day", SQL["unallowed_documents"]),
    Kind("applications without a consent for 90 days", SQL["unauthorized_clients"]),
    Kind("applications without use for two years", SQL["idle_clients"]),
    Kind("expired counts of attempts", SQL["delete_idle_keys"]),
    Kind("security events older than 400 days", SQL["old_security_events"]),
    Kind("beats of editors older than 30 days", SQL["old_beats"]),
    Kind("messages about health older than 30 days", SQL["old_health"]),
    # This may take longest, so it is last.
    Kind("data of accounts that were deleted", SQL["data_of_deleted_accounts"]),
)


@dataclass(frozen=True)
class Removal:
    """How many rows of a kind were deleted, and the error that stopped the deletion, if any."""

    kind: str
    count: int
    error: str | None = None
    """One line."""


async def clean(connection: Connection, *, batch: int = BATCH) -> list[Removal]:
    """Remove what can go, ``batch`` rows at a time, and return what that was.

    Raises psycopg.Error where the connection is lost.
    """
    return [await _remove(connection, kind, batch) for kind in KINDS]


async def _remove(connection: Connection, kind: Kind, batch: int) -> Removal:
    removed = 0
    try:
        if kind.prepare is not None:
            async for _ in _batches(connection, kind.prepare, batch):
                pass
        async for count in _batches(connection, kind.statement, batch):
            removed += count
    except psycopg.Error as error:
        if connection.broken:
            raise
        return Removal(kind.name, removed, rows.reason(error))
    return Removal(kind.name, removed)


async def _batches(connection: Connection, statement: str, batch: int) -> AsyncIterator[int]:
    """Yield how many rows each batch was, until there is no full one."""
    for _ in range(_MAX_BATCHES):
        count = await remove_batch(connection, statement, batch)
        yield count
        if count < batch:
            break
        # Leave the database to requests for a moment.
        await asyncio.sleep(_PAUSE_S)


async def remove_batch(connection: Connection, statement: str, batch: int) -> int:
    """Remove at most ``batch`` rows, and return how many that was. Raises psycopg.Error."""
    parameters = {
        "batch": batch,
        "idle_lifetime": sessions.IDLE_LIFETIME,
        "dashboard_client_id": DASHBOARD_CLIENT_ID,
    }
    async with connection.transaction():
        with pipeline.first_statement():
            await connection.execute(schema.CHECK, schema.VERSION)
        removed = await connection.execute(statement, parameters)
    return removed.rowcount


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the janitor as a background job. It needs connections of the ``authserver`` role."""
    return Job(_clean_and_log, interval, log, "the janitor failed and will run again")


async def _clean_and_log(connection: Connection) -> None:
    _log_removals(await clean(connection))


def _log_removals(removals: list[Removal]) -> None:
    for removal in removals:
        if removal.error is not None:
            log.warning("could not remove %s: %s", removal.kind, removal.error)
    counts = [f"{removal.count} {removal.kind}" for removal in removals if removal.count]
    if counts:
        log.info("removed: %s", "; ".join(counts))
