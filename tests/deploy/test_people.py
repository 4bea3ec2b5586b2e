"""Operators' commands about people: goals, organizations, teams and summaries."""

import json
import re
import shlex
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from click.testing import CliRunner, Result
from starlette.testclient import TestClient

from deploy.operators import people
from shared.settings import Settings, SettingsError
from tests.conftest import Person

Rows = psycopg.Connection[Any]


def run(chosen: Settings, line: str, typed: str | None = None) -> Result:
    """Run a command line."""
    words = shlex.split(line)
    found = {command.name: command for command in people.COMMANDS}
    return CliRunner().invoke(found[words[0]], words[1:], input=typed, obj=chosen)


def output(chosen: Settings, line: str) -> str:
    """Run a command line that succeeds and return its output."""
    result = run(chosen, line)
    assert result.exit_code == 0, result.output
    return result.stdout


def table(chosen: Settings, line: str) -> list[list[str]]:
    """Return the cells of the table that a command prints, without its header."""
    return [re.split(" {2,}", row) for row in output(chosen, line).splitlines()[1:]]


def get(api: TestClient, person: Person, path: str) -> list[dict[str, Any]]:
    answer = api.get(path, headers=person.headers("read:activity", "read:profile"))
    assert answer.status_code == 200
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


def test_a_goal_is_added_listed_and_removed(
    deployment: Settings, api: TestClient, alice: Person
) -> None:
    goal_id = output(
        deployment,
        "goal add Alice@Example.org 'Code 3 h a day' --metric coding_ms --at-least 3h --on 1-5"
        " --project svc --language Python",
    ).strip()
    listed = table(deployment, "goal list alice@example.org")
    (as_json,) = json.loads(output(deployment, "goal list alice@example.org --json"))
    (goal,) = get(api, alice, "/api/v1/goals")
    removed = output(deployment, f"goal remove alice@example.org {goal_id}")

    assert UUID(goal_id)
    assert listed == [
        [
            goal_id,
            "Code 3 h a day",
            "coding_ms",
            "at least 10800000",
            "day 1,2,3,4,5",
            "svc, Python",
        ]
    ]
    assert as_json == {
        "id": goal_id,
        "title": "Code 3 h a day",
        "metric": "coding_ms",
        "comparison": "at_least",
        "target": 10_800_000,
        "period": "day",
        "days_of_week": [1, 2, 3, 4, 5],
        "filters": ["svc", "Python"],
    }
    assert {name: goal[name] for name in ("id", "title", "metric", "comparison", "target")} == {
        "id": goal_id,
        "title": "Code 3 h a day",
        "metric": "coding_ms",
        "comparison": "at_least",
        "target": 10_800_000,
    }
    assert goal["days_of_week"] == [1, 2, 3, 4, 5]
    assert goal["filter"]["languages"] == ["Python"]
    assert removed == "removed Code 3 h a day\n"
    assert get(api, alice, "/api/v1/goals") == []


@pytest.mark.parametrize(
    ("metric", "amount", "target"),
    [
        ("tracked_ms", "3h", 10_800_000),
        ("tracked_ms", "1h30m", 5_400_000),
        ("tracked_ms", "45m", 2_700_000),
        ("tracked_ms", "45", 45),
        ("app_switches", "300", 300),
        ("tracked_ms", "0", 0),
    ],
)
def test_amounts_are_durations_or_numbers(
    deployment: Settings, owner: Rows, alice: Person, metric: str, amount: str, target: int
) -> None:
    output(
        deployment, f"goal add {alice.email} x --metric {metric} --at-most {amount} --every week"
    )

    stored = owner.execute("select comparison, target, period from activity.goal").fetchall()
    assert stored == [("at_most", target, "week")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nobody@example.org x --metric tracked_ms --at-least 1h", "there is no account"),
        ("alice x --metric tracked_ms --at-least 1h", "e-mail address"),
        ("alice@example.org '' --metric tracked_ms --at-least 1h", "between 1 and 200"),
        (f"alice@example.org {'x' * 201} --metric tracked_ms --at-least 1h", "between 1 and 200"),
        ("alice@example.org x --metric tracked_ms", "either --at-least or --at-most"),
        (
            "alice@example.org x --metric tracked_ms --at-least 1 --at-most 2",
            "either --at-least or --at-most",
        ),
        ("alice@example.org x --metric tracked_ms --at-least 1h1", "the amount must be"),
        ("alice@example.org x --metric tracked_ms --at-least h", "the amount must be"),
        ("alice@example.org x --metric tracked_ms --at-least=-1", "the amount must be"),
        ("alice@example.org x --metric app_switches --at-least 1h", "the amount must be a number"),
        ("alice@example.org x --metric tracked_ms --at-least 999999h", "at most 1000000000000"),
        (
            "alice@example.org x --metric tracked_ms --at-least 1h --every week --on 1",
            "--on works with",
        ),
        ("alice@example.org x --metric focus_ms --at-least 1h --app Code", "cannot be restricted"),
        (
            "alice@example.org x --metric coding_ms --at-least 1h --category A",
            "cannot be restricted",
        ),
        ("alice@example.org x --metric tracked_ms --at-least 1h --project A", "only coding_ms"),
        ("alice@example.org x\udcff --metric tracked_ms --at-least 1h", "not text in UTF-8"),
        ("alice@example.org x --metric tracked_ms --at-least 1h --app \udcff", "not text in UTF-8"),
    ],
)
def test_an_invalid_goal_is_refused_in_one_line(
    deployment: Settings, owner: Rows, alice: Person, words: str, message: str
) -> None:
    result = run(deployment, f"goal add {words}")

    assert alice
    assert result.exit_code == 1, result.output
    assert message in result.output
    assert result.output.count("\n") == 1
    assert owner.execute("select count(*) from activity.goal").fetchone() == (0,)


@pytest.mark.parametrize("days", ["", "0", "8", "5-1", "1-", "mo", "1,,2"])
def test_invalid_weekdays_are_refused(deployment: Settings, alice: Person, days: str) -> None:
    result = run(
        deployment, f"goal add {alice.email} x --metric tracked_ms --at-least 1 --on '{days}'"
    )

    assert result.exit_code == 2
    assert "1 is Monday" in result.output


def test_a_goal_of_another_person_cannot_be_removed(
    deployment: Settings, alice: Person, bob: Person
) -> None:
    add = f"goal add {alice.email} x --metric tracked_ms --at-least 1h"
    goal_id = output(deployment, add).strip()

    result = run(deployment, f"goal remove {bob.email} {goal_id}")

    assert result.exit_code == 1
    assert result.output == f"Error: bob@example.org has no goal {goal_id}\n"
    assert len(table(deployment, f"goal list {alice.email}")) == 1
    assert table(deployment, f"goal list {bob.email}") == []


def test_organizations_and_teams_have_members(
    deployment: Settings, api: TestClient, alice: Person, bob: Person
) -> None:
    output(deployment, "org add acme 'Acme Inc.'")
    output(deployment, "team add acme Core")
    output(deployment, "team add acme Sales")
    output(deployment, f"org member acme {alice.email} --role owner")
    output(deployment, f"org member acme {bob.email}")
    changed = output(deployment, f"org member acme {alice.email} --role admin")
    output(deployment, f"team member acme Core {alice.email} --role lead")

    assert changed == "alice@example.org is admin of acme\n"
    assert table(deployment, "org list") == [
        ["acme", "Acme Inc.", "2", "alice@example.org (admin), bob@example.org (member)"]
    ]
    assert table(deployment, "team list acme") == [
        ["acme", "Core", "alice@example.org (lead)"],
        ["acme", "Sales", "-"],
    ]
    assert table(deployment, "team list") == table(deployment, "team list acme")
    assert table(deployment, "team list other") == []
    (organization,) = get(api, alice, "/api/v1/orgs")
    (team,) = get(api, alice, "/api/v1/teams")
    assert (organization["slug"], organization["role"]) == ("acme", "admin")
    assert (team["name"], team["role"]) == ("Core", "lead")
    assert get(api, bob, "/api/v1/teams") == []


def test_removal_from_an_organization_removes_from_its_teams(
    deployment: Settings, api: TestClient, alice: Person, bob: Person
) -> None:
    for slug in ("acme", "other"):
        output(deployment, f"org add {slug} {slug}")
        output(deployment, f"team add {slug} Core")
        for person in (alice, bob):
            output(deployment, f"org member {slug} {person.email}")
            output(deployment, f"team member {slug} Core {person.email}")

    message = output(deployment, f"org member acme {alice.email} --remove")
    again = run(deployment, f"org member acme {alice.email} --remove")
    output(deployment, f"team member other Core {bob.email} --remove")

    assert message == "removed alice@example.org from acme\n"
    assert again.output == "Error: alice@example.org is not in acme\n"
    assert table(deployment, "team list") == [
        ["acme", "Core", "bob@example.org (member)"],
        ["other", "Core", "alice@example.org (member)"],
    ]
    assert [each["slug"] for each in get(api, alice, "/api/v1/orgs")] == ["other"]


def test_a_member_of_a_team_alone_can_be_removed_from_the_organization(
    deployment: Settings, alice: Person
) -> None:
    output(deployment, "org add acme acme")
    output(deployment, "team add acme Core")
    output(deployment, f"team member acme Core {alice.email}")

    message = output(deployment, f"org member acme {alice.email} --remove")

    assert message == "removed alice@example.org from acme\n"
    assert table(deployment, "team list acme") == [["acme", "Core", "-"]]


def test_organizations_and_teams_are_removed(
    deployment: Settings, api: TestClient, alice: Person
) -> None:
    for line in (
        "org add acme Acme", "team add acme Core", "team add acme Sales",
        f"org member acme {alice.email}", f"team member acme Core {alice.email}",
    ):  # fmt: skip
        output(deployment, line)

    message = output(deployment, "team remove acme Sales")
    kept = run(deployment, "org remove acme", typed="n\n")
    still = len(get(api, alice, "/api/v1/orgs"))
    gone = output(deployment, "org remove acme --yes")

    assert message == "removed Sales of acme\n"
    assert (kept.exit_code, still) == (1, 1)
    assert gone == "removed acme\n"
    assert get(api, alice, "/api/v1/orgs") == get(api, alice, "/api/v1/teams") == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("org add acme Again", "there is an organization acme already"),
        ("org add new ''", "a name has between 1 and 200 characters"),
        ("org add new \udcff", "NAME is not text in UTF-8"),
        ("org remove other --yes", "there is no organization other"),
        ("org member other alice@example.org", "there is no organization other"),
        ("org member acme nobody@example.org", "there is no account nobody@example.org"),
        ("team add other Core", "there is no organization other, or it has such a team already"),
        ("team add acme Core", "there is no organization acme, or it has such a team already"),
        ("team add acme ''", "a name has between 1 and 200 characters"),
        ("team remove acme Sales", "acme has no team Sales"),
        ("team member acme Sales alice@example.org", "acme has no team Sales"),
        (
            "team member acme Core alice@example.org --remove",
            "alice@example.org is not in Core of acme",
        ),
        ("summary make alice@example.org --all", "either EMAIL or --all"),
        ("summary make nobody@example.org", "there is no account nobody@example.org"),
        ("goal list nobody@example.org", "there is no account nobody@example.org"),
    ],
)
def test_an_invalid_command_is_refused_in_one_line(
    deployment: Settings, alice: Person, line: str, message: str
) -> None:
    assert alice
    output(deployment, "org add acme Acme")
    output(deployment, "team add acme Core")

    result = run(deployment, line)

    assert result.exit_code == 1
    assert result.output == f"Error: {message}\n"


@pytest.mark.parametrize("slug", ["Acme", "-a", "'a b'", "ä", "x" * 64, "''"])
def test_an_invalid_slug_is_refused(deployment: Settings, slug: str) -> None:
    result = run(deployment, f"org add -- {slug} Acme")

    assert result.exit_code == 2
    assert "a slug has up to 63 of a-z, 0-9 and -" in result.output


def test_summaries_are_written_if_they_are_due_or_for_a_whole_account(
    deployment: Settings, api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    for person in (alice, bob):
        answer = api.post(
            "/api/v1/ingest/app-sessions",
            json={
                "events": [
                    {"app": "Code", "started_at": "2025-06-16T09:00:00Z", "duration_ms": 3_600_000},
                    {"app": "Code", "started_at": "2025-06-18T09:00:00Z", "duration_ms": 3_600_000},
                ]
            },
            headers=person.headers("ingest:app_sessions"),
        )
        assert answer.json()["accepted"] == 2

    due = output(deployment, "summary make")
    nothing = output(deployment, "summary make")
    owner.execute("delete from activity.daily_summary")
    again = output(deployment, f"summary make {alice.email}")
    everybodys = output(deployment, "summary make --all")

    assert due == "summed up 4 days\n"
    assert nothing == "summed up 0 days\n"
    assert again == "summed up 2 days\n"
    assert everybodys == "summed up 4 days\n"
    assert len(get(api, alice, "/api/v1/account/summaries")) == 2


def test_a_missing_login_of_the_owner_is_named(deployment: Settings) -> None:
    result = run(replace(deployment, database_url=None), "org list")

    assert isinstance(result.exception, SettingsError)


def test_a_database_that_does_not_answer_is_one_line(deployment: Settings) -> None:
    nowhere = replace(deployment, database_url="postgresql://nobody@localhost:1/nothing")

    result = run(nowhere, "org list")

    assert result.exit_code == 1
    assert "the database does not answer" in result.output
    assert result.output.count("\n") == 1
