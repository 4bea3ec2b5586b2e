"""Pools whose connection to the database is cut or silent: they refuse in time and recover."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from shared import database
from shared.pool import Pool
from shared.settings import Settings
from tests.faults.proxy import Proxy, Trap, proxy

HANG_S = 20.0
"""A request without an answer for this long counts as hanging."""


@pytest.fixture
def url(deployment: Settings) -> str:
    return database.login(deployment, "worker")


@pytest.fixture
def worker_way(url: str) -> Iterator[Proxy]:
    """A proxy to the database."""
    with proxy(url) as opened:
        yield opened


async def works(workers: Pool) -> bool:
    try:
        async with workers.connection() as connection:
            await connection.execute("select 1")
    except psycopg.OperationalError:
        return False
    return True


def test_connections_are_available_at_once_after_an_outage(
    url: str, worker_way: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT_S", 0.1)

    async def run() -> None:
        async with Pool.to(worker_way.url(url), size=2) as workers:
            pool = workers.connections
            pool.timeout = HANG_S
            assert await works(workers)
            worker_way.cut()
            pool.timeout = database.WAIT_S
            # More often than so many could wait at the same time.
            while_cut = [await works(workers) for _ in range(20)]
            attempts = worker_way.refused
            worker_way.restore()
            pool.timeout = HANG_S

            assert not any(while_cut)
            # No attempt waits for a pause after the ones before, so neither does the next one.
            assert attempts >= 10
            assert await works(workers)

    asyncio.run(run())


def test_a_silent_network_does_not_delay_requests_for_a_connection(
    url: str, worker_way: Proxy
) -> None:
    async def run() -> None:
        async with Pool.to(worker_way.url(url), size=2) as workers:
            assert await works(workers)
            idle = await workers.take()
            workers.connections.timeout = 2.0
            worker_way.stop()
            async with asyncio.timeout(HANG_S):
                assert await works(workers) is False
            workers.connections.timeout = HANG_S
            worker_way.restore()
            await workers.give_back(idle)
            assert await works(workers)

    asyncio.run(run())


@pytest.mark.usefixtures("short_wait")
def test_a_connection_that_is_silent_from_its_first_statement_on_is_given_up(
    url: str, worker_way: Proxy
) -> None:
    to_connect = Trap("asked", 1_000_000, worker_way.hang)
    worker_way.trap = to_connect

    async def run() -> None:
        async with (
            Pool.to(worker_way.url(url), size=1, prepare=True) as workers,
            asyncio.timeout(HANG_S),
        ):
            assert await works(workers) is False
            assert len(worker_way.flows) == 2
            while not await works(workers):
                pass

    with psycopg.connect(worker_way.url(url)):
        worker_way.trap = Trap("asked", to_connect.passed + 1, worker_way.hang)
        asyncio.run(run())


def test_a_connection_is_taken_without_a_round_trip(url: str, worker_way: Proxy) -> None:
    async def run() -> None:
        async with Pool.to(worker_way.url(url), size=1) as workers:
            assert await works(workers)
            before = worker_way.round_trips
            await workers.give_back(await workers.take())

            assert worker_way.round_trips == before

    asyncio.run(run())
