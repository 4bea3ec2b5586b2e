"""The directory of uploaded files: one file an upload, whose name is the id of the upload alone.

Only one request writes to a file at a time. It holds a lock on the file, which the system releases when the
process ends, however it ends; so several processes may serve uploads.

The directory has a marker file with a random id, by which resource server and worker notice that they use
different directories.
"""

import errno
import fcntl
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

_MARKER: Final = ".directory"


class Locked(Exception):
    """another request is writing to this upload"""


@dataclass(frozen=True)
class UploadFile:
    """The file of one upload, open and locked."""

    descriptor: int
    free_bytes: int
    """The bytes that stay free on the disk."""

    @property
    def size(self) -> int:
        """The bytes that are in it."""
        return os.fstat(self.descriptor).st_size

    def cut(self, size: int) -> None:
        """Remove everything after the first ``size`` bytes."""
        os.ftruncate(self.descriptor, size)

    def write(self, data: bytes, start: int) -> None:
        """Write ``data`` from the byte ``start`` on. Raises OSError."""
        _check_space(self.descriptor, len(data), self.free_bytes)
        rest = memoryview(data)
        while rest:
            count = os.pwrite(self.descriptor, rest, start)
            rest, start = rest[count:], start + count

    def keep(self) -> None:
        """Wait until what was written is on the disk. Raises OSError."""
        os.fdatasync(self.descriptor)


@dataclass(frozen=True)
class Directory:
    """The directory at ``path``."""

    path: Path
    free_bytes: int
    """The bytes that uploads leave free on the disk."""

    def prepare(self) -> UUID:
        """Create the directory and its marker file if they are missing; return the id in it. Raises OSError.

        Of two processes that create the marker, the second reads what the first has written.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker = self.path / _MARKER
        if not marker.exists():
            descriptor, draft = tempfile.mkstemp(prefix=_MARKER, dir=self.path)
            try:
                with os.fdopen(descriptor, "w", encoding="ascii") as file:
                    file.write(str(uuid4()))
                # A link, unlike a rename, never replaces what another process made a moment before.
                with suppress(FileExistsError):
                    os.link(draft, marker)
            finally:
                os.unlink(draft)
        try:
            return UUID(marker.read_text(encoding="ascii").strip())
        except ValueError as error:
            raise OSError(errno.EINVAL, f"{_MARKER} holds no id") from error

    def file(self, upload_id: UUID) -> Path:
        """Return the path of an upload's file."""
        return self.path / str(upload_id)

    def size(self, upload_id: UUID) -> int:
        """Return the bytes in the file of an upload; 0 without a file. Raises OSError."""
        try:
            return self.file(upload_id).stat().st_size
        except FileNotFoundError:
            return 0

    def check_space(self, more: int) -> None:
        """Raise OSError if ``more`` bytes would not leave enough free on the disk."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _check_space(descriptor, more, self.free_bytes)
        finally:
            os.close(descriptor)

    def open(self, upload_id: UUID) -> UploadFile:
        """Return the file of an upload, created if it is missing, which must be closed.

        Raises Locked and OSError.
        """
        path = self.file(upload_id)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # It may have been removed since it was opened; its name is then free for another one.
                if _is_at(descriptor, path):
                    return UploadFile(descriptor, self.free_bytes)
            except BlockingIOError as error:
                os.close(descriptor)
                raise Locked from error
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def close(self, file: UploadFile) -> None:
        """Close the file of an upload, which releases its lock."""
        os.close(file.descriptor)

    def remove(self, upload_id: UUID) -> None:
        """Remove the file of an upload, if there is one. Raises OSError."""
        self.file(upload_id).unlink(missing_ok=True)

    def uploads(self) -> list[UUID]:
        """Return the ids of all uploads that have a file. Raises OSError."""
        found = []
        for name in os.listdir(self.path):
            with suppress(ValueError):
                upload_id = UUID(name)
                # Other spellings of an id name no file of ours.
                if str(upload_id) == name:
                    found.append(upload_id)
        return found

    @contextmanager
    def held(self, upload_ids: Collection[UUID]) -> Iterator[list[UUID]]:
        """Keep everybody from writing to the files of these uploads; yield those that nobody writes to now.

        Raises OSError.
        """
        with ExitStack() as locks:
            free = []
            for upload_id in upload_ids:
                with suppress(Locked):
                    locks.callback(self.close, self.open(upload_id))
                    free.append(upload_id)
            yield free


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _check_space(descriptor: int, more: int, free_bytes: int) -> None:
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize - more < free_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
