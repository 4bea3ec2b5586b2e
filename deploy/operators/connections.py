"""``svc connection``: what keeps people's data up to date by itself, as on the page in Settings.

Secrets come from a prompt or from standard input, and never from an argument, which other users of the
machine could read. The key of an application is the only output of ``add``; the rest goes to standard error.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import click

from authserver.cli import terminal
from authserver.cli.terminal import Column
from authserver.pages.connection_draft import Draft
from deploy.operators import people
from shared import keys, queries, screen, sealing_keys
from shared.connections import KINDS, MOST, Field, Kind
from shared.settings import Settings
from shared.setups import setup

SQL: Final = queries.load(Path(__file__).with_name("connections.sql"))

_COLUMNS: Final = (
    *map(Column, ("ID", "EMAIL", "KIND")),
    Column("NAME", longest=30),
    *map(Column, ("STATE", "SINCE", "PROBLEM", "RECORDS")),
    Column("LAST RECORD", absent="never"),
    # No time: it was not used yet, or there is none, because the connection has ended or is pulled.
    Column("KEY LAST USED"),
)

_NO_KEY: Final = (
    "{kind} needs a key that seals what opens the account there: SVC_SEALING_PUBLIC_KEY, "
    "or that of 'svc up'"
)


def _texts(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    for value in values:
        terminal.text(context, parameter, value)
    return values


@click.group()
def connection() -> None:
    """Applications that send here, and services from which the worker pulls."""


@connection.command("add")
@click.argument("kind_name", metavar="KIND", type=click.Choice(list(KINDS)))
@click.argument("email", callback=terminal.text)
@click.option(
    "--name", callback=terminal.text, help="By which its person recognizes it; default: the kind."
)
@click.option(
    "--show-totals", is_flag=True, help="Let the application show totals of the last 14 days."
)
@click.option(
    "--set",
    "assignments",
    metavar="FIELD=VALUE",
    multiple=True,
    callback=_texts,
    help="A field that is no secret.",
)
@click.option(
    "--secret-stdin", is_flag=True, help="Read each secret from a line of standard input."
)
@click.pass_obj
def add_connection(
    chosen: Settings,
    *,
    kind_name: str,
    email: str,
    name: str | None,
    show_totals: bool,
    assignments: tuple[str, ...],
    secret_stdin: bool,
) -> None:
    """Connect EMAIL's account, and print only the key that its application needs.

    KIND is one of wakatime, listenbrainz, owntracks, overland, osmand, health, which send with a key; and
    calendar, github, gitlab, listenbrainz_user, lastfm, from which the worker pulls.
    """
    kind = KINDS[kind_name]
    if show_totals and kind.reads is None:
        raise click.ClickException(f"{kind.name} shows no totals")
    public = sealing_keys.public_key(chosen)
    if kind.has_secrets and public is None:
        raise click.ClickException(_NO_KEY.format(kind=kind.name))
    typed = {**_values(kind, assignments), **_secrets(kind, from_stdin=secret_stdin)}
    draft = Draft(kind, (kind.title if name is None else name).strip(), typed, show_totals)
    if draft.problems:
        field_name, problem = next(iter(draft.problems.items()))
        is_left_out = field_name not in typed and field_name in _open_fields(kind)
        option = f" (--set {field_name}=VALUE)" if is_left_out else ""
        raise click.ClickException(f"{field_name}: {problem}{option}")
    connection_id = uuid4()
    with people.owner(chosen) as database:
        user_id = people.account(database, email)
        key = None if kind.key is None else keys.new(kind, user_id)
        given = draft.parameters(user_id, connection_id, key, public)
        row = database.execute(SQL["add_connection"], given).fetchone()
        if row is None or row[0] is not None:
            raise click.ClickException(f"{email} has {MOST} connections, which is the most")
    click.echo(f"added {connection_id}", err=True)
    if kind.way == "sends" and kind.name not in chosen.receivers:
        click.echo(f"it receives nothing until SVC_RECEIVERS has {kind.name}", err=True)
    if key is not None:
        _explain(kind, chosen)
        click.echo(key)


def _explain(kind: Kind, chosen: Settings) -> None:
    """Print how the application is set up, without the key."""
    how = setup(kind.name, chosen.base_url, "KEY")
    for warning in how.warnings:
        click.echo(warning, err=True)
    for step in how.steps:
        click.echo(f"- {step}", err=True)
    for label, text in how.texts:
        # Several lines are copied as a whole, so none of them begins with the label.
        gap = "\n" if "\n" in text else " "
        click.echo(f"{label}:{gap}{text.rstrip()}", err=True)


def _open_fields(kind: Kind) -> dict[str, Field]:
    return {each.name: each for each in kind.fields if not each.is_secret}


def _values(kind: Kind, assignments: Sequence[str]) -> dict[str, str]:
    """Return the fields that are no secrets. Raises ClickException."""
    open_fields = _open_fields(kind)
    values = {name: each.default for name, each in open_fields.items() if each.default}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or name not in open_fields:
            known = ", ".join(open_fields) or "none"
            raise click.ClickException(
                f"--set takes FIELD=VALUE; fields of {kind.name} that are no secrets: {known}"
            )
        values[name] = value.strip()
    return {name: value for name, value in values.items() if value}


def _secrets(kind: Kind, *, from_stdin: bool, is_change: bool = False) -> Mapping[str, str]:
    """Return the secrets of the kind, each from a prompt or a line; for a change those that are entered.

    Raises ClickException.
    """

    def if_empty(field: Field) -> str | None:
        if is_change:
            return "to keep what is there"
        return None if field.is_required else "for none"

    values = {
        each.name: terminal.secret(each.label, from_stdin=from_stdin, if_empty=if_empty(each))
        for each in kind.fields
        if each.is_secret
    }
    return {name: value for name, value in values.items() if value}


@connection.command("secret")
@click.argument("connection_id", metavar="ID", type=click.UUID)
@click.option(
    "--secret-stdin", is_flag=True, help="Read each secret from a line of standard input."
)
@click.pass_obj
def renew_secrets(chosen: Settings, connection_id: UUID, *, secret_stdin: bool) -> None:
    """Replace what opens the service of the connection ID of 'svc connection list'.

    For example after a token there has ended. What was read remains, and the worker pulls at once, or as soon
    as the service permits it. What is left empty stays as it is.
    """
    with people.owner(chosen) as database:
        row = database.execute(
            SQL["pulled_connection"], {"connection_id": connection_id}
        ).fetchone()
    kind = None if row is None else KINDS.get(row[1])
    if row is None or kind is None or not kind.has_secrets:
        raise click.ClickException(f"there is no connection {connection_id} with secrets")
    public = sealing_keys.public_key(chosen)
    if public is None:
        raise click.ClickException(_NO_KEY.format(kind=kind.name))
    draft = Draft(kind, row[2], _secrets(kind, from_stdin=secret_stdin, is_change=True))
    if not draft.typed:
        raise click.ClickException("nothing was entered, so all is as it was")
    if draft.typed_problems:
        raise click.ClickException(draft.typed_problems[0])
    given = draft.parameters(row[0], connection_id, None, public)
    with people.owner(chosen) as database:
        renewed = database.execute(SQL["renew_secrets"], given).fetchone()
    if renewed is None:
        raise click.ClickException(f"the connection {connection_id} has ended")
    click.echo(f"replaced {', '.join(draft.typed)} of {screen.plain(row[2])}")


@connection.command("list")
@click.argument("email", callback=terminal.text, required=False)
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@terminal.json_option
@click.pass_obj
def list_connections(chosen: Settings, email: str | None, limit: int, *, is_json: bool) -> None:
    """List EMAIL's connections, or those of all accounts, the newest first."""
    with people.owner(chosen) as database:
        user_id = None if email is None else people.account(database, email)
        given = {"user_id": user_id, "limit": limit + 1}
        listed = database.execute(SQL["connections"], given).fetchall()
    terminal.print_list(_COLUMNS, listed[:limit], is_json=is_json)
    if len(listed) > limit:
        click.echo("there are more: see --limit", err=True)


@connection.command("remove")
@click.argument("connection_id", metavar="ID", type=click.UUID)
@click.option("--remove-data", is_flag=True, help="Have the worker remove what it brought, too.")
@click.pass_obj
def remove_connection(chosen: Settings, connection_id: UUID, *, remove_data: bool) -> None:
    """End the connection ID of 'svc connection list'. Its key is refused from the next request on."""
    given = {"connection_id": connection_id, "is_removed": remove_data}
    with people.owner(chosen) as database:
        row = database.execute(SQL["remove_connection"], given).fetchone()
    if row is None:
        raise click.ClickException(f"there is no connection {connection_id} to end or to remove")
    suffix = "; a worker removes what it brought" if remove_data else ""
    click.echo(f"ended {screen.plain(row[0])}{suffix}")


COMMANDS: Final[tuple[click.Command, ...]] = (connection,)
