"""Signing in and out."""

import re
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from authserver import errors, events, forms
from authserver.errors import TooManyRequests
from authserver.forms import Form
from authserver.oauth import requests
from authserver.oauth.requests import PendingKey
from authserver.people import accounts, passkeys, sessions
from authserver.people.passkeys import ProofRefused
from authserver.people.sessions import Browser, StaleForm
from authserver.web import page as pages
from authserver.web.page import Page
from authserver.web.server import Server
from shared import tokens
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.tokens import Token

PATHS: Final = (
    "/settings",
    *(section.path for section in pages.SECTIONS),
    "/settings/account/sign-in",
    "/settings/account/sessions",
    "/settings/account/events",
    "/settings/account/download",
    "/settings/account/delete",
    "/confirmed",
    "/device",
    "/welcome",
    "/welcome/another",
)
"""The paths, besides pending requests, to which sign-in may redirect."""
_LONGEST_EMAIL: Final = 254
_LINKED: Final = frozenset(
    (
        "/device",
        *(
            f"/settings/{name}"
            for name in ("categories", "connections", "connections/end", "devices", "goals")
        ),
    )
)
"""The paths that may have a query: views of the dashboard link to them (``back.address``), or the query says
what the page is about."""
_QUERY: Final = re.compile(r"[A-Za-z0-9_.~%&=+-]{1,6000}")

_FAILED: Final = (
    "That did not work. Check the e-mail address and the password. After several attempts it also helps "
    "to wait before the next one, at most 15 minutes."
)
"""The same message for an unknown address, a wrong password and a throttled attempt; it is true for each."""
SIGNED_OUT: Final = "/sign-in?done=signed-out"
SIGNED_OUT_EVERYWHERE: Final = "/sign-in?done=signed-out-everywhere"
_DONE: Final = {
    "signed-out": "You are signed out in this browser.",
    "signed-out-everywhere": "You are signed out in every browser.",
}
OUT_OF_DATE: Final = "This page was out of date. Please try again."


def next_path(text: str) -> str:
    """Return the path to redirect to after sign-in: a pending request, a page of settings, or the dashboard.

    A request id, which has only letters and digits, becomes part of the path; and so does the query of a page
    that the dashboard links to.
    """
    request_id = tokens.parse(tokens.REQUEST, text)
    if request_id is not None:
        return f"/oauth/consent?request={request_id.text}"
    return text if is_page(text) else "/"


def is_page(text: str) -> bool:
    """Return whether ``text`` is a path of PATHS, or one with a query that may have one."""
    path, mark, query = text.partition("?")
    if not mark:
        return path in PATHS
    return path in _LINKED and _QUERY.fullmatch(query) is not None


def form_next(text: str) -> str:
    """Return the form field ``next``: ``text`` if it is a request id or a page, otherwise empty."""
    is_request = tokens.parse(tokens.REQUEST, text) is not None
    return text if is_request or is_page(text) else ""


async def show(server: Server, request: Request) -> Response:
    """Show the form, or continue if a person is signed in already."""
    query = forms.decode(request.scope["query_string"])
    going_to = query.get("next") or ""
    browser = await server.browser(request)
    if browser.person is not None:
        return server.pages.redirect_browser(next_path(going_to), browser)
    done = _DONE.get(query.get("done") or "")
    is_for_client = await _is_for_client(server, browser, going_to)
    email = _hint(query)
    return render(server, browser, going_to, email, done=done, is_for_client=is_for_client)


def _hint(query: Form) -> str:
    """Return the account that an application suggests (``login_hint``), if it could be an e-mail address."""
    given = query.get("login_hint") or ""
    return given if len(given) <= _LONGEST_EMAIL and given.isprintable() else ""


async def _is_for_client(server: Server, browser: Browser, going_to: str) -> bool:
    """Return whether a person signs in for an application's request, and not for the dashboard's."""
    request_id = tokens.parse(tokens.REQUEST, going_to)
    if request_id is None:
        return False
    pending = await requests.find(server.database, PendingKey(request_id, browser.session))
    return pending is None or pending.client_id != DASHBOARD_CLIENT_ID


async def submit(server: Server, request: Request) -> Response:
    """Sign the person in and continue, or show the form again."""
    form = await forms.read(request)
    form.check()
    going_to = form.get("next") or ""
    browser = await server.browser(request)
    try:
        server.signer.check_form(request, form, browser, going_to)
    except StaleForm:
        if browser.person is not None:
            # The person has signed in in another tab meanwhile, so this form is no longer needed.
            return server.pages.redirect_browser(next_path(going_to), browser)
        return await _render_refused(server, browser, form, OUT_OF_DATE, 403)
    try:
        session = await _authenticate(server, browser, form, request)
    except ProofRefused as error:
        return await _render_refused(server, browser, form, str(error), 400)
    except TooManyRequests as error:
        problem = _FAILED if form.get("credential") is None else passkeys.TOO_MANY_ATTEMPTS
        refused = await _render_refused(server, browser, form, problem, error.status)
        refused.headers.update(errors.retry_after(error))
        return refused
    return server.pages.redirect(next_path(going_to), session)


async def _render_refused(
    server: Server, browser: Browser, form: Form, problem: str, status: int
) -> Response:
    going_to = form.get("next") or ""
    return render(
        server,
        browser,
        going_to,
        form.get("email") or "",
        problem=problem,
        status=status,
        is_for_client=await _is_for_client(server, browser, going_to),
    )


async def _authenticate(server: Server, browser: Browser, form: Form, request: Request) -> Token:
    """Check a password or passkey and return the new session. Raises ProofRefused, TooManyRequests."""
    answer = form.get("credential")
    if answer is not None:
        return await passkeys.sign_in(server, browser, answer, request)
    account = await accounts.authenticate(
        server,
        form.get("email") or "",
        form.get("password") or "",
        events.request_origin(request),
        known_cookie=sessions.cookie(request, server.signer.known_cookie_name),
    )
    if account is None:
        raise ProofRefused(_FAILED)
    await server.throttle.count_sign_in(account.user_id)
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


async def show_sign_out(server: Server, request: Request) -> Response:
    """Show the button that signs out, for links of other pages: a link alone signs nobody out."""
    browser = await server.browser(request)
    if browser.person is None:
        return server.pages.redirect_browser(SIGNED_OUT, browser)
    return server.pages.render(Page("sign_out.html", {}), browser)


async def sign_out(server: Server, request: Request) -> Response:
    """End this browser's session. A pending request, or a page, remains for the next sign-in."""
    form = await forms.read(request)
    form.check()
    going_to = form.get("next") or ""
    browser = await server.browser(request)
    server.signer.check_form(request, form, browser, "" if is_page(going_to) else going_to)
    session = await sessions.sign_out(server.database, browser, request)
    destination = form_next(going_to)
    suffix = f"&{urlencode({'next': destination})}" if destination else ""
    return server.pages.redirect(f"{SIGNED_OUT}{suffix}", session)


def render(
    server: Server,
    browser: Browser,
    going_to: str,
    email: str = "",
    *,
    done: str | None = None,
    problem: str | None = None,
    status: int = 200,
    is_for_client: bool = True,
) -> Response:
    """Return the sign-in page, with a problem if there is one.

    ``is_for_client``: a request that it continues with is that of an application other than the dashboard.
    """
    next_value = form_next(going_to)
    content = {
        "next": next_value,
        "is_for_client": next_value != "" and not is_page(next_value) and is_for_client,
        "email": email,
        "passkey_options": passkeys.sign_in_options(server.signer, browser),
        "done": done,
        "problem": problem,
    }
    page = Page(
        "sign_in.html",
        content,
        status,
        subject=next_value,
        may_end_at_client=True,
        shows_dashboard_image=done is not None,
    )
    return server.pages.render(page, browser)
