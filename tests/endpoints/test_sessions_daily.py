"""GET /api/v1/sessions/daily."""

from typing import Any

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import add_coding, add_sessions, ask
from tests.endpoints.test_app_usage import event, post
from tests.endpoints.timeline import CodingSession, Session

PATH = "/api/v1/sessions/daily"

Owner = psycopg.Connection[Any]


def test_a_session_over_midnight_counts_on_both_days_and_once_in_total(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("Film", "21:30:00", "23:00:00"),
            event("Chat", "21:40:00", "21:50:00"),
            event("Chat", "22:10:00", "22:10:00"),
            event("Idle", "22:20:00", "22:30:00", idle=True),
        ],
    )
    late = 22 * 3_600_000
    add_coding(
        owner,
        alice,
        [CodingSession("1", "laptop", "svc", None, None, late - 60_000, late + 120_000)],
    )

    body = ask(
        api,
        alice,
        PATH,
        start="2025-06-16T21:00:00Z",
        end="2025-06-17T23:00:00Z",
        tz="Europe/Berlin",
    )

    assert body == {
        "range": {"from": "2025-06-16T21:00:00.000Z", "to": "2025-06-17T23:00:00.000Z"},
        "tz": "Europe/Berlin",
        "data": [
            {
                "date": "2025-06-16",
                "session_count": 2,
                "app_count": 2,
                "tracked_ms": 1_800_000,
                "average_session_ms": 900_000,
                "longest_session_ms": 1_200_000,
                "longest_session_app": "Film",
                "first_started_at": "2025-06-16T21:30:00.000Z",
                "last_ended_at": "2025-06-16T22:00:00.000Z",
                "coding_session_count": 1,
                "coding_ms": 60_000,
            },
            {
                "date": "2025-06-17",
                "session_count": 2,
                "app_count": 2,
                "tracked_ms": 3_600_000,
                "average_session_ms": 1_800_000,
                "longest_session_ms": 3_600_000,
                "longest_session_app": "Film",
                "first_started_at": "2025-06-16T22:00:00.000Z",
                "last_ended_at": "2025-06-16T23:00:00.000Z",
                "coding_session_count": 1,
                "coding_ms": 120_000,
            },
            {
                "date": "2025-06-18",
                "session_count": 0,
                "app_count": 0,
                "tracked_ms": 0,
                "average_session_ms": None,
                "longest_session_ms": None,
                "longest_session_app": None,
                "first_started_at": None,
                "last_ended_at": None,
                "coding_session_count": 0,
                "coding_ms": 0,
            },
        ],
        "totals": {"session_count": 3, "tracked_ms": 5_400_000},
        "removed_before": None,
    }


def test_a_session_without_length_at_midnight_counts_on_the_new_day(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    midnight = 24 * 3_600_000
    add_sessions(owner, alice, [Session("1", "laptop", "Glance", midnight, midnight)])
    add_coding(owner, alice, [CodingSession("1", "laptop", "svc", None, None, midnight, midnight)])

    body = ask(api, alice, PATH, start="2025-06-16T00:00:00Z", end="2025-06-18T00:00:00Z")

    assert [
        (day["date"], day["session_count"], day["coding_session_count"]) for day in body["data"]
    ] == [("2025-06-16", 0, 0), ("2025-06-17", 1, 1)]


def test_the_first_application_by_name_has_the_longest_of_equal_sessions(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("b", "09:00:00", "09:10:00"),
            event("a", "10:00:00", "10:10:00"),
            event("B", "11:00:00", "11:10:00"),
        ],
    )

    body = ask(api, alice, PATH, start="2025-06-16T00:00:00Z", end="2025-06-17T00:00:00Z")

    assert [day["longest_session_app"] for day in body["data"]] == ["B"]


def test_a_range_of_no_length_has_no_days(api: TestClient, alice: Person) -> None:
    post(api, alice, [event("Code", "09:00:00", "10:00:00")])

    body = ask(api, alice, PATH, start="2025-06-16T09:30:00Z", end="2025-06-16T09:30:00Z")

    assert body["data"] == []
    assert body["totals"] == {"session_count": 0, "tracked_ms": 0}


def test_bob_sees_nothing_of_alices(api: TestClient, alice: Person, bob: Person) -> None:
    post(api, alice, [event("Code", "09:00:00", "10:00:00")])

    body = ask(api, bob, PATH, start="2025-06-16T00:00:00Z", end="2025-06-17T00:00:00Z")

    assert [day["session_count"] for day in body["data"]] == [0]
    assert body["totals"] == {"session_count": 0, "tracked_ms": 0}
