"""API access and connected apps in a real browser."""

import json
import re
import subprocess

from playwright.sync_api import Page, expect

from tests.browser.conftest import Application, OpenSignedIn, with_and_without_scripts
from tests.processes import Service

PATH = "/settings/api-access"


def run(line: str) -> tuple[str, str]:
    """Return status and body of the answer to a ``curl`` line, as a terminal runs it."""
    shown = subprocess.run(
        ["/bin/sh", "-c", f"{line} -sS -w '\\n%{{http_code}}'"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    body, _, status = shown.rpartition("\n")
    return status, body


@with_and_without_scripts
def test_a_token_is_created_used_and_revoked(page: Page, open_signed_in: OpenSignedIn) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("textbox", name="Name").fill("Weekly chart")
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.get_by_role("radio", name="What I tick").check()
    page.get_by_role("checkbox", name="read:profile").check()
    page.get_by_label("When it ends").select_option("Never, until you revoke it")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("status").first).to_contain_text("Your token is created.")
    line = page.locator("#curl").inner_text()
    token = page.locator("#token").inner_text()

    used = run(line)
    page.get_by_role("link", name="I have kept it").click()
    page.get_by_role("heading", name="Weekly chart").click()
    expect(page.get_by_text(f"svc_dt_…{token[-4:]}")).to_be_visible()
    expect(page.get_by_text(token)).to_have_count(0)
    page.get_by_role("link", name="Revoke Weekly chart").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Revoke this token?")
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status")).to_contain_text("The token is revoked.")
    refused = run(line)

    assert used[0] == "200"
    assert '"email":"alice@example.org"' in used[1].replace(" ", "")
    assert refused[0] == "401"


def test_the_line_for_a_tracker_works(page: Page, open_signed_in: OpenSignedIn) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("textbox", name="Name").fill("My tracker")
    page.get_by_role("radio", name="A tracker").check()
    page.get_by_role("button", name="Create token").click()

    line = page.locator("#curl").inner_text()
    answers = [run(line), run(line)]

    # The event is real: repeating the line finds it there.
    assert [status for status, _ in answers] == ["200", "200"]
    counts = [json.loads(body) for _, body in answers]
    assert [(each["accepted"], each["duplicates"]) for each in counts] == [(1, 0), (0, 1)]


def test_the_line_for_days_works(page: Page, open_signed_in: OpenSignedIn) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("textbox", name="Name").fill("Chart")
    page.get_by_role("radio", name="What I tick").check()
    page.get_by_role("checkbox", name="read:activity").check()
    page.get_by_role("button", name="Create token").click()

    status, _ = run(page.locator("#curl").inner_text())

    assert status == "200"


@with_and_without_scripts
def test_copy_buttons_work_and_need_scripts(
    page: Page, scripts: bool, open_signed_in: OpenSignedIn
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_signed_in(page, PATH)
    page.get_by_role("textbox", name="Name").fill("Weekly chart")
    page.get_by_role("radio", name="All reading").check()
    page.get_by_role("button", name="Create token").click()
    token = page.locator("#token").inner_text()
    button = page.get_by_role("button", name="Copy token")

    if scripts:
        button.click()
        expect(page.get_by_text("Copied", exact=True)).to_be_visible()
        copied = page.evaluate("() => navigator.clipboard.readText()")
        assert copied == token
    else:
        expect(page.locator("[data-copy]")).to_have_count(2)
        expect(page.locator("[data-copy]").first).to_be_hidden()
    assert re.fullmatch(r"svc_dt_[0-9A-Za-z]{71}", token)


@with_and_without_scripts
def test_a_mistake_is_reported_beside_its_field_and_all_values_kept(
    page: Page, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("textbox", name="Name").fill("Weekly chart")
    page.get_by_role("radio", name="What I tick").check()
    page.get_by_role("checkbox", name="read:music").check()
    page.get_by_label("When it ends").select_option("At the end of a day that you choose")
    page.get_by_label("Its last day").fill("2020-01-31")
    page.get_by_role("button", name="Create token").click()

    expect(page.get_by_role("alert")).to_contain_text("The token was not created.")
    expect(page.get_by_label("Its last day")).to_have_accessible_description(
        re.compile("That day is over")
    )
    expect(page.get_by_label("Its last day")).to_have_value("2020-01-31")
    expect(page.get_by_role("textbox", name="Name")).to_have_value("Weekly chart")
    expect(page.get_by_role("checkbox", name="read:music")).to_be_checked()
    page.get_by_label("When it ends").select_option("After 7 days")
    expect(page.get_by_label("Its last day")).to_be_hidden()
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#token")).to_be_visible()


@with_and_without_scripts
def test_a_double_click_creates_one_token(
    page: Page, scripts: bool, service: Service, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("textbox", name="Name").fill("Weekly chart")
    page.get_by_role("radio", name="All reading").check()
    page.get_by_role("button", name="Create token").dblclick()

    # With scripts the second click does nothing. Without, its answer may be the one that is seen, and
    # says what happened.
    seen = "#token" if scripts else "#token, [role=alert]"
    expect(page.locator(seen)).to_be_visible()
    page.goto(f"{service.auth_url}{PATH}")
    expect(page.get_by_role("link", name="Revoke Weekly chart")).to_have_count(1)


def test_with_scripts_a_form_is_submitted_once(page: Page, open_signed_in: OpenSignedIn) -> None:
    open_signed_in(page, PATH)

    are_sent = page.evaluate(
        """() => {
            const form = document.querySelector("[data-once]");
            const send = () => form.dispatchEvent(new SubmitEvent("submit", {cancelable: true}));
            const first = [send(), send()];
            dispatchEvent(new PageTransitionEvent("pageshow"));
            return [...first, send()];
        }"""
    )

    assert are_sent == [True, False, True]


def test_a_token_is_created_by_keyboard(page: Page, open_signed_in: OpenSignedIn) -> None:
    open_signed_in(page, PATH)
    page.get_by_role("textbox", name="Name").focus()
    page.keyboard.type("Weekly chart")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(page.get_by_label("When it ends")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Create token")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.locator("#token")).to_be_visible()


def test_an_application_is_listed_and_revoked(
    page: Page, service: Service, application: Application, open_signed_in: OpenSignedIn
) -> None:
    open_signed_in(page, application.authorize_url())
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")
    pair = application.exchange(application.answers[0]["code"])
    before = application.ask("/api/v1/me", pair["access_token"]).status_code

    page.goto(f"{service.auth_url}/settings/apps")
    expect(page.get_by_role("heading", name="Weekly Report")).to_be_visible()
    page.get_by_role("link", name="Revoke access of Weekly Report").click()
    page.get_by_role("link", name="Keep it").click()
    expect(page.get_by_role("heading", name="Weekly Report")).to_be_visible()
    meanwhile = application.ask("/api/v1/me", pair["access_token"]).status_code
    page.get_by_role("link", name="Revoke access of Weekly Report").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No application has access to your data.")).to_be_visible()
    after = application.ask("/api/v1/me", pair["access_token"]).status_code

    assert (before, meanwhile, after) == (200, 200, 401)
