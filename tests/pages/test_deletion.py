"""Settings → Account → Delete: tokens and sessions end at once, rows are deleted later, and some are kept."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import psycopg
import pytest
from click.testing import CliRunner
from httpx2 import Response
from psycopg import sql
from starlette.testclient import TestClient

from authserver import janitor
from deploy.demo.command import demo
from deploy.operators.rollups import rollup
from shared import database
from shared.dashboard import SIGNED_OUT_IMAGE_PATH
from shared.pool import Connection
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.conftest import Connect, Person
from tests.oauth.conftest import PASSWORD, Opens, Register, Welcome
from tests.oauth.visitor import Application, Visitor, forms
from tests.waiting import wait_for, wait_for_rivals

Rows = psycopg.Connection[Any]
Clean = Callable[..., int]

PATH: Final = "/settings/account/delete"
INGEST: Final = "/api/v1/ingest/app-sessions"

# The tables that keep rows of deleted accounts for a time: SECURITY.md.
KEPT: Final = {"identity.security_event", "identity.departed_user"}

# The tables that ingest writes.
TRACKED: Final = {
    "activity.app_session",
    "activity.device",
    "activity.device_stream",
    "activity.rollup_due",
    "activity.summary_due",
}


def ask(browser: Visitor, email: str) -> Response:
    return browser.submit(browser.get(PATH), form=1, email=email)


def send(api: TestClient, person: Person, count: int, *, device: str = "laptop") -> None:
    """Send app sessions as a tracker of a person."""
    events = [
        {
            "idempotency_key": f"{device} {number}",
            "device": device,
            "app": "Editor",
            "started_at": "2025-06-16T09:00:00Z",
            "ended_at": "2025-06-16T09:01:00Z",
        }
        for number in range(count)
    ]
    answer = api.post(
        INGEST, json={"events": events}, headers=person.headers("ingest:app_sessions")
    )
    assert answer.json()["accepted"] == count


def tables_of_people(owner: Rows) -> list[str]:
    """Return every table with a column for the user, in all schemas."""
    found = owner.execute(
        """
        select format('%s.%s', nspname, relname)
          from pg_attribute
          join pg_class on pg_class.oid = attrelid
          join pg_namespace on pg_namespace.oid = relnamespace
         where attname = 'user_id'
           and relkind in ('r', 'p')
           and nspname not like 'pg\\_%'
        """
    )
    return [name for (name,) in found]


def left(owner: Rows, person: Person) -> dict[str, int]:
    """Return the number of rows of a person by table, without empty tables."""
    counted = {}
    for name in tables_of_people(owner):
        row = owner.execute(
            sql.SQL("select count(*) from {} where user_id = %s").format(
                sql.Identifier(*name.split("."))
            ),
            [person.user_id],
        ).fetchone()
        assert row is not None
        counted[name] = row[0]
    return {name: count for name, count in counted.items() if count}


@pytest.fixture
def clean(settings: Settings) -> Clean:
    """Runs the janitor once and returns how many rows of deleted accounts it deleted."""

    def run(**options: Any) -> int:
        async def once() -> list[janitor.Removal]:
            login = database.login(settings, "authserver")
            async with await Connection.connect(login, autocommit=True) as connection:
                return await janitor.clean(connection, **options)

        removals = asyncio.run(once())
        assert [removal.error for removal in removals if removal.error] == []
        return {removal.kind: removal.count for removal in removals}[
            "data of accounts that were deleted"
        ]

    return run


@pytest.fixture
def life(
    api: TestClient,
    welcome: Welcome,
    register: Register,
    terminal: Terminal,
    owner: Rows,
) -> Callable[[Person], Visitor]:
    """Creates rows of every kind for a person, and returns a signed-in browser."""

    def live(person: Person) -> Visitor:
        browser = welcome(person)
        # Two weeks contain a whole one, without which there is no weekly insight.
        invented = CliRunner().invoke(demo, [person.email, "--days", "15"], obj=terminal.settings)
        assert invented.exit_code == 0, invented.output
        rebuilt = CliRunner().invoke(rollup, ["rebuild", person.email], obj=terminal.settings)
        assert rebuilt.exit_code == 0, rebuilt.output
        application = register(client_name="Weekly Report")
        pair = application.pair(browser)
        application.refresh(pair["refresh_token"])
        application.code(browser)
        terminal.run(f"token create {person.email} --scope read:profile")
        terminal.run(f"user reset-link {person.email}")
        send(api, person, 3)
        send(api, person, 2, device="phone")
        add_what_is_not_invented(owner, person)
        fill(owner, person)
        return browser

    return live


def add_what_is_not_invented(owner: Rows, person: Person) -> None:
    """Store a day's summary, which a job would compute later, a subscription, the receipt of a file, an
    upload and the worker's turn for it, connections, parts of what a phone has sent, and the answer to a
    refresh."""
    owner.execute(
        """
        insert into oauth.refresh_retry
               (user_id, token_hash, grant_id, access_token_hash, sealed, expires_at)
        select user_id, token_hash, grant_id, token_hash, %(email)s::bytea, '2030-01-01'
          from oauth.refresh_token
         where user_id = %(user_id)s
         limit 1
        """,
        {"user_id": person.user_id, "email": person.email},
    )
    owner.execute(
        """
        with brought as (
            insert into profile.import (user_id, file_name, file_size, digest)
            values (%(user_id)s, 'history.json', 1, sha256(%(email)s::bytea))
            returning user_id,
                      import_id
        ),
        part as (
            insert into profile.import_part (user_id, import_id, name, position, records, refused)
            select user_id, import_id, 'history.json', 0, 1, 1 from brought
            returning user_id,
                      import_id,
                      name
        )
        insert into profile.import_refusal (user_id, import_id, name, reason, count, examples)
        select user_id, import_id, name, 'missing_time', 1, array[%(email)s] from part
        """,
        {"user_id": person.user_id, "email": person.email},
    )
    owner.execute(
        "insert into profile.upload (user_id, ticket_hash) values (%s, sha256(%s))",
        [person.user_id, person.email.encode()],
    )
    owner.execute("select svc.make_due(%s, 'import')", [person.user_id])
    for kind, data, key_hash, fields in (
        ("health", "health", sha256(person.email.encode()).digest(), []),
        ("calendar", "content", None, ["address"]),
    ):
        owner.execute(
            "select svc.put_connection(%s, gen_random_uuid(), %s, %s, %s, '{}', %s, '{}', %s, %s, %s)",
            [
                *(person.user_id, kind, data, person.email, key_hash),
                *(fields, fields, [b"sealed" for _ in fields]),
            ],
        )
    owner.execute(
        """
        with message as (
            insert into health.message (user_id, body_digest, import_id)
            values (%(user_id)s, sha256(%(email)s::bytea), %(user_id)s)
        )
        insert into health.sleep_stage
               (user_id, source, sensor, started_at, ended_at, kind, import_id)
        values (%(user_id)s, %(email)s, %(email)s, '2030-01-01', '2030-01-02', 'Asleep', %(user_id)s)
        """,
        {"user_id": person.user_id, "email": person.email},
    )
    owner.execute(
        "insert into profile.subscription (user_id, plan, status, billing) "
        "values (%s, 'hosted', 'active', 'card')",
        [person.user_id],
    )
    owner.execute(
        "insert into profile.integration (user_id, provider, kind, status)"
        " values (%s, %s, 'code', 'active')",
        [person.user_id, person.email],
    )
    owner.execute(
        """
        insert into activity.daily_summary
               (user_id, date, tz, status, final_at,
                tracked_ms, productive_ms, neutral_ms, distracted_ms, coding_ms,
                app_switches, focus_ms, longest_focus_ms, top_apps, top_categories, top_projects)
        values (%s, '2025-06-16', 'UTC', 'final', '2025-06-17 01:00Z',
                0, 0, 0, 0, 0, 0, 0, 0, '[]', '[]', '[]')
        """,
        [person.user_id],
    )
    owner.execute(
        """
        insert into oauth.device_authorization
               (device_code_hash, user_code_hash, client_id, scopes, expires_at, interval_s,
                user_id, grant_id)
        select %(code)s, %(code)s, client_id, '{read:activity}', '2030-01-01', 5, user_id, grant_id
          from oauth.grant
         where user_id = %(user_id)s
           and client_id is not null
         limit 1
        """,
        {"code": person.email.encode(), "user_id": person.user_id},
    )


def fill(owner: Rows, person: Person) -> None:
    """Insert a minimal row of a person into each table without one."""
    for name in tables_of_people(owner):
        if name in KEPT or name in left(owner, person):
            continue
        columns = owner.execute(
            """
            select column_name, data_type
              from information_schema.columns
             where format('%%s.%%s', table_schema, table_name) = %s
               and (is_nullable = 'NO' and column_default is null or column_name = 'user_id')
            """,
            [name],
        ).fetchall()
        values = {
            "uuid": str(person.user_id),
            "text": person.email,
            "bytea": person.email.encode(),
            "json": "{}",
            "tstzmultirange": "{}",
        }
        given = {
            column: values.get(kind, "2030-01-01" if kind.startswith(("timestamp", "date")) else 1)
            for column, kind in columns
        }
        owner.execute(
            sql.SQL("insert into {} ({}) values ({})").format(
                sql.Identifier(*name.split(".")),
                sql.SQL(", ").join(map(sql.Identifier, given)),
                sql.SQL(", ").join(sql.Placeholder() * len(given)),
            ),
            list(given.values()),
        )


def test_all_rows_of_alice_are_deleted_and_bobs_are_kept(
    life: Callable[[Person], Visitor], alice: Person, bob: Person, owner: Rows, clean: Clean
) -> None:
    browser = life(alice)
    life(bob)
    tables = set(tables_of_people(owner))
    before, bobs = left(owner, alice), left(owner, bob)

    goodbye = ask(browser, alice.email)
    cleaned = clean()

    # Each table had rows, so that an empty one proves a deletion.
    assert before.keys() == tables - {"identity.departed_user"}
    assert "activity.app_session" in tables
    assert goodbye.status_code == 200
    # The answer to this image removes the pages of the dashboard that the browser has kept.
    image = f"http://testserver{SIGNED_OUT_IMAGE_PATH}"
    assert f'<img src="{image}"' in goodbye.text
    assert f"img-src 'self' {image};" in goodbye.headers["content-security-policy"]
    assert cleaned == sum(
        count for name, count in before.items() if not name.startswith(("identity.", "oauth."))
    )
    assert left(owner, alice).keys() == KEPT
    assert left(owner, bob) == bobs


def test_the_e_mail_address_is_deleted_everywhere(
    life: Callable[[Person], Visitor], alice: Person, bob: Person, owner: Rows, clean: Clean
) -> None:
    browser = life(alice)
    for person in (alice, bob):
        owner.execute(
            "insert into identity.invitation (invitation_hash, email, expires_at) "
            "values (sha256(%s), %s, now() + interval '1 day')",
            [person.email, person.email],
        )
    before = holding(owner, alice.email)

    ask(browser, alice.email)
    clean()

    assert {"identity.user", "identity.invitation"} <= before
    assert holding(owner, alice.email) == set()
    assert "identity.invitation" in holding(owner, bob.email)


def holding(owner: Rows, text: str) -> set[str]:
    """Return the tables with a row that contains ``text``."""
    tables = owner.execute(
        """
        select nspname,
               relname
          from pg_class
          join pg_namespace on pg_namespace.oid = relnamespace
         where relkind = 'r'
           and nspname not like 'pg\\_%'
           and nspname <> 'information_schema'
        """
    ).fetchall()
    found = set()
    for names in tables:
        row = owner.execute(
            sql.SQL("select from {} as held where held::text like %s limit 1").format(
                sql.Identifier(*names)
            ),
            [f"%{text}%"],
        ).fetchone()
        if row is not None:
            found.add(".".join(names))
    return found


def test_sessions_and_tokens_end_with_the_response(
    alice_browser: Visitor,
    welcome: Welcome,
    application: Application,
    alice: Person,
    api: TestClient,
    status: Opens,
    owner: Rows,
) -> None:
    other, stranger = welcome(alice), Visitor(alice_browser.client)
    pair = application.pair(alice_browser)
    code = application.code(alice_browser)
    own = alice.token("read:profile", "ingest:app_sessions")
    send(api, alice, 3)
    before = [status(pair["access_token"]), status(own)]

    goodbye = ask(alice_browser, alice.email)

    assert before == [200, 200]
    assert "Goodbye" in goodbye.text
    assert [status(pair["access_token"]), status(own)] == [401, 401]
    written = api.post(INGEST, json={"events": []}, headers={"Authorization": f"Bearer {own}"})
    assert written.status_code == 401
    assert application.refresh(pair["refresh_token"]).json()["error"] == "invalid_grant"
    assert application.exchange(code).json()["error"] == "invalid_grant"
    assert other.get("/settings").status_code == 303
    signing_in = stranger.submit(stranger.get("/sign-in"), email=alice.email, password=PASSWORD)
    assert signing_in.status_code == 400
    # The janitor has not run: the data still exists, and nobody can access it.
    assert left(owner, alice).keys() == KEPT | TRACKED


def test_the_browser_gets_a_new_anonymous_session(alice_browser: Visitor, alice: Person) -> None:
    page = alice_browser.get(PATH)
    before = dict(alice_browser.cookies)

    goodbye = alice_browser.submit(page, form=1, email=alice.email)
    again = alice_browser.submit(page, form=1, email=alice.email)

    assert "set-cookie" in goodbye.headers
    assert alice_browser.cookies != before
    assert "svc_ss_0000000000000000000000" in next(iter(alice_browser.cookies.values()))
    assert "Sign out" not in goodbye.text
    assert again.status_code == 303
    assert again.headers["location"] == f"/sign-in?next={PATH}"


def test_the_deletion_is_recorded_and_outlives_the_account(
    alice_browser: Visitor, alice: Person, owner: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "svc.security")

    ask(alice_browser, alice.email)

    noted = owner.execute(
        "select event, user_id, request_id is not null from identity.security_event"
    ).fetchall()
    assert noted == [("account_deleted", alice.user_id, True)]
    assert f"event=account_deleted user_id={alice.user_id} " in caplog.text
    assert alice.email not in caplog.text


def test_the_page_explains_the_deletion(alice_browser: Visitor, owner: Rows) -> None:
    page = alice_browser.get(PATH)

    assert page.status_code == 200
    for words in ("At once", "In the background", "For up to 400 days", "This cannot be undone"):
        assert words in page.text
    assert "To be sure, type alice@example.org" in page.text
    assert dict(forms(page)[1].fields)["email"] == ""
    assert "administrator" not in page.text


@pytest.mark.parametrize(
    ("administrators", "is_warned"),
    [(["alice"], True), (["alice", "bob"], False), (["bob"], False)],
)
def test_the_only_administrator_is_warned_and_may_delete_the_account(
    alice_browser: Visitor,
    alice: Person,
    bob: Person,
    owner: Rows,
    administrators: list[str],
    is_warned: bool,
) -> None:
    owner.execute(
        "update identity.user set is_admin = split_part(email, '@', 1) = any (%s)",
        [administrators],
    )

    page = alice_browser.get(PATH)
    gone = alice_browser.submit(page, form=1, email=alice.email)

    assert ("You are the only administrator." in page.text) is is_warned
    assert gone.status_code == 200
    assert owner.execute("select email from identity.user").fetchall() == [(bob.email,)]


@pytest.mark.parametrize("typed", ["Alice@Example.org", "  alice@example.org "])
def test_letter_case_and_spaces_of_the_typed_address_do_not_matter(
    alice_browser: Visitor, owner: Rows, typed: str
) -> None:
    assert ask(alice_browser, typed).status_code == 200
    assert owner.execute("select count(*) from identity.user").fetchone() == (0,)


@pytest.mark.parametrize(
    "typed", ["", "alice", "bob@example.org", "yes", "<b>alice@example.org</b>", "a" * 10_000]
)
def test_a_wrong_address_is_reported_beside_the_field_and_kept(
    alice_browser: Visitor, bob: Person, owner: Rows, typed: str
) -> None:
    page = ask(alice_browser, typed)

    assert page.status_code == 400
    assert 'id="email-problem">This is not the e-mail address of your account.' in page.text
    assert dict(forms(page)[1].fields)["email"] == typed
    assert "<b>" not in page.text
    assert owner.execute("select count(*) from identity.user").fetchone() == (2,)


def test_a_sign_in_that_is_not_fresh_has_to_be_confirmed_first(
    alice_browser: Visitor, alice: Person, owner: Rows
) -> None:
    page = alice_browser.get(PATH)
    owner.execute("update identity.session set authenticated_at = now() - interval '16 minutes'")

    shown = alice_browser.get(PATH)
    sent = alice_browser.submit(page, form=1, email=alice.email)

    assert shown.status_code == 303
    assert shown.headers["location"] == f"/confirm?next={PATH}"
    assert sent.status_code == 403
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)


def test_a_stale_form_is_shown_again_and_a_forged_one_refused(
    alice_browser: Visitor, welcome: Welcome, alice: Person, owner: Rows
) -> None:
    stale = welcome(alice).get(PATH)
    csrf = dict(forms(alice_browser.get(PATH))[1].fields)["csrf"]

    again = alice_browser.submit(stale, form=1, email=alice.email)
    forged = alice_browser.post(
        PATH, {"csrf": csrf, "email": alice.email}, headers={"Sec-Fetch-Site": "cross-site"}
    )

    assert again.status_code == 403
    assert "This page was out of date. Please try again." in again.text
    assert dict(forms(again)[1].fields)["email"] == alice.email
    assert forged.status_code == 403
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)


def test_the_form_of_another_person_deletes_neither(
    alice_browser: Visitor, welcome: Welcome, alice: Person, bob: Person, owner: Rows
) -> None:
    bobs = welcome(bob).get(PATH)

    assert alice_browser.submit(bobs, form=1, email=bob.email).status_code == 403
    assert ask(alice_browser, bob.email).status_code == 400
    assert owner.execute("select count(*) from identity.user").fetchone() == (2,)


def test_a_concurrent_second_submit_finds_no_account(
    alice_browser: Visitor, alice: Person, owner: Rows, connect_as: Connect
) -> None:
    page = alice_browser.get(PATH)
    rivals = [Visitor(alice_browser.client, dict(alice_browser.cookies)) for _ in range(2)]

    with psycopg.connect(owner.info.dsn, password=owner.info.password) as holder:
        holder.execute("select from identity.user for update")
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(each.submit, page, form=1, email=alice.email) for each in rivals]
            wait_for_rivals(owner, 2)
            holder.rollback()
            answers = [each.result().status_code for each in asked]

    assert sorted(answers) == [200, 303]
    noted = owner.execute("select event from identity.security_event").fetchall()
    assert noted == [("account_deleted",)]


def test_a_large_account_is_deleted_in_batches(
    alice_browser: Visitor, alice: Person, bob: Person, owner: Rows, api: TestClient, clean: Clean
) -> None:
    send(api, bob, 5)
    for number in range(5):
        send(api, alice, 20, device=f"device {number}")
    ask(alice_browser, alice.email)

    batches = []
    while count := owner.execute("select svc.forget_departed(30)").fetchone():
        batches.append(count[0])
        if not count[0]:
            break

    # 100 sessions on 5 devices, 5 counters, and the one day to be summed up and rolled up.
    assert batches == [30, 30, 30, 22, 0]
    assert left(owner, alice).keys() == KEPT
    assert left(owner, bob)["activity.app_session"] == 5


def test_the_janitor_continues_until_no_row_is_left(
    alice_browser: Visitor, alice: Person, owner: Rows, api: TestClient, clean: Clean
) -> None:
    send(api, alice, 50)
    ask(alice_browser, alice.email)

    # The sessions, their device with its counter, and their day's two marks.
    assert clean(batch=7) == 54
    assert left(owner, alice).keys() == KEPT


def test_rows_committed_after_the_deletion_are_deleted_for_a_day(
    alice_browser: Visitor, alice: Person, owner: Rows, api: TestClient, clean: Clean
) -> None:
    ask(alice_browser, alice.email)
    counts = [clean()]
    for age in ("1 hour", "25 hours"):
        owner.execute(
            "insert into activity.device (user_id, name) values (%s, 'late')", [alice.user_id]
        )
        owner.execute("update identity.departed_user set deleted_at = now() - %s::interval", [age])
        counts.append(clean())

    assert counts == [0, 1, 1]
    assert left(owner, alice).keys() == {"identity.security_event"}


def test_a_deleted_account_is_remembered_until_all_rows_are_deleted(
    alice_browser: Visitor, alice: Person, owner: Rows, api: TestClient
) -> None:
    send(api, alice, 10)
    ask(alice_browser, alice.email)
    owner.execute("update identity.departed_user set deleted_at = now() - interval '2 days'")

    known = []
    for _ in range(3):
        owner.execute("select svc.forget_departed(5)")
        known.append(owner.execute("select count(*) from identity.departed_user").fetchone())

    assert known == [(1,), (1,), (0,)]
    assert left(owner, alice).keys() == {"identity.security_event"}


def test_rows_of_a_concurrent_ingest_are_deleted(
    alice_browser: Visitor, alice: Person, owner: Rows, api: TestClient, clean: Clean
) -> None:
    send(api, alice, 1)
    writing = threading.Thread(target=send_whatever, args=(api, alice.headers()))

    # The tracker's transaction has its session open already, and waits for a device with the same name that
    # another transaction is adding.
    with psycopg.connect(owner.info.dsn, password=owner.info.password) as holder:
        holder.execute(
            "insert into activity.device (user_id, name) values (%s, 'tablet')", [alice.user_id]
        )
        writing.start()
        wait_for_rivals(owner, 1)
        goodbye = ask(alice_browser, alice.email)
        first = clean()
        holder.commit()
    writing.join()

    # The deletion did not wait. Rows committed afterwards are found by the next run.
    assert goodbye.status_code == 200
    assert first == 5
    assert left(owner, alice)["activity.device"] == 1
    assert clean() >= 1
    assert left(owner, alice).keys() == KEPT


def send_whatever(api: TestClient, headers: dict[str, str]) -> None:
    event = {
        "idempotency_key": "tablet 1",
        "device": "tablet",
        "app": "Editor",
        "started_at": "2025-06-16T09:00:00Z",
        "ended_at": "2025-06-16T09:01:00Z",
    }
    api.post(INGEST, json={"events": [event]}, headers=headers)


def test_rows_of_trackers_that_keep_sending_are_deleted(
    alice_browser: Visitor, alice: Person, owner: Rows, api: TestClient, clean: Clean
) -> None:
    headers = alice.headers("ingest:app_sessions")
    is_over = threading.Event()
    statuses: list[int] = []

    def track(number: int) -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            event = {
                "idempotency_key": f"{number} {turn}",
                "device": f"{number} {turn}",
                "app": "Editor",
                "started_at": "2025-06-16T09:00:00Z",
                "ended_at": "2025-06-16T09:01:00Z",
            }
            answer = api.post(INGEST, json={"events": [event]}, headers=headers)
            statuses.append(answer.status_code)
            if answer.status_code == 401:
                return

    page = alice_browser.get(PATH)
    with ThreadPoolExecutor(4) as trackers:
        for number in range(4):
            trackers.submit(track, number)
        wait_for(lambda: statuses.count(200) >= 20, "twenty batches that are written")
        assert set(statuses) == {200}
        goodbye = alice_browser.submit(page, form=1, email=alice.email)
        wait_for(lambda: statuses.count(401) == 4, "all trackers to be refused")
        is_over.set()
    clean()

    assert goodbye.status_code == 200
    assert set(statuses) == {200, 401}
    assert statuses.count(401) == 4
    assert left(owner, alice).keys() == KEPT


def test_the_address_can_join_again_with_an_empty_account(
    alice_browser: Visitor, alice: Person, terminal: Terminal, owner: Rows, api: TestClient
) -> None:
    send(api, alice, 3)
    ask(alice_browser, alice.email)

    link = terminal.run("user first-link").stdout.strip()
    visitor = Visitor(alice_browser.client)
    joined = visitor.submit(visitor.get(link), email=alice.email, password=PASSWORD)

    assert joined.status_code == 303
    row = owner.execute("select user_id, is_admin from identity.user").fetchone()
    assert row is not None
    assert row[0] != alice.user_id
    assert row[1] is True
    again = Person(row[0], alice.email, owner)
    answer = api.get(
        "/api/v1/analytics/app-usage?from=2025-06-16T00:00:00Z&to=2025-06-17T00:00:00Z",
        headers=again.headers("read:activity"),
    )
    assert answer.status_code == 200
    assert "Editor" not in answer.text


def test_the_operator_deletes_an_account(
    terminal: Terminal,
    alice: Person,
    bob: Person,
    api: TestClient,
    owner: Rows,
    clean: Clean,
    status: Opens,
) -> None:
    send(api, alice, 3)
    token = alice.token("read:profile")

    result = terminal.run("user delete Alice@Example.org --yes")

    assert result.exit_code == 0, result.output
    assert result.stdout == "deleted alice@example.org; the janitor deletes the data\n"
    recorded = owner.execute(
        "select event from identity.security_event where user_id = %s", [alice.user_id]
    ).fetchall()
    assert ("account_deleted",) in recorded
    assert status(token) == 401
    assert clean() == 7
    assert left(owner, alice).keys() == KEPT
    assert owner.execute("select email from identity.user").fetchall() == [(bob.email,)]


@pytest.mark.parametrize(("typed", "count"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_the_command_asks_for_confirmation(
    terminal: Terminal, alice: Person, owner: Rows, typed: str, count: int
) -> None:
    result = terminal.run("user delete alice@example.org", typed=typed)

    assert "Delete the account alice@example.org with all its data? [y/N]" in result.stdout
    assert (result.exit_code == 0) is (count == 0)
    assert owner.execute("select count(*) from identity.user").fetchone() == (count,)


def test_an_unknown_account_is_an_error_of_one_line(terminal: Terminal, alice: Person) -> None:
    result = terminal.run("user delete carol@example.org --yes")

    assert result.exit_code == 1
    assert result.stderr == "Error: there is no account carol@example.org\n"


def test_without_the_owners_login_the_command_reports_what_it_needs(
    settings: Settings, alice: Person, owner: Rows
) -> None:
    urls = {"authserver": database.role_url(settings, "authserver")}
    result = Terminal(replace(settings, database_url=None, role_urls=urls)).run(
        "user delete alice@example.org --yes"
    )

    assert result.exit_code == 1
    assert "DATABASE_URL" in str(result.exception)
    assert owner.execute("select count(*) from identity.user").fetchone() == (1,)
