"""The address at which one process answers with its metrics, in the format of Prometheus.

Each process of a server has an address of its own: the first one the port of the setting, the next one the
port after it. So every number is that of one process, which is what Prometheus expects of a target, and a
count needs neither a file nor a lock that processes share. A process that replaces another takes its port
when that one has ended.

The address has no credential. It is for the operator's own network, apart from the public addresses.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import prometheus_client
import uvicorn
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from shared import VERSION, listening, metrics
from shared.listening import AddressError, Listen
from shared.metrics import BUCKETS_S, Durations, Readings

_RETRY_S: Final = 0.5
_FINISH_S: Final = 2
"""How long an answer may take that still runs when the process stops; a client may not read it at all."""

log: Final = logging.getLogger("svc.metrics")


@asynccontextmanager
async def listening_on(
    addresses: Listen, processes: int, process: str, commit: str, readings: Sequence[Readings]
) -> AsyncIterator[None]:
    """Answer with the metrics of this process until the end of the block.

    It is one of ``processes`` that are named ``process``. If all their ports are in use, it logs that and
    answers once one is free; it counts from now on.
    """
    known = registry([*readings, lambda: [(metrics.INFO, (process, VERSION, commit), 1)]])
    server = _Server(
        uvicorn.Config(
            prometheus_client.make_asgi_app(known),
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_FINISH_S,
        )
    )
    serving = asyncio.create_task(_serve(server, addresses, processes), name="metrics")
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        stop_counting()


async def _serve(server: uvicorn.Server, addresses: Listen, processes: int) -> None:
    """Answer until the server is to exit; wait for a free port, but never keep requests waiting for it.

    A process that replaces another one starts before that one has ended, so no port may be free yet.
    """
    is_logged = False
    while not server.should_exit:
        try:
            sockets = _free(addresses, processes)
        except AddressError as error:
            if not is_logged:
                log.warning("no metrics of this process until a port is free: %s", error)
            is_logged = True
            await asyncio.sleep(_RETRY_S)
        else:
            await server.serve(sockets)
            return


class _Server(uvicorn.Server):
    """A second server of a process, which leaves the signals to the first one."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _free(addresses: Listen, processes: int) -> list[socket.socket]:
    """Listen at the addresses of the first process that is not here. Raises AddressError."""
    for number in range(processes - 1):
        try:
            return listening.listen(addresses.moved(number))
        except AddressError:
            continue
    return listening.listen(addresses.moved(processes - 1))


def registry(readings: Sequence[Readings] = ()) -> CollectorRegistry:
    """Return a new registry of all metrics, which are counted from now on."""
    known = CollectorRegistry()
    prometheus_client.ProcessCollector(registry=known)
    for counter in metrics.COUNTERS:
        counter.collector = prometheus_client.Counter(
            counter.name, counter.about, counter.labels, registry=known
        )
    for durations in metrics.DURATIONS:
        durations.is_on = True
        known.register(_Durations(durations))
    known.register(_Gauges(readings))
    return known


def stop_counting() -> None:
    """Forget all counts, and count no more."""
    for counter in metrics.COUNTERS:
        counter.collector = None
    for durations in metrics.DURATIONS:
        durations.is_on = False
        durations.by_name.clear()


class _Durations(Collector):
    """Turns durations into a counter and a histogram."""

    def __init__(self, durations: Durations) -> None:
        self._durations = durations

    def collect(self) -> Iterator[Metric]:
        these = self._durations
        count = CounterMetricFamily(these.count, these.about, labels=these.labels)
        histogram = HistogramMetricFamily(
            these.duration, f"{these.about}: how long they took", labels=these.labels[:1]
        )
        for name, timed in these.by_name.items():
            for outcome, number in timed.outcomes.items():
                count.add_metric([name, outcome], number)
            total, buckets = 0, []
            for bound, number in zip((*BUCKETS_S, float("inf")), timed.counts, strict=True):
                total += number
                buckets.append(("+Inf" if bound == float("inf") else str(bound), total))
            histogram.add_metric([name], buckets, timed.seconds)
        yield count
        yield histogram


class _Gauges(Collector):
    """Reads gauges when they are asked for."""

    def __init__(self, readings: Sequence[Readings]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        families = {
            gauge: GaugeMetricFamily(gauge.name, gauge.about, labels=gauge.labels)
            for gauge in metrics.GAUGES
        }
        for read in self._readings:
            for gauge, values, value in read():
                families[gauge].add_metric(values, value)
        yield from families.values()
