"""Restores a backup into an empty database, whole or not at all.

One transaction of psql runs the script that pg_restore writes, and commits only after pg_restore has ended
well. Then ``svc migrate`` brings an older schema up to date, and sets the passwords of the roles.
"""

import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

import psycopg

from deploy import migrate
from deploy.backup import backups, keys, roles, tools
from deploy.backup.backups import DUMP, KEYS, ROLES, BackupError, Manifest
from deploy.backup.taking import SQL, last_error, one_line
from deploy.postgres.embedded import EmbeddedPostgres
from shared import SCHEMA_VERSION, screen
from shared.settings import Settings

_TRANSACTION_TIMEOUT: Final = b"SET transaction_timeout = 0;\n"
"""pg_restore 17 and newer write this line, which servers before 17 do not know."""
_KNOWS_TRANSACTION_TIMEOUT: Final = 17
_HEAD_LINES: Final = 60
"""That line is among the first of the script; everything after these may be data."""


def restore(
    chosen: Settings, backup: Path, keys_copy: Path | None, say: Callable[[str], None]
) -> None:
    """Restore ``backup`` into the database of ``chosen``, or into its embedded one if it names none.

    Raises BackupError, MigrationError, EmbeddedError, SettingsError; then the database is still empty, unless
    the restored schema could not be migrated.
    """
    manifest = backups.read(backup)
    if manifest.schema_version > SCHEMA_VERSION:
        raise BackupError(
            f"{backup} has schema {manifest.schema_version}, and svc of this version knows schemas up to "
            f"{SCHEMA_VERSION}: install svc {manifest.svc_version} or newer"
        )
    say(f"checking {backup}")
    backups.check(backup, manifest)
    if chosen.database_url is not None:
        _restore(chosen, backup, manifest, keys_copy, say)
        return
    with EmbeddedPostgres(chosen.data_dir, say=say) as server:
        _restore(replace(chosen, database_url=server.url), backup, manifest, keys_copy, say)


def _restore(
    chosen: Settings,
    backup: Path,
    manifest: Manifest,
    keys_copy: Path | None,
    say: Callable[[str], None],
) -> None:
    url = chosen.database_url or ""
    try:
        with closing(psycopg.connect(url, connect_timeout=10, autocommit=True)) as database:
            programs = _tools(database, manifest)
            _refuse_contents(database)
            described = (backup / ROLES).read_text(encoding="utf-8")
            beside = backup / KEYS
            if keys_copy is not None or beside.is_dir():
                keys.adopt(keys_copy or beside, chosen.data_dir)
            roles.create_missing(database, described, say)
            migrate.make_roles(chosen)
            roles.grant_memberships(database, described, say)
            say(f"restoring the data of {manifest.began_at:%Y-%m-%d %H:%M:%S} UTC")
            _load(url, backup / DUMP, programs, _major(database))
            migrate.migrate(chosen, say)
            database.execute(SQL["analyze"])
            _count_unopened(database, chosen, say)
    except psycopg.Error as error:
        raise BackupError(f"the backup cannot be restored: {one_line(error)}") from error
    except OSError as error:
        raise BackupError(f"{backup} cannot be read: {error.strerror or error}") from error
    say("restored")


def _tools(database: psycopg.Connection[Any], manifest: Manifest) -> tools.Tools:
    major = _major(database)
    if major < manifest.postgres_major:
        raise BackupError(
            f"the backup is of PostgreSQL {manifest.postgres_version}, and this server is PostgreSQL "
            f"{major}: restore it into the same version or a newer one"
        )
    return tools.fitting(major, least=manifest.dumped_by)


def _major(database: psycopg.Connection[Any]) -> int:
    return int(database.info.server_version // 10000)


def _refuse_contents(database: psycopg.Connection[Any]) -> None:
    """Raise BackupError where the database has any object."""
    row = database.execute(SQL["present_object"]).fetchone()
    if row is not None:
        raise BackupError(
            f"the database {database.info.dbname} is not empty: it has {row[0]}; restore into a new one, by "
            "another SVC_DATA_DIR or DATABASE_URL"
        )


def _load(url: str, dump: Path, programs: tools.Tools, server: int) -> None:
    """Run the script of an archive in one transaction. Raises BackupError; then nothing of it has run."""
    variables = tools.environment(url)
    script = programs.command("pg_restore", "--role=svc_owner", "--file=-", str(dump))
    run = programs.command(
        "psql",
        "--no-psqlrc",
        "--no-password",
        "--quiet",
        "--set=ON_ERROR_STOP=1",
        "--output=/dev/null",
    )
    with (
        subprocess.Popen(  # noqa: S603 -- a program of PostgreSQL, no shell is involved
            script, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as reader,
        subprocess.Popen(  # noqa: S603 -- the same
            run, env=variables, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        ) as writer,
    ):
        try:
            _pass_on(reader, writer, is_older=server < _KNOWS_TRANSACTION_TIMEOUT)
        except BaseException:
            reader.terminate()
            writer.terminate()
            raise


def _pass_on(
    reader: subprocess.Popen[bytes], writer: subprocess.Popen[bytes], *, is_older: bool
) -> None:
    output, target = reader.stdout, writer.stdin
    if output is None or target is None:
        raise ValueError("both programs have pipes")
    # Both programs write to standard error only as they end, and then little, so no pipe fills up.
    is_taken = True
    try:
        target.write(b"begin;\n")
        _copy_script(output, target, is_older=is_older)
        if reader.wait() == 0:
            target.write(SQL["run_grants_again"].encode() + b";\ncommit;\n")
        target.close()
    except BrokenPipeError:
        is_taken = False
        output.close()
        with suppress(BrokenPipeError):
            target.close()
    # A script that breaks off is an error for psql too, but not the first.
    order = (reader, writer) if is_taken else (writer, reader)
    failed = [each for each in order if each.wait() != 0]
    if failed:
        errors = b"" if failed[0].stderr is None else failed[0].stderr.read()
        raise BackupError(f"nothing was restored: {last_error(failed[0].returncode, errors)}")


def _copy_script(script: IO[bytes], target: IO[bytes], *, is_older: bool) -> None:
    for _ in range(_HEAD_LINES):
        line = script.readline()
        if not (is_older and line == _TRANSACTION_TIMEOUT):
            target.write(line)
    shutil.copyfileobj(script, target, 1024 * 1024)


def _count_unopened(
    database: psycopg.Connection[Any], chosen: Settings, say: Callable[[str], None]
) -> None:
    """Say how many secrets of connections no key of this deployment opens."""
    from shared import sealing  # noqa: PLC0415 -- its cryptography is needed for nothing else here

    known = {sealing.key_id_of(sealing.public_key_of(private)) for private in keys.opening(chosen)}
    rows = database.execute(SQL["key_ids"]).fetchall()
    unopened = sum(secrets for key_id, secrets in rows if key_id not in known)
    if unopened:
        say(
            f"no key opens {screen.counted(unopened, 'secret')} of connections: people must enter "
            f"{'it' if unopened == 1 else 'them'} again, unless you restore with a copy of the keys (--keys)"
        )
