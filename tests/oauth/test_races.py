"""Rivals: one secret presented on several connections at once, to an authorization server with two workers,
on committed data.

Each request is sent up to its body and waits there, in its handler; then all bodies go out together.
"""

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any, Final
from urllib.parse import urlencode

import httpx2
import pytest
from psycopg.rows import class_row

from shared.listening import port_of
from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.oauth.conftest import visitor_of
from tests.oauth.visitor import CALLBACK, VERIFIER, Application, Visitor
from tests.processes import Service
from tests.waiting import wait_for

RIVALS: Final = 8
ROUNDS: Final = 8

Request = tuple[str, dict[str, str]]
"""A path and the form that is sent to it."""


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers; the authorization server has two workers."""
    with processes.service(deployment, tmp_path_factory.mktemp("servers"), workers=2) as started:
        yield started


@pytest.fixture
def client(service: Service) -> Iterator[httpx2.Client]:
    """Sends one request after another to the authorization server."""
    with httpx2.Client(base_url=service.auth_url) as opened:
        yield opened


@pytest.fixture
def browser(service: Service, client: httpx2.Client, alice: Person) -> Visitor:
    """A browser in which alice is signed in."""
    return visitor_of(client, service.settings, alice)


@pytest.fixture
def application(client: httpx2.Client) -> Application:
    """A registered application."""
    response = client.post("/oauth/register", json={"redirect_uris": [CALLBACK]})
    return Application(client, response.json()["client_id"])


@dataclass(frozen=True)
class Answer:
    """The response to one of the concurrent requests."""

    status: int
    body: dict[str, Any]


def at_once(url: str, requests: list[Request]) -> list[Answer]:
    """Post forms to the server at ``url``, their bodies all together and in this order."""
    with ExitStack() as opened:
        rivals = []
        for path, fields in requests:
            body = urlencode(fields).encode()
            connection = opened.enter_context(
                socket.create_connection(("127.0.0.1", port_of(url)), timeout=60)
            )
            connection.sendall(
                f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            rivals.append((connection, body))
        for connection, _ in rivals:
            # The server logs this when the handler reads the body, before its first statement.
            assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
        for connection, body in rivals:
            connection.sendall(body)
        return [answer(connection) for connection, _ in rivals]


def answer(connection: socket.socket) -> Answer:
    """Return the response on a connection."""
    with HTTPResponse(connection) as response:
        response.begin()
        content = response.read()
        return Answer(response.status, json.loads(content) if content else {})


def exchange(application: Application, code: str) -> Request:
    """Return the request that presents a code."""
    return "/oauth/token", {
        "grant_type": "authorization_code",
        "client_id": application.client_id,
        "redirect_uri": application.redirect_uri,
        "code": code,
        "code_verifier": VERIFIER,
    }


def refresh(application: Application, pair: dict[str, Any]) -> Request:
    """Return the request that presents a refresh token."""
    return "/oauth/token", {
        "grant_type": "refresh_token",
        "client_id": application.client_id,
        "refresh_token": pair["refresh_token"],
    }


def revoke(pair: dict[str, Any]) -> Request:
    """Return a request that revokes a refresh token."""
    return "/oauth/revoke", {"token": pair["refresh_token"]}


def only_winner(answers: list[Answer]) -> dict[str, Any]:
    """Return the token pair of the only rival that got one; every other must be refused as expected."""
    outcomes = sorted((answer.status, answer.body.get("error")) for answer in answers)
    assert outcomes == [(200, None), *[(400, "invalid_grant")] * (RIVALS - 1)]
    return next(answer.body for answer in answers if answer.status == 200)


def assert_dead(service: Service, application: Application, pair: dict[str, Any]) -> None:
    """See that neither token of a pair is worth anything any more."""
    headers = {"Authorization": f"Bearer {pair['access_token']}"}
    assert httpx2.get(f"{service.base_url}/api/v1/me", headers=headers).status_code == 401
    refused = application.refresh(pair["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


@dataclass(frozen=True)
class Stored:
    """The rows of alice's newest grant."""

    is_revoked: bool
    codes: int
    spent_codes: int
    refresh_tokens: int
    rotated_refresh_tokens: int
    access_tokens: int
    events: list[str]


def stored(alice: Person) -> Stored:
    """Return the rows of alice's newest grant."""
    with alice.connection.cursor(row_factory=class_row(Stored)) as cursor:
        found = cursor.execute(
            """
            with newest as (
                select user_id, grant_id, revoked_at
                  from oauth.grant
                 where user_id = %s
                 order by created_at desc
                 limit 1
            ),
            code as (select * from oauth.authorization_code join newest using (user_id, grant_id)),
            refresh as (select * from oauth.refresh_token join newest using (user_id, grant_id)),
            access as (select * from oauth.access_token join newest using (user_id, grant_id))
            select newest.revoked_at is not null as is_revoked,
                   (select count(*) from code) as codes,
                   (select count(spent_at) from code) as spent_codes,
                   (select count(*) from refresh) as refresh_tokens,
                   (select count(rotated_at) from refresh) as rotated_refresh_tokens,
                   (select count(*) from access) as access_tokens,
                   (select array_agg(event order by event) from identity.security_event
                     where grant_id = newest.grant_id) as events
              from newest
            """,
            [alice.user_id],
        ).fetchone()
    assert found is not None
    return found


@pytest.mark.checklist(28, 29)
def test_of_eight_identical_exchanges_one_wins_and_its_grant_is_revoked(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    for _ in range(ROUNDS):
        code = application.code(browser)

        answers = at_once(service.auth_url, [exchange(application, code)] * RIVALS)

        winner = only_winner(answers)
        assert stored(alice) == Stored(
            is_revoked=True,
            codes=1,
            spent_codes=1,
            refresh_tokens=1,
            rotated_refresh_tokens=0,
            access_tokens=1,
            events=["consented", "replay_detected", "token_created"],
        )
        assert_dead(service, application, winner)


@pytest.mark.checklist(36, 39)
def test_of_eight_identical_refreshes_one_wins_and_its_grant_is_revoked(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    for _ in range(ROUNDS):
        first = application.pair(browser)

        answers = at_once(service.auth_url, [refresh(application, first)] * RIVALS)

        winner = only_winner(answers)
        assert stored(alice) == Stored(
            is_revoked=True,
            codes=1,
            spent_codes=1,
            refresh_tokens=2,
            rotated_refresh_tokens=1,
            access_tokens=2,
            events=["consented", "replay_detected", "token_created"],
        )
        assert_dead(service, application, first)
        assert_dead(service, application, winner)


@pytest.mark.checklist(40, 44, 46)
def test_after_a_concurrent_refresh_and_revocation_no_token_is_valid(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    for number in range(ROUNDS):
        first = application.pair(browser)
        rivals = [refresh(application, first), revoke(first)]
        is_revoke_sent_first = number % 2 == 1

        answers = at_once(service.auth_url, rivals[::-1] if is_revoke_sent_first else rivals)

        refreshed, revoked = answers[::-1] if is_revoke_sent_first else answers
        assert revoked.status == 200
        has_pair = refreshed.status == 200
        assert stored(alice) == Stored(
            is_revoked=True,
            codes=1,
            spent_codes=1,
            refresh_tokens=2 if has_pair else 1,
            rotated_refresh_tokens=1 if has_pair else 0,
            access_tokens=2 if has_pair else 1,
            events=["consented", "revoked", "token_created"],
        )
        if has_pair:
            assert_dead(service, application, refreshed.body)
        else:
            assert (refreshed.status, refreshed.body["error"]) == (400, "invalid_grant")
        assert_dead(service, application, first)


# A reply that is lost.


def lose_the_reply(
    service: Service, application: Application, alice: Person, pair: dict[str, Any]
) -> None:
    """Refresh on a connection that breaks after the rotation, before anything is read of the answer."""
    path, fields = refresh(application, pair)
    body = urlencode(fields).encode()
    with socket.create_connection(("127.0.0.1", port_of(service.auth_url)), timeout=60) as opened:
        # Closing then resets the connection, so that no answer is read by anybody.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        opened.sendall(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n\r\n".encode()
            + body
        )
        wait_for(lambda: stored(alice).rotated_refresh_tokens == 1, "the refresh token is rotated")


def test_a_client_that_has_lost_the_reply_is_signed_out(
    service: Service, browser: Visitor, application: Application, alice: Person
) -> None:
    first = application.pair(browser)
    lose_the_reply(service, application, alice, first)
    kept = alice.connection.execute(
        "select (select count(*) from oauth.refresh_retry), count(retry_until) from oauth.access_token"
    ).fetchone()

    repeated = application.refresh(first["refresh_token"])

    assert kept == (0, 0)
    assert (repeated.status_code, repeated.json()["error"]) == (400, "invalid_grant")
    assert stored(alice).is_revoked
    assert_dead(service, application, first)
