"""The number of connections of the servers, and the check whether the database allows it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg import conninfo
from starlette.testclient import TestClient

import resourceserver.app
from authserver import rows
from authserver.web.server import server
from resourceserver.api import turns
from resourceserver.api.session import Reader
from shared import database, pipeline
from shared.pipeline import Pipelines
from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

SLEEP = pipeline.statement("select pg_sleep(0.05)::text")
PATH = "/api/v1/ingest/app-sessions"


def open_connections(chosen: Settings, role: str) -> set[int]:
    """Return the backends of a role."""
    with psycopg.connect(chosen.database_url or "") as owner:
        found = owner.execute(
            """
            select pid
              from pg_stat_activity
             where application_name = 'svc ' || %s
               and datname = current_database()
            """,
            [role],
        ).fetchall()
    return {pid for (pid,) in found}


def most(chosen: Settings, role: str, opened: Callable[[], Pipelines]) -> int:
    """Return how many connections of ``role`` more reads at once than there are places have opened."""

    async def run() -> int:
        shared = opened()
        try:
            # Those of earlier tests may still be closing.
            before = open_connections(chosen, role)
            await asyncio.gather(*(shared.run(((SLEEP, {}),)) for _ in range(8)))
            return len(open_connections(chosen, role) - before)
        finally:
            shared.close()

    return asyncio.run(run())


@pytest.mark.direct
def test_the_configured_sizes_limit_the_connections(deployment: Settings) -> None:
    chosen = replace(
        deployment,
        cookie_key="0" * 64,
        quick_connections=1,
        patient_connections=3,
        auth_connections=2,
        auth_slow_connections=4,
    )

    assert most(chosen, "reader", lambda: Reader.of(chosen).quick) == 1
    assert most(chosen, "reader", lambda: Reader.of(chosen).patient) == 3
    assert most(chosen, "authserver", lambda: rows.connect(chosen)) == 2
    assert most(chosen, "authserver", lambda: server(chosen).slow) == 4


def test_all_jobs_of_the_resource_server_have_connections_at_once(
    deployment: Settings, alice: Person, owner: Rows
) -> None:
    headers = alice.headers("read:profile")
    moment = timedelta(milliseconds=20)
    app = resourceserver.app.create(
        replace(deployment, base_url="http://testserver", jobs=True),
        note_uses_every=moment,
        sum_up_every=moment,
        roll_up_every=moment,
    )

    with owner.transaction():
        owner.execute("lock table activity.rollup_due, activity.summary_due")
        # Requests may go on reading it.
        owner.execute("lock table oauth.grant in share mode")
        with TestClient(app) as api:
            me = api.get("/api/v1/me", headers=headers)
            # Rollups, summaries, and when tokens were last used.
            wait_for_rivals(owner, 3)

    assert me.status_code == 200


def test_batches_without_a_free_connection_are_refused_with_the_fitting_reason(
    deployment: Settings, alice: Person, bob: Person, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = replace(deployment, base_url="http://testserver", ingest_connections=1)
    headers = alice.headers("ingest:app_sessions")

    def batch(key: str) -> dict[str, Any]:
        event = {
            "idempotency_key": key,
            "device": "laptop",
            "app": "Code",
            "started_at": "2025-06-16T09:00:00Z",
            "duration_ms": 1000,
        }
        return {"events": [event]}

    with TestClient(resourceserver.app.create(chosen)) as api, ThreadPoolExecutor(1) as background:
        api.post(PATH, json=batch("first"), headers=headers)
        with psycopg.connect(chosen.database_url or "") as other:
            other.execute("lock table activity.summary_due in access exclusive mode")
            second = background.submit(api.post, PATH, json=batch("second"), headers=headers)
            wait_for_rivals(owner, 1)
            with monkeypatch.context() as hurried:
                hurried.setattr(turns, "PATIENCE_S", 0.2)
                third = api.post(PATH, json=batch("third"), headers=headers)
                other_person = bob.headers("ingest:app_sessions")
                others = api.post(PATH, json=batch("third"), headers=other_person)
        again = api.post(PATH, json=batch("third"), headers=headers)

    assert (third.status_code, third.json()["error"]) == (429, "rate_limited")
    assert int(third.headers["retry-after"]) > 0
    assert (others.status_code, others.json()["error"]) == (503, "database_unavailable")
    assert second.result().json()["accepted"] == 1
    assert again.json()["accepted"] == 1


@pytest.fixture
def limit(owner: Rows) -> int:
    """The number of connections that the database allows the servers."""
    row = owner.execute("show max_connections").fetchone()
    reserved = owner.execute("show superuser_reserved_connections").fetchone()
    assert row is not None
    assert reserved is not None
    return int(row[0]) - int(reserved[0])


def urls(chosen: Settings, *roles: str) -> dict[str, str]:
    return {role: database.role_url(chosen, role) for role in roles}


def test_connections_within_the_limit_cause_no_warning(deployment: Settings, limit: int) -> None:
    needed = {"reader": limit - 10, "ingester": 10}

    assert database.connection_shortages(urls(deployment, "reader", "ingester"), needed) == []


def test_too_many_connections_are_reported_in_one_line_with_both_numbers(
    deployment: Settings, limit: int
) -> None:
    needed = {"reader": limit - 10, "ingester": 11}

    (line,) = database.connection_shortages(urls(deployment, "reader", "ingester"), needed)

    assert f"up to {limit + 1} connections" in line
    assert f"takes {limit}:" in line
    assert "\n" not in line


def test_database_servers_are_counted_separately_and_unreachable_ones_are_skipped(
    deployment: Settings, limit: int
) -> None:
    here = urls(deployment, "reader", "ingester")
    away = here | {"reader": conninfo.make_conninfo(here["reader"], host="127.0.0.1", port="1")}

    assert database.connection_shortages(away, {"reader": limit, "ingester": limit}) == []
    (line,) = database.connection_shortages(away, {"reader": 1, "ingester": limit + 1})
    assert f"up to {limit + 1} connections" in line


@pytest.mark.parametrize(("workers", "lines"), [(1, 0), (2, 1)])
def test_a_server_warns_once_if_its_processes_may_open_too_many_connections(
    deployment: Settings, limit: int, tmp_path: Path, workers: int, lines: int
) -> None:
    (port,) = processes.free_ports(1)
    url = f"http://localhost:{port}"
    # Together with the other connections of one process this is exactly the limit.
    others = sum(deployment.connections.values()) - deployment.connections["authserver"]
    patient = limit - others + deployment.patient_connections
    chosen = replace(deployment, base_url=url, patient_connections=patient)
    logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
    log = tmp_path / "resource.log"

    with processes.running(
        ["resource", "serve", f"--workers={workers}"], chosen, logins, f"{url}/healthz", log
    ):
        assert httpx2.get(f"{url}/healthz").status_code == 200

    assert log.read_text().count("raise its max_connections") == lines
