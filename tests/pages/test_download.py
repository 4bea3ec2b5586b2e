"""Settings → Account → Download: a token for ten minutes."""

import re
from typing import Any

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from resourceserver.export.formats import FORMATS as EXPORT_FORMATS
from tests.cli.terminal import Terminal
from tests.conftest import Person
from tests.oauth.conftest import Opens, Welcome
from tests.oauth.visitor import Visitor, forms

Rows = psycopg.Connection[Any]

PATH = "/settings/account/download"
READING = [
    *("read:activity", "read:code", "read:health", "read:location"),
    *("read:music", "read:content", "read:profile"),
]
TOKEN = re.compile(r"svc_dt_[0-9A-Za-z]{71}")


def tokens_of(owner: Rows) -> int:
    row = owner.execute("select count(*) from oauth.access_token").fetchone()
    assert row is not None
    return int(row[0])


def make(browser: Visitor, **fields: Any) -> Response:
    return browser.submit(browser.get(PATH), form=1, **fields)


def test_all_reading_scopes_are_ticked(alice_browser: Visitor) -> None:
    page = alice_browser.get(PATH)

    assert [value for name, value in forms(page)[1].fields if name == "scope"] == READING
    assert "See which apps and sites you use" in page.text
    assert "ingest:" not in page.text


def test_the_token_is_shown_once_with_a_complete_command(
    alice_browser: Visitor, alice: Person, owner: Rows, status: Opens, terminal: Terminal
) -> None:
    answer = make(alice_browser)

    token = TOKEN.findall(answer.text)[0]
    line = (
        f'curl --fail --header "Authorization: Bearer {token}" '
        "--output activity.json http://testserver/api/v1/export"
    )
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert line in answer.text
    assert set(TOKEN.findall(answer.text)) == {token}
    assert status(token) == 200
    row = owner.execute(
        "select name, oauth.grant.scopes, client_id,"
        " access_token.expires_at - issued_at = interval '10 minutes'"
        "  from oauth.grant join oauth.access_token using (user_id, grant_id)"
    ).fetchone()
    assert row == ("Download", READING, None, True)
    assert TOKEN.search(alice_browser.get(PATH).text) is None
    assert [line[1] for line in terminal.table(f"token list {alice.email}")] == ["Download"]
    assert terminal.table(f"event list {alice.email}")[0][1] == "token_created"


def test_every_format_of_the_export_is_offered(alice_browser: Visitor) -> None:
    answer = make(alice_browser)

    offered = re.findall(r'<option value="(\w+)"', answer.text)

    assert sorted(offered) == sorted(EXPORT_FORMATS)
    assert offered[0] == "json"


def test_the_token_has_only_the_ticked_scopes(alice_browser: Visitor, status: Opens) -> None:
    answer = make(alice_browser, scope=["read:activity"])

    token = TOKEN.findall(answer.text)[0]
    assert status(token) == 403
    days = "/api/v1/analytics/daily?from=2025-06-16&to=2025-06-17"
    assert status(token, days) == 200


def test_the_token_expires_after_ten_minutes(
    alice_browser: Visitor, owner: Rows, status: Opens
) -> None:
    token = TOKEN.findall(make(alice_browser).text)[0]

    owner.execute("update oauth.access_token set expires_at = expires_at - interval '10 minutes'")

    assert status(token) == 401


def test_no_ticked_scope_is_reported_beside_the_boxes(alice_browser: Visitor, owner: Rows) -> None:
    page = make(alice_browser, scope=[])

    assert page.status_code == 400
    assert 'id="scope-problem">Tick at least one.' in page.text
    assert tokens_of(owner) == 0


def test_the_scope_that_every_download_needs_is_required(
    alice_browser: Visitor, owner: Rows
) -> None:
    page = make(alice_browser, scope=["read:music"])

    assert page.status_code == 400
    assert 'id="scope-problem">Tick read:activity too' in page.text
    assert [value for name, value in forms(page)[1].fields if name == "scope"] == ["read:music"]
    assert tokens_of(owner) == 0


def test_only_the_page_with_the_token_may_connect_to_the_resource_server(
    alice_browser: Visitor,
) -> None:
    before = alice_browser.get(PATH)
    answer = make(alice_browser)

    policy = answer.headers["content-security-policy"].split("; ")
    assert "connect-src http://testserver" in policy
    assert "default-src 'none'" in policy
    assert "connect-src" not in before.headers["content-security-policy"]


@pytest.mark.parametrize("scope", ["ingest:app_sessions", "read:everything", "", "a" * 10_000])
def test_only_reading_scopes_are_accepted(alice_browser: Visitor, owner: Rows, scope: str) -> None:
    page = make(alice_browser, scope=["read:activity", scope])

    assert page.status_code == 400
    assert tokens_of(owner) == 0


def test_a_sign_in_that_is_not_fresh_has_to_be_confirmed_first(
    alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(PATH)
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")

    shown = alice_browser.get(PATH)
    sent = alice_browser.submit(page, form=1)

    assert shown.status_code == 303
    assert shown.headers["location"] == "/confirm?next=/settings/account/download"
    assert sent.status_code == 403
    assert tokens_of(owner) == 0


def test_a_stale_form_is_shown_again_with_what_was_ticked(
    alice_browser: Visitor, welcome: Welcome, alice: Person, owner: Rows
) -> None:
    page = welcome(alice).get(PATH)

    again = alice_browser.submit(page, form=1, scope=["read:music"])

    assert again.status_code == 403
    assert "This page was out of date. Please try again." in again.text
    assert [value for name, value in forms(again)[1].fields if name == "scope"] == ["read:music"]
    assert tokens_of(owner) == 0


def test_a_forged_form_creates_no_token(
    alice_browser: Visitor, owner: Rows, server: TestClient
) -> None:
    csrf = dict(forms(alice_browser.get(PATH))[1].fields)["csrf"]

    forged = alice_browser.post(
        PATH, {"csrf": csrf, "scope": "read:music"}, headers={"Origin": "https://evil.example"}
    )

    assert forged.status_code == 403
    assert tokens_of(owner) == 0


def test_a_form_that_is_submitted_twice_creates_one_token(
    alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(PATH)

    ticked = ["read:activity", "read:music"]

    answers = [alice_browser.submit(page, form=1, scope=ticked) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 409]
    assert "This form has created its token already" in answers[1].text
    assert TOKEN.search(answers[1].text) is None
    assert tokens_of(owner) == 1
    assert alice_browser.submit(answers[1], form=1).status_code == 200


def test_a_form_without_a_draft_id_is_refused(alice_browser: Visitor, owner: Rows) -> None:
    assert make(alice_browser, draft=None).status_code == 400
    assert make(alice_browser, draft="a" * 10_000).status_code == 200
    assert tokens_of(owner) == 1


def test_a_person_with_the_most_tokens_can_still_download(
    alice_browser: Visitor, alice: Person, owner: Rows, status: Opens
) -> None:
    for _ in range(100):
        alice.token("read:profile")

    answer = make(alice_browser)

    assert answer.status_code == 200
    assert status(TOKEN.findall(answer.text)[0]) == 200
    assert tokens_of(owner) == 101


def test_an_eleventh_download_token_is_refused(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    for _ in range(109):
        alice.token("read:profile")
    make(alice_browser)

    refused = make(alice_browser, scope=["read:activity", "read:music"])
    owner.execute(
        "update oauth.access_token set expires_at = now() where expires_at < now() + interval '11 minutes'"
    )
    later = make(alice_browser)

    assert refused.status_code == 400
    assert "You made 10 tokens for a download within the last ten minutes." in refused.text
    ticked = [value for name, value in forms(refused)[1].fields if name == "scope"]
    assert ticked == ["read:activity", "read:music"]
    assert later.status_code == 200
    assert tokens_of(owner) == 111


def test_a_download_token_does_not_raise_the_limit_of_api_tokens(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    for _ in range(100):
        alice.token("read:profile")
    make(alice_browser)

    page = alice_browser.get("/settings/api-access")
    refused = alice_browser.submit(
        page, form=1, name="One more", preset="reading", expiry="7", date=""
    )

    assert refused.status_code == 400
    assert "at most 100 API tokens" in refused.text
    assert tokens_of(owner) == 101
