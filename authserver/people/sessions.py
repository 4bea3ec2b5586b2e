"""Sign-in sessions: the session cookie, the signed-in person, and protection against forged forms (CSRF).

Every browser that is shown a form has a cookie. It holds a signed session token, of which the database
stores only the hash. Before sign-in the session is anonymous and has no row. Signing in and signing out
each give the browser a new session, so that a session id planted by an attacker is useless (OWASP: session
fixation). Pending authorization requests move to the new session.

A form is accepted only with its CSRF token: a signature over the browser's session and the subject of the
form, such as a pending request. The previous session is accepted too if it belonged to the same person; an
anonymous one is not, because an attacker may have planted it. The Sec-Fetch-Site and Origin headers, where
the browser sends them, must not contradict this.
"""

import hashlib
import hmac
import math
import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import itsdangerous
from starlette.requests import Request
from starlette.responses import Response

from authserver import changes, events, rows
from authserver.events import RequestOrigin
from authserver.forms import Form
from authserver.rows import Database, Parameters
from shared import settings, tokens
from shared.settings import Settings
from shared.tokens import Token

SQL: Final = rows.load("people/sessions.sql", "events.sql")

IDLE_LIFETIME: Final = timedelta(days=30)
MAX_SESSIONS: Final = 100
"""The most sign-in sessions of a person."""
FRESH_FOR: Final = timedelta(minutes=15)
"""How long after a sign-in sensitive actions need no further confirmation."""
JUST_NOW: Final = datetime.max.replace(tzinfo=UTC)
"""For a person who authenticated here. The statement limits it to the time at which the session opens."""
LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
"""For a person whom the provider authenticated at an unknown time."""

_KNOWN_FOR: Final = timedelta(days=90)
"""How long after its last sign-in a browser counts as known to the account."""

_MAX_COOKIE_CHARACTERS: Final = 16 * 1024

_KNOWN_COOKIE: Final = re.compile(
    r"(?P<subject>(?P<id>[0-9a-f]{32})-(?P<issued_at_ms>[0-9]{1,15}))\.[A-Za-z0-9_-]{43}"
)

CSRF_FIELD: Final = "csrf"


@dataclass(frozen=True)
class Person:
    """The person who is signed in."""

    user_id: UUID
    email: str
    display_name: str | None
    timezone: str
    is_admin: bool
    is_fresh: bool
    """Whether they authenticated within FRESH_FOR, so that it is most likely still them."""
    was_refreshed: bool
    previous_hash: bytes | None = None
    """The hash of the session that this one replaced, if that was the same person's."""


@dataclass(frozen=True)
class Browser:
    """The sender of a request: the browser's session, and the person who is signed in with it."""

    session: Token
    person: Person | None
    is_cookie_due: bool
    """Whether the response has to set the cookie: it is new, or its lifetime starts again."""
    known_id: str | None = None
    """The id by which the browser is already known to the person's account."""

    @property
    def session_parameters(self) -> Parameters:
        """Return what functions of the database need to look up the session of a signed-in person."""
        return {"user_id": self.session.user_id, "session_hash": self.session.hash}

    @property
    def form_hashes(self) -> tuple[bytes, ...]:
        """The hashes of the sessions whose forms this browser may send.

        Confirming the sign-in in one tab replaces the session; forms that are open in other tabs must
        remain valid.
        """
        previous_hash = None if self.person is None else self.person.previous_hash
        return (self.session.hash,) if previous_hash is None else (self.session.hash, previous_hash)


@dataclass(frozen=True)
class Visit:
    """A request from a browser in which a person is signed in."""

    browser: Browser
    person: Person
    back: str = ""
    """The path of the view of the dashboard that linked here, if one did."""


@dataclass(frozen=True)
class SignIn:
    """A sign-in session as its owner sees it. The user agent is the browser's own claim."""

    session_hash: bytes
    created_at: datetime
    seen_at: datetime
    address: str | None
    user_agent: str | None


class SignInNeeded(Exception):
    """The page requires sign-in. ``path`` is the page to return to afterwards."""

    def __init__(self, browser: Browser, path: str) -> None:
        """Store the browser and the path to return to."""
        super().__init__(path)
        self.browser = browser
        self.path = path


class ConfirmationNeeded(SignInNeeded):
    """The page requires a recent authentication, and the last one is too old."""


class ForgedForm(Exception):
    """A form was submitted from a page of another site."""


class StaleForm(Exception):
    """The CSRF token of a form does not belong to this browser's session."""


class OldSignIn(StaleForm):
    """The form requires a recent authentication, and the last one is too old."""


@dataclass(frozen=True, repr=False)
class Signer:
    """Signs cookies, form tokens and passkey challenges with the key of the deployment.

    A second cookie remains after sign-out. It makes the browser known to the account, so that strangers who
    guess its password neither delay this browser nor lock it out; it opens nothing (OWASP: device cookies).
    Signing out everywhere and a new password end it.
    """

    cookies: itsdangerous.Signer
    forms: itsdangerous.Signer
    challenges: itsdangerous.Signer
    known_browsers: itsdangerous.Signer
    origin: str
    is_https: bool

    @property
    def cookie_name(self) -> str:
        """The prefix makes browsers require Secure and this exact host (RFC 6265bis, section 4.1.3.2)."""
        return "__Host-svc_session" if self.is_https else "svc_session"

    @property
    def known_cookie_name(self) -> str:
        """The name of the cookie that remains after sign-out, and opens nothing."""
        return "__Host-svc_known" if self.is_https else "svc_known"

    def session_in(self, request: Request) -> Token | None:
        """Return the session in the cookie of ``request``, or None without a valid cookie."""
        signed = cookie(request, self.cookie_name)
        # For a signature that is not ASCII the comparison raises instead of returning False.
        if signed is None or not signed.isascii() or len(signed) > 300:
            return None
        text, _, signature = signed.rpartition(".")
        if not self.cookies.verify_signature(text, signature):
            return None
        return tokens.parse(tokens.SESSION, text)

    def set_cookie(self, response: Response, session: Token, known_id: str | None = None) -> None:
        """Set the session cookie. An anonymous session ends when the browser is closed.

        A person's session also makes the browser known to their account, by its present ``known_id`` if it
        has one: each id has free guesses of its own.
        """
        is_anonymous = session.user_id == tokens.NOBODY
        text = self.cookies.sign(session.text).decode()
        self._set(response, self.cookie_name, text, None if is_anonymous else IDLE_LIFETIME)
        if not is_anonymous:
            # Rounded up: the cookie that follows a sign-out everywhere is not older than that.
            issued_at_ms = math.ceil(time.time() * 1000)
            subject = f"{known_id or secrets.token_hex(16)}-{issued_at_ms}"
            known = self._known_text(session.user_id, subject)
            self._set(response, self.known_cookie_name, known, _KNOWN_FOR)

    def _set(self, response: Response, name: str, text: str, lifetime: timedelta | None) -> None:
        response.set_cookie(
            name,
            text,
            max_age=None if lifetime is None else int(lifetime.total_seconds()),
            path="/",
            secure=self.is_https,
            httponly=True,
            samesite="lax",
        )

    def known_browser(
        self, known_cookie: str | None, user_id: UUID | None, signed_out_at: datetime | None
    ) -> str | None:
        """Return the id of a browser that signed in to this account within 90 days, otherwise None.

        A browser that last signed in before ``signed_out_at`` is not known: all sessions of the account were
        ended then, or its password was changed. The cookie does not contain the account, so that it tells
        nothing to the next user of the browser.
        """
        found = self._known(known_cookie, user_id)
        if found is None:
            return None
        issued_at = int(found["issued_at_ms"]) / 1000
        if issued_at <= time.time() - _KNOWN_FOR.total_seconds():
            return None
        if signed_out_at is not None and issued_at < signed_out_at.timestamp():
            return None
        return found["id"]

    def known_id(self, known_cookie: str | None, user_id: UUID) -> str | None:
        """Return the id of a browser that has ever signed in to this account, otherwise None."""
        found = self._known(known_cookie, user_id)
        return None if found is None else found["id"]

    def _known(self, known_cookie: str | None, user_id: UUID | None) -> re.Match[str] | None:
        """Return the parts of a cookie that was signed for this account, otherwise None."""
        found = _KNOWN_COOKIE.fullmatch(known_cookie or "")
        if found is None or user_id is None or known_cookie is None:
            return None
        is_signed = hmac.compare_digest(self._known_text(user_id, found["subject"]), known_cookie)
        return found if is_signed else None

    def _known_text(self, user_id: UUID, subject: str) -> str:
        signature = self.known_browsers.get_signature(f"{user_id} {subject}").decode()
        return f"{subject}.{signature}"

    def form_token(self, session: Token, subject: str = "") -> str:
        """Return the CSRF token for a form of this browser about ``subject``."""
        return self.forms.get_signature(_form_subject(session.hash, subject)).decode()

    def check_form(self, request: Request, form: Form, browser: Browser, subject: str = "") -> None:
        """Check that ``form`` is from a page of this browser's session. Raises ForgedForm, StaleForm."""
        site = request.headers.get("sec-fetch-site")
        if site is not None and site != "same-origin":
            raise ForgedForm
        # The service's pages send no referrer, so browsers send "Origin: null" with their forms.
        if request.headers.get("origin", "null") not in ("null", self.origin):
            raise ForgedForm
        token = form.get(CSRF_FIELD)
        if token is None or not token.isascii():
            raise StaleForm
        if not any(
            self.forms.verify_signature(_form_subject(session_hash, subject), token)
            for session_hash in browser.form_hashes
        ):
            raise StaleForm


def cookie(request: Request, name: str) -> str | None:
    """Return the raw value of the last cookie with this name, or None.

    Our cookies are never quoted. The standard library would unquote all cookies, in time quadratic in
    their length.
    """
    pairs = "; ".join(request.headers.getlist("cookie"))
    if len(pairs) > _MAX_COOKIE_CHARACTERS:
        return None
    last_value = None
    for pair in pairs.split(";"):
        key, separator, value = pair.strip(" \t").partition("=")
        if separator and key == name:
            last_value = value
    return last_value


def signer(chosen: Settings) -> Signer:
    """Return the signer of a deployment. Raises SettingsError if it has no signing key."""
    key = settings.signing_key(chosen)

    def keyed(purpose: str) -> itsdangerous.Signer:
        return itsdangerous.Signer(
            key, salt=f"svc {purpose}", key_derivation="hmac", digest_method=hashlib.sha256
        )

    return Signer(
        cookies=keyed("cookie"),
        forms=keyed("form"),
        challenges=keyed("challenge"),
        known_browsers=keyed("known browser"),
        origin=chosen.auth_url,
        is_https=chosen.is_https,
    )


def _form_subject(session_hash: bytes, subject: str) -> str:
    return f"{session_hash.hex()} {subject}"


async def browser(signer: Signer, database: Database, request: Request) -> Browser:
    """Return the sender of a request. A browser without a live session gets a new anonymous one."""
    session = signer.session_in(request)
    if session is None:
        return Browser(tokens.mint(tokens.SESSION, tokens.NOBODY), None, is_cookie_due=True)
    if session.user_id == tokens.NOBODY:
        return Browser(session, None, is_cookie_due=False)
    person = await rows.one(
        database,
        Person,
        SQL["session"],
        {
            "user_id": session.user_id,
            "session_hash": session.hash,
            "idle_lifetime": IDLE_LIFETIME,
            "fresh_for": FRESH_FOR,
        },
    )
    if person is None:
        return Browser(tokens.mint(tokens.SESSION, tokens.NOBODY), None, is_cookie_due=True)
    known_id = signer.known_id(cookie(request, signer.known_cookie_name), person.user_id)
    return Browser(session, person, is_cookie_due=person.was_refreshed, known_id=known_id)


async def sign_in(
    database: Database,
    browser: Browser,
    user_id: UUID,
    request: Request,
    *,
    signed_out_at: datetime | None = None,
    authenticated_at: datetime = JUST_NOW,
    provider_session_hash: bytes | None = None,
) -> Token | None:
    """Open a session of ``user_id`` in place of the browser's present one, and return it.

    ``signed_out_at`` is the value read when the person authenticated: if all their sessions were ended
    since, this one must not open, and the result is None; likewise if ``provider_session_hash`` names a
    session that has ended at the provider. ``authenticated_at`` is when they authenticated.
    """
    session, session_parameters = new_session(
        browser, user_id, request, authenticated_at, provider_session_hash
    )
    opened = await changes.run(
        database,
        SQL["sign_in"],
        {"user_id": user_id, "signed_out_at": signed_out_at, **session_parameters},
        events.request_origin(request),
        preceded_by=None if provider_session_hash is None else SQL["lock_provider_session"],
    )
    return session if opened else None


def new_session(
    browser: Browser,
    user_id: UUID,
    request: Request,
    authenticated_at: datetime = JUST_NOW,
    provider_session_hash: bytes | None = None,
) -> tuple[Token, Parameters]:
    """Return a new session of ``user_id`` that replaces the browser's present one.

    The parameters are those of the SQL fragment ``opened_session``, which opens it.
    """
    session = tokens.mint(tokens.SESSION, user_id)
    # Postgres cannot store NUL. No real browser sends it.
    user_agent = request.headers.get("user-agent", "").replace("\0", "")[:300] or None
    session_parameters = {
        "user_agent": user_agent,
        "authenticated_at": authenticated_at,
        "provider_session_hash": provider_session_hash,
        "most_sessions": MAX_SESSIONS,
        "idle_lifetime": IDLE_LIFETIME,
    }
    return session, {**session_parameters, **_replacement(browser.session, session)}


async def sign_out(database: Database, browser: Browser, request: Request) -> Token:
    """End the browser's session and return its new, anonymous one."""
    session = tokens.mint(tokens.SESSION, tokens.NOBODY)
    replacement = _replacement(browser.session, session)
    await changes.run(database, SQL["sign_out"], replacement, events.request_origin(request))
    return session


async def is_live(database: Database, session: Token) -> bool:
    """Return whether a person is still signed in with ``session``."""
    parameters = {
        "user_id": session.user_id,
        "session_hash": session.hash,
        "idle_lifetime": IDLE_LIFETIME,
        "fresh_for": FRESH_FOR,
    }
    return await rows.one(database, Person, SQL["session"], parameters) is not None


async def of_user(database: Database, user_id: UUID) -> list[SignIn]:
    """Return the sign-in sessions of a person, oldest first."""
    return await rows.every(database, SignIn, SQL["sign_ins"], _idle_parameters(user_id))


async def end(
    database: Database, user_id: UUID, session_hash: bytes, origin: RequestOrigin
) -> bool:
    """End one session of a person. False: the session is not theirs or has ended."""
    parameters = {**_idle_parameters(user_id), "session_hash": session_hash}
    return bool(await changes.run(database, SQL["end_sign_in"], parameters, origin))


async def sign_out_everywhere(
    database: Database, user_id: UUID, origin: RequestOrigin, *, except_for: Token | None = None
) -> int:
    """End all sessions of a person except ``except_for``, and return how many were ended."""
    kept = None if except_for is None else except_for.hash
    parameters = {**_idle_parameters(user_id), "kept_hash": kept}
    ended = await changes.run(
        database, SQL["sign_out_everywhere"], parameters, origin, preceded_by=SQL["lock_user"]
    )
    return len(ended)


def _idle_parameters(user_id: UUID) -> Parameters:
    return {"user_id": user_id, "idle_lifetime": IDLE_LIFETIME}


def _replacement(old: Token, new: Token) -> Parameters:
    return {
        "session_hash": new.hash,
        "old_user_id": old.user_id,
        "old_session_hash": old.hash,
    }
