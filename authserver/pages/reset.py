"""Password reset: choosing a new password by a one-time link."""

from starlette.requests import Request
from starlette.responses import Response

from authserver import forms
from authserver.forms import Form
from authserver.pages import sign_in
from authserver.people import accounts, passwords
from authserver.people.accounts import LinkUsed
from authserver.people.passwords import UnacceptablePassword
from authserver.people.sessions import Browser, StaleForm
from authserver.web.failures import LinkGone
from authserver.web.page import Page
from authserver.web.server import Server
from shared import tokens
from shared.tokens import Token


async def show(server: Server, request: Request) -> Response:
    """Show the form, if the link can still be used."""
    link = _link(forms.decode(request.scope["query_string"]))
    return await _render(server, await server.browser(request), link)


async def submit(server: Server, request: Request) -> Response:
    """Set the new password and sign the owner in."""
    form = await forms.read(request)
    form.check()
    link = _link(form)
    browser = await server.browser(request)
    try:
        server.signer.check_form(request, form, browser, link.text)
    except StaleForm:
        return await _render(server, browser, link, problem=sign_in.OUT_OF_DATE, status=403)
    password = form.get("password") or ""
    try:
        session = await accounts.reset_password(server, browser, link, password, request)
    except UnacceptablePassword as error:
        return await _render(server, browser, link, password_problem=str(error), status=400)
    except LinkUsed:
        raise LinkGone from None
    return server.pages.redirect("/", session)


def _link(form: Form) -> Token:
    link = tokens.parse(tokens.LINK, form.get("link") or "")
    if link is None:
        raise LinkGone
    return link


async def _render(
    server: Server,
    browser: Browser,
    link: Token,
    *,
    problem: str | None = None,
    password_problem: str | None = None,
    status: int = 200,
) -> Response:
    try:
        reset = await accounts.open_reset(server.database, link)
    except LinkUsed:
        raise LinkGone from None
    content = {
        "link": link.text,
        "email": reset.email,
        "problem": problem,
        "password_problem": password_problem,
        "min_characters": passwords.MIN_CHARACTERS,
    }
    page = Page("reset.html", content, status, subject=link.text, may_end_at_dashboard=True)
    return server.pages.render(page, browser)
