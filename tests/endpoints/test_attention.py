"""GET /api/v1/analytics/context-switches and /api/v1/analytics/focus-streaks, against a slow model."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints import answers
from tests.endpoints.histories import add_sessions, ask
from tests.endpoints.timeline import Session, instant

SWITCHES = "/api/v1/analytics/context-switches"
STREAKS = "/api/v1/analytics/focus-streaks"

# Lengths just within or just over the limit of a rule, and others.
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
    """Draw up to 30 sessions of two devices, each starting near the end of the one before.

    Midnight may be anywhere among them, and some last for a day.
    """
    sessions = []
    at = draw(st.sampled_from([0, 0, -600_000, -3_600_000, -9_000_000]))
    for n in range(draw(st.integers(0, 30))):
        at = max(at + draw(st.sampled_from(GAPS)), -12_600_000)
        length = draw(st.sampled_from(LENGTHS * 4 + [86_400_000]))
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
    """Return a new account with these sessions only."""
    owner.execute("delete from activity.device")
    owner.execute("delete from identity.user where email = 'carol@example.org'")
    row = owner.execute(
        "insert into identity.user (email) values ('carol@example.org') returning user_id"
    ).fetchone()
    assert row is not None
    carol = Person(row[0], "carol@example.org", owner)
    add_sessions(owner, carol, sessions)
    return carol


@given(question=questions())
def test_any_range_has_the_switches_of_the_whole_timeline_within_it(
    api: TestClient,
    owner: psycopg.Connection[Any],
    question: tuple[list[Session], list[tuple[int, int]]],
) -> None:
    sessions, ranges = question
    carol = carol_with(owner, sessions)

    for start, end in ranges:
        body = ask(api, carol, SWITCHES, start=instant(start), end=instant(end))

        assert body == body | answers.context_switches(sessions, start, end)


@given(question=questions())
def test_any_range_has_the_streaks_of_the_whole_timeline_that_overlap_it(
    api: TestClient,
    owner: psycopg.Connection[Any],
    question: tuple[list[Session], list[tuple[int, int]]],
) -> None:
    sessions, ranges = question
    carol = carol_with(owner, sessions)

    for start, end in ranges:
        body = ask(api, carol, STREAKS, start=instant(start), end=instant(end))

        assert body == body | answers.focus_streaks(sessions, start, end, datetime.now(UTC))
