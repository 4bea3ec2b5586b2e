"""The rows that each server's role can reach with SQL of an attacker's own."""

from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from shared import SCHEMA_VERSION, tokens
from tests.conftest import Connect, Person, assign

Rows = psycopg.Connection[Any]

OPEN = (
    "call svc.open_token_session(%s, %s, array['read:activity'], array['http://testserver'],"
    f" p_version => {SCHEMA_VERSION})"
)


@pytest.fixture
def marked(owner: Rows, alice: Person, bob: Person) -> tuple[Person, Person]:
    """Alice and bob, each with one session with their name."""
    for person, name in ((alice, "alice"), (bob, "bob")):
        owner.execute(
            """
            with laptop as (
                insert into activity.device (user_id, name)
                values (%(user_id)s, %(name)s)
                returning user_id, device_id, name
            )
            insert into activity.app_session
                   (user_id, device_id, idempotency_key, app, started_at, ended_at)
            select user_id, device_id, name, name, '2025-06-16 09:00Z', '2025-06-16 10:00Z'
              from laptop
            """,
            {"user_id": person.user_id, "name": name},
        )
    return alice, bob


def open_session(connection: Rows, person: Person) -> None:
    token = tokens.parse(tokens.ACCESS, person.token())
    assert token is not None
    connection.execute(OPEN, [person.user_id, token.hash])


def apps(connection: Rows) -> list[str]:
    return [row[0] for row in connection.execute("select app from activity.app_session")]


@pytest.mark.parametrize("limit_ms", [2147483647, 100_000, 0, -2147483648])
@pytest.mark.parametrize("opens", [True, False])
def test_no_role_lifts_its_own_time_limit(
    connect_as: Connect, alice: Person, limit_ms: int, *, opens: bool
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    reader = connect_as("reader")
    seen = list[str | None]()
    reader.add_notice_handler(lambda notice: seen.append(notice.message_primary))
    cursor = psycopg.ClientCursor(reader)
    if opens:
        lift = cursor.mogrify(
            OPEN.replace(")", ", p_limit_ms => %s)"), [alice.user_id, token.hash, limit_ms]
        )
    else:
        lift = cursor.mogrify("select svc.limit_answer(%s)", [limit_ms])

    # One statement, because the limit holds from the next one on: a millisecond is too short for some.
    with suppress(errors.QueryCanceled), reader.transaction():
        cursor.execute(
            "do $$ begin execute %s; raise info '%%', current_setting('statement_timeout'); end $$",
            [lift],
        )

    assert seen == ["20s" if limit_ms > 0 else "1ms"]


def test_a_session_shows_only_rows_of_its_user(
    connect_as: Connect, marked: tuple[Person, Person]
) -> None:
    alice, _ = marked
    reader = connect_as("reader")

    with reader.transaction():
        open_session(reader, alice)
        inside = apps(reader)
    outside = apps(reader)

    assert inside == ["alice"]
    assert outside == []


@pytest.mark.parametrize("role", ["reader", "ingester"])
@pytest.mark.parametrize("local", [True, False])
def test_settings_without_a_token_show_no_rows(
    connect_as: Connect, marked: tuple[Person, Person], local: bool, role: str
) -> None:
    alice, bob = marked
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    # Bob has a valid token; the forged settings have everything of it but its hash.
    assert bob.token()
    connection = connect_as(role)
    forgeries = [
        {"svc.user_id": str(bob.user_id)},
        {"svc.user_id": str(bob.user_id), "svc.token_hash": "00" * 32},
        {"svc.user_id": str(bob.user_id), "svc.token_hash": token.hash.hex()},
        {"svc.user_id": "", "svc.token_hash": ""},
    ]

    for forgery in forgeries:
        with connection.transaction():
            for name, value in (forgery | {"svc.version": str(SCHEMA_VERSION)}).items():
                assign(connection, name, value, is_local=local)
            seen = connection.execute("select name from activity.device").fetchall()

        assert seen == [], forgery


def test_a_leftover_setting_shows_no_rows_to_the_next_user(
    connect_as: Connect, marked: tuple[Person, Person]
) -> None:
    alice, bob = marked
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None
    reader = connect_as("reader")
    assign(reader, "svc.user_id", str(alice.user_id), is_local=False)
    assign(reader, "svc.token_hash", token.hash.hex(), is_local=False)

    with reader.transaction():
        open_session(reader, bob)
        seen = apps(reader)

    assert seen == ["bob"]


def test_no_setting_of_the_reader_shows_a_row(
    connect_as: Connect, marked: tuple[Person, Person]
) -> None:
    reader = connect_as("reader")
    choices = reader.execute(
        """
        select name,
               case vartype
                    when 'bool' then array['on', 'off']
                    when 'enum' then enumvals
                    when 'string' then array['', 'svc_owner', 'postgres', 'activity']
                    else array[min_val, max_val]
               end
          from pg_settings
         where context = 'user'
        """
    ).fetchall()
    flipped = 0

    for name, values in choices:
        for value in values:
            try:
                with reader.transaction(force_rollback=True):
                    assign(reader, name, value)
                    flipped += 1
                    assert apps(reader) == [], (name, value)
            except psycopg.Error:
                # Refusing the value, or the query under it (row_security = off), is just as good.
                continue

    assert marked
    assert flipped > 200


def test_a_revoked_token_closes_its_session_for_the_policies_too(
    connect_as: Connect, marked: tuple[Person, Person], owner: Rows
) -> None:
    alice, _ = marked
    reader = connect_as("reader")

    with reader.transaction():
        open_session(reader, alice)
        before = apps(reader)
        owner.execute("update oauth.grant set revoked_at = now()")
        after = apps(reader)

    assert before == ["alice"]
    assert after == []


FORBIDDEN = {
    "reader": [
        "select * from oauth.access_token",
        "select * from oauth.refresh_token",
        "select * from oauth.live_access_token",
        "select * from identity.password",
        "select * from identity.session",
        "select * from profile.connection",
        "select settings from profile.connection",
        "select * from profile.integration_key",
        "select * from profile.connection_secret",
        "insert into activity.device (user_id, name) values (gen_random_uuid(), 'x')",
        "update activity.app_session set app = 'x'",
        "delete from activity.app_session",
        "update identity.user set is_admin = true",
        "create table activity.mine ()",
        "create table public.mine ()",
        "select svc.secure_user_table('activity.device')",
        "alter table activity.app_session disable row level security",
        "drop policy own_rows on activity.app_session",
    ],
    "ingester": [
        "select * from activity.app_session",
        "select * from oauth.access_token",
        "select * from identity.user",
        "select project from activity.coding_session",
        "select started_at from activity.app_session",
        "update activity.app_session set app = 'x'",
        "update activity.app_session set idempotency_key = 'x'",
        "delete from activity.device",
        "delete from activity.summary_due",
        "delete from activity.rollup_due",
        "insert into activity.label (user_id, app) values (gen_random_uuid(), 'x')",
        "update activity.device set name = 'x'",
        "select * from profile.upload",
    ],
    "importer": [
        "select * from activity.app_session",
        "select * from oauth.access_token",
        "select * from identity.user",
        "select * from profile.connection",
        "select * from profile.integration_key",
        "select * from profile.connection_secret",
        "insert into profile.import (user_id, file_name, file_size, digest)"
        " values (gen_random_uuid(), 'x', 0, '')",
        "update profile.import set key_hash = null",
        "update profile.import set status = 'running'",
        "delete from music.listen",
        "delete from profile.import_part",
        "update activity.app_session set app = 'x'",
        "call svc.open_token_session(gen_random_uuid(), '', '{}', '{}')",
        "call svc.open_job(gen_random_uuid())",
        "create table public.mine ()",
    ],
    "authserver": [
        "select * from activity.app_session",
        "select * from activity.device",
        "insert into activity.device (user_id, name) values (gen_random_uuid(), 'x')",
        "call svc.open_token_session(gen_random_uuid(), '', '{}', '{}')",
        "update identity.security_event set event = 'signed_in'",
        "delete from identity.security_event",
        "truncate identity.security_event",
        "delete from identity.user",
        "select from identity.departed_user",
        "insert into identity.departed_user (user_id) values (gen_random_uuid())",
        "select svc.end_account(gen_random_uuid(), null, null)",
        "select * from activity.category_rule",
        "insert into activity.category_score values (gen_random_uuid(), 'x', 1)",
        "select svc.insert_rule(gen_random_uuid(), 'app', 'exact', 'x', 'x')",
        "select svc.delete_rule(gen_random_uuid(), gen_random_uuid())",
        "select svc.recent_time(gen_random_uuid())",
        "select svc.recent_categories(gen_random_uuid())",
        "select svc.scores_of(gen_random_uuid())",
        "select svc.set_score(gen_random_uuid(), 'x', 1)",
        "select svc.remove_import(gen_random_uuid(), gen_random_uuid())",
        "select svc.remove_undone(gen_random_uuid(), 28)",
        "select svc.remove_old_sessions(gen_random_uuid(), 1, 46)",
        "select * from profile.upload",
    ],
    "worker": [
        "select * from identity.password",
        "select * from oauth.access_token",
        "select email from identity.user",
        "select * from health.sample",
        "delete from activity.app_session",
        "update activity.daily_summary set text = 'x'",
        "insert into activity.summary_due (user_id, date) values (gen_random_uuid(), now())",
        "update activity.app_time set owned_ms = 0",
        "select svc.remove_import(gen_random_uuid(), gen_random_uuid())",
        "insert into activity.rollup_due (user_id, date) values (gen_random_uuid(), now())",
        "update profile.upload set ticket_hash = ''",
    ],
}


@pytest.mark.parametrize(
    ("role", "statement"),
    [(role, statement) for role, statements in FORBIDDEN.items() for statement in statements],
)
def test_a_role_may_not_run_the_statement(
    connect_as: Connect, role: str, statement: sql.SQL
) -> None:
    connection = connect_as(role)
    connection.execute("set default_transaction_read_only = off")

    with pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement)


@pytest.mark.parametrize("role", ["reader", "ingester", "importer", "authserver", "worker"])
@pytest.mark.parametrize("other", ["svc_owner", "svc_reader", "svc_ingester", "svc_authserver"])
def test_no_role_can_become_another(connect_as: Connect, role: str, other: str) -> None:
    connection = connect_as(role)
    if other == f"svc_{role}":
        other = "svc_worker" if role != "worker" else "svc_owner"

    with pytest.raises(errors.InsufficientPrivilege):
        connection.execute(sql.SQL("set role {}").format(sql.Identifier(other)))


def test_runtime_roles_have_no_attributes_and_own_nothing(db: Rows) -> None:
    strong = db.execute(
        """
        select rolname
          from pg_roles
         where rolname like 'svc\\_%'
           and (rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication)
        """
    ).fetchall()
    owned = db.execute(
        """
        select relname
          from pg_class
          join pg_roles on pg_roles.oid = relowner
         where rolname like 'svc\\_%' and rolname <> 'svc_owner'
        """
    ).fetchall()

    assert strong == []
    assert owned == []


def test_an_ingester_cannot_write_into_another_account(
    connect_as: Connect, marked: tuple[Person, Person]
) -> None:
    alice, bob = marked
    ingester = connect_as("ingester")
    token = tokens.parse(tokens.ACCESS, alice.token())
    assert token is not None

    with ingester.transaction(force_rollback=True):
        ingester.execute(
            "call svc.open_token_session(%s, %s, array['ingest:app_sessions'], '{}', p_version => %s)",
            [alice.user_id, token.hash, SCHEMA_VERSION],
        )
        for statement in (
            "insert into activity.device (user_id, name) values (%s, 'stolen')",
            """
            insert into activity.app_session
                   (user_id, idempotency_key, device_id, app, started_at, ended_at)
            values (%s, 'k', gen_random_uuid(), 'a', now(), now())
            """,
        ):
            with (
                pytest.raises(errors.InsufficientPrivilege, match="row-level security"),
                ingester.transaction(),
            ):
                ingester.execute(statement, [bob.user_id])


def test_every_table_of_user_data_is_secured(db: Rows) -> None:
    tables = db.execute(
        """
        select table_class.oid::regclass::text,
               relrowsecurity,
               (
                   select pg_get_expr(polqual, polrelid) || ' | ' || pg_get_expr(polwithcheck, polrelid)
                     from pg_policy
                    where polrelid = table_class.oid
                      and polname = 'own_rows'
                      and polcmd = '*'
               )
          from pg_class as table_class
         where relkind in ('r', 'p')
           and exists (
                   select from pg_attribute
                    where attrelid = table_class.oid
                      and attname = 'user_id'
               )
           -- These are the authorization server's, which no token opens.
           and (
                   relnamespace not in ('identity'::regnamespace, 'oauth'::regnamespace)
                   or table_class.oid = 'identity.user'::regclass
               )
        """
    ).fetchall()

    own = "(user_id = ( SELECT svc.session_user_id() AS session_user_id))"
    assert {name for name, _, _ in tables} >= {"activity.device", 'identity."user"'}
    assert [row for row in tables if row[1:] != (True, f"{own} | {own}")] == []


# Every right of every role that serves requests; a new line here is a decision.
PRIVILEGES = {
    "svc_authserver": {
        "identity.invitation": "DELETE INSERT SELECT UPDATE",
        "identity.passkey": "DELETE INSERT SELECT UPDATE",
        "identity.password": "DELETE INSERT SELECT UPDATE",
        "identity.password_reset": "DELETE INSERT SELECT UPDATE",
        "identity.provider_identity": "DELETE INSERT SELECT UPDATE",
        "identity.provider_logout": "DELETE INSERT SELECT UPDATE",
        "identity.provider_sign_in": "DELETE INSERT SELECT UPDATE",
        "identity.security_event": "INSERT SELECT",
        "identity.session": "DELETE INSERT SELECT UPDATE",
        "identity.spent_challenge": "DELETE INSERT SELECT UPDATE",
        "identity.throttle": "DELETE INSERT SELECT UPDATE",
        "identity.user": "INSERT SELECT UPDATE",
        "identity.way_in": "SELECT",
        "oauth.access_token": "DELETE INSERT SELECT UPDATE",
        "oauth.authorization_code": "DELETE INSERT SELECT UPDATE",
        "oauth.authorization_request": "DELETE INSERT SELECT UPDATE",
        "oauth.client": "DELETE INSERT SELECT UPDATE",
        "oauth.device_authorization": "DELETE INSERT SELECT UPDATE",
        "oauth.grant": "DELETE INSERT SELECT UPDATE",
        "oauth.live_access_token": "SELECT",
        "oauth.live_grant": "SELECT",
        "oauth.refresh_retry": "DELETE INSERT SELECT UPDATE(expires_at)",
        "oauth.refresh_token": "DELETE INSERT SELECT UPDATE",
    },
    "svc_ingester": {
        "activity.app_session": "INSERT SELECT(idempotency_key)",
        "activity.coding_session": "INSERT SELECT(idempotency_key)",
        "activity.device": (
            "INSERT SELECT(device_id) SELECT(name) SELECT(platform) SELECT(user_id) UPDATE(platform)"
        ),
        "activity.device_stream": (
            "INSERT SELECT UPDATE(event_count) UPDATE(first_event_at) UPDATE(last_event_at)"
            " UPDATE(last_sync_at) UPDATE(source)"
        ),
        "activity.raw_limit": "SELECT",
        "activity.rollup_due": (
            "INSERT SELECT(date) SELECT(user_id) UPDATE(is_left_raw) UPDATE(marked_at)"
        ),
        "activity.summary_due": (
            "INSERT SELECT(date) SELECT(marked_at) SELECT(user_id) UPDATE(marked_at)"
        ),
        "svc.turn": "INSERT SELECT UPDATE(due_at)",
    },
    "svc_importer": {
        "activity.app_session": (
            "INSERT SELECT(ended_at) SELECT(idempotency_key) SELECT(import_id) SELECT(user_id)"
            " UPDATE(ended_at)"
        ),
        "activity.coding_session": (
            "INSERT SELECT(ended_at) SELECT(idempotency_key) SELECT(import_id)"
            " SELECT(lines_added) SELECT(lines_removed) SELECT(user_id)"
            " UPDATE(ended_at) UPDATE(lines_added) UPDATE(lines_removed)"
        ),
        "activity.device": (
            "INSERT SELECT(device_id) SELECT(name) SELECT(platform) SELECT(user_id) UPDATE(platform)"
        ),
        "activity.device_stream": (
            "INSERT(device_id) INSERT(event_count) INSERT(first_event_at) INSERT(last_event_at)"
            " INSERT(stream) INSERT(user_id) SELECT UPDATE(event_count) UPDATE(first_event_at)"
            " UPDATE(last_event_at)"
        ),
        "activity.raw_limit": "SELECT",
        "activity.rollup_due": (
            "INSERT SELECT(date) SELECT(user_id) UPDATE(is_left_raw) UPDATE(marked_at)"
        ),
        "activity.screen_time": "INSERT SELECT UPDATE",
        "activity.summary_due": (
            "INSERT SELECT(date) SELECT(marked_at) SELECT(user_id) UPDATE(marked_at)"
        ),
        "code.event": "INSERT SELECT UPDATE",
        "content.calendar": "INSERT SELECT UPDATE",
        "content.calendar_event": "INSERT SELECT UPDATE",
        "content.play": "INSERT SELECT UPDATE",
        "content.recording": "INSERT SELECT UPDATE",
        "content.title": "INSERT SELECT UPDATE",
        "content.title_genre": "INSERT SELECT UPDATE",
        "health.bucket": "INSERT SELECT UPDATE",
        "health.cycle": "INSERT SELECT UPDATE",
        "health.message": "INSERT SELECT",
        "health.sleep_stage": "INSERT SELECT",
        "health.heart_rate": "INSERT SELECT UPDATE",
        "health.metric": "INSERT SELECT UPDATE",
        "health.recovery": "INSERT SELECT UPDATE",
        "health.sample": "INSERT SELECT UPDATE",
        "health.sleep": "INSERT SELECT UPDATE",
        "health.source": "INSERT SELECT UPDATE",
        "location.derivation_due": (
            "INSERT SELECT(date) SELECT(marked_at) SELECT(user_id) UPDATE(marked_at)"
        ),
        "location.device": "INSERT SELECT UPDATE",
        "location.event": "INSERT SELECT UPDATE",
        "location.place": "INSERT SELECT UPDATE",
        "location.point": "INSERT SELECT UPDATE",
        "music.listen": "INSERT SELECT UPDATE",
        "profile.import": "SELECT UPDATE(ignored) UPDATE(ignored_names)",
        "profile.import_part": "INSERT SELECT UPDATE",
        "profile.import_refusal": "INSERT SELECT UPDATE",
        "svc.turn": "INSERT SELECT UPDATE(due_at)",
    },
    "svc_reader": {
        "activity.app_session": "SELECT",
        "activity.app_time": "SELECT",
        "activity.app_timeline": "SELECT",
        "activity.attention": "SELECT",
        "activity.beat": "SELECT",
        "activity.category_rule": "SELECT",
        "activity.category_score": "SELECT",
        "activity.coding_session": "SELECT",
        "activity.coding_time": "SELECT",
        "activity.daily_summary": "SELECT",
        "activity.device": "SELECT",
        "activity.device_stream": "SELECT",
        "activity.goal": "SELECT",
        "activity.label": "SELECT",
        "activity.raw_limit": "SELECT",
        "activity.removed_day": "SELECT",
        "activity.rollup_due": "SELECT",
        "activity.screen_time": "SELECT",
        "activity.summary_due": "SELECT",
        "code.event": "SELECT",
        "content.calendar": "SELECT",
        "content.calendar_event": "SELECT",
        "content.insight": "SELECT",
        "content.play": "SELECT",
        "content.recording": "SELECT",
        "content.title": "SELECT",
        "content.title_genre": "SELECT",
        "health.cycle": "SELECT",
        "health.heart_rate": "SELECT",
        "health.metric": "SELECT",
        "health.recovery": "SELECT",
        "health.sample": "SELECT",
        "health.sleep": "SELECT",
        "health.source": "SELECT",
        "identity.user": "SELECT",
        "location.device": "SELECT",
        "location.event": "SELECT",
        "location.place": "SELECT",
        "location.point": "SELECT",
        "music.listen": "SELECT",
        "profile.connection": (
            "SELECT(connection_id) SELECT(created_at) SELECT(data) SELECT(failing_since)"
            " SELECT(first_record_at) SELECT(import_id) SELECT(is_refused) SELECT(kind)"
            " SELECT(last_pull_at) SELECT(last_record_at) SELECT(name) SELECT(paused_at)"
            " SELECT(problem) SELECT(record_count) SELECT(stopped_at) SELECT(user_id)"
        ),
        "profile.import": "SELECT",
        "profile.import_part": "SELECT",
        "profile.import_refusal": "SELECT",
        "profile.integration": "SELECT",
        "profile.membership": "SELECT",
        "profile.organization": "SELECT",
        "profile.subscription": "SELECT",
        "profile.team": "SELECT",
        "profile.team_membership": "SELECT",
        "reference.category": "SELECT",
        "reference.category_rule": "SELECT",
        "svc.schema_version": "SELECT",
    },
    "svc_worker": {
        "activity.app_session": "SELECT",
        "activity.app_time": "DELETE INSERT SELECT",
        "activity.app_timeline": "DELETE INSERT SELECT",
        "activity.attention": (
            "DELETE INSERT SELECT UPDATE(away) UPDATE(detour_away) UPDATE(detour_count)"
            " UPDATE(detour_label) UPDATE(detour_last) UPDATE(detour_ms) UPDATE(detour_returned)"
            " UPDATE(rules) UPDATE(streak_apps) UPDATE(streak_breaker_app)"
            " UPDATE(streak_breaker_category) UPDATE(streak_broken) UPDATE(streak_ended)"
            " UPDATE(streak_gap) UPDATE(streak_productive) UPDATE(streak_reason)"
            " UPDATE(streak_started) UPDATE(streak_top_app) UPDATE(streak_top_category)"
        ),
        "activity.attention_due": "DELETE INSERT SELECT UPDATE(marked_at)",
        "activity.category_rule": "SELECT",
        "activity.category_score": "SELECT",
        "activity.coding_session": "SELECT",
        "activity.coding_time": "DELETE INSERT SELECT",
        "activity.daily_summary": "DELETE INSERT SELECT",
        "activity.device": "SELECT",
        "activity.label": "DELETE INSERT SELECT",
        "activity.raw_limit": "SELECT",
        "activity.removed_day": "SELECT",
        "activity.rollup_due": "DELETE INSERT SELECT UPDATE(is_left_raw) UPDATE(marked_at)",
        "activity.summary_due": "DELETE SELECT UPDATE(marked_at)",
        "health.sleep": (
            "SELECT(ended_at) SELECT(is_offset_derived) SELECT(sleep_id) SELECT(user_id)"
            " SELECT(utc_offset) UPDATE(utc_offset)"
        ),
        "identity.user": "SELECT(timezone) SELECT(user_id)",
        "location.derivation_due": "DELETE SELECT UPDATE(marked_at)",
        "location.event": "DELETE INSERT SELECT UPDATE(place_id)",
        "location.place": "DELETE INSERT SELECT",
        "location.point": "SELECT UPDATE(timezone)",
        "profile.connection": (
            "SELECT UPDATE(failing_since) UPDATE(failures) UPDATE(first_record_at)"
            " UPDATE(is_refused) UPDATE(last_pull_at) UPDATE(last_record_at) UPDATE(next_pull_at)"
            " UPDATE(problem) UPDATE(record_count) UPDATE(state)"
        ),
        "profile.connection_secret": "SELECT",
        "profile.import": (
            "INSERT SELECT UPDATE(finished_at) UPDATE(key_hash) UPDATE(problem) UPDATE(status)"
        ),
        "profile.import_part": "SELECT",
        "profile.import_refusal": "SELECT",
        "profile.upload": (
            "SELECT UPDATE(ended_at) UPDATE(expires_at) UPDATE(import_id) UPDATE(problem)"
            " UPDATE(status)"
        ),
        "reference.category": "SELECT",
        "reference.category_rule": "SELECT",
    },
}


def test_every_role_has_the_rights_that_it_needs_and_no_other(db: Rows) -> None:
    rows = db.execute(
        """
        with held as (
            select pg_get_userbyid(grantee) as role,
                   nspname || '.' || relname as name,
                   privilege_type as privilege
              from pg_class
              join pg_namespace on pg_namespace.oid = relnamespace
             cross join lateral aclexplode(relacl)
             union all
            select pg_get_userbyid(grantee),
                   nspname || '.' || relname,
                   privilege_type || '(' || attname || ')'
              from pg_attribute
              join pg_class on pg_class.oid = attrelid
              join pg_namespace on pg_namespace.oid = relnamespace
             cross join lateral aclexplode(attacl)
        )
        select role,
               name,
               string_agg(privilege, ' ' order by privilege)
          from held
         where role in ('svc_authserver', 'svc_ingester', 'svc_importer', 'svc_reader', 'svc_worker')
         group by role,
                  name
        """
    ).fetchall()

    held: dict[str, dict[str, str]] = {role: {} for role in PRIVILEGES}
    for role, name, privileges in rows:
        held[role][name] = privileges
    assert held == PRIVILEGES


FUNCTIONS = {
    "svc_reader": {
        "await_replay",
        "category_of_site",
        "check_version",
        "connection_state",
        "cover",
        "cursor",
        "day_start",
        "days",
        "degrees",
        "distance_m",
        "duration_ms",
        "focus_streaks",
        "hours",
        "instant",
        "limit_answer",
        "log_position",
        "matches",
        "open_reading_key",
        "open_session",
        "open_token_session",
        "owned_parts",
        "owned_segments",
        "pending_days",
        "percent",
        "productivity",
        "rounded",
        "session_token",
        "session_user_id",
        "switches",
    },
    "svc_ingester": {
        "advance_upload",
        "begin_upload",
        "find_upload",
        "lock_new_devices",
        "make_due",
        "open_session",
        "open_token_session",
        "release_upload",
        "session_user_id",
    },
    "svc_importer": {
        "check_version",
        "derived_sessions",
        "forget_health_messages",
        "import_user_id",
        "keep_beats",
        "kept_beats",
        "lock_connection",
        "lock_new_devices",
        "make_due",
        "note_delivery",
        "open_import",
        "open_receiver",
        "remove_joined_sleeps",
        "remove_calendar_events",
        "replace_derived_sessions",
    },
    "svc_authserver": {
        "add_category_rule",
        "add_connection",
        "cancel_upload",
        "category_rules",
        "category_scores",
        "check_version",
        "connections",
        "create_upload",
        "delete_account",
        "devices",
        "end_connection",
        "export_rows",
        "forget_beats",
        "forget_departed",
        "forget_health",
        "forget_security_events",
        "goals",
        "imports",
        "limit_page",
        "lock_provider_session",
        "mark_all_summaries",
        "move_category_rule",
        "pause_connection",
        "change_connection_settings",
        "preview_category_rule",
        "pull_now",
        "put_goal",
        "remove_category_rule",
        "remove_goal",
        "rename_device",
        "renew_connection_key",
        "renew_connection_secrets",
        "renew_upload",
        "replace_category_rule",
        "request_undo",
        "retire_device",
        "score_category",
        "switch_goal",
        "switched_off_rules",
        "try_rules",
        "uncategorized_time",
        "uploads",
    },
    "svc_worker": {
        "add_turns",
        "category_of_site",
        "check_version",
        "claim_turn",
        "cover",
        "day_start",
        "days",
        "duration_ms",
        "expire_uploads",
        "finish_turn",
        "focus_streaks",
        "give_back_turn",
        "instant",
        "is_work_overdue",
        "job_user_id",
        "mark_all_days",
        "matches",
        "note_upload_directory",
        "note_uses",
        "open_job",
        "owned_parts",
        "owned_segments",
        "people_with_derivation_due",
        "people_with_old_sessions",
        "people_with_rollups_due",
        "people_with_summaries_due",
        "put_off_turn",
        "remove_old_sessions",
        "remove_undone",
        "renew_turn",
        "switches",
        "unneeded_uploads",
        "work_waiting",
    },
}


@pytest.mark.parametrize("role", sorted(FUNCTIONS))
def test_every_role_may_call_exactly_the_functions_that_it_needs(db: Rows, role: str) -> None:
    callable_by_role = db.execute(
        """
        select proname
          from pg_proc
         where pronamespace = 'svc'::regnamespace
           and has_function_privilege(%s, oid, 'execute')
        """,
        [role],
    ).fetchall()

    assert {name for (name,) in callable_by_role} == FUNCTIONS[role]


def test_public_may_call_no_function_of_the_service(db: Rows) -> None:
    of_public = db.execute(
        "select proname"
        "  from pg_proc"
        " where pronamespace = 'svc'::regnamespace"
        "   and has_function_privilege('public', oid, 'execute')"
    ).fetchall()

    assert of_public == []


def test_every_key_of_user_data_begins_with_the_user(db: Rows) -> None:
    keys = db.execute(
        """
        select indexrelid::regclass::text,
               (
                   select attname
                     from pg_attribute
                    where attrelid = indrelid
                      and attnum = indkey[0]
               )
          from pg_index
          join pg_class on pg_class.oid = indrelid
         where relnamespace in ('activity'::regnamespace, 'oauth'::regnamespace)
           and indisunique
           and relname not in ('client', 'authorization_request', 'device_authorization')
        """
    ).fetchall()

    assert keys
    assert [name for name, first in keys if first != "user_id"] == []
