"""A backup: a directory with a dump of the database, its roles, and a manifest that describes both.

    svc-20261123T160501.123Z/
        manifest.json    versions, times, and the size and SHA-256 of each other file
        database.dump    an archive of pg_dump, in its custom format
        roles.json       the roles of the service, with their passwords as PostgreSQL stores them
        keys/            only where the operator wants the keys beside the dump (keys.py)

A backup is written under a hidden name and renamed when all of it is on the disk, so a directory with the
name of a backup is complete.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import click

from shared import private_file

MANIFEST: Final = "manifest.json"
DUMP: Final = "database.dump"
ROLES: Final = "roles.json"
KEYS: Final = "keys"
FORMAT: Final = 1
"""The version of this form; a backup of another one is refused."""

_NAME: Final = re.compile(r"svc-\d{8}T\d{6}\.\d{3}Z")
_DRAFT_SUFFIX: Final = ".draft"


class BackupError(click.ClickException):
    """Why a backup cannot be written or restored; the message is one line for the operator."""


@dataclass(frozen=True)
class StoredFile:
    """What the manifest says about another file of the backup."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The description of a backup."""

    format: int
    svc_version: str
    schema_version: int
    postgres_version: str
    """Such as 18.6."""
    dumped_by: int
    """The major version of pg_dump, which pg_restore must have at least."""
    began_at: datetime
    """The moment whose data the backup has."""
    ended_at: datetime
    files: Mapping[str, StoredFile]

    @property
    def postgres_major(self) -> int:
        """The major version of the database server."""
        return int(self.postgres_version.partition(".")[0])

    @property
    def bytes(self) -> int:
        """The size of all files but the manifest."""
        return sum(file.bytes for file in self.files.values())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the manifest of a JSON text. Raises ValueError, TypeError, LookupError."""
        members: dict[str, Any] = json.loads(text)
        if members["format"] != FORMAT:
            raise ValueError(f"format {members['format']}")
        return cls(
            **members
            | {
                "began_at": datetime.fromisoformat(members["began_at"]),
                "ended_at": datetime.fromisoformat(members["ended_at"]),
                "files": {name: StoredFile(**each) for name, each in members["files"].items()},
            }
        )

    def text(self) -> str:
        """Return the manifest as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat, indent=2) + "\n"


def read(backup: Path) -> Manifest:
    """Return the manifest of a backup. Raises BackupError for anything that is none."""
    path = backup / MANIFEST
    try:
        return Manifest.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        inside = complete(backup) if backup.is_dir() else []
        advice = f": it contains backups, such as {inside[0]}" if inside else f": {path} is missing"
        raise BackupError(f"{backup} is not a backup{advice}") from None
    except NotADirectoryError:
        raise BackupError(f"{backup} is not a backup: it is no directory") from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise BackupError(
            f"{backup} is not a backup that this version of svc can read: {path}: {error}"
        ) from None
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}") from error


def check(backup: Path, manifest: Manifest) -> None:
    """Raise BackupError where a file is missing or its contents are not those that were written."""
    for name, stored in manifest.files.items():
        path = backup / name
        try:
            present = describe(path)
        except OSError as error:
            raise BackupError(
                f"the backup is damaged: {path} cannot be read: {error.strerror}"
            ) from error
        if present.bytes != stored.bytes:
            raise BackupError(
                f"the backup is damaged: {path} has {present.bytes} bytes instead of {stored.bytes}"
            )
        if present.sha256 != stored.sha256:
            raise BackupError(f"the backup is damaged: the checksum of {path} differs")


def describe(path: Path) -> StoredFile:
    """Return size and checksum of a file. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return StoredFile(file.tell(), digest)


def complete(directory: Path) -> list[Path]:
    """Return the backups in a directory, the newest first. Raises OSError."""
    return sorted(
        (
            each
            for each in directory.iterdir()
            if _NAME.fullmatch(each.name) and (each / MANIFEST).is_file()
        ),
        reverse=True,
    )


def newest(directory: Path) -> Manifest | None:
    """Return the manifest of the newest backup in a directory, or None. Raises BackupError, OSError."""
    backups = complete(directory)
    return read(backups[0]) if backups else None


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other backups out of ``directory`` for a block. Raises BackupError where one is running.

    The directory is created if only its last part is missing; nothing above it is.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise BackupError(
            f"{directory} cannot be created: {directory.parent} does not exist"
        ) from None
    except FileExistsError:
        raise BackupError(f"{directory} is no directory") from None
    except OSError as error:
        raise BackupError(f"{directory} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BackupError(f"another backup to {directory} is running") from None
    finally:
        os.close(descriptor)


@contextmanager
def draft(directory: Path, began_at: datetime) -> Iterator[Path]:
    """A directory of mode 0700 for the files of a new backup; the end of the block completes it.

    After an exception nothing of it is left. The caller holds the lock of ``directory``.
    """
    for left in directory.glob(f".svc-*{_DRAFT_SUFFIX}"):
        shutil.rmtree(left)
    path = directory / f".{_name(began_at)}{_DRAFT_SUFFIX}"
    path.mkdir(mode=0o700)
    try:
        yield path
        for each in (path, *path.rglob("*")):
            _flush(each)
        path.rename(directory / _name(began_at))
        _flush(directory)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def write_manifest(backup: Path, manifest: Manifest) -> None:
    """Write the manifest of a backup, with mode 0600. Raises OSError."""
    private_file.create(backup / MANIFEST, manifest.text())


def path_of(directory: Path, began_at: datetime) -> Path:
    """Return the path of the backup that began at a moment."""
    return directory / _name(began_at)


def remove_older(directory: Path, keep: int) -> list[Path]:
    """Remove all backups but the newest ``keep``, and return their paths. The caller holds the lock."""
    older = complete(directory)[keep:]
    for backup in older:
        # A removal that is interrupted must leave nothing that looks complete.
        hidden = directory / f".{backup.name}{_DRAFT_SUFFIX}"
        backup.rename(hidden)
        shutil.rmtree(hidden)
    return older


def reason(error: OSError, directory: Path) -> str:
    """Return why a file could not be written, with the space that is left."""
    return f"{error.strerror or error} ({free_space(directory)})"


def free_space(directory: Path) -> str:
    """Return how much the disk of a directory takes, in words."""
    try:
        free = shutil.disk_usage(directory).free
    except OSError:
        return "free space unknown"
    return f"{free // 1024**2} MiB are free in {directory}"


def _name(began_at: datetime) -> str:
    moment = began_at.astimezone(UTC)
    return f"svc-{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}Z"


def _flush(path: Path) -> None:
    """Wait until a file or directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
