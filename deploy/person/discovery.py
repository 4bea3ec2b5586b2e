"""Discovery: from the address of the resource server to the endpoints of its authorization server.

The resource server names its authorization server (RFC 9728), whose metadata names the endpoints (RFC 8414).
Each document must be about the address under which it was read. Otherwise another server could get the code,
or the tokens, of this one.
"""

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import click
import httpx2

from deploy.person import requests

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_AUTHORIZATION_SERVER: Final = "/.well-known/oauth-authorization-server"


@dataclass(frozen=True)
class Endpoints:
    """The addresses of an authorization server, and the scopes of the resource server."""

    server: str
    issuer: str
    authorization: str
    token: str
    registration: str
    revocation: str | None
    is_issuer_in_answers: bool
    """Whether each authorization response names the issuer (RFC 9207)."""
    scopes: tuple[str, ...]


def discover(http: httpx2.Client, server: str) -> Endpoints:
    """Return the endpoints for the resource server at this address. Raises ClickException."""
    resource = _document(http, f"{server}{_RESOURCE}")
    own_name = _address(resource, "resource").rstrip("/")
    if own_name != server:
        raise click.ClickException(
            f"the server at {server} calls itself {own_name}: use that address with --server"
        )
    issuers = resource.get("authorization_servers")
    # The first one: this service has one.
    named = issuers[0] if isinstance(issuers, list) and issuers else None
    issuer = _address({"authorization_servers": named}, "authorization_servers")
    metadata = _document(http, _metadata_address(issuer))
    if metadata.get("issuer") != issuer:
        raise click.ClickException(f"the authorization server at {issuer} has another name")
    if "S256" not in (metadata.get("code_challenge_methods_supported") or ()):
        raise click.ClickException(f"the authorization server at {issuer} knows no PKCE with S256")
    scopes = resource.get("scopes_supported")
    endpoints = Endpoints(
        server=server,
        issuer=issuer,
        authorization=_address(metadata, "authorization_endpoint"),
        token=_address(metadata, "token_endpoint"),
        registration=_address(metadata, "registration_endpoint"),
        revocation=(
            _address(metadata, "revocation_endpoint") if "revocation_endpoint" in metadata else None
        ),
        is_issuer_in_answers=metadata.get("authorization_response_iss_parameter_supported") is True,
        scopes=tuple(map(str, scopes)) if isinstance(scopes, list) else (),
    )
    _check_transport(endpoints)
    return endpoints


def _document(http: httpx2.Client, url: str) -> dict[str, Any]:
    try:
        request = http.build_request("GET", url)
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise click.ClickException(f"{url} is not an address") from error
    answer = requests.send(http, request)
    if answer.status_code in (404, 405):
        raise click.ClickException(
            f"{requests.host_of(answer.url)} does not answer as this service does; is the address right?"
        )
    if answer.status_code != 200:
        raise requests.failure(answer)
    return requests.json_object(answer)


def _metadata_address(issuer: str) -> str:
    """Return the address of an issuer's metadata; its path stands at the end (RFC 8414, section 3.1)."""
    try:
        parts = urlsplit(issuer)
    except ValueError as error:
        raise click.ClickException(f"{issuer} is not an address") from error
    return f"{parts.scheme}://{parts.netloc}{_AUTHORIZATION_SERVER}{parts.path.rstrip('/')}"


_ADDRESS: Final = re.compile(r"https?://[!-~]+")


def _address(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise click.ClickException(f"the metadata of the server have no usable {name}")
    return value


def _check_transport(endpoints: Endpoints) -> None:
    """Raise ClickException if a server with https would send people or tokens to addresses without it."""
    addresses = [endpoints.authorization, endpoints.token, endpoints.registration]
    if endpoints.revocation is not None:
        addresses.append(endpoints.revocation)
    for address in addresses:
        if endpoints.server.startswith("https://") and not address.startswith("https://"):
            raise click.ClickException(
                f"{address} is not encrypted, although {endpoints.server} is"
            )
