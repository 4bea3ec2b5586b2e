"""GET /api/v1/analytics/context-switches."""

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import add_sessions, ask
from tests.endpoints.test_app_usage import event, post
from tests.endpoints.timeline import EPOCH, Session

PATH = "/api/v1/analytics/context-switches"
DAY = {"start": "2025-06-16T00:00:00Z", "end": "2025-06-17T00:00:00Z"}


def times(body: dict[str, Any]) -> list[str]:
    return [row["at"][11:23] for row in body["data"]]


def test_a_morning_by_hand(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("Code", "09:00:00", "09:10:00", category="Writing"),
            event("Code", "09:10:00", "09:25:00", category="Development"),
            event("Slack", "09:12:00", "09:12:44.120", category="Communication"),
            event("Idle", "09:20:00", "09:25:00", idle=True),
            event("Slack", "09:30:00", "09:31:00", category="Communication"),
            event("Code", "09:31:00", "09:32:30", category="Development"),
            event("Code", "09:40:00", "09:41:00", category="Development"),
            event("Films", "09:50:00", "09:51:00", category="Entertainment"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "definition": {"max_gap_ms": 300_000, "min_session_ms": 1000},
        "data": [
            {
                "at": "2025-06-16T09:31:00.000Z",
                "from_app": "Slack",
                "to_app": "Code",
                "from_category": "Communication",
                "to_category": "Development",
                "before_ms": 60_000,
            },
            {
                "at": "2025-06-16T09:30:00.000Z",
                "from_app": "Code",
                "to_app": "Slack",
                "from_category": "Development",
                "to_category": "Communication",
                "before_ms": 735_880,
            },
            {
                "at": "2025-06-16T09:12:44.120Z",
                "from_app": "Slack",
                "to_app": "Code",
                "from_category": "Communication",
                "to_category": "Development",
                "before_ms": 44_120,
            },
            {
                "at": "2025-06-16T09:12:00.000Z",
                "from_app": "Code",
                "to_app": "Slack",
                "from_category": "Writing",
                "to_category": "Communication",
                "before_ms": 720_000,
            },
        ],
        "pairs": [
            {
                "from_app": "Code",
                "to_app": "Slack",
                "count": 2,
                "average_before_ms": 727_940,
                "median_before_ms": 727_940,
            },
            {
                "from_app": "Slack",
                "to_app": "Code",
                "count": 2,
                "average_before_ms": 52_060,
                "median_before_ms": 52_060,
            },
        ],
        # 4 switches in 29 minutes and 30 seconds of tracked time.
        "totals": {
            "switch_count": 4,
            "average_before_ms": 390_000,
            "median_before_ms": 390_000,
            "per_active_hour": 8.1,
        },
        "count": 4,
        "limit": 5000,
        "has_more": False,
        "next_cursor": None,
    }


def test_an_empty_account_has_no_switches_and_no_rate(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, **DAY)

    assert (body["data"], body["pairs"], body["count"]) == ([], [], 0)
    assert body["totals"] == {
        "switch_count": 0,
        "average_before_ms": None,
        "median_before_ms": None,
        "per_active_hour": None,
    }


def test_tracked_time_without_switches_has_a_rate_of_zero(api: TestClient, alice: Person) -> None:
    post(api, alice, [event("Code", "09:00:00", "10:00:00")])

    assert ask(api, alice, PATH, **DAY)["totals"]["per_active_hour"] == 0.0


def test_bob_sees_nothing_of_alices(api: TestClient, alice: Person, bob: Person) -> None:
    events = [event("A", "09:00:00", "09:01:00"), event("B", "09:01:00", "09:02:00")]
    post(api, alice, events)

    assert ask(api, alice, PATH, **DAY)["count"] == 1
    assert ask(api, bob, PATH, **DAY)["count"] == 0


@pytest.mark.parametrize(("end", "count"), [("09:05:00", 1), ("09:04:59.999", 0)])
def test_a_pause_of_five_minutes_is_a_switch_and_a_longer_one_a_return(
    api: TestClient, alice: Person, end: str, count: int
) -> None:
    post(api, alice, [event("A", "09:00:00", end), event("B", "09:10:00", "09:11:00")])

    assert ask(api, alice, PATH, **DAY)["count"] == count


@pytest.mark.parametrize(("end", "switched"), [("09:10:00.999", []), ("09:10:01", ["B", "A"])])
def test_less_than_a_second_is_a_glance(
    api: TestClient, alice: Person, end: str, switched: list[str]
) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:10:00"),
            event("B", "09:10:00", end),
            event("A", end, "09:12:00"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert [row["to_app"] for row in reversed(body["data"])] == switched


def test_pieces_of_an_application_that_last_a_second_together_make_a_switch(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:10:00"),
            event("B", "09:10:00", "09:10:00.500", category="News"),
            event("B", "09:12:00", "09:12:00.500", category="Games"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    # Of categories with equally long pieces, that of the first piece.
    assert [(row["to_app"], row["to_category"]) for row in body["data"]] == [("B", "News")]


def test_the_first_of_equally_long_stretches_gives_a_run_its_category_with_or_without_glances(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:01:00", category="Writing"),
            event("Glance", "09:01:00", "09:01:00.500"),
            event("A", "09:01:00.500", "09:02:00.500", category="Design"),
            event("B", "09:02:00.500", "09:03:00", category="News"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert [(row["from_category"], row["before_ms"]) for row in body["data"]] == [
        ("Writing", 120_000)
    ]


def test_the_longest_stretch_of_a_run_counts_and_not_the_most_time(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:00:40", category="Writing"),
            event("A", "09:01:00", "09:01:40", category="Writing"),
            event("Glance", "09:01:40", "09:01:40.500"),
            event("A", "09:02:00", "09:03:00", category="Design"),
            event("B", "09:03:00", "09:04:00"),
        ],
    )

    body = ask(api, alice, PATH, **DAY)

    assert [(row["from_category"], row["before_ms"]) for row in body["data"]] == [
        ("Design", 140_000)
    ]


def test_a_glance_does_not_fill_a_pause(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:01:00"),
            event("Glance", "09:05:00", "09:05:00.500"),
            event("B", "09:09:00", "09:10:00"),
        ],
    )

    assert ask(api, alice, PATH, **DAY)["count"] == 0


def test_a_range_has_the_switches_that_the_whole_timeline_has_within_it(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:10:00"),
            event("B", "09:10:00", "09:20:00"),
            event("C", "09:20:00", "09:30:00"),
        ],
    )

    at_the_start = ask(api, alice, PATH, start="2025-06-16T09:10:00Z", end="2025-06-16T09:20:00Z")
    just_before = ask(
        api, alice, PATH, start="2025-06-16T09:19:59.999Z", end="2025-06-16T09:20:00.001Z"
    )

    assert [(row["to_app"], row["before_ms"]) for row in at_the_start["data"]] == [("B", 600_000)]
    assert at_the_start["totals"]["per_active_hour"] == 6.0
    assert [(row["to_app"], row["before_ms"]) for row in just_before["data"]] == [("C", 600_000)]


def test_a_run_over_midnight_is_one_run(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    hour, midnight = 3_600_000, 86_400_000
    add_sessions(
        owner,
        alice,
        [
            Session("1", "a", "A", midnight - 4 * hour, midnight - 3 * hour),
            Session("2", "a", "B", midnight - 3 * hour, midnight - 2 * hour),
            Session("3", "a", "C", midnight - 2 * hour, midnight - hour),
            Session("4", "a", "D", midnight - hour, midnight, False, "Writing"),
            Session("5", "a", "D", midnight, midnight + 2 * hour, False, "Development"),
            Session("6", "a", "E", midnight + 2 * hour, midnight + 3 * hour),
            Session("7", "a", "F", midnight + 3 * hour, midnight + 4 * hour),
            Session("8", "a", "G", midnight + 4 * hour, midnight + 5 * hour),
        ],
    )

    body = ask(api, alice, PATH, start="2025-06-16T00:00:00Z", end="2025-06-18T00:00:00Z")

    assert [(row["to_app"], row["to_category"], row["before_ms"]) for row in body["data"]] == [
        ("G", "Uncategorized", hour),
        ("F", "Uncategorized", hour),
        ("E", "Uncategorized", 3 * hour),
        ("D", "Development", hour),
        ("C", "Uncategorized", hour),
        ("B", "Uncategorized", hour),
    ]
    assert body["data"][2]["from_category"] == "Development"


def test_an_application_five_minutes_after_a_session_of_a_whole_day_is_a_switch(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    day = 86_400_000
    add_sessions(
        owner,
        alice,
        [
            Session("1", "a", "Code", 0, day),
            Session("2", "a", "Slack", day + 300_000, day + 360_000),
        ],
    )

    body = ask(api, alice, PATH, start="2025-06-17T00:05:00Z", end="2025-06-17T00:06:00Z")

    assert [(row["from_app"], row["before_ms"]) for row in body["data"]] == [("Code", day)]


def test_a_run_over_several_days_has_its_whole_length(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    day = 86_400_000
    add_sessions(
        owner,
        alice,
        [Session(f"{n}", "a", "Code", n * day, n * day + day) for n in range(10)]
        + [Session("end", "a", "Slack", 10 * day, 10 * day + 60_000)],
    )

    body = ask(api, alice, PATH, start="2025-06-26T00:00:00Z", end="2025-06-26T00:01:00Z")

    assert [(row["to_app"], row["before_ms"]) for row in body["data"]] == [("Slack", 10 * day)]


def test_a_range_of_no_length_has_no_switches(api: TestClient, alice: Person) -> None:
    post(api, alice, [event("A", "09:00:00", "09:10:00"), event("B", "09:10:00", "09:20:00")])

    body = ask(api, alice, PATH, start="2025-06-16T09:10:00Z", end="2025-06-16T09:10:00Z")

    assert body["count"] == 0


def test_late_data_removes_a_switch(api: TestClient, alice: Person) -> None:
    post(api, alice, [event("A", "09:00:00", "09:01:00"), event("B", "09:06:00", "09:10:00")])
    before = ask(api, alice, PATH, **DAY)

    post(api, alice, [event("B", "08:59:00", "09:00:00"), event("B", "09:00:30", "09:06:00")])
    after = ask(api, alice, PATH, **DAY)

    assert times(before) == ["09:06:00.000"]
    assert times(after) == ["09:00:30.000", "09:00:00.000"]


def test_halves_are_rounded_up(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("A", "09:00:00", "09:00:02.001"),
            event("B", "09:00:02.001", "09:00:04.001"),
            event("A", "09:00:04.001", "09:00:10"),
        ],
    )

    totals = ask(api, alice, PATH, **DAY)["totals"]

    # The median of 2001 and 2000; rounding half to even would give 2000.
    assert (totals["average_before_ms"], totals["median_before_ms"]) == (2001, 2001)


def test_pages_neither_skip_nor_repeat_while_switches_are_added(
    api: TestClient, owner: psycopg.Connection[Any], alice: Person
) -> None:
    # 2 s of each of 60 applications in turn, and so on.
    add_sessions(
        owner,
        alice,
        [Session(f"{n}", "a", f"app {n % 60}", n * 2000, n * 2000 + 2000) for n in range(5003)],
    )

    first = ask(api, alice, PATH, **DAY)
    add_sessions(owner, alice, [Session("new", "a", "new", 5003 * 2000, 5004 * 2000)])
    second = ask(api, alice, PATH, **DAY, cursor=first["next_cursor"])

    assert (first["count"], first["limit"], first["has_more"]) == (5000, 5000, True)
    assert (second["count"], second["has_more"], second["next_cursor"]) == (2, False, None)
    found = [datetime.fromisoformat(row["at"]) for row in first["data"] + second["data"]]
    assert found == [EPOCH + timedelta(seconds=2 * n) for n in range(5002, 0, -1)]
    # The totals are of the whole range, whatever the page.
    assert first["totals"]["switch_count"] == 5002
    assert second["totals"]["switch_count"] == 5003
    assert len(first["pairs"]) == 50
    assert first["pairs"][0]["count"] == 84
    assert first["pairs"][0]["from_app"] == "app 0"
    assert first["pairs"][1]["from_app"] == "app 1"
    assert first["pairs"][2]["from_app"] == "app 10"
