"""Pages of every origin may call REST and ingest with a token, and read errors too."""

from typing import Final

import pytest
from starlette.testclient import TestClient

from resourceserver.api import metadata
from resourceserver.description import openapi
from tests.conftest import Person

ORIGIN: Final = {"Origin": "https://app.example"}
OPEN: Final = sorted(
    {operation.path for operation in openapi.operations() if operation.path.startswith("/api/")}
    | {openapi.PATH, metadata.PATH, f"{metadata.PATH}/mcp", "/api/v1/nothing"}
)


@pytest.mark.parametrize("path", OPEN)
def test_a_page_of_any_origin_may_call_it_and_read_every_answer(api: TestClient, path: str) -> None:
    preflight = api.options(
        path,
        headers=ORIGIN
        | {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type",
        },
    )

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-methods"] == "GET, POST"
    assert preflight.headers["access-control-allow-headers"] == "*, Authorization"
    for method in ("GET", "POST", "DELETE"):
        answer = api.request(method, path, headers=ORIGIN)
        assert answer.headers.get_list("access-control-allow-origin") == ["*"], method
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("missing", ["Origin", "Access-Control-Request-Method"])
def test_an_options_request_that_is_not_a_preflight_is_answered_like_any_other_method(
    api: TestClient, missing: str
) -> None:
    headers = ORIGIN | {"Access-Control-Request-Method": "GET"}
    del headers[missing]

    refused = api.options("/api/v1/me", headers=headers)
    unknown = api.options("/api/v1/nothing", headers=headers)

    assert refused.status_code == 405
    assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert refused.json()["error"] == "method_not_allowed"
    assert refused.headers["access-control-allow-origin"] == "*"
    assert unknown.status_code == 404


def test_pages_may_read_the_headers_that_clients_need(api: TestClient, alice: Person) -> None:
    for headers in ({}, alice.headers()):
        answer = api.get("/api/v1/export", headers=ORIGIN | headers)

        exposed = set(answer.headers["access-control-expose-headers"].split(", "))
        assert exposed == {
            *("Content-Disposition", "Export-Omitted", "Export-Pending-Days"),
            *("Export-Removed-Before", "Retry-After", "WWW-Authenticate", "X-Request-Id"),
        }


@pytest.mark.parametrize("path", ["/docs", "/mcp", "/"])
def test_other_paths_are_not_open_to_all_origins(api: TestClient, path: str) -> None:
    for method in ("GET", "OPTIONS"):
        answer = api.request(method, path, headers=ORIGIN)

        assert "access-control-allow-origin" not in answer.headers
