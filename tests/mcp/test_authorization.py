"""Access to the endpoint: the challenges, and the metadata documents that they refer to."""

from typing import Any, Final

import pytest
from httpx2 import Headers
from starlette.testclient import TestClient

from shared import tokens
from shared.scopes import SCOPES
from tests.conftest import Person
from tests.mcp.assistant import META, Assistant, error, message, routed

BASE: Final = "http://testserver"
MCP: Final = f"{BASE}/mcp"
WHERE: Final = f'resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"'
ENTRY: Final = f'Bearer {WHERE}, scope="read:activity"'
INVALID: Final = f'Bearer error="invalid_token", {WHERE}, scope="read:activity"'
PING: Final = message("ping")


# Documents


def test_the_document_of_the_endpoint_has_its_exact_address(
    api: TestClient,
) -> None:
    response = api.get(
        "/.well-known/oauth-protected-resource/mcp",
        headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"},
    )

    assert response.status_code == 200
    document = response.json()
    assert document["resource"] == MCP
    assert document["authorization_servers"] == ["http://localhost:8400"]
    assert document["bearer_methods_supported"] == ["header"]
    assert document["scopes_supported"] == [
        "read:activity", "read:code", "read:health", "read:location", "read:music", "read:content",
        "read:profile",
    ]  # fmt: skip


def test_the_document_of_the_service_has_its_address_without_a_slash(api: TestClient) -> None:
    document = api.get("/.well-known/oauth-protected-resource").json()

    assert document["resource"] == BASE
    assert document["scopes_supported"] == list(SCOPES)


@pytest.mark.parametrize("path", ["/mcp/", "/api/v1/me", "//mcp"])
def test_other_documents_do_not_exist(api: TestClient, path: str) -> None:
    response = api.get(f"/.well-known/oauth-protected-resource{path}")

    assert response.status_code == 404
    assert response.json() == {"error": "not_found", "message": "not found"}


# No token, or an invalid one


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"jsonrpc":"2.0","id":7,"method":"ping"}'])
def test_without_a_token_the_challenge_names_the_metadata_and_the_scope(
    api: TestClient, body: bytes
) -> None:
    response = api.post("/mcp", content=body)

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == ENTRY
    assert response.json() == {"error": "unauthorized", "message": "a token is required"}


def test_no_header_changes_the_address_in_the_challenge(api: TestClient) -> None:
    elsewhere = {
        "Host": "evil.example",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "Forwarded": "host=evil.example",
    }

    response = api.post("/mcp", json=PING, headers=elsewhere)

    assert response.headers["www-authenticate"] == ENTRY


@pytest.mark.parametrize("given", ["Basic YTpi", "Bearer", "Bearer ", "svc_dt_x"])
def test_a_header_without_a_bearer_token_is_no_credential(api: TestClient, given: str) -> None:
    response = api.post("/mcp", json=PING, headers={"Authorization": given})

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == ENTRY


def unknown(alice: Person) -> str:
    return tokens.mint(tokens.ACCESS, alice.user_id).text


def expired(alice: Person) -> str:
    return alice.token(expires="-1 second")


def revoked(alice: Person) -> str:
    text = alice.token()
    alice.connection.execute("update oauth.grant set revoked_at = now()")
    return text


def malformed(alice: Person) -> str:
    return alice.token()[:-1] + "-"


def refreshing(alice: Person) -> str:
    return tokens.mint(tokens.REFRESH, alice.user_id).text


def of_another_resource(alice: Person) -> str:
    return alice.token(resource="https://other.example/mcp")


@pytest.mark.parametrize(
    "presented", [unknown, expired, revoked, malformed, refreshing, of_another_resource]
)
@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b'{"jsonrpc":"2.0","id":7,"method":"ping"}', b'{"jsonrpc":"2.0","method":"x"}',
        b'{"jsonrpc":"2.0","id":7,"method":"nothing"}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":7,"method":"initialize"}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_listening"}}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_listening","arguments":{"x":1}}}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"no_tool"}}',
        b" " * 300_000,
    ],
    ids=range(11),
)  # fmt: skip
def test_an_invalid_token_is_the_only_reported_error_for_any_body(
    api: TestClient, alice: Person, presented: Any, body: bytes
) -> None:
    headers = {"Authorization": f"Bearer {presented(alice)}", "Content-Type": "application/json"}

    response = api.post("/mcp", content=body, headers=headers)

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == INVALID
    assert response.json()["error"] == "unauthorized"


def test_an_invalid_token_is_reported_before_media_types(api: TestClient, alice: Person) -> None:
    headers = {"Authorization": f"Bearer {unknown(alice)}", "Content-Type": "text/plain"}

    response = api.post("/mcp", content=b"x", headers=headers | {"Accept": "text/html"})

    assert response.status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_have_any_case(api: TestClient, alice: Person, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {alice.token()}"}

    assert api.post("/mcp", json=PING, headers=headers).status_code == 200


@pytest.mark.parametrize("name", ["access_token", "token", "authorization"])
def test_a_token_in_the_address_or_the_body_is_ignored(
    api: TestClient, alice: Person, name: str
) -> None:
    token = alice.token()

    in_query = api.post("/mcp", params={name: token}, json=PING)
    in_body = api.post("/mcp", json=PING | {name: token})

    assert (in_query.status_code, in_body.status_code) == (401, 401)
    assert in_query.headers["www-authenticate"] == ENTRY


def test_two_tokens_are_refused(api: TestClient, alice: Person) -> None:
    pairs = [("Authorization", f"Bearer {alice.token()}") for _ in range(2)]

    assert api.post("/mcp", json=PING, headers=Headers(pairs)).status_code == 401


# Audiences


@pytest.mark.parametrize(
    ("resource", "at_mcp", "elsewhere"), [(MCP, 200, 401), (BASE, 200, 200), (None, 200, 200)]
)
def test_a_token_of_the_endpoint_works_only_there_and_one_of_the_service_everywhere(
    api: TestClient, alice: Person, resource: str | None, at_mcp: int, elsewhere: int
) -> None:
    headers = {"Authorization": f"Bearer {alice.token(resource=resource)}"}

    assert api.post("/mcp", json=PING, headers=headers).status_code == at_mcp
    assert api.get("/api/v1/me", headers=headers).status_code == elsewhere


# Scopes


@pytest.mark.parametrize("scopes", [("read:profile",), ("read:music", "ingest:app_sessions")])
@pytest.mark.parametrize(
    "body",
    [
        PING,
        message("tools/list"),
        message("initialize"),
        message("nothing"),
        message("x", id=None),
        message("tools/call", {"name": "get_goals"}),
        message("tools/call", {"name": "no_tool"}),
        [],
    ],
    ids=range(8),
)
def test_without_read_activity_every_request_is_refused(
    api: TestClient, alice: Person, scopes: tuple[str, ...], body: Any
) -> None:
    response = api.post("/mcp", json=body, headers=alice.headers(*scopes))

    assert response.status_code == 403
    assert response.headers["www-authenticate"] == (
        f'Bearer error="insufficient_scope", scope="read:activity", {WHERE}, '
        'error_description="read:activity is required"'
    )
    assert response.json() == {
        "error": "insufficient_scope",
        "message": "read:activity is required",
    }


def test_a_call_without_read_activity_names_the_scope_of_its_tool_at_once(
    api: TestClient, alice: Person
) -> None:
    call = message("tools/call", {"name": "get_listening"})

    response = api.post("/mcp", json=call, headers=alice.headers("read:profile"))

    assert response.status_code == 403
    assert 'scope="read:activity read:music"' in response.headers["www-authenticate"]
    assert response.json()["message"] == "read:activity is required"


@pytest.mark.parametrize("is_modern", [True, False], ids=["modern", "legacy"])
@pytest.mark.parametrize("arguments", [{}, {"top": "a mistake"}, {"tz": "nowhere"}])
def test_a_tool_whose_scope_is_missing_names_all_that_the_call_needs_in_one_challenge(
    api: TestClient, alice: Person, *, is_modern: bool, arguments: dict[str, Any]
) -> None:
    assistant = Assistant(api, alice.headers("read:activity", "read:profile"))
    params = {"name": "get_listening", "arguments": arguments}

    response = (assistant.modern if is_modern else assistant.legacy)("tools/call", params)

    assert error(response) == (403, 403, 7)
    assert response.headers.get_list("www-authenticate") == [
        f'Bearer error="insufficient_scope", scope="read:activity read:music", {WHERE}, '
        'error_description="read:music is required"'
    ]
    assert response.json()["error"] == {
        "code": 403,
        "message": (
            "read:music is required. Connect this application again, and on the page that asks for your "
            "consent tick: See what you listen to"
        ),
        "data": {"error": "insufficient_scope", "message": "read:music is required"},
    }


def test_tools_stay_listed_without_their_scopes(api: TestClient, alice: Person) -> None:
    few = Assistant(api, alice.headers("read:activity")).modern("tools/list").json()
    all_ = Assistant(api, alice.headers()).modern("tools/list").json()

    assert few == all_


def test_a_tool_answers_with_its_scope(api: TestClient, alice: Person) -> None:
    assistant = Assistant(api, alice.headers("read:activity", "read:music"))

    assert assistant.ask("get_listening")["totals"]["play_count"] == 0


def test_a_narrowed_or_ended_grant_affects_the_next_call(api: TestClient, alice: Person) -> None:
    assistant = Assistant(api, alice.headers())
    before = assistant.call("get_listening").status_code
    alice.connection.execute(
        "update oauth.access_token set scopes = '{read:activity}' where user_id = %s",
        [alice.user_id],
    )
    narrowed = assistant.call("get_listening").status_code
    alice.connection.execute("update oauth.grant set revoked_at = now()")
    ended = assistant.call("get_goals").status_code

    assert (before, narrowed, ended) == (200, 403, 401)


def test_no_argument_names_a_person(api: TestClient, alice: Person, bob: Person) -> None:
    said = Assistant(api, alice.headers()).mistake("get_goals", user_id=str(bob.user_id))

    assert said == "user_id: there is no such argument; there are tz"


def test_a_call_of_a_tool_counts_as_a_use_of_the_token(api: TestClient, alice: Person) -> None:
    app: Any = api.app
    headers = alice.headers()
    token = tokens.parse(tokens.ACCESS, headers["Authorization"].removeprefix("Bearer "))
    assert token is not None
    endpoint = next(route.endpoint for route in app.routes if route.name == "mcp")
    endpoint.reader.usage.waiting.clear()

    api.post(
        "/mcp", json=message("tools/list", {"_meta": META}), headers=headers | routed("tools/list")
    )

    assert set(endpoint.reader.usage.waiting) == {token.hash}
