"""What operators do with rollups: make them anew from sessions, and see that they are what they should be."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final
from uuid import UUID

import click
import psycopg

from authserver.cli import terminal
from deploy.operators import people
from resourceserver.timeline import jobs, rollups
from resourceserver.timeline.rollups import Difference
from shared import database
from shared.pool import Connection
from shared.settings import Settings

_SHOWN: Final = 20
"""How many differences of one person are named."""
_LENGTH: Final = 60
"""How much of a value is shown; a timeline's may be long."""
_SLOTS: Final = {1: "quarter", 2: "hour", 3: "day", 4: "month"}


@click.group()
def rollup() -> None:
    """What days and months come to, made of sessions so that reads are fast."""


@rollup.command("rebuild")
@click.argument("email", callback=terminal.text, required=False)
@click.option("--all", "is_for_all", is_flag=True, help="Everybody's.")
@click.pass_obj
def rebuild(chosen: Settings, email: str | None, *, is_for_all: bool) -> None:
    """Make all rollups of EMAIL anew, while they are read and written."""
    found = _people(chosen, email, is_for_all=is_for_all)

    async def make(worker: Connection) -> int:
        return sum([await rollups.rebuild(worker, user_id) for user_id, _ in found])

    click.echo(f"made {terminal.counted(_work(chosen, make), 'day')}")


@rollup.command("check")
@click.argument("email", callback=terminal.text, required=False)
@click.option("--all", "is_for_all", is_flag=True, help="Everybody's.")
@click.pass_obj
def check(chosen: Settings, email: str | None, *, is_for_all: bool) -> None:
    """Compare the rollups of EMAIL with the sessions they are made of, and name each difference.

    Nothing is written, and others may write meanwhile: days that wait to be made are left out. The exit
    status is 1 if anything differs; 'svc rollup rebuild' mends it.
    """
    found = _people(chosen, email, is_for_all=is_for_all)

    async def compare(worker: Connection) -> int:
        return sum([await _compare(worker, user_id, name) for user_id, name in found])

    differences = _work(chosen, compare)
    click.echo(f"{terminal.counted(differences, 'difference')}")
    if differences:
        sys.exit(1)


def _people(chosen: Settings, email: str | None, *, is_for_all: bool) -> list[tuple[UUID, str]]:
    """Return ids and addresses of who is meant. Raises ClickException, SettingsError."""
    if (email is None) != is_for_all:
        raise click.ClickException("either EMAIL or --all")
    with people.owner(chosen) as connection:
        if email is not None:
            return [(people.account(connection, email), email)]
        return connection.execute(people.SQL["accounts"]).fetchall()


def _work(chosen: Settings, work: Callable[[Connection], Awaitable[int]]) -> int:
    """Return what ``work`` does with a connection of the worker. Raises ClickException."""

    async def connected() -> int:
        async with jobs.connected(database.login(chosen, "worker")) as worker:
            return await work(worker)

    try:
        return asyncio.run(connected())
    except psycopg.Error as error:
        raise terminal.failure(error) from error


async def _compare(worker: Connection, user_id: UUID, name: str) -> int:
    """Print the first differences of one person, and return how many there are."""
    count = 0
    async with aclosing(rollups.check(worker, user_id)) as differences:
        async for difference in differences:
            count += 1
            if count <= _SHOWN:
                click.echo(terminal.plain(f"{name}: {_told(difference)}"))
    if count > _SHOWN:
        click.echo(terminal.plain(f"{name}: ... and {count - _SHOWN} more"))
    return count


def _told(difference: Difference) -> str:
    """Return one line about what is stored and what should be."""
    slot = _SLOTS.get(difference.grain or 0, "timeline")
    of = ", ".join(filter(None, (difference.name, difference.detail, difference.session_id)))
    where = f"{difference.at} {slot}" + (f" of {of}" if of else "")
    if difference.column is None and difference.stored is None:
        return f"{where}: missing, should be {_short(difference.expected)}"
    if difference.column is None:
        return f"{where}: should not be there, is {_short(difference.stored)}"
    return (
        f"{where}: {difference.column} is {_short(difference.stored)},"
        f" should be {_short(difference.expected)}"
    )


def _short(value: str | None) -> str:
    return "nothing" if value is None else terminal.shortened(value, _LENGTH)


COMMANDS: Final[tuple[click.Command, ...]] = (rollup,)
