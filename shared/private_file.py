"""Files that only their owner may read, written whole or not at all."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def create(path: Path, text: str) -> None:
    """Write a new file with mode 0600, unless it exists. Raises OSError."""
    # A link, unlike a rename, never replaces what another process made a moment before.
    with _draft(path, text) as draft, suppress(FileExistsError):
        os.link(draft, path)


def replace(path: Path, text: str) -> None:
    """Write a file with mode 0600 in place of an earlier one. Raises OSError."""
    with _draft(path, text) as draft:
        os.replace(draft, path)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes that do the same out of a block, so that none changes what another has read."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _draft(path: Path, text: str) -> Iterator[str]:
    """A file beside ``path`` that holds ``text``, for the time of a block."""
    # mkstemp lets nobody but us read what it makes.
    descriptor, draft = tempfile.mkstemp(prefix=f"{path.stem}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
