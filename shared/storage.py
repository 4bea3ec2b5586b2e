"""The free space on the file system of the database, as far as a process of this machine can know it.

A database whose disk is full cannot write its log, and stops. So servers and workers refuse what would fill
the disk while some space is still free: the reserve (SVC_STORAGE_RESERVE_MIB). Reads, sign-ins, tokens,
revocations and deletions go on, and use the reserve. The space of a database on another machine is not known;
its own error (SQLSTATE 53100) then has the same answer.
"""

import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psycopg

from shared.jobs import Job
from shared.pool import Connection
from shared.schema import RateLimitedLog
from shared.settings import Settings, SettingsError

log = logging.getLogger("svc.storage")

DISK_FULL: Final = "53100"
"""The SQLSTATE of a database that has no space left."""
MIB: Final = 2**20
_LOOK_EVERY_S: Final = 1.0
"""How long an answer of the system is used again, so that a look costs a request nothing."""
_LOG_EVERY_S: Final = 60.0


@dataclass(frozen=True)
class Space:
    """The free space, when it was last looked at."""

    free_bytes: int | None
    """None if it is not known."""
    reserve_bytes: int

    @property
    def is_full(self) -> bool:
        """Whether only the reserve is left."""
        return self.free_bytes is not None and self.free_bytes < self.reserve_bytes

    @property
    def free_mib(self) -> int | None:
        """The whole MiB that are free."""
        return None if self.free_bytes is None else self.free_bytes // MIB

    @property
    def status(self) -> str:
        """``ok``, ``full`` or ``unknown``."""
        if self.free_bytes is None:
            return "unknown"
        return "full" if self.is_full else "ok"


@dataclass(eq=False)
class Storage:
    """The file system of a directory. Without ``directory`` nothing is known, and nothing is refused."""

    directory: Path | None = None
    reserve_bytes: int = 0
    _space: Space | None = None
    _looked_at: float = 0.0
    _logged_at: float | None = None
    """When a full disk was last logged; None while it is not full."""

    @classmethod
    def of(cls, chosen: Settings) -> "Storage":
        """Return the storage of the database of ``chosen``."""
        return cls(chosen.storage_dir, chosen.storage_reserve_mib * MIB)

    def space(self) -> Space:
        """Return the free space of at most a second ago."""
        now = time.monotonic()
        if self._space is None or now - self._looked_at >= _LOOK_EVERY_S:
            self._space = self.look()
            self._looked_at = now
            self._log(self._space, now)
        return self._space

    def look(self) -> Space:
        """Return the free space of now, and log nothing."""
        return Space(self._free_bytes(), self.reserve_bytes)

    def is_full(self) -> bool:
        """Whether nothing that takes much space may be written now."""
        return self.directory is not None and self.space().is_full

    def _free_bytes(self) -> int | None:
        if self.directory is None:
            return None
        try:
            disk = os.statvfs(self.directory)
        except OSError:
            return None
        # What root alone may use does not count, because the embedded database never runs as root.
        return disk.f_bavail * disk.f_frsize

    def _log(self, space: Space, now: float) -> None:
        if not space.is_full:
            if self._logged_at is not None and space.free_bytes is not None:
                log.info(
                    "there is space again: %s MiB are free, and data is accepted", space.free_mib
                )
                self._logged_at = None
        elif self._logged_at is None or now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.error(
                "the disk of the database is full: %s MiB are free at %s, and SVC_STORAGE_RESERVE_MIB keeps"
                " %s; no events, imports and summaries are written until there is more",
                space.free_mib,
                self.directory,
                self.reserve_bytes // MIB,
            )


_REPORTS: Final = RateLimitedLog(log)


def log_full(error: psycopg.Error) -> None:
    """Write to the log, at most once a minute, that the database itself has no space left."""
    _REPORTS.write("the database has no space left on its disk", f"SQLSTATE {error.sqlstate}")


def check_setting(chosen: Settings) -> None:
    """Raise SettingsError if the directory of the database is set and cannot be looked at."""
    if chosen.storage_dir is None:
        return
    try:
        os.statvfs(chosen.storage_dir)
    except OSError as error:
        raise SettingsError(
            f"SVC_STORAGE_DIR: the free space at {chosen.storage_dir} cannot be read: {error.strerror}; name"
            " a directory on the disk of the database, or set it to off if that is on another machine"
        ) from error


def unless_full(job: Job, storage: Storage) -> Job:
    """Return a job that does nothing while the disk is full."""

    async def work(connection: Connection) -> None:
        if not storage.is_full():
            await job.work(connection)

    return replace(job, work=work)
