"""When tokens were used last: true to the minute, and no write for any request.

    request, its token accepted ──► in memory ──once a minute, and at the end──► oauth.grant

A request pays for an assignment. What could not be written, because the database was gone or somebody
had the grant locked, stays for the next minute, and nobody who asks for data hears of it.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg

from shared import pipeline, queries, schema
from shared.pool import Pool
from shared.tokens import Token

log = logging.getLogger("svc.usage")

SQL: Final = queries.load(Path(__file__).with_name("usage.sql"))

INTERVAL: Final = timedelta(minutes=1)
MOST: Final = 100_000
"""Tokens whose use is remembered until it is written, some 30 MB. Of further ones it is not noted, until
there is room again."""
BATCH: Final = 1000
"""Tokens of one statement, so that it holds nobody's grant for long."""
_LAST_TURN_S: Final = 3.0
"""How long the server's end may wait for the last turn."""

Use = tuple[UUID, float]
"""Whose the token is, and when it was used, in seconds since 1970."""


@dataclass(frozen=True)
class Usage:
    """The tokens that were used and whose use is not written yet, by their hashes."""

    waiting: dict[bytes, Use] = field(default_factory=dict, repr=False)

    def note(self, token: Token) -> None:
        """Remember that ``token`` has just been accepted."""
        if len(self.waiting) < MOST or token.hash in self.waiting:
            self.waiting[token.hash] = (token.user_id, time.time())

    async def write(self, workers: Pool) -> None:
        """Write down what is waiting. Raises psycopg.Error; what was not written waits on."""
        due = list(self.waiting.items())
        for start in range(0, len(due), BATCH):
            batch = due[start : start + BATCH]
            locked = await _write(workers, batch)
            for token_hash, use in batch:
                # It may have been used again since.
                if token_hash not in locked and self.waiting[token_hash] is use:
                    del self.waiting[token_hash]


async def _write(workers: Pool, batch: Sequence[tuple[bytes, Use]]) -> set[bytes]:
    """Write uses down, and return the hashes of tokens that could not be reached now."""
    uses = {
        "user_ids": [user_id for _, (user_id, _) in batch],
        "token_hashes": [token_hash for token_hash, _ in batch],
        "used_at": [datetime.fromtimestamp(used_at, UTC) for _, (_, used_at) in batch],
    }
    async with workers.connection() as worker:
        with pipeline.first_statement():
            found = await worker.execute(SQL["note_uses"], {**uses, **schema.VERSION})
        return {token_hash for (token_hash,) in await found.fetchall()}


@asynccontextmanager
async def written(
    usage: Usage, workers: Pool, every: timedelta | None = INTERVAL
) -> AsyncIterator[None]:
    """Write ``usage`` down about ``every`` minute until the end of the block, and then once more.

    ``workers`` are connections of the ``worker`` role. With None for ``every`` it is written only at the end.
    """
    turns = (
        []
        if every is None
        else [asyncio.create_task(_take_turns(usage, workers, every.total_seconds()))]
    )
    try:
        yield
    finally:
        for turn in turns:
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST_TURN_S):
                await usage.write(workers)
        except (psycopg.Error, TimeoutError) as error:
            if not (isinstance(error, psycopg.Error) and schema.log_mismatch(error)):
                log.warning("when tokens were used last is not noted: %s", type(error).__name__)


async def _take_turns(usage: Usage, workers: Pool, interval_s: float) -> None:
    # Servers that are started together shall not all come at once.
    await asyncio.sleep(interval_s * random.random())  # noqa: S311 -- nobody gains by guessing it
    while True:
        try:
            await usage.write(workers)
        except psycopg.Error as error:
            if not schema.log_mismatch(error):
                log.warning("when tokens were used last is noted later: %s", type(error).__name__)
        except Exception:
            # Nobody waits for this task, so it would end without a word.
            log.exception("when tokens were used last is noted later")
        await asyncio.sleep(interval_s)
