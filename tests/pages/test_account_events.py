"""Settings → Account → What happened."""

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from httpx2 import Response

from authserver.events import AccountEvent
from authserver.pages import account_events
from deploy.migrate import SQL_DIR
from tests.conftest import Person
from tests.oauth.conftest import Register, Welcome
from tests.oauth.visitor import Application, Visitor

Rows = psycopg.Connection[Any]

PATH = "/settings/account/events"
KIND = re.compile(r"^ +'(\w+)',?$", re.MULTILINE)


def sentences(page: Response) -> list[str]:
    items = re.findall(r"<h2>(.*?)</h2>", page.text)
    return [re.sub(r"<[^>]+>", "", item) for item in items]


def note(owner: Rows, person: Person, count: int, *, at: str = "2025-06-16 09:00Z") -> None:
    owner.execute(
        """
        insert into identity.security_event (user_id, event, occurred_at, address)
        select %s, 'signed_in', %s::timestamptz + n * interval '1 microsecond', 'a' || n
          from generate_series(1, %s) as n
        """,
        [person.user_id, at, count],
    )


def addresses(page: Response) -> list[str]:
    return re.findall(r"· from (\S+)</p>", page.text)


def test_events_are_described_newest_first(
    alice_browser: Visitor, register: Register, alice: Person, bob: Person, owner: Rows
) -> None:
    application = register(client_name="Weekly Report")
    pair = application.pair(alice_browser)
    application.revoke(pair["refresh_token"])
    note(owner, alice, 1)
    note(owner, bob, 3)

    page = alice_browser.get(PATH)

    assert sentences(page) == [
        "The access of an application was ended: Weekly Report",
        "An application got its first tokens: Weekly Report",
        "You gave an application access: Weekly Report",
        "You signed in",
    ]
    assert "16 Jun 2025, 09:00 UTC" in page.text
    assert addresses(page)[-1] == "a1"


def test_an_event_of_an_api_token_has_its_name(
    alice_browser: Visitor, terminal: Any, alice: Person
) -> None:
    terminal.run(f"token create {alice.email} --scope read:profile --name 'my <b>script</b>'")

    page = alice_browser.get(PATH)

    assert "An API token was created: <bdi>my &lt;b&gt;script&lt;/b&gt;</bdi>" in page.text


def test_an_event_of_a_deleted_application_has_no_name(
    alice_browser: Visitor, application: Application, owner: Rows
) -> None:
    application.pair(alice_browser)
    owner.execute("delete from oauth.client")

    assert sentences(alice_browser.get(PATH)) == [
        "An application got its first tokens",
        "You gave an application access",
    ]


def test_a_foreign_name_is_escaped_and_isolated(alice_browser: Visitor, register: Register) -> None:
    register(client_name="<script>alert(1)</script>").pair(alice_browser)

    page = alice_browser.get(PATH)

    assert "<script>" not in page.text
    assert "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>" in page.text


def test_failed_sign_ins_are_listed(
    alice_browser: Visitor, visitor: Visitor, alice: Person
) -> None:
    visitor.submit(visitor.get("/sign-in"), email=alice.email, password="a wrong password")

    assert sentences(alice_browser.get(PATH)) == ["A sign-in to your account failed"]


def test_older_events_are_listed_page_by_page_and_each_once(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    note(owner, alice, 60)
    # All at the same instant, so that the order is that of their ids.
    note(owner, alice, 1)
    owner.execute(
        """
        insert into identity.security_event (user_id, event, occurred_at, address)
        select %s, 'signed_out', '2025-06-16 08:00Z', 'b' || n
          from generate_series(1, 60) as n
        """,
        [alice.user_id],
    )
    pages = [alice_browser.get(PATH)]
    while link := re.search(rf'href="({PATH}\?before=[^"]+)"', pages[-1].text):
        pages.append(alice_browser.get(link[1]))

    seen = [addresses(page) for page in pages]
    assert [len(each) for each in seen] == [50, 50, 21]
    assert seen[0][:2] == ["a60", "a59"]
    expected = sorted([f"a{n}" for n in range(1, 61)] + ["a1"] + [f"b{n}" for n in range(1, 61)])
    assert sorted(address for each in seen for address in each) == expected
    assert "Newest" not in pages[0].text
    assert f'href="{PATH}">Newest</a>' in pages[1].text


@pytest.mark.parametrize(("count", "has_older"), [(50, False), (51, True)])
def test_a_page_links_to_older_events_only_if_there_are_any(
    alice_browser: Visitor, alice: Person, owner: Rows, count: int, has_older: bool
) -> None:
    note(owner, alice, count)

    assert ("?before=" in alice_browser.get(PATH).text) is has_older


def test_no_cursor_shows_events_of_another_person(
    alice_browser: Visitor, welcome: Welcome, alice: Person, bob: Person, owner: Rows
) -> None:
    note(owner, bob, 60)
    link = re.search(rf'href="({PATH}\?before=[^"]+)"', welcome(bob).get(PATH).text)
    assert link is not None

    page = alice_browser.get(link[1])

    assert page.status_code == 200
    assert sentences(page) == []
    assert "There are no events." in page.text


@pytest.mark.parametrize(
    "cursor",
    [
        *("x", "1", "1-", "-1-" + "0" * 32, "9" * 18 + "-" + "0" * 32, "1-" + "G" * 32),
        *("٣-" + "0" * 32, "1-" + "0" * 32 + "%0A", "a" * 10_000, "%ff", "%00"),
    ],
)
def test_a_malformed_cursor_is_refused(alice_browser: Visitor, cursor: str) -> None:
    page = alice_browser.get(f"{PATH}?before={cursor}")

    assert page.status_code == 400
    assert "not one of our links" in page.text


@pytest.mark.parametrize("cursor", ["0", "99999999999999999"])
def test_a_cursor_at_either_end_of_time_is_accepted(
    alice_browser: Visitor, alice: Person, owner: Rows, cursor: str
) -> None:
    note(owner, alice, 1)

    page = alice_browser.get(f"{PATH}?before={cursor}-{'0' * 32}")

    assert page.status_code == 200
    assert len(sentences(page)) == (0 if cursor == "0" else 1)


def kinds(constraint: str) -> set[str]:
    return set(re.findall(r"'(\w+)'::text", constraint))


@pytest.mark.parametrize("client_id", [None, "svc_client_x"])
def test_every_kind_of_event_has_a_description(db: Rows, client_id: str | None) -> None:
    row = db.execute(
        "select pg_get_constraintdef(oid) from pg_constraint "
        "where conname = 'security_event_is_a_known_one'"
    ).fetchone()
    assert row is not None

    known = kinds(row[0]) | {"of_a_newer_version"}
    words = {
        kind: account_events.describe(
            AccountEvent(datetime.now(UTC), UUID(int=0), kind, client_id, None, None)
        )
        for kind in known
    }

    assert len(known) >= 15
    unknown = [kind for kind, sentence in words.items() if sentence == account_events.UNKNOWN]
    assert unknown == ["of_a_newer_version"]


def test_no_migration_removes_a_kind_of_event(db: Rows) -> None:
    row = db.execute(
        "select pg_get_constraintdef(oid) from pg_constraint "
        "where conname = 'security_event_is_a_known_one'"
    ).fetchone()
    assert row is not None

    texts = [path.read_text() for path in sorted((SQL_DIR / "migrations").glob("*.sql"))]
    lists = [
        text.split("security_event_is_a_known_one check (")[1].split("        )\n")[0]
        for text in texts
        if "security_event_is_a_known_one check (" in text
    ]

    assert len(lists) >= 2
    assert {kind for each in lists for kind in KIND.findall(each)} == kinds(row[0])
