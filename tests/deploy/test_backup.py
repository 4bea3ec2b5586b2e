"""``svc backup`` of a database that people use."""

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
from starlette.testclient import TestClient

import authserver.app
import resourceserver.app
from authserver.people.passwords import Hasher
from deploy.backup import backups, commands, tools
from deploy.demo.command import demo
from shared import SCHEMA_VERSION, VERSION, sealing, sealing_keys
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person, cloned, person
from tests.connecting import connect, seal
from tests.deploy.conftest import reachable_directory
from tests.deploy.runner import ENVIRONMENT, SELF
from tests.oauth.conftest import CHEAP, visitor_of
from tests.oauth.visitor import CALLBACK, Application
from tests.waiting import wait_for_rivals

ADDRESS = "https://calendar.example/alice"


def run(chosen: Settings, *words: str) -> Result:
    command = {"backup": commands.backup}[words[0]]
    before = signal.getsignal(signal.SIGTERM)
    try:
        return CliRunner().invoke(command, words[1:], obj=chosen)
    finally:
        signal.signal(signal.SIGTERM, before)


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


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest, place: Path) -> Iterator[Source]:
    with ExitStack() as running:
        chosen = running.enter_context(cloned(request.config, "backup_source"))
        own = place / "source"
        own.mkdir()
        shutil.copy(chosen.data_dir / "secrets.json", own)
        chosen = replace(chosen, data_dir=own, dashboard_key=None)
        (private,) = sealing_keys.make(own)
        owner = running.enter_context(closing(connected(chosen)))
        alice = person(owner, "alice")
        invented = CliRunner().invoke(
            demo, ["alice@example.org", "--days=9", "--until=2025-10-31"], obj=chosen
        )
        assert invented.exit_code == 0, invented.output
        seal(owner, alice, connect(owner, alice, "calendar"), private, {"address": ADDRESS})
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
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting needs rights that these tests do not have")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


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


def test_tools_that_no_machine_has_are_named_with_the_cure() -> None:
    with pytest.raises(backups.BackupError, match=r"PostgreSQL 99 or newer are needed.*client-99"):
        tools.fitting(99)
