"""Extreme ranges, and rules that match everything."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import ask
from tests.endpoints.test_categories import add_rule, times
from tests.timeline.test_lives import event, post

Owner = psycopg.Connection[Any]

HOUR = 3_600_000
OF_INSTANTS = {
    "analytics/app-usage": {
        "tracked_ms": HOUR,
        "app_count": 2,
        "session_count": 2,
        "domains_ms": 0,
        "without_domain_ms": HOUR,
    },
    "analytics/categories": {
        "tracked_ms": HOUR,
        "productive_ms": HOUR // 2,
        "neutral_ms": HOUR // 2,
        "distracted_ms": 0,
        "uncategorized_ms": 0,
    },
    "analytics/coding": {
        "coding_ms": HOUR,
        "session_count": 1,
        "project_count": 1,
        "language_count": 1,
        "lines_added": 0,
        "lines_removed": 0,
    },
    "analytics/context-switches": {
        "switch_count": 1,
        "average_before_ms": HOUR // 2,
        "median_before_ms": HOUR // 2,
        "per_active_hour": 1.0,
    },
    "analytics/focus-streaks": {
        "streak_count": 1,
        "focus_ms": HOUR // 2,
        "longest_ms": HOUR // 2,
        "average_ms": HOUR // 2,
    },
    "sessions/by-app": {"tracked_ms": HOUR, "app_count": 2, "session_count": 2},
}
"""Totals of requests about any two instants around `an_hour`."""


@pytest.fixture
def an_hour(api: TestClient, alice: Person) -> None:
    """Half an hour in each of two applications, and an hour of coding meanwhile."""
    nine, half = datetime(2025, 6, 16, 9, tzinfo=UTC), timedelta(minutes=30)
    post(
        api,
        alice,
        "app-sessions",
        [
            event(nine, half, app="Code", category="Development", title="a.py"),
            event(nine + half, half, app="Mail", category="Communication"),
        ],
    )
    post(api, alice, "coding-sessions", [event(nine, 2 * half, project="svc")])


@pytest.mark.usefixtures("an_hour")
@pytest.mark.parametrize("path", OF_INSTANTS)
@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("1525-06-16T00:00:00.001Z", "2525-06-16T23:59:59.999Z"),
        ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_range_of_a_thousand_years_has_the_same_sums_as_its_only_hour(
    api: TestClient, alice: Person, path: str, start: str, end: str
) -> None:
    body = ask(api, alice, f"/api/v1/{path}", start=start, end=end)

    assert body["totals"] == OF_INSTANTS[path]


@pytest.mark.parametrize("path", ["analytics/daily-categories", "sessions/daily"])
@pytest.mark.parametrize(
    ("start", "end", "wrong"),
    [
        ("1525-06-16T00:00:00Z", "2525-06-16T00:00:00Z", "from: must be between 1900-01-01 and"),
        ("1925-06-16T00:00:00Z", "2925-06-16T00:00:00Z", "to: must be at most 3700 days after"),
        ("9025-06-16T00:00:00Z", "9999-06-16T00:00:00Z", "to: must be between 1900-01-01 and"),
    ],
)
def test_days_of_a_thousand_years_are_refused(
    api: TestClient, alice: Person, path: str, start: str, end: str, wrong: str
) -> None:
    answer = api.get(
        f"/api/v1/{path}",
        params={"from": start, "to": end},
        headers=alice.headers("read:activity"),
    )

    assert answer.status_code == 400
    assert answer.json()["message"].startswith(wrong)


@pytest.mark.parametrize(
    ("start", "end", "wrong"),
    [
        ("1525-06-16", "2525-06-16", "from: must be between 1900-01-01 and 9998-12-31"),
        ("1925-06-16", "2925-06-16", "to: must be at most 3700 days after from"),
        ("9025-06-16", "9999-06-16", "to: must be between 1900-01-01 and 9998-12-31"),
    ],
)
def test_a_thousand_years_of_days_are_refused(
    api: TestClient, alice: Person, start: str, end: str, wrong: str
) -> None:
    answer = api.get(
        "/api/v1/analytics/daily",
        params={"from": start, "to": end},
        headers=alice.headers("read:activity"),
    )

    assert answer.status_code == 400
    assert answer.json()["message"] == wrong


NOTHING = {
    "analytics/app-usage": {
        "tracked_ms": 0,
        "app_count": 0,
        "session_count": 0,
        "domains_ms": 0,
        "without_domain_ms": 0,
    },
    "analytics/categories": {
        "tracked_ms": 0,
        "productive_ms": 0,
        "neutral_ms": 0,
        "distracted_ms": 0,
        "uncategorized_ms": 0,
    },
    "analytics/coding": {
        "coding_ms": 0,
        "session_count": 0,
        "project_count": 0,
        "language_count": 0,
        "lines_added": 0,
        "lines_removed": 0,
    },
    "analytics/context-switches": {
        "switch_count": 0,
        "average_before_ms": None,
        "median_before_ms": None,
        "per_active_hour": None,
    },
    "analytics/daily-categories": {"tracked_ms": 0},
    "analytics/focus-streaks": {
        "streak_count": 0,
        "focus_ms": 0,
        "longest_ms": 0,
        "average_ms": None,
    },
    "sessions/by-app": {"tracked_ms": 0, "app_count": 0, "session_count": 0},
    "sessions/daily": {"session_count": 0, "tracked_ms": 0},
}


@pytest.mark.usefixtures("an_hour")
@pytest.mark.parametrize("path", NOTHING)
@pytest.mark.parametrize(
    ("start", "end"),
    [
        # In the midst of a session, and at the edge between two.
        ("2025-06-16T09:10:00Z", "2025-06-16T09:10:00Z"),
        ("2025-06-16T09:30:00Z", "2025-06-16T09:30:00Z"),
        # The future.
        ("2525-06-16T09:30:00Z", "2526-06-16T09:30:00Z"),
    ],
)
def test_ranges_without_length_and_in_the_future_are_empty(
    api: TestClient, alice: Person, path: str, start: str, end: str
) -> None:
    body = ask(api, alice, f"/api/v1/{path}", start=start, end=end)

    assert body["totals"] == NOTHING[path]


@pytest.mark.usefixtures("an_hour")
def test_future_days_are_listed_and_empty(api: TestClient, alice: Person) -> None:
    daily = ask(api, alice, "/api/v1/analytics/daily", start="9998-12-30", end="9998-12-31")
    hourly = ask(api, alice, "/api/v1/analytics/hourly", date="9998-12-31", tz="Pacific/Apia")

    assert [(day["date"], day["tracked_ms"], day["has_data"]) for day in daily["data"]] == [
        ("9998-12-30", 0, False),
        ("9998-12-31", 0, False),
    ]
    assert [hour["total_ms"] for hour in hourly["data"]] == [0] * 24


@pytest.mark.usefixtures("an_hour")
@pytest.mark.parametrize(
    ("field", "match", "pattern", "expected"),
    [
        ("app", "regex", ".*", {"Everything": HOUR}),
        ("app", "regex", "^", {"Everything": HOUR}),
        ("app", "regex", "x|", {"Everything": HOUR}),
        # Of the two only Mail has an A.
        ("app", "contains", "A", {"Everything": HOUR // 2, "Own": HOUR // 2}),
        # Mail has no title, and neither has a domain.
        ("title", "regex", ".*", {"Everything": HOUR // 2, "Communication": HOUR // 2}),
        ("domain", "regex", ".*", {"Own": HOUR // 2, "Communication": HOUR // 2}),
    ],
)
def test_a_rule_that_matches_everything_decides_for_all_sessions_with_its_field(
    api: TestClient,
    owner: Owner,
    alice: Person,
    field: str,
    match: str,
    pattern: str,
    expected: dict[str, int],
) -> None:
    add_rule(owner, alice, field, match, pattern, "Everything", priority=1)
    add_rule(owner, alice, "app", "exact", "Code", "Own", priority=2)

    day = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}
    body = ask(api, alice, "/api/v1/analytics/categories", **day)

    assert times(body) == expected
