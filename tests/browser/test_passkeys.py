"""Passkeys as a person meets them: a real browser, with an authenticator that its own tools pretend."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from playwright.sync_api import CDPSession, Page, expect

from tests.browser.conftest import (
    PASSWORD,
    OpenSignedIn,
    expect_signed_in,
    with_and_without_scripts,
)
from tests.processes import Service

# Authenticators belong to a page, and so do the scripts that some tests add.
pytestmark = pytest.mark.usefixtures("own_context")

Rows = psycopg.Connection[Any]
PAGE = "/settings/account/sign-in"

AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def authenticator(page: Page) -> tuple[CDPSession, str]:
    """A virtual authenticator of the device, which verifies its user."""
    tools = page.context.new_cdp_session(page)
    tools.send("WebAuthn.enable")
    made = tools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    return tools, made["authenticatorId"]


def add(page: Page, name: str = "This laptop") -> None:
    page.get_by_label("Name of the new passkey").fill(name)
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("status")).to_contain_text("The passkey is added.")


@contextmanager
def caught(page: Page, path: str) -> Iterator[list[str]]:
    """Collect the forms that the page sends to a path."""
    bodies: list[str] = []
    page.on(
        "request",
        lambda request: (
            bodies.append(request.post_data or "")
            if request.method == "POST" and request.url.endswith(path)
            else None
        ),
    )
    yield bodies


def test_a_passkey_is_added_signs_in_confirms_and_is_removed(
    page: Page,
    service: Service,
    open_signed_in: OpenSignedIn,
    authenticator: tuple[CDPSession, str],
    owner: Rows,
) -> None:
    tools, authenticator_id = authenticator
    open_signed_in(page, PAGE)
    expect(page.get_by_label("Name of the new passkey")).to_have_value("Chrome on Linux")
    add(page)
    kept = tools.send("WebAuthn.getCredentials", {"authenticatorId": authenticator_id})
    assert [each["isResidentCredential"] for each in kept["credentials"]] == [True]
    assert kept["credentials"][0]["rpId"] == "localhost"
    page.get_by_role("button", name="Sign out").click()

    page.get_by_role("button", name="Sign in with a passkey").click()
    expect_signed_in(page, service, "alice@example.org")

    owner.execute("update identity.session set authenticated_at = now() - interval '1 hour'")
    page.goto(f"{service.auth_url}{PAGE}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Confirm that it is you")
    page.get_by_role("button", name="Confirm with a passkey").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("How you sign in")
    expect(page.get_by_role("heading", level=3)).to_have_text("This laptop")
    expect(page.get_by_text("not yet")).to_have_count(0)

    page.locator("summary").click()
    page.get_by_role("button", name="Remove this passkey").click()
    expect(page.get_by_role("status")).to_contain_text("The passkey is removed.")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("was not accepted")


def test_the_same_device_is_not_added_twice(
    page: Page, open_signed_in: OpenSignedIn, authenticator: tuple[CDPSession, str]
) -> None:
    open_signed_in(page, PAGE)
    add(page)

    page.get_by_label("Name of the new passkey").fill("Once more")
    page.get_by_role("button", name="Add a passkey").click()

    expect(page.get_by_role("alert")).to_have_text(
        "This device has a passkey for your account already."
    )
    expect(page.get_by_label("Name of the new passkey")).to_have_value("Once more")


def test_a_failed_verification_is_reported_and_can_be_repeated(
    page: Page,
    service: Service,
    open_signed_in: OpenSignedIn,
    authenticator: tuple[CDPSession, str],
) -> None:
    tools, authenticator_id = authenticator
    open_signed_in(page, PAGE)
    add(page)
    page.get_by_role("button", name="Sign out").click()
    whether = {"authenticatorId": authenticator_id, "isUserVerified": False}
    tools.send("WebAuthn.setUserVerified", whether)

    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("alert")).to_have_text(
        "No passkey was used. Try again when you are ready."
    )
    tools.send("WebAuthn.setUserVerified", whether | {"isUserVerified": True})
    page.get_by_role("button", name="Sign in with a passkey").click()

    expect_signed_in(page, service, "alice@example.org")


def test_a_replayed_response_is_refused(
    page: Page,
    service: Service,
    open_signed_in: OpenSignedIn,
    authenticator: tuple[CDPSession, str],
) -> None:
    open_signed_in(page, PAGE)
    add(page)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in?done=signed-out")
    cookies = page.context.cookies()
    with caught(page, "/sign-in") as bodies:
        page.get_by_role("button", name="Sign in with a passkey").click()
        expect_signed_in(page, service, "alice@example.org")

    # An attacker with all of it: the submitted form and the cookie.
    assert page.context.browser is not None
    thief = page.context.browser.new_context()
    thief.add_cookies(
        [
            {"name": each["name"], "value": each["value"], "url": service.auth_url}
            for each in cookies
        ]
    )
    again = thief.request.post(
        f"{service.auth_url}/sign-in",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        data=bodies[0],
        max_redirects=0,
    )
    said = again.text()
    thief.close()

    assert len(bodies) == 1
    assert again.status == 400
    assert "This passkey was not accepted." in said


def test_a_response_for_another_origin_is_refused(
    page: Page,
    service: Service,
    open_signed_in: OpenSignedIn,
    authenticator: tuple[CDPSession, str],
) -> None:
    open_signed_in(page, PAGE)
    add(page)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in?done=signed-out")
    form = page.locator("form[data-passkey]")
    options = form.get_attribute("data-options")
    csrf = form.locator("[name=csrf]").input_value()
    source = (page.request.get(f"{service.auth_url}/static/passkey.js")).text()

    # Another port of the same host has the same passkeys. Its page sends the same request.
    page.goto(f"{service.base_url}/healthz")
    answered = page.evaluate(
        """async ([source, options]) => {
            const form = document.createElement("form");
            form.dataset.passkey = "get";
            form.dataset.options = options;
            const credentialFor = new Function(`${source}; return credentialFor;`)();
            return await credentialFor(form);
        }""",
        [source, options],
    )
    got = page.request.post(
        f"{service.auth_url}/sign-in",
        form={"csrf": csrf, "next": "", "credential": answered},
        max_redirects=0,
    )

    assert json.loads(answered)["type"] == "public-key"
    assert got.status == 400
    assert "This passkey was not accepted." in got.text()


def test_passkeys_work_by_keyboard(
    page: Page, open_signed_in: OpenSignedIn, authenticator: tuple[CDPSession, str]
) -> None:
    open_signed_in(page, PAGE)
    page.get_by_label("Name of the new passkey").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The passkey is added.")
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Remove this passkey")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_role("status")).to_contain_text("The passkey is removed.")


def test_a_passkey_is_added_after_a_confirmation_in_another_tab(
    page: Page,
    open_signed_in: OpenSignedIn,
    authenticator: tuple[CDPSession, str],
    owner: Rows,
) -> None:
    open_signed_in(page, PAGE)
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")
    page.get_by_label("Name of the new passkey").fill("Blue phone")
    page.get_by_role("button", name="Add a passkey").click()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Confirm in a new tab").click()
    opened.value.get_by_label("Password").fill(PASSWORD)
    opened.value.get_by_role("button", name="Confirm", exact=True).click()
    expect(opened.value.get_by_text("Go back to the tab that you came from")).to_be_visible()
    page.bring_to_front()
    expect(page.get_by_label("Name of the new passkey")).to_have_value("Blue phone")
    page.get_by_role("button", name="Add a passkey").click()

    expect(page.get_by_role("status")).to_contain_text("The passkey is added.")
    expect(page.get_by_role("heading", level=3)).to_have_text("Blue phone")


@with_and_without_scripts
def test_passkeys_are_not_offered_where_they_are_not_supported(
    page: Page, service: Service, open_signed_in: OpenSignedIn
) -> None:
    # Without scripts the button does nothing.
    page.add_init_script("delete window.PublicKeyCredential")
    page.goto(f"{service.auth_url}/sign-in")
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Sign in with a passkey")).to_be_hidden()

    open_signed_in(page, PAGE)

    expect(page.get_by_role("button", name="Change password")).to_be_visible()
    expect(page.get_by_role("button", name="Add a passkey")).to_be_hidden()


@with_and_without_scripts
def test_the_password_is_changed_and_confirmed_with(
    page: Page, open_signed_in: OpenSignedIn, owner: Rows
) -> None:
    open_signed_in(page, PAGE)
    page.get_by_label("New password").fill("seven green herons wade")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("status")).to_contain_text("Your password is changed.")
    owner.execute("update identity.session set authenticated_at = now() - interval '1 hour'")

    page.reload()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm", exact=True).click()
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("That did not work.")
    page.get_by_label("Password").fill("seven green herons wade")
    page.get_by_role("button", name="Confirm", exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_have_text("How you sign in")
