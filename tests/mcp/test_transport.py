"""HTTP at the endpoint: methods, origins, types, sizes, rate limit, and a missing database."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import httpx2
import pytest
from psycopg.conninfo import make_conninfo
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.mcp import route
from resourceserver.mcp.rate_limit import RateLimit
from shared import database, tokens
from shared.settings import ROLES, Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.mcp.assistant import META, Assistant, error, message, routed

OWN: Final = "http://testserver"
PING: Final = message("ping")


@contextmanager
def serving(deployment: Settings, **changed: Any) -> Iterator[TestClient]:
    """The resource server with other settings."""
    chosen = replace(deployment, **{"base_url": OWN, **changed})
    app = resourceserver.app.create(chosen)
    with AppClient(app, raise_server_exceptions=False) as client:
        yield client


# Methods


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "PATCH", "TRACE", "FOO"])
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_another_method_is_405_and_the_answer_names_the_allowed_one(
    api: TestClient, method: str, accept: str
) -> None:
    response = api.request(method, "/mcp", headers={"Accept": accept})

    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    if method != "HEAD":
        assert response.json()["error"] == "method_not_allowed"


def test_a_path_with_another_slash_does_not_exist(assistant: Assistant) -> None:
    response = assistant.client.post("/mcp/", json=PING, headers=assistant.headers)

    assert response.status_code == 404
    assert response.json() == {"error": "not_found", "message": "not found"}


# Origins


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example", "http://testserver.evil.example", "https://testserver", "http://testserver:80",
        "http://TESTSERVER", "null", "", "http://testserver/", "http://localhost:8400",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_pages_of_another_origin_are_refused(
    assistant: Assistant, origin: str, method: str
) -> None:
    response = assistant.client.request(
        method, "/mcp", json=PING, headers=assistant.headers | {"Origin": origin}
    )

    assert response.status_code == 403
    assert response.json()["error"] == "origin_not_allowed"
    assert "www-authenticate" not in response.headers
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8401", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:8401", 200),
        ("evil.example", 421),
        ("evil.example:8401", 421),
        ("localhost.evil.example", 421),
        ("localhost@evil.example", 421),
        ("192.0.2.7", 421),
        ("[::1", 421),
    ],
)
def test_a_server_of_this_machine_answers_only_under_its_own_names(
    deployment: Settings, alice: Person, host: str, status: int
) -> None:
    """A page of another site can give its own name to this machine (DNS rebinding)."""
    with serving(deployment, base_url="http://localhost:8401") as client:
        response = client.post("/mcp", json=PING, headers=alice.headers() | {"Host": host})

    assert response.status_code == status
    if status == 421:
        assert response.json()["error"] == "invalid_request"


def test_a_public_server_leaves_its_name_to_its_proxy(assistant: Assistant) -> None:
    assert assistant.post(PING, Host="backend.internal").status_code == 200


def test_a_request_without_an_origin_is_answered(assistant: Assistant) -> None:
    response = assistant.post(PING)

    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers
    assert "Origin" in response.headers["vary"]


def test_pages_of_the_service_itself_may_use_it(assistant: Assistant) -> None:
    response = assistant.post(PING, Origin=OWN)

    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == OWN


def test_only_pages_of_the_configured_origins_may_use_it(
    deployment: Settings, alice: Person
) -> None:
    with serving(deployment, mcp_origins=("https://inspector.example",)) as client:
        assistant = Assistant(client, alice.headers())

        named = assistant.post(PING, Origin="https://inspector.example")
        other = assistant.post(PING, Origin="https://other.example")

    assert named.status_code == 200
    assert named.headers["access-control-allow-origin"] == "https://inspector.example"
    assert other.status_code == 403


def test_both_of_two_origins_are_checked(assistant: Assistant) -> None:
    pairs = [*assistant.headers.items(), ("Origin", OWN), ("Origin", "https://evil.example")]

    response = assistant.client.post("/mcp", json=PING, headers=httpx2.Headers(pairs))

    assert response.status_code == 403


def test_a_preflight_needs_no_token(api: TestClient) -> None:
    response = api.options(
        "/mcp",
        headers={
            "Origin": OWN,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, mcp-method",
        },
    )

    assert response.status_code == 204
    assert response.content == b""
    assert response.headers["access-control-allow-origin"] == OWN
    assert response.headers["access-control-allow-methods"] == "POST"
    assert response.headers["access-control-allow-headers"] == (
        "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id,"
        " Last-Event-ID"
    )
    assert "access-control-allow-credentials" not in response.headers


def test_a_preflight_without_an_origin_is_answered_too(api: TestClient) -> None:
    assert api.options("/mcp").status_code == 204


def test_pages_may_read_errors_and_challenges(api: TestClient, alice: Person) -> None:
    origin = {"Origin": OWN, "Content-Type": "application/json"}
    few = alice.headers("read:profile")

    answers = [
        api.post("/mcp", json=PING, headers=origin),
        api.post("/mcp", json=PING, headers=origin | few),
        api.post("/mcp", content=b"{", headers=origin | alice.headers()),
        api.get("/mcp", headers=origin),
    ]

    assert [answer.status_code for answer in answers] == [401, 403, 400, 405]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == OWN
        assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]
        assert answer.headers["vary"].count("Origin") == 1


# Types


@pytest.mark.parametrize(
    "given",
    [None, "", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "json"],
)
@pytest.mark.parametrize("headers", [{}, routed("ping")], ids=["legacy", "modern"])
def test_a_body_of_another_type_is_415(
    assistant: Assistant, headers: dict[str, str], given: str | None
) -> None:
    response = assistant.post(
        b'{"jsonrpc":"2.0","id":7,"method":"ping"}', **headers, **{"Content-Type": given}
    )

    assert error(response) == (415, -32600, None)


@pytest.mark.parametrize(
    "given", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON ;x=y"]
)
def test_json_may_have_parameters(assistant: Assistant, given: str) -> None:
    assert assistant.post(PING, Content_Type=given).status_code == 200


def test_a_compressed_body_is_415(assistant: Assistant) -> None:
    assert error(assistant.post(PING, Content_Encoding="gzip")) == (415, -32600, None)


@pytest.mark.parametrize(
    "accept",
    [
        "text/event-stream", "text/html", "application/json;q=0", "application/json; q=0.000, text/plain",
        "application/jsonp", "image/*",
    ],
)  # fmt: skip
def test_a_client_that_accepts_no_json_gets_406(assistant: Assistant, accept: str) -> None:
    assert error(assistant.post(PING, Accept=accept)) == (406, -32600, None)


@pytest.mark.parametrize(
    "accept",
    [
        "application/json, text/event-stream", "application/json", "*/*", "application/*", "",
        "text/event-stream, */*;q=0.1", "Application/JSON;q=0.5", "application/json;q=0, */*", ", ,",
    ],
)  # fmt: skip
def test_a_client_that_accepts_json_in_any_way_is_answered(
    assistant: Assistant, accept: str
) -> None:
    assert assistant.post(PING, Accept=accept).status_code == 200


def test_a_long_answer_is_compressed_for_clients_that_accept_it(assistant: Assistant) -> None:
    packed = assistant.post(message("tools/list"), Accept_Encoding="gzip")
    plain = assistant.post(message("tools/list"), Accept_Encoding="identity")

    assert packed.headers["content-encoding"] == "gzip"
    for answer in (packed, plain):
        vary = answer.headers["vary"].split(", ")
        assert sorted(vary) == ["Accept-Encoding", "Authorization", "Origin"]
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


# Sizes


def padded(size: int) -> bytes:
    """Return a message of that many bytes."""
    body = b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"%b"}}'
    return body % (b"x" * (size - len(body) + 2))


def test_the_longest_body_is_256_kib(assistant: Assistant) -> None:
    assert assistant.post(padded(256 * 1024)).status_code == 200
    assert error(assistant.post(padded(256 * 1024 + 1))) == (413, -32600, None)


def test_eight_mib_are_refused_without_being_parsed(assistant: Assistant) -> None:
    assert error(assistant.post(padded(8 * 1024 * 1024))) == (413, -32600, None)
    assert error(assistant.post(b"\xff" * 8 * 1024 * 1024)) == (413, -32600, None)


def test_a_body_without_an_announced_length_is_limited_too(assistant: Assistant) -> None:
    pieces = (b" " * 1024 for _ in range(1024))

    response = assistant.client.post(
        "/mcp",
        content=pieces,
        headers=assistant.headers | {"Content-Type": "application/json"},
    )

    assert error(response) == (413, -32600, None)


def test_a_body_that_does_not_come_is_refused_in_time(
    api: TestClient, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "_PATIENCE_S", 0.1)
    headers = alice.headers() | {
        "Host": "testserver", "Content-Type": "application/json", "Content-Length": "9"
    }  # fmt: skip
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(name.lower().encode(), each.encode()) for name, each in headers.items()],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def send(part: Any) -> None:
        sent.append(part)

    assert api.portal is not None
    api.portal.call(api.app, scope, receive, send)

    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["error"]["code"] == -32600


# Rate limit


def test_too_many_requests_of_a_person_are_429_with_retry_after(
    deployment: Settings, alice: Person, bob: Person
) -> None:
    with serving(deployment, mcp_calls_per_minute=3) as client:
        first, second, bobs = (
            Assistant(client, person.headers()) for person in (alice, alice, bob)
        )
        in_time = [first.legacy("ping").status_code for _ in range(2)]
        # The minute may end in between, and then the count restarts, but only once.
        answers = [first.legacy("tools/list") for _ in range(8)]
        others = [second.legacy("ping").status_code, bobs.legacy("ping").status_code]

    assert in_time == [200, 200]
    late = next(answer for answer in answers if answer.status_code != 200)
    assert error(late) == (429, 429, 7)
    assert 1 <= int(late.headers["retry-after"]) <= 60
    data = late.json()["error"]["data"]
    assert data["error"] == "rate_limited"
    assert data["message"].startswith("too many requests of this account; try again in ")
    # Her other token counts for her as well.
    assert others == [429, 200]


def test_invalid_messages_count_too(deployment: Settings, alice: Person) -> None:
    with serving(deployment, mcp_calls_per_minute=1) as client:
        assistant = Assistant(client, alice.headers())
        answers = [assistant.post(b"{") for _ in range(3)]

    assert (429, 429, None) in map(error, answers)


def test_a_revoked_token_is_401_even_beyond_the_rate_limit(
    deployment: Settings, alice: Person
) -> None:
    with serving(deployment, mcp_calls_per_minute=1) as client:
        assistant = Assistant(client, alice.headers())
        for _ in range(3):
            assistant.legacy("ping")
        alice.connection.execute("update oauth.grant set revoked_at = now()")
        response = assistant.legacy("ping")

    assert response.status_code == 401


def test_the_count_restarts_after_a_minute() -> None:
    now = [1000.0]
    limit = RateLimit(per_minute=2, clock=lambda: now[0])

    waits = [limit.wait_s(tokens.NOBODY) for _ in range(3)]
    now[0] = 1019.5
    last = limit.wait_s(tokens.NOBODY)
    now[0] = 1020.0
    anew = limit.wait_s(tokens.NOBODY)

    assert waits == [0, 0, 20]
    assert last == 1
    assert anew == 0


def test_zero_calls_a_minute_mean_no_limit() -> None:
    limit = RateLimit(per_minute=0)

    assert {limit.wait_s(tokens.NOBODY) for _ in range(1000)} == {0}


# No database


@pytest.mark.usefixtures("short_wait")
def test_without_a_database_the_answer_is_503_with_the_id_in_time(
    deployment: Settings, alice: Person
) -> None:
    nowhere = {
        role: make_conninfo(database.role_url(deployment, role), host="127.0.0.1", port=1)
        for role in ROLES
    }
    with serving(deployment, role_urls=nowhere) as client:
        assistant = Assistant(client, alice.headers())
        answers = [
            assistant.modern("tools/call", {"name": "get_goals"}),
            assistant.modern("tools/list"),
            assistant.modern("nothing"),
        ]

    for answer in answers:
        assert error(answer) == (503, 503, 7)
        assert answer.json()["error"]["data"] == {
            "error": "database_unavailable",
            "message": "the database does not answer",
        }
        assert answer.headers["retry-after"] == "1"


# The log


def test_the_log_has_route_and_status_and_nothing_of_token_or_message(
    assistant: Assistant, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        assistant.post(message("tools/call", {"_meta": META, "name": "a-secret"}))
        assistant.post(b"another secret")

    assert [record.name for record in caplog.records].count("svc.access") == 2
    assert "secret" not in caplog.text
    assert "svc_dt_" not in caplog.text
    assert "route=mcp method=POST status=400" in caplog.text
