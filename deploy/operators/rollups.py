"""``svc rollup``: compute rollups again from sessions, and compare them with sessions."""

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
from resourceserver.timeline import rollups, rounds
from resourceserver.timeline.rollups import Difference
from shared import database, screen
from shared.pool import Connection
from shared.settings import Settings

_MOST_DIFFERENCES: Final = 20
"""How many differences of one person are printed."""
_LONGEST_VALUE: Final = 60
"""How many characters of a value are printed; a timeline's may be long."""
_SLOTS: Final = {None: "timeline", 0: "span", 1: "quarter", 2: "hour", 3: "day", 4: "month"}


@click.group()
def rollup() -> None:
    """Rollups: the stored sums of sessions by day and month."""


@rollup.command("rebuild")
@click.argument("email", callback=terminal.text, required=False)
@click.option("--all", "is_for_all", is_flag=True, help="All accounts.")
@click.pass_obj
def rebuild(chosen: Settings, email: str | None, *, is_for_all: bool) -> None:
    """Compute all rollups of EMAIL again, while the servers read and write them."""
    accounts = _accounts(chosen, email, is_for_all=is_for_all)

    async def rebuild_all(worker: Connection) -> int:
        return sum([await rollups.rebuild(worker, user_id) for user_id, _ in accounts])

    click.echo(f"rebuilt {screen.counted(_run(chosen, rebuild_all), 'day')}")


@rollup.command("check")
@click.argument("email", callback=terminal.text, required=False)
@click.option("--all", "is_for_all", is_flag=True, help="All accounts.")
@click.pass_obj
def check(chosen: Settings, email: str | None, *, is_for_all: bool) -> None:
    """Compare the rollups of EMAIL with the sessions that they sum up, and print the differences.

    The command writes nothing, and servers may write meanwhile: it leaves out days that wait for the job.
    The exit status is 1 if anything differs; 'svc rollup rebuild' corrects it.
    """
    accounts = _accounts(chosen, email, is_for_all=is_for_all)

    async def compare_all(worker: Connection) -> int:
        return sum([await _compare(worker, user_id, address) for user_id, address in accounts])

    differences = _run(chosen, compare_all)
    click.echo(f"{screen.counted(differences, 'difference')}")
    if differences:
        sys.exit(1)


def _accounts(chosen: Settings, email: str | None, *, is_for_all: bool) -> list[tuple[UUID, str]]:
    """Return ids and addresses of one account or of all. Raises ClickException, SettingsError."""
    if (email is None) != is_for_all:
        raise click.ClickException("either EMAIL or --all")
    with people.owner(chosen) as connection:
        if email is not None:
            return [(people.account(connection, email), email)]
        return connection.execute(people.SQL["accounts"]).fetchall()


def _run(chosen: Settings, work: Callable[[Connection], Awaitable[int]]) -> int:
    """Return the result of ``work`` on a connection of the worker role. Raises ClickException."""

    async def connected() -> int:
        async with rounds.connected(database.login(chosen, "worker")) as worker:
            return await work(worker)

    try:
        return asyncio.run(connected())
    except psycopg.Error as error:
        raise terminal.failure(error) from error


async def _compare(worker: Connection, user_id: UUID, address: str) -> int:
    """Print the first differences of one person, and return the number of all."""
    count = 0
    async with aclosing(rollups.check(worker, user_id)) as differences:
        async for difference in differences:
            count += 1
            if count <= _MOST_DIFFERENCES:
                click.echo(screen.plain(f"{address}: {_line(difference)}"))
    if count > _MOST_DIFFERENCES:
        click.echo(screen.plain(f"{address}: ... and {count - _MOST_DIFFERENCES} more"))
    return count


def _line(difference: Difference) -> str:
    """Return one line with the stored and the expected value."""
    slot = _SLOTS[difference.grain]
    of = ", ".join(filter(None, (difference.name, difference.detail, difference.session_id)))
    where = f"{difference.at} {slot}" + (f" of {of}" if of else "")
    if difference.column is None and difference.stored is None:
        return f"{where}: missing, should be {_short(difference.expected)}"
    if difference.column is None:
        return f"{where}: unexpected, is {_short(difference.stored)}"
    return (
        f"{where}: {difference.column} is {_short(difference.stored)},"
        f" should be {_short(difference.expected)}"
    )


def _short(value: str | None) -> str:
    return "nothing" if value is None else screen.shortened(value, _LONGEST_VALUE)


COMMANDS: Final[tuple[click.Command, ...]] = (rollup,)
