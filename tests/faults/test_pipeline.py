"""Connections shared by many requests, when the server ends them, restarts, or cannot be understood."""

import asyncio
import errno
import os
import selectors
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest
import uvloop

from deploy.postgres.embedded import EmbeddedPostgres
from shared import pipeline
from shared.pipeline import ConnectionLostError, NotConnectedError, Pipelines
from shared.settings import Settings
from tests import limits
from tests.conftest import FAST
from tests.faults.proxy import Proxy, Trap
from tests.waiting import wait_for, wait_for_async

ECHO = pipeline.statement("select %(text)s::text")
PID = pipeline.statement("select pg_backend_pid()::text")
SLEEP = pipeline.statement("select pg_sleep(60)::text")

HANG_S = 20
"""A request without an answer for this long counts as hanging."""
PATIENCE_S = 6 * HANG_S
"""Longer than a test waits: no test may pass because a slow answer was given up."""

RESTARTS = {"suite": 10, "bounded": 10, "proof": 50}

Run = Callable[[Coroutine[Any, Any, None]], None]

each_loop = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


def to(url: str | None, *, size: int = 1) -> closing[Pipelines]:
    return closing(
        Pipelines.to(url or "", size=size, depth=64, patience_s=PATIENCE_S, prepare=True)
    )


async def echo(shared: Pipelines, text: str) -> bytes | None:
    async with asyncio.timeout(HANG_S):
        (result,) = await shared.run(((ECHO, {"text": text}),), may_repeat=False)
    return result.get_value(0, 0)


@each_loop
def test_the_end_of_a_server_process_fails_all_of_its_requests(
    run: Run, deployment: Settings, owner: psycopg.Connection[Any]
) -> None:
    async def use(shared: Pipelines) -> None:
        (answer,) = await shared.run(((PID, {}),))
        pid = int(answer.get_value(0, 0) or b"")
        asleep = asyncio.create_task(shared.run(((SLEEP, {}),), may_repeat=False))
        await until_asleep(owner, pid)
        unread = asyncio.create_task(echo(shared, "unread"))
        await asyncio.sleep(0)

        # The event loop waits for this call. When it looks at the socket again, it finds both the last
        # message of the process and an error, since the process closed the socket with a request unread.
        assert owner.execute("select pg_terminate_backend(%s, 10000)", [pid]).fetchone() == (True,)
        async with asyncio.timeout(HANG_S):
            answers = await asyncio.gather(asleep, unread, return_exceptions=True)

        assert [type(answer) for answer in answers] == [ConnectionLostError] * 2
        assert await echo(shared, "later") == b"later"

    async def main() -> None:
        with to(deployment.database_url) as shared:
            await use(shared)

    run(main())


async def until_asleep(owner: psycopg.Connection[Any], pid: int) -> None:
    asleep = "select from pg_stat_activity where pid = %s and wait_event = 'PgSleep'"
    await wait_for_async(lambda: owner.execute(asleep, [pid]).fetchall(), "the statement to begin")


@pytest.fixture
def postgres() -> Iterator[EmbeddedPostgres]:
    """A Postgres of this test."""
    # Root's system user must reach the directory, and pytest's own directories are closed to it.
    directory = Path(tempfile.mkdtemp(prefix="svc-test-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        with EmbeddedPostgres(directory / "data", settings=FAST) as started:
            yield started
    finally:
        shutil.rmtree(directory)


@pytest.mark.proof
def test_no_request_hangs_while_the_database_restarts(
    postgres: EmbeddedPostgres,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    restarts = RESTARTS[str(request.config.getoption("--hypothesis-profile") or "suite")]
    # A few are longer than what a server process reads at once, so that it ends with unread requests.
    text = "x" * 4000
    count = Counter[str]()

    async def ask(shared: Pipelines, has_restarted: asyncio.Event) -> None:
        for _ in range(1_000_000):
            if has_restarted.is_set():
                return
            try:
                await echo(shared, text)
                count["answered"] += 1
            except TimeoutError:
                count["hanging"] += 1
                return
            except psycopg.OperationalError:
                count["refused"] += 1
                await asyncio.sleep(0.01)

    async def restart(shared: Pipelines) -> None:
        enough = count["answered"] + 300
        has_restarted = asyncio.Event()
        tasks = [asyncio.create_task(ask(shared, has_restarted)) for _ in range(30)]
        for _ in range(10_000):
            if count["answered"] >= enough:
                break
            await asyncio.sleep(0.001)
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(postgres.start)
        has_restarted.set()
        await asyncio.gather(*tasks)

    async def main() -> None:
        with to(postgres.url, size=8) as shared:
            for _ in range(restarts):
                await restart(shared)
                assert count["hanging"] == 0
                answers = await asyncio.gather(*(echo(shared, "here") for _ in shared.pipelines))
                assert answers == [b"here"] * 8

    uvloop.run(main())

    assert count["refused"] > 0
    record_property("database restarts", restarts)


def test_a_malformed_message_of_the_server_closes_only_its_connection(
    deployment: Settings, way: Proxy
) -> None:
    async def main() -> None:
        with to(way.url(deployment.database_url or "")) as shared:
            await echo(shared, "connected")
            client, _ = way.open_sockets
            way.hang()
            tasks = [asyncio.create_task(echo(shared, text)) for text in ("first", "second")]
            await asyncio.sleep(0)

            # The head of a message that no server sends, of 2 GiB.
            client.send(b"\xff\x7f\xff\xff\xff")
            answers = await asyncio.gather(*tasks, return_exceptions=True)

            assert [type(answer) for answer in answers] == [ConnectionLostError] * 2
            assert await echo(shared, "later") == b"later"

    asyncio.run(main())


def test_without_a_free_file_descriptor_a_request_fails_as_without_a_database(
    deployment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def main() -> None:
        with to(deployment.database_url) as shared:
            with monkeypatch.context() as system:
                # The connection took the last free descriptor.
                system.setattr(selectors, "DefaultSelector", refuse)
                with pytest.raises(psycopg.OperationalError, match="Too many open files"):
                    await echo(shared, "refused")
            assert await echo(shared, "later") == b"later"

    asyncio.run(main())


def test_a_database_that_hangs_while_a_pooler_is_looked_for_is_given_up_and_not_asked_to_cancel(
    deployment: Settings, way: Proxy
) -> None:
    url = way.url(deployment.database_url or "")
    way.trap = trap = Trap("asked", 10**6, way.stop)
    with closing(psycopg.connect(url)):
        before = trap.passed
    wait_for(lambda: trap.passed > before, "the end of that connection")
    # The first byte of the first statement.
    way.trap = Trap("asked", before + 1, way.stop)

    async def ask() -> None:
        with to(url) as shared:
            with (
                limits.short(),
                pytest.raises(NotConnectedError, match="it takes too long to connect"),
            ):
                await echo(shared, "early")
            sockets = len(way.open_sockets)
            way.restore()

            assert sockets == 4, "a third connection asked to cancel"
            assert await echo(shared, "later") == b"later"

    asyncio.run(ask())
