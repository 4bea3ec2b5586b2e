"""The janitor: what it deletes, what it keeps, and that it disturbs no requests."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import anyio
import httpx2
import psycopg
import pytest
from psycopg import sql
from starlette.testclient import TestClient

import authserver.app
from authserver import janitor
from authserver.people import throttle
from shared import database, pipeline, schema, tokens
from shared.pool import Connection
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.client import AppClient
from tests.conftest import Connect, Person
from tests.oauth.conftest import Opens, Register, Welcome
from tests.oauth.privileges import without
from tests.oauth.visitor import Application, Visitor
from tests.waiting import wait_for, wait_for_rivals

pytestmark = pytest.mark.checklist(59)

Rows = psycopg.Connection[Any]

REQUESTS: Final = "authorization requests that expired"
SESSIONS: Final = "sign-in sessions without use for 30 days"
LINKS: Final = "one-time links, a day after their end"
RESETS: Final = "links to reset a password that expired"
CHALLENGES: Final = "passkey challenges, a day after their end"
PROVIDER_SIGN_INS: Final = "sign-ins at the provider that were not completed"
PROVIDER_LOGOUTS: Final = "logouts at the provider, an hour after them"
ACCESS_TOKENS: Final = "access tokens, a day after their end"
REFRESH_TOKENS: Final = "rotated refresh tokens that expired"
ROTATED: Final = "refresh tokens rotated a day ago"
ANSWERS: Final = "answers to refreshes that cannot be repeated"
TOKENS_OF_REVOKED: Final = "refresh tokens of grants revoked a day ago"
REVOKED: Final = "grants revoked a day ago"
LAPSED: Final = "grants not refreshed for 90 days"
UNREDEEMED: Final = "grants whose code was never redeemed"
UNFETCHED: Final = "grants that no device fetched"
DEVICES: Final = "requests of devices, a day after their end"
API_TOKENS: Final = "API tokens, a day after their end"
DOCUMENTS: Final = "documents of applications without a consent for a day"
UNAUTHORIZED: Final = "applications without a consent for 90 days"
IDLE: Final = "applications without use for two years"
ATTEMPTS: Final = "expired counts of attempts"
EVENTS: Final = "security events older than 400 days"
BEATS: Final = "beats of editors older than 30 days"
HEALTH: Final = "messages about health older than 30 days"
DEPARTED: Final = "data of accounts that were deleted"

Clean = Callable[..., dict[str, int]]
Pass = Callable[[str], None]


async def connected(settings: Settings) -> Connection:
    login = database.login(settings, "authserver")
    return await Connection.connect(login, autocommit=True, prepare_threshold=None)


@pytest.fixture
def clean(settings: Settings, owner: Rows) -> Clean:
    """Runs the janitor once and returns the numbers of deleted rows."""
    assert not owner.closed

    def run(**options: Any) -> dict[str, int]:
        async def once() -> list[janitor.Removal]:
            async with await connected(settings) as connection:
                return await janitor.clean(connection, **options)

        return {removal.kind: removal.count for removal in asyncio.run(once()) if removal.count}

    return run


@pytest.fixture
def let_pass(owner: Rows) -> Pass:
    """Makes all rows older by an interval."""
    columns = owner.execute(
        """
        select format('update %I.%I set ', table_schema, table_name)
               || string_agg(format('%1$I = %1$I - $1', column_name), ', ')
          from information_schema.columns
          join information_schema.tables using (table_schema, table_name)
         where table_schema in ('identity', 'oauth')
           and table_type = 'BASE TABLE'
           and data_type = 'timestamp with time zone'
         group by table_schema,
                  table_name
        """
    ).fetchall()
    assert len(columns) > 10

    def older(interval: str) -> None:
        # Registration and sign-in are counted, and these counts expire sooner than other rows.
        owner.execute("delete from identity.throttle")
        for (statement,) in columns:
            owner.execute(statement.replace("$1", "%(interval)s::interval"), {"interval": interval})

    return older


def count(owner: Rows, table: str) -> int:
    name = sql.Identifier(*table.split("."))
    row = owner.execute(sql.SQL("select count(*) from {}").format(name)).fetchone()
    assert row is not None
    return int(row[0])


# Deleted and kept rows.


def test_an_expired_request_is_deleted(
    clean: Clean, let_pass: Pass, application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    alice_browser.get(application.authorize_path())
    let_pass("15 minutes")
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    let_pass("14 minutes 30 seconds")

    assert clean() == {REQUESTS: 1}
    assert alice_browser.submit(page, decision="allow").status_code == 303


def test_a_session_is_deleted_after_30_idle_days(
    clean: Clean, let_pass: Pass, alice: Person, bob: Person, welcome: Welcome
) -> None:
    welcome(alice)
    let_pass("1 hour")
    browser = welcome(bob)
    let_pass("29 days 23 hours 30 minutes")

    assert clean() == {SESSIONS: 1}
    assert browser.get("/settings").status_code == 200


def test_an_invitation_is_deleted_a_day_after_its_use_or_expiry(clean: Clean, owner: Rows) -> None:
    owner.execute(
        """
        insert into identity.invitation (invitation_hash, expires_at, used_at)
        values ('expired', now() - interval '25 hours', null),
               ('used', now() + interval '1 hour', now() - interval '25 hours'),
               ('expired today', now() - interval '23 hours', null),
               ('used today', now() + interval '1 hour', now() - interval '23 hours'),
               ('open', now() + interval '1 hour', null)
        """
    )

    assert clean() == {LINKS: 2}
    kept = owner.execute(
        "select convert_from(invitation_hash, 'UTF8') from identity.invitation order by 1"
    ).fetchall()
    assert kept == [("expired today",), ("open",), ("used today",)]


def test_a_reset_link_is_deleted_when_it_has_expired(
    clean: Clean, let_pass: Pass, terminal: Terminal, alice: Person, bob: Person, owner: Rows
) -> None:
    terminal.run("user reset-link alice@example.org")
    let_pass("1 minute")
    terminal.run("user reset-link bob@example.org")
    let_pass("59 minutes")

    assert clean() == {RESETS: 1}
    assert owner.execute("select user_id from identity.password_reset").fetchall() == [
        (bob.user_id,)
    ]


def test_a_spent_challenge_is_deleted_a_day_after_its_expiry(
    clean: Clean, let_pass: Pass, alice: Person, owner: Rows
) -> None:
    owner.execute(
        """
        insert into identity.spent_challenge (user_id, challenge_hash, expires_at)
        values (%(user_id)s, 'older', now()), (%(user_id)s, 'newer', now() + interval '1 minute')
        """,
        {"user_id": alice.user_id},
    )
    let_pass("24 hours 30 seconds")

    assert clean() == {CHALLENGES: 1}
    kept = owner.execute("select challenge_hash from identity.spent_challenge").fetchall()
    assert kept == [(b"newer",)]


def test_an_applications_access_token_is_deleted_a_day_after_its_expiry_and_its_grant_kept(
    clean: Clean,
    let_pass: Pass,
    terminal: Terminal,
    application: Application,
    alice_browser: Visitor,
    alice: Person,
    status: Opens,
    owner: Rows,
) -> None:
    pair = application.pair(alice_browser)
    listed = terminal.table(f"grant list {alice.email}")
    let_pass("24 hours 30 minutes")
    soon = clean()
    let_pass("1 hour")

    assert soon == {}
    assert clean() == {ACCESS_TOKENS: 1}
    assert status(pair["access_token"]) == 401
    assert [line[:6] for line in terminal.table(f"grant list {alice.email}")] == [
        line[:6] for line in listed
    ]
    refreshed = application.refresh(pair["refresh_token"]).json()
    assert status(refreshed["access_token"]) == 200


def test_an_api_token_is_deleted_with_its_grant_a_day_after_its_expiry(
    clean: Clean, alice: Person, status: Opens, owner: Rows
) -> None:
    gone = alice.token(expires="-25 hours")
    kept = alice.token(expires="-23 hours")
    live = [alice.token(expires="1 hour"), alice.token()]

    assert clean() == {API_TOKENS: 1}
    assert [status(token) for token in (gone, kept, *live)] == [401, 401, 200, 200]
    assert count(owner, "oauth.grant") == 3


def test_a_rotated_refresh_token_is_deleted_after_a_day_and_the_current_one_kept(
    clean: Clean, let_pass: Pass, application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    first = application.pair(alice_browser)
    let_pass("30 days")
    second = application.refresh(first["refresh_token"]).json()
    let_pass("23 hours")
    before = clean()
    let_pass("1 hour 30 minutes")

    assert before == {SESSIONS: 1, ACCESS_TOKENS: 1}
    assert clean() == {ROTATED: 1}
    assert application.refresh(second["refresh_token"]).status_code == 200


def test_a_rotated_refresh_token_that_does_not_name_its_grant_is_deleted_when_it_expires(
    clean: Clean, let_pass: Pass, application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    first = application.pair(alice_browser)
    owner.execute("update oauth.refresh_token set names_grant = false")
    let_pass("30 days")
    second = application.refresh(first["refresh_token"]).json()
    let_pass("59 days 23 hours")
    before = clean()
    let_pass("1 hour")

    assert before == {SESSIONS: 1, ACCESS_TOKENS: 2}
    assert clean() == {REFRESH_TOKENS: 1}
    assert application.refresh(second["refresh_token"]).status_code == 200


def test_a_revoked_grant_is_deleted_after_a_day_with_its_tokens(
    clean: Clean,
    let_pass: Pass,
    application: Application,
    alice_browser: Visitor,
    status: Opens,
    owner: Rows,
) -> None:
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()
    kept = application.pair(alice_browser)
    application.revoke(second["refresh_token"])
    let_pass("23 hours")
    before = clean()
    let_pass("2 hours 30 minutes")

    assert before == {}
    assert clean() == {ACCESS_TOKENS: 3, ROTATED: 1, TOKENS_OF_REVOKED: 1, REVOKED: 1}
    assert count(owner, "oauth.grant") == 1
    assert count(owner, "oauth.authorization_code") == 1
    for pair in (first, second):
        assert status(pair["access_token"]) == 401
        refused = application.refresh(pair["refresh_token"])
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
        assert application.revoke(pair["refresh_token"]).status_code == 200
    assert application.refresh(kept["refresh_token"]).status_code == 200


def test_a_revoked_api_token_is_deleted_after_a_day_and_still_refused(
    clean: Clean,
    let_pass: Pass,
    server: TestClient,
    alice: Person,
    status: Opens,
    owner: Rows,
) -> None:
    token = alice.token()
    server.post("/oauth/revoke", data={"token": token})
    let_pass("25 hours")

    before = status(token)
    assert clean() == {REVOKED: 1}
    assert count(owner, "oauth.access_token") == 0
    assert (before, status(token)) == (401, 401)


def test_a_grant_is_deleted_when_it_was_not_refreshed_for_90_days(
    clean: Clean, let_pass: Pass, application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    pair = application.pair(alice_browser)
    pair = application.refresh(pair["refresh_token"]).json()
    let_pass("90 days 23 hours")
    before = clean()
    let_pass("2 hours")

    assert before == {SESSIONS: 1, ACCESS_TOKENS: 2, REFRESH_TOKENS: 1}
    assert clean() == {LAPSED: 1}
    assert [count(owner, f"oauth.{table}") for table in ("grant", "authorization_code")] == [0, 0]
    assert application.refresh(pair["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_grant_whose_code_was_not_redeemed_is_deleted_a_day_after_the_codes_expiry(
    clean: Clean, let_pass: Pass, application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    code = application.code(alice_browser)
    kept = application.pair(alice_browser)
    let_pass("24 hours")
    before = clean()
    let_pass("2 minutes")

    assert before == {}
    assert clean() == {UNREDEEMED: 1}
    assert application.exchange(code).json()["error"] == "invalid_grant"
    assert application.refresh(kept["refresh_token"]).status_code == 200


def describe(owner: Rows, client_id: str) -> None:
    """Store an application that is described by a document."""
    owner.execute(
        "insert into oauth.client (client_id, redirect_uris) values (%s, '{https://app.example/callback}')",
        [client_id],
    )


def test_a_document_is_deleted_after_a_day_unless_its_application_was_allowed(
    clean: Clean,
    let_pass: Pass,
    application: Application,
    owner: Rows,
) -> None:
    describe(owner, "https://app.example/unused")
    describe(owner, "https://app.example/used")
    owner.execute(
        "update oauth.client set last_authorized_at = now() where client_id like '%/used'"
    )
    let_pass("23 hours")
    before = clean()

    let_pass("2 hours")

    assert before == {}
    assert clean() == {DOCUMENTS: 1}
    kept = owner.execute("select client_id from oauth.client").fetchall()
    assert {client_id for (client_id,) in kept} == {
        application.client_id,
        "https://app.example/used",
    }


def test_a_client_without_a_consent_is_deleted_after_90_days(
    clean: Clean,
    let_pass: Pass,
    register: Register,
    alice_browser: Visitor,
    visitor: Visitor,
    owner: Rows,
) -> None:
    unused, asked, used = register(), register(), register()
    used.code(alice_browser)
    let_pass("89 days 23 hours")
    clean()
    kept_before = count(owner, "oauth.client")
    let_pass("2 hours")
    visitor.get(asked.authorize_path())
    new = register()

    assert kept_before == 3
    assert clean() == {UNAUTHORIZED: 1}
    kept = owner.execute("select client_id from oauth.client").fetchall()
    assert {client_id for (client_id,) in kept} == {
        asked.client_id,
        used.client_id,
        new.client_id,
    }
    refused = visitor.get(unused.authorize_path())
    assert refused.status_code == 400
    assert "remove the connection in the application and add it again" in refused.text


def test_a_client_in_use_is_kept(
    clean: Clean,
    let_pass: Pass,
    register: Register,
    alice_browser: Visitor,
    visitor: Visitor,
    owner: Rows,
) -> None:
    refreshed, left, again, asked = register(), register(), register(), register()
    pair = refreshed.pair(alice_browser)
    left.pair(alice_browser)
    asked.pair(alice_browser)
    again.pair(alice_browser)
    let_pass("29 days")
    again.revoke(again.pair(alice_browser)["refresh_token"])
    pair = refreshed.refresh(pair["refresh_token"]).json()
    for _ in range(9):
        let_pass("79 days")
        pair = refreshed.refresh(pair["refresh_token"]).json()
    visitor.get(asked.authorize_path())

    clean()

    kept = owner.execute("select client_id from oauth.client").fetchall()
    assert {client_id for (client_id,) in kept} == {
        refreshed.client_id,
        again.client_id,
        asked.client_id,
    }
    assert refreshed.refresh(pair["refresh_token"]).status_code == 200


def test_a_client_is_kept_for_two_years_after_its_last_grant_was_revoked(
    clean: Clean,
    let_pass: Pass,
    application: Application,
    alice_browser: Visitor,
    visitor: Visitor,
    owner: Rows,
) -> None:
    pair = application.pair(alice_browser)
    for _ in range(3):
        let_pass("67 days")
        pair = application.refresh(pair["refresh_token"]).json()
        clean()
    application.revoke(pair["refresh_token"])
    let_pass("25 hours 30 minutes")

    day_after = clean()
    let_pass("2 years -25 hours -40 minutes")
    before = clean()
    is_known = visitor.get(application.authorize_path()).status_code == 303
    let_pass("1 hour")

    assert day_after[REVOKED] == 1
    assert count(owner, "oauth.grant") == 0
    assert IDLE not in before
    assert is_known
    assert clean() == {REQUESTS: 1, IDLE: 1}


def test_the_newest_revoked_grant_decides_when_a_client_was_last_used(
    clean: Clean, register: Register, alice: Person, owner: Rows
) -> None:
    recent, older, old = register(), register(), register()
    for application, days in ((recent, 2), (older, 500), (old, 731)):
        owner.execute(
            """
            insert into oauth.grant (user_id, client_id, scopes, revoked_at)
            select %(user_id)s, %(client_id)s, '{read:profile}', now() - n * interval '1 day'
              from generate_series(%(days)s, %(days)s + 20) as n
            """,
            {
                "user_id": alice.user_id,
                "client_id": application.client_id,
                "days": days,
            },
        )
    owner.execute("update oauth.client set last_authorized_at = now() - interval '1000 days'")

    removed = clean(batch=4)

    assert removed == {REVOKED: 63, IDLE: 1}
    ages = owner.execute(
        "select client_id, round(extract(epoch from now() - last_used_at) / 86400) from oauth.client"
    ).fetchall()
    assert dict(ages) == {recent.client_id: 2, older.client_id: 500}


def test_a_grant_whose_client_is_locked_is_kept_until_its_use_can_be_stored(
    clean: Clean, application: Application, alice: Person, connect_as: Connect, owner: Rows
) -> None:
    backlog(owner, alice, 1)
    other = connect_as("authserver")

    with other.transaction():
        other.execute("select from oauth.client for no key update")
        first = clean()
    second = clean()

    assert REVOKED not in first
    assert second == {REVOKED: 3}


def test_expired_counts_of_attempts_are_deleted(clean: Clean, owner: Rows) -> None:
    owner.execute(
        """
        insert into identity.throttle (key_hash, forgotten_at, delayed_until)
        values (sha256('forgotten'), now() - interval '1 second', null),
               (sha256('counted'), now() + interval '1 minute', null),
               (sha256('delayed'), now() - interval '1 second', now() + interval '1 minute')
        """
    )

    assert clean() == {ATTEMPTS: 1}
    assert count(owner, "identity.throttle") == 2


def test_security_events_are_deleted_after_400_days(clean: Clean, owner: Rows) -> None:
    owner.execute(
        """
        insert into identity.security_event (user_id, event, occurred_at)
        select gen_random_uuid(), 'signed_in', now() - age * interval '1 day'
          from generate_series(390, 409) as age
        """
    )

    assert clean(batch=4) == {EVENTS: 10}
    assert count(owner, "identity.security_event") == 10


def test_failed_sign_ins_to_no_account_are_deleted_after_30_days(clean: Clean, owner: Rows) -> None:
    owner.execute(
        """
        insert into identity.security_event (user_id, event, occurred_at)
        select '00000000-0000-0000-0000-000000000000', 'sign_in_failed', now() - age * interval '1 day'
          from generate_series(20, 39) as age
         union all
        select gen_random_uuid(), 'sign_in_failed', now() - interval '40 days'
        """
    )

    assert clean(batch=4) == {EVENTS: 10}
    assert count(owner, "identity.security_event") == 11


def test_a_second_run_deletes_nothing(
    clean: Clean, let_pass: Pass, application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    application.pair(alice_browser)
    let_pass("500 days")

    first, second = clean(), clean()

    assert first[LAPSED] == 1
    assert second == {}


# Rows that the detection of replays needs.


def test_a_replayed_refresh_token_revokes_its_grant_after_any_number_of_runs(
    clean: Clean,
    let_pass: Pass,
    application: Application,
    alice_browser: Visitor,
    status: Opens,
    owner: Rows,
) -> None:
    first = pair = application.pair(alice_browser)
    for _ in range(5):
        pair = application.refresh(pair["refresh_token"]).json()
    let_pass("40 days")
    clean()
    pair = application.refresh(pair["refresh_token"]).json()
    clean()
    let_pass("40 days")
    clean()
    pair = application.refresh(pair["refresh_token"]).json()
    clean()
    before = status(pair["access_token"])

    replay = application.refresh(first["refresh_token"])

    assert (replay.status_code, replay.json()["error"]) == (400, "invalid_grant")
    assert before == 200
    assert status(pair["access_token"]) == 401
    assert application.refresh(pair["refresh_token"]).status_code == 400
    event = owner.execute("select event from identity.security_event order by occurred_at desc")
    assert event.fetchone() == ("replay_detected",)
    # The row of the first token was deleted long before.
    assert count(owner, "oauth.refresh_token") == 2


def test_a_replayed_code_revokes_its_grant_however_old_it_is(
    clean: Clean, let_pass: Pass, application: Application, alice_browser: Visitor, status: Opens
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()
    for _ in range(10):
        let_pass("80 days")
        pair = application.refresh(pair["refresh_token"]).json()
        clean()
    before = status(pair["access_token"])

    replay = application.exchange(code)

    assert (replay.status_code, replay.json()["error"]) == (400, "invalid_grant")
    assert before == 200
    assert status(pair["access_token"]) == 401


# In batches, and beside others.


def backlog(owner: Rows, person: Person, size: int) -> None:
    """Leave so many sessions, expired access tokens and revoked grants of thousands of tokens each."""
    owner.execute(
        """
        insert into identity.session (user_id, session_hash, seen_at)
        select %(user_id)s, sha256(n::text::bytea), now() - interval '31 days'
          from generate_series(1, %(size)s) as n
        """,
        {"user_id": person.user_id, "size": size},
    )
    owner.execute(
        """
        with revoked as (
            insert into oauth.grant (user_id, client_id, scopes, revoked_at)
            select %(user_id)s, client_id, '{read:profile}', now() - interval '2 days'
              from oauth.client
             cross join generate_series(1, 3)
            returning user_id, grant_id, scopes
        ),
        refresh_tokens as (
            insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at, rotated_at)
            select user_id, sha256(convert_to(grant_id || n::text, 'UTF8')), grant_id,
                   now() + interval '9 days', now()
              from revoked
             cross join generate_series(1, %(size)s) as n
        )
        insert into oauth.access_token (user_id, token_hash, grant_id, scopes, last_four, expires_at)
        select user_id, sha256(convert_to(grant_id || n::text, 'UTF8')), grant_id, scopes, 'abcd',
               now() - interval '2 days'
          from revoked
         cross join generate_series(1, %(size)s) as n
        """,
        {"user_id": person.user_id, "size": size},
    )


def cleared(size: int) -> dict[str, int]:
    """Return what the janitor deletes of such a backlog."""
    return {
        SESSIONS: size,
        ACCESS_TOKENS: 3 * size,
        TOKENS_OF_REVOKED: 3 * size,
        REVOKED: 3,
    }


def test_more_rows_than_a_batch_are_deleted_batch_by_batch(
    clean: Clean, owner: Rows, alice: Person, application: Application
) -> None:
    backlog(owner, alice, 901)
    # Each transaction leaves its number on the rows that it writes; a deleted row keeps it until vacuumed.
    owner.execute(
        "create table identity.removal (transaction_id xid8 default pg_current_xact_id(), rows integer)"
    )
    owner.execute(
        """
        create function identity.count_removal() returns trigger language plpgsql security definer as $$
        begin
            insert into identity.removal (rows) select count(*) from removed;
            return null;
        end $$
        """
    )
    tables = ("identity.session", "oauth.access_token", "oauth.refresh_token", "oauth.grant")
    for table in tables:
        owner.execute(
            f"create trigger count_removal after delete on {table} referencing old table as removed "
            "for each statement execute function identity.count_removal()"
        )
    try:
        removed = clean()
        most = owner.execute(
            "select max(sum) from (select sum(rows) from identity.removal group by transaction_id) as each"
        ).fetchone()
    finally:
        for table in tables:
            owner.execute(f"drop trigger count_removal on {table}")
        owner.execute("drop table identity.removal; drop function identity.count_removal")

    assert removed == cleared(901)
    assert most == (200,)


TABLES: Final = {
    REQUESTS: "oauth.authorization_request",
    SESSIONS: "identity.session",
    LINKS: "identity.invitation",
    RESETS: "identity.password_reset",
    CHALLENGES: "identity.spent_challenge",
    PROVIDER_SIGN_INS: "identity.provider_sign_in",
    PROVIDER_LOGOUTS: "identity.provider_logout",
    ACCESS_TOKENS: "oauth.access_token",
    REFRESH_TOKENS: "oauth.refresh_token",
    ROTATED: "oauth.refresh_token",
    ANSWERS: "oauth.refresh_retry",
    TOKENS_OF_REVOKED: "oauth.refresh_token",
    REVOKED: "oauth.grant",
    LAPSED: "oauth.grant",
    UNREDEEMED: "oauth.grant",
    UNFETCHED: "oauth.grant",
    DEVICES: "oauth.device_authorization",
    API_TOKENS: "oauth.grant",
    DOCUMENTS: "oauth.client",
    UNAUTHORIZED: "oauth.client",
    IDLE: "oauth.client",
    ATTEMPTS: "identity.throttle",
    EVENTS: "identity.security_event",
    BEATS: "activity.beat",
    HEALTH: "health.message",
    DEPARTED: "identity.departed_user",
}


@pytest.fixture
def three_of_each(
    let_pass: Pass,
    register: Register,
    alice: Person,
    alice_browser: Visitor,
    server: TestClient,
    owner: Rows,
) -> None:
    """Adds three deletable rows of each kind, in an order that the janitor's deletions allow."""
    for number in range(3):
        application = register()
        application.pair(alice_browser)
        application.code(alice_browser)
        renewed = application.refresh(application.pair(alice_browser)["refresh_token"]).json()
        application.refresh(renewed["refresh_token"])
        application.revoke(application.pair(alice_browser)["refresh_token"])
        alice.token(expires="1 hour")
        Visitor(server).get(application.authorize_path())
        register()
        describe(owner, f"https://app.example/{number}")
        owner.execute(
            "insert into identity.session (user_id, session_hash) values (%s, sha256(%s))",
            [alice.user_id, b"%d" % number],
        )
        owner.execute(
            "insert into identity.invitation (invitation_hash, expires_at) values (%s, now())",
            [b"%d" % number],
        )
        owner.execute(
            """
            insert into identity.provider_sign_in
                   (state_hash, session_hash, nonce, code_verifier, going_to, expires_at)
            values (%s, 'session', 'nonce', 'verifier', '', now())
            """,
            [b"%d" % number],
        )
        for is_allowed in (True, False):
            owner.execute(
                """
                with granted as (
                    insert into oauth.grant (user_id, client_id, scopes)
                    select %(user_id)s, %(client_id)s, '{read:profile}'
                     where %(is_allowed)s
                    returning user_id, grant_id
                )
                insert into oauth.device_authorization
                       (
                           device_code_hash,
                           user_code_hash,
                           client_id,
                           scopes,
                           expires_at,
                           interval_s,
                           user_id,
                           grant_id
                       )
                select %(hash)s,
                       %(hash)s,
                       %(client_id)s,
                       '{read:profile}',
                       now(),
                       5,
                       (select user_id from granted),
                       (select grant_id from granted)
                """,
                {
                    "user_id": alice.user_id,
                    "client_id": application.client_id,
                    "is_allowed": is_allowed,
                    "hash": b"%d %d" % (number, is_allowed),
                },
            )
        owner.execute(
            "insert into identity.provider_logout (logout_hash, expires_at) values (%s, now())",
            [b"%d" % number],
        )
        owner.execute(
            """
            with forgetful as (
                insert into identity.user (email)
                values (%(name)s || '@example.org')
                returning user_id
            ),
            reset as (
                insert into identity.password_reset (user_id, link_hash, expires_at)
                select user_id, 'hash', now() from forgetful
            )
            insert into identity.spent_challenge (user_id, challenge_hash, expires_at)
            select user_id, 'hash', now() from forgetful
            """,
            {"name": str(number)},
        )
        owner.execute(
            """
            with departed as (
                insert into identity.departed_user (user_id)
                values (gen_random_uuid())
                returning user_id
            )
            insert into activity.device (user_id, name)
            select user_id, 'laptop' from departed
            """
        )
    let_pass("750 days")
    owner.execute(
        """
        with granted as (
            insert into oauth.grant (user_id, name, scopes)
            values (%s, 'three rotations', '{read:profile}')
            returning user_id, grant_id
        )
        insert into oauth.refresh_token
               (user_id, token_hash, grant_id, expires_at, rotated_at, names_grant)
        select user_id, sha256(n::text::bytea), grant_id, now() + interval '9 days',
               now() - interval '2 days', true
          from granted
         cross join generate_series(1, 3) as n
        """,
        [alice.user_id],
    )
    owner.execute(
        """
        insert into oauth.refresh_retry
               (user_id, token_hash, grant_id, access_token_hash, sealed, expires_at)
        select user_id, sha256(n::text::bytea), grant_id, 'hash', 'sealed', now()
          from oauth.grant
         cross join generate_series(1, 3) as n
         where name = 'three rotations'
        """
    )
    owner.execute(
        """
        insert into activity.beat (user_id, import_id, beat_at, beat_key, content)
        select %s, gen_random_uuid(), now() - interval '31 days', gen_random_uuid(), '{}'
          from generate_series(1, 3)
        """,
        [alice.user_id],
    )
    owner.execute(
        """
        insert into health.message (user_id, body_digest, import_id, received_at)
        select %s, sha256(n::text::bytea), gen_random_uuid(), now() - interval '31 days'
          from generate_series(1, 3) as n
        """,
        [alice.user_id],
    )
    owner.execute(
        "insert into identity.throttle (key_hash) "
        "select sha256(n::text::bytea) from generate_series(1, 3) as n"
    )


def test_each_kind_is_deleted_in_batches_without_locked_rows(
    settings: Settings, owner: Rows, connect_as: Connect, three_of_each: None
) -> None:
    at_first: dict[str, int] = {}
    while_locked: dict[str, int] = {}

    async def run() -> None:
        async with await connected(settings) as connection:

            async def remove(statement: str, batch: int) -> int:
                with anyio.fail_after(30):
                    return await janitor.remove_batch(connection, statement, batch)

            for kind in janitor.KINDS:
                if kind.prepare is not None:
                    await remove(kind.prepare, 200)
                at_first[kind.name] = await remove(kind.statement, 2)
                other.execute(f"select from {TABLES[kind.name]} for update")
                while_locked[kind.name] = await remove(kind.statement, 200)
                other.rollback()
                await remove(kind.statement, 200)

    with closing(psycopg.connect(settings.database_url or "")) as other:
        asyncio.run(run())

    assert at_first == dict.fromkeys(TABLES, 2)
    assert while_locked == dict.fromkeys(TABLES, 0)


def test_what_was_kept_of_health_goes_after_30_days_although_no_message_comes(
    clean: Clean, owner: Rows, alice: Person, bob: Person
) -> None:
    for person in (alice, bob):
        for days in (29, 31):
            given = {"user_id": person.user_id, "days": days}
            owner.execute(
                """
                insert into health.message (user_id, body_digest, import_id, received_at)
                values (
                    %(user_id)s,
                    sha256(%(days)s::text::bytea),
                    gen_random_uuid(),
                    now() - make_interval(days => %(days)s)
                )
                """,
                given,
            )
            owner.execute(
                """
                insert into health.sleep_stage (
                    user_id, source, sensor, started_at, ended_at, kind, import_id, received_at
                )
                values (
                    %(user_id)s,
                    'phone',
                    'watch',
                    now(),
                    now() + make_interval(hours => %(days)s),
                    'Asleep',
                    gen_random_uuid(),
                    now() - make_interval(days => %(days)s)
                )
                """,
                given,
            )

    assert clean(batch=1) == {HEALTH: 4}
    assert clean() == {}
    assert owner.execute(
        """
        select (select count(*) from health.message),
               (select count(*) from health.sleep_stage)
        """
    ).fetchone() == (2, 2)


def test_what_was_kept_of_health_is_searched_once_for_all_people(owner: Rows) -> None:
    owner.execute(
        """
        with sent as (
            insert into identity.user (email)
            select format('phone-%s@example.org', n) from generate_series(1, 20) as n
            returning user_id
        )
        insert into health.message (user_id, body_digest, import_id)
        select user_id, sha256(uuid_send(user_id)), gen_random_uuid()
          from sent
        """
    )

    with owner.transaction():
        owner.execute("select svc.forget_health(100)")
        (searches,) = owner.execute(
            """
            select sum(pg_stat_get_xact_numscans(searched.oid))::integer
              from pg_class as searched
              left join pg_index on pg_index.indexrelid = searched.oid
             where coalesce(pg_index.indrelid, searched.oid) = 'health.message'::regclass
            """
        ).fetchone() or (0,)

    # There are 20 people; how few searches they need together is the planner's choice.
    assert 0 < searches < 10


def test_two_janitors_at_once_share_the_work(
    settings: Settings, clean: Clean, owner: Rows, alice: Person, application: Application
) -> None:
    backlog(owner, alice, 301)

    async def both() -> list[list[janitor.Removal]]:
        # Both are connected before one of them begins, and each rests after each of its batches.
        async with await connected(settings) as one, await connected(settings) as other:
            return await asyncio.gather(*(janitor.clean(each, batch=20) for each in (one, other)))

    removals = [{each.kind: each.count for each in run} for run in asyncio.run(both())]
    removals.append(clean())

    together = {kind: sum(part.get(kind, 0) for part in removals) for kind in cleared(301)}
    assert together == cleared(301)
    assert all(part.get(SESSIONS, 0) > 0 for part in removals[:2])


def test_locked_rows_are_left_for_the_next_run(
    clean: Clean, owner: Rows, alice: Person, application: Application, connect_as: Connect
) -> None:
    backlog(owner, alice, 3)
    other = connect_as("authserver")

    with other.transaction():
        other.execute("select from identity.session limit 1 for update")
        other.execute("select from oauth.grant limit 1 for key share")
        first = clean()
    second = clean()

    assert first == {SESSIONS: 2, ACCESS_TOKENS: 9, TOKENS_OF_REVOKED: 9, REVOKED: 2}
    assert second == {SESSIONS: 1, REVOKED: 1}


def test_concurrent_requests_are_not_disturbed(
    clean: Clean,
    owner: Rows,
    alice: Person,
    bob: Person,
    application: Application,
    welcome: Welcome,
    status: Opens,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A person has more than a hundred authorization requests here.
    monkeypatch.setattr(throttle, "_FREE_AUTHORIZATIONS", 10_000)
    backlog(owner, alice, 301)
    browser = welcome(bob)
    runs: list[dict[str, int]] = []
    cleaner = threading.Thread(target=lambda: runs.append(clean(batch=20)))

    cleaner.start()
    rounds = rounds_beside = 0
    while cleaner.is_alive() or rounds < 3:
        before = count(owner, "oauth.refresh_token")
        pair = application.pair(browser)
        refreshed = application.refresh(pair["refresh_token"])
        assert refreshed.status_code == 200
        assert status(refreshed.json()["access_token"]) == 200
        assert application.revoke(refreshed.json()["refresh_token"]).status_code == 200
        # Two more exist, and some of the janitor's rows fewer.
        rounds_beside += count(owner, "oauth.refresh_token") < before + 2
        rounds += 1
    cleaner.join()
    (beside,) = runs
    after = clean()

    # On a slow machine the rounds' own registrations may be forgotten meanwhile.
    assert {**beside, REVOKED: 3, ATTEMPTS: 0} == {**cleared(301), ATTEMPTS: 0}
    # A consent locks its application, and revoked grants of a locked application are left for the next run.
    assert beside.get(REVOKED, 0) + after.get(REVOKED, 0) == 3
    assert rounds_beside > 0


def test_requests_are_answered_while_a_janitor_waits_for_a_row(
    settings: Settings, owner: Rows, alice: Person, connect_as: Connect
) -> None:
    alice.token(expires="-2 days")
    other = connect_as("authserver")
    app = authserver.app.create(
        replace(settings, jobs=True), clean_every=timedelta(milliseconds=20)
    )

    async def ask_many() -> tuple[list[int], bool]:
        async with app.router.lifespan_context(app):
            await asyncio.to_thread(wait_for_rivals, owner, 1)
            before = who_waits(owner)
            async with httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app), base_url="http://localhost:8400"
            ) as client:
                token = tokens.mint(tokens.REFRESH, alice.user_id).text
                answers = await asyncio.gather(
                    *(client.post("/oauth/revoke", data={"token": token}) for _ in range(64))
                )
            return [answer.status_code for answer in answers], who_waits(owner) == before

    with other.transaction():
        # The grant can be locked and its token not, so that the janitor waits in the midst of its work.
        other.execute("select from oauth.access_token for update")
        statuses, is_same_wait = asyncio.run(ask_many())

    assert statuses == [200] * 64
    assert is_same_wait


def who_waits(owner: Rows) -> list[Any]:
    """Return the transactions that wait for a lock, and since when they run."""
    return owner.execute(
        "select pid, xact_start from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'"
    ).fetchall()


def test_a_kind_that_cannot_be_deleted_does_not_prevent_the_others(
    settings: Settings,
    owner: Rows,
    alice: Person,
    terminal: Terminal,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leave_something() -> None:
        alice.token(expires="-2 days")
        owner.execute(
            "insert into identity.session (user_id, session_hash, seen_at) "
            "values (%s, gen_random_uuid()::text::bytea, now() - interval '31 days')",
            [alice.user_id],
        )

    said = f"could not remove {SESSIONS}: permission denied for table session"
    leave_something()
    with without(owner, "delete on identity.session"):
        result = terminal.run("janitor")
        by_command = count(owner, "oauth.grant")
        leave_something()
        with AppClient(
            authserver.app.create(
                replace(settings, jobs=True), clean_every=timedelta(milliseconds=20)
            )
        ):
            wait_for(lambda: count(owner, "oauth.grant") == 0, "the token to be removed")
            # It is logged at the end of a turn, after all other kinds.
            wait_for(lambda: said in caplog.messages, said)

    assert (result.exit_code, result.stderr) == (1, f"Error: {said}\n")
    assert len(result.stdout.splitlines()) == len(janitor.KINDS)
    assert f"        0  {SESSIONS}\n" in result.stdout
    assert f"        1  {API_TOKENS}\n" in result.stdout
    assert by_command == 0
    assert count(owner, "identity.session") == 2
    assert terminal.run("janitor").exit_code == 0
    assert count(owner, "identity.session") == 0


OLD_CLIENTS: Final = "update oauth.client set created_at = now() - interval '91 days'"
"""Lets applications be deleted, until they get a consent."""


def test_a_consent_in_progress_keeps_its_client(
    clean: Clean,
    application: Application,
    alice_browser: Visitor,
    connect_as: Connect,
    owner: Rows,
    status: Opens,
) -> None:
    owner.execute(OLD_CLIENTS)
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    other = connect_as("authserver")
    decided: list[Any] = []
    consent = threading.Thread(
        target=lambda: decided.append(alice_browser.submit(page, decision="allow"))
    )

    # The person's row is locked, so that the consent waits in the middle of its statement.
    with other.transaction():
        other.execute("select from identity.user for update")
        consent.start()
        wait_for_rivals(owner, 1)
        removed = clean()
    consent.join()

    assert removed == {}
    code = decided[0].headers["location"].partition("code=")[2].partition("&")[0]
    pair = application.exchange(code).json()
    assert status(pair["access_token"]) == 200


def test_a_consent_during_the_deletion_of_its_client_finds_no_request(
    let_pass: Pass,
    application: Application,
    alice_browser: Visitor,
    connect_as: Connect,
    owner: Rows,
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    other = connect_as("authserver")
    decided: list[Any] = []
    consent = threading.Thread(
        target=lambda: decided.append(alice_browser.submit(page, decision="allow"))
    )

    with other.transaction():
        other.execute("delete from oauth.client")
        consent.start()
        wait_for_rivals(owner, 1)
    consent.join()

    assert decided[0].status_code == 400
    assert "no longer open" in decided[0].text
    assert count(owner, "oauth.grant") == 0


def test_concurrent_consents_and_janitors_leave_a_grant_or_an_expired_request(
    clean: Clean,
    register: Register,
    alice: Person,
    welcome: Welcome,
    owner: Rows,
) -> None:
    browser = welcome(alice)
    stop = threading.Event()
    failures: list[Exception] = []

    def clean_on_and_on() -> None:
        try:
            while not stop.is_set():
                clean()
        except Exception as error:
            failures.append(error)

    cleaners = [threading.Thread(target=clean_on_and_on) for _ in range(2)]
    for each in cleaners:
        each.start()
    outcomes = []
    for _ in range(25):
        application = register()
        owner.execute(OLD_CLIENTS)
        outcomes.append(consent_to(application, browser))
        granted = owner.execute(
            "select count(*) from oauth.grant where client_id = %s", [application.client_id]
        ).fetchone()
        assert granted == (1 if outcomes[-1] == 303 else 0,)
    stop.set()
    for each in cleaners:
        each.join()

    assert failures == []
    assert set(outcomes) <= {303, 400}
    assert 303 in outcomes


def consent_to(application: Application, browser: Visitor) -> int:
    """Return the status of the last page before a consent."""
    page = browser.get(application.authorize_path())
    if page.status_code == 303:
        page = browser.follow(page)
    if page.status_code == 200:
        page = browser.submit(page, decision="allow")
    return page.status_code


# How it finds the rows to delete.


def test_no_statement_reads_rows_that_are_still_needed(owner: Rows, alice: Person) -> None:
    owner.execute(
        """
        insert into oauth.client (client_id, redirect_uris, created_at, last_authorized_at)
        select 'c' || n, '{https://app.example}', now(), now() from generate_series(1, 1500) as n;
        insert into oauth.grant (user_id, client_id, scopes)
        select user_id, client_id, '{read:profile}' from identity.user cross join oauth.client;
        insert into oauth.authorization_code
               (user_id, code_hash, grant_id, redirect_uri, code_challenge, expires_at, spent_at)
        select user_id, sha256(convert_to(grant_id::text, 'UTF8')), grant_id, 'x', 'x', now(), now()
          from oauth.grant;
        insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at, rotated_at)
        select user_id, sha256(convert_to(grant_id || n::text, 'UTF8')), grant_id,
               now() + n * interval '1 day', case when n < 10 then now() end
          from oauth.grant cross join generate_series(1, 10) as n;
        insert into oauth.access_token (user_id, token_hash, grant_id, scopes, last_four, expires_at)
        select user_id, sha256(convert_to(grant_id || n::text, 'UTF8')), grant_id, scopes, 'abcd',
               now() + n * interval '1 minute'
          from oauth.grant cross join generate_series(1, 10) as n;
        insert into oauth.refresh_retry
               (user_id, token_hash, grant_id, access_token_hash, sealed, expires_at)
        select user_id, sha256(convert_to(grant_id || n::text, 'UTF8')), grant_id, 'hash', 'sealed',
               now() + n * interval '1 second'
          from oauth.grant cross join generate_series(10, 13) as n;
        insert into identity.session (user_id, session_hash)
        select user_id, sha256(n::text::bytea) from identity.user, generate_series(1, 5000) as n;
        insert into identity.security_event (user_id, event)
        select user_id, 'signed_in' from identity.user, generate_series(1, 5000);
        insert into identity.throttle (key_hash, forgotten_at)
        select sha256(n::text::bytea), now() + interval '1 hour' from generate_series(1, 5000) as n;
        insert into oauth.authorization_request
               (request_hash, session_hash, client_id, redirect_uri, scopes, code_challenge, expires_at)
        select sha256(convert_to(client_id || n::text, 'UTF8')), '\\x00', client_id, 'x', '{x}', 'x',
               now() + interval '10 minutes'
          from oauth.client cross join generate_series(1, 3) as n;
        analyze identity.session, identity.security_event, identity.throttle, oauth.client, oauth.grant,
                oauth.authorization_request, oauth.authorization_code, oauth.refresh_token,
                oauth.access_token, oauth.refresh_retry
        """
    )
    # Only one-time links are few: operators create them one by one, and their table has no index but its
    # key.
    types = {"batch": "integer", "idle_lifetime": "interval", "dashboard_client_id": "text"}
    values = {"batch": "200", "idle_lifetime": "'30 days'", "dashboard_client_id": "'x'"}
    read: dict[str, int] = {}

    statements = [(kind.name, kind.statement) for kind in janitor.KINDS]
    statements += [(f"before {each.name}", each.prepare) for each in janitor.KINDS if each.prepare]
    for number, (kind, text) in enumerate(statements):
        statement = pipeline.statement(text)
        declared = ", ".join(types[name] for name in statement.parameters)
        given = ", ".join(values[name] for name in statement.parameters)
        owner.execute(f"prepare look_{number} ({declared}) as {statement.text.decode()}")
        pages = []
        # Planning reads the catalogue, the first time and after the table was analyzed.
        for _ in range(4):
            plan = owner.execute(
                f"explain (analyze, buffers, format json) execute look_{number} ({given})"
            ).fetchone()
            assert plan is not None
            top = plan[0][0]["Plan"]
            pages.append(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
        owner.execute(f"deallocate look_{number}")
        read[kind] = min(pages)

    # All of a table would be 19 pages or more, and a look at the end of an index is a few.
    assert {kind: pages for kind, pages in read.items() if pages > 12} == {}


# On a timer and by command.


def test_the_server_runs_its_janitor(
    settings: Settings, alice: Person, owner: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "svc.janitor")
    app = authserver.app.create(
        replace(settings, jobs=True), clean_every=timedelta(milliseconds=100)
    )
    old = "update oauth.access_token set expires_at = now() - interval '2 days'"

    with AppClient(app):
        alice.token()
        owner.execute(old)
        wait_for(lambda: count(owner, "oauth.grant") == 0, "the first token to be removed")
        alice.token()
        owner.execute(old)
        wait_for(lambda: count(owner, "oauth.grant") == 0, "the second token to be removed")

    lines = {record.getMessage() for record in caplog.records if record.name == "svc.janitor"}
    assert lines == {"removed: 1 API tokens, a day after their end"}


@pytest.mark.usefixtures("short_wait")
def test_while_the_database_is_unreachable_the_janitor_logs_a_line_and_tries_again(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "LOG_EVERY_S", 0.0)
    nowhere = replace(settings, jobs=True, role_urls={"authserver": "host=127.0.0.1 port=1 user=x"})
    app = authserver.app.create(nowhere, clean_every=timedelta(milliseconds=20))

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "svc.schema"]

    with AppClient(app, raise_server_exceptions=False) as client:
        wait_for(lambda: len(said()) >= 2, "a second try")
        answer = client.get("/.well-known/oauth-authorization-server")

    assert answer.status_code == 200
    lines = said()
    assert len(lines) >= 2
    assert all(line.startswith("the database does not answer; ") for line in lines)
    assert all("\n" not in line for line in lines)


def test_a_server_that_stops_does_not_wait_for_its_janitor(
    settings: Settings,
    owner: Rows,
    alice: Person,
    connect_as: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    alice.token(expires="-2 days")
    other = connect_as("authserver")
    app = authserver.app.create(
        replace(settings, jobs=True), clean_every=timedelta(milliseconds=20)
    )

    with other.transaction():
        # The grant can be locked and its token not, so that the janitor waits in the midst of its work.
        other.execute("select from oauth.access_token for update")
        with AppClient(app):
            wait_for_rivals(owner, 1)

    # A statement that waited to its end would have ended at its time limit, and that would be logged.
    assert [line for line in caplog.messages if "could not remove" in line] == []


def test_the_command_prints_what_it_deleted(
    terminal: Terminal, let_pass: Pass, application: Application, alice_browser: Visitor
) -> None:
    application.pair(alice_browser)
    application.code(alice_browser)
    let_pass("3 days")

    first, second = terminal.run("janitor"), terminal.run("janitor")

    assert first.exit_code == 0
    lines = [line.strip() for line in first.stdout.splitlines()]
    assert len(lines) == len(janitor.KINDS)
    assert [line for line in lines if not line.startswith("0  ")] == [
        f"1  {ACCESS_TOKENS}",
        f"1  {UNREDEEMED}",
    ]
    assert all(line.strip().startswith("0  ") for line in second.stdout.splitlines())
