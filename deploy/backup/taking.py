"""Takes a backup: one snapshot of the database, beside servers that go on reading and writing.

A transaction exports its snapshot, and pg_dump reads in it. So versions, roles and rows are of one moment.
pg_dump takes no lock but the one of every reader, so that only a migration waits for it, or it for one.
"""

import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import IsolationLevel

from deploy.backup import backups, keys, roles, tools
from deploy.backup.backups import DUMP, FORMAT, KEYS, ROLES, BackupError, Manifest
from shared import VERSION, private_file, queries
from shared.settings import Settings

SQL: Final = queries.load(Path(__file__).with_name("backup.sql"))


@dataclass(frozen=True)
class Wanted:
    """What the operator wants besides the dump."""

    keep: int | None = None
    """How many backups stay, this one included; None: all."""
    keys_directory: Path | None = None
    """Where the keys are copied to, apart from the dump."""
    with_keys: bool = False
    """Whether the keys are copied into the backup."""


class _Snapshot(NamedTuple):
    """One moment of the database, for as long as its transaction runs."""

    name: str
    postgres_version: str
    postgres_major: int
    schema_version: int
    schemas: list[str]
    roles: str


def take(
    chosen: Settings, url: str, directory: Path, wanted: Wanted, say: Callable[[str], None]
) -> Path:
    """Write a backup of the database at ``url`` into ``directory``, and return its path.

    Raises BackupError; then ``directory`` has neither a part of this backup nor a backup less, unless the
    error says that the backup is written and older ones cannot be removed.
    """
    with backups.locked(directory):
        try:
            path = _take(chosen, url, directory, wanted)
            say(f"wrote {path}: {_size(backups.read(path).bytes)}")
        except OSError as error:
            raise BackupError(
                f"the backup cannot be written: {backups.reason(error, directory)}"
            ) from error
        except psycopg.Error as error:
            raise BackupError(f"the database cannot be read: {one_line(error)}") from error
        if wanted.keep is not None:
            _remove_older(directory, wanted.keep, say)
    if wanted.keys_directory is not None:
        for file in keys.copy(chosen.data_dir, wanted.keys_directory):
            say(f"wrote {file}")
    elif not wanted.with_keys:
        say(
            f"not included: the keys, secrets.json and sealing.json in {chosen.data_dir}; keep a copy of "
            "them in another place (--keys)"
        )
    return path


def _remove_older(directory: Path, keep: int, say: Callable[[str], None]) -> None:
    try:
        for removed in backups.remove_older(directory, keep):
            say(f"removed {removed}")
    except OSError as error:
        raise BackupError(
            f"the backup is written, but backups older than the newest {keep} cannot be removed: "
            f"{error.filename}: {error.strerror}"
        ) from error


def _take(chosen: Settings, url: str, directory: Path, wanted: Wanted) -> Path:
    began_at = datetime.now(UTC)
    with backups.draft(directory, began_at) as draft, closing(_connection(url)) as database:
        snapshot = _snapshot(database)
        programs = tools.fitting(snapshot.postgres_major)
        _dump(url, draft / DUMP, snapshot, programs)
        private_file.create(draft / ROLES, snapshot.roles)
        if wanted.with_keys:
            keys.copy(chosen.data_dir, draft / KEYS)
        files = [path for path in sorted(draft.rglob("*")) if path.is_file()]
        manifest = Manifest(
            format=FORMAT,
            svc_version=VERSION,
            schema_version=snapshot.schema_version,
            postgres_version=snapshot.postgres_version,
            dumped_by=programs.major,
            began_at=began_at,
            ended_at=datetime.now(UTC),
            files={str(file.relative_to(draft)): backups.describe(file) for file in files},
        )
        backups.write_manifest(draft, manifest)
    return backups.path_of(directory, began_at)


def _connection(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    connection = psycopg.connect(url, connect_timeout=10, prepare_threshold=None)
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def _snapshot(database: psycopg.Connection[tuple[Any, ...]]) -> _Snapshot:
    """Begin the transaction that keeps the snapshot. Raises BackupError where the service is not there."""
    database.execute(SQL["wait_for_dump"])
    (name,) = _row(database, "keep_snapshot")
    version, major = _row(database, "server_version")
    # Before the change to the owner, who may not see passwords.
    described = roles.text_of(database)
    (is_present,) = _row(database, "has_schema")
    if not is_present:
        raise BackupError("the database has no schema of this service: nothing to back up")
    database.execute(SQL["become_owner"])
    (schema_version,) = _row(database, "schema_version")
    schemas = [schema for (schema,) in database.execute(SQL["own_schemas"]).fetchall()]
    return _Snapshot(name, version, major, schema_version, schemas, described)


def _dump(url: str, path: Path, snapshot: _Snapshot, programs: tools.Tools) -> None:
    """Write the archive. Raises BackupError with pg_dump's reason."""
    command = programs.command(
        "pg_dump",
        "--format=custom",
        "--no-password",
        "--role=svc_owner",
        f"--snapshot={snapshot.name}",
        *(f'--schema="{schema}"' for schema in snapshot.schemas),
        f"--file={path}",
    )
    private_file.create(path, "")
    with subprocess.Popen(  # noqa: S603 -- a program of PostgreSQL, no shell is involved
        command,
        env=tools.environment(url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            _, errors = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise BackupError(
            f"the backup cannot be written: {last_error(process.returncode, errors)} "
            f"({backups.free_space(path.parent.parent)})"
        )


def last_error(status: int, output: bytes) -> str:
    """Return the first error that a program of PostgreSQL has written, else its last line."""
    lines = output.decode(errors="replace").strip().splitlines() or [
        f"ended by signal {-status}" if status < 0 else "no reason given"
    ]
    errors = [line for line in lines if "error:" in line or "ERROR:" in line]
    return (errors or lines[-1:])[0]


def one_line(error: psycopg.Error) -> str:
    """Return the text of an error of the database on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _row(database: psycopg.Connection[tuple[Any, ...]], statement: str) -> tuple[Any, ...]:
    row = database.execute(SQL[statement]).fetchone()
    if row is None:
        raise BackupError(f"the database has no answer to {statement}")
    return row


def _size(number: int) -> str:
    return f"{number / 1024**2:,.1f} MiB"
