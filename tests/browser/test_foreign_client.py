"""Authlib's client, with its person's side in a real browser."""

import pytest
from authlib.common.security import generate_token
from authlib.integrations.httpx_client import OAuth2Client
from playwright.sync_api import Page, expect

from tests.browser.conftest import PASSWORD, Application
from tests.processes import Service


@pytest.mark.checklist(2, 17, 24, 31)
def test_authlib_gets_a_token_after_sign_in_and_consent(
    page: Page, service: Service, application: Application, person: str
) -> None:
    metadata = application.http.get(
        f"{service.auth_url}/.well-known/oauth-authorization-server"
    ).json()
    verifier = generate_token(48)
    with OAuth2Client(
        client_id=application.client_id,
        redirect_uri=application.redirect_uri,
        scope="read:activity read:profile",
        code_challenge_method="S256",
        **metadata,
    ) as client:
        url, state = client.create_authorization_url(
            metadata["authorization_endpoint"], code_verifier=verifier
        )
        page.goto(url)
        page.get_by_label("E-mail address").fill(person)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_role("checkbox", name="read:activity").uncheck()
        page.get_by_role("button", name="Allow").click()
        expect(page).to_have_title("Done")

        (answer,) = application.answers
        assert answer["state"] == state
        assert answer["iss"] == metadata["issuer"]
        pair = client.fetch_token(
            code=answer["code"], code_verifier=verifier, redirect_uri=application.redirect_uri
        )

        assert pair["scope"] == "read:profile"
        me = client.get(f"{service.base_url}/api/v1/me")
        assert me.json()["data"]["email"] == "alice@example.org"
        days = "/api/v1/analytics/daily?from=2025-06-16&to=2025-06-17"
        assert client.get(f"{service.base_url}{days}").status_code == 403
