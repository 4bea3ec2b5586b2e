"""GET /api/v1/sessions/by-app."""

from typing import Any

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import ask
from tests.endpoints.test_app_usage import event, post

PATH = "/api/v1/sessions/by-app"
DAY = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}

Owner = psycopg.Connection[Any]


def test_an_hour_by_hand(api: TestClient, owner: Owner, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("Code", "08:30:00", "10:00:00", category="Development", title="main.py"),
            event("Slack", "09:15:00", "09:25:00", category="Communication"),
            event("Code", "09:50:00", "10:30:00", category="Development", idempotency_key="late"),
            event("Idle", "09:40:00", "09:45:00", idle=True),
            event("Glance", "09:30:00", "09:30:00"),
        ],
    )
    ids = dict(
        owner.execute(
            "select app || ' ' || started_at::text, app_session_id::text from activity.app_session"
        ).fetchall()
    )

    body = ask(api, alice, PATH, start="2025-06-16T09:00:00Z", end="2025-06-16T10:00:00.001Z")

    assert body == {
        "range": {"from": "2025-06-16T09:00:00.000Z", "to": "2025-06-16T10:00:00.001Z"},
        "removed_before": None,
        "data": [
            {
                "app": "Code",
                "category": "Development",
                "productivity": "productive",
                "total_ms": 3_000_001,
                "percent": 83.33,
                "session_count": 2,
                "average_ms": 1_500_001,
                "longest_ms": 2_400_000,
                "first_started_at": "2025-06-16T09:00:00.000Z",
                "last_ended_at": "2025-06-16T10:00:00.001Z",
                "sessions": [
                    {
                        "id": ids["Code 2025-06-16 09:50:00+00"],
                        "started_at": "2025-06-16T09:50:00.000Z",
                        "ended_at": "2025-06-16T10:30:00.000Z",
                        "duration_ms": 2_400_000,
                        "title": None,
                    },
                    {
                        "id": ids["Code 2025-06-16 08:30:00+00"],
                        "started_at": "2025-06-16T08:30:00.000Z",
                        "ended_at": "2025-06-16T10:00:00.000Z",
                        "duration_ms": 5_400_000,
                        "title": "main.py",
                    },
                ],
            },
            {
                "app": "Slack",
                "category": "Communication",
                "productivity": "neutral",
                "total_ms": 600_000,
                "percent": 16.67,
                "session_count": 1,
                "average_ms": 600_000,
                "longest_ms": 600_000,
                "first_started_at": "2025-06-16T09:15:00.000Z",
                "last_ended_at": "2025-06-16T09:25:00.000Z",
                "sessions": [
                    {
                        "id": ids["Slack 2025-06-16 09:15:00+00"],
                        "started_at": "2025-06-16T09:15:00.000Z",
                        "ended_at": "2025-06-16T09:25:00.000Z",
                        "duration_ms": 600_000,
                        "title": None,
                    }
                ],
            },
            {
                "app": "Glance",
                "category": "Uncategorized",
                "productivity": "neutral",
                "total_ms": 0,
                "percent": 0.0,
                "session_count": 1,
                "average_ms": 0,
                "longest_ms": 0,
                "first_started_at": None,
                "last_ended_at": None,
                "sessions": [
                    {
                        "id": ids["Glance 2025-06-16 09:30:00+00"],
                        "started_at": "2025-06-16T09:30:00.000Z",
                        "ended_at": "2025-06-16T09:30:00.000Z",
                        "duration_ms": 0,
                        "title": None,
                    }
                ],
            },
        ],
        "totals": {"tracked_ms": 3_600_001, "app_count": 3, "session_count": 4},
    }


def test_the_twenty_newest_sessions_of_an_application_are_listed(
    api: TestClient, owner: Owner, alice: Person
) -> None:
    post(api, alice, [event("Code", f"09:{n:02}:00", f"09:{n:02}:30") for n in range(25)])
    post(
        api,
        alice,
        [event("Mail", "10:00:00", "10:01:00", idempotency_key=str(n)) for n in range(25)],
    )
    mails = owner.execute(
        "select app_session_id::text from activity.app_session where app = 'Mail' order by app_session_id"
    ).fetchall()

    body = ask(api, alice, PATH, **DAY)

    code, mail = body["data"]
    assert code["session_count"] == 25
    assert code["total_ms"] == 750_000
    assert [session["started_at"][11:16] for session in code["sessions"]] == [
        f"09:{n:02}" for n in range(24, 4, -1)
    ]
    assert [session["id"] for session in mail["sessions"]] == [key for (key,) in mails[:4:-1]]


def test_an_empty_account_has_no_rows(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, **DAY)

    assert body["data"] == []
    assert body["totals"] == {"tracked_ms": 0, "app_count": 0, "session_count": 0}


def test_bob_sees_nothing_of_alices(api: TestClient, alice: Person, bob: Person) -> None:
    post(api, alice, [event("Code", "09:00:00", "10:00:00", title="Secret of alice")])

    body = ask(api, bob, PATH, **DAY)

    assert body["data"] == []
