"""Accounts: how they are made and deleted, and who may sign in."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from psycopg.errors import UniqueViolation
from psycopg.rows import class_row
from starlette.requests import Request

from authserver import events, rows
from authserver.errors import TooManyRequests
from authserver.events import Event, RequestOrigin
from authserver.people import passwords, sessions
from authserver.people.passwords import Hasher, TooManyAtOnce
from authserver.people.server import Server
from authserver.people.sessions import Browser, Visit
from authserver.people.zones import Zones
from authserver.rows import Database
from shared import queries, schema, tokens
from shared.settings import Settings, SettingsError
from shared.tokens import Token

SQL: Final = rows.load("people/accounts.sql", "people/sessions.sql", "events.sql")

# The command that deletes an account runs these as the owner, without an event loop.
_OWNER_SQL: Final = queries.load(Path(__file__).with_name("account.sql"))

LINK_LIFETIME: Final = timedelta(hours=24)
RESET_LIFETIME: Final = timedelta(hours=1)

_EMAIL: Final = re.compile(r"[!-?A-~]+@[!-?A-~]+")


class UnacceptableEmail(Exception):
    """Enter an e-mail address, such as alice@example.org."""


class AddressTaken(Exception):
    """This e-mail address has an account already."""


class UnknownTimezone(Exception):
    """This is not the name of a time zone, such as Europe/Berlin."""


class LinkUsed(Exception):
    """The link was used, has expired, or another one took its place."""


@dataclass(frozen=True, repr=False)
class NewAccount:
    """What somebody wants to be known as."""

    email: str
    password: str
    timezone: str = "UTC"
    is_admin: bool = False


@dataclass(frozen=True, repr=False)
class Account:
    """An account as sign-in sees it."""

    user_id: UUID
    email: str
    signed_out_at: datetime | None
    """When all its sign-ins were ended last."""
    password_hash: str | None


@dataclass(frozen=True)
class Reset:
    """Whose password a link resets."""

    user_id: UUID
    email: str


@dataclass(frozen=True)
class Invitation:
    """What a one-time link is good for: an account, with this address where it names one."""

    email: str | None


def folded_email(text: str) -> str:
    """Return an address as it is stored. Raises UnacceptableEmail."""
    email = _folded(text)
    if len(email) > 254 or _EMAIL.fullmatch(email) is None:
        raise UnacceptableEmail
    return email


def _folded(email: str) -> str:
    return email.strip().lower()


async def find(database: Database, email: str) -> Account | None:
    """Return the account of an address as somebody typed it, or None."""
    return await rows.one(database, Account, SQL["account"], {"email": _folded(email)})


async def authenticate(
    server: Server, email: str, password: str, origin: RequestOrigin
) -> Account | None:
    """Return whose e-mail address and password these are, or None.

    It takes the same time whether there is no such account, the password is wrong, or the attempt comes
    too early and nothing is found out. Raises TooManyRequests, passwords.TooManyAtOnce.
    """
    with server.throttle.reserve(origin.address):
        account = await find(server.database, email)
        stored = None if account is None else account.password_hash
        user_id = None if account is None else account.user_id
        try:
            guess = await server.throttle.count_guess(_folded(email), user_id, origin.address)
        except TooManyRequests:
            # It is not noted as an event: strangers could fill the table while they wait.
            await server.hasher.verify(None, password)
            raise
        try:
            is_right = await server.hasher.verify(stored, password)
        except TooManyAtOnce:
            await server.throttle.undo(guess)
            raise
    if account is None or stored is None or not is_right:
        await events.record_failed_sign_in(server.database, user_id, origin)
        return None
    await server.throttle.clear(guess)
    if server.hasher.is_outdated(stored):
        await _rehash(server, account.user_id, stored, password)
    return account


async def _rehash(server: Server, user_id: UUID, stored: str, password: str) -> None:
    try:
        new_hash = await server.hasher.hash(password)
    except TooManyAtOnce:
        # The password was right all the same, and the next sign-in is as good for this.
        return
    await rows.execute(
        server.database,
        SQL["rehash_password"],
        {"user_id": user_id, "password_hash": stored, "new_hash": new_hash},
    )


async def add(database: Database, hasher: Hasher, new: NewAccount, origin: RequestOrigin) -> UUID:
    """Make an account and return its id.

    Raises UnacceptableEmail, passwords.UnacceptablePassword, UnknownTimezone and AddressTaken.
    """
    email = folded_email(new.email)
    passwords.check(new.password, email)
    if new.timezone not in (await Zones(database).known()).values():
        raise UnknownTimezone
    parameters = {
        "email": email,
        "timezone": new.timezone,
        "is_admin": new.is_admin,
        "password_hash": await hasher.hash(new.password),
    }
    try:
        created = await events.execute(database, SQL["add_account"], parameters, origin)
    except UniqueViolation as error:
        raise AddressTaken from error
    return created[0].user_id


async def change_password(
    database: Database, hasher: Hasher, account: Account, password: str, origin: RequestOrigin
) -> None:
    """Give an account another password and end all its sign-ins.

    Raises passwords.UnacceptablePassword.
    """
    passwords.check(password, account.email)
    parameters = {"user_id": account.user_id, "password_hash": await hasher.hash(password)}
    await events.execute(
        database, SQL["change_password"], parameters, origin, preceded_by=SQL["lock_user"]
    )


async def change_own_password(
    server: Server, visit: Visit, password: str, request: Request
) -> Token | None:
    """Give somebody who is signed in another password, and end all their sign-ins but this one.

    Returns the browser's new session, or None where the account is gone. Raises
    passwords.UnacceptablePassword, passwords.TooManyAtOnce.
    """
    passwords.check(password, visit.person.email)
    session, session_parameters = sessions.new_session(visit.browser, visit.person.user_id, request)
    parameters = {
        "user_id": visit.person.user_id,
        "password_hash": await server.hasher.hash(password),
        **session_parameters,
    }
    changed = await events.execute(
        server.database,
        SQL["change_own_password"],
        parameters,
        events.request_origin(request),
        preceded_by=SQL["lock_user"],
    )
    return session if changed else None


async def reset_link(database: Database, chosen: Settings, account: Account) -> str:
    """Return a one-time link to choose another password; an earlier one is worth nothing any more."""
    link = tokens.mint(tokens.LINK, account.user_id)
    parameters = {"user_id": account.user_id, "link_hash": link.hash, "lifetime": RESET_LIFETIME}
    await rows.execute(database, SQL["store_reset_link"], parameters)
    return f"{chosen.auth_url}/reset?link={link.text}"


async def open_reset(database: Database, link: Token) -> Reset:
    """Return whose password ``link`` resets. Raises LinkUsed."""
    parameters = {"user_id": link.user_id, "link_hash": link.hash}
    found = await rows.one(database, Reset, SQL["reset"], parameters)
    if found is None:
        raise LinkUsed
    return found


async def reset_password(
    server: Server, browser: Browser, link: Token, password: str, request: Request
) -> Token:
    """Give whoever has ``link`` another password, and return the session that they are signed in with.

    All their other sign-ins end. Raises LinkUsed, passwords.TooManyAtOnce, and
    passwords.UnacceptablePassword, with which the link can be used again.
    """
    reset = await open_reset(server.database, link)
    passwords.check(password, reset.email)
    session, session_parameters = sessions.new_session(browser, reset.user_id, request)
    parameters = {
        "user_id": link.user_id,
        "link_hash": link.hash,
        "password_hash": await server.hasher.hash(password),
        **session_parameters,
    }
    recorded = await events.execute(
        server.database,
        SQL["reset_password"],
        parameters,
        events.request_origin(request),
        preceded_by=SQL["lock_user"],
    )
    if not recorded:
        raise LinkUsed
    return session


async def invite(database: Database, chosen: Settings, email: str | None) -> str:
    """Return a one-time link for an account, with that address where one is given.

    Raises UnacceptableEmail, AddressTaken.
    """
    link = tokens.mint(tokens.LINK, tokens.NOBODY)
    parameters = {
        "invitation_hash": link.hash,
        "email": None if email is None else folded_email(email),
        "lifetime": LINK_LIFETIME,
    }
    if await rows.one(database, Invitation, SQL["invite"], parameters) is None:
        raise AddressTaken
    return f"{chosen.auth_url}/join?link={link.text}"


async def invitation(database: Database, link: Token) -> Invitation:
    """Return what a one-time link is good for. Raises LinkUsed."""
    parameters = {"invitation_hash": link.hash}
    found = await rows.one(database, Invitation, SQL["invitation"], parameters)
    if found is None:
        raise LinkUsed
    return found


async def join(
    database: Database, hasher: Hasher, link: Token, new: NewAccount, origin: RequestOrigin
) -> UUID:
    """Make an account by a one-time link and return its id; the first account is an administrator.

    Its address is the one that the link is for, else the one that ``new`` names.

    Raises LinkUsed, and what ``add`` raises; with any of that the link can be used again.
    """
    invited = await invitation(database, link)
    email = invited.email or folded_email(new.email)
    passwords.check(new.password, email)
    parameters = {
        "invitation_hash": link.hash,
        "email": email,
        "timezone": new.timezone,
        "password_hash": await hasher.hash(new.password),
    }
    try:
        created = await events.execute(database, SQL["join"], parameters, origin)
    except UniqueViolation as error:
        raise AddressTaken from error
    if not created:
        raise LinkUsed
    return created[0].user_id


def end(chosen: Settings, account: Account) -> bool:
    """End an account as the operator; False where it has ended already.

    Raises SettingsError without the owner's login, psycopg.Error.
    """
    if chosen.database_url is None:
        raise SettingsError("no database: set DATABASE_URL, or start 'svc up'")
    origin = events.COMMAND
    with psycopg.connect(chosen.database_url, connect_timeout=5) as connection:
        connection.execute(_OWNER_SQL["become_owner"])
        schema.check(connection)
        with connection.cursor(row_factory=class_row(Event)) as cursor:
            parameters = {"user_id": account.user_id, **origin.parameters}
            ended = cursor.execute(_OWNER_SQL["end_account"], parameters).fetchall()
    events.write_log(ended, origin)
    return bool(ended)
