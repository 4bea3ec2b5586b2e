"""The functions about category rules: their rights, their effects, and the expressions that they accept."""

import re
import string
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors

from authserver.pages import categories
from deploy.migrate import SQL_DIR
from shared import queries
from shared.tokens import Token
from tests.conftest import Connect, Person
from tests.sql.test_deletion import DELETE, sign_in
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]
HOUR_MS = 3_600_000


def record(
    owner: Rows,
    person: Person,
    app: str,
    *,
    ago_h: float = 24,
    hours: float = 1,
    title: str | None = None,
    domain: str | None = None,
    category: str | None = None,
    device: str = "laptop",
    idle: bool = False,
) -> None:
    """Write an app session that began so many hours ago."""
    started = datetime.now(UTC) - timedelta(hours=ago_h)
    owner.execute(
        """
        with device as (
            insert into activity.device (user_id, name)
            values (%(user_id)s, %(device)s)
                on conflict (user_id, name) do update set platform = null
            returning user_id, device_id
        )
        insert into activity.app_session (
            user_id, device_id, idempotency_key, app, title, domain, category, idle, started_at, ended_at
        )
        select user_id, device_id, gen_random_uuid()::text, %(app)s, %(title)s, %(domain)s,
               %(category)s, %(idle)s, %(started)s, %(started)s + %(hours)s * interval '1 hour'
          from device
        """,
        {
            "user_id": person.user_id,
            "device": device,
            "app": app,
            "title": title,
            "domain": domain,
            "category": category,
            "idle": idle,
            "started": started,
            "hours": hours,
        },
    )


def insert(owner: Rows, person: Person, *rule: Any) -> tuple[str | None, UUID | None]:
    """Add a rule (field, match, pattern, category and, if any, place) as an operator does."""
    places = ", ".join(["%s"] * (len(rule) + 1))
    found = owner.execute(
        f"select problem, category_rule_id from svc.insert_rule({places})",  # noqa: S608 -- placeholders
        [person.user_id, *rule],
    ).fetchone()
    assert found is not None
    return found[0], found[1]


def patterns(owner: Rows, person: Person) -> list[tuple[int, str]]:
    return owner.execute(
        "select priority, pattern from activity.category_rule where user_id = %s order by priority",
        [person.user_id],
    ).fetchall()


@pytest.fixture
def signed_in(alice: Person, bob: Person) -> tuple[Token, Token]:
    """Sessions of alice and of bob."""
    return sign_in(alice), sign_in(bob)


RULE = "'app', 'exact', 'Code', 'Own'"
CALLS = [
    "svc.category_rules(%(user_id)s, %(session)s)",
    "svc.category_scores(%(user_id)s, %(session)s)",
    "svc.uncategorized_time(%(user_id)s, %(session)s)",
    "svc.preview_category_rule(%(user_id)s, %(session)s, 'app', 'contains', 'a')",
    "svc.switched_off_rules(%(user_id)s, %(session)s)",
]
CHANGES = {
    f"svc.add_category_rule(%(user_id)s, %(session)s, {RULE})": "signed_out",
    "svc.remove_category_rule(%(user_id)s, %(session)s, %(rule)s)": None,
    "svc.move_category_rule(%(user_id)s, %(session)s, %(rule)s, 1)": False,
    "svc.score_category(%(user_id)s, %(session)s, 'Games', 2)": "signed_out",
    f"svc.replace_category_rule(%(user_id)s, %(session)s, %(rule)s, {RULE})": "signed_out",
}


def everything(owner: Rows) -> list[Any]:
    return [
        owner.execute(f"select * from activity.{table} order by 1, 2").fetchall()  # noqa: S608 -- ours
        for table in ("category_rule", "category_score", "summary_due", "rollup_due")
    ]


@pytest.fixture
def alices(owner: Rows, alice: Person) -> UUID:
    """Alice has two rules, a score and something without a category; returns the first rule's id."""
    record(owner, alice, "Alices secret", ago_h=5)
    _, rule = insert(owner, alice, "app", "exact", "Slack", "Alices category")
    insert(owner, alice, "title", "contains", "tide", "Alices category")
    owner.execute("select svc.set_score(%s, 'Alices category', 2)", [alice.user_id])
    assert rule is not None
    return rule


# The last answers with ids alone.
@pytest.mark.parametrize("call", CALLS[:-1])
def test_the_functions_return_rows_of_the_signed_in_person(
    connect_as: Connect, alice: Person, alices: UUID, signed_in: tuple[Token, Token], call: str
) -> None:
    shown = connect_as("authserver").execute(
        f"select * from {call}",  # noqa: S608 -- ours
        {"user_id": alice.user_id, "session": signed_in[0].hash},
    )

    assert "Alices" in str(shown.fetchall())


@pytest.mark.parametrize("call", [*CALLS, *CHANGES])
def test_bob_reads_and_changes_nothing_of_alice(
    connect_as: Connect,
    owner: Rows,
    alice: Person,
    bob: Person,
    alices: UUID,
    signed_in: tuple[Token, Token],
    call: str,
) -> None:
    authserver = connect_as("authserver")
    alices_session, bobs_session = (session.hash for session in signed_in)
    before = everything(owner)

    answers = [
        authserver.execute(
            f"select * from {call}",  # noqa: S608 -- ours
            {"user_id": user_id, "session": session, "rule": alices},
        ).fetchall()
        for user_id, session in (
            (alice.user_id, bobs_session),
            (bob.user_id, alices_session),
            (alice.user_id, b""),
            (alice.user_id, None),
            (None, alices_session),
        )
    ]

    nothing = [(CHANGES[call],)] if call in CHANGES else []
    assert answers == [nothing] * 5
    assert everything(owner) == before


@pytest.mark.parametrize("call", list(CHANGES)[1:3])
def test_bob_cannot_change_a_rule_of_alice(
    connect_as: Connect,
    owner: Rows,
    bob: Person,
    alices: UUID,
    signed_in: tuple[Token, Token],
    call: str,
) -> None:
    before = everything(owner)

    result = connect_as("authserver").execute(
        f"select {call}",
        {"user_id": bob.user_id, "session": signed_in[1].hash, "rule": alices},
    )

    assert result.fetchone() == (CHANGES[call],)
    assert everything(owner) == before


@pytest.mark.parametrize("call", [*CALLS, *CHANGES])
def test_a_sign_in_without_use_for_thirty_days_is_over(
    connect_as: Connect, owner: Rows, alice: Person, alices: UUID, call: str
) -> None:
    session = sign_in(alice, seen="30 days")
    before = everything(owner)

    result = connect_as("authserver").execute(
        f"select * from {call}",  # noqa: S608 -- ours
        {"user_id": alice.user_id, "session": session.hash, "rule": alices},
    )

    assert result.fetchall() == ([(CHANGES[call],)] if call in CHANGES else [])
    assert everything(owner) == before


def test_a_sign_in_expires_here_as_on_pages() -> None:
    text = (SQL_DIR / "functions" / "sign_ins.sql").read_text()

    assert "session.seen_at > now() - interval '30 days'" in text


@pytest.mark.parametrize("role", ["reader", "ingester", "worker"])
@pytest.mark.parametrize("call", [*CALLS, *CHANGES])
def test_no_other_role_may_call_them(connect_as: Connect, role: str, call: str) -> None:
    nobody: dict[str, None] = {"user_id": None, "session": None, "rule": None}

    with pytest.raises(errors.InsufficientPrivilege):
        connect_as(role).execute(f"select * from {call}", nobody)  # noqa: S608 -- ours


def test_rules_are_numbered_from_one_and_move_for_new_ones(owner: Rows, alice: Person) -> None:
    for pattern, place in (("a", None), ("b", None), ("c", 1), ("d", 3), ("e", 99)):
        insert(owner, alice, "app", "exact", pattern, "Own", place)

    assert patterns(owner, alice) == [(1, "c"), (2, "a"), (3, "d"), (4, "b"), (5, "e")]


@pytest.mark.parametrize(
    ("which", "by", "expected"),
    [
        (1, 1, "bacd"), (3, -1, "acbd"), (4, -2, "adbc"), (1, -1, "abcd"), (4, 1, "abcd"),
        (2, 99, "acdb"),
    ],
)  # fmt: skip
def test_a_rule_moves_within_the_order(
    owner: Rows, alice: Person, which: int, by: int, expected: str
) -> None:
    rules = [insert(owner, alice, "app", "exact", pattern, "Own")[1] for pattern in "abcd"]

    owner.execute("select svc.move_rule(%s, %s, %s)", [alice.user_id, rules[which - 1], by])

    assert patterns(owner, alice) == list(enumerate(expected, 1))


def test_rules_with_equal_priorities_are_numbered_in_the_order_of_answers(
    owner: Rows, alice: Person
) -> None:
    owner.execute(
        """
        insert into activity.category_rule
               (user_id, category_rule_id, priority, field, match, pattern, category)
        select %s, id::uuid, 7, 'app', 'exact', id, 'Own'
          from unnest(array[
                   '00000000-0000-4000-8000-000000000002', '00000000-0000-4000-8000-000000000001'
               ]) as id
        """,
        [alice.user_id],
    )

    insert(owner, alice, "app", "exact", "x", "Own", 2)

    assert patterns(owner, alice) == [
        (1, "00000000-0000-4000-8000-000000000001"),
        (2, "x"),
        (3, "00000000-0000-4000-8000-000000000002"),
    ]


def fill(owner: Rows, person: Person, count: int, match: str) -> None:
    owner.execute(
        """
        insert into activity.category_rule (user_id, priority, field, match, pattern, category)
        select %s, n, 'app', %s, 'app ' || n, 'Own'
          from generate_series(1, %s) as n
        """,
        [person.user_id, match, count],
    )


@pytest.mark.parametrize(
    ("count", "match", "added", "problem"),
    [
        (199, "exact", "exact", None),
        (200, "exact", "exact", "too_many"),
        (49, "regex", "regex", None),
        (50, "regex", "regex", "too_many"),
        (50, "regex", "contains", None),
    ],
)
def test_the_number_of_rules_is_limited(
    owner: Rows, alice: Person, bob: Person, count: int, match: str, added: str, problem: str | None
) -> None:
    fill(owner, alice, count, match)

    assert insert(owner, alice, "app", added, "another", "Own")[0] == problem
    assert insert(owner, bob, "app", added, "another", "Own")[0] is None


def test_two_concurrent_changes_stay_within_the_limit(owner: Rows, alice: Person) -> None:
    fill(owner, alice, 199, "exact")

    with (
        psycopg.connect(owner.info.dsn, password=owner.info.password) as first,
        psycopg.connect(owner.info.dsn, password=owner.info.password) as second,
        ThreadPoolExecutor(1) as rivals,
    ):
        won = insert(first, alice, "app", "exact", "x", "Own")
        waiting = rivals.submit(insert, second, alice, "app", "exact", "y", "Own")
        wait_for_rivals(owner, 1)
        first.commit()
        lost = waiting.result()

    assert won[0] is None
    assert lost[0] == "too_many"
    assert len(patterns(owner, alice)) == 200


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (("app", "exact", "CODE"), "exists"),
        (("app", "contains", "code"), None),
        (("domain", "exact", "code"), None),
        (("app", "regex", r"\D"), None),
        (("app", "regex", r"\d"), "exists"),
    ],
)
def test_a_rule_is_added_only_once(
    owner: Rows, alice: Person, rule: tuple[str, ...], problem: str | None
) -> None:
    insert(owner, alice, "app", "exact", "code", "One")
    insert(owner, alice, "app", "regex", r"\d", "One")

    assert insert(owner, alice, *rule, "Two")[0] == problem


def test_without_an_account_nothing_is_added(owner: Rows, alice: Person) -> None:
    owner.execute("delete from identity.user")

    assert insert(owner, alice, "app", "exact", "Code", "Own") == ("no_account", None)
    assert owner.execute("select svc.set_score(%s, 'Own', 1)", [alice.user_id]).fetchone() == (
        "no_account",
    )
    assert everything(owner)[:2] == [[], []]


def test_an_account_deleted_meanwhile_leaves_no_rule(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    authserver = connect_as("authserver")
    session = sign_in(alice)

    with (
        psycopg.connect(owner.info.dsn, password=owner.info.password) as changing,
        ThreadPoolExecutor(1) as rivals,
    ):
        insert(changing, alice, "app", "exact", "x", "Own")
        waiting = rivals.submit(authserver.execute, DELETE, [alice.user_id, session.hash])
        wait_for_rivals(owner, 1)
        changing.commit()
        ended = waiting.result().fetchall()
    owner.execute("select svc.forget_departed(1000)")

    assert [event for event, *_ in ended] == ["account_deleted"]
    assert patterns(owner, alice) == []


def test_a_sign_in_that_ends_meanwhile_changes_nothing(
    connect_as: Connect, owner: Rows, alice: Person
) -> None:
    authserver = connect_as("authserver")
    session = sign_in(alice)

    with (
        psycopg.connect(owner.info.dsn, password=owner.info.password) as ending,
        ThreadPoolExecutor(1) as rivals,
    ):
        ending.execute("select from identity.user for update")
        ending.execute("delete from identity.session")
        waiting = rivals.submit(
            authserver.execute,
            "select svc.add_category_rule(%s, %s, 'app', 'exact', 'x', 'Own')",
            [alice.user_id, session.hash],
        )
        wait_for_rivals(owner, 1)
        ending.commit()
        result = waiting.result().fetchone()

    assert result == ("signed_out",)
    assert patterns(owner, alice) == []


# Marks after a change.


@pytest.fixture
def summed_up(owner: Rows, alice: Person, bob: Person) -> list[str]:
    """Two days of alice's data and one of bob's, summed up and rolled up; returns alice's."""
    for person, day in ((alice, "2025-06-16"), (alice, "2025-06-18"), (bob, "2025-06-16")):
        owner.execute(
            """
            with device as (
                insert into activity.device (user_id, name)
                values (%(user_id)s, %(day)s)
                returning user_id, device_id
            ),
            session as (
                insert into activity.app_session
                       (user_id, device_id, idempotency_key, app, started_at, ended_at)
                select user_id, device_id, %(day)s, 'Code', %(day)s::timestamptz,
                       %(day)s::timestamptz + interval '1 hour'
                  from device
            )
            insert into activity.daily_summary
            select user_id, %(day)s::date, 'UTC', 'final', now(), 0, 0, 0, 0, 0, 0, 0, 0, '[]', '[]', '[]'
              from device
            """,
            {"user_id": person.user_id, "day": day},
        )
    owner.execute("delete from activity.summary_due")
    owner.execute("delete from activity.rollup_due")
    return ["2025-06-16", "2025-06-18"]


def due(owner: Rows, table: str, person: Person) -> list[str]:
    found = owner.execute(
        f"select date::text from activity.{table} where user_id = %s order by date",  # noqa: S608 -- ours
        [person.user_id],
    )
    return [date for (date,) in found.fetchall()]


@pytest.mark.parametrize(
    ("change", "is_of_titles"),
    [
        ("svc.insert_rule(%(user_id)s, 'app', 'exact', 'x', 'Own')", False),
        ("svc.insert_rule(%(user_id)s, 'title', 'exact', 'x', 'Own')", True),
        ("svc.delete_rule(%(user_id)s, %(app)s)", False),
        ("svc.delete_rule(%(user_id)s, %(first)s)", True),
        ("svc.move_rule(%(user_id)s, %(app)s, -1)", False),
        ("svc.move_rule(%(user_id)s, %(first)s, 1)", False),
        ("svc.move_rule(%(user_id)s, %(first)s, 2)", True),
        ("svc.set_score(%(user_id)s, 'Games', 2)", False),
        ("svc.set_score(%(user_id)s, 'Games', null)", False),
    ],
)
def test_a_change_marks_all_summaries_and_after_other_title_rules_all_rollups(
    owner: Rows,
    alice: Person,
    bob: Person,
    summed_up: list[str],
    change: str,
    is_of_titles: bool,
) -> None:
    rules = {
        name: insert(owner, alice, field, "contains", name, "Own")[1]
        for name, field in (("first", "title"), ("app", "app"), ("second", "title"))
    }
    owner.execute("delete from activity.summary_due")
    owner.execute("delete from activity.rollup_due")

    owner.execute(f"select {change}", {"user_id": alice.user_id, **rules})

    assert due(owner, "summary_due", alice) == summed_up
    assert set(summed_up) <= set(due(owner, "rollup_due", alice)) or not is_of_titles
    assert is_of_titles or due(owner, "rollup_due", alice) == []
    assert due(owner, "summary_due", bob) == due(owner, "rollup_due", bob) == []


def test_a_change_without_effect_marks_nothing(
    owner: Rows, alice: Person, summed_up: list[str]
) -> None:
    insert(owner, alice, "title", "regex", "(", "Own")
    insert(owner, alice, "title", "regex", r"(a)\1", "Own")
    owner.execute("select svc.delete_rule(%s, gen_random_uuid())", [alice.user_id])
    owner.execute("select svc.move_rule(%s, gen_random_uuid(), 1)", [alice.user_id])

    assert due(owner, "summary_due", alice) == due(owner, "rollup_due", alice) == []


def test_a_mark_in_use_by_a_job_is_replaced(owner: Rows, alice: Person) -> None:
    mark = "select marked_at from activity.summary_due"
    owner.execute(
        "insert into activity.summary_due values (%s, '2025-06-16', now() + interval '1 day')",
        [alice.user_id],
    )
    before = owner.execute(mark).fetchone()

    insert(owner, alice, "app", "exact", "x", "Own")

    after = owner.execute(mark).fetchone()
    assert before is not None
    assert after is not None
    assert after[0] > before[0]


def test_days_are_not_summed_up_while_rules_change(
    owner: Rows, connect_as: Connect, alice: Person
) -> None:
    worker = connect_as("worker")
    turn = "select pg_try_advisory_xact_lock(hashtextextended('summaries of ' || %s::uuid, 0))"

    with psycopg.connect(owner.info.dsn, password=owner.info.password) as changing:
        insert(changing, alice, "app", "exact", "x", "Own")
        meanwhile = worker.execute(turn, [alice.user_id]).fetchone()
    afterwards = worker.execute(turn, [alice.user_id]).fetchone()

    assert (meanwhile, afterwards) == ((False,), (True,))


# Answers about the last 30 days.


def uncategorized(owner: Rows, person: Person) -> list[tuple[Any, ...]]:
    return owner.execute(
        "select field, name, has_sites, total_ms, session_count, name_count "
        "from svc.recent_uncategorized(%s)",
        [person.user_id],
    ).fetchall()


def test_time_without_a_category_is_listed_longest_first_by_site_or_application(
    owner: Rows, alice: Person, bob: Person
) -> None:
    record(owner, alice, "Firefox", ago_h=20, domain="tides.example")
    record(owner, alice, "Chrome", ago_h=18, domain="tides.example", hours=2)
    record(owner, alice, "Firefox", ago_h=12, hours=0.5)
    record(owner, alice, "Mystery", ago_h=10, hours=2.5)
    record(owner, alice, "Mystery", ago_h=7)
    record(owner, alice, "Own", ago_h=6)
    record(owner, alice, "Sketch", ago_h=5, category="Design")
    record(owner, alice, "Code", ago_h=4)
    record(owner, alice, "Firefox", ago_h=3, domain="de.wikipedia.org")
    record(owner, alice, "Idle", ago_h=3, idle=True)
    record(owner, alice, "Long ago", ago_h=31 * 24)
    record(owner, alice, "Firefox", ago_h=2, domain="x" * 256)
    record(owner, alice, "Shrug", ago_h=1, hours=0.25, category="Uncategorized")
    record(owner, bob, "Bobs")
    insert(owner, alice, "app", "exact", "own", "Uncategorized")

    assert uncategorized(owner, alice) == [
        ("app", "Mystery", False, 3.5 * HOUR_MS, 2, 4),
        ("domain", "tides.example", False, 3 * HOUR_MS, 2, 4),
        ("app", "Firefox", True, 0.5 * HOUR_MS, 1, 4),
        # Its tracker sent Uncategorized.
        ("app", "Shrug", False, 0.25 * HOUR_MS, 1, 4),
    ]


def test_twenty_names_are_listed_and_all_are_counted(owner: Rows, alice: Person) -> None:
    for n in range(23):
        record(owner, alice, f"app {n:02}", ago_h=40 - n, hours=0.5)

    shown = uncategorized(owner, alice)

    assert [name for _, name, *_ in shown] == [f"app {n:02}" for n in range(20)]
    assert {count for *_, count in shown} == {23}


def test_time_without_a_category_is_owned_time_of_the_last_thirty_days(
    owner: Rows, alice: Person
) -> None:
    record(owner, alice, "Long", ago_h=30 * 24 + 1, hours=24)
    record(owner, alice, "Short", ago_h=30 * 24 - 2, hours=1)
    record(owner, alice, "Over", ago_h=30 * 24 + 3, hours=2.9)
    record(owner, alice, "Same", ago_h=10, hours=1, device="b")
    record(owner, alice, "Future", ago_h=-1)

    shown = {name: (total, count) for _, name, _, total, count, _ in uncategorized(owner, alice)}

    # A moment passes between the writing and the asking.
    assert 22 * HOUR_MS - 60_000 < shown["Long"][0] <= 22 * HOUR_MS
    assert shown["Short"] == (HOUR_MS, 1)
    assert shown["Same"] == (HOUR_MS, 1)
    assert "Future" not in shown
    assert "Over" not in shown


def matched(owner: Rows, person: Person, *rule: str) -> tuple[Any, ...]:
    found = owner.execute(
        "select total_ms, session_count, ruled_ms, name_count, names "
        "from svc.recent_matches(%s, %s, %s, %s)",
        [person.user_id, *rule],
    ).fetchone()
    assert found is not None
    return tuple(found)


def test_the_preview_of_a_rule_has_its_matches_with_their_present_category(
    owner: Rows, alice: Person, bob: Person
) -> None:
    record(owner, alice, "Code", ago_h=9, title="Tide table", hours=2)
    record(owner, alice, "Firefox", ago_h=6, title="tide table", domain="tides.example")
    record(owner, alice, "Firefox", ago_h=5, title="Low tide", domain="youtube.com", hours=0.5)
    record(owner, alice, "Firefox", ago_h=4, title="Lighthouse")
    record(owner, bob, "Code", title="Tides of bob")
    insert(owner, alice, "app", "exact", "Code", "Own")

    total, count, ruled, name_count, names = matched(owner, alice, "title", "contains", "TIDE")

    assert (total, count, ruled, name_count) == (3.5 * HOUR_MS, 3, 2 * HOUR_MS, 3)
    assert names == [
        {"name": "Tide table", "category": "Own", "total_ms": 2 * HOUR_MS, "session_count": 1},
        {
            "name": "tide table",
            "category": "Uncategorized",
            "total_ms": HOUR_MS,
            "session_count": 1,
        },
        {
            "name": "Low tide",
            "category": "Entertainment",
            "total_ms": HOUR_MS // 2,
            "session_count": 1,
        },
    ]


def test_a_preview_lists_ten_names_with_the_category_of_most_of_their_time(
    owner: Rows, alice: Person
) -> None:
    record(owner, alice, "Firefox", ago_h=50, hours=1, domain="github.com")
    record(owner, alice, "Firefox", ago_h=48, hours=2, domain="youtube.com")
    for n in range(11):
        record(owner, alice, f"App {n:02}", ago_h=40 - n, hours=0.5)

    *_, name_count, names = matched(owner, alice, "app", "regex", ".")

    assert name_count == 12
    assert len(names) == 10
    assert names[0] == {
        "name": "Firefox",
        "category": "Entertainment",
        "total_ms": 3 * HOUR_MS,
        "session_count": 2,
    }


def test_a_rule_that_matches_nothing_or_everything_has_a_preview(
    owner: Rows, alice: Person
) -> None:
    assert matched(owner, alice, "app", "regex", ".*") == (0, 0, 0, 0, [])
    record(owner, alice, "Code")

    assert matched(owner, alice, "title", "regex", ".*") == (0, 0, 0, 0, [])
    assert matched(owner, alice, "app", "regex", "")[:2] == (HOUR_MS, 1)


# Accepted expressions.


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a+)+$", None),
        ("(a|a)*b", None),
        ("(.*a){20}", None),
        ("(([a-z])+.)+[A-Z]([a-z])+$", None),
        (r"(^|\.)github\.com$", None),
        (r"\yissue #\d+\y", None),
        ("[[:alpha:]]{3,5}|[]x]|[^]]", None),
        ("[[.].]]{2}", None),
        (r"[\]{300}]", None),
        (r"[\\]a", None),
        (r"\(?=", None),
        ("(?:a|b)??", None),
        ("{,5}", None),
        (r"\\1", None),
        ("x" * 255, None),
        ("a{255}", None),
        ("(a?){25}", None),
        (".*" * 25, None),
        ("^a$|^b$", None),
        ("***=a", "question_mark"),
        ("***:(?b)a", "question_mark"),
        ("(?i)a", "question_mark"),
        ("(?x)a b", "question_mark"),
        ("(?#a)b", "question_mark"),
        ("(?=.*(?=.*(?=.*x)))", "question_mark"),
        ("a(?!b)", "question_mark"),
        ("(?<=a)b", "question_mark"),
        ("(?<!a)b", "question_mark"),
        ("(?", "question_mark"),
        (r"(a+)\1+$", "back_reference"),
        (r"(([a-z])+.)+\1$", "back_reference"),
        (r"\((a)\1", "back_reference"),
        (r"[\]](a)\1", "back_reference"),
        (r"[[.].]](a)\1", "back_reference"),
        (r"\c(a", None),
        (r"\c[(a)\1]", "back_reference"),
        (r"[\c]](a)\1", "back_reference"),
        (r"\\\\(a)\1", "back_reference"),
        ("(^|$)*" * 20, "repeated_anchor"),
        (r"(\y|\Y)+" * 20, "repeated_anchor"),
        ("^*", "repeated_anchor"),
        (r"((a\Zb))?", "repeated_anchor"),
        ("[[:<:]]+", "repeated_anchor"),
        ("(a{1,255}){1,255}", "too_large"),
        ("((a{0,2}){0,2}){0,7}", "too_large"),
        ("((a?b?){15}){17}c", "too_large"),
        ("(.?){255}", "too_large"),
        ("(a?){26}", "too_large"),
        ("(a+){26}", "too_large"),
        ("((((a+)+)+)+)", None),
        ("(" * 5 + "a" + "+)" * 5, "too_large"),
        ("(" * 5 + "a" + "{1,})" * 5, "too_large"),
        ("(" * 16 + "a" + ")+" * 16, "too_large"),
        ("(" * 25 + "a" + "*)" * 25, None),
        ("((a{99})+)+", "too_large"),
        ("(a{2,}){26}", "too_large"),
        ("(|a){26}", "too_large"),
        ("(a|){26}", "too_large"),
        ("(a||b){26}", "too_large"),
        (".*" * 26, "too_large"),
        ("a{256}", "too_large"),
        ("(a{16}){16}", "too_large"),
        ("^a$|^b$|^c", "too_large"),
        ("^^^^", None),
        (r"^\A$\Z", None),
        (r"\y\Y", None),
        (r"\y\Y^", "too_large"),
        (r"\m\M$", "too_large"),
        ("[[:<:]]a[[:>:]]$", "too_large"),
        ("a{99999}", "not_one"),
        ("a{1", "not_one"),
        ("(a", "not_one"),
        ("[a", "not_one"),
        ("[]", "not_one"),
        ("[[:alpha", "not_one"),
        ("a)", "not_one"),
        ("a**", "not_one"),
        ("\\", "not_one"),
        ("a{2,1}", "not_one"),
        ("a{300,}", "too_large"),
        ("[b-a]", "not_one"),
        ("[一-龥][a-z]", None),
        (r"[\u0400-\u04ff]+", None),
        (r"[^\x00-\x7f]", None),
        (r"[a-\U000000e499999999]", None),
        (r"[a-\u00e49999]", None),
        (r"[\x0-\x30d40]", None),
        (r"[\x0-\x30d41]", "wide_range"),
        (r"[a-\x7ffffffe]", "wide_range"),
        (r"[a-\U7ffffffe00000041]", "wide_range"),
        (r"[a-\x410000007ffffffe]", "wide_range"),
        (r"[--\x7ffffffe]", "wide_range"),
        (r"[\--\x7ffffffe]", "wide_range"),
        (r"[]-\x7ffffffe]", "wide_range"),
        (r"[\]-\x7ffffffe]", "wide_range"),
        (r"[[.a.]-\x7ffffffe]", "wide_range"),
        ("[a-\U0001f600]", None),
        ("[a-\U0001f600][a-\U0001f600]", "wide_range"),
        (r"x[\x1-\xffff\x1-\xffff](\d|[\x1-\xffff])*[\x1-\xffff]", "wide_range"),
        ("[[:none:]]", "not_one"),
    ],
)
def test_an_expression_that_cannot_hang_the_database_is_accepted(
    owner: Rows, alice: Person, pattern: str, problem: str | None
) -> None:
    owner.execute("set statement_timeout = '5s'")

    found, rule = insert(owner, alice, "title", "regex", pattern, "Own")

    assert found == problem
    assert (rule is None) == (problem is not None)
    assert problem is None or problem in categories.PROBLEMS


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=.*(?=.*(?=.*x)))",
        "(^|$)*" * 20,
        "((a?b?){15}){17}c",
        r"(([a-z])+.)+\1$",
        "(a{1,255}){1,255}",
        "(?i)a",
    ],
)
def test_the_table_refuses_such_an_expression_too(owner: Rows, alice: Person, pattern: str) -> None:
    owner.execute("set statement_timeout = '5s'")

    with pytest.raises(errors.CheckViolation, match="category_rule_expression_is_no_burden"):
        owner.execute(
            """
            insert into activity.category_rule (user_id, priority, field, match, pattern, category)
            values (%s, 1, 'title', 'regex', %s, 'Own')
            """,
            [alice.user_id, pattern],
        )


def test_a_pattern_that_is_no_expression_is_accepted_unchanged(owner: Rows, alice: Person) -> None:
    for match in ("exact", "contains"):
        for pattern in ("(", r"\1", "(?=a)", "***"):
            assert insert(owner, alice, "title", match, pattern, "Own")[0] is None


def test_an_expression_that_takes_too_long_is_refused(db: Rows) -> None:
    text = queries.written_out(SQL_DIR / "functions" / "categories.sql")
    # No statement finishes within this limit.
    db.execute(text.replace("interval '25 milliseconds'", "interval '-1 second'").encode())

    result = db.execute("select svc.rule_problem('regex', 'a'), svc.rule_problem('exact', 'a')")

    assert result.fetchone() == ("too_slow", None)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("[xy]*x[xy]{250}z", "slow_texts"),
        (r"\d*1\d{250}x", "slow_texts"),
        (r"[\x78\x79]*\x78[\x78\x79]{250}z", "slow_texts"),
        ("[ab]{3}|qwertuiopsdfghjklc|[xy]*x[xy]{200}z", "slow_texts"),
        ("[xy]*z", None),
        ("(invoice|receipt).*20[0-9]{2}", None),
    ],
)
def test_an_expression_that_is_slow_on_a_text_of_its_letters_is_refused(
    db: Rows, pattern: str, problem: str | None
) -> None:
    result = db.execute("select svc.rule_problem('regex', %s)", [pattern]).fetchone()

    assert result == (problem,)


def test_trial_texts_are_deterministic_and_consist_of_pieces_of_the_expression(db: Rows) -> None:
    texts = [
        [text for (text,) in db.execute("select svc.trial_texts('(ja|nein){20}z')")]
        for _ in range(2)
    ]

    assert texts[0] == texts[1]
    assert max(map(len, texts[0])) == 1024
    assert any(re.fullmatch("(ja|nein)+(n|ne|nei|j)?", text) for text in texts[0])
    assert len(texts[0]) <= 121


def test_a_persons_expressions_share_one_limit(owner: Rows, alice: Person, bob: Person) -> None:
    assert insert(owner, alice, "title", "regex", "slow", "Own")[0] is None
    owner.execute("update activity.category_rule set reading_us = 1500")

    assert insert(owner, alice, "title", "regex", "github", "Own")[0] == "slow_together"
    assert insert(owner, alice, "title", "contains", "github", "Own")[0] is None
    assert insert(owner, bob, "title", "regex", "github", "Own")[0] is None

    owner.execute(
        "update activity.category_rule set switched_off_at = now() where pattern = 'slow'"
    )
    assert insert(owner, alice, "title", "regex", "github", "Own")[0] is None


@pytest.mark.parametrize("code", ["XX000", "54000", "53200"])
def test_an_expression_that_is_too_large_for_postgres_is_refused(db: Rows, code: str) -> None:
    db.execute(
        "create or replace function svc.expression_problem(p_pattern text) returns text "
        f"language plpgsql immutable parallel safe as $$ begin raise sqlstate '{code}'; end $$"
    )

    assert db.execute("select svc.rule_problem('regex', 'a')").fetchone() == ("too_large",)


def test_every_problem_has_a_message() -> None:
    text = (SQL_DIR / "functions" / "categories.sql").read_text() + "".join(
        path.read_text() for path in (SQL_DIR / "migrations").glob("*_default_rules.sql")
    )

    # The page and the commands have no message for no_account.
    assert all(f"'{problem}'" in text for problem in categories.PROBLEMS)
    assert {"too_slow", "too_many", "exists"} < categories.PROBLEMS.keys()


# The longest possible texts, in which nested repetitions match in the most ways.
HOSTILE_TEXTS = [
    "a" * 1024,
    "ab" * 512,
    "a" * 1023 + "!",
    "aab b " * 170,
    "x" * 1024,
    "\u00e4b" * 512,
]
MAX_MEMORY_KIB = 32 * 1024
"""The most memory that a connection may take for one expression. Postgres itself would allow 160 MiB."""


def most_memory_kib(connection: Rows) -> int:
    """Return the most memory that the server's process of a connection has used, on this machine."""
    status = Path(f"/proc/{connection.info.backend_pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize(
    "pattern",
    [
        # Other engines need exponential time for these.
        "(a+)+$", "(a|a)*$", "(a|a)*b", "(a|aa)+$", "(x+x+)+y", "((a*)*)*b", "(.*a){20}", "(.*a){25}",
        r"(\w+\s?)+$", "([a-z]+)*@", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a|b)*a(a|b){120}x", "(.*){25}x",
        "(.*?){25}x", "(a?){25}a{200}", "((a+)+)+b",
        # Postgres needs much time or memory for these.
        "a{1,1000}{1,1000}", "(a{1,1000}){1,1000}", "((a{1,100}){1,100}){1,100}", "(a{255}){255}",
        "(" * 14 + "a" + "+)" * 14, "(" * 16 + "a" + "+)" * 16, "(" * 25 + "a" + "+)" * 25,
        "(" * 100 + "a" + ")" * 100, "(^|$)*" * 20, r"(\y|\Y)+" * 20, "(?=.*(?=.*(?=.*x)))", r"(.+)\1+$",
        r"(a*)(a*)(a*)\3\2\1b", r"[a-\x7ffffffe]", r"[\x1-\U0010ffff]{200}x", "[\u4e00-\u9fa5]{200}x",
        "|".join("a" * n for n in range(1, 22)), "|".join(f"{n:x}" for n in range(80)),
        "(" + "|".join(["a*"] * 25) + ")*b", "(" + "|".join(string.ascii_letters) + ")*[^a]{150}x",
        r"(\w|\W|\s|\S|\d|\D){20}x", r"(\w*\d*\s*\S*\W*\D*){4}x",
    ],
)  # fmt: skip
def test_a_listed_expression_is_refused_or_fast_and_takes_little_memory(
    owner: Rows, alice: Person, pattern: str
) -> None:
    for n, title in enumerate(HOSTILE_TEXTS, 1):
        record(owner, alice, "Code", ago_h=3 * n, title=title)

    with psycopg.connect(
        owner.info.dsn, password=owner.info.password, options="-c statement_timeout=2s"
    ) as fresh:
        insert(fresh, alice, "app", "regex", "warm", "Own")
        matched(fresh, alice, "app", "regex", "warm")
        before_kib = most_memory_kib(fresh)
        problem, rule = insert(fresh, alice, "title", "regex", pattern, "Own")
        if rule is not None:
            assert matched(fresh, alice, "title", "regex", pattern)[1] <= 6
            assert uncategorized(fresh, alice) == []
        taken_kib = most_memory_kib(fresh) - before_kib

    assert (rule is None) == (problem is not None)
    assert taken_kib < MAX_MEMORY_KIB


quantifiers = st.sampled_from(
    [
        "*",
        "+",
        "?",
        "*?",
        "+?",
        "{2}",
        "{3}",
        "{17}",
        "{120}",
        "{0,3}",
        "{2,}",
        "{1,}",
        "{0,12}",
        "{0}",
    ]
)
atoms = st.sampled_from(
    ["a", "b", "ab", ".", r"\w", r"\W", r"\s", r"\S", r"\d", r"\D", "[a-z]", "[^a]", "[[:alpha:]]", "^", "$",
     "[^[:space:]]", r"[\x1-\x30000]", r"[\u0001-\uffff]", "[[=a=]]", "ä", r"\y", r"\m", "[]-x]", r"[\]a]"]
)  # fmt: skip
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("{}{}".format, atoms, quantifiers),
        st.lists(inner, min_size=1, max_size=5).map("".join),
        st.builds(
            "({}){}".format, st.lists(inner, min_size=1, max_size=3).map("|".join), quantifiers
        ),
        st.builds("(?:{}){}".format, inner, quantifiers),
    ),
    max_leaves=25,
).filter(lambda pattern: len(pattern) <= categories.MAX_PATTERN)


@given(pattern=expressions)
def test_any_expression_is_refused_or_fast(db: Rows, pattern: str) -> None:
    db.execute("set local statement_timeout = '2s'")

    result = db.execute("select svc.rule_problem('regex', %s)", [pattern]).fetchone()

    assert result is not None
    if result[0] is None:
        found = db.execute(
            "select count(svc.matches(text, 'regex', %s)) from unnest(%s::text[]) as text",
            [pattern, HOSTILE_TEXTS],
        ).fetchone()
        assert found == (6,)
