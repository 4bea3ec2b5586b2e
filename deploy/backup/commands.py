"""``svc backup`` and ``svc restore``."""

import signal
import sys
from pathlib import Path
from types import FrameType

import click

from deploy.backup import restoring, taking
from deploy.backup.backups import BackupError
from deploy.backup.taking import Wanted
from deploy.postgres.embedded import EmbeddedPostgres
from shared.settings import Settings

_DIRECTORY = click.Path(path_type=Path)


@click.command("backup")
@click.argument("directory", metavar="[DIR]", required=False, type=_DIRECTORY)
@click.option(
    "--keep", type=click.IntRange(min=1), help="Remove all but the newest so many backups."
)
@click.option(
    "--keys",
    "keys_directory",
    type=_DIRECTORY,
    help="Copy the keys to this directory, which should be on another disk than DIR.",
)
@click.option("--with-keys", is_flag=True, help="Copy the keys into the backup, beside the dump.")
@click.pass_obj
def backup(
    chosen: Settings,
    directory: Path | None,
    keep: int | None,
    keys_directory: Path | None,
    *,
    with_keys: bool,
) -> None:
    """Write a backup of the database into DIR (SVC_BACKUP_DIR), while servers run.

    A backup has all rows of one moment and the roles. The keys in SVC_DATA_DIR are not part of it: without
    them people must enter the secrets of their connections again, and sign in again. Keep a copy of the keys
    where backups are not.
    """
    _end_on_sigterm()
    place = directory or chosen.backup_dir
    if place is None:
        raise BackupError("where to? Name a directory, or set SVC_BACKUP_DIR")
    place = place.absolute()
    if keys_directory is not None:
        keys_directory = keys_directory.absolute()
        if with_keys:
            raise BackupError("--keys and --with-keys exclude each other")
        if keys_directory.resolve().is_relative_to(place.resolve()):
            raise BackupError(
                f"--keys: {keys_directory} is in {place}, beside the dump; name another place, or use "
                "--with-keys to keep them together"
            )
    wanted = Wanted(keep=keep, keys_directory=keys_directory, with_keys=with_keys)
    if chosen.database_url is not None:
        taking.take(chosen, chosen.database_url, place, wanted, click.echo)
        return
    if not (chosen.data_dir / "postgres").exists():
        raise BackupError(
            f"there is no database: neither in SVC_DATA_DIR, which is {chosen.data_dir}, nor by DATABASE_URL"
        )
    with EmbeddedPostgres(chosen.data_dir, say=click.echo) as server:
        taking.take(chosen, server.url, place, wanted, click.echo)


@click.command("restore")
@click.argument("directory", metavar="DIR", type=_DIRECTORY)
@click.option(
    "--keys",
    "keys_directory",
    type=_DIRECTORY,
    help="A copy of the keys; by default those in the backup, if it has any.",
)
@click.pass_obj
def restore(chosen: Settings, directory: Path, keys_directory: Path | None) -> None:
    """Restore the backup DIR into an empty database: a new SVC_DATA_DIR, or that of DATABASE_URL.

    Nothing is restored from a damaged backup, from one with a newer schema, or into a database with tables.
    An older schema is brought up to date.
    """
    _end_on_sigterm()
    keys_copy = None if keys_directory is None else keys_directory.absolute()
    restoring.restore(chosen, directory.absolute(), keys_copy, click.echo)


def _end_on_sigterm() -> None:
    """End by an exception, so that the programs that were started end too, and drafts are removed."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
