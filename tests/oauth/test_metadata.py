"""The metadata of both servers (RFC 8414, RFC 9728): checklist lines 1 to 4."""

import pytest
from starlette.testclient import TestClient

PATH = "/.well-known/oauth-authorization-server"
RESOURCE_PATH = "/.well-known/oauth-protected-resource"


@pytest.mark.checklist(1)
def test_line_1_the_issuer_does_not_depend_on_the_host_header(server: TestClient) -> None:
    response = server.get(
        PATH, headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
    )

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["issuer"] == "http://localhost:8400"


@pytest.mark.checklist(2)
def test_line_2_the_metadata_is_exactly_what_is_served(server: TestClient) -> None:
    document = server.get(PATH).json()

    assert document == {
        "issuer": "http://localhost:8400",
        "authorization_endpoint": "http://localhost:8400/oauth/authorize",
        "token_endpoint": "http://localhost:8400/oauth/token",
        "registration_endpoint": "http://localhost:8400/oauth/register",
        "revocation_endpoint": "http://localhost:8400/oauth/revoke",
        "scopes_supported": [
            "read:activity",
            "read:code",
            "read:health",
            "read:location",
            "read:music",
            "read:content",
            "read:profile",
            "ingest:app_sessions",
            "ingest:coding_sessions",
            "ingest:health",
            "ingest:heartbeats",
        ],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }


@pytest.mark.checklist(2)
@pytest.mark.parametrize(
    ("method", "endpoint", "status"),
    [
        ("GET", "authorization_endpoint", 400),
        ("POST", "token_endpoint", 400),
        ("POST", "registration_endpoint", 400),
        ("POST", "revocation_endpoint", 400),
    ],
)
def test_line_2_each_endpoint_that_is_listed_answers(
    server: TestClient, method: str, endpoint: str, status: int
) -> None:
    address = server.get(PATH).json()[endpoint]

    response = server.request(method, address)

    assert response.status_code == status


@pytest.mark.checklist(4)
def test_line_4_post_is_refused_with_what_is_allowed(server: TestClient) -> None:
    response = server.post(PATH)

    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.checklist(3)
@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (RESOURCE_PATH, "http://testserver"),
        (f"{RESOURCE_PATH}/mcp", "http://testserver/mcp"),
    ],
)
def test_the_resource_metadata_does_not_depend_on_the_host_header(
    api: TestClient, server: TestClient, path: str, resource: str
) -> None:
    response = api.get(path, headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["resource"] == resource
    assert response.json()["authorization_servers"] == [server.get(PATH).json()["issuer"]]


@pytest.mark.checklist(4)
@pytest.mark.parametrize("path", [RESOURCE_PATH, f"{RESOURCE_PATH}/mcp"])
def test_post_to_a_resources_metadata_is_refused(api: TestClient, path: str) -> None:
    response = api.post(path)

    assert response.status_code == 405
    assert "POST" not in response.headers["allow"]


@pytest.mark.parametrize(
    "path", ["/.well-known/openid-configuration", f"{PATH}/", f"{PATH}/oauth", "/.well-known/"]
)
def test_well_known_addresses_that_are_not_served_are_404_in_json(
    server: TestClient, path: str
) -> None:
    response = server.get(path, headers={"Host": "evil.example"}, follow_redirects=False)

    assert response.status_code == 404
    assert response.json()["error"] == "not_found"
