"""Accounts: how the first one and others are made, and who may sign in."""

import re
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg

from authserver import passwords, rows
from authserver.passwords import Hasher
from authserver.rows import Connection
from shared import database, queries, tokens
from shared.database import Pool
from shared.settings import Settings
from shared.tokens import Token

SQL: Final = queries.load(Path(__file__).with_name("accounts.sql"))

LINK_LIFETIME: Final = timedelta(hours=24)

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
    password_hash: str | None


@dataclass(frozen=True)
class _Added:
    user_id: UUID


@dataclass(frozen=True)
class _Invitation:
    is_for_first_account: bool


@dataclass(frozen=True)
class _Known:
    is_known: bool


def folded_email(text: str) -> str:
    """Return an address as it is stored. Raises UnacceptableEmail."""
    email = text.strip().lower()
    if len(email) > 254 or _EMAIL.fullmatch(email) is None:
        raise UnacceptableEmail
    return email


async def find(connection: Connection, email: str) -> Account | None:
    """Return the account of an address as somebody typed it, or None."""
    return await rows.one(connection, Account, SQL["account"], {"email": email.strip().lower()})


async def authenticate(pool: Pool, hasher: Hasher, email: str, password: str) -> Account | None:
    """Return whose e-mail address and password these are, or None.

    It takes the same time whether there is no such account or the password is wrong. No connection is
    held while a password is hashed.
    """
    async with pool.connection() as connection:
        account = await find(connection, email)
    stored = None if account is None else account.password_hash
    if not await hasher.verify(stored, password) or account is None or stored is None:
        return None
    if passwords.is_outdated(stored):
        new_hash = await hasher.hash(password)
        async with pool.connection() as connection:
            await connection.execute(
                SQL["rehash_password"],
                {"user_id": account.user_id, "password_hash": stored, "new_hash": new_hash},
            )
    return account


async def add(connection: Connection, hasher: Hasher, new: NewAccount) -> UUID:
    """Make an account and return its id.

    Raises UnacceptableEmail, passwords.UnacceptablePassword, UnknownTimezone and AddressTaken.
    """
    email = folded_email(new.email)
    passwords.check(new.password, email)
    zone = await rows.one(connection, _Known, SQL["is_timezone"], {"timezone": new.timezone})
    if zone is None or not zone.is_known:
        raise UnknownTimezone
    password_hash = await hasher.hash(new.password)
    async with connection.transaction():
        return await _insert(connection, email, new, password_hash)


async def _insert(connection: Connection, email: str, new: NewAccount, password_hash: str) -> UUID:
    added = await rows.one(
        connection,
        _Added,
        SQL["add_account"],
        {"email": email, "timezone": new.timezone, "is_admin": new.is_admin},
    )
    if added is None:
        raise AddressTaken
    await connection.execute(
        SQL["set_password"], {"user_id": added.user_id, "password_hash": password_hash}
    )
    return added.user_id


async def is_open(connection: Connection, link: Token) -> bool:
    """Tell whether a one-time link can still be used."""
    parameters = {"invitation_hash": link.hash}
    return await rows.one(connection, _Invitation, SQL["invitation"], parameters) is not None


async def join(connection: Connection, hasher: Hasher, link: Token, new: NewAccount) -> UUID:
    """Make an account by a one-time link and return its id; the first account is an administrator.

    Raises LinkUsed, and what ``add`` raises; with any of that the link can be used again.
    """
    if not await is_open(connection, link):
        raise LinkUsed
    email = folded_email(new.email)
    passwords.check(new.password, email)
    password_hash = await hasher.hash(new.password)
    async with connection.transaction():
        used = await rows.one(
            connection, _Invitation, SQL["use_invitation"], {"invitation_hash": link.hash}
        )
        if used is None:
            raise LinkUsed
        admitted = replace(new, is_admin=used.is_for_first_account)
        return await _insert(connection, email, admitted, password_hash)


def first_account_link(chosen: Settings) -> str | None:
    """Return a fresh one-time link for the first account, or None where there is an account.

    An earlier link is worth nothing afterwards. Raises psycopg.Error, SettingsError.
    """
    link = tokens.mint(tokens.LINK, tokens.NOBODY)
    with closing(
        psycopg.connect(database.role_url(chosen, "authserver"), autocommit=True, connect_timeout=5)
    ) as connection:
        made = connection.execute(
            SQL["invite_first_account"], {"invitation_hash": link.hash, "lifetime": LINK_LIFETIME}
        ).fetchone()
    return None if made is None else f"{chosen.auth_url}/join?link={link.text}"
