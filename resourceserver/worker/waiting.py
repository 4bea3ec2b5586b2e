"""How much work waits, for metrics: read from the database, since it counts the marks of all people.

A number that is older than a minute is no longer shown: a database that does not answer must not look as if
nothing had changed.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from resourceserver.worker.turns import SQL
from shared import metrics, pipeline, schema
from shared.jobs import Job
from shared.metrics import Reading
from shared.pool import Connection

log = logging.getLogger("svc.worker")

INTERVAL: Final = timedelta(seconds=15)
_STALE_S: Final = 60.0
_GAUGES: Final = (
    metrics.PEOPLE_MARKED,
    metrics.OLDEST_MARK,
    metrics.TURNS_DUE,
    metrics.TURNS_RUNNING,
    metrics.OLDEST_TURN,
)
_MARKED: Final = ("rollups", "summaries", "visits")
"""The kinds that are always there, so that nothing waiting is 0 and not unknown."""


@dataclass(eq=False)
class Waiting:
    """The work that waits, as of the last look."""

    kinds: tuple[str, ...] = _MARKED
    rows: tuple[tuple[Any, ...], ...] = ()
    looked_at: float | None = None

    def job(self, interval: timedelta = INTERVAL) -> Job:
        """Return the background job that looks. It needs connections of the ``worker`` role."""
        return Job(self.look, interval, log, "how much work waits is looked for later")

    async def look(self, worker: Connection) -> None:
        """Look how much work waits. Raises psycopg.Error."""
        with pipeline.first_statement():
            cursor = await worker.execute(SQL["work_waiting"], schema.VERSION)
        self.rows = tuple(await cursor.fetchall())
        self.looked_at = time.monotonic()

    def readings(self) -> Iterator[Reading]:
        """Yield the numbers, unless they are too old."""
        if self.looked_at is None or time.monotonic() - self.looked_at > _STALE_S:
            return
        found = {kind: values for kind, *values in self.rows}
        for kind in sorted({*self.kinds, *found}):
            for gauge, value in zip(_GAUGES, found.get(kind, (0,) * len(_GAUGES)), strict=True):
                yield gauge, (kind,), value
