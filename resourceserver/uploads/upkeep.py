"""The job that removes files of uploads that ended, expired, or whose account is deleted.

It also notes which directory this process uses, and logs if the worker uses another one, which could not
find the files that are to be imported.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import psycopg

from resourceserver.uploads.directory import Directory
from shared import pipeline, queries, schema
from shared.jobs import Job
from shared.pool import Connection, Pool

log = logging.getLogger("svc.uploads")

SQL: Final = queries.load(Path(__file__).with_name("upkeep.sql"))

INTERVAL: Final = timedelta(minutes=1)
_BATCH: Final = 100
"""The files that are looked at at once; each is open meanwhile."""

Process = Literal["server", "worker"]


def job(directory: Directory, interval: timedelta = INTERVAL) -> Job:
    """Return the background job. It needs connections of the ``worker`` role."""
    return Job(partial(clean, directory), interval, log, "uploads are cleaned up later")


async def clean(directory: Directory, worker: Connection) -> int:
    """Remove the files that are not needed; return their number. Raises psycopg.Error and OSError."""
    with pipeline.first_statement():
        await worker.execute(SQL["expire"], schema.VERSION)
    count = 0
    found = await asyncio.to_thread(directory.uploads)
    for start in range(0, len(found), _BATCH):
        # They are locked before the question, so that no upload begins between answer and removal.
        with directory.held(found[start : start + _BATCH]) as free:
            cursor = await worker.execute(SQL["unneeded"], {"upload_ids": free, **schema.VERSION})
            unneeded = [upload_id for (upload_id,) in await cursor.fetchall()]
            for upload_id in unneeded:
                # Removing a large file takes a while.
                await asyncio.to_thread(directory.remove, upload_id)
            count += len(unneeded)
    return count


@asynccontextmanager
async def comparing_directories(
    directory: Directory | None, process: Process, workers: Pool
) -> AsyncIterator[None]:
    """Note the directory of a process when it starts, without delaying the start."""
    if directory is None:
        yield
        return
    noting = asyncio.create_task(_note_when_possible(directory, process, workers))
    try:
        yield
    finally:
        noting.cancel()
        await asyncio.gather(noting, return_exceptions=True)


async def _note_when_possible(directory: Directory, process: Process, workers: Pool) -> None:
    """Directory and database may both be missing now, and be there when files come."""
    try:
        directory_id = await asyncio.to_thread(directory.prepare)
        async with workers.connection() as worker:
            other = await note(worker, process, directory_id)
    except OSError as error:
        log.error("SVC_UPLOAD_DIR: %s cannot be used: %s", directory.path, error.strerror)
    except psycopg.Error as error:
        if not schema.log_mismatch(error):
            log.warning("SVC_UPLOAD_DIR: not compared with the worker's: %s", type(error).__name__)
    else:
        if other not in (None, directory_id):
            log.error("SVC_UPLOAD_DIR: %s", DIFFERENT[process])


async def note(worker: Connection, process: Process, directory_id: UUID) -> UUID | None:
    """Note the directory of this process; return that of the other kind of process, if it has noted one."""
    with pipeline.first_statement():
        cursor = await worker.execute(
            SQL["note_directory"],
            {"process": process, "directory_id": directory_id, **schema.VERSION},
        )
    row = await cursor.fetchone()
    return None if row is None else row[0]


DIFFERENT: Final = {
    "server": "the worker that started last uses another directory, and so cannot import uploaded files",
    "worker": "the resource server that started last uses another directory, so uploaded files cannot be"
    " imported",
}
