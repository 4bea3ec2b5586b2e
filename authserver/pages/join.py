"""Joining: creating an account by a one-time link."""

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.forms import Form
from authserver.people import accounts, passwords, sessions
from authserver.people.accounts import (
    AddressTaken,
    Invitation,
    LinkUsed,
    NewAccount,
    UnacceptableEmail,
)
from authserver.people.passwords import UnacceptablePassword
from authserver.web.failures import LinkGone
from authserver.web.page import Page
from authserver.web.server import Server
from shared import tokens
from shared.tokens import Token


async def show(server: Server, request: Request) -> Response:
    """Show the form for a new account, if the link can still be used."""
    link = _link(forms.decode(request.scope["query_string"]))
    browser = await server.browser(request)
    invitation = await _invitation(server, link)
    return server.pages.render(_page(link, invitation), browser)


async def submit(server: Server, request: Request) -> Response:
    """Create the account and sign its owner in."""
    form = await forms.read(request)
    form.check()
    link = _link(form)
    browser = await server.browser(request)
    server.signer.check_form(request, form, browser, link.text)
    invitation = await _invitation(server, link)
    email = form.get("email") or ""
    wanted = NewAccount(email=email, password=form.get("password") or "")
    try:
        origin = events.request_origin(request)
        # One link must not fill the queue of the hasher.
        with server.throttle.reserve(origin.address):
            user_id = await accounts.join(server.database, server.hasher, link, wanted, origin)
    except (UnacceptableEmail, AddressTaken) as error:
        page = _page(link, invitation, email, email_problem=error.__doc__)
        return server.pages.render(page, browser)
    except UnacceptablePassword as error:
        page = _page(link, invitation, email, password_problem=str(error))
        return server.pages.render(page, browser)
    except LinkUsed:
        raise LinkGone from None
    session = await sessions.sign_in(server.database, browser, user_id, request)
    return server.pages.redirect("/", session)


def _link(form: Form) -> Token:
    link = tokens.parse(tokens.LINK, form.get("link") or "")
    if link is None:
        raise LinkGone
    return link


async def _invitation(server: Server, link: Token) -> Invitation:
    try:
        return await accounts.invitation(server.database, link)
    except LinkUsed:
        raise LinkGone from None


def _page(
    link: Token,
    invitation: Invitation,
    email: str = "",
    *,
    email_problem: str | None = None,
    password_problem: str | None = None,
) -> Page:
    return Page(
        "join.html",
        {
            "link": link.text,
            "invited_email": invitation.email,
            "email": invitation.email or email,
            "email_problem": email_problem,
            "password_problem": password_problem,
            "min_characters": passwords.MIN_CHARACTERS,
        },
        status=400 if email_problem or password_problem else 200,
        subject=link.text,
        may_end_at_provider=True,
    )
