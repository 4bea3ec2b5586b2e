"""``svc category``: people's category rules and scores, as on the page in Settings."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import click
import psycopg

from authserver.cli import terminal
from authserver.cli.terminal import Column, Value
from authserver.pages import categories
from authserver.pages.categories import FIELDS, MATCHES, SCORES
from authserver.people import names
from deploy.operators import people
from deploy.operators.people import Connection
from shared import queries, screen
from shared.settings import Settings

SQL: Final = queries.load(Path(__file__).with_name("categories.sql"))

_RULE_COLUMNS: Final = tuple(
    map(Column, ("PRIORITY", "ID", "FIELD", "MATCH", "PATTERN", "CATEGORY", "SWITCHED OFF"))
)
_SCORE_COLUMNS: Final = tuple(map(Column, ("CATEGORY", "SCORE", "MEANS", "USUALLY")))
_SCORE_MEMBERS: Final = tuple(map(Column, ("CATEGORY", "SCORE", "USUALLY")))
"""The same for JSON: the person's own score, if there is one, and the usual one."""
_DEFAULT_COLUMNS: Final = tuple(map(Column, ("CATEGORY", "FIELD", "PATTERN")))
_NAME_COLUMNS: Final = ("TIME", "SESSIONS", "NOW", "NAME")
_REASONS: Final = {
    "tracker": "the tracker's own category",
    "site": "a rule for sites that comes with the service",
    "app": "a rule for applications that comes with the service",
    "nothing": "no rule matches",
}


@contextmanager
def _account(chosen: Settings, email: str) -> Iterator[tuple[Connection, UUID]]:
    """A transaction about one person. Raises ClickException, SettingsError."""
    with people.owner(chosen) as connection:
        connection.execute(SQL["limit_time"])
        try:
            yield connection, people.account(connection, email)
        except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable) as error:
            raise click.ClickException("the database took too long; nothing was changed") from error


def _row(connection: Connection, statement: str, **parameters: Any) -> tuple[Any, ...]:
    row = connection.execute(SQL[statement], parameters).fetchone()
    if row is None:
        raise psycopg.InternalError("the database answers no row")
    return row


def _pattern(field: str, match: str, text: str) -> str:
    """Return the pattern of a rule. Raises ClickException for an invalid one."""
    pattern = categories.pattern(field, match, text)
    if not 1 <= len(pattern) <= categories.MAX_PATTERN:
        raise click.ClickException(
            f"a pattern has between 1 and {categories.MAX_PATTERN} characters"
        )
    return pattern


def _category(text: str) -> str:
    """Return the name of a category. Raises ClickException for an invalid one."""
    category = categories.recorded_name(text, categories.MAX_CATEGORY)
    if not 1 <= len(category) <= categories.MAX_CATEGORY or names.problem(category) is not None:
        raise click.ClickException(
            f"a category has between 1 and {categories.MAX_CATEGORY} visible characters"
        )
    return category


def _problem(problem: str | None) -> None:
    """Raise ClickException where the database refuses a rule or score."""
    if problem is not None:
        raise click.ClickException(
            categories.PROBLEMS.get(problem, "the account does not exist any more")
        )


@click.group()
def category() -> None:
    """Category rules for applications and sites, and productivity scores of categories."""


@category.command("list")
@click.argument("email", callback=terminal.text)
@click.option("--scores", is_flag=True, help="List the scores of categories instead.")
@click.option("--defaults", is_flag=True, help="List the service's own rules instead.")
@terminal.json_option
@click.pass_obj
def list_rules(
    chosen: Settings, email: str, *, scores: bool, defaults: bool, is_json: bool
) -> None:
    """List EMAIL's rules in their order; the first that matches decides.

    One that was switched off, because it takes too long, decides nothing until it is changed.
    """
    if scores and defaults:
        raise click.ClickException("either --scores or --defaults")
    with _account(chosen, email) as (connection, user_id):
        wanted = "scores" if scores else "defaults" if defaults else "rules"
        found = connection.execute(SQL[wanted], {"user_id": user_id}).fetchall()
    columns = _SCORE_COLUMNS
    lines: Iterable[Sequence[Value]] = map(_score_cells, found)
    if defaults:
        columns = _DEFAULT_COLUMNS
        lines = ((name, field, pattern) for field, pattern, name in found)
    elif not scores:
        columns, lines = _RULE_COLUMNS, ((n, *row) for n, row in enumerate(found, 1))
    elif is_json:
        columns, lines = _SCORE_MEMBERS, found
    terminal.print_list(columns, lines, is_json=is_json)


def _score_cells(row: Sequence[Any]) -> Sequence[Value]:
    name, own, usual = row
    score = usual if own is None else own
    return name, score, SCORES[score].lower(), None if own is None else usual


@category.command("add")
@click.argument("email", callback=terminal.text)
@click.argument("field", type=click.Choice(list(FIELDS)))
@click.argument("match", type=click.Choice(list(MATCHES)))
@click.argument("pattern", callback=terminal.text)
@click.argument("name", metavar="CATEGORY", callback=terminal.text)
@click.option(
    "--priority",
    type=click.IntRange(min=1, max=1_000_000),
    help="The rule's place in the order, 1 for the first; by default the last.",
)
@click.pass_obj
def add_rule(
    chosen: Settings,
    *,
    email: str,
    field: str,
    match: str,
    pattern: str,
    name: str,
    priority: int | None,
) -> None:
    """Add a rule of EMAIL: CATEGORY where FIELD is, contains or matches PATTERN; print the rule's id.

    The rule applies to all recorded sessions. Upper and lower case are the same. A person has at most
    200 rules, of which 50 are regular expressions.
    """
    rule = {"pattern": _pattern(field, match, pattern), "category": _category(name)}
    with _account(chosen, email) as (connection, user_id):
        problem, rule_id = _row(
            connection,
            "add_rule",
            user_id=user_id,
            field=field,
            match=match,
            place=priority,
            **rule,
        )
        _problem(problem)
    click.echo(rule_id)


@category.command("remove")
@click.argument("email", callback=terminal.text)
@click.argument("rule_id", type=click.UUID)
@click.pass_obj
def remove_rule(chosen: Settings, email: str, rule_id: UUID) -> None:
    """Remove the rule RULE_ID of EMAIL."""
    with _account(chosen, email) as (connection, user_id):
        (pattern,) = _row(connection, "remove_rule", user_id=user_id, category_rule_id=rule_id)
    if pattern is None:
        raise click.ClickException(f"{email} has no rule {rule_id}")
    click.echo(f"removed {screen.plain(pattern)}")


# A score below 0 begins like an option.
@category.command("score", context_settings={"ignore_unknown_options": True})
@click.argument("email", callback=terminal.text)
@click.argument("name", metavar="CATEGORY", callback=terminal.text)
@click.argument("score", type=click.IntRange(min=min(SCORES), max=max(SCORES)), required=False)
@click.option("--reset", is_flag=True, help="Use the service's own score again.")
@click.pass_obj
def set_score(chosen: Settings, email: str, name: str, score: int | None, *, reset: bool) -> None:
    """Set the productivity of CATEGORY for EMAIL: from -2, very distracting, to 2, very productive."""
    if reset == (score is not None):
        raise click.ClickException("either SCORE or --reset")
    wanted = _category(name)
    with _account(chosen, email) as (connection, user_id):
        (problem,) = _row(connection, "score", user_id=user_id, category=wanted, score=score)
        _problem(problem)
    meaning = "as usual" if score is None else SCORES[score].lower()
    click.echo(f"{screen.plain(wanted)} is {meaning}")


@category.command("test")
@click.argument("email", callback=terminal.text)
@click.argument("field", type=click.Choice(list(FIELDS)), required=False)
@click.argument("match", type=click.Choice(list(MATCHES)), required=False)
@click.argument("pattern", callback=terminal.text, required=False)
@click.option("--app", callback=terminal.text, help="The application of a session.")
@click.option("--title", callback=terminal.text, help="The window title of the session.")
@click.option("--domain", callback=terminal.text, help="The site of the session.")
@click.option("--says", callback=terminal.text, help="The category that the tracker sent.")
@click.pass_obj
def test_rule(
    chosen: Settings,
    *,
    email: str,
    field: str | None,
    match: str | None,
    pattern: str | None,
    app: str | None,
    title: str | None,
    domain: str | None,
    says: str | None,
) -> None:
    """Print what a rule would match in EMAIL's last 30 days, or the category of a session and the reason.

    FIELD MATCH PATTERN describe a rule, which is not added; --app, --title, --domain and --says
    describe a session.
    """
    session = {"app": app, "title": title, "domain": domain, "category": says}
    is_of_session = any(value is not None for value in session.values())
    if is_of_session == (pattern is not None) or (is_of_session and field is not None):
        raise click.ClickException(
            "either FIELD MATCH PATTERN, or --app, --title, --domain or --says"
        )
    with _account(chosen, email) as (connection, user_id):
        if field is None or match is None or pattern is None:
            _explain(connection, user_id, session)
        else:
            _preview(connection, user_id, field, match, _pattern(field, match, pattern))


def _explain(connection: Connection, user_id: UUID, session: dict[str, str | None]) -> None:
    """Print the category of a session, and the reason."""
    recorded = {field: _recorded(field, value or "") for field, value in session.items()}
    name, decided_by, *rule = _row(connection, "category_of", user_id=user_id, **recorded)
    reason = _REASONS.get(decided_by)
    if reason is None:
        field, match, pattern = rule
        reason = f"the rule that {field} {MATCHES[match]} {pattern}"
    click.echo(screen.plain(f"{name}: {reason}"))


def _recorded(name: str, value: str) -> str | None:
    """Return a field of a session as ingest records it; a blank value is absent."""
    if not value.strip():
        return None
    match name:
        case "app":
            return categories.recorded_name(value, categories.MAX_PATTERN)
        case "category":
            return categories.recorded_name(value, categories.MAX_CATEGORY)
        case "domain":
            return categories.site(value)
        case _:
            return value


def _preview(connection: Connection, user_id: UUID, field: str, match: str, pattern: str) -> None:
    """Print what a rule would match. Raises ClickException for an invalid rule."""
    rule = {"match": match, "pattern": pattern}
    (problem,) = _row(connection, "rule_problem", **rule)
    _problem(problem)
    total_ms, count, ruled_ms, found = _row(
        connection, "matches", user_id=user_id, field=field, **rule
    )
    total = f"{categories.spent(total_ms)} in {screen.counted(count, 'session')}"
    ruled = f", of which rules decide {categories.spent(ruled_ms)} already" if ruled_ms else ""
    click.echo(f"matches {total} of the last 30 days{ruled}")
    if found:
        screen.table(_NAME_COLUMNS, map(_name_cells, found))


def _name_cells(each: dict[str, Any]) -> Sequence[str]:
    time = categories.spent(each["total_ms"])
    return time, str(each["session_count"]), each["category"], each["name"]


COMMANDS: Final[tuple[click.Command, ...]] = (category,)
