"""Consent with an end: the grant and every token of it end then."""

from typing import Any

import psycopg
import pytest

from tests.oauth.conftest import Opens
from tests.oauth.visitor import Application, Visitor, forms, parameters

Rows = psycopg.Connection[Any]


def allowed(application: Application, browser: Visitor, **fields: Any) -> dict[str, Any]:
    """Consent with these fields of the form and return the token response."""
    page = browser.follow(browser.get(application.authorize_path()))
    response = browser.submit(page, decision="allow", **fields)
    body: dict[str, Any] = application.exchange(parameters(response)["code"][0]).json()
    return body


def pass_time(owner: Rows, interval: str) -> None:
    """Let time pass for grants and tokens."""
    later = "set expires_at = expires_at - %s::interval"
    owner.execute("update oauth.grant " + later, [interval])
    owner.execute("update oauth.access_token " + later, [interval])
    owner.execute("update oauth.refresh_token " + later, [interval])


@pytest.mark.parametrize(
    ("days", "end"), [("30", "30 days"), ("1", "1 day"), ("", None), (None, None)]
)
def test_the_person_chooses_when_access_ends(
    application: Application, alice_browser: Visitor, owner: Rows, days: str | None, end: str | None
) -> None:
    allowed(application, alice_browser, days=days)

    row = owner.execute(
        "select oauth.grant.expires_at - created_at = %s::interval, "
        "refresh_token.expires_at = coalesce(oauth.grant.expires_at, issued_at + interval '90 days') "
        "from oauth.grant join oauth.refresh_token using (user_id, grant_id)",
        [end],
    ).fetchone()
    settings = alice_browser.get("/settings/apps")

    assert row == (None if end is None else True, True)
    assert ("<dt>Until</dt>" in settings.text) is (end is not None)


def test_other_numbers_of_days_are_refused(
    application: Application, alice_browser: Visitor
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    response = alice_browser.submit(page, decision="allow", days="31")

    assert response.status_code == 400


def test_a_form_with_a_problem_keeps_the_choice(
    application: Application, alice_browser: Visitor
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    again = alice_browser.submit(page, decision="allow", days="1", scope=None)

    assert again.status_code == 400
    assert ("days", "1") in forms(again)[0].fields


def test_no_token_is_valid_after_the_end(
    application: Application, alice_browser: Visitor, owner: Rows, status: Opens
) -> None:
    first = allowed(application, alice_browser, days="1")
    pass_time(owner, "23 hours 30 minutes")
    second = application.refresh(first["refresh_token"]).json()
    before = status(second["access_token"])
    pass_time(owner, "30 minutes")

    late = application.refresh(second["refresh_token"])

    assert first["expires_in"] == 3600
    assert second["expires_in"] in range(1, 1801)
    assert before == 200
    assert status(second["access_token"]) == 401
    assert late.json() == {
        "error": "invalid_grant",
        "error_description": "The refresh_token has expired.",
    }
    assert "Weekly Report" not in alice_browser.get("/settings/apps").text


def test_tokens_that_do_not_know_the_end_are_refused_after_it(
    application: Application, alice_browser: Visitor, owner: Rows, status: Opens
) -> None:
    pair = allowed(application, alice_browser)
    # A server of an earlier version issues tokens without regard to the end.
    owner.execute("update oauth.grant set expires_at = now()")

    refused = application.refresh(pair["refresh_token"])

    assert refused.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401
    assert "Weekly Report" not in alice_browser.get("/settings/apps").text
