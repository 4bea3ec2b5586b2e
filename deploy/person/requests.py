"""Requests to both servers. A request that fails is a ClickException with one line that says what to do."""

import ssl
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import click
import httpx2

from shared import VERSION
from shared.screen import plain

TIMEOUT: Final = httpx2.Timeout(60, connect=10)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_LONGEST_REASON: Final = 600


class Unreachable(click.ClickException):
    """A server that does not answer."""


@dataclass(frozen=True)
class Refusal:
    """What a server says about a request that it refuses."""

    status: int
    code: str
    message: str
    scopes: tuple[str, ...] = ()
    """The scopes that the request needs, where the challenge names them (RFC 6750, section 3)."""


def origin(text: str) -> str:
    """Return the address of a server without a path. Raises ValueError, whose message repeats no secret."""
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError("is not an address") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("must look like https://host or http://host:port")
    if "@" in text or parts.path.strip("/") or "?" in text or "#" in text:
        raise ValueError("must have no user, password, path, query or fragment")
    usual = {"http": 80, "https": 443}[parts.scheme]
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + ("" if port in (None, usual) else f":{port}")


def is_loopback(address: str) -> bool:
    """Whether a server runs on this machine, by its address."""
    return urlsplit(address).hostname in _LOOPBACK


def client(address: str) -> httpx2.Client:
    """Return an HTTP client for the server at ``address``, and for others in the same network."""
    is_local = is_loopback(address)
    return httpx2.Client(
        timeout=TIMEOUT,
        headers={"User-Agent": f"svc/{VERSION}"},
        # A proxy cannot reach a server on this machine's loopback address.
        trust_env=not is_local,
        # Reading all certificates of the system takes 25 ms, and a local server has none of them.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_local else True,
    )


def send(http: httpx2.Client, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
    """Return the answer to a request, whatever its status. Raises Unreachable and ClickException."""
    try:
        return http.send(request, stream=stream)
    except httpx2.TransportError as error:
        raise unreachable(request.url, error) from error
    except (httpx2.RequestError, httpx2.InvalidURL, UnicodeError) as error:
        raise click.ClickException(f"{host_of(request.url)}: {_reason(error)}") from error


def unreachable(url: httpx2.URL, error: Exception) -> Unreachable:
    """Return the error of a command for a request without an answer."""
    return Unreachable(f"{host_of(url)} cannot be reached: {_reason(error)}")


def _reason(error: Exception) -> str:
    return plain(str(error))[:_LONGEST_REASON] or type(error).__name__


def host_of(url: httpx2.URL) -> str:
    """Return scheme, host and port of an address."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def json_object(answer: httpx2.Response) -> dict[str, Any]:
    """Return the JSON object of an answer. Raises ClickException."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise click.ClickException(
            f"{host_of(answer.url)} does not answer as this service does; is the address right?"
        )
    return body


def refusal(answer: httpx2.Response) -> Refusal:
    """Return what an answer that is no success says, of the API or of the authorization server."""
    try:
        body = answer.json()
        code = str(body["error"])
        message = str(body.get("message") or body.get("error_description") or code)
    except (ValueError, TypeError, KeyError, AttributeError):
        code, message = "", answer.reason_phrase or str(answer.status_code)
    message = plain(message)[:_LONGEST_REASON]
    return Refusal(answer.status_code, code, message, _scopes(answer))


def _scopes(answer: httpx2.Response) -> tuple[str, ...]:
    """Return the scopes in the challenge of an answer."""
    challenge = answer.headers.get("www-authenticate", "")
    _, is_given, rest = challenge.partition('scope="')
    return tuple(plain(rest.partition('"')[0]).split()) if is_given else ()


def failure(answer: httpx2.Response) -> click.ClickException:
    """Return the error of a command for an answer that is no success."""
    server = host_of(answer.url)
    if 300 <= answer.status_code < 400 and "location" in answer.headers:
        place = plain(answer.headers["location"])[:_LONGEST_REASON]
        return click.ClickException(
            f"{server} has moved to {place}: run 'svc login --server' with it"
        )
    refused = refusal(answer)
    text = f"{server} answers {refused.status}: {refused.message}"
    wait_s = answer.headers.get("retry-after", "")
    if wait_s.isascii() and wait_s.isdecimal():
        text += f"; try again in {wait_s[:6]} s"
    return click.ClickException(text)
