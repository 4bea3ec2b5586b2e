"""Pools of connections: their size, their waiting requests, and the state of returned connections."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from shared import database, pool
from shared.pipeline import NotConnectedError
from shared.pool import Connection, Pool
from shared.settings import Settings
from tests.conftest import Connect
from tests.waiting import wait_for_async

Rows = psycopg.Connection[Any]


def with_pool(chosen: Settings, use: Callable[[Pool], Awaitable[None]], *, size: int = 1) -> None:
    async def run() -> None:
        async with Pool.to(database.login(chosen, "worker"), size=size) as workers:
            await use(workers)

    asyncio.run(run())


async def backend(connection: Connection) -> int:
    found = await connection.execute("select pg_backend_pid()")
    ((pid,),) = await found.fetchall()
    return int(pid)


async def backends(workers: Pool, count: int) -> set[int]:
    """Return the backends of ``count`` connections in use at the same time."""
    taken = [await workers.take() for _ in range(count)]
    pids = {await backend(each) for each in taken}
    for each in taken:
        await workers.give_back(each)
    return pids


def open_backends(owner: Rows) -> list[int]:
    found = owner.execute(
        """
        select pid
          from pg_stat_activity
         where application_name = 'svc worker'
           and datname = current_database()
        """
    ).fetchall()
    return [pid for (pid,) in found]


@pytest.mark.parametrize(("prepare", "count"), [(True, 1), (False, 0)])
def test_a_pool_prepares_statements_at_their_first_use_if_it_is_for_repetitive_work(
    deployment: Settings, prepare: bool, count: int
) -> None:
    async def run() -> tuple[Any, ...]:
        login = database.login(deployment, "worker")
        async with (
            Pool.to(login, size=1, prepare=prepare) as workers,
            workers.connection() as connection,
        ):
            await connection.execute("select %(n)s + 1", {"n": 1})
            found = await connection.execute(
                "select count(*) from pg_prepared_statements where statement like '%% + 1'", ()
            )
            ((prepared,),) = await found.fetchall()
            plans = await connection.execute("show plan_cache_mode")
            return prepared, *(await plans.fetchall())[0]

    assert asyncio.run(run()) == (count, "force_generic_plan")


@pytest.mark.direct
def test_a_pool_connects_when_it_is_used_and_keeps_its_connections_until_it_is_closed(
    deployment: Settings, owner: Rows
) -> None:
    async def use(workers: Pool) -> None:
        assert workers.connections.get_stats()["pool_size"] == 0
        first = await backends(workers, 1)
        assert await backends(workers, 1) == first
        # A backend of the test before may still be about to end.
        await wait_for_async(
            lambda: set(open_backends(owner)) == first, "the only connection to be that of the pool"
        )
        assert len(await backends(workers, 3)) == 3

    with_pool(deployment, use, size=3)

    asyncio.run(wait_for_async(lambda: open_backends(owner) == [], "the connections to be closed"))


def test_a_request_beyond_the_size_of_the_pool_waits_and_is_served_or_refused(
    deployment: Settings,
) -> None:
    async def use(workers: Pool) -> None:
        first = await workers.take()
        workers.wait_s = 0.05
        with pytest.raises(psycopg.OperationalError, match="every connection is busy") as refused:
            await workers.take()
        workers.wait_s = None
        waiting = asyncio.create_task(workers.take())
        await wait_for_async(lambda: workers.waiting == 1, "a request to wait")
        await workers.give_back(first)
        second = await waiting
        await workers.give_back(second)

        assert not isinstance(refused.value, NotConnectedError)
        assert second is first

    with_pool(deployment, use)


def test_a_request_beyond_the_waiting_limit_is_refused_at_once(
    deployment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MOST_WAITING", 1)

    async def use(workers: Pool) -> None:
        first = await workers.take()
        waiting = asyncio.create_task(workers.take())
        await wait_for_async(lambda: workers.waiting == 1, "a request to wait")
        with pytest.raises(psycopg.OperationalError, match="too many wait"):
            await workers.take()
        await workers.give_back(first)
        await workers.give_back(await waiting)

    with_pool(deployment, use)


def test_connections_that_the_server_has_ended_are_replaced_without_an_error(
    deployment: Settings, ending_as: Connect
) -> None:
    bystander = ending_as("worker")

    async def use(workers: Pool) -> None:
        before = await backends(workers, 4)
        for pid in before:
            bystander.execute("select pg_terminate_backend(%s, 5000)", [pid])

        after = await backends(workers, 4)

        assert not before & after

    with_pool(deployment, use, size=4)


def test_an_open_transaction_is_rolled_back(deployment: Settings, connect_as: Connect) -> None:
    async def use(workers: Pool) -> None:
        async with workers.connection() as connection:
            await connection.execute("begin")
            await connection.execute("set local application_name = 'of the transaction'")
        async with workers.connection() as again:
            found = await again.execute("show application_name")
            assert again is connection
            assert await found.fetchall() == [("svc worker",)]

    with_pool(deployment, use)


def test_a_canceled_or_failed_request_returns_its_connection(deployment: Settings) -> None:
    async def use(workers: Pool) -> None:
        first = await workers.take()
        impatient = asyncio.create_task(workers.take())
        await wait_for_async(lambda: workers.waiting == 1, "a request to wait")
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        await workers.give_back(first)
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with workers.connection() as connection:
                await connection.execute("select 1 / 0")

        assert workers.waiting == 0
        assert len(await backends(workers, 1)) == 1

    with_pool(deployment, use)


def test_a_cancellation_that_comes_with_the_connection_is_not_lost(deployment: Settings) -> None:
    async def use(workers: Pool) -> None:
        first = await workers.take()
        # One more place than connections, so that the request waits in psycopg's pool.
        workers.places.release()
        late = asyncio.create_task(workers.take())
        await wait_for_async(
            lambda: workers.connections.get_stats()["requests_waiting"] == 1, "a request to wait"
        )
        await workers.connections.putconn(first)
        late.cancel()
        await asyncio.wait([late])

        assert late.cancelled()
        assert len(await backends(workers, 1)) == 1

    with_pool(deployment, use)


def test_an_unreachable_database_is_distinguished_from_busy_connections(
    deployment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT_S", 0.2)
    nowhere = replace(deployment, role_urls={"worker": "host=127.0.0.1 port=1 dbname=svc"})

    async def use(workers: Pool) -> None:
        assert workers.connections.timeout == 0.2
        for _ in range(2):
            with pytest.raises(NotConnectedError):
                await workers.take()

    with_pool(nowhere, use)
