"""Sealed cookies: only what this deployment has written under this name can be read."""

import pytest
from starlette.requests import Request
from starlette.responses import Response

from resourceserver.dashboard.signin.cookie import Cookies, cookies
from shared.settings import Settings

CHOSEN = Settings(base_url="http://localhost:8401")
OWN = cookies(CHOSEN, "the key of these tests")
NAME = "svc-dashboard-8401"
CONTENT = {"token": "abc"}
# Longer than any run of the tests.
GOOD = OWN.encrypt(NAME, CONTENT, 24 * 3600)


def request(value: bytes, name: str = NAME) -> Request:
    return Request({"type": "http", "headers": [(b"cookie", name.encode() + b"=" + value)]})


def test_a_cookie_is_read_where_it_was_written() -> None:
    assert OWN.open(request(GOOD.encode()), NAME) == CONTENT


def test_neither_name_nor_value_reveal_the_content_and_no_two_are_equal() -> None:
    assert "abc" not in GOOD
    assert OWN.encrypt(NAME, CONTENT, 600) != GOOD


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(
            cookies(CHOSEN, "another key").encrypt(NAME, CONTENT, 600).encode(), id="another key"
        ),
        pytest.param(
            Cookies(NAME, "http://localhost:9000", OWN.cipher).encrypt(NAME, CONTENT, 600).encode(),
            id="another address",
        ),
        pytest.param(OWN.encrypt(OWN.round_name, CONTENT, 600).encode(), id="another cookie"),
        pytest.param(OWN.encrypt(NAME, CONTENT, 0).encode(), id="over"),
        pytest.param(GOOD[:-5].encode(), id="truncated"),
        pytest.param(GOOD[:8].encode(), id="shorter than a nonce"),
        pytest.param(
            GOOD[:40].encode() + (b"A" if GOOD[40] != "A" else b"B") + GOOD[41:].encode(),
            id="changed",
        ),
        pytest.param(b"", id="empty"),
        pytest.param(b"nonsense! " * 1000, id="10 KB of nonsense"),
        pytest.param(GOOD.encode() + b"; x=" + b"x" * 20_000, id="among too many"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
def test_any_other_value_counts_as_no_cookie(value: bytes) -> None:
    assert OWN.open(request(value), NAME) is None


def test_the_names_are_those_of_this_port_alone_and_each_can_be_ended() -> None:
    attempt = OWN.attempt_name("0123456789abcdef.secret")
    header = "; ".join(
        [
            "svc-dashboard-8401=a",
            f"{attempt}=b",
            "svc-dashboard-8401-round=c",
            "svc-dashboard-84010=d",
            "svc_session=e",
            # Other programs of the machine can set these.
            "svc-dashboard-8401-attempt-(x)=f",
            "svc-dashboard-8401-attempt-x y=g",
        ]
    )

    names = OWN.names(Request({"type": "http", "headers": [(b"cookie", header.encode())]}))
    response = Response()
    for name in names:
        OWN.delete(response, name)

    assert names == ["svc-dashboard-8401", attempt, "svc-dashboard-8401-round"]
    assert len(response.headers.getlist("set-cookie")) == 3


def test_over_https_a_cookie_belongs_to_one_host() -> None:
    own = cookies(Settings(base_url="https://api.example.org"), "key")
    response = Response()

    own.set(response, own.name, CONTENT, 3600)
    own.delete(response, own.name)

    written, ended = response.headers.getlist("set-cookie")
    assert written.startswith("__Host-svc-dashboard=")
    assert written.endswith("; HttpOnly; Max-Age=3600; Path=/; SameSite=lax; Secure")
    assert ended.startswith('__Host-svc-dashboard=""; ')
    assert "; Max-Age=0; " in ended
    assert ended.endswith("; Path=/; SameSite=lax; Secure")
