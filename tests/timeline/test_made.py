"""The rollups of days and months, row by row."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st

from resourceserver.timeline import rollups, rounds, summaries
from shared import database, schema
from shared.settings import Settings
from tests.conftest import Connect, MakeRollups, Person, mark_all_days, person
from tests.endpoints import attention
from tests.endpoints.histories import (
    History,
    add_coding,
    add_sessions,
    carol_with,
    histories,
)
from tests.endpoints.timeline import EPOCH, CodingSession, Session, since_epoch
from tests.timeline.model import DAY, Count, Part, app_kind, coding_kind, parts

Rows = psycopg.Connection[Any]

DAY_OF_JUNE = date(2025, 6, 16)


def ms(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


Stored = tuple[set[Part], set[Count]]


def app_parts(owner: Rows, who: Person) -> Stored:
    """Return the stored rollups of applications, in the form of the model."""
    return spelled(
        owner,
        """
        select grain, part.starts_at, array[label.app, label.category], idempotency_key, owned_ms,
               longest_ms, first_at, last_at, array[started, continued, 0, 0]
          from activity.app_time as part
          join activity.label using (user_id, label_id)
          left join activity.app_session on app_session_id = session_id
         where part.user_id = %s
        """,
        who,
    )


def coding_parts(owner: Rows, who: Person) -> Stored:
    """Return the stored rollups of coding, in the form of the model."""
    return spelled(
        owner,
        """
        select grain, part.starts_at, array[part.project, part.language], idempotency_key, owned_ms,
               longest_ms, first_at, last_at,
               array[started, continued, part.lines_added, part.lines_removed]
          from activity.coding_time as part
          left join activity.coding_session on coding_session_id = session_id
         where part.user_id = %s
        """,
        who,
    )


def spelled(owner: Rows, question: LiteralString, who: Person) -> Stored:
    found: set[Part] = set()
    counts: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for grain, starts_at, kind, key, owned, longest, first, last, numbers in owner.execute(
        question, [who.user_id]
    ):
        slot = grain, ms(starts_at), tuple(kind)
        if owned:
            found.add(Part(*slot, key, owned, longest, ms(first), ms(last)))
        # A session is counted in one of the rows of its kind, which need not be its own.
        counts[slot] = [a + b for a, b in zip(counts[slot], numbers, strict=True)]
    return found, {Count(*slot, *numbers) for slot, numbers in counts.items()}


@settings(max_examples=settings().max_examples // 4)
@given(history=histories(), late=st.integers(0, 20), late_coding=st.integers(0, 10))
def test_rollups_equal_those_of_a_simple_model_however_late_sessions_come(
    owner: Rows, make_rollups: MakeRollups, history: History, late: int, late_coding: int
) -> None:
    first = replace(history, sessions=history.sessions[late:], coding=history.coding[late_coding:])
    carol = carol_with(owner, first)
    make_rollups()
    add_sessions(owner, carol, history.sessions[:late])
    add_coding(owner, carol, history.coding[:late_coding])

    make_rollups()

    assert app_parts(owner, carol) == parts(history.sessions, app_kind)
    assert coding_parts(owner, carol) == parts(history.coding, coding_kind)
    assert timelines(owner, carol) == expected_timelines(history.sessions)
    assert owner.execute(
        "select count(*) from activity.app_time where started + continued + owned_ms = 0"
    ).fetchone() == (0,)


def timelines(owner: Rows, who: Person) -> dict[int, Any]:
    """Return the stored timelines by the starts of their days."""
    rows = owner.execute(
        """
        select date,
               (select array_agg(app || ',' || category order by n)
                  from unnest(labels) with ordinality as segment (label_id, n)
                  join activity.label using (label_id)),
               starts, ends, is_unbroken,
               (select idempotency_key from activity.app_session where app_session_id = first_session),
               (select idempotency_key from activity.app_session where app_session_id = last_session),
               switch_at,
               (select array_agg(app || ',' || category order by n)
                  from unnest(switch_from) with ordinality as segment (label_id, n)
                  join activity.label using (label_id)),
               (select array_agg(app || ',' || category order by n)
                  from unnest(switch_to) with ordinality as segment (label_id, n)
                  join activity.label using (label_id)),
               switch_before
          from activity.app_timeline
         where user_id = %s
        """,
        [who.user_id],
    ).fetchall()
    return {
        ms(datetime.combine(day, datetime.min.time(), UTC)): [value or [] for value in values]
        for day, *values in rows
    }


def expected_timelines(sessions: list[Session]) -> dict[int, Any]:
    """Return the model's switches of each day alone, without its first and last switch."""
    days = {at // DAY * DAY for s in sessions for at in range(s.started, s.ended, DAY // 96)}
    days |= {(s.ended - 1) // DAY * DAY for s in sessions if s.ended > s.started}
    return {
        day: expected
        for day in days
        if (expected := timeline_of(sessions, day, day + DAY)) is not None
    }


def timeline_of(sessions: list[Session], start: int, end: int) -> list[Any] | None:
    """Return the timeline of one day, None if no session owns any of it."""
    edges = [edge for s in sessions for edge in (s.started, s.ended)]
    whole = [
        attention.Segment(max(segment.start, start), min(segment.end, end), segment.session)
        for segment in attention.whole_timeline(sessions)
        if edges and segment.start < end and segment.end > start
    ]
    if not whole:
        return None
    ends = [start, *(segment.end for segment in whole)]
    starts = [*(segment.start for segment in whole), end]
    pauses = [after - before for before, after in zip(ends, starts, strict=True)]
    middle = attention.switches(whole)[1:-1]
    return [
        [f"{segment.session.app},{segment.session.category}" for segment in whole],
        [segment.start - start for segment in whole],
        [segment.end - start for segment in whole],
        max(pauses) <= attention.LONGEST_GAP or [],
        whole[0].session.key,
        whole[-1].session.key,
        [switch.at - start for switch in middle],
        [f"{switch.from_app},{switch.from_category}" for switch in middle],
        [f"{switch.to_app},{switch.to_category}" for switch in middle],
        [switch.before_ms for switch in middle],
    ]


def at(text: str) -> int:
    return since_epoch(f"{text}+00:00")


def read(owner: Rows, grain: int) -> list[Any]:
    """Return the rows of one grain: slot, application, session, started, continued, owned, longest."""
    return owner.execute(
        """
        select to_char(part.starts_at, 'DD HH24:MI'), label.app, idempotency_key, started, continued,
               owned_ms, longest_ms
          from activity.app_time as part
          join activity.label using (user_id, label_id)
          left join activity.app_session on app_session_id = session_id
         where grain = %s
         order by part.starts_at, label.app collate "C", idempotency_key nulls first
        """,
        [grain],
    ).fetchall()


def test_a_session_that_ends_at_an_edge_does_not_cross_it(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session("whole", "laptop", "Code", at("2025-06-16T09:00"), at("2025-06-16T09:15")),
            Session("empty", "laptop", "Mail", at("2025-06-16T09:15"), at("2025-06-16T09:15")),
            Session("day", "laptop", "Mail", at("2025-06-16T23:59"), at("2025-06-17T00:00")),
        ],
    )

    make_rollups()

    assert read(owner, 1) == [
        ("16 09:00", "Code", None, 1, 0, 900_000, 900_000),
        ("16 09:15", "Mail", None, 1, 0, 0, 0),
        ("16 23:45", "Mail", None, 1, 0, 60_000, 60_000),
    ]
    assert read(owner, 3) == [
        ("16 00:00", "Code", None, 1, 0, 900_000, 900_000),
        ("16 00:00", "Mail", None, 2, 0, 60_000, 60_000),
    ]


def test_a_session_that_crosses_an_edge_has_its_own_row_on_both_sides(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session("long", "laptop", "Code", at("2025-06-16T09:50"), at("2025-06-16T10:10")),
            Session("short", "laptop", "Code", at("2025-06-16T10:12"), at("2025-06-16T10:13")),
        ],
    )

    make_rollups()

    assert read(owner, 1) == [
        ("16 09:45", "Code", "long", 1, 0, 600_000, 600_000),
        ("16 10:00", "Code", None, 1, 0, 60_000, 60_000),
        ("16 10:00", "Code", "long", 0, 1, 600_000, 600_000),
    ]
    assert read(owner, 2) == [
        ("16 09:00", "Code", "long", 1, 0, 600_000, 600_000),
        ("16 10:00", "Code", None, 1, 0, 60_000, 60_000),
        ("16 10:00", "Code", "long", 0, 1, 600_000, 600_000),
    ]
    assert read(owner, 3) == [("16 00:00", "Code", None, 2, 0, 1_260_000, 1_200_000)]


def test_a_session_over_midnight_is_one_of_its_month_and_one_over_two_months_is_in_both(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    add_sessions(
        owner,
        alice,
        [
            Session("night", "laptop", "Code", at("2025-06-16T23:00"), at("2025-06-17T01:00")),
            Session("july", "laptop", "Code", at("2025-06-30T22:00"), at("2025-07-01T01:00")),
        ],
    )

    make_rollups()

    assert read(owner, 4) == [
        ("01 00:00", "Code", None, 1, 0, 7_200_000, 7_200_000),
        ("01 00:00", "Code", "july", 1, 0, 7_200_000, 7_200_000),
        ("01 00:00", "Code", "july", 0, 1, 3_600_000, 3_600_000),
    ]


def test_the_first_application_and_the_first_file_own_the_time_of_equal_starts(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    nine, ten = at("2025-06-16T09:00"), at("2025-06-16T09:10")
    add_sessions(
        owner,
        alice,
        # By their keys the order would be the opposite.
        [
            Session("1", "laptop", "Mail", nine, ten),
            Session("2", "laptop", "Code", nine, ten),
        ],
    )
    add_coding(
        owner,
        alice,
        [
            CodingSession("1", "laptop", "svc", None, "b.py", nine, ten),
            CodingSession("2", "laptop", "svc", None, "a.py", nine, ten + 2 * 600_000),
        ],
    )

    make_rollups()

    assert read(owner, 1) == [
        ("16 09:00", "Code", None, 1, 0, 600_000, 600_000),
        ("16 09:00", "Mail", None, 1, 0, 0, 0),
    ]
    assert owner.execute(
        "select longest_ms from activity.coding_time where grain = 3"
    ).fetchall() == [(1_800_000,)]


def test_a_session_of_nearly_24_hours_counts_on_the_next_day_too(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    start = at("2025-06-16T00:10")
    add_sessions(owner, alice, [Session("1", "laptop", "Code", start, start + DAY)])
    make_rollups()
    owner.execute("insert into activity.rollup_due values (%s, '2025-06-17')", [alice.user_id])

    make_rollups()

    assert read(owner, 3) == [
        ("16 00:00", "Code", "1", 1, 0, DAY - 600_000, DAY - 600_000),
        ("17 00:00", "Code", "1", 0, 1, 600_000, 600_000),
    ]


def test_idle_sessions_have_no_rollups(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    add_sessions(
        owner,
        alice,
        [Session("1", "laptop", "Code", at("2025-06-16T09:00"), at("2025-06-16T10:00"), idle=True)],
    )

    made = make_rollups()

    assert made == 2
    assert owner.execute("select count(*) from activity.app_time").fetchone() == (0,)
    assert owner.execute("select count(*) from activity.label").fetchone() == (0,)


def test_a_label_has_the_inputs_of_category_rules(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    owner.execute(
        """
        insert into activity.category_rule (user_id, priority, field, match, pattern, category)
        values (%(user_id)s, 1, 'app', 'contains', 'request', 'Requests'),
               (%(user_id)s, 3, 'title', 'contains', 'pull request', 'Review'),
               (%(user_id)s, 2, 'title', 'regex', '^wip', 'Drafts')
        """,
        {"user_id": alice.user_id},
    )
    minute = {"user_id": alice.user_id, "device_id": device(owner, alice)}
    for n, (title, domain) in enumerate(
        [
            ("Pull request 1", "git.example"),
            ("WIP pull request", "git.example"),
            ("Pull Request 2", "git.example"),
            (None, "git.example"),
            (None, None),
        ]
    ):
        add_titled(owner, minute | {"key": n, "title": title, "domain": domain})
    mark_all_days(owner)

    make_rollups()

    assert owner.execute(
        """
        select label.app, label.domain, label.category, pattern, started
          from activity.app_time
          join activity.label using (user_id, label_id)
          left join activity.category_rule as rule
                 on category_rule_id = title_rule
         where grain = 3
         order by domain, pattern
        """
    ).fetchall() == [
        ("Firefox", "git.example", None, "^wip", 1),
        ("Firefox", "git.example", None, "pull request", 2),
        ("Firefox", "git.example", None, None, 1),
        ("Firefox", None, None, None, 1),
    ]


def device(owner: Rows, who: Person) -> Any:
    row = owner.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [who.user_id],
    ).fetchone()
    assert row is not None
    return row[0]


def add_titled(owner: Rows, session: dict[str, Any]) -> None:
    owner.execute(
        """
        insert into activity.app_session
               (user_id, idempotency_key, device_id, app, title, domain, started_at, ended_at)
        values (%(user_id)s, %(key)s, %(device_id)s, 'Firefox', %(title)s, %(domain)s,
                '2025-06-16 09:00Z'::timestamptz + %(key)s * interval '1 minute',
                '2025-06-16 09:01Z'::timestamptz + %(key)s * interval '1 minute')
        """,
        session,
    )


def test_a_domain_may_be_longer_than_an_index_entry(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    # Random letters, because an index compresses repeated ones.
    domain = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(1500))
    session = {"user_id": alice.user_id, "device_id": device(owner, alice), "title": None}
    add_titled(owner, session | {"key": 1, "domain": domain})
    mark_all_days(owner)

    make_rollups()

    assert owner.execute("select app, domain from activity.label").fetchall() == [
        ("Firefox", domain)
    ]


def test_unused_labels_are_found_with_one_scan_of_each_table(
    alice: Person, connect_as: Connect
) -> None:
    worker = connect_as("worker")

    with worker.transaction():
        worker.execute(rollups.SQL["begin_for"], {"user_id": alice.user_id, **schema.VERSION})
        plan = worker.execute(
            "explain " + rollups.SQL["forget_unused_labels"], {"user_id": alice.user_id}
        ).fetchall()

    plan_text = "\n".join(line for (line,) in plan)
    assert "SetOp Except" in plan_text
    # A nested loop over labels and rows of days: hours, with a hundred thousand labels.
    assert "<> ALL" not in plan_text


def test_people_have_labels_and_rows_of_their_own(
    owner: Rows, alice: Person, bob: Person, make_rollups: MakeRollups
) -> None:
    hour = Session("1", "laptop", "Code", at("2025-06-16T09:00"), at("2025-06-16T10:00"))
    for who in (alice, bob):
        add_sessions(owner, who, [hour])

    make_rollups()

    assert owner.execute(
        "select user_id, sum(owned_ms)::bigint from activity.app_time where grain = 3"
        " group by user_id order by user_id"
    ).fetchall() == [(who, 3_600_000) for who in sorted([alice.user_id, bob.user_id])]


def test_a_day_whose_sessions_were_deleted_loses_its_rollups(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    hour = Session("1", "laptop", "Code", at("2025-06-16T09:00"), at("2025-06-16T10:00"))
    add_sessions(owner, alice, [hour])
    add_coding(
        owner, alice, [CodingSession("1", "laptop", "svc", None, None, hour.started, hour.ended)]
    )
    make_rollups()
    owner.execute("delete from activity.app_session")
    owner.execute("delete from activity.coding_session")
    # A day with rollups is marked too.
    mark_all_days(owner)

    make_rollups()

    for table in ("app_time", "coding_time", "app_timeline"):
        left = owner.execute(f"select count(*) from activity.{table}").fetchone()  # noqa: S608 -- ours
        assert left == (0,)


def test_a_day_with_many_overlapping_sessions_is_left_raw(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    start = at("2025-06-16T00:00")
    crowd = [Session(f"{n}", "laptop", "Code", start, start + DAY) for n in range(120)]
    later = Session("later", "laptop", "Code", at("2025-06-18T09:00"), at("2025-06-18T10:00"))
    add_sessions(owner, alice, [*crowd, later])

    made = make_rollups()
    again = make_rollups()

    # The 17th is marked as the crowd might reach into it, and the 19th as the last session might.
    assert (made, again) == (3, 0)
    assert owner.execute("select date, is_left_raw from activity.rollup_due").fetchall() == [
        (date(2025, 6, 16), True)
    ]
    # The month that contains it is not rolled up either.
    assert read(owner, 3) == [("18 00:00", "Code", None, 1, 0, 3_600_000, 3_600_000)]
    assert read(owner, 4) == []


def test_a_raw_day_is_rolled_up_when_it_is_marked_and_no_longer_crowded(
    owner: Rows, alice: Person, make_rollups: MakeRollups
) -> None:
    start = at("2025-06-16T00:00")
    add_sessions(
        owner, alice, [Session(f"{n}", "laptop", "Code", start, start + DAY) for n in range(120)]
    )
    make_rollups()
    owner.execute("delete from activity.app_session where idempotency_key <> '7'")
    mark_all_days(owner)

    make_rollups()

    assert owner.execute("select count(*) from activity.rollup_due").fetchone() == (0,)
    assert read(owner, 4) == [("01 00:00", "Code", None, 1, 0, DAY, DAY)]


def test_a_month_is_rolled_up_with_its_last_marked_day(
    owner: Rows, make_rollups: MakeRollups
) -> None:
    alice = person(owner, "alice")
    for day in ("16", "18"):
        start = at(f"2025-06-{day}T09:00")
        add_sessions(owner, alice, [Session(day, "laptop", "Code", start, start + 60_000)])
    owner.execute(
        "update activity.rollup_due set marked_at = now() + interval '1 day'"
        " where date = '2025-06-18'"
    )

    make_rollups()
    before = read(owner, 4)
    owner.execute("update activity.rollup_due set marked_at = now()")
    make_rollups()

    assert before == []
    assert read(owner, 4) == [("01 00:00", "Code", None, 2, 0, 120_000, 60_000)]


def test_the_rollups_of_a_day_take_seven_round_trips(
    deployment: Settings, owner: Rows, tmp_path: Path
) -> None:
    alice = person(owner, "alice")
    start = at("2025-06-16T09:00")
    add_sessions(owner, alice, [Session("a", "laptop", "Code", start, start + 60_000)])
    mark_all_days(owner)
    trace = tmp_path / "trace"

    async def roll_up() -> int:
        async with rounds.connected(database.login(deployment, "worker")) as worker:
            with trace.open("w") as file:
                worker.pgconn.trace(file.fileno())
                days, _ = await rollups.take_turn(worker, alice.user_id, quiet=timedelta(0))
                worker.pgconn.untrace()
        return days

    days = asyncio.run(roll_up())

    sent = [line.split("\t")[3] for line in trace.read_text().splitlines() if "\tF\t" in line]
    # Begin, lock, marks, removal, days, months, commit.
    assert (days, sum(message in ("Query", "Sync") for message in sent)) == (2, 7)


def test_a_marked_day_of_a_year_without_a_break_reads_the_weeks_around_it(
    owner: Rows, connect_as: Connect
) -> None:
    alice = person(owner, "alice")
    owner.execute(
        """
        with device as (
            insert into activity.device (user_id, name)
            values (%(user_id)s, 'laptop')
            returning device_id
        )
        insert into activity.app_session (
            user_id, idempotency_key, device_id, started_at, ended_at, idle, app
        )
        select %(user_id)s,
               at::text,
               device_id,
               at,
               at + interval '1 hour',
               false,
               'Code'
          from device
         cross join generate_series(timestamptz '2025-01-01Z', '2025-12-31Z', '1 hour') as at
        """,
        {"user_id": alice.user_id},
    )
    owner.execute("analyze activity.app_session")
    worker = connect_as("worker")
    asked = {"user_id": alice.user_id, "tz": "UTC", "from": DAY_OF_JUNE, "to": DAY_OF_JUNE}

    with worker.transaction():
        # It is about what an index allows to leave out. Other tests change what the planner expects.
        worker.execute("set local enable_seqscan = off")
        worker.execute("set local enable_bitmapscan = off")
        worker.execute(summaries.SQL["begin_for"], {**asked, **schema.VERSION})
        affected = worker.execute(summaries.SQL["affected_days"], asked).fetchall()
        read = worker.execute(
            """
            select pg_stat_get_xact_tuples_returned('activity.app_session'::regclass)
                   + sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint
              from pg_index
             where indrelid = 'activity.app_session'::regclass
            """
        ).fetchone()

    assert affected == [(date(2025, 6, 9), date(2025, 6, 24))]
    # Of 8,737 sessions, those of sixteen days a few times; an index and its table count each.
    assert read is not None
    assert 0 < read[0] < 2500
