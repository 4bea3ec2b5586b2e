"""What an operator can measure of a process, and the counting itself (docs/ARCHITECTURE.md, "Metrics").

Everything here costs next to nothing until ``shared.metrics_server`` starts, which imports prometheus-client
and gives each counter its collector. The values of labels come from this repository alone: names of routes,
tools, kinds and errors. No label holds what a person, a client or a stranger has chosen, since each new value
is another time series for ever.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from shared import listening
from shared.listening import Listen
from shared.settings import Settings

if TYPE_CHECKING:
    import prometheus_client

BUCKETS_S: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds by which durations are counted, in seconds."""


@dataclass(eq=False)
class Counter:
    """A number that only grows while the process lives."""

    name: str
    """With ``_total`` at its end."""
    about: str
    labels: tuple[str, ...] = ()
    collector: "prometheus_client.Counter | None" = field(default=None, repr=False)
    """None while metrics are off."""

    def add(self, *values: str, amount: float = 1) -> None:
        """Count for these values of the labels."""
        if self.collector is not None:
            counted = self.collector.labels(*values) if values else self.collector
            counted.inc(amount)


@dataclass(frozen=True)
class Gauge:
    """A number that is read when Prometheus asks for it."""

    name: str
    about: str
    labels: tuple[str, ...] = ()


Reading = tuple[Gauge, tuple[str, ...], float]
"""A gauge, the values of its labels, and its value now."""
Readings = Callable[[], Iterable[Reading]]


@dataclass(eq=False)
class Durations:
    """How often something happened, by name and outcome, and how long it took, by name.

    A histogram of prometheus-client takes five times as long for each request. This one is not for threads.
    """

    count: str
    """The name of the counter."""
    duration: str
    """The name of the histogram."""
    about: str
    labels: tuple[str, str]
    """The labels of name and outcome."""
    is_on: bool = False
    by_name: "dict[str, Timed]" = field(default_factory=dict, repr=False)

    def add(self, name: str, outcome: str, seconds: float) -> None:
        """Count one that took ``seconds``."""
        if not self.is_on:
            return
        timed = self.by_name.get(name)
        if timed is None:
            timed = self.by_name[name] = Timed()
        timed.outcomes[outcome] = timed.outcomes.get(outcome, 0) + 1
        timed.counts[bisect_left(BUCKETS_S, seconds)] += 1
        timed.seconds += seconds


@dataclass(eq=False)
class Timed:
    """The durations of one name."""

    outcomes: dict[str, int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    """By the bucket they fall into; the last one is for those above all bounds."""
    seconds: float = 0.0


REQUESTS: Final = Durations(
    "svc_requests_total",
    "svc_request_duration_seconds",
    "Requests, by the name of their route; 'none' is for addresses without one",
    ("route", "status"),
)

TOOL_CALLS: Final = Durations(
    "svc_tool_calls_total",
    "svc_tool_call_duration_seconds",
    "Calls of tools of the MCP endpoint; the outcome is answered, mistaken or failed",
    ("tool", "outcome"),
)

TURNS: Final = Durations(
    "svc_turns_total",
    "svc_turn_duration_seconds",
    "Turns of the worker: done, put_off, failed, given_back, lost",
    ("kind", "outcome"),
)

REFUSALS: Final = Counter(
    "svc_refusals_total",
    "Requests refused with 401, 403, 429 or 503, by reason; that of 429 is the limit",
    ("status", "reason"),
)
TOKEN_REQUESTS: Final = Counter(
    "svc_token_requests_total",
    "Requests to the token endpoint; the outcome is issued, or the error",
    ("grant_type", "outcome"),
)
AUTHORIZATIONS: Final = Counter(
    "svc_authorizations_total",
    "Authorization requests: accepted, an error; and their ends: allowed, declined, renewed",
    ("outcome",),
)
SECURITY_EVENTS: Final = Counter(
    "svc_security_events_total",
    "Security events of accounts, such as sign-ins, revocations and replays",
    ("event",),
)
INGESTED: Final = Counter(
    "svc_ingest_events_total",
    "Events in batches of trackers: accepted, duplicate or rejected",
    ("stream", "outcome"),
)
REJECTIONS: Final = Counter(
    "svc_ingest_rejections_total", "Rejected events by reason", ("stream", "code")
)
RECEIVED: Final = Counter(
    "svc_receiver_records_total",
    "Records that applications sent in their own formats: added, changed, known or refused; heartbeats of"
    " editors: taken or refused",
    ("receiver", "outcome"),
)

IMPORTS: Final = Counter(
    "svc_imports_total",
    "Ends of imports of uploaded files: done, failed, interrupted, stopped",
    ("outcome",),
)
IMPORT_RECORDS: Final = Counter(
    "svc_import_records_total",
    "Records in files that were imported to their end: read, new, known, changed, refused",
    ("outcome",),
)
PULLS: Final = Counter(
    "svc_pulls_total",
    "Pulls by service; the outcome is done, or the problem",
    ("service", "outcome"),
)
PULL_RECORDS: Final = Counter(
    "svc_pull_records_total",
    "Records that pulls brought: added, changed, known, refused",
    ("service", "outcome"),
)

READS: Final = Counter(
    "svc_long_reads_total",
    "Long reads by where they were answered, primary or replica, if there is a replica",
    ("server",),
)
REPLICA_FAILURES: Final = Counter(
    "svc_replica_failures_total",
    "Reads that the replica did not answer, and the primary did: behind, unfit, unreachable, conflict, other",
    ("reason",),
)

POOL_CONNECTIONS: Final = Gauge(
    "svc_pool_connections", "Connections to the database that are open", ("pool",)
)
POOL_CONNECTIONS_MAX: Final = Gauge(
    "svc_pool_connections_max", "The most connections of a pool (SVC_..._CONNECTIONS)", ("pool",)
)
POOL_REQUESTS: Final = Gauge(
    "svc_pool_requests",
    "Requests that use a connection of a pool; quick ones share connections",
    ("pool",),
)
POOL_WAITING: Final = Gauge(
    "svc_pool_requests_waiting", "Requests that wait for a connection of a pool", ("pool",)
)
QUEUE_PLACES: Final = Gauge(
    "svc_queue_places", "Places for requests, which go round by person", ("queue",)
)
QUEUE_HELD: Final = Gauge("svc_queue_places_held", "Places that requests hold", ("queue",))
QUEUE_WAITING: Final = Gauge(
    "svc_queue_requests_waiting", "Requests that wait for a place", ("queue",)
)
QUEUE_PEOPLE: Final = Gauge(
    "svc_queue_people_waiting", "People whose requests wait for a place", ("queue",)
)
DISK_FREE: Final = Gauge(
    "svc_disk_free_bytes",
    "Free space on the disk of a directory: database, uploads",
    ("directory",),
)
DISK_SIZE: Final = Gauge(
    "svc_disk_size_bytes", "The size of the disk of a directory", ("directory",)
)
DISK_RESERVE: Final = Gauge(
    "svc_disk_reserve_bytes",
    "The free space below which no more is accepted (SVC_STORAGE_RESERVE_MIB, SVC_UPLOAD_FREE_MIB)",
    ("directory",),
)
BACKUP_TIME: Final = Gauge(
    "svc_backup_time_seconds",
    "When the newest complete backup in SVC_BACKUP_DIR was written, in seconds since 1970; 0: there is none",
)
PEOPLE_MARKED: Final = Gauge(
    "svc_work_people_marked", "People with days that wait for a kind of job", ("kind",)
)
OLDEST_MARK: Final = Gauge(
    "svc_work_oldest_mark_seconds", "How long the oldest of these days has waited", ("kind",)
)
TURNS_DUE: Final = Gauge(
    "svc_work_turns_due", "Turns that wait for a worker, one a person", ("kind",)
)
TURNS_RUNNING: Final = Gauge("svc_work_turns_running", "Turns that a worker has", ("kind",))
OLDEST_TURN: Final = Gauge(
    "svc_work_oldest_turn_seconds", "How long the oldest turn has waited for a worker", ("kind",)
)
REPLICA_OK: Final = Gauge(
    "svc_replica_ok", "Whether long reads go to the replica: 1 or 0 (SVC_READER_REPLICA_URL)"
)
REPLICA_LAG: Final = Gauge(
    "svc_replica_lag_seconds", "How long the replica takes to have what the primary has"
)
INFO: Final = Gauge("svc_info", "Always 1; which build runs", ("process", "version", "commit"))

COUNTERS: Final = (
    REFUSALS,
    TOKEN_REQUESTS,
    AUTHORIZATIONS,
    SECURITY_EVENTS,
    INGESTED,
    REJECTIONS,
    RECEIVED,
    IMPORTS,
    IMPORT_RECORDS,
    PULLS,
    PULL_RECORDS,
    READS,
    REPLICA_FAILURES,
)
DURATIONS: Final = (REQUESTS, TOOL_CALLS, TURNS)
GAUGES: Final = (
    POOL_CONNECTIONS,
    POOL_CONNECTIONS_MAX,
    POOL_REQUESTS,
    POOL_WAITING,
    QUEUE_PLACES,
    QUEUE_HELD,
    QUEUE_WAITING,
    QUEUE_PEOPLE,
    DISK_FREE,
    DISK_SIZE,
    DISK_RESERVE,
    BACKUP_TIME,
    PEOPLE_MARKED,
    OLDEST_MARK,
    TURNS_DUE,
    TURNS_RUNNING,
    OLDEST_TURN,
    REPLICA_OK,
    REPLICA_LAG,
    INFO,
)


class Load(NamedTuple):
    """How busy the connections of a pool are."""

    connections: int
    """Those that are open."""
    most: int
    """The most connections."""
    requests: int
    """The requests that use one."""
    waiting: int
    """The requests that wait for one."""


class Pooled(Protocol):
    """Connections to the database, such as ``Pipelines`` and ``Pool``."""

    def load(self) -> Load:
        """Return how busy they are."""


def of_pools(pools: Mapping[str, Pooled]) -> Iterator[Reading]:
    """Yield how busy pools are, by their names."""
    for name, pool in pools.items():
        load = pool.load()
        yield POOL_CONNECTIONS, (name,), load.connections
        yield POOL_CONNECTIONS_MAX, (name,), load.most
        yield POOL_REQUESTS, (name,), load.requests
        yield POOL_WAITING, (name,), load.waiting


def of_disks(chosen: Settings) -> Iterator[Reading]:
    """Yield the space on the disks of this machine that are known, and what is kept free there."""
    reserves = {
        "database": (chosen.storage_dir, chosen.storage_reserve_mib),
        "uploads": (chosen.upload_dir, chosen.upload_free_mib),
    }
    for name, (directory, reserve_mib) in reserves.items():
        if directory is None:
            continue
        try:
            disk = os.statvfs(directory)
        except OSError:
            # The log has said so; a missing number is no number.
            continue
        # What root alone may use does not count, as in shared/storage.py.
        yield DISK_FREE, (name,), disk.f_bavail * disk.f_frsize
        yield DISK_SIZE, (name,), disk.f_blocks * disk.f_frsize
        yield DISK_RESERVE, (name,), reserve_mib * 2**20


def of_backups(chosen: Settings) -> Iterator[Reading]:
    """Yield when the newest backup was written, if its directory is set and can be read."""
    if chosen.backup_dir is not None:
        with suppress(OSError):
            # ``svc backup`` writes the manifest last, so a backup without one is not complete.
            written = [each.stat().st_mtime for each in chosen.backup_dir.glob(_MANIFESTS)]
            yield BACKUP_TIME, (), max(written, default=0)


_MANIFESTS: Final = "svc-*/manifest.json"
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_REFUSING: Final = (401, 403, 429, 503)


def reason(error: Exception) -> str:
    """Return the name of the class of an error as the value of a label."""
    return _in_words(type(error).__name__)


@cache
def _in_words(name: str) -> str:
    return _WORDS.sub("_", name).lower()


def count_refusal(status: int, error: Exception, limit: str | None = None) -> None:
    """Count a refused request, unless the status stands for a mistake of the client.

    ``limit`` is the name of the limit that it was above.
    """
    if status in _REFUSING:
        REFUSALS.add(str(status), limit or reason(error))


def served(
    chosen: Settings, addresses: Listen, process: str, readings: Sequence[Readings]
) -> AbstractAsyncContextManager[None]:
    """Answer with the metrics of this process for the time of the block, if there are ``addresses``.

    ``process`` is the name of its kind, such as ``worker``.
    """
    if not addresses.addresses:
        return nullcontext()
    from shared import metrics_server  # noqa: PLC0415 -- a process without metrics needs no prometheus-client

    return metrics_server.listening_on(
        addresses, chosen.processes, process, chosen.commit, readings
    )


def check(addresses: Listen, processes: int) -> None:
    """Raise AddressError if one of the processes could not listen for questions about its metrics now."""
    for number in range(processes):
        for each in listening.bind(addresses.moved(number)):
            each.close()
