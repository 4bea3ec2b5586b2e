"""The life cycle of a grant, from a person's consent to its end.

    consent ─► code ──redeem──► token pair ──rotate──► token pair ─► ...
                │                    │                      │
           presented            presented again, or revoked by its
             again                  owner, or by its client
                └────────► grant revoked ◄──────────────────┘

Each arrow is one statement of ``grants.sql`` with all its conditions, so that of any number of concurrent
requests exactly one succeeds. For the others, the reason is determined afterwards from the stored rows. A
request that presents a spent code or a rotated refresh token revokes the grant, whatever else is wrong with
it. Tokens are valid only while their grant is, so revoking a grant is a single update however many tokens
it has, and tokens that a concurrent request issues a moment later are never valid.

Where SVC_REFRESH_RETRY_SECONDS is set, one rotated refresh token revokes nothing: that of the last refresh,
if its client repeats the request within this time and has used neither of the new tokens (``retry``).

A grant of the dashboard belongs to a sign-in session and is deleted with it, by a foreign key. While it is
live, further codes renew it without a consent:

    consent ─► code ──redeem──► token pair, and the earlier pair ends ─┐
                ▲                                                     │
                └─────────── renew, with the same scopes ──────────────┘
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

from authserver import changes, events, rows
from authserver.errors import (
    AccessDenied,
    AuthorizationPending,
    CodeExpired,
    CodeOfAnotherClient,
    CodeSpent,
    CodeUnknown,
    DeviceCodeOfAnotherClient,
    DeviceCodeSpent,
    DeviceCodeUnknown,
    ExpiredToken,
    GrantRevoked,
    InvalidGrant,
    InvalidRequest,
    OAuthError,
    RedirectURIMismatch,
    RefreshTokenExpired,
    RefreshTokenOfAnotherClient,
    RefreshTokenRotated,
    RefreshTokenUnknown,
    ResourceMismatch,
    ScopeWidened,
    SlowDown,
    TemporarilyUnavailable,
    TooManyRequests,
    UnknownClient,
    VerifierMismatch,
)
from authserver.events import Event, RequestOrigin
from authserver.lineage import Lineage, mint_code, range_of_code, range_of_grant
from authserver.oauth import clients, retry
from authserver.oauth.requests import PendingKey, PendingRequest
from authserver.people import sessions
from authserver.people.sessions import StaleForm
from authserver.rows import Database, Parameters
from shared import tokens
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.tokens import Token

SQL: Final = rows.load("oauth/grants.sql", "oauth/retry.sql", "events.sql")

CODE_LIFETIME: Final = timedelta(seconds=60)
ACCESS_TOKEN_LIFETIME: Final = timedelta(seconds=3600)
REFRESH_TOKEN_LIFETIME: Final = timedelta(days=90)
"""Counted from the last rotation."""
LONGEST_POLL_INTERVAL_S: Final = 900
"""The lifetime of a device code."""
MAX_APPLICATION_GRANTS: Final = 200
"""The most live grants of applications that a person can have; the least recently used one ends."""
MAX_API_TOKENS: Final = 100
"""The most live API tokens that a person can have."""


class TooManyAPITokens(InvalidRequest):
    """An account can have at most 100 API tokens, and this one has 100. Revoke one that is not in use."""


class APITokenExists(InvalidRequest):
    """This API token was created before, and it was shown then."""


@dataclass(frozen=True, repr=False)
class CodePresentation:
    """A code and the other parameters of a token request."""

    code: Token | None
    """None if the text does not have the format of a code. Only a known client gets that error."""
    client_id: str
    redirect_uri: str
    code_challenge: str
    """Computed from the verifier. It must equal the one of the authorization request."""
    resource: str | None


@dataclass(frozen=True, repr=False)
class DevicePresentation:
    """A device code and the other parameters of a token request (RFC 8628, section 3.4)."""

    device_code: Token | None
    """None if the text does not have the format of a device code."""
    client_id: str
    resource: str | None
    """None keeps that of the request."""


@dataclass(frozen=True, repr=False)
class RefreshPresentation:
    """A refresh token and the other parameters of a refresh request."""

    refresh_token: Token | None
    client_id: str
    scopes: tuple[str, ...] | None
    """None keeps the scopes of the grant."""
    resource: str | None

    @property
    def parameters(self) -> retry.Parameters:
        """The parameters beside the token."""
        return self.client_id, self.scopes, self.resource


@dataclass(frozen=True, repr=False)
class TokenPair:
    """The tokens that the token endpoint issues."""

    access_token: Token
    refresh_token: Token
    scopes: list[str]
    grant_id: UUID
    expires_in: int
    """The seconds for which the access token is valid."""


@dataclass(frozen=True)
class Grant:
    """The permission of an application or API token to access a person's data."""

    grant_id: UUID
    title: str
    client_id: str | None
    """None for an API token."""
    scopes: list[str]
    resource: str | None
    """The resource that it is limited to; None: the whole service."""
    redirect_uri: str | None
    """The redirect URI to which the code was sent. None for an API token."""
    last_four: str | None
    """The last four characters of an API token. None for an application."""
    created_at: datetime
    last_used_at: datetime | None
    """To the minute. None: not used yet."""
    expires_at: datetime | None
    """When it ends unless it is used before."""
    ends_at: datetime | None
    """When it ends in any case, if its person chose that at consent."""


@dataclass(frozen=True)
class Holder:
    """The holder of a grant: an application, or an API token (None)."""

    client_id: str | None


@dataclass(frozen=True)
class Parties:
    """The owner and the holder of a grant. ``client_id`` is None for an API token."""

    user_id: UUID
    client_id: str | None


@dataclass(frozen=True)
class _Issued:
    grant_id: UUID
    scopes: list[str]
    expires_in: int
    is_first: bool = True
    """Whether a code gave the grant its first token pair."""


@dataclass(frozen=True)
class _GrantId:
    grant_id: UUID


@dataclass(frozen=True)
class _Code:
    redirect_uri: str
    code_challenge: str
    is_spent: bool
    is_expired: bool
    client_id: str
    resource: str | None
    is_revoked: bool


@dataclass(frozen=True)
class _Device:
    client_id: str
    resource: str | None
    user_id: UUID | None
    grant_id: UUID | None
    is_denied: bool
    is_spent: bool
    is_expired: bool
    is_too_soon: bool


@dataclass(frozen=True)
class _RefreshToken:
    grant_id: UUID
    is_rotated: bool
    is_expired: bool
    client_id: str
    resource: str | None
    scopes: list[str]
    is_revoked: bool
    retry_after_s: int | None
    """After how many seconds the grant can be refreshed again, if it was refreshed too often."""


@dataclass(frozen=True)
class _Sealed:
    sealed: bytes


@dataclass(frozen=True)
class _Scope:
    scope: str


async def issue_code(
    database: Database,
    user_id: UUID,
    waiting: PendingKey,
    scopes: tuple[str, ...],
    origin: RequestOrigin,
    *,
    ends_with_session: bool = False,
    lifetime: timedelta | None = None,
) -> Token | None:
    """Return a code for ``scopes`` of a pending request, or None if it is no longer pending.

    The grant ends after ``lifetime``; None: it lasts until it is revoked or not used.
    ``ends_with_session``: the grant belongs to the sign-in session of the request, and replaces an earlier
    one of the same application there.
    """
    grant_id = uuid4()
    code = mint_code(user_id, grant_id)
    consented = await changes.run(
        database,
        SQL["grant_code"],
        {
            **waiting.parameters,
            "user_id": user_id,
            "grant_id": grant_id,
            "scopes": list(scopes),
            "code_hash": code.hash,
            "lifetime": CODE_LIFETIME,
            "grant_lifetime": lifetime,
            "most_grants": MAX_APPLICATION_GRANTS,
            "owning_session_hash": waiting.session.hash if ends_with_session else None,
        },
        origin,
        preceded_by=SQL["lock_session"] if ends_with_session else None,
    )
    return code if consented else None


async def renew(database: Database, session: Token, request: PendingRequest) -> Token | None:
    """Return a code of the live grant that belongs to a sign-in session, or None without such a grant.

    The code has the scopes of the grant, whatever the request asks for. The grant must be the client's and
    for the same resource.
    """
    owner = {"user_id": session.user_id, "session_hash": session.hash}
    found = await rows.one(database, _GrantId, SQL["session_grant"], {**vars(request), **owner})
    if found is None:
        return None
    code = mint_code(session.user_id, found.grant_id)
    renewed = await rows.one(
        database,
        _GrantId,
        SQL["renew"],
        {
            **owner,
            "grant_id": found.grant_id,
            "code_hash": code.hash,
            "redirect_uri": request.redirect_uri,
            "code_challenge": request.code_challenge,
            "lifetime": CODE_LIFETIME,
        },
    )
    return None if renewed is None else code


async def redeem_code(
    database: Database, lineage: Lineage, presented: CodePresentation, origin: RequestOrigin
) -> TokenPair:
    """Spend a code and return the first token pair of its grant.

    Raises UnknownClient, InvalidGrant and InvalidTarget; after an error, an unspent code is still unspent.
    """
    code = presented.code
    if code is None:
        await _require_client(database, presented.client_id)
        raise CodeUnknown
    grant = range_of_code(code)
    access_token = tokens.mint(tokens.ACCESS, code.user_id)
    refresh_token = lineage.mint(code.user_id, grant)
    may_be_renewed = presented.client_id == DASHBOARD_CLIENT_ID
    found = await rows.every(
        database,
        _Issued,
        SQL["redeem_code_of_session" if may_be_renewed else "redeem_code"],
        {
            "user_id": code.user_id,
            "code_hash": code.hash,
            "client_id": presented.client_id,
            "redirect_uri": presented.redirect_uri,
            "code_challenge": presented.code_challenge,
            "resource": presented.resource,
            **vars(grant),
            **_pair_parameters(access_token, refresh_token),
            **origin.parameters,
        },
        preceded_by=SQL["lock_grant_of_code"] if may_be_renewed else None,
    )
    if not found:
        raise await _code_refusal(database, code, presented, origin)
    issued = found[0]
    if issued.is_first:
        created = Event("token_created", code.user_id, presented.client_id, issued.grant_id)
        events.write_log([created], origin)
    return TokenPair(access_token, refresh_token, issued.scopes, issued.grant_id, issued.expires_in)


async def redeem_device_code(
    database: Database, lineage: Lineage, presented: DevicePresentation, origin: RequestOrigin
) -> TokenPair:
    """Return the first token pair of the grant that a person gave to a device, once.

    Raises AuthorizationPending and SlowDown while the person has not decided, AccessDenied, ExpiredToken,
    UnknownClient, InvalidGrant and InvalidTarget.
    """
    code = presented.device_code
    device = None
    if code is not None:
        key = {
            "device_code_hash": code.hash,
            "client_id": presented.client_id,
            "longest_interval_s": LONGEST_POLL_INTERVAL_S,
        }
        device = await rows.one(database, _Device, SQL["poll"], key)
    if code is None or device is None:
        await _require_client(database, presented.client_id)
        raise DeviceCodeUnknown
    user_id, grant_id = _allowed_by(device, presented)
    grant = range_of_grant(grant_id)
    access_token = tokens.mint(tokens.ACCESS, user_id)
    refresh_token = lineage.mint(user_id, grant)
    issued = await rows.one(
        database,
        _Issued,
        SQL["redeem_device_code"],
        {
            "user_id": user_id,
            "device_code_hash": code.hash,
            "client_id": presented.client_id,
            **vars(grant),
            **_pair_parameters(access_token, refresh_token),
            **origin.parameters,
        },
    )
    if issued is None:
        raise DeviceCodeSpent
    created = Event("token_created", user_id, presented.client_id, issued.grant_id)
    events.write_log([created], origin)
    return TokenPair(access_token, refresh_token, issued.scopes, issued.grant_id, issued.expires_in)


def _allowed_by(device: _Device, presented: DevicePresentation) -> tuple[UUID, UUID]:
    """Return the person who allowed a device's request, and the grant. Raises as redeem_device_code."""
    if device.client_id != presented.client_id:
        raise DeviceCodeOfAnotherClient
    if presented.resource not in (None, device.resource):
        raise ResourceMismatch
    if device.is_spent:
        raise DeviceCodeSpent
    if device.is_denied:
        raise AccessDenied
    if device.is_expired:
        raise ExpiredToken
    if device.user_id is None or device.grant_id is None:
        raise SlowDown if device.is_too_soon else AuthorizationPending
    return device.user_id, device.grant_id


async def rotate(
    database: Database,
    lineage: Lineage,
    presented: RefreshPresentation,
    origin: RequestOrigin,
    *,
    refreshes_per_hour: int,
    retry_lifetime: timedelta | None = None,
) -> TokenPair:
    """Rotate a refresh token and return the next token pair of its grant.

    A grant is refreshed at most ``refreshes_per_hour`` times within an hour; 0: without a limit. Within
    ``retry_lifetime`` the same refresh is answered with the same pair again, until it is used. Raises
    UnknownClient, InvalidGrant, InvalidTarget, InvalidScope, TooManyRequests and TemporarilyUnavailable;
    after an error, a current refresh token is still current.
    """
    token = presented.refresh_token
    if token is None:
        await _require_client(database, presented.client_id)
        raise RefreshTokenUnknown
    key = _refresh_key(lineage, token, refreshes_per_hour)
    for _ in range(2):
        pair = await _rotated_pair(database, lineage, token, presented, key, retry_lifetime)
        if pair is None and retry_lifetime is not None:
            pair = await _repeated_pair(database, token, presented)
        if pair is not None:
            return pair
        refusal = await _refresh_refusal(database, presented, key, origin)
        if refusal is not None:
            raise refusal
        # The grant had been refreshed too often when the token was refused, and no longer when the reason
        # was determined. After invalid_grant a client would discard its current token.
    raise TemporarilyUnavailable


async def _rotated_pair(  # noqa: PLR0917 -- what a rotation needs, all of it from ``rotate``
    database: Database,
    lineage: Lineage,
    token: Token,
    presented: RefreshPresentation,
    key: Parameters,
    retry_lifetime: timedelta | None,
) -> TokenPair | None:
    """Rotate a refresh token. None: it was refused."""
    grant = lineage.grant_of(token)
    if grant is None:
        # The token is from before tokens named their grant, or is not one of the service. The next one names
        # it.
        stored = await rows.one(database, _RefreshToken, SQL["refresh_token"], key)
        if stored is None:
            return None
        grant = range_of_grant(stored.grant_id)
    access_token = tokens.mint(tokens.ACCESS, token.user_id)
    refresh_token = lineage.mint(token.user_id, grant)
    statement, sealed = SQL["rotate"], None
    if retry_lifetime is not None:
        statement = SQL["rotate_repeatably"]
        sealed = retry.seal(token, presented.parameters, access_token, refresh_token)
    issued = await rows.one(
        database,
        _Issued,
        statement,
        {
            **key,
            "client_id": presented.client_id,
            "scopes": None if presented.scopes is None else list(presented.scopes),
            "resource": presented.resource,
            "sealed": sealed,
            **vars(grant),
            **_pair_parameters(access_token, refresh_token, retry_lifetime),
        },
    )
    if issued is None:
        return None
    return TokenPair(access_token, refresh_token, issued.scopes, issued.grant_id, issued.expires_in)


async def _repeated_pair(
    database: Database, token: Token, presented: RefreshPresentation
) -> TokenPair | None:
    """Return the pair that replaced a rotated refresh token. None: the refresh cannot be repeated."""
    key = {"user_id": token.user_id, "token_hash": token.hash, "client_id": presented.client_id}
    kept = await rows.one(database, _Sealed, SQL["sealed_answer"], key)
    pair = None if kept is None else retry.unseal(token, presented.parameters, kept.sealed)
    if pair is None:
        return None
    hashes = {"access_token_hash": pair[0].hash, "refresh_token_hash": pair[1].hash}
    live = await rows.one(database, _Issued, SQL["live_pair"], {**key, **hashes})
    if live is None:
        return None
    return TokenPair(*pair, live.scopes, live.grant_id, live.expires_in)


async def check_replay(
    database: Database,
    lineage: Lineage,
    codes: Iterable[Token],
    refresh_tokens: Iterable[Token],
    origin: RequestOrigin,
) -> None:
    """Revoke the grant of each spent code and each rotated refresh token among these.

    For tokens that a request contains but does not redeem: presenting a spent one always revokes its
    grant. Raises CodeSpent or RefreshTokenRotated after all these grants are revoked.
    """
    replays: list[InvalidGrant] = []
    for code in codes:
        stored_code = await _replayed_code(database, code, origin)
        if stored_code is not None and stored_code.is_spent:
            replays.append(CodeSpent())
    for refresh_token in refresh_tokens:
        key = _refresh_key(lineage, refresh_token)
        stored_token = await _replayed_refresh_token(database, key, origin)
        if stored_token is not None and stored_token.is_rotated:
            replays.append(RefreshTokenRotated())
    if replays:
        raise replays[0]


async def revoke_by_token(
    database: Database,
    lineage: Lineage,
    token: Token,
    client_id: str | None,
    origin: RequestOrigin,
) -> None:
    """Revoke ``token`` (RFC 7009), unless ``client_id`` is given and is not the token's client."""
    if token.text.startswith(tokens.REFRESH):
        statement, key = SQL["revoke_by_refresh_token"], _refresh_key(lineage, token)
    else:
        statement = SQL["revoke_by_access_token"]
        key = {"user_id": token.user_id, "token_hash": token.hash}
    await changes.run(database, statement, {**key, "client_id": client_id}, origin)


async def revoke(database: Database, user_id: UUID, grant_id: UUID, origin: RequestOrigin) -> bool:
    """Revoke a grant of a person. False: it is not theirs, or was revoked before."""
    parameters = {"user_id": user_id, "grant_id": grant_id}
    return bool(await changes.run(database, SQL["revoke_grant"], parameters, origin))


async def revoke_client(
    database: Database, user_id: UUID, client_id: str, origin: RequestOrigin
) -> bool:
    """Revoke all grants of an application from a person. False: none of them was live."""
    parameters = {"user_id": user_id, "client_id": client_id}
    return bool(await changes.run(database, SQL["revoke_client"], parameters, origin))


async def issue_api_token(
    database: Database,
    user_id: UUID,
    *,
    name: str,
    scopes: tuple[str, ...],
    lifetime: timedelta | None,
    origin: RequestOrigin,
    grant_id: UUID | None = None,
    session: Token | None = None,
    most: int = MAX_API_TOKENS,
) -> Token:
    """Create an API token and return it. The person can have at most ``most``; no ``lifetime``: no expiry.

    A second call with the same ``grant_id`` raises APITokenExists. Also raises TooManyAPITokens, and
    StaleForm if ``session``, from which it is requested, was ended meanwhile.
    """
    token = tokens.mint(tokens.ACCESS, user_id)
    grant_id = grant_id or uuid4()
    created = await changes.run(
        database,
        SQL["grant_api_token"],
        {
            "user_id": user_id,
            "grant_id": grant_id,
            "session_hash": None if session is None else session.hash,
            "most": most,
            "name": name,
            "scopes": list(scopes),
            "token_hash": token.hash,
            "last_four": token.last_four,
            "lifetime": lifetime,
        },
        origin,
        preceded_by=SQL["lock_user"],
    )
    if not created:
        if session is not None and not await sessions.is_live(database, session):
            raise StaleForm
        exists = await holder(database, user_id, grant_id) is not None
        raise APITokenExists if exists else TooManyAPITokens
    return token


async def of_user(database: Database, user_id: UUID) -> list[Grant]:
    """Return the live grants of a person, oldest first."""
    return await rows.every(database, Grant, SQL["grants"], {"user_id": user_id})


async def holder(database: Database, user_id: UUID, grant_id: UUID) -> Holder | None:
    """Return the holder of a person's grant, live or not; None if they have no grant with that id."""
    parameters = {"user_id": user_id, "grant_id": grant_id}
    return await rows.one(database, Holder, SQL["holder"], parameters)


async def parties(database: Database, grant_id: UUID) -> Parties | None:
    """Return the owner and holder of a grant, or None if there is no grant with that id."""
    return await rows.one(database, Parties, SQL["parties"], {"grant_id": grant_id})


async def is_known_client(database: Database, user_id: UUID, client_id: str) -> bool:
    """Return whether a person has a grant of this application, live or revoked."""
    parameters = {"user_id": user_id, "client_id": client_id}
    return await rows.one(database, Holder, SQL["had_grant"], parameters) is not None


async def scopes_of_client(database: Database, user_id: UUID, client_id: str) -> frozenset[str]:
    """Return the scopes of all live grants of a client from this person."""
    parameters = {"user_id": user_id, "client_id": client_id}
    scope_rows = await rows.every(database, _Scope, SQL["granted_scopes"], parameters)
    return frozenset(row.scope for row in scope_rows)


def _refresh_key(lineage: Lineage, token: Token, refreshes_per_hour: int = 0) -> Parameters:
    """Return the parameters of the SQL fragments ``presented`` and ``recent_rotations``."""
    grant = lineage.grant_of(token)
    return {
        "user_id": token.user_id,
        "token_hash": token.hash,
        "first_grant_id": None if grant is None else grant.first_grant_id,
        "last_grant_id": None if grant is None else grant.last_grant_id,
        "refreshes_per_hour": refreshes_per_hour or None,
    }


def _pair_parameters(
    access_token: Token, refresh_token: Token, retry_lifetime: timedelta | None = None
) -> dict[str, object]:
    """Return the parameters of the statements that issue a token pair."""
    return {
        "retry_lifetime": retry_lifetime,
        "access_token_hash": access_token.hash,
        "access_token_last_four": access_token.last_four,
        "access_token_lifetime": ACCESS_TOKEN_LIFETIME,
        "refresh_token_hash": refresh_token.hash,
        "refresh_token_lifetime": REFRESH_TOKEN_LIFETIME,
    }


async def _code_refusal(
    database: Database, code: Token, presented: CodePresentation, origin: RequestOrigin
) -> OAuthError:
    """Return why a code was not redeemed: the first condition that holds."""
    # A concurrent request may have spent the code. This later statement sees what that request committed,
    # unlike the statement that found nothing to redeem.
    stored = await _replayed_code(database, code, origin)
    if stored is not None and stored.is_spent:
        return CodeSpent()
    if await clients.find(database, presented.client_id) is None:
        return UnknownClient()
    if stored is None:
        return CodeUnknown()
    reasons = (
        (stored.client_id != presented.client_id, CodeOfAnotherClient()),
        (stored.is_revoked, GrantRevoked()),
        (stored.is_expired, CodeExpired()),
        (stored.redirect_uri != presented.redirect_uri, RedirectURIMismatch()),
        (stored.code_challenge != presented.code_challenge, VerifierMismatch()),
        (stored.resource != presented.resource, ResourceMismatch()),
        (True, InvalidGrant()),
    )
    return next(error for holds, error in reasons if holds)


async def _refresh_refusal(
    database: Database,
    presented: RefreshPresentation,
    key: Parameters,
    origin: RequestOrigin,
) -> OAuthError | None:
    """Return why a refresh token was not rotated: the first condition that holds now, if any."""
    stored = await _replayed_refresh_token(database, key, origin)
    if stored is not None and stored.is_rotated:
        return RefreshTokenRotated()
    if await clients.find(database, presented.client_id) is None:
        return UnknownClient()
    if stored is None:
        return RefreshTokenUnknown()
    reasons = (
        (stored.client_id != presented.client_id, RefreshTokenOfAnotherClient()),
        (stored.is_revoked, GrantRevoked()),
        (stored.is_expired, RefreshTokenExpired()),
        (presented.resource not in (None, stored.resource), ResourceMismatch()),
        (not set(presented.scopes or ()) <= set(stored.scopes), ScopeWidened()),
    )
    refusal = next((error for holds, error in reasons if holds), None)
    if refusal is None and stored.retry_after_s is not None:
        return TooManyRequests(stored.retry_after_s, "refreshes")
    return refusal


async def _replayed_code(database: Database, code: Token, origin: RequestOrigin) -> _Code | None:
    """Return the stored code. If it is spent, revoke its grant."""
    key = {"user_id": code.user_id, "code_hash": code.hash}
    stored = await rows.one(database, _Code, SQL["code"], key)
    if stored is not None and stored.is_spent:
        await changes.run(database, SQL["revoke_grant_of_spent_code"], key, origin)
    return stored


async def _replayed_refresh_token(
    database: Database, key: Parameters, origin: RequestOrigin
) -> _RefreshToken | None:
    """Return the refresh token as it was issued. If it is rotated, revoke its grant."""
    stored = await rows.one(database, _RefreshToken, SQL["refresh_token"], key)
    if stored is not None and stored.is_rotated:
        await changes.run(database, SQL["revoke_grant_of_rotated_refresh_token"], key, origin)
    return stored


async def _require_client(database: Database, client_id: str) -> None:
    if await clients.find(database, client_id) is None:
        raise UnknownClient
