"""The checks of what goes on: jobs, backups, sealed secrets and disks."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from deploy.backup import backups
from deploy.backup.backups import BackupError
from deploy.doctor.checks import CannotExamine, Finding, duration, failed, passed, skipped
from deploy.doctor.deployment import SQL, Deployment
from shared import schema, sealing, sealing_keys
from shared.settings import SettingsError
from shared.storage import MIB, Storage

LONGEST_MARK_S: Final = 3600.0
"""The longest time that a mark may wait; a busy day is rolled up every five minutes."""
LONGEST_TURN_S: Final = 900.0
"""The same for a turn that is due."""
MOST_ATTEMPTS: Final = 5
"""How often a turn may fail: some services are away for an hour."""

OLDEST_BACKUP: Final = timedelta(days=2)
"""How old the newest backup may be, which is written every night."""


def jobs(deployment: Deployment) -> Iterator[Finding]:
    """Whether work waits for longer than a worker needs."""
    limits = {"longest_s": LONGEST_TURN_S, "most_attempts": MOST_ATTEMPTS}
    with deployment.owner() as connection:
        marks = connection.execute(SQL["oldest_marks"], schema.VERSION).fetchall()
        turns = connection.execute(SQL["overdue_turns"], limits).fetchone() or {}
    is_right = True
    for row in marks:
        if row["oldest_mark_s"] > LONGEST_MARK_S:
            is_right = False
            waited = duration(row["oldest_mark_s"])
            yield failed(
                f"days of {row['people_marked']} people wait for {row['kind']}, the oldest for {waited}",
                "Start a worker ('svc resource work'), or a second one if the first keeps working.",
            )
    if turns["overdue"]:
        is_right = False
        yield failed(
            f"{turns['overdue']} turns wait, the first for {duration(turns['longest_s'])}",
            "Start a worker ('svc resource work'), and read its log.",
        )
    if turns["failing"]:
        is_right = False
        yield failed(
            f"{turns['failing']} turns have failed {MOST_ATTEMPTS} times or more",
            "Read the worker's log for lines with 'failed:', which have the kind and the reason.",
        )
    if is_right:
        yield passed("no marked day and no turn is late")


def old_years(deployment: Deployment) -> Iterator[Finding]:
    """Whether another process has a smaller SVC_KEEP_RAW_YEARS, as far as the database can say.

    A process with a larger one only opens months again, which leaves no trace.
    """
    years = deployment.chosen.keep_raw_years
    kept = "all years are kept" if years is None else f"{years} years are kept"
    with deployment.owner() as connection:
        row = connection.execute(SQL["closed_and_kept"], {"years": years}).fetchone() or {}
    if row["people"]:
        yield failed(
            f"{kept} by SVC_KEEP_RAW_YEARS here, and new sessions of such time are refused to"
            f" {row['people']} people",
            "Give all workers and servers the same number; within an hour a worker opens these months again.",
        )
    else:
        yield passed(f"{kept}, and no month of them is closed")


def backups_written(deployment: Deployment) -> Iterator[Finding]:
    """Whether the newest backup is recent and whole."""
    directory = deployment.chosen.backup_dir
    if directory is None:
        yield skipped(
            "SVC_BACKUP_DIR is not set, so the age of backups is not known here",
            "Set SVC_BACKUP_DIR and let a timer run 'svc backup' every night, or watch your own backups.",
        )
        return
    timer = "Run 'svc backup', let a timer do so every night, and read the log of its last run."
    try:
        # The first backup creates the directory.
        newest = next(iter(backups.complete(directory)), None) if directory.is_dir() else None
        if newest is None:
            yield failed(f"{directory} has no backup", timer)
            return
        manifest = backups.read(newest)
        damaged = [
            name
            for name, stored in manifest.files.items()
            if (newest / name).stat().st_size != stored.bytes
        ]
    except (BackupError, OSError) as error:
        yield failed(f"the newest backup cannot be used: {error}", timer)
        return
    age = datetime.now(UTC) - manifest.began_at
    if damaged:
        yield failed(f"{newest} is damaged: {', '.join(damaged)} has another size", timer)
    elif age > OLDEST_BACKUP:
        yield failed(
            f"the newest backup in {directory} is {duration(age.total_seconds())} old", timer
        )
    else:
        yield passed(f"the newest backup is {duration(age.total_seconds())} old")


def sealing_key(deployment: Deployment) -> Iterator[Finding]:
    """Whether the present keys open all secrets of connections."""
    chosen = deployment.chosen
    try:
        private = chosen.sealing_private_keys or sealing_keys.read(chosen.data_dir)
    except SettingsError as error:
        yield failed(str(error), "Restore sealing.json from its backup, and start 'svc up' again.")
        return
    public = chosen.sealing_public_key
    with deployment.owner() as connection:
        rows = connection.execute(SQL["sealing_keys"]).fetchall()
    stored = {row["key_id"]: row["count"] for row in rows}
    known = {sealing.key_id_of(sealing.public_key_of(each)) for each in private}
    if private and public is not None and sealing.key_id_of(public) not in known:
        yield failed(
            "SVC_SEALING_PUBLIC_KEY belongs to none of the private keys",
            "Set it to the public half of the newest private key ('svc sealing new' prints both).",
        )
        return
    if not private and not stored:
        yield skipped("no connection has a secret, and no key is set")
        return
    if not private:
        raise CannotExamine(
            "the private keys are not among the settings here",
            "Run the command with the settings of the worker, which has SVC_SEALING_PRIVATE_KEYS.",
        )
    lost = {key_id: count for key_id, count in stored.items() if key_id not in known}
    if lost:
        yield failed(
            f"no key opens {sum(lost.values())} secrets of connections, sealed to {', '.join(lost)}",
            "Restore the private key from its backup; without it people must enter these secrets again.",
        )
    else:
        yield passed(f"{sum(stored.values())} secrets can be opened")


def disk(deployment: Deployment) -> Iterator[Finding]:
    """Whether the disks of database and uploads have space."""
    chosen = deployment.chosen
    if chosen.storage_dir is None:
        yield skipped(
            "the free space of the database is not known here",
            "Set SVC_STORAGE_DIR to a directory on its disk, or watch that disk on its own machine.",
        )
    else:
        space = Storage.of(chosen).look()
        if space.free_mib is None:
            raise CannotExamine(
                f"the free space at {chosen.storage_dir} cannot be read",
                "Set SVC_STORAGE_DIR to a directory on the disk of the database, or to off.",
            )
        if space.is_full:
            yield failed(
                f"{space.free_mib} MiB are free at {chosen.storage_dir}, and {chosen.storage_reserve_mib} are"
                " the reserve: events, uploads and imports are refused",
                "Free or add space on this disk; everything goes on within a second.",
            )
        elif space.free_mib < 2 * chosen.storage_reserve_mib:
            yield failed(
                f"{space.free_mib} MiB are free at {chosen.storage_dir}, less than twice the reserve",
                "Free or add space on this disk before events are refused.",
            )
        else:
            yield passed(f"{space.free_mib} MiB are free for the database")
    if chosen.upload_dir is not None:
        yield _uploads(chosen.upload_dir, chosen.upload_free_mib)


def _uploads(directory: Path, free_mib: int) -> Finding:
    try:
        disk = os.statvfs(directory)
    except FileNotFoundError:
        return skipped(f"{directory} does not exist yet; a server creates it when it starts")
    except OSError as error:
        raise CannotExamine(
            f"{directory} cannot be read: {error.strerror}",
            "Give this account the right to enter it, or correct SVC_UPLOAD_DIR.",
        ) from error
    free = disk.f_bavail * disk.f_frsize // MIB
    if free < free_mib:
        return failed(
            f"{free} MiB are free for uploads at {directory}, and SVC_UPLOAD_FREE_MIB keeps {free_mib}",
            "Free or add space on this disk, or lower SVC_UPLOAD_FREE_MIB.",
        )
    return passed(f"{free} MiB are free for uploads")
