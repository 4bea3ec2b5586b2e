"""Settings → Connections: connected, set up with a key that is shown once, paused, renewed and ended."""

import html
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from httpx2 import Response
from psycopg import sql
from starlette.testclient import TestClient

import authserver.app
from authserver.pages import connections
from shared import keys, sealing
from shared.connections import KINDS, MOST, RECEIVERS
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Connect, Person
from tests.oauth.conftest import SEALING_KEY, Welcome, visitor_of
from tests.oauth.visitor import Visitor, forms
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

PATH = connections.PATH
KEY = re.compile(
    r"svc_ik_[0-9A-Za-z]{71}|[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)
ADDRESS = "https://calendar.example/private-0123456789/basic.ics"


def submit(browser: Visitor, page: Response, action: str = "", **typed: Any) -> Response:
    found = [n for n, each in enumerate(forms(page)) if each.action == f"{PATH}{action}"]
    return browser.submit(page, form=found[0], **typed)


def fill(browser: Visitor, kind: str, **typed: Any) -> Response:
    return submit(browser, browser.get(f"{PATH}?new={kind}"), **typed)


def key_in(page: Response) -> str:
    found = re.search(
        r'<code id="text-\d">(?:Bearer )?(svc_ik_\w+|[0-9a-f-]{36})</code>', page.text
    )
    assert found is not None, page.text
    return found[1]


def text_of(page: Response) -> str:
    """Return the text of a page, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


def one(owner: Rows, kind: str = "owntracks") -> str:
    """Return the address of the page of the newest connection of a kind."""
    row = owner.execute(
        "select connection_id from profile.connection where kind = %s order by created_at desc",
        [kind],
    ).fetchone()
    assert row is not None
    return f"{PATH}?connection={row[0]}"


def make_old(owner: Rows) -> None:
    """Make all sign-ins too old to be fresh."""
    owner.execute(
        "update identity.session set authenticated_at = now() - interval '15 minutes 1 second'"
    )


def note(owner: Rows, **columns: Any) -> None:
    """Set columns of all connections, as receivers and the worker do."""
    assignments = [sql.SQL("{} = %s").format(sql.Identifier(name)) for name in columns]
    statement = sql.SQL("update profile.connection set {}").format(sql.SQL(", ").join(assignments))
    owner.execute(statement, list(columns.values()))


def hashes(owner: Rows) -> list[bytes]:
    """Return the hashes that open connections, and those with which their imports are written."""
    rows = owner.execute(
        """
        select key.key_hash,
               import.key_hash
          from profile.integration_key as key
          join profile.import using (user_id, connection_id)
        """
    )
    return [each for row in rows for each in row]


def events(owner: Rows) -> list[str]:
    found = owner.execute(
        "select event from identity.security_event where event like 'connection%' order by occurred_at"
    )
    return [event for (event,) in found]


# Connecting


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS.values() if kind.key])
def test_an_application_is_set_up_with_a_key_that_is_shown_once(
    alice_browser: Visitor, owner: Rows, kind: str
) -> None:
    shown = fill(alice_browser, kind, name="Mine")
    key = KEY.search(shown.text)
    after = alice_browser.get(one(owner, kind))

    assert shown.status_code == 200, shown.text
    assert key is not None
    assert hashes(owner) == [keys.hash_of(key[0])] * 2
    assert "waiting for the first record" in text_of(after)
    assert "http://testserver/" in shown.text
    assert KEY.search(after.text.replace(one(owner, kind).partition("=")[2], "")) is None
    assert events(owner) == ["connection_added"]


def test_a_form_that_is_sent_again_neither_connects_again_nor_shows_the_key(
    alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(f"{PATH}?new=owntracks")
    first = submit(alice_browser, page)
    again = submit(alice_browser, page)

    assert again.status_code == 409
    assert "This form has added its connection already." in again.text
    assert key_in(first) not in again.text
    assert hashes(owner) == [keys.hash_of(key_in(first))] * 2


@pytest.mark.parametrize("action", ["", "/key"])
def test_of_forms_that_are_sent_at_once_one_shows_a_key(
    alice_browser: Visitor, alice: Person, connect_as: Connect, owner: Rows, action: str
) -> None:
    page = alice_browser.get(f"{PATH}?new=owntracks")
    if action:
        submit(alice_browser, page)
        owner.execute("update profile.integration_key set created_at = now() - interval '1 hour'")
        page = alice_browser.get(one(owner))
    answers: list[Response] = []
    rivals = [
        threading.Thread(target=lambda: answers.append(submit(alice_browser, page, action)))
        for _ in range(4)
    ]
    holder = connect_as("authserver")
    with holder.transaction():
        # None of them can lock the account's row before all are waiting for it.
        holder.execute("select from identity.user where user_id = %s for update", [alice.user_id])
        for rival in rivals:
            rival.start()
        wait_for_rivals(owner, 4)
    for rival in rivals:
        rival.join()

    (shown,) = (each for each in answers if each.status_code == 200)
    assert sorted(each.status_code for each in answers) == [200, 409, 409, 409]
    assert hashes(owner) == [keys.hash_of(key_in(shown))] * 2


def test_secrets_are_sealed_for_the_worker_and_in_no_page(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    added = fill(
        alice_browser, "calendar", field_address=ADDRESS, field_user="al", field_password=""
    )
    page = alice_browser.follow(added)
    ((connection_id, settings, field, key_id, sealed),) = owner.execute(
        """
        select connection_id,
               settings,
               field,
               key_id,
               sealed
          from profile.connection
          join profile.connection_secret using (user_id, connection_id)
        """
    )

    assert settings == {"user": "al"}
    assert field == "address"
    assert ADDRESS.encode() not in sealed
    opener = sealing.Opener([SEALING_KEY])
    whose = {"user_id": alice.user_id, "connection_id": connection_id}
    assert opener.open(key_id, sealed, **whose, field="address") == ADDRESS
    assert "It is connected." in page.text
    assert "calendar.example" not in page.text
    assert owner.execute("select kind from svc.turn").fetchall() == [("pull",)]


def test_a_wrong_address_is_refused_and_not_kept_in_the_form(
    alice_browser: Visitor, owner: Rows
) -> None:
    address = "http://calendar.example/a.ics"
    refused = fill(alice_browser, "calendar", field_address=address, field_password="owl")

    assert refused.status_code == 400
    assert "must begin with https:// or webcal://" in text_of(refused)
    assert address not in refused.text
    assert "Type it again: what is secret is not kept in the form." in refused.text
    assert "owl" not in refused.text
    assert owner.execute("select count(*) from profile.connection").fetchone() == (0,)


@pytest.mark.parametrize("kind", ["github", "gitlab", "lastfm"])
def test_a_form_links_to_where_its_key_is_made(alice_browser: Visitor, kind: str) -> None:
    (link,) = [each.link for each in KINDS[kind].fields if each.link]

    assert f'href="{link}" target="_blank"' in alice_browser.get(f"{PATH}?new={kind}").text


@pytest.mark.parametrize(
    "name", ["x" * 10_000, "a\u202eb", "line\u2028break", "tab\tbed", "\u200b", ""]
)
def test_a_wrong_name_is_refused_and_kept_in_the_form(
    alice_browser: Visitor, owner: Rows, name: str
) -> None:
    refused = fill(alice_browser, "overland", name=name)

    assert refused.status_code == 400
    assert 'id="name-problem"' in refused.text
    assert html.escape(name) in refused.text
    assert owner.execute("select count(*) from profile.connection").fetchone() == (0,)


def test_totals_are_shown_by_an_application_only_if_that_is_ticked(
    alice_browser: Visitor, owner: Rows
) -> None:
    form = alice_browser.get(f"{PATH}?new=wakatime")
    submit(alice_browser, form)
    fill(alice_browser, "listenbrainz", totals="on")
    fill(alice_browser, "owntracks", totals="on")

    assert 'name="totals" value="on">' in form.text
    granted = owner.execute(
        """
        select kind,
               scopes
          from profile.integration_key
          join profile.connection using (user_id, connection_id)
         order by kind
        """
    ).fetchall()
    assert granted == [("listenbrainz", ["read:music"]), ("owntracks", []), ("wakatime", [])]


def test_a_person_has_at_most_fifty_connections(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    fill(alice_browser, "owntracks")
    owner.execute(
        """
        insert into profile.connection (user_id, kind, data, name, import_id)
        select user_id, kind, data, name, gen_random_uuid()
          from profile.connection,
               generate_series(2, %s)
        """,
        [MOST],
    )

    refused = fill(alice_browser, "owntracks", name="One more")

    assert refused.status_code == 409
    assert "You have 50 connections, which is the most." in refused.text
    assert 'value="One more"' in refused.text
    assert events(owner) == ["connection_added"]


@pytest.mark.parametrize("kind", ["", "nothing", "WakaTime", "../x", "\ud800", "%00"])
def test_an_unknown_kind_is_not_found(alice_browser: Visitor, kind: str) -> None:
    page = alice_browser.get(f"{PATH}?new=owntracks")
    sent = kind.encode("utf-8", "surrogatepass")

    assert submit(alice_browser, page, kind=sent).status_code in (400, 404)


def test_an_old_sign_in_keeps_what_was_typed_except_for_secrets(
    alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(f"{PATH}?new=calendar")
    make_old(owner)
    refused = submit(alice_browser, page, name="Work", field_address=ADDRESS, field_user="al")
    before = alice_browser.get(f"{PATH}?new=calendar")

    assert refused.status_code == 403
    assert "Confirm in a new tab that it is you" in refused.text
    assert 'value="Work"' in refused.text
    assert 'value="al"' in refused.text
    assert ADDRESS not in refused.text
    assert "Type it again" in refused.text
    assert 'href="/confirm?next=/settings/connections%3Fnew%3Dcalendar"' in before.text
    linked = alice_browser.get(f"{PATH}?new=calendar&back=/sources").text
    assert "%3Fnew%3Dcalendar%26back%3D%252Fsources" in linked
    assert [each.action for each in forms(before)] == ["/sign-out"]


@pytest.mark.parametrize("kind", ["new", "secrets", "end"])
def test_after_the_confirmation_the_same_page_follows(
    alice_browser: Visitor, owner: Rows, kind: str
) -> None:
    fill(alice_browser, "calendar", field_address=ADDRESS)
    page = {
        "new": f"{PATH}?new=calendar",
        "secrets": one(owner, "calendar"),
        "end": one(owner, "calendar").replace("?", "/end?"),
    }[kind]
    make_old(owner)
    before = alice_browser.get(f"{page}&back=/sources")
    (link,) = (
        [before.headers["location"]]
        if before.status_code == 303
        else re.findall(r'href="(/confirm[^"]*)"', before.text)
    )
    asked = alice_browser.get(link)
    form = next(n for n, each in enumerate(forms(asked)) if each.action == "/confirm")

    confirmed = alice_browser.submit(asked, form=form, password="an owl reads under the lamp")

    assert confirmed.headers["location"] == f"{page}&back=%2Fsources"
    assert "/secrets" not in before.text


@pytest.fixture
def closed(settings: Settings, alice: Person) -> Iterator[Visitor]:
    """A browser of alice at a server whose operator has switched nothing on."""
    chosen = replace(settings, receivers=(), sealing_public_key=None)
    with AppClient(authserver.app.create(chosen), "http://localhost:8400") as client:
        yield visitor_of(client, chosen, alice)


def test_what_is_switched_off_is_not_offered_and_the_page_says_how_to_switch_it_on(
    closed: Visitor, alice_browser: Visitor, owner: Rows
) -> None:
    page = closed.get(PATH)
    form = alice_browser.get(f"{PATH}?new=owntracks")
    closed.cookies.update(alice_browser.cookies)

    assert "SVC_RECEIVERS=wakatime,listenbrainz,owntracks" in page.text
    assert "SVC_SEALING_PUBLIC_KEY" in page.text
    assert re.findall(r"\?new=(\w+)", page.text) == ["listenbrainz_user"]
    for answer in (
        closed.get(f"{PATH}?new=owntracks"),
        closed.get(f"{PATH}?new=lastfm"),
        submit(closed, form),
    ):
        assert answer.status_code == 409
        assert "the operator of this service has not switched it on" in answer.text
    assert owner.execute("select count(*) from profile.connection").fetchone() == (0,)


def test_what_an_operator_switched_off_again_says_so(
    closed: Visitor, alice_browser: Visitor, owner: Rows
) -> None:
    fill(alice_browser, "owntracks")
    closed.cookies.update(alice_browser.cookies)
    words = "has not switched OwnTracks on, so nothing that it sends arrives."

    for address in (PATH, one(owner)):
        assert words in text_of(closed.get(address))
        assert words not in text_of(alice_browser.get(address))
    note(owner, paused_at=datetime.now(UTC))
    assert words not in text_of(closed.get(PATH))


def test_the_list_names_the_applications_that_are_not_switched_on(
    settings: Settings, alice: Person
) -> None:
    kinds = tuple(kind for kind in RECEIVERS if kind not in ("osmand", "health"))
    app = authserver.app.create(replace(settings, receivers=kinds))
    with AppClient(app, "http://localhost:8400") as client:
        page = text_of(visitor_of(client, settings, alice).get(PATH))

    assert (
        "Not switched on here: OsmAnd, Traccar or GPSLogger; Health from a phone. The operator"
        in page
    )


# The state


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "waiting for the first record"),
        ({"last_record_at": timedelta(minutes=2, seconds=5)}, "live last record 2 minutes ago"),
        (
            {"problem": "unreachable", "failing_since": timedelta(hours=1)},
            "The server of the service could not be reached.",
        ),
        (
            {"problem": "key_refused", "failing_since": timedelta(hours=1), "is_refused": True},
            "key refused since",
        ),
        ({"problem": "brand_new", "failing_since": timedelta(hours=1)}, "Brand new."),
        ({"paused_at": timedelta(hours=1)}, "paused since"),
    ],
)
def test_the_list_says_the_state_in_words(
    alice_browser: Visitor, owner: Rows, columns: dict[str, Any], words: str
) -> None:
    fill(alice_browser, "github", field_token="t")
    now = datetime.now(UTC)
    if columns:
        given = {
            name: now - value if isinstance(value, timedelta) else value
            for name, value in columns.items()
        }
        note(owner, **given)

    assert words in text_of(alice_browser.get(PATH))
    assert words in text_of(alice_browser.get(one(owner, "github")))


def test_the_page_of_a_connection_has_its_counts(alice_browser: Visitor, owner: Rows) -> None:
    fill(alice_browser, "wakatime", totals="on", field_gap_minutes="20")
    owner.execute(
        """
        update profile.connection
           set record_count = 12345,
               first_record_at = '2026-03-01 12:00Z',
               last_record_at = '2026-03-01 12:05Z'
        """
    )
    owner.execute("update profile.integration_key set last_used_at = '2026-03-01 12:05Z'")
    owner.execute("update identity.user set timezone = 'Asia/Kathmandu'")

    page = text_of(alice_browser.get(one(owner, "wakatime")))

    assert "Received" not in page
    first, last = "1 Mar 2026, 17:45 Asia/Kathmandu", "1 Mar 2026, 17:50 Asia/Kathmandu"
    assert f"Records 12,345 First record {first} Last record {last}" in page
    assert "Key last used 1 Mar 2026, 17:50 Asia/Kathmandu ; may be a minute old" in page
    assert "May show read:activity , the last 14 days" in page
    assert "Minutes without a keystroke that end a session 20" in page


def test_a_connection_says_that_its_first_record_is_received(
    alice_browser: Visitor, owner: Rows
) -> None:
    fill(alice_browser, "overland")
    now = datetime.now(UTC)
    note(owner, first_record_at=now, last_record_at=now)

    page = alice_browser.get(one(owner, "overland"))

    assert "Received: the first record arrived less than a minute ago." in text_of(page)
    assert 'data-awaited="false"' in page.text


# Changing


def test_a_new_key_ends_the_old_one_and_a_reload_makes_no_other(
    alice_browser: Visitor, owner: Rows
) -> None:
    fill(alice_browser, "owntracks")
    owner.execute("update profile.integration_key set created_at = created_at - interval '1 hour'")
    page = alice_browser.get(one(owner))
    renewed = submit(alice_browser, page, "/key")
    reloaded = submit(alice_browser, page, "/key")

    key = key_in(renewed)
    assert renewed.status_code == 200
    assert reloaded.status_code == 409
    assert "The connection has got another key since this form was opened" in reloaded.text
    assert key not in reloaded.text
    assert hashes(owner) == [keys.hash_of(key)] * 2
    assert events(owner) == ["connection_added", "connection_key_renewed"]


def test_the_page_of_a_new_key_waits_until_it_is_used(alice_browser: Visitor, owner: Rows) -> None:
    words = "The application has not used its new key yet."
    fill(alice_browser, "owntracks")
    before = datetime.now(UTC) - timedelta(minutes=5)
    note(owner, first_record_at=before, last_record_at=before)
    owner.execute("update profile.integration_key set created_at = now() - interval '1 hour'")
    first = alice_browser.get(one(owner))
    renewed = submit(alice_browser, first, "/key")
    owner.execute("update profile.integration_key set last_used_at = now()")
    used = alice_browser.get(one(owner))

    assert words not in text_of(first)
    assert words in text_of(renewed)
    assert "Received" not in text_of(renewed)
    assert 'data-awaited="true"' in renewed.text
    assert words not in text_of(used)
    assert 'data-awaited="false"' in used.text


def test_secrets_that_are_entered_again_replace_those_that_were_typed(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    fill(alice_browser, "calendar", field_address=ADDRESS, field_password="first")
    owner.execute(
        """
        update profile.connection
           set state = '{"etag": "1"}',
               problem = 'key_refused',
               failing_since = now(),
               is_refused = true,
               next_pull_at = now() + interval '1 day'
        """
    )
    owner.execute("delete from svc.turn")
    page = alice_browser.get(one(owner, "calendar"))
    empty = submit(alice_browser, page, "/secrets")
    wrong = submit(alice_browser, page, "/secrets", field_address="http://calendar.example/")
    refused = owner.execute("select next_pull_at > now() from profile.connection").fetchone()
    entered = submit(alice_browser, page, "/secrets", field_password="second")

    assert "is sealed in place of what was there" in alice_browser.follow(entered).text
    assert (empty.status_code, wrong.status_code, refused) == (400, 400, (True,))
    assert "Address: The address must begin with https://" in wrong.text
    rows = owner.execute(
        """
        select field,
               key_id,
               sealed,
               connection_id
          from profile.connection_secret
        """
    )
    opener = sealing.Opener([SEALING_KEY])
    assert {
        field: opener.open(
            key_id, sealed, user_id=alice.user_id, connection_id=connection_id, field=field
        )
        for field, key_id, sealed, connection_id in rows
    } == {"address": ADDRESS, "password": "second"}
    assert owner.execute(
        "select state, problem, next_pull_at <= now() from profile.connection"
    ).fetchone() == ({"etag": "1"}, "key_refused", True)
    assert owner.execute("select kind from svc.turn").fetchall() == [("pull",)]
    assert events(owner) == ["connection_added", "connection_key_renewed"]
    make_old(owner)
    assert submit(alice_browser, page, "/secrets", field_password="third").status_code == 403


def test_what_a_person_chose_changes_and_the_key_stays(alice_browser: Visitor, owner: Rows) -> None:
    fill(alice_browser, "wakatime")
    known = (
        "select settings, key_hash "
        "from profile.connection join profile.integration_key using (connection_id)"
    )
    before = owner.execute(known).fetchone()
    page = alice_browser.get(one(owner, "wakatime"))
    wrong = submit(alice_browser, page, "/settings", field_gap_minutes="61")
    changed = alice_browser.follow(
        submit(alice_browser, page, "/settings", field_gap_minutes=" 20 ")
    )
    after = owner.execute(known).fetchone()
    emptied = alice_browser.follow(
        submit(alice_browser, changed, "/settings", field_gap_minutes="")
    )

    assert (wrong.status_code, "Type a whole number from 1 to 60." in wrong.text) == (400, True)
    assert "Saved. It applies to what the application sends from now on." in changed.text
    assert 'value="20"' in changed.text
    assert before is not None
    assert after == ({"gap_minutes": "20"}, before[1])
    assert 'value="15"' in emptied.text


def test_the_address_of_a_service_is_no_setting_since_its_secrets_would_be_sent_there(
    alice_browser: Visitor, owner: Rows
) -> None:
    fill(alice_browser, "wakatime")
    fill(alice_browser, "gitlab", field_token="t", field_address="https://gitlab.example")
    gitlab = one(owner, "gitlab")
    known = "select settings from profile.connection where kind = 'gitlab'"
    before = owner.execute(known).fetchone()
    form = alice_browser.get(one(owner, "wakatime"))
    changed = {
        "connection": gitlab.partition("=")[2],
        "field_address": "https://another.example",
    }

    sent = submit(alice_browser, form, "/settings", **changed)

    actions = [each.action for each in forms(alice_browser.get(gitlab))]
    assert f"{PATH}/settings" not in actions
    assert sent.status_code == 404
    assert owner.execute(known).fetchone() == before


def test_a_pause_ends_when_the_person_says_so(alice_browser: Visitor, owner: Rows) -> None:
    fill(alice_browser, "github", field_token="t")
    paused = alice_browser.follow(
        submit(alice_browser, alice_browser.get(one(owner, "github")), "/pause", what="pause")
    )
    during = owner.execute("select paused_at is not null from profile.connection").fetchone()
    going_on = alice_browser.follow(submit(alice_browser, paused, "/pause", what="continue"))

    assert "The connection is paused." in paused.text
    assert "Look now" not in paused.text
    assert during == (True,)
    assert "The connection goes on." in going_on.text
    assert owner.execute("select paused_at from profile.connection").fetchone() == (None,)


def test_a_pull_is_due_at_once_and_once_a_minute(alice_browser: Visitor, owner: Rows) -> None:
    fill(alice_browser, "github", field_token="t")
    owner.execute("update profile.connection set next_pull_at = now() + interval '1 hour'")
    page = alice_browser.get(one(owner, "github"))
    first = alice_browser.follow(submit(alice_browser, page, "/pull"))
    note(owner, last_pull_at=datetime.now(UTC))
    second = submit(alice_browser, page, "/pull")

    assert "The service looks now." in first.text
    assert owner.execute("select next_pull_at <= now() from profile.connection").fetchone() == (
        True,
    )
    assert second.status_code == 409
    assert "it looked less than a minute ago" in second.text


def test_a_pull_waits_as_long_as_the_service_has_asked_for(
    alice_browser: Visitor, owner: Rows
) -> None:
    fill(alice_browser, "github", field_token="t")
    owner.execute(
        """
        update profile.connection
           set state = '{"retry_at": "2126-01-02T03:04:00+00:00"}',
               next_pull_at = now() + interval '1 hour'
        """
    )
    page = alice_browser.get(one(owner, "github"))
    pulled = alice_browser.follow(submit(alice_browser, page, "/pull"))
    entered = alice_browser.follow(submit(alice_browser, page, "/secrets", field_token="new"))

    for answer in (pulled, entered):
        assert "The service looks when it may: see Next look." in answer.text
        assert re.search(r"2126.*; until .*2126.* the service wants no requests", answer.text)
    row = owner.execute("select extract(year from next_pull_at) from profile.connection").fetchone()
    assert row == (2126,)


@pytest.mark.parametrize(("what", "status"), [("keep", "done"), ("remove", "undone")])
def test_a_connection_ends_with_what_it_brought_or_without(
    alice_browser: Visitor, owner: Rows, what: str, status: str
) -> None:
    fill(alice_browser, "owntracks", name="My phone")
    note(owner, record_count=7)
    page = alice_browser.get(one(owner).replace("?", "/end?"))
    ended = alice_browser.follow(submit(alice_browser, page, "/end", what=what))
    again = submit(alice_browser, page, "/end", what="keep")

    assert "What it brought, 7 records" in text_of(page)
    # Two connections can know one play, for example.
    assert "another connection brought again is removed too" in text_of(page)
    assert "The connection has ended." in ended.text
    assert ("What it brought remains." in ended.text) is (what == "keep")
    assert again.status_code == 409
    assert hashes(owner) == []
    assert owner.execute("select status from profile.import").fetchall() == [(status,)]
    assert ("My phone" in ended.text) is (what == "keep")
    assert events(owner) == ["connection_added", "connection_ended"]


def test_a_connection_that_brought_nothing_leaves_nothing(
    alice_browser: Visitor, owner: Rows
) -> None:
    fill(alice_browser, "owntracks")
    page = alice_browser.get(one(owner).replace("?", "/end?"))
    ended = alice_browser.follow(submit(alice_browser, page, "/end", what="keep"))

    assert "It has brought nothing." in page.text
    assert "is removed too" not in page.text
    assert "The connection has ended." in ended.text
    assert "remains" not in ended.text


def test_what_an_ended_connection_brought_can_be_removed_later(
    alice_browser: Visitor, owner: Rows
) -> None:
    fill(alice_browser, "owntracks")
    note(owner, record_count=7)
    address = one(owner).replace("?", "/end?")
    submit(alice_browser, alice_browser.get(address), "/end", what="keep")

    removed = submit(alice_browser, alice_browser.get(address), "/end")

    assert removed.status_code == 303
    assert owner.execute("select status from profile.import").fetchall() == [("undone",)]
    assert alice_browser.get(address).status_code == 409


@pytest.mark.parametrize("action", ["/key", "/end"])
def test_what_changes_access_needs_a_fresh_sign_in(
    alice_browser: Visitor, owner: Rows, action: str
) -> None:
    shown = fill(alice_browser, "owntracks")
    address = one(owner)
    page = alice_browser.get(address.replace("?", "/end?") if action == "/end" else address)
    make_old(owner)

    refused = submit(alice_browser, page, action)
    asked = alice_browser.get(address.replace("?", "/end?"))

    assert refused.status_code == 403
    assert "Confirm in a new tab that it is you" in refused.text
    assert asked.headers["location"].startswith("/confirm?next=")
    assert hashes(owner) == [keys.hash_of(key_in(shown))] * 2


def test_bob_neither_sees_nor_changes_a_connection_of_alice(
    welcome: Welcome, bob: Person, alice_browser: Visitor, owner: Rows
) -> None:
    fill(alice_browser, "owntracks", name="alice-phone")
    fill(alice_browser, "github", name="alice-code", field_token="t")
    ids = [each.partition("=")[2] for each in (one(owner, "github"), f"={uuid4()}", "=x", "=")]
    his = welcome(bob)
    fill(his, "owntracks", name="bob-phone")
    fill(his, "github", name="bob-code", field_token="t")
    before = owner.execute("select * from profile.connection order by connection_id").fetchall()
    own, pulled = his.get(one(owner)), his.get(one(owner, "github"))

    for hers in ids:
        answers = [
            his.get(f"{PATH}?connection={hers or 'x'}"),
            his.get(f"{PATH}/end?connection={hers}"),
            submit(his, own, "/key", connection=hers),
            submit(his, pulled, "/secrets", connection=hers, field_token="u"),
            submit(his, own, "/pause", connection=hers, what="pause"),
            his.submit(own, form=1, connection=hers, what="remove"),
        ]
        assert [each.status_code for each in answers] == [404] * 6
    assert "alice" not in his.get(PATH).text
    assert (
        owner.execute("select * from profile.connection order by connection_id").fetchall()
        == before
    )


def test_the_draft_of_another_person_connects_for_oneself(
    welcome: Welcome, bob: Person, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.get(f"{PATH}?new=owntracks")
    submit(alice_browser, page)
    draft = dict(forms(page)[1].fields)["draft"]

    his = fill(welcome(bob), "owntracks", draft=draft)

    assert his.status_code == 200
    ids = owner.execute("select distinct user_id, connection_id from profile.connection")
    assert len({connection_id for _, connection_id in ids}) == 2
    assert len({*hashes(owner)}) == 2


def test_a_form_of_another_session_changes_nothing(alice_browser: Visitor, owner: Rows) -> None:
    new = alice_browser.get(f"{PATH}?new=github")
    fill(alice_browser, "github", field_token="t")
    page = alice_browser.get(one(owner, "github"))
    before = owner.execute("select * from profile.connection").fetchall()

    answers = [
        submit(alice_browser, new, csrf="x", field_token="t"),
        submit(alice_browser, page, "/pause", csrf="x", what="pause"),
        submit(alice_browser, page, "/pull", csrf="x"),
        submit(alice_browser, page, "/pause", what="stop"),
        submit(alice_browser, page, "/pause", connection=UUID(int=0).hex, what="pause"),
    ]

    assert [each.status_code for each in answers] == [403, 403, 403, 400, 404]
    assert owner.execute("select * from profile.connection").fetchall() == before


def test_the_view_that_linked_here_is_kept(alice_browser: Visitor, settings: Settings) -> None:
    page = alice_browser.get(f"{PATH}?back=/sources")
    form = alice_browser.get(f"{PATH}?new=overland&back=/sources")
    shown = submit(alice_browser, form)

    for each in (page, form, shown):
        assert f'<a href="{settings.base_url}/sources">Back to the dashboard</a>' in each.text
    assert 'href="/settings/connections?new=overland&amp;back=/sources"' in page.text


def test_a_qr_code_is_drawn_in_the_page_and_names_what_it_is(
    server: TestClient, alice_browser: Visitor
) -> None:
    shown = fill(alice_browser, "overland")

    code = re.search(r"<svg.*?</svg>", shown.text, re.DOTALL)
    assert code is not None
    assert "<title>QR code that sets up Overland</title>" in code[0]
    assert "style" not in code[0]
    assert 'href="overland://setup?' in shown.text
