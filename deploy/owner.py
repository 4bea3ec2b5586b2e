"""The commands that have the database's owner as their login, and the login of a database on this machine.

``svc`` imports this module only for commands that need a database.
"""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Final

import click

from deploy import migrate
from deploy.postgres import embedded
from deploy.runner import startup
from shared import database
from shared.settings import Settings

FIXABLE: Final = (embedded.EmbeddedError, migrate.MigrationError)
"""Errors that a user can fix; each message is one line."""


def with_database(chosen: Settings, *, is_start: bool) -> Settings:
    """Return the settings with the URL of the embedded database that runs, unless the command starts one.

    They name no other database, neither the owner's login nor one of a role.
    Raises EmbeddedError for a data directory that cannot be read.
    """
    # These variables belong to another database: PGSERVICE, PGHOSTADDR or PGOPTIONS would change or break
    # each connection to the embedded one, here and in child processes.
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]
    if is_start:
        return chosen
    return replace(chosen, database_url=embedded.running_url(chosen.data_dir))


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
