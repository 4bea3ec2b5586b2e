"""Signing in and out."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import errors, events, forms
from authserver.errors import TooManyRequests
from authserver.forms import Form
from authserver.people import accounts, passkeys, sessions
from authserver.people.passkeys import ProofRefused
from authserver.people.sessions import Browser, StaleForm
from authserver.web import page as pages
from authserver.web.page import Page
from authserver.web.server import Server
from shared import tokens
from shared.tokens import Token

PATHS: Final = (
    "/",
    *(section.path for section in pages.SECTIONS),
    "/settings/account/sign-in",
    "/settings/account/sessions",
    "/settings/account/events",
    "/settings/account/download",
    "/settings/account/delete",
    "/confirmed",
)
"""Where sign-in may lead beside pending requests."""

_FAILED: Final = (
    "That did not work. Check the e-mail address and the password. After several attempts it also helps "
    "to wait before the next one, at most 15 minutes."
)
"""What an unknown address, a wrong password and an attempt too early are all told, and is true of each."""
OUT_OF_DATE: Final = "This page was out of date. Please try again."


def next_path(text: str) -> str:
    """Return the path to go on to after sign-in: a pending request, a path of our list, else home.

    No part of ``text`` becomes part of an address but an id, which has letters and digits alone.
    """
    request_id = tokens.parse(tokens.REQUEST, text)
    if request_id is not None:
        return f"/oauth/consent?request={request_id.text}"
    return text if text in PATHS else "/"


def form_next(text: str) -> str:
    """Return what of ``text`` a form carries along: a pending request or a path of our list, else nothing."""
    is_request = tokens.parse(tokens.REQUEST, text) is not None
    return text if is_request or text in PATHS else ""


async def show(server: Server, request: Request) -> Response:
    """Show the form, or go on where somebody is signed in already."""
    going_to = forms.decode(request.scope["query_string"]).get("next") or ""
    browser = await server.browser(request)
    if browser.person is not None:
        return server.pages.redirect_browser(next_path(going_to), browser)
    return render(server, browser, going_to)


async def submit(server: Server, request: Request) -> Response:
    """Sign somebody in and go on, or show the form again."""
    form = await forms.read(request)
    form.check()
    going_to = form.get("next") or ""
    browser = await server.browser(request)
    email = form.get("email") or ""
    try:
        server.signer.check_form(request, form, browser, going_to)
    except StaleForm:
        if browser.person is not None:
            # Another tab was faster. The form has no say here, and there is nothing left to do.
            return server.pages.redirect_browser(next_path(going_to), browser)
        return render(server, browser, going_to, email, problem=OUT_OF_DATE, status=403)
    try:
        session = await _authenticate(server, browser, form, request)
    except ProofRefused as error:
        return render(server, browser, going_to, email, problem=str(error), status=400)
    except TooManyRequests as error:
        problem = _FAILED if form.get("credential") is None else passkeys.TOO_MANY_ATTEMPTS
        refused = render(server, browser, going_to, email, problem=problem, status=error.status)
        refused.headers.update(errors.retry_after(error))
        return refused
    return server.pages.redirect(next_path(going_to), session)


async def _authenticate(server: Server, browser: Browser, form: Form, request: Request) -> Token:
    """Return the session of whoever gave their password or passkey. Raises ProofRefused, TooManyRequests."""
    answer = form.get("credential")
    if answer is not None:
        return await passkeys.sign_in(server, browser, answer, request)
    account = await accounts.authenticate(
        server, form.get("email") or "", form.get("password") or "", events.request_origin(request)
    )
    if account is None:
        raise ProofRefused(_FAILED)
    session = await sessions.sign_in(
        server.database,
        browser,
        account.user_id,
        request,
        signed_out_at=account.signed_out_at,
    )
    if session is None:
        raise ProofRefused(_FAILED)
    return session


async def sign_out(server: Server, request: Request) -> Response:
    """Sign out in this browser; a pending request waits for whoever signs in next."""
    form = await forms.read(request)
    form.check()
    going_to = form.get("next") or ""
    browser = await server.browser(request)
    server.signer.check_form(request, form, browser, going_to)
    session = await sessions.sign_out(server.database, browser, request)
    request_id = tokens.parse(tokens.REQUEST, going_to)
    suffix = "" if request_id is None else f"?next={request_id.text}"
    return server.pages.redirect(f"/sign-in{suffix}", session)


def render(
    server: Server,
    browser: Browser,
    going_to: str,
    email: str = "",
    *,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    """Return the page with the forms to sign in, and with what went wrong, if anything."""
    next_value = form_next(going_to)
    content = {
        "next": next_value,
        "is_for_client": next_value not in ("", *PATHS),
        "email": email,
        "passkey_options": passkeys.sign_in_options(server.signer, browser),
        "problem": problem,
    }
    page = Page("sign_in.html", content, status, subject=next_value, may_end_at_client=True)
    return server.pages.render(page, browser)
