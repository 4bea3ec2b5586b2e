"""The console script ``svc``: a list of all commands, whose modules lie beside what they do.

A command's module is imported when the command runs: importing all modules takes longer than most
commands do.

All commands read the same settings. Without DATABASE_URL they use the embedded PostgreSQL of a
``svc up`` that runs on the same data directory. Some run on people's own machines and need no database.
"""

import importlib
import os
import sys
from itertools import takewhile
from typing import Any, Final, NoReturn

import click

from shared import VERSION, settings
from shared.listening import AddressError
from shared.settings import Settings, SettingsError

_COMMANDS: Final = {
    "apps": "deploy.person.commands:apps",
    "auth": "authserver.cli.server:auth",
    "backup": "deploy.backup.commands:backup",
    "bridge": "resourceserver.trackers.commands:bridge",
    "category": "deploy.operators.categories:category",
    "client": "authserver.cli.grants:client",
    "connection": "deploy.operators.connections:connection",
    "demo": "deploy.demo.command:demo",
    "doctor": "deploy.doctor.command:doctor",
    "event": "authserver.cli.people:event",
    "export": "deploy.person.commands:export",
    "goal": "deploy.operators.people:goal",
    "grant": "authserver.cli.grants:grant",
    "import": "deploy.operators.imports:import_files",
    "imports": "deploy.operators.imports:imports",
    "ingest": "resourceserver.trackers.commands:ingest",
    "janitor": "authserver.cli.people:clean",
    "login": "deploy.person.commands:login",
    "logout": "deploy.person.commands:logout",
    "migrate": "deploy.owner:bring_up_to_date",
    "org": "deploy.operators.people:org",
    "psql": "deploy.owner:open_psql",
    "resource": "resourceserver.server_command:resource",
    "restore": "deploy.backup.commands:restore",
    "retention": "deploy.operators.retention:retention",
    "rollup": "deploy.operators.rollups:rollup",
    "sealing": "deploy.operators.sealing:sealing_group",
    "session": "authserver.cli.people:session",
    "settings": "deploy.settings_file:print_settings",
    "summary": "deploy.operators.people:summary",
    "team": "deploy.operators.people:team",
    "today": "deploy.person.commands:today",
    "token": "authserver.cli.grants:token",
    "up": "deploy.owner:start",
    "upgrade-database": "deploy.owner:upgrade_database",
    "user": "authserver.cli.people:user",
    "week": "deploy.person.commands:week",
}
"""The commands: module and name in it."""

_WITHOUT_DATABASE: Final = frozenset(
    ("apps", "bridge", "export", "ingest", "login", "logout", "today", "week")
)
"""Commands that may run as a user that may not read the servers' secrets or reach their database."""
_OWN_SETTINGS: Final = frozenset(("doctor",))
"""Commands that read the settings themselves, because they report what is wrong with them."""

_STARTING: Final = frozenset(("up", "upgrade-database"))
"""Commands that start the embedded PostgreSQL themselves, and so do not look for one that runs."""

_SERVERS: Final = frozenset(("auth", "resource"))
"""Commands that never use the login of the database's owner."""

_LASTING: Final = _SERVERS | {"up", "migrate"}
"""Commands that a deployment runs. They name variables that are no settings."""


class _LazyGroup(click.Group):
    """A group that imports the module of a command when click looks that command up."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Return the names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- the same
        """Return the command of this name, or None."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = _imported(_COMMANDS[cmd_name])
        return command


def _imported(name: str) -> Any:
    """Return what a module and a name in it stand for."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="svc")
@click.pass_context
def svc(context: click.Context) -> None:
    """Personal Activity Analytics Service: an API for the data that people measure about their lives."""
    if _asks_for_help(context) or context.invoked_subcommand == "settings":
        context.obj = Settings()
    elif context.invoked_subcommand in _OWN_SETTINGS:
        context.obj = None
    elif context.invoked_subcommand in _WITHOUT_DATABASE:
        context.obj = settings.read(
            {name: value for name, value in os.environ.items() if not name.endswith("_FILE")}
        )
    else:
        chosen = settings.read()
        command = context.invoked_subcommand
        if command in _LASTING:
            for line in _imported("deploy.settings_file:unknown")(os.environ):
                click.echo(f"svc: {line}", err=True)
        # A server that has its logins does not need the modules that look for a database.
        if command not in _SERVERS or not (chosen.database_url or chosen.role_urls):
            with_database = _imported("deploy.owner:with_database")
            chosen = with_database(chosen, is_start=command in _STARTING)
        context.obj = chosen


def _asks_for_help(context: click.Context) -> bool:
    """Whether the command line asks for help; words after ``--`` are arguments of psql."""
    own = takewhile(lambda word: word != "--", sys.argv[1:])
    return not set(context.help_option_names).isdisjoint(own)


def main() -> NoReturn:
    """Run ``svc``; an error that a user can fix is one line, and the exit status is 1."""
    try:
        svc(prog_name="svc")
    except (SettingsError, AddressError) as error:
        _print_error(error)
    except Exception as error:
        # Their module is imported only now, because commands without a database cannot raise them.
        if not isinstance(error, _imported("deploy.owner:FIXABLE")):
            raise
        _print_error(error)
    sys.exit(1)


def _print_error(error: Exception) -> None:
    click.echo(f"svc: {error}", err=True)


if __name__ == "__main__":
    main()
