"""``svc backup`` and ``svc restore``: a database that people use, and its copy in a new cluster."""

import json
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg.conninfo import make_conninfo
from starlette.testclient import TestClient

import authserver.app
import resourceserver.app
from authserver.people.passwords import Hasher
from deploy.backup import backups, commands, roles, tools
from deploy.demo.command import demo
from deploy.migrate import SQL_DIR, migrate
from deploy.operators.rollups import rollup
from deploy.postgres.embedded import EmbeddedPostgres
from shared import SCHEMA_VERSION, VERSION, queries, sealing, sealing_keys
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import FAST, Person, cloned, person
from tests.connecting import connect, seal
from tests.deploy import schemas
from tests.deploy.conftest import empty, reachable_directory
from tests.deploy.contents import catalog, rows_by_table
from tests.deploy.runner import ENVIRONMENT, SELF
from tests.oauth.conftest import CHEAP, visitor_of
from tests.oauth.visitor import CALLBACK, Application
from tests.volumes import mounted
from tests.waiting import wait_for_rivals

ADDRESS = "https://calendar.example/alice"


def run(chosen: Settings, *words: str) -> Result:
    command = {"backup": commands.backup, "restore": commands.restore}[words[0]]
    before = signal.getsignal(signal.SIGTERM)
    try:
        return CliRunner().invoke(command, words[1:], obj=chosen)
    finally:
        signal.signal(signal.SIGTERM, before)


LOCK_CLUSTER = queries.load(SQL_DIR / "migrate.sql")["lock_cluster"]


def connected(chosen: Settings) -> psycopg.Connection[Any]:
    return psycopg.connect(chosen.database_url or "", autocommit=True, prepare_threshold=None)


def resources(chosen: Settings) -> TestClient:
    return AppClient(
        resourceserver.app.create(replace(chosen, base_url="http://testserver")),
        raise_server_exceptions=False,
    )


def authorizations(chosen: Settings) -> TestClient:
    app = authserver.app.create(replace(chosen, base_url="http://testserver"), hasher=Hasher(CHEAP))
    return AppClient(app, "http://localhost:8400", raise_server_exceptions=False)


@dataclass(frozen=True)
class Source:
    """A deployment with the data of a person, and what the person's programs hold."""

    settings: Settings
    alice: Person
    live_token: str
    revoked_token: str
    client_id: str
    refresh_token: str


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory for backups, copies of keys and data directories."""
    with reachable_directory() as parent:
        yield parent


def change_role(chosen: Settings, change: str) -> None:
    """Change a role while no migration does: of two changes at once the later one would fail."""
    url = make_conninfo(chosen.database_url or "", dbname="postgres")
    with closing(psycopg.connect(url)) as server, server:
        server.execute(LOCK_CLUSTER)
        server.execute(change)


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest, place: Path) -> Iterator[Source]:
    with ExitStack() as running:
        chosen = running.enter_context(cloned(request.config, "backup_source"))
        own = place / "source"
        own.mkdir()
        shutil.copy(chosen.data_dir / "secrets.json", own)
        chosen = replace(chosen, data_dir=own, dashboard_key=None)
        (private,) = sealing_keys.make(own)
        # The clones of tests lack the dashboard's application.
        migrate(chosen, lambda _: None)
        owner = running.enter_context(closing(connected(chosen)))
        alice = person(owner, "alice")
        invented = CliRunner().invoke(
            demo, ["alice@example.org", "--days=9", "--until=2025-10-31"], obj=chosen
        )
        assert invented.exit_code == 0, invented.output
        seal(owner, alice, connect(owner, alice, "calendar"), private, {"address": ADDRESS})
        # Roles belong to all databases of the tests, so the setting is one that nothing reads.
        change_role(chosen, "alter role svc_worker set backup.note = 'it''s \"kept\", here'")
        running.callback(change_role, chosen, "alter role svc_worker reset backup.note")
        revoked = alice.token()
        owner.execute("update oauth.grant set revoked_at = now() where name = 'test'")
        live = alice.token()
        client = running.enter_context(authorizations(chosen))
        registered = client.post("/oauth/register", json={"redirect_uris": [CALLBACK]}).json()
        application = Application(client, registered["client_id"], CALLBACK)
        pair = application.pair(visitor_of(client, chosen, alice))
        yield Source(chosen, alice, live, revoked, registered["client_id"], pair["refresh_token"])


@pytest.fixture(scope="module")
def taken(source: Source, place: Path) -> Path:
    """A backup of the source, with a copy of the keys beside its directory."""
    result = run(source.settings, "backup", str(place / "b"), "--keys", str(place / "keys"))
    assert result.exit_code == 0, result.output
    (path,) = backups.complete(place / "b")
    return path


@pytest.fixture(scope="module")
def restored(taken: Path, place: Path) -> Iterator[Settings]:
    """A new cluster with the data of the backup."""
    chosen = Settings(data_dir=place / "restored", jobs=False, base_url="http://localhost:8401")
    result = run(chosen, "restore", str(taken), "--keys", str(place / "keys"))
    assert result.exit_code == 0, result.output
    with EmbeddedPostgres(chosen.data_dir, settings=FAST) as server:
        yield replace(chosen, database_url=server.url)


@pytest.fixture
def writable(taken: Path, tmp_path: Path) -> Path:
    """A copy of the backup, for one test to damage."""
    return Path(shutil.copytree(taken, tmp_path / "svc-copy"))


def test_every_row_of_every_table_is_restored(source: Source, restored: Settings) -> None:
    with connected(source.settings) as first, connected(restored) as second:
        before, after = rows_by_table(first), rows_by_table(second)
        files = "select name, digest from svc.applied_file order by name"
        applied = [each.execute(files).fetchall() for each in (first, second)]

    # The restoration runs the file of grants again, and notes when.
    assert before.pop("svc.applied_file")[0] == after.pop("svc.applied_file")[0]
    assert applied[0] == applied[1]
    assert before == after
    assert len(before) > 60
    assert before["activity.app_session"][0] > 1000


def test_every_policy_right_and_function_is_restored(source: Source, restored: Settings) -> None:
    with connected(source.settings) as first, connected(restored) as second:
        before, after = catalog(first), catalog(second)

    assert before == after
    assert len(before["policies"]) > 40


def test_the_roles_have_the_settings_and_memberships_that_they_had(
    source: Source, restored: Settings
) -> None:
    with connected(source.settings) as first, connected(restored) as second:
        before, after = (json.loads(roles.text_of(each)) for each in (first, second))

    for role in (*before["roles"], *after["roles"]):
        del role["verifier"]
    assert before == after


def test_roles_of_other_programs_stay_out_of_a_backup(source: Source) -> None:
    with connected(source.settings) as owner, owner.transaction(force_rollback=True):
        owner.execute("create role svc_billing login password 'of another program'")
        named = [role["name"] for role in json.loads(roles.text_of(owner))["roles"]]

    assert len(named) == 6
    assert "svc_billing" not in named


def test_live_tokens_answer_and_revoked_ones_do_not(source: Source, restored: Settings) -> None:
    with resources(restored) as client:
        statuses = [
            client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code
            for token in (source.live_token, source.revoked_token)
        ]

    assert statuses == [200, 401]


def test_a_refresh_token_still_works_and_is_recognised_after_its_rotation(
    source: Source, restored: Settings
) -> None:
    with authorizations(restored) as client:
        application = Application(client, source.client_id, CALLBACK)
        first = application.refresh(source.refresh_token)
        replayed = application.refresh(source.refresh_token)
        after_replay = application.refresh(first.json()["refresh_token"])

    assert [each.status_code for each in (first, replayed, after_replay)] == [200, 400, 400]


def test_the_rollups_have_no_difference_from_the_sessions(restored: Settings) -> None:
    result = CliRunner().invoke(rollup, ["check", "--all"], obj=restored)

    assert (result.exit_code, result.output) == (0, "0 differences\n")


def test_the_restored_tables_have_statistics(restored: Settings) -> None:
    with connected(restored) as connection:
        row = connection.execute(
            "select count(*) > 5 from pg_stats where tablename = 'app_session'"
        ).fetchone()

    assert row == (True,)


def test_a_sealed_secret_opens_with_the_copy_of_the_keys(restored: Settings) -> None:
    opener = sealing.Opener(sealing_keys.read(restored.data_dir))
    with connected(restored) as connection:
        row = connection.execute(
            "select user_id, connection_id, field, key_id, sealed from profile.connection_secret"
        ).fetchone()
    assert row is not None
    user_id, connection_id, field, key_id, sealed = row

    text = opener.open(key_id, sealed, user_id=user_id, connection_id=connection_id, field=field)

    assert text == ADDRESS


def test_a_backup_is_closed_to_others_and_has_no_keys(taken: Path) -> None:
    modes = {
        str(path.relative_to(taken)): stat.S_IMODE(path.stat().st_mode)
        for path in (taken, *taken.rglob("*"))
    }

    assert modes == {
        ".": 0o700,
        "database.dump": 0o600,
        "manifest.json": 0o600,
        "roles.json": 0o600,
    }


def test_the_manifest_describes_the_backup(source: Source, taken: Path) -> None:
    manifest = backups.newest(taken.parent)

    assert manifest is not None
    assert manifest.svc_version == VERSION
    assert manifest.schema_version == SCHEMA_VERSION
    with connected(source.settings) as connection:
        assert manifest.postgres_major == connection.info.server_version // 10000
    assert manifest.began_at < manifest.ended_at
    assert manifest.files.keys() == {"database.dump", "roles.json"}
    assert manifest.files["database.dump"].bytes == (taken / "database.dump").stat().st_size


@contextmanager
def backing_up(source: Source, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A ``svc backup`` that waits for a table after its snapshot, until the block ends."""
    variables = {
        "DATABASE_URL": source.settings.database_url or "",
        "SVC_DATA_DIR": str(source.settings.data_dir),
    }
    with connected(source.settings) as owner, connected(source.settings) as other:
        with other.transaction():
            other.execute("lock table activity.goal in access exclusive mode")
            process = subprocess.Popen(
                [*SELF.command, "backup", str(directory)],
                env=ENVIRONMENT | variables,
                stdout=subprocess.DEVNULL,
            )
            wait_for_rivals(owner, 1)
            yield process
        process.wait(timeout=100)


def test_a_backup_is_one_snapshot_and_delays_no_writer(source: Source, tmp_path: Path) -> None:
    event = {
        "idempotency_key": "laptop:1",
        "started_at": "2025-10-29T10:00:00Z",
        "ended_at": "2025-10-29T10:05:00Z",
        "app": "Late",
    }
    with backing_up(source, tmp_path) as process, resources(source.settings) as client:
        written = client.post(
            "/api/v1/ingest/app-sessions",
            json={"device": {"name": "laptop"}, "events": [event]},
            headers=source.alice.headers("ingest:app_sessions"),
        )
    (path,) = backups.complete(tmp_path)

    assert (written.status_code, written.json()["accepted"]) == (200, 1)
    assert process.returncode == 0
    rows = data_of(path, "app_session")
    assert "\tCode\t" in rows
    assert "\tLate\t" not in rows


def data_of(backup: Path, table: str) -> str:
    """Return the rows of a table of a dump."""
    major = backups.read(backup).dumped_by
    command = tools.fitting(major).command(
        "pg_restore", "--data-only", f"--table={table}", "--file=-", str(backup / "database.dump")
    )
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_killed_backup_leaves_nothing_that_looks_complete(
    source: Source, tmp_path: Path, number: signal.Signals
) -> None:
    with backing_up(source, tmp_path) as process:
        second = run(source.settings, "backup", str(tmp_path))
        process.send_signal(number)
        process.wait(timeout=60)
        after_kill = backups.complete(tmp_path)
    third = run(source.settings, "backup", str(tmp_path))

    assert (second.exit_code, second.output) == (
        1,
        f"Error: another backup to {tmp_path} is running\n",
    )
    assert after_kill == []
    assert third.exit_code == 0, third.output
    (left,) = tmp_path.iterdir()
    assert backups.complete(tmp_path) == [left]


def test_keep_removes_the_oldest_backups_and_nothing_else(
    source: Source, taken: Path, tmp_path: Path
) -> None:
    older = [tmp_path / f"svc-2025010{day}T000000.000Z" for day in (1, 2, 3)]
    for path in older:
        shutil.copytree(taken, path)
    other = tmp_path / "svc-notes"
    other.mkdir()

    result = run(replace(source.settings, backup_dir=tmp_path), "backup", "--keep", "2")

    assert result.exit_code == 0, result.output
    newest = backups.complete(tmp_path)[0]
    assert sorted(tmp_path.iterdir()) == sorted([newest, older[2], other])
    assert newest.name.startswith("svc-202501") is False


@pytest.fixture
def bound(taken: Path, tmp_path: Path) -> Iterator[Path]:
    """An old backup that cannot be removed, because a file system is mounted there."""
    path = tmp_path / "svc-20250101T000000.000Z"
    shutil.copytree(taken, path)
    with mounted(path, "--bind", str(path)) as is_mounted:
        if not is_mounted:
            pytest.skip("only an administrator may mount a file system")
        yield path


def test_a_backup_is_written_although_an_older_one_cannot_be_removed(
    source: Source, bound: Path, tmp_path: Path
) -> None:
    result = run(source.settings, "backup", str(tmp_path), "--keep", "1")

    assert result.exit_code == 1
    assert result.output.endswith(
        "Error: the backup is written, but backups older than the newest 1 cannot be removed:"
        f" {bound}: Device or resource busy\n"
    )
    newest, oldest = backups.complete(tmp_path)
    assert oldest == bound
    assert newest.name.startswith("svc-202501") is False


def test_with_keys_beside_the_dump_a_backup_is_all_that_a_restoration_needs(
    source: Source, tmp_path: Path
) -> None:
    result = run(source.settings, "backup", str(tmp_path), "--with-keys")

    (path,) = backups.complete(tmp_path)
    assert "not included" not in result.output
    keys = path / "keys"
    assert sealing_keys.read(keys) == sealing_keys.read(source.settings.data_dir)
    assert (keys / "secrets.json").read_text() == (
        source.settings.data_dir / "secrets.json"
    ).read_text()
    assert {"keys/secrets.json", "keys/sealing.json"} < backups.read(path).files.keys()
    assert stat.S_IMODE((keys / "sealing.json").stat().st_mode) == 0o600


def test_a_copy_of_keys_keeps_those_that_older_backups_need(source: Source, tmp_path: Path) -> None:
    (present,) = sealing_keys.read(source.settings.data_dir)
    older = sealing.new_private_key()
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "sealing.json").write_text(json.dumps({"private_keys": [older]}))

    result = run(source.settings, "backup", str(tmp_path / "b"), "--keys", str(tmp_path / "keys"))

    assert result.exit_code == 0, result.output
    assert sealing_keys.read(tmp_path / "keys") == (present, older)


def test_a_copy_of_other_keys_is_not_overwritten(source: Source, tmp_path: Path) -> None:
    copy = tmp_path / "keys" / "secrets.json"
    copy.parent.mkdir()
    copy.write_text('{"passwords": {}, "cookie_key": "from before"}')

    result = run(source.settings, "backup", str(tmp_path / "b"), "--keys", str(copy.parent))

    assert result.exit_code == 1
    assert "or older ones: name a new directory, and keep this one" in result.output
    assert copy.read_text() == '{"passwords": {}, "cookie_key": "from before"}'
    assert len(backups.complete(tmp_path / "b")) == 1


@pytest.fixture
def new_database(empty: Settings, tmp_path: Path) -> Settings:
    """An empty database on the server of the tests, and a data directory with other keys."""
    secrets = json.loads((empty.data_dir / "secrets.json").read_text())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "secrets.json").write_text(json.dumps(secrets | {"cookie_key": "new"}))
    return replace(empty, data_dir=tmp_path / "data", dashboard_key=None)


def test_without_the_keys_secrets_stay_closed_and_tokens_are_valid(
    source: Source, taken: Path, new_database: Settings
) -> None:
    result = run(new_database, "restore", str(taken))
    with authorizations(new_database) as client:
        application = Application(client, source.client_id, CALLBACK)
        first = application.refresh(source.refresh_token)
        second = application.refresh(first.json()["refresh_token"])

    assert result.exit_code == 0, result.output
    assert "no key opens 1 secret of connections: people must enter it again" in result.output
    assert [first.status_code, second.status_code] == [200, 200]


def test_keys_of_another_deployment_are_refused(
    taken: Path, place: Path, new_database: Settings
) -> None:
    result = run(new_database, "restore", str(taken), "--keys", str(place / "keys"))

    assert result.exit_code == 1
    assert "has the keys of another deployment than" in result.output
    assert is_empty(new_database)


def test_a_login_that_is_no_superuser_restores_and_backs_up(source: Source, place: Path) -> None:
    # Other tests have written to the source since they took theirs.
    run(source.settings, "backup", str(place / "fresh"), "--keys", str(place / "keys"))
    (taken,) = backups.complete(place / "fresh")
    # As docs/INSTALL.md sets up a PostgreSQL of the operator's own.
    foreign = FAST | {"svc.is_embedded": "off"}
    with EmbeddedPostgres(place / "foreign", settings=foreign) as server:
        with psycopg.connect(server.url, autocommit=True) as superuser:
            superuser.execute("create role owner login createrole password 'pw'")
            superuser.execute("create database mine owner owner")
        url = make_conninfo(server.url, user="owner", password="pw", dbname="mine")
        chosen = Settings(data_dir=place / "own", jobs=False, database_url=url)

        result = run(chosen, "restore", str(taken), "--keys", str(place / "keys"))
        again = run(chosen, "backup", str(place / "of-owner"))

        with connected(source.settings) as first, connected(chosen) as second:
            second.execute("set role svc_owner")
            before, after = catalog(first), catalog(second)
            rows = rows_by_table(first), rows_by_table(second)
    (path,) = backups.complete(place / "of-owner")
    described = json.loads((path / "roles.json").read_text())["roles"]
    assert result.exit_code == 0, result.output
    assert "left out: alter role svc_reader set temp_file_limit" in result.output
    assert before == after
    assert [name for name in rows[0] if rows[0][name] != rows[1][name]] == ["svc.applied_file"]
    assert again.exit_code == 0, again.output
    # Only a superuser sees passwords.
    assert {role["verifier"] for role in described} == {None}


# What is refused


def test_a_directory_must_be_named(source: Source) -> None:
    result = run(source.settings, "backup")

    assert (result.exit_code, result.output) == (
        1,
        "Error: where to? Name a directory, or set SVC_BACKUP_DIR\n",
    )


def test_a_directory_that_cannot_be_used_is_named(source: Source, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    missing = run(source.settings, "backup", str(tmp_path / "no" / "b"))
    file = run(source.settings, "backup", str(tmp_path / "file"))
    beside = run(source.settings, "backup", str(tmp_path), "--keys", str(tmp_path / "keys"))

    assert missing.output == (
        f"Error: {tmp_path}/no/b cannot be created: {tmp_path}/no does not exist\n"
    )
    assert file.output == f"Error: {tmp_path}/file is no directory\n"
    assert beside.output.startswith(f"Error: --keys: {tmp_path}/keys is in {tmp_path}, beside")
    assert {missing.exit_code, file.exit_code, beside.exit_code} == {1}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    with mounted(tmp_path, "-t", "tmpfs", "-o", "size=64k", "none") as is_mounted:
        if not is_mounted:
            pytest.skip("only an administrator may mount a file system")
        yield tmp_path


def test_a_full_disk_is_one_line_with_the_free_space(source: Source, small_disk: Path) -> None:
    result = run(source.settings, "backup", str(small_disk))

    assert result.exit_code == 1
    assert result.output.startswith(
        "Error: the backup cannot be written: pg_dump: error: could not"
    )
    assert result.output.endswith(f": No space left on device (0 MiB are free in {small_disk})\n")
    assert list(small_disk.iterdir()) == []


def test_a_data_directory_without_a_database_has_nothing_to_back_up(tmp_path: Path) -> None:
    result = run(Settings(data_dir=tmp_path), "backup", str(tmp_path / "b"))

    assert (result.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert f"there is no database: neither in SVC_DATA_DIR, which is {tmp_path}" in result.output


def test_a_database_with_tables_is_refused(source: Source, taken: Path) -> None:
    result = run(source.settings, "restore", str(taken))

    assert result.exit_code == 1
    assert "is not empty: it has activity.app_session; restore into a new one" in result.output


@pytest.mark.parametrize("name", ["database.dump", "roles.json"])
def test_a_damaged_backup_is_refused(writable: Path, new_database: Settings, name: str) -> None:
    path = writable / name
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)
    changed = run(new_database, "restore", str(writable))
    path.write_bytes(contents[:-1])
    shorter = run(new_database, "restore", str(writable))
    path.unlink()
    missing = run(new_database, "restore", str(writable))

    damaged = "Error: the backup is damaged:"
    assert f"{damaged} the checksum of {path} differs" in changed.output
    assert f"{damaged} {path} has {len(contents) - 1} bytes instead of" in shorter.output
    assert f"{damaged} {path} cannot be read: No such file" in missing.output
    assert is_empty(new_database)


def test_a_dump_that_breaks_off_restores_nothing(writable: Path, new_database: Settings) -> None:
    dump = writable / "database.dump"
    dump.write_bytes(dump.read_bytes()[: dump.stat().st_size * 3 // 4])
    rewrite(writable, files={name: vars(backups.describe(writable / name)) for name in FILES})

    result = run(new_database, "restore", str(writable))

    assert result.exit_code == 1
    assert "Error: nothing was restored: pg_restore: error:" in result.output
    assert is_empty(new_database)


FILES = ("database.dump", "roles.json")


def rewrite(backup: Path, **members: Any) -> None:
    """Change members of a manifest."""
    path = backup / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | members))


def is_empty(chosen: Settings) -> bool:
    with connected(chosen) as connection:
        row = connection.execute(
            "select count(*) from pg_class where relnamespace <> all (%s::regnamespace[])",
            [["pg_catalog", "pg_toast", "information_schema"]],
        ).fetchone()
    return row == (0,)


def test_a_schema_that_is_newer_than_this_version_is_refused(
    writable: Path, new_database: Settings
) -> None:
    rewrite(writable, schema_version=SCHEMA_VERSION + 1, svc_version="9.1.0")

    result = run(new_database, "restore", str(writable))

    assert result.exit_code == 1
    assert f"has schema {SCHEMA_VERSION + 1}, and svc of this version knows" in result.output
    assert result.output.endswith("install svc 9.1.0 or newer\n")


def test_a_backup_of_a_newer_server_is_refused(writable: Path, new_database: Settings) -> None:
    rewrite(writable, postgres_version="99.1")

    result = run(new_database, "restore", str(writable))

    assert "the backup is of PostgreSQL 99.1, and this server is PostgreSQL" in result.output


def test_tools_that_no_machine_has_are_named_with_the_cure() -> None:
    with pytest.raises(backups.BackupError, match=r"PostgreSQL 99 or newer are needed.*client-99"):
        tools.fitting(99)


def test_what_is_no_backup_is_named(taken: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 7}')

    directory = run(Settings(), "restore", str(taken.parent))
    nothing = run(Settings(), "restore", str(tmp_path / "no"))
    file = run(Settings(), "restore", str(taken / "database.dump"))
    other = run(Settings(), "restore", str(tmp_path))

    assert directory.output == (
        f"Error: {taken.parent} is not a backup: it contains backups, such as {taken}\n"
    )
    assert (
        f"{tmp_path}/no is not a backup: {tmp_path}/no/manifest.json is missing" in nothing.output
    )
    assert file.output.endswith("is not a backup: it is no directory\n")
    assert "is not a backup that this version of svc can read" in other.output


def test_an_older_schema_is_restored_and_brought_up_to_date(
    empty: Settings, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with schemas.killer(empty) as killed_at:
        assert killed_at("applying 0041_device_authorization.sql") == signal.SIGKILL
    with connected(empty) as owner:
        person(owner, "alice")
    assert run(empty, "backup", str(tmp_path)).exit_code == 0
    (path,) = backups.complete(tmp_path)
    newer = request.getfixturevalue("another_empty")

    result = run(newer, "restore", str(path))

    assert backups.read(path).schema_version < 41
    assert result.exit_code == 0, result.output
    assert "applying 0041_device_authorization.sql" in result.output
    with connected(newer) as connection:
        row = connection.execute(
            "select email, version from identity.user, svc.schema_version"
        ).fetchone()
    assert row == ("alice@example.org", SCHEMA_VERSION)


another_empty = empty
