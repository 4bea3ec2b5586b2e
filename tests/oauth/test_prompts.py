"""What an application may wish of the sign-in: ``login_hint`` and ``prompt`` (OpenID Connect Core 1.0)."""

from typing import Any

import psycopg
import pytest

from tests.conftest import Person
from tests.oauth.conftest import PASSWORD, Welcome
from tests.oauth.visitor import Application, Visitor, parameters
from tests.pages.test_confirm import confirming

Rows = psycopg.Connection[Any]


@pytest.mark.parametrize(
    ("hint", "filled_in"),
    [
        ("alice@example.org", 'value="alice@example.org"'),
        ('"><b>+@example.org', 'value="&#34;&gt;&lt;b&gt;+@example.org"'),
        ("a" * 255, 'value=""'),
        ("alice\n@example.org", 'value=""'),
    ],
)
def test_a_hint_fills_in_the_e_mail_address(
    visitor: Visitor, application: Application, hint: str, filled_in: str
) -> None:
    page = visitor.follow(visitor.get(application.authorize_path(login_hint=hint)))

    assert page.status_code == 200
    assert filled_in in page.text.partition('name="email"')[2].partition(">")[0]


def test_prompt_login_asks_a_signed_in_person_for_the_password_before_the_consent(
    application: Application, alice_browser: Visitor
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path(prompt="login")))

    wrong = alice_browser.submit(page, form=confirming(page), password="another password")
    right = alice_browser.submit(wrong, form=confirming(wrong), password=PASSWORD)
    consent = alice_browser.follow(right)
    allowed = alice_browser.submit(consent, decision="allow")

    assert "wants you to confirm that it is you" in page.text
    assert wrong.status_code == 400
    assert "Weekly Report" in consent.text
    assert application.exchange(parameters(allowed)["code"][0]).status_code == 200


def test_prompt_login_cannot_be_skipped_on_the_consent_page(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    confirm = alice_browser.get(application.authorize_path(prompt="login")).headers["location"]
    skipped = alice_browser.get(confirm.replace("/confirm?next=", "/oauth/consent?request="))
    page = alice_browser.follow(skipped)
    confirmed = alice_browser.submit(page, form=confirming(page), password=PASSWORD)
    consent = alice_browser.follow(confirmed)
    # As if the person had signed in before the request.
    owner.execute("update identity.session set created_at = created_at - interval '1 h'")

    asked = alice_browser.submit(consent, decision="allow")
    declined = alice_browser.submit(consent, decision="decline")

    assert (skipped.status_code, skipped.headers["location"]) == (303, confirm)
    assert (asked.status_code, asked.headers["location"]) == (303, confirm)
    assert owner.execute("select from oauth.authorization_code").fetchall() == []
    assert parameters(declined)["error"] == ["access_denied"]


def test_without_a_sign_in_prompt_login_asks_once(
    application: Application, visitor: Visitor, alice: Person, welcome: Welcome
) -> None:
    welcome(alice)
    sign_in = visitor.follow(visitor.get(application.authorize_path(prompt="login")))

    signed_in = visitor.submit(sign_in, email="alice@example.org", password=PASSWORD)

    assert signed_in.headers["location"].startswith("/oauth/consent?request=")


def test_prompt_select_account_offers_another_account(
    application: Application, alice_browser: Visitor, bob: Person, welcome: Welcome
) -> None:
    welcome(bob)
    path = application.authorize_path(prompt="select_account")
    page = alice_browser.follow(alice_browser.get(path))

    sign_in = alice_browser.follow(alice_browser.submit(page, form=1))
    signed_in = alice_browser.submit(sign_in, email="bob@example.org", password=PASSWORD)
    consent = alice_browser.follow(signed_in)

    assert "Use another account" in page.text
    assert "Signed in as <strong>bob@example.org</strong>" in consent.text


@pytest.mark.parametrize(
    ("prompt", "path"),
    [("login", "/confirm?next="), ("select_account", "/oauth/consent?request=")],
)
def test_the_dashboard_is_not_renewed_where_it_wishes_a_prompt(
    own_pages: Application, alice_browser: Visitor, prompt: str, path: str
) -> None:
    own_pages.pair(alice_browser)
    renewed = alice_browser.get(own_pages.authorize_path())

    response = alice_browser.get(own_pages.authorize_path(prompt=prompt))

    assert "code" in parameters(renewed)
    assert response.headers["location"].startswith(path)
