"""A recorded week: posted by a token that may only write, read by one that may only read.

The right answers were computed by a slow model that shares no code with the service
(tests/data/week/expected.json).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.conftest import Person

WEEK = Path(__file__).parent.parent / "data" / "week"
EVENTS = json.loads((WEEK / "app_sessions.json").read_text())
EXPECTED = json.loads((WEEK / "expected.json").read_text())

# What the service does not compute yet.
LATER = {"coding_ms", "app_switches"}


def load(api: TestClient, headers: dict[str, str]) -> list[dict[str, Any]]:
    results = []
    for start in range(0, len(EVENTS), 1000):
        answer = api.post(
            "/api/v1/ingest/app-sessions",
            json={"events": EVENTS[start : start + 1000]},
            headers=headers,
        )
        assert answer.status_code == 200
        results.append(answer.json())
    return results


@pytest.fixture
def reading(api: TestClient, alice: Person) -> dict[str, str]:
    load(api, alice.headers("ingest:app_sessions"))
    return alice.headers("read:activity")


@pytest.mark.parametrize("part", ["whole", "odd"])
def test_app_usage_is_right_to_the_millisecond(
    api: TestClient, reading: dict[str, str], part: str
) -> None:
    expected = EXPECTED[part]

    body = api.get(
        "/api/v1/analytics/app-usage",
        params={"from": expected["from"], "to": expected["to"]},
        headers=reading,
    ).json()

    rows = [{key: row[key] for key in expected["app_usage"][0]} for row in body["data"]]
    assert rows == expected["app_usage"]
    assert body["totals"]["tracked_ms"] == expected["tracked_ms"]


@pytest.mark.parametrize(("part", "tz"), [("daily_utc", "UTC"), ("daily_zone", "Europe/Berlin")])
def test_daily_is_right_to_the_millisecond(
    api: TestClient, reading: dict[str, str], part: str, tz: str
) -> None:
    expected = EXPECTED[part]

    body = api.get(
        "/api/v1/analytics/daily",
        params={"from": expected[0]["date"], "to": expected[-1]["date"], "tz": tz},
        headers=reading,
    ).json()

    assert len(expected) == 7
    for row, day in zip(body["data"], expected, strict=True):
        assert {key: row[key] for key in day if key not in LATER} == {
            key: value for key, value in day.items() if key not in LATER
        }


def test_loading_it_again_gives_duplicates_only(api: TestClient, alice: Person) -> None:
    headers = alice.headers("ingest:app_sessions")

    first = load(api, headers)
    second = load(api, headers)

    assert sum(result["accepted"] for result in first) == len(EVENTS) == 3526
    assert sum(result["duplicates"] for result in second) == 3526
    assert sum(result["accepted"] for result in second) == 0


def test_a_token_that_only_writes_reads_nothing(api: TestClient, alice: Person) -> None:
    answer = api.get(
        "/api/v1/analytics/daily",
        params={"from": "2025-10-20", "to": "2025-10-26"},
        headers=alice.headers("ingest:app_sessions"),
    )

    assert answer.status_code == 403
    assert answer.json() == {"error": "insufficient_scope", "message": "read:activity is required"}
