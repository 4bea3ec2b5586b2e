"""The load of one person does not delay another: alice sends too much, and bob is served."""

import gzip
import json
import os
import random
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest

from resourceserver.api import arrival, session, turns
from resourceserver.ingest import route
from resourceserver.ingest.route import LARGE_BODIES
from shared import priority, web
from shared.settings import Settings
from tests.conftest import Person, person
from tests.faults.conftest import listening
from tests.waiting import wait_for, wait_for_rivals

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
    """Send a long read."""
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

LARGE = b'{"events":[]}' + b" " * 100_000


def test_one_person_has_three_long_reads_at_once_and_others_do_not_wait_for_them(
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


def test_probes_answer_while_every_quick_connection_is_busy(
    client: httpx2.Client, alice: Person, bob: Person, owner: Rows
) -> None:
    hers, his = alice.headers("read:activity"), bob.headers("read:activity")
    for headers in (hers, his):
        client.get("/api/v1/devices", headers=headers)

    with ThreadPoolExecutor() as background, owner.transaction():
        owner.execute("lock table activity.device in access exclusive mode")
        for headers in (hers, his) * 4:
            background.submit(client.get, "/api/v1/devices", headers=headers)
        wait_for_rivals(owner, 2)

        answers = [client.get(path).status_code for path in ("/healthz", "/readyz")]

    assert answers == [200, 200]


@dataclass
class Upload:
    """A client that has announced a body of 40 MiB, and sent a little of it."""

    connection: socket.socket

    def answer(self) -> bytes:
        """Return the answer, whose body is one JSON object."""
        taken = b""
        while not taken.endswith(b"}"):
            piece = self.connection.recv(65536)
            assert piece, "the connection was closed without an answer"
            taken += piece
        return taken


@contextmanager
def upload(port: int, headers: dict[str, str]) -> Iterator[Upload]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(
            b"POST /api/v1/ingest/app-sessions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 41943040\r\n"
            b"Authorization: %b\r\n\r\n" % headers["Authorization"].encode() + b" " * 65536
        )
        yield Upload(connection)


def test_idle_uploads_end_and_do_not_block_large_batches(
    port: int, client: httpx2.Client, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "GRACE_S", 0.2)
    monkeypatch.setattr(arrival, "LOWEST_RATE", 1024 * 1024)
    his = bob.headers(*SCOPES) | {"Content-Type": "application/json"}

    def answer_to_him() -> int:
        status = client.post("/api/v1/ingest/app-sessions", content=LARGE, headers=his).status_code
        # On a busy machine his own batch may come too slowly.
        return 0 if status == 408 else status

    with ExitStack() as open_:
        idle = [open_.enter_context(upload(port, alice.headers(*SCOPES))) for _ in range(8)]
        status = wait_for(answer_to_him, "an answer to a batch that comes in time")
        answers = [each.answer() for each in idle]

    assert status == 200
    assert [answer[9:12] for answer in answers] == [b"408"] * 8
    assert all(b"the body comes too slowly" in answer for answer in answers)


def test_one_person_has_one_large_body_at_a_time(
    port: int, client: httpx2.Client, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PATIENCE_S", 0.2)
    monkeypatch.setattr(arrival, "GRACE_S", 600.0)
    hers, his = (
        person.headers(*SCOPES) | {"Content-Type": "application/json"} for person in (alice, bob)
    )

    with upload(port, alice.headers(*SCOPES)) as first:
        refused = wait_for(
            lambda: [
                answer
                for answer in [
                    client.post("/api/v1/ingest/app-sessions", content=LARGE, headers=hers)
                ]
                if answer.status_code != 200
            ],
            "the first body to be there",
        )[0]
        small = send(client, hers)
        others = client.post("/api/v1/ingest/app-sessions", content=LARGE, headers=his)
        first.connection.close()

    assert (refused.status_code, refused.json()["error"]) == (429, "rate_limited")
    assert int(refused.headers["retry-after"]) > 0
    assert small.status_code == 200
    assert others.status_code == 200


def test_a_person_rests_after_a_large_body_while_others_are_served(
    deployment: Settings, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PATIENCE_S", 0.2)
    monkeypatch.setattr(route, "REST", 1e9)
    monkeypatch.setattr(route, "LONGEST_REST_S", 600.0)

    hers, his = alice.headers(*SCOPES), bob.headers(*SCOPES)

    # In a server of its own, since places stay taken during the rest.
    with (
        listening(deployment) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):

        def send_large(headers: dict[str, str]) -> int:
            json_type = {"Content-Type": "application/json"}
            return client.post(
                "/api/v1/ingest/app-sessions", content=LARGE, headers=headers | json_type
            ).status_code

        monkeypatch.setattr(session, "SHARED_S", 0.0)
        alone = [send_large(hers), send_large(hers)]
        monkeypatch.setattr(session, "SHARED_S", 600.0)
        reading = read(client, his).status_code
        beside = [reading, send_large(hers), send_large(hers), send_large(his)]

    assert alone == [200, 200]
    assert beside == [200, 200, 429, 200]


def test_a_client_that_sends_a_refused_body_to_its_end_sees_the_503(
    port: int,
    client: httpx2.Client,
    alice: Person,
    bob: Person,
    owner: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "PATIENCE_S", 0.2)
    monkeypatch.setattr(arrival, "GRACE_S", 600.0)
    others = [alice, *(person(owner, f"mallory{number}") for number in range(1, LARGE_BODIES))]
    his = bob.headers(*SCOPES)
    json_type = {"Content-Type": "application/json"}

    with ExitStack() as open_:
        for each in others:
            open_.enter_context(upload(port, each.headers(*SCOPES)))
        wait_for(
            lambda: (
                client.post(
                    "/api/v1/ingest/app-sessions", content=LARGE, headers=his | json_type
                ).status_code
                == 503
            ),
            "all places for large bodies to be taken",
        )
        whole = open_.enter_context(upload(port, his))
        # Far more than the buffers between both ends hold, so the server has to take it.
        whole.connection.sendall(b" " * (41_943_040 - 65_536))
        seen = whole.answer()
        is_closed = whole.connection.recv(1) == b""
        monkeypatch.setattr(web, "_LONGEST_PAUSE_S", 0.2)
        paused = open_.enter_context(upload(port, his))
        answered = paused.answer()
        is_given_up = paused.connection.recv(1) == b""

    for answer in (seen, answered):
        assert answer[9:12] == b"503"
        assert b"\r\nretry-after: " in answer
        assert b"other large batches are being written" in answer
    assert (is_closed, is_given_up) == (True, True)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has priorities of processes")
def test_the_second_long_read_of_a_person_gives_way_and_the_first_of_another_does_not(
    client: httpx2.Client, alice: Person, bob: Person, owner: Rows
) -> None:
    hers, his = alice.headers(*SCOPES), bob.headers(*SCOPES)
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    reached: list[int] = []

    with ThreadPoolExecutor() as background:
        with owner.transaction():
            owner.execute("lock table activity.app_session in access exclusive mode")
            asked: list[Future[httpx2.Response]] = []
            for number, headers in enumerate((hers, hers, hers, his), 1):
                before = rivals(owner)
                asked += ask_at_once(background, 1, partial(read, client, headers))
                wait_for_rivals(owner, number)
                (pid,) = rivals(owner) - before
                reached.append(os.getpriority(os.PRIO_PROCESS, pid))
        statuses = [each.result().status_code for each in asked]

    lower = max(usual, priority.LITTLE_LOWER)
    assert reached == [usual, lower, lower, usual]
    assert statuses == [200] * 4


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has priorities of processes")
def test_a_large_batch_is_written_at_a_lower_priority_if_such_a_connection_is_free(
    client: httpx2.Client, alice: Person, bob: Person, owner: Rows
) -> None:
    hers, his = alice.headers(*SCOPES), bob.headers(*SCOPES)
    usual = os.getpriority(os.PRIO_PROCESS, 0)

    def send_many(headers: dict[str, str]) -> httpx2.Response:
        event = {"app": "Code", "started_at": "2025-06-16T09:00:00Z", "duration_ms": 1000}
        events = [event | {"idempotency_key": str(uuid4())} for _ in range(1000)]
        return client.post("/api/v1/ingest/app-sessions", json={"events": events}, headers=headers)

    with ThreadPoolExecutor() as background:
        with owner.transaction():
            owner.execute("lock table activity.app_session in access exclusive mode")
            asked = ask_at_once(background, 1, lambda: send(client, his))
            wait_for_rivals(owner, 1)
            of_a_small_one = rivals(owner)
            asked += ask_at_once(background, 1, lambda: send_many(hers))
            wait_for_rivals(owner, 2)
            of_a_large_one = rivals(owner) - of_a_small_one
            # It waits for no connection that gives way.
            asked += ask_at_once(background, 1, lambda: send_many(his))
            wait_for_rivals(owner, 3)
            of_another = rivals(owner) - of_a_small_one - of_a_large_one
            reached = [
                os.getpriority(os.PRIO_PROCESS, pid)
                for (pid,) in (of_a_small_one, of_a_large_one, of_another)
            ]
        accepted = [each.result().json()["accepted"] for each in asked]

    assert reached == [usual, max(usual, priority.LITTLE_LOWER), usual]
    assert accepted == [1, 1000, 1000]


def rivals(owner: Rows) -> set[int]:
    """Return the processes of the database that wait for a lock."""
    return {
        pid
        for (pid,) in owner.execute(
            "select distinct pid from pg_locks join pg_stat_activity using (pid) "
            "where datname = current_database() and not granted"
        )
    }


def heavy_batch() -> bytes:
    """A thousand events of random letters: 3 MB of gzip."""
    letters = random.Random(17)

    def text(length: int) -> str:
        return f"{letters.getrandbits(4 * length):0{length}x}"

    events = [
        {
            "idempotency_key": text(64),
            "app": "Code",
            "title": text(1000),
            "url": f"https://example.org/{text(2000)}",
            "metadata": {"m": text(2200)},
            "started_at": "2025-06-16T09:00:00Z",
            "duration_ms": 1000,
        }
        for _ in range(1000)
    ]
    return gzip.compress(json.dumps({"events": events}).encode(), 1)


def test_a_repeated_heavy_gzip_of_one_person_keeps_no_batch_of_another_out(
    client: httpx2.Client, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody waits for a place: one is free, or the batch is refused.
    monkeypatch.setattr(turns, "PATIENCE_S", 0.0)
    body = heavy_batch()
    hers, his = (person.headers(*SCOPES) for person in (alice, bob))
    hers |= {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    has_finished = Event()
    statuses: list[int] = []

    def repeat() -> None:
        while not has_finished.is_set() and len(statuses) < 10_000:
            answer = client.post("/api/v1/ingest/app-sessions", content=body, headers=hers)
            statuses.append(answer.status_code)

    with ThreadPoolExecutor() as background:
        senders = [background.submit(repeat) for _ in range(LARGE_BODIES + 2)]
        try:
            wait_for(lambda: 429 in statuses, "alice to have more than one under way")
            small = [send(client, his).status_code for _ in range(3)]
            large = [
                client.post(
                    "/api/v1/ingest/app-sessions",
                    content=LARGE,
                    headers=his | {"Content-Type": "application/json"},
                ).status_code
                for _ in range(3)
            ]
        finally:
            has_finished.set()
        for each in senders:
            each.result(60)

    assert 2_500_000 < len(body) < 3_500_000
    assert (small, large) == ([200] * 3, [200] * 3)
    assert set(statuses) == {200, 429}
