"""A recorded week: posted with a token that may only write, read with one that may only read.

The right answers were computed by a slow model that shares no code with the service
(tests/data/week/expected.json).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from shared.settings import Settings
from tests.conftest import Person, RollupWorker, owning, person
from tests.endpoints.conftest import AskedAgain

WEEK = Path(__file__).parent.parent / "data" / "week"
EVENTS = json.loads((WEEK / "app_sessions.json").read_text())
CODING = json.loads((WEEK / "coding_sessions.json").read_text())
EXPECTED = json.loads((WEEK / "expected.json").read_text())


def load(
    api: TestClient,
    headers: dict[str, str],
    stream: str = "app-sessions",
    events: list[dict[str, Any]] = EVENTS,
) -> list[dict[str, Any]]:
    results = []
    for start in range(0, len(events), 1000):
        answer = api.post(
            f"/api/v1/ingest/{stream}",
            json={"events": events[start : start + 1000]},
            headers=headers,
        )
        assert answer.status_code == 200
        results.append(answer.json())
    return results


@pytest.fixture(scope="module")
def owner(deployment: Settings) -> Iterator[psycopg.Connection[Any]]:
    """A connection for all tests of this file, which read the same week."""
    with owning(deployment) as connection:
        yield connection


@pytest.fixture(scope="module")
def alice(owner: psycopg.Connection[Any]) -> Person:
    """The person who was recorded."""
    return person(owner, "alice")


@pytest.fixture(scope="module")
def api(
    resource_client: TestClient, owner: psycopg.Connection[Any], rollup_worker: RollupWorker
) -> AskedAgain:
    """The resource server, which is asked with and without rollups."""
    return AskedAgain(resource_client, owner, rollup_worker.make_due)


@pytest.fixture(scope="module")
def reading(api: TestClient, alice: Person) -> dict[str, str]:
    """The headers of a request that may read the week."""
    load(api, alice.headers("ingest:app_sessions"))
    load(api, alice.headers("ingest:coding_sessions"), "coding-sessions", CODING)
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
        assert {key: row[key] for key in day} == day


def test_all_sessions_count_but_idle_ones(api: TestClient, reading: dict[str, str]) -> None:
    expected = EXPECTED["sessions"]
    span = {"from": "2025-10-01T00:00:00Z", "to": "2025-11-01T00:00:00Z"}

    apps = api.get("/api/v1/analytics/app-usage", params=span, headers=reading).json()
    coding = api.get("/api/v1/analytics/coding", params=span, headers=reading).json()

    assert apps["totals"]["session_count"] == expected["app"] - expected["idle"]
    assert coding["totals"]["session_count"] == expected["coding"]


@pytest.mark.parametrize("part", ["whole", "odd"])
def test_categories_are_right_to_the_millisecond(
    api: TestClient, reading: dict[str, str], part: str
) -> None:
    expected = EXPECTED[part]

    body = api.get(
        "/api/v1/analytics/categories",
        params={"from": expected["from"], "to": expected["to"]},
        headers=reading,
    ).json()

    assert {row["category"]: row["total_ms"] for row in body["data"]} == expected["categories"]
    assert body["totals"]["tracked_ms"] == expected["tracked_ms"]
    assert body["totals"]["uncategorized_ms"] == expected["categories"]["Uncategorized"]


@pytest.mark.parametrize("part", ["whole", "odd"])
def test_coding_is_right_to_the_millisecond(
    api: TestClient, reading: dict[str, str], part: str
) -> None:
    expected = EXPECTED[part]

    body = api.get(
        "/api/v1/analytics/coding",
        params={"from": expected["from"], "to": expected["to"]},
        headers=reading,
    ).json()

    projects = {row["project"]: row["total_ms"] for row in body["data"]["projects"]}
    languages = {row["language"]: row["total_ms"] for row in body["data"]["languages"]}
    assert projects == expected["coding_projects"]
    assert languages == expected["coding_languages"]
    assert body["totals"]["coding_ms"] == expected["coding_ms"]


@pytest.mark.parametrize(
    ("part", "date", "tz"),
    [
        ("hourly_utc_first_day", "2025-10-20", "UTC"),
        ("hourly_zone_last_day", "2025-10-26", "Europe/Berlin"),
    ],
)
def test_hours_are_right_to_the_millisecond(
    api: TestClient, reading: dict[str, str], part: str, date: str, tz: str
) -> None:
    expected = EXPECTED[part]

    body = api.get(
        "/api/v1/analytics/hourly", params={"date": date, "tz": tz}, headers=reading
    ).json()

    rows = [
        {name: row[name] for name in hour}
        | {"categories": {part["category"]: part["total_ms"] for part in row["categories"]}}
        for row, hour in zip(body["data"], expected, strict=True)
    ]
    assert rows == expected


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin"])
def test_all_sums_of_the_week_agree(api: TestClient, reading: dict[str, str], tz: str) -> None:
    days = api.get(
        "/api/v1/analytics/daily",
        params={"from": "2025-10-20", "to": "2025-10-26", "tz": tz},
        headers=reading,
    ).json()
    week = {"from": days["data"][0]["starts_at"], "to": days["data"][-1]["ends_at"]}
    tracked = [day["tracked_ms"] for day in days["data"]]

    apps = api.get("/api/v1/analytics/app-usage", params=week, headers=reading).json()
    categories = api.get("/api/v1/analytics/categories", params=week, headers=reading).json()
    by_app = api.get("/api/v1/sessions/by-app", params=week, headers=reading).json()
    daily_categories = api.get(
        "/api/v1/analytics/daily-categories", params={**week, "tz": tz}, headers=reading
    ).json()
    sessions = api.get("/api/v1/sessions/daily", params={**week, "tz": tz}, headers=reading).json()
    hours = [
        api.get(
            "/api/v1/analytics/hourly", params={"date": day["date"], "tz": tz}, headers=reading
        ).json()
        for day in days["data"]
    ]

    assert sum(tracked) == days["totals"]["tracked_ms"]
    assert sum(row["total_ms"] for row in apps["data"]) == sum(tracked)
    assert sum(row["total_ms"] for row in categories["data"]) == sum(tracked)
    assert sum(row["total_ms"] for row in by_app["data"]) == sum(tracked)
    assert [day["tracked_ms"] for day in daily_categories["data"]] == tracked
    assert [day["tracked_ms"] for day in sessions["data"]] == tracked
    assert [sum(hour["total_ms"] for hour in day["data"]) for day in hours] == tracked
    assert [sum(hour["coding_ms"] for hour in day["data"]) for day in hours] == [
        day["coding_ms"] for day in days["data"]
    ]


@pytest.mark.parametrize("part", ["whole", "odd"])
def test_context_switches_are_right_to_the_millisecond(
    api: TestClient, reading: dict[str, str], part: str
) -> None:
    expected = EXPECTED[part]

    body = api.get(
        "/api/v1/analytics/context-switches",
        params={"from": expected["from"], "to": expected["to"]},
        headers=reading,
    ).json()

    def first_three(rows: list[dict[str, Any]], like: dict[str, Any]) -> list[dict[str, Any]]:
        return [{name: row[name] for name in like} for row in rows[:3]]

    newest, pairs = expected["switches_newest_three"], expected["switch_pairs_top_three"]
    assert body["totals"]["switch_count"] == body["count"] == expected["switch_count"]
    assert first_three(body["data"], newest[0]) == newest
    assert first_three(body["pairs"], pairs[0]) == pairs


@pytest.mark.parametrize("part", ["whole", "odd"])
def test_focus_streaks_are_right_to_the_millisecond(
    api: TestClient, reading: dict[str, str], part: str
) -> None:
    expected = EXPECTED[part]

    body = api.get(
        "/api/v1/analytics/focus-streaks",
        params={"from": expected["from"], "to": expected["to"]},
        headers=reading,
    ).json()

    rows = [row | row["broken_by"] for row in reversed(body["data"])]
    assert [{name: row[name] for name in expected["focus_streaks"][0]} for row in rows] == expected[
        "focus_streaks"
    ]


@pytest.mark.parametrize("part", ["whole", "odd"])
def test_each_streak_has_the_switches_that_its_range_has(
    api: TestClient, reading: dict[str, str], part: str
) -> None:
    span = {"from": EXPECTED[part]["from"], "to": EXPECTED[part]["to"]}
    streaks = api.get("/api/v1/analytics/focus-streaks", params=span, headers=reading).json()
    whole = {"from": "2025-10-19T00:00:00Z", "to": "2025-10-28T00:00:00Z"}
    switches = api.get("/api/v1/analytics/context-switches", params=whole, headers=reading).json()

    for streak in streaks["data"]:
        assert streak["switch_count"] == len(
            [s for s in switches["data"] if streak["started_at"] <= s["at"] < streak["ended_at"]]
        )


def test_devices_count_their_events(api: TestClient, reading: dict[str, str]) -> None:
    devices = api.get("/api/v1/devices", headers=reading).json()["data"]

    assert {device["name"] for device in devices} == {"laptop", "phone", "a-tablet"}
    for device in devices:
        sent = [event for event in EVENTS + CODING if event["device"] == device["name"]]
        assert device["event_count"] == len(sent)
        streams = {"app_sessions" if "app" in event else "coding_sessions" for event in sent}
        assert set(device["streams"]) == streams


def test_loading_it_again_gives_duplicates_only(
    api: TestClient, owner: psycopg.Connection[Any]
) -> None:
    bob = person(owner, "bob")
    headers = bob.headers("ingest:app_sessions", "ingest:coding_sessions")

    first = load(api, headers) + load(api, headers, "coding-sessions", CODING)
    second = load(api, headers) + load(api, headers, "coding-sessions", CODING)

    assert sum(result["accepted"] for result in first) == len(EVENTS) + len(CODING) == 4412
    assert sum(result["duplicates"] for result in second) == 4412
    assert sum(result["accepted"] for result in second) == 0


def test_a_token_with_only_ingest_scopes_reads_nothing(api: TestClient, alice: Person) -> None:
    answer = api.get(
        "/api/v1/analytics/daily",
        params={"from": "2025-10-20", "to": "2025-10-26"},
        headers=alice.headers("ingest:app_sessions"),
    )

    assert answer.status_code == 403
    assert answer.json() == {"error": "insufficient_scope", "message": "read:activity is required"}
