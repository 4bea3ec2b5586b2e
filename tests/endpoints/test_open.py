"""Routes without a credential, and properties of every answer."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

import resourceserver.app
from authserver.oauth import grants
from resourceserver.api.session import Reader
from resourceserver.dashboard.views import VIEWS
from resourceserver.description import capabilities
from resourceserver.description.guide import GUIDES
from shared.connections import KINDS
from shared.scopes import SCOPES
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person


@pytest.fixture
def without_database(deployment: Settings) -> Any:
    """The resource server without a database."""
    nowhere = dict.fromkeys(("reader", "ingester", "worker"), "host=127.0.0.1 port=1 dbname=svc")
    app = resourceserver.app.create(
        replace(deployment, base_url="http://testserver", role_urls=nowhere)
    )
    with AppClient(app, raise_server_exceptions=False) as client:
        yield client


def test_healthz_reports_a_working_service_and_its_build(api: TestClient) -> None:
    answer = api.get("/healthz")

    body = answer.json()
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert set(body) == {
        *("status", "database", "storage", "replica", "build", "uptime_ms", "time")
    }
    assert body["storage"] == {"status": "unknown", "free_mib": None}
    assert body["status"] == "ok"
    assert body["database"]["status"] == "ok"
    assert isinstance(body["database"]["latency_ms"], int)
    assert body["build"] == {"version": "1.0.0", "commit": "abc1234", "built_at": None}


@pytest.mark.usefixtures("short_wait")
def test_healthz_is_503_with_an_error_body_without_the_database(
    without_database: TestClient,
) -> None:
    answer = without_database.get("/healthz")

    body = answer.json()
    assert answer.status_code == 503
    assert body["status"] == "unavailable"
    assert body["error"] == "database_unavailable"
    assert body["message"] == "the database does not answer"
    assert body["database"] == {"status": "unreachable", "latency_ms": None}
    assert set(body) == {
        *("status", "error", "message", "database", "storage", "replica"),
        *("build", "uptime_ms", "time"),
    }


def test_the_capabilities_are_those_of_this_deployment(
    api: TestClient, deployment: Settings
) -> None:
    answer = api.get("/api/v1/capabilities")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "service": "personal-activity-analytics",
        "api_version": "1.0.0",
        "deployment": "self_hosted",
        "features": {
            "ingest": {
                "app_sessions": True,
                "coding_sessions": True,
                "health": False,
                "heartbeats": False,
            },
            "mcp": {
                "enabled": True,
                "path": "/mcp",
                "protocol_versions": ["2026-07-28", "2025-11-25", "2025-06-18"],
            },
            "oauth": {
                "enabled": True,
                "issuer": deployment.auth_url,
                "dynamic_registration": True,
            },
            "export": {"enabled": True, "formats": ["json", "csv", "ndjson", "zip"]},
            "uploads": {
                "enabled": False,
                "path": "/api/v1/imports/",
                "max_file_bytes": 20 * 2**30,
                "max_piece_bytes": 8 * 2**20,
            },
            "correlation": True,
            "summaries": True,
            "insights": False,
            "transcription": False,
            "billing": False,
            "organizations": True,
        },
        "integrations": [
            {
                "provider": kind.name,
                "kind": kind.data,
                # Without receivers and without a key for secrets, what needs neither remains.
                "configured": kind.name == "listenbrainz_user",
            }
            for kind in KINDS.values()
        ],
        "limits": {
            "max_events_per_batch": 1000,
            "access_token_lifetime_ms": 3600000,
            "rate_limit": {"path": "/mcp", "requests": 600, "window_ms": 60000},
        },
    }


def test_the_settings_decide_about_deployment_and_rate_limit(deployment: Settings) -> None:
    body = capabilities.of(
        replace(
            deployment,
            deployment="hosted",
            mcp_calls_per_minute=0,
            upload_dir=Path("/srv/uploads"),
            upload_mib=1,
        )
    )

    assert body.deployment == "hosted"
    assert (body.features.uploads.enabled, body.features.uploads.max_file_bytes) == (True, 2**20)
    assert body.limits.rate_limit is None


def test_exactly_the_listed_features_answer(api: TestClient) -> None:
    features = api.get("/api/v1/capabilities").json()["features"]

    def is_there(method: str, path: str) -> bool:
        return bool(api.request(method, path).status_code != 404)

    assert features["ingest"] == {
        stream: is_there("POST", f"/api/v1/ingest/{stream.replace('_', '-')}")
        for stream in ("app_sessions", "coding_sessions", "health", "heartbeats")
    }
    assert features["mcp"]["enabled"] is is_there("POST", features["mcp"]["path"])
    assert features["export"]["enabled"] is is_there("GET", "/api/v1/export")
    assert features["correlation"] is is_there("GET", "/api/v1/account/correlation")
    assert features["summaries"] is is_there("GET", "/api/v1/account/summaries")
    assert features["organizations"] is is_there("GET", "/api/v1/orgs")


def test_the_published_lifetime_is_that_of_tokens() -> None:
    published = timedelta(milliseconds=capabilities.ACCESS_TOKEN_LIFETIME_MS)

    assert published == grants.ACCESS_TOKEN_LIFETIME


def test_only_routes_without_data_need_no_credential(api: TestClient) -> None:
    app = cast("Starlette", api.app)
    paths = {
        route.path: method
        for route in app.routes
        if isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD", "OPTIONS"})
    }

    is_open = {
        path for path, method in paths.items() if api.request(method, path).status_code != 401
    }

    assert is_open == {
        "/",
        "/healthz",
        "/readyz",
        "/api/v1/capabilities",
        "/api/v1/ingest/schema",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/openapi.json",
        "/docs",
        "/docs/docs.css",
        "/docs/docs.js",
        "/docs/guide.css",
        *(guide.path for guide in GUIDES),
        "/docs/swagger-ui-bundle.js",
        "/docs/swagger-ui.css",
        # Views are tested in tests/dashboard: without a token they lead to the authorization server.
        *(path for view in VIEWS for path in view.paths),
        "/sign-in",
        "/signed-in",
        "/sign-out",
        "/signed-out.svg",
    }


@pytest.mark.usefixtures("short_wait")
def test_descriptions_of_the_service_need_no_database(without_database: TestClient) -> None:
    for path in ("/api/v1/capabilities", "/api/v1/ingest/schema", "/openapi.json", "/docs"):
        assert without_database.get(path).status_code == 200


@pytest.mark.usefixtures("short_wait")
def test_a_read_without_the_database_is_503_with_retry_after(
    without_database: TestClient, alice: Person
) -> None:
    answer = without_database.get("/api/v1/me", headers=alice.headers("read:profile"))

    assert answer.status_code == 503
    assert answer.json() == {
        "error": "database_unavailable",
        "message": "the database does not answer",
    }
    assert answer.headers["retry-after"] == "1"


def test_the_resource_names_its_issuer_and_scopes(api: TestClient, deployment: Settings) -> None:
    answer = api.get(
        "/.well-known/oauth-protected-resource", headers={"Host": "evil.example", "X-Mine": "1"}
    )

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.json() == {
        "resource": "http://testserver",
        "authorization_servers": [deployment.auth_url],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "Personal Activity Analytics",
    }


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/nothing", "/api/v1/me/x", "/%00", "/é"])
def test_a_path_without_a_route_is_404_with_and_without_a_token(
    api: TestClient, alice: Person, path: str
) -> None:
    for headers in ({}, alice.headers()):
        answer = api.get(path, headers=headers)

        assert answer.status_code == 404
        assert answer.json() == {"error": "not_found", "message": "not found"}


def test_a_long_answer_is_compressed_only_for_clients_that_accept_it(
    api: TestClient, alice: Person
) -> None:
    params = {"from": "2025-01-01", "to": "2025-12-31"}
    headers = alice.headers("read:activity")

    plain = api.get(
        "/api/v1/analytics/daily", params=params, headers=headers | {"Accept-Encoding": "identity"}
    )
    packed = api.get(
        "/api/v1/analytics/daily", params=params, headers=headers | {"Accept-Encoding": "gzip"}
    )

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == plain.json()
    for answer in (plain, packed):
        assert answer.headers.get_list("vary") == ["Authorization, Accept-Encoding"]


def test_an_unexpected_error_has_only_an_id(
    api: TestClient,
    alice: Person,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: object, **__: object) -> bytes:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(Reader, "read", fail)

    answer = api.get("/api/v1/me", headers=alice.headers("read:profile"))

    assert answer.status_code == 500
    assert answer.json()["error"] == "internal_error"
    assert "hunter2" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert any(
        answer.headers["x-request-id"] in record.getMessage()
        for record in caplog.records
        if record.name == "svc.error"
    )


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YTpi", "bearer", "Token x", "svc_dt_x"],
)
def test_a_header_without_a_bearer_token_counts_as_no_credential(
    api: TestClient, header: str
) -> None:
    answer = api.get("/api/v1/me", headers={"Authorization": header})

    assert answer.status_code == 401
    assert "error=" not in answer.headers["www-authenticate"]


@pytest.mark.checklist(47)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_may_have_any_case(api: TestClient, alice: Person, scheme: str) -> None:
    answer = api.get("/api/v1/me", headers={"Authorization": f"{scheme} {alice.token()}"})

    assert answer.status_code == 200


def test_two_credentials_are_refused(api: TestClient, alice: Person) -> None:
    good = f"Bearer {alice.token()}"

    answer = api.get("/api/v1/me", headers=[("Authorization", good), ("Authorization", good)])

    assert answer.status_code == 401


@pytest.mark.checklist(51)
def test_a_token_in_the_query_is_ignored(api: TestClient, alice: Person) -> None:
    answer = api.get("/api/v1/me", params={"access_token": alice.token()})

    assert answer.status_code == 401


@pytest.mark.checklist(51)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/v1/me"), ("POST", "/api/v1/ingest/app-sessions")]
)
def test_a_token_in_the_body_is_ignored(
    api: TestClient, alice: Person, method: str, path: str
) -> None:
    answer = api.request(method, path, data={"access_token": alice.token()})

    assert answer.status_code == 401
    assert "error=" not in answer.headers["www-authenticate"]


@pytest.mark.checklist(52)
@pytest.mark.parametrize(
    "resource", ["https://other.example", "http://testserver.other.example", "http://testserver:81"]
)
def test_a_token_for_another_service_is_refused(
    api: TestClient, alice: Person, resource: str
) -> None:
    headers = {"Authorization": f"Bearer {alice.token(resource=resource)}"}

    read = api.get("/api/v1/me", headers=headers)
    written = api.post("/api/v1/ingest/app-sessions", json={"events": []}, headers=headers)

    for answer in (read, written):
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]


@pytest.mark.checklist(48)
def test_the_challenge_names_the_configured_resource_for_any_host(api: TestClient) -> None:
    forged = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}

    read = api.get("/api/v1/me", headers=forged)
    written = api.post("/api/v1/ingest/app-sessions", headers=forged)

    for answer in (read, written):
        assert answer.status_code == 401
        assert (
            'resource_metadata="http://testserver/.well-known/oauth-protected-resource"'
            in answer.headers["www-authenticate"]
        )
        assert "evil" not in str(answer.headers) + answer.text


@pytest.mark.checklist(54)
def test_the_token_of_a_deleted_account_is_unknown(api: TestClient, alice: Person) -> None:
    headers = alice.headers()
    before = api.get("/api/v1/me", headers=headers)
    alice.connection.execute("delete from identity.user")

    read = api.get("/api/v1/me", headers=headers)
    written = api.post("/api/v1/ingest/app-sessions", json={"events": []}, headers=headers)

    assert before.status_code == 200
    for answer in (read, written):
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_each_request_writes_one_log_line_without_secrets(
    api: TestClient, alice: Person, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    token = alice.token("read:profile")

    answer = api.get(
        "/api/v1/me", params={"secret": "hunter2"}, headers={"Authorization": f"Bearer {token}"}
    )

    lines = [record.getMessage() for record in caplog.records if record.name == "svc.access"]
    assert len(lines) == 1
    assert lines[0].startswith(f"request_id={answer.headers['x-request-id']} route=me method=GET ")
    assert token not in caplog.text
    assert "hunter2" not in "".join(lines)


def test_too_large_headers_are_431(api: TestClient) -> None:
    answer = api.get("/api/v1/me", headers={"X-Padding": "a" * 33_000})

    assert answer.status_code == 431
    assert answer.json()["error"] == "invalid_request"
    assert "x-request-id" in answer.headers
