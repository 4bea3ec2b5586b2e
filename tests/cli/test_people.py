"""The commands about accounts, sign-in sessions and security events."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL

from authserver import janitor
from authserver.people import zones
from shared import database
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.conftest import Person, administer, drop
from tests.oauth.conftest import PASSWORD, Opens, Welcome
from tests.oauth.visitor import Application, Visitor

Rows = psycopg.Connection[Any]

MINUTE = r"20\d\d-\d\d-\d\d \d\d:\d\dZ"


def test_an_account_is_added_and_can_sign_in(
    terminal: Terminal, visitor: Visitor, owner: Rows
) -> None:
    result = terminal.run(
        "user add Alice@Example.org --timezone Europe/Berlin --password-stdin",
        typed=f"{PASSWORD}\n",
    )
    signed_in = visitor.submit(
        visitor.get("/sign-in"), email="alice@example.org", password=PASSWORD
    )

    assert result.exit_code == 0
    assert result.stdout == "alice@example.org can sign in at http://localhost:8400\n"
    assert signed_in.status_code == 303
    assert owner.execute("select email, timezone, is_admin from identity.user").fetchall() == [
        ("alice@example.org", "Europe/Berlin", False)
    ]


def test_the_password_can_be_typed_twice(terminal: Terminal, owner: Rows) -> None:
    result = terminal.run("user add alice@example.org --admin", typed=f"{PASSWORD}\n{PASSWORD}\n")

    assert result.exit_code == 0
    assert PASSWORD not in result.output
    assert owner.execute("select is_admin from identity.user").fetchall() == [(True,)]


@pytest.mark.parametrize(
    ("words", "password", "said"),
    [
        ("alice", PASSWORD, "Enter an e-mail address"),
        ("alice@example.org", "short", "at least 12 characters"),
        ("alice@example.org", "password1234", "easy to guess"),
        ("alice@example.org --timezone Mars/Base", PASSWORD, "time zone"),
        ("alice@example.org --timezone +02:00", PASSWORD, "time zone"),
        ("alice@example.org --timezone localtime", PASSWORD, "time zone"),
        ("alice@example.org --timezone Factory", PASSWORD, "time zone"),
        ("alice@example.org --timezone posix/Europe/Berlin", PASSWORD, "time zone"),
        ("alice@example.org --timezone europe/berlin", PASSWORD, "time zone"),
        ("bob@example.org", PASSWORD, "has an account already"),
    ],
)
def test_an_unacceptable_account_is_refused_in_one_line(
    terminal: Terminal, bob: Person, owner: Rows, words: str, password: str, said: str
) -> None:
    result = terminal.run(f"user add {words} --password-stdin", typed=password)

    assert result.exit_code == 1
    assert said in result.output
    assert result.output.count("\n") == 1
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)


def test_a_zone_that_python_does_not_know_is_refused(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a machine with old time zone data.
    monkeypatch.setattr(zones, "available_timezones", lambda: {"UTC"})
    add = "user add alice@example.org --password-stdin --timezone"

    unknown = terminal.run(f"{add} Europe/Berlin", typed=PASSWORD)
    known = terminal.run(f"{add} UTC", typed=PASSWORD)

    assert unknown.exit_code == 1
    assert "time zone" in unknown.output
    assert known.exit_code == 0


def test_another_password_replaces_the_old_one_and_ends_all_sign_ins(
    terminal: Terminal, alice: Person, alice_browser: Visitor, visitor: Visitor
) -> None:
    result = terminal.run(
        "user set-password Alice@Example.org --password-stdin", typed="a fox waits by the gate\n"
    )

    assert result.exit_code == 0
    assert result.stdout == "alice@example.org has a new password and is signed out everywhere\n"
    assert alice_browser.get("/settings").headers["location"].startswith("/sign-in")
    page = visitor.get("/sign-in")
    with_old = visitor.submit(page, email=alice.email, password=PASSWORD)
    with_new = visitor.submit(page, email=alice.email, password="a fox waits by the gate")
    assert with_old.status_code == 400
    assert with_new.status_code == 303


def test_a_password_can_be_set_for_an_account_that_has_none(
    terminal: Terminal, alice: Person, visitor: Visitor
) -> None:
    terminal.run(f"user set-password {alice.email} --password-stdin", typed=PASSWORD)

    signed_in = visitor.submit(visitor.get("/sign-in"), email=alice.email, password=PASSWORD)
    assert signed_in.status_code == 303


@pytest.mark.parametrize(
    ("email", "password", "said"),
    [
        ("nobody@example.org", PASSWORD, "there is no account nobody@example.org"),
        ("bob@example.org", "short", "at least 12 characters"),
        ("bob@example.org", "password1234", "easy to guess"),
    ],
)
def test_an_unacceptable_password_is_refused_in_one_line(
    terminal: Terminal, bob: Person, owner: Rows, email: str, password: str, said: str
) -> None:
    result = terminal.run(f"user set-password {email} --password-stdin", typed=password)

    assert result.exit_code == 1
    assert said in result.output
    assert result.output.count("\n") == 1
    assert owner.execute("select count(*) from identity.password").fetchone() == (0,)


@pytest.mark.parametrize(
    ("words", "password"),
    [
        ("user add al\udcffice@example.org --password-stdin", PASSWORD),
        ("user add alice@example.org --timezone \udcff --password-stdin", PASSWORD),
        ("user add alice@example.org --password-stdin", b"an owl reads \xff under the lamp"),
        ("user add alice@example.org --password-stdin", b"an owl reads \0 under the lamp"),
        ("user set-password bob@example.org --password-stdin", b"an owl \xff reads on"),
        ("user set-password bob\udcff@example.org --password-stdin", PASSWORD),
        ("session list bob\udcff@example.org", ""),
        ("session revoke bob\udcff@example.org", ""),
        ("event list bob\udcff@example.org", ""),
        ("client show \udcff", ""),
        ("client revoke \udcff", ""),
        ("grant list bob\udcff@example.org", ""),
        ("token create bob\udcff@example.org --scope read:profile", ""),
        ("token create bob@example.org --scope read:profile\udcff", ""),
        ("token create bob@example.org --scope read:profile --name \udcff", ""),
        ("token list bob\udcff@example.org", ""),
    ],
)
def test_arguments_that_are_not_utf_8_are_refused_in_one_line(
    terminal: Terminal, bob: Person, owner: Rows, words: str, password: str | bytes
) -> None:
    result = terminal.run(words, typed=password)

    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("is not text in UTF-8\n")
    assert owner.execute("select count(*) from oauth.grant").fetchone() == (0,)
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)


def test_a_first_link_is_printed_until_there_is_an_account(terminal: Terminal, owner: Rows) -> None:
    before = terminal.run("user first-link")
    owner.execute("insert into identity.user (email) values ('alice@example.org')")
    after = terminal.run("user first-link")

    assert before.stdout.startswith("http://localhost:8400/join?link=svc_ln_")
    assert after.exit_code == 1
    assert "there is an account already" in after.output


def test_the_list_of_sessions_shows_browsers_and_no_secret(
    terminal: Terminal, alice: Person, bob: Person, welcome: Welcome, owner: Rows
) -> None:
    welcome(bob)
    welcome(alice)
    browser = welcome(alice)
    page = browser.get("/settings")
    owner.execute(
        "update identity.session set seen_at = now() - interval '31 days' where user_id = "
        "(select user_id from identity.user where email = 'alice@example.org')"
    )
    page = browser.get("/sign-in", headers={"User-Agent": f"Mozilla/5.0 {'x' * 200}"})
    browser.submit(page, email=alice.email, password=PASSWORD)

    lines = terminal.table(f"session list {alice.email}")

    assert len(lines) == 1
    signed_in, seen, address, user_agent = lines[0]
    assert re.fullmatch(MINUTE, signed_in)
    assert re.fullmatch(MINUTE, seen)
    assert address == "-"
    assert user_agent == "testclient"
    assert browser.cookies["svc_session"] not in str(lines)


def test_a_user_agent_cannot_rewrite_the_screen(
    terminal: Terminal, alice: Person, owner: Rows
) -> None:
    owner.execute(
        "insert into identity.session (user_id, session_hash, user_agent, address) "
        "values (%s, '\\x00', %s, '192.0.2.1')",
        [alice.user_id, "\x1b[2J\x1b]0;owned\x07\x9b31m\u202efox\r\n" + "x" * 100],
    )

    result = terminal.run(f"session list {alice.email}")

    shown = result.stdout.splitlines()[1]
    assert shown.split("  ", 3)[2:] == ["192.0.2.1", "[2J]0;owned31mfox" + "x" * 42 + "…"]
    assert result.stdout.count("\n") == 2
    assert all(letter.isprintable() or letter == "\n" for letter in result.stdout)


def test_revoking_sessions_signs_one_person_out_everywhere(
    terminal: Terminal,
    alice: Person,
    bob: Person,
    welcome: Welcome,
    application: Application,
    status: Opens,
) -> None:
    browsers = [welcome(alice), welcome(alice)]
    bobs = welcome(bob)
    pair = application.pair(browsers[0])

    first = terminal.run(f"session revoke {alice.email}")
    second = terminal.run(f"session revoke {alice.email}")

    assert (first.exit_code, first.stdout) == (0, "ended 2 sessions\n")
    assert (second.exit_code, second.stdout) == (0, "ended 0 sessions\n")
    for browser in browsers:
        assert browser.get("/settings").headers["location"].startswith("/sign-in")
    assert bobs.get("/settings").status_code == 200
    assert status(pair["access_token"]) == 200


def test_the_list_of_events_shows_the_newest_first(
    terminal: Terminal, alice: Person, bob: Person, application: Application, welcome: Welcome
) -> None:
    browser = welcome(alice)
    application.code(welcome(bob))
    application.pair(browser)
    terminal.run(f"session revoke {alice.email}")
    grant_id = terminal.table(f"grant list {alice.email}")[0][0]

    lines = terminal.table(f"event list {alice.email}")

    assert [line[1:4] for line in lines] == [
        ["signed_out", "-", "-"],
        ["token_created", application.client_id, grant_id],
        ["consented", application.client_id, grant_id],
    ]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ", line[0]) for line in lines)
    assert lines[0][4:] == ["-", "-"]
    assert re.fullmatch("[0-9a-f]{16}", lines[1][5])
    assert terminal.table(f"event list {alice.email} --limit 1") == lines[:1]


@pytest.mark.parametrize("words", ["session list", "session revoke", "event list", "grant list"])
def test_an_address_without_an_account_is_reported_in_one_line(
    terminal: Terminal, words: str
) -> None:
    result = terminal.run(f"{words} nobody@example.org")

    assert result.exit_code == 1
    assert result.output == "Error: there is no account nobody@example.org\n"


EVERY_COMMAND: Final = [
    "user list",
    "user show alice@example.org",
    "user add alice@example.org --password-stdin",
    "user set-password alice@example.org --password-stdin",
    "user first-link",
    "session list alice@example.org",
    "session revoke alice@example.org",
    "event list alice@example.org",
    "client list",
    "client show svc_client_0000000000000000000000",
    "client revoke svc_client_0000000000000000000000",
    "grant list alice@example.org",
    "grant revoke 6f7c8f9e-0000-4000-8000-000000000000",
    "token create alice@example.org --scope read:profile",
    "token list alice@example.org",
    "token revoke 6f7c8f9e-0000-4000-8000-000000000000",
]


@pytest.mark.parametrize("words", [*EVERY_COMMAND, "janitor"])
def test_without_the_database_a_command_fails_with_one_line(words: str) -> None:
    nowhere = "postgresql://svc_authserver@127.0.0.1:1/svc"
    terminal = Terminal(Settings(role_urls={"authserver": nowhere}))

    result = terminal.run(words, typed=PASSWORD)

    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "the database does not answer" in result.output


@pytest.fixture(scope="module")
def empty(deployment: Settings) -> Iterator[Terminal]:
    """A terminal with an empty database."""
    owners = deployment.database_url or ""
    name = f"{conninfo_to_dict(owners)['dbname']}_empty"
    administer(owners, SQL("create database {}"), name)
    url = make_conninfo(database.role_url(deployment, "authserver"), dbname=name)
    yield Terminal(replace(deployment, role_urls={"authserver": url}))
    drop(owners, name)


@pytest.mark.parametrize("words", EVERY_COMMAND)
def test_a_database_without_our_schema_is_reported_in_one_line(empty: Terminal, words: str) -> None:
    result = empty.run(words, typed=PASSWORD)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.fullmatch(
        r"Error: the schema is too old for this server: run 'svc migrate' of this version "
        r"\([^\n]+ does not exist\)\n",
        result.stderr,
    )


def test_without_our_schema_the_janitor_reports_each_kind(empty: Terminal) -> None:
    result = empty.run("janitor")

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == len(janitor.KINDS)
    lines = result.stderr.splitlines()
    assert len(lines) == len(janitor.KINDS)
    assert all(line.startswith("Error: could not remove ") for line in lines)
    assert all(line.endswith(" does not exist") for line in lines)


def test_a_read_only_database_is_reported_in_one_line(settings: Settings, alice: Person) -> None:
    url = make_conninfo(
        database.role_url(settings, "authserver"), options="-c default_transaction_read_only=on"
    )
    terminal = Terminal(replace(settings, role_urls={"authserver": url}))

    listed = terminal.run(f"session list {alice.email}")
    result = terminal.run(f"token create {alice.email} --scope read:profile")

    assert listed.exit_code == 0
    assert (result.exit_code, result.output) == (
        1,
        "Error: the database refuses: cannot execute SELECT FOR NO KEY UPDATE in a read-only transaction; "
        "has 'svc migrate' run?\n",
    )


def test_a_command_prints_its_answer_and_no_security_events(
    terminal: Terminal, alice: Person, owner: Rows
) -> None:
    result = terminal.run(f"token create {alice.email} --scope read:profile")

    assert re.fullmatch(r"svc_dt_\w+\n", result.output)
    recorded = owner.execute("select event from identity.security_event").fetchall()
    assert ("token_created",) in recorded


def test_accounts_are_listed_the_newest_first_and_shown(
    terminal: Terminal, alice: Person, bob: Person, application: Application, welcome: Welcome
) -> None:
    application.pair(welcome(alice))
    terminal.run(f"token create {alice.email} --scope read:profile")

    listed = json.loads(terminal.run("user list --json").stdout)
    newest = terminal.run("user list --limit 1")
    shown = terminal.run(f"user show {alice.email}").stdout.splitlines()

    assert [each["email"] for each in listed] == [bob.email, alice.email]
    assert listed[0] | {"created": ""} == {
        "email": "bob@example.org",
        "name": None,
        "timezone": "UTC",
        "role": "user",
        "sign_in": [],
        "created": "",
        "last_seen": None,
    }
    assert listed[1]["sign_in"] == ["password"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", listed[1]["last_seen"])
    assert re.split(" {2,}", newest.stdout.splitlines()[1])[0] == bob.email
    assert newest.stderr == "1 account more: see --limit\n"
    assert shown[0] == f"id               {alice.user_id}"
    assert shown[-4:] == [
        "signs in by      password",
        "signed in        1 browser",
        "access           1 application",
        "                 1 API token",
    ]
