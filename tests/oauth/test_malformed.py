"""Input that no client means: checklist line 60, and the limits of forms."""

import json
import select
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from authserver import forms
from authserver.errors import InvalidRequest
from shared.settings import Settings
from tests import processes
from tests.oauth.visitor import Application, Visitor

Rows = psycopg.Connection[Any]

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
FORM_PATHS = [
    "/oauth/token",
    "/oauth/revoke",
    "/sign-in",
    "/sign-out",
    "/oauth/consent",
    "/join",
    "/reset",
]
PATHS = [*FORM_PATHS, "/oauth/register"]


@pytest.mark.checklist(60)
@pytest.mark.parametrize("path", FORM_PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b"token=%00&grant_type=%00",
        b"token=%ff%fe&grant_type=authorization_code&code=%ff",
        b"\xff\xfe\x00=\x00",
        b"%",
        b"&&&===&",
        b"grant_type=authorization_code&code=%ed%a0%80",
        b"\xf0\x9f\x92\xbe=%F0%9F%92%BE",
        b"csrf=%00&next=%00&request=%00&link=%00&email=%00&password=%00",
        b"&".join(b"a%d=1" % n for n in range(10_000))[:60_000],
        b"a=1&" * 51,
    ],
)
def test_line_60_odd_bytes_are_an_ordinary_refusal(
    server: TestClient, path: str, body: bytes
) -> None:
    response = server.post(path, content=body, headers=FORM)

    assert 400 <= response.status_code < 500 or (path, response.status_code) == (
        "/oauth/revoke",
        200,
    )


@pytest.mark.checklist(60)
@pytest.mark.parametrize("path", PATHS)
def test_line_60_ten_thousand_fields_are_refused(server: TestClient, path: str) -> None:
    body = b"&".join(b"field%d=value" % n for n in range(10_000))

    response = server.post(path, content=body, headers=FORM)

    assert response.status_code == (400 if path == "/oauth/register" else 413)


@pytest.mark.checklist(60)
@pytest.mark.parametrize(
    "odd",
    [
        "state=%00",
        "state=%ff%fe",
        "scope=%ed%a0%80",
        "%ff=1&%ff=2",
        "a%00=1&a%00=2",
        "&".join(f"a{n}" for n in range(10_000)),
        "&".join(f"a{n}" for n in range(1_000)),
    ],
    ids=["NUL", "no UTF-8", "a surrogate", "no name", "a name with NUL", "10,000", "1,000"],
)
def test_line_60_an_odd_query_is_an_ordinary_refusal(
    visitor: Visitor, application: Application, odd: str
) -> None:
    path = application.authorize_path(state=None, scope=None)

    response = visitor.get(f"{path}&{odd}")

    assert 400 <= response.status_code < 500
    assert "location" not in response.headers


def test_fifty_fields_are_accepted_and_one_more_is_refused() -> None:
    assert len(forms.decode(b"&".join(b"a%d=" % n for n in range(50))).values) == 50
    with pytest.raises(InvalidRequest):
        forms.decode(b"&".join(b"a%d=" % n for n in range(51)))


@pytest.mark.parametrize("path", PATHS)
def test_a_chunked_body_above_the_limit_is_refused(server: TestClient, path: str) -> None:
    kind = "application/json" if path == "/oauth/register" else FORM["Content-Type"]
    body = iter([b"a" * 1024] * 1000)

    response = server.post(path, content=body, headers={"Content-Type": kind})

    assert response.status_code == 413
    if path.startswith("/oauth/") and path != "/oauth/consent":
        assert response.json()["error"] == "invalid_request"


def test_a_body_of_exactly_the_limit_is_read(server: TestClient) -> None:
    fits = b"token=" + b"a" * (64 * 1024 - 6)

    assert server.post("/oauth/revoke", content=fits, headers=FORM).status_code == 200
    assert server.post("/oauth/revoke", content=fits + b"a", headers=FORM).status_code == 413


@pytest.mark.parametrize(
    "query", ["code=x", "client_id=x", "refresh_token=x", "client_secret=x", "code_verifier=x"]
)
def test_credentials_in_the_query_are_refused(server: TestClient, query: str) -> None:
    response = server.post(f"/oauth/token?{query}", data={"grant_type": "refresh_token"})

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_request"
    assert "query" in response.json()["error_description"]


@pytest.mark.parametrize("name", ["grant_type", "code", "client_id", "unheard_of"])
def test_a_repeated_parameter_is_refused_by_name(
    application: Application, server: TestClient, name: str
) -> None:
    fields = {"grant_type": "authorization_code", "code": "x", "client_id": application.client_id}

    response = server.post("/oauth/token", data={**fields, name: ["a", "b"]})

    assert response.json()["error"] == "invalid_request"
    assert name in response.json()["error_description"]


def test_a_long_name_of_a_repeated_parameter_is_cut_in_the_error(server: TestClient) -> None:
    response = server.post("/oauth/token", data={"n" * 6_000: ["a", "b"]})

    assert response.json()["error_description"] == f"the parameter {'n' * 40} is repeated"


@pytest.mark.parametrize("path", ["/sign-in", "/oauth/token", "/nowhere"])
@pytest.mark.parametrize("value", ["a" * 33_000, 'a="' + "\\" * 120_000 + '"'])
def test_too_many_headers_are_refused(server: TestClient, path: str, value: str) -> None:
    response = server.get(path, headers={"Cookie": value})

    assert response.status_code == 431
    assert response.headers["x-request-id"]
    if path == "/oauth/token":
        assert response.json()["error"] == "invalid_request"
        assert response.headers["access-control-allow-origin"] == "*"
    else:
        assert "more headers than this service accepts" in response.text


@pytest.fixture(scope="module")
def listening(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int]]:
    """The address of the authorization server, as an operator runs it."""
    (port,) = processes.free_ports(1)
    chosen = replace(
        settings, auth_url=f"http://localhost:{port}", base_url="http://localhost:8401"
    )
    with processes.running(
        ["auth", "serve"],
        chosen,
        processes.role_urls(chosen, processes.AUTH_ROLES),
        f"{chosen.auth_url}{processes.METADATA}",
        tmp_path_factory.mktemp("listening") / "auth.log",
    ):
        yield "127.0.0.1", port


def answer_to(address: tuple[str, int], request: Iterator[bytes]) -> bytes:
    """Send a request until the response begins, and return the response."""
    with socket.create_connection(address, timeout=60) as connection:
        try:
            for piece in request:
                connection.sendall(piece)
                if select.select([connection], [], [], 0)[0]:
                    break
            # Nothing more will come, so the server need not wait for it.
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answered = b""
        try:
            while piece := connection.recv(65536):
                answered += piece
        except ConnectionError:
            pass
        return answered


MIB = 1024 * 1024


@pytest.mark.checklist(60)
@pytest.mark.parametrize("path", ["/sign-in", "/oauth/authorize", "/oauth/token"])
@pytest.mark.parametrize(
    "cookies",
    [
        b"Cookie: svc_session=" + b"a" * 10 * MIB + b"\r\n",
        b"Cookie: " + b"a=b; " * (2 * MIB) + b"\r\n",
        (b"Cookie: " + b"a" * 10_000 + b"\r\n") * 1_000,
    ],
    ids=["one", "many", "many headers"],
)
def test_ten_megabytes_of_cookies_are_an_ordinary_refusal(
    listening: tuple[str, int], path: str, cookies: bytes
) -> None:
    def request() -> Iterator[bytes]:
        yield f"GET {path} HTTP/1.1\r\nHost: localhost:{listening[1]}\r\n".encode()
        yield b"Connection: close\r\n"
        for start in range(0, len(cookies), 65536):
            yield cookies[start : start + 65536]
        yield b"\r\n"

    answered = answer_to(listening, request())

    assert answered.startswith(b"HTTP/1.1 431 "), answered[:100]
    assert json.loads(answered.partition(b"\r\n\r\n")[2]) == {
        "error": "invalid_request",
        "error_description": "The headers are larger than 32 KiB.",
    }


@pytest.mark.parametrize(
    ("sent", "status", "description"),
    [
        (b"BREW /oauth/token HTTP/1.1\r\n\r\n", 501, "This method is not known here."),
        (b"POST /oauth/token HTTP\r\n\r\n", 400, "The request is not valid HTTP/1.1."),
    ],
)
def test_a_head_that_cannot_be_parsed_is_answered_in_json(
    listening: tuple[str, int], sent: bytes, status: int, description: str
) -> None:
    answered = answer_to(listening, iter([sent]))

    assert answered.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(answered.partition(b"\r\n\r\n")[2]) == {
        "error": "invalid_request",
        "error_description": description,
    }


@pytest.mark.checklist(60)
@pytest.mark.parametrize("path", PATHS)
def test_a_chunked_body_without_end_is_cut_off(listening: tuple[str, int], path: str) -> None:
    kind = "application/json" if path == "/oauth/register" else FORM["Content-Type"]
    sent = 0

    def request() -> Iterator[bytes]:
        nonlocal sent
        yield (
            f"POST {path} HTTP/1.1\r\nHost: localhost:{listening[1]}\r\n"
            f"Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        ).encode()
        while sent < 64 * MIB:
            sent += 4096
            yield b"1000\r\n" + b"a" * 4096 + b"\r\n"

    answered = answer_to(listening, request())

    assert answered.startswith(b"HTTP/1.1 413 ")
    assert sent < 64 * MIB


NAMES = (
    "grant_type code client_id redirect_uri code_verifier token refresh_token scope resource email "
    "password next csrf request decision link"
)
VALUES = (
    f"authorization_code refresh_token svc_client_{'0' * 22} svc_ac_{'0' * 71} %00 %ff %ed%a0%80 "
    f"{'a' * 43} allow"
)
BYTES = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.tuples(
            st.sampled_from(NAMES.split()),
            st.one_of(
                st.sampled_from(VALUES.split()),
                st.text(max_size=20),
            ),
        ),
        max_size=8,
    ).map(lambda pairs: "&".join(f"{k}={v}" for k, v in pairs).encode("utf-8", "surrogatepass")),
)


@pytest.mark.parametrize("path", PATHS)
@given(body=BYTES, is_json=st.booleans())
def test_no_body_is_an_internal_error(
    server: TestClient, owner: Rows, path: str, body: bytes, is_json: bool
) -> None:
    # Otherwise most of the registrations would be throttled before their bodies are read.
    owner.execute("delete from identity.throttle")
    kind = "application/json" if is_json else FORM["Content-Type"]

    response = server.post(path, content=body, headers={"Content-Type": kind})

    assert response.status_code < 500


@pytest.mark.parametrize("path", ["/oauth/authorize", "/oauth/consent", "/sign-in", "/join", "/"])
@given(query=BYTES)
def test_no_query_is_an_internal_error(alice_browser: Visitor, path: str, query: bytes) -> None:
    response = alice_browser.get(f"{path}?{quote(query, safe='%&=+;')}")

    assert response.status_code < 500


@pytest.mark.parametrize("path", ["/oauth/", "/oauth/nothing", "/oauth/token/x"])
def test_an_unknown_path_for_clients_is_404_in_json(server: TestClient, path: str) -> None:
    for method in ("GET", "POST"):
        response = server.request(method, path)

        assert response.status_code == 404
        assert response.json()["error"] == "not_found"
