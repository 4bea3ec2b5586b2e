"""Identities at the provider: who is away to sign in there, and whose account an identity opens.

An identity is an issuer and a subject. An address of e-mail is none, however well it is verified: who
comes with the address of an account is not let into it, but told to sign in as before and to connect the
provider there. Else whoever made an account under another's address would have that person come in and
fill it, and whoever takes an address over at the provider would have the account.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from psycopg.errors import UniqueViolation

from authserver import events, rows
from authserver.events import Event, RequestOrigin
from authserver.people import accounts
from authserver.people.accounts import AddressTaken, LinkUsed, UnacceptableEmail
from authserver.people.provider import Proof
from authserver.people.sessions import Browser
from authserver.rows import Database, Parameters
from shared.pipeline import Statement
from shared.tokens import Token

SQL: Final = rows.load("people/identities.sql", "people/sessions.sql", "events.sql")

LIFETIME: Final = timedelta(minutes=10)
"""How long somebody may take at the provider."""


@dataclass(frozen=True)
class SignInPurpose:
    """What somebody is sent to the provider for."""

    going_to: str = ""
    user_id: UUID | None = None
    """Who is signed in, and has to come back as the same."""
    is_connecting: bool = False
    """Whether they want to have the provider as one more way in."""
    invitation_hash: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class PendingSignIn:
    """What somebody came back from, to the browser that was sent away."""

    going_to: str
    user_id: UUID | None
    is_connecting: bool
    invitation_hash: bytes | None = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)
    created_at: datetime


@dataclass(frozen=True)
class Owner:
    """Whose identity it is."""

    user_id: UUID
    signed_out_at: datetime | None
    """When all their sign-ins were ended last."""


@dataclass(frozen=True)
class Connection:
    """That an account can be opened through the provider."""

    email: str | None
    created_at: datetime
    last_used_at: datetime | None
    may_disconnect: bool
    """Whether there is another way in."""


class NotInvited(Exception):
    """Nobody here has that identity, and a new account takes an invitation."""


class NoAddress(Exception):
    """The provider named no e-mail address, and the invitation is for none in particular."""


async def store_sign_in(
    database: Database,
    session: Token,
    state: Token,
    purpose: SignInPurpose,
    secrets: tuple[str, str],
) -> None:
    """Keep what somebody is sent to the provider for; ``secrets`` are nonce and code verifier."""
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
    """Return what the browser with ``session`` was sent away for; None for whoever comes second."""
    parameters = {"state_hash": state.hash, "session_hash": session.hash}
    return await rows.one(database, PendingSignIn, SQL["take_sign_in"], parameters)


async def use_identity(database: Database, proof: Proof) -> Owner | None:
    """Return whose identity it is, which is used herewith, or None."""
    return await rows.one(database, Owner, SQL["use_identity"], _identity(proof))


async def join(
    database: Database,
    proof: Proof,
    domains: tuple[str, ...],
    origin: RequestOrigin,
    *,
    invitation_hash: bytes | None,
) -> Owner:
    """Make an account for somebody who has none, where the operator lets them in, and return it.

    Raises NotInvited, AddressTaken, and with an invitation LinkUsed, NoAddress.
    """
    parameters = _identity(proof)
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
        return await events.execute(database, statement, parameters, origin)
    except UniqueViolation as error:
        raise AddressTaken from error


async def connect(
    database: Database, proof: Proof, browser: Browser, origin: RequestOrigin
) -> bool:
    """Let whoever is signed in in ``browser`` in through this identity; False: it cannot be theirs."""
    parameters = {
        **_identity(proof),
        "user_id": browser.session.user_id,
        "session_hash": browser.session.hash,
    }
    return bool(await events.execute(database, SQL["connect"], parameters, origin))


async def disconnect(database: Database, user_id: UUID, issuer: str, origin: RequestOrigin) -> bool:
    """Take the provider away as a way in; False: there was nothing to take, or it is the last one."""
    parameters = {"user_id": user_id, "issuer": issuer}
    return bool(
        await events.execute(
            database, SQL["disconnect"], parameters, origin, preceded_by=SQL["lock_user"]
        )
    )


async def connection(database: Database, user_id: UUID, issuer: str | None) -> Connection | None:
    """Return what an account has of the provider, or None; of none it has nothing."""
    parameters = {"user_id": user_id, "issuer": issuer}
    return await rows.one(database, Connection, SQL["connection"], parameters)


def _identity(proof: Proof) -> dict[str, str | None]:
    """Return what statements take; an address that cannot be an account's counts as none."""
    try:
        email = None if proof.email is None else accounts.folded_email(proof.email)
    except UnacceptableEmail:
        email = None
    return {"issuer": proof.issuer, "subject": proof.subject, "email": email}
