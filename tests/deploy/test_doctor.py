"""``svc doctor`` from inside, on a good deployment and on broken ones."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest

from deploy.doctor import checks, inside
from deploy.doctor.checks import Outcome, Result
from deploy.doctor.deployment import Deployment
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared import sealing, settings
from shared.settings import Settings
from tests import processes
from tests.conftest import person
from tests.deploy.conftest import copied, reachable_directory
from tests.deploy.runner import SELF

Rows = psycopg.Connection[Any]
MORE_THAN_ANY_DISK: Final = 10**9 - 1


@pytest.fixture(scope="module")
def good(prepared: Path) -> Iterator[Settings]:
    """A deployment with a cluster of its own, whose roles these tests change, and a server."""
    (port,) = processes.free_ports(1)
    with reachable_directory() as parent:
        data_dir = copied(prepared, parent / "data")
        with EmbeddedPostgres(data_dir) as server:
            chosen = Settings(
                auth_url=f"http://localhost:{port}",
                data_dir=data_dir,
                database_url=server.url,
                storage_dir=server.cluster,
                storage_reserve_mib=1,
                jobs=False,
            )
            with processes.running(
                ["auth", "serve"],
                chosen,
                processes.role_urls(chosen, processes.AUTH_ROLES),
                f"{chosen.auth_url}/readyz",
                parent / "auth.log",
            ):
                yield chosen


@contextmanager
def changed(good: Settings, change: str, undo: str) -> Iterator[None]:
    """Run a statement as the superuser, and another one at the end of the block."""
    with psycopg.connect(good.database_url or "", autocommit=True) as owner:
        owner.execute(change.encode())
        try:
            yield
        finally:
            owner.execute(undo.encode())


def examined(chosen: Settings, name: str = "") -> list[Result]:
    """Return the results of the check of this name, by default of all."""
    listed = [check for check in inside.CHECKS if name in ("", check.name)]
    assert listed
    return list(checks.run(listed, Deployment(chosen)))


def failure(chosen: Settings, name: str) -> tuple[str, str]:
    """Return the text and the cure of the one failure of a check."""
    (result,) = [each for each in examined(chosen, name) if each.outcome is Outcome.FAILED]
    return result.text, result.cure


def test_a_good_deployment_passes_every_check(good: Settings) -> None:
    variables = settings.environment(replace(good, database_url=None), {})
    completed = SELF.run(variables, "doctor", "--json")

    document = json.loads(completed.stdout)
    assert completed.returncode == 0, document
    assert (document["failed"], document["unknown"]) == (0, 0)
    assert {each["check"] for each in document["results"]} == {
        "settings",
        *(check.name for check in inside.CHECKS),
    }
    # No replica and no backups are set up here, and no connection has a secret.
    assert [each["check"] for each in document["results"] if each["outcome"] != "passed"] == [
        "replica",
        "backups",
        "sealing keys",
    ]


def test_a_table_without_row_level_security(good: Settings) -> None:
    with changed(
        good,
        "alter table activity.device disable row level security",
        "alter table activity.device enable row level security",
    ):
        completed = SELF.run(settings.environment(replace(good, database_url=None), {}), "doctor")
        text, cure = failure(good, "row-level security")

    assert completed.returncode == 1
    assert "FAILED        row-level security: row-level security is off for" in completed.stdout
    assert "1 failed" in completed.stdout
    assert (
        text
        == "row-level security is off for activity.device: each person can read everybody's rows"
    )
    assert (
        cure == "As the owner ('svc psql'): alter table activity.device enable row level security;"
    )
    assert failures(good, "row-level security") == []


def failures(chosen: Settings, name: str) -> list[Result]:
    """Return the failures of a check."""
    return [each for each in examined(chosen, name) if each.outcome is Outcome.FAILED]


def test_a_policy_that_opens_a_table(good: Settings) -> None:
    with changed(
        good,
        "create policy oops on health.sample to svc_reader using (true)",
        "drop policy oops on health.sample",
    ):
        text, cure = failure(good, "row-level security")

    assert text == "the policy oops lets everybody reach all rows of health.sample"
    assert cure == "As the owner ('svc psql'): drop policy oops on health.sample;"


def test_a_policy_that_lets_more_through_than_its_own_rows(good: Settings) -> None:
    own = "user_id = (select svc.session_user_id())"
    with changed(
        good,
        f"alter policy own_rows on activity.goal using ({own} or metric = 'focus_ms')",
        f"alter policy own_rows on activity.goal using ({own})",
    ):
        text, _ = failure(good, "row-level security")

    assert text == "activity.goal lacks the policy own_rows"
    assert failures(good, "row-level security") == []


def test_a_table_of_several_people_without_row_level_security(good: Settings) -> None:
    with changed(
        good,
        "alter table profile.team disable row level security",
        "alter table profile.team enable row level security",
    ):
        text, _ = failure(good, "row-level security")

    assert text.startswith("row-level security is off for profile.team:")


def test_a_policy_that_is_missing(good: Settings) -> None:
    with psycopg.connect(good.database_url or "", autocommit=True) as owner:
        owner.execute("drop policy own_rows on health.message")
        text, cure = failure(good, "row-level security")
        owner.execute("delete from svc.applied_file where name = 'policies.sql'")
        migrate(good, lambda _: None)
        readable = owner.execute(
            "select has_table_privilege('svc_reader', 'health.message', 'select')"
        ).fetchone()

    assert text == "health.message lacks the policy own_rows"
    assert cure == (
        "As the owner ('svc psql'): delete from svc.applied_file where name = 'policies.sql'; and run"
        " 'svc migrate' of this version, which then writes all policies again."
    )
    assert failures(good, "row-level security") == []
    # No reader sees these rows, not even those of its person.
    assert readable == (False,)


@pytest.mark.parametrize(
    ("change", "undo", "text", "cure"),
    [
        (
            "alter role svc_reader bypassrls",
            "alter role svc_reader nobypassrls",
            "svc_reader has bypassrls: it passes by the rules that keep people apart",
            "As a superuser: alter role svc_reader nobypassrls;",
        ),
        (
            "alter role svc_worker superuser",
            "alter role svc_worker nosuperuser",
            "svc_worker has super: it passes by the rules that keep people apart",
            "As a superuser: alter role svc_worker nosuperuser;",
        ),
        (
            "grant svc_owner to svc_ingester",
            "revoke svc_owner from svc_ingester",
            "svc_ingester is a member of svc_owner, and has its rights",
            "As a superuser: revoke svc_owner from svc_ingester;",
        ),
        (
            "alter table music.listen owner to svc_importer",
            "alter table music.listen owner to svc_owner",
            "svc_importer owns music.listen, and can change or open it",
            "As a superuser: give it to svc_owner (alter ... owner to svc_owner).",
        ),
    ],
    ids=["bypassrls", "superuser", "member", "owner"],
)
def test_a_role_that_may_too_much(
    good: Settings, change: str, undo: str, text: str, cure: str
) -> None:
    with changed(good, change, undo):
        assert failure(good, "roles") == (text, cure)


@pytest.mark.parametrize(
    ("change", "undo", "text", "cure"),
    [
        (
            "update svc.schema_version set version = version - 1",
            "update svc.schema_version set version = version + 1",
            "the schema is too old for this version of the code",
            "Run 'svc migrate' of this version.",
        ),
        (
            "update svc.schema_version set oldest_code = oldest_code + 1000, version = version + 1000",
            "update svc.schema_version set oldest_code = oldest_code - 1000, version = version - 1000",
            "is too old for the schema",
            "Run the version of svc that migrated the database last.",
        ),
    ],
    ids=["schema", "code"],
)
def test_a_schema_and_code_of_versions_that_do_not_fit(
    good: Settings, change: str, undo: str, text: str, cure: str
) -> None:
    with changed(good, change, undo):
        failed, named = failure(good, "schema")

    assert text in failed
    assert named == cure


def test_a_worker_that_stopped_hours_ago(good: Settings) -> None:
    with changed(
        good,
        "with alice as ("
        "    insert into identity.user (email) values ('alice@example.org') returning user_id"
        ")"
        " insert into activity.rollup_due (user_id, date, marked_at)"
        " select user_id, day, now() - interval '5 hours'"
        "   from alice, generate_series(date '2026-01-01', '2026-01-03', '1 day') as day",
        "delete from activity.rollup_due; delete from identity.user",
    ):
        text, cure = failure(good, "jobs")

    assert text == "days of 1 people wait for rollups, the oldest for 5 hours"
    assert (
        cure == "Start a worker ('svc resource work'), or a second one if the first keeps working."
    )


def test_turns_that_wait_and_turns_that_fail(good: Settings) -> None:
    with changed(
        good,
        "insert into svc.turn (user_id, kind, due_at, attempts)"
        " values (gen_random_uuid(), 'import', now() - interval '3 hours', 0),"
        "        (gen_random_uuid(), 'pull', now() + interval '1 hour', 7)",
        "delete from svc.turn",
    ):
        results = failures(good, "jobs")

    assert [(each.text, each.cure) for each in results] == [
        (
            "1 turns wait, the first for 3 hours",
            "Start a worker ('svc resource work'), and read its log.",
        ),
        (
            "1 turns have failed 5 times or more",
            "Read the worker's log for lines with 'failed:', which have the kind and the reason.",
        ),
    ]


@pytest.mark.parametrize(
    ("years", "kept"), [(None, "all years are kept"), (3, "3 years are kept"), (2, None)]
)
def test_months_that_are_closed_by_a_worker_with_a_smaller_number_of_years(
    good: Settings, years: int | None, kept: str | None
) -> None:
    with changed(
        good,
        "with alice as (insert into identity.user (email)"
        "               values ('alice@example.org') returning user_id)"
        " insert into activity.raw_limit (user_id, closed_before)"
        " select user_id, svc.raw_limit_day('UTC', 2) from alice",
        "delete from identity.user",
    ):
        results = failures(replace(good, keep_raw_years=years), "old years")

    assert [each.text for each in results] == [
        f"{text} by SVC_KEEP_RAW_YEARS here, and new sessions of such time are refused to 1 people"
        for text in [kept]
        if text
    ]


def test_commits_that_a_crash_can_lose(good: Settings) -> None:
    with changed(
        good,
        "alter database svc set synchronous_commit = off",
        "alter database svc reset synchronous_commit",
    ):
        text, cure = failure(good, "database settings")

    assert text == (
        "synchronous_commit is off, so a crash can lose what was accepted, or damage the database"
    )
    assert cure == "Set synchronous_commit to on in postgresql.conf, and reload the server."


def test_a_login_that_does_not_work(good: Settings) -> None:
    wrong = {"ingester": "postgresql://svc_ingester:wrong@localhost:1/svc"}

    text, cure = failure(replace(good, role_urls=wrong), "database logins")

    assert text.startswith("svc_ingester cannot log in: ")
    assert cure == (
        "Check that the database runs and the login is right; 'svc migrate' sets passwords again."
    )


def test_a_server_that_logs_in_as_the_owner(good: Settings) -> None:
    strong = replace(good, role_urls={"reader": good.database_url or ""})

    text, cure = failure(strong, "database logins")

    assert text == "the login of reader is postgres, and not svc_reader"
    assert cure == "Give SVC_READER_DATABASE_URL the login svc_reader, which has no other rights."


def test_a_secret_whose_key_is_lost(good: Settings) -> None:
    lost, present = sealing.new_private_key(), sealing.new_private_key()
    chosen = replace(good, sealing_private_keys=(present,))
    with psycopg.connect(good.database_url or "", autocommit=True) as owner:
        alice = person(owner, "alice")
        owner.execute("set session_replication_role = replica")
        owner.execute(
            "insert into profile.connection_secret (user_id, connection_id, field, key_id, sealed)"
            " values (%s, %s, 'address', %s, %s)",
            [
                alice.user_id,
                UUID(int=1),
                sealing.key_id_of(sealing.public_key_of(lost)),
                b"x" * 100,
            ],
        )
        try:
            text, cure = failure(chosen, "sealing keys")
            kept = failures(replace(good, sealing_private_keys=(present, lost)), "sealing keys")
            (without,) = examined(good, "sealing keys")
        finally:
            owner.execute("delete from profile.connection_secret")
            owner.execute("delete from identity.user")

    assert text.startswith("no key opens 1 secrets of connections, sealed to ")
    assert cure.startswith("Restore the private key from its backup")
    assert kept == []
    # A check that cannot be made does not pass.
    assert without.outcome is Outcome.UNKNOWN
    assert "SVC_SEALING_PRIVATE_KEYS" in without.cure


def test_keys_of_cookies_that_others_can_read(good: Settings) -> None:
    path = good.data_dir / "secrets.json"
    path.chmod(0o644)
    try:
        text, cure = failure(good, "keys of cookies")
    finally:
        path.chmod(0o600)

    assert text == f"{path} has mode 0644, and others of this machine can read it"
    assert cure == f"Run 'chmod 600 {path}', and rotate the keys in it."


def test_backups_that_nobody_wrote_for_days(good: Settings, tmp_path: Path) -> None:
    kept = tmp_path / "backups"
    chosen = replace(good, backup_dir=kept)
    before = failure(chosen, "backups")
    kept.mkdir()
    none = failure(chosen, "backups")
    variables = settings.environment(replace(chosen, database_url=None), {})
    taken = SELF.run(variables, "backup")
    assert taken.returncode == 0, taken.stderr
    fresh = examined(chosen, "backups")
    (manifest,) = kept.glob("*/manifest.json")
    written = json.loads(manifest.read_text())
    began_at = datetime.now(UTC) - timedelta(days=9)
    manifest.write_text(json.dumps(written | {"began_at": began_at.isoformat()}))
    old = failure(chosen, "backups")
    manifest.write_text(json.dumps(written))
    next(each for each in manifest.parent.iterdir() if each != manifest).write_bytes(b"")
    damaged = failure(chosen, "backups")

    cure = "Run 'svc backup', let a timer do so every night, and read the log of its last run."
    assert before == none == (f"{kept} has no backup", cure)
    assert [each.outcome for each in fresh] == [Outcome.PASSED]
    assert old == (f"the newest backup in {kept} is 9 days old", cure)
    assert damaged[0].endswith("has another size")


def test_a_disk_that_is_full(good: Settings) -> None:
    results = failures(replace(good, storage_reserve_mib=MORE_THAN_ANY_DISK), "disk")

    assert "events, uploads and imports are refused" in results[0].text
    assert results[0].cure == "Free or add space on this disk; everything goes on within a second."


def test_a_dashboard_whose_address_has_changed(good: Settings) -> None:
    text, cure = failure(replace(good, base_url="http://localhost:9999"), "dashboard")

    assert text.startswith("people cannot sign in to the dashboard")
    assert cure == "Run 'svc migrate' with the present SVC_BASE_URL."


def test_https_without_a_trusted_proxy(good: Settings) -> None:
    https = replace(good, auth_url="https://auth.example.org", base_url="https://api.example.org")

    text, cure = failure(https, "addresses")

    assert text.endswith("SVC_TRUSTED_PROXIES names none: all clients count as one")
    assert cure == "Set SVC_TRUSTED_PROXIES to the address from which the proxy connects."


def test_a_client_that_chooses_its_address(good: Settings, tmp_path: Path) -> None:
    (port,) = processes.free_ports(1)
    trusting = replace(
        good, auth_url=f"http://localhost:{port}", trusted_proxies=("127.0.0.1/32", "::1/128")
    )
    with processes.running(
        ["auth", "serve"],
        trusting,
        processes.role_urls(trusting, processes.AUTH_ROLES),
        f"{trusting.auth_url}/readyz",
        tmp_path / "auth.log",
    ):
        text, cure = failure(trusting, "client addresses")

    assert text == "the server counts the address that a client itself writes into X-Forwarded-For"
    assert cure.startswith("Let the proxy replace this header")


def test_what_cannot_be_examined_does_not_pass(good: Settings) -> None:
    away = replace(good, database_url="postgresql://localhost:1/svc?connect_timeout=2")
    names = ("database", "roles", "row-level security", "jobs", "dashboard")

    results = [each for name in names for each in examined(away, name)]

    assert {each.outcome for each in results} == {Outcome.UNKNOWN}
    assert checks.exit_status(results) == 2
    assert all(each.cure for each in results)


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ((Outcome.PASSED, Outcome.SKIPPED), 0),
        ((Outcome.PASSED, Outcome.UNKNOWN), 2),
        ((Outcome.PASSED, Outcome.UNKNOWN, Outcome.FAILED), 1),
        ((Outcome.SKIPPED,), 2),
    ],
    ids=["good", "not-examined", "failed", "nothing"],
)
def test_the_exit_status_says_the_worst(outcomes: tuple[Outcome, ...], status: int) -> None:
    assert checks.exit_status([Result(each, "", check="check") for each in outcomes]) == status


def test_a_wrong_setting_is_a_failure_with_its_name(tmp_path: Path) -> None:
    completed = SELF.run(
        {"SVC_DATA_DIR": str(tmp_path), "SVC_AUTH_URL": "https://auth.example.org/path"},
        "doctor",
        "--json",
    )

    (result,) = json.loads(completed.stdout)["results"]
    assert completed.returncode == 1
    assert (result["check"], result["outcome"]) == ("settings", "failed")
    assert result["text"].startswith("SVC_AUTH_URL: ")


def test_without_a_running_database_nothing_passes_that_needs_one(tmp_path: Path) -> None:
    completed = SELF.run({"SVC_DATA_DIR": str(tmp_path)}, "doctor", "--json")

    results = json.loads(completed.stdout)["results"]
    outcomes = {each["check"]: each["outcome"] for each in results}
    assert completed.returncode == 1
    assert outcomes["database logins"] == "failed"
    assert outcomes["row-level security"] == "unknown"
