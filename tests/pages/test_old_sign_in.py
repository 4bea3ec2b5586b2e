"""Forms that require a fresh sign-in, when the sign-in becomes too old while a person types."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from httpx2 import Response

from tests.cli.terminal import Terminal
from tests.conftest import Person
from tests.oauth.conftest import PASSWORD
from tests.oauth.visitor import Form, Visitor, forms
from tests.pages.authenticator import Authenticator, options
from tests.pages.test_passkeys import add

Rows = psycopg.Connection[Any]

METHODS = "/settings/account/sign-in"
NEW_PASSWORD = "seven green herons wade"
SAID = "Your sign-in is older than 15 minutes, so nothing was done yet."


@dataclass(frozen=True)
class Filling:
    """A form of a page, the typed values, and the values that must be kept."""

    path: str
    action: str
    typed: dict[str, Any]
    kept: list[str]
    is_done: Callable[[Response], bool]
    credential: bool = False
    """Whether the form needs a new passkey."""

    def form(self, page: Response) -> int:
        """Return which form of a page it is."""
        return [form.action for form in forms(page)].index(self.action)

    def send(self, browser: Visitor, page: Response) -> Response:
        """Type, and send it."""
        typed = dict(self.typed)
        if self.credential:
            typed["credential"] = Authenticator().make(options(page))
        return browser.submit(page, form=self.form(page), **typed)

    def send_again(self, browser: Visitor, page: Response) -> Response:
        """Submit it as it is, except for values that browsers do not keep."""
        again: dict[str, Any] = {}
        if self.credential:
            again["credential"] = Authenticator().make(options(page))
        if "password" in self.typed:
            again["password"] = self.typed["password"]
        # The tests' browser knows no <select>.
        again |= {name: self.typed[name] for name in ("expiry",) if name in self.typed}
        return browser.submit(page, form=self.form(page), **again)


def leads_to(location: str) -> Callable[[Response], bool]:
    return lambda response: response.headers.get("location") == location


def shows(text: str) -> Callable[[Response], bool]:
    return lambda response: response.status_code == 200 and text in response.text


FILLINGS = {
    "API token": Filling(
        "/settings/api-access",
        "/settings/api-access",
        {
            "name": "Weekly chart",
            "preset": "choose",
            "scope": ["read:music", "ingest:health"],
            "expiry": "date",
            "date": "2099-01-15",
        },
        [
            'value="Weekly chart"',
            'value="choose" checked',
            'value="read:music" checked',
            'value="ingest:health" checked',
            'value="date" selected',
            'value="2099-01-15"',
        ],
        shows("Your token is created."),
    ),
    "download": Filling(
        "/settings/account/download",
        "/settings/account/download",
        {"scope": ["read:activity", "read:music"]},
        ['value="read:activity" checked', 'value="read:music" checked'],
        shows("Your download is ready"),
    ),
    "deletion": Filling(
        "/settings/account/delete",
        "/settings/account/delete",
        {"email": "alice@example.org"},
        ['name="email" value="alice@example.org"'],
        shows("Goodbye"),
    ),
    "password": Filling(
        METHODS,
        f"{METHODS}/password",
        {"password": NEW_PASSWORD},
        [],
        leads_to(f"{METHODS}?done=password"),
    ),
    "passkey": Filling(
        METHODS,
        f"{METHODS}/passkeys",
        {"name": "Blue <b>phone</b>"},
        ['value="Blue &lt;b&gt;phone&lt;/b&gt;"'],
        leads_to(f"{METHODS}?done=added"),
        credential=True,
    ),
    "passkey removed": Filling(
        METHODS,
        f"{METHODS}/passkeys/remove",
        {},
        ["<bdi>Old phone</bdi>"],
        leads_to(f"{METHODS}?done=removed"),
    ),
}


@pytest.fixture(params=FILLINGS)
def filling(request: pytest.FixtureRequest, alice_browser: Visitor) -> Filling:
    """Each form that requires a fresh sign-in; there is a passkey to remove."""
    add(alice_browser, "Old phone")
    return FILLINGS[request.param]


def make_old(owner: Rows) -> None:
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")


def confirm(browser: Visitor) -> Response:
    """Confirm the sign-in in another tab, by the link on the page."""
    page = browser.follow(browser.get("/confirmed"))
    asking = [form.action for form in forms(page)].index("/confirm")
    return browser.follow(browser.submit(page, form=asking, password=PASSWORD))


def everything(owner: Rows) -> list[list[Any]]:
    """Return all that such a form could change."""
    return [
        owner.execute(statement).fetchall()
        for statement in (
            "select user_id, email from identity.user",
            "select user_id, password_hash from identity.password",
            "select user_id, passkey_id from identity.passkey",
            "select user_id, grant_id from oauth.grant",
        )
    ]


def test_the_form_is_shown_again_with_the_typed_values_and_nothing_is_done(
    filling: Filling, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(filling.path)
    make_old(owner)
    before = everything(owner)

    response = filling.send(alice_browser, page)

    assert response.status_code == 403
    assert SAID in response.text
    link = re.search(
        r'<p class="alert" role="alert">[^<]*<a href="([^"]+)" ([^>]+)>', response.text
    )
    assert link is not None
    assert link.groups() == ("/confirmed", 'target="_blank" rel="noopener"')
    for shown in filling.kept:
        assert shown in response.text
    assert NEW_PASSWORD not in response.text
    assert everything(owner) == before


def test_after_a_confirmation_in_another_tab_the_form_can_be_submitted(
    filling: Filling, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(filling.path)
    make_old(owner)
    again = filling.send(alice_browser, page)

    confirmed = confirm(alice_browser)
    response = filling.send_again(alice_browser, again)

    assert confirmed.status_code == 200
    assert "Go back to the tab that you came from" in confirmed.text
    assert filling.is_done(response), response.text


def test_a_form_that_was_open_before_a_confirmation_in_another_tab_can_be_sent_after_it(
    filling: Filling, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(filling.path)
    make_old(owner)
    confirm(alice_browser)

    response = filling.send(alice_browser, page)

    assert filling.is_done(response), response.text


def test_without_a_confirmation_the_form_is_refused_again(
    filling: Filling, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(filling.path)
    make_old(owner)
    before = everything(owner)

    again = filling.send_again(alice_browser, filling.send(alice_browser, page))

    assert again.status_code == 403
    assert SAID in again.text
    for shown in filling.kept:
        assert shown in again.text
    assert everything(owner) == before


def test_a_form_with_an_outdated_token_keeps_the_typed_values(
    filling: Filling, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(filling.path)
    for _ in range(2):
        make_old(owner)
        confirm(alice_browser)
    make_old(owner)

    out_of_date = filling.send(alice_browser, page)
    too_old = filling.send_again(alice_browser, out_of_date)
    confirm(alice_browser)
    response = filling.send_again(alice_browser, too_old)

    assert out_of_date.status_code == too_old.status_code == 403
    assert "This page was out of date. Please try again." in out_of_date.text
    assert SAID in too_old.text
    for shown in filling.kept:
        assert shown in out_of_date.text
        assert shown in too_old.text
    assert filling.is_done(response), response.text


def test_a_form_of_another_site_is_not_shown_again(
    filling: Filling, alice_browser: Visitor, owner: Rows
) -> None:
    fields = sent(alice_browser.get(filling.path), filling).fields
    make_old(owner)

    response = alice_browser.post(
        filling.action, dict(fields) | filling.typed, headers={"Origin": "https://evil.example"}
    )

    assert response.status_code == 403
    assert "This form could not be accepted" in response.text


def sent(page: Response, filling: Filling) -> Form:
    return forms(page)[filling.form(page)]


# Forms of other sessions


def test_a_form_of_an_anonymous_session_is_refused_after_sign_in(
    visitor: Visitor, alice_browser: Visitor
) -> None:
    # An attacker may have planted the session in this browser, and know its form tokens.
    page = visitor.get("/sign-in")
    planted = dict(forms(page)[0].fields)["csrf"]
    visitor.submit(page, email="alice@example.org", password=PASSWORD)

    response = visitor.post("/sign-out", {"csrf": planted})

    assert response.status_code == 403
    assert visitor.get("/settings").status_code == 200


def test_a_form_of_another_persons_session_is_refused(
    alice_browser: Visitor, bob: Person, terminal: Terminal, owner: Rows
) -> None:
    alices = alice_browser.get("/settings/account/download")
    link = terminal.run(f"user reset-link {bob.email}").stdout.strip()
    page = alice_browser.get(link.removeprefix("http://localhost:8400"))
    alice_browser.submit(page, password=NEW_PASSWORD)

    response = alice_browser.submit(alices, form=1)

    assert bob.email in alice_browser.get("/settings").text
    assert response.status_code == 403
    assert "This page was out of date." in response.text
    assert owner.execute("select from oauth.grant").fetchall() == []


def test_the_page_after_a_confirmation_requires_a_confirmation(
    alice_browser: Visitor, visitor: Visitor, owner: Rows
) -> None:
    fresh = alice_browser.get("/confirmed")
    make_old(owner)
    old = alice_browser.get("/confirmed")
    strangers = visitor.get("/confirmed")

    assert fresh.status_code == 200
    assert old.headers["location"] == "/confirm?next=/confirmed"
    assert strangers.headers["location"] == "/sign-in?next=/confirmed"
