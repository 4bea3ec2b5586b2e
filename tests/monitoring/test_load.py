"""How busy connections and places are, and how much space is left."""

import asyncio
import os
import socket
from pathlib import Path
from typing import Final

from resourceserver.api.turns import Turns
from shared import database, listening, metrics, metrics_server
from shared.listening import Address, Listen
from shared.metrics import Load
from shared.pipeline import Pipelines, Step, statement
from shared.pool import Pool
from shared.settings import Settings
from tests.monitoring.scraping import answers
from tests.processes import neighbouring_ports
from tests.waiting import wait_for_async

SLEEP: Final[Step] = (statement("select pg_sleep(5)"), {})


def test_places_that_are_held_and_requests_that_wait_for_one_are_counted() -> None:
    async def measure() -> dict[str, float]:
        turns = Turns(2, 1, name="exports")
        await turns.take("alice")
        await turns.take("bob")
        waiting = [asyncio.create_task(turns.take(name)) for name in ("alice", "alice", "carol")]
        await asyncio.sleep(0)
        measured = {
            gauge.name: value for gauge, labels, value in turns.load() if labels == ("exports",)
        }
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return measured

    assert asyncio.run(measure()) == {
        "svc_queue_places": 2,
        "svc_queue_places_held": 2,
        "svc_queue_requests_waiting": 3,
        "svc_queue_people_waiting": 2,
    }


def test_a_pool_says_how_many_use_its_connections_and_how_many_wait(deployment: Settings) -> None:
    async def measure() -> list[Load]:
        async with Pool.to(database.login(deployment, "worker"), size=1, is_patient=True) as pool:
            before = pool.load()
            connection = await pool.take()
            waiting = asyncio.create_task(pool.take())
            await wait_for_async(lambda: pool.waiting, "the second waits")
            during = pool.load()
            await pool.give_back(connection)
            await pool.give_back(await waiting)
            return [before, during, pool.load()]

    assert asyncio.run(measure()) == [Load(0, 1, 0, 0), Load(1, 1, 1, 1), Load(1, 1, 0, 0)]


def test_pipelines_say_how_many_use_their_connections_and_how_many_wait(
    deployment: Settings,
) -> None:
    async def measure() -> list[Load]:
        pipelines = Pipelines.to(
            database.login(deployment, "reader"), size=2, depth=1, patience_s=60, prepare=True
        )
        before = pipelines.load()
        asked = [asyncio.create_task(pipelines.run([SLEEP])) for _ in range(2)]
        await wait_for_async(lambda: pipelines.load().connections == 2, "both are connected")
        asked.append(asyncio.create_task(pipelines.run([SLEEP])))
        await asyncio.sleep(0)
        during = pipelines.load()
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        pipelines.close()
        return [before, during, pipelines.load()]

    assert asyncio.run(measure()) == [Load(0, 2, 0, 0), Load(2, 2, 2, 1), Load(0, 2, 0, 0)]


def test_the_newest_complete_backup_says_when_it_was_written(tmp_path: Path) -> None:
    def written() -> list[float]:
        return [value for _, _, value in metrics.of_backups(Settings(backup_dir=tmp_path))]

    none = written()
    for name, at in (("20261101T000000.000Z", 1000), ("20261102T000000.000Z", 2000)):
        backup = tmp_path / f"svc-{name}"
        backup.mkdir()
        (backup / "manifest.json").write_text("{}")
        os.utime(backup / "manifest.json", (at, at))
    (tmp_path / "svc-20261103T000000.000Z").mkdir()

    assert none == [0]
    assert written() == [2000]
    assert list(metrics.of_backups(Settings(backup_dir=None))) == []


def test_the_space_of_directories_that_are_not_there_is_left_out(tmp_path: Path) -> None:
    chosen = Settings(
        storage_dir=tmp_path,
        storage_reserve_mib=3,
        upload_dir=tmp_path / "missing",
        upload_free_mib=4,
    )

    measured = {(gauge.name, *labels): value for gauge, labels, value in metrics.of_disks(chosen)}

    assert measured.keys() == {
        ("svc_disk_free_bytes", "database"),
        ("svc_disk_size_bytes", "database"),
        ("svc_disk_reserve_bytes", "database"),
    }
    free, size = (
        measured["svc_disk_free_bytes", "database"],
        measured["svc_disk_size_bytes", "database"],
    )
    assert 0 < free <= size
    assert measured["svc_disk_reserve_bytes", "database"] == 3 * 1024 * 1024


def test_a_process_answers_with_its_metrics_once_the_one_that_it_replaces_has_ended() -> None:
    port = neighbouring_ports(1)
    listen = Listen("SVC_AUTH_METRICS_LISTEN", (Address("127.0.0.1", port),))

    async def replaced() -> bool:
        (former,) = listening.listen(listen)
        async with metrics_server.listening_on(listen, 1, "authserver", "abc1234", ()):
            await asyncio.sleep(0)
            former.close()
            await wait_for_async(lambda: answers(port), "the new process listens")
        return answers(port)

    assert asyncio.run(replaced()) is False


def test_a_client_that_reads_no_metrics_does_not_keep_a_process_from_stopping() -> None:
    port = neighbouring_ports(1)
    listen = Listen("SVC_AUTH_METRICS_LISTEN", (Address("127.0.0.1", port),))

    async def stop() -> None:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            async with metrics_server.listening_on(listen, 1, "authserver", "abc1234", ()):
                await wait_for_async(lambda: answers(port), "the process listens")
                client.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(client, ("127.0.0.1", port))
                await loop.sock_sendall(client, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 2000)
                # More answers than the buffers of both ends take.
                await asyncio.sleep(2)

    async def stop_in_time() -> None:
        async with asyncio.timeout(60):
            await stop()

    asyncio.run(stop_in_time())
