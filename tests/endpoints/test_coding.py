"""GET /api/v1/analytics/coding."""

from typing import Any

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import add_coding, ask
from tests.endpoints.timeline import CodingSession

PATH = "/api/v1/analytics/coding"
DAY = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}
NINE = 9 * 3_600_000
MINUTE = 60_000

Owner = psycopg.Connection[Any]


def test_an_hour_by_hand(api: TestClient, owner: Owner, alice: Person) -> None:
    add_coding(
        owner,
        alice,
        [
            # Began before the range, so that its lines are not counted.
            CodingSession(
                "1", "laptop", "svc", "Python", "a.py", NINE - MINUTE, NINE + 30 * MINUTE, 100, 50
            ),
            CodingSession(
                "2", "laptop", "svc", "SQL", "a.sql", NINE + 10 * MINUTE, NINE + 20 * MINUTE, 12, 3
            ),
            CodingSession(
                "3", "laptop", "thesis", None, None, NINE + 40 * MINUTE, NINE + 50 * MINUTE, 5, None
            ),
            CodingSession(
                "4", "laptop", "glance", "SQL", None, NINE + 45 * MINUTE, NINE + 45 * MINUTE
            ),
        ],
    )

    body = ask(api, alice, PATH, start="2025-06-16T09:00:00Z", end="2025-06-16T09:45:00.001Z")

    assert body == {
        "range": {"from": "2025-06-16T09:00:00.000Z", "to": "2025-06-16T09:45:00.001Z"},
        "data": {
            "projects": [
                {
                    "project": "svc",
                    "total_ms": 1_800_000,
                    "percent": 85.71,
                    "session_count": 2,
                    "last_coded_at": "2025-06-16T09:30:00.000Z",
                    "languages": [
                        {"language": "Python", "total_ms": 1_200_000, "percent": 66.67},
                        {"language": "SQL", "total_ms": 600_000, "percent": 33.33},
                    ],
                },
                {
                    "project": "thesis",
                    "total_ms": 300_001,
                    "percent": 14.29,
                    "session_count": 1,
                    "last_coded_at": "2025-06-16T09:45:00.001Z",
                    "languages": [{"language": "unknown", "total_ms": 300_001, "percent": 100.0}],
                },
                {
                    "project": "glance",
                    "total_ms": 0,
                    "percent": 0.0,
                    "session_count": 1,
                    "last_coded_at": None,
                    "languages": [{"language": "SQL", "total_ms": 0, "percent": None}],
                },
            ],
            "languages": [
                {"language": "Python", "total_ms": 1_200_000, "percent": 57.14, "session_count": 1},
                {"language": "SQL", "total_ms": 600_000, "percent": 28.57, "session_count": 2},
                {"language": "unknown", "total_ms": 300_001, "percent": 14.29, "session_count": 1},
            ],
        },
        "totals": {
            "coding_ms": 2_100_001,
            "session_count": 4,
            "project_count": 3,
            "language_count": 3,
            "lines_added": 17,
            "lines_removed": 3,
        },
        "removed_before": None,
    }


def test_an_empty_account_has_no_rows(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, **DAY)

    assert body["data"] == {"projects": [], "languages": []}
    assert set(body["totals"].values()) == {0}


def test_bob_sees_nothing_of_alices(
    api: TestClient, owner: Owner, alice: Person, bob: Person
) -> None:
    add_coding(
        owner,
        alice,
        [CodingSession("1", "laptop", "secret", None, None, NINE, NINE + MINUTE, 1, 1)],
    )

    body = ask(api, bob, PATH, **DAY)

    assert body["data"] == {"projects": [], "languages": []}
    assert set(body["totals"].values()) == {0}


def test_device_project_language_file_and_key_decide_about_equal_starts(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    ends = [NINE + n * MINUTE for n in range(1, 7)]
    add_coding(
        owner,
        alice,
        [
            CodingSession("1", "B", "p", "x", "f", NINE, ends[0]),
            CodingSession("2", "a", "P", "x", "f", NINE, ends[1]),
            CodingSession("3", "a", "p", "X", "f", NINE, ends[2]),
            CodingSession("4", "a", "p", "x", "F", NINE, ends[3]),
            CodingSession("5", "a", "p", "x", "f", NINE, ends[4]),
            CodingSession("6", "a", "p", "x", "f", NINE, ends[5]),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    # Each owns the minute that those before it leave.
    assert [(row["project"], row["total_ms"]) for row in body["data"]["projects"]] == [
        ("p", 300_000),
        ("P", 60_000),
    ]
    assert [(row["language"], row["total_ms"]) for row in body["data"]["languages"]] == [
        ("x", 300_000),
        ("X", 60_000),
    ]
