"""Input that no client means: checklist line 60, and the limits of forms."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from authserver import forms
from authserver.errors import InvalidRequest
from tests.oauth.visitor import Application, Visitor

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
FORM_PATHS = ["/oauth/token", "/oauth/revoke", "/sign-in", "/sign-out", "/oauth/consent", "/join"]
PATHS = [*FORM_PATHS, "/oauth/register"]


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


@pytest.mark.parametrize("path", PATHS)
def test_line_60_ten_thousand_fields_are_refused(server: TestClient, path: str) -> None:
    body = b"&".join(b"field%d=value" % n for n in range(10_000))

    response = server.post(path, content=body, headers=FORM)

    assert response.status_code == (400 if path == "/oauth/register" else 413)


def test_fifty_fields_are_taken_and_one_more_is_not() -> None:
    assert len(forms.decode(b"&".join(b"a%d=" % n for n in range(50))).values) == 50
    with pytest.raises(InvalidRequest):
        forms.decode(b"&".join(b"a%d=" % n for n in range(51)))


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke", "/oauth/register"])
def test_a_chunked_body_is_cut_off_at_the_limit(server: TestClient, path: str) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b"a" * 1024

    kind = "application/json" if path == "/oauth/register" else FORM["Content-Type"]
    response = server.post(path, content=endless(), headers={"Content-Type": kind})

    assert response.status_code == 413
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


@pytest.mark.parametrize("path", ["/sign-in", "/oauth/token", "/nowhere"])
@pytest.mark.parametrize("value", ["a" * 33_000, 'a="' + "\\" * 120_000 + '"'])
def test_more_headers_than_anybody_needs_are_refused(
    server: TestClient, path: str, value: str
) -> None:
    response = server.get(path, headers={"Cookie": value})

    assert response.status_code == 431
    assert response.headers["x-request-id"]
    if path == "/oauth/token":
        assert response.json()["error"] == "invalid_request"
        assert response.headers["access-control-allow-origin"] == "*"
    else:
        assert "more headers than this service takes" in response.text


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
    server: TestClient, path: str, body: bytes, is_json: bool
) -> None:
    kind = "application/json" if is_json else FORM["Content-Type"]

    response = server.post(path, content=body, headers={"Content-Type": kind})

    assert response.status_code < 500


@pytest.mark.parametrize("path", ["/oauth/authorize", "/oauth/consent", "/sign-in", "/join", "/"])
@given(query=BYTES)
def test_no_query_is_an_internal_error(alice_browser: Visitor, path: str, query: bytes) -> None:
    response = alice_browser.get(f"{path}?{quote(query, safe='%&=+;')}")

    assert response.status_code < 500
