"""GET /api/v1/analytics/daily."""

from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import add_coding, add_sessions
from tests.endpoints.test_app_usage import event, post
from tests.endpoints.timeline import CodingSession, Session

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
        "coding_ms": 0,
        "app_switches": 0,
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
            day["app_switches"],
            day["session_count"],
            day["first_activity_at"],
            day["last_activity_at"],
        )
        for day in body["data"][1:]
    ] == [
        (1_800_000, 1_800_000, 0, 0, 1, "2025-06-16T23:30:00.000Z", "2025-06-17T00:00:00.000Z"),
        (
            3_600_000,
            3_000_000,
            600_000,
            2,
            2,
            "2025-06-17T00:00:00.000Z",
            "2025-06-17T01:00:00.000Z",
        ),
    ]
    assert body["totals"] == {
        "tracked_ms": 5_400_000,
        "productive_ms": 4_800_000,
        "neutral_ms": 0,
        "distracted_ms": 600_000,
        "coding_ms": 0,
        "app_switches": 2,
        "days": 3,
        "active_days": 2,
    }
    assert body["daily_average"] == {
        "tracked_ms": 2_700_000,
        "productive_ms": 2_400_000,
        "distracted_ms": 300_000,
        "coding_ms": 0,
    }


def test_a_day_with_only_coding_has_data_and_counts_as_active(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    nine = 9 * 3_600_000
    add_sessions(owner, alice, [Session("1", "laptop", "Code", nine, nine + 60_001)])
    add_coding(
        owner,
        alice,
        [
            CodingSession("1", "laptop", "svc", "Python", None, nine, nine + 3_600_000),
            CodingSession("2", "laptop", "thesis", None, None, nine + 600_000, nine + 1_200_000),
            CodingSession("3", "laptop", "svc", "Python", None, -900_000, 300_000),
        ],
    )

    body = ask(api, alice, "2025-06-15", "2025-06-17")

    assert [
        (day["tracked_ms"], day["coding_ms"], day["session_count"], day["has_data"])
        for day in body["data"]
    ] == [(0, 900_000, 0, True), (60_001, 3_900_000, 1, True), (0, 0, 0, False)]
    assert body["totals"]["coding_ms"] == 4_800_000
    assert body["totals"]["active_days"] == 2
    assert body["daily_average"] == {
        "tracked_ms": 30_001,
        "productive_ms": 0,
        "distracted_ms": 0,
        "coding_ms": 2_400_000,
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


def test_a_switch_at_midnight_belongs_to_the_new_day(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("A", "20:30:00", "21:00:00"),
            event("B", "21:00:00", "21:30:00"),
            event("C", "21:30:00", "22:00:00"),
            event("D", "22:00:00", "22:30:00"),
            event("E", "22:30:00", "23:00:00"),
        ],
    )

    body = ask(api, alice, "2025-06-16", "2025-06-17", "Europe/Berlin")

    assert [day["app_switches"] for day in body["data"]] == [2, 2]


def test_a_day_that_the_zone_skipped_is_empty_even_within_a_session(
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


@pytest.mark.parametrize("date", ["0001-01-01", "1899-12-31", "9999-01-01"])
def test_days_beyond_the_known_calendar_are_refused(
    api: TestClient, alice: Person, date: str
) -> None:
    answer = api.get(
        PATH, params={"from": date, "to": date}, headers=alice.headers("read:activity")
    )

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "from"


@pytest.mark.parametrize(
    ("tz", "starts"),
    [
        # The day that clocks were put forward to UTC has no midnight.
        (
            "Africa/Monrovia",
            {
                "1972-01-06": "1972-01-06T00:44:30.000Z",
                "1972-01-07": "1972-01-07T00:44:30.000Z",
                "1972-01-08": "1972-01-08T00:00:00.000Z",
            },
        ),
        (
            "Africa/Abidjan",
            {
                "1911-12-31": "1911-12-31T00:16:08.000Z",
                "1912-01-01": "1912-01-01T00:16:08.000Z",
                "1912-01-02": "1912-01-02T00:00:00.000Z",
            },
        ),
        # Clocks were put back by 20 seconds at midnight; the new day began when they struck it again.
        (
            "Pacific/Niue",
            {
                "1952-10-15": "1952-10-15T11:19:40.000Z",
                "1952-10-16": "1952-10-16T11:20:00.000Z",
                "1952-10-17": "1952-10-17T11:20:00.000Z",
            },
        ),
    ],
)
def test_days_around_a_change_of_clocks_by_odd_seconds_are_all_listed(
    api: TestClient, alice: Person, tz: str, starts: dict[str, str]
) -> None:
    body = ask(api, alice, min(starts), max(starts), tz)

    assert {day["date"]: day["starts_at"] for day in body["data"]} == starts
    assert [day["ends_at"] for day in body["data"]][:-1] == list(starts.values())[1:]
