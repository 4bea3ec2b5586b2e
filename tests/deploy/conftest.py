"""Data directories and ports for servers that these tests start themselves."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared.settings import Settings
from tests.conftest import FAST, administer, cloned
from tests.processes import free_ports


@pytest.fixture(scope="session")
def prepared() -> Iterator[Path]:
    """A data directory with a migrated database, for tests to copy (``copied``).

    A copy takes a twentieth of the time of a new one.
    """
    with reachable_directory() as parent:
        data_dir = parent / "data"
        with EmbeddedPostgres(data_dir, settings=FAST) as server:
            migrate(Settings(database_url=server.url, data_dir=data_dir), lambda _: None)
        yield data_dir


def copied(prepared: Path, data_dir: Path) -> Path:
    """Copy a data directory in which no server runs, and return the copy."""
    data_dir.mkdir(parents=True)
    for each in prepared.iterdir():
        # Root's copy of the binaries is read only, so links to its files are enough.
        is_program = each.name.startswith("postgresql-")
        subprocess.run(["cp", "-al" if is_program else "-a", str(each), str(data_dir)], check=True)
    return data_dir


def fast_copy(prepared: Path, data_dir: Path) -> Path:
    """Copy a data directory so that starting its database does not wait for the disk."""
    with (copied(prepared, data_dir) / "postgres" / "postgresql.conf").open("a") as configuration:
        configuration.writelines(f"{name} = {value}\n" for name, value in FAST.items())
    return data_dir


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory that does not exist yet."""
    with reachable_directory() as parent:
        yield parent / "data"


@pytest.fixture
def own_data_dir(prepared: Path, data_dir: Path) -> Path:
    """A data directory with a migrated database, for one test."""
    return fast_copy(prepared, data_dir)


@pytest.fixture(scope="module")
def used_data_dir(prepared: Path) -> Iterator[Path]:
    """A data directory with a migrated database, which tests use one after the other."""
    with reachable_directory() as parent:
        yield fast_copy(prepared, parent / "data")


@pytest.fixture(scope="module")
def standing_data_dir(prepared: Path) -> Iterator[Path]:
    """The data directory of a server that runs as long as a module's tests."""
    with reachable_directory() as parent:
        yield fast_copy(prepared, parent / "data")


ON_DISK: Final = Path("/tmp")  # noqa: S108 -- each directory in it is new and has an owner


@contextmanager
def reachable_directory(place: Path | None = None) -> Iterator[Path]:
    """A new directory that root's system user can enter; pytest's own are closed to it."""
    path = Path(tempfile.mkdtemp(prefix="svc-test-", dir=place or fast_place()))
    guard = [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), str(path)]
    # In a session of its own, so that a signal to this process group does not end it.
    with subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True):
        try:
            path.chmod(0o755)
            yield path
        finally:
            shutil.rmtree(path)


def fast_place() -> Path:
    """Return a file system in memory with room for some databases and programs, if there is one."""
    memory = Path("/dev/shm")  # noqa: S108 -- each directory in it is new and has an owner
    if memory.is_dir():
        status = os.statvfs(memory)
        is_roomy = status.f_bavail * status.f_frsize > 4 * 1024**3
        if is_roomy and not status.f_flag & os.ST_NOEXEC:
            return memory
    return ON_DISK


@pytest.fixture
def database_of_its_own(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """A migrated database for one test."""
    with cloned(request.config, f"schema_{uuid4().hex[:8]}") as chosen:
        # A clone has no privileges of the database itself.
        migrate(chosen, lambda _: None)
        yield chosen


@pytest.fixture
def empty(deployment: Settings) -> Iterator[Settings]:
    """An empty database for one test."""
    url = deployment.database_url or ""
    name = f"svc_test_{uuid4().hex[:8]}"
    administer(url, sql.SQL("create database {}"), name)
    yield replace(deployment, database_url=make_conninfo(url, dbname=name))
    administer(url, sql.SQL("drop database {} with (force)"), name)


@pytest.fixture
def ports() -> tuple[int, int]:
    """Two ports that are free on both loopback addresses."""
    first, second = free_ports(2)
    return first, second


@pytest.fixture(scope="module")
def standing_ports() -> tuple[int, int]:
    """The ports of what runs as long as a module's tests."""
    first, second = free_ports(2)
    return first, second
