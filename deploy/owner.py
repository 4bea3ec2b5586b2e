"""The commands that have the database's owner as their login, and the login of a database on this machine.

``svc`` imports this module only for commands that need a database.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import psycopg

from deploy import migrate
from deploy.postgres import embedded, upgrade
from deploy.runner import startup
from shared import database
from shared.settings import Settings, SettingsError

FIXABLE: Final = (embedded.EmbeddedError, migrate.MigrationError)
"""Errors that a user can fix; each message is one line."""


def with_database(chosen: Settings, *, is_start: bool) -> Settings:
    """Return the settings with the URL of the embedded database that runs, unless the command starts one.

    Settings that name a database, by the owner's login or by those of roles, stay as they are.
    Raises SettingsError if the owner's login leads to a pooler, and EmbeddedError for a data directory that
    cannot be read.
    """
    if chosen.database_url is not None:
        _check_directness(chosen.database_url)
    if chosen.database_url is not None or chosen.role_urls:
        return chosen
    # These variables belong to another database: PGSERVICE, PGHOSTADDR or PGOPTIONS would change or break
    # each connection to the embedded one, here and in child processes.
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]
    if is_start:
        return chosen
    return replace(chosen, database_url=embedded.running_url(chosen.data_dir))


def _check_directness(url: str) -> None:
    """Raise SettingsError if a pooler answers at ``url``, the login of the database's owner."""
    # A server that does not answer is reported by the command, which knows what to say of it.
    with (
        suppress(psycopg.Error),
        psycopg.connect(url, autocommit=True, connect_timeout=5) as connection,
    ):
        if database.is_pooled(connection):
            raise SettingsError(database.POOLED)


@click.command("up")
@click.pass_obj
def start(chosen: Settings) -> None:
    """Start everything on this machine: database, migrations, both servers and a worker, until Ctrl-C."""
    sys.exit(startup.run(chosen))


@click.command("migrate")
@click.pass_obj
def bring_up_to_date(chosen: Settings) -> None:
    """Bring database roles and schema up to date."""
    migrate.migrate(chosen, click.echo)


@click.command("upgrade-database")
@click.option(
    "--old-programs",
    type=click.Path(path_type=Path),
    help="The directory of the old version's programs, such as /usr/lib/postgresql/17/bin.",
)
@click.pass_obj
def upgrade_database(chosen: Settings, old_programs: Path | None) -> None:
    """Bring the embedded PostgreSQL to the major version of this svc, while 'svc up' does not run.

    The data is copied, so the disk must take it twice. The old directory stays as postgres-17 or the like
    until you remove it. An upgrade that fails or is killed leaves it in its place, and can be run again.
    """
    if chosen.database_url is not None:
        raise SettingsError(
            "DATABASE_URL is set: that PostgreSQL is upgraded by the tools that it was installed with"
        )
    # As after Ctrl-C, what was started ends too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    upgraded = upgrade.upgrade(chosen.data_dir, old_programs, click.echo)
    if upgraded is None:
        click.echo("the database is of the version of this svc already")
        return
    for line in upgraded.left_out:
        click.echo(f"not taken over from postgresql.conf: {line}")
    with embedded.EmbeddedPostgres(chosen.data_dir, say=click.echo) as server:
        click.echo("Collecting statistics")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("analyze")
    click.echo(
        f"upgraded; the old cluster is {upgraded.kept}: remove it when you do not need it any more"
    )


@click.command("psql", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def open_psql(chosen: Settings, arguments: tuple[str, ...]) -> None:
    """Open psql on the service's database as its owner; further ARGUMENTS go to psql."""
    if chosen.database_url is None:
        raise database.no_database(chosen)
    program = str(embedded.binaries() / "psql")
    # Every user of the machine can read the arguments of a process, but not its environment.
    completed = subprocess.run(  # noqa: S603 -- the program is ours, no shell is involved
        [program, *arguments],
        env=os.environ | embedded.libpq_environment(chosen.database_url),
        check=False,
    )
    sys.exit(completed.returncode)
