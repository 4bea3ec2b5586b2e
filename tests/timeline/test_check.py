"""`svc rollup check` and `svc rollup rebuild`."""

import re
import shlex
from typing import Any, LiteralString

import psycopg
import pytest
from click.testing import CliRunner, Result

from deploy.operators.rollups import rollup
from shared.settings import Settings
from tests.conftest import MakeRollups, Person
from tests.endpoints.histories import add_coding, add_sessions
from tests.endpoints.timeline import CodingSession, Session, since_epoch

Rows = psycopg.Connection[Any]

NINE = since_epoch("2025-06-16T09:00:00+00:00")
MINUTE = 60_000


def run(chosen: Settings, line: str) -> Result:
    return CliRunner().invoke(rollup, shlex.split(line), obj=chosen)


@pytest.fixture
def morning(owner: Rows, alice: Person, make_rollups: MakeRollups) -> None:
    """A morning of alice's, rolled up."""
    apps = ["Code", "Mail"] * 10
    add_sessions(
        owner,
        alice,
        [
            Session(f"{n}", "laptop", app, NINE + n * 10 * MINUTE, NINE + (n + 1) * 10 * MINUTE)
            for n, app in enumerate(apps)
        ],
    )
    add_coding(
        owner, alice, [CodingSession("1", "laptop", "svc", "Python", None, NINE, NINE + MINUTE)]
    )
    make_rollups()


def test_rollups_equal_the_sums_of_sessions(deployment: Settings, morning: None) -> None:
    checked = run(deployment, "check alice@example.org")

    assert (checked.exit_code, checked.stdout) == (0, "0 differences\n")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "update activity.app_time set owned_ms = 5 where grain = 1 and started = 1 and owned_ms = 600000"
            " and starts_at = '2025-06-16 10:00Z'",
            "2025-06-16T10:00:00.000Z quarter of Code: owned_ms is 5, should be 600000",
        ),
        (
            "update activity.app_time set began_at = began_at + interval '1 minute'"
            " where grain = 1 and starts_at = '2025-06-16 09:15Z'",
            ": began_at is 2025-06-16T09:11:00+00:00, should be 2025-06-16T09:10:00+00:00",
        ),
        (
            "delete from activity.app_time where grain = 3 and label_id = (select min(label_id) from"
            " activity.label)",
            "2025-06-16T00:00:00.000Z day of Code: missing, should be {",
        ),
        (
            "update activity.app_time set last_at = null where grain = 4",
            "2025-06-01T00:00:00.000Z month of Code: last_at is nothing, should be 2025-06-16T12:10:00",
        ),
        (
            'insert into activity.coding_time select (jsonb_populate_record(part, \'{"project": "x"}\')).*'
            " from activity.coding_time as part where grain = 1",
            "2025-06-16T09:00:00.000Z quarter of x, Python: unexpected, is {",
        ),
        (
            "update activity.coding_time set lines_added = 1 where grain = 4",
            "2025-06-01T00:00:00.000Z month of svc, Python: lines_added is 1, should be 0",
        ),
        (
            "update activity.app_timeline set switch_before[2] = 1",
            "2025-06-16 timeline: switch_before is [600000, 1, 600000",
        ),
        (
            "delete from activity.app_timeline",
            "2025-06-16 timeline: missing, should be {",
        ),
        (
            "update activity.attention set tracked_ms = 5",
            "2025-06-16 to 2025-06-20 span: tracked_ms is 5, should be 12000000",
        ),
        (
            "update activity.attention set switch_last[1] = 5 where last > first + 15",
            "2025-06-01 to 2025-06-30 span: switch_last is [5, 19], should be [10, 19]",
        ),
        (
            "update activity.attention set switch_last[1] = 5 where last > first + 80",
            "2025-04-01 to 2025-06-30 span: switch_last is [5, 19], should be [10, 19]",
        ),
        (
            "update activity.attention set streak_apps = '{5}'",
            "2025-06-16 to 2025-06-20 span: streak_apps is [5], should be []",
        ),
        (
            "update activity.attention set away = '{5}'",
            "2025-06-16 to 2025-06-20 span: away is [5], should be []",
        ),
        (
            "delete from activity.label where app = 'Mail'",
            "2025-06-16T09:45:00.000Z quarter: missing, should be {",
        ),
        (
            # Sessions without a mark of their day.
            "update activity.app_session set ended_at = ended_at + interval '1 ms'"
            " where idempotency_key = '19'",
            ": owned_ms is 300000, should be 300001",
        ),
    ],
)
def test_a_difference_is_named(
    deployment: Settings, owner: Rows, morning: None, fault: LiteralString, said: str
) -> None:
    owner.execute(fault)

    checked = run(deployment, "check alice@example.org")

    assert checked.exit_code == 1
    assert any(
        line.startswith("alice@example.org: ") and said in line
        for line in checked.stdout.splitlines()
    ), checked.stdout


def test_marked_days_are_left_out(
    deployment: Settings, owner: Rows, alice: Person, morning: None
) -> None:
    owner.execute("update activity.app_time set owned_ms = 5")
    owner.execute("insert into activity.rollup_due values (%s, '2025-06-16')", [alice.user_id])

    checked = run(deployment, "check alice@example.org")

    assert (checked.exit_code, checked.stdout) == (0, "0 differences\n")


def test_a_rebuild_corrects_differences(deployment: Settings, owner: Rows, morning: None) -> None:
    owner.execute("update activity.app_time set owned_ms = 5")
    owner.execute("delete from activity.coding_time")
    owner.execute("delete from activity.app_timeline")
    owner.execute("update activity.label set app = 'Other' where app = 'Mail'")

    broken = run(deployment, "check --all")
    rebuilt = run(deployment, "rebuild alice@example.org")
    mended = run(deployment, "check --all")

    assert broken.exit_code == 1
    assert re.search(r"^alice@example\.org: \.\.\. and \d+ more$", broken.stdout, re.MULTILINE)
    assert rebuilt.stdout == "rebuilt 2 days\n"
    assert mended.stdout == "0 differences\n"
    assert owner.execute("select app from activity.label order by app").fetchall() == [
        ("Code",),
        ("Mail",),
    ]


@pytest.mark.parametrize(
    "stray",
    [
        "insert into activity.app_time"
        ' select (jsonb_populate_record(part, \'{"starts_at": "2025-08-20T09:15:00Z"}\')).*'
        " from activity.app_time as part where grain = 1 and starts_at = '2025-06-16 09:15Z'",
        "insert into activity.coding_time"
        ' select (jsonb_populate_record(part, \'{"starts_at": "2025-08-01T00:00:00Z"}\')).*'
        " from activity.coding_time as part where grain = 4",
        "insert into activity.app_timeline"
        ' select (jsonb_populate_record(day, \'{"date": "2025-08-20"}\')).*'
        " from activity.app_timeline as day",
    ],
)
def test_a_rebuild_removes_rollups_without_sessions(
    deployment: Settings, owner: Rows, morning: None, stray: LiteralString
) -> None:
    owner.execute(stray)

    broken = run(deployment, "check alice@example.org")
    run(deployment, "rebuild alice@example.org")
    mended = run(deployment, "check alice@example.org")

    assert "2025-08-" in broken.stdout
    assert "unexpected, is" in broken.stdout
    assert (mended.exit_code, mended.stdout) == (0, "0 differences\n")


def test_all_accounts_can_be_rebuilt_and_checked(
    deployment: Settings, owner: Rows, morning: None, bob: Person
) -> None:
    add_sessions(owner, bob, [Session("1", "laptop", "Code", NINE, NINE + MINUTE)])

    rebuilt = run(deployment, "rebuild --all")

    assert rebuilt.stdout == "rebuilt 4 days\n"
    assert owner.execute("select count(distinct user_id) from activity.app_time").fetchone() == (2,)


@pytest.mark.parametrize("command", ["check", "rebuild"])
@pytest.mark.parametrize(
    ("people", "problem"),
    [
        ("", "either EMAIL or --all"),
        ("alice@example.org --all", "either EMAIL or --all"),
        ("nobody@example.org", "there is no account nobody@example.org"),
    ],
)
def test_an_account_or_all_must_be_named(
    deployment: Settings, alice: Person, command: str, people: str, problem: str
) -> None:
    result = run(deployment, f"{command} {people}")

    assert (result.exit_code, result.stderr) == (1, f"Error: {problem}\n")
