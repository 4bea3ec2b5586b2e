"""The exit statuses that the code has are those of the table in docs/OPERATING.md."""

import ast
import re
from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Final

import click
import pytest

from deploy.cli import svc
from deploy.doctor import checks
from deploy.doctor.checks import Outcome, Result
from tests.rooms import PACKAGES, ROOT

OPERATING: Final = (ROOT / "docs/OPERATING.md").read_text(encoding="utf-8")
TABLE: Final = OPERATING.partition("| exit status | |\n|---|---|\n")[2].partition("\n\n")[0]
ROWS: Final = {
    status.strip(): text
    for status, text in (line.strip("|").split("|", 1) for line in TABLE.splitlines())
}

COMPUTED: Final = {
    ("deploy.doctor.command", "checks.exit_status(results)"): ["1", "2"],
    ("deploy.owner", "completed.returncode"): ["that of psql"],
    ("deploy.backup.commands", "128 + number"): ["143"],
}
"""The rows about statuses that are computed, by module and expression."""
NO_COMMANDS: Final = {"deploy.cli", "deploy.owner", "deploy.runner.supervisor", "shared.readiness"}
"""Modules that end a process for any command, or that run as programs of their own."""

Callback = tuple[str, str]
"""The module and the name of the function that a command calls."""


def commands(group: click.Group, before: str = "svc") -> Iterator[tuple[str, Callback]]:
    """Yield the words of each command, and the function that it calls."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{before} {name}")
        else:
            assert command is not None
            callback = command.callback
            assert callback is not None
            yield f"{before} {name}", (callback.__module__, callback.__name__)


COMMANDS: Final = list(commands(svc))


ENDS: Final = ("sys.exit", "context.exit", "os._exit")
"""The functions that end a process with a status."""


def exits() -> Iterator[tuple[str, str, str]]:
    """Yield module, function and status of each place that ends a process with a status."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            # Each process of the tests collects this file, and parsing all modules takes it most of a second.
            if not any(name in text for name in ENDS):
                continue
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for function, call in calls(text):
                if ast.unparse(call.func) in ENDS and call.args:
                    yield module, function, ast.unparse(call.args[0])


def calls(text: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call in a module, with the outermost function around it."""
    for statement in ast.parse(text).body:
        name = getattr(statement, "name", "")
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                yield name, node


EXITS: Final = [
    each for each in exits() if each[0] not in {"deploy.runner.forking", "shared.readiness"}
]


def test_each_computed_status_is_still_in_the_code() -> None:
    assert set(COMPUTED) - {(module, status) for module, _, status in EXITS} == set()


def test_the_table_has_each_status_once() -> None:
    assert list(ROWS) == ["0", "1", "2", "143", "that of psql"]


@pytest.mark.parametrize(("module", "function", "status"), EXITS, ids="{}".format)
def test_each_status_of_the_code_is_in_the_table(module: str, function: str, status: str) -> None:
    rows = COMPUTED.get((module, status), [status])

    if module not in NO_COMMANDS:
        of_module = [(words, of) for words, of in COMMANDS if of[0] == module]
        # A function that is no command's own serves any command of its module.
        own = [words for words, of in of_module if of[1] == function]
        named = own or [words for words, _ in of_module]
        for row in rows:
            assert any(f"`{words}`" in ROWS[row] for words in named), (row, named)
    elif status not in ("main()", "startup.run(chosen)"):
        assert set(rows) <= ROWS.keys()


def test_the_statuses_of_the_doctor_are_in_the_table() -> None:
    results = [Result(outcome, "found", check="disk") for outcome in Outcome]

    statuses = {
        str(checks.exit_status(chosen))
        for length in range(len(results) + 1)
        for chosen in combinations_with_replacement(results, length)
    }

    assert statuses == {"0", "1", "2"}
    assert statuses - {"0"} == {row for row, text in ROWS.items() if "`svc doctor`" in text}


def test_the_table_names_commands_that_there_are() -> None:
    named = set(re.findall(r"`(svc [a-z -]+)`", TABLE))

    assert named - {words for words, _ in COMMANDS} == set()


def test_statuses_of_click_are_in_the_table() -> None:
    assert {str(click.ClickException.exit_code), str(click.UsageError.exit_code)} <= ROWS.keys()
