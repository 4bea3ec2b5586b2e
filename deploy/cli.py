"""The console script ``svc``: every command of the service, each kept beside what it does.

All commands read the same settings. Without DATABASE_URL they find the embedded PostgreSQL of a
``svc up`` that runs on the same data directory by themselves.
"""

import os
import subprocess
import sys
from dataclasses import replace
from typing import NoReturn

import click

import authserver.commands
import resourceserver.commands
from deploy import embedded, migrate, up
from shared import VERSION, settings
from shared.serving import AddressError
from shared.settings import Settings, SettingsError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="svc")
@click.pass_context
def svc(context: click.Context) -> None:
    """Personal Activity Analytics Service: your own measured life behind one honest API."""
    chosen = settings.read()
    # A server that was handed its own roles' URLs has no business with the owner's.
    if chosen.database_url is None and not chosen.role_urls:
        chosen = replace(chosen, database_url=embedded.running_url(chosen.data_dir))
    context.obj = chosen


@svc.command("up")
@click.pass_obj
def start(chosen: Settings) -> None:
    """Start everything on this machine: database, migrations and both servers, until Ctrl-C."""
    # What is running now is for other commands to find; this one starts its own.
    sys.exit(up.run(replace(chosen, database_url=settings.read().database_url)))


@svc.command("migrate")
@click.pass_obj
def bring_up_to_date(chosen: Settings) -> None:
    """Bring database roles and schema up to date."""
    migrate.migrate(chosen, click.echo)


@svc.command("psql", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def open_psql(chosen: Settings, arguments: tuple[str, ...]) -> None:
    """Open psql on the service's database as its owner; further ARGUMENTS go to psql."""
    if chosen.database_url is None:
        raise SettingsError("no database: set DATABASE_URL, or start 'svc up'")
    program = str(embedded.binaries() / "psql")
    # A URL among a process's arguments can be read by everybody on the machine; PGSERVICE-like
    # variables cannot.
    completed = subprocess.run(  # noqa: S603 -- the program is ours, no shell is involved
        [program, *arguments],
        env=os.environ | embedded.libpq_environment(chosen.database_url),
        check=False,
    )
    sys.exit(completed.returncode)


def main() -> NoReturn:
    """Run ``svc``; an error that a user can mend is one line, and the exit status is 1."""
    try:
        svc(prog_name="svc")
    except (
        SettingsError,
        AddressError,
        embedded.EmbeddedError,
        migrate.MigrationError,
    ) as error:
        click.echo(f"svc: {error}", err=True)
    sys.exit(1)


# Each server keeps its commands beside what they do.
for _command in (*authserver.commands.COMMANDS, *resourceserver.commands.COMMANDS):
    svc.add_command(_command)

if __name__ == "__main__":
    main()
