"""Joining: creating an account by a one-time link."""

from collections.abc import Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.forms import Form
from authserver.pages import account, welcome
from authserver.people import accounts, passwords, sessions, zones
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
    known = await server.zones.known()
    return server.pages.render(_page(link, invitation, known, is_new=True), browser)


async def submit(server: Server, request: Request) -> Response:
    """Create the account and sign its owner in."""
    form = await forms.read(request)
    form.check()
    link = _link(form)
    browser = await server.browser(request)
    server.signer.check_form(request, form, browser, link.text)
    invitation = await _invitation(server, link)
    email, zone = form.get("email") or "", form.get("timezone") or zones.DEFAULT
    known = await server.zones.known()
    show_again = partial(_page, link, invitation, known, email, zone)
    timezone = known.get(zones.folded(zone))
    if timezone is None:
        page = show_again(zone_problem=account.zone_problem(zone, known))
        return server.pages.render(page, browser)
    wanted = NewAccount(email=email, password=form.get("password") or "", timezone=timezone)
    try:
        origin = events.request_origin(request)
        place = server.throttle.reserve(origin.address)
        user_id = await accounts.join(
            server.database, server.hasher, link, wanted, origin, place=place
        )
    except (UnacceptableEmail, AddressTaken) as error:
        return server.pages.render(show_again(email_problem=error.__doc__), browser)
    except UnacceptablePassword as error:
        return server.pages.render(show_again(password_problem=str(error)), browser)
    except LinkUsed:
        raise LinkGone from None
    session = await sessions.sign_in(server.database, browser, user_id, request)
    return server.pages.redirect(welcome.PATH, session)


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
    known: Mapping[str, str],
    email: str = "",
    timezone: str = zones.DEFAULT,
    *,
    is_new: bool = False,
    email_problem: str | None = None,
    password_problem: str | None = None,
    zone_problem: str | None = None,
) -> Page:
    """Return the form. ``is_new``: nothing was typed yet, so a script may fill in the browser's zone."""
    return Page(
        "join.html",
        {
            "link": link.text,
            "invited_email": invitation.email,
            "email": invitation.email or email,
            "email_problem": email_problem,
            "password_problem": password_problem,
            "min_characters": passwords.MIN_CHARACTERS,
            "timezone": timezone,
            "zone_problem": zone_problem,
            "zones": list(known.values()),
            "is_new": is_new,
        },
        status=400 if email_problem or password_problem or zone_problem else 200,
        subject=link.text,
        may_end_at_provider=True,
    )
