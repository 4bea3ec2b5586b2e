"""docs/CAPACITY.md, computed from the figures that benches have stored: what a number of people takes.

``python -m tests.bench.capacity > docs/CAPACITY.md`` writes the page again after ``tests.bench.people`` and
``tests.bench.summaries``. It is arithmetic: cost of one person on a day, times people, times a peak, over the
part of a processor that should be busy. What is assumed is a constant below, and stands on the page.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

import click

from shared.settings import Settings
from tests.bench import figures
from tests.bench.people import BATCH

TEMPLATE: Final = Path(__file__).with_name("capacity.md")

SIZES: Final = (100, 10_000, 1_000_000)

ACTIVE_HOURS: Final = 8
BATCHES_A_DAY: Final = ACTIVE_HOURS * 60
READS_A_DAY: Final = 100
QUIET_TIMES_A_DAY: Final = 8
SUMMARIES_WHILE_BUSY: Final = ACTIVE_HOURS * 2
PEAK: Final = 4
BUSY: Final = 0.5
HOT_DAYS: Final = 2
GROWTH: Final = 1.3
CORES: Final = 32
MEMORY_GIB: Final = 256
DISK_TIB: Final = 8
CONNECTIONS: Final = 100
_DAY_MS: Final = 86_400_000
_MOST_PEOPLE: Final = 100_000_000


@dataclass(frozen=True)
class Person:
    """What one person takes."""

    server_ms: float
    """Processor time a day of the resource servers."""
    worker_ms: float
    database_ms: float
    turns_ms: float
    """The time a day that turns take in a worker: its own, and the database's, for which it waits."""
    mib_a_year: float
    mib_of_a_server: float
    mib_of_a_worker: float
    mib_of_a_connection: float

    @classmethod
    def of(cls, stored: dict[str, Any]) -> "Person":
        """Return what the stored figures say."""
        one, days = stored["people"]["values"], stored["summaries"]["values"]
        turns = {
            "rollup": QUIET_TIMES_A_DAY,
            "quiet_summary": QUIET_TIMES_A_DAY,
            "busy_summary": SUMMARIES_WHILE_BUSY,
        }
        worker = sum(count * days[f"{name}_python_ms"] for name, count in turns.items())
        waited = sum(count * days[f"{name}_database_ms"] for name, count in turns.items())

        def requests(part: str) -> float:
            batch, read = one[f"batch_{part}_ms"], one[f"read_{part}_ms"]
            return float(BATCHES_A_DAY * batch + READS_A_DAY * read)

        kinds = ("sessions", "rollups", "other_records")
        return cls(
            server_ms=requests("server"),
            worker_ms=worker,
            database_ms=requests("database") + waited,
            turns_ms=worker + waited,
            mib_a_year=GROWTH * sum(one[f"mib_of_{kind}_a_year"] for kind in kinds),
            mib_of_a_server=one["mib_of_a_server"],
            mib_of_a_worker=one["mib_of_a_worker"],
            mib_of_a_connection=one["mib_of_a_connection"],
        )


@dataclass(frozen=True)
class Need:
    """What a number of people takes at the peak."""

    people: int
    of: Person

    def _processors(self, ms_a_day: float) -> float:
        return self.people * ms_a_day / _DAY_MS * PEAK / BUSY

    @property
    def servers(self) -> int:
        """Processes of the resource server, of one core each."""
        return ceil(self._processors(self.of.server_ms))

    @property
    def auth_servers(self) -> int:
        """Processes of the authorization server: one for ten of the resource server."""
        return ceil(self.servers / 10)

    @property
    def workers(self) -> int:
        """Workers."""
        return ceil(self._processors(self.of.turns_ms))

    @property
    def database_cores(self) -> int:
        """Cores of all databases."""
        return ceil(self._processors(self.of.database_ms))

    @property
    def cores(self) -> int:
        """Cores of all machines."""
        ms = self.of.server_ms + self.of.worker_ms + self.of.database_ms
        return ceil(self._processors(ms))

    @property
    def connections(self) -> int:
        """The most connections to the databases."""
        chosen = Settings(worker=True, upload_dir=Path("uploads"))
        by_role = dict(chosen.connections)
        auth = by_role.pop("authserver")
        worker = sum(chosen.connections_of_worker.values())
        return (
            self.servers * sum(by_role.values()) + self.auth_servers * auth + self.workers * worker
        )

    @property
    def process_gib(self) -> float:
        """Memory of servers, workers and the processes behind connections."""
        of = self.of
        servers = (self.servers + self.auth_servers) * of.mib_of_a_server
        workers = self.workers * of.mib_of_a_worker
        return (servers + workers + self.connections * of.mib_of_a_connection) / 1024

    @property
    def cache_gib(self) -> float:
        """What the databases should keep in memory: the days that are written to and looked at."""
        return self.people * self.of.mib_a_year / 365 * HOT_DAYS / 1024

    @property
    def disk_gib(self) -> float:
        """Disk that a year fills."""
        return self.people * self.of.mib_a_year / 1024

    @property
    def databases(self) -> int:
        """Databases of the largest machine that hold a year of all of it."""
        return ceil(
            max(
                self.database_cores / CORES,
                self.disk_gib / 1024 / DISK_TIB,
                self.cache_gib / MEMORY_GIB,
            )
        )


@dataclass(frozen=True)
class Limit:
    """Something of which one deployment has only so much, and what to do then."""

    what: str
    is_reached: Callable[[Need], bool]
    lever: str


LIMITS: Final = (
    Limit(
        "one process of the resource server",
        lambda need: need.servers > 1,
        "more processes: `svc resource serve --workers`, or more machines behind a balancer",
    ),
    Limit(
        "one worker",
        lambda need: need.workers > 1,
        "more workers: `svc resource work` on any machine; they share the turns",
    ),
    Limit(
        f"{CONNECTIONS} connections, the default of PostgreSQL",
        lambda need: need.connections > CONNECTIONS,
        "raise `max_connections`; smaller pools (`SVC_PATIENT_CONNECTIONS` and its like); beyond about "
        "500, PgBouncer in transaction mode",
    ),
    Limit(
        f"{CORES} cores of one database",
        lambda need: need.database_cores > CORES,
        "reads from a replica; then Citus, which spreads people over machines",
    ),
    Limit(
        f"{DISK_TIB} TiB of disk for a year",
        lambda need: need.disk_gib > DISK_TIB * 1024,
        "delete sessions of old years, whose rollups stay; partitions by time; then Citus",
    ),
    Limit(
        f"{MEMORY_GIB} GiB of memory for the last {HOT_DAYS} days",
        lambda need: need.cache_gib > MEMORY_GIB,
        "Citus",
    ),
)


ROWS: Final[tuple[tuple[str, Callable[[Need], str]], ...]] = (
    ("processes of the resource server", lambda need: f"{need.servers:,}"),
    ("processes of the authorization server", lambda need: f"{need.auth_servers:,}"),
    ("workers", lambda need: f"{need.workers:,}"),
    ("cores, all together", lambda need: f"{need.cores:,}"),
    ("of which databases", lambda need: f"{need.database_cores:,}"),
    ("connections at most", lambda need: f"{need.connections:,}"),
    ("memory of processes and connections", lambda need: _gib(need.process_gib)),
    (f"memory for the last {HOT_DAYS} days", lambda need: _gib(need.cache_gib)),
    ("disk a year", lambda need: _gib(need.disk_gib)),
    ("databases of the largest machine", lambda need: f"{need.databases:,}"),
)


def reached_at(limit: Limit, of: Person) -> int:
    """Return the number of people at which a limit is reached, to two digits."""
    low, high = 0, _MOST_PEOPLE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if limit.is_reached(Need(middle, of)) else (middle, high)
    digits = len(str(high)) - 2
    return round(high, -digits) if digits > 0 else high


def page(stored: dict[str, Any]) -> str:
    """Return the page."""
    of = Person.of(stored)
    needs = [Need(people, of) for people in SIZES]
    limits = sorted(((reached_at(limit, of), limit) for limit in LIMITS), key=lambda pair: pair[0])
    return TEMPLATE.read_text(encoding="utf-8").format(
        needs=_table(
            ["for so many people", *(f"{size:,}" for size in SIZES)],
            [[title, *map(value, needs)] for title, value in ROWS],
        ),
        limits=_table(
            ["limit", "reached at", "lever"],
            [[limit.what, f"{at:,} people", limit.lever] for at, limit in limits],
        ),
        verdicts="\n".join(_verdict(need, limits) for need in needs),
        person=_table(["measured", ""], _measured(stored, of)),
        machines="\n".join(
            f"- `tests.bench.{name}`, {stored[name]['measured_on']}: {_machine(stored[name])}"
            for name in ("people", "summaries")
        ),
        active_hours=ACTIVE_HOURS,
        batches=BATCHES_A_DAY,
        reads=READS_A_DAY,
        quiet_times=QUIET_TIMES_A_DAY,
        busy_summaries=SUMMARIES_WHILE_BUSY,
        peak=PEAK,
        busy=BUSY,
        growth=GROWTH - 1,
        cores=CORES,
        memory=MEMORY_GIB,
        disk=DISK_TIB,
    )


def _measured(stored: dict[str, Any], of: Person) -> list[list[str]]:
    one, days = stored["people"]["values"], stored["summaries"]["values"]
    costs = (
        (f"a batch of {BATCH} events", one, "batch", "server"),
        ("a read", one, "read", "server"),
        ("a daily summary of a quiet day", days, "quiet_summary", "python"),
        ("a daily summary of a day that is written to", days, "busy_summary", "python"),
        ("rollups of a day", days, "rollup", "python"),
    )
    return [
        ["sessions a day of the demo person", f"{one['sessions_a_day']:.0f}"],
        [
            "other records a day (heart rate, places, listens and so on)",
            f"{one['other_records_a_day']:.0f}",
        ],
        ["a session on disk, indexes included", f"{one['bytes_of_a_session']:.0f} bytes"],
        *(
            [f"a year on disk: {title}", f"{one[f'mib_of_{kind}_a_year']:.1f} MiB"]
            for kind, title in (
                ("sessions", "sessions"),
                ("rollups", "rollups"),
                ("other_records", "other records and daily summaries"),
            )
        ),
        *(
            [
                f"{title}: server or worker, database",
                f"{values[f'{name}_{own}_ms']:.1f} ms, {values[f'{name}_database_ms']:.1f} ms",
            ]
            for title, values, name, own in costs
        ),
        [
            "a process of a server, a worker",
            f"{of.mib_of_a_server:.0f} MiB, {of.mib_of_a_worker:.0f} MiB",
        ],
        ["a connection that has answered such requests", f"{of.mib_of_a_connection:.0f} MiB"],
    ]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def _verdict(need: Need, limits: list[tuple[int, Limit]]) -> str:
    reached = [limit.what for _, limit in limits if limit.is_reached(need)]
    if reached:
        return f"- With {need.people:,} people, in this order: {'; '.join(reached)}."
    at, limit = limits[0]
    return f"- With {need.people:,} people, nothing. The first will be {limit.what}, at {at:,}."


def _gib(value: float) -> str:
    if value >= 1024:
        return f"{value / 1024:,.1f} TiB"
    return f"{value:,.1f} GiB" if value < 10 else f"{value:,.0f} GiB"


def _machine(bench: dict[str, Any]) -> str:
    machine = bench["machine"]
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}, Python {machine['python']}, at a load of {bench['load']:.0f}"
    )


@click.command()
def main() -> None:
    """Print docs/CAPACITY.md."""
    click.echo(page(json.loads(figures.FILE.read_text())), nl=False)


if __name__ == "__main__":
    main()
