"""The turn that removes the records of imports that a person has undone.

It is one transaction: a worker that is killed has removed nothing, and another one does it again.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from resourceserver.worker.turns import Outcome, Turn
from shared import queries, schema
from shared.pool import Pool

SQL: Final = queries.load(Path(__file__).with_name("undo.sql"))


def handler(workers: Pool) -> Callable[[Turn], Awaitable[Outcome]]:
    """Return the handler; ``workers`` has connections of the worker role."""

    async def remove(turn: Turn) -> Outcome:
        async with workers.connection() as worker, worker.transaction():
            await worker.execute(SQL["lift_time_limit"])
            found = await worker.execute(
                SQL["remove_undone"], {"user_id": turn.user_id, **schema.VERSION}
            )
            (count,) = await found.fetchone() or (0,)
        return Outcome(f"imports={count}" if count else "")

    return remove
