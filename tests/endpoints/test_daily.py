"""GET /api/v1/analytics/daily."""

from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from resourceserver.parameters import parse_instant
from tests.conftest import Person
from tests.endpoints.test_app_usage import EPOCH, SESSIONS, post, with_sessions
from tests.endpoints.test_app_usage import ask as ask_usage
from tests.endpoints.timeline import counted, owned_ms

PATH = "/api/v1/analytics/daily"


def ask(api: TestClient, person: Person, start: str, end: str, tz: str = "UTC") -> dict[str, Any]:
    answer = api.get(
        PATH, params={"from": start, "to": end, "tz": tz}, headers=person.headers("read:activity")
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_session_over_midnight_counts_in_both_days_and_its_time_is_split(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            {
                "app": "Code",
                "category": "Development",
                "started_at": "2025-06-16T23:30:00Z",
                "ended_at": "2025-06-17T01:00:00Z",
            },
            {
                "app": "Films",
                "category": "Entertainment",
                "started_at": "2025-06-17T00:30:00Z",
                "ended_at": "2025-06-17T00:40:00Z",
            },
        ],
    )

    body = ask(api, alice, "2025-06-15", "2025-06-17")

    assert body["data"][0] == {
        "date": "2025-06-15",
        "starts_at": "2025-06-15T00:00:00.000Z",
        "ends_at": "2025-06-16T00:00:00.000Z",
        "tracked_ms": 0,
        "productive_ms": 0,
        "neutral_ms": 0,
        "distracted_ms": 0,
        "coding_ms": None,
        "app_switches": None,
        "session_count": 0,
        "first_activity_at": None,
        "last_activity_at": None,
        "has_data": False,
    }
    assert [
        (
            day["tracked_ms"],
            day["productive_ms"],
            day["distracted_ms"],
            day["session_count"],
            day["first_activity_at"],
            day["last_activity_at"],
        )
        for day in body["data"][1:]
    ] == [
        (1_800_000, 1_800_000, 0, 1, "2025-06-16T23:30:00.000Z", "2025-06-17T00:00:00.000Z"),
        (3_600_000, 3_000_000, 600_000, 2, "2025-06-17T00:00:00.000Z", "2025-06-17T01:00:00.000Z"),
    ]
    assert body["totals"] == {
        "tracked_ms": 5_400_000,
        "productive_ms": 4_800_000,
        "neutral_ms": 0,
        "distracted_ms": 600_000,
        "coding_ms": None,
        "app_switches": None,
        "days": 3,
        "active_days": 2,
    }
    assert body["daily_average"] == {
        "tracked_ms": 2_700_000,
        "productive_ms": 2_400_000,
        "distracted_ms": 300_000,
        "coding_ms": None,
    }


@pytest.mark.parametrize(
    ("tz", "date", "starts_at", "ends_at"),
    [
        ("Europe/Berlin", "2025-03-30", "2025-03-29T23:00:00.000Z", "2025-03-30T22:00:00.000Z"),
        ("Europe/Berlin", "2025-10-26", "2025-10-25T22:00:00.000Z", "2025-10-26T23:00:00.000Z"),
        (
            "Australia/Lord_Howe",
            "2025-04-06",
            "2025-04-05T13:00:00.000Z",
            "2025-04-06T13:30:00.000Z",
        ),
        (
            "Australia/Lord_Howe",
            "2025-10-05",
            "2025-10-04T13:30:00.000Z",
            "2025-10-05T13:00:00.000Z",
        ),
        ("Asia/Kathmandu", "2025-01-01", "2024-12-31T18:15:00.000Z", "2025-01-01T18:15:00.000Z"),
        ("America/Sao_Paulo", "2017-10-15", "2017-10-15T03:00:00.000Z", "2017-10-16T02:00:00.000Z"),
        ("America/Havana", "2025-11-02", "2025-11-02T04:00:00.000Z", "2025-11-03T05:00:00.000Z"),
        ("Africa/Cairo", "2025-04-25", "2025-04-24T22:00:00.000Z", "2025-04-25T21:00:00.000Z"),
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00.000Z", "2011-12-30T10:00:00.000Z"),
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30:00.000Z", "1919-04-01T04:00:00.000Z"),
    ],
)
def test_a_day_begins_at_the_first_instant_of_its_date(
    api: TestClient, alice: Person, tz: str, date: str, starts_at: str, ends_at: str
) -> None:
    body = ask(api, alice, date, date, tz)

    assert [(day["starts_at"], day["ends_at"]) for day in body["data"]] == [(starts_at, ends_at)]


def test_a_day_that_the_zone_skipped_has_nothing_even_within_a_session(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [{"app": "Code", "started_at": "2011-12-30T09:00:00Z", "ended_at": "2011-12-30T11:00:00Z"}],
    )

    body = ask(api, alice, "2011-12-29", "2011-12-31", "Pacific/Apia")

    assert [(day["date"], day["tracked_ms"], day["session_count"]) for day in body["data"]] == [
        ("2011-12-29", 3_600_000, 1),
        ("2011-12-30", 0, 0),
        ("2011-12-31", 3_600_000, 1),
    ]


def test_ten_years_of_days_are_listed_and_one_more_is_refused(
    api: TestClient, alice: Person
) -> None:
    longest = ask(api, alice, "2015-01-01", "2025-02-16", "Europe/Berlin")
    refused = api.get(
        PATH,
        params={"from": "2015-01-01", "to": "2025-02-17"},
        headers=alice.headers("read:activity"),
    )

    assert longest["totals"]["days"] == 3700
    assert refused.status_code == 400
    assert refused.json()["parameter"] == "to"
    assert longest["daily_average"]["tracked_ms"] is None


@given(sessions=SESSIONS, tz=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]))
def test_any_sessions_give_days_that_the_slow_model_gives(
    api: TestClient,
    owner: psycopg.Connection[Any],
    sessions: list[tuple[str, str, int, int, bool]],
    tz: str,
) -> None:
    carol, model = with_sessions(api, owner, sessions)

    body = ask(api, carol, "2025-06-15", "2025-06-18", tz)

    for day in body["data"]:
        start, end = since_epoch(day["starts_at"]), since_epoch(day["ends_at"])
        assert day["tracked_ms"] == sum(owned_ms(model, start, end).values())
        assert day["session_count"] == len(counted(model, start, end))
    usage = ask_usage(api, carol, body["data"][0]["starts_at"], body["data"][-1]["ends_at"])
    assert body["totals"]["tracked_ms"] == usage["totals"]["tracked_ms"]


def since_epoch(text: str) -> int:
    return round((parse_instant(text) - EPOCH).total_seconds() * 1000)


@pytest.mark.parametrize("date", ["0001-01-01", "1899-12-31", "9999-01-01"])
def test_days_beyond_the_known_calendar_are_refused(
    api: TestClient, alice: Person, date: str
) -> None:
    answer = api.get(
        PATH, params={"from": date, "to": date}, headers=alice.headers("read:activity")
    )

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "from"
