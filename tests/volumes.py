"""Small file systems for tests of a full disk, and of directories that their owner cannot remove."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_for


@contextmanager
def mounted(path: Path, *words: str) -> Iterator[bool]:
    """Mount a file system at a directory by ``mount`` with these words; say whether the system allows that.

    Only an administrator may mount one, and nothing else makes a disk small. CI runs as root.
    """
    is_mounted = subprocess.run(["mount", *words, str(path)], check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            # What a killed server leaves behind holds its files until it sees that the server is gone.
            wait_for(lambda: _unmount(path), f"{path} is in use")


def _unmount(path: Path) -> bool:
    return subprocess.run(["umount", str(path)], check=False).returncode == 0
