"""GET /api/v1/analytics/focus-breaks and /api/v1/analytics/switch-costs."""

from collections import defaultdict
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import psycopg
from hypothesis import given
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints import answers
from tests.endpoints.attention import LONGEST_GAP, Segment, whole_timeline
from tests.endpoints.histories import add_sessions, ask
from tests.endpoints.test_attention import carol_with, questions
from tests.endpoints.timeline import Session, average, instant, percent

BREAKS = "/api/v1/analytics/focus-breaks"
COSTS = "/api/v1/analytics/switch-costs"
MINUTE = 60_000

Owner = psycopg.Connection[Any]


def track(owner: Owner, person: Person, *used: tuple[str, str, int, int]) -> None:
    """Write sessions: application, category, and first and last minute."""
    add_sessions(
        owner,
        person,
        [
            Session(f"{n:02}", "laptop", app, start * MINUTE, end * MINUTE, category=category)
            for n, (app, category, start, end) in enumerate(used)
        ],
    )


def streak(
    start: int,
    end: int,
    *,
    reason: str = "distraction",
    broken_at: int,
    gap_ms: int | None = None,
) -> dict[str, Any]:
    """Return a streak of work in one application, given its first and last minute."""
    is_distracted = reason == "distraction"
    return {
        "started_at": minute(start),
        "ended_at": minute(end),
        "duration_ms": (end - start) * MINUTE,
        "productive_ms": (end - start) * MINUTE,
        "top_app": "Code",
        "top_category": "Development",
        "app_count": 1,
        "broken_by": {
            "reason": reason,
            "at": minute(broken_at),
            "app": "Chess" if is_distracted else None,
            "category": "Games" if is_distracted else None,
            "gap_ms": gap_ms,
        },
    }


def minute(number: int) -> str:
    """Return a minute of the first hours of the day."""
    return f"2025-06-16T{number // 60:02}:{number % 60:02}:00.000Z"


def test_breaks_by_hand(api: TestClient, owner: Owner, alice: Person) -> None:
    track(
        owner,
        alice,
        ("Code", "Development", 0, 20),
        ("Chess", "Games", 20, 21),
        ("Code", "Development", 21, 41),
        ("Chess", "Games", 41, 43),
        ("Code", "Development", 43, 55),
        # A pause, and then a streak until the end of the data.
        ("Code", "Development", 65, 80),
    )

    body = ask(api, alice, BREAKS, start="2025-06-16T00:00:00.000Z", end="2025-06-17T00:00:00.000Z")

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "totals": {
            "streak_count": 4,
            "focus_ms": 67 * MINUTE,
            "longest_ms": 20 * MINUTE,
            "average_ms": 1_005_000,
        },
        "longest": {
            "started_at": "2025-06-16T00:00:00.000Z",
            "ended_at": "2025-06-16T00:20:00.000Z",
            "duration_ms": 20 * MINUTE,
        },
        "longest_streaks": [
            streak(0, 20, broken_at=20),
            streak(21, 41, broken_at=41),
            streak(65, 80, reason="end_of_data", broken_at=80),
            streak(43, 55, reason="idle", broken_at=55, gap_ms=10 * MINUTE),
        ],
        "broken_count": 3,
        "data": [
            {
                "reason": "distraction",
                "app": "Chess",
                "category": "Games",
                "count": 2,
                "percent": 66.67,
                "average_before_ms": 20 * MINUTE,
            },
            {
                "reason": "idle",
                "app": None,
                "category": None,
                "count": 1,
                "percent": 33.33,
                "average_before_ms": 12 * MINUTE,
            },
        ],
    }


def test_costs_by_hand(api: TestClient, owner: Owner, alice: Person) -> None:
    track(
        owner,
        alice,
        ("Code", "Development", 0, 20),
        ("Mail", "Communication", 20, 26),
        ("Code", "Development", 26, 60),
        ("Chat", "Communication", 60, 62),
        ("Video", "Entertainment", 62, 70),
        ("Code", "Development", 70, 90),
        ("Mail", "Communication", 90, 95),
        # After lunch, nothing was left for the news.
        ("News", "News", 130, 140),
        ("Code", "Development", 140, 150),
        # Work goes on after a pause, so nobody knows how long the chat kept it.
        ("Chat", "Communication", 150, 151),
        ("Code", "Development", 160, 170),
    )

    body = ask(api, alice, COSTS, start="2025-06-16T00:00:00.000Z", end="2025-06-17T00:00:00.000Z")

    assert body["definition"] == {"max_gap_ms": 300_000, "min_detour_ms": 1000}
    assert body["data"] == [
        {
            "app": "Chat",
            "category": "Communication",
            "count": 2,
            "returned_count": 1,
            "percent": 50,
            "total_ms": 10 * MINUTE,
            "average_ms": 10 * MINUTE,
            "median_ms": 10 * MINUTE,
        },
        {
            "app": "Mail",
            "category": "Communication",
            "count": 2,
            "returned_count": 1,
            "percent": 50,
            "total_ms": 6 * MINUTE,
            "average_ms": 6 * MINUTE,
            "median_ms": 6 * MINUTE,
        },
    ]
    assert body["totals"] == {
        "count": 4,
        "returned_count": 2,
        "total_ms": 16 * MINUTE,
        "average_ms": 8 * MINUTE,
        "median_ms": 8 * MINUTE,
    }


def test_a_detour_takes_a_second_at_least(api: TestClient, owner: Owner, alice: Person) -> None:
    track(owner, alice, ("Code", "Development", 0, 30))
    add_sessions(
        owner,
        alice,
        [
            Session(f"mail {n}", "laptop", "Mail", n * MINUTE, n * MINUTE + ms, category="News")
            for n, ms in ((10, 999), (20, 1000))
        ],
    )

    body = ask(api, alice, COSTS, start="2025-06-16T00:00:00.000Z", end="2025-06-17T00:00:00.000Z")

    assert (body["totals"]["count"], body["totals"]["total_ms"]) == (1, 1000)


def test_detours_of_more_than_a_year_are_refused(api: TestClient, alice: Person) -> None:
    answer = api.get(
        COSTS,
        params={"from": "2024-06-16T00:00:00Z", "to": "2025-06-17T00:00:01Z"},
        headers=alice.headers("read:activity"),
    )

    assert answer.status_code == 400
    assert answer.json()["message"] == "to: must be at most 366 days after from"


@given(question=questions())
def test_any_range_has_the_breaks_of_its_streaks(
    api: TestClient, owner: Owner, question: tuple[list[Session], list[tuple[int, int]]]
) -> None:
    sessions, ranges = question
    carol = carol_with(owner, sessions)

    for start, end in ranges:
        body = ask(api, carol, BREAKS, start=instant(start), end=instant(end))

        model = answers.focus_streaks(sessions, start, end, datetime.now(UTC))
        broken = defaultdict(list)
        for streak in model["data"]:
            by = streak["broken_by"]
            if by["reason"] not in ("end_of_data", "ongoing"):
                broken[by["reason"], by["app"], by["category"]].append(streak["duration_ms"])
        count = sum(map(len, broken.values()))
        assert body["totals"] == model["totals"]
        assert body["broken_count"] == count
        assert {
            (row["reason"], row["app"], row["category"]): (
                row["count"],
                row["percent"],
                row["average_before_ms"],
            )
            for row in body["data"]
        } == {
            by: (len(lengths), percent(len(lengths), count), average(sum(lengths), len(lengths)))
            for by, lengths in broken.items()
        }
        longest = max((streak["duration_ms"] for streak in model["data"]), default=None)
        assert (body["longest"] and body["longest"]["duration_ms"]) == longest
        by_length = sorted(
            model["data"], key=lambda each: (-each["duration_ms"], each["started_at"])
        )
        assert body["longest_streaks"] == [
            {name: value for name, value in streak.items() if name != "switch_count"}
            for streak in by_length[:5]
        ]


def detours(timeline: list[Segment]) -> list[tuple[int, str, str, int | None]]:
    """Return the detours of a timeline: begin, application, category, and length if work went on."""
    found = []
    for n, before in enumerate(timeline[:-1]):
        if before.score < 1 or timeline[n + 1].score >= 1:
            continue
        away: list[Segment] = []
        length = None
        for segment in timeline[n + 1 :]:
            if segment.start - (away[-1] if away else before).end > LONGEST_GAP:
                break
            if segment.score >= 1:
                length = segment.start - before.end
                break
            away.append(segment)
        if sum(segment.length for segment in away) >= 1000:
            first = away[0].session
            found.append((before.end, first.app, first.category, length))
    return found


def costs(away: list[int | None]) -> dict[str, int | None]:
    """Return the measures of some detours, by their lengths."""
    known = [length for length in away if length is not None]
    return {
        "count": len(away),
        "returned_count": len(known),
        "total_ms": sum(known),
        "average_ms": average(sum(known), len(known)),
        "median_ms": answers.median(known),
    }


@given(question=questions())
def test_any_range_has_the_detours_of_the_whole_timeline_that_begin_in_it(
    api: TestClient, owner: Owner, question: tuple[list[Session], list[tuple[int, int]]]
) -> None:
    sessions, ranges = question
    carol = carol_with(owner, sessions)
    everything = detours(whole_timeline(sessions))

    for start, end in ranges:
        body = ask(api, carol, COSTS, start=instant(start), end=instant(end))

        inside = [each for each in everything if start <= each[0] < end]
        by_app = groupby(sorted(inside, key=lambda each: each[1:3]), key=lambda each: each[1:3])
        expected = [
            {"app": app, "category": category}
            | costs(away)
            | {"percent": percent(len(away), len(inside))}
            for (app, category), group in by_app
            for away in [[each[3] for each in group]]
        ]
        assert body["totals"] == costs([each[3] for each in inside])
        assert sorted(body["data"], key=lambda row: (row["app"], row["category"])) == expected
        sizes = [row["total_ms"] for row in body["data"]]
        assert sizes == sorted(sizes, reverse=True)
