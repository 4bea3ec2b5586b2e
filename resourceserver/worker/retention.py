"""The turn that removes the sessions of old years, where the operator keeps them for some years only.

A turn removes one month of one person, in one transaction (sql/functions/retention.sql). Before the first
one, the months are closed: from then on no sessions of that time are accepted. Rollups and summaries of the
days must be made by then, since nothing can make them again. Where more years are kept than before, or all,
months that were closed and not removed are opened again.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from psycopg.errors import SerializationFailure

from resourceserver.worker.turns import LAST, Outcome, Turn
from shared import pipeline, queries, schema
from shared.pool import Connection, Pool

SQL: Final = queries.load(Path(__file__).with_name("retention.sql"))

INTERVAL: Final = timedelta(hours=1)
_PEOPLE: Final = 1000
_WAIT: Final = timedelta(minutes=11)
"""Longer than a batch may take that was being written when the months were closed."""


async def people_due(worker: Connection, after: UUID, years: int | None) -> list[UUID]:
    """Return ids after one, of people with sessions to remove or with months to open again."""
    with pipeline.first_statement():
        cursor = await worker.execute(
            SQL["people_due"],
            {"after": after, "years": years, "limit": _PEOPLE, **schema.VERSION},
        )
    return [user_id for (user_id,) in await cursor.fetchall()]


def handler(workers: Pool, years: int | None) -> Callable[[Turn], Awaitable[Outcome]]:
    """Return the handler; ``workers`` has connections of the worker role. All is kept without ``years``."""

    async def remove(turn: Turn) -> Outcome:
        try:
            async with workers.connection() as worker, worker.transaction():
                await worker.execute(SQL["lift_time_limit"])
                cursor = await worker.execute(
                    SQL["remove_old_sessions"],
                    {"user_id": turn.user_id, "years": years, **schema.VERSION},
                )
                state, apps, coding, before = await cursor.fetchone() or ("done", 0, 0, None)
        except SerializationFailure:
            # An import changed sessions of the month meanwhile; their days are rolled up first.
            return Outcome(wait=_WAIT)
        match state:
            case "removed":
                return Outcome(
                    f"before={before} app_sessions={apps} coding_sessions={coding}", LAST
                )
            case "opened":
                return Outcome(f"opened_from={before or 'the_first_day'}", LAST)
            case "closed":
                return Outcome(f"closed_before={before}", _WAIT)
            case "waiting":
                return Outcome(wait=_WAIT)
            case _:
                return Outcome()

    return remove
