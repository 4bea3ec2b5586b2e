"""The confirmation before sensitive actions."""

from typing import Any

import psycopg
import pytest
from httpx2 import Response

from tests.conftest import Person
from tests.oauth.conftest import CHEAP, PASSWORD, Welcome
from tests.oauth.visitor import Application, Visitor, forms
from tests.pages.authenticator import Authenticator, options
from tests.pages.test_passkeys import add, passkey_form, send
from tests.people.test_throttle import turn_back

Rows = psycopg.Connection[Any]
PAGE = "/settings/account/sign-in"
CONFIRM = f"/confirm?next={PAGE}"
FAILED = "That did not work. Check the password."


@pytest.fixture
def passkey(alice_browser: Visitor) -> Authenticator:
    """A passkey of alice's."""
    return add(alice_browser)


@pytest.fixture
def stale(alice_browser: Visitor, owner: Rows) -> Visitor:
    """A browser in which alice has been signed in for a while."""
    age(owner)
    return alice_browser


def age(owner: Rows, interval: str = "15 minutes") -> None:
    owner.execute(
        "update identity.session set authenticated_at = authenticated_at - %s::interval", [interval]
    )


def give(visitor: Visitor, password: str | None, path: str = CONFIRM) -> Response:
    page = visitor.get(path)
    return visitor.submit(page, form=confirming(page), password=password)


def confirming(page: Response) -> int:
    """The index of the form for the password."""
    return next(
        number
        for number, form in enumerate(forms(page))
        if "password" in [name for name, _ in form.fields]
    )


def test_a_sign_in_must_be_confirmed_after_15_minutes(alice_browser: Visitor, owner: Rows) -> None:
    age(owner, "14 minutes")
    fresh = alice_browser.get(PAGE)
    age(owner, "1 minute")
    stale = alice_browser.get(PAGE)

    assert fresh.status_code == 200
    assert stale.status_code == 303
    assert stale.headers["location"].replace("%2F", "/") == CONFIRM


def test_the_password_confirms_and_opens_a_new_session(stale: Visitor, owner: Rows) -> None:
    before = dict(stale.cookies)

    response = give(stale, PASSWORD)

    assert response.status_code == 303
    assert response.headers["location"] == PAGE
    assert stale.cookies != before
    assert stale.get(PAGE).status_code == 200
    assert Visitor(stale.client, before).get("/settings").status_code == 303
    assert owner.execute("select count(*) from identity.session").fetchone() == (1,)


def test_a_passkey_confirms(alice_browser: Visitor, passkey: Authenticator, owner: Rows) -> None:
    age(owner)
    page = alice_browser.get(CONFIRM)

    response = send(alice_browser, page, passkey.sign(options(page)))

    assert response.headers.get("location") == PAGE, response.text
    assert alice_browser.get(PAGE).status_code == 200
    assert owner.execute("select count(*) from identity.session").fetchone() == (1,)


def test_a_passkey_response_without_a_user_handle_confirms(
    alice_browser: Visitor, passkey: Authenticator, owner: Rows
) -> None:
    age(owner)
    page = alice_browser.get(CONFIRM)
    answer = passkey.sign(options(page)).replace('"userHandle": "', '"otherHandle": "')

    assert send(alice_browser, page, answer).status_code == 303


def test_another_persons_passkey_cannot_confirm(
    alice_browser: Visitor, passkey: Authenticator, bob: Person, welcome: Welcome, owner: Rows
) -> None:
    bobs = add(welcome(bob))
    age(owner)
    page = alice_browser.get(CONFIRM)

    named = send(alice_browser, page, bobs.sign(options(page)))
    unnamed = send(alice_browser, page, bobs.sign(options(page), user_handle=b""))

    assert named.status_code == 400
    assert unnamed.status_code == 400
    assert alice_browser.get(PAGE).status_code == 303
    assert alice_browser.get("/settings").status_code == 200


def test_a_response_is_valid_for_one_confirmation(alice_browser: Visitor, owner: Rows) -> None:
    uncounted = add(alice_browser, step=0)
    age(owner)
    page = alice_browser.get(CONFIRM)
    answer = uncounted.sign(options(page))
    before = dict(alice_browser.cookies)
    assert send(alice_browser, page, answer).status_code == 303
    # As if the old session had not ended with it.
    owner.execute("delete from identity.session")

    again = send(Visitor(alice_browser.client, before), page, answer)

    assert again.status_code == 303
    assert again.headers["location"].startswith("/sign-in")
    assert owner.execute("select count(*) from identity.session").fetchone() == (0,)


def test_a_replay_is_refused_and_does_not_sign_out(alice_browser: Visitor, owner: Rows) -> None:
    uncounted = add(alice_browser, step=0)
    age(owner)
    page = alice_browser.get(CONFIRM)
    answer = uncounted.sign(options(page))
    before = owner.execute("select session_hash from identity.session").fetchone()
    assert before is not None
    cookies = dict(alice_browser.cookies)
    assert send(alice_browser, page, answer).status_code == 303
    owner.execute(
        "update identity.session set session_hash = %s, authenticated_at = now() - interval '1 hour'",
        [before[0]],
    )
    thief = Visitor(alice_browser.client, cookies)

    again = send(thief, page, answer)

    assert again.status_code == 400
    assert "This passkey was not accepted." in again.text
    assert thief.get("/settings").status_code == 200
    assert thief.get(PAGE).status_code == 303


@pytest.mark.parametrize("password", ["not the password", "", None, "p" * 10_000])
def test_a_wrong_password_is_reported_and_does_not_confirm(
    stale: Visitor, password: str | None
) -> None:
    response = give(stale, password)

    assert response.status_code == 400
    assert FAILED in response.text
    assert "not the password" not in response.text
    assert stale.get(PAGE).status_code == 303
    assert stale.get("/settings").status_code == 200


def test_only_the_password_of_the_signed_in_person_confirms(
    stale: Visitor, alice: Person, bob: Person, owner: Rows
) -> None:
    owner.execute(
        "insert into identity.password values (%s, %s)",
        [bob.user_id, CHEAP.hash("seven green herons wade")],
    )
    page = stale.get(CONFIRM)

    response = stale.submit(
        page,
        form=confirming(page),
        password="seven green herons wade",
        email="bob@example.org",
        username="bob@example.org",
    )

    assert response.status_code == 400
    assert owner.execute("select user_id from identity.session").fetchall() == [(alice.user_id,)]


def test_wrong_passwords_are_delayed_in_the_browser_that_sends_them(
    stale: Visitor, owner: Rows
) -> None:
    found = [give(stale, "not the password").status_code for _ in range(5)]
    turn_back(owner)
    refused = give(stale, PASSWORD)
    elsewhere = Visitor(stale.client)
    at_sign_in = elsewhere.submit(
        elsewhere.get("/sign-in"), email="alice@example.org", password=PASSWORD
    )

    assert found == [400] * 5
    assert refused.status_code == 429
    assert FAILED in refused.text
    assert int(refused.headers["retry-after"]) >= 1
    assert at_sign_in.status_code == 303
    noted = owner.execute(
        "select event, user_id is null, count(*) from identity.security_event group by 1, 2 order by 1"
    )
    assert noted.fetchall() == [("sign_in_failed", False, 5), ("signed_in", False, 1)]


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "https://evil.example", "/\\evil.example", "%2f%2fevil.example", "/nothing"],
)
def test_next_is_a_known_path_or_the_start_page(stale: Visitor, path: str) -> None:
    response = give(stale, PASSWORD, f"/confirm?next={path}")

    assert response.status_code == 303
    assert response.headers["location"] == "/settings"


def test_a_fresh_sign_in_is_not_confirmed_again(alice_browser: Visitor) -> None:
    response = alice_browser.get(CONFIRM)

    assert response.status_code == 303
    assert response.headers["location"] == PAGE


def test_without_sign_in_the_confirmation_redirects_to_sign_in(visitor: Visitor) -> None:
    for response in (visitor.get(CONFIRM), visitor.post("/confirm", {"next": PAGE})):
        assert response.status_code == 303
        location = response.headers["location"].replace("%2F", "/")
        assert location == f"/sign-in?next={PAGE}"


@pytest.mark.parametrize("token", [None, "", "x", "é"])
def test_a_form_that_is_out_of_date_is_shown_again(stale: Visitor, token: str | None) -> None:
    page = stale.get(CONFIRM)

    response = stale.submit(page, form=confirming(page), password=PASSWORD, csrf=token)

    assert response.status_code == 403
    assert "This page was out of date." in response.text
    assert stale.get(PAGE).status_code == 303
    assert (
        stale.submit(response, form=confirming(response), password=PASSWORD).headers["location"]
        == PAGE
    )


def test_a_form_of_another_site_is_refused(stale: Visitor) -> None:
    fields = dict(forms(stale.get(CONFIRM))[confirming(stale.get(CONFIRM))].fields)

    response = stale.post(
        "/confirm",
        fields | {"password": PASSWORD},
        headers={"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    )

    assert response.status_code == 403
    assert stale.get(PAGE).status_code == 303


def test_a_second_submit_finds_the_session_ended(stale: Visitor) -> None:
    page = stale.get(CONFIRM)
    old = Visitor(stale.client, dict(stale.cookies))

    first = stale.submit(page, form=confirming(page), password=PASSWORD)
    second = old.submit(page, form=confirming(page), password=PASSWORD)

    assert first.status_code == 303
    assert second.headers["location"].startswith("/sign-in")


def test_the_page_has_links_to_sign_out_and_to_go_back(stale: Visitor) -> None:
    page = stale.get(CONFIRM)
    leaving = [number for number, form in enumerate(forms(page)) if form.action == "/sign-out"]

    response = stale.submit(page, form=leaving[-1])

    assert 'href="/settings"' in page.text
    assert response.headers["location"] == "/sign-in?done=signed-out"
    assert stale.get("/settings").status_code == 303


def test_without_a_password_only_a_passkey_is_requested(
    alice_browser: Visitor, passkey: Authenticator, owner: Rows
) -> None:
    owner.execute("delete from identity.password")
    age(owner)

    page = alice_browser.get(CONFIRM)

    assert 'name="password"' not in page.text
    assert passkey_form(page) >= 0
    assert "<noscript>" in page.text


def test_a_pending_request_continues_after_a_confirmation(
    alice_browser: Visitor, application: Application, owner: Rows
) -> None:
    waiting = alice_browser.get(application.authorize_path()).headers["location"]
    age(owner)

    give(alice_browser, PASSWORD)

    assert alice_browser.get(waiting).status_code == 200
