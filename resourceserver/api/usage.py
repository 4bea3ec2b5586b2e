"""The time of last use of each token: exact to the minute, without a write for each request.

    request, its token accepted ──► in memory ──once a minute, and at the end──► oauth.grant

A request costs an assignment. A use that cannot be written, because the database is unreachable or the grant
is locked, stays for the next minute, and no request fails because of it.

The first use of a token that came from a refresh which can be repeated is written at once, before the answer
(``Reader.check``): afterwards the refresh cannot be repeated any more.
"""

import asyncio
import logging
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
from shared.jobs import Job
from shared.pool import Connection, Pool
from shared.tokens import Token

log = logging.getLogger("svc.usage")

SQL: Final = queries.load(Path(__file__).with_name("usage.sql"))

INTERVAL: Final = timedelta(minutes=1)
MOST: Final = 100_000
"""The most tokens whose use waits to be written, some 30 MB. Uses of others are not recorded until there is
room again."""
BATCH: Final = 1000
"""The tokens of one statement, so that it locks grants only for a short time."""
_LAST_WRITE_S: Final = 3.0
"""How long the stopping server waits for the last write."""

Use = tuple[UUID, float]
"""The owner of a token, and the time of its use in seconds since 1970."""


@dataclass(frozen=True)
class Usage:
    """The uses of tokens that are not written yet, by the tokens' hashes."""

    waiting: dict[bytes, Use] = field(default_factory=dict, repr=False)

    def note(self, token: Token) -> None:
        """Remember that ``token`` has just been accepted."""
        if len(self.waiting) < MOST or token.hash in self.waiting:
            self.waiting[token.hash] = (token.user_id, time.time())

    async def write(self, worker: Connection) -> None:
        """Write the waiting uses. Raises psycopg.Error; uses that were not written keep waiting."""
        due = list(self.waiting.items())
        for start in range(0, len(due), BATCH):
            batch = due[start : start + BATCH]
            locked = await _write(worker, batch)
            for token_hash, use in batch:
                # The token may have been used again since.
                if token_hash not in locked and self.waiting[token_hash] is use:
                    del self.waiting[token_hash]


async def _write(worker: Connection, batch: Sequence[tuple[bytes, Use]]) -> set[bytes]:
    """Write uses, and return the hashes of tokens whose grants are locked now."""
    uses = {
        "user_ids": [user_id for _, (user_id, _) in batch],
        "token_hashes": [token_hash for token_hash, _ in batch],
        "used_at": [datetime.fromtimestamp(used_at, UTC) for _, (_, used_at) in batch],
    }
    with pipeline.first_statement():
        found = await worker.execute(SQL["note_uses"], {**uses, **schema.VERSION})
    return {token_hash for (token_hash,) in await found.fetchall()}


def job(usage: Usage, interval: timedelta = INTERVAL) -> Job:
    """Return the background job that writes ``usage``. It needs connections of the ``worker`` role."""
    return Job(usage.write, interval, log, "when tokens were used last is written later")


@asynccontextmanager
async def written_at_the_end(usage: Usage, workers: Pool) -> AsyncIterator[None]:
    """Write ``usage`` at the end of the block, with a connection of ``workers``, of the ``worker`` role."""
    try:
        yield
    finally:
        try:
            async with asyncio.timeout(_LAST_WRITE_S):
                await _write_rest(usage, workers)
        except (psycopg.Error, TimeoutError) as error:
            if not (isinstance(error, psycopg.Error) and schema.log_mismatch(error)):
                log.warning("when tokens were used last is not written: %s", type(error).__name__)


async def _write_rest(usage: Usage, workers: Pool) -> None:
    if usage.waiting:
        async with workers.connection() as worker:
            await usage.write(worker)
