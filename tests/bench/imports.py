"""Imports of long files, beside reading the same file with the bare parser, and brought a second time.

``python -m tests.bench.imports`` starts a database, writes a file of each format with invented records, and
lets the bare parser, the format's reader, a first and a second import of it take turns, so that other load of
the machine affects all of them. Each round is of a new person. The median of the rounds' ratios counts.
Beside the time that passes, the table has the processor's time of this process and of the database's, which
other load changes little. Nothing here asserts: the figures are for a reader.

Both imports are what ``svc import`` does, without the start of the command. The bare parser of JSON is the
standard library's, which holds the whole file at once, and that of XML is expat with a handler for elements
that does nothing.
"""

import json
import math
import os
import random
import statistics
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4
from xml.parsers import expat
from zoneinfo import ZoneInfo

import click
import psycopg
from click.testing import CliRunner

from deploy.migrate import migrate
from deploy.operators.imports import import_files
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.integrations.format import Format, Person
from resourceserver.integrations.formats.apple_health import APPLE_HEALTH
from resourceserver.integrations.formats.google_location import RECORDS as GOOGLE_RECORDS
from resourceserver.integrations.imports import files
from shared.settings import Settings
from tests.bench import scratch

ROUNDS: Final = 3
RECORDS: Final = 75_000
FIRST: Final = datetime(2018, 3, 1, tzinfo=UTC)
_READER: Final = Person(ZoneInfo("Europe/Berlin"), datetime(2026, 1, 15, tzinfo=UTC))


@dataclass(frozen=True)
class Contest:
    """A file and what reads it."""

    title: str
    format: Format
    name: str
    write: Callable[[Path, int], None]
    parse: Callable[[Path], None]
    within: float
    """How often the time of the bare parse an import may take."""


class Cost(NamedTuple):
    """What a contestant took in one round, in seconds."""

    passed_s: float
    python_s: float
    """Processor time of this process."""
    database_s: float
    """Processor time of all processes of the database."""


class Turn(NamedTuple):
    """The cost of each contestant in one round."""

    parse: Cost
    read: Cost
    first: Cost
    second: Cost


def write_apple_health(
    path: Path, count: int, begin: datetime = FIRST, every: timedelta = timedelta(seconds=67)
) -> None:
    """Write an export of a phone and a watch: heart rates, steps, distances and energies in turns."""
    chance = random.Random(7)
    kinds = (
        ("HeartRate", "count/min", "Apple Watch", "Watch6,2", 0),
        ("StepCount", "count", "iPhone", "iPhone14,5", 300),
        ("HeartRate", "count/min", "Apple Watch", "Watch6,2", 0),
        ("DistanceWalkingRunning", "km", "iPhone", "iPhone14,5", 300),
        ("ActiveEnergyBurned", "kcal", "Apple Watch", "Watch6,2", 60),
    )
    with path.open("w", encoding="utf-8") as stream:
        stream.write('<?xml version="1.0" encoding="UTF-8"?>\n<HealthData locale="en_NL">\n')
        for number in range(count):
            kind, unit, source, hardware, lasts_s = kinds[number % len(kinds)]
            start = begin + number * every
            end = start + timedelta(seconds=lasts_s)
            value = chance.randint(50, 160) if unit.startswith("count") else chance.random()
            stream.write(
                f' <Record type="HKQuantityTypeIdentifier{kind}" sourceName="{source}"'
                f' sourceVersion="17.1" device="&lt;&lt;HKDevice: 0x{chance.getrandbits(36):x}&gt;,'
                f" name:{source}, manufacturer:Apple Inc., model:{source}, hardware:{hardware},"
                f' software:17.1&gt;" unit="{unit}" creationDate="{end:%F %T} +0100"'
                f' startDate="{start:%F %T} +0100" endDate="{end:%F %T} +0100" value="{value}"/>\n'
            )
        stream.write("</HealthData>\n")


def write_google_records(
    path: Path,
    count: int,
    begin: datetime = FIRST,
    every: timedelta = timedelta(milliseconds=62_123),
) -> None:
    """Write the points of a phone, every other one with what its person probably did."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write('{"locations": [')
        for number in range(count):
            at = begin + number * every
            record: dict[str, Any] = {
                "latitudeE7": int(523_702_157 + 400_000 * math.sin(number / 300)),
                "longitudeE7": int(48_951_679 + 700_000 * math.cos(number / 500)),
                "accuracy": 10 + number % 40,
                "altitude": number % 30,
                "verticalAccuracy": 3,
                "source": "WIFI",
                "deviceTag": -8_024_144_696_862_913_506,
                "platformType": "ANDROID",
                "formFactor": "PHONE",
                "timestamp": f"{at:%FT%T}.{at.microsecond // 1000:03}Z",
            }
            if number % 2:
                scan = [{"type": "STILL", "confidence": 92}, {"type": "WALKING", "confidence": 8}]
                record["activity"] = [{"activity": scan, "timestamp": record["timestamp"]}]
            stream.write(("," if number else "") + "\n  " + json.dumps(record, indent=2))
        stream.write("\n]}")


def parse_xml(path: Path) -> None:
    """Parse a file with expat."""
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda *_: None
    with path.open("rb") as stream:
        parser.ParseFile(stream)


def parse_json(path: Path) -> None:
    """Parse a file with the standard library."""
    json.loads(path.read_text(encoding="utf-8"))


CONTESTS: Final = (
    Contest("Apple Health", APPLE_HEALTH, "export.xml", write_apple_health, parse_xml, 3.0),
    Contest(
        "Google Records", GOOGLE_RECORDS, "Records.json", write_google_records, parse_json, 2.5
    ),
)
SECOND_WITHIN: Final = 1.2
"""How often the time of the first import a second one of the same file may take."""


@dataclass(frozen=True)
class Clock:
    """Measures what something costs."""

    postmaster: int
    """The id of the database's main process."""

    def cost(self, work: Callable[[], object]) -> Cost:
        """Return what ``work`` costs."""
        before = self._now()
        work()
        return Cost(*(after - then for after, then in zip(self._now(), before, strict=True)))

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), self._database_s()

    def _database_s(self) -> float:
        """Return the processor time of the database so far; not a number where there is no /proc."""
        place = Path(f"/proc/{self.postmaster}/task/{self.postmaster}/children")
        if not place.exists():
            return math.nan
        children = [_ticks(int(child))[:2] for child in place.read_text().split()]
        # Processes that have ended count as the main one's.
        ticks = sum(_ticks(self.postmaster)) + sum(map(sum, children))
        return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> list[int]:
    """Return user and system time of a process and those of its ended children; [] if it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return [int(field) for field in fields[11:15]]
    return []


def read(contest: Contest, path: Path) -> None:
    """Read a file with its format, and keep nothing."""
    with ExitStack() as within:
        (member,) = files.bring(path, within).files
        deque(contest.format.read(member, _READER), maxlen=0)


def bring(chosen: Settings, path: Path, email: str) -> None:
    """Import a file as the command does. Raises ClickException."""
    done = CliRunner().invoke(import_files, [str(path), f"--user={email}"], obj=chosen)
    if done.exit_code != 0:
        raise click.ClickException(done.output)


def turn(
    contest: Contest,
    chosen: Settings,
    path: Path,
    owner: psycopg.Connection[Any],
    clock: Clock,
) -> Turn:
    """Return the costs of a round, for a new person."""
    email = f"{uuid4()}@example.org"
    owner.execute("insert into identity.user (email) values (%s)", [email])
    return Turn(
        clock.cost(lambda: contest.parse(path)),
        clock.cost(lambda: read(contest, path)),
        clock.cost(lambda: bring(chosen, path, email)),
        clock.cost(lambda: bring(chosen, path, email)),
    )


def table(contest: Contest, count: int, path: Path, rounds: list[Turn]) -> None:
    """Print the median of each contestant, and of its ratios to the bare parse or to the first import."""
    title = f"{contest.title}, {count:,} records, {path.stat().st_size / 1e6:.0f} MB"
    click.echo(f"{title:48}{'µs each':>10}{'python':>10}{'database':>10}{'ratio':>8}")
    for label, name, beside, within in (
        ("the bare parser", "parse", "parse", None),
        ("the format's reader, which keeps nothing", "read", "parse", None),
        ("an import", "first", "parse", contest.within),
        ("a second import, beside the first", "second", "first", SECOND_WITHIN),
    ):
        costs: list[Cost] = [getattr(turn, name) for turn in rounds]
        each_us = (1e6 * statistics.median(column) / count for column in zip(*costs, strict=True))
        ratio = statistics.median(
            getattr(turn, name).passed_s / getattr(turn, beside).passed_s for turn in rounds
        )
        limit = "" if within is None else f" of at most {within}"
        figures = "".join(f"{each:10.1f}" for each in each_us)
        click.echo(f"  {label:46}{figures}{ratio:8.2f}{limit}")
    click.echo()


def bench(directory: Path, count: int, turns: int, contests: tuple[Contest, ...]) -> None:
    """Run everything and print the tables."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(data_dir=directory / "deployment", database_url=postgres.url)
        migrate(chosen, lambda _: None)
        clock = Clock(int((postgres.cluster / "postmaster.pid").read_text().split()[0]))
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            for contest in contests:
                path = directory / contest.name
                contest.write(path, count)
                rounds = [turn(contest, chosen, path, owner, clock) for _ in range(turns)]
                table(contest, count, path, rounds)


@click.command()
@click.option("--records", default=RECORDS, show_default=True, help="How many each file has.")
@click.option("--rounds", default=ROUNDS, show_default=True, help="How often each takes its turn.")
@click.argument("names", nargs=-1)
def main(records: int, rounds: int, names: tuple[str, ...]) -> None:
    """Measure all files, or those whose titles begin with one of NAMES.

    A long file, such as one of 1,000,000 records, spreads what an import costs once over more records.
    """
    contests = tuple(each for each in CONTESTS if not names or each.title.startswith(names))
    with scratch.directory() as directory:
        bench(directory, records, rounds, contests)


if __name__ == "__main__":
    main()
