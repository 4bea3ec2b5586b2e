"""GET /api/v1/analytics/hours."""

from datetime import timedelta
from typing import Any

import psycopg
from hypothesis import given
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints import answers
from tests.endpoints.histories import History, add_sessions, ask, carol_with, histories
from tests.endpoints.timeline import Session, days

PATH = "/api/v1/analytics/hours"
HOUR = 3_600_000

Owner = psycopg.Connection[Any]


def test_a_week_by_hand(api: TestClient, owner: Owner, alice: Person) -> None:
    add_sessions(
        owner,
        alice,
        [
            # Monday from half past nine to one, and two minutes of news at eleven.
            Session("1", "laptop", "Code", 19 * HOUR // 2, 13 * HOUR, category="Development"),
            Session("2", "laptop", "Paper", 11 * HOUR, 11 * HOUR + 120_000, category="News"),
            # Tuesday from nine for an hour and a half.
            Session("3", "laptop", "Code", 33 * HOUR, 69 * HOUR // 2, category="Development"),
        ],
    )

    body = ask(api, alice, PATH, start="2025-06-16", end="2025-06-22", tz="Europe/London")

    assert body["range"] == {"from": "2025-06-16", "to": "2025-06-22"}
    assert len(body["data"]) == 7 * 24
    assert [day["reported"] for day in body["days"]] == [True, True, *[False] * 5]
    assert body["data"][12] == {
        "date": "2025-06-16",
        "hour": 12,
        "utc_offset": "+01:00",
        "starts_at": "2025-06-16T11:00:00.000Z",
        "ends_at": "2025-06-16T12:00:00.000Z",
        "total_ms": HOUR,
        "productive_ms": HOUR - 120_000,
        "neutral_ms": 0,
        "distracted_ms": 120_000,
        "coding_ms": 0,
    }
    # Full hours first, of those the earliest; then the one with the news. London is an hour ahead.
    assert [(row["date"][8:], row["hour"]) for row in body["best_hours"]] == [
        ("16", 11),
        ("16", 13),
        ("17", 10),
        ("16", 12),
        ("16", 10),
    ]
    assert body["best_hours"][3] == body["data"][12]
    assert body["totals"] == {
        "tracked_ms": 5 * HOUR,
        "productive_ms": 5 * HOUR - 120_000,
        "neutral_ms": 0,
        "distracted_ms": 120_000,
        "coding_ms": 0,
    }


def test_no_productive_hour_is_among_the_best(api: TestClient, owner: Owner, alice: Person) -> None:
    add_sessions(owner, alice, [Session("1", "laptop", "Chess", 0, HOUR, category="Games")])

    body = ask(api, alice, PATH, start="2025-06-16", end="2025-06-16")

    assert body["best_hours"] == []
    assert body["totals"]["distracted_ms"] == HOUR


def test_more_than_two_months_are_refused(api: TestClient, alice: Person) -> None:
    headers = alice.headers("read:activity")

    whole = api.get(PATH, params={"from": "2025-06-01", "to": "2025-08-01"}, headers=headers)
    answer = api.get(PATH, params={"from": "2025-06-01", "to": "2025-08-02"}, headers=headers)

    assert whole.status_code == 200
    assert answer.status_code == 400
    assert answer.json()["message"] == "to: must be less than 62 days after from"


@given(history=histories())
def test_hours_are_those_of_each_day(api: TestClient, owner: Owner, history: History) -> None:
    carol = carol_with(owner, history)
    first, last = history.date - timedelta(days=1), history.date + timedelta(days=1)

    body = ask(api, carol, PATH, start=str(first), end=str(last), tz=history.zone)

    expected = [
        {"date": str(day.date)} | {name: row[name] for name in row if name != "categories"}
        for day in days(first, last, history.zone)
        for row in answers.hourly(history.sessions, history.coding, day.date, history.zone)["data"]
    ]
    # Where clocks go back over midnight, an hour of the day before comes after the first one of the day.
    expected.sort(key=lambda row: row["starts_at"])
    assert body["data"] == expected
    for name, total in body["totals"].items():
        column = "total_ms" if name == "tracked_ms" else name
        assert total == sum(row[column] for row in expected)
    best = sorted((row["productive_ms"] for row in expected), reverse=True)[:5]
    assert [row["productive_ms"] for row in body["best_hours"]] == [ms for ms in best if ms]
