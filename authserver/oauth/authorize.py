"""The authorization endpoint (RFC 6749, section 4.1.1; RFC 7636; RFC 8707; RFC 9207; RFC 9700).

A request is checked in one visible order. Until the client and the redirect URI have been checked, an error
is only shown to the person. Later errors are sent to the redirect URI, but only of a client that has access
to data of the signed-in person. For any other client a page with a link comes first: with open
registration, automatic redirects would be an open redirector (RFC 9700, section 4.11.2).
"""

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import (
    InvalidRedirectURI,
    InvalidRequest,
    InvalidScope,
    OAuthError,
    TemporarilyUnavailable,
    TooManyRequests,
    UnknownClient,
    UnsupportedResponseType,
    UnusableDocument,
    UnusableRedirectURI,
)
from authserver.forms import Form
from authserver.oauth import audience, client_ids, clients, grants, redirects, requests
from authserver.oauth.clients import Client
from authserver.oauth.documents import Documents
from authserver.oauth.requests import PendingRequest
from authserver.people.sessions import Browser, Person
from authserver.web.page import Page
from authserver.web.server import Server
from shared import metrics, scopes
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.metrics import AUTHORIZATIONS
from shared.settings import Settings
from shared.tokens import Token

_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_MAX_QUERY_BYTES: Final = 16 * 1024
_MAX_STATE_BYTES: Final = 4 * 1024
_MAX_VALUE_CHARACTERS: Final = 2048
"""The most characters of a value that the page for an error repeats."""
_OTHER_PORT: Final = (
    "The redirect_uri differs from a registered one in its port alone. This service compares the port too, "
    "unless its operator sets SVC_LOOPBACK_PORT_MAY_VARY."
)


@dataclass(frozen=True)
class Rules:
    """The rules for the requests of a client."""

    base_url: str
    port_may_vary: bool


def rules_for(chosen: Settings, client_id: str) -> Rules:
    """Return the rules for a client.

    A published document names no port of a person's machine (RFC 8252, section 7.3), so with one the port
    may vary unless the operator forbids it.
    """
    port_may_vary = chosen.loopback_port_may_vary
    if port_may_vary is None:
        port_may_vary = client_ids.is_address(client_id)
    return Rules(chosen.base_url, port_may_vary)


async def show(server: Server, documents: Documents, request: Request) -> Response:
    """Check and store an authorization request, and redirect the person to sign-in or to consent."""
    browser = await server.browser(request)
    query = Form({})
    try:
        require_navigation(request)
        query = readable_query(request)
        client = await known_client(server, documents, browser.person, query)
        client_ids.log(request, client.client_id)
        pending = check_request(query, client, rules_for(server.settings, client.client_id))
        AUTHORIZATIONS.add(pending.error or "accepted")
        if pending.error is not None and await _may_redirect_error(server, browser, client):
            return server.pages.redirect_browser(error_location(server, pending), browser)
    except (TooManyRequests, TemporarilyUnavailable):
        raise
    except OAuthError as error:
        AUTHORIZATIONS.add(metrics.reason(error))
        return server.pages.render(refusal_of(error, _values(query, error.parameter)))
    user_id = None if browser.person is None else browser.person.user_id
    await server.throttle.count_authorization(user_id, events.request_origin(request).address)
    if browser.person is not None and may_renew(query, pending):
        code = await grants.renew(server.database, browser.session, pending)
        if code is not None:
            AUTHORIZATIONS.add("renewed")
            return server.pages.redirect_browser(code_location(server, pending, code), browser)
    if browser.person is None and client_ids.is_address(client.client_id):
        await clients.store_unchecked(server.database, client)
    request_id = await requests.store(
        server.database,
        browser.session,
        pending,
        needs_later_sign_in="login" in prompts(query),
    )
    if pending.error is not None:
        sent = _values(query, pending.error_parameter)
        page = _refusal(pending.error, pending.error_description or "", sent, request_id)
        return server.pages.render(page, browser)
    return server.pages.redirect_browser(_next_step(request_id, browser, query), browser)


def check_request(query: Form, client: Client, rules: Rules) -> PendingRequest:
    """Check a request in this order and return it.

    Raises errors that must not be redirected, such as UnusableRedirectURI. Other errors are stored in the
    returned request.
    """
    redirect_uri = registered_redirect_uri(query, client, port_may_vary=rules.port_may_vary)
    bare = PendingRequest(client.client_id, client.client_name, redirect_uri, sole_state(query))
    try:
        query.check(ignoring=("resource",))
        require_code_response(query)
        require_query_response(query)
        code_challenge = s256_challenge(query)
        requested = requested_scopes(query, client)
        resource = audience.known(query, rules.base_url)
    except OAuthError as error:
        if not error.may_redirect:
            raise
        return replace(
            bare,
            error=error.error,
            error_description=error.description,
            error_parameter=error.parameter,
        )
    return replace(bare, scopes=list(requested), resource=resource, code_challenge=code_challenge)


def may_renew(query: Form, request: PendingRequest) -> bool:
    """Return whether a request may be answered without a consent, if a grant of it is live.

    Only the dashboard's may, which is a part of the service. It asks for other scopes with
    ``prompt=consent``.
    """
    return (
        request.client_id == DASHBOARD_CLIENT_ID
        and request.error is None
        and prompts(query).isdisjoint(("consent", "login", "select_account"))
    )


def prompts(query: Form) -> frozenset[str]:
    """Return what the person must be asked again (OpenID Connect Core 1.0, section 3.1.2.1).

    The consent page names the account and offers to use another one, which is what ``select_account`` is for.
    """
    return frozenset((query.get("prompt") or "").split(" "))


def require_navigation(request: Request) -> None:
    """Check that the browser goes to this address. Raises InvalidRequest.

    A page of another site could otherwise use up the requests of its visitor with images and frames. Clients
    without these headers (Fetch Metadata) are older browsers, or no browsers.
    """
    mode = request.headers.get("sec-fetch-mode", "navigate")
    destination = request.headers.get("sec-fetch-dest", "document")
    if (mode, destination) != ("navigate", "document"):
        raise InvalidRequest("open this address in a window of its own, not as a part of a page")


def readable_query(request: Request) -> Form:
    """Return the parameters of the query. Raises InvalidRequest if it is too long."""
    encoded: bytes = request.scope["query_string"]
    if len(encoded) > _MAX_QUERY_BYTES:
        raise InvalidRequest(f"the query is longer than {_MAX_QUERY_BYTES} bytes")
    return forms.decode(encoded)


async def known_client(
    server: Server, documents: Documents, person: Person | None, query: Form
) -> Client:
    """Return the client of a request. Raises UnknownClient, also if client_id is missing or repeated.

    A document is fetched only for a person who is signed in. Until then the client is what the request says,
    and ``documented_client`` is called before consent.
    """
    client_id = query.get("client_id")
    if client_id is None:
        raise UnknownClient(_absence(query, "client_id"), parameter="client_id")
    if not client_ids.is_address(client_id):
        client = await clients.find(server.database, client_id)
        if client is None:
            raise UnknownClient(parameter="client_id")
        return client
    if person is not None:
        stored = await clients.find(server.database, client_id)
        return await documented_client(server, documents, person, client_id, stored)
    if not server.settings.client_metadata_documents:
        raise UnknownClient(parameter="client_id")
    redirect_uri = query.get("redirect_uri")
    return Client(client_id, None, [] if redirect_uri is None else [redirect_uri], None)


async def documented_client(
    server: Server, documents: Documents, person: Person, client_id: str, stored: Client | None
) -> Client:
    """Return the client that the document at its id describes, and store it if it differs from ``stored``.

    Raises UnknownClient, UnusableDocument, TooManyRequests and TemporarilyUnavailable.
    """
    if not server.settings.client_metadata_documents:
        raise UnknownClient(parameter="client_id")
    client = await documents.client(client_id, server.throttle, person.user_id)
    if client != stored:
        await clients.store_document(server.database, client)
    return client


def registered_redirect_uri(query: Form, client: Client, *, port_may_vary: bool) -> str:
    """Return the redirect URI, which must be present once and match. Raises UnusableRedirectURI."""
    given = query.get("redirect_uri")
    if given is None:
        raise UnusableRedirectURI(_absence(query, "redirect_uri"), parameter="redirect_uri")
    check_redirect_uri(given, client, port_may_vary=port_may_vary)
    return given


def check_redirect_uri(given: str, client: Client, *, port_may_vary: bool) -> None:
    """Check that a redirect URI is one of the client. Raises UnusableRedirectURI."""
    if client.client_id == DASHBOARD_CLIENT_ID:
        # Its codes are issued without a question, so no other program of this machine may receive one. The
        # URI follows from SVC_BASE_URL, which an operator may set to an http address in a private network.
        if given in client.redirect_uris:
            return
        raise UnusableRedirectURI(parameter="redirect_uri")
    if _is_registered(client, given, port_may_vary=port_may_vary):
        try:
            # The rules may be stricter than they were when the client was registered.
            redirects.check(given)
        except InvalidRedirectURI as error:
            raise UnusableRedirectURI(error.description, parameter="redirect_uri") from error
        return
    description = _OTHER_PORT if _is_registered(client, given, port_may_vary=True) else None
    raise UnusableRedirectURI(description, parameter="redirect_uri")


def _is_registered(client: Client, given: str, *, port_may_vary: bool) -> bool:
    return any(
        redirects.matches(registered, given, port_may_vary=port_may_vary)
        for registered in client.redirect_uris
    )


def _absence(query: Form, name: str) -> str:
    """Return why a parameter has no value: it is missing or repeated."""
    return f"the parameter {name} is {'repeated' if len(query.all(name)) > 1 else 'missing'}"


def sole_state(query: Form) -> str | None:
    """Return the client's state for the response, or None unless there is exactly one.

    Raises InvalidRequest if it is too long to be stored.
    """
    state = query.get("state")
    if state is not None and len(state.encode(errors="replace")) > _MAX_STATE_BYTES:
        raise InvalidRequest(f"the state is longer than {_MAX_STATE_BYTES} bytes")
    return state if state is not None and forms.is_text(state) else None


def require_code_response(query: Form) -> None:
    """Check ``response_type``. Raises InvalidRequest, UnsupportedResponseType."""
    response_type = query.get("response_type")
    if response_type is None:
        raise InvalidRequest("the parameter response_type is missing")
    if response_type != "code":
        raise UnsupportedResponseType(parameter="response_type")


def require_query_response(query: Form) -> None:
    """Check ``response_mode``: codes are only sent in the query. Raises InvalidRequest."""
    if query.get("response_mode") not in (None, "query"):
        raise InvalidRequest("the response_mode must be query", parameter="response_mode")


def s256_challenge(query: Form) -> str:
    """Return the code challenge, which must be S256; a missing method means plain (RFC 7636, section 4.3).

    Raises InvalidRequest.
    """
    code_challenge = query.get("code_challenge")
    if code_challenge is None:
        raise InvalidRequest("the parameter code_challenge is missing: PKCE is required")
    method = query.get("code_challenge_method")
    if method is None:
        raise InvalidRequest("the parameter code_challenge_method is missing: it must be S256")
    if method != "S256":
        raise InvalidRequest(
            "the code_challenge_method must be S256", parameter="code_challenge_method"
        )
    if _CHALLENGE.fullmatch(code_challenge) is None:
        raise InvalidRequest(
            "the code_challenge must be 43 characters of base64url", parameter="code_challenge"
        )
    return code_challenge


def requested_scopes(query: Form, client: Client) -> tuple[str, ...]:
    """Return the requested scopes: those of the request, else of the registration, else the default.

    Raises InvalidScope.
    """
    try:
        requested = scopes.parse(query.get("scope") or "")
    except scopes.UnknownScopeError as error:
        raise InvalidScope(str(error), parameter="scope") from error
    return requested or tuple(client.scopes or ()) or (scopes.DEFAULT,)


def code_location(server: Server, pending: PendingRequest, code: Token) -> str:
    """Return the redirect URI with the code (RFC 6749, section 4.1.2; RFC 9207)."""
    return redirects.with_parameters(
        pending.redirect_uri,
        {"code": code.text, "state": pending.state, "iss": server.settings.auth_url},
    )


def error_location(server: Server, pending: PendingRequest) -> str:
    """Return the redirect URI with the error of a request (RFC 6749, section 4.1.2.1)."""
    return redirects.with_parameters(
        pending.redirect_uri,
        {
            "error": pending.error,
            "error_description": pending.error_description,
            "state": pending.state,
            "iss": server.settings.auth_url,
        },
    )


def _next_step(request_id: Token, browser: Browser, query: Form) -> str:
    if browser.person is None:
        hint = query.get("login_hint")
        added = "" if hint is None else "&" + urlencode({"login_hint": hint})
        return f"/sign-in?next={request_id.text}{added}"
    if "login" in prompts(query):
        return f"/confirm?next={request_id.text}"
    return f"/oauth/consent?request={request_id.text}"


async def _may_redirect_error(server: Server, browser: Browser, client: Client) -> bool:
    """Return whether an error may be sent to the client without a page before it.

    Registration is open, so an automatic redirect to a client without access to this person's data would be
    an open redirector, also after sign-in (RFC 9700, section 4.11.2).
    """
    if browser.person is None:
        return False
    granted = await grants.scopes_of_client(
        server.database, browser.person.user_id, client.client_id
    )
    return bool(granted)


def _values(query: Form, parameter: str | None) -> list[str]:
    """Return the values of a parameter as text that a page can show."""
    return [
        "".join(
            letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in value
        )[:_MAX_VALUE_CHARACTERS]
        for value in (query.all(parameter) if parameter is not None else ())
    ]


def refusal_of(error: OAuthError, sent: list[str]) -> Page:
    """Return the page for an error that is never sent to the client.

    ``sent`` are the values of the parameter that is wrong.
    """
    is_document = isinstance(error, UnusableDocument)
    return _refusal(error.error, error.description, sent, is_document=is_document)


def _refusal(
    error: str,
    description: str,
    sent: list[str],
    request_id: Token | None = None,
    *,
    is_document: bool = False,
) -> Page:
    """Return the page for an error. With ``request_id`` it has a link that leads to the client."""
    return Page(
        "refusal.html",
        {
            "error": error,
            "description": description,
            "sent": sent,
            "is_document": is_document,
            "next": None if request_id is None else request_id.text,
        },
        status=400,
    )
