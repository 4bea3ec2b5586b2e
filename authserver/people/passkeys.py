"""Passkeys (WebAuthn, level 3): options and challenges for browsers, and verification of their responses.

A challenge is a random number and an expiry time, signed for the browser's session and for one purpose. The
server does not store it: it comes back in the response, which the passkey signs. The statement that acts on
a response stores that the challenge is spent, so no response works twice.

Passkeys are discoverable: the browser lists the person's passkeys, and the response names the account (the
user handle, which is the user id). A passkey is sufficient to sign in, so it has to verify its owner, by a
fingerprint or the PIN of the device.
"""

import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import urlsplit
from uuid import UUID

import webauthn
from starlette.requests import Request
from webauthn.helpers import (
    options_to_json,
    parse_authentication_credential_json,
    parse_client_data_json,
    parse_registration_credential_json,
)
from webauthn.helpers.structs import (
    AuthenticationCredential,
    AuthenticatorSelectionCriteria,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from authserver import changes, events, rows
from authserver.people import sessions
from authserver.people.server import Server
from authserver.people.sessions import Browser, Person, Signer, Visit
from authserver.rows import Database, Parameters
from shared import PRODUCT
from shared.tokens import Token

SQL: Final = rows.load("people/passkeys.sql", "people/sessions.sql", "events.sql")

CHALLENGE_LIFETIME: Final = timedelta(minutes=10)
MAX_PASSKEYS: Final = 20
"""The most passkeys that one account can have."""

_MAX_ANSWER_CHARACTERS: Final = 16 * 1024
_MAX_CREDENTIAL_ID_BYTES: Final = 1023
_MAX_PUBLIC_KEY_BYTES: Final = 4096
_MAX_CHALLENGE_CHARACTERS: Final = 200
_TIMEOUT_MS: Final = 120_000

Purpose = Literal["sign in", "confirm", "add"]


class ProofRefused(Exception):
    """A password, passkey response or form was refused. The message tells the person what to do."""


EXPIRED: Final = "That took too long, or the page was out of date. Please try again."
REFUSED: Final = (
    "This passkey was not accepted. Try again, or use another way. If you removed it here, remove it from "
    "your device as well."
)
TOO_MANY_ATTEMPTS: Final = (
    "Too many attempts with passkeys came from your address. Wait a little before the next one, at most 15 "
    "minutes, or use another way."
)
MALFORMED: Final = "What the browser sent could not be read. Please try again."
NOT_ADDED: Final = (
    "This passkey was not added. Perhaps you have it already, or you have the most that one account may have "
    f"({MAX_PASSKEYS})."
)


@dataclass(frozen=True)
class Passkey:
    """A passkey as its owner sees it."""

    passkey_id: UUID
    credential_id: bytes
    transports: Sequence[str]
    name: str
    created_at: datetime
    last_used_at: datetime | None


@dataclass(frozen=True)
class SignInMethods:
    """How many sign-in methods an account has, and of which kinds."""

    count: int
    has_password: bool
    has_provider: bool


@dataclass(frozen=True, repr=False)
class _StoredPasskey:
    user_id: UUID
    public_key: bytes
    signed_out_at: datetime | None


@dataclass(frozen=True, repr=False)
class _Challenge:
    """A valid challenge from a response."""

    text: str
    expires_at: datetime

    @property
    def parameters(self) -> Parameters:
        """The parameters of the statement that spends it."""
        digest = hashlib.sha256(self.text.encode()).digest()
        return {"challenge_hash": digest, "expires_at": self.expires_at}


def new_challenge(
    signer: Signer, session: Token, purpose: Purpose, lifetime: timedelta = CHALLENGE_LIFETIME
) -> str:
    """Return a new challenge for this session and purpose."""
    body = f"{secrets.token_urlsafe(24)}.{int(time.time() + lifetime.total_seconds())}"
    signature = signer.challenges.get_signature(_signed(session.hash, purpose, body))
    return f"{body}.{signature.decode()}"


def _signed(session_hash: bytes, purpose: Purpose, body: str) -> str:
    return f"{session_hash.hex()} {purpose} {body}"


def _parse_challenge(
    signer: Signer, session_hashes: Sequence[bytes], purpose: Purpose, challenge_text: bytes
) -> _Challenge:
    """Return the answered challenge. Raises ProofRefused if it is forged, for another purpose or expired."""
    text = challenge_text[:_MAX_CHALLENGE_CHARACTERS].decode("ascii", "replace")
    body, _, signature = text.rpartition(".")
    is_ours = text.isascii() and any(
        signer.challenges.verify_signature(_signed(session_hash, purpose, body), signature)
        for session_hash in session_hashes
    )
    if not is_ours:
        raise ProofRefused(EXPIRED)
    expires_at = int(body.rpartition(".")[2])
    if expires_at <= time.time():
        raise ProofRefused(EXPIRED)
    return _Challenge(text, datetime.fromtimestamp(expires_at, UTC))


def _host(signer: Signer) -> str:
    """Return the host name that passkeys are bound to."""
    return urlsplit(signer.origin).hostname or ""


def are_supported(signer: Signer) -> bool:
    """Return whether passkeys work here: the host must be a name (WebAuthn, level 3, section 5.1.3)."""
    try:
        ip_address(_host(signer))
    except ValueError:
        return True
    return False


async def of_user(database: Database, user_id: UUID) -> list[Passkey]:
    """Return the passkeys of a person, oldest first."""
    return await rows.every(database, Passkey, SQL["passkeys"], {"user_id": user_id})


async def sign_in_methods(server: Server, user_id: UUID) -> SignInMethods:
    """Return the sign-in methods of a person."""
    parameters = {"user_id": user_id, "issuer": server.provider_issuer}
    methods = await rows.one(server.database, SignInMethods, SQL["sign_in_methods"], parameters)
    return methods or SignInMethods(0, has_password=False, has_provider=False)


def _descriptors(known: Sequence[Passkey]) -> list[PublicKeyCredentialDescriptor]:
    return [
        PublicKeyCredentialDescriptor(
            id=each.credential_id,
            transports=[AuthenticatorTransport(name) for name in each.transports],
        )
        for each in known
    ]


def sign_in_options(signer: Signer, browser: Browser) -> str | None:
    """Return the JSON options for a sign-in with any passkey of this service.

    None, here and below: passkeys cannot be used.
    """
    return _request_options(signer, browser, "sign in", ()) if are_supported(signer) else None


def confirm_options(signer: Signer, browser: Browser, known: Sequence[Passkey]) -> str | None:
    """Return the JSON options for a confirmation with one of the person's passkeys."""
    is_any = bool(known) and are_supported(signer)
    return _request_options(signer, browser, "confirm", known) if is_any else None


def _request_options(
    signer: Signer, browser: Browser, purpose: Purpose, known: Sequence[Passkey]
) -> str:
    return options_to_json(
        webauthn.generate_authentication_options(
            rp_id=_host(signer),
            challenge=new_challenge(signer, browser.session, purpose).encode(),
            timeout=_TIMEOUT_MS,
            allow_credentials=_descriptors(known),
            user_verification=UserVerificationRequirement.REQUIRED,
        )
    )


def add_options(
    signer: Signer, browser: Browser, person: Person, known: Sequence[Passkey]
) -> str | None:
    """Return the JSON options for a new passkey."""
    if len(known) >= MAX_PASSKEYS or not are_supported(signer):
        return None
    return options_to_json(
        webauthn.generate_registration_options(
            rp_id=_host(signer),
            rp_name=PRODUCT,
            user_id=person.user_id.bytes,
            user_name=person.email,
            user_display_name=person.display_name or person.email,
            challenge=new_challenge(signer, browser.session, "add").encode(),
            timeout=_TIMEOUT_MS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=_descriptors(known),
        )
    )


async def sign_in(server: Server, browser: Browser, answer: str, request: Request) -> Token:
    """Sign a person in with the response of a passkey, and return the browser's new session.

    If a person is signed in already, it confirms that it is still them. Raises ProofRefused,
    TooManyRequests.
    """
    origin = events.request_origin(request)
    # It is counted before it is verified: keys cannot be guessed, but verifying costs time.
    attempt = await server.throttle.count_passkey(origin.address)
    user_id = None if browser.person is None else browser.person.user_id
    try:
        credential = _parse_authentication(answer)
        purpose: Purpose = "sign in" if browser.person is None else "confirm"
        challenge_text = _client_challenge(credential.response.client_data_json)
        expected = _parse_challenge(server.signer, (browser.session.hash,), purpose, challenge_text)
        known = await _stored_passkey(server, browser.person, credential)
        user_id = known.user_id
        sign_count = _verified_count(server.signer, credential, expected, known)
        await server.throttle.count_sign_in(known.user_id)
        session, session_parameters = sessions.new_session(browser, known.user_id, request)
        recorded = await changes.run(
            server.database,
            SQL["sign_in_with_passkey"],
            {
                "user_id": known.user_id,
                "credential_id": credential.raw_id,
                "signed_out_at": known.signed_out_at,
                "sign_count": sign_count,
                **expected.parameters,
                **session_parameters,
            },
            origin,
        )
        if "signed_in" not in [each.event for each in recorded]:
            raise ProofRefused(REFUSED)
    except ProofRefused:
        await events.record_failed_sign_in(server.database, user_id, origin)
        raise
    await server.throttle.undo(attempt)
    return session


def _parse_authentication(answer: str) -> AuthenticationCredential:
    if len(answer) > _MAX_ANSWER_CHARACTERS:
        raise ProofRefused(MALFORMED)
    try:
        return parse_authentication_credential_json(answer)
    except Exception as error:
        # Parsers of several libraries read this untrusted input and raise various exceptions.
        raise ProofRefused(MALFORMED) from error


def _client_challenge(client_data: bytes) -> bytes:
    """Return the challenge in the client data of a response. Raises ProofRefused."""
    try:
        collected = parse_client_data_json(client_data)
    except Exception as error:
        raise ProofRefused(MALFORMED) from error
    if collected.cross_origin:
        # No page of the service can be in a frame of another origin.
        raise ProofRefused(REFUSED)
    return collected.challenge


async def _stored_passkey(
    server: Server, person: Person | None, credential: AuthenticationCredential
) -> _StoredPasskey:
    """Return the stored passkey of a response; it must be ``person``'s if a person is signed in."""
    handle = credential.response.user_handle
    if handle is None and person is not None:
        # With a list of allowed passkeys in the options, authenticators may omit the user handle.
        handle = person.user_id.bytes
    if handle is None or len(handle) != 16:
        raise ProofRefused(REFUSED)
    user_id = UUID(bytes=handle)
    if person is not None and person.user_id != user_id:
        raise ProofRefused(REFUSED)
    parameters = {"user_id": user_id, "credential_id": credential.raw_id}
    known = await rows.one(server.database, _StoredPasskey, SQL["passkey"], parameters)
    if known is None:
        raise ProofRefused(REFUSED)
    return known


def _verified_count(
    signer: Signer,
    credential: AuthenticationCredential,
    expected: _Challenge,
    known: _StoredPasskey,
) -> int:
    """Verify a response and return its signature counter. Raises ProofRefused."""
    try:
        verified = webauthn.verify_authentication_response(
            credential=credential,
            expected_challenge=expected.text.encode(),
            expected_rp_id=_host(signer),
            expected_origin=signer.origin,
            credential_public_key=known.public_key,
            # The SQL statement compares the counter with the value stored at that moment, and only for
            # a response that is valid otherwise.
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except Exception as error:
        raise ProofRefused(REFUSED) from error
    return verified.new_sign_count


async def add(server: Server, visit: Visit, answer: str, name: str, request: Request) -> None:
    """Store a new passkey of the signed-in person. Raises ProofRefused."""
    if len(answer) > _MAX_ANSWER_CHARACTERS:
        raise ProofRefused(MALFORMED)
    try:
        credential = parse_registration_credential_json(answer)
    except Exception as error:
        raise ProofRefused(MALFORMED) from error
    challenge_text = _client_challenge(credential.response.client_data_json)
    expected = _parse_challenge(server.signer, visit.browser.form_hashes, "add", challenge_text)
    try:
        created = webauthn.verify_registration_response(
            credential=credential,
            expected_challenge=expected.text.encode(),
            expected_rp_id=_host(server.signer),
            expected_origin=server.signer.origin,
            require_user_verification=True,
        )
    except Exception as error:
        raise ProofRefused(MALFORMED) from error
    if (
        len(created.credential_id) > _MAX_CREDENTIAL_ID_BYTES
        or len(created.credential_public_key) > _MAX_PUBLIC_KEY_BYTES
    ):
        raise ProofRefused(MALFORMED)
    added = await changes.run(
        server.database,
        SQL["add_passkey"],
        {
            "user_id": visit.person.user_id,
            "session_hash": visit.browser.session.hash,
            "credential_id": created.credential_id,
            "public_key": created.credential_public_key,
            "sign_count": created.sign_count,
            "transports": _transports(credential.response.transports or ()),
            "name": name,
            "most": MAX_PASSKEYS,
            **expected.parameters,
        },
        events.request_origin(request),
        preceded_by=SQL["lock_user"],
    )
    if not added:
        raise ProofRefused(NOT_ADDED)


def _transports(given: Sequence[AuthenticatorTransport]) -> list[str]:
    return list(dict.fromkeys(each.value for each in given))


async def remove(server: Server, visit: Visit, passkey_id: UUID, request: Request) -> bool:
    """Remove a passkey. False: there is no such passkey, or it is the last sign-in method."""
    parameters = {
        "user_id": visit.person.user_id,
        "passkey_id": passkey_id,
        "issuer": server.provider_issuer,
    }
    removed = await changes.run(
        server.database,
        SQL["remove_passkey"],
        parameters,
        events.request_origin(request),
        preceded_by=SQL["lock_user"],
    )
    return bool(removed)
