"""How long an import takes beside reading its file with the bare parser.

    python -m tests.bench.imports [RECORDS]

Writes an Apple Health export of so many records, by default 300,000, reads it with the bare parser, and
imports it twice into a database of its own. The first import should take at most 3 times as long as the
parser, the second at most 1.2 times as long as the first; both need two processors of their own.
"""

import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, iterparse

import click
import psycopg

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.integrations.formats import FORMATS
from shared.settings import Settings
from tests.conftest import person
from tests.integrations.bringing import Importer, counts

_KINDS: Final = (
    ("HeartRate", "count/min"),
    ("StepCount", "count"),
    ("DistanceWalkingRunning", "km"),
    ("ActiveEnergyBurned", "kcal"),
    ("BasalEnergyBurned", "kcal"),
)
_DEVICE: Final = (
    "&lt;&lt;HKDevice: 0x2815e3d40&gt;, name:Apple Watch, manufacturer:Apple Inc., model:Watch, "
    "hardware:Watch6,2, software:9.6.3&gt;"
)


def write(path: Path, records: int) -> None:
    """Write an export."""
    first = datetime(2015, 1, 1, tzinfo=UTC)
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<HealthData locale="en_US">\n')
        for number in range(records):
            kind, unit = _KINDS[number % len(_KINDS)]
            start = first + timedelta(seconds=100 * number)
            end = start + timedelta(seconds=60)
            file.write(
                f' <Record type="HKQuantityTypeIdentifier{kind}" sourceName="Watch" sourceVersion="9.6.3"'
                f' device="{_DEVICE}" unit="{unit}" creationDate="{end:%Y-%m-%d %H:%M:%S} +0000"'
                f' startDate="{start:%Y-%m-%d %H:%M:%S} +0000" endDate="{end:%Y-%m-%d %H:%M:%S} +0000"'
                f' value="{40 + number % 90}"/>\n'
            )
        file.write("</HealthData>\n")


def parse(path: Path) -> None:
    """Read a file with the bare parser."""
    with path.open("rb") as file:
        events = iterparse(file, ("start", "end"))  # noqa: S314 -- a file of our own
        root: Element = next(events)[1]
        for event, _ in events:
            if event == "end":
                root.clear()


def main() -> None:
    """Measure, and print the ratios."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        path = directory / "export.xml"
        write(path, records)
        started = time.monotonic()
        parse(path)
        bare_s = time.monotonic() - started
        server = EmbeddedPostgres(directory / "postgres")
        server.start()
        try:
            chosen = Settings(database_url=server.url, data_dir=directory / "deployment")
            migrate(chosen, lambda _: None)
            with psycopg.connect(server.url, autocommit=True) as owner:
                importer = Importer(chosen, person(owner, "alice"))
                times_s = []
                for _ in range(2):
                    started = time.monotonic()
                    receipt = importer.run(path, *FORMATS)
                    times_s.append(time.monotonic() - started)
                    click.echo(f"read, new, known, changed, refused: {counts(receipt)}")
        finally:
            server.stop()
    click.echo(
        f"{path.name} of {records} records: parser {bare_s:.1f} s;"
        f" first import {times_s[0]:.1f} s, {times_s[0] / bare_s:.1f} times that;"
        f" second import {times_s[1]:.1f} s, {times_s[1] / times_s[0]:.2f} times the first"
    )


if __name__ == "__main__":
    main()
