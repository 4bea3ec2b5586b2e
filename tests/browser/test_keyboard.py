"""Settings without a mouse: whatever has the focus can be seen to have it."""

import re

from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Application, OpenSignedIn
from tests.browser.test_account import PATH
from tests.browser.test_authorization import sign_in
from tests.processes import Service

MOST_STOPS = 60


def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until an element has the focus; each element on the way must show its focus."""
    expect(wanted).to_have_count(1)
    # A key that is pressed while a page is still loading moves no focus.
    page.wait_for_load_state()
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        expect(focused).to_have_css("outline-style", "solid")
        expect(focused).to_have_css("outline-width", "3px")
        if focused.and_(wanted).count():
            return
    raise AssertionError(f"{wanted} is not reached with {MOST_STOPS} presses of Tab")


def test_an_application_is_revoked(
    page: Page, service: Service, application: Application, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, application.authorize_url())
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")
    token = application.exchange(application.answers[0]["code"])["access_token"]
    page.goto(f"{service.auth_url}/settings")

    tab_to(page, page.get_by_role("navigation").get_by_role("link", name="Connected apps"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Connected apps")
    tab_to(page, page.get_by_role("link", name="Revoke access of Weekly Report"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Revoke this access?")
    tab_to(page, page.get_by_role("button", name="Revoke"))
    page.keyboard.press("Enter")

    expect(page.get_by_role("status")).to_contain_text("The access is revoked.")
    assert application.ask("/api/v1/me", token).status_code == 401


def test_another_browser_is_signed_out(
    page: Page, chromium: Browser, service: Service, person: str, open_signed_in: OpenSignedIn
) -> None:
    with chromium.new_context(
        user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    ) as context:
        other = context.new_page()
        other.goto(f"{service.auth_url}/settings")
        sign_in(other, person)
        expect(other.get_by_text(f"Signed in as {person}")).to_be_visible()
        open_signed_in(page, PATH)

        tab_to(page, page.get_by_role("link", name="Where you are signed in"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Where you are signed in")
        tab_to(page, page.get_by_role("button", name="Sign out Firefox on Linux"))
        page.keyboard.press("Space")
        expect(page.get_by_role("status")).to_have_text("That browser is signed out.")
        other.reload()

        expect(other.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_the_time_zone_is_found_by_a_part_of_its_name(
    page: Page, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, PATH)
    zone = page.get_by_label("Time zone")
    expect(zone).to_have_attribute("list", "zones")
    tab_to(page, zone)
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("kathm")
    # A browser without a window shows no list, so what the page itself answers has to be enough.
    page.keyboard.press("Enter")
    expect(zone).to_have_accessible_description(re.compile(r"Did you mean Asia/Kathmandu\?"))
    tab_to(page, zone)
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("Asia/Kathmandu")
    tab_to(page, page.get_by_role("button", name="Save"))
    page.keyboard.press("Enter")

    expect(page.get_by_role("status")).to_have_text("Your changes are saved.")
    expect(zone).to_have_value("Asia/Kathmandu")
