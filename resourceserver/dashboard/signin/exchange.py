"""The requests of the dashboard to the authorization server.

These are the token request (RFC 6749, section 4.1.3; RFC 7636, section 4.5; RFC 8707, section 2.2) and the
revocation request (RFC 7009, section 2.1).

The module imports an HTTP client, which nothing else in the resource server needs; it is therefore imported
at the first request.
"""

import asyncio
import json
import ssl
from dataclasses import dataclass
from functools import cache
from typing import Final

import httpx2

from shared import dashboard, tokens
from shared.settings import Settings
from shared.tokens import Token

_TIMEOUT_S: Final = 8.0
"""The time limit for a whole exchange, from the first byte sent to the last byte received."""
_REVOKED_WITHIN_S: Final = 3.0
"""The time limit for a revocation: a person waits for the page that says that they are signed out."""
_MOST_BYTES: Final = 16 * 1024


class ExchangeFailed(Exception):
    """The authorization server gave no usable token. The text is for the log and holds nothing it sent."""


class AuthorizationServerAway(ExchangeFailed):
    """The authorization server does not answer, or answers that it is unavailable."""


@dataclass(frozen=True)
class Exchanged:
    """What the authorization server gave for a code. The refresh token is thrown away."""

    token: Token
    lifetime_s: int


async def redeem(chosen: Settings, code: str, code_verifier: str) -> Exchanged:
    """Return the access token for a code. Raises ExchangeFailed."""
    status, body = await _post(
        f"{_server(chosen)}/oauth/token",
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": dashboard.redirect_uri(chosen.base_url),
            "client_id": dashboard.DASHBOARD_CLIENT_ID,
            "code_verifier": code_verifier,
            "resource": chosen.base_url,
        },
    )
    if status >= 500 or status == 429:
        raise AuthorizationServerAway(f"status {status}")
    if status != 200:
        raise ExchangeFailed(f"status {status}")
    return _parse(body)


async def revoke(chosen: Settings, token: Token) -> None:
    """Revoke an access token. Raises ExchangeFailed; then it stays valid until it expires."""
    fields = {"token": token.text, "client_id": dashboard.DASHBOARD_CLIENT_ID}
    status, _ = await _post(f"{_server(chosen)}/oauth/revoke", fields, _REVOKED_WITHIN_S)
    if status != 200:
        raise ExchangeFailed(f"status {status}")


def _server(chosen: Settings) -> str:
    return chosen.auth_internal_url or chosen.auth_url


async def _post(
    url: str, fields: dict[str, str], timeout_s: float = _TIMEOUT_S
) -> tuple[int, bytes]:
    body = bytearray()
    try:
        async with (
            asyncio.timeout(timeout_s),
            # A sign-in an hour and person does not pay for connections that are kept open.
            httpx2.AsyncClient(
                # Ignore proxies of the environment: the authorization server is a part of the deployment.
                verify=_certificates(url.startswith("https://")),
                trust_env=False,
                follow_redirects=False,
                timeout=timeout_s,
                # A compressed response could be far longer than its transfer size.
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            ) as client,
            client.stream("POST", url, data=fields) as response,
        ):
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > _MOST_BYTES:
                    raise ExchangeFailed("the response is too long")
            return response.status_code, bytes(body)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise AuthorizationServerAway(f"no response ({type(error).__name__})") from None


@cache
def _certificates(is_https: bool) -> ssl.SSLContext:
    """Return the machine's trusted certificates, which take a while to read, or none for plain http."""
    return ssl.create_default_context() if is_https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _parse(body: bytes) -> Exchanged:
    """Return what a token response holds (RFC 6749, section 5.1)."""
    try:
        given = json.loads(body)
        token = tokens.parse(tokens.ACCESS, given["access_token"])
        lifetime_s = int(given["expires_in"])
        is_bearer = given["token_type"].lower() == "bearer"
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ExchangeFailed("the token response is malformed") from None
    if token is None or not is_bearer or lifetime_s <= 0:
        raise ExchangeFailed("the token response has no token that can be used")
    return Exchanged(token, lifetime_s)
