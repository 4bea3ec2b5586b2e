"""Identities at the provider: sign-ins in progress there, and the accounts that identities belong to.

An identity is an issuer and a subject. An e-mail address is not an identity, even if it is verified: a
person whose address has an account must sign in as before and connect the provider there. Otherwise an
attacker could create an account with another person's address and wait for that person to use it, and a
person who takes over an address at the provider would get the account.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from psycopg.errors import UniqueViolation

from authserver import changes, rows
from authserver.events import Event, RequestOrigin
from authserver.people import accounts
from authserver.people.accounts import AddressTaken, LinkUsed, UnacceptableEmail
from authserver.people.external_sign_ins import Proof
from authserver.people.sessions import Browser
from authserver.rows import Database, Parameters
from shared.pipeline import Statement
from shared.tokens import Token

SQL: Final = rows.load("people/identities.sql", "people/sessions.sql", "events.sql")

LIFETIME: Final = timedelta(minutes=10)
"""How long a sign-in at the provider may take."""


@dataclass(frozen=True)
class SignInPurpose:
    """Why a browser is redirected to the provider, and where it goes afterwards."""

    going_to: str = ""
    user_id: UUID | None = None
    """The person who is signed in and has to come back with their own identity, if any."""
    is_connecting: bool = False
    """Whether to add the provider to the person's sign-in methods."""
    invitation_hash: bytes | None = field(default=None, repr=False)
    timezone: str | None = None
    """The zone of a new account, if the sign-in creates one."""


@dataclass(frozen=True)
class PendingSignIn:
    """A sign-in at the provider that this browser started."""

    going_to: str
    user_id: UUID | None
    is_connecting: bool
    invitation_hash: bytes | None = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)
    timezone: str | None
    created_at: datetime


@dataclass(frozen=True)
class Owner:
    """The account that an identity belongs to."""

    user_id: UUID
    signed_out_at: datetime | None
    """When all sessions of the account were last ended together."""


@dataclass(frozen=True)
class Connection:
    """The identity at the provider that is connected to an account."""

    email: str | None
    created_at: datetime
    last_used_at: datetime | None
    may_disconnect: bool
    """Whether the account has another sign-in method."""


class NotInvited(Exception):
    """No account has this identity, and a new account needs an invitation."""


class NoAddress(Exception):
    """The provider sent no e-mail address, and the invitation has none either."""


async def store_sign_in(
    database: Database,
    session: Token,
    state: Token,
    purpose: SignInPurpose,
    secrets: tuple[str, str],
) -> None:
    """Store a sign-in before the redirect to the provider. ``secrets`` are nonce and code verifier."""
    nonce, code_verifier = secrets
    parameters = {
        **vars(purpose),
        "state_hash": state.hash,
        "session_hash": session.hash,
        "nonce": nonce,
        "code_verifier": code_verifier,
        "lifetime": LIFETIME,
    }
    await rows.execute(database, SQL["store_sign_in"], parameters)


async def take_sign_in(database: Database, session: Token, state: Token) -> PendingSignIn | None:
    """Take the sign-in that this browser started, once: a second call returns None."""
    parameters = {"state_hash": state.hash, "session_hash": session.hash}
    return await rows.one(database, PendingSignIn, SQL["take_sign_in"], parameters)


async def use_identity(database: Database, proof: Proof) -> Owner | None:
    """Return the owner of an identity and mark it as used, or None."""
    return await rows.one(database, Owner, SQL["use_identity"], _identity(proof))


async def join(
    database: Database,
    proof: Proof,
    domains: tuple[str, ...],
    origin: RequestOrigin,
    *,
    invitation_hash: bytes | None,
    timezone: str,
) -> Owner:
    """Create an account for a new identity, by invitation or by an allowed e-mail domain.

    Raises NotInvited, AddressTaken, and with an invitation LinkUsed, NoAddress.
    """
    parameters = _identity(proof) | {"timezone": timezone}
    email = parameters["email"]
    if invitation_hash is not None:
        invited = {**parameters, "invitation_hash": invitation_hash}
        recorded = await _join(database, SQL["join_by_invitation"], invited, origin)
        if not recorded:
            raise NoAddress if email is None else LinkUsed
        return Owner(recorded[0].user_id, None)
    if email is None or not proof.is_email_verified:
        raise NotInvited
    if await accounts.find(database, email) is not None:
        raise AddressTaken
    if email.rpartition("@")[2] not in domains:
        raise NotInvited
    recorded = await _join(database, SQL["join_by_domain"], parameters, origin)
    if not recorded:
        raise NotInvited
    return Owner(recorded[0].user_id, None)


async def _join(
    database: Database, statement: Statement, parameters: Parameters, origin: RequestOrigin
) -> list[Event]:
    try:
        return await changes.run(database, statement, parameters, origin)
    except UniqueViolation as error:
        raise AddressTaken from error


async def connect(
    database: Database, proof: Proof, browser: Browser, origin: RequestOrigin
) -> bool:
    """Connect an identity to the account signed in in ``browser``. False: it cannot be connected."""
    parameters = {
        **_identity(proof),
        "user_id": browser.session.user_id,
        "session_hash": browser.session.hash,
    }
    return bool(await changes.run(database, SQL["connect"], parameters, origin))


async def disconnect(database: Database, user_id: UUID, issuer: str, origin: RequestOrigin) -> bool:
    """Disconnect the provider. False: it was not connected, or it is the last sign-in method."""
    parameters = {"user_id": user_id, "issuer": issuer}
    return bool(
        await changes.run(
            database, SQL["disconnect"], parameters, origin, preceded_by=SQL["lock_user"]
        )
    )


async def connection(database: Database, user_id: UUID, issuer: str | None) -> Connection | None:
    """Return the connected identity of an account, or None."""
    parameters = {"user_id": user_id, "issuer": issuer}
    return await rows.one(database, Connection, SQL["connection"], parameters)


def _identity(proof: Proof) -> dict[str, str | None]:
    """Return the SQL parameters of an identity. An unacceptable e-mail address counts as none."""
    try:
        email = None if proof.email is None else accounts.folded_email(proof.email)
    except UnacceptableEmail:
        email = None
    return {"issuer": proof.issuer, "subject": proof.subject, "email": email}
