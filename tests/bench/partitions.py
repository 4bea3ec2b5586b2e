"""Whether sessions should be partitioned by time: one table beside a partition for each year and each month.

``python -m tests.bench.partitions --rows N`` starts a database, and for an eighth of the rows and then for
all of them loads five years of sessions in each layout, one after the other, so that the disk never holds
two. People are so many that each has 193 sessions a day, as the demo person has. It prints bytes on disk,
and the processor time of the database for batches, reads, removal, vacuum and a dump, as ratios to one
table. Processor time counts and not the clock, because other programs of the machine cost only the latter.
Nothing here asserts.

A key of a partitioned table must have the column by which it is divided. So there an event's key is unique
only together with its time, and a batch looks up in all partitions whether its person has used a key before.

A million rows take half a gigabyte of disk. It ends with an error where the disk would be left with less
than 20 GiB.
"""

import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import psycopg
from psycopg import sql

from deploy.backup import tools
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared import queries
from shared.settings import Settings
from tests.bench.receivers import cpu_of_database_ms, postmaster

SQL: Final = queries.load(Path(__file__).with_name("partitions.sql"))

A_DAY: Final = 193
YEARS: Final = 5
FIRST: Final = date(2020, 7, 15)
END: Final = date(FIRST.year + YEARS, 7, 15)
"""In the middle of a year and of a month, so that the last partition of each kind is in use."""
DAYS: Final = (END - FIRST).days
LAYOUTS: Final = {"one table": None, "by year": "year", "by month": "month"}
BATCHES: Final = 40
READS: Final = 100
ROW_BYTES: Final = 520
"""On disk, indexes and what their creation sorts included."""
FREE_BYTES: Final = 20 * 2**30

Owner = psycopg.Connection[Any]


@dataclass
class Figures:
    """What one layout takes, by name."""

    values: dict[str, float] = field(default_factory=dict)


def instant(day: date) -> datetime:
    """Return the first instant of a day."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


@dataclass(frozen=True)
class Layout:
    """A layout that is filled and measured."""

    unit: str | None
    owner: Owner
    postgres: EmbeddedPostgres
    people: int
    figures: Figures

    @property
    def schema(self) -> str:
        """The schema that its table is in."""
        return f"by_{self.unit}" if self.unit else "one_table"

    def load(self) -> None:
        """Make the table with all rows, then its indexes."""
        schema = sql.Identifier(self.schema)
        self.owner.execute(sql.SQL("create schema {}").format(schema))
        self.owner.execute(sql.SQL("set search_path = {}").format(schema))
        # A table of the same transaction is written without the log.
        with self.owner.transaction():
            if self.unit is None:
                self.owner.execute(SQL["make_one_table"])
            else:
                self.owner.execute(SQL["make_partitioned"])
                values = {
                    "unit": self.unit,
                    "starts_at": FIRST,
                    "ends_at": END + timedelta(days=40),
                }
                for name, value in values.items():
                    setting = sql.SQL("set local bench.{} = {}")
                    self.owner.execute(
                        setting.format(sql.Identifier(name), sql.Literal(str(value)))
                    )
                self.owner.execute(SQL["make_partitions"])
            step = max(1, 500_000 // (self.people * A_DAY))
            for begin in range(0, DAYS, step):
                self.owner.execute(
                    SQL["load_days"],
                    {
                        "from": begin,
                        "to": min(begin + step, DAYS),
                        "people": self.people,
                        "a_day": A_DAY,
                        "first": FIRST,
                    },
                )
        key = "add_unique_key" if self.unit is None else "add_unique_key_with_time"
        for name in (key, "index_by_start", "index_by_app"):
            self.owner.execute(SQL[name])
        self.owner.execute("checkpoint")

    def measure(self) -> None:
        """Measure everything; removal comes last."""
        values = self.figures.values
        values["vacuum after loading, freezing all rows"] = self._cost("freeze")
        row = self.owner.execute(SQL["sizes"]).fetchone()
        assert row is not None
        values["bytes of rows"], values["bytes of indexes"] = map(float, row)
        values["dump"] = self._dump()
        chosen = random.Random(42)

        def anyone() -> int:
            return chosen.randrange(self.people)

        late = FIRST + timedelta(days=400)
        for events in (5, 1000):
            name = f"batch of {events} of today"
            values[name], values[f"{name}: log, bytes"] = self._batches(anyone, events, END)
        values["batch of 1000 of years ago"], _ = self._batches(anyone, 1000, late)
        last, year = instant(END), timedelta(days=365)
        for name, statement, times in (
            ("a page of the newest", "read_page", (last, last)),
            ("a page of an application", "read_by_app", (last, last)),
            ("a month", "read_range", (last - timedelta(days=30), last)),
            (
                "a month, years ago",
                "read_range",
                (last - 3 * year, last - 3 * year + timedelta(days=30)),
            ),
            ("a year", "read_range", (last - year, last)),
            ("all five years", "read_range", (instant(FIRST), last + year)),
        ):
            parameters = [
                {"person": anyone(), "from": times[0], "to": times[1]} for _ in range(READS)
            ]
            # The first time, pages may come from the disk, and the connection learns the tables.
            self._cost(statement, parameters)
            values[f"read: {name}"] = self._cost(statement, parameters) / READS
        values["vacuum after batches"] = self._cost("vacuum")
        tenth = [
            {"person": each, "to": instant(FIRST + timedelta(days=365))}
            for each in range(0, self.people, 10)
        ]
        before = self._position()
        values["removal of a year of a tenth of all people"] = self._cost("forget_range", tenth)
        values["removal: log, bytes"] = self._position() - before
        values["vacuum after removal"] = self._cost("vacuum")

    def drop(self) -> None:
        """Remove the table."""
        self.owner.execute("set search_path = public")
        self.owner.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(self.schema)))
        self.owner.execute("checkpoint")

    def _cost(self, statement: str, parameters: list[dict[str, Any]] | None = None) -> float:
        """Return the processor time of the database for a statement with each of some parameters."""
        before = self._cpu()
        for each in [{}] if parameters is None else parameters:
            self.owner.execute(SQL[statement], each, prepare=True)
        return self._cpu() - before

    def _batches(self, anyone: Callable[[], int], events: int, day: date) -> tuple[float, float]:
        """Return the processor time and the bytes of the log for a batch."""
        statement = "add_batch" if self.unit is None else "add_batch_to_partitions"
        parameters = [
            {
                "person": anyone(),
                "batch": f"{day} {events} {number}",
                "events": events,
                "at": instant(day) + timedelta(hours=9, seconds=number),
            }
            for number in range(BATCHES)
        ]
        # After a checkpoint, the log has each page whole that is written to for the first time.
        self.owner.execute("checkpoint")
        self._cost(statement, parameters[:1])
        before = self._position()
        cost = self._cost(statement, parameters[1:])
        count = BATCHES - 1
        return cost / count, (self._position() - before) / count

    def _position(self) -> float:
        row = self.owner.execute(SQL["position"]).fetchone()
        assert row is not None
        return float(row[0])

    def _cpu(self) -> float:
        return cpu_of_database_ms(postmaster(self.postgres))

    def _dump(self) -> float:
        """Return the processor time of pg_dump, without compression, and of its connection."""
        command = tools.fitting(18).command(
            "pg_dump", "--format=custom", "--compress=none", f"--schema={self.schema}"
        )
        before, own = self._cpu(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command,
            env=tools.environment(self.postgres.url),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s = after.ru_utime - own.ru_utime + after.ru_stime - own.ru_stime
        return used_s * 1000 + self._cpu() - before


def table(rows: int, people: int, figures: dict[str, Figures]) -> Iterator[str]:
    """Yield the lines of a table: one table in its unit, the others as ratios to it."""
    yield f"\n{rows:,} sessions of {people} people in {YEARS} years"
    yield f"{'':46}" + "".join(f"{name:>16}" for name in figures)
    first, *others = figures.values()
    for name, value in first.values.items():
        amount = f"{value:,.0f}" if "bytes" in name else f"{value:,.2f} ms"
        ratios = (each.values[name] / value if value else float("nan") for each in others)
        yield f"{name:46}{amount:>16}" + "".join(f"{ratio:16.2f}" for ratio in ratios)


def bench(directory: Path, rows: int) -> None:
    """Load and measure every layout with half of the rows, then with all."""
    # The bench loses nothing in a crash, so nothing waits for the disk.
    settings = {
        "fsync": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "4GB",
        "shared_buffers": "512MB",
        "maintenance_work_mem": "1GB",
        "max_parallel_maintenance_workers": "0",
        "max_parallel_workers_per_gather": "0",
        "autovacuum": "off",
        "plan_cache_mode": "force_custom_plan",
        "jit": "off",
    }
    with EmbeddedPostgres(directory / "postgres", settings=settings) as postgres:
        migrate(
            Settings(data_dir=directory / "deployment", database_url=postgres.url), lambda _: None
        )
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            owner.execute("set timezone = 'UTC'")
            for size in (rows // 8, rows):
                people = max(1, size // (A_DAY * DAYS))
                figures: dict[str, Figures] = {}
                for name, unit in LAYOUTS.items():
                    figures[name] = Figures()
                    layout = Layout(unit, owner, postgres, people, figures[name])
                    layout.load()
                    click.echo(f"{datetime.now(UTC):%T} loaded: {name}", err=True)
                    layout.measure()
                    layout.drop()
                    # After each layout, so that a bench that is stopped leaves what it has measured.
                    for line in table(people * A_DAY * DAYS, people, figures):
                        click.echo(line)
                    sys.stdout.flush()


@click.command()
@click.option("--rows", type=click.IntRange(min=1_000_000, max=200_000_000), required=True)
def main(rows: int) -> None:
    """Measure sessions in one table and in partitions."""
    # As for Ctrl-C: every process that this one has started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    scratch = Path(tempfile.mkdtemp(prefix="svc-bench-"))
    scratch.chmod(0o755)
    try:
        if shutil.disk_usage(scratch).free < rows * ROW_BYTES + FREE_BYTES:
            raise click.ClickException(f"{rows:,} rows would fill the disk of {scratch}")
        bench(scratch, rows)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
