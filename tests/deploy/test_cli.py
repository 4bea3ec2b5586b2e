"""The console script: which modules a command imports, and settings that no command can use."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from deploy import cli
from tests.deploy.runner import ENVIRONMENT

ROOT = Path(__file__).parent.parent.parent

# Modules that take long to import, and that only servers need.
SERVERS_LIBRARIES = {"jinja2", "joserfc", "pydantic", "uvicorn", "webauthn"}


def imported(modules: str) -> set[str]:
    """Return which of the servers' libraries a new process has imported after ``import modules``."""
    return SERVERS_LIBRARIES & all_imported(modules)


def all_imported(modules: str) -> set[str]:
    """Return everything that a new process has imported after ``import modules``."""
    completed = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"],
        capture_output=True,
        check=True,
        cwd=ROOT,
        text=True,
    )
    return set(completed.stdout.split())


def test_the_runner_and_the_commands_about_accounts_import_no_library_of_a_server() -> None:
    assert imported("deploy.cli, authserver.cli.people, authserver.cli.grants") == set()


def test_a_persons_own_commands_import_no_database_and_no_server() -> None:
    unneeded = {"authserver", "psycopg", "resourceserver", "starlette"} | SERVERS_LIBRARIES

    assert all_imported("deploy.cli, deploy.person.commands") & unneeded == set()


def test_the_commands_that_serve_do_not_import_the_other_commands() -> None:
    assert imported("authserver.cli.server, resourceserver.server_command") == {"uvicorn"}


def test_a_server_imports_no_library_that_most_deployments_never_use() -> None:
    # Of a provider's client, of formats that nobody has imported yet, and of texts that nobody has read yet.
    assert all_imported("authserver.app") & {"httpx2", "joserfc"} == set()
    formats = all_imported("resourceserver.app, resourceserver.worker.kinds")
    unneeded = {"icalendar", "recurring_ical_events", "fitdecode", "markdown_it"}
    assert formats & unneeded == set()


def commands(group: click.Group, before: str = "") -> Iterator[list[str]]:
    """Yield the words of each group and command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        yield [*before.split(), name]
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before} {name}")


@pytest.mark.parametrize("words", list(commands(cli.svc)), ids=" ".join)
def test_a_command_is_found_under_its_name_and_has_help(words: list[str]) -> None:
    group: click.Command | None = cli.svc
    for word in words:
        assert isinstance(group, click.Group)
        group = group.get_command(click.Context(group), word)

    assert group is not None
    assert group.name == words[-1]
    assert group.help


@pytest.mark.parametrize(
    "words", [each for each in commands(cli.svc) if each[-1] == "list"], ids=" ".join
)
def test_each_list_can_be_printed_as_json(words: list[str]) -> None:
    command: click.Command | None = cli.svc
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)

    assert command is not None
    assert "--json" in {option for each in command.params for option in each.opts}


Main = Callable[..., str]


@pytest.fixture
def main(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data_dir: Path
) -> Main:
    """Runs a command line that fails, with these settings alone, and returns its output."""

    def fail(line: str, **variables: str) -> str:
        for name in list(os.environ):
            monkeypatch.delenv(name)
        for name, value in (ENVIRONMENT | {"SVC_DATA_DIR": str(data_dir)} | variables).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["svc", *line.split()])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 1
        assert not data_dir.exists()
        return capsys.readouterr().err

    return fail


@pytest.mark.parametrize("command", ["up", "migrate", "psql", "token list alice@example.org"])
@pytest.mark.parametrize(
    "url",
    [
        "password secret",
        "postgresql://u:secret@/?foo=bar",
        "postgresql://u:secret/and-more@db.example/svc",
    ],
)
def test_a_malformed_database_url_is_not_repeated(main: Main, command: str, url: str) -> None:
    message = main(command, DATABASE_URL=url)

    assert message == "svc: DATABASE_URL is not a connection string of PostgreSQL\n"


def test_a_malformed_url_of_a_role_is_not_repeated(main: Main) -> None:
    message = main("resource serve", SVC_READER_DATABASE_URL="postgresql://u:secret@/?foo=bar")

    assert message == "svc: SVC_READER_DATABASE_URL is not a connection string of PostgreSQL\n"


def test_a_missing_database_names_the_data_directory(main: Main, data_dir: Path) -> None:
    missing = f"no database: 'svc up' is not running on SVC_DATA_DIR, which is {data_dir};"

    for line in ("psql", "user list", "demo a@example.org", "goal list a@example.org"):
        assert main(line).startswith(f"svc: {missing} start it, set SVC_DATA_DIR ")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("svc us", "user"), ("svc user sh", "show"), ("svc user list --j", "--json")],
)
def test_the_shell_completes_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, completed: str
) -> None:
    # docs/OPERATING.md has this command for completion in bash.
    monkeypatch.setenv("_SVC_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))

    with pytest.raises(SystemExit):
        cli.main()

    assert capsys.readouterr().out == f"plain,{completed}\n"
