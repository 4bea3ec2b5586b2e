"""The commands about accounts, sign-in sessions and security events, and the janitor."""

from typing import Final

import click
import psycopg

from authserver import events, janitor
from authserver.cli import terminal
from authserver.cli.grants import client, grant, token
from authserver.cli.terminal import Column
from authserver.events import StoredEvent
from authserver.janitor import Removal
from authserver.oauth import grants
from authserver.oauth.grants import Grant
from authserver.people import accounts, first_account, sessions
from authserver.people.accounts import (
    AccountFacts,
    AddressTaken,
    NewAccount,
    UnacceptableEmail,
    UnknownTimezone,
)
from authserver.people.passwords import Hasher, UnacceptablePassword
from authserver.people.sessions import SignIn
from authserver.rows import Database
from shared import database, screen
from shared.pool import Connection
from shared.settings import Settings

_USER_COLUMNS: Final = (
    *map(Column, ("EMAIL", "NAME", "TIMEZONE", "ROLE", "SIGN-IN", "CREATED")),
    Column("LAST SEEN", absent="never"),
)
_SESSION_COLUMNS: Final = (
    *map(Column, ("SIGNED IN", "LAST SEEN", "ADDRESS")),
    Column("BROWSER", longest=60),
)
_EVENT_COLUMNS: Final = tuple(map(Column, ("AT", "EVENT", "CLIENT", "GRANT", "ADDRESS", "REQUEST")))


@click.command("janitor")
@click.pass_context
def clean(context: click.Context) -> None:
    """Delete expired and unused rows, as each server does every ten minutes."""
    removals = terminal.run(_clean(context.obj))
    for removal in removals:
        click.echo(f"{removal.count:>9}  {removal.kind}")
    failed = [removal for removal in removals if removal.error is not None]
    for removal in failed:
        click.echo(f"Error: could not remove {removal.kind}: {removal.error}", err=True)
    if failed:
        context.exit(1)


async def _clean(chosen: Settings) -> list[Removal]:
    login = database.login(chosen, "authserver")
    # One connection for one turn needs no pool.
    connection = await Connection.connect(login, autocommit=True, prepare_threshold=None)
    async with connection:
        return await janitor.clean(connection)


@click.group()
def user() -> None:
    """Accounts of people."""


@user.command("list")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@terminal.json_option
@click.pass_obj
def list_users(chosen: Settings, limit: int, *, is_json: bool) -> None:
    """List accounts, the newest first."""

    async def collect(database: Database) -> tuple[list[AccountFacts], int]:
        return await accounts.newest(database, limit), await accounts.count(database)

    listed, count = terminal.ask(chosen, collect)
    terminal.print_list(
        _USER_COLUMNS,
        (
            (
                each.email,
                each.display_name,
                each.timezone,
                each.role,
                each.sign_in_methods,
                each.created_at,
                each.seen_at,
            )
            for each in listed
        ),
        is_json=is_json,
    )
    if count > len(listed):
        more = screen.counted(count - len(listed), "account")
        click.echo(f"{more} more: see --limit", err=True)


@user.command("show")
@click.argument("email", callback=terminal.text)
@click.pass_obj
def show_user(chosen: Settings, email: str) -> None:
    """Show EMAIL's account: profile, sign-in methods, and how much access it has given."""

    async def collect(database: Database) -> tuple[AccountFacts, int, list[Grant]]:
        account = await terminal.account(database, email)
        facts = await accounts.facts(database, account.user_id)
        if facts is None:
            raise click.ClickException(f"there is no account {email}")
        signed_in = await sessions.of_user(database, account.user_id)
        return facts, len(signed_in), await grants.of_user(database, account.user_id)

    account, sign_ins, live_grants = terminal.ask(chosen, collect)
    tokens = sum(each.client_id is None for each in live_grants)
    screen.print_facts(
        ("id", str(account.user_id)),
        ("email", account.email),
        ("name", account.display_name or "-"),
        ("role", account.role),
        ("time zone", account.timezone),
        ("created", terminal.minute(account.created_at)),
        ("last seen", terminal.minute(account.seen_at)),
        ("signs in by", ", ".join(account.sign_in_methods) or "-"),
        ("signed in", screen.counted(sign_ins, "browser")),
        ("access", screen.counted(len(live_grants) - tokens, "application")),
        ("", screen.counted(tokens, "API token")),
    )


@user.command("add")
@click.argument("email", callback=terminal.text)
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    callback=terminal.text,
    help="Such as Europe/Berlin.",
)
@click.option("--admin", is_flag=True, help="Make the account an administrator's.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.pass_obj
def add_user(
    chosen: Settings, email: str, timezone: str, admin: bool, password_stdin: bool
) -> None:
    """Create an account for EMAIL."""
    password = terminal.password(from_stdin=password_stdin)
    new = NewAccount(email=email, password=password, timezone=timezone, is_admin=admin)
    try:
        terminal.ask(chosen, lambda database: accounts.add(database, Hasher(), new, events.COMMAND))
    except (AddressTaken, UnacceptableEmail, UnknownTimezone) as error:
        raise click.ClickException(str(error.__doc__)) from error
    except UnacceptablePassword as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{accounts.folded_email(email)} can sign in at {chosen.auth_url}")


@user.command("set-password")
@click.argument("email", callback=terminal.text)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.pass_obj
def set_password(chosen: Settings, email: str, password_stdin: bool) -> None:
    """Set a new password for EMAIL's account, and end all its sessions."""
    password = terminal.password(from_stdin=password_stdin)

    async def change(database: Database) -> str:
        account = await terminal.account(database, email)
        await accounts.change_password(database, Hasher(), account, password, events.COMMAND)
        return account.email

    try:
        changed = terminal.ask(chosen, change)
    except UnacceptablePassword as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{changed} has a new password and is signed out everywhere")


@user.command("reset-link")
@click.argument("email", callback=terminal.text)
@click.pass_obj
def print_reset_link(chosen: Settings, email: str) -> None:
    """Print a one-time link with which EMAIL can choose a new password within an hour.

    An earlier link stops working. Nothing else changes until the link is used.
    """

    async def make(database: Database) -> str:
        account = await terminal.account(database, email)
        return await accounts.reset_link(database, chosen, account)

    click.echo(terminal.ask(chosen, make))


@user.command("delete")
@click.argument("email", callback=terminal.text)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def delete_user(chosen: Settings, email: str, yes: bool) -> None:
    """Delete EMAIL's account with all its data.

    Sessions, grants and tokens end at once; the janitor deletes the data. This needs the login of the
    database's owner.
    """
    account = terminal.ask(chosen, lambda database: terminal.account(database, email))
    if not yes:
        click.confirm(f"Delete the account {account.email} with all its data?", abort=True)
    try:
        is_ended = accounts.end(chosen, account)
    except psycopg.Error as error:
        raise terminal.failure(error) from error
    if not is_ended:
        raise click.ClickException(f"there is no account {email}")
    click.echo(f"deleted {account.email}; the janitor deletes the data")


@user.command("invite")
@click.option("--email", callback=terminal.text, help="The address of the new account.")
@click.pass_obj
def invite(chosen: Settings, email: str | None) -> None:
    """Print a one-time link to create an account within a day."""
    try:
        link = terminal.ask(chosen, lambda database: accounts.invite(database, chosen, email))
    except (AddressTaken, UnacceptableEmail) as error:
        raise click.ClickException(str(error.__doc__)) from error
    click.echo(link)


@user.command("first-link")
@click.pass_obj
def print_first_link(chosen: Settings) -> None:
    """Print a new one-time link for the first account; earlier ones stop working."""
    try:
        link = first_account.link(chosen)
    except psycopg.Error as error:
        raise terminal.failure(error) from error
    if link is None:
        raise click.ClickException("there is an account already")
    click.echo(link)


@click.group()
def session() -> None:
    """Sign-in sessions of people, one per browser."""


@session.command("list")
@click.argument("email", callback=terminal.text)
@terminal.json_option
@click.pass_obj
def list_sessions(chosen: Settings, email: str, *, is_json: bool) -> None:
    """List the browsers in which EMAIL is signed in."""

    async def collect(database: Database) -> list[SignIn]:
        account = await terminal.account(database, email)
        return await sessions.of_user(database, account.user_id)

    terminal.print_list(
        _SESSION_COLUMNS,
        (
            (each.created_at, each.seen_at, each.address, each.user_agent)
            for each in terminal.ask(chosen, collect)
        ),
        is_json=is_json,
    )


@session.command("revoke")
@click.argument("email", callback=terminal.text)
@click.pass_obj
def revoke_sessions(chosen: Settings, email: str) -> None:
    """Sign EMAIL out everywhere. Grants of applications and API tokens remain."""

    async def end(database: Database) -> int:
        account = await terminal.account(database, email)
        return await sessions.sign_out_everywhere(database, account.user_id, events.COMMAND)

    click.echo(f"ended {screen.counted(terminal.ask(chosen, end), 'session')}")


@click.group()
def event() -> None:
    """Security events of accounts and grants."""


@event.command("list")
@click.argument("email", callback=terminal.text)
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True)
@terminal.json_option
@click.pass_obj
def list_events(chosen: Settings, email: str, limit: int, *, is_json: bool) -> None:
    """List the newest security events of EMAIL's account, newest first."""

    async def collect(database: Database) -> list[StoredEvent]:
        account = await terminal.account(database, email)
        return await events.of_user(database, account.user_id, limit)

    terminal.print_list(
        _EVENT_COLUMNS,
        (
            (
                each.occurred_at if is_json else terminal.second(each.occurred_at),
                each.event,
                each.client_id,
                each.grant_id,
                each.address,
                each.request_id,
            )
            for each in terminal.ask(chosen, collect)
        ),
        is_json=is_json,
    )


COMMANDS: Final[tuple[click.Command, ...]] = (
    user,
    session,
    event,
    client,
    grant,
    token,
    clean,
)
