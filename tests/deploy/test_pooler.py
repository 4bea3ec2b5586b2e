"""PgBouncer, which gives a connection to another client after each transaction: what goes through it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.migrate import MigrationError, migrate
from shared import database, pipeline
from shared.pipeline import Pipelines
from shared.pool import Pool
from shared.settings import Settings
from tests import pooler

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parent.parent.parent
REFUSAL = "DATABASE_URL leads to a connection pooler, and must name the PostgreSQL server itself"


@pytest.fixture(params=["transaction", "session", "statement"])
def pooled(request: pytest.FixtureRequest, deployment: Settings) -> Iterator[Settings]:
    """A deployment whose owner's login leads through PgBouncer in one of its modes."""
    url = deployment.database_url or ""
    owner = str(conninfo_to_dict(url)["user"])
    with pooler.pooler(url, {owner: ""}, request.param) as address:
        name = str(conninfo_to_dict(url)["dbname"])
        yield replace(deployment, database_url=make_conninfo(address, user=owner, dbname=name))


def test_a_pooler_in_any_mode_is_noticed_and_postgresql_itself_is_not(
    pooled: Settings, deployment: Settings
) -> None:
    for chosen, expected in ((pooled, True), (deployment, False)):
        url = chosen.database_url or ""
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            assert database.is_pooled(connection) is expected


def test_migrations_are_refused_behind_a_pooler(pooled: Settings) -> None:
    with pytest.raises(MigrationError) as failure:
        migrate(pooled, lambda _: None)

    assert str(failure.value).startswith(REFUSAL)


@pytest.mark.parametrize("command", [["migrate"], ["imports", "list", "alice@example.org"], ["up"]])
def test_commands_of_the_owner_are_refused_in_one_line(
    pooled: Settings, command: list[str]
) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "deploy.cli", *command],
        env={
            "DATABASE_URL": pooled.database_url or "",
            "SVC_DATA_DIR": str(pooled.data_dir),
            "PATH": "",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1
    assert run.stderr.startswith(f"svc: {REFUSAL}")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("pooled", ["transaction"], indirect=True)
def test_connections_that_change_places_prepare_nothing_and_get_their_own_answers(
    pooled: Settings,
) -> None:
    statements = [
        pipeline.statement(f"select %(n)s::integer + {number} from pg_sleep(0.002)")  # noqa: S608 -- a number
        for number in range(10)
    ]

    async def ask() -> tuple[list[bytes | None], int]:
        url = pooled.database_url or ""
        with closing(Pipelines.to(url, size=8, depth=4, patience_s=60, prepare=True)) as pipelines:
            results = await asyncio.gather(
                *(
                    pipelines.run([(statements[n % 10], {"n": n})], may_repeat=False)
                    for n in range(400)
                )
            )
            prepared = await pipelines.run(
                [(pipeline.statement("select count(*) from pg_prepared_statements"), {})]
            )
        return [found[0].get_value(0, 0) for found in results], int(
            prepared[0].get_value(0, 0) or 0
        )

    answers, prepared = asyncio.run(ask())

    assert answers == [str(n + n % 10).encode() for n in range(400)]
    assert prepared == 0


@pytest.mark.parametrize("pooled", ["transaction"], indirect=True)
def test_the_connections_of_a_worker_prepare_nothing_behind_a_pooler(
    pooled: Settings, deployment: Settings
) -> None:
    async def prepared(chosen: Settings) -> tuple[object, ...] | None:
        pool = Pool.to(chosen.database_url or "", size=1, is_patient=True, prepare=True)
        async with pool, pool.connection() as connection:
            await connection.execute("select %s::text", ["of the worker"])
            cursor = await connection.execute(
                "select count(*) from pg_prepared_statements where statement like 'select $1::text%'"
            )
            return await cursor.fetchone()

    assert asyncio.run(prepared(deployment)) == (1,)
    assert asyncio.run(prepared(pooled)) == (0,)


LAYERS = (
    *("tests/worker", "tests/sql/test_connections.py", "tests/sql/test_isolation.py"),
    *("tests/oauth/test_races.py", "tests/oauth/test_token_refresh.py", "tests/ingest"),
    "tests/endpoints/test_app_usage.py",
)
"""Some of what ``make test-pooler`` runs: a part of each layer, with what has many connections at once."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_each_layer_passes_through_a_pooler() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *LAYERS],
        env=os.environ | {"SVC_TEST_POOLER": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout[-4000:]
