"""Security events: each is one row and one line of the log, and neither contains a secret."""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors
from starlette.testclient import TestClient

import authserver.app
from authserver.people import first_account
from authserver.people.passwords import Hasher
from shared import tokens
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.client import AppClient
from tests.conftest import Connect, Person
from tests.oauth.conftest import CHEAP, PASSWORD, Welcome
from tests.oauth.visitor import VERIFIER, Application, Visitor, forms

Rows = psycopg.Connection[Any]

ADDRESS = "192.0.2.7"
REQUEST_ID = "a11ce0a11ce0"


@pytest.fixture(scope="module")
def auth_client(settings: Settings) -> Iterator[TestClient]:
    """The authorization server, called from one address with one request id."""
    app = authserver.app.create(settings, hasher=Hasher(CHEAP))
    with AppClient(
        app,
        "http://localhost:8400",
        headers={"X-Request-ID": REQUEST_ID},
        client=(ADDRESS, 50_000),
        raise_server_exceptions=False,
    ) as client:
        yield client


@dataclass(frozen=True)
class Journal:
    """The events recorded since the test began, in the table and in the log."""

    owner: Rows
    log: pytest.LogCaptureFixture

    def forget(self) -> None:
        """Begin here."""
        self.owner.execute("delete from identity.security_event")
        self.log.clear()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the events in their order."""
        return self.owner.execute(
            """
            select event, user_id, client_id, grant_id, address, request_id
              from identity.security_event
             order by occurred_at
            """
        ).fetchall()

    def lines(self) -> list[str]:
        """Return the lines of the log."""
        return [record.getMessage() for record in self.log.records if record.name == "svc.security"]

    def text(self) -> str:
        """Return all rows of the table, and all log lines of the service."""
        kept = self.owner.execute("select json_agg(security_event) from identity.security_event")
        written = [
            record.getMessage() for record in self.log.records if record.name.startswith("svc")
        ]
        return json.dumps([kept.fetchall(), written])


@pytest.fixture
def journal(owner: Rows, caplog: pytest.LogCaptureFixture) -> Journal:
    """The journal of a test."""
    caplog.set_level(logging.DEBUG)
    return Journal(owner, caplog)


def line(event: str, user_id: UUID, client_id: Any = "-", grant_id: Any = "-") -> str:
    """Return the line that an event of alice's browser or application has in the log."""
    return (
        f"event={event} user_id={user_id} client_id={client_id} grant_id={grant_id} "
        f"address={ADDRESS} request_id={REQUEST_ID}"
    )


def line_of_command(event: str, user_id: UUID, client_id: Any = "-", grant_id: Any = "-") -> str:
    """Return the line that an event of the operator's has in the log."""
    return (
        f"event={event} user_id={user_id} client_id={client_id} grant_id={grant_id} "
        "address=- request_id=-"
    )


def only_grant(owner: Rows) -> UUID:
    row = owner.execute("select grant_id from oauth.grant").fetchone()
    assert row is not None
    return UUID(str(row[0]))


def test_joining_records_an_account_and_a_sign_in(
    journal: Journal, visitor: Visitor, settings: Settings, owner: Rows
) -> None:
    link = first_account.link(settings)
    assert link is not None

    rival = Visitor(visitor.client)
    page_of_rival = rival.get(link)

    visitor.submit(visitor.get(link), email="alice@example.org", password=PASSWORD)
    rival.submit(page_of_rival, email="bob@example.org", password=PASSWORD)

    row = owner.execute("select user_id from identity.user").fetchone()
    assert row is not None
    assert journal.rows() == [
        ("account_created", row[0], None, None, ADDRESS, REQUEST_ID),
        ("signed_in", row[0], None, None, ADDRESS, REQUEST_ID),
    ]
    assert journal.lines() == [line("account_created", row[0]), line("signed_in", row[0])]


def test_an_account_that_the_operator_creates_is_recorded(
    journal: Journal, terminal: Terminal, owner: Rows
) -> None:
    terminal.run("user add alice@example.org --password-stdin", typed=PASSWORD)
    terminal.run("user add alice@example.org --password-stdin", typed=PASSWORD)

    row = owner.execute("select user_id from identity.user").fetchone()
    assert row is not None
    assert journal.rows() == [("account_created", row[0], None, None, None, None)]
    assert journal.lines() == [line_of_command("account_created", row[0])]


def test_signing_in_and_out_are_recorded(
    journal: Journal, visitor: Visitor, welcome: Welcome, alice: Person
) -> None:
    welcome(alice)

    visitor.submit(visitor.get("/sign-in"), email=alice.email, password=PASSWORD)
    visitor.submit(visitor.get("/settings"))

    assert journal.rows() == [
        ("signed_in", alice.user_id, None, None, ADDRESS, REQUEST_ID),
        ("signed_out", alice.user_id, None, None, ADDRESS, REQUEST_ID),
    ]
    assert journal.lines() == [line("signed_in", alice.user_id), line("signed_out", alice.user_id)]


def test_a_wrong_password_is_recorded_for_its_account(
    journal: Journal, visitor: Visitor, welcome: Welcome, alice: Person
) -> None:
    welcome(alice)

    visitor.submit(visitor.get("/sign-in"), email=alice.email, password="a fox at the gate")

    assert journal.rows() == [("sign_in_failed", alice.user_id, None, None, ADDRESS, REQUEST_ID)]
    assert journal.lines() == [line("sign_in_failed", alice.user_id)]
    assert "fox" not in journal.text()


def test_an_unknown_address_is_recorded_without_the_typed_text(
    journal: Journal, visitor: Visitor
) -> None:
    visitor.submit(visitor.get("/sign-in"), email=PASSWORD, password="alice@example.org")

    nobody = UUID(int=0)
    assert journal.rows() == [("sign_in_failed", nobody, None, None, ADDRESS, REQUEST_ID)]
    assert journal.lines() == [line("sign_in_failed", nobody)]
    assert "owl" not in journal.text()
    assert "alice" not in journal.text()


def test_each_session_that_the_operator_ends_is_recorded(
    journal: Journal, terminal: Terminal, welcome: Welcome, alice: Person, bob: Person
) -> None:
    welcome(alice)
    welcome(alice)
    welcome(bob)

    terminal.run(f"session revoke {alice.email}")

    assert journal.rows() == [("signed_out", alice.user_id, None, None, None, None)] * 2
    assert journal.lines() == [line_of_command("signed_out", alice.user_id)] * 2


def test_a_password_change_is_recorded(journal: Journal, terminal: Terminal, alice: Person) -> None:
    terminal.run(f"user set-password {alice.email} --password-stdin", typed=PASSWORD)

    assert journal.rows() == [("password_changed", alice.user_id, None, None, None, None)]
    assert journal.lines() == [line_of_command("password_changed", alice.user_id)]
    assert "owl" not in journal.text()


def test_a_consent_and_its_first_tokens_are_recorded_but_not_a_refresh(
    journal: Journal, application: Application, alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    pair = application.pair(alice_browser)
    application.refresh(pair["refresh_token"])

    grant_id = only_grant(owner)
    whose = (alice.user_id, application.client_id, grant_id)
    assert journal.rows() == [
        ("consented", *whose, ADDRESS, REQUEST_ID),
        ("token_created", *whose, ADDRESS, REQUEST_ID),
    ]
    assert journal.lines() == [line("consented", *whose), line("token_created", *whose)]


def test_a_declined_or_refused_request_is_not_recorded(
    journal: Journal, application: Application, alice_browser: Visitor
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    alice_browser.submit(page, decision="decline")
    code = application.code(alice_browser)
    journal.forget()
    application.exchange(code, redirect_uri="https://app.example/other")
    application.exchange(tokens.mint(tokens.CODE, tokens.NOBODY).text)
    application.refresh(tokens.mint(tokens.REFRESH, tokens.NOBODY).text)
    application.revoke(tokens.mint(tokens.REFRESH, tokens.NOBODY).text)

    assert journal.rows() == []
    assert journal.lines() == []


def test_an_api_token_is_recorded(
    journal: Journal, terminal: Terminal, alice: Person, owner: Rows
) -> None:
    terminal.run(f"token create {alice.email} --scope read:profile --name 'my tracker'")

    grant_id = only_grant(owner)
    assert journal.rows() == [("token_created", alice.user_id, None, grant_id, None, None)]
    assert journal.lines() == [line_of_command("token_created", alice.user_id, "-", grant_id)]


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_revocation_by_the_client_is_recorded_once(
    journal: Journal,
    application: Application,
    alice_browser: Visitor,
    alice: Person,
    owner: Rows,
    kind: str,
) -> None:
    pair = application.pair(alice_browser)
    journal.forget()

    application.revoke(pair[kind], client_id=application.client_id)
    application.revoke(pair[kind], client_id=application.client_id)

    whose = (alice.user_id, application.client_id, only_grant(owner))
    assert journal.rows() == [("revoked", *whose, ADDRESS, REQUEST_ID)]
    assert journal.lines() == [line("revoked", *whose)]


def test_a_revocation_by_the_operator_is_recorded_once(
    journal: Journal,
    terminal: Terminal,
    application: Application,
    alice_browser: Visitor,
    alice: Person,
    owner: Rows,
) -> None:
    application.pair(alice_browser)
    grant_id = only_grant(owner)
    journal.forget()

    terminal.run(f"grant revoke {grant_id}")
    terminal.run(f"grant revoke {grant_id}")

    whose = (alice.user_id, application.client_id, grant_id)
    assert journal.rows() == [("revoked", *whose, None, None)]
    assert journal.lines() == [line_of_command("revoked", *whose)]


def test_a_grant_that_is_deleted_with_its_client_is_recorded(
    journal: Journal,
    terminal: Terminal,
    application: Application,
    alice_browser: Visitor,
    alice: Person,
    owner: Rows,
) -> None:
    application.pair(alice_browser)
    whose = (alice.user_id, application.client_id, only_grant(owner))
    journal.forget()

    terminal.run(f"client revoke {application.client_id}")

    assert journal.rows() == [("revoked", *whose, None, None)]
    assert journal.lines() == [line_of_command("revoked", *whose)]


@pytest.mark.parametrize("kind", ["code", "refresh_token"])
def test_a_replay_is_recorded_once(
    journal: Journal,
    application: Application,
    alice_browser: Visitor,
    alice: Person,
    owner: Rows,
    kind: str,
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()
    application.refresh(pair["refresh_token"])
    journal.forget()

    for _ in range(2):
        replay = application.exchange(code) if kind == "code" else application.refresh(pair[kind])
        assert replay.status_code == 400

    whose = (alice.user_id, application.client_id, only_grant(owner))
    assert journal.rows() == [("replay_detected", *whose, ADDRESS, REQUEST_ID)]
    assert journal.lines() == [line("replay_detected", *whose)]


@pytest.mark.checklist(58)
def test_no_event_of_a_full_life_cycle_holds_a_secret(
    journal: Journal,
    visitor: Visitor,
    terminal: Terminal,
    settings: Settings,
    application: Application,
) -> None:
    link = first_account.link(settings)
    assert link is not None
    visitor.submit(visitor.get(link), email="alice@example.org", password=PASSWORD)
    first_session = visitor.cookies["svc_session"]
    visitor.submit(visitor.get("/settings"))
    page = visitor.get("/sign-in")
    visitor.submit(page, email="alice@example.org", password="a fox at the gate")
    visitor.submit(page, email="alice@example.org", password=PASSWORD)
    waiting = visitor.follow(visitor.get(application.authorize_path(state="a-state-of-alices")))
    code = application.code(visitor, state="a-state-of-alices")
    pair = application.exchange(code).json()
    next_pair = application.refresh(pair["refresh_token"]).json()
    application.exchange(code)
    application.revoke(application.pair(visitor)["refresh_token"])
    token = terminal.run("token create alice@example.org --scope read:profile").stdout.strip()
    terminal.run("user set-password alice@example.org --password-stdin", typed="a wren in the ivy")
    terminal.run(f"client revoke {application.client_id}")

    text = journal.text()
    noted = {event for event, *_ in journal.rows()}
    assert noted == {
        "account_created",
        "signed_in",
        "sign_in_failed",
        "signed_out",
        "password_changed",
        "consented",
        "token_created",
        "revoked",
        "replay_detected",
    }
    secrets = [
        *(PASSWORD, "a fox at the gate", "a wren in the ivy", VERIFIER, "a-state-of-alices"),
        *(link.partition("link=")[2], first_session, visitor.cookies["svc_session"], code, token),
        *(pair["access_token"], pair["refresh_token"]),
        *(next_pair["access_token"], next_pair["refresh_token"]),
        *(value for _, value in forms(waiting)[0].fields if len(value) > 30),
    ]
    assert len(secrets) > 15
    assert [secret for secret in secrets if secret in text] == []
    assert "alice" not in text
    assert "svc_client_" in text


@pytest.mark.parametrize(
    "statement",
    [
        "update identity.security_event set user_id = gen_random_uuid()",
        "update identity.security_event set occurred_at = now() - interval '401 days'",
        "delete from identity.security_event",
        "truncate identity.security_event",
        "drop table identity.security_event",
        "alter table identity.security_event disable trigger all",
        "create or replace function svc.forget_security_events(p_batch integer) returns integer "
        "language sql as 'select 0'",
        "select * from identity.security_event for update",
    ],
)
def test_the_servers_role_cannot_change_or_delete_events(
    connect_as: Connect, owner: Rows, statement: Any
) -> None:
    owner.execute(
        "insert into identity.security_event (user_id, event) values (%s, 'signed_in')",
        [UUID(int=1)],
    )
    role = connect_as("authserver")

    with pytest.raises(errors.InsufficientPrivilege):
        role.execute(statement)

    assert owner.execute("select event, user_id from identity.security_event").fetchall() == [
        ("signed_in", UUID(int=1))
    ]


def test_only_events_older_than_400_days_can_be_deleted_and_at_most_a_batch(
    connect_as: Connect, owner: Rows
) -> None:
    owner.execute(
        """
        insert into identity.security_event (user_id, event, occurred_at, request_id)
        select gen_random_uuid(), 'signed_in', now() - age, age::text
          from unnest('{0 days,399 days,401 days,402 days,500 days}'::interval[]) as age
        """
    )
    role = connect_as("authserver")

    first = role.execute("select svc.forget_security_events(2)").fetchone()
    after_first = owner.execute("select request_id from identity.security_event order by 1")
    kept_at_first = after_first.fetchall()
    second = role.execute("select svc.forget_security_events(1000000)").fetchone()
    kept = owner.execute("select request_id from identity.security_event order by 1").fetchall()

    assert first == (2,)
    assert kept_at_first == [("00:00:00",), ("399 days",), ("401 days",)]
    assert second == (1,)
    assert kept == [("00:00:00",), ("399 days",)]


def test_events_outlive_the_account(
    journal: Journal, terminal: Terminal, alice: Person, owner: Rows
) -> None:
    terminal.run(f"token create {alice.email} --scope read:profile")
    owner.execute("delete from identity.user")

    assert [row[:2] for row in journal.rows()] == [("token_created", alice.user_id)]
