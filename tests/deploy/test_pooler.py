"""`svc migrate` through PgBouncer, which gives a connection to another client after each transaction."""

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.migrate import MigrationError, migrate
from shared.settings import Settings
from tests.conftest import administer
from tests.deploy.conftest import reachable_directory
from tests.waiting import wait_for

PATH = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"

pytestmark = pytest.mark.proof


@dataclass(frozen=True)
class Login:
    """A superuser with a password, by which PgBouncer gets in, and an empty database."""

    server: str
    name: str
    password: str


@pytest.fixture
def login(deployment: Settings) -> Iterator[Login]:
    """A login and a database of the same name for the time of a test."""
    url = deployment.database_url or ""
    login = Login(url, f"svc_test_{secrets.token_hex(4)}", secrets.token_hex(16))
    with closing(psycopg.connect(url, autocommit=True)) as server:
        server.execute(
            sql.SQL("create role {} superuser login password {}").format(
                sql.Identifier(login.name), sql.Literal(login.password)
            )
        )
    administer(url, sql.SQL("create database {} owner {}"), login.name, login.name)
    yield login
    administer(url, sql.SQL("drop database {} with (force)"), login.name)
    administer(url, sql.SQL("drop role {}"), login.name)


@pytest.fixture
def program(request: pytest.FixtureRequest) -> str:
    """PgBouncer."""
    found = shutil.which("pgbouncer", path=PATH)
    if found is not None:
        return found
    if request.config.getoption("--hypothesis-profile") in ("bounded", "proof"):
        pytest.fail("PgBouncer is not installed; make proof does it", pytrace=False)
    pytest.skip("PgBouncer is not installed; make proof does it, and runs this")


@contextmanager
def pooler(program: str, login: Login, mode: str) -> Iterator[str]:
    """A PgBouncer with one connection to each database; yields where the login's database is then."""
    place = Path(str(conninfo_to_dict(login.server)["host"]))
    with reachable_directory() as directory:
        yield from _running(program, login, mode, place, directory)


def _running(program: str, login: Login, mode: str, place: Path, directory: Path) -> Iterator[str]:
    # The embedded server's socket is open to nobody but the account that it runs as.
    runs_as = pwd.getpwuid(place.stat().st_uid).pw_name
    shutil.chown(directory, runs_as)
    file = directory / "pgbouncer.ini"
    file.write_text(
        f"[databases]\n* = host={place} user={login.name} password={login.password}\n"
        f"[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {directory}\n"
        f"auth_type = any\npool_mode = {mode}\ndefault_pool_size = 1\n"
    )
    shutil.chown(file, runs_as)
    process = subprocess.Popen(
        [program, str(file)],
        user=runs_as if os.geteuid() == 0 else None,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for((directory / ".s.PGSQL.6432").exists, "PgBouncer listens")
        yield make_conninfo(host=str(directory), port=6432, user=login.name, dbname=login.name)
    finally:
        process.terminate()
        process.wait(timeout=10)


def test_a_pooled_connection_keeps_no_settings(
    deployment: Settings, program: str, login: Login
) -> None:
    with pooler(program, login, "transaction") as url:
        migrate(replace(deployment, database_url=url), lambda _: None)

        with closing(psycopg.connect(url, prepare_threshold=None)) as other:
            left: list[Any] = other.execute(
                """
                select current_user,
                       current_setting('lock_timeout'),
                       (select count(*) from pg_locks where locktype = 'advisory'
                           and database = (select oid from pg_database
                                            where datname = current_database())),
                       (select count(*) from pg_prepared_statements)
                """
            ).fetchall()
            applied = other.execute("select count(*) > 20 from svc.applied_file").fetchone()

    assert left == [(login.name, "0", 0, 0)]
    assert applied == (True,)


def test_a_pooler_without_transactions_is_one_line(
    deployment: Settings, program: str, login: Login
) -> None:
    with pooler(program, login, "statement") as url, pytest.raises(MigrationError) as failure:
        migrate(replace(deployment, database_url=url), lambda _: None)

    assert "statement pooling mode" in str(failure.value)
    assert "\n" not in str(failure.value)
