"""Client registration (RFC 7591), open to everybody. A client has no access until a person consents."""

import json
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import InvalidClientMetadata, InvalidRedirectURI, InvalidScope, OAuthError
from authserver.oauth import clients, redirects
from authserver.oauth.clients import Client
from authserver.oauth.token import DEVICE_CODE
from authserver.people import names
from authserver.people.names import NameTooLong
from authserver.web.server import Server
from shared import scopes, tokens
from shared.settings import Settings

MAX_REDIRECT_URIS: Final = 10
_MAX_REDIRECT_URI_BYTES: Final = 4 * 1024
"""The limit for all addresses together: registration is open, and each client is stored for at least 90
days."""


class _Metadata(BaseModel):
    """The supported client metadata. Other members are ignored (RFC 7591, section 2)."""

    model_config = ConfigDict(extra="ignore")

    redirect_uris: Annotated[list[StrictStr], Field(min_length=1, max_length=MAX_REDIRECT_URIS)]
    client_name: StrictStr | None = None
    scope: StrictStr | None = None
    grant_types: Any = None


async def register(server: Server, request: Request) -> Response:
    """Register a client and return its registered metadata."""
    # Before the body is read, so that a client that is slowed down costs little.
    counted = await server.throttle.count_registration(events.request_origin(request).address)
    try:
        if forms.media_type(request) != "application/json":
            raise InvalidClientMetadata("the body must be application/json")
        client = _client(_parse(await forms.read_body(request)), server.settings)
    except OAuthError:
        await server.throttle.refund(counted)
        raise
    created_at = await clients.register(server.database, client)
    answer: dict[str, object] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(created_at.timestamp()),
        "redirect_uris": client.redirect_uris,
        "grant_types": [
            *("authorization_code", "refresh_token"),
            *([DEVICE_CODE] if client.is_device else []),
        ],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    # Null or empty members break some clients, so missing members are left out.
    if client.client_name is not None:
        answer["client_name"] = client.client_name
    if client.scopes is not None:
        answer["scope"] = " ".join(client.scopes)
    return Response(
        json.dumps(answer), 201, {"Cache-Control": "no-store"}, media_type="application/json"
    )


def _parse(body: bytes) -> _Metadata:
    try:
        return _Metadata.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if not first["loc"]:
            raise InvalidClientMetadata("the body must be a JSON object") from error
        name = ".".join(str(part) for part in first["loc"])
        kind = InvalidRedirectURI if first["loc"][0] == "redirect_uris" else InvalidClientMetadata
        raise kind(f"{name}: {first['msg']}") from error


def _client(metadata: _Metadata, chosen: Settings) -> Client:
    """Return a new client. Raises InvalidRedirectURI, InvalidClientMetadata and InvalidScope."""
    redirect_uris = checked_redirect_uris(metadata.redirect_uris)
    try:
        requested = scopes.parse(metadata.scope or "")
    except scopes.UnknownScopeError as error:
        raise InvalidScope(str(error)) from error
    return Client(
        client_id=tokens.mint_client_id(),
        client_name=visible_name(metadata.client_name or ""),
        redirect_uris=redirect_uris,
        scopes=list(requested) or None,
        is_device=chosen.device_authorization
        and isinstance(metadata.grant_types, list)
        and DEVICE_CODE in metadata.grant_types,
    )


def checked_redirect_uris(given: list[str]) -> list[str]:
    """Return the redirect URIs of a client, each once. Raises InvalidRedirectURI."""
    redirect_uris = list(dict.fromkeys(given))
    for uri in redirect_uris:
        redirects.check(uri)
    # They are ASCII.
    if sum(map(len, redirect_uris)) > _MAX_REDIRECT_URI_BYTES:
        raise InvalidRedirectURI(
            f"the redirect URIs must have at most {_MAX_REDIRECT_URI_BYTES} bytes together"
        )
    return redirect_uris


def visible_name(text: str) -> str | None:
    """Return the name of a client as pages show it; None without one. Raises InvalidClientMetadata."""
    try:
        return names.visible(text)
    except NameTooLong as error:
        raise InvalidClientMetadata(
            f"client_name: at most {names.MAX_CHARACTERS} characters"
        ) from error
