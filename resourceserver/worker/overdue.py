"""The job of a resource server beside a worker that logs when no worker takes turns."""

import logging
from datetime import timedelta
from typing import Final

from resourceserver.worker.turns import SQL
from shared import pipeline, schema
from shared.jobs import Job
from shared.pool import Connection

log = logging.getLogger("svc.worker")

INTERVAL: Final = timedelta(minutes=5)
OVERDUE: Final = (
    "SVC_WORKER is on, but no worker takes turns, and work has waited for more than 15 minutes: "
    "start 'svc resource work'"
)


def job(interval: timedelta = INTERVAL) -> Job:
    """Return the background job. It needs connections of the ``worker`` role."""
    return Job(look, interval, log, "overdue turns are looked for later")


async def look(worker: Connection) -> None:
    """Log it if work waits and no worker takes turns. Raises psycopg.Error."""
    with pipeline.first_statement():
        cursor = await worker.execute(SQL["is_overdue"], schema.VERSION)
    if await cursor.fetchone() == (True,):
        log.error("%s", OVERDUE)
