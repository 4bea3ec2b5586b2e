"""Functions that all commands use: database access, validation of arguments, and tables.

Commands print no security events; ``svc event list`` prints the events of an account.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import click
import psycopg

from authserver import forms, rows
from authserver.people import accounts
from authserver.people.accounts import Account
from authserver.rows import Database
from shared import schema, screen
from shared.settings import Settings

Answer = TypeVar("Answer")
Value = str | int | datetime | UUID | Sequence[str] | Sequence[int] | None
"""A value of a list."""


class Column(NamedTuple):
    """A column of a list."""

    title: str
    absent: str = "-"
    """What a table says where the value is None or empty."""
    longest: int | None = None
    """How many characters a table prints at most."""
    separator: str = " "
    """What stands between the texts of a value that has several."""

    @property
    def key(self) -> str:
        """The member of JSON objects."""
        return self.title.lower().replace(" ", "_").replace("-", "_")


json_option: Final = click.option(
    "--json", "is_json", is_flag=True, help="Print JSON instead of a table."
)
"""An option that every command has that prints a list."""


def ask(chosen: Settings, work: Callable[[Database], Awaitable[Answer]]) -> Answer:
    """Run ``work`` with a database connection as the role authserver. Raises ClickException."""

    async def connected() -> Answer:
        async with rows.connected(chosen) as connection:
            return await work(connection)

    return run(connected())


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return what ``work`` answers. Raises ClickException where the database does not do it."""
    try:
        return asyncio.run(work)
    except psycopg.Error as error:
        raise failure(error) from error


def failure(error: psycopg.Error) -> click.ClickException:
    """Return the error of a command for a database error."""
    mismatch = schema.mismatch_of(error)
    if mismatch is not None:
        return click.ClickException(f"{mismatch.advice} ({rows.reason(error)})")
    if isinstance(error, psycopg.OperationalError):
        return click.ClickException(f"the database does not answer: {rows.reason(error)}")
    return click.ClickException(
        f"the database refuses: {rows.reason(error)}; has 'svc migrate' run?"
    )


async def account(database: Database, email: str) -> Account:
    """Return the account of ``email``. Raises ClickException if there is none."""
    account_row = await accounts.find(database, email)
    if account_row is None:
        raise click.ClickException(f"there is no account {email}")
    return account_row


def text(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return an argument unchanged. Raises ClickException if its bytes were not valid UTF-8."""
    if value is not None and not forms.is_text(value):
        raise click.ClickException(f"{parameter.human_readable_name} is not text in UTF-8")
    return value


def password(*, from_stdin: bool) -> str:
    """Read the password from standard input or a prompt. Raises ClickException if it is not UTF-8."""
    refusal = click.ClickException("the password is not text in UTF-8")
    try:
        if from_stdin:
            typed = sys.stdin.read().rstrip("\r\n")
        else:
            typed = str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    except UnicodeDecodeError:
        raise refusal from None
    if not forms.is_text(typed):
        raise refusal
    return typed


def secret(label: str, *, from_stdin: bool, if_empty: str | None) -> str:
    """Read a secret from a line of standard input or a prompt.

    ``if_empty`` says after the word ``empty`` what an empty one means; None if it is required. Raises
    ClickException if it is not UTF-8.
    """
    refusal = click.ClickException(f"{label} is not text in UTF-8")
    try:
        if from_stdin:
            typed = sys.stdin.readline()
        else:
            # The prompt is not a part of what the command prints.
            asking = label if if_empty is None else f"{label} (empty {if_empty})"
            default = None if if_empty is None else ""
            typed = str(
                click.prompt(asking, default, hide_input=True, show_default=False, err=True)
            )
    except UnicodeDecodeError:
        raise refusal from None
    if not forms.is_text(typed):
        raise refusal
    return typed.strip()


def print_list(
    columns: Sequence[Column], lines: Iterable[Sequence[Value]], *, is_json: bool
) -> None:
    """Print ``lines`` as a table, or as a JSON array with an object for each."""
    if is_json:
        objects = [
            {column.key: _json_value(value) for column, value in zip(columns, line, strict=True)}
            for line in lines
        ]
        # ASCII alone, so that no character can overwrite other text on the screen.
        click.echo(json.dumps(objects, indent=2))
        return
    screen.table(
        [column.title for column in columns],
        (
            [_cell(column, value) for column, value in zip(columns, line, strict=True)]
            for line in lines
        ),
    )


def _json_value(value: Value) -> object:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case UUID():
            return str(value)
        case _:
            return value


def _cell(column: Column, value: Value) -> str:
    match value:
        case datetime():
            return minute(value)
        case str() | int() | UUID():
            text = str(value)
        case None:
            text = ""
        case _:
            text = column.separator.join(map(str, value))
    drawn = screen.plain(text) or column.absent
    return drawn if column.longest is None else screen.shortened(drawn, column.longest)


def minute(at: datetime | None) -> str:
    """Format an instant to the minute, or None as a dash."""
    return "-" if at is None else _until(at, "minutes")


def second(at: datetime) -> str:
    """Format an instant to the second."""
    return _until(at, "seconds")


def _until(at: datetime, precision: str) -> str:
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(' ', precision)}Z"
