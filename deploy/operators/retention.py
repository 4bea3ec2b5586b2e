"""``svc retention``: which sessions of old years a worker removes, or would remove."""

from pathlib import Path
from typing import Final

import click

from authserver.cli import terminal
from authserver.cli.terminal import Column
from deploy.operators import people
from shared import queries
from shared.settings import Settings

SQL: Final = queries.load(Path(__file__).with_name("retention.sql"))

_COLUMNS: Final = tuple(
    map(
        Column,
        (
            *("ACCOUNT", "OLDER THAN", "APP SESSIONS", "CODING SESSIONS", "WAITS FOR"),
            *("REMOVED BEFORE", "CLOSED BEFORE"),
        ),
    )
)
_MOST_YEARS: Final = 100


@click.command()
@click.option(
    "--years",
    type=click.IntRange(1, _MOST_YEARS),
    help="As if sessions were kept for so many years; by default as SVC_KEEP_RAW_YEARS says.",
)
@terminal.json_option
@click.pass_obj
def retention(chosen: Settings, years: int | None, *, is_json: bool) -> None:
    """List the accounts with sessions that are older than SVC_KEEP_RAW_YEARS, and how many.

    The command removes nothing: a worker does, a month of a person at a time, once the days are rolled up and
    summed up. WAITS FOR is the first day that is not. Sessions before CLOSED BEFORE are not accepted; what is
    closed and not removed opens again within an hour once it is kept.
    """
    years = chosen.keep_raw_years if years is None else years
    if years is None:
        raise click.ClickException(
            "SVC_KEEP_RAW_YEARS is not set, so all sessions are kept: try a number with --years"
        )
    with people.owner(chosen) as connection:
        found = connection.execute(SQL["old_sessions"], {"years": years}).fetchall()
    terminal.print_list(_COLUMNS, found, is_json=is_json)


COMMANDS: Final[tuple[click.Command, ...]] = (retention,)
