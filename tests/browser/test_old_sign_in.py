"""A sign-in that becomes too old while a person fills in a form, in a real browser."""

import re
from typing import Any

import psycopg
from playwright.sync_api import Page, expect

from tests.browser.conftest import PASSWORD, OpenSignedIn, with_and_without_scripts
from tests.browser.test_api_access import PATH


@with_and_without_scripts
def test_a_form_keeps_its_values_during_a_confirmation_in_another_tab(
    page: Page, owner: psycopg.Connection[Any], open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("textbox", name="Name").fill("Weekly chart")
    page.get_by_role("radio", name="What I tick").check()
    page.get_by_role("checkbox", name="read:music").check()
    page.get_by_label("When it ends").select_option("Never, until you revoke it")
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")
    page.get_by_role("button", name="Create token").click()

    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Your sign-in is older than 15 minutes")
    expect(page.get_by_role("textbox", name="Name")).to_have_value("Weekly chart")
    with page.context.expect_page() as opened:
        alert.get_by_role("link", name="Confirm in a new tab").click()
    tab = opened.value
    tab.get_by_label("Password").fill(PASSWORD)
    tab.get_by_role("button", name="Confirm", exact=True).click()
    expect(tab.get_by_text("Go back to the tab that you came from")).to_be_visible()
    tab.close()
    page.get_by_role("button", name="Create token").click()

    expect(page.get_by_role("status").first).to_contain_text("Your token is created.")
    page.get_by_role("link", name="I have kept it").click()
    made = page.get_by_role("listitem").filter(has_text="Weekly chart")
    expect(made).to_have_text(re.compile(r"read:music.*Ends\s+Never", re.DOTALL))
    expect(page.get_by_role("link", name="Revoke Weekly chart")).to_have_count(1)
