"""Which origins may read which responses (the CORS protocol)."""

import pytest
from starlette.testclient import TestClient

MACHINES = [
    "/.well-known/oauth-authorization-server",
    "/oauth/register",
    "/oauth/token",
    "/oauth/revoke",
]
PAGES = ["/", "/sign-in", "/sign-out", "/oauth/authorize", "/oauth/consent", "/join", "/nothing"]
ORIGIN = {"Origin": "https://app.example"}


@pytest.mark.parametrize("path", MACHINES)
def test_any_origin_may_send_a_preflight_and_any_header(server: TestClient, path: str) -> None:
    response = server.options(
        path,
        headers=ORIGIN
        | {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type, mcp-protocol-version, authorization",
        },
    )

    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.headers["access-control-allow-methods"] == "GET, POST"
    assert response.headers["access-control-allow-headers"] == "*, Authorization"
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("path", MACHINES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_any_origin_may_read_every_response_including_errors(
    server: TestClient, path: str, method: str
) -> None:
    response = server.request(method, path, headers=ORIGIN)

    assert response.headers.get_list("access-control-allow-origin") == ["*"]
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.checklist(21)
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_line_21_no_origin_may_read_a_page(server: TestClient, path: str, method: str) -> None:
    response = server.request(method, path, headers=ORIGIN, follow_redirects=False)

    assert "access-control-allow-origin" not in response.headers
