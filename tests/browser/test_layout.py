"""Properties of pages that only a browser shows: layout on small screens and on paper, and small scripts."""

from typing import Any

import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from authserver.people import first_account
from tests.browser.conftest import OpenSignedIn
from tests.processes import Service

SETTINGS = (
    "/settings",
    "/settings/api-access",
    "/settings/apps",
    "/settings/connections",
    "/settings/categories",
    "/settings/goals",
    "/settings/devices",
    "/settings/account",
)


@pytest.mark.usefixtures("own_context")
def test_on_a_phone_the_header_is_one_row_and_the_menu_opens(
    page: Page, open_signed_in: OpenSignedIn
) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    open_signed_in(page, "/settings")
    header = page.locator("header").bounding_box()
    link = page.get_by_role("navigation").get_by_role("link", name="Connected apps")
    hidden = link.count()

    page.get_by_role("button", name="Menu").press("Enter")
    expect(link).to_be_visible()
    link.click()

    assert header is not None
    assert header["height"] < 64
    assert hidden == 0
    expect(page.get_by_role("heading", level=1)).to_have_text("Connected apps")


@pytest.mark.usefixtures("own_context")
def test_at_200_percent_no_page_is_wider_than_the_window(
    page: Page, open_signed_in: OpenSignedIn, service: Service
) -> None:
    # A window of 1280 pixels at 200 %.
    page.set_viewport_size({"width": 640, "height": 400})
    open_signed_in(page, "/settings")

    for path in SETTINGS:
        page.goto(f"{service.auth_url}{path}")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 640, path


@pytest.mark.usefixtures("own_context")
def test_on_paper_there_is_the_content_alone(page: Page, open_signed_in: OpenSignedIn) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    open_signed_in(page, "/settings/account/events")

    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("header")).to_be_hidden()
    colours = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert colours == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]


@pytest.mark.parametrize(("has_scripts", "zone"), [(True, "Europe/Berlin"), (False, "UTC")])
def test_the_time_zone_of_a_new_account_is_that_of_the_browser(
    chromium: Browser,
    service: Service,
    owner: psycopg.Connection[Any],
    has_scripts: bool,
    zone: str,
) -> None:
    link = first_account.link(service.settings)
    assert link is not None
    context = chromium.new_context(timezone_id="Europe/Berlin", java_script_enabled=has_scripts)
    page = context.new_page()
    page.goto(link)

    expect(page.get_by_label("Time zone")).to_have_value(zone)

    context.close()
