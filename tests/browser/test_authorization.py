"""An authorization as a person meets it, in a real browser against the running servers."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import httpx2
import psycopg
from playwright.sync_api import Browser, Page, expect

from authserver.people import first_account
from shared.settings import Settings
from tests.browser.conftest import (
    ARGUMENTS,
    PASSWORD,
    WAITS_MS,
    Application,
    OpenSignedIn,
    chromium_path,
    expect_signed_in,
    with_and_without_scripts,
)
from tests.processes import Service


def sign_in(page: Page, email: str, password: str = PASSWORD) -> None:
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_a_new_user_joins_and_consents_to_an_application(
    page: Page, service: Service, deployment: Settings, application: Application
) -> None:
    link = first_account.link(replace(deployment, auth_url=service.auth_url))
    assert link is not None
    page.goto(link)
    page.get_by_label("E-mail address").fill("alice@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect_signed_in(page, service, "alice@example.org")

    page.goto(application.authorize_url())
    expect(page.get_by_text("Weekly Report")).to_be_visible()
    page.get_by_role("checkbox", name="read:activity").uncheck()
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")

    answer = application.answers[0]
    assert answer.keys() == {"code", "state", "iss"}
    assert answer["state"] == "xyz"
    assert answer["iss"] == service.auth_url
    pair = application.exchange(answer["code"])
    assert pair["scope"] == "read:profile"
    me = application.ask("/api/v1/me", pair["access_token"])
    assert me.status_code == 200
    assert me.json()["data"]["email"] == "alice@example.org"
    assert me.json()["data"]["is_admin"] is True
    days = "/api/v1/analytics/daily?from=2025-06-16&to=2025-06-17"
    assert application.ask(days, pair["access_token"]).status_code == 403


@with_and_without_scripts
def test_a_person_signs_in_before_the_consent(
    page: Page, application: Application, person: str
) -> None:
    page.goto(application.authorize_url())
    expect(page.get_by_role("heading")).to_have_text("Sign in")
    sign_in(page, person)
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")

    pair = application.exchange(application.answers[0]["code"])
    assert pair["scope"] == "read:activity read:profile"


def test_declining_returns_access_denied_to_the_application(
    page: Page, application: Application, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, application.authorize_url())
    page.get_by_role("button", name="Decline").click()
    expect(page).to_have_title("Done")

    assert application.answers[0]["error"] == "access_denied"
    assert application.answers[0]["state"] == "xyz"


def test_unticking_everything_asks_to_tick_one_or_decline(
    page: Page, application: Application, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, application.authorize_url(scope="read:music"))
    page.get_by_role("checkbox").uncheck()
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("alert")).to_contain_text("Tick one, or decline.")
    page.get_by_role("button", name="Decline").click()
    expect(page).to_have_title("Done")

    assert application.answers[0]["error"] == "access_denied"


def test_allowing_an_application_with_its_own_scheme_opens_it_and_says_so(
    chromium: Browser, service: Service, http: httpx2.Client, open_signed_in: OpenSignedIn
) -> None:
    # Not the fixture `page`, which allows no other destination than this machine.
    page = chromium.new_context().new_page()
    application = Application(service, http, "com.example.app:/callback")
    application.register()
    open_signed_in(page, application.authorize_url())
    devtools = page.context.new_cdp_session(page)
    devtools.send("Page.enable")
    opened: list[tuple[str, str]] = []

    def note(event: dict[str, str]) -> None:
        opened.append((event["reason"], event["url"]))

    devtools.on("Page.frameScheduledNavigation", note)

    page.get_by_role("button", name="Allow").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Allowed")
    link = page.get_by_role("link", name="Open the application").get_attribute("href")
    expect(page.get_by_text("You may close this tab.")).to_be_visible()
    assert link is not None
    assert link.startswith("com.example.app:/callback?code=svc_ac_")
    assert ("metaTagRefresh", link) in opened
    page.context.close()


def test_a_wrong_password_is_reported_and_the_address_kept(
    page: Page, application: Application, person: str
) -> None:
    page.goto(application.authorize_url())
    sign_in(page, person, "a password that is wrong")
    expect(page.get_by_role("alert")).to_contain_text("That did not work")
    expect(page.get_by_label("E-mail address")).to_have_value(person)
    expect(page.get_by_label("Password")).to_be_focused()
    sign_in(page, person)

    expect(page.get_by_role("heading")).to_have_text("Allow access to your data?")


def test_an_error_is_shown_first_and_returned_after_sign_in(
    page: Page, application: Application, person: str
) -> None:
    page.goto(application.authorize_url(scope="read:everything"))
    expect(page.get_by_text("invalid_scope")).to_be_visible()
    assert application.answers == []
    page.get_by_role("link", name="Sign in and return to the app").click()
    sign_in(page, person)
    expect(page).to_have_title("Done")

    assert application.answers[0]["error"] == "invalid_scope"


def test_everything_works_by_keyboard(page: Page, application: Application, person: str) -> None:
    page.goto(application.authorize_url())
    expect(page.get_by_label("E-mail address")).to_be_focused()
    page.keyboard.type(person)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading")).to_have_text("Allow access to your data?")
    # A key that is pressed while a page is still loading moves no focus.
    page.wait_for_load_state()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    # The other scope, the end of the access, Decline, Allow.
    for _ in range(4):
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Allow")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_title("Done")

    assert application.exchange(application.answers[0]["code"])["scope"] == "read:profile"


def test_two_tabs_with_two_requests_do_not_disturb_each_other(
    page: Page, application: Application, person: str
) -> None:
    other = page.context.new_page()
    page.goto(application.authorize_url(state="one"))
    other.goto(application.authorize_url(state="two"))
    sign_in(page, person)
    sign_in(other, person)
    other.get_by_role("button", name="Decline").click()
    expect(other).to_have_title("Done")
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")

    assert [answer["state"] for answer in application.answers] == ["two", "one"]
    assert "code" in application.answers[1]


def test_back_after_consent_shows_a_closed_request(
    page: Page, application: Application, person: str
) -> None:
    page.goto(application.authorize_url())
    sign_in(page, person)
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")
    page.go_back()

    expect(page.get_by_role("heading")).to_have_text("This request is no longer open")
    assert len(application.answers) == 1


def test_back_after_consent_with_a_cached_page_and_a_second_submit(
    chromium: Browser, application: Application, person: str
) -> None:
    # Playwright keeps browsers from bringing a page back as it was left; people's browsers do it.
    keeping = chromium.browser_type.launch(
        executable_path=chromium_path(),
        args=ARGUMENTS,
        ignore_default_args=["--disable-back-forward-cache"],
    )
    with closing(keeping):
        page = keeping.new_page()
        page.set_default_timeout(WAITS_MS)
        page.goto(application.authorize_url())
        sign_in(page, person)
        page.get_by_role("button", name="Allow").click()
        expect(page).to_have_title("Done")
        # A little later: the evaluation must return before the page is gone.
        page.evaluate("setTimeout(() => history.back())")
        page.wait_for_url("**/oauth/consent?*", wait_until="commit")
        allow = page.get_by_role("button", name="Allow")
        # It is there as it was, unless the browser was short of memory and asked for it once more.
        if allow.count():
            allow.click()

        expect(page.get_by_role("heading")).to_have_text("This request is no longer open")
    assert len(application.answers) == 1


def late(owner: psycopg.Connection[Any]) -> None:
    """Make pending requests older by a quarter of an hour."""
    owner.execute("update oauth.authorization_request set expires_at = now() - interval '1 s'")


def test_a_late_decision_shows_which_application_to_return_to(
    page: Page,
    service: Service,
    application: Application,
    person: str,
    owner: psycopg.Connection[Any],
    open_signed_in: OpenSignedIn,
) -> None:
    open_signed_in(page, application.authorize_url())
    expect(page.get_by_role("heading")).to_have_text("Allow access to your data?")
    late(owner)
    page.get_by_role("button", name="Allow").click()

    expect(page.get_by_role("heading")).to_have_text("This request is no longer open")
    host = application.redirect_uri.removeprefix("http://").removesuffix("/callback")
    expect(page.get_by_text(f"Go back to Weekly Report ({host})")).to_be_visible()
    page.get_by_role("link", name="Go to the start page").click()
    expect_signed_in(page, service, person)
    assert application.answers == []


def test_a_late_sign_in_succeeds_and_shows_which_application_to_return_to(
    page: Page, application: Application, person: str, owner: psycopg.Connection[Any]
) -> None:
    page.goto(application.authorize_url())
    late(owner)
    sign_in(page, person)

    expect(page.get_by_role("heading")).to_have_text("This request is no longer open")
    expect(page.get_by_text("Go back to Weekly Report")).to_be_visible()
    expect(page.get_by_text(f"You are signed in as {person}")).to_be_visible()
    page.goto(application.authorize_url())
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")
    assert "code" in application.answers[0]


def test_signing_out_and_using_another_account(
    page: Page, application: Application, person: str
) -> None:
    page.goto(application.authorize_url())
    sign_in(page, person)
    page.get_by_role("button", name="Use another account").click()
    expect(page.get_by_role("heading")).to_have_text("Sign in")
    sign_in(page, person)

    expect(page.get_by_role("heading")).to_have_text("Allow access to your data?")


def test_the_other_loopback_name_redirects_to_the_issuers_host(
    page: Page, service: Service, person: str
) -> None:
    page.goto(service.auth_url.replace("localhost", "127.0.0.1"))
    assert page.url == f"{service.auth_url}/sign-in"
    sign_in(page, person)

    expect_signed_in(page, service, person)
