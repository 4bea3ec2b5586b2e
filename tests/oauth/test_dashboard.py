"""The dashboard as a client: one consent for each sign-in session, and renewal without another."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from authserver.errors import UnusableRedirectURI
from authserver.forms import Form
from authserver.oauth.authorize import registered_redirect_uri
from authserver.oauth.clients import Client
from shared import tokens
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.conftest import Person
from tests.oauth.conftest import PASSWORD, Opens, Welcome
from tests.oauth.visitor import Application, Visitor, forms, parameters
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

ASKED: Final = "read:activity read:music read:profile"
TICKED: Final = ["read:activity", "read:profile"]
"""What alice ticks: no music."""


def consent(application: Application, browser: Visitor, ticked: list[str] | None = None) -> Any:
    """Consent to the ticked scopes and return the token response."""
    return application.pair(browser, scope=ASKED, ticked=ticked or TICKED)


def renewal(application: Application, browser: Visitor, **changed: str | None) -> Response:
    """Return the answer to an authorization request."""
    return browser.get(application.authorize_path(**{"scope": ASKED} | changed))


def renewed(application: Application, browser: Visitor, **changed: str | None) -> Any:
    """Renew the grant and return the token response."""
    response = application.exchange(
        parameters(renewal(application, browser, **changed))["code"][0],
        resource=changed.get("resource"),
    )
    assert response.status_code == 200, response.text
    return response.json()


def asks_for_consent(response: Response) -> bool:
    """Return whether an authorization request leads to the consent page."""
    return response.headers["location"].startswith("/oauth/consent?")


def live_grants(owner: Rows) -> list[list[str]]:
    """Return the scopes of each live grant, oldest first."""
    rows = owner.execute("select scopes from oauth.live_grant order by created_at").fetchall()
    return [scopes for (scopes,) in rows]


def test_the_first_visit_asks_for_consent_on_a_page_that_says_whose_pages_these_are(
    own_pages: Application, alice_browser: Visitor
) -> None:
    page = alice_browser.follow(renewal(own_pages, alice_browser))

    assert page.status_code == 200
    assert "own pages</strong> show you your data, at <code>testserver</code>" in page.text
    assert "its own claim" not in page.text
    assert "has not been used for 30 days" in page.text
    assert ("scope", "read:music") in forms(page)[0].fields


def test_a_renewal_asks_nothing_and_gives_the_scopes_ticked_then(
    own_pages: Application, alice_browser: Visitor, status: Opens, owner: Rows
) -> None:
    first = consent(own_pages, alice_browser)

    response = renewal(own_pages, alice_browser, scope=f"{ASKED} read:health", state="a b+c")
    second = own_pages.exchange(parameters(response)["code"][0]).json()

    assert response.status_code == 303
    assert response.headers["location"].startswith("http://testserver/signed-in?code=svc_ac_")
    assert parameters(response)["state"] == ["a b+c"]
    assert parameters(response)["iss"] == ["http://localhost:8400"]
    assert first["scope"] == second["scope"] == "read:activity read:profile"
    assert live_grants(owner) == [TICKED]
    assert status(second["access_token"]) == 200
    assert (
        status(second["access_token"], "/api/v1/music/daily?from=2025-06-16&to=2025-06-16") == 403
    )


def test_a_renewal_ends_the_earlier_pair(
    own_pages: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = consent(own_pages, alice_browser)

    code = parameters(renewal(own_pages, alice_browser))["code"][0]
    before_exchange = status(first["access_token"])
    second = own_pages.exchange(code).json()

    assert before_exchange == 200
    assert status(first["access_token"]) == 401
    assert status(second["access_token"]) == 200
    replayed = own_pages.refresh(first["refresh_token"])
    assert (replayed.status_code, replayed.json()["error"]) == (400, "invalid_grant")
    assert status(second["access_token"]) == 401
    assert asks_for_consent(renewal(own_pages, alice_browser))


def test_a_spent_code_of_a_renewal_ends_the_grant(
    own_pages: Application, alice_browser: Visitor, status: Opens
) -> None:
    consent(own_pages, alice_browser)
    code = parameters(renewal(own_pages, alice_browser))["code"][0]
    pair = own_pages.exchange(code).json()

    again = own_pages.exchange(code)

    assert again.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401
    assert asks_for_consent(renewal(own_pages, alice_browser))


def test_two_tabs_that_renew_at_once_both_go_on(
    own_pages: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = consent(own_pages, alice_browser)

    codes = [parameters(renewal(own_pages, alice_browser))["code"][0] for _ in range(2)]
    pairs = [own_pages.exchange(code).json() for code in codes]
    both = [status(pair["access_token"]) for pair in pairs]
    last = renewed(own_pages, alice_browser)

    assert both == [200, 200]
    tokens_of_all = [first, *pairs, last]
    assert [status(pair["access_token"]) for pair in tokens_of_all] == [401, 401, 401, 200]


def test_a_failed_exchange_leaves_the_earlier_pair(
    own_pages: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = consent(own_pages, alice_browser)
    code = parameters(renewal(own_pages, alice_browser))["code"][0]

    refused = own_pages.exchange(code, code_verifier="x" * 43)

    assert refused.json()["error"] == "invalid_grant"
    assert status(first["access_token"]) == 200
    assert own_pages.exchange(code).status_code == 200


def test_prompt_consent_asks_again_and_the_answer_replaces_the_grant(
    own_pages: Application, alice_browser: Visitor, status: Opens, owner: Rows
) -> None:
    first = consent(own_pages, alice_browser)

    response = renewal(own_pages, alice_browser, prompt="select_account consent")
    page = alice_browser.follow(response)
    still_open = status(first["access_token"])
    allowed = alice_browser.submit(page, decision="allow", scope=["read:music"])
    second = own_pages.exchange(parameters(allowed)["code"][0]).json()

    assert asks_for_consent(response)
    assert page.text.count(">new</span>") == 1
    assert still_open == 200
    assert second["scope"] == "read:music"
    assert live_grants(owner) == [["read:music"]]
    assert status(first["access_token"]) == 401
    assert renewed(own_pages, alice_browser)["scope"] == "read:music"


def test_what_was_left_out_before_is_not_ticked_when_the_question_comes_again(
    own_pages: Application, alice_browser: Visitor
) -> None:
    consent(own_pages, alice_browser)

    page = alice_browser.follow(renewal(own_pages, alice_browser, prompt="consent"))

    assert 'value="read:music"' in page.text
    assert [value for name, value in forms(page)[0].fields if name == "scope"] == TICKED


def test_a_declined_prompt_changes_nothing(
    own_pages: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = consent(own_pages, alice_browser)

    page = alice_browser.follow(renewal(own_pages, alice_browser, prompt="consent"))
    declined = alice_browser.submit(page, decision="decline")

    assert parameters(declined)["error"] == ["access_denied"]
    assert status(first["access_token"]) == 200
    assert not asks_for_consent(renewal(own_pages, alice_browser))


def test_another_application_is_asked_for_consent_each_time(
    application: Application, own_pages: Application, alice_browser: Visitor
) -> None:
    consent(application, alice_browser)
    consent(own_pages, alice_browser)

    assert asks_for_consent(renewal(application, alice_browser))


def test_the_grant_of_another_sign_in_session_is_not_used(
    own_pages: Application, alice: Person, bob: Person, welcome: Welcome, owner: Rows
) -> None:
    first, second = welcome(alice), welcome(alice)
    consent(own_pages, first)

    assert asks_for_consent(renewal(own_pages, second))
    assert asks_for_consent(renewal(own_pages, welcome(bob)))
    assert len(live_grants(owner)) == 1
    consent(own_pages, second, ["read:music"])
    given = [renewed(own_pages, browser)["scope"] for browser in (first, second, first)]
    assert given == ["read:activity read:profile", "read:music", "read:activity read:profile"]


def test_a_grant_for_another_resource_is_not_used(
    own_pages: Application, alice_browser: Visitor
) -> None:
    own_pages.pair(alice_browser, scope=ASKED, resource="http://testserver")

    assert asks_for_consent(renewal(own_pages, alice_browser))
    assert asks_for_consent(renewal(own_pages, alice_browser, resource="http://testserver/mcp"))
    assert renewed(own_pages, alice_browser, resource="http://testserver")["scope"] == ASKED


def test_a_grant_narrowed_by_a_refresh_stays_narrow(
    own_pages: Application, alice_browser: Visitor
) -> None:
    pair = consent(own_pages, alice_browser)
    own_pages.refresh(pair["refresh_token"], scope="read:profile")

    assert renewed(own_pages, alice_browser)["scope"] == "read:profile"


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "http://testserver/signed-in/"},
        {"redirect_uri": "http://testserver:80/signed-in"},
        {"redirect_uri": "https://testserver/signed-in"},
    ],
)
def test_its_redirect_uri_must_be_exact(
    own_pages: Application, alice_browser: Visitor, changed: dict[str, str | None]
) -> None:
    consent(own_pages, alice_browser)

    response = renewal(own_pages, alice_browser, **changed)

    assert response.status_code == 400
    assert "location" not in response.headers


def test_its_port_may_not_vary_even_if_those_of_other_applications_may() -> None:
    registered, other_port = "http://localhost:8401/signed-in", "http://localhost:9999/signed-in"
    own_pages = Client(DASHBOARD_CLIENT_ID, "own pages", [registered], None)
    other = replace(own_pages, client_id="svc_client_other")
    given = Form({"redirect_uri": [other_port]})

    assert registered_redirect_uri(given, other, port_may_vary=True) == other_port
    with pytest.raises(UnusableRedirectURI):
        registered_redirect_uri(given, own_pages, port_may_vary=True)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"scope": "read:everything"}, "invalid_scope"),
        ({"resource": "http://elsewhere"}, "invalid_target"),
    ],
)
def test_a_wrong_request_gets_no_code(
    own_pages: Application, alice_browser: Visitor, changed: dict[str, str | None], error: str
) -> None:
    consent(own_pages, alice_browser)

    given = parameters(renewal(own_pages, alice_browser, **changed))

    assert given["error"] == [error]
    assert "code" not in given


def test_nobody_signed_in_signs_in_first(own_pages: Application, visitor: Visitor) -> None:
    response = renewal(own_pages, visitor)

    assert response.headers["location"].startswith("/sign-in?next=svc_rq_")
    assert "An application asks" not in visitor.follow(response).text


# Rivals. Each test holds a row until all of them wait for it.


def other_tab(browser: Visitor) -> Visitor:
    """Return another tab of a browser, for another thread."""
    return Visitor(browser.client, dict(browser.cookies))


def test_two_consents_at_once_leave_one_grant(
    own_pages: Application, alice_browser: Visitor, settings: Settings, owner: Rows
) -> None:
    pages = [alice_browser.follow(renewal(own_pages, alice_browser)) for _ in range(2)]

    with psycopg.connect(settings.database_url or "") as held, ThreadPoolExecutor(2) as rivals:
        held.execute("select from identity.session for update")
        tabs = [
            rivals.submit(other_tab(alice_browser).submit, page, decision="allow") for page in pages
        ]
        wait_for_rivals(owner, 2)
        held.rollback()
        codes = [parameters(tab.result())["code"][0] for tab in tabs]

    assert len(live_grants(owner)) == 1
    assert sorted(own_pages.exchange(code).status_code for code in codes) == [200, 400]


def test_of_two_codes_exchanged_at_once_both_give_a_pair(
    own_pages: Application,
    alice_browser: Visitor,
    settings: Settings,
    status: Opens,
    owner: Rows,
) -> None:
    first = consent(own_pages, alice_browser)
    codes = [parameters(renewal(own_pages, alice_browser))["code"][0] for _ in range(2)]

    with psycopg.connect(settings.database_url or "") as held, ThreadPoolExecutor(2) as rivals:
        held.execute("select from oauth.grant for update")
        tabs = [rivals.submit(own_pages.exchange, code) for code in codes]
        wait_for_rivals(owner, 2)
        held.rollback()
        answers = [tab.result() for tab in tabs]

    assert [answer.status_code for answer in answers] == [200, 200]
    pairs = [answer.json() for answer in answers]
    assert [status(pair["access_token"]) for pair in (first, *pairs)] == [401, 200, 200]
    current = owner.execute("select count(*) from oauth.refresh_token where rotated_at is null")
    assert current.fetchone() == (1,)


def test_a_consent_that_races_a_sign_out_leaves_no_grant(
    own_pages: Application, alice_browser: Visitor, settings: Settings, status: Opens, owner: Rows
) -> None:
    page = alice_browser.follow(renewal(own_pages, alice_browser))
    sign_out_page = alice_browser.get("/sign-out")

    with psycopg.connect(settings.database_url or "") as held, ThreadPoolExecutor(2) as rivals:
        held.execute("select from oauth.client for update")
        consenting = rivals.submit(other_tab(alice_browser).submit, page, decision="allow")
        wait_for_rivals(owner, 1)
        leaving = rivals.submit(other_tab(alice_browser).submit, sign_out_page)
        wait_for_rivals(owner, 2)
        held.rollback()
        code = parameters(consenting.result())["code"][0]
        assert leaving.result().status_code == 303

    assert own_pages.exchange(code).json()["error"] == "invalid_grant"
    assert owner.execute("select count(*) from oauth.grant").fetchone() == (0,)


def test_a_sign_out_that_is_first_leaves_no_consent(
    own_pages: Application, alice_browser: Visitor, settings: Settings, owner: Rows
) -> None:
    page = alice_browser.follow(renewal(own_pages, alice_browser))

    with psycopg.connect(settings.database_url or "") as held, ThreadPoolExecutor(1) as rivals:
        held.execute("delete from identity.session")
        consenting = rivals.submit(other_tab(alice_browser).submit, page, decision="allow")
        wait_for_rivals(owner, 1)
        held.commit()

    assert consenting.result().status_code == 400
    assert "no longer open" in consenting.result().text
    assert owner.execute("select count(*) from oauth.grant").fetchone() == (0,)


# Its end.


def sign_out(browser: Visitor, _: Visitor) -> None:
    """Sign out in this browser."""
    browser.submit(browser.get("/sign-out"))


def sign_out_everywhere(_: Visitor, other: Visitor) -> None:
    """Sign out all browsers, from another one."""
    other.post(
        "/settings/account/sessions",
        dict(forms(other.get("/settings/account/sessions"))[0].fields) | {"what": "others"},
    )


def change_password(browser: Visitor, _: Visitor) -> None:
    """Change the password in this browser, which stays signed in."""
    page = browser.get("/settings/account/sign-in")
    form = [form.action for form in forms(page)].index("/settings/account/sign-in/password")
    changed = browser.submit(page, form=form, password="a heron waits in the reeds")
    assert changed.status_code == 303, changed.text


@pytest.mark.parametrize("end", [sign_out, sign_out_everywhere, change_password])
def test_a_grant_ends_with_its_sign_in_session(
    own_pages: Application,
    application: Application,
    alice: Person,
    welcome: Welcome,
    status: Opens,
    end: Callable[[Visitor, Visitor], None],
    owner: Rows,
) -> None:
    browser, other = welcome(alice), welcome(alice)
    pair, of_application = consent(own_pages, browser), consent(application, browser)
    unspent = parameters(renewal(own_pages, browser))["code"][0]

    end(browser, other)

    assert status(pair["access_token"]) == 401
    assert own_pages.refresh(pair["refresh_token"]).json()["error"] == "invalid_grant"
    assert own_pages.exchange(unspent).json()["error"] == "invalid_grant"
    assert status(of_application["access_token"]) == 200
    assert live_grants(owner) == [TICKED]
    location = renewal(own_pages, browser).headers["location"]
    assert location.startswith(("/sign-in?", "/oauth/consent?"))


def test_a_grant_ends_with_a_session_that_the_janitor_deletes(
    own_pages: Application, alice_browser: Visitor, terminal: Terminal, status: Opens, owner: Rows
) -> None:
    pair = consent(own_pages, alice_browser)
    owner.execute("update identity.session set seen_at = now() - interval '31 days'")

    assert "1  sign-in sessions without use for 30 days" in terminal.run("janitor").stdout
    assert status(pair["access_token"]) == 401
    assert live_grants(owner) == []


def test_a_confirmed_sign_in_keeps_its_grant(
    own_pages: Application, alice_browser: Visitor, status: Opens, owner: Rows
) -> None:
    pair = consent(own_pages, alice_browser)
    owner.execute("update identity.session set authenticated_at = now() - interval '1 hour'")

    confirmed = alice_browser.submit(alice_browser.get("/confirm"), password=PASSWORD, form=1)

    assert confirmed.status_code == 303
    assert status(pair["access_token"]) == 200
    assert renewed(own_pages, alice_browser)["scope"] == pair["scope"]
    sign_out(alice_browser, alice_browser)
    assert live_grants(owner) == []


def test_the_next_person_in_a_browser_gets_no_grant_of_the_one_before(
    own_pages: Application, alice_browser: Visitor, bob: Person, welcome: Welcome, owner: Rows
) -> None:
    welcome(bob)
    consent(own_pages, alice_browser)
    sign_out_form = dict(forms(alice_browser.get("/settings"))[0].fields)

    alice_browser.post("/sign-in", sign_out_form | {"email": bob.email, "password": PASSWORD})

    assert bob.email in alice_browser.get("/settings").text
    assert live_grants(owner) == []
    assert asks_for_consent(renewal(own_pages, alice_browser))


def test_it_is_a_connected_app_and_can_be_revoked(
    own_pages: Application, alice_browser: Visitor, status: Opens
) -> None:
    pair = consent(own_pages, alice_browser)

    page = alice_browser.get("/settings/apps")
    link = re.search(r'href="(/settings/revoke\?client=[^"]+)"', page.text)
    assert link is not None
    alice_browser.submit(alice_browser.get(link[1]), form=1)

    assert 'own pages</bdi> <span class="tag">built in</span>' in page.text
    assert status(pair["access_token"]) == 401
    assert asks_for_consent(renewal(own_pages, alice_browser))


# Its row.


def test_no_registration_can_get_its_id(server: TestClient) -> None:
    registered = server.post(
        "/oauth/register",
        json={
            "client_id": DASHBOARD_CLIENT_ID,
            "redirect_uris": ["https://app.example/callback"],
            "client_name": "This service's own pages",
        },
    ).json()

    assert registered["client_id"] != DASHBOARD_CLIENT_ID
    assert tokens.is_client_id(DASHBOARD_CLIENT_ID)
    # Ids have a fixed length, and their digits are in the order of ASCII.
    assert f"svc_client_{tokens._base62(2**128 - 1, 22)}" < DASHBOARD_CLIENT_ID


@pytest.mark.parametrize("authorized_at", [None, "2020-01-01"])
def test_the_janitor_leaves_its_row(
    own_pages: Application, terminal: Terminal, owner: Rows, authorized_at: str | None
) -> None:
    owner.execute(
        "update oauth.client set created_at = '2020-01-01', last_authorized_at = %s",
        [authorized_at],
    )

    terminal.run("janitor")

    kept = owner.execute("select client_id from oauth.client").fetchall()
    assert kept == [(own_pages.client_id,)]


def test_the_janitor_leaves_a_grant_with_a_renewal_that_was_not_redeemed(
    own_pages: Application, alice_browser: Visitor, terminal: Terminal, status: Opens, owner: Rows
) -> None:
    pair = consent(own_pages, alice_browser)
    renewal(own_pages, alice_browser)
    owner.execute("update oauth.authorization_code set expires_at = now() - interval '2 days'")

    terminal.run("janitor")

    assert status(pair["access_token"]) == 200


def test_the_codes_of_earlier_renewals_are_deleted_at_the_next_one(
    own_pages: Application, alice_browser: Visitor, owner: Rows
) -> None:
    consent(own_pages, alice_browser)
    renewed(own_pages, alice_browser)
    owner.execute("update oauth.authorization_code set expires_at = now() - interval '2 days'")

    renewed(own_pages, alice_browser)

    assert owner.execute("select count(*) from oauth.authorization_code").fetchone() == (1,)


def test_the_operator_cannot_remove_it(own_pages: Application, terminal: Terminal) -> None:
    refused = terminal.run(f"client revoke {own_pages.client_id}")

    assert refused.exit_code == 1
    assert "a part of the service" in refused.stderr
    assert "This service's own pages" in terminal.run("client list").stdout


def test_its_grants_do_not_count_among_those_of_applications(
    own_pages: Application, alice: Person, alice_browser: Visitor, owner: Rows
) -> None:
    owner.execute(
        """
        insert into oauth.client (client_id, redirect_uris) values ('c', '{https://app.example}');
        with granted as (
            insert into oauth.grant (user_id, client_id, scopes)
            select user_id, 'c', '{read:profile}' from identity.user cross join generate_series(1, 200)
            returning user_id, grant_id
        )
        insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at)
        select user_id, sha256(grant_id::text::bytea), grant_id, now() + interval '1 day' from granted
        """
    )

    consent(own_pages, alice_browser)

    assert len(live_grants(owner)) == 201


def test_the_first_pair_is_a_security_event_and_a_renewal_is_none(
    own_pages: Application, alice_browser: Visitor, owner: Rows
) -> None:
    consent(own_pages, alice_browser)
    renewed(own_pages, alice_browser)

    events = owner.execute(
        "select event from identity.security_event where grant_id is not null order by event"
    ).fetchall()
    assert events == [("consented",), ("token_created",)]
