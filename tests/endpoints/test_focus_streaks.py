"""GET /api/v1/analytics/focus-streaks."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import add_sessions, ask
from tests.endpoints.test_app_usage import event, post
from tests.endpoints.timeline import Session

PATH = "/api/v1/analytics/focus-streaks"
DAY = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}


def work(start: str, end: str, app: str = "Code") -> dict[str, Any]:
    return event(app, start, end, category="Development")


def other(category: str, start: str, end: str) -> dict[str, Any]:
    return event(category, start, end, category=category)


def test_a_morning_by_hand(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            other("Communication", "08:59:00", "09:00:00"),
            work("09:00:00", "09:20:00"),
            event("Slack", "09:20:00", "09:21:00", category="Communication"),
            event("Docs", "09:21:00", "09:46:00", category="Reference"),
            event("Films", "09:46:00", "09:46:29.999", category="Entertainment"),
            work("09:46:29.999", "09:55:00"),
            event("Slack", "09:55:00", "09:56:30", category="Communication"),
            event("News", "09:56:30", "10:30:00", category="News"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "definition": {
            "min_streak_ms": 600_000,
            "idle_gap_ms": 300_000,
            "distraction_ms": 30_000,
            "neutral_tolerance_ms": 120_000,
        },
        "data": [
            {
                "started_at": "2025-06-16T09:00:00.000Z",
                "ended_at": "2025-06-16T09:55:00.000Z",
                "duration_ms": 3_300_000,
                "productive_ms": 3_210_001,
                "top_app": "Code",
                "top_category": "Development",
                "app_count": 4,
                "switch_count": 5,
                "broken_by": {
                    "reason": "distraction",
                    "at": "2025-06-16T09:56:30.000Z",
                    "app": "News",
                    "category": "News",
                    "gap_ms": None,
                },
            }
        ],
        "totals": {
            "streak_count": 1,
            "focus_ms": 3_300_000,
            "longest_ms": 3_300_000,
            "average_ms": 3_300_000,
        },
        "count": 1,
        "limit": 2000,
        "has_more": False,
        "next_cursor": None,
    }


def test_a_streak_has_the_switches_that_its_range_has(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            other("News", "08:59:00", "09:00:00"),
            work("09:00:00", "09:10:00"),
            work("09:10:00", "09:20:00", app="Terminal"),
            other("News", "09:20:00", "09:30:00"),
        ],
    )

    (streak,) = ask(api, alice, PATH, **DAY)["data"]
    switches = ask(
        api,
        alice,
        "/api/v1/analytics/context-switches",
        start=streak["started_at"],
        end=streak["ended_at"],
    )

    assert streak["switch_count"] == switches["totals"]["switch_count"] == 2


def test_an_empty_account_has_no_streaks(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, **DAY)

    assert (body["data"], body["count"]) == ([], 0)
    assert body["totals"] == {
        "streak_count": 0,
        "focus_ms": 0,
        "longest_ms": 0,
        "average_ms": None,
    }


def test_bob_sees_nothing_of_alices(api: TestClient, alice: Person, bob: Person) -> None:
    post(api, alice, [work("09:00:00", "09:10:00")])

    assert ask(api, alice, PATH, **DAY)["count"] == 1
    assert ask(api, bob, PATH, **DAY)["count"] == 0


@pytest.mark.parametrize(("end", "count"), [("09:10:00", 1), ("09:09:59.999", 0)])
def test_a_streak_is_ten_minutes_long(api: TestClient, alice: Person, end: str, count: int) -> None:
    post(api, alice, [work("09:00:00", end)])

    assert ask(api, alice, PATH, **DAY)["count"] == count


def ends(api: TestClient, person: Person) -> list[tuple[str, str, str, int | None]]:
    """Start, end, reason and gap of the day's streaks."""
    return [
        (
            row["started_at"][11:23],
            row["ended_at"][11:23],
            row["broken_by"]["reason"],
            row["broken_by"]["gap_ms"],
        )
        for row in reversed(ask(api, person, PATH, **DAY)["data"])
    ]


def test_distracting_time_adds_up_to_the_next_productive_time(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            work("09:00:00", "09:10:00"),
            other("News", "09:10:00", "09:10:29.999"),
            work("09:10:29.999", "09:20:00"),
            other("News", "09:20:00", "09:20:10"),
            other("Communication", "09:20:10", "09:20:20"),
            other("Games", "09:20:20", "09:20:40"),
            work("09:20:40", "09:30:00"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert [(row["ended_at"][11:19], row["broken_by"]) for row in body["data"]] == [
        (
            "09:20:00",
            {
                "reason": "distraction",
                "at": "2025-06-16T09:20:20.000Z",
                "app": "Games",
                "category": "Games",
                "gap_ms": None,
            },
        )
    ]


def test_more_than_two_minutes_of_neutral_time_break_a_streak(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            work("09:00:00", "09:10:00"),
            other("Communication", "09:10:00", "09:12:00"),
            work("09:12:00", "09:20:00"),
            other("Communication", "09:20:00", "09:21:00"),
            event("Files", "09:21:00", "09:22:00.001", category="Utilities"),
            work("09:22:00.001", "09:30:00"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert [
        (row["ended_at"][11:19], row["broken_by"]["reason"], row["broken_by"]["app"])
        for row in body["data"]
    ] == [("09:20:00", "neutral", "Files")]


def test_a_pause_of_more_than_five_minutes_breaks_a_streak(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            work("09:00:00", "09:05:00"),
            work("09:10:00", "09:15:00"),
            other("Communication", "09:15:00", "09:16:00"),
            work("09:21:00.001", "09:41:00"),
        ],
    )

    assert ends(api, alice) == [
        ("09:00:00.000", "09:15:00.000", "idle", 300_001),
        ("09:21:00.001", "09:41:00.000", "end_of_data", None),
    ]


def test_a_pause_may_last_for_days(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    hour, day = 3_600_000, 86_400_000
    add_sessions(
        owner,
        alice,
        [
            Session("1", "a", "Code", 9 * hour, 10 * hour, False, "Development"),
            Session("2", "a", "Code", 3 * day, 3 * day + hour, False, "Development"),
        ],
    )

    assert ends(api, alice) == [("09:00:00.000", "10:00:00.000", "idle", 3 * day - 10 * hour)]


def test_a_streak_over_several_days_is_listed_whole(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    day = 86_400_000
    add_sessions(
        owner,
        alice,
        [
            Session(f"{n}", "a", "Code", n * day, n * day + day, False, "Development")
            for n in range(10)
        ],
    )

    (streak,) = ask(api, alice, PATH, start="2025-06-20T10:00:00Z", end="2025-06-20T11:00:00Z")[
        "data"
    ]

    assert (streak["started_at"], streak["duration_ms"]) == ("2025-06-16T00:00:00.000Z", 10 * day)


def test_a_pause_that_reaches_beyond_the_range_breaks_a_streak(
    api: TestClient, alice: Person
) -> None:
    post(api, alice, [work("09:00:00", "09:15:00"), work("10:00:00", "10:15:00")])

    within = ask(api, alice, PATH, start="2025-06-16T09:10:00Z", end="2025-06-16T09:20:00Z")
    before = ask(api, alice, PATH, start="2025-06-16T09:10:00Z", end="2025-06-16T09:12:00Z")

    assert within["data"] == before["data"]
    assert within["data"][0]["broken_by"] == {
        "reason": "idle",
        "at": "2025-06-16T09:15:00.000Z",
        "app": None,
        "category": None,
        "gap_ms": 2_700_000,
    }
    assert within["totals"] == {
        "streak_count": 1,
        "focus_ms": 300_000,
        "longest_ms": 300_000,
        "average_ms": 300_000,
    }
    assert before["totals"]["focus_ms"] == 120_000


@pytest.mark.parametrize(
    ("start", "end", "count"),
    [
        ("09:10:00", "09:20:00", 0),
        ("09:09:59.999", "09:20:00", 1),
        ("08:00:00", "09:00:00", 0),
        ("08:00:00", "09:00:00.001", 1),
        ("09:05:00", "09:05:00", 0),
    ],
)
def test_a_streak_is_listed_if_a_part_of_it_lies_in_the_range(
    api: TestClient, alice: Person, start: str, end: str, count: int
) -> None:
    post(api, alice, [work("09:00:00", "09:10:00")])

    body = ask(api, alice, PATH, start=f"2025-06-16T{start}Z", end=f"2025-06-16T{end}Z")

    assert body["count"] == body["totals"]["streak_count"] == count


@pytest.mark.parametrize(
    ("minutes_ago", "reason"), [(4, "ongoing"), (6, "end_of_data"), (-1, "ongoing")]
)
def test_the_last_streak_is_ongoing_while_its_timeline_is_fresh(
    api: TestClient, alice: Person, minutes_ago: int, reason: str
) -> None:
    now = datetime.now(UTC)
    end = now - timedelta(minutes=minutes_ago)
    post(
        api,
        alice,
        [
            {
                "app": "Code",
                "category": "Development",
                "started_at": (end - timedelta(minutes=21)).isoformat(),
                "ended_at": (end - timedelta(minutes=1)).isoformat(),
            },
            {
                "app": "Slack",
                "category": "Communication",
                "started_at": (end - timedelta(minutes=1)).isoformat(),
                "ended_at": end.isoformat(),
            },
        ],
    )

    (streak,) = ask(
        api,
        alice,
        PATH,
        start=(now - timedelta(hours=1)).isoformat(),
        end=(now - timedelta(minutes=15)).isoformat(),
    )["data"]

    assert streak["broken_by"] == {
        "reason": reason,
        "at": end.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "app": None,
        "category": None,
        "gap_ms": None,
    }
    assert streak["duration_ms"] == 1_200_000


def test_a_persons_own_scores_decide_what_is_productive(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person, bob: Person
) -> None:
    for person in (alice, bob):
        post(api, person, [other("Games", "09:00:00", "09:30:00")])
    owner.execute(
        "insert into activity.category_score (user_id, category, score) values (%s, 'Games', 1)",
        [alice.user_id],
    )

    assert ask(api, alice, PATH, **DAY)["totals"]["focus_ms"] == 1_800_000
    assert ask(api, bob, PATH, **DAY)["totals"]["focus_ms"] == 0


def test_a_session_without_length_cuts_no_segment_in_two(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            work("09:00:00", "09:20:00"),
            other("Games", "09:20:00", "09:21:00"),
            event("Glance", "09:20:10", "09:20:10"),
        ],
    )

    (streak,) = ask(api, alice, PATH, **DAY)["data"]

    assert streak["broken_by"]["at"] == "2025-06-16T09:20:00.000Z"


def test_the_first_name_in_byte_order_wins_at_equal_time(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("b", "09:00:00", "09:10:00", category="Writing"),
            event("B", "09:10:00", "09:20:00", category="Design"),
        ],
    )

    (streak,) = ask(api, alice, PATH, **DAY)["data"]

    assert (streak["top_app"], streak["top_category"]) == ("B", "Design")


def test_pages_neither_skip_nor_repeat_while_streaks_are_added(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session(
                f"{n}", "a", "Code", n * 1_200_000, n * 1_200_000 + 600_000, False, "Development"
            )
            for n in range(2003)
        ],
    )
    month = {"start": "2025-06-16T00:00:00Z", "end": "2025-07-31T00:00:00Z"}

    first = ask(api, alice, PATH, **month)
    new = 2003 * 1_200_000
    add_sessions(owner, alice, [Session("n", "a", "x", new, new + 600_000, False, "Design")])
    second = ask(api, alice, PATH, **month, cursor=first["next_cursor"])

    assert (first["count"], first["limit"], first["has_more"]) == (2000, 2000, True)
    assert (second["count"], second["has_more"], second["next_cursor"]) == (3, False, None)
    starts = [row["started_at"] for row in first["data"] + second["data"]]
    assert starts == sorted(set(starts), reverse=True)
    assert len(starts) == 2003
    assert first["totals"]["streak_count"] == 2003
    assert second["totals"]["focus_ms"] == 2004 * 600_000
