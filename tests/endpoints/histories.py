"""Histories of sessions, written by the owner of the tables; and random ones to try properties on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import Person, mark_all_days
from tests.endpoints.timeline import EPOCH, CodingSession, Session, instant

Owner = psycopg.Connection[Any]


def ask(api: TestClient, person: Person, path: str, **params: Any) -> dict[str, Any]:
    """Return the answer of ``path`` for a token with read:activity. ``start`` and ``end`` are the range."""
    names = {"start": "from", "end": "to"}
    answer = api.get(
        path,
        params={names.get(name, name): value for name, value in params.items()},
        headers=person.headers("read:activity"),
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def devices(owner: Owner, person: Person, names: Iterable[str]) -> dict[str, Any]:
    """Return the ids of a person's devices by name, adding those that are missing."""
    with owner.cursor() as cursor:
        cursor.executemany(
            "insert into activity.device (user_id, name) values (%s, %s) on conflict do nothing",
            [(person.user_id, name) for name in sorted(set(names))],
        )
    return dict(
        owner.execute(
            "select name, device_id from activity.device where user_id = %s", [person.user_id]
        ).fetchall()
    )


def add_sessions(owner: Owner, person: Person, sessions: Iterable[Session]) -> None:
    """Write app sessions."""
    sessions = list(sessions)
    ids = devices(owner, person, (s.device for s in sessions))
    with owner.cursor() as cursor:
        cursor.executemany(
            """
            insert into activity.app_session (
                user_id, idempotency_key, device_id, started_at, ended_at, idle, app, category
            )
            values (%s, %s, %s, %s, %s, %s, %s, %s)
            """,
            [
                (
                    person.user_id,
                    s.key,
                    ids[s.device],
                    instant(s.started),
                    instant(s.ended),
                    s.idle,
                    s.app,
                    s.category,
                )
                for s in sessions
            ],
        )
    mark_all_days(owner)


def add_coding(owner: Owner, person: Person, sessions: Iterable[CodingSession]) -> None:
    """Write coding sessions."""
    sessions = list(sessions)
    ids = devices(owner, person, (s.device for s in sessions))
    with owner.cursor() as cursor:
        cursor.executemany(
            """
            insert into activity.coding_session (
                user_id, idempotency_key, device_id, started_at, ended_at, project, language, file,
                lines_added, lines_removed
            )
            values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            """,
            [
                (
                    person.user_id,
                    s.key,
                    ids[s.device],
                    instant(s.started),
                    instant(s.ended),
                    s.project,
                    s.language,
                    s.file,
                    s.added,
                    s.removed,
                )
                for s in sessions
            ],
        )
    mark_all_days(owner)


@dataclass(frozen=True)
class History:
    """Some days of activity around a local day, and a range that overlaps it."""

    zone: str
    date: date
    sessions: list[Session]
    coding: list[CodingSession]
    start: int
    end: int


Place = tuple[str, date]

ORDINARY: list[Place] = [("UTC", date(2025, 6, 16)), ("UTC", date(2024, 2, 29))]
ODD: list[Place] = [("Asia/Kathmandu", date(2025, 6, 16)), ("Pacific/Apia", date(2011, 12, 30))]
"""A zone whose hours begin within those of UTC, and a day that was skipped."""
FORWARD: list[Place] = [
    ("Europe/Berlin", date(2025, 3, 30)),
    ("Australia/Lord_Howe", date(2025, 10, 5)),
    ("America/Sao_Paulo", date(2017, 10, 15)),
    ("Africa/Cairo", date(2025, 4, 25)),
]
"""Days on which clocks went forward."""
BACK: list[Place] = [
    ("Europe/Berlin", date(2025, 10, 26)),
    ("Australia/Lord_Howe", date(2025, 4, 6)),
    ("America/Havana", date(2025, 11, 2)),
    ("America/St_Johns", date(2006, 10, 29)),
]
"""Days on which clocks went back."""
PLACES = [*ORDINARY, *ODD, *FORWARD, *BACK]


@st.composite
def histories(draw: Callable[[st.SearchStrategy[Any]], Any]) -> History:
    """Draw a history of up to twenty app sessions and ten coding sessions.

    Few distinct instants, most of them full or half hours, make equal starts, equal ends and sessions
    that end at the edge of an hour or a day common; some are nearly a day long.
    """
    zone, day = draw(st.sampled_from(PLACES))
    midnight = (datetime(day.year, day.month, day.day, tzinfo=UTC) - EPOCH) // timedelta(
        milliseconds=1
    )

    def instants(earliest: int, latest: int) -> st.SearchStrategy[int]:
        return st.builds(
            lambda halves, odd: midnight + halves * 1_800_000 + odd * 977_033,
            st.integers(earliest, latest),
            st.sampled_from([0, 0, 0, 1, 2]),
        )

    lengths = st.sampled_from(
        [
            0,
            0,
            977,
            60_000,
            977_033,
            1_800_000,
            1_800_000,
            3_600_000,
            9_000_500,
            82_800_000,
            86_400_000,
        ]
    )
    names = st.sampled_from(["a", "B", "ä"])
    sessions = draw(
        st.lists(
            st.tuples(
                names,
                st.sampled_from(["x", "Y", "é", "z"]),
                instants(-30, 60),
                lengths,
                st.sampled_from([False, False, False, False, True]),
                st.sampled_from(["Development", "Reference", "News", "Games", "Own", "own"]),
            ),
            min_size=draw(st.sampled_from([0, 6, 12])),
            max_size=20,
        )
    )
    coding = draw(
        st.lists(
            st.tuples(
                names,
                st.sampled_from(["svc", "Thesis", "é"]),
                st.sampled_from([None, "Python", "python"]),
                st.sampled_from([None, "a.py", "B.py"]),
                instants(-30, 60),
                lengths,
                st.sampled_from([None, 0, 41]),
                st.sampled_from([None, 0, 7]),
            ),
            min_size=draw(st.sampled_from([0, 3, 6])),
            max_size=10,
        )
    )
    edges = sorted((draw(instants(-30, 20)), draw(instants(10, 60))))
    return History(
        zone,
        day,
        [
            Session(f"{n:02}", device, app, start, start + length, idle, category)
            for n, (device, app, start, length, idle, category) in enumerate(sessions)
        ],
        [
            CodingSession(f"{n:02}", device, project, language, file, start, start + length, *lines)
            for n, (device, project, language, file, start, length, *lines) in enumerate(coding)
        ],
        *edges,
    )


def carol_with(owner: Owner, history: History) -> Person:
    """Return a new account with this history only."""
    owner.execute("delete from identity.user where email = 'carol@example.org'")
    row = owner.execute(
        "insert into identity.user (email) values ('carol@example.org') returning user_id"
    ).fetchone()
    assert row is not None
    carol = Person(row[0], "carol@example.org", owner)
    add_sessions(owner, carol, history.sessions)
    add_coding(owner, carol, history.coding)
    return carol
