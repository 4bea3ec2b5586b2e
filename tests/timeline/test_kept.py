"""What is kept of switches, detours and streaks: it changes no answer, and is used while it is right."""

import asyncio
import hashlib
import random
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, LiteralString
from zoneinfo import ZoneInfo

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.api.parameters import cursor
from resourceserver.timeline import rollups
from shared import database, queries, schema
from shared.settings import Settings
from tests.conftest import MakeRollups, Person
from tests.endpoints.histories import add_sessions, ask
from tests.endpoints.timeline import Session, since_epoch
from tests.sql.test_sizes import DEFINITIONS, code

Owner = psycopg.Connection[Any]
Answers = list[dict[str, Any]]

SWITCHES = "/api/v1/analytics/context-switches"
BREAKS = "/api/v1/analytics/focus-breaks"
STREAKS = "/api/v1/analytics/focus-streaks"
COSTS = "/api/v1/analytics/switch-costs"
FIRST = datetime(2025, 3, 25, tzinfo=UTC)
DAYS = 103
QUARTER = (date(2025, 4, 1), date(2025, 6, 30))
QUIET = {2, 3, 4, 7, 8, 9, 12, 13, 14, 17, 18, 19, 22, 23, 24, 27, 29}
"""The days of each month on which no session begins, none of which is beside the edge of a span."""
MINUTE = 60_000
KINDS = [
    *(("Code", "Development"), ("Docs", "Reference"), ("Mail", "Communication")),
    *(("Code", "Writing"), ("Feed", "News"), ("Chess", "Games")),
]
NO_ID = "00000000-0000-0000-0000-000000000000"
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Los_Angeles",
    "Asia/Kolkata",
    "Pacific/Apia",
    "Australia/Lord_Howe",
]


def life(seed: int) -> list[Session]:
    """Return a busy life, which often lasts through the night and so over the edges of spans."""
    chance = random.Random(seed)
    at = begin = since_epoch(FIRST.isoformat())
    until = begin + DAYS * 1440 * MINUTE
    found: list[Session] = []
    while at < until:
        over = (at - begin) // (1440 * MINUTE)
        if (FIRST + timedelta(days=over)).day in QUIET:
            at = begin + (over + 1) * 1440 * MINUTE
            continue
        app, category = chance.choices(KINDS, [8, 3, 3, 2, 1, 1])[0]
        length = chance.choice([400, 5_000, 45_000, 4 * MINUTE, 15 * MINUTE, 40 * MINUTE])
        found.append(Session(f"{len(found):05}", "laptop", app, at, at + length, category=category))
        pause = chance.choices(
            [0, 60_000, 300_000, 300_001, 6 * MINUTE, 9 * 60 * MINUTE], [60, 20, 4, 4, 4, 4]
        )
        at += length + pause[0]
    return found


def ranges(seed: int, count: int) -> list[tuple[datetime, datetime]]:
    """Return ranges of up to a few months, which begin and end anywhere."""
    chance = random.Random(seed)
    found = [(FIRST - timedelta(days=40), FIRST + timedelta(days=DAYS + 40))]
    # Whole spans, without any rest.
    found += [
        (datetime(2025, 4, 1, tzinfo=UTC), datetime(2025, 7, 1, tzinfo=UTC)),
        (datetime(2025, 5, 1, tzinfo=UTC), datetime(2025, 6, 1, tzinfo=UTC)),
        (datetime(2025, 5, 11, tzinfo=UTC), datetime(2025, 6, 21, tzinfo=UTC)),
        (datetime(2025, 5, 1, tzinfo=UTC), datetime(2025, 5, 1, tzinfo=UTC)),
    ]
    for n in range(count):
        # Every other one has nearly all of the quarter of a year, or more.
        earliest, most = (5, DAYS) if n % 2 else (60, 40)
        least = DAYS - 5 if n % 2 else 0
        start = FIRST + timedelta(milliseconds=chance.randrange(earliest * 86_400_000))
        length = chance.randrange(least * 86_400_000, most * 86_400_000)
        found.append((start, start + timedelta(milliseconds=length)))
        # Local days.
        zone = ZoneInfo(chance.choice(ZONES))
        day = FIRST.date() + timedelta(days=chance.randrange(earliest))
        first, last = (
            datetime.combine(each, time(), zone).astimezone(UTC)
            for each in (day, day + timedelta(days=chance.randrange(least, most)))
        )
        found.append((first, last))
    return found


def answers(api: TestClient, person: Person, seed: int = 1, count: int = 4) -> Answers:
    """Return what all of them say of some ranges: seven answers of each."""
    found = []
    for start, end in ranges(seed, count):
        days = {"start": start.isoformat(), "end": end.isoformat()}
        # Without a list, with the switches of the first half, and with all of them.
        for at in (start, start + (end - start) / 2, None):
            page = {} if at is None else {"cursor": cursor(at, NO_ID)}
            found.append(ask(api, person, SWITCHES, **days, **page))
        found += [ask(api, person, path, **days) for path in (BREAKS, COSTS, STREAKS)]
        page = {"cursor": cursor(start + (end - start) / 3, NO_ID)}
        found.append(ask(api, person, STREAKS, **days, **page))
    return found


def without_spans(owner: Owner, asked: Callable[[], Answers]) -> Answers:
    """Return the answers while no span is kept."""
    owner.execute("create table public.aside as table activity.attention")
    owner.execute("delete from activity.attention")
    try:
        return asked()
    finally:
        owner.execute("insert into activity.attention table public.aside")
        owner.execute("drop table public.aside")


def spans(owner: Owner) -> list[tuple[date, date]]:
    """Return all spans."""
    return owner.execute("select first, last from activity.attention order by 1, 2").fetchall()


def is_marked(owner: Owner) -> bool:
    """Return whether spans of anybody are marked."""
    return bool(owner.execute("select from activity.attention_due").fetchall())


SPOIL: LiteralString = """
    update activity.attention
       set tracked_ms = 1,
           switch_count = array(select 1000 from unnest(switch_count)),
           detour_count = array(select 1000 from unnest(detour_count)),
           streak_productive = array(select 1000 from unnest(streak_productive)),
           streak_reason = array(select 'neutral' from unnest(streak_reason))
"""


@pytest.fixture
def busy(owner: Owner, alice: Person, make_rollups: MakeRollups) -> None:
    """The life of alice, with spans."""
    add_sessions(owner, alice, life(1))
    make_rollups()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_answers_are_the_same_with_and_without_spans(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups, seed: int
) -> None:
    add_sessions(owner, alice, life(seed))
    make_rollups()
    kept = spans(owner)

    def asked() -> Answers:
        return answers(api, alice, seed)

    assert QUARTER in kept
    assert (date(2025, 5, 1), date(2025, 5, 31)) in kept
    assert (date(2025, 6, 11), date(2025, 6, 15)) in kept
    assert asked() == without_spans(owner, asked)


def test_spans_are_used(api: TestClient, owner: Owner, alice: Person, busy: None) -> None:
    right = answers(api, alice, count=0)
    owner.execute(SPOIL)

    spoiled = answers(api, alice, count=0)

    # Seven answers for each of two ranges; the second is a quarter of a year. A list of switches is read from
    # days.
    found = [n for n in range(14) if spoiled[n] != right[n]]
    assert found == [0, 3, 4, 5, 6, 7, 10, 11, 12, 13]


@pytest.mark.parametrize("seed", [4, 5])
def test_answers_are_the_same_with_and_without_spans_where_days_are_marked(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups, seed: int
) -> None:
    add_sessions(owner, alice, life(seed))
    make_rollups()
    chance = random.Random(seed)
    for _ in range(2):
        owner.execute(
            "insert into activity.rollup_due (user_id, date) values (%s, %s) on conflict do nothing",
            [alice.user_id, FIRST.date() + timedelta(days=chance.randrange(DAYS))],
        )

    def asked() -> Answers:
        return answers(api, alice, seed)

    assert asked() == without_spans(owner, asked)


def test_streaks_at_the_edges_of_spans_are_whole_and_counted_once(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    # Twenty minutes of productive work over the midnights before 1, 11 and 21 May and 1 June.
    midnights = [datetime(2025, 5, day, tzinfo=UTC) for day in (1, 11, 21)]
    midnights.append(datetime(2025, 6, 1, tzinfo=UTC))
    starts = [since_epoch((at - timedelta(minutes=10)).isoformat()) for at in midnights]
    add_sessions(
        owner,
        alice,
        [
            Session(f"{at}", "laptop", "Code", at, at + 20 * MINUTE, category="Development")
            for at in starts
        ],
    )
    make_rollups()
    assert (date(2025, 5, 1), date(2025, 5, 31)) in spans(owner)

    month = {"start": "2025-05-01T00:00:00Z", "end": "2025-06-01T00:00:00Z"}
    breaks = ask(api, alice, BREAKS, **month)
    streaks = ask(api, alice, STREAKS, **month)

    assert breaks["totals"] == {
        "streak_count": 4,
        "focus_ms": 60 * MINUTE,
        "longest_ms": 20 * MINUTE,
        "average_ms": 15 * MINUTE,
    }
    assert [row["started_at"] for row in streaks["data"]] == [
        "2025-05-31T23:50:00.000Z",
        "2025-05-20T23:50:00.000Z",
        "2025-05-10T23:50:00.000Z",
        "2025-04-30T23:50:00.000Z",
    ]
    assert {row["duration_ms"] for row in streaks["data"]} == {20 * MINUTE}


def test_the_pause_after_the_last_streak_of_a_span_ends_with_the_next_use(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    def work(key: str, at: str) -> Session:
        start = since_epoch(at)
        return Session(key, "laptop", "Code", start, start + 20 * MINUTE, category="Development")

    add_sessions(owner, alice, [work("1", "2025-05-04T09:00:00+00:00")])
    make_rollups()
    made = owner.execute("select first, last, read_computed_at from activity.attention").fetchall()
    month = {"start": "2025-05-01T00:00:00Z", "end": "2025-06-01T00:00:00Z"}

    def broken_by() -> tuple[Any, Any]:
        (row,) = ask(api, alice, STREAKS, **month)["data"]
        return row["broken_by"]["reason"], row["broken_by"]["gap_ms"]

    before = broken_by()
    add_sessions(owner, alice, [work("2", "2025-07-04T09:00:00+00:00")])
    # As ingest does, which marks this day alone.
    owner.execute("delete from activity.rollup_due where date <> '2025-07-04'")
    marked = broken_by()
    make_rollups()
    # Its session is removed because of its age, and its timeline stays.
    owner.execute("delete from activity.app_session where idempotency_key = '2'")
    owner.execute("delete from activity.rollup_due")
    rolled_up = broken_by()

    gap_ms = (61 * 1440 - 20) * MINUTE
    assert (before, marked, rolled_up) == (
        ("end_of_data", None),
        ("idle", gap_ms),
        ("idle", gap_ms),
    )
    kept = owner.execute("select first, last, read_computed_at from activity.attention").fetchall()
    assert len(made) == 3
    assert all(span in kept for span in made), "they were not made again"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_page_after_all_switches_has_the_totals_of_a_page_with_them(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups, seed: int
) -> None:
    add_sessions(owner, alice, life(seed))
    make_rollups()
    owner.execute(
        "insert into activity.rollup_due (user_id, date) values (%s, '2025-05-15')", [alice.user_id]
    )

    found = answers(api, alice, seed)

    whole = ("range", "definition", "pairs", "totals")
    assert [[page[name] for name in whole] for page in found[0::7]] == [
        [page[name] for name in whole] for page in found[2::7]
    ]
    assert all(page["data"] == [] for page in found[0::7])
    assert found[2]["data"] != []


def test_totals_of_a_range_without_switches_do_not_depend_on_the_page(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    at = since_epoch("2025-05-04T09:00:00+00:00")
    add_sessions(owner, alice, [Session("1", "laptop", "Code", at, at + 20 * MINUTE)])
    make_rollups()
    month = {"start": "2025-05-01T00:00:00Z", "end": "2025-06-01T00:00:00Z"}

    first = ask(api, alice, SWITCHES, **month)
    after_all = ask(
        api, alice, SWITCHES, **month, cursor=cursor(datetime(2025, 5, 1, tzinfo=UTC), NO_ID)
    )

    assert after_all["totals"] == first["totals"]
    assert first["totals"]["per_active_hour"] == 0


@pytest.mark.parametrize(
    "change",
    [
        # Nothing.
        "update activity.app_session set ended_at = ended_at where false",
        # A tracker writes to a day in each span.
        "insert into activity.rollup_due (user_id, date)"
        " select user_id, date from activity.app_timeline"
        " where extract(day from date) in (5, 10, 15, 20, 25, 28)",
        # A job of an older version makes days again, and knows of no spans.
        "update activity.app_timeline set computed_at = now()"
        " where extract(day from date) in (5, 10, 15, 20, 25, 28)",
        # A day that had nothing, in each span.
        "delete from activity.app_timeline where extract(day from date) in (5, 10, 15, 20, 25, 28)",
    ],
)
def test_spans_of_changed_days_are_not_used(
    api: TestClient, owner: Owner, alice: Person, busy: None, change: LiteralString
) -> None:
    right = answers(api, alice, count=2)
    owner.execute(SPOIL)
    owner.execute(change)

    found = answers(api, alice, count=2)

    if change.startswith("delete"):
        right = without_spans(owner, lambda: answers(api, alice, count=2))
    assert (found == right) == ("where false" not in change)


def test_changed_rules_make_spans_again(
    api: TestClient, owner: Owner, alice: Person, busy: None, make_rollups: MakeRollups
) -> None:
    before = answers(api, alice, count=2)
    owner.execute(SPOIL)

    # The person scores a category otherwise.
    owner.execute("select svc.set_score(%s, 'Games', 2)", [alice.user_id])

    def asked() -> Answers:
        return answers(api, alice, count=2)

    right = without_spans(owner, asked)
    found = asked()
    # Switches do not depend on rules, and detours and streaks are not those of spoiled spans.
    assert found[4::7] == right[4::7] != before[4::7]
    assert found[3::7] == right[3::7] != before[3::7]
    assert found[5::7] == right[5::7] != before[5::7]
    assert found[0::7] != right[0::7]
    assert is_marked(owner)
    make_rollups()
    assert not is_marked(owner)
    assert asked() == right
    owner.execute(SPOIL)
    assert asked() != right, "they are used again"


def test_a_day_that_is_marked_while_its_span_is_made_leaves_no_span_without_detours(
    api: TestClient, owner: Owner, alice: Person, make_rollups: MakeRollups, deployment: Settings
) -> None:
    # Nothing on 25 May, so a mark of this day changes no timeline.
    begin, end = (since_epoch(f"2025-05-{day}T00:00:00+00:00") for day in (24, 27))
    add_sessions(
        owner, alice, [each for each in life(1) if each.ended < begin or each.started > end]
    )
    make_rollups()
    span = {"user_id": alice.user_id, "from": date(2025, 5, 1), "to": date(2025, 5, 31)}
    month = {"start": "2025-05-01T00:00:00Z", "end": "2025-06-01T00:00:00Z"}
    right = ask(api, alice, COSTS, **month)

    with psycopg.connect(database.login(deployment, "worker")) as worker:

        def run(*names: str) -> None:
            for name in names:
                worker.execute(rollups.SQL[name], {**span, **schema.VERSION})

        run("begin_for", "forget_span", "make_span", "add_streaks")
        owner.execute(
            "insert into activity.rollup_due (user_id, date) values (%s, '2025-05-25')",
            [alice.user_id],
        )
        run("add_detours")
    owner.execute("delete from activity.rollup_due")

    assert (span["from"], span["to"]) in spans(owner)
    assert ask(api, alice, COSTS, **month) == right
    owner.execute("insert into activity.attention_due (user_id) values (%s)", [alice.user_id])
    make_rollups()
    owner.execute(SPOIL)
    assert ask(api, alice, COSTS, **month) != right, "it was made again"


def test_spans_of_days_whose_sessions_are_gone_are_removed(
    owner: Owner, alice: Person, busy: None, make_rollups: MakeRollups
) -> None:
    owner.execute(
        "insert into activity.rollup_due (user_id, date)"
        " select user_id, date from activity.app_timeline where date < '2025-06-05'"
    )
    owner.execute("delete from activity.app_session where started_at < '2025-06-05'")

    make_rollups()

    assert [span for span in spans(owner) if span[0] < date(2025, 6, 1)] == [QUARTER]
    assert len(spans(owner)) > 1


def test_spans_of_an_older_version_are_made_again_with_the_next_day(
    owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    today = datetime.now(UTC).date()
    at = since_epoch((today - timedelta(days=90)).isoformat() + "T09:00:00+00:00")
    add_sessions(
        owner,
        alice,
        [
            Session(f"{n}", "laptop", "Code", at + n * 1440 * MINUTE, at + (n * 1440 + 20) * MINUTE)
            for n in range(90)
        ],
    )
    make_rollups()
    made = spans(owner)
    owner.execute("update activity.attention set streak_started = null, rules = 'older'")
    owner.execute(
        "insert into activity.rollup_due (user_id, date) values (%s, %s)", [alice.user_id, today]
    )

    make_rollups()

    assert spans(owner) == made
    assert owner.execute("select from activity.attention where rules = 'older'").fetchall() == []


def test_a_page_of_streaks_begins_after_any_other_streak(
    api: TestClient, owner: Owner, alice: Person, busy: None
) -> None:
    # Spans, and a rest before and after them.
    days = {"start": "2025-04-28T05:00:00Z", "end": "2025-05-22T12:00:00Z"}
    whole = ask(api, alice, STREAKS, **days)

    for place in range(0, len(whole["data"]), 7):
        at = datetime.fromisoformat(whole["data"][place]["started_at"])
        answer = ask(api, alice, STREAKS, **days, cursor=cursor(at, NO_ID))
        assert answer["data"] == whole["data"][place + 1 :]
        assert answer["totals"] == whole["totals"]

    assert len(whole["data"]) > 50


def test_spans_are_made_of_days_that_are_over(
    owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begin = today - timedelta(days=40)
    at = since_epoch(begin.isoformat())
    add_sessions(
        owner,
        alice,
        [
            Session(f"{n}", "laptop", "Code", at + n * 1440 * MINUTE, at + (n * 1440 + 20) * MINUTE)
            for n in range(41)
        ],
    )

    make_rollups()

    kept = spans(owner)
    assert all(last < today.date() for _, last in kept)
    lasts = [today.date() - timedelta(days=n) for n in range(1, 41)]
    ends = [day for day in lasts if (day + timedelta(days=1)).day in (1, 6, 11, 16, 21, 26)]
    assert sorted({last for _, last in kept}, reverse=True)[: len(ends)] == ends
    months = [first for first, last in kept if first.day == 1 and 20 < (last - first).days < 31]
    assert months == [
        day.replace(day=1) for day in reversed(ends) if (day + timedelta(days=1)).day == 1
    ]


def test_spans_are_marked_once_the_last_sixth_of_a_month_is_over(
    owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    first = date(2024, 1, 20)
    at = since_epoch(f"{first}T09:00:00+00:00")
    add_sessions(
        owner,
        alice,
        [
            Session(f"{n}", "laptop", "Code", at + n * 1440 * MINUTE, at + (n * 1440 + 20) * MINUTE)
            for n in range(80)
        ],
    )
    make_rollups()

    def marks(today: date, day: date) -> bool:
        """Return whether spans are marked because a day has been made today."""
        text = rollups.SQL["mark_attention"].replace("now()", f"timestamptz '{today}T12:00:00Z'")
        with owner.transaction(force_rollback=True):
            rows = owner.execute(
                text, {"user_id": alice.user_id, "from": day, "to": day}
            ).fetchall()
        return rows != []

    # February of a leap year, and months of 30 and 31 days.
    for today in (date(2024, 2, 1) + timedelta(days=n) for n in range(61)):
        begun = today.replace(day=min((today.day - 1) // 5, 5) * 5 + 1)
        over = begun - timedelta(days=1)
        started = over.replace(day=min((over.day - 1) // 5, 5) * 5 + 1)
        with owner.transaction(force_rollback=True):
            # As if later days had not been.
            owner.execute("delete from activity.attention where last >= %s", [begun])
            owner.execute("delete from activity.app_timeline where date > %s", [today])
            assert not marks(today, begun)
            assert not marks(today, today)
            assert marks(today, over)
            owner.execute(
                "delete from activity.attention where first = %s and last = %s", [started, over]
            )
            assert marks(today, today)


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        (0, 0, 1),
        # What counts is the pause at the end of the span's last day: it may be followed by a later use.
        (5, 8 * 60, 1),
        (6, 0, 0),
        # The day after the span has no pause either, so that the span would be made of two more days.
        (0, None, 2),
    ],
)
def test_a_span_waits_while_today_would_be_among_its_days(
    owner: Owner,
    alice: Person,
    make_rollups: MakeRollups,
    before: int,
    after: int | None,
    waits: int,
) -> None:
    midnight = since_epoch("2025-07-01T00:00:00+00:00")
    begin = midnight + (after or 0) * MINUTE
    end = begin + (1440 if after is None else 20) * MINUTE
    add_sessions(
        owner,
        alice,
        [
            Session("1", "laptop", "Code", midnight - 20 * MINUTE, midnight - before * MINUTE),
            Session("2", "laptop", "Mail", begin, end),
        ],
    )
    make_rollups()
    owner.execute("delete from activity.attention")

    def due(day: str) -> set[tuple[date, date]]:
        values = {"user_id": alice.user_id, "limit": 100}
        values |= {"before_first": date.max, "before_last": date.max}
        text = rollups.SQL["spans_due"].replace("now()", f"timestamptz '{day}T12:00:00Z'")
        return set(owner.execute(text, values).fetchall())

    whole = {(date(2025, 6, 26), QUARTER[1]), (date(2025, 6, 1), QUARTER[1]), QUARTER}
    found = [due(f"2025-07-{day:02}") for day in (1, 2, 3)]
    assert found == [*[set()] * waits, *[whole] * (3 - waits)]


def test_no_span_is_made_of_days_far_beyond_it(
    owner: Owner, alice: Person, make_rollups: MakeRollups
) -> None:
    at = since_epoch("2025-04-20T00:00:00+00:00")
    hours = 60 * MINUTE
    add_sessions(
        owner,
        alice,
        [
            # Without a pause until 25 May, as a tracker reports that notices none.
            *(
                Session(
                    f"{n}",
                    "laptop",
                    ("Code", "Mail")[n % 2],
                    at + n * 6 * hours,
                    at + (n + 1) * 6 * hours,
                )
                for n in range(35 * 4)
            ),
            *(
                Session(f"{n}", "laptop", "Code", at + n * 24 * hours, at + (n * 24 + 6) * hours)
                for n in range(140, 140 + 40)
            ),
        ],
    )

    make_rollups()

    summer = (date(2025, 7, 1), date(2025, 9, 30))
    assert [each for each in spans(owner) if each[0] < date(2025, 9, 1)] == [QUARTER, summer]
    assert len(spans(owner)) > 2
    assert not is_marked(owner)


def test_days_of_today_look_for_no_spans_after_days_without_anything(
    owner: Owner, alice: Person, make_rollups: MakeRollups, deployment: Settings
) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    at = since_epoch((today - timedelta(days=60)).isoformat())
    add_sessions(
        owner,
        alice,
        [
            Session(f"{n}", "laptop", "Code", at + n * 1440 * MINUTE, at + (n * 1440 + 20) * MINUTE)
            for n in (*range(10), 60)
        ],
    )
    make_rollups()
    owner.execute(
        "insert into activity.rollup_due (user_id, date) values (%s, %s)",
        [alice.user_id, today.date()],
    )

    async def turn() -> tuple[int, rollups.Progress | None]:
        worker = await psycopg.AsyncConnection.connect(
            database.login(deployment, "worker"), autocommit=True, prepare_threshold=None
        )
        async with worker:
            return await rollups.take_turn(worker, alice.user_id, quiet=timedelta(0))

    assert spans(owner) != []
    assert asyncio.run(turn()) == (1, None)


def test_a_write_makes_its_spans_again(
    api: TestClient, owner: Owner, alice: Person, busy: None, make_rollups: MakeRollups
) -> None:
    made = dict.fromkeys(spans(owner))
    owner.execute(SPOIL)
    owner.execute(
        "insert into activity.rollup_due (user_id, date) values (%s, '2025-05-28')", [alice.user_id]
    )

    make_rollups()

    assert dict.fromkeys(spans(owner)) == made
    spoiled = owner.execute(
        "select first, last from activity.attention where tracked_ms = 1 order by 1, 2"
    ).fetchall()
    # A span beside it may have been made of that day as well, but this life pauses often enough.
    assert set(made) - set(spoiled) == {
        QUARTER,
        (date(2025, 5, 1), date(2025, 5, 31)),
        (date(2025, 5, 26), date(2025, 5, 31)),
    }
    assert not is_marked(owner)


def test_days_without_a_span_get_one_after_an_upgrade(
    api: TestClient, owner: Owner, alice: Person, busy: None, make_rollups: MakeRollups
) -> None:
    made = spans(owner)
    right = answers(api, alice, count=2)
    # What the migration does.
    owner.execute("delete from activity.attention")
    owner.execute("insert into activity.attention_due (user_id) select user_id from identity.user")

    assert answers(api, alice, count=2) == right
    make_rollups()

    assert spans(owner) == made
    assert not is_marked(owner)
    assert answers(api, alice, count=2) == right


def test_a_mark_between_two_turns_is_not_lost(
    owner: Owner, alice: Person, busy: None, deployment: Settings
) -> None:
    made = spans(owner)
    owner.execute("update activity.attention set rules = ''")
    owner.execute("insert into activity.attention_due (user_id) values (%s)", [alice.user_id])

    async def turns() -> int:
        worker = await psycopg.AsyncConnection.connect(
            database.login(deployment, "worker"), autocommit=True, prepare_threshold=None
        )
        count = 0
        progress: rollups.Progress | None = None
        async with worker:
            while count == 0 or progress is not None:
                _, progress = await rollups.take_turn(worker, alice.user_id, progress)
                count += 1
                if count == 3:
                    # The spans of the turns before are out of date again.
                    owner.execute("update activity.attention set rules = ''")
                    owner.execute("update activity.attention_due set marked_at = now()")
        return count

    assert len(made) > 2 * 7
    count = asyncio.run(turns())

    assert count > 3
    assert spans(owner) == made
    assert owner.execute("select from activity.attention where rules = ''").fetchall() == []
    assert not is_marked(owner)


def test_no_span_is_made_of_a_marked_day(
    owner: Owner, alice: Person, busy: None, make_rollups: MakeRollups
) -> None:
    owner.execute("delete from activity.attention")
    owner.execute(
        "insert into activity.rollup_due (user_id, date, is_left_raw) values (%s, '2025-05-15', true)",
        [alice.user_id],
    )
    owner.execute("insert into activity.attention_due (user_id) values (%s)", [alice.user_id])

    make_rollups()

    kept = spans(owner)
    assert (date(2025, 5, 6), date(2025, 5, 10)) in kept
    assert not [each for each in kept if each[0] <= date(2025, 5, 15) <= each[1]]
    assert not is_marked(owner), "else the job would look for it for ever"


def test_the_digest_of_rules_has_a_number_for_the_statements_that_decide() -> None:
    """A change of these changes kept detours and streaks: give it the next number in `rules_digest`."""
    here = Path(rollups.__file__).parent
    named = {
        block.name: block.text
        for path in (
            *queries.SHARED,
            here / "timeline.sql",
            here / "segments.sql",
            here / "kept.sql",
        )
        for block in queries.blocks(path)
    }
    deciding = [
        *(named[name] for name in ("rules", "scores", "category_candidates", "decided_category")),
        *(named[name] for name in ("decided_labels", "placed_segments", "detours")),
        *(named[name] for name in ("segments", "walked_streaks", "use_in_streaks")),
        *(DEFINITIONS[name] for name in ("svc.matches", "svc.category_of_site")),
        DEFINITIONS["svc.focus_streaks"],
    ]
    number = re.search(r"E'\\n\\n',\n *'(\d+)',", named["rules_digest"])

    assert number is not None
    text = "\n".join(code(each) for each in deciding)
    assert (number[1], hashlib.sha256(text.encode()).hexdigest()[:16]) == ("2", "c3b1d49318477f3c")
