"""A decade of one invented life, in files of all formats, and the same questions before and after its import.

``python -m tests.bench.decade`` starts a database and the servers, writes the files, asks every endpoint and
the tools, imports the files with ``svc import``, has everything derived that follows from them, and asks
again. Then it imports the files once more, which must change no answer. It prints the receipts, the times,
the memory of the command beside that of an import of one small file, and the answers.

Six tenths of the records are Apple Health's and three tenths are points of Google; the rest is spread over
twelve further formats, and of each other format there is a small file. The 10,000,000 records of the default
take a quarter of an hour and some 12 GB of disk; nothing here asserts.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import httpx2
import psycopg

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.endpoints import ENDPOINTS
from resourceserver.integrations.formats import FORMATS
from resourceserver.timeline import rollups, rounds, summaries
from shared import database
from shared.settings import Settings
from tests import processes
from tests.bench import scratch
from tests.bench.imports import write_apple_health, write_google_records
from tests.client import NO_TLS
from tests.conftest import Person, person
from tests.integrations import more_samples, samples
from tests.integrations.life import life
from tests.mcp.assistant import Assistant

RECORDS: Final = 10_000_000
APPLE: Final = 0.6
GOOGLE: Final = 0.3
IN_ARCHIVE: Final = 16
"""About how many records the archive has for each that it is asked for."""
BEGIN: Final = datetime(2014, 1, 1, tzinfo=UTC)
DECADE: Final = timedelta(days=3650)
ASKED: Final = date(2019, 6, 1)
"""The first day of the month to which the questions refer."""
DAYS: Final = 30
OTHERS: Final = {"metric_type": "steps", "metric": "recovery_score"}
"""Further required parameters of endpoints."""
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get_data_status": {},
    "get_day": {"date": "2019-06-12"},
    "get_time_breakdown": {"from_": "2019-06-01", "to": "2019-06-30"},
    "get_health": {"from_": "2019-06-01", "to": "2019-06-30"},
    "get_listening": {"from_": "2019-06-01", "to": "2019-06-30"},
    "get_places": {"from_": "2019-06-01", "to": "2019-06-30"},
    "get_code_activity": {"from_": "2019-06-01", "to": "2019-06-30"},
    "get_content": {"from_": "2019-06-01", "to": "2019-06-30"},
    "search": {"query": "Event"},
}


@dataclass
class Question:
    """A question and its answers, each with the time that it took."""

    label: str
    ask: Callable[[], httpx2.Response]
    answers: list[tuple[float, httpx2.Response]] = field(default_factory=list)

    def answer(self) -> None:
        """Ask it once more."""
        started = time.perf_counter()
        response = self.ask()
        self.answers.append((time.perf_counter() - started, response))


def write_files(directory: Path, count: int) -> list[Path]:
    """Write the files of the life; return what the command is given."""
    takeout, others = directory / "takeout", directory / "others"
    for folder in (takeout, others):
        folder.mkdir()
    of_apple, of_google = int(count * APPLE), int(count * GOOGLE)
    write_apple_health(takeout / "export.xml", of_apple, BEGIN, DECADE / of_apple)
    write_google_records(takeout / "Records.json", of_google, BEGIN, DECADE / of_google)
    each = max(1, (count - of_apple - of_google) // IN_ARCHIVE)
    archive = life(directory / "life.zip", each, BEGIN, DECADE / each)
    known = vars(samples) | vars(more_samples)
    for number, format_ in enumerate(each for each in FORMATS if each.name in known):
        sample = known[format_.name]()
        path = others / f"{number:02}" / sample.name
        path.parent.mkdir(parents=True)
        path.write_bytes(sample.content)
    return [takeout, archive, others]


def bring(chosen: Settings, path: Path, email: str) -> tuple[dict[str, Any], float, float]:
    """Run ``svc import``; return its receipt, how long it took, and the most memory that it had in MB.

    Raises ClickException.
    """
    variables = os.environ | {
        "DATABASE_URL": chosen.database_url or "",
        "SVC_DATA_DIR": str(chosen.data_dir),
    }
    command = [sys.executable, "-m", "deploy.cli", "import", str(path), "--user", email, "--json"]
    started = time.perf_counter()
    output = path.with_suffix(".receipt")
    with output.open("wb") as receipt:
        process = subprocess.Popen(command, env=variables, stdout=receipt)
        most_mb = 0.0
        while process.poll() is None:
            # What the system notes of an ended process counts what this one had when it began.
            # So it is asked twenty times a second while it runs: its last figure is the largest.
            most_mb = max(most_mb, _most_memory_mb(process.pid))
            time.sleep(0.05)
    took_s = time.perf_counter() - started
    if process.returncode:
        raise click.ClickException(f"svc import {path.name} ended with {process.returncode}")
    return json.loads(output.read_text()), took_s, most_mb


def _most_memory_mb(pid: int) -> float:
    """Return the most memory that a process had so far; 0 if it has ended, or where there is no /proc."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1000
    return 0.0


def derive(chosen: Settings) -> tuple[float, float]:
    """Roll all marked days up and sum them up, as a worker does; return how long each took."""

    async def run() -> tuple[float, float]:
        async with rounds.connected(database.role_url(chosen, "worker")) as worker:
            began = time.perf_counter()
            while await rollups.make_due(worker, quiet=timedelta(0)):
                pass
            between = time.perf_counter()
            while await summaries.make_due(worker, quiet=timedelta(0)):
                pass
            return between - began, time.perf_counter() - between

    return asyncio.run(run())


def questions(client: httpx2.Client, who: Person) -> list[Question]:
    """Return a question to every read endpoint, and some to tools."""
    headers = who.headers()

    def of_endpoint(path: str, given: dict[str, str]) -> Callable[[], httpx2.Response]:
        return lambda: client.get(path, params=given, headers=headers)

    def of_tool(name: str, given: dict[str, Any]) -> Callable[[], httpx2.Response]:
        return lambda: Assistant(client, headers).call(name, **given)

    asked = []
    for endpoint in ENDPOINTS:
        given = {}
        for name, member in endpoint.params.model_fields.items():
            if not member.is_required():
                continue
            day = ASKED + timedelta(days=DAYS) if name == "to" else ASKED
            is_date = member.annotation is date
            given[name.rstrip("_")] = OTHERS.get(name) or (
                f"{day}" if is_date else f"{day}T00:00:00Z"
            )
        asked.append(Question(endpoint.path, of_endpoint(endpoint.path, given)))
    return asked + [Question(name, of_tool(name, given)) for name, given in TOOLS.items()]


def content(response: httpx2.Response) -> bytes:
    """Return what an answer says, without what differs from one moment or one import to the next."""
    volatile = {
        *("generated_at", "generated_local", "now"),
        *("last_sync_at", "last_sync_local", "last_used_at"),
    }
    # Sources of files say what was new in their newest import.
    counts_of_import = {"read", "new", "known", "changed", "refused"}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == counts_of_import:
                return None
            return {name: plain(each) for name, each in value.items() if name not in volatile}
        return [plain(each) for each in value] if isinstance(value, list) else value

    body = plain(response.json())
    if "result" in body:
        body = body["result"].get("structuredContent", body["result"])
    return json.dumps(body, sort_keys=True).encode()


def table(asked: list[Question]) -> None:
    """Print the answers of all questions before and after the import, and after the second one."""
    click.echo(f"{'':40}{'before':>10}{'after':>10}{'took':>9}{'again':>9}  answer")
    for each in asked:
        (_, before), (took_s, after), (_, again) = each.answers
        is_same = content(after) == content(again)
        figures = f"{len(before.content):9}B{len(after.content):9}B{took_s * 1000:6.0f} ms"
        said = hashlib.sha256(content(after)).hexdigest()[:8]
        verdict = "same" if is_same else "DIFFERS"
        status = "" if after.status_code == 200 else f" {after.status_code}: {after.text[:120]}"
        click.echo(f"{each.label:40}{figures}{verdict:>9}  {said}{status}")


def bench(directory: Path, count: int) -> None:
    """Import the life and print everything."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(data_dir=directory / "deployment", database_url=postgres.url, jobs=False)
        migrate(chosen, lambda _: None)
        started = time.perf_counter()
        paths = write_files(directory, count)
        click.echo(f"files written in {time.perf_counter() - started:.0f} s")
        with (
            closing(psycopg.connect(postgres.url, autocommit=True)) as owner,
            processes.service(chosen, directory) as service,
            httpx2.Client(base_url=service.base_url, verify=NO_TLS, timeout=120) as client,
        ):
            alice, bob = person(owner, "alice"), person(owner, "bob")
            asked = questions(client, alice)
            small = directory / "small.csv"
            small.write_bytes(samples.lastfm_csv().content)
            _, _, idle_mb = bring(chosen, small, bob.email)
            for each in asked:
                each.answer()
            for label in ("first", "second"):
                for path in paths:
                    receipt, took_s, memory_mb = bring(chosen, path, alice.email)
                    read = receipt["records"]["read"]
                    click.echo(
                        f"{label} import of {path.name}: {took_s:.0f} s, {1e6 * took_s / read:.1f} µs a"
                        f" record, {memory_mb - idle_mb:.0f} MB above the {idle_mb:.0f} MB of a small file"
                    )
                    click.echo(
                        f"  {receipt['status']}, {receipt['size'] / 1e6:.0f} MB, {receipt['records']},"
                        f" {len(receipt['formats'])} formats,"
                        f" {receipt['first_at']} to {receipt['last_at']}"
                    )
                    for refusal in receipt["refused"]:
                        click.echo(f"  refused {refusal['count']}: {refusal['reason']}")
                    for part in receipt["parts"]:
                        if part["problem"] is not None:
                            click.echo(f"  {part['name']}: {part['problem']}")
                rolled_s, summed_s = derive(chosen)
                click.echo(f"rollups in {rolled_s:.0f} s, summaries in {summed_s:.0f} s")
                if label == "first":
                    owner.execute("vacuum analyze")
                for each in asked:
                    each.answer()
            table(asked)
            rows = owner.execute("select pg_database_size(current_database())").fetchone()
            click.echo(f"the database has {(rows or (0,))[0] / 1e9:.1f} GB")


@click.command()
@click.option("--records", default=RECORDS, show_default=True, help="About how many in all.")
def main(records: int) -> None:
    """Import a decade of one life, and ask the same questions before and after."""
    with scratch.directory() as directory:
        bench(directory, records)


if __name__ == "__main__":
    main()
