"""Trackers of one person that post at once, to servers that are processes of their own."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS
from tests.conftest import Person

STREAMS = {"app_sessions": "app", "coding_sessions": "project"}
SCOPES = ("ingest:app_sessions", "ingest:coding_sessions")

ROUNDS = 12
RETRIES = 50


@pytest.fixture(scope="module")
def servers(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The addresses of two resource servers on one database."""
    logs = tmp_path_factory.mktemp("servers")
    with ExitStack() as running:
        addresses = []
        for port in processes.free_ports(2):
            chosen = replace(deployment, base_url=f"http://127.0.0.1:{port}")
            logins = processes.role_urls(chosen, ("reader", "ingester"))
            # The test reads the marks of days, so the jobs must not remove them.
            logins["worker"] = "host=127.0.0.1 port=1 dbname=nowhere"
            url, log = f"{chosen.base_url}/healthz", logs / f"{port}.log"
            arguments = ["resource", "serve"]
            running.enter_context(processes.running(arguments, chosen, logins, url, log))
            addresses.append(chosen.base_url)
        yield addresses


def event(stream: str, number: int) -> dict[str, Any]:
    """Return the event of a number, the same for every client: of one of three devices, on one of nine
    days."""
    return {
        "idempotency_key": f"{number:03}",
        "device": f"device {number % 3}",
        "started_at": f"2025-06-{10 + number % 9}T09:00:00Z",
        "duration_ms": 60_000,
        STREAMS[stream]: "x",
    }


def test_eight_clients_with_overlapping_batches_write_their_union(
    servers: list[str], alice: Person
) -> None:
    headers = alice.headers(*SCOPES)
    begin = threading.Barrier(8)

    def send(client: int) -> list[tuple[str, set[int], dict[str, Any]]]:
        chance = random.Random(client)
        results = []
        with httpx2.Client(
            base_url=servers[client % 2], headers=headers, timeout=60, verify=NO_TLS
        ) as http:
            begin.wait()
            for place in range(6):
                stream = list(STREAMS)[(client // 2 + place) % 2]
                numbers = chance.sample(range(400), 120)
                batch = {"events": [event(stream, number) for number in numbers]}
                results.append((stream, set(numbers), post(http, stream, batch)))
        return results

    with ThreadPoolExecutor(8) as clients:
        results = [result for each in clients.map(send, range(8)) for result in each]

    for stream in STREAMS:
        union = set().union(*(numbers for of, numbers, _ in results if of == stream))
        answers = [answer for of, _, answer in results if of == stream]
        rows = alice.connection.execute(
            "select idempotency_key, name, started_at::date::text"  # noqa: S608 - ours
            f" from activity.{stream.removesuffix('s')}"
            " join activity.device using (user_id, device_id) order by 1"
        ).fetchall()
        assert rows == [
            (f"{number:03}", f"device {number % 3}", f"2025-06-{10 + number % 9}")
            for number in sorted(union)
        ]
        assert sum(answer["accepted"] for answer in answers) == len(rows)
        assert {answer["accepted"] + answer["duplicates"] for answer in answers} == {120}
        assert counted(alice, stream) == {
            name: sum(row[1] == name for row in rows)
            for name in ("device 0", "device 1", "device 2")
        }


@pytest.mark.parametrize("stream", list(STREAMS))
@pytest.mark.parametrize("devices", [("laptop", "phone"), ("laptop", "laptop")])
def test_two_trackers_that_post_the_same_days_at_once_do_not_block_each_other(
    servers: list[str], alice: Person, stream: str, devices: tuple[str, str]
) -> None:
    headers = alice.headers(*SCOPES)
    together = threading.Barrier(2)

    def send(tracker: int) -> list[tuple[int, int]]:
        answers = []
        with httpx2.Client(
            base_url=servers[tracker], headers=headers, timeout=60, verify=NO_TLS
        ) as http:
            for place in range(ROUNDS):
                events = [
                    event(stream, number)
                    | {"idempotency_key": f"{tracker} {place} {number}", "device": devices[tracker]}
                    for number in range(90)
                ]
                together.wait()
                # One tracker goes through the days forwards and the other one backwards.
                answer = http.post(path(stream), json={"events": events[:: 1 - 2 * tracker]})
                answers.append((answer.status_code, answer.json().get("accepted")))
        return answers

    with ThreadPoolExecutor(2) as trackers:
        answers = list(trackers.map(send, range(2)))

    # None of them was refused and repeated, as the loser of a deadlock would be.
    assert answers == [[(200, 90)] * ROUNDS] * 2
    assert sum(counted(alice, stream).values()) == 2 * 90 * ROUNDS


def path(stream: str) -> str:
    return f"/api/v1/ingest/{stream.replace('_', '-')}"


def post(http: httpx2.Client, stream: str, batch: Any) -> dict[str, Any]:
    """Post a batch until it is answered: a refusal because of too many requests is repeated."""
    for _ in range(RETRIES):
        answer = http.post(path(stream), json=batch)
        if answer.status_code == 200:
            return dict(answer.json())
        assert (answer.status_code, answer.json()["error"]) == (503, "database_unavailable")
    raise AssertionError(f"not answered in {RETRIES} attempts")


def counted(person: Person, stream: str) -> dict[str, int]:
    return dict(
        person.connection.execute(
            "select name, event_count from activity.device_stream"
            " join activity.device using (user_id, device_id) where stream = %s",
            [stream],
        ).fetchall()
    )
