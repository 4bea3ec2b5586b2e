"""Sign-in through the provider, and the logouts that it announces: valid, and every kind of invalid ones."""

import base64
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import psycopg
import pytest
from httpx2 import Client, Response
from joserfc import jws, jwt
from joserfc.jwk import OctKey, OKPKey, RSAKey
from psycopg import sql
from starlette.testclient import TestClient

import authserver.app
from authserver.people import first_account, provider, throttle
from authserver.people.passwords import Hasher
from shared import settings as settings_of
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.client import AppClient
from tests.conftest import Person
from tests.oauth.conftest import CHEAP, PASSWORD
from tests.oauth.visitor import CALLBACK, Application, Visitor, forms
from tests.pages.issuer import CLIENT_ID, CLIENT_SECRET, Issuer, listening, new_key
from tests.waiting import wait_for, wait_for_rivals

Rows = psycopg.Connection[Any]

SUBJECT = "248289761001"
METADATA = "/.well-known/openid-configuration"


# The server caches the provider's metadata for an hour, and all tests share one server; so each of them
# begins hours after the one before it.
TESTS = count(1)
APART_S = 10_000


@pytest.fixture(scope="session")
def listener() -> Iterator[Issuer]:
    """A provider that runs until the last of these tests."""
    with listening() as running:
        yield running


@dataclass
class Clock:
    """Clears the cached metadata and keys of the provider."""

    ahead_s: float


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that can be put forward."""
    clock = Clock(next(TESTS) * APART_S)
    monkeypatch.setattr(provider, "monotonic", lambda: time.monotonic() + clock.ahead_s)
    return clock


@pytest.fixture
def issuer(listener: Issuer, clock: Clock) -> Issuer:
    """A provider where alice is known, whose operator is trusted with example.org."""
    listener.begin_anew()
    return listener


@pytest.fixture(scope="session")
def server_with_provider(settings: Settings, listener: Issuer) -> Iterator[TestClient]:
    """The authorization server of an operator who configured that provider."""
    chosen = settings_of.Provider(
        issuer=listener.url,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        name="Example & Co",
        domains=("example.org",),
    )
    app = authserver.app.create(replace(settings, provider=chosen), hasher=Hasher(CHEAP))
    with AppClient(app, "http://localhost:8400", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def client(server_with_provider: TestClient, issuer: Issuer, owner: Rows) -> TestClient:
    """That server on data that is gone after the test, and a provider that is as it should be."""
    assert not owner.closed
    return server_with_provider


@pytest.fixture
def browser(client: TestClient) -> Visitor:
    """A browser that has never been here."""
    return Visitor(client)


@pytest.fixture
def known(owner: Rows, issuer: Issuer, alice: Person) -> Person:
    """Alice, whose account is connected to her identity at the provider."""
    connect(owner, issuer, alice, SUBJECT)
    return alice


def connect(owner: Rows, issuer: Issuer, person: Person, subject: str) -> None:
    owner.execute(
        "insert into identity.provider_identity (user_id, issuer, subject) values (%s, %s, %s)",
        [person.user_id, issuer.url, subject],
    )


def button(page: Response, action: str = "/sign-in/provider") -> int:
    """Return which form of a page leads to the provider."""
    return [form.action for form in forms(page)].index(action)


def start_sign_in(browser: Visitor, path: str = "/sign-in") -> Response:
    page = browser.get(path)
    assert page.status_code == 200, page.text
    return browser.submit(page, form=button(page))


def location(response: Response) -> str:
    assert response.status_code == 303, response.text
    return response.headers["location"]


def sign_in(browser: Visitor, issuer: Issuer, path: str = "/sign-in", **changed: Any) -> Response:
    return browser.get(issuer.authorize(location(start_sign_in(browser, path)), **changed))


def signed_in_as(browser: Visitor) -> str:
    """Return the start page of the signed-in person, or an empty text."""
    response = browser.get("/settings")
    return response.text if response.status_code == 200 else ""


def rows_of(owner: Rows, table: str) -> int:
    row = owner.execute(f"select count(*) from {table}").fetchone()  # noqa: S608 -- names of ours
    assert row is not None
    return int(row[0])


def failed(owner: Rows) -> list[UUID]:
    """Return the accounts of failed sign-ins."""
    noted = "select user_id from identity.security_event where event = 'sign_in_failed'"
    return [user_id for (user_id,) in owner.execute(noted)]


def event_names(owner: Rows) -> list[str]:
    rows = owner.execute("select event from identity.security_event order by occurred_at, event")
    return [event for (event,) in rows]


# Without a provider


def test_without_a_provider_there_is_no_button_and_no_callback(visitor: Visitor) -> None:
    assert "/sign-in/provider" not in visitor.get("/sign-in").text
    assert visitor.get("/sign-in/provider/callback?state=x").status_code == 404
    assert visitor.post("/sign-in/provider", {"csrf": "x"}).status_code == 404


def test_only_pages_with_a_provider_button_allow_form_redirects_to_it(
    visitor: Visitor, browser: Visitor, settings: Settings
) -> None:
    link = invite(settings)

    without, with_one = visitor.get(link), browser.get(link)

    assert "form-action 'self'" in without.headers["content-security-policy"]
    assert "form-action" not in with_one.headers["content-security-policy"]
    assert "/sign-in/provider" not in without.text


# The request to the provider


def test_the_button_leads_to_the_provider_with_pkce_nonce_and_state(
    browser: Visitor, issuer: Issuer
) -> None:
    page = browser.get("/sign-in")
    parts = urlsplit(location(browser.submit(page, form=button(page))))

    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert "Sign in with <bdi>Example &amp; Co</bdi>" in page.text
    assert "form-action" not in page.headers["content-security-policy"]
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{issuer.url}/authorize"
    assert query["scope"] == "openid email"
    assert query["code_challenge_method"] == "S256"
    assert len(query["code_challenge"]) == 43
    assert len(query["nonce"]) == 43
    assert query["state"].startswith("svc_st_")
    assert "prompt" not in query
    # It forces no new sign-in there, but makes the provider send the time of the last one.
    assert query["max_age"] == "31536000"


def test_each_sign_in_at_the_provider_has_its_own_secrets(browser: Visitor) -> None:
    first, second = location(start_sign_in(browser)), location(start_sign_in(browser))

    one, other = parse_qs(urlsplit(first).query), parse_qs(urlsplit(second).query)
    assert one["state"] != other["state"]
    assert one["nonce"] != other["nonce"]
    assert one["code_challenge"] != other["code_challenge"]


def test_a_started_sign_in_expires_after_ten_minutes_and_stores_only_hashes(
    browser: Visitor, owner: Rows
) -> None:
    query = parse_qs(urlsplit(location(start_sign_in(browser))).query)

    row = owner.execute(
        "select expires_at - created_at = '10 minutes', w::text from identity.provider_sign_in as w"
    ).fetchone()
    assert row is not None
    assert row[0] is True
    assert query["state"][0] not in row[1]


def test_a_form_of_another_browser_does_not_redirect_to_the_provider(
    browser: Visitor, owner: Rows
) -> None:
    page = browser.get("/sign-in")
    other = Visitor(browser.client)
    other.get("/sign-in")

    refused = other.submit(page, form=button(page))

    assert refused.status_code == 403
    assert "This page was out of date" in refused.text
    assert rows_of(owner, "identity.provider_sign_in") == 0


def test_a_form_of_another_site_does_not_redirect_to_the_provider(
    browser: Visitor, owner: Rows
) -> None:
    page = browser.get("/sign-in")
    fields = dict(forms(page)[button(page)].fields)

    refused = browser.post("/sign-in/provider", fields, headers={"Sec-Fetch-Site": "cross-site"})

    assert refused.status_code == 403
    assert rows_of(owner, "identity.provider_sign_in") == 0


def test_redirects_to_the_provider_are_throttled_by_address(browser: Visitor, owner: Rows) -> None:
    page = browser.get("/sign-in")

    statuses = {browser.submit(page, form=button(page)).status_code for _ in range(105)}
    refused = browser.submit(page, form=button(page))

    assert statuses == {303, 429}
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert "too many attempts" in refused.text


# The account of an identity


def test_a_known_identity_is_signed_in(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    before = dict(browser.cookies)

    response = sign_in(browser, issuer)

    used = owner.execute("select last_used_at is not null from identity.provider_identity")
    assert location(response) == "/"
    assert "alice@example.org" in signed_in_as(browser)
    assert browser.cookies != before
    assert used.fetchone() == (True,)
    assert event_names(owner) == ["signed_in"]
    assert rows_of(owner, "identity.provider_sign_in") == 0


def test_sign_ins_through_the_provider_are_counted_by_person(
    browser: Visitor, issuer: Issuer, known: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "_FREE_SIGN_INS", 1)

    statuses = [sign_in(Visitor(browser.client), issuer).status_code for _ in range(2)]

    assert statuses == [303, 429]


def test_the_subject_identifies_a_person_and_not_the_e_mail_address(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    issuer.person["email"] = "bob@elsewhere.example"

    assert location(sign_in(browser, issuer)) == "/"
    assert "alice@example.org" in signed_in_as(browser)


def test_the_same_subject_of_another_issuer_is_unknown(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    owner.execute("update identity.provider_identity set issuer = 'https://old.example'")

    response = sign_in(browser, issuer)

    assert response.status_code == 403
    assert signed_in_as(browser) == ""


def test_a_pending_authorization_request_continues(
    browser: Visitor, issuer: Issuer, known: Person, client: TestClient
) -> None:
    registered = client.post(
        "/oauth/register", json={"redirect_uris": ["https://app.example/callback"]}
    )
    application = Application(client, registered.json()["client_id"])
    to_sign_in = location(browser.get(application.authorize_path()))

    response = sign_in(browser, issuer, to_sign_in)

    assert location(response).startswith("/oauth/consent?request=svc_rq_")
    assert "Allow access" in browser.follow(response).text


def test_an_old_sign_in_at_the_provider_does_not_satisfy_prompt_login(
    browser: Visitor, issuer: Issuer, known: Person, client: TestClient
) -> None:
    registered = client.post("/oauth/register", json={"redirect_uris": [CALLBACK]})
    application = Application(client, registered.json()["client_id"])
    to_sign_in = location(browser.get(application.authorize_path(prompt="login")))
    issuer.claims["auth_time"] = when(-HOUR)

    signed_in = sign_in(browser, issuer, to_sign_in)
    to_confirm = location(browser.follow(signed_in))
    # The clock of the provider may be late.
    issuer.claims["auth_time"] = when(timedelta(seconds=-50))
    confirmed = sign_in(browser, issuer, to_confirm)

    assert to_confirm.startswith("/confirm?next=svc_rq_")
    assert "Allow access" in browser.follow(confirmed).text


@pytest.mark.parametrize("going_to", ["https://evil.example/", "//evil.example", "/oauth/token"])
def test_the_next_parameter_of_a_link_is_not_trusted(
    browser: Visitor, issuer: Issuer, known: Person, going_to: str
) -> None:
    assert location(sign_in(browser, issuer, f"/sign-in?next={going_to}")) == "/"


def test_new_people_of_a_listed_domain_get_an_account(
    browser: Visitor, issuer: Issuer, bob: Person, owner: Rows
) -> None:
    issuer.person["email"] = "Alice@Example.ORG"

    response = sign_in(browser, issuer)

    assert location(response) == "/welcome"
    assert "alice@example.org" in signed_in_as(browser)
    assert owner.execute(
        "select email, is_admin from identity.user where email <> 'bob@example.org'"
    ).fetchall() == [("alice@example.org", False)]
    assert rows_of(owner, "identity.password") == 0
    assert event_names(owner) == ["account_created", "provider_connected", "signed_in"]
    assert location(sign_in(Visitor(browser.client), issuer)) == "/"


@pytest.mark.parametrize(
    ("zone", "stored"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("", "UTC"),
        ("Mars/Olympus Mons", "UTC"),
        ("x" * 2000, "UTC"),
    ],
)
def test_a_new_account_begins_its_days_in_the_zone_of_the_browser(
    browser: Visitor,
    issuer: Issuer,
    settings: Settings,
    bob: Person,
    owner: Rows,
    zone: str,
    stored: str,
) -> None:
    issuer.person["email"] = "alice@example.org"
    for path in ("/sign-in", invite(settings)):
        page = browser.get(path)

        departure = browser.submit(page, form=button(page), timezone=zone)
        response = browser.get(issuer.authorize(location(departure)))

        assert "zone.js" in page.text
        assert location(response) == "/welcome"
        assert owner.execute(
            "delete from identity.user where email = 'alice@example.org' returning timezone"
        ).fetchall() == [(stored,)]
        browser = Visitor(browser.client)


@pytest.mark.parametrize(
    "person",
    [
        {"email": "alice@elsewhere.example"},
        {"email": "alice@sub.example.org"},
        {"email": "alice@notexample.org"},
        {"email": "alice@example.org@evil.example"},
        {"email": "alice@example.org.evil.example"},
        {"email": "alïce@example.org"},
        {"email": ""},
        {"email": None},
        {"email_verified": False},
        {"email_verified": None},
        {"email_verified": "true"},
    ],
)
def test_new_people_of_other_domains_need_an_invitation(
    browser: Visitor, issuer: Issuer, bob: Person, owner: Rows, person: dict[str, Any]
) -> None:
    issuer.claims = person

    response = sign_in(browser, issuer)

    assert response.status_code == 403
    assert "ask the operator of this service for an invitation" in response.text
    assert button(response) >= 0
    assert rows_of(owner, "identity.user") == 1
    assert rows_of(owner, "identity.provider_identity") == 0
    assert signed_in_as(browser) == ""


def test_the_first_account_cannot_be_created_by_domain(
    browser: Visitor, issuer: Issuer, owner: Rows
) -> None:
    response = sign_in(browser, issuer)

    assert response.status_code == 403
    assert rows_of(owner, "identity.user") == 0


@pytest.mark.parametrize("email", ["alice@example.org", "alice@elsewhere.example"])
def test_an_account_with_the_same_address_is_not_signed_in_to(
    browser: Visitor, issuer: Issuer, alice: Person, owner: Rows, email: str
) -> None:
    owner.execute("update identity.user set email = %s", [email])
    issuer.person["email"] = email

    response = sign_in(browser, issuer)

    assert response.status_code == 403
    assert "There is an account here with your e-mail address" in response.text
    assert "connect Example &amp; Co under Account" in response.text
    assert rows_of(owner, "identity.provider_identity") == 0
    assert signed_in_as(browser) == ""


def test_an_unverified_address_does_not_reveal_an_account(
    browser: Visitor, issuer: Issuer, alice: Person
) -> None:
    issuer.person["email_verified"] = False

    response = sign_in(browser, issuer)

    assert response.status_code == 403
    assert "There is an account here" not in response.text
    assert "No account here is connected" in response.text


def test_the_address_of_userinfo_is_used(browser: Visitor, issuer: Issuer, bob: Person) -> None:
    issuer.claims = {"email": None, "email_verified": None}
    issuer.userinfo = {"sub": SUBJECT, "email": "alice@example.org", "email_verified": True}

    assert location(sign_in(browser, issuer)) == "/welcome"
    assert "alice@example.org" in signed_in_as(browser)


@pytest.mark.parametrize("subject", ["another subject", None, 248289761001])
def test_userinfo_with_another_subject_is_refused(
    browser: Visitor, issuer: Issuer, bob: Person, owner: Rows, subject: object
) -> None:
    issuer.claims = {"email": None, "email_verified": None}
    issuer.userinfo = {"sub": subject, "email": "alice@example.org", "email_verified": True}

    assert sign_in(browser, issuer).status_code == 400
    assert rows_of(owner, "identity.user") == 1


# Invitations.


def invite(settings: Settings, email: str = "") -> str:
    result = Terminal(settings).run(f"user invite {f'--email {email}' if email else ''}")
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_an_invitation_creates_an_account_with_a_password(
    visitor: Visitor, settings: Settings, bob: Person, owner: Rows
) -> None:
    link = invite(settings)

    page = visitor.get(link)
    response = visitor.submit(page, email="alice@example.org", password=PASSWORD)

    assert link.startswith("http://localhost:8400/join?link=svc_ln_")
    assert location(response) == "/welcome"
    assert owner.execute(
        "select is_admin from identity.user where email = 'alice@example.org'"
    ).fetchall() == [(False,)]


def test_an_invitation_for_an_address_creates_an_account_only_with_that_address(
    visitor: Visitor, settings: Settings, bob: Person, owner: Rows
) -> None:
    page = visitor.get(invite(settings, "Alice@Example.org"))

    response = visitor.submit(page, email="mallory@example.org", password=PASSWORD)

    emails = owner.execute("select email from identity.user order by email").fetchall()
    assert 'value="alice@example.org"' in page.text
    assert "readonly" in page.text
    assert location(response) == "/welcome"
    assert emails == [("alice@example.org",), ("bob@example.org",)]


def test_an_invitation_creates_an_account_through_the_provider_from_any_domain(
    browser: Visitor, issuer: Issuer, settings: Settings, bob: Person, owner: Rows
) -> None:
    issuer.person |= {"email": "alice@elsewhere.example", "email_verified": False}

    response = sign_in(browser, issuer, invite(settings))

    assert location(response) == "/welcome"
    assert "alice@elsewhere.example" in signed_in_as(browser)
    assert event_names(owner) == ["account_created", "provider_connected", "signed_in"]


def test_an_invitation_for_an_address_sets_the_address_through_the_provider_too(
    browser: Visitor, issuer: Issuer, settings: Settings, bob: Person, owner: Rows
) -> None:
    issuer.person["email"] = "alice@elsewhere.example"

    response = sign_in(browser, issuer, invite(settings, "alice@example.com"))

    kept = owner.execute("select email from identity.provider_identity").fetchall()
    assert location(response) == "/welcome"
    assert "alice@example.com" in signed_in_as(browser)
    assert kept == [("alice@elsewhere.example",)]


def test_an_invitation_for_an_address_needs_no_address_of_the_provider(
    browser: Visitor, issuer: Issuer, settings: Settings, bob: Person
) -> None:
    issuer.claims = {"email": None}

    assert location(sign_in(browser, issuer, invite(settings, "alice@example.com"))) == "/welcome"


def test_the_first_link_creates_an_administrator_through_the_provider(
    browser: Visitor, issuer: Issuer, settings: Settings, owner: Rows
) -> None:
    link = first_account.link(settings)
    assert link is not None

    assert location(sign_in(browser, issuer, link)) == "/welcome"
    assert owner.execute("select email, is_admin from identity.user").fetchall() == [
        ("alice@example.org", True)
    ]


def test_without_an_address_the_invitation_stays_open(
    browser: Visitor, issuer: Issuer, settings: Settings, bob: Person, owner: Rows
) -> None:
    issuer.claims = {"email": None}
    link = invite(settings)

    refused = sign_in(browser, issuer, link)

    assert refused.status_code == 400
    assert "choose a password instead" in refused.text
    assert browser.get(link).status_code == 200
    assert rows_of(owner, "identity.user") == 1


def test_an_invitation_stays_open_where_the_address_has_an_account(
    browser: Visitor, issuer: Issuer, settings: Settings, alice: Person, owner: Rows
) -> None:
    link = invite(settings)

    refused = sign_in(browser, issuer, link)

    assert refused.status_code == 403
    assert browser.get(link).status_code == 200
    assert rows_of(owner, "identity.provider_identity") == 0


def test_a_person_with_an_account_is_signed_in_and_the_invitation_stays_open(
    browser: Visitor, issuer: Issuer, settings: Settings, known: Person, owner: Rows
) -> None:
    link = invite(settings)

    assert location(sign_in(browser, issuer, link)) == "/"
    assert Visitor(browser.client).get(link).status_code == 200


def test_a_used_invitation_is_refused(
    browser: Visitor, issuer: Issuer, settings: Settings, bob: Person, owner: Rows
) -> None:
    link = invite(settings)
    late = Visitor(browser.client)
    page = late.get(link)
    away = issuer.authorize(location(start_sign_in(late, link)))
    sign_in(browser, issuer, link)
    issuer.person |= {"sub": "2", "email": "mallory@example.org"}

    assert late.get(link).status_code == 400
    assert late.submit(page, form=button(page)).status_code == 400
    assert late.submit(page, email="mallory@example.org", password=PASSWORD).status_code == 400
    came_late = late.get(away)
    assert came_late.status_code == 400
    assert "This link cannot be used" in came_late.text
    assert rows_of(owner, "identity.user") == 2


def test_an_expired_invitation_is_refused(
    browser: Visitor, issuer: Issuer, settings: Settings, bob: Person, owner: Rows
) -> None:
    link = invite(settings)
    lifetime = owner.execute(
        "select expires_at - created_at = '1 day' from identity.invitation"
    ).fetchone()
    page = browser.get(link)
    away = issuer.authorize(location(start_sign_in(browser, link)))
    owner.execute("update identity.invitation set expires_at = now()")

    assert lifetime == (True,)
    assert browser.get(link).status_code == 400
    assert browser.submit(page, form=button(page)).status_code == 400
    assert browser.submit(page, email="alice@example.org", password=PASSWORD).status_code == 400
    assert browser.get(away).status_code == 400
    assert rows_of(owner, "identity.user") == 1


@pytest.mark.parametrize(
    ("email", "said"),
    [("alice@example.org", "has an account already"), ("alice", "Enter an e-mail address")],
)
def test_an_address_that_cannot_be_invited_is_reported(
    terminal: Terminal, alice: Person, email: str, said: str
) -> None:
    result = terminal.run(f"user invite --email {email}")

    assert result.exit_code == 1
    assert said in result.output


# The response of the provider


def refused(response: Response, status: int = 400) -> str:
    """Return the page of an attempt that was refused, which still offers the password."""
    assert response.status_code == status, response.text
    assert forms(response)[0].action == "/sign-in"
    return response.text


def test_a_callback_works_once(browser: Visitor, issuer: Issuer, known: Person) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))

    first = browser.get(back)
    # The browser has signed in by now, so it ends at the page that it requested.
    again = browser.get(back)
    browser.cookies.clear()
    elsewhere = browser.get(back)

    assert location(first) == "/"
    assert location(again) == "/"
    assert "no longer open" in refused(elsewhere)
    assert len(issuer.redeemed) == 1


def test_of_eight_concurrent_callbacks_one_signs_in(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))
    rivals = [Visitor(browser.client, dict(browser.cookies)) for _ in range(8)]

    with ThreadPoolExecutor(8) as at_once:
        responses = list(at_once.map(lambda rival: rival.get(back), rivals))

    assert sorted(response.status_code for response in responses) == [303] + [400] * 7
    assert issuer.asked.count("/token") == 1
    assert rows_of(owner, "identity.session") == 1


# Two tabs of one browser, both at the provider.


def test_the_second_of_two_tabs_continues_to_its_own_page(
    browser: Visitor, issuer: Issuer, known: Person, client: TestClient, owner: Rows
) -> None:
    registered = client.post(
        "/oauth/register", json={"redirect_uris": ["https://app.example/callback"]}
    )
    application = Application(client, registered.json()["client_id"])
    first = issuer.authorize(location(start_sign_in(browser, "/sign-in?next=/settings/apps")))
    second = issuer.authorize(
        location(start_sign_in(browser, location(browser.get(application.authorize_path()))))
    )

    arrived = browser.get(first)
    arrived_too = browser.get(second)

    assert location(arrived) == "/settings/apps"
    assert location(arrived_too).startswith("/oauth/consent?request=svc_rq_")
    assert "Allow access" in browser.follow(arrived_too).text
    assert rows_of(owner, "identity.session") == 1
    assert rows_of(owner, "identity.provider_sign_in") == 0
    assert len(issuer.redeemed) == 1


def test_the_second_of_two_tabs_does_not_change_the_signed_in_person(
    browser: Visitor, issuer: Issuer, known: Person, bob: Person, owner: Rows
) -> None:
    connect(owner, issuer, bob, "bob")
    first = issuer.authorize(location(start_sign_in(browser)))
    second = issuer.authorize(location(start_sign_in(browser, "/sign-in?next=/settings/apps")))
    browser.get(first)
    issuer.person["sub"] = "bob"

    response = browser.get(second)

    assert location(response) == "/settings/apps"
    assert "alice@example.org" in signed_in_as(browser)
    assert event_names(owner) == ["signed_in"]


def test_a_tab_at_the_provider_continues_after_a_password_sign_in_in_another_tab(
    browser: Visitor, issuer: Issuer, alice: Person, owner: Rows, password_hash: str
) -> None:
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [alice.user_id, password_hash],
    )
    away = issuer.authorize(location(start_sign_in(browser, "/sign-in?next=/settings/apps")))
    browser.submit(browser.get("/sign-in"), email="alice@example.org", password=PASSWORD)

    assert location(browser.get(away)) == "/settings/apps"
    assert "/token" not in issuer.asked


def test_an_invitation_in_another_tab_does_not_move_to_a_new_session(
    browser: Visitor, issuer: Issuer, known: Person, settings: Settings
) -> None:
    away = issuer.authorize(location(start_sign_in(browser, invite(settings))))
    sign_in(browser, issuer)
    issuer.person |= {"sub": "another", "email": "bob@example.org"}

    assert location(browser.get(away)) == "/"
    assert "alice@example.org" in signed_in_as(browser)
    assert len(issuer.redeemed) == 1


def test_a_confirmation_in_progress_does_not_move_to_another_person(
    browser: Visitor,
    issuer: Issuer,
    known: Person,
    bob: Person,
    owner: Rows,
    password_hash: str,
) -> None:
    stale(browser, issuer, owner)
    confirming = issuer.authorize(location(start_sign_in(browser, location(browser.get(METHODS)))))
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [bob.user_id, password_hash],
    )
    # No page has a sign-in form for bob while alice is signed in, but any form's token works.
    csrf = dict(forms(browser.get("/settings"))[0].fields)["csrf"]
    browser.post("/sign-in", {"csrf": csrf, "email": "bob@example.org", "password": PASSWORD})

    assert location(browser.get(confirming)) == "/"
    assert "bob@example.org" in signed_in_as(browser)


def test_signing_out_cancels_the_sign_in_of_a_tab_at_the_provider(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    away = issuer.authorize(location(start_sign_in(browser)))
    sign_in(browser, issuer)
    home = browser.get("/settings")
    browser.submit(home, form=button(home, "/sign-out"))

    refused(browser.get(away))

    assert signed_in_as(browser) == ""


def test_the_state_of_another_browser_is_refused(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    # Mallory wants alice to use the account for which mallory has come back.
    mallory = Visitor(browser.client)
    back = issuer.authorize(location(start_sign_in(mallory)))
    browser.get("/sign-in")

    assert "began in another browser" in refused(browser.get(back))
    assert signed_in_as(browser) == ""
    assert issuer.redeemed == []
    assert location(mallory.get(back)) == "/"


def test_a_callback_is_refused_after_ten_minutes(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))
    owner.execute("update identity.provider_sign_in set expires_at = now()")

    assert "longer than 10 minutes" in refused(browser.get(back))


@pytest.mark.parametrize("state", [None, "", "x", "svc_st_" + "0" * 71, "%00", "é"])
def test_an_unknown_state_is_an_ordinary_error(
    browser: Visitor, issuer: Issuer, state: str | None
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)), state=state)

    refused(browser.get(back))


@pytest.mark.parametrize(
    "query", ["", "?state=x&state=y", "?code=%ff", "?" + "&".join(f"a{n}=1" for n in range(60))]
)
def test_any_query_of_the_callback_is_an_ordinary_error(browser: Visitor, query: str) -> None:
    assert browser.get(f"/sign-in/provider/callback{query}").status_code == 400


@pytest.mark.parametrize("iss", ["https://evil.example", "", None])
def test_a_response_of_another_issuer_is_refused_before_its_code_is_used(
    browser: Visitor, issuer: Issuer, known: Person, iss: str | None
) -> None:
    refused(sign_in(browser, issuer, iss=iss))

    assert "/token" not in issuer.asked
    assert signed_in_as(browser) == ""


def test_iss_is_optional_if_the_metadata_does_not_announce_it(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    issuer.metadata = {"authorization_response_iss_parameter_supported": None}

    assert location(sign_in(browser, issuer, iss=None)) == "/"
    assert sign_in(Visitor(browser.client), issuer, iss="https://evil.example").status_code == 400


def test_declining_at_the_provider_shows_that_nothing_changed(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    response = sign_in(browser, issuer, code=None, error="access_denied")

    assert "nothing has changed here" in refused(response)


@pytest.mark.parametrize(
    "changed",
    [
        {"code": None},
        {"code": ""},
        {"code": "never issued"},
        {"error": "server_error"},
        {"error": "<b>markup", "code": None},
        {"error": "x" * 1000, "code": None},
    ],
)
def test_a_response_without_a_valid_code_is_refused(
    browser: Visitor, issuer: Issuer, known: Person, changed: dict[str, Any]
) -> None:
    page = refused(sign_in(browser, issuer, **changed))

    assert "Signing in through Example &amp; Co did not work" in page
    assert "<b>" not in page
    assert signed_in_as(browser) == ""


def test_a_code_that_was_redeemed_before_is_refused(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))
    issuer.redeemed.append(parse_qs(urlsplit(back).query)["code"][0])

    refused(browser.get(back))


# The ID token.

HOUR = timedelta(hours=1)


def when(value: object) -> object:
    """Return the NumericDate of a time relative to now."""
    return time.time() + value.total_seconds() if isinstance(value, timedelta) else value


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"aud": []},
        {"aud": [CLIENT_ID, "another"]},
        {"aud": [CLIENT_ID, "another"], "azp": "another"},
        {"azp": "another"},
        {"nonce": "another"},
        {"nonce": None},
        {"nonce": ""},
        {"nonce": ["x"]},
        {"exp": -HOUR},
        {"exp": None},
        {"exp": "never"},
        {"exp": True},
        {"iat": HOUR},
        {"iat": -HOUR},
        {"iat": None},
        {"iat": "now"},
        {"sub": None},
        {"sub": ""},
        {"sub": 248289761001},
        {"sub": "s" * 256},
        {"sub": "zero\0"},
        {"nbf": HOUR},
    ],
    ids=str,
)
def test_an_id_token_with_a_wrong_claim_is_refused(
    browser: Visitor, issuer: Issuer, known: Person, claims: dict[str, Any]
) -> None:
    issuer.claims = {name: when(value) for name, value in claims.items()}

    refused(sign_in(browser, issuer))

    assert issuer.redeemed != []
    assert signed_in_as(browser) == ""


def test_an_id_token_with_several_audiences_and_our_azp_is_accepted(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    issuer.claims = {"aud": [CLIENT_ID, "another"], "azp": CLIENT_ID}

    assert location(sign_in(browser, issuer)) == "/"


def part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def good_claims(issuer: Issuer, back: str) -> dict[str, Any]:
    code = parse_qs(urlsplit(back).query)["code"][0]
    return issuer.person | {
        "iss": issuer.url,
        "aud": CLIENT_ID,
        "iat": int(time.time()),
        "exp": int(time.time()) + 300,
        "nonce": issuer.codes[code]["nonce"],
    }


def test_an_id_token_without_a_signature_is_refused(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))
    issuer.id_token = f"{part({'alg': 'none'})}.{part(good_claims(issuer, back))}."

    refused(browser.get(back))

    assert signed_in_as(browser) == ""


@pytest.mark.parametrize("secret", ["key", "client secret"])
def test_an_id_token_signed_with_a_shared_secret_is_refused(
    browser: Visitor, issuer: Issuer, known: Person, secret: str
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))
    public = json.dumps(issuer.key.as_dict(private=False)) if secret == "key" else CLIENT_SECRET
    issuer.id_token = jwt.encode(
        {"alg": "HS256", "kid": "one"},
        good_claims(issuer, back),
        OctKey.import_key(
            {"kty": "oct", "k": base64.urlsafe_b64encode(public.encode()).decode().rstrip("=")}
        ),
        algorithms=["HS256"],
    )

    refused(browser.get(back))

    assert signed_in_as(browser) == ""


def test_a_shared_secret_among_the_providers_keys_is_ignored(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    shared = OctKey.generate_key(256, {"kid": "one"})
    issuer.published = [shared.as_dict(private=True)]
    back = issuer.authorize(location(start_sign_in(browser)))
    issuer.id_token = jwt.encode(
        {"alg": "HS256", "kid": "one"}, good_claims(issuer, back), shared, algorithms=["HS256"]
    )

    refused(browser.get(back))


def test_an_id_token_signed_with_another_key_under_a_known_id_is_refused(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    issuer.published = [new_key("one").as_dict(private=False)]

    refused(sign_in(browser, issuer))

    assert signed_in_as(browser) == ""


def test_a_changed_claim_breaks_the_signature(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))
    claims = good_claims(issuer, back)
    header, _, signature = issuer.sign(claims | {"sub": "another"}).split(".")
    issuer.id_token = f"{header}.{part(claims)}.{signature}"

    refused(browser.get(back))


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "..",
        "a.b.c",
        "e30.e30.e30",
        f"{part({'alg': 'ES256', 'kid': 'one'})}.e30.",
        f"{part({'alg': ['ES256']})}.e30.e30",
        "ImFsZyI.e30.e30",
        "x" * 200_000,
        "é.é.é",
    ],
    ids=lambda token: token[:20],
)
def test_a_malformed_id_token_is_refused(
    browser: Visitor, issuer: Issuer, known: Person, token: str
) -> None:
    issuer.id_token = token

    refused(sign_in(browser, issuer))


def test_an_unknown_critical_header_is_refused(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))
    issuer.id_token = f"{part({'alg': 'ES256', 'kid': 'one', 'crit': ['x'], 'x': 1})}.e30.e30"

    refused(browser.get(back))


# Keys change.


def test_a_new_key_is_fetched_at_most_once_a_minute(
    browser: Visitor, issuer: Issuer, known: Person, clock: Clock
) -> None:
    first = sign_in(browser, issuer)
    issuer.key = new_key("two")
    at_once = sign_in(Visitor(browser.client), issuer)
    fetched_at_once = issuer.asked.count("/keys")
    clock.ahead_s += 61
    after_a_minute = sign_in(Visitor(browser.client), issuer)
    issuer.key = new_key("three")
    again_at_once = sign_in(Visitor(browser.client), issuer)

    assert location(first) == "/"
    assert at_once.status_code == 400
    assert fetched_at_once == 1
    assert location(after_a_minute) == "/"
    assert again_at_once.status_code == 400
    assert issuer.asked.count("/keys") == 2


def test_a_withdrawn_key_is_dropped_within_the_hour(
    browser: Visitor, issuer: Issuer, known: Person, clock: Clock
) -> None:
    first = sign_in(browser, issuer)
    issuer.published = [new_key("two").as_dict(private=False)]
    clock.ahead_s += 3601

    assert location(first) == "/"
    assert sign_in(Visitor(browser.client), issuer).status_code == 400


def test_the_providers_metadata_is_fetched_once_an_hour(
    browser: Visitor, issuer: Issuer, known: Person, clock: Clock
) -> None:
    for _ in range(3):
        sign_in(Visitor(browser.client), issuer)
    within_the_hour = issuer.asked.count(METADATA)
    clock.ahead_s += 3601
    sign_in(browser, issuer)

    assert within_the_hour == 1
    assert issuer.asked.count(METADATA) == 2


def test_concurrent_sign_ins_share_one_fetch(client: TestClient, issuer: Issuer) -> None:
    visitors = [Visitor(client) for _ in range(8)]

    with ThreadPoolExecutor(8) as at_once:
        with issuer.holding(METADATA):
            departing = [at_once.submit(start_sign_in, visitor) for visitor in visitors]
            wait_for(lambda: METADATA in issuer.asked, "the provider to be asked")
        responses = [each.result() for each in departing]

    assert {response.status_code for response in responses} == {303}
    assert issuer.asked.count(METADATA) == 1


def test_unreadable_keys_are_skipped(browser: Visitor, issuer: Issuer, known: Person) -> None:
    issuer.published = [
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": "AKP", "kid": "from the future"},
        {"kid": "one"},
        {"kty": "EC", "kid": "one", "crv": "P-256", "x": "AA", "y": "AA"},
        new_key("another").as_dict(private=False),
        issuer.key.as_dict(private=False),
    ]

    assert location(sign_in(browser, issuer)) == "/"


def test_an_id_token_without_a_key_id_is_accepted_with_one_key(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    back = issuer.authorize(location(start_sign_in(browser)))
    issuer.id_token = issuer.sign(good_claims(issuer, back), kid=None)

    assert location(browser.get(back)) == "/"


def test_an_id_token_without_a_key_id_is_refused_with_two_keys(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    issuer.published = [
        issuer.key.as_dict(private=False),
        new_key("two").as_dict(private=False),
    ]
    back = issuer.authorize(location(start_sign_in(browser)))
    issuer.id_token = issuer.sign(good_claims(issuer, back), kid=None)

    refused(browser.get(back))


# A provider that is down, or wrong.


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"issuer": "{issuer}/"},
        {"token_endpoint": None},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"token_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "data:text/html,x"},
        {"authorization_endpoint": "https://x.example/\r\nSet-Cookie: a=b"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": 7},
        {"userinfo_endpoint": "http://169.254.169.254/"},
    ],
    ids=str,
)
def test_a_provider_with_wrong_metadata_is_not_used(
    browser: Visitor, issuer: Issuer, owner: Rows, metadata: dict[str, Any]
) -> None:
    issuer.metadata = {
        name: value.format(issuer=issuer.url) if isinstance(value, str) else value
        for name, value in metadata.items()
    }

    page = refused(start_sign_in(browser), 503)

    assert "Example &amp; Co does not answer" in page
    assert rows_of(owner, "identity.provider_sign_in") == 0


ANSWERS = [
    (500, b"oops"),
    (404, b""),
    (302, b""),
    (200, b""),
    (200, b"<html>"),
    (200, b"[]"),
    (200, b"\xff\xfe"),
    (200, b"null"),
    (200, b"[" * 100_000),
    (200, b'{"a":' * 50_000),
    (200, b" " * 300_000),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: str((answer[0], answer[1][:8])))
@pytest.mark.parametrize("path", [METADATA, "/keys", "/token", "/userinfo"])
def test_any_malformed_response_of_the_provider_is_an_ordinary_failure(
    browser: Visitor, issuer: Issuer, bob: Person, path: str, answer: tuple[int, bytes]
) -> None:
    issuer.instead[path] = answer
    issuer.claims = {"email": None}

    response = start_sign_in(browser)
    if path != METADATA:
        response = browser.get(issuer.authorize(location(response)))

    assert response.status_code == (503 if path == METADATA or answer[0] == 500 else 400)
    refused(response, response.status_code)
    assert "/elsewhere" not in issuer.asked
    assert signed_in_as(browser) == ""


@pytest.mark.parametrize(("padding", "status"), [(200_000, 303), (300_000, 503)])
def test_a_response_that_is_too_long_is_refused(
    browser: Visitor, issuer: Issuer, padding: int, status: int
) -> None:
    _, good = issuer.answer(METADATA, "", {})
    issuer.instead[METADATA] = (200, good + b" " * padding)

    assert start_sign_in(browser).status_code == status


def test_a_provider_is_used_again_after_a_failure(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    issuer.instead[METADATA] = (500, b"")
    down = start_sign_in(browser)
    issuer.instead.clear()

    assert down.status_code == 503
    assert location(sign_in(browser, issuer)) == "/"


def test_an_unreachable_provider_is_an_ordinary_failure(settings: Settings, owner: Rows) -> None:
    chosen = settings_of.Provider("http://127.0.0.1:9", "svc", "secret", "Example")
    app = authserver.app.create(replace(settings, provider=chosen), hasher=Hasher(CHEAP))

    with AppClient(app, "http://localhost:8400", raise_server_exceptions=False) as client:
        page = refused(start_sign_in(Visitor(client)), 503)

    assert "Try again in a while, or sign in another way." in page


@pytest.mark.parametrize("path", [METADATA, "/token", "/keys", "/userinfo"])
def test_a_slow_provider_times_out(
    browser: Visitor,
    issuer: Issuer,
    bob: Person,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    monkeypatch.setattr(provider, "TOTAL_TIMEOUT_S", 0.2)
    issuer.claims = {"email": None}

    with issuer.holding(path):
        response = start_sign_in(browser)
        if path != METADATA:
            response = browser.get(issuer.authorize(location(response)))

    refused(response, 503)


def test_client_secret_post_is_supported(browser: Visitor, issuer: Issuer, known: Person) -> None:
    issuer.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    issuer.used_post = True

    assert location(sign_in(browser, issuer)) == "/"


def test_a_provider_without_client_secret_methods_is_refused(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    issuer.metadata = {"token_endpoint_auth_methods_supported": ["private_key_jwt"]}

    refused(sign_in(browser, issuer))


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "Ed25519"])
def test_asymmetric_algorithms_are_accepted(
    browser: Visitor, issuer: Issuer, known: Person, algorithm: str
) -> None:
    if algorithm in ("RS256", "PS256"):
        issuer.key = RSAKey.generate_key(2048, {"kid": "one"})
    if algorithm == "Ed25519":
        issuer.key = OKPKey.generate_key("Ed25519", {"kid": "one"})
    issuer.algorithm = algorithm

    assert location(sign_in(browser, issuer)) == "/"


def test_the_log_has_the_reason_and_no_secret(
    browser: Visitor, issuer: Issuer, known: Person, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.claims = {"nonce": "another", "email": "private@example.org"}
    back = issuer.authorize(location(start_sign_in(browser)))
    code = parse_qs(urlsplit(back).query)["code"][0]

    with caplog.at_level("DEBUG"):
        refused(browser.get(back))
        issuer.instead["/token"] = (400, b'{"error":"invalid_grant","error_description":"hunter2"}')
        refused(sign_in(browser, issuer))
        issuer.instead["/token"] = (400, b'{"error":"hunter2\\nforged=1"}')
        refused(sign_in(browser, issuer))

    ours = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith("svc")
    )
    assert "signing in failed: ID token: invalid_claim" in ours
    assert "token endpoint: status 400 (invalid_grant)" in ours
    for secret in (code, CLIENT_SECRET, "hunter2", "private@", "svc_st_", SUBJECT):
        assert secret not in ours


# Settings: adding and removing the provider

METHODS = "/settings/account/sign-in"
CONNECT = "/settings/account/provider/connect"
DISCONNECT = "/settings/account/provider/disconnect"
REMOVE = f"{METHODS}/passkeys/remove"


@pytest.fixture
def at_home(client: TestClient, alice: Person, owner: Rows, password_hash: str) -> Visitor:
    """A browser in which alice has just signed in with her password."""
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [alice.user_id, password_hash],
    )
    browser = Visitor(client)
    page = browser.get("/sign-in")
    browser.submit(page, email="alice@example.org", password=PASSWORD)
    return browser


def go_and_connect(browser: Visitor, issuer: Issuer) -> Response:
    page = browser.get(METHODS)
    return browser.get(issuer.authorize(location(browser.submit(page, form=button(page, CONNECT)))))


def test_the_provider_is_connected_and_disconnected(
    at_home: Visitor, issuer: Issuer, owner: Rows
) -> None:
    connected = go_and_connect(at_home, issuer)
    page = at_home.follow(connected)
    elsewhere = Visitor(at_home.client)
    signed_in = sign_in(elsewhere, issuer)
    disconnected = at_home.submit(page, form=button(page, DISCONNECT))

    assert location(connected) == f"{METHODS}?done=connected"
    assert "It is connected." in page.text
    assert "Known there as" in page.text
    assert "form-action" not in page.headers["content-security-policy"]
    assert location(signed_in) == "/"
    assert "It is disconnected." in at_home.follow(disconnected).text
    assert rows_of(owner, "identity.provider_identity") == 0
    assert event_names(owner) == [
        "signed_in",
        "provider_connected",
        "signed_in",
        "provider_disconnected",
    ]


def test_the_last_sign_in_method_is_not_disconnected(
    at_home: Visitor, issuer: Issuer, owner: Rows
) -> None:
    page = at_home.follow(go_and_connect(at_home, issuer))
    owner.execute("delete from identity.password")

    refused = at_home.submit(page, form=button(page, DISCONNECT))

    assert refused.status_code == 400
    assert "This is your only way to sign in" in refused.text
    assert "cannot be disconnected" in at_home.get(METHODS).text
    assert DISCONNECT not in at_home.get(METHODS).text
    assert rows_of(owner, "identity.provider_identity") == 1
    assert "provider_disconnected" not in event_names(owner)


def test_a_second_click_on_disconnect_does_nothing_more(
    at_home: Visitor, issuer: Issuer, owner: Rows
) -> None:
    page = at_home.follow(go_and_connect(at_home, issuer))

    first = at_home.submit(page, form=button(page, DISCONNECT))
    second = at_home.submit(page, form=button(page, DISCONNECT))

    assert (first.status_code, second.status_code) == (303, 303)
    assert event_names(owner).count("provider_disconnected") == 1


def test_an_identity_of_another_account_is_not_connected(
    at_home: Visitor, issuer: Issuer, bob: Person, owner: Rows
) -> None:
    connect(owner, issuer, bob, SUBJECT)

    response = go_and_connect(at_home, issuer)

    assert response.status_code == 400
    assert "cannot be connected" in response.text
    assert owner.execute("select user_id from identity.provider_identity").fetchall() == [
        (bob.user_id,)
    ]


def test_a_second_identity_is_not_connected_beside_the_first(
    at_home: Visitor, issuer: Issuer, alice: Person, owner: Rows
) -> None:
    page = at_home.get(METHODS)
    away = location(at_home.submit(page, form=button(page, CONNECT)))
    connect(owner, issuer, alice, "another")

    response = at_home.get(issuer.authorize(away))

    assert response.status_code == 400
    assert owner.execute("select subject from identity.provider_identity").fetchall() == [
        ("another",)
    ]


def test_connecting_requires_the_same_signed_in_browser(
    at_home: Visitor, issuer: Issuer, owner: Rows
) -> None:
    page = at_home.get(METHODS)
    back = issuer.authorize(location(at_home.submit(page, form=button(page, CONNECT))))
    owner.execute("delete from identity.session")

    refused(at_home.get(back))

    assert rows_of(owner, "identity.provider_identity") == 0


def test_nothing_is_connected_if_the_session_ends_meanwhile(
    at_home: Visitor, issuer: Issuer, alice: Person, owner: Rows
) -> None:
    page = at_home.get(METHODS)
    back = issuer.authorize(location(at_home.submit(page, form=button(page, CONNECT))))
    elsewhere = "insert into identity.session (user_id, session_hash) values (%s, 'elsewhere')"
    owner.execute(elsewhere, [alice.user_id])

    with ThreadPoolExecutor(1) as other, issuer.holding("/token"):
        coming_back = other.submit(at_home.get, back)
        wait_for(lambda: "/token" in issuer.asked, "the provider to be asked")
        owner.execute("delete from identity.session where session_hash <> 'elsewhere'")

    assert coming_back.result().status_code == 400
    assert rows_of(owner, "identity.provider_identity") == 0


@pytest.mark.parametrize("path", [CONNECT, DISCONNECT])
def test_sign_in_methods_are_changed_only_by_our_own_forms(
    at_home: Visitor, issuer: Issuer, path: str, owner: Rows
) -> None:
    at_home.follow(go_and_connect(at_home, issuer))

    assert at_home.post(path, {"csrf": "forged"}).status_code == 403
    assert at_home.get(path).status_code == 405
    assert rows_of(owner, "identity.provider_identity") == 1
    assert rows_of(owner, "identity.provider_sign_in") == 0


@pytest.mark.parametrize("path", [CONNECT, DISCONNECT])
def test_sign_in_methods_are_changed_only_after_a_fresh_sign_in(
    at_home: Visitor, issuer: Issuer, path: str, owner: Rows
) -> None:
    if path == DISCONNECT:
        go_and_connect(at_home, issuer)
    page = at_home.get(METHODS)
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")

    response = at_home.submit(page, form=button(page, path))

    assert location(response) == "/confirm?next=/settings/account/sign-in"


def test_sign_in_methods_are_changed_only_by_signed_in_people(browser: Visitor) -> None:
    assert location(browser.post(CONNECT, {"csrf": "x"})).startswith("/sign-in?next=")
    assert location(browser.post(DISCONNECT, {"csrf": "x"})).startswith("/sign-in?next=")


# Fresh authentication.

SETTINGS = (
    *("/settings/api-access", "/settings/apps", "/settings/account"),
    *("/settings/account/sessions", "/settings/account/events"),
)


def test_a_recent_authentication_at_the_provider_counts_as_fresh(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    sign_in(browser, issuer)

    assert browser.get(METHODS).status_code == 200


@pytest.mark.parametrize(
    "auth_time", [-timedelta(minutes=16), -HOUR, 0, None, HOUR, float("nan"), 10**18, -1]
)
def test_an_old_authentication_at_the_provider_is_not_fresh(
    browser: Visitor, issuer: Issuer, known: Person, auth_time: object
) -> None:
    issuer.claims["auth_time"] = when(auth_time)
    sign_in(browser, issuer)

    asked = location(browser.get(METHODS))
    issuer.claims.clear()
    confirmed = sign_in(browser, issuer, asked)

    assert asked == f"/confirm?next={METHODS}"
    assert location(confirmed) == METHODS
    assert browser.get(METHODS).status_code == 200


def test_signing_out_and_in_again_without_authentication_is_not_fresh(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    stale(browser, issuer, owner)
    home = browser.get("/settings")
    browser.submit(home, form=button(home, "/sign-out"))
    issuer.claims["auth_time"] = when(-HOUR)

    sign_in(browser, issuer)

    assert "alice@example.org" in signed_in_as(browser)
    assert location(browser.get(METHODS)).startswith("/confirm")


def test_an_authentication_time_in_the_future_counts_as_the_time_of_sign_in(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    issuer.claims["auth_time"] = when(timedelta(seconds=50))

    sign_in(browser, issuer)

    proved = owner.execute("select authenticated_at <= created_at from identity.session")
    assert proved.fetchall() == [(True,)]


def test_a_sign_in_without_a_recent_authentication_still_succeeds(
    browser: Visitor, issuer: Issuer, known: Person, terminal: Terminal
) -> None:
    issuer.claims["auth_time"] = None
    sign_in(browser, issuer)

    cleaned = terminal.run("janitor")
    pages = [browser.get(path) for path in SETTINGS]
    listed = terminal.table("session list alice@example.org")

    assert cleaned.exit_code == 0, cleaned.output
    assert [page.status_code for page in pages] == [200] * 5
    assert len(listed) == 1
    assert "alice@example.org" in signed_in_as(browser)


# Confirming that it is still the same person.


def stale(browser: Visitor, issuer: Issuer, owner: Rows) -> None:
    """Sign alice in, and let a while pass."""
    assert location(sign_in(browser, issuer)) == "/"
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")


def test_a_confirmation_through_the_provider_requires_a_new_authentication(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    stale(browser, issuer, owner)
    away = location(start_sign_in(browser, location(browser.get(METHODS))))

    response = browser.get(issuer.authorize(away))

    query = parse_qs(urlsplit(away).query)
    assert (query["prompt"], query["max_age"]) == (["login"], ["0"])
    assert location(response) == METHODS
    assert browser.get(METHODS).status_code == 200


@pytest.mark.parametrize("auth_time", [-HOUR, None, HOUR, float("nan"), 10**18])
def test_a_confirmation_without_a_new_authentication_is_refused(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows, auth_time: object
) -> None:
    stale(browser, issuer, owner)
    issuer.claims["auth_time"] = when(auth_time)

    response = sign_in(browser, issuer, location(browser.get(METHODS)))

    assert response.status_code == 400
    assert location(browser.get(METHODS)).startswith("/confirm")
    assert failed(owner) == [known.user_id]


@pytest.mark.parametrize("changed", [{"code": None}, {"code": "x"}, {"error": "login_required"}])
def test_a_refused_confirmation_is_recorded(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows, changed: dict[str, Any]
) -> None:
    stale(browser, issuer, owner)

    response = sign_in(browser, issuer, location(browser.get(METHODS)), **changed)

    assert response.status_code == 400
    assert "did not work" in response.text
    assert failed(owner) == [known.user_id]


def test_an_unavailable_provider_or_a_declined_sign_in_is_not_recorded(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    stale(browser, issuer, owner)
    issuer.instead["/token"] = (503, b"")
    down = sign_in(browser, issuer, location(browser.get(METHODS)))
    issuer.instead.clear()

    stopped = sign_in(
        browser, issuer, location(browser.get(METHODS)), code=None, error="access_denied"
    )

    assert (down.status_code, stopped.status_code) == (503, 400)
    assert failed(owner) == []


def test_a_refused_sign_in_of_an_unknown_person_is_not_recorded(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    sign_in(browser, issuer, code=None, error="login_required")

    assert event_names(owner) == []


def test_another_person_at_the_provider_cannot_confirm(
    browser: Visitor, issuer: Issuer, known: Person, bob: Person, owner: Rows
) -> None:
    stale(browser, issuer, owner)
    connect(owner, issuer, bob, "bob")
    issuer.person["sub"] = "bob"

    response = sign_in(browser, issuer, location(browser.get(METHODS)))

    assert response.status_code == 400
    assert "is not the one that is connected" in response.text
    assert "alice@example.org" in signed_in_as(browser)
    assert failed(owner) == [known.user_id]


def test_the_last_passkey_is_kept_when_the_identity_is_at_another_provider(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    stale(browser, issuer, owner)
    owner.execute("update identity.session set authenticated_at = now()")
    owner.execute(
        "insert into identity.passkey (user_id, credential_id, public_key, sign_count, name) "
        "values (%s, '\\x01', '\\x01', 0, 'Key')",
        [known.user_id],
    )
    page = browser.get(METHODS)
    owner.execute("update identity.provider_identity set issuer = 'https://old.example'")

    kept = browser.submit(page, form=button(page, REMOVE))
    owner.execute("update identity.provider_identity set issuer = %s", [issuer.url])
    removed = browser.submit(page, form=button(page, REMOVE))

    assert kept.status_code == 400
    assert removed.status_code == 303
    assert rows_of(owner, "identity.passkey") == 0


@pytest.mark.parametrize("_", range(5))
def test_of_two_sign_in_methods_removed_at_once_one_stays(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows, _: int
) -> None:
    assert location(sign_in(browser, issuer)) == "/"
    owner.execute(
        "insert into identity.passkey (user_id, credential_id, public_key, sign_count, name) "
        "values (%s, '\\x01', '\\x01', 0, 'Key')",
        [known.user_id],
    )
    page = browser.get(METHODS)
    tabs = [(Visitor(browser.client, dict(browser.cookies)), path) for path in (DISCONNECT, REMOVE)]

    with ThreadPoolExecutor(2) as at_once:
        list(at_once.map(lambda tab: tab[0].submit(page, form=button(page, tab[1])), tabs))

    assert rows_of(owner, "identity.way_in") == 1


# Logouts that the provider announces.

EVENTS: dict[str, Any] = {"http://schemas.openid.net/event/backchannel-logout": {}}


def logout_claims(issuer: Issuer, **changed: Any) -> dict[str, Any]:
    """Return the claims of a logout token; None leaves one out, and a time is relative to now."""
    now = int(time.time())
    claims = {
        "iss": issuer.url,
        "aud": CLIENT_ID,
        "iat": now,
        "exp": now + 120,
        "jti": f"logout {next(TESTS)}",
        "events": EVENTS,
        "sub": SUBJECT,
    } | changed
    return {name: when(value) for name, value in claims.items() if value is not None}


def announce(client: Client, logout_token: str) -> Response:
    return client.post("/sign-in/provider/logout", data={"logout_token": logout_token})


def log_out(client: Client, issuer: Issuer, **changed: Any) -> Response:
    return announce(client, issuer.sign(logout_claims(issuer, **changed), typ="logout+jwt"))


def accepted(response: Response) -> None:
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in response.headers


def refused_logout(response: Response, status: int = 400) -> None:
    assert response.status_code == status
    assert response.json()["error"] == "invalid_request"
    assert response.headers["cache-control"] == "no-store"


def test_a_logout_of_a_person_ends_all_their_sign_ins_and_no_others(
    client: TestClient, issuer: Issuer, known: Person, bob: Person, owner: Rows
) -> None:
    connect(owner, issuer, bob, "2")
    alices = [Visitor(client), Visitor(client)]
    for each in alices:
        sign_in(each, issuer)
    issuer.person["sub"] = "2"
    bobs = Visitor(client)
    sign_in(bobs, issuer)
    known.token()

    accepted(log_out(client, issuer))

    assert [signed_in_as(each) for each in alices] == ["", ""]
    assert "bob@example.org" in signed_in_as(bobs)
    noted = owner.execute(
        "select user_id, address from identity.security_event where event = 'signed_out'"
    ).fetchall()
    assert noted == [(known.user_id, None), (known.user_id, None)]
    # The operator has not chosen that grants end too.
    assert rows_of(owner, "oauth.live_grant") == 1
    accepted(log_out(client, issuer))


def test_a_logout_of_a_session_ends_the_sign_ins_with_it(
    client: TestClient, issuer: Issuer, known: Person, owner: Rows
) -> None:
    here, elsewhere = Visitor(client), Visitor(client)
    issuer.claims = {"sid": "one"}
    stale(here, issuer, owner)
    # Confirming that it is still the same person replaces the session, with the password too.
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [known.user_id, CHEAP.hash(PASSWORD)],
    )
    page = here.get(f"/confirm?next={METHODS}")
    by_password = [form.action for form in forms(page)].index("/confirm")
    assert page.status_code == 200
    assert here.submit(page, form=by_password, password=PASSWORD).status_code == 303
    issuer.claims = {"sid": "two"}
    sign_in(elsewhere, issuer)

    accepted(log_out(client, issuer, sid="one", sub=None))

    assert signed_in_as(here) == ""
    assert "alice@example.org" in signed_in_as(elsewhere)
    accepted(log_out(client, issuer, sid="two"))
    assert signed_in_as(elsewhere) == ""


def test_a_session_of_another_person_is_not_ended(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    issuer.claims = {"sid": "one"}
    sign_in(browser, issuer)

    accepted(log_out(browser.client, issuer, sub="another", sid="one"))

    assert "alice@example.org" in signed_in_as(browser)


def test_a_logout_of_nobody_is_accepted(client: TestClient, issuer: Issuer, owner: Rows) -> None:
    accepted(log_out(client, issuer, sub="unknown"))
    accepted(log_out(client, issuer, sub=None, sid="unknown"))


@pytest.mark.parametrize("named", [{"sub": SUBJECT}, {"sub": None, "sid": "one"}])
def test_a_sign_in_that_is_under_way_opens_no_session_after_a_logout(
    browser: Visitor,
    issuer: Issuer,
    known: Person,
    owner: Rows,
    settings: Settings,
    named: dict[str, Any],
) -> None:
    issuer.claims = {"sid": "zero"}
    sign_in(Visitor(browser.client), issuer)
    issuer.claims = {"sid": "one"}
    back = issuer.authorize(location(start_sign_in(browser)))

    with (
        closing(psycopg.connect(settings.database_url or "")) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        # It waits here when the identity is confirmed, and the session not open yet.
        other.execute("select from identity.throttle for update")
        coming_back = pool.submit(browser.get, back)
        wait_for_rivals(owner, 1)
        accepted(log_out(browser.client, issuer, **named))
        other.rollback()

    assert coming_back.result().status_code == 400
    assert signed_in_as(browser) == ""


@pytest.mark.parametrize("named", [{"sub": SUBJECT}, {"sub": None, "sid": "one"}])
def test_a_logout_waits_for_a_sign_in_that_is_being_completed(
    browser: Visitor,
    issuer: Issuer,
    known: Person,
    owner: Rows,
    settings: Settings,
    named: dict[str, Any],
) -> None:
    issuer.claims = {"sid": "one"}
    back = issuer.authorize(location(start_sign_in(browser)))
    start_sign_in(browser)

    with (
        closing(psycopg.connect(settings.database_url or "")) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        # The new session takes over the sign-in of the other tab, so its transaction cannot end yet.
        other.execute(
            "select from identity.provider_sign_in where created_at ="
            " (select max(created_at) from identity.provider_sign_in) for update"
        )
        coming_back = pool.submit(browser.get, back)
        wait_for_rivals(owner, 1)
        logging_out = pool.submit(log_out, browser.client, issuer, **named)
        wait_for_rivals(owner, 2)
        other.rollback()

    accepted(logging_out.result())
    assert location(coming_back.result()) == "/"
    assert signed_in_as(browser) == ""


def test_grants_end_with_a_logout_if_the_operator_has_chosen_it(
    browser: Visitor,
    issuer: Issuer,
    known: Person,
    bob: Person,
    settings: Settings,
    owner: Rows,
) -> None:
    registered = browser.client.post("/oauth/register", json={"redirect_uris": [CALLBACK]})
    application = Application(browser.client, registered.json()["client_id"])
    issuer.claims = {"sid": "one"}
    sign_in(browser, issuer)
    pair = application.pair(browser)
    known.token()
    bob.token()
    chosen = settings_of.Provider(
        issuer.url, CLIENT_ID, CLIENT_SECRET, "Example", logout_ends_grants=True
    )
    app = authserver.app.create(replace(settings, provider=chosen), hasher=Hasher(CHEAP))

    with AppClient(app, "http://localhost:8400", raise_server_exceptions=False) as client:
        accepted(log_out(client, issuer, sub=None, sid="one"))

    live = owner.execute("select distinct user_id from oauth.live_access_token").fetchall()
    assert live == [(bob.user_id,)]
    assert application.refresh(pair["refresh_token"]).json()["error"] == "invalid_grant"
    assert event_names(owner).count("revoked") == 2


def test_a_logout_token_is_accepted_once(
    browser: Visitor, issuer: Issuer, known: Person, owner: Rows
) -> None:
    logout_token = issuer.sign(logout_claims(issuer))
    accepted(announce(browser.client, logout_token))
    sign_in(browser, issuer)

    repeated = announce(browser.client, logout_token)

    refused_logout(repeated)
    assert repeated.json()["error_description"] == "The logout_token was accepted before."
    assert "alice@example.org" in signed_in_as(browser)


def test_no_logout_token_is_logged_or_stored(
    browser: Visitor,
    issuer: Issuer,
    known: Person,
    owner: Rows,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sign_in(browser, issuer)
    logout_tokens = [
        issuer.sign(logout_claims(issuer, jti="jti-of-mine", **changed), typ="logout+jwt")
        for changed in ({}, {"aud": "another"}, {"nonce": "nonce-of-mine"})
    ]

    with caplog.at_level("DEBUG"):
        answers = [announce(browser.client, each) for each in (*logout_tokens, logout_tokens[0])]

    assert [each.status_code for each in answers] == [200, 400, 400, 400]
    stored = [
        str(owner.execute(sql.SQL("select row_to_json(t) from {} as t").format(table)).fetchall())
        for table in (
            sql.Identifier(*name)
            for name in owner.execute(
                "select schemaname, tablename from pg_tables where schemaname in ('identity', 'oauth')"
            )
        )
    ]
    assert "alice@example.org" in "".join(stored)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("svc")]
    parts = [part for each in logout_tokens for part in each.split(".")[1:]]
    for text in (*ours, *stored):
        assert not [part for part in parts if part in text]
        assert "-of-mine" not in text


@pytest.mark.parametrize(
    ("claims", "header"),
    [
        ({"iss": "https://evil.example"}, {}),
        ({"iss": None}, {}),
        ({"aud": "another"}, {}),
        ({"aud": None}, {}),
        ({"aud": ["another"]}, {}),
        ({"iat": None}, {}),
        ({"iat": "now"}, {}),
        ({"iat": -timedelta(minutes=11), "exp": HOUR}, {}),
        ({"iat": HOUR, "exp": 2 * HOUR}, {}),
        ({"exp": -HOUR}, {}),
        ({"exp": "never"}, {}),
        ({"jti": None}, {}),
        ({"jti": ""}, {}),
        ({"jti": 7}, {}),
        ({"events": None}, {}),
        ({"events": {}}, {}),
        ({"events": []}, {}),
        ({"events": list(EVENTS)}, {}),
        ({"events": dict.fromkeys(EVENTS, True)}, {}),
        ({"events": {"https://example.org/event/logout": {}}}, {}),
        ({"nonce": "x"}, {}),
        ({"nonce": ""}, {}),
        ({"sub": None}, {}),
        ({"sub": ""}, {}),
        ({"sub": 248289761001}, {}),
        ({"sub": "zero\0"}, {}),
        ({"sid": ""}, {}),
        ({"sid": 1}, {}),
        ({}, {"typ": "at+jwt"}),
        ({}, {"kid": "two"}),
    ],
    ids=str,
)
def test_a_logout_token_with_a_wrong_part_is_refused(
    browser: Visitor,
    issuer: Issuer,
    known: Person,
    claims: dict[str, Any],
    header: dict[str, Any],
) -> None:
    sign_in(browser, issuer)

    refused_logout(announce(browser.client, issuer.sign(logout_claims(issuer, **claims), **header)))

    assert "alice@example.org" in signed_in_as(browser)


@pytest.mark.parametrize("typ", [None, "JWT", "jwt", "logout+jwt", "application/logout+jwt"])
def test_a_logout_token_may_be_typed_in_each_way_of_the_standard(
    client: TestClient, issuer: Issuer, typ: str | None
) -> None:
    claims = logout_claims(issuer, exp=None, aud=[CLIENT_ID, "another"])

    if typ is None:
        header = {"alg": "ES256", "kid": "one"}
        accepted(announce(client, jws.serialize_compact(header, json.dumps(claims), issuer.key)))
    else:
        accepted(announce(client, issuer.sign(claims, typ=typ)))


def test_no_other_text_passes_as_a_logout_token(
    browser: Visitor, issuer: Issuer, known: Person
) -> None:
    sign_in(browser, issuer)
    back = issuer.authorize(location(start_sign_in(Visitor(browser.client))))
    claims = logout_claims(issuer)
    signed = issuer.sign(claims)
    header, _, signature = issuer.sign(claims | {"sub": "another"}).split(".")
    public = json.dumps(issuer.key.as_dict(private=False)).encode()
    shared = OctKey.import_key(
        {"kty": "oct", "k": base64.urlsafe_b64encode(public).decode().rstrip("=")}
    )
    texts = [
        "x",
        "a.b.c",
        "é.é.é",
        issuer.sign(good_claims(issuer, back)),
        f"{part({'alg': 'none'})}.{part(claims)}.",
        f"{header}.{part(claims)}.{signature}",
        signed[: signed.rindex(".") + 1],
        jwt.encode({"alg": "HS256", "kid": "one"}, claims, shared, algorithms=["HS256"]),
        jwt.encode({"alg": "ES256", "kid": "one"}, claims, new_key("one"), algorithms=["ES256"]),
    ]

    for text in texts:
        refused_logout(announce(browser.client, text))
    path = "/sign-in/provider/logout"
    refused_logout(browser.client.post(path, data={}))
    refused_logout(browser.client.post(f"{path}?logout_token={signed}", data={}))
    refused_logout(browser.client.post(path, data={"logout_token": [signed, signed]}))
    refused_logout(browser.client.post(path, json={"logout_token": signed}))
    refused_logout(browser.client.post(path, data={"logout_token": "x" * 70_000}), 413)
    refused_logout(browser.client.get(path), 405)
    assert "alice@example.org" in signed_in_as(browser)
    accepted(announce(browser.client, signed))


def test_a_logout_is_checked_with_a_new_key_of_the_provider(
    client: TestClient, issuer: Issuer, clock: Clock
) -> None:
    accepted(log_out(client, issuer))
    issuer.key = new_key("two")
    clock.ahead_s += 61

    accepted(log_out(client, issuer))
    issuer.published = [new_key("three").as_dict(private=False)]
    issuer.asked.clear()
    for number in range(3):
        issuer.key = new_key(str(number))
        refused_logout(log_out(client, issuer))
    # Forged tokens make the server send no requests within a minute.
    assert issuer.asked == []


def test_a_logout_is_refused_while_the_providers_keys_cannot_be_fetched(
    client: TestClient, issuer: Issuer
) -> None:
    logout_token = issuer.sign(logout_claims(issuer))
    issuer.instead["/keys"] = (500, b"")
    refused_logout(announce(client, logout_token))
    issuer.instead.clear()

    accepted(announce(client, logout_token))


def test_without_a_provider_no_logout_is_received(visitor: Visitor) -> None:
    assert visitor.post("/sign-in/provider/logout", {"logout_token": "x"}).status_code == 404


# The janitor.


def test_the_janitor_deletes_sign_ins_that_were_not_completed(
    browser: Visitor, terminal: Terminal, owner: Rows
) -> None:
    start_sign_in(browser)
    start_sign_in(browser)
    owner.execute(
        "update identity.provider_sign_in set expires_at = now() "
        "where state_hash = (select min(state_hash::text)::bytea from identity.provider_sign_in)"
    )

    result = terminal.run("janitor")

    assert result.exit_code == 0, result.output
    assert "1  sign-ins at the provider that were not completed" in result.output
    assert rows_of(owner, "identity.provider_sign_in") == 1
