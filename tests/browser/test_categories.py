"""Settings → Categories in a real browser, with the mouse and by keyboard."""

from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenSignedIn
from tests.browser.test_keyboard import tab_to

PATH = "/settings/categories"


@pytest.fixture
def recorded(owner: psycopg.Connection[Any], person: str) -> None:
    """Yesterday alice was on a site and in two applications without a category."""
    owner.execute(
        """
        with laptop as (
            insert into activity.device (user_id, name)
            select user_id, 'laptop' from identity.user
            returning user_id, device_id
        )
        insert into activity.app_session (
            user_id, device_id, idempotency_key, app, title, domain, started_at, ended_at
        )
        select user_id, device_id, n::text, app, title, domain,
               now() - n * interval '3 hours',
               now() - n * interval '3 hours' + minutes * interval '1 minute'
          from laptop,
               (
                   values (1, 'Firefox', 'Tide table', 'tides.example', 90),
                          (2, 'Mystery Tool', 'Tide gauge 7', null, 60),
                          (3, 'Other Tool', null, null, 30)
               ) as done (n, app, title, domain, minutes)
        """
    )


@pytest.mark.usefixtures("recorded")
def test_items_without_a_category_get_one_with_one_click_each(
    page: Page, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, PATH)
    expect(page.get_by_role("button", name="Put into")).to_have_count(3)
    page.get_by_label("Put the items that I choose below into").select_option("Reference")

    page.get_by_role("button", name="above: tides.example").click()
    expect(page.get_by_role("status")).to_contain_text("Done.")
    page.get_by_role("button", name="above: Mystery Tool").click()

    expect(page.get_by_role("button", name="Put into")).to_have_count(1)
    expect(page.get_by_label("Put the items that I choose below into")).to_have_value("Reference")
    expect(page.locator("#rules li")).to_contain_text(
        ["Site is tides.example → Reference", "Application is Mystery Tool → Reference"]
    )


@pytest.mark.usefixtures("recorded")
def test_a_rule_is_previewed_added_moved_and_removed_by_keyboard(
    page: Page, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("button", name="above: Other Tool").click()
    expect(page.get_by_role("status")).to_contain_text("Done.")
    tab_to(page, page.get_by_label("What it looks at"))
    page.keyboard.type("Window")
    tab_to(page, page.get_by_label("With what"))
    page.keyboard.type("tide gauge 7")
    # Enter presses the first button of a form: the preview is before the button that adds.
    page.keyboard.press("Enter")

    preview = page.locator(".preview")
    expect(preview).to_contain_text("In the last 30 days this matches 1 h in 1 session")
    expect(preview).to_contain_text("Tide gauge 7 1 h in 1 session, now Uncategorized")
    expect(preview).to_be_in_viewport()
    tab_to(page, page.locator("#category"))
    page.keyboard.type("Field work")
    tab_to(page, page.get_by_role("button", name="Add rule"))
    page.keyboard.press("Enter")
    rules = page.locator("#rules li")
    expect(rules).to_contain_text(["Other Tool", "Window title is tide gauge 7 → Field work"])
    tab_to(page, page.get_by_role("button", name="Move up: Window title is tide gauge 7"))
    page.keyboard.press("Space")
    expect(rules).to_contain_text(["tide gauge 7", "Other Tool"])
    tab_to(page, page.get_by_role("button", name="Remove: Window title is tide gauge 7"))
    page.keyboard.press("Enter")

    expect(rules).to_contain_text(["Other Tool"])
    expect(rules).to_have_count(1)


def test_a_score_is_picked_in_plain_words(page: Page, open_signed_in: OpenSignedIn) -> None:
    open_signed_in(page, PATH)
    scores = page.locator("#scores dl")
    expect(scores).to_contain_text("Games Very distracting")
    page.locator("#scored").fill("Games")
    page.get_by_label("Counts as").select_option("Productive")

    page.get_by_role("button", name="Save").click()

    expect(page.get_by_role("status")).to_contain_text("The score is saved.")
    expect(scores).to_contain_text("Games Productive (usually very distracting)")


def test_a_hostile_expression_is_refused_and_kept(page: Page, open_signed_in: OpenSignedIn) -> None:
    open_signed_in(page, PATH)
    page.get_by_label("How it compares").select_option("matches the expression")
    page.get_by_label("With what").fill("(?=.*(?=.*(?=.*x)))")

    page.get_by_role("button", name="See what it matches").click()

    field = page.get_by_label("With what")
    expect(page.get_by_role("alert")).to_contain_text("See below why.")
    expect(page.locator("#pattern-problem")).to_contain_text("A group may begin with (?:")
    expect(field).to_have_value("(?=.*(?=.*(?=.*x)))")
    expect(field).to_have_attribute("aria-invalid", "true")


@pytest.mark.usefixtures("own_context")
def test_a_long_name_of_a_category_leaves_room_for_its_score(
    page: Page, owner: psycopg.Connection[Any], open_signed_in: OpenSignedIn
) -> None:
    owner.execute("select svc.set_score(user_id, repeat('W', 64), 2) from identity.user")
    page.set_viewport_size({"width": 320, "height": 800})

    open_signed_in(page, PATH)

    score = page.locator("#scores dd").first.bounding_box()
    assert score is not None
    assert score["width"] > 80
    assert page.evaluate("document.documentElement.scrollWidth") == 320
