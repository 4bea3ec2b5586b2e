"""Accounts: creation, password sign-in, password changes, invitations and deletion."""

import re
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from psycopg.errors import UniqueViolation
from psycopg.rows import class_row
from starlette.requests import Request

from authserver import changes, events, rows
from authserver.errors import TooManyRequests
from authserver.events import Event, RequestOrigin
from authserver.people import passwords, sessions
from authserver.people.passwords import Hasher, TooManySignIns
from authserver.people.server import Server
from authserver.people.sessions import Browser, Visit
from authserver.people.zones import Zones
from authserver.rows import Database
from shared import queries, schema, tokens
from shared.database import no_database
from shared.settings import Settings
from shared.tokens import Token

SQL: Final = rows.load("people/accounts.sql", "people/sessions.sql", "events.sql")

# The command that deletes an account runs these as the database's owner, without an event loop.
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
    """The link was used, has expired, or was replaced."""


@dataclass(frozen=True, repr=False)
class NewAccount:
    """The data from which an account is created."""

    email: str
    password: str
    timezone: str = "UTC"
    is_admin: bool = False


@dataclass(frozen=True, repr=False)
class Account:
    """The part of an account that sign-in needs."""

    user_id: UUID
    email: str
    signed_out_at: datetime | None
    """When all sessions of the account were last ended together."""
    password_hash: str | None


@dataclass(frozen=True, repr=False)
class AccountFacts:
    """What operators see of an account."""

    user_id: UUID
    email: str
    display_name: str | None
    timezone: str
    is_admin: bool
    created_at: datetime
    has_password: bool
    has_passkey: bool
    has_provider: bool
    seen_at: datetime | None
    """When a browser that is signed in was last seen."""

    @property
    def role(self) -> str:
        """Whether the account is an administrator's."""
        return "admin" if self.is_admin else "user"

    @property
    def sign_in_methods(self) -> list[str]:
        """The methods by which the person can sign in."""
        has_method = {
            "password": self.has_password,
            "passkey": self.has_passkey,
            "provider": self.has_provider,
        }
        return [method for method, has in has_method.items() if has]


@dataclass(frozen=True)
class _Count:
    count: int


@dataclass(frozen=True)
class Reset:
    """The account whose password a link resets."""

    user_id: UUID
    email: str


@dataclass(frozen=True)
class Invitation:
    """An invitation to create an account. ``email`` is the address it is limited to, if any."""

    email: str | None


def folded_email(text: str) -> str:
    """Return an e-mail address in the form in which it is stored. Raises UnacceptableEmail."""
    email = _folded(text)
    if len(email) > 254 or _EMAIL.fullmatch(email) is None:
        raise UnacceptableEmail
    return email


def _folded(email: str) -> str:
    return email.strip().lower()


async def find(database: Database, email: str) -> Account | None:
    """Return the account with an e-mail address as a person typed it, or None."""
    return await rows.one(database, Account, SQL["account"], {"email": _folded(email)})


async def newest(database: Database, limit: int) -> list[AccountFacts]:
    """Return at most ``limit`` accounts, the newest first."""
    parameters = {"user_id": None, "limit": limit}
    return await rows.every(database, AccountFacts, SQL["accounts"], parameters)


async def facts(database: Database, user_id: UUID) -> AccountFacts | None:
    """Return what operators see of an account, or None if there is none."""
    return await rows.one(database, AccountFacts, SQL["accounts"], {"user_id": user_id, "limit": 1})


async def count(database: Database) -> int:
    """Return the number of accounts."""
    counted = await rows.one(database, _Count, SQL["count_accounts"], {})
    assert counted is not None  # noqa: S101 -- a count is a row
    return counted.count


async def authenticate(
    server: Server,
    email: str,
    password: str,
    origin: RequestOrigin,
    *,
    known_cookie: str | None = None,
    session: Token | None = None,
) -> Account | None:
    """Return the account that this e-mail address and password belong to, or None.

    The duration is the same for an unknown address, a wrong password and a throttled attempt, so that it
    reveals nothing. A browser is known by ``known_cookie``, which it keeps of its last sign-in, or by the
    ``session`` in which the person is already signed in. Raises TooManyRequests, passwords.TooManySignIns.
    """
    account = await find(server.database, email)
    stored = None if account is None else account.password_hash
    user_id = None if account is None else account.user_id
    signed_out_at = None if account is None else account.signed_out_at
    known_browser = server.signer.known_browser(known_cookie, user_id, signed_out_at)
    if session is not None and session.user_id == user_id:
        known_browser = session.hash.hex()
    is_known = known_browser is not None
    reserved = (
        server.throttle.reserve(origin.address)
        if user_id is None or not is_known
        else server.throttle.reserve_known(user_id)
    )
    with ExitStack() as places:
        places.enter_context(reserved)
        try:
            guess = await server.throttle.count_guess(
                _folded(email), user_id, origin.address, known_browser=known_browser
            )
        except TooManyRequests:
            # Throttled attempts take no place in the hasher's queue, however many addresses send them. No
            # event is recorded: strangers could fill the table with them. They keep no place of their address
            # either: its other people can sign in meanwhile.
            places.close()
            with server.throttle.reserve_pause(origin.address):
                await server.hasher.pause(is_known=is_known)
            raise
        try:
            with server.throttle.reserve_account(f"{_folded(email)} {known_browser or ''}"):
                is_right = await server.hasher.verify(stored, password, is_known=is_known)
        except (TooManySignIns, TooManyRequests):
            await server.throttle.undo(guess)
            raise
    if account is None or stored is None or not is_right:
        await events.record_failed_sign_in(server.database, user_id, origin)
        return None
    await server.throttle.clear(guess)
    if server.hasher.is_outdated(stored):
        await _rehash(server, account.user_id, stored, password, is_known=is_known)
    return account


async def _rehash(
    server: Server, user_id: UUID, stored: str, password: str, *, is_known: bool
) -> None:
    try:
        new_hash = await server.hasher.hash(password, is_known=is_known)
    except TooManySignIns:
        # The sign-in itself succeeded; the next one can rehash the password.
        return
    await rows.execute(
        server.database,
        SQL["rehash_password"],
        {"user_id": user_id, "password_hash": stored, "new_hash": new_hash},
    )


async def add(database: Database, hasher: Hasher, new: NewAccount, origin: RequestOrigin) -> UUID:
    """Create an account and return its id.

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
        created = await changes.run(database, SQL["add_account"], parameters, origin)
    except UniqueViolation as error:
        raise AddressTaken from error
    return created[0].user_id


async def change_password(
    database: Database, hasher: Hasher, account: Account, password: str, origin: RequestOrigin
) -> None:
    """Set a new password and end all sessions of the account.

    Raises passwords.UnacceptablePassword.
    """
    passwords.check(password, account.email)
    parameters = {"user_id": account.user_id, "password_hash": await hasher.hash(password)}
    await changes.run(
        database, SQL["change_password"], parameters, origin, preceded_by=SQL["lock_user"]
    )


async def change_own_password(
    server: Server, visit: Visit, password: str, request: Request
) -> Token | None:
    """Set a new password for the signed-in person and end all their sessions except this browser's.

    Returns the browser's new session, or None if the account no longer exists. Raises
    passwords.UnacceptablePassword, passwords.TooManySignIns, TooManyRequests.
    """
    passwords.check(password, visit.person.email)
    session, session_parameters = sessions.new_session(visit.browser, visit.person.user_id, request)
    parameters = {
        "user_id": visit.person.user_id,
        "password_hash": await _hash_of_known(server, visit.person.user_id, password),
        **session_parameters,
    }
    changed = await changes.run(
        server.database,
        SQL["change_own_password"],
        parameters,
        events.request_origin(request),
        preceded_by=SQL["lock_user"],
    )
    return session if changed else None


async def reset_link(database: Database, chosen: Settings, account: Account) -> str:
    """Return a one-time link to choose a new password. It replaces any earlier one."""
    link = tokens.mint(tokens.LINK, account.user_id)
    parameters = {"user_id": account.user_id, "link_hash": link.hash, "lifetime": RESET_LIFETIME}
    await rows.execute(database, SQL["store_reset_link"], parameters)
    return f"{chosen.auth_url}/reset?link={link.text}"


async def open_reset(database: Database, link: Token) -> Reset:
    """Return the account whose password ``link`` resets. Raises LinkUsed."""
    parameters = {"user_id": link.user_id, "link_hash": link.hash}
    stored = await rows.one(database, Reset, SQL["reset"], parameters)
    if stored is None:
        raise LinkUsed
    return stored


async def reset_password(
    server: Server, browser: Browser, link: Token, password: str, request: Request
) -> Token:
    """Set a new password by a reset link, sign the browser in, and return its new session.

    All other sessions of the account end. Raises LinkUsed, passwords.TooManySignIns, TooManyRequests and
    passwords.UnacceptablePassword; after an error the link can still be used.
    """
    reset = await open_reset(server.database, link)
    passwords.check(password, reset.email)
    session, session_parameters = sessions.new_session(browser, reset.user_id, request)
    parameters = {
        "user_id": link.user_id,
        "link_hash": link.hash,
        "password_hash": await _hash_of_known(server, reset.user_id, password),
        **session_parameters,
    }
    recorded = await changes.run(
        server.database,
        SQL["reset_password"],
        parameters,
        events.request_origin(request),
        preceded_by=SQL["lock_user"],
    )
    if not recorded:
        raise LinkUsed
    return session


async def _hash_of_known(server: Server, user_id: UUID, password: str) -> str:
    """Return the hash of a new password of a person who is signed in or has a link."""
    with server.throttle.reserve_known(user_id):
        return await server.hasher.hash(password, is_known=True)


async def invite(database: Database, chosen: Settings, email: str | None) -> str:
    """Return a one-time link to create an account, limited to ``email`` if that is given.

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
    """Return the invitation of a one-time link. Raises LinkUsed."""
    parameters = {"invitation_hash": link.hash}
    stored = await rows.one(database, Invitation, SQL["invitation"], parameters)
    if stored is None:
        raise LinkUsed
    return stored


async def join(
    database: Database,
    hasher: Hasher,
    link: Token,
    new: NewAccount,
    origin: RequestOrigin,
    *,
    place: AbstractContextManager[None],
) -> UUID:
    """Create an account by a one-time link and return its id. The first account is an administrator.

    Its address is the one that the invitation is limited to, otherwise that of ``new``. ``place`` is held
    while the password is hashed, so that one link cannot fill the queue of the hasher.

    Raises LinkUsed, what ``place`` does and the errors of ``add``; after an error of ``add`` the link can
    still be used.
    """
    invited = await invitation(database, link)
    email = invited.email or folded_email(new.email)
    passwords.check(new.password, email)
    with place:
        # Strangers have no link, so they cannot fill the share of known people.
        password_hash = await hasher.hash(new.password, is_known=True)
    parameters = {
        "invitation_hash": link.hash,
        "email": email,
        "timezone": new.timezone,
        "password_hash": password_hash,
    }
    try:
        created = await changes.run(database, SQL["join"], parameters, origin)
    except UniqueViolation as error:
        raise AddressTaken from error
    if not created:
        raise LinkUsed
    return created[0].user_id


def end(chosen: Settings, account: Account) -> bool:
    """Delete an account for the operator. False: it was deleted before.

    Raises SettingsError if the owner's login is not configured, and psycopg.Error.
    """
    if chosen.database_url is None:
        raise no_database(chosen)
    origin = events.COMMAND
    with psycopg.connect(chosen.database_url, connect_timeout=5) as connection:
        connection.execute(_OWNER_SQL["become_owner"])
        schema.check(connection)
        with connection.cursor(row_factory=class_row(Event)) as cursor:
            parameters = {"user_id": account.user_id, **origin.parameters}
            ended = cursor.execute(_OWNER_SQL["end_account"], parameters).fetchall()
    events.write_log(ended, origin)
    return bool(ended)
