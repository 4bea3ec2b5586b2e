"""Servers of earlier versions beside a newer schema: they are refused, and none of their data is lost.

The earlier versions come out of the repository's own history.
"""

import asyncio
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Final

import httpx2
import pytest
from psycopg import sql

from deploy.migrate import migrate
from resourceserver.timeline import rollups, rounds
from shared import dashboard, database, tokens
from shared.settings import Settings
from tests import processes
from tests.conftest import Person, person
from tests.deploy import schemas
from tests.deploy.schemas import Load, Rows
from tests.waiting import wait_for

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent
UNGATED = "1e6c601"
"""The last commit whose servers send no version."""
OLD_JOBS = Path(__file__).with_name("old_jobs.py")
"""A program and not a module: it imports the modules of that commit."""


def git(*words: str) -> bytes:
    """Return the output of git. Raises CalledProcessError."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


def checked_out(commit: str, directory: Path) -> Path:
    """Return a directory with the files of a commit."""
    try:
        archive = git("archive", "--format=tar", commit)
    except (OSError, subprocess.CalledProcessError):
        pytest.fail(
            f"this needs commit {commit}, which a shallow clone lacks: git fetch --unshallow",
            pytrace=False,
        )
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
    return directory


def first_gated() -> str:
    """Return the first commit whose servers check the schema and report whether they are ready."""
    try:
        added = git("log", "--diff-filter=A", "--format=%H", "--", "shared/probes.py")
    except (OSError, subprocess.CalledProcessError):
        added = b""
    found = added.decode().split()
    if not found:
        pytest.fail("this needs the history of the repository, and git", pytrace=False)
    return found[-1]


@pytest.fixture
def owner(empty: Settings) -> Iterator[Rows]:
    """A connection to it with all rights."""
    with schemas.owning(empty) as connection:
        yield connection


@contextmanager
def resource_server(chosen: Settings, code: Path, log: Path) -> Iterator[str]:
    """A resource server of other code; yields its address."""
    (port,) = processes.free_ports(1)
    chosen = replace(chosen, base_url=f"http://localhost:{port}")
    logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
    url = f"{chosen.base_url}/healthz"
    with processes.running(["resource", "serve"], chosen, logins, url, log, directory=code):
        yield chosen.base_url


@contextmanager
def auth_server(chosen: Settings, code: Path, log: Path) -> Iterator[str]:
    """An authorization server of other code; yields its address."""
    (port,) = processes.free_ports(1)
    chosen = replace(chosen, auth_url=f"http://localhost:{port}")
    logins = processes.role_urls(chosen, processes.AUTH_ROLES)
    url = f"{chosen.auth_url}{processes.METADATA}"
    with processes.running(["auth", "serve"], chosen, logins, url, log, directory=code):
        yield chosen.auth_url


class Jobs:
    """The jobs of other code, which run again and again."""

    def __init__(self, chosen: Settings, code: Path, log: Path) -> None:
        """Begin."""
        self.log = log
        with log.open("wb") as written:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", OLD_JOBS.read_text()),
                    database.role_url(chosen, "worker"),
                ],
                cwd=code,
                stdin=subprocess.PIPE,
                stdout=written,
                stderr=subprocess.DEVNULL,
            )

    @property
    def turns(self) -> list[str]:
        """How each turn has ended."""
        return self.log.read_text().splitlines()

    def end(self) -> None:
        """Have them end after the present turn."""
        self.process.communicate(timeout=60)


def written_tables(owner: Rows) -> list[tuple[str, str]]:
    """Return schema and name of each table that servers write."""
    return owner.execute(
        """
        select relnamespace::regnamespace::text, relname
          from pg_class
         where relkind = 'r'
           and relnamespace::regnamespace::text in ('activity', 'oauth', 'identity')
         order by 1, 2
        """
    ).fetchall()


def written(chosen: Settings) -> list[tuple[object, ...]]:
    """Return a digest of each table that servers write."""
    digest = sql.SQL(
        "select md5(string_agg(found::text || xmin, '' order by found::text)) from {} as found"
    )
    with schemas.owning(chosen) as owner:
        return [
            (*table, owner.execute(digest.format(sql.Identifier(*table))).fetchone())
            for table in written_tables(owner)
        ]


MARK = """
savepoint mark;
create table svc.mark (is_only boolean primary key);
insert into svc.mark values (true);
release savepoint mark;
"""
"""The end of a migration that has its locks. The savepoint has an id of its own, higher than
the ids of all transactions that the migration has waited for."""


FILLING: Final = """
create table svc.filling as select pg_current_xact_id()::text as xid;
"""
"""The end of a migration that writes rows of people itself."""


def written_later(owner: Rows) -> list[str]:
    """Return the tables that have a row which was written after the mark, but not by a migration."""
    is_filled = owner.execute("select to_regclass('svc.filling') is not null").fetchone() == (True,)
    migrations = "(select xid from svc.filling)" if is_filled else "('')"
    newer = sql.SQL(
        "select from {} as row where xmin::text::bigint > (select xmin::text::bigint from svc.mark)"
        " and xmin::text not in {}"
        # Each `svc migrate` stores the dashboard's client.
        " and to_jsonb(row) ->> 'client_id' is distinct from {} limit 1"
    )
    return [
        f"{schema}.{table}"
        for schema, table in written_tables(owner)
        if owner.execute(
            newer.format(
                sql.Identifier(schema, table),
                sql.SQL(migrations),
                sql.Literal(dashboard.DASHBOARD_CLIENT_ID),
            )
        ).fetchone()
        is not None
    ]


def differences(chosen: Settings, alice: Person) -> list[rollups.Difference]:
    """Write all due rollups, and return the differences from those that sessions give."""

    async def compared() -> list[rollups.Difference]:
        async with rounds.connected(database.login(chosen, "worker")) as worker:
            await rollups.make_due(worker, timedelta(0))
            return [found async for found in rollups.check(worker, alice.user_id)]

    return asyncio.run(compared())


def who_has_measured(owner: Rows, name: str) -> Person:
    """Return a person with some sessions, whose day is marked."""
    account = person(owner, name)
    schemas.fill(owner, account, 500)
    owner.execute(
        "insert into activity.rollup_due (user_id, date) values (%s, '2025-06-16')",
        [account.user_id],
    )
    return account


def migrate_by(code: Path, chosen: Settings) -> None:
    """Bring the schema to the version of ``code``."""
    subprocess.run(
        [sys.executable, "-m", "deploy.cli", "migrate"],
        cwd=code,
        env={
            "DATABASE_URL": chosen.database_url or "",
            "SVC_DATA_DIR": str(chosen.data_dir),
            "PATH": "",
        },
        check=True,
        capture_output=True,
    )


def test_servers_without_a_version_are_refused_after_the_migration(
    empty: Settings, owner: Rows, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    code = checked_out(UNGATED, tmp_path / "code")
    migrate_by(code, empty)
    alice = who_has_measured(owner, "alice")
    marking = schemas.with_migrations(tmp_path)
    with (marking / "migrations" / "0019_schema_version.sql").open("a") as gate:
        gate.write(MARK)
    with (marking / "migrations" / "0029_last_sync.sql").open("a") as fills:
        fills.write(FILLING)
    work = Jobs(empty, code, tmp_path / "jobs.log")
    with resource_server(empty, code, tmp_path / "resource.log") as base_url:
        loads = [Load(base_url, alice.headers(), f"load-{number}") for number in range(3)]
        try:
            for load in loads:
                load.wait_for_more(20)
            wait_for(lambda: work.turns.count("done") > 2, "the jobs come")
            migrate(empty, lambda _: None, directory=marking)
            migrated = time.monotonic()
            before = written(empty)
            turns = len(work.turns)
            for load in loads:
                load.wait_for_more(20)
            wait_for(lambda: len(work.turns) > turns + 3, "the jobs come again")
            after = written(empty)
        finally:
            for load in loads:
                load.end()
            work.end()

    assert written_later(owner) == []
    answers = [answer for load in loads for answer in load.answers]
    late = [answer for load in loads for answer in load.begun_after(migrated)]
    assert {answer.status for answer in answers} == {200, 503}
    assert {answer.status for answer in late} == {503}
    assert {answer.kind for answer in late} == {"read", "write"}
    assert after == before
    # The running turn may have ended before.
    assert set(work.turns[turns + 1 :]) == {"57SV1"}
    assert set(work.turns) <= {"done", "57SV1"}
    assert differences(empty, alice) == []
    record_property("requests to a server of before the gate", len(answers))
    record_property("requests to a server of before the gate, refused", len(late))


def test_servers_of_the_first_version_are_refused_beside_a_raised_schema(
    empty: Settings, owner: Rows, tmp_path: Path
) -> None:
    code = checked_out(first_gated(), tmp_path / "code")
    migrate_by(code, empty)
    alice = who_has_measured(owner, "alice")
    raised = schemas.with_migrations(
        tmp_path, **{"9000_test": f"-- Usable from version 9000 on.\n{MARK}"}
    )
    with (
        resource_server(empty, code, tmp_path / "resource.log") as base_url,
        auth_server(empty, code, tmp_path / "auth.log") as auth_url,
    ):
        loads = [Load(base_url, alice.headers(), f"load-{number}") for number in range(3)]
        try:
            for load in loads:
                load.wait_for_more(20)
            migrate(empty, lambda _: None, directory=raised)
            migrated = time.monotonic()
            before = written(empty)
            for load in loads:
                load.wait_for_more(20)
            refreshed = httpx2.post(
                f"{auth_url}/oauth/token",
                data={
                    "grant_type": "refresh_token",
                    "client_id": "svc_client_0000000000000000000000",
                    "refresh_token": tokens.mint(tokens.REFRESH, alice.user_id).text,
                },
            )
            probes = [httpx2.get(f"{url}/readyz") for url in (base_url, auth_url)]
            after = written(empty)
        finally:
            for load in loads:
                load.end()

    assert written_later(owner) == []
    answers = [answer for load in loads for answer in load.answers]
    late = [answer for load in loads for answer in load.begun_after(migrated)]
    assert {answer.status for answer in answers} == {200, 503}
    assert {(answer.status, answer.error) for answer in late} == {(503, "outdated_server")}
    for answer in (refreshed, *probes):
        assert (answer.status_code, answer.json()["error"]) == (503, "outdated_server")
    assert after == before
    for log in ("resource.log", "auth.log"):
        lines = (tmp_path / log).read_text().splitlines()
        assert sum("too old for the schema" in line for line in lines) == 1
    # For a server that would be new enough.
    owner.execute("update svc.schema_version set oldest_code = 0")
    assert differences(empty, alice) == []
