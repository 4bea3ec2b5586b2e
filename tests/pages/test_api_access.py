"""Settings → API access."""

import re
import threading
from datetime import UTC, date, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from shared import tokens
from shared.scopes import SCOPES
from tests.conftest import Connect, Person
from tests.oauth.conftest import Opens, Welcome
from tests.oauth.visitor import Application, Visitor, forms
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

PATH = "/settings/api-access"
TOKEN = re.compile(r"svc_dt_[0-9A-Za-z]{71}")
READING = [scope for scope in SCOPES if scope.startswith("read:")]
FORM = 1
"""The first form of the page is the one that signs out."""


def fill(browser: Visitor, page: Response | None = None, **changed: Any) -> Response:
    """Submit the form of a page with valid values and changes."""
    good = {"name": "Weekly chart", "preset": "choose", "scope": ["read:profile"], "expiry": "90"}
    return browser.submit(page or browser.get(PATH), form=FORM, **(good | changed))


def token_in(page: Response) -> str:
    found = TOKEN.search(page.text)
    assert found is not None, page.text
    return found[0]


def text_of(page: Response) -> str:
    """Return the text of a page, in one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


def grants_of(owner: Rows, person: Person) -> list[tuple[str, list[str], datetime | None]]:
    return owner.execute(
        """
        select name,
               oauth.grant.scopes,
               access_token.expires_at
          from oauth.grant
          join oauth.access_token using (user_id, grant_id)
         where user_id = %s
         order by created_at
        """,
        [person.user_id],
    ).fetchall()


def make_old(owner: Rows) -> None:
    """Make all sign-ins too old to be fresh."""
    owner.execute(
        "update identity.session set authenticated_at = now() - interval '15 minutes 1 second'"
    )


# Creating a token


@pytest.mark.checklist(55)
def test_a_token_is_created_shown_once_and_works(
    alice_browser: Visitor, alice: Person, status: Opens, owner: Rows
) -> None:
    made = fill(alice_browser)
    token = token_in(made)
    listed = alice_browser.get(PATH)

    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    assert status(token) == 200
    assert f'curl -H "Authorization: Bearer {token}" "http://testserver/api/v1/me"' in unescape(
        made.text
    )
    assert TOKEN.search(listed.text) is None
    ((name, granted, expires_at),) = grants_of(owner, alice)
    assert (name, granted) == ("Weekly chart", ["read:profile"])
    assert expires_at is not None
    assert abs(expires_at - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=1)


def test_tokens_are_listed_by_their_last_use_and_found_by_name(
    alice: Person, alice_browser: Visitor, owner: Rows
) -> None:
    for _ in range(10):
        alice.token()
    few = alice_browser.get(PATH)
    fill(alice_browser, name="Notebook")
    owner.execute("update oauth.grant set last_used_at = now() where name = 'Notebook'")

    page = alice_browser.get(PATH)
    found = alice_browser.get(f"{PATH}?search=noteb")

    assert 'type="search"' not in few.text
    assert 'type="search"' in page.text
    assert page.text.count("/settings/revoke?grant=") == 11
    assert re.findall(r"<h3><bdi>(.*)</bdi></h3>", page.text)[0] == "Notebook"
    assert found.text.count("/settings/revoke?grant=") == 1
    assert "may be a minute old" in page.text


def test_the_page_links_to_the_documentation(alice_browser: Visitor) -> None:
    assert 'href="http://testserver/docs"' in alice_browser.get(PATH).text


@pytest.mark.checklist(55)
def test_the_list_shows_only_the_persons_live_tokens(
    alice_browser: Visitor, bob: Person, application: Application, owner: Rows
) -> None:
    bob.token("read:music")
    application.pair(alice_browser)
    token = token_in(fill(alice_browser, expiry="never"))
    before = text_of(alice_browser.get(PATH))
    owner.execute(
        "update oauth.grant set created_at = '2026-02-28 09:30Z', last_used_at = '2026-03-01 12:05Z'"
    )
    owner.execute("update identity.user set timezone = 'Asia/Kathmandu'")

    after = text_of(alice_browser.get(PATH))

    assert "Last used Never" in before
    assert (
        "Weekly chart last used 1 Mar 2026, 17:50 Asia/Kathmandu "
        f"Token svc_dt_…{token[-4:]} May read:profile Created 28 Feb 2026, 15:15 Asia/Kathmandu "
        "Ends Never Last used 1 Mar 2026, 17:50 Asia/Kathmandu Revoke" in after
    )
    assert after.count("svc_dt_…") == 1
    assert "read:music" not in after[after.index("Your tokens") :]
    assert "Weekly Report" not in after


@pytest.mark.checklist(55)
def test_creating_a_token_requires_a_fresh_sign_in(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    page = alice_browser.get(PATH)
    make_old(owner)

    refused = fill(alice_browser, page)
    shown = alice_browser.get(PATH)

    assert refused.status_code == 403
    assert grants_of(owner, alice) == []
    assert shown.status_code == 200
    assert f'href="/confirm?next={PATH}"' in shown.text
    assert "Create token" not in shown.text


def test_without_sign_in_the_page_redirects_to_sign_in(visitor: Visitor) -> None:
    shown = visitor.get(PATH)
    sent = visitor.post(PATH, {"draft": "x", "expiry": "never"})

    assert shown.headers["location"] == f"/sign-in?next={PATH}"
    assert sent.headers["location"] == f"/sign-in?next={PATH}"


@pytest.mark.parametrize(
    ("sent", "granted"),
    [
        ({"preset": "reading", "scope": ["ingest:health"]}, READING),
        ({"preset": "tracker"}, ["ingest:app_sessions", "ingest:coding_sessions"]),
        (
            {"preset": "choose", "scope": ["ingest:health", "read:code"]},
            ["read:code", "ingest:health"],
        ),
        ({"preset": None, "scope": ["read:music"]}, ["read:music"]),
    ],
    ids=["all reading", "a tracker", "what is ticked", "ticked and not chosen"],
)
def test_the_token_gets_the_chosen_scopes(
    alice_browser: Visitor,
    alice: Person,
    owner: Rows,
    sent: dict[str, Any],
    granted: list[str],
) -> None:
    response = fill(alice_browser, **sent)

    assert response.status_code == 200
    assert [scopes for _, scopes, _ in grants_of(owner, alice)] == [granted]


@pytest.mark.parametrize(
    ("preset", "line"),
    [
        ("reading", "/api/v1/me"),
        ("tracker", """-d '{"events": [{"app": "First try", "device": "curl", "started_at": "20"""),
        ("tracker", """Z"}]}' "http://testserver/api/v1/ingest/app-sessions"'"""),
    ],
)
def test_the_example_command_fits_the_scopes(
    alice_browser: Visitor, preset: str, line: str
) -> None:
    page = fill(alice_browser, preset=preset)

    assert line.rstrip("'") in unescape(page.text)


def test_without_a_fitting_example_no_command_is_shown(alice_browser: Visitor) -> None:
    page = fill(alice_browser, scope=["ingest:health"])

    assert page.status_code == 200
    assert "curl" not in page.text


@pytest.mark.parametrize(
    ("last_day", "end"),
    [
        # One of them is on the other side of a change of clocks, on any day of the year.
        ("2099-01-15", datetime(2099, 1, 15, 23, 0, tzinfo=UTC)),
        ("2099-07-15", datetime(2099, 7, 15, 22, 0, tzinfo=UTC)),
        # That day has 25 hours.
        ("2099-10-25", datetime(2099, 10, 25, 23, 0, tzinfo=UTC)),
    ],
)
def test_a_token_expires_at_the_end_of_the_last_day_in_the_persons_zone(
    alice_browser: Visitor, alice: Person, owner: Rows, last_day: str, end: datetime
) -> None:
    owner.execute("update identity.user set timezone = 'Europe/Berlin'")

    response = fill(alice_browser, expiry="date", date=last_day)

    assert response.status_code == 200
    ((_, _, expires_at),) = grants_of(owner, alice)
    assert expires_at is not None
    assert abs(expires_at - end) < timedelta(minutes=1)


def test_today_is_the_earliest_last_day(alice_browser: Visitor, alice: Person, owner: Rows) -> None:
    owner.execute("update identity.user set timezone = 'Pacific/Kiritimati'")
    today = (datetime.now(UTC) + timedelta(hours=14)).date()

    yesterday = fill(alice_browser, expiry="date", date=str(today - timedelta(days=1)))
    response = fill(alice_browser, expiry="date", date=str(today))

    assert yesterday.status_code == 400
    assert response.status_code == 200
    assert len(grants_of(owner, alice)) == 1


# Sent twice


def test_a_form_that_is_submitted_twice_creates_one_token_and_says_so(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    page = alice_browser.get(PATH)

    first = fill(alice_browser, page)
    second = fill(alice_browser, page, name="Another name")

    assert first.status_code == 200
    assert second.status_code == 409
    assert TOKEN.search(second.text) is None
    assert "has created its token already, and a token is shown only once" in second.text
    assert [name for name, _, _ in grants_of(owner, alice)] == ["Weekly chart"]
    assert fill(alice_browser, second).status_code == 200


def test_concurrent_submits_of_a_form_create_one_token(
    alice_browser: Visitor, alice: Person, server: TestClient, owner: Rows
) -> None:
    fields = dict(forms(alice_browser.get(PATH))[FORM].fields)
    sent = urlencode(
        {
            "csrf": fields["csrf"],
            "draft": fields["draft"],
            "name": "Weekly chart",
            "preset": "reading",
            "expiry": "never",
        }
    )
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Cookie": "; ".join(f"{name}={value}" for name, value in alice_browser.cookies.items()),
    }
    statuses: list[int] = []

    def send() -> None:
        statuses.append(server.post(PATH, content=sent, headers=headers).status_code)

    rivals = [threading.Thread(target=send) for _ in range(8)]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join()

    assert sorted(statuses) == [200] + [409] * 7
    assert len(grants_of(owner, alice)) == 1


def test_a_draft_id_cannot_produce_the_id_of_another_persons_grant(
    alice_browser: Visitor, alice: Person, bob: Person, owner: Rows
) -> None:
    bob.token("read:music")
    (bobs,) = owner.execute("select grant_id from oauth.grant").fetchone() or (UUID(int=0),)

    response = fill(alice_browser, draft=str(bobs))

    assert response.status_code == 200
    ids = owner.execute("select distinct grant_id from oauth.grant").fetchall()
    assert len(ids) == 2


# Refused


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": ""}, "Give it a name."),
        ({"name": " \u3164\u200b "}, "Give it a name."),
        ({"name": "x" * 101}, "A name has at most 100 characters; this one has 101."),
        ({"name": "x" * 10_000}, "A name has at most 100 characters; this one has 10000."),
        ({"name": "gpj.\u202egnp"}, "characters in it that cannot be seen"),
        ({"name": "two\nlines"}, "characters in it that cannot be seen"),
        ({"scope": None}, "Tick at least one thing"),
        ({"preset": None, "scope": None}, "Choose what the token may do."),
        ({"expiry": "date"}, "Choose a date."),
        ({"expiry": "date", "date": "2026-02-30"}, "There is no such date."),
        ({"expiry": "date", "date": "0000-00-00"}, "There is no such date."),
        ({"expiry": "date", "date": "tomorrow"}, "There is no such date."),
        ({"expiry": "date", "date": "9" * 10_000}, "There is no such date."),
        ({"expiry": "date", "date": "20990101"}, "There is no such date."),
        ({"expiry": "date", "date": "\u0662\u0660\u0669\u0669-01-01"}, "There is no such date."),
        ({"expiry": "date", "date": "2020-01-01"}, "That day is over."),
        ({"expiry": "date", "date": "9999-12-31"}, "within the next 100 years"),
    ],
)
def test_problems_are_reported_beside_their_fields_and_typed_values_kept(
    alice_browser: Visitor, alice: Person, owner: Rows, changed: dict[str, Any], said: str
) -> None:
    typed = {"name": "A <b>bold</b> name", "scope": ["read:music"], "expiry": "30"} | changed
    page = alice_browser.get(PATH)

    response = fill(alice_browser, page, **typed)

    assert response.status_code == 400
    assert response.text.count('class="problem"') == 1
    assert said in response.text
    assert re.search(r'aria-describedby="(\w+)-problem', response.text)
    shown = unescape(response.text)
    assert typed["name"] is None or f'value="{typed["name"].strip()}"' in shown
    assert f'value="{typed["expiry"]}" selected' in shown
    for scope in typed["scope"] or []:
        assert f'value="{scope}" checked' in shown
    assert typed.get("date", "") in shown
    assert grants_of(owner, alice) == []


def test_two_mistakes_are_reported_together(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    refused = fill(alice_browser, name="", expiry="date", date="2020-01-01")

    mended = fill(
        alice_browser, refused, name="Weekly chart", date=str(date.max.replace(year=2090))
    )

    assert refused.text.count('class="problem"') == 2
    assert mended.status_code == 200
    assert len(grants_of(owner, alice)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"scope": ["read:everything"]},
        {"scope": ["read:music", "\0"]},
        {"preset": "everything"},
        {"expiry": "365"},
        {"expiry": None},
        {"draft": None},
        {"name": ["one", "two"]},
        {"name": "\0"},
        {"name": "\ud800".encode("utf-8", "surrogatepass")},
    ],
)
def test_a_value_that_our_form_cannot_send_is_refused(
    alice_browser: Visitor, alice: Person, owner: Rows, changed: dict[str, Any]
) -> None:
    response = fill(alice_browser, **changed)

    assert response.status_code == 400
    assert grants_of(owner, alice) == []


@pytest.mark.parametrize("csrf", [None, "", "forged", "é"])
def test_a_form_without_its_token_is_shown_again_with_the_typed_values(
    alice_browser: Visitor, alice: Person, owner: Rows, csrf: str | None
) -> None:
    response = fill(alice_browser, csrf=csrf)

    assert response.status_code == 403
    assert "This page was out of date. Please try again." in response.text
    assert 'value="Weekly chart"' in response.text
    assert grants_of(owner, alice) == []
    assert fill(alice_browser, response).status_code == 200


def test_a_form_of_another_session_creates_nothing(
    alice_browser: Visitor, alice: Person, bob: Person, welcome: Welcome, owner: Rows
) -> None:
    of_bob = welcome(bob).get(PATH)

    response = fill(alice_browser, of_bob)

    assert response.status_code == 403
    assert grants_of(owner, alice) == grants_of(owner, bob) == []


def test_a_form_from_another_site_creates_nothing(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    response = alice_browser.post(
        PATH,
        {"draft": "x", "name": "x", "preset": "reading", "expiry": "never"},
        headers={"Origin": "https://evil.example"},
    )

    assert response.status_code == 403
    assert grants_of(owner, alice) == []


def test_with_a_hundred_live_tokens_no_further_one_is_created(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    for _ in range(99):
        alice.token("read:music")
    alice.token("read:music", expires="-1 second")

    hundredth = fill(alice_browser)
    refused = fill(alice_browser)
    alice_browser.submit(
        alice_browser.get(re.findall(r'href="(/settings/revoke\?grant=[^"]+)"', refused.text)[0]),
        form=FORM,
    )
    again = fill(alice_browser)

    assert hundredth.status_code == 200
    assert refused.status_code == 400
    assert "An account can have at most 100 API tokens" in refused.text
    assert 'value="Weekly chart"' in refused.text
    assert again.status_code == 200


def test_concurrent_submits_do_not_exceed_a_hundred_tokens(
    alice_browser: Visitor, alice: Person, server: TestClient, owner: Rows, connect_as: Connect
) -> None:
    for _ in range(98):
        alice.token("read:music")
    pages = [alice_browser.get(PATH) for _ in range(6)]
    statuses: list[int] = []

    def send(page: Response) -> None:
        rival = Visitor(server, dict(alice_browser.cookies))
        statuses.append(fill(rival, page).status_code)

    rivals = [threading.Thread(target=send, args=[page]) for page in pages]
    holder = connect_as("authserver")
    with holder.transaction():
        # None of them can lock the account's row before all are waiting for it.
        holder.execute("select from identity.user where user_id = %s for update", [alice.user_id])
        for each in rivals:
            each.start()
        wait_for_rivals(owner, 6)
    for each in rivals:
        each.join()

    assert sorted(statuses) == [200, 200, 400, 400, 400, 400]
    assert len(grants_of(owner, alice)) == 100


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><b>&amp;'])
def test_markup_in_a_name_is_escaped(alice_browser: Visitor, name: str) -> None:
    fill(alice_browser, name=name)

    page = alice_browser.get(PATH)

    assert "<script>alert" not in page.text
    assert "<b>" not in page.text
    assert name in unescape(page.text)


def test_text_in_the_query_is_not_shown(alice_browser: Visitor) -> None:
    page = alice_browser.get(f"{PATH}?done=Your+account+is+gone&done=x&problem=call+us")

    assert page.status_code == 200
    assert "gone" not in page.text
    assert "call us" not in page.text


def test_creating_a_token_is_recorded(alice_browser: Visitor, alice: Person, owner: Rows) -> None:
    page = alice_browser.get(PATH)
    fill(alice_browser, page)
    fill(alice_browser, page)

    events = owner.execute(
        "select event from identity.security_event where user_id = %s", [alice.user_id]
    ).fetchall()

    assert events == [("token_created",)]


# Revoking


@pytest.mark.checklist(55)
def test_revoking_asks_first_and_ends_the_token_at_the_next_request(
    alice_browser: Visitor, alice: Person, status: Opens, owner: Rows
) -> None:
    token = token_in(fill(alice_browser))
    link = re.search(r'href="(/settings/revoke\?grant=[^"]+)"', alice_browser.get(PATH).text)
    assert link is not None

    asked = alice_browser.get(link[1])
    before = status(token)
    response = alice_browser.submit(asked, form=FORM)
    after = status(token)
    listed = alice_browser.follow(response)

    assert "Weekly chart" in asked.text
    assert (before, after) == (200, 401)
    assert response.status_code == 303
    assert response.headers["location"] == f"{PATH}?done=revoked"
    assert "The token is revoked." in listed.text
    assert "Weekly chart" not in listed.text


def test_revoking_twice_reports_that_the_token_had_ended(alice_browser: Visitor) -> None:
    fill(alice_browser)
    link = re.search(r'href="(/settings/revoke\?grant=[^"]+)"', alice_browser.get(PATH).text)
    assert link is not None
    asked = alice_browser.get(link[1])

    alice_browser.submit(asked, form=FORM)
    again = alice_browser.submit(asked, form=FORM)
    back = alice_browser.get(link[1])

    assert again.headers["location"] == back.headers["location"] == f"{PATH}?done=ended"
    assert "That token had ended already." in alice_browser.follow(back).text


def test_revoking_needs_no_fresh_sign_in(
    alice_browser: Visitor, alice: Person, status: Opens, owner: Rows
) -> None:
    token = token_in(fill(alice_browser))
    make_old(owner)
    link = re.search(r'href="(/settings/revoke\?grant=[^"]+)"', alice_browser.get(PATH).text)
    assert link is not None

    response = alice_browser.submit(alice_browser.get(link[1]), form=FORM)

    assert response.status_code == 303
    assert status(token) == 401


def test_alice_can_neither_see_nor_revoke_bobs_token(
    alice_browser: Visitor, bob: Person, status: Opens, owner: Rows
) -> None:
    token = bob.token()
    (grant_id,) = owner.execute("select grant_id from oauth.grant").fetchone() or (None,)
    fill(alice_browser)
    link = re.search(r'href="(/settings/revoke\?grant=[^"]+)"', alice_browser.get(PATH).text)
    assert link is not None

    shown = alice_browser.get(f"/settings/revoke?grant={grant_id}")
    sent = alice_browser.submit(alice_browser.get(link[1]), form=FORM, grant=str(grant_id))

    assert shown.status_code == sent.status_code == 404
    assert status(token) == 200


@pytest.mark.parametrize(
    "grant", ["", "x", "00000000-0000-0000-0000-000000000000", "%00", "%ff", "0" * 10_000, "é"]
)
def test_a_grant_of_another_person_is_not_found(alice_browser: Visitor, grant: str) -> None:
    response = alice_browser.get(f"/settings/revoke?grant={grant}")

    assert response.status_code == 404
    assert "There is nothing here" in response.text


def test_revoking_without_the_forms_token_changes_nothing(
    alice_browser: Visitor, status: Opens
) -> None:
    token = token_in(fill(alice_browser))
    link = re.search(r'href="(/settings/revoke\?grant=[^"]+)"', alice_browser.get(PATH).text)
    assert link is not None

    response = alice_browser.submit(alice_browser.get(link[1]), form=FORM, csrf="forged")

    assert response.status_code == 403
    assert "This page was out of date. Please try again." in response.text
    assert status(token) == 200
    assert alice_browser.submit(response, form=FORM).status_code == 303
    assert status(token) == 401


def test_a_token_matches_the_published_pattern_for_scanners(alice_browser: Visitor) -> None:
    token = token_in(fill(alice_browser))

    assert tokens.parse(tokens.ACCESS, token) is not None
