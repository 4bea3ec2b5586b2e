"""Settings → Connected apps."""

import re
from html import unescape
from typing import Any

import psycopg
import pytest
from httpx2 import Response

from shared.scopes import SCOPES
from tests.conftest import Person
from tests.oauth.conftest import Opens, Register, Welcome
from tests.oauth.visitor import Application, Visitor

Rows = psycopg.Connection[Any]

PATH = "/settings/apps"
FORM = 1
"""The first form of a page is the one that signs out."""


def text_of(page: Response) -> str:
    """Return the text of a page, in one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


def links(page: Response) -> list[str]:
    """Return the links that end all access of an application."""
    return re.findall(r'href="(/settings/revoke\?client=[^"]+)"', page.text)


def connections(page: Response) -> list[str]:
    """Return the links that end a single connection."""
    return re.findall(r'href="(/settings/revoke\?grant=[^"]+)"', page.text)


def spoken(page: Response) -> list[str]:
    """Return the accessible names of these links."""
    return [
        unescape(label) for label in re.findall(r'aria-label="((?:Revoke|End) [^"]*)"', page.text)
    ]


def test_an_application_is_listed_with_its_scopes_and_destination(
    alice_browser: Visitor, register: Register, owner: Rows
) -> None:
    application = register("http://127.0.0.1:3000/callback", client_name="Weekly Report")
    application.pair(alice_browser, resource="http://testserver/mcp")
    owner.execute(
        "update oauth.grant set created_at = '2026-02-28 09:30Z', last_used_at = '2026-03-01 12:05Z'"
    )

    page = alice_browser.get(PATH)

    assert page.status_code == 200
    assert "<bdi>Weekly Report</bdi>" in page.text
    assert (
        "Weekly Report last used 1 Mar 2026, 12:05 UTC "
        f"May {SCOPES['read:activity']} {SCOPES['read:profile']} "
        "Redirects to 127.0.0.1:3000 Only for http://testserver/mcp "
        "Since 28 Feb 2026, 09:30 UTC Last used 1 Mar 2026, 12:05 UTC Revoke access"
        in text_of(page)
    )
    assert "their own claims" in page.text


def test_revoking_an_application_ends_every_token_of_every_connection(
    alice_browser: Visitor,
    application: Application,
    register: Register,
    status: Opens,
) -> None:
    pairs = [application.pair(alice_browser) for _ in range(3)]
    other = register(client_name="Weekly Report").pair(alice_browser)
    waiting = application.code(alice_browser)
    page = alice_browser.get(PATH)
    (link,) = [each for each in links(page) if application.client_id in each]

    asked = alice_browser.get(link)
    response = alice_browser.submit(asked, form=FORM)

    assert page.text.count("Weekly Report</bdi>") == 2
    assert "4 connections" in text_of(page)
    assert "on each of its 4 connections" in text_of(asked)
    assert response.headers["location"] == f"{PATH}?done=revoked"
    assert [status(pair["access_token"]) for pair in pairs] == [401, 401, 401]
    refreshed = [application.refresh(pair["refresh_token"]).json()["error"] for pair in pairs]
    assert refreshed == ["invalid_grant"] * 3
    assert application.exchange(waiting).json()["error"] == "invalid_grant"
    assert status(other["access_token"]) == 200


def test_revoking_an_application_leaves_the_grants_of_others(
    alice_browser: Visitor,
    application: Application,
    bob: Person,
    welcome: Welcome,
    status: Opens,
) -> None:
    application.pair(alice_browser)
    of_bob = application.pair(welcome(bob))["access_token"]

    alice_browser.submit(alice_browser.get(links(alice_browser.get(PATH))[0]), form=FORM)

    assert status(of_bob) == 200


def test_a_single_connection_is_ended_beside_the_others(
    alice_browser: Visitor, application: Application, status: Opens, owner: Rows
) -> None:
    first = application.pair(alice_browser)["access_token"]
    owner.execute("update oauth.grant set last_used_at = now()")
    second = application.pair(alice_browser, ticked=["read:profile"])["access_token"]
    page = alice_browser.get(PATH)

    asked = alice_browser.get(connections(page)[1])
    response = alice_browser.submit(asked, form=FORM)
    listed = alice_browser.follow(response)

    assert "its other connections keep their access" in text_of(asked)
    assert "The connection is ended." in listed.text
    assert (status(first), status(second)) == (200, 401)
    assert (len(links(listed)), connections(listed)) == (1, [])


def test_revoking_asks_first_and_ends_all_tokens_of_the_grant_at_the_next_request(
    alice_browser: Visitor, application: Application, status: Opens
) -> None:
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()
    (link,) = links(alice_browser.get(PATH))

    asked = alice_browser.get(link)
    before = [status(pair["access_token"]) for pair in (first, second)]
    response = alice_browser.submit(asked, form=FORM)
    after = [status(pair["access_token"]) for pair in (first, second)]
    refreshed = application.refresh(second["refresh_token"])
    listed = alice_browser.follow(response)

    assert "Weekly Report" in text_of(asked)
    assert "app.example" in text_of(asked)
    assert (before, after) == ([200, 200], [401, 401])
    assert refreshed.json()["error"] == "invalid_grant"
    assert "The access is revoked." in listed.text
    assert "No application has access to your data." in listed.text


def test_only_live_grants_of_the_person_are_listed(
    alice_browser: Visitor, application: Application, bob: Person, alice: Person, welcome: Welcome
) -> None:
    alice.token()
    application.pair(welcome(bob))
    application.revoke(application.pair(alice_browser)["refresh_token"])

    page = alice_browser.get(PATH)

    assert "No application has access to your data." in page.text
    assert links(page) == []


def test_an_application_with_an_expired_code_is_not_listed(
    alice_browser: Visitor, application: Application, owner: Rows
) -> None:
    application.code(alice_browser)
    in_time = alice_browser.get(PATH)
    owner.execute("update oauth.authorization_code set expires_at = now()")

    late = alice_browser.get(PATH)

    assert len(links(in_time)) == 1
    assert links(late) == []


def test_alice_cannot_revoke_bobs_grant(
    alice_browser: Visitor,
    application: Application,
    register: Register,
    bob: Person,
    welcome: Welcome,
    status: Opens,
) -> None:
    bob_browser = welcome(bob)
    of_bob = [application.pair(bob_browser)["access_token"] for _ in range(2)]
    own = register("https://own.example/cb").pair(alice_browser)["access_token"]
    bobs = bob_browser.get(PATH)
    grant_id = connections(bobs)[0].removeprefix("/settings/revoke?grant=")

    displayed = [alice_browser.get(link) for link in (*links(bobs), *connections(bobs))]
    question = alice_browser.get(links(alice_browser.get(PATH))[0])
    sent = [
        alice_browser.submit(question, form=FORM, client=application.client_id),
        alice_browser.submit(question, form=FORM, client=None, grant=grant_id),
    ]

    assert {response.status_code for response in (*displayed, *sent)} == {404}
    assert [status(token) for token in (*of_bob, own)] == [200, 200, 200]


def test_a_form_of_anothers_session_revokes_nothing(
    alice_browser: Visitor,
    application: Application,
    bob: Person,
    welcome: Welcome,
    status: Opens,
) -> None:
    bob_browser = welcome(bob)
    application.pair(bob_browser)
    token = application.pair(alice_browser)["access_token"]
    (bobs,) = links(bob_browser.get(PATH))
    (own,) = links(alice_browser.get(PATH))

    response = alice_browser.submit(
        bob_browser.get(bobs), form=FORM, client=own.removeprefix("/settings/revoke?client=")
    )

    assert response.status_code == 403
    assert status(token) == 200


def test_a_form_from_another_site_revokes_nothing(
    alice_browser: Visitor, application: Application, status: Opens
) -> None:
    token = application.pair(alice_browser)["access_token"]
    (link,) = links(alice_browser.get(PATH))

    response = alice_browser.post(
        "/settings/revoke",
        {"client": link.removeprefix("/settings/revoke?client=")},
        headers={"Origin": "https://evil.example"},
    )

    assert response.status_code == 403
    assert status(token) == 200


def test_a_link_alone_revokes_nothing(
    alice_browser: Visitor, application: Application, status: Opens
) -> None:
    token = application.pair(alice_browser)["access_token"]
    (link,) = links(alice_browser.get(PATH))

    alice_browser.get(link)
    alice_browser.get(f"{link}&decision=revoke")

    assert status(token) == 200


@pytest.mark.parametrize(
    ("client_name", "displayed"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("Bank\u202e knaB", "Bank knaB"),
        ('"><img src=x>', "&#34;&gt;&lt;img src=x&gt;"),
    ],
)
def test_an_applications_name_is_escaped_everywhere(
    alice_browser: Visitor, register: Register, client_name: str, displayed: str
) -> None:
    register(client_name=client_name).pair(alice_browser)

    page = alice_browser.get(PATH)
    asked = alice_browser.get(links(page)[0])

    for each in (page, asked):
        assert f"<bdi>{displayed}</bdi>" in each.text
        assert "<script>alert" not in each.text
        assert "<img src=x" not in each.text
        assert "\u202e" not in each.text


def test_an_application_without_a_name_is_described_as_such(
    alice_browser: Visitor, register: Register
) -> None:
    nameless = register()
    nameless.pair(alice_browser)

    page = alice_browser.get(PATH)
    asked = alice_browser.get(links(page)[0])

    assert "An application that gives no name" in page.text
    assert f'<p class="hint"><code>{nameless.client_id}</code></p>' in page.text
    assert spoken(page) == ["Revoke access of an application that gives no name"]
    assert f"An application that gives no name (<code>{nameless.client_id}</code>)" in asked.text


def test_each_revoke_link_has_a_different_accessible_name(
    alice_browser: Visitor, register: Register, owner: Rows
) -> None:
    twice, namesake = (register(client_name="Weekly Report") for _ in range(2))
    for application in (namesake, twice, twice):
        application.pair(alice_browser)
    owner.execute("update oauth.grant set created_at = '2026-02-28 09:30Z'")
    owner.execute(
        "update oauth.grant set last_used_at = '2026-03-01 12:05Z' where client_id = %s",
        [twice.client_id],
    )

    page = alice_browser.get(PATH)

    assert spoken(page) == [
        "End connection 1 of 2 of Weekly Report, since 28 Feb 2026, 09:30 UTC",
        "End connection 2 of 2 of Weekly Report, since 28 Feb 2026, 09:30 UTC",
        "Revoke access of Weekly Report, 1 of 2",
        "Revoke access of Weekly Report, 2 of 2",
    ]


def test_applications_are_listed_by_their_last_use_and_found_by_name(
    alice_browser: Visitor, register: Register, owner: Rows
) -> None:
    for number in range(11):
        register(client_name=f"Report {number:02}").pair(alice_browser)
    owner.execute(
        "update oauth.grant set last_used_at = '2026-03-01 12:05Z' from oauth.client as app "
        "where app.client_id = oauth.grant.client_id and app.client_name = 'Report 03'"
    )

    page = alice_browser.get(PATH)
    found = alice_browser.get(f"{PATH}?search=REPORT+0")
    nothing = alice_browser.get(f"{PATH}?search=yearly")

    assert (
        page.text.index("Report 03") < page.text.index("Report 10") < page.text.index("Report 09")
    )
    assert 'type="search"' in page.text
    assert (len(links(page)), len(links(found)), len(links(nothing))) == (11, 10, 0)
    assert "No application has that name." in nothing.text


@pytest.mark.parametrize("path", [PATH, "/settings/revoke?grant=x"])
def test_without_sign_in_the_page_redirects_to_sign_in(visitor: Visitor, path: str) -> None:
    response = visitor.get(path)

    assert response.status_code == 303
    assert response.headers["location"] in (f"/sign-in?next={PATH}", "/sign-in")
