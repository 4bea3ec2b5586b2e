"""The worker's import of uploaded files: one file of one person a turn.

    complete ──take──► taken ──import──► ended, the file is removed
                         ▲ │
                         └─┴ a worker that was killed or stopped: the next one continues the import

It writes what ``svc import`` writes, with the same receipts. The worker's login begins and ends the import in
a job for its person, and the importer's login writes the records.

A command that imports the same file at the same time holds its lock, and the worker waits. If the command
begins later, it takes the import over; the worker then waits as well, and finds all records known.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import psycopg

from resourceserver.integrations.format import Format, Person, named
from resourceserver.integrations.imports import files, receipts, running
from resourceserver.integrations.imports.files import CannotOpen
from resourceserver.integrations.imports.receipts import AlreadyRunning, Connection, Import
from resourceserver.integrations.imports.running import Database, Interrupted, Over, Plan
from resourceserver.uploads.directory import Directory
from shared import database, pipeline, queries, schema
from shared.metrics import IMPORT_RECORDS, IMPORTS
from shared.settings import Settings
from shared.storage import Storage

SQL: Final = queries.load(Path(__file__).with_name("turn.sql"))


class FileMissing(Exception):
    """an uploaded file cannot be opened: resource server and worker must share SVC_UPLOAD_DIR and its user"""


@dataclass(frozen=True)
class Taken:
    """What a turn has done."""

    line: str = ""
    """What the log says about it; nothing if no upload waited."""
    has_more: bool = False
    """Whether the person may have another upload that waits."""


@dataclass(frozen=True)
class _Upload:
    user_id: UUID
    upload_id: UUID
    file_name: str
    format: str | None
    zone: ZoneInfo


def take(
    chosen: Settings,
    directory: Directory,
    formats: Sequence[Format],
    user_id: UUID,
    stop: threading.Event,
) -> Taken:
    """Import the upload of a person that has waited longest. When ``stop`` is set, it soon ends.

    An upload whose file cannot be opened delays no other. Raises FileMissing if only such uploads wait, and
    AlreadyRunning, Interrupted, Over and psycopg.Error; then the upload waits for another turn.
    """
    with _job(chosen, user_id) as job:
        waiting = job.execute(SQL["waiting_uploads"], {"user_id": user_id}).fetchall()
    if not waiting:
        return Taken()
    found = next((row for row in waiting if _can_be_opened(directory.file(row[0]))), None)
    if found is None:
        raise FileMissing
    upload_id, file_name, form, zone = found
    upload = _Upload(user_id, upload_id, file_name, form, ZoneInfo(zone))
    path = directory.file(upload_id)
    values = {"user_id": user_id, "upload_id": upload_id}
    with _job(chosen, user_id) as job:
        if job.execute(SQL["take_upload"], values).fetchone() is None:
            return Taken(has_more=True)
    try:
        status = _import(chosen, formats, upload, path, stop)
    except CannotOpen as error:
        status = "failed"
        with _job(chosen, user_id) as job:
            job.execute(SQL["end_upload"], values | {"problem": running.storable_line(str(error))})
    except Interrupted:
        IMPORTS.add("interrupted")
        raise
    except KeyboardInterrupt:
        IMPORTS.add("stopped")
        return Taken("stopped", has_more=True)
    IMPORTS.add(status)
    directory.remove(upload_id)
    return Taken(f"upload_id={upload_id} import_status={status}", has_more=True)


def _can_be_opened(path: Path) -> bool:
    # An import that found this out would end, and the file be removed, although nothing is wrong with it.
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True


@contextmanager
def _job(chosen: Settings, user_id: UUID) -> Iterator[Connection]:
    """A transaction of the worker for one person, on a connection of its own."""
    login = database.login(chosen, "worker")
    # It prepares no statements: it is closed after a few.
    connecting = psycopg.connect(login, autocommit=True, connect_timeout=10, prepare_threshold=None)
    with closing(connecting) as connection, connection.transaction():
        with pipeline.first_statement():
            connection.execute(SQL["open_job"], {"user_id": user_id, **schema.VERSION})
        yield connection


def _import(
    chosen: Settings,
    formats: Sequence[Format],
    upload: _Upload,
    path: Path,
    stop: threading.Event,
) -> str:
    """Import the file of an upload and end both; return the status of the import.

    Raises CannotOpen, AlreadyRunning, Interrupted, Over, and KeyboardInterrupt if ``stop`` is set.
    """
    form = _format(formats, upload.format)
    on_read = partial(_check_stop, stop)
    digest, size = files.digest(path, on_read)
    with ExitStack() as within:
        brought = files.bring(path, within, name=upload.file_name)
        planned = running.plan(brought, formats, form)
        for part in planned.parts:
            part.member.on_read = on_read
        begun = _begin(chosen, upload, digest, size)
        ledger = Database(
            database.login(chosen, "importer"),
            begun,
            upload.zone,
            chosen.full_urls,
            lambda _: None,
            prepare=chosen.prepare,
            storage=Storage.of(chosen),
        )
        try:
            with closing(ledger):
                running.run(planned, Person(upload.zone, begun.started_at), ledger)
        except Interrupted as error:
            with _job(chosen, upload.user_id) as job:
                receipts.end_in(job, begun, "interrupted", str(error))
            raise
        return _end(chosen, upload, planned, begun)


def _check_stop(stop: threading.Event, _: int) -> None:
    if stop.is_set():
        # As Ctrl-C ends a command: a run knows what to do with a batch that is being written.
        raise KeyboardInterrupt


def _format(formats: Sequence[Format], name: str | None) -> Format | None:
    if name is None:
        return None
    found = named(name, formats)
    if found is None:
        raise CannotOpen(f"there is no format {name}")
    return found


def _begin(chosen: Settings, upload: _Upload, digest: bytes, size: int) -> Import:
    """Begin the import of an upload, or continue one of the same file. Raises AlreadyRunning."""
    values: dict[str, Any] = {
        "user_id": upload.user_id,
        "upload_id": upload.upload_id,
        "digest": digest,
        "chosen_format": upload.format,
        "file_name": upload.file_name,
        "file_size": size,
        "key_hash": receipts.new_key(),
    }
    with _job(chosen, upload.user_id) as job:
        _check_free(job, f"{upload.user_id} {digest.hex()}")
        unfinished = job.execute(receipts.SQL["unfinished"], values).fetchone()
        values["import_id"] = uuid4() if unfinished is None else unfinished[0]
        _check_free(job, str(values["import_id"]))
        statement = "begin_import" if unfinished is None else "take_over"
        row = job.execute(receipts.SQL[statement], values).fetchone()
        if row is None:
            raise AlreadyRunning
        job.execute(SQL["note_import"], values)
    return Import(upload.user_id, row[0], values["key_hash"], row[1])


def _check_free(job: Connection, what: str) -> None:
    if job.execute(SQL["is_free"], {"what": what}).fetchone() != (True,):
        raise AlreadyRunning


def _end(chosen: Settings, upload: _Upload, planned: Plan, begun: Import) -> str:
    """End import and upload together; return the status of the import. Raises Over."""
    values = {"user_id": begun.user_id, "upload_id": upload.upload_id}
    with _job(chosen, begun.user_id) as job:
        receipt = receipts.read_in(job, begun.user_id, begun.import_id)
        if receipt is None:
            raise Over
        problem = running.failure(receipt, planned)
        status = "done" if problem is None else "failed"
        if not receipts.end_in(job, begun, status, problem):
            raise Over
        job.execute(SQL["end_upload"], values | {"problem": None})
    for outcome, count in receipt["records"].items():
        IMPORT_RECORDS.add(outcome, amount=count)
    return status
