"""Settings → Account → Where you are signed in."""

import re
from typing import Any

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from authserver.pages import browsers
from tests.conftest import Person
from tests.oauth.conftest import PASSWORD, Welcome
from tests.oauth.visitor import Application, Visitor, forms

Rows = psycopg.Connection[Any]

PATH = "/settings/account/sessions"
LINUX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 "
    "(KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1"
)


def keys(page: Response) -> list[str]:
    return re.findall(r'name="session" value="([^"]*)"', page.text)


def end(browser: Visitor, **fields: Any) -> Response:
    return browser.submit(browser.get(PATH), form=1, **fields)


def signed_in(browser: Visitor) -> bool:
    return browser.get("/settings").status_code == 200


def event_names(owner: Rows, person: Person) -> list[str]:
    found = owner.execute(
        "select event from identity.security_event where user_id = %s order by occurred_at",
        [person.user_id],
    )
    return [event for (event,) in found]


def test_each_browser_is_listed_with_its_details(
    alice_browser: Visitor, welcome: Welcome, alice: Person, bob: Person, owner: Rows
) -> None:
    welcome(bob)
    owner.execute(
        "update identity.session set user_agent = %s, address = '192.0.2.7', "
        "created_at = '2025-06-16 09:00Z' where user_id = %s",
        [LINUX, alice.user_id],
    )

    page = alice_browser.get(PATH)

    assert re.findall(r"<bdi>(.*?)</bdi>", page.text) == ["Firefox on Linux"]
    assert page.text.count('<span class="tag">this browser</span>') == 1
    assert "<dd>192.0.2.7</dd>" in page.text
    assert "16 Jun 2025, 09:00 UTC" in page.text
    assert len(keys(page)) == 1
    assert "Sign out all others" not in page.text


def test_only_this_browser_is_marked_and_comes_first(
    alice_browser: Visitor, welcome: Welcome, alice: Person, owner: Rows
) -> None:
    owner.execute("update identity.session set user_agent = %s", [PHONE])
    welcome(alice)
    newest = welcome(alice)

    for browser in (alice_browser, newest):
        page = browser.get(PATH)
        first, *others = page.text.split("<li>\n    <h2>")[1:]
        assert "this browser</span>" in first
        assert len(others) == 2
        assert "this browser</span>" not in "".join(others)
    assert re.findall(r"<bdi>(.*?)</bdi>", alice_browser.get(PATH).text)[0] == "Safari on iPhone"


def test_one_browser_is_signed_out(
    alice_browser: Visitor, welcome: Welcome, alice: Person, owner: Rows
) -> None:
    second, third = welcome(alice), welcome(alice)
    other = keys(second.get(PATH))[0]

    ended = end(alice_browser, session=other, what="one")

    assert ended.headers["location"] == f"{PATH}?done=ended"
    assert "That browser is signed out." in alice_browser.follow(ended).text
    assert [signed_in(each) for each in (alice_browser, second, third)] == [True, False, True]
    assert event_names(owner, alice) == ["signed_out"]


def test_the_browser_itself_can_be_signed_out(
    alice_browser: Visitor, welcome: Welcome, alice: Person, owner: Rows
) -> None:
    other = welcome(alice)
    before = dict(alice_browser.cookies)

    ended = end(alice_browser, session=keys(alice_browser.get(PATH))[0], what="one")

    assert ended.headers["location"] == "/sign-in?done=signed-out"
    assert alice_browser.cookies != before
    assert [signed_in(each) for each in (alice_browser, other)] == [False, True]
    assert event_names(owner, alice) == ["signed_out"]


def test_all_others_are_signed_out(
    alice_browser: Visitor, welcome: Welcome, alice: Person, bob: Person, owner: Rows
) -> None:
    second, third, bobs = welcome(alice), welcome(alice), welcome(bob)

    ended = end(alice_browser, what="others")

    assert ended.headers["location"] == f"{PATH}?done=others"
    assert "All other browsers are signed out." in alice_browser.follow(ended).text
    stay = [signed_in(each) for each in (alice_browser, second, third, bobs)]
    assert stay == [True, False, False, True]
    assert event_names(owner, alice) == ["signed_out", "signed_out"]
    assert owner.execute(
        "select signed_out_at is not null from identity.user order by email"
    ).fetchall() == [(True,), (False,)]


def test_everything_is_signed_out(
    alice_browser: Visitor, welcome: Welcome, alice: Person, bob: Person, owner: Rows
) -> None:
    second, bobs = welcome(alice), welcome(bob)

    ended = end(alice_browser, what="all")

    assert ended.headers["location"] == "/sign-in?done=signed-out-everywhere"
    assert "set-cookie" in ended.headers
    assert [signed_in(each) for each in (alice_browser, second, bobs)] == [False, False, True]
    assert event_names(owner, alice) == ["signed_out", "signed_out"]


def test_a_pending_request_remains_for_the_next_sign_in(
    alice_browser: Visitor, welcome: Welcome, alice: Person, application: Application, owner: Rows
) -> None:
    alice_browser.get(application.authorize_path())
    before = owner.execute("select session_hash from oauth.authorization_request").fetchone()

    end(alice_browser, what="all")

    after = owner.execute("select session_hash from oauth.authorization_request").fetchone()
    assert after is not None
    assert after != before


def test_signing_out_does_not_revoke_grants(
    alice_browser: Visitor, application: Application, status: Any, alice: Person
) -> None:
    pair = application.pair(alice_browser)
    token = alice.token("read:profile")

    end(alice_browser, what="all")

    assert status(pair["access_token"]) == 200
    assert status(token) == 200


def test_a_person_has_at_most_a_hundred_sessions_and_the_least_used_end(
    alice_browser: Visitor, alice: Person, bob: Person, owner: Rows
) -> None:
    for person in (alice, bob):
        owner.execute(
            """
            insert into identity.session (user_id, session_hash, seen_at)
            select %s, sha256(n::text::bytea), now() - n * interval '1 hour'
              from generate_series(1, 120) as n
            """,
            [person.user_id],
        )
    visitor = Visitor(alice_browser.client)

    visitor.submit(visitor.get("/sign-in"), email=alice.email, password=PASSWORD)

    kept = owner.execute(
        "select count(*), min(seen_at) > now() - interval '99 hours' from identity.session "
        "where user_id = %s",
        [alice.user_id],
    )
    of_bob = owner.execute(
        "select count(*) from identity.session where user_id = %s", [bob.user_id]
    )
    assert kept.fetchone() == (100, True)
    # 22 ended; the session of the browser in which alice was signed in before is one of the 100.
    assert event_names(owner, alice) == ["signed_in"] + ["signed_out"] * 22
    assert of_bob.fetchone() == (120,)
    assert signed_in(visitor)
    assert signed_in(alice_browser)


def test_another_persons_session_is_not_found_and_not_ended(
    alice_browser: Visitor, welcome: Welcome, alice: Person, bob: Person, owner: Rows
) -> None:
    bobs = welcome(bob)

    refused = end(alice_browser, session=keys(bobs.get(PATH))[0], what="one")

    assert refused.status_code == 404
    assert "That browser is not signed in any more." in refused.text
    assert signed_in(bobs)
    assert event_names(owner, alice) == event_names(owner, bob) == []


@pytest.mark.parametrize("key", ["", "x", "00" * 32, "00", "é", "a" * 10_000, "<b>"])
def test_an_unknown_key_is_not_found(alice_browser: Visitor, key: str) -> None:
    refused = end(alice_browser, session=key, what="one")

    assert refused.status_code == 404
    assert signed_in(alice_browser)


def test_sending_it_twice_ends_one_and_says_so(
    alice_browser: Visitor, welcome: Welcome, alice: Person, owner: Rows
) -> None:
    other = keys(welcome(alice).get(PATH))[0]
    page = alice_browser.get(PATH)

    answers = [alice_browser.submit(page, form=1, session=other, what="one") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [303, 404]
    assert "not signed in any more" in answers[1].text
    assert event_names(owner, alice) == ["signed_out"]


@pytest.mark.parametrize("what", [None, "everything", "one one"])
def test_an_unknown_action_is_refused(alice_browser: Visitor, what: str | None) -> None:
    assert end(alice_browser, what=what).status_code == 400
    assert signed_in(alice_browser)


def test_a_form_that_is_stale_or_forged_ends_nothing(
    alice_browser: Visitor, welcome: Welcome, alice: Person
) -> None:
    other = welcome(alice)
    stale = other.get(PATH)
    csrf = dict(forms(alice_browser.get(PATH))[1].fields)["csrf"]

    again = alice_browser.submit(stale, form=1, what="all")
    forged = alice_browser.post(
        PATH, {"csrf": csrf, "what": "all"}, headers={"Sec-Fetch-Site": "cross-site"}
    )

    assert again.status_code == 403
    assert "This page was out of date. Please try again." in again.text
    assert forged.status_code == 403
    assert signed_in(alice_browser)
    assert signed_in(other)


def test_the_key_of_a_session_is_not_a_valid_cookie(
    alice_browser: Visitor, server: TestClient, settings: Any
) -> None:
    key = keys(alice_browser.get(PATH))[0]
    name, cookie = next(iter(alice_browser.cookies.items()))

    assert key not in cookie
    assert not signed_in(Visitor(server, {name: key}))


def test_a_user_agent_is_escaped_and_isolated(alice_browser: Visitor, owner: Rows) -> None:
    owner.execute("update identity.session set user_agent = %s", ['\u202e"><script>x</script>'])

    page = alice_browser.get(PATH)

    assert "<script>" not in page.text
    assert "<bdi>\u202e&#34;&gt;&lt;script&gt;x&lt;/script&gt;</bdi>" in page.text


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        (LINUX, "Firefox on Linux"),
        (PHONE, "Safari on iPhone"),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko)"
            " Chrome/138.0.0.0 Safari/537.36",
            "Chrome on macOS",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 "
            "(KHTML, like Gecko) Version/18.5 Safari/605.1.15",
            "Safari on macOS",
        ),
        (
            "Mozilla/5.0 (Linux; Android 15; SM-S938B) AppleWebKit/537.36 (KHTML, like Gecko) "
            "SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
            "Samsung Internet on Android",
        ),
        (
            "Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 "
            "(KHTML, like Gecko) CriOS/138.0.0.0 Mobile/15E148 Safari/604.1",
            "Chrome on iPad",
        ),
        (
            "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/138.0.0.0 Safari/537.36",
            "Chrome on ChromeOS",
        ),
        ("curl/8.14.1", "curl/8.14.1"),
        ("Mozilla/5.0 (compatible; Unheard-of/1.0)", "Mozilla/5.0 (compatible; Unheard-of/1.0)"),
        ("My Firefox/1 for Linux", "My Firefox/1 for Linux"),
        ("a" * 300, "a" * 79 + "…"),
        (None, "A browser that does not say what it is"),
    ],
)
def test_a_user_agent_is_described(user_agent: str | None, words: str) -> None:
    assert browsers.describe(user_agent) == words
