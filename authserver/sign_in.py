"""Signing in and out."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import accounts, errors, events, forms, sessions
from authserver.errors import TooManyRequests
from authserver.pages import Page
from authserver.server import Server
from authserver.sessions import StaleForm
from shared import tokens

PATHS: Final = ("/",)
"""Where sign-in may lead beside pending requests."""

_FAILED: Final = (
    "That did not work. Check the e-mail address and the password. After several attempts it also helps "
    "to wait before the next one, at most 15 minutes."
)
"""What an unknown address, a wrong password and an attempt too early are all told, and is true of each."""
_OUT_OF_DATE: Final = "This page was out of date. Please try again."


def way_on(text: str) -> str:
    """Return the path to go on to after sign-in: a pending request, a path of our list, else home.

    No part of ``text`` becomes part of an address but an id, which has letters and digits alone.
    """
    request_id = tokens.parse(tokens.REQUEST, text)
    if request_id is not None:
        return f"/oauth/consent?request={request_id.text}"
    return text if text in PATHS else "/"


async def show(server: Server, request: Request) -> Response:
    """Show the form, or go on where somebody is signed in already."""
    going_to = forms.decode(request.scope["query_string"]).get("next") or ""
    browser = await server.browser(request)
    if browser.person is not None:
        return server.pages.redirect_browser(way_on(going_to), browser)
    return server.pages.render(_page(going_to), browser)


async def submit(server: Server, request: Request) -> Response:
    """Sign somebody in and go on, or show the form again."""
    form = await forms.read(request)
    form.check()
    going_to = form.get("next") or ""
    browser = await server.browser(request)
    email = form.get("email") or ""
    try:
        server.seal.check_form(request, form, browser, going_to)
    except StaleForm:
        if browser.person is not None:
            # Another tab was faster. The form has no say here, and there is nothing left to do.
            return server.pages.redirect_browser(way_on(going_to), browser)
        return server.pages.render(_page(going_to, email, _OUT_OF_DATE, status=403), browser)
    try:
        account = await accounts.authenticate(
            server,
            email,
            form.get("password") or "",
            events.occasion(request),
        )
    except TooManyRequests as error:
        refused = server.pages.render(_page(going_to, email, _FAILED, status=error.status), browser)
        refused.headers.update(errors.retry_after(error))
        return refused
    if account is None:
        return server.pages.render(_page(going_to, email, _FAILED, status=400), browser)
    session = await sessions.sign_in(
        server.database,
        browser,
        account.user_id,
        request,
        signed_out_at=account.signed_out_at,
    )
    if session is None:
        return server.pages.render(_page(going_to, email, _FAILED, status=400), browser)
    return server.pages.redirect(way_on(going_to), session)


async def leave(server: Server, request: Request) -> Response:
    """Sign out in this browser; a pending request waits for whoever signs in next."""
    form = await forms.read(request)
    form.check()
    going_to = form.get("next") or ""
    browser = await server.browser(request)
    server.seal.check_form(request, form, browser, going_to)
    session = await sessions.sign_out(server.database, browser, request)
    request_id = tokens.parse(tokens.REQUEST, going_to)
    suffix = "" if request_id is None else f"?next={request_id.text}"
    return server.pages.redirect(f"/sign-in{suffix}", session)


def _page(going_to: str, email: str = "", problem: str | None = None, status: int = 200) -> Page:
    # What is not ours to follow is not carried along either.
    is_request = tokens.parse(tokens.REQUEST, going_to) is not None
    carried = going_to if is_request or going_to in PATHS else ""
    return Page(
        "sign_in.html",
        {"next": carried, "is_for_client": is_request, "email": email, "problem": problem},
        status=status,
        subject=carried,
        may_end_at_client=True,
    )
