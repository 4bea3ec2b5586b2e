"""`svc demo`: the accounts that it fills, and the data that it leaves alone.

tests/endpoints/test_demo.py tests the contents of the invented life.
"""

from datetime import UTC, datetime
from typing import Any, Final

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg import sql

from deploy.demo.command import COMPUTED, demo
from shared.settings import Settings
from tests.conftest import Person, person

Rows = psycopg.Connection[Any]

UNTIL: Final = "2025-10-31"


def run(chosen: Settings, *words: str) -> Result:
    return CliRunner().invoke(demo, words, obj=chosen)


def contents(connection: Rows, who: Person) -> dict[str, list[str]]:
    """Return every row of a person, as text, by table."""
    tables = connection.execute("select svc.tables_of_people()::text").fetchall()
    return {
        table: [
            text
            for (text,) in connection.execute(
                sql.SQL(
                    "select row_to_json(line)::text from {} as line where user_id = %s order by 1"
                ).format(sql.SQL(table)),
                [who.user_id],
            )
        ]
        for (table,) in tables
    }


def latest_moments(connection: Rows, who: Person) -> list[datetime]:
    """Return the latest moment in each column of each table."""
    columns = connection.execute(
        """
        select attrelid::regclass::text, attname
          from svc.tables_of_people() as place
          join pg_attribute on attrelid = place
         where atttypid = 'timestamptz'::regtype
           and attnum > 0
           and not attrelid::regclass::text = any (%s)
        """,
        [list(COMPUTED - {"activity.device_stream"})],
    ).fetchall()
    latest = []
    for table, name in columns:
        query = sql.SQL("select max({}) from {} where user_id = %s").format(
            sql.Identifier(name), sql.SQL(table)
        )
        row = connection.execute(query, [who.user_id]).fetchone()
        assert row is not None
        latest += [row[0]] if row[0] is not None else []
    return latest


def test_the_same_seed_and_days_give_the_same_rows(
    deployment: Settings, owner: Rows, bob: Person
) -> None:
    # These three days have a weekend and a row in each table that ten days fill.
    words = ("bob@example.org", "--days=3", "--until=2025-10-26", "--replace")

    first = run(deployment, *words)
    rows = invented(contents(owner, bob))
    second = run(deployment, *words)
    again = invented(contents(owner, bob))
    third = run(deployment, *words, "--seed=2")
    other = invented(contents(owner, bob))

    assert (first.exit_code, second.exit_code, third.exit_code) == (0, 0, 0)
    assert rows == again
    assert rows["content.play"]
    assert set(rows["activity.app_session"]) & set(other["activity.app_session"]) == set()


def invented(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out the rows of jobs, whose ids and times differ each time."""
    return {table: rows for table, rows in found.items() if table not in COMPUTED}


def test_rollups_and_summaries_are_there_and_nothing_is_due(
    deployment: Settings, owner: Rows, bob: Person
) -> None:
    run(deployment, "bob@example.org", "--days=3", f"--until={UNTIL}")

    rows = {table: len(texts) for table, texts in contents(owner, bob).items()}
    assert (rows["activity.summary_due"], rows["activity.rollup_due"]) == (0, 0)
    assert rows["activity.daily_summary"] == 3
    assert rows["activity.app_timeline"] >= 3


def test_two_accounts_may_have_the_same_life(
    deployment: Settings, owner: Rows, bob: Person
) -> None:
    person(owner, "carol")

    done = [
        run(deployment, f"{name}@example.org", "--days=3", f"--until={UNTIL}")
        for name in ("bob", "carol")
    ]

    assert [each.exit_code for each in done] == [0, 0]


def test_no_row_is_in_the_future(deployment: Settings, owner: Rows, bob: Person) -> None:
    done = run(deployment, "bob@example.org", "--days=3")

    assert done.exit_code == 0
    assert done.stdout.endswith("rows for bob@example.org, until now\n")
    latest = latest_moments(owner, bob)
    assert len(latest) > 10
    assert max(latest) <= datetime.now(UTC)


def test_connections_are_in_several_states_and_none_is_pulled(
    deployment: Settings, owner: Rows, bob: Person
) -> None:
    run(deployment, "bob@example.org", "--days=3")

    states = owner.execute(
        """
        select svc.connection_state(
                   stopped_at, paused_at, is_refused, connection.problem, last_record_at
               ),
               count(*)
          from profile.connection
          join profile.import using (user_id, import_id)
          join profile.import_part as part using (user_id, import_id)
         where import.connection_id = connection.connection_id
           and part.records = connection.record_count
           and part.last_at = connection.last_record_at
           and next_pull_at is null
         group by 1
        """
    ).fetchall()

    assert dict(states) == {"live": 3, "failing": 1, "refused": 1, "paused": 1}


def test_a_life_ends_with_its_last_day(deployment: Settings, owner: Rows, bob: Person) -> None:
    run(deployment, "bob@example.org", "--days=3", f"--until={UNTIL}")

    # An account without a time zone lives in Amsterdam, where it is 23 h UTC at midnight.
    assert max(latest_moments(owner, bob)) <= datetime(2025, 10, 31, 23, tzinfo=UTC)


def test_an_account_with_data_is_refused(deployment: Settings, owner: Rows, bob: Person) -> None:
    run(deployment, "bob@example.org", "--days=1", f"--until={UNTIL}")
    before = contents(owner, bob)

    done = run(deployment, "bob@example.org", "--days=3")

    assert done.exit_code == 1
    assert done.stderr == (
        "Error: bob@example.org has data of an earlier 'svc demo'; --replace removes it first\n"
    )
    assert contents(owner, bob) == before


@pytest.mark.parametrize(
    ("table", "insert"),
    [
        (
            "activity.device",
            b"insert into activity.device (user_id, name) values (%s, 'real')",
        ),
        (
            "activity.category_score",
            b"insert into activity.category_score (user_id, category, score) values (%s, 'News', 2)",
        ),
        (
            "profile.subscription",
            b"insert into profile.subscription (user_id, plan, status, billing)"
            b" values (%s, 'pro', 'active', 'none')",
        ),
    ],
)
def test_replace_keeps_what_the_demo_did_not_write(
    deployment: Settings, owner: Rows, bob: Person, table: str, insert: bytes
) -> None:
    words = ("bob@example.org", "--days=1", f"--until={UNTIL}")
    run(deployment, *words)
    before = contents(owner, bob)
    owner.execute(insert, [bob.user_id])
    own = set(contents(owner, bob)[table]) - set(before[table])

    refused = run(deployment, *words)
    replaced = run(deployment, *words, "--replace", "--seed=2")

    assert refused.stderr == (
        f"Error: bob@example.org has data that 'svc demo' did not write ({table});"
        " use another account, or --remove-everything\n"
    )
    assert (replaced.exit_code, replaced.stderr) == (0, "")
    after = contents(owner, bob)
    assert own <= set(after[table])
    assert set(before["activity.app_session"]) & set(after["activity.app_session"]) == set()


def test_replace_keeps_marks_of_imports_and_marks_the_days_of_derived_visits(
    deployment: Settings, owner: Rows, bob: Person
) -> None:
    words = ("bob@example.org", "--days=1", f"--until={UNTIL}")
    run(deployment, *words)
    owner.execute(
        "insert into location.derivation_due (user_id, date) values (%s, '2024-05-01')",
        [bob.user_id],
    )
    owner.execute(
        "insert into location.event"
        " (user_id, source, provider_key, type, status, started_at, ended_at, place_id)"
        " select user_id, 'derived', 'x', 'visit', 'suggested',"
        "        '2025-10-30 22:00Z', '2025-10-31 02:00Z', place_id"
        "   from location.place where user_id = %s limit 1",
        [bob.user_id],
    )

    done = run(deployment, *words, "--replace", "--seed=2")

    assert (done.exit_code, done.stderr) == (0, "")
    assert owner.execute(
        "select date::text from location.derivation_due order by date"
    ).fetchall() == [
        ("2024-05-01",),
        ("2025-10-30",),
        ("2025-10-31",),
    ]


def test_replace_keeps_a_session_of_an_invented_device_and_says_so(
    deployment: Settings, owner: Rows, bob: Person
) -> None:
    words = ("bob@example.org", "--days=1", f"--until={UNTIL}")
    run(deployment, *words)
    owner.execute(
        "insert into activity.coding_session"
        " (user_id, idempotency_key, device_id, started_at, ended_at, project)"
        " select user_id, 'own', device_id, '2024-06-01 10:00Z', '2024-06-01 11:00Z', 'own'"
        "   from activity.device"
        "  where user_id = %s and name = 'phone'",
        [bob.user_id],
    )
    before = contents(owner, bob)

    done = run(deployment, *words, "--replace")

    assert done.stderr == (
        "Error: bob@example.org has data where 'svc demo' would write its own (activity.device);"
        " use another account, or --remove-everything\n"
    )
    assert contents(owner, bob) == before


def test_everything_is_removed_after_a_question(
    deployment: Settings, owner: Rows, bob: Person
) -> None:
    carol = person(owner, "carol")
    for each in (bob, carol):
        owner.execute(
            "insert into activity.device (user_id, name) values (%s, 'real')", [each.user_id]
        )
    words = ("bob@example.org", "--days=3", f"--until={UNTIL}", "--remove-everything")

    unanswered = run(deployment, *words)

    assert unanswered.exit_code == 1
    assert "Remove all data of bob@example.org, invented or not? [y/N]" in unanswered.stdout
    assert devices(owner, bob) == [(False, "real"), (True, "real")]

    assert run(deployment, *words, "--yes").exit_code == 0
    assert devices(owner, bob) == [(False, "real"), (True, "phone"), (True, "work-laptop")]


def devices(owner: Rows, who: Person) -> list[tuple[bool, str]]:
    """Return the names of all devices, and whether they are a person's."""
    return owner.execute(
        "select user_id = %s, name from activity.device order by 1, 2", [who.user_id]
    ).fetchall()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["nobody@example.org"],
            "there is no account nobody@example.org; add one with 'svc user add'",
        ),
        (["bob@example.org", "--until=2999-01-01"], "2999-01-01 is in the future"),
        (["bob@example.org", "--until=0001-01-01"], "no day before 2000-01-02 can be invented"),
        (
            ["bob@example.org", "--until=2000-01-03", "--days=3"],
            "no day before 2000-01-02 can be invented",
        ),
    ],
)
def test_each_refusal_is_one_line(
    deployment: Settings, bob: Person, words: list[str], message: str
) -> None:
    done = run(deployment, *words)

    assert done.exit_code == 1
    assert done.stderr == f"Error: {message}\n"


@pytest.mark.usefixtures("bob")
@pytest.mark.parametrize("word", ["--days=0", "--days=4000", "--until=yesterday", "--seed=x"])
def test_a_malformed_option_is_named(deployment: Settings, word: str) -> None:
    done = run(deployment, "bob@example.org", word)

    assert done.exit_code == 2
    assert word.partition("=")[0] in done.stderr


def test_a_failure_in_the_middle_leaves_no_rows(
    deployment: Settings, owner: Rows, bob: Person
) -> None:
    # The last of all tables to be written cannot be.
    owner.execute("alter table activity.summary_due add constraint broken check (false) not valid")
    try:
        done = run(deployment, "bob@example.org", "--days=3", f"--until={UNTIL}")
    finally:
        owner.execute("alter table activity.summary_due drop constraint broken")

    assert done.exit_code == 1
    assert set(map(len, contents(owner, bob).values())) == {0}


def test_replace_refuses_an_account_whose_old_sessions_have_been_removed(
    owner: Rows, deployment: Settings, bob: Person
) -> None:
    words = ("bob@example.org", "--days=2", f"--until={UNTIL}")
    assert run(deployment, *words).exit_code == 0
    owner.execute(
        "insert into activity.removed_day"
        " (user_id, date, app_sessions, coding_sessions, reported, active)"
        " values (%s, '2019-03-04', 1, 0, '{}', '{}')",
        [bob.user_id],
    )
    count = "select count(*) from activity.app_time where user_id = %s"
    before = owner.execute(count, [bob.user_id]).fetchone()

    refused = run(deployment, *words, "--replace")

    assert (refused.exit_code, refused.stderr) == (
        1,
        "Error: bob@example.org has sums of old sessions that SVC_KEEP_RAW_YEARS has removed, and nothing can"
        " make them again; use another account, or --remove-everything\n",
    )
    assert owner.execute(count, [bob.user_id]).fetchone() == before != (0,)
