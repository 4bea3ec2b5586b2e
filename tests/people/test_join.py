"""One-time links for a first account."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from authserver.people import first_account, throttle
from shared import tokens
from shared.settings import Settings
from tests.conftest import Person
from tests.oauth.conftest import PASSWORD
from tests.oauth.visitor import Visitor

Rows = psycopg.Connection[Any]

PREFIX = "http://localhost:8400/join?link=svc_ln_"


def first_link(settings: Settings) -> str:
    link = first_account.link(settings)
    assert link is not None
    return link


def test_the_first_account_is_created_by_a_link_and_is_an_administrator(
    visitor: Visitor, settings: Settings, owner: Rows
) -> None:
    link = first_link(settings)

    page = visitor.get(link)
    response = visitor.submit(page, email="Alice@Example.org", password=PASSWORD)

    assert link.startswith(PREFIX)
    assert page.status_code == 200
    assert response.status_code == 303
    assert response.headers["location"] == "/welcome"
    assert "alice@example.org" in visitor.get("/settings").text
    assert owner.execute("select email, is_admin, timezone from identity.user").fetchall() == [
        ("alice@example.org", True, "UTC")
    ]


def test_the_time_zone_of_a_new_account_is_asked(
    visitor: Visitor, settings: Settings, owner: Rows
) -> None:
    page = visitor.get(first_link(settings))

    wrong = visitor.submit(page, email="alice@example.org", password=PASSWORD, timezone="Berlin")
    response = visitor.submit(
        wrong, email="alice@example.org", password=PASSWORD, timezone="europe/berlin"
    )

    assert 'value="UTC"' in page.text
    assert "data-browser-zone" in page.text
    assert wrong.status_code == 400
    assert "Did you mean Europe/Berlin?" in wrong.text
    assert "data-browser-zone" not in wrong.text
    assert response.headers["location"] == "/welcome"
    assert "Europe/Berlin" in visitor.get("/settings").text
    assert owner.execute("select timezone from identity.user").fetchall() == [("Europe/Berlin",)]


def test_with_an_account_no_first_link_is_created(
    visitor: Visitor, settings: Settings, alice: Person
) -> None:
    assert first_account.link(settings) is None


def test_an_open_first_link_stops_working_when_an_account_exists(
    visitor: Visitor, settings: Settings, owner: Rows
) -> None:
    page = visitor.get(first_link(settings))
    owner.execute("insert into identity.user (email) values ('bob@example.org')")

    response = visitor.submit(page, email="alice@example.org", password=PASSWORD)

    assert response.status_code == 400
    assert "cannot be used" in response.text
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)


def test_a_link_works_once(visitor: Visitor, settings: Settings, owner: Rows) -> None:
    link = first_link(settings)
    other = Visitor(visitor.client)
    page, other_page = visitor.get(link), other.get(link)
    visitor.submit(page, email="alice@example.org", password=PASSWORD)

    late = other.submit(other_page, email="bob@example.org", password=PASSWORD)

    assert late.status_code == 400
    assert other.get(link).status_code == 400
    assert owner.execute("select email from identity.user").fetchall() == [("alice@example.org",)]


def test_only_hashing_needs_one_of_the_places_of_an_address(
    visitor: Visitor, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visitor.get(first_link(settings))
    monkeypatch.setattr(throttle, "_MAX_CONCURRENT", 0)

    short = visitor.submit(page, email="alice@example.org", password="short")
    good = visitor.submit(page, email="alice@example.org", password=PASSWORD)
    monkeypatch.undo()
    later = visitor.submit(page, email="alice@example.org", password=PASSWORD)

    assert (short.status_code, "at least" in short.text.lower()) == (400, True)
    assert good.status_code == 429
    assert later.headers["location"] == "/welcome"


def test_of_eight_concurrent_uses_of_a_link_one_gets_the_account(
    visitor: Visitor, settings: Settings, owner: Rows
) -> None:
    link = first_link(settings)
    visitors = [Visitor(visitor.client) for _ in range(8)]
    pages = [each.get(link) for each in visitors]

    with ThreadPoolExecutor(8) as rivals:
        responses = list(
            rivals.map(
                lambda n: visitors[n].submit(
                    pages[n], email=f"rival{n}@example.org", password=PASSWORD
                ),
                range(8),
            )
        )

    assert sorted(response.status_code for response in responses) == [303] + [400] * 7
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)


def test_a_new_link_replaces_an_earlier_one(visitor: Visitor, settings: Settings) -> None:
    earlier, later = first_link(settings), first_link(settings)

    assert visitor.get(earlier).status_code == 400
    assert visitor.get(later).status_code == 200


def test_a_link_expires_after_a_day(visitor: Visitor, settings: Settings, owner: Rows) -> None:
    link = first_link(settings)
    lifetime = owner.execute("select expires_at - created_at = '1 day' from identity.invitation")
    is_a_day = lifetime.fetchone()
    page = visitor.get(link)
    owner.execute("update identity.invitation set expires_at = now()")

    assert is_a_day == (True,)
    assert visitor.submit(page, email="alice@example.org", password=PASSWORD).status_code == 400
    assert visitor.get(link).status_code == 400


@pytest.mark.parametrize(
    ("email", "password", "said"),
    [
        ("alice", PASSWORD, "Enter an e-mail address"),
        ("", PASSWORD, "Enter an e-mail address"),
        ("alice@@example.org", PASSWORD, "Enter an e-mail address"),
        ("älice@example.org", PASSWORD, "Enter an e-mail address"),
        ("a" * 250 + "@x.org", PASSWORD, "Enter an e-mail address"),
        ("alice@example.org", "", "at least 12 characters"),
        ("alice@example.org", "elevenchars", "at least 12 characters"),
        ("alice@example.org", "é" * 513, "at most 1024 bytes"),
        ("alice@example.org", "Password1234!", "easy to guess"),
    ],
)
def test_a_refused_value_is_reported_beside_its_field_and_the_link_still_works(
    visitor: Visitor, settings: Settings, owner: Rows, email: str, password: str, said: str
) -> None:
    page = visitor.get(first_link(settings))

    refused = visitor.submit(page, email=email, password=password)
    again = visitor.submit(refused, email="alice@example.org", password=PASSWORD)

    assert refused.status_code == 400
    assert said in refused.text
    assert 'aria-invalid="true"' in refused.text
    if password:
        assert password not in refused.text
    assert again.status_code == 303


@pytest.mark.parametrize("link", ["", "x", "svc_ln_" + "0" * 71, "%00", "%ff"])
def test_a_link_that_was_never_issued_is_an_ordinary_error(visitor: Visitor, link: str) -> None:
    assert visitor.get(f"/join?link={link}").status_code == 400


def test_an_unknown_link_is_refused(visitor: Visitor) -> None:
    link = tokens.mint(tokens.LINK, tokens.NOBODY)

    assert visitor.get(f"/join?link={link.text}").status_code == 400


def test_only_the_hash_of_a_link_is_stored(settings: Settings, owner: Rows) -> None:
    link = first_link(settings)

    stored = str(owner.execute("select i::text from identity.invitation as i").fetchall())

    assert link[len(PREFIX) : -6] not in stored
