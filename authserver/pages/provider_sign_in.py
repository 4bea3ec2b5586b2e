"""Sign-in through the OpenID Connect provider: the redirect to it, the callback, and the settings.

    POST /sign-in/provider ──► the provider ──► GET /sign-in/provider/callback ──► signed in
             │                                          │
             └ stores the sign-in, for this browser     └ takes it once, redeems the code and looks
               and for ten minutes                        the identity up

The same flow serves invitations (it creates an account), the settings (it adds a sign-in method) and
confirmation (the person authenticates again and returns to the page).
"""

import base64
import hashlib
import logging
import re
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import errors, events, forms
from authserver.errors import NotFound, TooManyRequests
from authserver.forms import Form
from authserver.pages import sign_in, sign_in_methods, welcome
from authserver.people import accounts, identities, sessions, zones
from authserver.people.accounts import AddressTaken, LinkUsed
from authserver.people.external_sign_ins import Attempt, Proof, ProviderDown, ProviderFailed
from authserver.people.identities import NoAddress, NotInvited, Owner, PendingSignIn, SignInPurpose
from authserver.people.sessions import Browser, StaleForm
from authserver.web.failures import LinkGone
from authserver.web.page import Page
from authserver.web.server import Server
from shared import tokens
from shared.tokens import Token

if TYPE_CHECKING:
    from authserver.people.provider import Provider

log = logging.getLogger("svc.provider")

_FAILED: Final = (
    "Signing in through {name} did not work. Please try again. If it keeps failing, sign in another way and "
    "tell the operator of this service."
)
_DOWN: Final = "{name} does not answer at the moment. Try again in a while, or sign in another way."
_DECLINED: Final = "You did not complete the sign-in at {name}, so nothing has changed here."
_GONE: Final = (
    "This sign-in through {name} is no longer open: it was completed already, took longer than 10 minutes, "
    "or began in another browser. Please start again."
)
_NOT_CONNECTED: Final = (
    "No account here is connected to that account at {name}. If you have an account here, sign in as before "
    "and connect {name} under Account in the settings. If you have none, ask the operator of this service "
    "for an invitation."
)
_ADDRESS_TAKEN: Final = (
    "There is an account here with your e-mail address, and it is not connected to {name} yet. Sign in as "
    "before, then connect {name} under Account in the settings."
)
_NO_ADDRESS: Final = (
    "{name} did not send your e-mail address, which an account here needs. Open your invitation "
    "again and choose a password instead."
)
_WRONG_IDENTITY: Final = (
    "That account at {name} is not the one that is connected here. Go back and choose the connected "
    "account."
)
_CANNOT_CONNECT: Final = (
    "That account at {name} cannot be connected: it is connected to another account here, or yours is "
    "connected to another one there."
)
_LAST_METHOD: Final = (
    "This is your only way to sign in, so {name} was not disconnected. Set a password or add a passkey "
    "first."
)
_TOO_MANY_ATTEMPTS: Final = (
    "There were too many attempts from where you are. Wait a little, then try again."
)


class _Declined(Exception):
    """The person declined the sign-in at the provider."""


async def depart(server: Server, request: Request) -> Response:
    """Redirect a browser to the provider, to sign in or to join."""
    provider = _configured(server)
    form = await forms.read(request)
    form.check()
    browser = await server.browser(request)
    link = tokens.parse(tokens.LINK, form.get("link") or "")
    going_to = form.get("next") or ""
    try:
        server.signer.check_form(request, form, browser, _subject(browser, going_to, link))
    except StaleForm:
        if link is not None:
            raise
        if browser.person is not None:
            return server.pages.redirect_browser(sign_in.next_path(going_to), browser)
        return sign_in.render(server, browser, going_to, problem=sign_in.OUT_OF_DATE, status=403)
    if link is None:
        person = browser.person
        purpose = SignInPurpose(
            sign_in.form_next(going_to), None if person is None else person.user_id
        )
    else:
        purpose = await _invited(server, link)
    purpose = replace(purpose, timezone=await _zone(server, form))
    return await _redirect_to_provider(server, request, provider, browser, purpose)


def _subject(browser: Browser, going_to: str, link: Token | None) -> str:
    """Return the subject of the form's CSRF token: of the page to join, to sign in or to confirm."""
    if link is not None:
        return link.text
    return going_to if browser.person is None else ""


async def _invited(server: Server, link: Token) -> SignInPurpose:
    try:
        await accounts.invitation(server.database, link)
    except LinkUsed:
        raise LinkGone from None
    return SignInPurpose(invitation_hash=link.hash)


async def _zone(server: Server, form: Form) -> str | None:
    """Return the zone that a new account would have: that of the browser, or the one that was typed."""
    return (await server.zones.known()).get(zones.folded(form.get("timezone") or ""))


async def connect(server: Server, request: Request) -> Response:
    """Redirect a signed-in person to the provider, to add it to their sign-in methods."""
    provider = _configured(server)
    visit = await server.visit(request, sign_in_methods.PATH, is_fresh=True)
    form = await forms.read(request)
    form.check()
    server.signer.check_form(request, form, visit.browser)
    purpose = SignInPurpose(sign_in_methods.PATH, visit.person.user_id, is_connecting=True)
    return await _redirect_to_provider(server, request, provider, visit.browser, purpose)


async def disconnect(server: Server, request: Request) -> Response:
    """Remove the provider from the sign-in methods."""
    provider = _configured(server)
    visit = await server.visit(request, sign_in_methods.PATH, is_fresh=True)
    form = await forms.read(request)
    form.check()
    server.signer.check_form(request, form, visit.browser)
    issuer, user_id = provider.chosen.issuer, visit.person.user_id
    is_gone = await identities.disconnect(
        server.database, user_id, issuer, events.request_origin(request)
    )
    if not is_gone and await identities.connection(server.database, user_id, issuer) is not None:
        return _problem(server, visit.browser, SignInPurpose(sign_in_methods.PATH), _LAST_METHOD)
    return server.pages.redirect_browser(f"{sign_in_methods.PATH}?done=disconnected", visit.browser)


async def arrive(server: Server, request: Request) -> Response:
    """Handle the callback from the provider."""
    provider = _configured(server)
    query = forms.decode(request.scope["query_string"])
    query.check()
    browser = await server.browser(request)
    state = tokens.parse(tokens.STATE, query.get("state") or "")
    pending = (
        None
        if state is None
        else await identities.take_sign_in(server.database, browser.session, state)
    )
    if pending is None:
        return _gone(server, browser)
    if browser.person is not None and pending.user_id is None and pending.invitation_hash is None:
        # Another tab has signed in meanwhile, perhaps as another person. The code is not redeemed: the
        # signed-in person must not change unexpectedly, and the next page shows who is signed in.
        return server.pages.redirect_browser(sign_in.next_path(pending.going_to), browser)
    try:
        proof = await _proof(provider, query, pending)
    except _Declined:
        return _problem(server, browser, pending, _DECLINED)
    except ProviderFailed as error:
        if _is_confirming(pending) and not isinstance(error, ProviderDown):
            origin = events.request_origin(request)
            await events.record_failed_sign_in(server.database, pending.user_id, origin)
        return _failed(server, request, browser, pending, error)
    if pending.is_connecting:
        return await _connect(server, request, browser, pending, proof)
    return await _sign_in(server, request, browser, pending, proof)


def _configured(server: Server) -> "Provider":
    if server.provider is None:
        raise NotFound
    return server.provider


def _is_confirming(purpose: SignInPurpose | PendingSignIn) -> bool:
    """Return whether the sign-in confirms that it is still the same person."""
    return purpose.user_id is not None and not purpose.is_connecting


async def _redirect_to_provider(
    server: Server, request: Request, provider: "Provider", browser: Browser, purpose: SignInPurpose
) -> Response:
    state = tokens.mint(tokens.STATE, tokens.NOBODY)
    nonce, code_verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    digest = hashlib.sha256(code_verifier.encode()).digest()
    attempt = Attempt(
        state=state.text,
        nonce=nonce,
        code_verifier=code_verifier,
        code_challenge=base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        must_reauthenticate=_is_confirming(purpose),
    )
    try:
        await server.throttle.count_provider_sign_in(events.request_origin(request).address)
        location = await provider.location(attempt)
    except TooManyRequests as error:
        return _too_many(server, browser, purpose, error)
    except ProviderFailed as error:
        # Only the provider's metadata was fetched: the failure concerns all people alike.
        return _failed(server, request, browser, purpose, ProviderDown(str(error)))
    await identities.store_sign_in(
        server.database, browser.session, state, purpose, (nonce, code_verifier)
    )
    return server.pages.redirect_browser(location, browser)


async def _proof(provider: "Provider", query: Form, pending: PendingSignIn) -> Proof:
    """Return the confirmed identity. Raises ProviderFailed, _Declined."""
    await provider.check_issuer(query.get("iss"))
    error = query.get("error")
    if error == "access_denied":
        raise _Declined
    if error is not None:
        known = error if re.fullmatch(r"[a-z_]{1,40}", error) else "an error"
        raise ProviderFailed(f"the authorization response has the error {known}")
    code = query.get("code")
    if code is None:
        raise ProviderFailed("the authorization response has no code")
    reauthenticated_after = pending.created_at if _is_confirming(pending) else None
    return await provider.redeem(code, pending.code_verifier, pending.nonce, reauthenticated_after)


async def _sign_in(
    server: Server, request: Request, browser: Browser, pending: PendingSignIn, proof: Proof
) -> Response:
    owner = await identities.use_identity(server.database, proof)
    if pending.user_id is not None and (owner is None or owner.user_id != pending.user_id):
        await events.record_failed_sign_in(
            server.database, pending.user_id, events.request_origin(request)
        )
        return _problem(server, browser, pending, _WRONG_IDENTITY)
    if owner is None:
        try:
            owner = await _join(server, request, pending, proof)
            pending = replace(pending, going_to=pending.going_to or welcome.PATH)
        except AddressTaken:
            return _problem(server, browser, pending, _ADDRESS_TAKEN, status=403)
        except NotInvited:
            return _problem(server, browser, pending, _NOT_CONNECTED, status=403)
        except NoAddress:
            return _problem(server, browser, pending, _NO_ADDRESS)
        except LinkUsed:
            raise LinkGone from None
    return await _open_session(server, request, browser, pending, proof, owner)


async def _open_session(  # noqa: PLR0917 -- the last two are what was proved, and whose it is
    server: Server,
    request: Request,
    browser: Browser,
    pending: PendingSignIn,
    proof: Proof,
    owner: Owner,
) -> Response:
    try:
        await server.throttle.count_sign_in(owner.user_id)
    except TooManyRequests as error:
        return _too_many(server, browser, pending, error)
    session = await sessions.sign_in(
        server.database,
        browser,
        owner.user_id,
        request,
        signed_out_at=owner.signed_out_at,
        # The provider may have used an old sign-in of its own. Then the session is not fresh, and sensitive
        # actions require a confirmation.
        authenticated_at=proof.authenticated_at or sessions.LONG_AGO,
        provider_session_hash=proof.session_hash,
    )
    if session is None:
        return _problem(server, browser, pending, _FAILED)
    return server.pages.redirect(sign_in.next_path(pending.going_to), session)


async def _join(server: Server, request: Request, pending: PendingSignIn, proof: Proof) -> Owner:
    domains = _configured(server).chosen.domains
    origin = events.request_origin(request)
    try:
        return await identities.join(
            server.database,
            proof,
            domains,
            origin,
            invitation_hash=pending.invitation_hash,
            timezone=pending.timezone or zones.DEFAULT,
        )
    except AddressTaken:
        # Perhaps the same person has just joined in another tab.
        owner = await identities.use_identity(server.database, proof)
        if owner is None:
            raise
        return owner


async def _connect(
    server: Server, request: Request, browser: Browser, pending: PendingSignIn, proof: Proof
) -> Response:
    if not await identities.connect(
        server.database, proof, browser, events.request_origin(request)
    ):
        return _problem(server, browser, pending, _CANNOT_CONNECT)
    return server.pages.redirect_browser(f"{sign_in_methods.PATH}?done=connected", browser)


def _failed(
    server: Server,
    request: Request,
    browser: Browser,
    purpose: SignInPurpose | PendingSignIn,
    error: ProviderFailed,
) -> Response:
    log.warning("request_id=%s signing in failed: %s", request.scope["svc.request_id"], error)
    if isinstance(error, ProviderDown):
        return _problem(server, browser, purpose, _DOWN, status=503)
    return _problem(server, browser, purpose, _FAILED)


def _too_many(
    server: Server,
    browser: Browser,
    purpose: SignInPurpose | PendingSignIn,
    error: TooManyRequests,
) -> Response:
    refused = _problem(server, browser, purpose, _TOO_MANY_ATTEMPTS, status=error.status)
    refused.headers.update(errors.retry_after(error))
    return refused


def _gone(server: Server, browser: Browser) -> Response:
    if browser.person is not None:
        # The person is signed in and used the back button: nothing is left to do.
        return server.pages.redirect_browser("/", browser)
    text = _GONE.format(name=_configured(server).name)
    return sign_in.render(server, browser, "", problem=text, status=400)


def _problem(
    server: Server,
    browser: Browser,
    purpose: SignInPurpose | PendingSignIn,
    text: str,
    status: int = 400,
) -> Response:
    """Return the page with the problem, and with the sign-in form or a link back."""
    message = text.format(name=_configured(server).name)
    if browser.person is None:
        return sign_in.render(server, browser, purpose.going_to, problem=message, status=status)
    way_back = sign_in.next_path(purpose.going_to)
    page = Page("provider_problem.html", {"text": message, "way_back": way_back}, status)
    return server.pages.render(page, browser)
