"""The consent page: checklist lines 20, 23 and 24."""

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.oauth.conftest import PASSWORD, Opens, Register, Welcome
from tests.oauth.visitor import Application, Visitor, forms, parameters

Rows = psycopg.Connection[Any]

KNOWN = "You have given this application access before"


def codes(owner: Rows) -> int:
    row = owner.execute("select count(*) from oauth.authorization_code").fetchone()
    assert row is not None
    return int(row[0])


def make_late(owner: Rows) -> None:
    owner.execute("update oauth.authorization_request set expires_at = now() - interval '1 s'")


@pytest.mark.checklist(10)
def test_the_page_shows_client_scopes_and_destination(
    alice_browser: Visitor, application: Application
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    assert page.status_code == 200
    assert "Weekly Report" in page.text
    assert "its own claim" in page.text
    assert "app.example" in page.text
    assert "See which apps and sites you use" in page.text
    assert "See your name, e-mail address, time zone" in page.text
    assert "http://testserver" in page.text
    assert "90 days" in page.text
    assert "alice@example.org" in page.text
    assert [value for name, value in forms(page)[0].fields if name == "scope"] == [
        "read:activity",
        "read:profile",
    ]


@pytest.mark.checklist(8)
@pytest.mark.parametrize(
    ("redirect_uri", "notice"),
    [
        ("http://127.0.0.1:3000/cb", "a program on this device"),
        ("cursor://anysphere/cb", "opens an app on this device"),
    ],
)
def test_the_page_warns_about_destinations_on_the_device(
    register: Register, alice_browser: Visitor, redirect_uri: str, notice: str
) -> None:
    application = register(redirect_uri)

    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    assert notice in page.text


@pytest.mark.checklist(10)
def test_markup_in_a_name_is_shown_as_text(register: Register, alice_browser: Visitor) -> None:
    application = register(client_name='<script>alert("x")</script>')

    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text


@pytest.mark.checklist(10)
@pytest.mark.parametrize(
    ("sent", "displayed"),
    [
        # Letters of other scripts that look like Latin ones are legitimate letters.
        ("W\u0435\u0435kly R\u0435port", "W\u0435\u0435kly R\u0435port"),
        ("\uff37eekly\u2215Report", "\uff37eekly\u2215Report"),
        ("\u202eyl\u043feeW\u202c & <Report>", "yl\u043feeW &amp; &lt;Report&gt;"),
        ("Weekly\r\nSet-Cookie: a=b", "WeeklySet-Cookie: a=b"),
    ],
)
def test_a_name_with_lookalike_letters_is_shown_unchanged_and_escaped(
    register: Register, alice_browser: Visitor, sent: str, displayed: str
) -> None:
    application = register(client_name=sent)

    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    assert f"<bdi>{displayed}</bdi>" in page.text
    assert "set-cookie" not in page.headers


def test_new_scopes_of_a_known_application_are_marked(
    application: Application, alice_browser: Visitor
) -> None:
    application.pair(alice_browser, scope="read:activity")

    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    assert "You have given this application access before" in page.text
    assert page.text.count('<span class="tag">new</span>') == 1


def test_grants_of_another_application_do_not_make_this_one_known(
    application: Application, register: Register, alice_browser: Visitor
) -> None:
    register(client_name="Another").pair(alice_browser, scope="read:activity")

    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    assert KNOWN not in page.text
    assert '<span class="tag">new</span>' not in page.text


@pytest.mark.parametrize(
    "end",
    [
        "update oauth.grant set revoked_at = now()",
        "update oauth.access_token set expires_at = now(); "
        "update oauth.refresh_token set expires_at = now()",
        "delete from oauth.access_token; delete from oauth.refresh_token",
    ],
)
def test_an_application_whose_grants_have_ended_is_no_longer_known(
    alice_browser: Visitor, application: Application, owner: Rows, end: str
) -> None:
    application.pair(alice_browser)
    before = alice_browser.follow(alice_browser.get(application.authorize_path()))
    owner.execute(end)

    after = alice_browser.follow(alice_browser.get(application.authorize_path()))

    assert KNOWN in before.text
    assert KNOWN not in after.text


def test_an_application_that_can_still_refresh_is_known(
    alice_browser: Visitor, application: Application, owner: Rows
) -> None:
    application.pair(alice_browser)
    owner.execute("update oauth.access_token set expires_at = now()")

    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    assert KNOWN in page.text


def test_a_person_has_at_most_200_grants_of_applications_and_the_least_used_end(
    alice_browser: Visitor, application: Application, alice: Person, bob: Person, owner: Rows
) -> None:
    alice.token()
    for person in (alice, bob):
        owner.execute(
            """
            with granted as (
                insert into oauth.grant (user_id, client_id, scopes, created_at, last_used_at)
                select %s,
                       %s,
                       array['read:profile'],
                       now() - interval '1 year',
                       now() - n * interval '1 hour'
                  from generate_series(1, 203) as n
                returning user_id, grant_id
            )
            insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at)
            select user_id, sha256(grant_id::text::bytea), grant_id, now() + interval '90 days'
              from granted
            """,
            [person.user_id, application.client_id],
        )

    application.code(alice_browser)

    left = owner.execute(
        "select count(*), min(last_used_at) > now() - interval '200 hours' from oauth.live_grant "
        "where user_id = %s and client_id is not null",
        [alice.user_id],
    )
    others = owner.execute(
        "select count(*) filter (where user_id = %s), count(*) filter (where client_id is null) "
        "from oauth.live_grant",
        [bob.user_id],
    )
    recorded = owner.execute("select event, count(*) from identity.security_event group by event")
    assert left.fetchone() == (200, True)
    assert others.fetchone() == (203, 1)
    assert dict(recorded.fetchall()) == {"consented": 1, "revoked": 4}


@pytest.mark.parametrize("decision", ["allow", "decline"])
def test_the_redirect_of_a_decision_renews_a_cookie_that_is_due(
    alice_browser: Visitor, application: Application, owner: Rows, decision: str
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    owner.execute("update identity.session set seen_at = now() - interval '2 hours'")

    response = alice_browser.submit(page, decision=decision)

    assert response.headers["location"].startswith("https://app.example/callback?")
    assert "Max-Age=2592000" in response.headers["set-cookie"]


def test_the_redirect_of_a_pending_error_renews_a_cookie_that_is_due(
    alice_browser: Visitor, application: Application, owner: Rows
) -> None:
    waiting = alice_browser.get(application.authorize_path())
    owner.execute(
        "update oauth.authorization_request set error = 'invalid_scope', error_description = 'no', "
        "scopes = null, resource = null, code_challenge = null"
    )
    owner.execute("update identity.session set seen_at = now() - interval '2 hours'")

    response = alice_browser.follow(waiting)

    assert parameters(response)["error"] == ["invalid_scope"]
    assert "Max-Age=2592000" in response.headers["set-cookie"]


@pytest.mark.checklist(24)
def test_line_24_the_token_gets_the_ticked_scopes(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    code = application.code(alice_browser, ticked=["read:profile"])

    pair = application.exchange(code).json()

    assert pair["scope"] == "read:profile"
    assert status(pair["access_token"], "/api/v1/me") == 200
    assert status(pair["access_token"], "/api/v1/analytics/daily") == 403


def test_the_page_for_the_mcp_endpoint_offers_the_other_reading_scopes_unticked(
    application: Application, alice_browser: Visitor
) -> None:
    resource = "http://testserver/mcp"
    path = application.authorize_path(scope="read:activity", resource=resource)
    page = alice_browser.follow(alice_browser.get(path))

    _, offer = page.text.split("It did not ask for these; tick them if it should use them")
    offered = re.findall(r'name="scope" value="([^"]+)"(.*)>', offer)
    untouched = application.pair(alice_browser, scope="read:activity", resource=resource)
    ticked = application.pair(
        alice_browser,
        scope="read:activity",
        resource=resource,
        ticked=["read:activity", "read:music", "read:health"],
    )
    renewed = application.refresh(ticked["refresh_token"]).json()

    assert offered == [
        (scope, "")
        for scope in (
            "read:code",
            "read:health",
            "read:location",
            "read:music",
            "read:content",
            "read:profile",
        )
    ]
    assert untouched["scope"] == "read:activity"
    assert ticked["scope"] == "read:activity read:health read:music"
    assert renewed["scope"] == "read:activity read:health read:music"


@pytest.mark.parametrize(
    ("resource", "extra"),
    [
        (None, "read:health"),
        ("http://testserver", "read:health"),
        ("http://testserver/mcp", "ingest:app_sessions"),
        ("http://testserver/mcp", "read:everything"),
    ],
)
def test_only_requested_and_offered_scopes_can_be_ticked(
    application: Application,
    alice_browser: Visitor,
    owner: Rows,
    resource: str | None,
    extra: str,
) -> None:
    path = application.authorize_path(scope="read:activity", resource=resource)
    page = alice_browser.follow(alice_browser.get(path))

    refused = alice_browser.submit(page, decision="allow", scope=["read:activity", extra])

    assert f'value="{extra}"' not in page.text
    assert refused.status_code == 400
    assert codes(owner) == 0


def test_allowing_without_a_ticked_scope_asks_to_tick_one_or_decline(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    asked = alice_browser.submit(page, decision="allow", scope=None)
    without = codes(owner)
    allowed = alice_browser.submit(asked, decision="allow", scope=["read:profile"])

    assert asked.status_code == 400
    assert "Tick one, or decline." in asked.text
    assert [name for name, _ in forms(asked)[0].fields if name == "scope"] == []
    assert without == 0
    assert "code" in parameters(allowed)


def test_declining_without_a_ticked_scope_is_a_decline(
    application: Application, alice_browser: Visitor
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    response = alice_browser.submit(page, decision="decline", scope=None)

    assert parameters(response)["error"] == ["access_denied"]


def test_allowing_an_application_with_its_own_scheme_is_a_page_that_opens_it(
    register: Register, alice_browser: Visitor
) -> None:
    application = register("com.example.app:/cb?x='%22", client_name="Weekly Report")
    page = alice_browser.follow(alice_browser.get(application.authorize_path(state="a&b;c")))
    other = alice_browser.follow(alice_browser.get(application.authorize_path()))

    allowed = alice_browser.submit(page, decision="allow")
    declined = alice_browser.submit(other, decision="decline")
    refreshed = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', allowed.text)
    link = re.search(r'class="button primary" href="([^"]+)"', allowed.text)

    assert allowed.status_code == 200
    assert "You may close this tab." in allowed.text
    assert refreshed is not None
    assert link is not None
    assert refreshed[1] == link[1]
    location = unescape(link[1])
    assert location.startswith("com.example.app:/cb?x='%22&code=svc_ac_")
    assert "&state=a%26b%3Bc&iss=" in location
    (code,) = parse_qs(urlsplit(location).query)["code"]
    assert application.exchange(code).status_code == 200
    assert declined.headers["location"].startswith("com.example.app:/cb?x='%22&error=access_denied")


def test_a_scope_that_nothing_accepts_is_marked(
    application: Application, alice_browser: Visitor
) -> None:
    path = application.authorize_path(scope="ingest:app_sessions ingest:health ingest:heartbeats")

    page = alice_browser.follow(alice_browser.get(path))

    assert page.text.count("not in use yet") == 2
    assert alice_browser.get("/settings/api-access").text.count("not in use yet") == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"scope": ["read:activity", "read:health"]},
        {"scope": ["read:everything"]},
        {"decision": "maybe"},
        {"decision": None},
        {"decision": ["allow", "decline"]},
    ],
)
def test_a_decision_that_the_page_does_not_offer_is_refused(
    application: Application, alice_browser: Visitor, owner: Rows, changed: dict[str, Any]
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    response = alice_browser.submit(page, **{"decision": "allow"} | changed)

    assert response.status_code == 400
    assert codes(owner) == 0


@pytest.mark.checklist(23)
@pytest.mark.parametrize("token", [None, "", "x", "é", "A" * 43])
def test_line_23_a_form_without_its_token_is_refused(
    application: Application, alice_browser: Visitor, owner: Rows, token: str | None
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    response = alice_browser.submit(page, decision="allow", csrf=token)

    assert response.status_code == 403
    assert "location" not in response.headers
    assert codes(owner) == 0


@pytest.mark.checklist(23)
def test_line_23_the_token_of_another_request_is_refused(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    other = alice_browser.follow(alice_browser.get(application.authorize_path(scope="read:health")))
    foreign = dict(forms(other)[0].fields)["csrf"]

    response = alice_browser.submit(page, decision="allow", csrf=foreign)

    assert response.status_code == 403
    assert codes(owner) == 0


@pytest.mark.checklist(23)
def test_line_23_another_sessions_request_is_refused(
    application: Application,
    alice_browser: Visitor,
    welcome: Welcome,
    bob: Person,
    owner: Rows,
) -> None:
    bob_browser = welcome(bob)
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    posted = bob_browser.submit(page, decision="allow")
    opened = bob_browser.get(f"/oauth/consent?request={dict(forms(page)[0].fields)['request']}")

    assert posted.status_code == 403
    assert opened.status_code == 400
    assert "Weekly Report" not in opened.text
    assert codes(owner) == 0
    assert alice_browser.submit(page, decision="allow").status_code == 303


@pytest.mark.checklist(23)
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:8400.evil.example"},
        {"Origin": "http://localhost:8401"},
    ],
)
def test_line_23_a_form_with_cross_site_headers_is_refused(
    application: Application, alice_browser: Visitor, owner: Rows, headers: dict[str, str]
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    fields = dict(forms(page)[0].fields) | {"decision": "allow"}

    response = alice_browser.post("/oauth/consent", fields, headers=headers)

    assert response.status_code == 403
    assert "set-cookie" not in response.headers
    assert codes(owner) == 0


@pytest.mark.parametrize("origin", ["null", "http://localhost:8400"])
def test_a_form_with_same_origin_headers_is_accepted(
    application: Application, alice_browser: Visitor, origin: str
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    fields = dict(forms(page)[0].fields) | {"decision": "allow"}

    response = alice_browser.post(
        "/oauth/consent", fields, headers={"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    )

    assert response.status_code == 303


def test_a_forged_host_does_not_change_where_a_decision_goes(
    application: Application, alice_browser: Visitor
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    fields = dict(forms(page)[0].fields) | {"decision": "decline"}

    response = alice_browser.post("/oauth/consent", fields, headers={"Host": "evil.example"})

    assert response.status_code == 303
    assert response.headers["location"].startswith("https://app.example/callback?")
    assert parameters(response)["iss"] == ["http://localhost:8400"]


def test_a_person_who_is_not_signed_in_cannot_decide(
    application: Application, visitor: Visitor, alice_browser: Visitor
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    response = visitor.submit(page, decision="allow")

    assert response.status_code == 403


def test_one_of_two_submits_gets_a_code(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    first = alice_browser.submit(page, decision="allow")
    second = alice_browser.submit(page, decision="allow")

    assert first.status_code == 303
    assert second.status_code == 400
    assert "no longer open" in second.text
    assert codes(owner) == 1


def test_the_page_of_an_answered_request_says_that_it_is_closed(
    application: Application, alice_browser: Visitor
) -> None:
    sent = alice_browser.get(application.authorize_path())
    alice_browser.submit(alice_browser.follow(sent), decision="decline")

    response = alice_browser.follow(sent)

    assert response.status_code == 400
    assert "no longer open" in response.text


def test_a_pending_request_expires(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    make_late(owner)

    response = alice_browser.submit(page, decision="allow")

    assert response.status_code == 400
    assert "This request is no longer open" in response.text
    assert codes(owner) == 0


@pytest.mark.parametrize(
    ("client_name", "named"),
    [
        (
            "Weekly <b>Report",
            "<bdi>Weekly &lt;b&gt;Report</bdi></strong> (<code>app.example</code>)",
        ),
        (None, "the application (<code>app.example</code>)"),
    ],
)
def test_the_page_of_an_expired_request_names_the_application(
    register: Register,
    alice_browser: Visitor,
    owner: Rows,
    client_name: str | None,
    named: str,
) -> None:
    application = register(**({} if client_name is None else {"client_name": client_name}))
    sent = alice_browser.get(application.authorize_path())
    page = alice_browser.follow(sent)
    make_late(owner)

    for response in (alice_browser.follow(sent), alice_browser.submit(page, decision="decline")):
        assert response.status_code == 400
        assert "It waited here for more than 15 minutes, and nothing was shared." in response.text
        assert named in response.text


def test_a_sign_in_after_the_request_expired_succeeds_and_says_so(
    application: Application, visitor: Visitor, alice_browser: Visitor, owner: Rows
) -> None:
    page = visitor.follow(visitor.get(application.authorize_path()))
    make_late(owner)

    response = visitor.submit(page, email="alice@example.org", password=PASSWORD)
    late = visitor.follow(response)

    assert late.status_code == 400
    assert "<bdi>Weekly Report</bdi>" in late.text
    assert "You are signed in as <strong>alice@example.org</strong>" in late.text
    assert visitor.get("/settings").status_code == 200


def test_an_expired_request_of_another_browser_is_not_named(
    application: Application, alice_browser: Visitor, bob: Person, welcome: Welcome, owner: Rows
) -> None:
    sent = alice_browser.get(application.authorize_path())
    make_late(owner)

    response = welcome(bob).follow(sent)

    assert response.status_code == 400
    assert "It was answered already, or it waited for more than 15 minutes." in response.text
    assert "Weekly Report" not in response.text


def test_a_request_is_pending_for_a_quarter_of_an_hour(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    alice_browser.get(application.authorize_path())

    row = owner.execute(
        "select extract(epoch from expires_at - created_at)::int from oauth.authorization_request"
    ).fetchone()

    assert row == (900,)


@pytest.mark.parametrize("request_id", ["", "x", "svc_rq_" + "0" * 71, "%00", "%ff"])
def test_a_malformed_request_id_is_an_ordinary_error(server: TestClient, request_id: str) -> None:
    response = Visitor(server).get(f"/oauth/consent?request={request_id}")

    assert response.status_code == 400


def test_two_tabs_with_two_requests_do_not_disturb_each_other(
    register: Register, alice_browser: Visitor
) -> None:
    one, other = register("https://one.example/cb"), register("https://other.example/cb")
    one_page = alice_browser.follow(alice_browser.get(one.authorize_path(state="1")))
    other_page = alice_browser.follow(alice_browser.get(other.authorize_path(state="2")))

    one_answer = alice_browser.submit(one_page, decision="allow")
    other_answer = alice_browser.submit(other_page, decision="decline")

    assert one_answer.headers["location"].startswith("https://one.example/cb?code=")
    assert parameters(one_answer)["state"] == ["1"]
    assert other_answer.headers["location"].startswith("https://other.example/cb?error=")
    assert parameters(other_answer)["state"] == ["2"]


def test_consent_is_asked_every_time(application: Application, alice_browser: Visitor) -> None:
    application.pair(alice_browser)

    response = alice_browser.get(application.authorize_path())

    assert response.headers["location"].startswith("/oauth/consent?request=")


def test_an_account_deleted_meanwhile_causes_no_internal_error(
    application: Application, alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    owner.execute("delete from identity.user where user_id = %s", [alice.user_id])

    response = alice_browser.submit(page, decision="allow")

    assert response.status_code == 403
