"""The commands for clients, grants and API tokens."""

import asyncio
import re
import threading
from typing import Any

import psycopg
import pytest

from authserver import events, rows
from authserver.events import Event
from authserver.oauth import clients, grants
from shared import tokens
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.conftest import Connect, Person
from tests.oauth.conftest import Opens, Register, Welcome
from tests.oauth.privileges import without
from tests.oauth.visitor import Application, Visitor
from tests.waiting import wait_for_rivals

Rows = psycopg.Connection[Any]

UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
MINUTE = r"20\d\d-\d\d-\d\d \d\d:\d\dZ"


# Clients


def test_the_list_of_clients_shows_their_number_of_live_grants(
    terminal: Terminal, register: Register, alice: Person, bob: Person, welcome: Welcome
) -> None:
    report = register(
        client_name="Weekly Report",
        redirect_uris=["https://app.example/callback", "https://app.example/b", "app.example:/cb"],
    )
    unused = register("http://127.0.0.1:3000/callback")
    report.pair(welcome(alice))
    report.revoke(report.pair(welcome(alice))["refresh_token"])
    report.pair(welcome(bob))

    lines = terminal.table("client list")

    first, second = lines
    assert first[:3] == [report.client_id, "Weekly Report", "app.example, app.example:"]
    assert all(re.fullmatch(MINUTE, cell) for cell in first[3:5])
    assert first[5] == "2"
    assert second[:3] == [unused.client_id, "-", "127.0.0.1:3000"]
    assert second[4:] == ["-", "0"]


def test_the_list_of_clients_begins_with_the_latest_consent_and_counts_the_omitted(
    terminal: Terminal, register: Register, alice_browser: Visitor, owner: Rows
) -> None:
    used = [register(), register()]
    junk = [register() for _ in range(3)]
    for application in used:
        application.code(alice_browser)

    all_of_them = terminal.run("client list")
    some = terminal.run("client list --limit 3")
    owner.execute(
        "insert into oauth.client (client_id, redirect_uris) "
        "select 'c' || n, '{https://app.example}' from generate_series(1, 200) as n"
    )
    by_default = terminal.run("client list")

    ids = [line.split()[0] for line in all_of_them.stdout.splitlines()[1:]]
    assert ids == [each.client_id for each in (used[1], used[0], junk[2], junk[1], junk[0])]
    assert all_of_them.stderr == ""
    assert [line.split()[0] for line in some.stdout.splitlines()[1:]] == ids[:3]
    assert some.stderr == "2 applications more: see --limit\n"
    assert len(by_default.stdout.splitlines()) == 101
    assert by_default.stderr == "105 applications more: see --limit\n"


def test_a_client_is_shown_with_its_registration_and_live_grants(
    terminal: Terminal, register: Register, alice: Person, bob: Person, welcome: Welcome
) -> None:
    application = register(
        client_name="Weekly Report",
        redirect_uris=["https://app.example/callback", "https://app.example/b?x=1"],
        scope="read:music",
    )
    application.pair(welcome(bob), resource="http://testserver/mcp")
    application.pair(welcome(alice), ticked=["read:profile"])
    application.revoke(application.pair(welcome(alice))["refresh_token"])

    result = terminal.run(f"client show {application.client_id}")

    lines = [re.split(" {2,}", line) for line in result.stdout.splitlines()]
    assert lines[:3] == [
        ["id", application.client_id],
        ["name", "Weekly Report"],
        ["asks for", "read:music"],
    ]
    assert [line[0] for line in lines[3:5]] == ["registered", "last authorized"]
    assert lines[5:7] == [
        ["redirect URI", "https://app.example/callback"],
        ["redirect URI", "https://app.example/b?x=1"],
    ]
    assert lines[8] == ["GRANT", "EMAIL", "SCOPES", "RESOURCE", "SINCE"]
    assert [line[1:4] for line in lines[9:]] == [
        ["alice@example.org", "read:profile", "-"],
        ["bob@example.org", "read:activity read:profile", "http://testserver/mcp"],
    ]
    assert all(re.fullmatch(UUID, line[0]) for line in lines[9:])


def test_a_revoked_client_is_unknown_and_its_tokens_are_refused_at_once(
    terminal: Terminal,
    register: Register,
    alice: Person,
    bob: Person,
    welcome: Welcome,
    status: Opens,
    owner: Rows,
) -> None:
    rogue, other = register(client_name="Rogue"), register(client_name="Weekly Report")
    pairs = [rogue.pair(welcome(person)) for person in (alice, bob)]
    code = rogue.code(welcome(alice))
    rogue.revoke(rogue.pair(welcome(bob))["refresh_token"])
    kept = other.pair(welcome(alice))

    result = terminal.run(f"client revoke {rogue.client_id}")

    assert (result.exit_code, result.stdout) == (
        0,
        f"removed {rogue.client_id} and 3 live grants\n",
    )
    for pair in pairs:
        assert status(pair["access_token"]) == 401
        assert rogue.refresh(pair["refresh_token"]).json()["error"] == "invalid_client"
    assert rogue.exchange(code).json()["error"] == "invalid_client"
    assert welcome(alice).get(rogue.authorize_path()).status_code == 400
    assert status(kept["access_token"]) == 200
    counted = owner.execute(
        "select count(*), count(distinct grant_id) from identity.security_event "
        "where event = 'revoked' and client_id = %s and request_id is null",
        [rogue.client_id],
    ).fetchone()
    assert counted == (3, 3)


def test_a_client_with_many_grants_is_deleted_in_small_batches(
    settings: Settings, application: Application, alice: Person, bob: Person, owner: Rows
) -> None:
    for person in (alice, bob):
        grants_of(owner, person, application, grants=5, tokens=7)
    owner.execute(
        """
        create table oauth.removal (transaction_id xid8 default pg_current_xact_id(), rows integer);
        create function oauth.count_removal() returns trigger language plpgsql security definer as $$
        begin
            insert into oauth.removal (rows) select count(*) from removed;
            return null;
        end $$
        """
    )
    tables = ("refresh_token", "access_token", "grant")
    for table in tables:
        owner.execute(
            f"create trigger count_removal after delete on oauth.{table} "
            "referencing old table as removed "
            "for each statement execute function oauth.count_removal()"
        )

    async def remove() -> list[Event]:
        async with rows.connected(settings) as database:
            return await clients.remove(database, application.client_id, events.COMMAND, batch=3)

    try:
        ended = asyncio.run(remove())
        most = owner.execute(
            "select max(sum), sum(sum)::integer from "
            "(select sum(rows) from oauth.removal group by transaction_id) as each"
        ).fetchone()
    finally:
        for table in tables:
            owner.execute(f"drop trigger count_removal on oauth.{table}")
        owner.execute("drop table oauth.removal; drop function oauth.count_removal")

    assert len({event.grant_id for event in ended}) == len(ended) == 10
    assert most == (3, 10 + 70 + 70)
    assert owner.execute("select count(*) from oauth.client").fetchone() == (0,)


def grants_of(
    owner: Rows, person: Person, application: Application, *, grants: int, tokens: int
) -> None:
    """Give an application live grants of a person's, and each of them tokens of both kinds."""
    owner.execute(
        """
        with granted as (
            insert into oauth.grant (user_id, client_id, scopes)
            select %(user_id)s, %(client_id)s, '{read:profile}' from generate_series(1, %(grants)s)
            returning user_id, grant_id, scopes
        ),
        refresh_tokens as (
            insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at, rotated_at)
            select user_id, sha256(convert_to(grant_id || n::text, 'UTF8')), grant_id,
                   now() + interval '9 days', case when n > 1 then now() end
              from granted cross join generate_series(1, %(tokens)s) as n
        )
        insert into oauth.access_token (user_id, token_hash, grant_id, scopes, last_four, expires_at)
        select user_id, sha256(convert_to(grant_id || n::text, 'UTF8')), grant_id, scopes, 'abcd',
               now() + interval '1 hour'
          from granted cross join generate_series(1, %(tokens)s) as n
        """,
        {
            "user_id": person.user_id,
            "client_id": application.client_id,
            "grants": grants,
            "tokens": tokens,
        },
    )


def test_an_interrupted_revocation_of_a_client_can_be_repeated(
    terminal: Terminal,
    application: Application,
    alice_browser: Visitor,
    status: Opens,
    owner: Rows,
) -> None:
    pair = application.pair(alice_browser)
    code = application.code(alice_browser)
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))

    with without(owner, "delete on oauth.refresh_token"):
        broken_off = terminal.run(f"client revoke {application.client_id}")
        after = [
            status(pair["access_token"]),
            application.refresh(pair["refresh_token"]).status_code,
            application.exchange(code).status_code,
            alice_browser.submit(page, decision="allow").status_code,
        ]
    let_in_again = application.pair(alice_browser)
    again = terminal.run(f"client revoke {application.client_id}")

    assert (broken_off.exit_code, broken_off.stdout) == (1, "")
    assert "permission denied for table refresh_token" in broken_off.stderr
    assert after == [401, 400, 400, 400]
    assert again.stdout == f"removed {application.client_id} and 1 live grant\n"
    assert status(let_in_again["access_token"]) == 401
    noted = owner.execute(
        "select count(*), count(distinct grant_id) from identity.security_event "
        "where event = 'revoked'"
    ).fetchone()
    assert noted == (3, 3)
    assert owner.execute("select count(*) from oauth.client").fetchone() == (0,)


def test_a_pending_request_of_a_revoked_client_is_no_longer_open(
    terminal: Terminal, application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    terminal.run(f"client revoke {application.client_id}")

    decided = alice_browser.submit(page, decision="allow")

    assert decided.status_code == 400
    assert "no longer open" in decided.text
    assert owner.execute("select count(*) from oauth.grant").fetchone() == (0,)


def test_a_consent_in_progress_does_not_survive_the_revocation_of_its_client(
    terminal: Terminal,
    application: Application,
    alice_browser: Visitor,
    owner: Rows,
    connect_as: Connect,
) -> None:
    page = alice_browser.follow(alice_browser.get(application.authorize_path()))
    other = connect_as("authserver")
    outputs: list[str] = []
    revocation = threading.Thread(
        target=lambda: outputs.append(terminal.run(f"client revoke {application.client_id}").stdout)
    )

    # The consent's transaction is kept open at its end: it must write a row that is locked.
    with other.transaction():
        other.execute(
            "select from oauth.client where client_id = %s for share", [application.client_id]
        )
        consent = threading.Thread(target=lambda: alice_browser.submit(page, decision="allow"))
        consent.start()
        wait_for_rivals(owner, 1)
        revocation.start()
        wait_for_rivals(owner, 2)
    consent.join()
    revocation.join()

    assert outputs == [f"removed {application.client_id} and 1 live grant\n"]
    assert owner.execute("select count(*) from oauth.grant").fetchone() == (0,)
    events = owner.execute("select event from identity.security_event order by occurred_at")
    assert events.fetchall() == [("consented",), ("revoked",)]


@pytest.mark.parametrize("words", ["client show", "client revoke"])
@pytest.mark.parametrize("client_id", ["svc_client_0000000000000000000000", "x", "''"])
def test_an_unknown_client_is_reported_in_one_line(
    terminal: Terminal, words: str, client_id: str
) -> None:
    result = terminal.run(f"{words} {client_id}")

    assert result.exit_code == 1
    assert result.output == f"Error: there is no client {client_id.strip(chr(39))}\n"


def test_a_clients_name_cannot_rewrite_the_screen(
    terminal: Terminal, application: Application, owner: Rows
) -> None:
    owner.execute("update oauth.client set client_name = %s", ["\x1b[2JWeekly\x07 \u202eReport\r"])

    listed = terminal.run("client list")
    shown = terminal.run(f"client show {application.client_id}")

    for result in (listed, shown):
        assert "[2JWeekly Report  " in result.stdout.replace("\n", "  ")
        assert all(letter.isprintable() or letter == "\n" for letter in result.stdout)


# Grants


def test_the_list_of_grants_shows_applications_and_api_tokens_and_no_secret(
    terminal: Terminal,
    alice: Person,
    bob: Person,
    application: Application,
    welcome: Welcome,
) -> None:
    bob.token()
    application.pair(welcome(bob))
    made = terminal.run(f"token create {alice.email} --scope read:music --name 'my tracker'")
    pair = application.pair(welcome(alice), resource="http://testserver/mcp")

    result = terminal.run(f"grant list {alice.email}")

    lines = [re.split(" {2,}", line) for line in result.stdout.splitlines()[1:]]
    assert [line[1:6] for line in lines] == [
        ["API token", "my tracker", "-", "read:music", "-"],
        [
            *("application", "Weekly Report", "app.example"),
            *("read:activity read:profile", "http://testserver/mcp"),
        ],
    ]
    assert lines[0][7:] == ["-", "never"]
    assert lines[1][7] == "-"
    assert re.fullmatch(MINUTE, lines[1][8])
    for secret in (made.stdout.strip(), pair["access_token"], pair["refresh_token"]):
        assert len(secret) > 70
        assert secret[-20:] not in result.stdout


def test_revoking_an_applications_grant_ends_all_its_tokens(
    terminal: Terminal, alice: Person, application: Application, welcome: Welcome, status: Opens
) -> None:
    pair = application.pair(welcome(alice))
    grant_id = terminal.table(f"grant list {alice.email}")[0][0]

    first = terminal.run(f"grant revoke {grant_id}")
    second = terminal.run(f"grant revoke {grant_id}")

    assert (first.exit_code, first.stdout) == (0, f"revoked {grant_id}\n")
    assert (second.exit_code, second.output) == (1, f"Error: there is no live grant {grant_id}\n")
    assert status(pair["access_token"]) == 401
    assert application.refresh(pair["refresh_token"]).status_code == 400
    assert terminal.table(f"grant list {alice.email}") == []


def test_a_grant_is_listed_as_long_as_it_can_refresh(
    terminal: Terminal, alice: Person, application: Application, welcome: Welcome, owner: Rows
) -> None:
    application.pair(welcome(alice))
    before = terminal.table(f"grant list {alice.email}")
    owner.execute("delete from oauth.access_token")

    after = terminal.table(f"grant list {alice.email}")

    assert len(before) == 1
    assert after == before


def test_a_grant_is_found_by_its_id_with_an_index(
    alice: Person, application: Application, owner: Rows
) -> None:
    grants_of(owner, alice, application, grants=5000, tokens=0)
    owner.execute("analyze oauth.grant")
    parties = grants.SQL["parties"]
    owner.execute(f"prepare parties (uuid) as {parties.text.decode()}")

    plan = owner.execute(
        "explain (analyze, buffers, format json) "
        "execute parties ('6f7c8f9e-0000-4000-8000-000000000000')"
    ).fetchone()

    assert plan is not None
    top = plan[0][0]["Plan"]
    assert top["Shared Hit Blocks"] + top["Shared Read Blocks"] <= 4


# API tokens


@pytest.mark.checklist(55)
def test_only_the_token_is_printed_and_it_has_its_scopes(
    terminal: Terminal, alice: Person, status: Opens
) -> None:
    result = terminal.run(
        'token create alice@example.org --scope "read:profile ingest:app_sessions"'
    )

    assert result.exit_code == 0
    assert tokens.parse(tokens.ACCESS, result.stdout.removesuffix("\n")) is not None
    assert status(result.stdout.strip()) == 200
    assert status(result.stdout.strip(), "/api/v1/analytics/daily") == 403


def test_the_scope_option_can_be_repeated(terminal: Terminal, alice: Person, status: Opens) -> None:
    result = terminal.run(
        "token create alice@example.org --scope read:profile --scope read:activity"
    )

    assert status(result.stdout.strip()) == 200
    assert status(result.stdout.strip(), "/api/v1/devices") == 200


@pytest.mark.checklist(55)
def test_a_token_is_shown_once(terminal: Terminal, alice: Person, owner: Rows) -> None:
    token = terminal.run(f"token create {alice.email} --scope read:profile").stdout.strip()

    shown_later = [
        terminal.run(f"{words} {alice.email}").output
        for words in ("token list", "grant list", "event list")
    ]

    kept = owner.execute(
        "select row_to_json(access_token)::text from oauth.access_token"
    ).fetchall()
    for text in (*shown_later, str(kept)):
        assert token not in text
        assert token[7:-4] not in text


@pytest.mark.parametrize(("days", "expires"), [(None, None), ("30", "30 days")])
def test_a_token_expires_after_the_given_days(
    terminal: Terminal, alice: Person, owner: Rows, days: str | None, expires: str | None
) -> None:
    more = "" if days is None else f"--expires-in {days}"

    terminal.run(f"token create alice@example.org --scope read:profile {more}")

    row = owner.execute(
        "select expires_at - issued_at is not distinct from %s::interval from oauth.access_token",
        [expires],
    ).fetchone()
    assert row == (True,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("alice@example.org --scope read:everything", "unknown scope: read:everything"),
        ("alice@example.org --scope ' '", "needs a scope"),
        ("alice@example.org --scope read:profile --name ''", "1 to 100 characters"),
        (f"alice@example.org --scope read:profile --name {'n' * 101}", "1 to 100"),
        (
            "nobody@example.org --scope read:profile",
            "there is no account nobody@example.org",
        ),
    ],
)
def test_an_unacceptable_token_is_refused_in_one_line(
    terminal: Terminal, alice: Person, words: str, said: str
) -> None:
    result = terminal.run(f"token create {words}")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.checklist(55)
def test_the_list_shows_the_persons_api_tokens_by_their_last_four(
    terminal: Terminal,
    alice: Person,
    bob: Person,
    application: Application,
    alice_browser: Visitor,
    owner: Rows,
) -> None:
    bob.token()
    application.pair(alice_browser)
    made = terminal.run(
        "token create alice@example.org --scope read:music --name 'my tracker'"
    ).stdout.strip()
    until = terminal.run(
        "token create alice@example.org --scope 'read:music read:profile' --expires-in 3"
    ).stdout.strip()
    owner.execute(
        "update oauth.grant set last_used_at = '2026-03-01 12:05Z' where name = 'my tracker'"
    )

    lines = terminal.run("token list alice@example.org").stdout.splitlines()

    assert len(lines) == 3
    assert re.fullmatch(
        rf"{UUID}  my tracker +read:music +…{made[-4:]} +{MINUTE}  2026-03-01 12:05Z  never",
        lines[1],
    )
    assert re.fullmatch(
        rf"{UUID}  command line +read:music read:profile +…{until[-4:]} +{MINUTE}  - +{MINUTE}",
        lines[2],
    )


@pytest.mark.checklist(55)
def test_a_revoked_token_is_refused_at_once_and_no_longer_listed(
    terminal: Terminal, alice: Person, status: Opens
) -> None:
    token = terminal.run("token create alice@example.org --scope read:profile")
    grant_id = terminal.table("token list alice@example.org")[0][0]
    before = status(token.stdout.strip())

    first = terminal.run(f"token revoke {grant_id}")
    second = terminal.run(f"token revoke {grant_id}")

    assert before == 200
    assert status(token.stdout.strip()) == 401
    assert first.exit_code == 0
    assert (second.exit_code, second.output) == (1, f"Error: there is no live token {grant_id}\n")
    assert terminal.table("token list alice@example.org") == []


def test_token_revoke_refuses_a_grant_of_an_application(
    terminal: Terminal, alice: Person, application: Application, welcome: Welcome, status: Opens
) -> None:
    pair = application.pair(welcome(alice))
    grant_id = terminal.table(f"grant list {alice.email}")[0][0]

    result = terminal.run(f"token revoke {grant_id}")

    assert result.exit_code == 1
    assert "use 'svc grant revoke'" in result.output
    assert result.output.count("\n") == 1
    assert status(pair["access_token"]) == 200


@pytest.mark.parametrize("words", ["token revoke", "grant revoke"])
def test_a_malformed_id_is_refused(terminal: Terminal, words: str) -> None:
    result = terminal.run(f"{words} everything")

    assert result.exit_code == 2
    assert "is not a valid UUID" in result.output


def test_an_account_has_at_most_a_hundred_live_tokens(
    terminal: Terminal, alice: Person, bob: Person, owner: Rows
) -> None:
    for _ in range(99):
        alice.token("read:music")
    alice.token("read:music", expires="-1 second")
    words = "token create {} --scope read:music"

    last = terminal.run(words.format(alice.email))
    refused = terminal.run(words.format(alice.email))
    others = terminal.run(words.format(bob.email))

    assert (last.exit_code, others.exit_code) == (0, 0)
    assert refused.exit_code == 1
    assert refused.output == (
        "Error: An account can have at most 100 API tokens, and this one has 100. "
        "Revoke one that is not in use.\n"
    )
    assert len(terminal.table(f"token list {alice.email}")) == 100


def test_an_expired_token_is_not_listed(terminal: Terminal, alice: Person) -> None:
    alice.token(expires="-1 second")

    assert terminal.table("token list alice@example.org") == []
    assert terminal.table("grant list alice@example.org") == []


def test_a_tokens_name_cannot_rewrite_the_screen(terminal: Terminal, alice: Person) -> None:
    terminal.run(f"token create {alice.email} --scope read:music --name '\x1b[2Jtracker'")

    for words in ("token list", "grant list"):
        result = terminal.run(f"{words} {alice.email}")
        assert "  [2Jtracker  " in result.stdout
        assert all(letter.isprintable() or letter == "\n" for letter in result.stdout)
