"""The sign-in of ``svc login``: registration, authorization in the browser, and exchange of the code.

    bind a port ──► register with it (RFC 7591) ──► browser: sign in, consent ──► code ──► token pair

The port is bound first, so the registered redirect URI is exactly the one that is used, and no other process
can listen on it meanwhile. PKCE (RFC 7636) makes the code useless for others.
"""

import base64
import hashlib
import platform
import secrets
import threading
import webbrowser
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlencode

import click
import httpx2

from deploy.person import access, requests
from deploy.person.callback import Callback, Return
from deploy.person.discovery import Endpoints
from deploy.person.store import Login
from shared.screen import plain

LIMIT_S: Final = 300.0
"""How long the command waits for the browser."""
_LONGEST_NAME: Final = 60
_TEXT_BROWSERS: Final = frozenset(("elinks", "links", "lynx", "w3m", "www-browser"))
"""Browsers that would need the terminal for themselves."""


def sign_in(
    http: httpx2.Client,
    endpoints: Endpoints,
    scopes: Iterable[str],
    *,
    use_browser: bool,
    is_in_keyring: bool,
    say: Callable[[str], None],
) -> Login:
    """Return a new login, once the person has consented. Raises ClickException."""
    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    scope = " ".join(scopes)
    try:
        callback = Callback(state, endpoints.issuer, is_issuer_named=endpoints.is_issuer_in_answers)
    except OSError as error:
        raise click.ClickException(f"cannot listen on this machine: {error.strerror}") from error
    with callback:
        client_id = _register(http, endpoints, callback.redirect_uri, scope)
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": callback.redirect_uri,
            "scope": scope,
            "state": state,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
            "resource": endpoints.server,
        }
        mark = "&" if "?" in endpoints.authorization else "?"
        address = f"{endpoints.authorization}{mark}{urlencode(query)}"
        is_opening = use_browser and _open(address)
        say(_instructions(address, callback.port, is_opening=is_opening))
        code = _code(callback.wait(LIMIT_S))
        return _exchange(
            http,
            endpoints,
            {
                "grant_type": "authorization_code",
                "code": code,
                "client_id": client_id,
                "redirect_uri": callback.redirect_uri,
                "code_verifier": verifier,
                "resource": endpoints.server,
            },
            requested_scope=scope,
            is_in_keyring=is_in_keyring,
        )


def _challenge(verifier: str) -> str:
    """Return the code challenge (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _register(http: httpx2.Client, endpoints: Endpoints, redirect_uri: str, scope: str) -> str:
    """Register this installation for one sign-in, and return its client id. Raises ClickException."""
    machine = plain(platform.node())[:_LONGEST_NAME]
    request = http.build_request(
        "POST",
        endpoints.registration,
        json={
            "client_name": f"svc on {machine}" if machine else "svc",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": scope,
        },
    )
    answer = requests.send(http, request)
    if answer.status_code != 201:
        raise requests.failure(answer)
    client_id = requests.json_object(answer).get("client_id")
    if not isinstance(client_id, str):
        raise click.ClickException(f"{endpoints.issuer} gives no client id")
    return client_id


def _open(address: str) -> bool:
    """Open an address in the person's browser if there is one with a window of its own."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if getattr(browser, "name", "") in _TEXT_BROWSERS:
        return False
    # Some browsers return only when they are closed.
    threading.Thread(target=browser.open, args=(address,), daemon=True).start()
    return True


def _instructions(address: str, port: int, *, is_opening: bool) -> str:
    lead = (
        "Your browser opens this address; if it does not, open it there:"
        if is_opening
        else "Open this address in a browser:"
    )
    return (
        f"{lead}\n\n{address}\n\n"
        f"Waiting for {LIMIT_S / 60:.0f} minutes. A browser on another computer ends on an address that it"
        f" cannot reach, http://127.0.0.1:{port}/callback?...: paste that address here. Or connect with"
        f" 'ssh -L {port}:127.0.0.1:{port}' first."
    )


def _code(returned: Return | None) -> str:
    """Return the code. Raises ClickException if the browser brought none."""
    if returned is None:
        raise click.ClickException(
            f"nobody signed in within {LIMIT_S / 60:.0f} minutes: run 'svc login' again"
        )
    if returned.code is not None:
        return returned.code
    if returned.error == "access_denied":
        raise click.ClickException("the access was declined in the browser")
    reason = plain(returned.description or returned.error or "no reason")
    raise click.ClickException(f"the authorization server refuses: {reason}")


def _exchange(
    http: httpx2.Client,
    endpoints: Endpoints,
    form: dict[str, str],
    *,
    requested_scope: str,
    is_in_keyring: bool,
) -> Login:
    """Redeem a code. Raises ClickException."""
    answer = requests.send(http, http.build_request("POST", endpoints.token, data=form))
    if answer.status_code != 200:
        raise requests.failure(answer)
    tokens, scope = access.pair_of(answer)
    return Login(
        server=endpoints.server,
        issuer=endpoints.issuer,
        token_endpoint=endpoints.token,
        revocation_endpoint=endpoints.revocation,
        client_id=form["client_id"],
        scope=requested_scope if scope is None else scope,
        is_in_keyring=is_in_keyring,
        tokens=tokens,
    )


def revoke(http: httpx2.Client, login: Login) -> None:
    """End a grant with all its tokens (RFC 7009). Raises ClickException."""
    if login.revocation_endpoint is None:
        raise click.ClickException(f"{login.issuer} has no address for revocation")
    form = {"token": login.tokens.refresh_token, "client_id": login.client_id}
    answer = requests.send(http, http.build_request("POST", login.revocation_endpoint, data=form))
    if answer.status_code != 200:
        raise requests.failure(answer)
