"""What the commands have in common: the database for a while, words that are text, and tables."""

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
    """Return what ``work`` answers, done as the server's own role. Raises ClickException.

    Security events go to standard error, as a server's do.
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
    """Return what a command ends with where the database did not do what it was asked."""
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
    """Have security events written to standard error until the end of the block."""
    # Made each time, for the standard error of the moment.
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
    """Return the account of ``email``. Raises ClickException where there is none."""
    found = await accounts.find(database, email)
    if found is None:
        raise click.ClickException(f"there is no account {email}")
    return found


def text(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return a word of the command line, if any. Raises ClickException where its bytes were not UTF-8."""
    if value is not None and not forms.is_text(value):
        raise click.ClickException(f"{parameter.human_readable_name} is not text in UTF-8")
    return value


def password(*, from_stdin: bool) -> str:
    """Return the password that is read or typed. Raises ClickException where it is not text."""
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
    """Return ``value`` without what a terminal would obey instead of showing it.

    Browsers and applications choose what they are called, and an escape sequence in it could rewrite
    what stands on the screen above.
    """
    return "".join(letter for letter in value if letter.isprintable())


def shortened(value: str, length: int) -> str:
    """Return ``value``, cut where it is longer than ``length``."""
    return value if len(value) <= length else f"{value[: length - 1]}…"


def minute(at: datetime | None) -> str:
    """Return an instant to the minute, or a dash for none."""
    return "-" if at is None else _until(at, "minutes")


def second(at: datetime) -> str:
    """Return an instant to the second."""
    return _until(at, "seconds")


def _until(at: datetime, precision: str) -> str:
    return f"{at.replace(tzinfo=None).isoformat(' ', precision)}Z"


def counted(count: int, noun: str) -> str:
    """Return a number of things; ``noun`` is for one of them and takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
