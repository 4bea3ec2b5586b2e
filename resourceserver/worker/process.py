"""The process of ``svc resource work``: one loop, the connections of its roles, and its end by a signal."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from resourceserver.uploads import upkeep
from resourceserver.uploads.directory import Directory
from resourceserver.worker.kinds import kinds
from resourceserver.worker.running import LEASE, Worker
from resourceserver.worker.turns import Kind
from resourceserver.worker.waiting import Waiting
from shared import database, jobs, lifeline, log_lines, metrics, readiness, storage
from shared.metrics import Reading
from shared.pool import Pool
from shared.settings import Settings
from shared.storage import Storage

log = logging.getLogger("svc.worker")


def work(
    chosen: Settings,
    role_urls: Mapping[str, str],
    *,
    offered: Callable[[Pool], Mapping[str, Kind]] = kinds,
    lease: timedelta = LEASE,
) -> None:
    """Take turns with the logins ``role_urls`` until SIGTERM or SIGINT; then give back what is not done.

    Raises AddressError if it cannot listen for questions about its metrics.

    ``offered`` returns the kinds of turns by name, for a pool of connections of the worker role.
    """
    storage.check_setting(chosen)
    log_lines.configure(chosen.log_format, "worker")
    metrics.check(chosen.worker_metrics, 1)
    for line in database.connection_shortages(role_urls, chosen.connections_of_worker):
        log.warning("%s", line)
    if chosen.lifeline is not None:
        lifeline.watch(chosen.lifeline)
    own = replace(chosen, database_url=None, role_urls=role_urls, jobs=True)
    asyncio.run(_work(own, offered, lease))


async def _work(
    chosen: Settings, offered: Callable[[Pool], Mapping[str, Kind]], lease: timedelta
) -> None:
    stop = asyncio.Event()

    def begin_to_stop() -> None:
        readiness.send(chosen.notify_socket, readiness.STOPPING)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, begin_to_stop)
    login = database.login(chosen, "worker")
    # Leases are renewed on a connection of their own, however long the work on the others takes.
    control = Pool.to(login, size=1, is_patient=True, prepare=chosen.prepare)
    workers = Pool.to(login, size=chosen.job_connections, is_patient=True, prepare=chosen.prepare)
    served = offered(workers)
    looks = [kind.look for kind in served.values() if kind.look is not None]
    waiting = Waiting((*served,))
    if chosen.worker_metrics_listen:
        looks.append(waiting.job())

    def readings() -> Iterator[Reading]:
        yield from metrics.of_pools({"control": control, "jobs": workers})
        yield from metrics.of_disks(chosen)
        yield from metrics.of_backups(chosen)
        yield from waiting.readings()

    log.info("this worker takes turns: %s", ", ".join(served))
    directory = None if chosen.upload_dir is None else Directory(chosen.upload_dir, 0)
    async with (
        control,
        workers,
        upkeep.comparing_directories(directory, "worker", workers),
        jobs.running(chosen, workers, looks),
        metrics.served(chosen, chosen.worker_metrics, "worker", (readings,)),
    ):
        readiness.send(chosen.notify_socket, readiness.READY)
        await Worker(served, control, lease, Storage.of(chosen)).run(stop)
    log.info("this worker has ended")
