"""The loop of background jobs: it survives a run that fails, and SVC_JOBS=off starts none."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from shared import database, jobs
from shared.jobs import Job
from shared.pool import Connection, Pool
from shared.settings import Settings
from tests.waiting import wait_for_async

log = logging.getLogger("svc.tests")

OFTEN = timedelta(milliseconds=5)


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (psycopg.errors.UndefinedTable("secret"), "tried later: UndefinedTable"),
        (ValueError("of the work"), "tried later"),
    ],
)
def test_a_run_that_fails_is_logged_and_both_jobs_run_again(
    deployment: Settings, caplog: pytest.LogCaptureFixture, error: Exception, logged: str
) -> None:
    runs = []

    async def fail(_: Connection) -> None:
        raise error

    async def work(connection: Connection) -> None:
        runs.append(await (await connection.execute("select 1")).fetchone())

    async def run() -> None:
        pair = [Job(fail, OFTEN, log, "tried later"), Job(work, OFTEN, log, "never")]
        workers = Pool.to(database.login(deployment, "worker"), size=1)
        async with workers, jobs.running(replace(deployment, jobs=True), workers, pair):
            await wait_for_async(lambda: len(caplog.records) > 1 and len(runs) > 1, "two runs")

    asyncio.run(run())

    assert set(caplog.messages) == {logged}
    assert "secret" not in caplog.text
    assert set(runs) == {(1,)}


def test_no_job_starts_if_jobs_are_off(deployment: Settings) -> None:
    async def work(_: Connection) -> None:
        pytest.fail("it ran")

    async def run() -> set[str]:
        off = replace(deployment, jobs=False)
        workers = Pool.to(database.login(off, "worker"), size=1)
        async with jobs.running(off, workers, [Job(work, OFTEN, log, "never")]):
            return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}

    assert asyncio.run(run()) == set()
