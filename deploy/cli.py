"""The console script ``svc``: a list of all commands, whose modules lie beside what they do.

A command's module is imported when the command runs: importing all modules takes longer than most
commands do.

All commands read the same settings. Without DATABASE_URL they use the embedded PostgreSQL of a
``svc up`` that runs on the same data directory.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Final, NoReturn

import click
import psycopg

from deploy import migrate
from deploy.postgres import embedded
from deploy.runner import startup
from shared import VERSION, database, settings
from shared.listening import AddressError
from shared.settings import Settings, SettingsError

_COMMANDS: Final = {
    "auth": "authserver.cli.server:auth",
    "bridge": "resourceserver.trackers.commands:bridge",
    "category": "deploy.operators.categories:category",
    "client": "authserver.cli.grants:client",
    "demo": "deploy.demo.command:demo",
    "event": "authserver.cli.people:event",
    "goal": "deploy.operators.people:goal",
    "grant": "authserver.cli.grants:grant",
    "import": "deploy.operators.imports:import_files",
    "imports": "deploy.operators.imports:imports",
    "ingest": "resourceserver.trackers.commands:ingest",
    "janitor": "authserver.cli.people:clean",
    "org": "deploy.operators.people:org",
    "resource": "resourceserver.server_command:resource",
    "rollup": "deploy.operators.rollups:rollup",
    "session": "authserver.cli.people:session",
    "summary": "deploy.operators.people:summary",
    "team": "deploy.operators.people:team",
    "token": "authserver.cli.grants:token",
    "user": "authserver.cli.people:user",
}
"""The commands that other modules define: module and name in it."""


class _LazyGroup(click.Group):
    """A group that imports the module of a command when click looks that command up."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or None."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="svc")
@click.pass_context
def svc(context: click.Context) -> None:
    """Personal Activity Analytics Service: an API for the data that people measure about their lives."""
    if _asks_for_help(context):
        context.obj = Settings()
    elif context.invoked_subcommand in ("ingest", "bridge"):
        # These may run as a user that may not read the servers' secrets or reach their database.
        context.obj = settings.read(
            {name: value for name, value in os.environ.items() if not name.endswith("_FILE")}
        )
    else:
        context.obj = _with_database(settings.read(), is_start=context.invoked_subcommand == "up")


def _asks_for_help(context: click.Context) -> bool:
    """Whether the command line asks for help; words after ``--`` are arguments of psql."""
    own = takewhile(lambda word: word != "--", sys.argv[1:])
    return not set(context.help_option_names).isdisjoint(own)


def _with_database(chosen: Settings, *, is_start: bool) -> Settings:
    """Return the settings with the URL of the embedded database that runs, unless the command starts one.

    Raises SettingsError for an invalid connection string, EmbeddedError for a data directory
    that cannot be read.
    """
    for name, url in _given_urls(chosen):
        _check_url(name, url)
    # A server that has the URLs of its own roles does not need the owner's.
    if chosen.database_url is not None or chosen.role_urls:
        return chosen
    # These variables belong to another database: PGSERVICE, PGHOSTADDR or PGOPTIONS would change or break
    # each connection to the embedded one, here and in child processes.
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]
    if is_start:
        return chosen
    return replace(chosen, database_url=embedded.running_url(chosen.data_dir))


def _given_urls(chosen: Settings) -> Iterator[tuple[str, str]]:
    if chosen.database_url is not None:
        yield "DATABASE_URL", chosen.database_url
    for role, url in chosen.role_urls.items():
        yield f"SVC_{role.upper()}_DATABASE_URL", url


def _check_url(name: str, url: str) -> None:
    """Raise SettingsError where libpq cannot read ``url``, of which the message repeats nothing."""
    try:
        ports = psycopg.conninfo.conninfo_to_dict(url).get("port", "")
        # With a slash in the password, libpq takes the text before it for the port and repeats it in an
        # error.
        is_url = all(not port or port.isdecimal() for port in str(ports).split(","))
    except (psycopg.ProgrammingError, UnicodeError):
        is_url = False
    if not is_url:
        raise SettingsError(f"{name} is not a connection string of PostgreSQL")


@svc.command("up")
@click.pass_obj
def start(chosen: Settings) -> None:
    """Start everything on this machine: database, migrations, both servers and a worker, until Ctrl-C."""
    sys.exit(startup.run(chosen))


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
        raise database.no_database(chosen)
    program = str(embedded.binaries() / "psql")
    # Every user of the machine can read the arguments of a process, but not its environment.
    completed = subprocess.run(  # noqa: S603 -- the program is ours, no shell is involved
        [program, *arguments],
        env=os.environ | embedded.libpq_environment(chosen.database_url),
        check=False,
    )
    sys.exit(completed.returncode)


def main() -> NoReturn:
    """Run ``svc``; an error that a user can fix is one line, and the exit status is 1."""
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


if __name__ == "__main__":
    main()
