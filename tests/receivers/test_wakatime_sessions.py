"""Beats of editors: whatever their order, the sessions are those of all beats at once."""

import copy
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, Final, LiteralString
from uuid import uuid4
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from resourceserver.integrations.beats import SESSION_MS, Beat
from resourceserver.integrations.imports.writing import Target
from resourceserver.integrations.receivers import beat_sessions
from resourceserver.integrations.receivers.beat_sessions import DAY_MS, Heartbeat
from resourceserver.integrations.receivers.receiving import SQL
from shared import SCHEMA_VERSION, database, keys
from shared.settings import Settings
from tests.conftest import Person, person
from tests.connecting import Connected, connect
from tests.waiting import wait_for_rivals

MINUTE: Final = 60_000
NOW: Final = time.time_ns() // 1_000_000
START: Final = NOW - 3 * DAY_MS
"""When the beats of most tests begin."""


@dataclass
class Editor:
    """Batches of beats for one connection of a person."""

    person: Person
    connection: psycopg.Connection[Any]
    connected: Connected = field(init=False)

    def __post_init__(self) -> None:
        """Begin the connection."""
        self.connected = connect(self.person.connection, self.person, "wakatime")

    def send(self, *beats: Beat, gap_ms: int = 15 * MINUTE, now_ms: int = NOW) -> int:
        """Store beats of one device in one transaction; return how many were new."""
        heartbeats = [
            Heartbeat(beat, beat.file or "svc/app.py", {"category": "coding"}) for beat in beats
        ]
        with self.target() as target:
            changes = beat_sessions.store(
                target, beats[0].device, heartbeats, gap_ms=gap_ms, now_ms=now_ms
            )
            assert changes is not None
            beat_sessions.replace(target, changes)
        return changes.added

    @contextmanager
    def target(self) -> Iterator[Target]:
        """Open the session of the connection for a transaction."""
        with self.connection.transaction():
            opened = self.connection.execute(
                SQL["open_receiver"],
                {
                    "key_hash": keys.hash_of(self.connected.key or ""),
                    "kind": "wakatime",
                    "version": SCHEMA_VERSION,
                },
            ).fetchone()
            assert opened is not None
            yield Target(
                self.connection, self.person.user_id, opened[2], ZoneInfo("UTC"), full_urls=False
            )

    def sessions(self) -> list[tuple[Any, ...]]:
        """Return project, language, kind, first and last beat, and what the beats have in common."""
        rows = self.person.connection.execute(
            """
            select project, language, coalesce(metadata->>'entity_type', 'file'),
                   extract(epoch from started_at) * 1000, extract(epoch from ended_at) * 1000,
                   file, activity, utc_offset, is_write, lines_added,
                   (metadata->>'beats')::integer, (metadata->>'ai_line_changes')::integer
              from activity.coding_session
             where user_id = %s
             order by 1, 2, 3, 4
            """,
            [self.person.user_id],
        )
        return [tuple(int(x) if i in (3, 4) else x for i, x in enumerate(row)) for row in rows]

    def spans(self) -> list[tuple[int, int]]:
        """Return the first and the last beat of each session, in minutes since ``START``."""
        return sorted(
            ((start - START) // MINUTE, (end - START) // MINUTE)
            for _, _, _, start, end, *_ in self.sessions()
        )

    def keys(self) -> list[str]:
        """Return the keys of all sessions."""
        return [key for (key,) in self._rows("select idempotency_key from activity.coding_session")]

    def ids(self) -> list[Any]:
        """Return the ids of all sessions."""
        return self._rows("select coding_session_id from activity.coding_session")

    def counted(self) -> int:
        """Return how many sessions the devices have sent, as their counts say."""
        ((count,),) = self._rows("select sum(event_count)::integer from activity.device_stream")
        return int(count)

    def marked(self) -> list[date]:
        """Return the days that are marked for rollups and for summaries."""
        return [
            day
            for (day,) in self._rows(
                """
                select date
                  from activity.rollup_due
                  join activity.summary_due using (user_id, date)
                 order by 1
                """
            )
        ]

    def forget(self) -> int:
        """Remove old beats, and return how many."""
        ((count,),) = self._rows("select svc.forget_beats(1000)")
        return int(count)

    def _rows(self, statement: LiteralString) -> list[Any]:
        return self.person.connection.execute(statement).fetchall()


@pytest.fixture(scope="module")
def importer(deployment: Settings) -> Iterator[psycopg.Connection[Any]]:
    login = database.login(deployment, "importer")
    with closing(psycopg.connect(login, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def editor(importer: psycopg.Connection[Any], alice: Person) -> Editor:
    return Editor(alice, importer)


def at(minutes: float, **members: Any) -> Beat:
    members = {"device": "laptop", "project": "svc", "language": "Python", "kind": "file"} | members
    return Beat(at_ms=START + round(minutes * MINUTE), **members)


def model(beats: Sequence[Beat], gap_ms: int) -> list[tuple[Any, ...]]:
    """Return the sessions of beats in the slow and obvious way: each next beat ends one or lengthens it."""

    def group(beat: Beat) -> tuple[Any, ...]:
        return (beat.project, beat.language or "", beat.kind)

    def only(given: set[Any]) -> Any:
        return next(iter(given)) if len(given) == 1 else None

    found = []
    unique = {(beat.at_ms, beat.kind, beat.file): beat for beat in reversed(beats)}
    ordered = sorted(unique.values(), key=lambda beat: (group(beat), beat.at_ms))
    for _, members in groupby(ordered, group):
        sessions: list[list[Beat]] = []
        for beat in members:
            last = sessions[-1] if sessions else None
            if (
                last
                and beat.at_ms - last[-1].at_ms < gap_ms
                and beat.at_ms - last[0].at_ms <= SESSION_MS
            ):
                last.append(beat)
            else:
                sessions.append([beat])
        for session in sessions:
            first = session[0]
            activities = [beat.activity for beat in session if beat.activity]
            lines = [beat.lines_added for beat in session if beat.lines_added is not None]
            ai = [count for beat in session for _, count in beat.counters]
            offsets = [x.utc_offset or "" for x in session if x.at_ms == first.at_ms]
            found.append(
                (
                    *(first.project, first.language, first.kind, first.at_ms, session[-1].at_ms),
                    only({beat.file for beat in session}),
                    min(
                        activities,
                        key=lambda each: (-activities.count(each), each),
                        default="coding",
                    ),
                    max(offsets) or None,
                    any(beat.is_write for beat in session),
                    sum(lines) if lines else None,
                    len(session),
                    sum(ai) if ai else None,
                )
            )
    return sorted(found, key=lambda each: (each[0], each[1] is None, each[1], *each[2:4]))


MEMBERS: Final = {
    "file": st.sampled_from([None, "a.py", "b.py"]),
    "activity": st.sampled_from([None, "coding", "debugging"]),
    "utc_offset": st.sampled_from([None, "+02:00", "+09:00"]),
    "is_write": st.booleans(),
    "lines_added": st.sampled_from([None, 0, 7]),
    "counters": st.sampled_from([(), (("ai_line_changes", 3),)]),
}


@st.composite
def beats_of_groups(draw: st.DrawFn) -> tuple[list[Beat], int]:
    """Beats of several groups with few distinct times, so that many are near each other."""
    gap_min = draw(st.sampled_from([1, 15, 60]))
    step = draw(st.sampled_from([0.25, 0.5, 1]))
    one = st.builds(
        at,
        st.integers(0, 60).map(lambda number: number * step * gap_min),
        project=st.sampled_from(["svc", "site"]),
        language=st.sampled_from([None, "Python"]),
        kind=st.sampled_from(["file", "file", "app"]),
        **MEMBERS,
    )
    unique = st.lists(
        one, min_size=1, max_size=40, unique_by=lambda beat: (beat.at_ms, beat.kind, beat.file)
    )
    return draw(unique), gap_min * MINUTE


@st.composite
def beats_of_a_long_chain(draw: st.DrawFn) -> tuple[list[Beat], int]:
    """A beat every 55 minutes for two days, some of them missing, and a gap of an hour."""
    missing = draw(st.sets(st.integers(0, 54), max_size=3))
    return [
        at(number * 55, **{name: draw(each) for name, each in MEMBERS.items()})
        for number in range(55)
        if number not in missing
    ], 60 * MINUTE


@given(data=st.data(), given_beats=st.one_of(beats_of_groups(), beats_of_a_long_chain()))
def test_any_order_and_batches_and_repetitions_give_the_sessions_of_all_beats_at_once(
    data: st.DataObject,
    given_beats: tuple[list[Beat], int],
    importer: psycopg.Connection[Any],
    owner: psycopg.Connection[Any],
) -> None:
    beats, gap_ms = given_beats
    editor = Editor(person(owner, f"alice-{uuid4()}"), importer)
    sent = data.draw(st.permutations([*beats, *data.draw(st.lists(st.sampled_from(beats)))]))
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        editor.send(*sent[:size], gap_ms=gap_ms)
        sent = sent[size:]

    assert editor.sessions() == model(beats, gap_ms)


def test_a_late_beat_joins_two_sessions_and_the_later_row_is_gone(editor: Editor) -> None:
    editor.send(at(0), at(5), at(25), at(30))
    assert editor.spans() == [(0, 5), (25, 30)]

    editor.send(at(15))

    assert editor.spans() == [(0, 30)]
    assert editor.keys() == [f"wk:svc:Python:{START}"]
    assert editor.counted() == 1


def test_a_beat_that_grows_a_session_leaves_its_id(editor: Editor) -> None:
    editor.send(at(0))
    before = editor.ids()

    editor.send(at(5))

    assert editor.spans() == [(0, 5)]
    assert editor.ids() == before


def test_one_beat_is_a_session_without_length(editor: Editor) -> None:
    assert editor.send(at(0), at(0)) == 1

    assert editor.spans() == [(0, 0)]


def test_sessions_of_two_machines_that_begin_together_are_both_kept(editor: Editor) -> None:
    editor.send(at(0), at(5))
    editor.send(at(0, device="desktop", file="other.py"))
    editor.send(at(3, device="desktop"))
    editor.send(at(9))

    assert editor.spans() == [(0, 3), (0, 9)]


def test_the_days_of_sessions_are_marked_before_and_after_a_change(editor: Editor) -> None:
    editor.send(at(0))
    editor.person.connection.execute("delete from activity.rollup_due")
    editor.person.connection.execute("delete from activity.summary_due")

    editor.send(*(at(minutes) for minutes in range(10, 24 * 60, 10)))

    begun = datetime.fromtimestamp(START / 1000, UTC).date()
    assert editor.marked() == [begun, begun + timedelta(days=1)]


def test_sessions_whose_beats_are_gone_stay_and_can_grow(editor: Editor) -> None:
    # Both came in time; then a month passed.
    past = NOW - 40 * DAY_MS
    days_ago = (past - START) / MINUTE
    editor.send(at(days_ago), at(days_ago + 10), at(days_ago + 20, lines_added=5), now_ms=past)
    assert editor.forget() == 3

    known = editor.send(at(days_ago + 20, lines_added=5), at(days_ago + 10))
    late = editor.send(at(days_ago + 30), at(days_ago - 5), at(days_ago + 60))

    assert (known, late) == (0, 3)
    assert [(start - past) // MINUTE for _, _, _, start, *_ in editor.sessions()] == [-5, 60]
    assert [(end - past) // MINUTE for _, _, _, _, end, *_ in editor.sessions()] == [30, 60]
    assert editor.sessions()[0][9:11] == (5, 5)
    assert editor.forget() == 0


def test_a_session_of_which_beats_are_gone_is_not_divided(editor: Editor) -> None:
    # Half of its beats are still kept.
    past = NOW - 30 * DAY_MS - DAY_MS // 2
    first = (past - START) / MINUTE
    hours = [first + 60 * hour for hour in range(23)]
    editor.send(*map(at, hours), gap_ms=61 * MINUTE, now_ms=past + DAY_MS)
    assert 0 < editor.forget() < 23

    # With these before it, the session would be longer than a day.
    editor.send(*(at(first - 60 * hour) for hour in range(1, 5)), gap_ms=61 * MINUTE)

    spans = [(start - past, end - past) for _, _, _, start, end, *_ in editor.sessions()]
    assert [(start // MINUTE // 60, end // MINUTE // 60) for start, end in spans] == [
        (-4, -1),
        (0, 22),
    ]


def test_a_batch_divides_only_as_many_sessions_as_it_may_read_beats_of(
    editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = [f"p{number}" for number in range(5)]

    def send(*hours: int) -> None:
        editor.send(
            *(at(60 * hour, project=each, file=each) for each in projects for hour in hours),
            gap_ms=61 * MINUTE,
        )

    send(*range(23))
    # All beats are 130 then: those of one session can be read, and of the next one not all.
    monkeypatch.setattr(beat_sessions, "MOST_DIVIDED", 200)

    send(-3, -2, -1)

    hours = [(start // 60, end // 60) for start, end in editor.spans()]
    assert hours == sorted([(-3, 21), (22, 22), *4 * [(-3, -1), (0, 22)]])


def test_beats_are_forgotten_after_30_days_and_not_earlier(editor: Editor) -> None:
    # The janitor's clock goes on while the tests before this one run.
    minutes = (time.time_ns() // 1_000_000 - START) / MINUTE
    day = 24 * 60
    editor.send(at(minutes - 30 * day - 1), at(minutes - 30 * day + 5), now_ms=NOW - 2 * DAY_MS)

    assert editor.forget() == 1
    assert editor.forget() == 0
    assert len(editor.sessions()) == 1


def test_what_others_wrote_under_a_key_is_left_alone(
    editor: Editor, api: TestClient, importer: psycopg.Connection[Any]
) -> None:
    event = {
        "idempotency_key": f"wk:svc:Python:{START}",
        "started_at": "2025-06-16T09:00:00Z",
        "duration_ms": 1000,
        "project": "mine",
    }
    sent = api.post(
        "/api/v1/ingest/coding-sessions",
        json={"events": [event]},
        headers=editor.person.headers("ingest:coding_sessions"),
    )
    other = Editor(editor.person, importer)
    other.send(at(100))

    editor.send(at(0), at(5))
    editor.send(at(90), at(95))

    assert sent.json()["accepted"] == 1
    assert [each[0] for each in editor.sessions() if each[0] == "mine"] == ["mine"]
    # Connections of one person do not join each other's sessions.
    assert editor.spans()[1:] == [(90, 95), (100, 100)]


def test_a_batch_reads_the_sessions_of_its_projects_alone(editor: Editor) -> None:
    editor.send(at(0), at(0, project="other", file="x"), at(0, project="a:b", file="y"))
    window = (START - MINUTE, START + MINUTE)

    with editor.target() as target:
        row = target.connection.execute(
            "select svc.derived_sessions(%s, %s, array['svc'])", window
        ).fetchone()

    # A name with a colon can be a part of the key of another project's session.
    assert row is not None
    assert sorted(session[2] for session in row[0]) == ["a:b", "svc"]


def test_names_with_colons_do_not_share_a_session(editor: Editor) -> None:
    for project, language in (("a:b", "c"), ("a", "b:c")) * 2:
        named = partial(at, project=project, language=language, file=project)
        editor.send(named(0), named(1))

    assert [(each[0], each[1], each[4] - each[3]) for each in editor.sessions()] == [
        ("a", "b:c", MINUTE),
        ("a:b", "c", MINUTE),
    ]


def test_batches_at_the_same_time_wait_for_each_other(editor: Editor, deployment: Settings) -> None:
    login = database.login(deployment, "importer")
    with (
        closing(psycopg.connect(login, autocommit=True)) as connection,
        ThreadPoolExecutor(1) as thread,
    ):
        rival = copy.copy(editor)
        rival.connection = connection
        # A new device would make them wait already.
        editor.send(at(-600))
        with editor.connection.transaction():
            editor.send(at(0))
            sent = thread.submit(rival.send, at(10))
            wait_for_rivals(editor.person.connection, 1)
        sent.result(timeout=60)

    assert editor.spans() == [(-600, -600), (0, 10)]


def test_sessions_are_written_in_the_order_of_their_keys_and_so_never_deadlock(
    editor: Editor,
) -> None:
    owner, person = editor.person.connection, editor.person
    editor.send(at(-600))

    def write(start_ms: int) -> None:
        owner.execute(
            """
            insert into activity.coding_session (
                user_id, device_id, idempotency_key, started_at, ended_at, project, source
            )
            select user_id, device_id, %s, now(), now(), 'mine', 'wakatime'
              from activity.device
             where user_id = %s
            """,
            [f"wk:svc:Python:{start_ms}", person.user_id],
        )

    with ThreadPoolExecutor(1) as thread:
        with owner.transaction():
            write(START)
            # A group of applications precedes one of files, and the keys have the opposite order.
            sent = thread.submit(editor.send, at(0), at(60, kind="app", file=None))
            wait_for_rivals(owner, 1)
            write(START + 60 * MINUTE)
        sent.result(timeout=60)

    assert [each[0] for each in editor.sessions()] == ["mine", "mine", "svc"]


def test_undoing_removes_beats_and_sessions(editor: Editor) -> None:
    editor.send(at(0), at(5))
    owner, person = editor.person.connection, editor.person

    owner.execute(
        "select svc.stop_connection(%s, %s, true)",
        [person.user_id, editor.connected.connection_id],
    )
    owner.execute("select svc.remove_undone(%s, %s)", [person.user_id, SCHEMA_VERSION])

    assert editor.sessions() == []
    assert owner.execute("select count(*) from activity.beat").fetchone() == (0,)
    assert editor.counted() == 0


def test_the_importer_reaches_beats_through_a_session_alone(
    editor: Editor, importer: psycopg.Connection[Any]
) -> None:
    editor.send(at(0))

    for statement in (
        "select count(*) from activity.beat",
        "select svc.kept_beats(0, 1, 10)",
        "select svc.derived_sessions(0, 1)",
        "select svc.replace_derived_sessions('{a}', '[]')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            importer.execute(statement)


def test_beats_of_a_time_whose_sessions_are_removed_write_and_mark_nothing_of_it(
    editor: Editor,
) -> None:
    editor.person.connection.execute(
        "insert into activity.raw_limit (user_id, closed_before, removed_before)"
        " values (%s, '2019-05-01', '2019-05-01')",
        [editor.person.user_id],
    )
    march, may = (
        int(datetime(2019, month, day, tzinfo=UTC).timestamp() * 1000)
        for month, day in ((3, 4), (5, 1))
    )

    editor.send(Beat(may + 5 * MINUTE, "laptop", "svc"), Beat(may + 6 * MINUTE, "laptop", "svc"))
    # The last two would join the session after midnight, which must not lose its minutes.
    editor.send(
        *(
            Beat(at, "laptop", "svc")
            for at in (march, march + MINUTE, may - 4 * MINUTE, may - MINUTE)
        )
    )

    assert [
        ((start - may) // MINUTE, (end - may) // MINUTE)
        for _, _, _, start, end, *_ in editor.sessions()
    ] == [(5, 6)]
    assert {str(each) for each in editor.marked()} == {"2019-05-01"}
