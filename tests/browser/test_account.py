"""Settings → Account in a real browser."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx2
import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from authserver.pages.download import FORMATS
from tests.browser.conftest import (
    PASSWORD,
    OpenSignedIn,
    with_and_without_scripts,
    without_scripts,
)
from tests.browser.test_authorization import sign_in
from tests.processes import Service

PATH: Final = "/settings/account"


def test_a_profile_is_filled_in_with_a_zone_of_the_list(
    page: Page, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, PATH)
    offered = page.locator("#zones option")
    expect(page.get_by_label("Time zone")).to_have_attribute("list", "zones")
    assert offered.count() > 400
    page.get_by_label("Display name").fill("أليس <b>Liddell</b>")
    page.get_by_label("Time zone").fill("Mars/Olympus Mons")
    page.get_by_label("Your week starts on").select_option("Sunday")
    page.get_by_role("button", name="Save").click()

    expect(page.locator("#timezone-problem")).to_contain_text("not the name of a time zone")
    expect(page.get_by_label("Time zone")).to_have_value("Mars/Olympus Mons")
    expect(page.get_by_label("Display name")).to_have_value("أليس <b>Liddell</b>")

    page.get_by_label("Time zone").fill("asia/kathmandu")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("Your changes are saved.")
    expect(page.get_by_label("Time zone")).to_have_value("Asia/Kathmandu")
    expect(page.get_by_label("Your week starts on")).to_have_value("7")
    expect(page.locator("main bdi")).to_have_text("أليس <b>Liddell</b>")


def test_everything_is_reached_from_the_menu_by_links(
    page: Page, service: Service, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, "/settings")
    page.get_by_role("navigation").get_by_role("link", name="Account").click()

    for name, path in (
        ("Where you are signed in", "/sessions"),
        ("What happened", "/events"),
        ("Download your data", "/download"),
        ("Delete your account", "/delete"),
        ("How you sign in", "/sign-in"),
    ):
        page.get_by_role("link", name=name).click()
        expect(page).to_have_url(f"{service.auth_url}{PATH}{path}")
        expect(page.get_by_role("navigation").locator("[aria-current]")).to_have_text("Account")
        page.goto(f"{service.auth_url}{PATH}")


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
        open_signed_in(page, f"{PATH}/sessions")
        expect(page.get_by_role("listitem").filter(has_text="this browser")).to_have_count(1)
        expect(page.get_by_role("heading", name="Firefox on Linux")).to_be_visible()

        page.get_by_role("button", name="Sign out Firefox on Linux").click()
        expect(page.get_by_role("status")).to_have_text("That browser is signed out.")
        other.reload()

        expect(other.get_by_role("heading", level=1)).to_have_text("Sign in")
        expect(page.get_by_role("heading", name="Firefox on Linux")).to_have_count(0)


def test_signing_out_everywhere_includes_this_browser(
    page: Page, service: Service, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, f"{PATH}/sessions")
    page.get_by_role("button", name="Sign out everywhere").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto(f"{service.auth_url}{PATH}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_events_are_listed_with_a_link_to_older_ones(
    page: Page, service: Service, person: str, owner: psycopg.Connection[Any]
) -> None:
    owner.execute(
        """
        insert into identity.security_event (user_id, event, occurred_at)
        select user_id, 'password_changed', timestamptz '2025-06-16 09:00Z' - n * interval '1 day'
          from identity.user, generate_series(1, 60) as n
        """
    )
    page.goto(f"{service.auth_url}{PATH}/events")
    sign_in(page, person)

    expect(page).to_have_url(f"{service.auth_url}{PATH}/events")
    expect(page.get_by_role("main").get_by_role("listitem")).to_have_count(50)
    expect(page.get_by_role("heading", level=2).first).to_have_text("You signed in")
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_role("main").get_by_role("listitem")).to_have_count(11)
    page.get_by_role("link", name="Newest").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("You signed in")


@with_and_without_scripts
def test_a_token_for_the_download_is_shown_once(
    page: Page, scripts: bool, service: Service, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, f"{PATH}/download")
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(7)
    page.get_by_role("checkbox", name="read:location").uncheck()
    page.get_by_role("button", name="Create a token for ten minutes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Your download is ready")
    token = page.locator("#token").inner_text()

    expect(page.get_by_text("in the current folder (less than 1 MB)")).to_be_visible()
    line = page.locator("#curl").inner_text()
    assert line == (
        f'curl --fail --header "Authorization: Bearer {token}" '
        f"--output activity.json {service.base_url}/api/v1/export"
    )
    if scripts:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy line").click()
        expect(page.get_by_role("status").nth(1)).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == line
    else:
        expect(page.get_by_role("button", name="Copy")).to_have_count(0)
    answer = httpx2.get(
        f"{service.base_url}/api/v1/me", headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200
    page.goto(f"{service.auth_url}{PATH}/download")
    expect(page.get_by_text(re.compile("svc_dt_"))).to_have_count(0)


@pytest.fixture
def recorded(owner: psycopg.Connection[Any], person: str) -> None:
    """Alice has used an application."""
    owner.execute(
        """
        with laptop as (
            insert into activity.device (user_id, name)
            select user_id, 'laptop' from identity.user
            returning user_id, device_id
        )
        insert into activity.app_session
               (user_id, device_id, idempotency_key, app, started_at, ended_at)
        select user_id, device_id, 'k1', 'Code', '2025-06-16 09:00Z', '2025-06-16 10:00Z'
          from laptop
        """
    )


def apps(content: bytes) -> list[str]:
    return [row["app"] for row in json.loads(content)["resources"]["app_sessions"]]


@pytest.fixture
def open_download(page: Page, open_signed_in: OpenSignedIn) -> None:
    """The page with the download and its token is open."""
    open_signed_in(page, f"{PATH}/download")
    page.get_by_role("button", name="Create a token for ten minutes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Your download is ready")


@pytest.mark.parametrize(
    ("expected", "shown"),
    [
        (100_000, r"\d+ bytes of about 100\.0 kB \(\d %\)|\d\.\d kB of about 100\.0 kB \(\d %\)"),
        (10, r"[\d.]+ (bytes|kB) so far"),
    ],
)
@pytest.mark.usefixtures("recorded", "open_download")
def test_the_progress_says_how_much_of_the_estimate_has_come(
    page: Page, expected: int, shown: str
) -> None:
    page.evaluate(
        """(expected) => {
          globalThis.shown = [];
          document.querySelector("#format option").dataset.size = expected;
          const progress = document.querySelector("[data-progress]");
          new MutationObserver(() => globalThis.shown.push(progress.textContent)).observe(
            progress, { childList: true },
          );
        }""",
        expected,
    )
    with page.expect_download():
        page.get_by_role("button", name="Download now").click()
    expect(page.get_by_role("status").first).to_contain_text("Downloaded, ")

    texts = [text for text in page.evaluate("globalThis.shown") if text]
    assert texts
    assert all(re.fullmatch(shown, text) for text in texts), texts


@with_and_without_scripts
@pytest.mark.usefixtures("recorded", "open_download")
def test_the_button_downloads_everything(page: Page, scripts: bool) -> None:
    button = page.get_by_role("button", name="Download now")
    if not scripts:
        expect(button).to_have_count(0)
        return

    button.focus()
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")

    size = len(waiting.value.path().read_bytes())
    assert size < 10_000
    expect(page.get_by_role("status").first).to_have_text(
        f"Downloaded, {size / 1000:.1f} kB" if size >= 1000 else f"Downloaded, {size} bytes"
    )
    name = waiting.value.suggested_filename
    assert re.fullmatch(r"activity-export-\d{4}-\d\d-\d\d\.json", name)
    assert apps(waiting.value.path().read_bytes()) == ["Code"]


@pytest.mark.usefixtures("recorded", "open_download")
def test_each_format_is_downloaded_without_being_held_in_memory(page: Page) -> None:
    # These would hold the whole file.
    page.evaluate(
        "for (const whole of ['blob', 'arrayBuffer', 'text', 'bytes']) delete Response.prototype[whole]"
    )
    begin = {}
    for chosen in page.locator("#format option").all():
        chosen_format = chosen.get_attribute("value") or ""
        page.get_by_label("Format").select_option(chosen_format)
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Download now").click()
        assert waiting.value.suggested_filename.endswith(f".{chosen_format}")
        begin[chosen_format] = waiting.value.path().read_bytes()
        expect(page.get_by_role("status").first).to_contain_text("Downloaded, ")

    assert begin.keys() == FORMATS.keys()
    assert apps(begin["json"]) == ["Code"]
    assert begin["zip"].startswith(b"PK")
    for lines in (begin["csv"], begin["ndjson"]):
        assert b"Code" in lines
        assert len(lines.splitlines()) > 1


@without_scripts
@pytest.mark.usefixtures("recorded", "open_download")
def test_the_line_downloads_everything(page: Page, tmp_path: Path) -> None:
    line = page.locator("#curl").inner_text()

    subprocess.run(["/bin/sh", "-c", f"{line} -sS"], cwd=tmp_path, check=True, timeout=60)

    assert apps((tmp_path / "activity.json").read_bytes()) == ["Code"]


@pytest.mark.usefixtures("open_download")
def test_a_refused_download_shows_the_reason(page: Page, owner: psycopg.Connection[Any]) -> None:
    owner.execute("update oauth.grant set revoked_at = now()")

    page.get_by_role("button", name="Download now").click()

    expect(page.get_by_role("status").first).to_contain_text("revoked, expired")


def test_an_account_is_deleted_by_keyboard_and_its_address_can_join_again(
    page: Page,
    service: Service,
    person: str,
    owner: psycopg.Connection[Any],
    open_signed_in: OpenSignedIn,
) -> None:
    open_signed_in(page, f"{PATH}/delete")
    field = page.get_by_label("Your e-mail address")
    field.focus()
    page.keyboard.type("alice@example.com")
    page.keyboard.press("Enter")
    expect(page.locator("#email-problem")).to_contain_text("not the e-mail address of your account")
    expect(field).to_have_value("alice@example.com")

    field.fill("")
    page.keyboard.type(person)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Delete my account for good")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Goodbye")

    assert owner.execute("select count(*) from identity.user").fetchone() == (0,)
    page.goto(f"{service.auth_url}{PATH}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    sign_in(page, person, PASSWORD)
    expect(page.get_by_role("alert")).to_contain_text("That did not work")


def test_deleting_asks_for_the_password_again_after_a_while(
    page: Page, service: Service, owner: psycopg.Connection[Any], open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, PATH)
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")
    page.get_by_role("link", name="Delete your account").click()
    expect(page).to_have_url(re.compile("/confirm"))
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{service.auth_url}{PATH}/delete")
    page.get_by_role("link", name="Keep it").click()
    expect(page).to_have_url(f"{service.auth_url}{PATH}")
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)
