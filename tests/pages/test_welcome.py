"""The first steps of a new person: a key, a line to paste, and the first event."""

import html
import re
from typing import Any, Final

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from shared.settings import Settings
from tests.conftest import Person
from tests.endpoints.test_app_usage import event
from tests.endpoints.test_devices import send
from tests.oauth.conftest import PASSWORD
from tests.oauth.visitor import Visitor, forms

Rows = psycopg.Connection[Any]

PATH: Final = "/welcome"
SEEN: Final = "/welcome/seen"
ANOTHER: Final = "/welcome/another"
FORM: Final = 1
"""The second form; the first one signs out."""


@pytest.fixture
def add_event(api: TestClient, alice: Person) -> Any:
    """Adds an event to alice's data, with a token of its own."""

    def add() -> None:
        send(api, alice, "app-sessions", "aw-bridge/1", event("Code", "09:00:00", "10:00:00"))

    return add


def ticks(page: Response) -> list[str]:
    """Return what each step says."""
    return re.findall(r'<span class="tag" data-tick>([^<]+)</span>', page.text)


def keys_of(owner: Rows, person: Person) -> list[tuple[str, list[str]]]:
    return owner.execute(
        "select name, scopes from oauth.grant where user_id = %s and client_id is null",
        [person.user_id],
    ).fetchall()


def test_the_steps_of_a_new_person_lead_to_the_dashboard(
    alice_browser: Visitor, alice: Person, owner: Rows, add_event: Any, settings: Settings
) -> None:
    page = alice_browser.get(PATH)
    created = alice_browser.submit(page, form=FORM)
    line = re.search(r'id="line">([^<]+)</code>', created.text)
    keys = keys_of(owner, alice)
    add_event()
    after = alice_browser.get(PATH)

    assert ticks(page) == ["not yet"] * 3
    assert ticks(created) == ["✓ done", "not yet", "not yet"]
    assert line is not None
    assert f"{settings.base_url}/api/v1/ingest/app-sessions" in html.unescape(line[1])
    assert [scopes for _, scopes in keys] == [["ingest:app_sessions", "ingest:coding_sessions"]]
    assert after.status_code == 303
    assert after.headers["location"] == f"{settings.base_url}/"


def test_a_key_has_the_name_of_the_browser(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    page = alice_browser.get(PATH)
    values = dict(forms(page)[FORM].fields)
    alice_browser.post(PATH, values, headers={"User-Agent": firefox})
    unreadable = dict(forms(alice_browser.get(PATH))[FORM].fields)
    alice_browser.post(PATH, unreadable, headers={"User-Agent": "\u202e".encode()})

    names = {name for name, _ in keys_of(owner, alice)}
    assert "My computer (Firefox on Linux)" in names
    assert len(names) == 2


def test_the_script_of_the_page_sees_each_step(
    alice_browser: Visitor, alice: Person, owner: Rows, add_event: Any
) -> None:
    before = alice_browser.get(SEEN)
    alice_browser.submit(alice_browser.get(PATH), form=FORM)
    with_key = alice_browser.get(SEEN)
    owner.execute("update oauth.grant set last_used_at = now() where client_id is null")
    used = alice_browser.get(SEEN)
    add_event()
    after = alice_browser.get(SEEN)

    assert before.headers["cache-control"] == "no-store"
    assert before.json() == {"key": False, "line": False, "event": False}
    assert with_key.json() == {"key": True, "line": False, "event": False}
    assert used.json() == {"key": True, "line": True, "event": False}
    assert after.json() == {"key": True, "line": True, "event": True}


def test_what_other_people_did_does_not_count(
    alice_browser: Visitor, bob: Person, api: TestClient
) -> None:
    send(api, bob, "app-sessions", "aw-bridge/1", event("Code", "09:00:00", "10:00:00"))

    assert alice_browser.get(SEEN).json() == {"key": False, "line": False, "event": False}


def test_a_token_that_only_reads_and_a_revoked_one_are_no_keys(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    alice.token("read:activity")
    alice_browser.submit(alice_browser.get(PATH), form=FORM)
    owner.execute("update oauth.grant set revoked_at = now() where name like 'My computer%'")

    assert alice_browser.get(SEEN).json()["key"] is False


def test_without_sign_in_the_page_leads_there_and_back(
    visitor: Visitor, alice_browser: Visitor, alice: Person
) -> None:
    sent = [visitor.get(path) for path in (PATH, ANOTHER)]
    refused = visitor.get(SEEN)
    page = visitor.follow(sent[0])
    back = visitor.submit(page, email=alice.email, password=PASSWORD)

    assert [each.headers["location"] for each in sent] == [
        "/sign-in?next=/welcome",
        "/sign-in?next=/welcome/another",
    ]
    assert (refused.status_code, "signed out" in refused.json()["problem"]) == (401, True)
    assert back.headers["location"] == PATH
    assert visitor.follow(back).status_code == 200


def test_a_form_that_is_submitted_twice_creates_one_key_and_says_so(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    page = alice_browser.get(PATH)
    first = alice_browser.submit(page, form=FORM)
    second = alice_browser.submit(page, form=FORM)
    later = alice_browser.get(PATH)

    assert (first.status_code, second.status_code) == (200, 409)
    assert "has created its key already" in second.text
    assert 'id="line"' not in second.text
    assert len(keys_of(owner, alice)) == 1
    assert "svc_dt_" not in later.text
    assert "create another key" in later.text


def test_a_full_account_a_forged_form_and_an_old_sign_in_say_why_there_is_no_key(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    page = alice_browser.get(PATH)
    forged = alice_browser.submit(page, form=FORM, csrf="x")
    without_draft = alice_browser.submit(page, form=FORM, draft="")
    owner.execute("update identity.session set authenticated_at = now() - interval '1 hour'")
    old_page = alice_browser.get(PATH)
    old = alice_browser.submit(page, form=FORM)
    owner.execute("update identity.session set authenticated_at = now()")
    for _ in range(100):
        alice.token("read:music")
    full = alice_browser.submit(page, form=FORM)

    assert (forged.status_code, without_draft.status_code) == (403, 400)
    assert "This page was out of date" in forged.text
    assert 'href="/confirm?next=/welcome"' in old_page.text
    assert (old.status_code, "older than 15 minutes" in old.text) == (403, True)
    assert full.status_code == 400
    assert "An account can have at most 100 API tokens" in full.text


def test_a_person_with_data_gets_a_key_only_on_the_page_for_another_computer(
    alice_browser: Visitor, alice: Person, owner: Rows, add_event: Any, settings: Settings
) -> None:
    early = alice_browser.get(PATH)
    add_event()
    before = len(keys_of(owner, alice))
    late = alice_browser.submit(early, form=FORM)
    page = alice_browser.get(ANOTHER)
    created = alice_browser.submit(page, form=FORM)

    assert late.headers["location"] == f"{settings.base_url}/"
    assert len(keys_of(owner, alice)) == before + 1
    assert ticks(page) == ["not yet"] * 3
    assert 'id="line"' in created.text
    assert "data-seen" not in created.text


def test_only_this_page_may_ask_its_own_server(alice_browser: Visitor, settings: Settings) -> None:
    policies = [
        alice_browser.get(path).headers["content-security-policy"]
        for path in (PATH, "/settings", "/settings/api-access")
    ]

    assert [policy.partition("; connect-src ")[2] for policy in policies] == ["'self'", "", ""]
    assert f"form-action 'self' {settings.base_url};" in policies[0]
    assert all("unsafe" not in policy for policy in policies)


def test_without_javascript_the_steps_are_links_and_can_be_left(
    alice_browser: Visitor, settings: Settings
) -> None:
    page = alice_browser.get(PATH)

    assert re.search(
        r'<noscript><p>[^<]*<a href="/welcome">Look again</a></p></noscript>', page.text
    )
    assert f'<a href="{settings.base_url}/">Skip: show me my pages</a>' in page.text
    assert '<a href="/settings/bring">Bring files instead</a>' in page.text


def test_a_file_that_was_brought_is_data_until_its_import_is_undone(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    owner.execute(
        """
        with brought as (
            insert into profile.import (user_id, file_name, file_size, digest, status)
            values (%(user_id)s, 'steps.zip', 1, sha256('steps'), 'done')
            returning user_id, import_id
        )
        insert into profile.import_part (
            user_id, import_id, name, position, records, added
        )
        select user_id, import_id, 'steps.csv', 0, 1, 1
          from brought
        """,
        {"user_id": alice.user_id},
    )
    brought = alice_browser.get(PATH)
    owner.execute("update profile.import set status = 'undone'")
    undone = alice_browser.get(PATH)

    assert (brought.status_code, undone.status_code) == (303, 200)
