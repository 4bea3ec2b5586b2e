"""The first hour of a new person: from the one-time link to a number of their own on a page."""

import re

import psycopg
from playwright.sync_api import Page, expect

from authserver.people import first_account
from tests.browser.conftest import PASSWORD, OpenSignedIn, with_and_without_scripts
from tests.browser.test_api_access import run
from tests.oauth.conftest import store_dashboard
from tests.processes import Service

CREATE = "Create the key and copy its line"
EMAIL = "alice@example.org"


def ticks(page: Page) -> list[str]:
    return page.locator("[data-tick]").all_inner_texts()


@with_and_without_scripts
def test_five_steps_lead_from_the_link_to_a_number(
    page: Page, scripts: bool, service: Service, owner: psycopg.Connection[tuple[object, ...]]
) -> None:
    store_dashboard(owner, service.base_url)
    link = first_account.link(service.settings)
    assert link is not None

    page.goto(link)
    page.get_by_label("E-mail address").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Welcome")
    before = ticks(page)
    page.get_by_role("button", name=CREATE).click()
    expect(page.locator("#line")).to_be_visible()
    with_key = ticks(page)
    status, _ = run(page.locator("#line").inner_text())
    if not scripts:
        page.get_by_role("link", name="Look again").click()
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_url(f"{service.base_url}/")
    tracked = page.locator('[data-figure="tracked_ms"]').first
    expect(tracked).to_be_visible()

    assert status == "200"
    assert before == ["not yet"] * 3
    assert with_key == ["✓ done", "not yet", "not yet"]
    assert 0 < int(tracked.get_attribute("value") or "") <= 5 * 60_000


def test_the_press_that_creates_the_key_copies_the_line_and_a_second_one_does_nothing(
    page: Page, open_signed_in: OpenSignedIn, owner: psycopg.Connection[tuple[object, ...]]
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_signed_in(page, "/welcome")
    page.get_by_role("button", name=CREATE).dblclick()
    expect(page.get_by_text("Copied already: paste it now.")).to_be_visible()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    page.get_by_role("button", name="Copy line").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()

    assert copied == page.locator("#line").inner_text()
    assert owner.execute("select count(*) from oauth.grant").fetchone() == (1,)


def test_the_page_stays_while_the_line_of_a_tracker_is_open(
    page: Page, open_signed_in: OpenSignedIn, service: Service
) -> None:
    open_signed_in(page, "/welcome")
    page.get_by_role("button", name=CREATE).click()
    # A second press would move the focus, if the button has been replaced by then.
    expect(page.get_by_text("The key is created.")).to_be_focused()
    page.locator("[data-tracker] summary").click()
    run(page.locator("#line").inner_text())

    expect(page.get_by_role("link", name="See your day")).to_be_visible()
    assert ticks(page) == ["✓ done"] * 3
    assert page.url == f"{service.auth_url}/welcome"
    assert re.search(r"^SVC_TOKEN=svc_dt_\S+ \S+svc bridge ", page.locator("#tracker").inner_text())


def test_a_page_that_was_signed_out_says_so_and_stops(
    page: Page, open_signed_in: OpenSignedIn, owner: psycopg.Connection[tuple[object, ...]]
) -> None:
    open_signed_in(page, "/welcome")
    owner.execute("delete from identity.session")

    expect(page.get_by_text("You are signed out.")).to_be_visible()
    expect(page.get_by_role("link", name="Look again")).to_be_visible()


def test_the_empty_page_of_today_turns_into_the_day(
    page: Page,
    open_signed_in: OpenSignedIn,
    owner: psycopg.Connection[tuple[object, ...]],
    service: Service,
) -> None:
    store_dashboard(owner, service.base_url)
    open_signed_in(page, "/welcome")
    page.get_by_role("button", name=CREATE).click()
    line = page.locator("#line").inner_text()
    page.get_by_role("link", name="Skip").click()
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("link", name="Create the key")).to_be_visible()
    run(line)

    expect(page.locator('[data-figure="tracked_ms"]').first).to_be_visible()
