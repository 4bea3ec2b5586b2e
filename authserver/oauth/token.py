"""The token endpoint (RFC 6749, sections 4.1.3 and 6; RFC 7636, section 4.5; RFC 8707, section 2.2; RFC 8628,
section 3.4).
"""

import base64
import hashlib
import json
import re
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import (
    ClientAuthenticationRefused,
    InvalidRequest,
    InvalidScope,
    OAuthError,
    UnsupportedGrantType,
)
from authserver.forms import Form
from authserver.oauth import audience, client_ids, grants
from authserver.oauth.grants import (
    CodePresentation,
    DevicePresentation,
    RefreshPresentation,
    TokenPair,
)
from authserver.web.server import Server
from shared import metrics, scopes, tokens, web
from shared.metrics import TOKEN_REQUESTS
from shared.tokens import Token

_VERIFIER: Final = re.compile(r"[A-Za-z0-9\-._~]{43,128}")
_CREDENTIALS: Final = frozenset(
    (
        *("client_id", "client_secret", "code", "code_verifier", "refresh_token", "token"),
        *("password", "device_code"),
    )
)
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
GRANT_TYPES: Final = ("authorization_code", "refresh_token", DEVICE_CODE)


async def issue(server: Server, request: Request) -> Response:
    """Return a token pair for a code or a refresh token.

    A request that contains a spent code or a rotated refresh token always revokes the grant, and gets that
    error: in the form or the query, once or repeatedly, with any grant_type, and whatever else is wrong
    with it. Only bodies that are not forms, such as JSON, or that have more than 50 parameters are not
    searched.
    """
    form = await forms.read(request)
    given = form.get("grant_type")
    grant_type = given if given in GRANT_TYPES else "other"
    try:
        pair = await _pair(server, request, form)
    except OAuthError as error:
        TOKEN_REQUESTS.add(grant_type, metrics.reason(error))
        raise
    TOKEN_REQUESTS.add(grant_type, "issued")
    web.notes(request).update(grant_id=pair.grant_id)
    return _answer(pair)


async def _pair(server: Server, request: Request, form: Form) -> TokenPair:
    """Return the pair that a request gets. Raises OAuthError."""
    origin = events.request_origin(request)
    codes = tokens_in(tokens.CODE, "code", request, form)
    refresh_tokens = tokens_in(tokens.REFRESH, "refresh_token", request, form)
    client_ids.log(request, form.get("client_id"))
    try:
        presented = presentation(request, form, server.settings.base_url)
        if isinstance(presented, DevicePresentation) and not server.settings.device_authorization:
            raise UnsupportedGrantType
    except OAuthError:
        await grants.check_replay(server.database, server.lineage, codes, refresh_tokens, origin)
        raise
    if isinstance(presented, CodePresentation):
        await grants.check_replay(server.database, server.lineage, [], refresh_tokens, origin)
        return await grants.redeem_code(server.database, server.lineage, presented, origin)
    if isinstance(presented, DevicePresentation):
        await grants.check_replay(server.database, server.lineage, codes, refresh_tokens, origin)
        return await grants.redeem_device_code(server.database, server.lineage, presented, origin)
    retry_s = server.settings.refresh_retry_s
    await grants.check_replay(server.database, server.lineage, codes, [], origin)
    return await grants.rotate(
        server.database,
        server.lineage,
        presented,
        origin,
        refreshes_per_hour=server.settings.refreshes_per_hour,
        retry_lifetime=timedelta(seconds=retry_s) if retry_s else None,
    )


def tokens_in(prefix: str, name: str, request: Request, form: Form) -> list[Token]:
    """Return the distinct tokens with ``prefix`` in all parameters ``name`` of form and query."""
    try:
        in_query = forms.decode(request.scope["query_string"]).all(name)
    except InvalidRequest:
        in_query = ()
    parsed = (tokens.parse(prefix, text) for text in (*form.all(name), *in_query))
    return list(dict.fromkeys(token for token in parsed if token is not None))


def presentation(
    request: Request, form: Form, base_url: str
) -> CodePresentation | DevicePresentation | RefreshPresentation:
    """Return the parameters of a well-formed request. Raises the first error, in this order."""
    refuse_credentials_in_query(request)
    form.check(ignoring=("resource",))
    refuse_client_authentication(request)
    grant_type = required(form, "grant_type")
    if grant_type == "authorization_code":
        return CodePresentation(
            code=tokens.parse(tokens.CODE, required(form, "code")),
            client_id=required(form, "client_id"),
            redirect_uri=required(form, "redirect_uri"),
            code_challenge=challenge(required_verifier(form)),
            resource=audience.known(form, base_url),
        )
    if grant_type == "refresh_token":
        return RefreshPresentation(
            refresh_token=tokens.parse(tokens.REFRESH, required(form, "refresh_token")),
            client_id=required(form, "client_id"),
            scopes=requested_scopes(form),
            resource=audience.known(form, base_url),
        )
    if grant_type == DEVICE_CODE:
        return DevicePresentation(
            device_code=tokens.parse(tokens.DEVICE, required(form, "device_code")),
            client_id=required(form, "client_id"),
            resource=audience.known(form, base_url),
        )
    raise UnsupportedGrantType


def refuse_credentials_in_query(request: Request) -> None:
    """Raise InvalidRequest if the query has credentials: queries end up in logs, bodies do not."""
    query = request.scope["query_string"]
    if query and not _CREDENTIALS.isdisjoint(forms.decode(query).values):
        raise InvalidRequest("parameters go into the body, not into the query")


def refuse_client_authentication(request: Request) -> None:
    """Raise ClientAuthenticationRefused for an Authorization header: clients here have no secrets."""
    if "authorization" in request.headers:
        raise ClientAuthenticationRefused


def required(form: Form, name: str) -> str:
    """Return a required parameter. Raises InvalidRequest."""
    value = form.get(name)
    if value is None:
        raise InvalidRequest(f"the parameter {name} is missing")
    return value


def required_verifier(form: Form) -> str:
    """Return the code verifier (RFC 7636, section 4.1). Raises InvalidRequest."""
    verifier = required(form, "code_verifier")
    if _VERIFIER.fullmatch(verifier) is None:
        raise InvalidRequest("the code_verifier must be 43 to 128 unreserved characters")
    return verifier


def challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def requested_scopes(form: Form) -> tuple[str, ...] | None:
    """Return the scopes of a refresh request, or None if it has none. Raises InvalidScope."""
    try:
        return scopes.parse(form.get("scope") or "") or None
    except scopes.UnknownScopeError as error:
        raise InvalidScope(str(error)) from error


def _answer(pair: TokenPair) -> Response:
    """Return the token response (RFC 6749, section 5.1)."""
    body = {
        "access_token": pair.access_token.text,
        "token_type": "Bearer",
        "expires_in": pair.expires_in,
        "refresh_token": pair.refresh_token.text,
        "scope": " ".join(pair.scopes),
    }
    return Response(
        json.dumps(body), headers={"Cache-Control": "no-store"}, media_type="application/json"
    )
