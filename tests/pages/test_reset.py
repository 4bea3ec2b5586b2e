"""The one-time link to choose a new password."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from starlette.testclient import TestClient

from shared import tokens
from tests.cli.terminal import Terminal
from tests.conftest import Connect, Person
from tests.oauth.conftest import PASSWORD, Welcome
from tests.oauth.visitor import Visitor, forms
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]
NEW = "seven green herons wade"
GONE = "This link cannot be used"


@pytest.fixture
def link(terminal: Terminal, alice: Person) -> str:
    """The path of a fresh link for alice."""
    return make(terminal)


def make(terminal: Terminal, email: str = "alice@example.org") -> str:
    result = terminal.run(f"user reset-link {email}")
    assert result.exit_code == 0, result.output
    found = re.fullmatch(
        r"http://localhost:8400(/reset\?link=svc_ln_[0-9A-Za-z]{71})\n", result.stdout
    )
    assert found is not None, result.stdout
    return found[1]


def can_sign_in(visitor: Visitor, password: str) -> bool:
    elsewhere = Visitor(visitor.client)
    page = elsewhere.get("/sign-in")
    return elsewhere.submit(page, email="alice@example.org", password=password).status_code == 303


def test_the_link_sets_a_password_signs_in_here_and_ends_all_other_sessions(
    visitor: Visitor, alice: Person, welcome: Welcome, link: str, owner: Rows
) -> None:
    elsewhere = welcome(alice)

    page = visitor.get(link)
    response = visitor.submit(page, password=NEW)

    assert "alice@example.org" in page.text
    assert response.status_code == 303
    assert response.headers["location"] == "/"
    assert "alice@example.org" in visitor.get("/settings").text
    assert elsewhere.get("/settings").status_code == 303
    noted = owner.execute("select event from identity.security_event order by event").fetchall()
    assert noted == [("password_changed",), ("signed_in",)]
    assert can_sign_in(visitor, NEW)
    assert not can_sign_in(visitor, PASSWORD)


def test_only_the_hash_of_a_reset_link_is_stored(link: str, owner: Rows) -> None:
    kept = owner.execute("select link_hash, expires_at - created_at from identity.password_reset")
    token = tokens.parse(tokens.LINK, link.partition("=")[2])

    rows = kept.fetchall()
    assert token is not None
    assert rows[0][0] == token.hash
    assert rows[0][1].total_seconds() == 3600


def test_a_link_works_once(visitor: Visitor, link: str, owner: Rows) -> None:
    page = visitor.get(link)
    first = visitor.submit(page, password=NEW)
    stranger = Visitor(visitor.client)

    asked = stranger.get(link)
    answers = [asked, stranger.submit(page, password="another good password of mine")]

    assert first.status_code == 303
    assert [answer.status_code for answer in answers] == [400, 400]
    assert all(GONE in answer.text for answer in answers)
    assert can_sign_in(visitor, NEW)
    assert owner.execute("select count(*) from identity.password_reset").fetchone() == (0,)


def test_one_of_two_concurrent_uses_of_a_link_succeeds(
    server: TestClient, link: str, owner: Rows, connect_as: Connect
) -> None:
    visitors = [Visitor(server), Visitor(server)]
    pages = [each.get(link) for each in visitors]
    other = connect_as("authserver")

    with ThreadPoolExecutor(2) as threads:
        with other.transaction():
            other.execute("select from identity.user for update")
            waiting = [
                threads.submit(each.submit, page, password=f"seven green herons wade {number}")
                for number, (each, page) in enumerate(zip(visitors, pages, strict=True))
            ]
            wait_for_rivals(owner, 2)
        found = sorted(each.result().status_code for each in waiting)

    assert found == [303, 400]
    assert owner.execute("select count(*) from identity.session").fetchone() == (1,)
    noted = owner.execute("select count(*) from identity.security_event").fetchone()
    assert noted == (2,)


def test_a_reset_link_expires_after_an_hour(visitor: Visitor, link: str, owner: Rows) -> None:
    page = visitor.get(link)
    owner.execute("update identity.password_reset set expires_at = expires_at - interval '59 min'")
    in_time = visitor.get(link)
    owner.execute("update identity.password_reset set expires_at = expires_at - interval '1 min'")

    late = [visitor.get(link), visitor.submit(page, password=NEW)]

    assert in_time.status_code == 200
    assert [answer.status_code for answer in late] == [400, 400]
    assert all(GONE in answer.text for answer in late)
    assert owner.execute("select count(*) from identity.password").fetchone() == (0,)


def test_a_newer_link_replaces_an_older_one(
    visitor: Visitor, link: str, terminal: Terminal
) -> None:
    newer = make(terminal)

    assert GONE in visitor.get(link).text
    assert visitor.get(newer).status_code == 200


def test_bobs_link_does_not_affect_alices(
    visitor: Visitor, link: str, bob: Person, terminal: Terminal, owner: Rows
) -> None:
    bobs = make(terminal, "bob@example.org")

    visitor.submit(visitor.get(bobs), password=NEW)

    assert visitor.get(link).status_code == 200
    owners = owner.execute("select user_id from identity.password").fetchall()
    assert owners == [(bob.user_id,)]


@pytest.mark.parametrize("kind", [tokens.LINK, tokens.SESSION])
def test_a_forged_link_cannot_be_used(visitor: Visitor, alice: Person, kind: str) -> None:
    for user_id in (alice.user_id, tokens.NOBODY, UUID(int=7)):
        forged = tokens.mint(kind, user_id).text
        for response in (
            visitor.get(f"/reset?link={forged}"),
            visitor.post("/reset", {"link": forged, "password": NEW}),
        ):
            assert response.status_code == 400
            assert GONE in response.text


@pytest.mark.parametrize("query", ["", "link=", "link=x", "link=%00", "link=%ff", "link=a&link=a"])
def test_a_malformed_link_cannot_be_used(visitor: Visitor, query: str) -> None:
    response = visitor.get(f"/reset?{query}")

    assert response.status_code == 400
    assert GONE in response.text


def test_the_first_accounts_link_resets_nothing(visitor: Visitor, alice: Person) -> None:
    first = tokens.mint(tokens.LINK, tokens.NOBODY).text

    assert GONE in visitor.get(f"/reset?link={first}").text


def test_a_reset_link_creates_no_account(visitor: Visitor, link: str) -> None:
    assert GONE in visitor.get(link.replace("/reset", "/join")).text


@pytest.mark.parametrize(
    ("password", "problem"),
    [
        (None, "Use at least 12 characters."),
        ("short", "Use at least 12 characters."),
        ("password1234", "easy to guess"),
        ("p" * 10_000, "at most 1024 bytes"),
    ],
)
def test_a_refused_password_leaves_the_link_open(
    visitor: Visitor, link: str, password: str | None, problem: str
) -> None:
    response = visitor.submit(visitor.get(link), password=password)

    assert response.status_code == 400
    assert problem in response.text
    assert password is None or password not in response.text
    assert visitor.submit(response, password=NEW).status_code == 303


@pytest.mark.parametrize("token", [None, "x"])
def test_a_form_that_is_out_of_date_is_shown_again(
    visitor: Visitor, link: str, token: str | None
) -> None:
    response = visitor.submit(visitor.get(link), password=NEW, csrf=token)

    assert response.status_code == 403
    assert "This page was out of date." in response.text
    assert visitor.submit(response, password=NEW).status_code == 303


def test_a_form_of_another_site_is_refused(visitor: Visitor, link: str, owner: Rows) -> None:
    fields = dict(forms(visitor.get(link))[0].fields)

    response = visitor.post(
        "/reset", fields | {"password": NEW}, headers={"Sec-Fetch-Site": "cross-site"}
    )

    assert response.status_code == 403
    assert owner.execute("select count(*) from identity.password").fetchone() == (0,)


def test_a_reset_replaces_the_session_of_another_person_in_this_browser(
    link: str, bob: Person, welcome: Welcome, owner: Rows, alice: Person
) -> None:
    browser = welcome(bob)

    response = browser.submit(browser.get(link), password=NEW)

    assert response.status_code == 303
    assert "alice@example.org" in browser.get("/settings").text
    assert owner.execute("select user_id from identity.session").fetchall() == [(alice.user_id,)]


def test_an_account_without_a_password_gets_one(visitor: Visitor, link: str, owner: Rows) -> None:
    visitor.submit(visitor.get(link), password=NEW)

    assert owner.execute("select count(*) from identity.password").fetchone() == (1,)


def test_the_command_reports_an_unknown_account(terminal: Terminal) -> None:
    result = terminal.run("user reset-link nobody@example.org")

    assert result.exit_code == 1
    assert "svc_ln_" not in result.output


def test_setting_a_password_on_the_command_line_ends_the_link(
    visitor: Visitor, link: str, terminal: Terminal
) -> None:
    terminal.run("user set-password alice@example.org --password-stdin", NEW)

    assert GONE in visitor.get(link).text


def test_a_sign_in_that_began_before_does_not_complete_after(
    visitor: Visitor, alice: Person, welcome: Welcome, link: str, owner: Rows, connect_as: Connect
) -> None:
    welcome(alice)
    entering = Visitor(visitor.client)
    page = entering.get("/sign-in")
    form = visitor.get(link)
    other = connect_as("authserver")

    with ThreadPoolExecutor(2) as threads:
        with other.transaction():
            other.execute("select from identity.user for update")
            resetting = threads.submit(visitor.submit, form, password=NEW)
            wait_for_rivals(owner, 1)
            signing_in = threads.submit(
                entering.submit, page, email="alice@example.org", password=PASSWORD
            )
            wait_for_rivals(owner, 2)
        answers = (resetting.result().status_code, signing_in.result().status_code)

    assert answers == (303, 400)
