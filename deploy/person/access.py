"""Access to the API: an access token that is valid, and requests with it.

    stored token ──► valid? ──────────────────────────────► request ──► answer
                       │ no, or 401                            ▲
                       ▼                                       │
              lock ──► read again ──► another process has renewed it
                       │
                       ▼
              room on the disk ──► refresh ──► store, flush ──► use

A refresh token is valid once. If this process is killed after the server has rotated it and before the new
pair is written, a few milliseconds, the login is lost: the next command presents the old token, the server
revokes the grant, and the person signs in again. The same happens if the network loses the server's answer,
or the power fails before the disk has the new pair.
"""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import click
import httpx2

from deploy.person import requests
from deploy.person.store import Login, Store, Tokens

_MARGIN_S: Final = 60.0
"""A token is renewed so long before it expires: the clocks of two machines differ, and exports take time."""
_REFRESH_TIMEOUT: Final = httpx2.Timeout(15)
_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGTSTP)

AGAIN: Final = "run 'svc login'"


class MissingScope(click.ClickException):
    """The token lacks a scope, because the person did not tick it."""

    def __init__(self, scopes: tuple[str, ...]) -> None:
        """Name the scopes that the request needs, and what to do."""
        self.scopes = scopes
        super().__init__(
            f"this needs the scope {' '.join(scopes)}, which was not granted: {AGAIN} and tick it"
        )


class Answer(NamedTuple):
    """The body of an answer: as the server wrote it, and parsed."""

    text: str
    body: dict[str, Any]


@dataclass(frozen=True)
class API:
    """The REST API of the server at which the person is signed in."""

    http: httpx2.Client
    store: Store

    def get(self, path: str, parameters: Mapping[str, str]) -> Answer:
        """Return the answer of an endpoint. Raises ClickException."""
        answer = self.open(path, parameters, stream=False)
        body = requests.json_object(answer)
        return Answer(answer.text, body)

    def open(self, path: str, parameters: Mapping[str, str], *, stream: bool) -> httpx2.Response:
        """Return a successful answer, whose body may still arrive. Raises ClickException."""
        login = valid(self.store, self.http)
        answer = self._send(login, path, parameters, stream=stream)
        if answer.status_code == 401:
            # The access token was revoked alone, or a clock is wrong.
            answer.close()
            login = valid(self.store, self.http, refused=login.tokens.access_token)
            answer = self._send(login, path, parameters, stream=stream)
        if answer.status_code == 200:
            return answer
        with _closing(answer):
            raise _failure(answer, login)

    def _send(
        self, login: Login, path: str, parameters: Mapping[str, str], *, stream: bool
    ) -> httpx2.Response:
        request = self.http.build_request(
            "GET",
            f"{login.server}{path}",
            params=parameters,
            headers={"Authorization": f"Bearer {login.tokens.access_token}"},
        )
        return requests.send(self.http, request, stream=stream)


@contextmanager
def _closing(answer: httpx2.Response) -> Iterator[None]:
    """Read the rest of an answer, which is an error body, and close it."""
    try:
        answer.read()
        yield
    except httpx2.TransportError as error:
        raise requests.unreachable(answer.url, error) from error
    finally:
        answer.close()


def _failure(answer: httpx2.Response, login: Login) -> click.ClickException:
    refused = requests.refusal(answer)
    match refused.status, refused.code:
        case 401, _:
            return _ended(login)
        case 403, "insufficient_scope":
            missing = tuple(each for each in refused.scopes if each not in login.scopes)
            return MissingScope(missing or refused.scopes)
    return requests.failure(answer)


def _ended(login: Login) -> click.ClickException:
    return click.ClickException(f"the access at {login.server} has ended: {AGAIN}")


def valid(store: Store, http: httpx2.Client, refused: str | None = None) -> Login:
    """Return a login whose access token is not about to expire, and is not the ``refused`` one.

    Raises ClickException.
    """
    login = store.read()
    if not _is_stale(login, refused):
        return login
    with store.locked():
        # Another process may have renewed it while this one waited.
        login = store.read()
        return _renewed(store, http, login) if _is_stale(login, refused) else login


def _is_stale(login: Login, refused: str | None) -> bool:
    tokens = login.tokens
    return tokens.access_token == refused or tokens.expires_at < time.time() + _MARGIN_S


def _renewed(store: Store, http: httpx2.Client, login: Login) -> Login:
    """Spend the refresh token and return the login with the new pair, which is stored first."""
    request = http.build_request(
        "POST",
        login.token_endpoint,
        data={
            "grant_type": "refresh_token",
            "refresh_token": login.tokens.refresh_token,
            "client_id": login.client_id,
        },
        timeout=_REFRESH_TIMEOUT,
    )
    with store.replacement() as replace_login, _uninterrupted():
        answer = requests.send(http, request)
        if answer.status_code in (400, 401):
            refused = requests.refusal(answer)
            if refused.code in ("invalid_grant", "invalid_client"):
                raise _ended(login)
        if answer.status_code != 200:
            raise requests.failure(answer)
        tokens, scope = pair_of(answer)
        renewed = replace(login, tokens=tokens, scope=login.scope if scope is None else scope)
        replace_login(renewed)
    return renewed


def pair_of(answer: httpx2.Response) -> tuple[Tokens, str | None]:
    """Return the tokens of a token response, and the scope if it says one. Raises ClickException."""
    body = requests.json_object(answer)
    access_token, refresh_token = body.get("access_token"), body.get("refresh_token")
    expires_in, scope = body.get("expires_in", 3600), body.get("scope")
    if (
        not isinstance(access_token, str)
        or not isinstance(refresh_token, str)
        or not isinstance(expires_in, int | float)
        or not (scope is None or isinstance(scope, str))
        or str(body.get("token_type", "")).lower() != "bearer"
    ):
        raise click.ClickException(f"{requests.host_of(answer.url)} gives no tokens of OAuth 2.0")
    return Tokens(access_token, refresh_token, time.time() + expires_in), scope


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C and the end of the session until the new pair is stored."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
