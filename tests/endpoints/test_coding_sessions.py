"""GET /api/v1/sessions/coding."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import add_coding, ask
from tests.endpoints.timeline import EPOCH, CodingSession

PATH = "/api/v1/sessions/coding"
DAY = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}
MINUTE = 60_000


def session(key: str, start: int, end: int, project: str = "svc") -> CodingSession:
    return CodingSession(key, "laptop", project, "Python", None, start * MINUTE, end * MINUTE)


def projects(body: dict[str, Any]) -> list[str]:
    return [row["project"] for row in body["data"]]


def test_a_session_by_hand(api: TestClient, alice: Person) -> None:
    answer = api.post(
        "/api/v1/ingest/coding-sessions",
        json={
            "client": {"name": "svc-bridge/0.3"},
            "events": [
                {
                    "started_at": "2025-06-16T09:00:00Z",
                    "duration_ms": 1_320_000,
                    "project": "svc",
                    "language": "Python",
                    "branch": "main",
                    "file": "app/api.py",
                    "editor": "vscode",
                    "lines_added": 41,
                    "lines_removed": 7,
                    "is_write": True,
                    "platform": "linux",
                },
                {
                    "started_at": "2025-06-16T08:00:00Z",
                    "duration_ms": 0,
                    "project": "thesis",
                    "activity": "reviewing",
                },
            ],
        },
        headers=alice.headers("ingest:coding_sessions"),
    )
    assert answer.json()["accepted"] == 2

    body = ask(api, alice, PATH, **DAY)

    ids = {row.pop("id") for row in body["data"]} | {
        row["device"].pop("id") for row in body["data"]
    }
    assert len(ids) == 3
    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "removed_before": None,
        "data": [
            {
                "started_at": "2025-06-16T09:00:00.000Z",
                "ended_at": "2025-06-16T09:22:00.000Z",
                "duration_ms": 1_320_000,
                "project": "svc",
                "language": "Python",
                "branch": "main",
                "file": "app/api.py",
                "editor": "vscode",
                "activity": "coding",
                "lines_added": 41,
                "lines_removed": 7,
                "device": {"name": "svc-bridge", "platform": "linux"},
                "source": "svc-bridge/0.3",
            },
            {
                "started_at": "2025-06-16T08:00:00.000Z",
                "ended_at": "2025-06-16T08:00:00.000Z",
                "duration_ms": 0,
                "project": "thesis",
                "language": None,
                "branch": None,
                "file": None,
                "editor": None,
                "activity": "reviewing",
                "lines_added": None,
                "lines_removed": None,
                "device": {"name": "svc-bridge", "platform": "linux"},
                "source": "svc-bridge/0.3",
            },
        ],
        "count": 2,
        "limit": 100,
        "has_more": False,
        "next_cursor": None,
    }


def test_sessions_that_overlap_the_range_are_listed_whole(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    add_coding(
        owner,
        alice,
        [
            session("1", -1430, 10, "a day long"),
            session("2", -10, 0, "ends at the start"),
            session("3", 0, 0, "nothing at the start"),
            session("4", 5, 70, "reaches out"),
            session("5", 60, 60, "nothing at the end"),
            session("6", 60, 70, "starts at the end"),
            session("7", -5, -5, "nothing before"),
        ],
    )

    body = ask(api, alice, PATH, start="2025-06-16T00:00:00Z", end="2025-06-16T01:00:00Z")

    assert projects(body) == ["reaches out", "nothing at the start", "a day long"]
    assert [row["duration_ms"] for row in body["data"]] == [65 * MINUTE, 0, 1440 * MINUTE]


def test_a_range_of_no_length_is_empty_even_within_a_session(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    add_coding(owner, alice, [session("1", 0, 60)])

    body = ask(api, alice, PATH, start="2025-06-16T00:30:00Z", end="2025-06-16T00:30:00Z")

    assert body["data"] == []


def test_bob_sees_nothing_of_alices(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person, bob: Person
) -> None:
    add_coding(owner, alice, [session("1", 0, 60, "secret of alice")])

    assert ask(api, bob, PATH, **DAY)["data"] == []


@pytest.mark.parametrize(
    ("given", "limit", "count"),
    [("0", 0, 0), ("1", 1, 1), ("1000", 1000, 1000), ("1001", 1000, 1000), ("9" * 40, 1000, 1000)],
)
def test_a_page_has_the_requested_length_up_to_a_thousand(
    api: TestClient,
    owner: psycopg.Connection[Any],
    alice: Person,
    given: str,
    limit: int,
    count: int,
) -> None:
    add_coding(owner, alice, [session(f"{n}", n, n + 1) for n in range(1001)])

    body = ask(api, alice, PATH, **DAY, limit=given)

    assert (body["limit"], body["count"], len(body["data"])) == (limit, count, count)
    assert body["has_more"]


def test_pages_neither_skip_nor_repeat_while_sessions_are_added(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    # Five at each start, so that pages end among equals.
    add_coding(owner, alice, [session(f"{n:02}", n // 5, n // 5 + 1, f"{n}") for n in range(30)])
    seen: list[str] = []
    cursor = None

    for page in range(5):
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        body = ask(api, alice, PATH, **DAY, limit="7", **more)
        seen += projects(body)
        cursor = body["next_cursor"]
        add_coding(owner, alice, [session(f"new {page}", 100 + page, 101 + page, "new")])

    assert cursor is None
    assert len(seen) == 30
    assert set(seen) == {f"{n}" for n in range(30)}
    starts = [int(name) // 5 for name in seen]
    assert starts == sorted(starts, reverse=True)


def test_the_newest_come_first_whatever_their_keys(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    add_coding(owner, alice, [session("9", 1, 2, "old"), session("1", 3, 4, "new")])

    body = ask(api, alice, PATH, **DAY)

    assert projects(body) == ["new", "old"]
    assert body["data"][0]["started_at"] == (EPOCH + timedelta(minutes=3)).strftime(
        "%Y-%m-%dT%H:%M:%S.000Z"
    )
