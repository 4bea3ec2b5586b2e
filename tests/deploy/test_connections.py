"""Operators' commands about connections."""

import json
import re
import shlex
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from click.testing import CliRunner, Result

from deploy.operators import connections
from shared import keys, sealing
from shared.connections import KINDS
from shared.settings import Settings
from tests.conftest import Person

Rows = psycopg.Connection[Any]

PRIVATE = sealing.new_private_key()
TOKEN = "a-token-of-a-service"


@pytest.fixture
def chosen(deployment: Settings) -> Settings:
    """The settings of an operator who has switched two receivers on, and who has a key for sealing."""
    public = sealing.public_key_of(PRIVATE)
    return replace(deployment, receivers=("wakatime", "overland"), sealing_public_key=public)


def run(chosen: Settings, line: str, typed: str | bytes = "") -> Result:
    """Run a command line with the given standard input."""
    _, *words = shlex.split(line)
    (command,) = connections.COMMANDS
    return CliRunner().invoke(command, words, obj=chosen, input=typed)


def listed(chosen: Settings, words: str = "") -> list[dict[str, Any]]:
    """Return what the list prints as JSON."""
    result = run(chosen, f"connection list {words} --json")
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS.values() if kind.key])
def test_the_key_alone_is_printed_to_standard_output(
    chosen: Settings, owner: Rows, alice: Person, kind: str
) -> None:
    added = run(chosen, f"connection add {kind} Alice@Example.org --name 'My phone'")

    assert added.exit_code == 0, added.output
    key = added.stdout.removesuffix("\n")
    assert owner.execute("select key_hash from profile.integration_key").fetchall() == [
        (keys.hash_of(key),)
    ]
    assert key not in added.stderr
    assert re.search(r"^added [0-9a-f-]{36}$", added.stderr, re.MULTILINE)
    assert ("SVC_RECEIVERS" in added.stderr) is (kind not in chosen.receivers)
    (row,) = listed(chosen, alice.email)
    assert (row["kind"], row["name"], row["state"]) == (kind, "My phone", "waiting")


def test_lines_of_a_file_are_printed_below_their_label(chosen: Settings, alice: Person) -> None:
    added = run(chosen, "connection add wakatime alice@example.org")

    assert "~/.wakatime.cfg:\n[settings]\napi_url = " in added.stderr


def test_a_secret_is_read_from_a_prompt_or_standard_input_and_sealed(
    chosen: Settings, owner: Rows, alice: Person
) -> None:
    prompted = run(chosen, f"connection add github {alice.email}", typed=f"{TOKEN}\n")
    piped = run(
        chosen,
        f"connection add calendar {alice.email} --set user=al --secret-stdin",
        typed="https://c.example/a.ics\nan owl\n",
    )

    assert (prompted.exit_code, prompted.stdout) == (0, "")
    assert (piped.exit_code, piped.stdout) == (0, "")
    assert TOKEN not in prompted.output
    opener = sealing.Opener([PRIVATE])
    opened = {
        field: opener.open(
            key_id, sealed, user_id=user_id, connection_id=connection_id, field=field
        )
        for user_id, connection_id, field, key_id, sealed in owner.execute(
            "select user_id, connection_id, field, key_id, sealed from profile.connection_secret"
        )
    }
    assert opened == {
        "token": TOKEN,
        "address": "https://c.example/a.ics",
        "password": "an owl",
    }
    settings = owner.execute("select settings from profile.connection where kind = 'calendar'")
    assert settings.fetchall() == [({"user": "al"},)]


def test_a_secret_is_replaced_from_standard_input_and_the_worker_pulls(
    chosen: Settings, owner: Rows, alice: Person
) -> None:
    line = f"connection add calendar {alice.email} --secret-stdin"
    run(chosen, line, typed="https://c.example/a.ics\nfirst\n")
    (row,) = listed(chosen)
    owner.execute("update profile.connection set next_pull_at = now() + interval '1 day'")
    owner.execute("delete from svc.turn")
    renew = f"connection secret {row['id']} --secret-stdin"

    # A line for each secret; the empty one leaves the address as it is.
    renewed = run(chosen, renew, typed="\nsecond\n")
    wrong = run(chosen, renew, typed="http://c.example/b.ics\nthird\n")
    nothing = run(chosen, renew, typed="\n")
    prompted = run(chosen, renew.removesuffix(" --secret-stdin"), typed="\n\n")

    assert (renewed.exit_code, renewed.stdout) == (0, "replaced password of Calendar\n")
    assert "Address: The address must begin with https://" in wrong.stderr
    assert "nothing was entered" in nothing.stderr
    assert "Application password (empty to keep what is there):" in prompted.stderr
    opener = sealing.Opener([PRIVATE])
    whose = {"user_id": alice.user_id, "connection_id": UUID(row["id"])}
    assert {
        field: opener.open(key_id, sealed, **whose, field=field)
        for field, key_id, sealed in owner.execute(
            "select field, key_id, sealed from profile.connection_secret"
        )
    } == {"address": "https://c.example/a.ics", "password": "second"}
    assert owner.execute("select kind from svc.turn").fetchall() == [("pull",)]
    assert owner.execute("select next_pull_at <= now() from profile.connection").fetchone() == (
        True,
    )
    events = owner.execute("select event from identity.security_event order by occurred_at")
    assert [event for (event,) in events] == ["connection_added", "connection_key_renewed"]


def test_a_new_secret_does_not_shorten_the_wait_that_a_service_has_named(
    chosen: Settings, owner: Rows, alice: Person
) -> None:
    run(chosen, f"connection add github {alice.email} --secret-stdin", typed=TOKEN)
    (row,) = listed(chosen)
    owner.execute(
        "update profile.connection set state = jsonb_build_object('retry_at', now() + interval '2 hours')"
    )

    renewed = run(chosen, f"connection secret {row['id']} --secret-stdin", typed="new")

    assert renewed.exit_code == 0, renewed.output
    assert owner.execute(
        "select next_pull_at = (state ->> 'retry_at')::timestamptz from profile.connection"
    ).fetchone() == (True,)


def test_only_a_connection_with_secrets_gets_new_ones(
    chosen: Settings, owner: Rows, alice: Person
) -> None:
    for kind, more in (("overland", ""), ("listenbrainz_user", "--set user=al"), ("github", "")):
        run(chosen, f"connection add {kind} {alice.email} {more} --secret-stdin", typed=TOKEN)
    github, named, sending = listed(chosen)
    run(chosen, f"connection remove {github['id']}")

    for row in (github, named, sending):
        result = run(chosen, f"connection secret {row['id']} --secret-stdin", typed="new\n")
        assert result.exit_code == 1
        assert f"there is no connection {row['id']} with secrets" in result.stderr


@pytest.mark.parametrize(
    ("line", "typed", "problem"),
    [
        ("connection add nothing {alice}", "", "'nothing' is not one of"),
        ("connection add wakatime nobody@example.org", "", "there is no account"),
        ("connection add owntracks {alice} --show-totals", "", "owntracks shows no totals"),
        ("connection add wakatime {alice} --set gap_minutes=90", "", "from 1 to 60"),
        ("connection add wakatime {alice} --set gap_minutes", "", "--set takes FIELD=VALUE"),
        ("connection add github {alice} --set token=x", "", "that are no secrets: none"),
        ("connection add github {alice} --secret-stdin", "\n", "token: This is needed."),
        ("connection add github {alice} --secret-stdin", b"\xff\n", "Token is not text in UTF-8"),
        ("connection add calendar {alice} --secret-stdin", "http://c.example\n", "https://"),
        ("connection add overland {alice} --name ''", "", "Give it a name."),
        ("connection add overland {alice} --name " + "x" * 10_000, "", "at most 100 characters"),
        (f"connection remove {UUID(int=1)}", "", "there is no connection"),
        (f"connection secret {UUID(int=1)}", "", "there is no connection"),
        ("connection add lastfm {alice} --secret-stdin", "k\n", "--set user=VALUE"),
        ("connection list nobody@example.org", "", "there is no account"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    chosen: Settings, owner: Rows, alice: Person, line: str, typed: str | bytes, problem: str
) -> None:
    result = run(chosen, line.format(alice=alice.email), typed)

    assert result.exit_code != 0
    assert problem in result.stderr
    assert result.stdout == ""
    assert owner.execute("select count(*) from profile.connection").fetchone() == (0,)


def test_without_a_key_for_sealing_only_what_has_no_secret_is_pulled(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    result = run(deployment, f"connection add github {alice.email}", typed="x\n")

    assert result.exit_code == 1
    assert "SVC_SEALING_PUBLIC_KEY" in result.stderr
    assert owner.execute("select count(*) from profile.connection").fetchone() == (0,)
    named = run(deployment, f"connection add listenbrainz_user {alice.email} --set user=al")
    assert named.exit_code == 0, named.output
    assert [row["kind"] for row in listed(deployment)] == ["listenbrainz_user"]


def test_all_connections_are_listed_newest_first(
    chosen: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    run(chosen, f"connection add wakatime {alice.email} --show-totals")
    run(chosen, f"connection add overland {bob.email}")
    owner.execute(
        "update profile.connection set created_at = now() - interval '1 hour' where kind = 'wakatime'"
    )
    run(chosen, f"connection add overland {alice.email}")

    few = run(chosen, "connection list --limit 2")

    assert [row["email"] for row in listed(chosen)] == [alice.email, bob.email, alice.email]
    assert [row["kind"] for row in listed(chosen, alice.email)] == ["overland", "wakatime"]
    assert few.stdout.splitlines()[0].split() == [
        *("ID", "EMAIL", "KIND", "NAME", "STATE", "SINCE", "PROBLEM", "RECORDS"),
        *("LAST", "RECORD", "KEY", "LAST", "USED"),
    ]
    assert len(few.stdout.splitlines()) == 3
    assert few.stderr == "there are more: see --limit\n"


@pytest.mark.parametrize(("option", "status"), [("", "done"), (" --remove-data", "undone")])
def test_an_ended_connection_has_no_key_and_keeps_what_it_brought_unless_it_is_removed(
    chosen: Settings, owner: Rows, alice: Person, option: str, status: str
) -> None:
    run(chosen, f"connection add overland {alice.email} --name Phone")
    connection_id = UUID(listed(chosen)[0]["id"])

    ended = run(chosen, f"connection remove {connection_id}{option}")
    again = run(chosen, f"connection remove {connection_id}{option}")

    assert ended.exit_code == 0, ended.output
    assert ended.stdout.startswith("ended Phone")
    assert again.exit_code == 1
    (row,) = listed(chosen)
    stopped = owner.execute("select stopped_at from profile.connection").fetchone()
    assert (row["state"], row["key_last_used"]) == ("stopped", None)
    assert (datetime.fromisoformat(row["since"]),) == stopped
    (line,) = run(chosen, "connection list").stdout.splitlines()[1:]
    assert line.split()[-2:] == ["never", "-"]
    assert owner.execute("select count(*) from profile.integration_key").fetchone() == (0,)
    assert owner.execute("select status from profile.import").fetchall() == [(status,)]
    events = owner.execute("select event from identity.security_event order by occurred_at")
    assert events.fetchall() == [("connection_added",), ("connection_ended",)]
