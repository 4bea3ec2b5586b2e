"""One person's load is that person's: what alice does keeps bob from nothing."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest

from tests.conftest import Person
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]


@pytest.fixture
def client(port: int) -> Iterator[httpx2.Client]:
    """A client of a server that listens."""
    limits = httpx2.Limits(max_connections=None)
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=limits) as opened:
        yield opened


def ask_at_once(
    background: ThreadPoolExecutor, count: int, ask: Callable[[], httpx2.Response]
) -> list[Future[httpx2.Response]]:
    return [background.submit(ask) for _ in range(count)]


def read(client: httpx2.Client, headers: dict[str, str]) -> httpx2.Response:
    """Ask a long question."""
    day = {"from": "2025-06-16T00:00:00Z", "to": "2025-06-17T00:00:00Z"}
    return client.get("/api/v1/sessions/apps", params=day, headers=headers)


def call_tool(client: httpx2.Client, headers: dict[str, str]) -> httpx2.Response:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "get_data_status", "arguments": {}},
    }
    accepted = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}
    return client.post("/mcp", json=message, headers=headers | accepted)


def send(client: httpx2.Client, headers: dict[str, str], key: str = "") -> httpx2.Response:
    event = {
        "app": "Code",
        "started_at": "2025-06-16T09:00:00Z",
        "duration_ms": 1000,
        "idempotency_key": key or str(uuid4()),
    }
    return client.post("/api/v1/ingest/app-sessions", json={"events": [event]}, headers=headers)


SCOPES = ("read:activity", "ingest:app_sessions")


def test_one_person_has_three_long_questions_at_once_and_others_do_not_wait_for_them(
    client: httpx2.Client, alice: Person, bob: Person, owner: Rows
) -> None:
    hers, his = alice.headers(*SCOPES), bob.headers(*SCOPES)
    for headers in (hers, his):
        assert [send(client, headers).status_code, read(client, headers).status_code] == [200, 200]

    with ThreadPoolExecutor(32) as background:
        with owner.transaction():
            owner.execute("lock table activity.app_session in access exclusive mode")
            asked = ask_at_once(background, 9, lambda: read(client, hers))
            wait_for_rivals(owner, 3)
            asked += ask_at_once(background, 1, lambda: read(client, his))
            wait_for_rivals(owner, 4)
            asked += ask_at_once(background, 1, lambda: call_tool(client, his))
            wait_for_rivals(owner, 5)
            # Two of the three connections that write are hers at most.
            asked += ask_at_once(background, 9, lambda: send(client, hers))
            wait_for_rivals(owner, 7)
            asked += ask_at_once(background, 1, lambda: send(client, his))
            wait_for_rivals(owner, 8)
        statuses = [each.result().status_code for each in asked]

    assert statuses == [200] * 21


def test_healthz_answers_while_every_quick_connection_is_held_up(
    client: httpx2.Client, alice: Person, owner: Rows
) -> None:
    headers = alice.headers("read:activity")
    client.get("/api/v1/devices", headers=headers)

    with ThreadPoolExecutor() as background, owner.transaction():
        owner.execute("lock table activity.device in access exclusive mode")
        for _ in range(8):
            background.submit(client.get, "/api/v1/devices", headers=headers)
        wait_for_rivals(owner, 2)

        answer = client.get("/healthz")

    assert answer.status_code == 200
