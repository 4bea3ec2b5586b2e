"""Consent: the page with an application's request, and the person's decision.

An assistant asks for the scope that it needs first, and many never ask for another one. So the page for a
request that is limited to the MCP endpoint also offers the other reading scopes, unticked.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import (
    AccessDenied,
    InvalidRequest,
    OAuthError,
    UnknownClient,
    UnusableDocument,
    UnusableRedirectURI,
)
from authserver.forms import Form
from authserver.oauth import audience, client_ids, device, grants, redirects, requests
from authserver.oauth.authorize import (
    check_redirect_uri,
    code_location,
    documented_client,
    error_location,
    refusal_of,
    rules_for,
)
from authserver.oauth.clients import Client
from authserver.oauth.documents import Documents
from authserver.oauth.requests import PendingKey, PendingRequest
from authserver.people import sessions
from authserver.people.sessions import Browser, Person, StaleForm
from authserver.web.failures import RequestGone
from authserver.web.page import Page
from authserver.web.server import Server
from shared import scopes, tokens
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.metrics import AUTHORIZATIONS
from shared.scopes import SCOPES, WITHOUT_ENDPOINT
from shared.tokens import Token

_UNUSABLE: Final = (UnknownClient, UnusableDocument, UnusableRedirectURI)
"""What may be wrong with a client whose document is fetched after the sign-in."""
_DAYS: Final = ("30", "1")
"""For how many days a person may grant access, instead of until it is revoked."""
_NOTHING_TICKED: Final = "Nothing is ticked, so nothing was allowed. Tick one, or decline."


async def show(server: Server, documents: Documents, request: Request) -> Response:
    """Show a pending request. If it is an error, redirect to the client with it."""
    browser = await server.browser(request)
    request_id = _request_id(forms.decode(request.scope["query_string"]))
    if browser.person is None:
        return server.pages.redirect_browser(f"/sign-in?next={request_id.text}", browser)
    waiting = PendingKey(request_id, browser.session)
    pending = await requests.find(server.database, waiting)
    if pending is None:
        return await _gone(server, browser, waiting)
    try:
        client = await _client(server, documents, browser.person, pending)
    except _UNUSABLE as error:
        return _refused(server, browser, pending, error)
    if pending.error is not None:
        await requests.take(server.database, waiting)
        return server.pages.redirect_browser(error_location(server, pending), browser)
    if _must_confirm(waiting, pending):
        return server.pages.redirect_browser(_confirmation(waiting), browser)
    granted_before = await grants.scopes_of_client(
        server.database, browser.person.user_id, pending.client_id
    )
    return server.pages.render(_page(pending, client, request_id, granted_before, server), browser)


async def decide(server: Server, documents: Documents, request: Request) -> Response:
    """Carry out the person's decision and redirect the browser to the client."""
    form = await forms.read(request)
    form.check(ignoring=("scope",))
    request_id = _request_id(form)
    browser = await server.browser(request)
    if browser.person is None:
        raise StaleForm
    server.signer.check_form(request, form, browser, request_id.text)
    waiting = PendingKey(request_id, browser.session)
    pending = await requests.find(server.database, waiting)
    if pending is None or pending.scopes is None:
        return await _gone(server, browser, waiting)
    client_ids.log(request, pending.client_id)
    try:
        # Declining redirects too, so the redirect URI must be the client's.
        client = await _client(server, documents, browser.person, pending)
    except _UNUSABLE as error:
        return _refused(server, browser, pending, error)
    offered = _offered(pending, server.settings.base_url)
    granted = _decision(form, [*pending.scopes, *offered])
    lifetime = _lifetime(form)
    if granted is None:
        return await _decline(server, browser, waiting, pending, client)
    if _must_confirm(waiting, pending):
        return server.pages.redirect_browser(_confirmation(waiting), browser)
    if not granted:
        granted_before = await grants.scopes_of_client(
            server.database, browser.person.user_id, pending.client_id
        )
        page = _page(
            pending,
            client,
            request_id,
            granted_before,
            server,
            problem=_NOTHING_TICKED,
            days=form.get("days"),
        )
        return server.pages.render(page, browser)
    code = await grants.issue_code(
        server.database,
        browser.person.user_id,
        waiting,
        granted,
        events.request_origin(request),
        ends_with_session=pending.client_id == DASHBOARD_CLIENT_ID,
        lifetime=lifetime,
    )
    if code is not None:
        AUTHORIZATIONS.add("allowed")
    return (
        await _gone(server, browser, waiting)
        if code is None
        else _allow(server, browser, pending, client, code)
    )


def _request_id(form: Form) -> Token:
    """Return the id of the pending request. Raises RequestGone if it is malformed."""
    request_id = tokens.parse(tokens.REQUEST, form.get("request") or "")
    if request_id is None:
        raise RequestGone
    return request_id


async def _gone(server: Server, browser: Browser, waiting: PendingKey) -> Response:
    """Return the page for a request that is no longer open. It names the client if that is known."""
    late = await requests.late(server.database, waiting)
    # A device has no redirect URI.
    has_destination = late is not None and late.redirect_uri
    destination = redirects.destination(late.redirect_uri) if late and has_destination else None
    page = Page("request_gone.html", {"late": late, "destination": destination}, status=400)
    return server.pages.render(page, browser)


def _must_confirm(waiting: PendingKey, pending: PendingRequest) -> bool:
    """Return whether the sign-in is older than a request with ``prompt=login``."""
    return waiting.needs_later_sign_in and not pending.has_later_sign_in


def _confirmation(waiting: PendingKey) -> str:
    """Return the path of the page that asks for the password, and then leads back to the consent page."""
    return f"/confirm?next={waiting.request_id.text}"


def _offered(pending: PendingRequest, base_url: str) -> list[str]:
    """Return the scopes that the page offers although the client did not request them."""
    if pending.resource != audience.mcp_endpoint(base_url):
        return []
    return [scope for scope in scopes.READING if scope not in (pending.scopes or ())]


def _decision(form: Form, grantable: list[str]) -> tuple[str, ...] | None:
    """Return the granted scopes, of which there may be none, or None if declined. Raises InvalidRequest."""
    decision = form.get("decision")
    if decision not in ("allow", "decline"):
        raise InvalidRequest("the decision must be allow or decline")
    ticked = set(form.all("scope"))
    if not ticked <= set(grantable):
        raise InvalidRequest("only requested or offered scopes can be granted")
    return scopes.ordered(ticked) if decision == "allow" else None


def _lifetime(form: Form) -> timedelta | None:
    """Return how long the person grants access; None: without an end. Raises InvalidRequest."""
    days = form.get("days")
    if days is None:
        return None
    if days not in _DAYS:
        raise InvalidRequest(f"the days must be one of {', '.join(_DAYS)}, or left out")
    return timedelta(days=int(days))


def _allow(
    server: Server, browser: Browser, pending: PendingRequest, client: Client, code: Token
) -> Response:
    """Return the answer to a consent: the client gets the code, or a device fetches its tokens."""
    if pending.is_device:
        return server.pages.render(_decided(client, is_allowed=True), browser)
    location = code_location(server, pending, code)
    if redirects.is_private_use(pending.redirect_uri):
        # A browser that passes a link to an application keeps showing the page it was on.
        return server.pages.render(_allowed(client, location), browser)
    return server.pages.redirect_browser(location, browser)


async def _decline(
    server: Server,
    browser: Browser,
    waiting: PendingKey,
    pending: PendingRequest,
    client: Client,
) -> Response:
    """Decline a request and redirect to the client with the error. Raises RequestGone.

    A device learns about it when it polls.
    """
    if pending.is_device:
        if not await device.decline(server.database, waiting):
            raise RequestGone
        AUTHORIZATIONS.add("declined")
        return server.pages.render(_decided(client, is_allowed=False), browser)
    if not await requests.take(server.database, waiting):
        raise RequestGone
    AUTHORIZATIONS.add("declined")
    declined = AccessDenied()
    refused = replace(pending, error=declined.error, error_description=declined.description)
    return server.pages.redirect_browser(error_location(server, refused), browser)


def _decided(client: Client, *, is_allowed: bool) -> Page:
    """Return the page after a decision about a device."""
    content = {"client_name": client.client_name, "is_allowed": is_allowed}
    return Page("device_decided.html", content)


def _allowed(client: Client, location: str) -> Page:
    """Return the page after a consent that opens an application by its own scheme."""
    content = {"client_name": client.client_name, "location": location}
    return Page("allowed.html", content, may_end_at_client=True)


async def _client(
    server: Server, documents: Documents, person: Person, pending: PendingRequest
) -> Client:
    """Return the client of a pending request. One that is described by a document is checked now.

    The request may be from before the sign-in, when no document was fetched.
    """
    if not client_ids.is_address(pending.client_id):
        return Client(pending.client_id, pending.client_name, [pending.redirect_uri], None)
    stored = Client(pending.client_id, pending.client_name, pending.client_redirect_uris, None)
    client = await documented_client(server, documents, person, pending.client_id, stored)
    rules = rules_for(server.settings, pending.client_id)
    check_redirect_uri(pending.redirect_uri, client, port_may_vary=rules.port_may_vary)
    return client


def _refused(
    server: Server, browser: Browser, pending: PendingRequest, error: OAuthError
) -> Response:
    """Return the page for a client or a redirect URI that cannot be used. It has no link to the client."""
    sent = pending.client_id if error.parameter == "client_id" else pending.redirect_uri
    return server.pages.render(refusal_of(error, [sent]), browser)


def _page(
    pending: PendingRequest,
    client: Client,
    request_id: Token,
    granted_before: frozenset[str],
    server: Server,
    *,
    problem: str | None = None,
    days: str | None = None,
) -> Page:
    requested = pending.scopes or []
    is_built_in = pending.client_id == DASHBOARD_CLIENT_ID
    # Its grants end with the sign-in session.
    idle_lifetime = sessions.IDLE_LIFETIME if is_built_in else grants.REFRESH_TOKEN_LIFETIME
    # The dashboard always requests everything that it can show. What was left out before stays so until
    # the person ticks it.
    keeps_choice = is_built_in and granted_before
    ticked = [each for each in requested if each in granted_before] if keeps_choice else requested
    return Page(
        "consent.html",
        {
            "problem": problem,
            "ticked": () if problem else ticked,
            "client_name": client.client_name,
            "document_host": client_ids.document_host(client.client_id),
            "is_loopback_only": all(map(redirects.is_loopback, client.redirect_uris)),
            "is_built_in": is_built_in,
            "destination": redirects.destination(pending.redirect_uri),
            "is_loopback": redirects.is_loopback(pending.redirect_uri),
            "is_private_use": redirects.is_private_use(pending.redirect_uri),
            "is_device": pending.is_device,
            "domains": scopes.by_domain(requested),
            "offered": _offered(pending, server.settings.base_url),
            "sentences": SCOPES,
            "new": {scope for scope in requested if granted_before and scope not in granted_before},
            "is_known": bool(granted_before),
            "resource": pending.resource or server.settings.base_url,
            "idle_days": idle_lifetime.days,
            "days": days,
            "request": request_id.text,
            "without_endpoint": WITHOUT_ENDPOINT,
        },
        status=400 if problem else 200,
        subject=request_id.text,
        may_end_at_client=True,
    )
