"""Operators' commands about category rules and scores."""

import json
import re
import shlex
from typing import Any
from uuid import UUID

import psycopg
import pytest
from click.testing import CliRunner, Result

from deploy.operators import categories
from shared.settings import Settings
from tests.conftest import Person
from tests.sql.test_categories import fill, insert, patterns, record

Rows = psycopg.Connection[Any]


def run(chosen: Settings, line: str) -> Result:
    """Run a command line."""
    _, *words = shlex.split(line)
    (command,) = categories.COMMANDS
    return CliRunner().invoke(command, words, obj=chosen)


def output(chosen: Settings, line: str) -> str:
    """Run a command line that succeeds and return its output."""
    result = run(chosen, line)
    assert result.exit_code == 0, result.output
    return result.stdout


def table(chosen: Settings, line: str) -> list[list[str]]:
    """Return the cells of the table that a command prints, without its header."""
    return [re.split(" {2,}", row) for row in output(chosen, line).splitlines()[1:]]


def test_rules_are_added_listed_in_order_and_removed(
    deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    first = output(deployment, "category add Alice@Example.org app exact Code Development").strip()
    second = output(
        deployment,
        r"category add alice@example.org title regex '^(Gauge|Minutes) \d+' Business --priority 1",
    ).strip()
    site = output(
        deployment,
        "category add alice@example.org domain exact https://www.GitHub.com/svc 'Own work'",
    ).strip()
    listed = table(deployment, "category list alice@example.org")
    removed = output(deployment, f"category remove alice@example.org {second}")

    assert all(map(UUID, (first, second, site)))
    assert listed == [
        ["1", second, "title", "regex", r"^(Gauge|Minutes) \d+", "Business", "-"],
        ["2", first, "app", "exact", "Code", "Development", "-"],
        ["3", site, "domain", "exact", "github.com", "Own work", "-"],
    ]
    assert removed == "removed ^(Gauge|Minutes) \\d+\n"
    assert patterns(owner, alice) == [(1, "Code"), (2, "github.com")]
    assert table(deployment, f"category list {bob.email}") == []


def test_a_rule_that_is_switched_off_is_listed_so(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    for pattern in ("slow", "quick"):
        output(deployment, f"category add {alice.email} title regex {pattern} Development")
    owner.execute(
        "update activity.category_rule set switched_off_at = '2026-11-16 09:00Z' where pattern = 'slow'"
    )

    listed = table(deployment, f"category list {alice.email}")
    rows = json.loads(output(deployment, f"category list {alice.email} --json"))

    assert [row[-2:] for row in listed] == [
        ["Development", "2026-11-16 09:00Z"],
        ["Development", "-"],
    ]
    assert [row["switched_off"] for row in rows] == ["2026-11-16T09:00:00.000Z", None]


def test_scores_are_set_listed_and_reset(deployment: Settings, alice: Person) -> None:
    message = output(deployment, f"category score {alice.email} Games 1")
    below = output(deployment, f"category score {alice.email} Sea -2")
    listed = table(deployment, f"category list {alice.email} --scores")
    as_json = json.loads(output(deployment, f"category list {alice.email} --scores --json"))
    reset = output(deployment, f"category score {alice.email} Games --reset")
    again = table(deployment, f"category list {alice.email} --scores")

    assert (message, below) == ("Games is productive\n", "Sea is very distracting\n")
    assert listed[:4] == [
        ["Design", "2", "very productive", "-"],
        ["Development", "2", "very productive", "-"],
        ["Writing", "2", "very productive", "-"],
        ["Business", "1", "productive", "-"],
    ]
    assert ["Games", "1", "productive", "-2"] in listed
    assert as_json[0] == {"category": "Design", "score": None, "usually": 2}
    assert {"category": "Games", "score": 1, "usually": -2} in as_json
    assert ["Sea", "-2", "very distracting", "0"] in listed
    assert reset == "Games is as usual\n"
    assert ["Games", "-2", "very distracting", "-"] in again


def test_a_pattern_is_normalised_like_the_names_in_events(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    output(deployment, f"category add {alice.email} app exact Cafe\u0301 Cafe\u0301")
    output(deployment, f"category score {alice.email} Cafe\u0301 2")
    message = output(deployment, f"category test {alice.email} --app Cafe\u0301")

    assert patterns(owner, alice) == [(1, "Caf\u00e9")]
    assert ["Caf\u00e9", "2", "very productive", "0"] in table(
        deployment, f"category list {alice.email} --scores"
    )
    assert message == "Caf\u00e9: the rule that app is Caf\u00e9\n"


def test_the_rules_of_the_service_are_listed(deployment: Settings, alice: Person) -> None:
    listed = table(deployment, f"category list {alice.email} --defaults")

    assert ["Development", "app", "code.exe"] in listed
    assert ["Reference", "domain", "wikipedia.org"] in listed
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("list nobody@example.org", "there is no account nobody@example.org"),
        ("list alice@example.org --scores --defaults", "either --scores or --defaults"),
        ("add nobody@example.org app exact x X", "there is no account nobody@example.org"),
        ("add alice@example.org app exact '' X", "a pattern has between 1 and 255 characters"),
        (
            f"add alice@example.org app exact {'x' * 256} X",
            "a pattern has between 1 and 255 characters",
        ),
        (
            "add alice@example.org app exact x ''",
            "a category has between 1 and 64 visible characters",
        ),
        (
            f"add alice@example.org app exact x {'x' * 65}",
            "a category has between 1 and 64 visible characters",
        ),
        (
            "add alice@example.org app exact x 'a\u202eb'",
            "a category has between 1 and 64 visible characters",
        ),
        ("add alice@example.org app exact x\udcff X", "PATTERN is not text in UTF-8"),
        (
            "add alice@example.org app exact CODE X",
            "A rule for that exists already. Remove it first.",
        ),
        (
            "add alice@example.org title regex '(' X",
            "This is not a regular expression that Postgres can work with.",
        ),
        (
            r"add alice@example.org title regex '(([a-z])+.)+\1$' X",
            r"An expression may not contain back references such as \1.",
        ),
        (
            "remove alice@example.org 00000000-0000-4000-8000-000000000001",
            "alice@example.org has no rule 00000000-0000-4000-8000-000000000001",
        ),
        ("score alice@example.org Games", "either SCORE or --reset"),
        ("score alice@example.org Games 1 --reset", "either SCORE or --reset"),
        (
            "score alice@example.org '' 1",
            "a category has between 1 and 64 visible characters",
        ),
        (
            "test alice@example.org",
            "either FIELD MATCH PATTERN, or --app, --title, --domain or --says",
        ),
        (
            "test alice@example.org app exact",
            "either FIELD MATCH PATTERN, or --app, --title, --domain or --says",
        ),
        (
            "test alice@example.org app exact x --app x",
            "either FIELD MATCH PATTERN, or --app, --title, --domain or --says",
        ),
        (
            "test alice@example.org app --app x",
            "either FIELD MATCH PATTERN, or --app, --title, --domain or --says",
        ),
        (
            "test alice@example.org title regex '(?=a)'",
            "A group may begin with (?: but not with any other (? and an expression must not begin with "
            "***. Upper and lower case are always the same.",
        ),
    ],
)
def test_an_invalid_command_is_refused_in_one_line(
    deployment: Settings, owner: Rows, alice: Person, line: str, message: str
) -> None:
    insert(owner, alice, "app", "exact", "Code", "Own")

    result = run(deployment, f"category {line}")

    assert result.exit_code == 1, result.output
    assert result.output == f"Error: {message}\n"
    assert patterns(owner, alice) == [(1, "Code")]
    assert owner.execute("select count(*) from activity.category_score").fetchone() == (0,)


@pytest.mark.parametrize(
    "line",
    [
        "add alice@example.org user exact x X",
        "add alice@example.org app like x X",
        "add alice@example.org app exact x",
        "add alice@example.org app exact x X --priority 0",
        "add alice@example.org app exact x X --priority a",
        "remove alice@example.org 1",
        "score alice@example.org Games 3",
        "score alice@example.org Games 1.5",
        "score alice@example.org Games --rest",
    ],
)
def test_unknown_arguments_are_refused(
    deployment: Settings, owner: Rows, alice: Person, line: str
) -> None:
    result = run(deployment, f"category {line}")

    assert result.exit_code == 2, result.output
    assert patterns(owner, alice) == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=.*(?=.*(?=.*x)))",
        "(^|$)*(^|$)*(^|$)*(^|$)*(^|$)*(^|$)*(^|$)*(^|$)*(^|$)*(^|$)*(^|$)*(^|$)*",
        "((a?b?){15}){17}c",
        "(a{1,255}){1,255}",
        r"(([a-z])+.)+\1$",
    ],
)
@pytest.mark.parametrize("command", ["add {} title regex '{}' X", "test {} title regex '{}'"])
def test_an_expression_that_could_hang_the_database_is_never_run(
    deployment: Settings, owner: Rows, alice: Person, command: str, pattern: str
) -> None:
    record(owner, alice, "Code", title="a" * 1024)

    result = run(deployment, f"category {command.format(alice.email, pattern)}")

    assert result.exit_code == 1
    assert "took too long" not in result.output
    assert result.output.count("\n") == 1
    assert patterns(owner, alice) == []


def test_a_rule_of_another_person_cannot_be_removed(
    deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    _, rule = insert(owner, alice, "app", "exact", "Code", "Own")

    result = run(deployment, f"category remove {bob.email} {rule}")

    assert result.output == f"Error: bob@example.org has no rule {rule}\n"
    assert patterns(owner, alice) == [(1, "Code")]


def test_a_person_has_at_most_200_rules(deployment: Settings, owner: Rows, alice: Person) -> None:
    fill(owner, alice, 199, "exact")

    output(deployment, f"category add {alice.email} app exact x X")
    result = run(deployment, f"category add {alice.email} app exact y X")

    assert result.exit_code == 1
    assert "room for 200 rules" in result.output


def test_a_preview_of_a_rule_adds_nothing(
    deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    record(owner, alice, "Code", ago_h=9, title="Tide table", hours=2)
    record(owner, alice, "Firefox", ago_h=6, title="Low tide\u202e", domain="youtube.com")
    record(owner, bob, "Code", title="Tides of bob")
    insert(owner, alice, "app", "exact", "Code", "Own")

    message = output(deployment, f"category test {alice.email} title contains TIDE").splitlines()
    nothing = output(deployment, f"category test {alice.email} app exact Nothing")

    assert message[0] == (
        "matches 3 h in 2 sessions of the last 30 days, of which rules decide 2 h already"
    )
    assert [re.split(" {2,}", line) for line in message[1:]] == [
        ["TIME", "SESSIONS", "NOW", "NAME"],
        ["2 h", "1", "Own", "Tide table"],
        ["1 h", "1", "Entertainment", "Low tide"],
    ]
    assert nothing == "matches no time in 0 sessions of the last 30 days\n"
    assert patterns(owner, alice) == [(1, "Code")]


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ("--app Slack --title 'The Budget'", "Business: the rule that title contains budget"),
        ("--app CODE.exe --title x", "Own: the rule that app matches the expression ^code"),
        ("--app Firefox --domain https://www.github.com/x", "Own: the rule that domain is github.com"),
        ("--app Firefox --domain gist.github.com", "Development: a rule for sites that comes with"),
        ("--app Firefox --domain de.wikipedia.org", "Reference: a rule for sites that comes with"),
        ("--app Slack", "Communication: a rule for applications that comes with the service"),
        ("--app Slack --says Design", "Design: the tracker's own category"),
        ("--app Firefox", "Uncategorized: no rule matches"),
        ("--title 'a budget'", "Business: the rule that title contains budget"),
    ],
)  # fmt: skip
def test_the_category_of_a_session_is_printed_with_the_reason(
    deployment: Settings, owner: Rows, alice: Person, bob: Person, session: str, message: str
) -> None:
    insert(owner, bob, "app", "exact", "Slack", "Bobs")
    for rule in (
        ("title", "contains", "budget", "Business"),
        ("app", "regex", "^code", "Own"),
        ("domain", "exact", "github.com", "Own"),
    ):
        insert(owner, alice, *rule)

    assert output(deployment, f"category test {alice.email} {session}").startswith(message)


def test_a_blank_value_counts_as_absent_as_in_events(deployment: Settings, alice: Person) -> None:
    message = output(
        deployment, f"category test {alice.email} --app Code --says ' ' --domain '' --title ' '"
    )

    assert message == "Development: a rule for applications that comes with the service\n"
