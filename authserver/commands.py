"""The authorization server's commands."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

import click
import psycopg

from authserver import accounts, events, forms, grants, rows
from authserver.accounts import AddressTaken, NewAccount, UnacceptableEmail, UnknownTimezone
from authserver.grants import Grant
from authserver.passwords import Hasher, UnacceptablePassword
from authserver.rows import Database
from shared import database as databases
from shared import scopes, serving
from shared.settings import Settings

Answer = TypeVar("Answer")

_COLUMNS: Final = ("ID", "NAME", "SCOPES", "ENDS IN", "CREATED", "EXPIRES")


def _run(chosen: Settings, work: Callable[[Database], Awaitable[Answer]]) -> Answer:
    """Return what ``work`` answers, done as the server's own role. Raises ClickException."""

    async def connected() -> Answer:
        async with rows.connected(chosen) as connection:
            return await work(connection)

    try:
        return asyncio.run(connected())
    except psycopg.OperationalError as error:
        raise click.ClickException(
            f"the database does not answer: {' '.join(str(error).split())}"
        ) from error


def _text(_: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return a word of the command line. Raises ClickException where its bytes were not UTF-8."""
    if not forms.is_text(value):
        raise click.ClickException(f"{parameter.human_readable_name} is not text in UTF-8")
    return value


def _password(*, from_stdin: bool) -> str:
    """Return the password that is read or typed. Raises ClickException where it is not text."""
    refusal = click.ClickException("the password is not text in UTF-8")
    try:
        if from_stdin:
            password = sys.stdin.read().rstrip("\r\n")
        else:
            password = str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    except UnicodeDecodeError:
        raise refusal from None
    if not forms.is_text(password):
        raise refusal
    return password


async def _user_id(database: Database, email: str) -> UUID:
    account = await accounts.find(database, email)
    if account is None:
        raise click.ClickException(f"there is no account {email}")
    return account.user_id


@click.group()
def auth() -> None:
    """The authorization server: sign-in, consent and tokens."""


@auth.command()
@click.option(
    "--host", "hosts", multiple=True, help="Address to listen on; default: both loopback ones."
)
@click.option("--port", type=click.IntRange(1, 65535), help="Default: the port of SVC_AUTH_URL.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.pass_obj
def serve(chosen: Settings, hosts: tuple[str, ...], port: int | None, workers: int) -> None:
    """Run the authorization server alone."""
    serving.serve(
        "authserver.app:create",
        chosen,
        {"authserver": databases.role_url(chosen, "authserver")},
        hosts=hosts or serving.LOOPBACK,
        port=port or serving.port_of(chosen.auth_url),
        workers=workers,
    )


@click.group()
def user() -> None:
    """The people who have an account."""


@user.command("add")
@click.argument("email", callback=_text)
@click.option(
    "--timezone", default="UTC", show_default=True, callback=_text, help="Such as Europe/Berlin."
)
@click.option("--admin", is_flag=True, help="Make the account an administrator's.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.pass_obj
def add_user(
    chosen: Settings, email: str, timezone: str, admin: bool, password_stdin: bool
) -> None:
    """Make an account for EMAIL."""
    password = _password(from_stdin=password_stdin)
    new = NewAccount(email=email, password=password, timezone=timezone, is_admin=admin)
    try:
        _run(chosen, lambda database: accounts.add(database, Hasher(), new, events.COMMAND))
    except (AddressTaken, UnacceptableEmail, UnknownTimezone) as error:
        raise click.ClickException(str(error.__doc__)) from error
    except UnacceptablePassword as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{accounts.folded_email(email)} can sign in at {chosen.auth_url}")


@user.command("first-link")
@click.pass_obj
def print_first_link(chosen: Settings) -> None:
    """Print a new one-time link for the first account; earlier ones stop working."""
    try:
        link = accounts.first_account_link(chosen)
    except psycopg.OperationalError as error:
        raise click.ClickException(
            f"the database does not answer: {' '.join(str(error).split())}"
        ) from error
    if link is None:
        raise click.ClickException("there is an account already")
    click.echo(link)


@click.group()
def token() -> None:
    """API tokens, and what applications were granted."""


@token.command("create")
@click.argument("email", callback=_text)
@click.option(
    "--scope",
    required=True,
    callback=_text,
    help='Space-separated, such as "read:activity read:profile".',
)
@click.option(
    "--name", default="command line", show_default=True, callback=_text, help="What it is for."
)
@click.option("--expires-in", type=click.IntRange(1, 36500), metavar="DAYS", help="Default: never.")
@click.pass_obj
def create_token(
    chosen: Settings, email: str, scope: str, name: str, expires_in: int | None
) -> None:
    """Print a new API token for EMAIL's own programs, and nothing else."""
    try:
        granted = scopes.parse(scope)
    except scopes.UnknownScopeError as error:
        raise click.ClickException(f"{error}; there are: {' '.join(scopes.SCOPES)}") from error
    if not granted:
        raise click.ClickException("a token needs a scope")
    if not 1 <= len(name.strip()) <= 100:
        raise click.ClickException("a token's name has 1 to 100 characters")

    async def create(database: Database) -> str:
        made = await grants.issue_api_token(
            database,
            await _user_id(database, email),
            name=name.strip(),
            scopes=granted,
            lifetime=None if expires_in is None else timedelta(days=expires_in),
            at=events.COMMAND,
        )
        return made.text

    click.echo(_run(chosen, create))


@token.command("list")
@click.argument("email", callback=_text)
@click.pass_obj
def list_tokens(chosen: Settings, email: str) -> None:
    """List what lets programs at EMAIL's data now: API tokens and applications."""

    async def collect(database: Database) -> list[Grant]:
        return await grants.of_user(database, await _user_id(database, email))

    table = [_COLUMNS, *(_row(grant) for grant in _run(chosen, collect))]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for cells in table:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        click.echo(line.rstrip())


@token.command("revoke")
@click.argument("grant_id", metavar="ID", type=click.UUID)
@click.pass_obj
def revoke_token(chosen: Settings, grant_id: UUID) -> None:
    """Revoke what 'svc token list' shows under ID; it is refused from the next request on."""

    async def end(database: Database) -> bool:
        owner = await grants.owner(database, grant_id)
        return owner is not None and await grants.revoke(database, owner, grant_id, events.COMMAND)

    if not _run(chosen, end):
        raise click.ClickException(f"there is no live token {grant_id}")
    click.echo(f"revoked {grant_id}")


def _row(grant: Grant) -> tuple[str, ...]:
    return (
        str(grant.grant_id),
        grant.title,
        " ".join(grant.scopes),
        f"…{grant.last_four}",
        _minute(grant.created_at),
        "never" if grant.expires_at is None else _minute(grant.expires_at),
    )


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}Z"


COMMANDS: Final[tuple[click.Command, ...]] = (auth, user, token)
