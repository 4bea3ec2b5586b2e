"""Settings → Account: the profile."""

import html
import re
from typing import Any
from zoneinfo import available_timezones

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

import authserver.app
from authserver.people.passwords import Hasher
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.oauth.conftest import CHEAP, Welcome
from tests.oauth.visitor import Visitor, forms

Rows = psycopg.Connection[Any]

PATH = "/settings/account"
PROFILE = 1
"""Which form of the page it is; the first is that for signing out."""


def save(browser: Visitor, **typed: Any) -> Response:
    given = {"display_name": "Alice", "timezone": "Europe/Berlin", "week_starts_on": "1"}
    return browser.submit(browser.get(PATH), form=PROFILE, **given | typed)


def stored(owner: Rows, person: Person) -> tuple[Any, ...]:
    found: list[tuple[Any, ...]] = owner.execute(
        "select display_name, timezone, week_starts_on from identity.user where user_id = %s",
        [person.user_id],
    ).fetchall()
    return found[0]


def value(page: Response, name: str) -> str:
    return dict(forms(page)[PROFILE].fields)[name]


def test_the_api_returns_the_saved_profile(
    alice_browser: Visitor, alice: Person, api: TestClient
) -> None:
    saved = save(alice_browser, timezone="Australia/Lord_Howe", week_starts_on="7")
    page = alice_browser.follow(saved)

    me = api.get("/api/v1/me", headers=alice.headers("read:profile")).json()["data"]
    assert (me["display_name"], me["timezone"]) == ("Alice", "Australia/Lord_Howe")
    assert me["week_starts_on"] == 7
    assert saved.status_code == 303
    assert saved.headers["location"] == "/settings/account?done=saved"
    assert "Your changes are saved." in page.text
    assert value(page, "timezone") == "Australia/Lord_Howe"
    assert '<option value="7" selected>Sunday</option>' in page.text


def test_only_the_account_of_the_signed_in_person_changes(
    alice_browser: Visitor, alice: Person, bob: Person, owner: Rows
) -> None:
    save(alice_browser, user_id=str(bob.user_id), display_name="Mallory")

    assert stored(owner, bob) == (None, "UTC", 1)
    assert stored(owner, alice) == ("Mallory", "Europe/Berlin", 1)


@pytest.mark.parametrize("typed", ["", "   "])
def test_the_name_is_optional(
    alice_browser: Visitor, alice: Person, owner: Rows, typed: str
) -> None:
    save(alice_browser)

    assert save(alice_browser, display_name=typed).status_code == 303
    assert stored(owner, alice)[0] is None


@pytest.mark.parametrize(
    ("typed", "zone"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        (" UTC ", "UTC"),
        ("Etc/GMT+1", "Etc/GMT+1"),
        ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
    ],
)
def test_a_zone_is_found_in_any_case_and_with_spaces(
    alice_browser: Visitor, alice: Person, owner: Rows, typed: str, zone: str
) -> None:
    assert save(alice_browser, timezone=typed).status_code == 303
    assert stored(owner, alice)[1] == zone


@pytest.mark.parametrize(
    "typed",
    [
        *("", "Mars/Base", "+02:00", "posix/UTC", "right/UTC", "localtime", "Factory", "CET"),
        *("../../etc/passwd", "<script>alert(1)</script>", "é" * 10_000),
    ],
)
def test_an_unknown_zone_is_reported_beside_its_field_and_kept(
    alice_browser: Visitor, alice: Person, owner: Rows, typed: str
) -> None:
    page = save(alice_browser, timezone=typed, display_name="Alice Liddell", week_starts_on="7")

    assert page.status_code == 400
    assert re.search(r'id="timezone-problem">This is not the name of a time zone\.', page.text)
    assert value(page, "timezone") == typed
    assert value(page, "display_name") == "Alice Liddell"
    assert '<option value="7" selected>' in page.text
    assert "<script>" not in page.text
    assert stored(owner, alice) == (None, "UTC", 1)


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("Kathm", "Did you mean Asia/Kathmandu?"),
        ("new york", "Did you mean America/New_York?"),
        ("berlin", "Did you mean Europe/Berlin?"),
        ("Istanbul", "Did you mean Asia/Istanbul or Europe/Istanbul?"),
        ("Europe", "Pick one from the list, such as Europe/Berlin."),
        (" ", "Pick one from the list, such as Europe/Berlin."),
    ],
)
def test_a_part_of_a_zones_name_gets_suggestions(
    alice_browser: Visitor, typed: str, hint: str
) -> None:
    page = save(alice_browser, timezone=typed)

    assert f'id="timezone-problem">This is not the name of a time zone. {hint}<' in page.text


@pytest.mark.parametrize("day", ["", "0", "8", "1.0", "٣", "Monday", "9" * 5000])
def test_an_invalid_weekday_is_reported_beside_its_field(
    alice_browser: Visitor, alice: Person, owner: Rows, day: str
) -> None:
    page = save(alice_browser, week_starts_on=day)

    assert page.status_code == 400
    assert 'id="week_starts_on-problem">Pick a day.' in page.text
    assert stored(owner, alice) == (None, "UTC", 1)


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("a" * 101, "at most 100 characters; this one has 101"),
        ("é" * 10_000, "at most 100 characters; this one has 10000"),
        ("Alice\u202egpj.exe", "cannot be seen"),
        ("\u2067Alice", "cannot be seen"),
        ("Alice\nAdministrator", "cannot be seen"),
    ],
)
def test_a_misleading_name_is_reported_beside_its_field_and_kept(
    alice_browser: Visitor, alice: Person, owner: Rows, typed: str, problem: str
) -> None:
    page = save(alice_browser, display_name=typed)

    beside = re.search(r'id="display_name-problem">([^<]+)<', page.text)
    assert page.status_code == 400
    assert beside is not None
    assert problem in beside[1]
    assert value(page, "display_name") == typed
    assert stored(owner, alice) == (None, "UTC", 1)


def test_all_problems_are_reported_together(alice_browser: Visitor) -> None:
    page = save(alice_browser, display_name="a" * 101, timezone="x", week_starts_on="x")

    named = re.findall(r'id="(\w+)-problem"', page.text)
    assert named == ["display_name", "timezone", "week_starts_on"]
    assert page.text.count('aria-invalid="true"') == 3


@pytest.mark.parametrize(
    "name",
    [
        "<b>Alice</b>",
        "\"><script>alert('x')</script>",
        "{{ 7*7 }}",
        "أليس",
        "é" * 100,
        "👩\u200d🔬",
    ],
)
def test_a_name_is_escaped_and_isolated(
    alice_browser: Visitor, alice: Person, owner: Rows, name: str
) -> None:
    page = alice_browser.follow(save(alice_browser, display_name=name))

    assert stored(owner, alice)[0] == name
    assert html.unescape(re.findall(r"<bdi>(.*?)</bdi>", page.text)[0]) == name
    assert "<script>" not in page.text
    assert "<b>" not in page.text


def test_any_stored_name_is_shown_harmlessly(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    owner.execute("update identity.user set display_name = %s", ["\u202e<i>evil"])

    page = alice_browser.get(PATH)

    assert "<bdi>\u202e&lt;i&gt;evil</bdi>" in page.text


def test_the_list_has_the_zones_that_the_database_and_python_know(
    alice_browser: Visitor, owner: Rows, alice: Person
) -> None:
    page = alice_browser.get(PATH)

    listed = re.findall(r'<option value="([^"]+)"></option>', page.text)
    known = {name for (name,) in owner.execute("select name from pg_timezone_names")}
    assert {"Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "UTC"} <= set(listed)
    assert 400 < len(listed) < 700
    assert set(listed) <= known & available_timezones()
    assert listed == sorted(listed)
    assert 'list="zones"' in page.text
    for zone in ("Asia/Kathmandu", "Pacific/Chatham"):
        assert save(alice_browser, timezone=zone).status_code == 303


def test_the_zones_are_read_once_and_errors_are_not_cached(
    alice_browser: Visitor, settings: Settings, owner: Rows
) -> None:
    if owner.execute("select rolsuper from pg_roles where rolname = current_user").fetchone() != (
        True,
    ):
        pytest.skip("only a superuser can take the list of zones away")
    app = authserver.app.create(settings, hasher=Hasher(CHEAP))
    with AppClient(app, "http://localhost:8400", raise_server_exceptions=False) as another:
        browser = Visitor(another, dict(alice_browser.cookies))
        owner.execute("revoke select on pg_catalog.pg_timezone_names from public")
        try:
            failed = browser.get(PATH)
            owner.execute("grant select on pg_catalog.pg_timezone_names to public")
            shown = browser.get(PATH)
            owner.execute("revoke select on pg_catalog.pg_timezone_names from public")
            again, saved = browser.get(PATH), save(browser, timezone="Asia/Kathmandu")
        finally:
            owner.execute("grant select on pg_catalog.pg_timezone_names to public")

    assert failed.status_code == 500
    assert [shown.status_code, again.status_code, saved.status_code] == [200, 200, 303]
    assert '<option value="Asia/Kathmandu">' in again.text


def test_instants_are_shown_in_the_zone_that_was_saved(alice_browser: Visitor, owner: Rows) -> None:
    save(alice_browser, timezone="Asia/Kathmandu")
    owner.execute("update identity.session set created_at = '2025-06-16 09:00Z'")

    page = alice_browser.get("/settings/account/sessions")

    assert (
        '<time datetime="2025-06-16T14:45:00+05:45">16 Jun 2025, 14:45 Asia/Kathmandu</time>'
        in page.text
    )


def test_a_form_of_another_session_is_shown_again_with_what_was_typed(
    alice_browser: Visitor, welcome: Welcome, alice: Person, owner: Rows
) -> None:
    page = welcome(alice).get(PATH)

    again = alice_browser.submit(
        page, form=PROFILE, display_name="Alice", timezone="Europe/Rome", week_starts_on="3"
    )

    assert again.status_code == 403
    assert "This page was out of date. Please try again." in again.text
    assert value(again, "display_name") == "Alice"
    assert value(again, "timezone") == "Europe/Rome"
    assert '<option value="3" selected>' in again.text
    assert stored(owner, alice) == (None, "UTC", 1)


def test_a_form_from_elsewhere_changes_nothing(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    csrf = dict(forms(alice_browser.get(PATH))[PROFILE].fields)["csrf"]
    fields = {"csrf": csrf, "display_name": "x", "timezone": "UTC", "week_starts_on": "2"}

    by_site = alice_browser.post(PATH, fields, headers={"Sec-Fetch-Site": "cross-site"})
    by_origin = alice_browser.post(PATH, fields, headers={"Origin": "https://evil.example"})
    without = alice_browser.post(PATH, {**fields, "csrf": ""})

    assert [by_site.status_code, by_origin.status_code, without.status_code] == [403, 403, 403]
    assert stored(owner, alice) == (None, "UTC", 1)


def test_submitting_twice_changes_nothing_more(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    page = alice_browser.get(PATH)

    for _ in range(2):
        sent = alice_browser.submit(
            page, form=PROFILE, display_name="A", timezone="UTC", week_starts_on="2"
        )
        assert sent.status_code == 303

    assert stored(owner, alice) == ("A", "UTC", 2)


@pytest.mark.parametrize(
    "path",
    [
        "/settings/account",
        "/settings/account/sessions",
        "/settings/account/events",
        "/settings/account/download",
        "/settings/account/delete",
    ],
)
def test_without_sign_in_the_page_redirects_to_sign_in_and_back(
    visitor: Visitor, path: str
) -> None:
    shown = visitor.get(path)
    sent = visitor.post(path, {"x": "y"})

    for response in (shown,) if path.endswith("/events") else (shown, sent):
        assert response.status_code == 303
        assert response.headers["location"] == f"/sign-in?next={path}"
    assert f'name="next" value="{path}"' in visitor.follow(shown).text


def test_the_page_links_to_all_pages_about_the_account(alice_browser: Visitor) -> None:
    page = alice_browser.get(PATH)

    for path in ("sign-in", "sessions", "events", "download", "delete"):
        assert f'href="/settings/account/{path}"' in page.text
    assert '<a href="/settings/account" aria-current="page">Account</a>' in page.text
    assert "administrator" not in page.text


@pytest.mark.parametrize("word", ["saved%3Cscript%3E", "x", "", "saved&done=saved", "%ff"])
def test_text_in_the_query_is_not_shown(alice_browser: Visitor, word: str) -> None:
    page = alice_browser.get(f"{PATH}?done={word}")

    assert page.status_code == 200
    assert 'role="status"' not in page.text
    assert "<script>" not in page.text


def test_nul_and_broken_text_are_refused(alice_browser: Visitor) -> None:
    assert save(alice_browser, display_name="a\0b").status_code == 400
    assert save(alice_browser, timezone=b"\xff").status_code == 400
    assert save(alice_browser, timezone=["UTC", "UTC"]).status_code == 400
