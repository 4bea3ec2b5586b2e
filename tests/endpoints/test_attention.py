"""GET /api/v1/analytics/context-switches and /api/v1/analytics/focus-streaks, against a slow model."""

import statistics
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import psycopg
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.attention import Streak, Switch, streaks, switches, whole_timeline
from tests.endpoints.histories import add_sessions, ask
from tests.endpoints.timeline import EPOCH, Session, average, instant, owned_ms, rounded

SWITCHES = "/api/v1/analytics/context-switches"
STREAKS = "/api/v1/analytics/focus-streaks"

# What is just long enough, or just too long, for one rule or another; and some of no matter.
LENGTHS = [
    0,
    1,
    400,
    999,
    1000,
    29_999,
    30_000,
    60_000,
    120_000,
    120_001,
    300_000,
    600_000,
    977_033,
]
GAPS = [0, 0, 0, 0, 1, 60_000, 300_000, 300_000, 300_001, -1, -400, -30_000, -300_000, -900_000]


@st.composite
def timelines(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Session]:
    """Draw up to 30 sessions of two devices, each starting near the end of the one before."""
    sessions = []
    at = 0
    for n in range(draw(st.integers(0, 30))):
        at = max(at + draw(st.sampled_from(GAPS)), -3_600_000)
        length = draw(st.sampled_from(LENGTHS))
        sessions.append(
            Session(
                f"{n:02}",
                draw(st.sampled_from(["a", "B"])),
                draw(st.sampled_from(["x", "Y", "é"])),
                at,
                at + length,
                draw(st.sampled_from([False] * 7 + [True])),
                draw(
                    st.sampled_from(
                        ["Development", "Development", "Reference", "Communication", "News", "own"]
                    )
                ),
            )
        )
        at += length
    return sessions


@st.composite
def questions(
    draw: Callable[[st.SearchStrategy[Any]], Any],
) -> tuple[list[Session], list[tuple[int, int]]]:
    """Draw sessions and two ranges: all of them, and one whose ends are often edges of theirs."""
    sessions = draw(timelines())
    edges = sorted({edge for s in sessions for edge in (s.started, s.ended)} | {0})
    places = st.sampled_from(edges) | st.integers(edges[0] - 700_000, edges[-1] + 700_000)
    start, end = sorted((draw(places), draw(places)))
    return sessions, [(edges[0], edges[-1] + 1), (start, end)]


def carol_with(owner: psycopg.Connection[Any], sessions: list[Session]) -> Person:
    """Return a new account with these sessions and nothing else."""
    owner.execute("delete from activity.device")
    owner.execute("delete from identity.user where email = 'carol@example.org'")
    row = owner.execute(
        "insert into identity.user (email) values ('carol@example.org') returning user_id"
    ).fetchone()
    assert row is not None
    carol = Person(row[0], "carol@example.org", owner)
    add_sessions(owner, carol, sessions)
    return carol


def median(values: list[int]) -> int | None:
    """Return a median as answers show it."""
    if not values:
        return None
    return int(Decimal(statistics.median(values)).quantize(Decimal(1), ROUND_HALF_UP))


def shown_switch(switch: Switch) -> dict[str, Any]:
    """Return a switch as answers show it."""
    return {
        "at": instant(switch.at),
        "from_app": switch.from_app,
        "to_app": switch.to_app,
        "from_category": switch.from_category,
        "to_category": switch.to_category,
        "before_ms": switch.before_ms,
    }


def shown_pairs(inside: list[Switch]) -> list[dict[str, Any]]:
    """Return how often which application followed which, as answers show it."""
    pairs = defaultdict(list)
    for switch in inside:
        pairs[switch.from_app, switch.to_app].append(switch.before_ms)
    rows = [
        {
            "from_app": from_app,
            "to_app": to_app,
            "count": len(befores),
            "average_before_ms": average(sum(befores), len(befores)),
            "median_before_ms": median(befores),
        }
        for (from_app, to_app), befores in pairs.items()
    ]
    return sorted(
        rows, key=lambda row: (-row["count"], row["from_app"].encode(), row["to_app"].encode())
    )


def shown_streak(streak: Streak, every_switch: list[Switch]) -> dict[str, Any]:
    """Return a streak as answers show it."""
    breaker = streak.breaker and streak.breaker.session
    return {
        "started_at": instant(streak.start),
        "ended_at": instant(streak.end),
        "duration_ms": streak.end - streak.start,
        "productive_ms": streak.productive_ms,
        "top_app": streak.top({part: part.session.app for part in streak.parts}),
        "top_category": streak.top({part: part.session.category for part in streak.parts}),
        "app_count": len({part.session.app for part in streak.parts}),
        "switch_count": len([s for s in every_switch if streak.start <= s.at < streak.end]),
        "broken_by": {
            "reason": streak.reason,
            "at": instant(streak.at),
            "app": breaker and breaker.app,
            "category": breaker and breaker.category,
            "gap_ms": streak.gap_ms,
        },
    }


@given(question=questions())
def test_any_range_has_the_switches_of_the_whole_timeline_that_fall_into_it(
    api: TestClient,
    owner: psycopg.Connection[Any],
    question: tuple[list[Session], list[tuple[int, int]]],
) -> None:
    sessions, ranges = question
    carol = carol_with(owner, sessions)
    every = switches(whole_timeline(sessions))

    for start, end in ranges:
        body = ask(api, carol, SWITCHES, start=instant(start), end=instant(end))

        inside = [s for s in every if start <= s.at < end]
        assert body["data"] == [shown_switch(s) for s in reversed(inside)]
        assert body["pairs"] == shown_pairs(inside)
        befores = [s.before_ms for s in inside]
        tracked = sum(owned_ms(sessions, start, end).values())
        assert body["totals"] == {
            "switch_count": len(inside),
            "average_before_ms": average(sum(befores), len(befores)),
            "median_before_ms": median(befores),
            "per_active_hour": (
                float(rounded(len(inside) * 3_600_000, tracked, "0.1")) if tracked else None
            ),
        }


@given(question=questions())
def test_any_range_has_the_streaks_of_the_whole_timeline_that_overlap_it(
    api: TestClient,
    owner: psycopg.Connection[Any],
    question: tuple[list[Session], list[tuple[int, int]]],
) -> None:
    sessions, ranges = question
    carol = carol_with(owner, sessions)
    timeline = whole_timeline(sessions)
    now = (datetime.now(UTC) - EPOCH) // timedelta(milliseconds=1)
    every = streaks(timeline, now)

    for start, end in ranges:
        body = ask(api, carol, STREAKS, start=instant(start), end=instant(end))

        inside = [s for s in every if s.start < end and s.end > start and start < end]
        assert body["data"] == [shown_streak(s, switches(timeline)) for s in reversed(inside)]
        clipped = [min(s.end, end) - max(s.start, start) for s in inside]
        assert body["totals"] == {
            "streak_count": len(inside),
            "focus_ms": sum(clipped),
            "longest_ms": max(clipped, default=0),
            "average_ms": average(sum(clipped), len(clipped)),
        }
