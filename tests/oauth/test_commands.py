"""The commands for people and tokens."""

import re
import shlex
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from authserver import commands
from shared import tokens
from shared.settings import Settings
from tests.conftest import Person
from tests.oauth.conftest import PASSWORD, Opens
from tests.oauth.visitor import Application, Visitor

Rows = psycopg.Connection[Any]


class Terminal:
    """Runs commands as the console script does."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def run(self, line: str, typed: str | bytes | None = None) -> Result:
        words = shlex.split(line)
        found = {command.name: command for command in commands.COMMANDS}
        return CliRunner().invoke(found[words[0]], words[1:], input=typed, obj=self.settings)


@pytest.fixture
def terminal(settings: Settings, owner: Rows) -> Terminal:
    """A terminal of the operator's."""
    assert not owner.closed
    return Terminal(settings)


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
    assert result.output == "alice@example.org can sign in at http://localhost:8400\n"
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
        ("bob@example.org", PASSWORD, "has an account already"),
    ],
)
def test_an_account_that_cannot_be_is_refused_in_one_line(
    terminal: Terminal, bob: Person, owner: Rows, words: str, password: str, said: str
) -> None:
    result = terminal.run(f"user add {words} --password-stdin", typed=password)

    assert result.exit_code == 1
    assert said in result.output
    assert result.output.count("\n") == 1
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)


@pytest.mark.parametrize(
    ("words", "password"),
    [
        ("user add al\udcffice@example.org --password-stdin", PASSWORD),
        ("user add alice@example.org --timezone \udcff --password-stdin", PASSWORD),
        ("user add alice@example.org --password-stdin", b"an owl reads \xff under the lamp"),
        ("user add alice@example.org --password-stdin", b"an owl reads \0 under the lamp"),
        ("token create bob\udcff@example.org --scope read:profile", ""),
        ("token create bob@example.org --scope read:profile\udcff", ""),
        ("token create bob@example.org --scope read:profile --name \udcff", ""),
        ("token list bob\udcff@example.org", ""),
    ],
)
def test_bytes_that_are_no_text_are_refused_in_one_line(
    terminal: Terminal, bob: Person, owner: Rows, words: str, password: str | bytes
) -> None:
    result = terminal.run(words, typed=password)

    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("is not text in UTF-8\n")
    assert owner.execute("select count(*) from oauth.grant").fetchone() == (0,)
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)


def test_a_token_is_printed_alone_and_opens_what_it_was_made_for(
    terminal: Terminal, alice: Person, status: Opens
) -> None:
    result = terminal.run(
        'token create alice@example.org --scope "read:profile ingest:app_sessions"'
    )

    assert result.exit_code == 0
    assert tokens.parse(tokens.ACCESS, result.stdout.removesuffix("\n")) is not None
    assert status(result.stdout.strip()) == 200
    assert status(result.stdout.strip(), "/api/v1/analytics/daily") == 403


@pytest.mark.parametrize(("days", "expires"), [(None, None), ("30", "30 days")])
def test_a_token_ends_when_it_is_said_to(
    terminal: Terminal, alice: Person, owner: Rows, days: str | None, expires: str | None
) -> None:
    more = "" if days is None else f"--expires-in {days}"

    terminal.run(f"token create alice@example.org --scope read:profile {more}")

    row = owner.execute(
        "select expires_at - issued_at is not distinct from %s::interval from oauth.access_token",
        [expires],
    ).fetchone()
    assert row == (True,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("alice@example.org --scope read:everything", "unknown scope: read:everything"),
        ("alice@example.org --scope ' '", "needs a scope"),
        ("alice@example.org --scope read:profile --name ''", "1 to 100 characters"),
        (f"alice@example.org --scope read:profile --name {'n' * 101}", "1 to 100"),
        (
            "nobody@example.org --scope read:profile",
            "there is no account nobody@example.org",
        ),
    ],
)
def test_a_token_that_cannot_be_is_refused_in_one_line(
    terminal: Terminal, alice: Person, words: str, said: str
) -> None:
    result = terminal.run(f"token create {words}")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_list_shows_api_tokens_and_applications_and_no_secret(
    terminal: Terminal,
    alice: Person,
    bob: Person,
    application: Application,
    alice_browser: Visitor,
) -> None:
    bob.token()
    made = terminal.run(
        "token create alice@example.org --scope read:music --name 'my tracker'"
    ).stdout.strip()
    pair = application.pair(alice_browser)

    lines = terminal.run("token list alice@example.org").stdout.splitlines()

    assert len(lines) == 3
    uuid, minute = r"[0-9a-f-]{36}", r"20\d\d-\d\d-\d\d \d\d:\d\dZ"
    assert re.fullmatch(rf"{uuid}  my tracker +read:music +…{made[-4:]} +{minute}  never", lines[1])
    assert re.fullmatch(
        rf"{uuid}  Weekly Report +read:activity read:profile +…{pair['access_token'][-4:]} +"
        rf"{minute}  {minute}",
        lines[2],
    )


def test_a_revoked_token_is_refused_at_once_and_no_longer_listed(
    terminal: Terminal, alice: Person, status: Opens
) -> None:
    token = terminal.run("token create alice@example.org --scope read:profile")
    grant_id = terminal.run("token list alice@example.org").stdout.splitlines()[1].split()[0]
    before = status(token.stdout.strip())

    first = terminal.run(f"token revoke {grant_id}")
    second = terminal.run(f"token revoke {grant_id}")

    assert before == 200
    assert status(token.stdout.strip()) == 401
    assert first.exit_code == 0
    assert second.exit_code == 1
    assert "there is no live token" in second.output
    assert len(terminal.run("token list alice@example.org").stdout.splitlines()) == 1


def test_revoking_an_applications_grant_ends_all_its_tokens(
    terminal: Terminal, application: Application, alice_browser: Visitor, status: Opens
) -> None:
    pair = application.pair(alice_browser)
    grant_id = terminal.run("token list alice@example.org").stdout.splitlines()[1].split()[0]

    terminal.run(f"token revoke {grant_id}")

    assert status(pair["access_token"]) == 401
    assert application.refresh(pair["refresh_token"]).status_code == 400


def test_an_expired_token_is_not_listed(terminal: Terminal, alice: Person) -> None:
    alice.token(expires="-1 second")

    assert len(terminal.run("token list alice@example.org").stdout.splitlines()) == 1


def test_a_first_link_is_printed_until_there_is_an_account(terminal: Terminal, owner: Rows) -> None:
    before = terminal.run("user first-link")
    owner.execute("insert into identity.user (email) values ('alice@example.org')")
    after = terminal.run("user first-link")

    assert before.stdout.startswith("http://localhost:8400/join?link=svc_ln_")
    assert after.exit_code == 1
    assert "there is an account already" in after.output


@pytest.mark.parametrize(
    "words",
    [
        "user add alice@example.org --password-stdin",
        "user first-link",
        "token list alice@example.org",
        "token revoke 6f7c8f9e-0000-4000-8000-000000000000",
    ],
)
def test_without_the_database_a_command_says_so_in_one_line(words: str) -> None:
    nowhere = "postgresql://svc_authserver@127.0.0.1:1/svc"
    terminal = Terminal(Settings(role_urls={"authserver": nowhere}))

    result = terminal.run(words, typed=PASSWORD)

    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "the database does not answer" in result.output
