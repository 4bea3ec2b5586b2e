"""Confirmation of the sign-in, required before sensitive actions, or by an application (``prompt=login``).

It is required before a page with sensitive actions is shown. If the sign-in becomes too old while a person
fills in a form, the form is shown again with the typed values and a link that opens the confirmation in
another tab; afterwards the form can be submitted (``Browser.form_hashes``).
"""

from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from authserver import errors, events, forms
from authserver.errors import TooManyRequests
from authserver.forms import Form
from authserver.pages import home, sign_in
from authserver.people import accounts, passkeys, sessions
from authserver.people.passkeys import ProofRefused
from authserver.people.sessions import OldSignIn, StaleForm, Visit
from authserver.web.page import Page
from authserver.web.server import Server
from shared.tokens import Token

_FAILED: Final = (
    "That did not work. Check the password. After several attempts it also helps to wait before the next "
    "one, at most 15 minutes."
)
"""The same message for a wrong password and for a throttled attempt."""

CONFIRMED: Final = "/confirmed"
"""The page that asks the person to go back to the tab with the form."""

_OLD_SIGN_IN: Final = Markup(
    "Your sign-in is older than 15 minutes, so nothing was done yet. "
    '<a href="{}" target="_blank" rel="noopener">Confirm in a new tab that it is you</a>, then come back '
    "here and send the form again. What you typed is still in it, except for passwords."
)


def problem(error: StaleForm) -> str:
    """Return the message above a form that was refused and is shown again."""
    return _OLD_SIGN_IN.format(CONFIRMED) if isinstance(error, OldSignIn) else sign_in.OUT_OF_DATE


async def show(server: Server, request: Request) -> Response:
    """Ask the person for their password or passkey, or continue if a fresh sign-in suffices.

    It does not suffice for an application's request.
    """
    going_to = _next(forms.decode(request.scope["query_string"]))
    visit = await server.visit(request, going_to)
    if visit.person.is_fresh and sign_in.is_page(going_to):
        return server.pages.redirect_browser(going_to, visit.browser)
    return await _render(server, visit, going_to)


async def submit(server: Server, request: Request) -> Response:
    """Check the password or passkey, open a new session and continue, or ask again."""
    form = await forms.read(request)
    form.check()
    going_to = _next(form)
    visit = await server.visit(request, going_to)
    try:
        server.signer.check_form(request, form, visit.browser)
    except StaleForm:
        return await _render(server, visit, going_to, sign_in.OUT_OF_DATE, status=403)
    try:
        session = await _authenticate(server, visit, form, request)
    except ProofRefused as error:
        return await _render(server, visit, going_to, str(error), status=400)
    except TooManyRequests as error:
        problem = _FAILED if form.get("credential") is None else passkeys.TOO_MANY_ATTEMPTS
        refused = await _render(server, visit, going_to, problem, status=error.status)
        refused.headers.update(errors.retry_after(error))
        return refused
    return server.pages.redirect(sign_in.next_path(going_to), session, visit.browser.known_id)


async def done(server: Server, request: Request) -> Response:
    """Show the page that sends the person back to the form in the other tab."""
    visit = await server.visit(request, CONFIRMED, is_fresh=True)
    return server.pages.render(Page("confirmed.html", {}), visit.browser)


async def _authenticate(server: Server, visit: Visit, form: Form, request: Request) -> Token:
    """Check a password or passkey and return the new session. Raises ProofRefused, TooManyRequests."""
    answer = form.get("credential")
    if answer is not None:
        return await passkeys.sign_in(server, visit.browser, answer, request)
    account = await accounts.authenticate(
        server,
        visit.person.email,
        form.get("password") or "",
        events.request_origin(request),
        session=visit.browser.session,
    )
    if account is None or account.user_id != visit.person.user_id:
        raise ProofRefused(_FAILED)
    await server.throttle.count_sign_in(account.user_id)
    session = await sessions.sign_in(
        server.database,
        visit.browser,
        account.user_id,
        request,
        signed_out_at=account.signed_out_at,
    )
    if session is None:
        raise ProofRefused(_FAILED)
    return session


def _next(form: Form) -> str:
    """Return the field ``next`` if it is a request id or a page, otherwise the start of the settings."""
    return sign_in.form_next(form.get("next") or "") or home.PATH


async def _render(
    server: Server, visit: Visit, going_to: str, problem: str | None = None, status: int = 200
) -> Response:
    known = await passkeys.of_user(server.database, visit.person.user_id)
    ways = await passkeys.sign_in_methods(server, visit.person.user_id)
    content = {
        "next": going_to,
        "is_for_client": not sign_in.is_page(going_to),
        "has_password": ways.has_password,
        "has_provider": ways.has_provider,
        "passkey_options": passkeys.confirm_options(server.signer, visit.browser, known),
        "problem": problem,
    }
    # The first steps continue to the dashboard once there is data.
    page = Page(
        "confirm.html", content, status, may_end_at_provider=True, may_end_at_dashboard=True
    )
    return server.pages.render(page, visit.browser)
