"""Settings → Connections in a real browser: a key is shown once, and the page waits for the first record."""

import re
from typing import Any, Final

import psycopg
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenSignedIn, with_and_without_scripts

Rows = psycopg.Connection[Any]

PATH: Final = "/settings/connections"


def receive(owner: Rows) -> None:
    """Note a first record, as a receiver does."""
    owner.execute(
        """
        update profile.connection
           set first_record_at = now(),
               last_record_at = now(),
               record_count = 1
        """
    )


@with_and_without_scripts
def test_the_page_with_the_key_says_when_the_first_record_has_arrived(
    page: Page, open_signed_in: OpenSignedIn, owner: Rows, scripts: bool
) -> None:
    open_signed_in(page, f"{PATH}?new=overland")
    page.get_by_label("Name", exact=True).fill("My phone")
    page.get_by_role("button", name="Make its key").click()
    key = page.locator("code", has_text=re.compile("^svc_ik_"))
    expect(key).to_have_count(1)
    expect(page.get_by_role("img", name="QR code that sets up Overland")).to_be_visible()
    state = page.locator("#state")
    expect(state).to_contain_text("waiting")

    receive(owner)
    if not scripts:
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Look again in a new tab").click()
        state = opened.value.locator("#state")

    # With a script the page looks every three seconds by itself, and the key stays where it is.
    expect(state).to_contain_text("Received: the first record arrived")
    expect(key).to_have_count(1)


def test_a_key_is_copied_and_is_gone_after_a_reload(
    page: Page, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, f"{PATH}?new=listenbrainz")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Make its key").click()
    key = page.locator("code", has_text=re.compile("^svc_ik_")).inner_text()
    page.get_by_role("button", name="Copy: User token").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")

    page.reload()

    assert copied == key
    expect(page.get_by_role("alert")).to_contain_text("This form has added its connection already.")
    assert key not in page.content()


def test_a_secret_is_in_no_field_of_the_form_that_is_shown_again(
    page: Page, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, f"{PATH}?new=calendar")
    page.get_by_label("Address", exact=True).fill("http://calendar.example/secret.ics")
    page.get_by_label("User name").fill("al")
    page.get_by_role("button", name="Connect").click()

    address = page.get_by_label("Address", exact=True)
    expect(address).to_have_accessible_description(
        re.compile("The address must begin with https:// or webcal://")
    )
    expect(address).to_have_value("")
    expect(address).to_have_attribute("type", "password")
    expect(page.get_by_label("User name")).to_have_value("al")
    assert "secret.ics" not in page.content()
