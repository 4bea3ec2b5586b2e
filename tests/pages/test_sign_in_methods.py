"""Settings → Account → How you sign in: the password, and removing passkeys."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from httpx2 import Response
from psycopg import sql

from tests.cli.terminal import Terminal
from tests.conftest import Connect, Person
from tests.oauth.conftest import PASSWORD, Opens, Welcome
from tests.oauth.visitor import Application, Visitor, forms
from tests.pages.authenticator import Authenticator, options
from tests.pages.test_api_access import fill as make_token
from tests.pages.test_passkeys import add, send, sign_in
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]
PAGE = "/settings/account/sign-in"
NEW = "seven green herons wade"


def form_to(page: Response, path: str, number: int = 0) -> int:
    """Return the index of a form by its action below the page's path, the first one by default."""
    found = [index for index, form in enumerate(forms(page)) if form.action == f"{PAGE}/{path}"]
    return found[number]


def change(visitor: Visitor, password: str | None, **fields: Any) -> Response:
    page = visitor.get(PAGE)
    return visitor.submit(page, form=form_to(page, "password"), password=password, **fields)


def remove(visitor: Visitor, number: int = 0, **fields: Any) -> Response:
    page = visitor.get(PAGE)
    return visitor.submit(page, form=form_to(page, "passkeys/remove", number), **fields)


def can_sign_in(visitor: Visitor, password: str) -> bool:
    elsewhere = Visitor(visitor.client)
    page = elsewhere.get("/sign-in")
    return elsewhere.submit(page, email="alice@example.org", password=password).status_code == 303


def count(owner: Rows, table: str) -> int:
    name = sql.Identifier("identity", table)
    row = owner.execute(sql.SQL("select count(*) from {}").format(name)).fetchone()
    assert row is not None
    return int(row[0])


def test_a_password_change_ends_all_other_sessions(
    alice_browser: Visitor, alice: Person, welcome: Welcome, owner: Rows
) -> None:
    elsewhere = welcome(alice)
    before = dict(alice_browser.cookies)

    response = change(alice_browser, NEW)

    assert response.status_code == 303
    assert response.headers["location"] == f"{PAGE}?done=password"
    assert "Your password is changed." in alice_browser.follow(response).text
    assert alice_browser.cookies != before
    assert elsewhere.get("/settings").status_code == 303
    assert Visitor(alice_browser.client, before).get("/settings").status_code == 303
    assert count(owner, "session") == 1
    noted = owner.execute("select event, address from identity.security_event").fetchall()
    assert [event for event, _ in noted] == ["password_changed"]
    assert can_sign_in(alice_browser, NEW)
    assert not can_sign_in(alice_browser, PASSWORD)


def test_a_password_change_keeps_grants(
    alice_browser: Visitor, application: Application, status: Opens
) -> None:
    pair = application.pair(alice_browser)

    change(alice_browser, NEW)

    assert status(pair["access_token"]) == 200


def test_a_password_change_keeps_a_pending_request(
    alice_browser: Visitor, application: Application
) -> None:
    waiting = alice_browser.get(application.authorize_path()).headers["location"]

    change(alice_browser, NEW)

    assert alice_browser.get(waiting).status_code == 200


@pytest.mark.parametrize(
    ("password", "problem"),
    [
        (None, "Use at least 12 characters."),
        ("short", "Use at least 12 characters."),
        ("password1234", "easy to guess"),
        ("p" * 10_000, "at most 1024 bytes"),
    ],
)
def test_a_refused_password_is_reported_beside_its_field(
    alice_browser: Visitor, owner: Rows, password: str | None, problem: str
) -> None:
    before = owner.execute("select * from identity.password").fetchall()

    response = change(alice_browser, password)

    assert response.status_code == 400
    assert re.search(rf'id="password-problem">[^<]*{problem}', response.text)
    assert 'aria-describedby="password-problem' in response.text
    assert password is None or password not in response.text
    assert owner.execute("select * from identity.password").fetchall() == before
    assert alice_browser.get("/settings").status_code == 200


def change_password(visitor: Visitor) -> Response:
    return change(visitor, NEW)


def add_passkey(visitor: Visitor) -> Response:
    page = visitor.get(PAGE)
    return send(visitor, page, Authenticator().make(options(page)), name="Phone")


@pytest.mark.parametrize("act", [change_password, make_token, add_passkey])
def test_an_ended_session_cannot_complete_a_change(
    alice_browser: Visitor,
    owner: Rows,
    terminal: Terminal,
    connect_as: Connect,
    act: Callable[[Visitor], Response],
) -> None:
    before = owner.execute("select * from identity.password").fetchall()
    other = connect_as("authserver")

    with ThreadPoolExecutor(2) as threads:
        with other.transaction():
            other.execute("select from identity.user for update")
            ending = threads.submit(terminal.run, "session revoke alice@example.org")
            wait_for_rivals(owner, 1)
            acting = threads.submit(act, alice_browser)
            wait_for_rivals(owner, 2)
        assert ending.result(60).exit_code == 0
        acting.result(60)

    assert owner.execute("select * from identity.password").fetchall() == before
    assert count(owner, "session") == 0
    assert count(owner, "passkey") == 0
    assert owner.execute("select from oauth.grant").fetchall() == []


def test_a_sign_in_that_began_before_does_not_complete_after(
    alice_browser: Visitor, visitor: Visitor, owner: Rows, connect_as: Connect
) -> None:
    page = visitor.get("/sign-in")
    own = alice_browser.get(PAGE)
    other = connect_as("authserver")

    with ThreadPoolExecutor(2) as threads:
        with other.transaction():
            other.execute("select from identity.user for update")
            changing = threads.submit(
                alice_browser.submit, own, form=form_to(own, "password"), password=NEW
            )
            wait_for_rivals(owner, 1)
            entering = threads.submit(
                visitor.submit, page, email="alice@example.org", password=PASSWORD
            )
            wait_for_rivals(owner, 2)
        answers = (changing.result().status_code, entering.result().status_code)

    assert answers == (303, 400)
    assert count(owner, "session") == 1


@pytest.mark.parametrize("path", ["password", "passkeys", "passkeys/remove"])
def test_sensitive_actions_require_a_fresh_sign_in(
    alice_browser: Visitor, owner: Rows, path: str
) -> None:
    add(alice_browser)
    page = alice_browser.get(PAGE)
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")

    response = alice_browser.submit(page, form=form_to(page, path), password=NEW, name="n")

    assert response.status_code == 403
    assert count(owner, "passkey") == 1
    assert can_sign_in(alice_browser, PASSWORD)


@pytest.mark.parametrize("path", ["password", "passkeys", "passkeys/remove"])
def test_a_form_without_its_token_changes_nothing(
    alice_browser: Visitor, owner: Rows, path: str
) -> None:
    add(alice_browser)
    page = alice_browser.get(PAGE)

    response = alice_browser.submit(
        page, form=form_to(page, path), csrf="forged", password=NEW, name="Kept name"
    )

    assert response.status_code == 403
    assert "This page was out of date." in response.text
    assert path != "passkeys" or 'value="Kept name"' in response.text
    assert count(owner, "passkey") == 1
    assert can_sign_in(alice_browser, PASSWORD)


@pytest.mark.parametrize("path", ["password", "passkeys", "passkeys/remove"])
def test_a_form_of_another_site_is_refused(alice_browser: Visitor, owner: Rows, path: str) -> None:
    add(alice_browser)
    page = alice_browser.get(PAGE)
    fields = dict(forms(page)[form_to(page, path)].fields)

    response = alice_browser.post(
        f"{PAGE}/{path}",
        fields | {"password": NEW},
        headers={"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    )

    assert response.status_code == 403
    assert count(owner, "passkey") == 1


def test_the_page_requires_sign_in(visitor: Visitor) -> None:
    for path in ("", "/password", "/passkeys", "/passkeys/remove"):
        response = visitor.get(PAGE) if not path else visitor.post(f"{PAGE}{path}", {"name": "x"})

        assert response.status_code == 303
        assert response.headers["location"].replace("%2F", "/") == f"/sign-in?next={PAGE}"


def test_the_query_selects_only_our_own_messages(alice_browser: Visitor) -> None:
    assert "evil words" not in alice_browser.get(f"{PAGE}?done=evil+words").text
    assert 'role="status"' not in alice_browser.get(f"{PAGE}?done=evil+words").text


def test_a_removed_passkey_cannot_sign_in(
    alice_browser: Visitor, visitor: Visitor, owner: Rows
) -> None:
    authenticator = add(alice_browser)

    response = remove(alice_browser)

    assert response.headers["location"] == f"{PAGE}?done=removed"
    assert "The passkey is removed." in alice_browser.follow(response).text
    assert sign_in(visitor, authenticator).status_code == 400
    noted = owner.execute(
        "select event from identity.security_event order by occurred_at, event"
    ).fetchall()
    assert noted[1] == ("passkey_removed",)


def test_removing_a_passkey_twice_is_not_found(alice_browser: Visitor) -> None:
    add(alice_browser)
    page = alice_browser.get(PAGE)

    found = [
        alice_browser.submit(page, form=form_to(page, "passkeys/remove")).status_code
        for _ in range(2)
    ]

    assert found == [303, 404]


@pytest.mark.parametrize("passkey", [None, "", "x", "0" * 32, "x" * 10_000, "é"])
def test_an_unknown_passkey_id_is_not_found(
    alice_browser: Visitor, owner: Rows, passkey: str | None
) -> None:
    add(alice_browser)

    assert remove(alice_browser, passkey=passkey).status_code == 404
    assert count(owner, "passkey") == 1


def test_another_persons_passkey_is_not_found(
    alice_browser: Visitor, bob: Person, welcome: Welcome, owner: Rows
) -> None:
    add(alice_browser)
    add(welcome(bob))
    bobs = owner.execute(
        "select passkey_id from identity.passkey where user_id = %s", [bob.user_id]
    ).fetchone()
    assert bobs is not None

    response = remove(alice_browser, passkey=str(bobs[0]))

    assert response.status_code == 404
    assert count(owner, "passkey") == 2
    assert str(bobs[0]) not in alice_browser.get(PAGE).text


def test_the_last_sign_in_method_cannot_be_removed(alice_browser: Visitor, owner: Rows) -> None:
    add(alice_browser)
    page = alice_browser.get(PAGE)
    owner.execute("delete from identity.password")

    response = alice_browser.submit(page, form=form_to(page, "passkeys/remove"))

    assert response.status_code == 400
    assert "This is your only way to sign in, so it was not removed." in response.text
    assert count(owner, "passkey") == 1
    assert f"{PAGE}/passkeys/remove" not in alice_browser.get(PAGE).text


def test_of_the_last_two_methods_removed_at_once_one_stays(
    alice_browser: Visitor, owner: Rows, connect_as: Connect
) -> None:
    add(alice_browser, "One")
    add(alice_browser, "Two")
    owner.execute("delete from identity.password")
    page = alice_browser.get(PAGE)
    other = connect_as("authserver")

    with ThreadPoolExecutor(2) as threads:
        with other.transaction():
            other.execute("select from identity.user for update")
            waiting = [
                threads.submit(
                    alice_browser.submit, page, form=form_to(page, "passkeys/remove", number)
                )
                for number in range(2)
            ]
            wait_for_rivals(owner, 2)
        found = sorted(each.result().status_code for each in waiting)

    assert found == [303, 400]
    assert count(owner, "passkey") == 1


def test_an_account_without_a_password_can_set_one(alice_browser: Visitor, owner: Rows) -> None:
    add(alice_browser)
    owner.execute("delete from identity.password")
    page = alice_browser.get(PAGE)

    response = change(alice_browser, NEW)

    assert "Set password" in page.text
    assert "Change password" not in page.text
    assert response.status_code == 303
    assert can_sign_in(alice_browser, NEW)
    assert "Change password" in alice_browser.get(PAGE).text


def test_a_password_change_ends_a_reset_link(
    alice_browser: Visitor, visitor: Visitor, terminal: Terminal
) -> None:
    link = terminal.run("user reset-link alice@example.org").stdout.strip()

    change(alice_browser, NEW)

    assert visitor.get(link.removeprefix("http://localhost:8400")).status_code == 400


def test_the_proposed_name_is_that_of_the_browser(alice_browser: Visitor) -> None:
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

    page = alice_browser.get(PAGE, headers={"User-Agent": firefox})

    assert 'value="Firefox on Linux"' in page.text
