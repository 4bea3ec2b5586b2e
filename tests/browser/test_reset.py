"""Choosing another password by an operator's link, in a real browser."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PASSWORD, expect_signed_in
from tests.browser.test_authorization import sign_in
from tests.browser.tour import reset_link
from tests.processes import Service

NEW_PASSWORD = "seven green herons wade"


def test_a_link_sets_a_new_password_and_signs_in(
    page: Page, chromium: Browser, service: Service, person: str
) -> None:
    with chromium.new_context() as context:
        elsewhere = context.new_page()
        elsewhere.goto(f"{service.auth_url}/settings")
        sign_in(elsewhere, person)
        expect(elsewhere.get_by_text(f"Signed in as {person}")).to_be_visible()

        page.goto(reset_link(service.settings, person))
        expect(page.get_by_text(f"It will be the password of {person}.")).to_be_visible()
        expect(page.get_by_label("New password")).to_be_focused()
        page.get_by_label("New password").fill(NEW_PASSWORD)
        page.get_by_role("button", name="Set password and sign in").click()
        expect_signed_in(page, service, person)
        elsewhere.reload()
        expect(elsewhere.get_by_role("heading", level=1)).to_have_text("Sign in")

    page.get_by_role("button", name="Sign out").click()
    sign_in(page, person, PASSWORD)
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("That did not work.")
    sign_in(page, person, NEW_PASSWORD)
    expect_signed_in(page, service, person)


def test_a_refused_password_is_reported_and_the_link_stays_valid(
    page: Page, service: Service, person: str
) -> None:
    page.goto(reset_link(service.settings, person))
    page.get_by_label("New password").fill("password1234")
    page.keyboard.press("Enter")

    expect(page.get_by_label("New password")).to_have_accessible_description(
        re.compile("easy to guess")
    )
    expect(page.get_by_label("New password")).to_have_value("")
    page.get_by_label("New password").fill(NEW_PASSWORD)
    page.keyboard.press("Enter")
    expect_signed_in(page, service, person)


def test_a_used_link_shows_an_explanation(page: Page, service: Service, person: str) -> None:
    link = reset_link(service.settings, person)
    page.goto(link)
    page.get_by_label("New password").fill(NEW_PASSWORD)
    page.keyboard.press("Enter")
    expect_signed_in(page, service, person)

    page.goto(link)

    expect(page.get_by_role("heading", level=1)).to_have_text("This link cannot be used")
    page.get_by_role("link", name="Go to the start page").click()
    expect_signed_in(page, service, person)
