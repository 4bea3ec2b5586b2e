"""Sign-in through a real provider, oidc-provider, on this machine.

``make proof`` installs it and runs these tests.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page, expect

from shared.settings import Provider, Settings
from tests import processes
from tests.browser.conftest import (
    PASSWORD,
    Application,
    expect_signed_in,
    with_and_without_scripts,
)
from tests.processes import Service

DIRECTORY = Path(__file__).parent / "provider"
NAME = "Example"
METHODS = "/settings/account/sign-in"

pytestmark = pytest.mark.provider

Rows = psycopg.Connection[Any]


@pytest.fixture(scope="package")
def installed(request: pytest.FixtureRequest) -> str:
    """The program that runs the provider."""
    node = shutil.which("node")
    if node is not None and (DIRECTORY / "node_modules" / "oidc-provider").is_dir():
        return node
    if request.config.getoption("--hypothesis-profile") in ("bounded", "proof"):
        pytest.fail("the provider is not installed; make proof does it", pytrace=False)
    pytest.skip("the provider is not installed; make proof does it, and runs this")


@pytest.fixture(scope="package")
def issuer(
    installed: str, deployment: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Both servers and the provider; the operator allows the domain example.org."""
    directory = tmp_path_factory.mktemp("provider")
    (port,) = processes.free_ports(1)
    chosen = Provider(
        issuer=f"http://localhost:{port}",
        client_id="svc",
        client_secret="a secret: with/signs+and %",
        name=NAME,
        domains=("example.org",),
    )
    with processes.service(replace(deployment, provider=chosen), directory) as service:
        command = [
            *(installed, "provider.mjs", str(port), chosen.client_id, chosen.client_secret),
            f"{service.auth_url}/sign-in/provider/callback",
            f"{service.auth_url}/sign-in/provider/logout",
        ]
        log = directory / "provider.log"
        with (
            log.open("wb") as written,
            subprocess.Popen(
                command,
                cwd=DIRECTORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
            ) as provider,
        ):
            assert provider.stdout is not None
            assert provider.stdout.readline() == b"ready\n", log.read_text()
            yield service
            provider.terminate()


@pytest.fixture
def service(issuer: Service) -> Service:
    """The servers with a provider, for the fixtures of this folder."""
    return issuer


@pytest.fixture
def bob(owner: Rows) -> str:
    """A person with an account."""
    owner.execute("insert into identity.user (email) values ('bob@example.org')")
    return "bob@example.org"


def through_provider(page: Page, address: str, words: str = "Sign in with") -> None:
    page.get_by_role("button", name=f"{words} {NAME}").click()
    expect(page).to_have_title("Who are you?")
    page.get_by_label("Address").fill(address)
    page.get_by_role("button", name="Continue").click()


def sign_in_by_password(page: Page, email: str) -> None:
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


@with_and_without_scripts
def test_a_new_person_of_a_listed_domain_reaches_the_requesting_application(
    page: Page, service: Service, application: Application, bob: str
) -> None:
    page.goto(application.authorize_url())
    through_provider(page, "alice@example.org")
    expect(page.get_by_role("heading", level=1)).to_have_text("Allow access to your data?")
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")

    pair = application.exchange(application.answers[0]["code"])
    me = application.ask("/api/v1/me", pair["access_token"])
    assert me.json()["data"]["email"] == "alice@example.org"
    assert me.json()["data"]["is_admin"] is False


def test_after_connecting_one_click_signs_in(page: Page, service: Service, person: str) -> None:
    page.goto(f"{service.auth_url}/sign-in?next={METHODS}")
    sign_in_by_password(page, person)
    through_provider(page, "alice@elsewhere.example", words="Connect")
    expect(page.get_by_role("status")).to_contain_text("It is connected.")
    expect(page.get_by_text("alice@elsewhere.example")).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    # The provider has a session of its own by now, so it shows no form.
    page.get_by_role("button", name=f"Sign in with {NAME}").click()
    expect_signed_in(page, service, person)

    page.goto(f"{service.auth_url}{METHODS}")
    page.get_by_role("button", name=f"Disconnect {NAME}").click()
    expect(page.get_by_role("status")).to_contain_text("It is disconnected.")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name=f"Sign in with {NAME}").click()
    expect(page.get_by_role("alert").first).to_contain_text("No account here is connected")


def test_an_address_that_has_an_account_does_not_open_it(
    page: Page, service: Service, person: str
) -> None:
    page.goto(f"{service.auth_url}/settings")
    through_provider(page, person)
    expect(page.get_by_role("alert").first).to_contain_text("There is an account here")
    sign_in_by_password(page, person)

    expect(page.get_by_text(f"Signed in as {person}")).to_be_visible()


@pytest.mark.parametrize("address", ["alice@elsewhere.example", "unverified@example.org"])
def test_people_without_an_invitation_see_that_they_need_one(
    page: Page, service: Service, bob: str, owner: Rows, address: str
) -> None:
    page.goto(f"{service.auth_url}/settings")
    through_provider(page, address)
    expect(page.get_by_role("alert").first).to_contain_text("for an invitation")

    assert owner.execute("select email from identity.user").fetchall() == [(bob,)]


def test_an_invited_person_joins(
    page: Page, service: Service, deployment: Settings, bob: str
) -> None:
    logins = processes.role_urls(service.settings, processes.AUTH_ROLES)
    page.goto(processes.run(["user", "invite"], service.settings, logins))
    page.get_by_label("Time zone").fill("Asia/Kathmandu")
    through_provider(page, "unverified@elsewhere.example", words="Join with")

    expect_signed_in(page, service, "unverified@elsewhere.example")
    expect(page.get_by_text("Your days begin in the time zone Asia/Kathmandu")).to_be_visible()


def test_cancelling_at_the_provider_returns_to_the_start(
    page: Page, service: Service, application: Application, person: str
) -> None:
    page.goto(application.authorize_url())
    page.get_by_role("button", name=f"Sign in with {NAME}").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("alert").first).to_contain_text("nothing has changed here")
    sign_in_by_password(page, person)

    expect(page.get_by_role("heading", level=1)).to_have_text("Allow access to your data?")


def test_the_back_button_after_sign_in_is_harmless(page: Page, service: Service, bob: str) -> None:
    page.goto(f"{service.auth_url}/settings")
    through_provider(page, "alice@example.org")
    expect(page.get_by_text("Signed in as alice@example.org")).to_be_visible()
    page.go_back()
    # Its question is answered.
    expect(page).to_have_title("This is over")
    page.go_back()

    expect(page.get_by_text("Signed in as alice@example.org")).to_be_visible()
    page.goto(f"{service.auth_url}/sign-in/provider/callback?state=x&code=y")
    expect_signed_in(page, service, "alice@example.org")


def test_going_back_to_the_provider_and_forward_does_not_sign_out(
    page: Page, service: Service, bob: str
) -> None:
    page.goto(f"{service.auth_url}/settings")
    through_provider(page, "alice@example.org")
    expect(page.get_by_text("Signed in as alice@example.org")).to_be_visible()
    page.go_back()
    expect(page).to_have_title("This is over")
    page.go_forward()

    expect(page.get_by_text("Signed in as alice@example.org")).to_be_visible()


def test_two_tabs_at_the_provider_both_reach_their_pages(
    page: Page, service: Service, application: Application, bob: str
) -> None:
    other = page.context.new_page()
    page.goto(application.authorize_url(state="one"))
    other.goto(application.authorize_url(state="two"))
    for tab in (page, other):
        tab.get_by_role("button", name=f"Sign in with {NAME}").click()
        expect(tab).to_have_title("Who are you?")
    for tab in (page, other):
        tab.get_by_label("Address").fill("alice@example.org")
        tab.get_by_role("button", name="Continue").click()
        expect(tab.get_by_role("heading", level=1)).to_have_text("Allow access to your data?")
    other.get_by_role("button", name="Decline").click()
    expect(other).to_have_title("Done")
    page.get_by_role("button", name="Allow").click()
    expect(page).to_have_title("Done")

    assert [answer["state"] for answer in application.answers] == ["two", "one"]
    assert "code" in application.answers[1]


def test_an_account_with_only_the_provider_confirms_there(
    page: Page, service: Service, bob: str, owner: Rows
) -> None:
    page.goto(f"{service.auth_url}/settings")
    through_provider(page, "alice@example.org")
    expect(page.get_by_text("Signed in as alice@example.org")).to_be_visible()
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")
    page.goto(f"{service.auth_url}{METHODS}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Confirm that it is you")
    # It shows its form again, in spite of its own session.
    through_provider(page, "alice@example.org", words="Confirm with")

    expect(page.get_by_role("heading", level=1)).to_have_text("How you sign in")
    expect(page.get_by_text("This is your only way to sign in")).to_be_visible()


def test_signing_out_at_the_provider_signs_out_here(
    page: Page, service: Service, bob: str, owner: Rows
) -> None:
    page.goto(f"{service.auth_url}/settings")
    through_provider(page, "alice@example.org")
    expect(page.get_by_text("Signed in as alice@example.org")).to_be_visible()
    assert service.settings.provider is not None
    page.goto(f"{service.settings.provider.issuer}/session/end")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_title("Signed out")

    page.goto(f"{service.auth_url}/settings")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert owner.execute("select from identity.session").fetchall() == []
