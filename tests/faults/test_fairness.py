"""One person's load is that person's: what alice does keeps bob from nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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
