"""The probes while the database is unreachable, and their recovery without a restart."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from starlette.testclient import TestClient

import authserver.app
import resourceserver.app
from resourceserver.api import session
from shared import database, tokens
from shared.settings import Settings
from tests import limits
from tests.client import AppClient
from tests.conftest import Person
from tests.faults.proxy import Proxy
from tests.faults.tracker import serving
from tests.processes import RESOURCE_ROLES
from tests.waiting import wait_for, wait_for_rivals


@pytest.fixture
def client(deployment: Settings, way: Proxy) -> Iterator[TestClient]:
    """The resource server, which reaches its database only through the proxy."""
    urls = {role: way.url(database.role_url(deployment, role)) for role in RESOURCE_ROLES}
    app = resourceserver.app.create(
        replace(deployment, base_url="http://testserver", role_urls=urls)
    )
    with AppClient(app, raise_server_exceptions=False) as opened:
        yield opened


def first_with(client: TestClient, status: int) -> Any:
    """Return the first answer of the probe with ``status``."""

    def find() -> Any:
        answer = client.get("/healthz")
        # A response whose status is an error is false by itself.
        return [answer] if answer.status_code == status else []

    (answer,) = wait_for(find, f"a {status}")
    return answer


@pytest.mark.parametrize("fault", [Proxy.stop, Proxy.cut], ids=["silent", "gone"])
def test_the_probe_reports_a_lost_database_while_it_is_lost_and_recovers_by_itself(
    client: TestClient, way: Proxy, fault: Any
) -> None:
    before = client.get("/healthz")
    fault(way)

    with limits.short():
        lost = client.get("/healthz")
    capabilities = client.get("/api/v1/capabilities")
    description = client.get("/openapi.json")
    way.restore()
    after = first_with(client, 200)

    assert before.json()["status"] == "ok"
    assert lost.status_code == 503
    assert lost.headers["cache-control"] == "no-store"
    assert lost.headers["retry-after"] == "1"
    assert lost.json()["database"] == {"status": "unreachable", "latency_ms": None}
    assert capabilities.status_code == 200
    assert description.status_code == 200
    assert after.json()["database"]["status"] == "ok"


def test_a_database_that_starts_after_the_server_is_reached(client: TestClient, way: Proxy) -> None:
    way.cut()

    with limits.short():
        lost = client.get("/healthz")
    way.restore()
    found = first_with(client, 200)

    assert lost.status_code == 503
    assert found.json()["status"] == "ok"


def test_probes_of_the_authorization_server_answer_while_every_other_connection_is_held_up(
    deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    chosen = replace(deployment, auth_connections=1)
    token = tokens.mint(tokens.REFRESH, uuid4()).text

    with (
        AppClient(authserver.app.create(chosen)) as client,
        ThreadPoolExecutor() as background,
        owner.transaction(),
    ):
        owner.execute("lock table oauth.refresh_token in access exclusive mode")
        for _ in range(4):
            background.submit(client.post, "/oauth/revoke", data={"token": token})
        wait_for_rivals(owner, 1)

        answers = [client.get(path).status_code for path in ("/healthz", "/readyz")]

    assert answers == [200, 200]


def test_requests_that_wait_for_a_database_that_hangs_are_503_and_later_ones_are_answered(
    deployment: Settings, way: Proxy, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No connection is given up for its own long wait.
    monkeypatch.setattr(session, "QUICK_S", 600.0)
    monkeypatch.setattr(session, "PATIENT_S", 600.0)
    monkeypatch.setattr(resourceserver.app, "PATIENT_S", 600.0)
    headers = alice.headers("read:activity", "read:profile", "ingest:app_sessions")
    day = {"from": "2025-06-16T00:00:00Z", "to": "2025-06-17T00:00:00Z"}
    event = {"app": "Code", "started_at": "2025-06-16T09:00:00Z", "duration_ms": 1000}

    with serving(deployment, way) as client, ThreadPoolExecutor() as background:
        asks: list[Callable[[], Any]] = [
            lambda: client.get("/api/v1/me", headers=headers),
            lambda: client.get("/api/v1/sessions/apps", params=day, headers=headers),
            lambda: client.post(
                "/api/v1/ingest/app-sessions", json={"events": [event]}, headers=headers
            ),
        ]
        before = [ask().status_code for ask in asks]
        with limits.short():
            way.stop()
            hanging = [background.submit(ask) for ask in asks]
            during = [each.result(60).status_code for each in hanging]
            way.restore()
        for ask in asks:
            wait_for(partial(is_answered, ask), "the first answer after the database hung")

    assert before == [200] * 3
    assert during == [503] * 3


def is_answered(ask: Callable[[], Any]) -> bool:
    return bool(ask().status_code == 200)
