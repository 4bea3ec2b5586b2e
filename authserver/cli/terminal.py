"""Functions that all commands use: database access, validation of arguments, and tables."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import click
import psycopg

from authserver import events, forms, rows
from authserver.people import accounts
from authserver.people.accounts import Account
from authserver.rows import Database
from shared import schema, web
from shared.settings import Settings

Answer = TypeVar("Answer")


def ask(chosen: Settings, work: Callable[[Database], Awaitable[Answer]]) -> Answer:
    """Run ``work`` with a database connection as the role authserver. Raises ClickException.

    Security events are logged to standard error, as in a server.
    """

    async def connected() -> Answer:
        async with rows.connected(chosen) as connection:
            return await work(connection)

    return run(connected())


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return what ``work`` answers. Raises ClickException where the database does not do it."""
    try:
        with log_on_stderr():
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


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Log security events to standard error until the end of the block."""
    # A new handler each time, because sys.stderr may have been replaced.
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(web.LOG_FORMAT))
    level = events.log.level
    events.log.addHandler(handler)
    events.log.setLevel(logging.INFO)
    try:
        yield
    finally:
        events.log.setLevel(level)
        events.log.removeHandler(handler)


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


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Print ``lines`` under ``header``, in columns."""
    cells = [[plain(cell) for cell in line] for line in (header, *lines)]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def plain(value: str) -> str:
    """Return ``value`` without the characters that a terminal would interpret.

    Browsers and applications choose their own names; an escape sequence in a name could overwrite other
    text on the screen.
    """
    return "".join(letter for letter in value if letter.isprintable())


def shortened(value: str, length: int) -> str:
    """Return ``value``, cut to ``length`` characters."""
    return value if len(value) <= length else f"{value[: length - 1]}…"


def minute(at: datetime | None) -> str:
    """Format an instant to the minute, or None as a dash."""
    return "-" if at is None else _until(at, "minutes")


def second(at: datetime) -> str:
    """Format an instant to the second."""
    return _until(at, "seconds")


def _until(at: datetime, precision: str) -> str:
    return f"{at.replace(tzinfo=None).isoformat(' ', precision)}Z"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which gets an s in the plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
