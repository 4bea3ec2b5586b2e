"""GET /api/v1/sessions/by-app."""

from typing import Any

import psycopg
from hypothesis import given
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import History, ask, carol_with, histories
from tests.endpoints.test_app_usage import event, post
from tests.endpoints.timeline import (
    average,
    counted,
    instant,
    owned_ms,
    percent,
    productivity,
    segments,
)

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


def test_of_many_sessions_the_twenty_newest_are_listed(
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


@given(history=histories())
def test_any_history_gives_the_rows_that_the_slow_model_gives(
    api: TestClient, owner: Owner, history: History
) -> None:
    carol = carol_with(owner, history)

    body = ask(api, carol, PATH, start=instant(history.start), end=instant(history.end))

    owned = owned_ms(history.sessions, history.start, history.end)
    own = segments(history.sessions, history.start, history.end)
    present = counted(history.sessions, history.start, history.end)
    rows: list[dict[str, Any]] = []
    for app in {s.app for s in present}:
        of_app = [s for s in present if s.app == app]
        total = sum(owned.get(s, 0) for s in of_app)
        by_category = {
            category: sum(owned.get(s, 0) for s in of_app if s.category == category)
            for category in {s.category for s in of_app}
        }
        category = min(by_category, key=lambda name: (-by_category[name], name.encode()))
        edges = [(start, end) for start, end, s in own if s.app == app]
        rows.append(
            {
                "app": app,
                "category": category,
                "productivity": productivity(category),
                "total_ms": total,
                "percent": percent(total, sum(owned.values())),
                "session_count": len(of_app),
                "average_ms": average(total, len(of_app)),
                "longest_ms": max(owned.get(s, 0) for s in of_app),
                "first_started_at": instant(edges[0][0]) if edges else None,
                "last_ended_at": instant(edges[-1][1]) if edges else None,
                "sessions": sorted(
                    ((instant(s.started), s.ended - s.started) for s in of_app), reverse=True
                ),
            }
        )
    for row in body["data"]:
        row["sessions"] = sorted(
            ((session["started_at"], session["duration_ms"]) for session in row["sessions"]),
            reverse=True,
        )
    assert body["data"] == sorted(rows, key=lambda row: (-row["total_ms"], row["app"].encode()))
    assert body["totals"] == {
        "tracked_ms": sum(owned.values()),
        "app_count": len(rows),
        "session_count": len(present),
    }
