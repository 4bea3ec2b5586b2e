"""The commands about clients, grants and API tokens."""

from datetime import timedelta
from typing import Final
from uuid import UUID

import click

from authserver import events
from authserver.cli import terminal
from authserver.cli.terminal import Column
from authserver.oauth import clients, grants, redirects
from authserver.oauth.clients import ClientGrant, Registration
from authserver.oauth.grants import Grant, TooManyAPITokens
from authserver.rows import Database
from shared import scopes, screen
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.settings import Settings

_CLIENT_COLUMNS: Final = (
    *map(Column, ("ID", "NAME")),
    Column("REDIRECTS TO", separator=", "),
    *map(Column, ("REGISTERED", "LAST AUTHORIZED", "GRANTS")),
)
_CLIENT_GRANT_COLUMNS: Final = ("GRANT", "EMAIL", "SCOPES", "RESOURCE", "SINCE")
_GRANT_COLUMNS: Final = (
    *map(Column, ("ID", "KIND", "NAME", "REDIRECTS TO")),
    *map(Column, ("SCOPES", "RESOURCE", "CREATED", "LAST USED")),
    Column("EXPIRES", absent="never"),
)
_TOKEN_COLUMNS: Final = (
    *map(Column, ("ID", "NAME", "SCOPES", "ENDS IN", "CREATED", "LAST USED")),
    Column("EXPIRES", absent="never"),
)


@click.group()
def client() -> None:
    """The applications that registered."""


@client.command("list")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True)
@terminal.json_option
@click.pass_obj
def list_clients(chosen: Settings, limit: int, *, is_json: bool) -> None:
    """List applications: latest consent first, then those without a consent, newest first.

    Their names are their own claims.
    """

    async def collect(database: Database) -> tuple[list[Registration], int]:
        return await clients.registrations(database, limit), await clients.count(database)

    listed, count = terminal.ask(chosen, collect)
    terminal.print_list(
        _CLIENT_COLUMNS,
        (
            (
                each.client_id,
                each.client_name,
                list(dict.fromkeys(map(redirects.destination, each.redirect_uris))),
                each.created_at,
                each.last_authorized_at,
                each.grants,
            )
            for each in listed
        ),
        is_json=is_json,
    )
    if count > len(listed):
        more = screen.counted(count - len(listed), "application")
        click.echo(f"{more} more: see --limit", err=True)


@client.command("show")
@click.argument("client_id", metavar="ID", callback=terminal.text)
@click.pass_obj
def show_client(chosen: Settings, client_id: str) -> None:
    """Show an application and its live grants."""

    async def collect(database: Database) -> tuple[Registration, list[ClientGrant]]:
        registration = await _registration(database, client_id)
        return registration, await clients.live_grants(database, client_id)

    registration, live_grants = terminal.ask(chosen, collect)
    screen.print_facts(
        ("id", registration.client_id),
        ("name", registration.client_name or "-"),
        ("asks for", " ".join(registration.scopes or ("-",))),
        ("registered", terminal.minute(registration.created_at)),
        ("last authorized", terminal.minute(registration.last_authorized_at)),
        *(("redirect URI", uri) for uri in registration.redirect_uris),
    )
    click.echo()
    screen.table(
        _CLIENT_GRANT_COLUMNS,
        (
            (
                str(each.grant_id),
                each.email,
                " ".join(each.scopes),
                each.resource or "-",
                terminal.minute(each.created_at),
            )
            for each in live_grants
        ),
    )


@client.command("revoke")
@click.argument("client_id", metavar="ID", callback=terminal.text)
@click.pass_obj
def revoke_client(chosen: Settings, client_id: str) -> None:
    """Remove an application with all its grants. It has to register again."""
    if client_id == DASHBOARD_CLIENT_ID:
        raise click.ClickException(
            "this application is a part of the service: end its grants by 'svc grant revoke'"
        )

    async def remove(database: Database) -> int:
        await _registration(database, client_id)
        return len(await clients.remove(database, client_id, events.COMMAND))

    count = terminal.ask(chosen, remove)
    click.echo(f"removed {client_id} and {screen.counted(count, 'live grant')}")


async def _registration(database: Database, client_id: str) -> Registration:
    registration = await clients.registration(database, client_id)
    if registration is None:
        raise click.ClickException(f"there is no client {client_id}")
    return registration


@click.group()
def grant() -> None:
    """Grants of people to applications, and to their own programs by API tokens."""


@grant.command("list")
@click.argument("email", callback=terminal.text)
@terminal.json_option
@click.pass_obj
def list_grants(chosen: Settings, email: str, *, is_json: bool) -> None:
    """List the live grants of EMAIL: applications and API tokens."""
    terminal.print_list(
        _GRANT_COLUMNS,
        (
            (
                each.grant_id,
                "API token" if each.client_id is None else "application",
                each.title,
                None if each.redirect_uri is None else redirects.destination(each.redirect_uri),
                each.scopes,
                each.resource,
                each.created_at,
                each.last_used_at,
                each.expires_at,
            )
            for each in _grants(chosen, email)
        ),
        is_json=is_json,
    )


@grant.command("revoke")
@click.argument("grant_id", metavar="ID", type=click.UUID)
@click.pass_obj
def revoke_grant(chosen: Settings, grant_id: UUID) -> None:
    """Revoke the grant ID of 'svc grant list'. Its tokens are refused from the next request on."""
    _revoke(chosen, grant_id, "grant")


@click.group()
def token() -> None:
    """API tokens, for people's own programs."""


def _joined(
    context: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> str | None:
    """Join the values of a repeated option with spaces."""
    return terminal.text(context, parameter, " ".join(given))


@token.command("create")
@click.argument("email", callback=terminal.text)
@click.option(
    "--scope",
    required=True,
    multiple=True,
    callback=_joined,
    help='Space-separated, such as "read:activity read:profile"; or given several times.',
)
@click.option(
    "--name",
    default="command line",
    show_default=True,
    callback=terminal.text,
    help="The purpose of the token.",
)
@click.option("--expires-in", type=click.IntRange(1, 36500), metavar="DAYS", help="Default: never.")
@click.pass_obj
def create_token(
    chosen: Settings, email: str, scope: str, name: str, expires_in: int | None
) -> None:
    """Create an API token for EMAIL's own programs, and print only the token."""
    try:
        granted = scopes.parse(scope)
    except scopes.UnknownScopeError as error:
        raise click.ClickException(f"{error}; known scopes: {' '.join(scopes.SCOPES)}") from error
    if not granted:
        raise click.ClickException("a token needs a scope")
    if not 1 <= len(name.strip()) <= 100:
        raise click.ClickException("a token's name has 1 to 100 characters")

    async def create(database: Database) -> str:
        account = await terminal.account(database, email)
        try:
            created = await grants.issue_api_token(
                database,
                account.user_id,
                name=name.strip(),
                scopes=granted,
                lifetime=None if expires_in is None else timedelta(days=expires_in),
                origin=events.COMMAND,
            )
        except TooManyAPITokens as error:
            raise click.ClickException(error.description) from error
        return created.text

    click.echo(terminal.ask(chosen, create))


@token.command("list")
@click.argument("email", callback=terminal.text)
@terminal.json_option
@click.pass_obj
def list_tokens(chosen: Settings, email: str, *, is_json: bool) -> None:
    """List EMAIL's API tokens."""
    terminal.print_list(
        _TOKEN_COLUMNS,
        (
            (
                each.grant_id,
                each.title,
                each.scopes,
                f"…{each.last_four}",
                each.created_at,
                each.last_used_at,
                each.expires_at,
            )
            for each in _grants(chosen, email)
            if each.client_id is None
        ),
        is_json=is_json,
    )


@token.command("revoke")
@click.argument("grant_id", metavar="ID", type=click.UUID)
@click.pass_obj
def revoke_token(chosen: Settings, grant_id: UUID) -> None:
    """Revoke the API token ID of 'svc token list'. It is refused from the next request on."""
    _revoke(chosen, grant_id, "token")


def _grants(chosen: Settings, email: str) -> list[Grant]:
    async def collect(database: Database) -> list[Grant]:
        account = await terminal.account(database, email)
        return await grants.of_user(database, account.user_id)

    return terminal.ask(chosen, collect)


def _revoke(chosen: Settings, grant_id: UUID, kind: str) -> None:
    """Revoke a grant. ``kind`` "token" accepts only API tokens, "grant" both kinds."""

    async def end(database: Database) -> bool:
        parties = await grants.parties(database, grant_id)
        if parties is None:
            return False
        if kind == "token" and parties.client_id is not None:
            raise click.ClickException(
                f"{grant_id} is not an API token but a grant of an application: use 'svc grant revoke'"
            )
        return await grants.revoke(database, parties.user_id, grant_id, events.COMMAND)

    if not terminal.ask(chosen, end):
        raise click.ClickException(f"there is no live {kind} {grant_id}")
    click.echo(f"revoked {grant_id}")
