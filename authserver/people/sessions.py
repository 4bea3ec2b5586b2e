"""Browsers: the cookie by which one is known, who is signed in there, and whether a form is its own.

Every browser that sees a form has a cookie. It holds a token, signed, whose hash is what the database
knows of it. Before sign-in that token belongs to nobody and has no row; signing in and signing out each
give the browser a new one, so an id that somebody planted is worth nothing (OWASP: session fixation),
and hand what waits under the old one over.

A form is taken only with the token that its page was given: a signature over the browser's session and
the pending request that the form is about. The session before it counts as well, where it was the same
person's; never one that was nobody's, since somebody else may have planted it. Beside that, the browser's
own word about where the form was sent from must not contradict it.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import itsdangerous
from starlette.requests import Request
from starlette.responses import Response

from authserver import events, rows
from authserver.events import RequestOrigin
from authserver.forms import Form
from authserver.rows import Database, Parameters
from shared import settings, tokens
from shared.settings import Settings
from shared.tokens import Token

SQL: Final = rows.load("people/sessions.sql", "events.sql")

IDLE_LIFETIME: Final = timedelta(days=30)
FRESH_FOR: Final = timedelta(minutes=15)
"""How long after a sign-in what could harm the account is done without asking again."""
JUST_NOW: Final = datetime.max.replace(tzinfo=UTC)
"""For a proof that was given to us; no session counts as proved later than it is opened."""
LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
"""For a proof that was given elsewhere, nobody says when."""

_MAX_COOKIE_CHARACTERS: Final = 16 * 1024

CSRF_FIELD: Final = "csrf"


@dataclass(frozen=True)
class Person:
    """Somebody who is signed in."""

    user_id: UUID
    email: str
    display_name: str | None
    timezone: str
    is_admin: bool
    is_fresh: bool
    """Whether they proved who they are so lately that nobody else is likely to sit there by now."""
    was_refreshed: bool
    previous_hash: bytes | None = None
    """Of the session that theirs took the place of, where that was theirs as well."""


@dataclass(frozen=True)
class Browser:
    """Who asks for a page: the browser's session, and who is signed in with it."""

    session: Token
    person: Person | None
    is_cookie_due: bool
    """Whether the answer has to set the cookie: it is new, or its time starts again."""

    @property
    def form_hashes(self) -> tuple[bytes, ...]:
        """The sessions whose forms it may send, by their hashes.

        Whoever confirms in one tab who they are has another session afterwards, and goes on with what is
        open in the others.
        """
        previous_hash = None if self.person is None else self.person.previous_hash
        return (self.session.hash,) if previous_hash is None else (self.session.hash, previous_hash)


@dataclass(frozen=True)
class Visit:
    """A page is asked for by somebody who is signed in."""

    browser: Browser
    person: Person


@dataclass(frozen=True)
class SignIn:
    """A browser in which somebody is signed in; what it calls itself is its own claim."""

    session_hash: bytes
    created_at: datetime
    seen_at: datetime
    address: str | None
    user_agent: str | None


class SignInNeeded(Exception):
    """A page that is for people who are signed in; ``path`` is where to come back to."""

    def __init__(self, browser: Browser, path: str) -> None:
        """Keep who asked, and where to come back to."""
        super().__init__(path)
        self.browser = browser
        self.path = path


class ConfirmationNeeded(SignInNeeded):
    """Something that asks for proof of who sits there, which was given too long ago."""


class ForgedForm(Exception):
    """A form that was sent from another site's page."""


class StaleForm(Exception):
    """A form that this browser, or the session it has by now, was not given."""


class OldSignIn(StaleForm):
    """A form that is taken from somebody who proved who they are a moment ago, and they did so long ago."""


@dataclass(frozen=True, repr=False)
class Signer:
    """Signs cookies, forms and challenges with the deployment's key."""

    cookies: itsdangerous.Signer
    forms: itsdangerous.Signer
    challenges: itsdangerous.Signer
    origin: str
    is_https: bool

    @property
    def cookie_name(self) -> str:
        """The prefix makes browsers insist on Secure and on this very host (RFC 6265bis, 4.1.3.2)."""
        return "__Host-svc_session" if self.is_https else "svc_session"

    def session_in(self, request: Request) -> Token | None:
        """Return the session in the cookie of ``request``, or None where it has none of ours."""
        signed = cookie(request, self.cookie_name)
        # A signature that is not ASCII makes the comparison raise instead of fail.
        if signed is None or not signed.isascii() or len(signed) > 300:
            return None
        text, _, signature = signed.rpartition(".")
        if not self.cookies.verify_signature(text, signature):
            return None
        return tokens.parse(tokens.SESSION, text)

    def set_cookie(self, response: Response, session: Token) -> None:
        """Give the browser its session; only one that somebody signed in with outlives the browser."""
        is_anonymous = session.user_id == tokens.NOBODY
        response.set_cookie(
            self.cookie_name,
            self.cookies.sign(session.text).decode(),
            max_age=None if is_anonymous else int(IDLE_LIFETIME.total_seconds()),
            path="/",
            secure=self.is_https,
            httponly=True,
            samesite="lax",
        )

    def form_token(self, session: Token, subject: str = "") -> str:
        """Return what a form of this browser carries; ``subject`` is what it is about, if anything."""
        return self.forms.get_signature(_form_subject(session.hash, subject)).decode()

    def check_form(self, request: Request, form: Form, browser: Browser, subject: str = "") -> None:
        """Return where ``form`` is from a page that this browser was given. Raises ForgedForm, StaleForm."""
        site = request.headers.get("sec-fetch-site")
        if site is not None and site != "same-origin":
            raise ForgedForm
        # Our pages send no referrer, and browsers then call the origin of their forms null.
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
    """Return the last cookie of that name as it stands, or None where there is none.

    Ours are never quoted. The standard library would undo quotes in everybody's cookies, in a time that
    grows with the square of their length.
    """
    pairs = "; ".join(request.headers.getlist("cookie"))
    if len(pairs) > _MAX_COOKIE_CHARACTERS:
        return None
    found = None
    for pair in pairs.split(";"):
        key, separator, value = pair.strip(" \t").partition("=")
        if separator and key == name:
            found = value
    return found


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
        origin=chosen.auth_url,
        is_https=chosen.is_https,
    )


def _form_subject(session_hash: bytes, subject: str) -> str:
    return f"{session_hash.hex()} {subject}"


async def browser(signer: Signer, database: Database, request: Request) -> Browser:
    """Return who asks; a browser without a live session gets a new one that is nobody's."""
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
    return Browser(session, person, is_cookie_due=person.was_refreshed)


async def sign_in(
    database: Database,
    browser: Browser,
    user_id: UUID,
    request: Request,
    *,
    signed_out_at: datetime | None = None,
    authenticated_at: datetime = JUST_NOW,
) -> Token | None:
    """Open a session of ``user_id`` in place of the browser's present one, and return it.

    ``signed_out_at`` is when all their sign-ins had been ended last, as it was when they were asked who
    they are; ``authenticated_at``, when they proved it. None: they have been ended since.
    """
    session, session_parameters = new_session(browser, user_id, request, authenticated_at)
    parameters = {"user_id": user_id, "signed_out_at": signed_out_at, **session_parameters}
    opened = await events.execute(
        database, SQL["sign_in"], parameters, events.request_origin(request)
    )
    return session if opened else None


def new_session(
    browser: Browser, user_id: UUID, request: Request, authenticated_at: datetime = JUST_NOW
) -> tuple[Token, Parameters]:
    """Return a session of ``user_id`` that may come after the browser's present one.

    The parameters are those by which a statement opens it (``opened`` in ``sessions.sql``).
    """
    session = tokens.mint(tokens.SESSION, user_id)
    # Postgres stores no NUL, which no browser sends.
    user_agent = request.headers.get("user-agent", "").replace("\0", "")[:300] or None
    session_parameters = {"user_agent": user_agent, "authenticated_at": authenticated_at}
    return session, {**session_parameters, **_replacement(browser.session, session)}


async def sign_out(database: Database, browser: Browser, request: Request) -> Token:
    """End the browser's session and return its new one, which is nobody's."""
    session = tokens.mint(tokens.SESSION, tokens.NOBODY)
    replacement = _replacement(browser.session, session)
    await events.execute(database, SQL["sign_out"], replacement, events.request_origin(request))
    return session


async def is_live(database: Database, session: Token) -> bool:
    """Tell whether somebody is still signed in with ``session``."""
    parameters = {
        "user_id": session.user_id,
        "session_hash": session.hash,
        "idle_lifetime": IDLE_LIFETIME,
        "fresh_for": FRESH_FOR,
    }
    return await rows.one(database, Person, SQL["session"], parameters) is not None


async def of_user(database: Database, user_id: UUID) -> list[SignIn]:
    """Return where somebody is signed in, oldest first."""
    return await rows.every(database, SignIn, SQL["sign_ins"], _idle_parameters(user_id))


async def end(
    database: Database, user_id: UUID, session_hash: bytes, origin: RequestOrigin
) -> bool:
    """Sign somebody out in one of their browsers; False where it is not theirs, or has ended."""
    parameters = {**_idle_parameters(user_id), "session_hash": session_hash}
    return bool(await events.execute(database, SQL["end_sign_in"], parameters, origin))


async def sign_out_everywhere(
    database: Database, user_id: UUID, origin: RequestOrigin, *, except_for: Token | None = None
) -> int:
    """End everything that somebody is signed in with, but for ``except_for``; return how many that were."""
    kept = None if except_for is None else except_for.hash
    parameters = {**_idle_parameters(user_id), "kept_hash": kept}
    ended = await events.execute(
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
