"""``svc goal``, ``svc org``, ``svc team`` and ``svc summary``: what operators record about people.

The roles of the servers may not write these tables, so the commands log in as the database's owner.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args
from uuid import UUID

import click
import psycopg

from authserver.cli import terminal
from authserver.cli.terminal import Column, Value
from authserver.people import accounts
from authserver.people.accounts import UnacceptableEmail
from resourceserver.timeline import rounds, summaries
from resourceserver.timeline.metrics import ActivityMetric
from shared import database, queries, schema, screen
from shared.settings import Settings

SQL: Final = queries.load(Path(__file__).with_name("people.sql"))

_GOAL_COLUMNS: Final = (
    *map(Column, ("ID", "TITLE", "METRIC", "TARGET", "EVERY")),
    Column("ONLY", separator=", "),
)
_GOAL_MEMBERS: Final = tuple(
    map(
        Column,
        ("ID", "TITLE", "METRIC", "COMPARISON", "TARGET", "PERIOD", "DAYS OF WEEK", "FILTERS"),
    )
)
"""What a goal is made of, for JSON; the table joins some of it for people."""
_ORGANIZATION_COLUMNS: Final = (
    *map(Column, ("SLUG", "NAME", "TEAMS")),
    Column("MEMBERS", separator=", "),
)
_TEAM_COLUMNS: Final = (*map(Column, ("ORGANIZATION", "TEAM")), Column("MEMBERS", separator=", "))
_EVERY_DAY: Final = [1, 2, 3, 4, 5, 6, 7]
_LARGEST_TARGET: Final = 1_000_000_000_000
_NO_FILTER: Final = {"app_switches", "focus_ms", "longest_focus_ms"}

Connection = psycopg.Connection[tuple[Any, ...]]


class Limit(NamedTuple):
    """The comparison and the amount of a goal."""

    comparison: str
    target: int


@contextmanager
def owner(chosen: Settings) -> Iterator[Connection]:
    """A transaction with the rights of the owner of the tables. Raises ClickException, SettingsError."""
    if chosen.database_url is None:
        raise database.no_database(chosen)
    try:
        with psycopg.connect(chosen.database_url, connect_timeout=5) as connection:
            connection.execute(SQL["become_owner"])
            schema.check(connection)
            yield connection
    except psycopg.Error as error:
        raise terminal.failure(error) from error


def _answer(connection: Connection, statement: str, **parameters: Any) -> Any:
    """Return the first value of the first row of a statement's result, or None."""
    row = connection.execute(SQL[statement], parameters).fetchone()
    return None if row is None else row[0]


def account(connection: Connection, email: str) -> UUID:
    """Return the id of the account with the address ``email``. Raises ClickException if none has it."""
    try:
        found = _answer(connection, "account", email=accounts.folded_email(email))
    except UnacceptableEmail as error:
        raise click.ClickException(str(error.__doc__)) from error
    if found is None:
        raise click.ClickException(f"there is no account {screen.plain(email)}")
    return UUID(str(found))


def _slug(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the short name of an organization. Raises BadParameter for an invalid one."""
    if value is not None and not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", value, re.ASCII):
        raise click.BadParameter(
            "a slug has up to 63 of a-z, 0-9 and -, and does not begin with -", param=parameter
        )
    return value


@click.group()
def goal() -> None:
    """Goals of people for their days, weeks and months."""


def _days(_: click.Context, parameter: click.Parameter, value: str | None) -> list[int]:
    """Return ISO weekdays, given like 1-5 or 1,3,5."""
    if value is None:
        return _EVERY_DAY
    days: set[int] = set()
    for part in value.split(","):
        match = re.fullmatch(r"([1-7])(?:-([1-7]))?", part.strip(), re.ASCII)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise click.BadParameter("days are like 1-5 or 1,3,5; 1 is Monday", param=parameter)
        days.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(days)


def _texts(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[str]:
    for value in values:
        terminal.text(context, parameter, value)
    return list(values)


@goal.command("add")
@click.argument("email", callback=terminal.text)
@click.argument("title", callback=terminal.text)
@click.option("--metric", type=click.Choice(get_args(ActivityMetric)), required=True)
@click.option("--at-least", metavar="AMOUNT", help="Such as 3h, 1h30m or 45m; or a plain number.")
@click.option("--at-most", metavar="AMOUNT", help="Likewise.")
@click.option("--every", type=click.Choice(["day", "week", "month"]), default="day")
@click.option(
    "--on", "days", callback=_days, help="Weekdays on which the goal counts: 1-5, or 6,7."
)
@click.option("--category", "categories", multiple=True, callback=_texts, help="Count only this.")
@click.option("--app", "apps", multiple=True, callback=_texts, help="Count only this.")
@click.option("--project", "projects", multiple=True, callback=_texts, help="Count only this.")
@click.option("--language", "languages", multiple=True, callback=_texts, help="Count only this.")
@click.pass_obj
def add_goal(
    chosen: Settings,
    *,
    email: str,
    title: str,
    metric: str,
    at_least: str | None,
    at_most: str | None,
    every: str,
    days: list[int],
    categories: list[str],
    apps: list[str],
    projects: list[str],
    languages: list[str],
) -> None:
    """Add a goal of EMAIL, and print its id.

    --at-least or --at-most is the amount of the metric. The metric decides about filters: coding
    can be restricted to projects and languages, other time and sessions to categories and applications.
    """
    if not 1 <= len(title) <= 200:
        raise click.ClickException("a title has between 1 and 200 characters")
    if every != "day" and days != _EVERY_DAY:
        raise click.ClickException("--on works with --every day only")
    _check_filters(
        metric, is_of_time=bool(categories or apps), is_of_code=bool(projects or languages)
    )
    limit = _limit(metric, at_least, at_most)
    with owner(chosen) as connection:
        goal_id = _answer(
            connection,
            "add_goal",
            user_id=account(connection, email),
            title=title,
            metric=metric,
            comparison=limit.comparison,
            target=limit.target,
            period=every,
            days_of_week=days,
            categories=categories,
            apps=apps,
            projects=projects,
            languages=languages,
        )
    click.echo(goal_id)


def _check_filters(metric: str, *, is_of_time: bool, is_of_code: bool) -> None:
    """Raise ClickException for a filter that the metric cannot have (activity.goal)."""
    if is_of_time and (metric in _NO_FILTER or metric == "coding_ms"):
        raise click.ClickException(f"{metric} cannot be restricted to categories or applications")
    if is_of_code and metric != "coding_ms":
        raise click.ClickException("only coding_ms can be restricted to projects or languages")


def _limit(metric: str, at_least: str | None, at_most: str | None) -> Limit:
    """Return the amount that is given. Raises ClickException unless exactly one of the two is."""
    if at_least is not None and at_most is None:
        return Limit("at_least", _amount(metric, at_least))
    if at_most is not None and at_least is None:
        return Limit("at_most", _amount(metric, at_most))
    raise click.ClickException("a goal has either --at-least or --at-most")


def _amount(metric: str, text: str) -> int:
    """Return ``text`` as milliseconds, or as a count. Raises ClickException."""
    plain = re.fullmatch(r"\d{1,13}", text, re.ASCII)
    duration = re.fullmatch(r"(?=\d)(?:(\d{1,6})h)?(?:(\d{1,8})m)?", text, re.ASCII)
    if plain is not None:
        amount = int(text)
    elif duration is not None and metric.endswith("_ms"):
        amount = (int(duration[1] or 0) * 60 + int(duration[2] or 0)) * 60_000
    else:
        forms = "3h, 1h30m, 45m or milliseconds" if metric.endswith("_ms") else "a number"
        raise click.ClickException(f"the amount must be {forms}")
    if amount > _LARGEST_TARGET:
        raise click.ClickException(f"the amount must be at most {_LARGEST_TARGET}")
    return amount


@goal.command("list")
@click.argument("email", callback=terminal.text)
@terminal.json_option
@click.pass_obj
def list_goals(chosen: Settings, email: str, *, is_json: bool) -> None:
    """List EMAIL's goals, the oldest first."""
    with owner(chosen) as connection:
        user_id = account(connection, email)
        found = connection.execute(SQL["goals"], {"user_id": user_id}).fetchall()
    if is_json:
        terminal.print_list(_GOAL_MEMBERS, found, is_json=True)
    else:
        terminal.print_list(_GOAL_COLUMNS, map(_goal_cells, found), is_json=False)


def _goal_cells(row: Sequence[Any]) -> Sequence[Value]:
    goal_id, title, metric, comparison, target, period, days, filters = row
    every = period if days == _EVERY_DAY else f"{period} {','.join(map(str, days))}"
    words = comparison.replace("_", " ")
    return goal_id, title, metric, f"{words} {target}", every, filters


@goal.command("remove")
@click.argument("email", callback=terminal.text)
@click.argument("goal_id", type=click.UUID)
@click.pass_obj
def remove_goal(chosen: Settings, email: str, goal_id: UUID) -> None:
    """Remove the goal GOAL_ID of EMAIL."""
    with owner(chosen) as connection:
        user_id = account(connection, email)
        title = _answer(connection, "remove_goal", user_id=user_id, goal_id=goal_id)
    if title is None:
        raise click.ClickException(f"{email} has no goal {goal_id}")
    click.echo(f"removed {screen.plain(title)}")


@click.group()
def org() -> None:
    """Organizations and their members."""


@org.command("add")
@click.argument("slug", callback=_slug)
@click.argument("name", callback=terminal.text)
@click.pass_obj
def add_organization(chosen: Settings, slug: str, name: str) -> None:
    """Add the organization SLUG, whose full name is NAME."""
    _check_name(name)
    with owner(chosen) as connection:
        added = _answer(connection, "add_organization", slug=slug, name=name)
    if added is None:
        raise click.ClickException(f"there is an organization {slug} already")
    click.echo(f"added {slug}")


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= 200:
        raise click.ClickException("a name has between 1 and 200 characters")


@org.command("list")
@terminal.json_option
@click.pass_obj
def list_organizations(chosen: Settings, *, is_json: bool) -> None:
    """List all organizations."""
    with owner(chosen) as connection:
        found = connection.execute(SQL["organizations"]).fetchall()
    terminal.print_list(_ORGANIZATION_COLUMNS, found, is_json=is_json)


@org.command("remove")
@click.argument("slug", callback=_slug)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def remove_organization(chosen: Settings, slug: str, yes: bool) -> None:
    """Remove the organization SLUG with its teams. The accounts of its members stay."""
    if not yes:
        click.confirm(f"Remove the organization {slug} with its teams?", abort=True)
    with owner(chosen) as connection:
        removed = _answer(connection, "remove_organization", slug=slug)
    if removed is None:
        raise click.ClickException(f"there is no organization {slug}")
    click.echo(f"removed {slug}")


@org.command("member")
@click.argument("slug", callback=_slug)
@click.argument("email", callback=terminal.text)
@click.option(
    "--role",
    type=click.Choice(["owner", "admin", "member"]),
    default="member",
    show_default=True,
)
@click.option("--remove", is_flag=True, help="Remove EMAIL from it and from its teams.")
@click.pass_obj
def set_member(chosen: Settings, slug: str, email: str, role: str, *, remove: bool) -> None:
    """Add EMAIL to the organization SLUG, or change the role of a member."""
    with owner(chosen) as connection:
        user_id = account(connection, email)
        if remove:
            found = _answer(connection, "remove_member", user_id=user_id, slug=slug)
        else:
            found = _answer(connection, "set_member", user_id=user_id, slug=slug, role=role)
    if found is None:
        raise click.ClickException(
            f"{email} is not in {slug}" if remove else f"there is no organization {slug}"
        )
    click.echo(f"removed {email} from {slug}" if remove else f"{email} is {role} of {slug}")


@click.group()
def team() -> None:
    """Teams of organizations and their members."""


@team.command("add")
@click.argument("slug", callback=_slug)
@click.argument("name", callback=terminal.text)
@click.pass_obj
def add_team(chosen: Settings, slug: str, name: str) -> None:
    """Add the team NAME to the organization SLUG."""
    _check_name(name)
    with owner(chosen) as connection:
        added = _answer(connection, "add_team", slug=slug, name=name)
    if added is None:
        raise click.ClickException(
            f"there is no organization {slug}, or it has such a team already"
        )
    click.echo(f"added {screen.plain(name)} to {slug}")


@team.command("list")
@click.argument("slug", callback=_slug, required=False)
@terminal.json_option
@click.pass_obj
def list_teams(chosen: Settings, slug: str | None, *, is_json: bool) -> None:
    """List the teams of the organization SLUG, or of all."""
    with owner(chosen) as connection:
        found = connection.execute(SQL["teams"], {"slug": slug}).fetchall()
    terminal.print_list(_TEAM_COLUMNS, found, is_json=is_json)


@team.command("remove")
@click.argument("slug", callback=_slug)
@click.argument("name", callback=terminal.text)
@click.pass_obj
def remove_team(chosen: Settings, slug: str, name: str) -> None:
    """Remove the team NAME of the organization SLUG. Its members stay in the organization."""
    with owner(chosen) as connection:
        removed = _answer(connection, "remove_team", slug=slug, name=name)
    if removed is None:
        raise click.ClickException(f"{slug} has no team {screen.plain(name)}")
    click.echo(f"removed {screen.plain(name)} of {slug}")


@team.command("member")
@click.argument("slug", callback=_slug)
@click.argument("name", callback=terminal.text)
@click.argument("email", callback=terminal.text)
@click.option("--role", type=click.Choice(["lead", "member"]), default="member", show_default=True)
@click.option("--remove", is_flag=True, help="Remove EMAIL from it.")
@click.pass_obj
def set_team_member(
    chosen: Settings, slug: str, name: str, email: str, role: str, *, remove: bool
) -> None:
    """Add EMAIL to the team NAME of the organization SLUG, or change the role of a member."""
    key = {"slug": slug, "name": name}
    with owner(chosen) as connection:
        user_id = account(connection, email)
        if remove:
            found = _answer(connection, "remove_team_member", user_id=user_id, **key)
        else:
            found = _answer(connection, "set_team_member", user_id=user_id, role=role, **key)
    title = f"{screen.plain(name)} of {slug}"
    if found is None:
        raise click.ClickException(
            f"{email} is not in {title}" if remove else f"{slug} has no team {screen.plain(name)}"
        )
    click.echo(f"removed {email} from {title}" if remove else f"{email} is {role} in {title}")


@click.group()
def summary() -> None:
    """Stored daily summaries."""


@summary.command("make")
@click.argument("email", callback=terminal.text, required=False)
@click.option("--all", "is_for_all", is_flag=True, help="All accounts.")
@click.pass_obj
def make_summaries(chosen: Settings, email: str | None, *, is_for_all: bool) -> None:
    """Write the daily summaries that are due, as each resource server does every few minutes.

    With EMAIL, write all summaries of that account again, in its current time zone and by its current
    category rules; with --all, those of all accounts.
    """
    if email is not None and is_for_all:
        raise click.ClickException("either EMAIL or --all")
    people: list[UUID] | None = None
    if email is not None or is_for_all:
        with owner(chosen) as connection:
            if email is not None:
                people = [account(connection, email)]
            else:
                people = [row[0] for row in connection.execute(SQL["accounts"])]

    async def make() -> int:
        async with rounds.connected(database.login(chosen, "worker")) as worker:
            if people is None:
                return await summaries.make_due(worker, quiet=None)
            return sum([await summaries.make_all(worker, user_id) for user_id in people])

    try:
        count = asyncio.run(make())
    except psycopg.Error as error:
        raise terminal.failure(error) from error
    click.echo(f"summed up {screen.counted(count, 'day')}")


COMMANDS: Final[tuple[click.Command, ...]] = (goal, org, team, summary)
