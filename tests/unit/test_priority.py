"""Which work gives way to other work."""

import asyncio
import ctypes
import os
import platform
import struct
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import resourceserver.app
from authserver.people.passwords import Hasher
from resourceserver.api import packing
from resourceserver.api.session import Reader
from shared import database, pipeline, priority
from shared.pipeline import Pipelines
from shared.pool import Pool
from shared.settings import Settings
from tests.waiting import wait_for_async

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has priorities of threads")

PID = pipeline.statement("select pg_backend_pid()::text")
USUAL = os.getpriority(os.PRIO_PROCESS, 0)


def niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def niceness_of_session(pid: int) -> int:
    """Return the niceness that counts where Linux shares the processors between sessions first."""
    group = Path(f"/proc/{pid}/autogroup")
    if not group.exists():
        pytest.skip("this kernel has no groups of sessions")
    return int(group.read_text().split()[-1])


def turn_ns(pid: int) -> int:
    """Return how long a process computes at a time, from sched_getattr(2)."""
    number = {"x86_64": 315, "aarch64": 275}.get(platform.machine())
    attributes = ctypes.create_string_buffer(48)
    if number is None or ctypes.CDLL(None).syscall(number, pid, attributes, 48, 0):
        pytest.skip("the system call has another number here, or is not allowed")
    turn: int = struct.unpack("=IIQiIQQQ", attributes.raw)[5]
    if not turn:
        pytest.skip("this kernel has no turns of their own length")
    return turn


def test_processes_of_long_questions_compute_for_long_at_a_time(deployment: Settings) -> None:
    async def ask(giving_way: int) -> int:
        connections = Pipelines.to(
            database.login(deployment, "reader"),
            size=1,
            depth=1,
            patience_s=20,
            prepare=True,
            giving_way=giving_way,
        )
        try:
            (answer,) = await connections.run(((PID, {}),))
            return turn_ns(int((answer.get_value(0, 0) or b"").decode()))
        finally:
            connections.close()

    usual, long = asyncio.run(ask(0)), asyncio.run(ask(1))

    assert (usual == turn_ns(os.getpid()), long) == (True, 20_000_000)


@pytest.mark.parametrize("gives_way", [False, True])
def test_connections_for_long_questions_give_way(deployment: Settings, gives_way: bool) -> None:
    async def ask() -> tuple[int, int]:
        connections = Pipelines.to(
            database.login(deployment, "reader"),
            size=1,
            depth=1,
            patience_s=20,
            prepare=True,
            giving_way=int(gives_way),
        )
        try:
            (answer,) = await connections.run(((PID, {}),))
            pid = int((answer.get_value(0, 0) or b"").decode())
            if gives_way:
                # Without a privilege the session's priority may only be lowered at a second attempt.
                await wait_for_async(
                    lambda: niceness_of_session(pid) == priority.LITTLE_LOWER,
                    "the session gives way",
                )
            return niceness(pid), niceness_of_session(pid)
        finally:
            connections.close()

    reached = asyncio.run(ask())

    assert (
        reached == (max(priority.LITTLE_LOWER, USUAL), priority.LITTLE_LOWER)
        if gives_way
        else reached == (USUAL, 0)
    )


def test_as_many_connections_to_a_replica_give_way_as_to_the_primary(deployment: Settings) -> None:
    reader = Reader.of(replace(deployment, reader_replica_url=deployment.database_url))

    assert reader.replica is not None
    ways = [
        [each.gives_way for each in pool.pipelines]
        for pool in (reader.patient, reader.replica.patient)
    ]
    assert ways == [[False, False, True, True, True]] * 2


def test_further_questions_of_a_person_give_way_and_the_first_of_another_does_not(
    deployment: Settings,
) -> None:
    async def ask() -> list[int]:
        connections = Pipelines.to(
            database.login(deployment, "reader"),
            size=2,
            depth=256,
            patience_s=20,
            prepare=True,
            giving_way=1,
        )
        people = ("alice", "alice", "alice", "bob", "bob")
        try:
            answers = await asyncio.gather(
                *(connections.run(((PID, {}),), person=each) for each in people)
            )
            pids = [int((answer.get_value(0, 0) or b"").decode()) for (answer,) in answers]
            return [niceness(pid) for pid in pids]
        finally:
            connections.close()

    # bob's second one does not wait behind the two of alice.
    further = max(priority.LITTLE_LOWER, USUAL)
    assert asyncio.run(ask()) == [USUAL, further, further, USUAL, USUAL]


def test_connections_of_a_pool_give_way(deployment: Settings) -> None:
    async def ask() -> int:
        async with (
            Pool.to(database.login(deployment, "worker"), size=1) as pool,
            pool.connection() as connection,
        ):
            return niceness(connection.info.backend_pid)

    assert asyncio.run(ask()) == max(priority.LITTLE_LOWER, USUAL)


def test_large_answers_are_compressed_by_threads_that_give_way() -> None:
    asyncio.run(packing._compressed(bytes(packing.LARGE)))

    threads = [each for each in threading.enumerate() if each.name.startswith("compression")]
    assert {niceness(each.native_id or 0) for each in threads} == {
        max(priority.LITTLE_LOWER, USUAL)
    }


@pytest.mark.parametrize(
    ("is_known", "lower"), [(False, priority.LOWER), (True, priority.LITTLE_LOWER)]
)
def test_hashes_give_way_those_of_strangers_most(is_known: bool, lower: int) -> None:
    hasher = Hasher()
    reached: list[int] = []

    async def run() -> None:
        # Each place has a thread of its own, since a priority may not be raised again.
        await hasher._run(not is_known, lambda: None)
        await hasher._run(is_known, lambda: reached.append(niceness(threading.get_native_id())))

    asyncio.run(run())

    assert (reached, niceness(threading.get_native_id())) == ([max(lower, USUAL)], USUAL)


@pytest.mark.parametrize("is_known", [False, True])
def test_hashes_of_strangers_leave_half_of_the_processors_free(is_known: bool) -> None:
    hasher = Hasher()
    all_of_them = os.sched_getaffinity(0)

    def leaves_some() -> bool:
        return 2 * len(os.sched_getaffinity(0)) <= len(all_of_them) + 1

    left = asyncio.run(hasher._run(is_known, leaves_some))

    assert left is not is_known or len(all_of_them) == 1
    assert os.sched_getaffinity(0) == all_of_them


def test_a_thread_that_computes_gives_way_to_requests_after_a_tenth_of_a_millisecond(
    deployment: Settings,
) -> None:
    usual = sys.getswitchinterval()
    try:
        sys.setswitchinterval(0.005)

        resourceserver.app.create(deployment)

        assert sys.getswitchinterval() == pytest.approx(0.000_1)
    finally:
        sys.setswitchinterval(usual)
