"""Which work gives way to other work."""

import asyncio
import os
import sys
import threading

import pytest

from authserver.people.passwords import Hasher
from shared import database, pipeline, priority
from shared.pipeline import Pipelines
from shared.pool import Pool
from shared.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has priorities of threads")

PID = pipeline.statement("select pg_backend_pid()::text")
USUAL = os.getpriority(os.PRIO_PROCESS, 0)


def niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


@pytest.mark.parametrize("gives_way", [False, True])
def test_connections_for_long_questions_give_way(deployment: Settings, gives_way: bool) -> None:
    async def ask() -> int:
        connections = Pipelines.to(
            database.login(deployment, "reader"),
            size=1,
            depth=1,
            patience_s=20,
            prepare=True,
            gives_way=gives_way,
        )
        try:
            (answer,) = await connections.run(((PID, {}),))
            return niceness(int((answer.get_value(0, 0) or b"").decode()))
        finally:
            connections.close()

    reached = asyncio.run(ask())

    assert (reached == priority.LOWER) is gives_way


def test_connections_of_a_pool_give_way(deployment: Settings) -> None:
    async def ask() -> int:
        async with (
            Pool.to(database.login(deployment, "worker"), size=1) as pool,
            pool.connection() as connection,
        ):
            return niceness(connection.info.backend_pid)

    assert asyncio.run(ask()) == priority.LOWER


def test_hashes_give_way_and_nothing_else_of_the_process_does() -> None:
    hasher = Hasher()
    reached: list[int] = []

    async def run() -> None:
        await hasher._run(False, lambda: reached.append(niceness(threading.get_native_id())))

    asyncio.run(run())

    assert (reached, niceness(threading.get_native_id())) == ([max(priority.LOWER, USUAL)], USUAL)
