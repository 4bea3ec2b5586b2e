"""``svc demo``: writes an invented life into an account, in one transaction.

The command writes with the rights of the owner of the tables and bypasses ingest. So it also writes what
ingest keeps up to date: the counts of each device, and the marks for summaries and rollups. After that
transaction it computes rollups and summaries itself, as the jobs of a server would later.
"""

import asyncio
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import click
import psycopg
from psycopg import sql

from authserver.cli import terminal
from authserver.people import accounts
from authserver.people.accounts import UnacceptableEmail
from deploy.demo import body, standing
from deploy.demo.days import Life
from deploy.demo.life import Piece, Story, memberships
from deploy.demo.world import AMSTERDAM
from resourceserver.timeline import rollups, rounds, summaries
from shared import database, queries, schema, screen
from shared.settings import Settings

SQL: Final = queries.load(Path(__file__).with_name("demo.sql"))

Connection = psycopg.Connection[tuple[Any, ...]]

Removed = Literal["nothing", "invented", "everything"]
"""What the command removes before it writes."""

_MARKS: Final = "location.derivation_due"
"""Marks of days of imports, which only the removal of everything removes: no demo sets them again."""
COMPUTED: Final = {
    f"activity.{name}"
    for name in (
        *("device_stream", "summary_due", "daily_summary"),
        *("rollup_due", "label", "app_time", "coding_time", "app_timeline"),
        *("attention", "attention_due"),
    )
} | {_MARKS}
"""Tables whose rows the service computes from those of other tables."""
_NAMES: Final = {
    "activity.category_score": (
        "category || ' ' || score",
        [f"{category} {score}" for category, score in standing.SCORES.items()],
    ),
    "health.metric": ("metric_type", list(body.METRICS)),
    "profile.integration": ("provider", list(standing.FORMER_INTEGRATIONS)),
}
"""Tables without ids: the expression that names a row, and the names of the rows that the demo writes."""

_KEYED: Final = {
    **{f"content.{name}": f"{name}_id" for name in ("calendar", "calendar_event", "play", "title")},
    **{f"health.{name}": f"{name}_id" for name in ("heart_rate", "sample", "sleep")},
    **{f"location.{name}": f"{name}_id" for name in ("event", "place", "point")},
    "activity.screen_time": "screen_time_id",
    "content.recording": "recording_id",
    "music.listen": "listen_id",
}
"""Tables that integrations fill, with the column of the id that the key is made of."""

_FIRST: Final = date(2000, 1, 2)
"""The first day that lies, in every time zone, after the earliest start that a session may have."""


@click.command()
@click.argument("email", callback=terminal.text)
@click.option(
    "--days", type=click.IntRange(1, 3660), default=365, show_default=True, help="Number of days."
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Each number gives another life."
)
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The last day; by default today, up to now.",
)
@click.option("--replace", is_flag=True, help="First remove what an earlier 'svc demo' wrote.")
@click.option(
    "--remove-everything",
    is_flag=True,
    help="First remove all data of the account, invented or not.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def demo(
    chosen: Settings,
    *,
    email: str,
    days: int,
    seed: int,
    until: datetime | None,
    replace: bool,
    remove_everything: bool,
    yes: bool,
) -> None:
    """Fill EMAIL's account with the data of an invented life.

    The same seed, days and last day give the same life. The command refuses an account that has data.
    --replace removes the rows of an earlier demo, also those that were edited since, and keeps all others.
    The command needs the login of the database's owner.
    """
    if chosen.database_url is None:
        raise database.no_database(chosen)
    if remove_everything and not yes:
        click.confirm(f"Remove all data of {email}, invented or not?", abort=True)
    removed: Removed = "everything" if remove_everything else "invented" if replace else "nothing"
    last = None if until is None else until.date()
    worker = database.login(chosen, "worker")
    try:
        with psycopg.connect(chosen.database_url, connect_timeout=5) as connection:
            user_id, written = _write(
                connection, email, last, days=days, seed=seed, removed=removed
            )
        asyncio.run(_compute(worker, user_id))
    except psycopg.errors.UniqueViolation as error:
        table = f"{error.diag.schema_name}.{error.diag.table_name}"
        raise click.ClickException(
            f"{email} has data where 'svc demo' would write its own ({table});"
            " use another account, or --remove-everything"
        ) from error
    except psycopg.Error as error:
        raise terminal.failure(error) from error
    click.echo(f"{written} rows for {email}, until {last or 'now'}")


def _write(
    connection: Connection, email: str, last: date | None, *, days: int, seed: int, removed: Removed
) -> tuple[UUID, int]:
    """Write the rows, and return whose they are and their number. Raises ClickException."""
    connection.execute(SQL["become_owner"])
    schema.check(connection)
    user_id, zone = _account(connection, email)
    # The person may never have set a time zone.
    home = AMSTERDAM.zone if zone == "UTC" else zone
    now = datetime.now(UTC)
    today = now.astimezone(ZoneInfo(home)).date()
    last = last or today
    if last > today:
        raise click.ClickException(f"{last} is in the future")
    if last - _FIRST < timedelta(days=days - 1):
        raise click.ClickException(f"no day before {_FIRST} can be invented")
    life = Life(user_id, seed, last - timedelta(days=days - 1), last, home)
    midnight = datetime.combine(last + timedelta(days=1), time(), ZoneInfo(home))
    # The mark keeps the job from making rollups of rows that this transaction removes.
    connection.execute(SQL["mark_rollups"], {"user_id": user_id})
    _clear(connection, email, user_id, removed)
    progress = click.progressbar(
        length=days, label=f"{days} days", file=sys.stderr, hidden=not sys.stderr.isatty()
    )
    written = _write_memberships(connection, life)
    with progress as bar:
        for count, piece in Story(life, min(now, midnight)).pieces():
            written += _copy(connection, user_id, piece)
            bar.update(count)
    for name in ("count_streams", "mark_days"):
        written += connection.execute(SQL[name], {"user_id": user_id}).rowcount
    connection.execute(SQL["mark_rollups"], {"user_id": user_id})
    for table in _tables(connection):
        connection.execute(sql.SQL(SQL["analyze"]).format(table=sql.SQL(table)))
    return user_id, written


async def _compute(login: str, user_id: UUID) -> None:
    """Make rollups and summaries, so that no answer has to wait for the jobs of a server."""
    async with rounds.connected(login) as worker:
        await rollups.rebuild(worker, user_id)
        await summaries.make_all(worker, user_id)


def _account(connection: Connection, email: str) -> tuple[UUID, str]:
    """Return id and time zone of the account. Raises ClickException where there is none."""
    try:
        folded = accounts.folded_email(email)
    except UnacceptableEmail as error:
        raise click.ClickException(str(error.__doc__)) from error
    row = connection.execute(SQL["account"], {"email": folded}).fetchone()
    if row is None:
        raise click.ClickException(
            f"there is no account {screen.plain(email)}; add one with 'svc user add'"
        )
    return row[0], row[1]


def _tables(connection: Connection) -> dict[str, str | None]:
    """Return the names of all tables of user data, as the catalogue spells them, with their column of ids."""
    return dict(connection.execute(SQL["tables"]).fetchall())


def _clear(connection: Connection, email: str, user_id: UUID, removed: Removed) -> None:
    """Remove the account's data as far as the options say. Raises ClickException if data hinders the demo."""
    tables = _tables(connection)
    values = {"user_id": user_id}
    if removed == "nothing":
        _refuse_data(connection, email, tables, values)
    free: dict[str, list[sql.Composable]] = {table: [sql.SQL("true")] for table in tables}
    if removed == "invented":
        _refuse_sums(connection, email, values)
        for table, referring, match in connection.execute(SQL["references"]).fetchall():
            free[table].append(
                sql.SQL(SQL["is_free"]).format(table=sql.SQL(referring), match=sql.SQL(match))
            )
            _of_demo(connection, "lock_rows", table, tables[table], values)
    for table, column in tables.items():
        is_free = sql.SQL(" and ").join(free[table])
        if removed == "everything":
            statement = sql.SQL(SQL["remove_rows"]).format(
                table=sql.SQL(table), invented=sql.SQL("true"), is_free=is_free
            )
            connection.execute(statement, values)
        elif table != _MARKS:
            _of_demo(connection, "remove_rows", table, column, values, is_free=is_free)
    connection.execute(SQL["mark_derived_days"], values)


def _refuse_data(
    connection: Connection, email: str, tables: Mapping[str, str | None], values: dict[str, Any]
) -> None:
    """Raise ClickException if the account has data."""
    others = [
        table
        for table, column in tables.items()
        if _of_demo(connection, "has_other_rows", table, column, values).fetchone() == (True,)
    ]
    if others:
        raise click.ClickException(
            f"{email} has data that 'svc demo' did not write ({', '.join(others)});"
            " use another account, or --remove-everything"
        )
    for table in tables:
        statement = sql.SQL(SQL["has_rows"]).format(table=sql.SQL(table))
        if connection.execute(statement, values).fetchone() == (True,):
            raise click.ClickException(
                f"{email} has data of an earlier 'svc demo'; --replace removes it first"
            )


def _refuse_sums(connection: Connection, email: str, values: dict[str, Any]) -> None:
    """Raise ClickException if rollups of the account could not be computed again."""
    statement = sql.SQL(SQL["has_rows"]).format(table=sql.SQL("activity.removed_day"))
    if connection.execute(statement, values).fetchone() == (True,):
        raise click.ClickException(
            f"{email} has sums of old sessions that SVC_KEEP_RAW_YEARS has removed, and nothing can make"
            " them again; use another account, or --remove-everything"
        )


def _of_demo(
    connection: Connection,
    name: str,
    table: str,
    column: str | None,
    values: dict[str, Any],
    **parts: sql.Composable,
) -> psycopg.Cursor[tuple[Any, ...]]:
    """Execute a statement about the rows of a table that the demo wrote; what is computed counts as these."""
    names: list[str] = []
    invented: sql.Composable = sql.SQL("true" if table in COMPUTED else "false")
    if table in _NAMES:
        named, names = _NAMES[table]
        invented = sql.SQL(SQL["invented_name"]).format(column=sql.SQL(named))
    elif column is not None and table not in COMPUTED:
        invented = sql.SQL(SQL["invented_id"]).format(column=sql.SQL(column))
    statement = sql.SQL(SQL[name]).format(table=sql.SQL(table), invented=invented, **parts)
    return connection.execute(statement, {**values, "names": names})


def _write_memberships(connection: Connection, life: Life) -> int:
    since = next(life.days()).at(8)
    organization, team, belongs = memberships(life, since)
    connection.execute(SQL["add_organization"], organization)
    connection.execute(SQL["add_team"], team)
    return _copy(connection, life.user_id, belongs)


def _copy(connection: Connection, user_id: UUID, piece: Piece) -> int:
    """Write the rows of a piece and return their number."""
    for table, given in piece.items():
        keyed = _KEYED.get(table)
        rows = (
            given
            if keyed is None
            else [{**row, "provider_key": f"demo-{row[keyed]}"} for row in given]
        )
        if not rows:
            continue
        columns = list(rows[0])
        # What is known by name may be the person's own, and stays as it is.
        statement = sql.SQL(SQL["add_missing_row" if table in _NAMES else "copy_rows"]).format(
            table=sql.Identifier(*table.split(".")),
            columns=sql.SQL(", ").join(map(sql.Identifier, ["user_id", *columns])),
            values=sql.SQL(", ").join([sql.Placeholder()] * (1 + len(columns))),
        )
        lines = ([user_id, *(row[column] for column in columns)] for row in rows)
        if table in _NAMES:
            connection.cursor().executemany(statement, lines)
            continue
        with connection.cursor().copy(statement) as copy:
            for line in lines:
                copy.write_row(line)
    return sum(map(len, piece.values()))
