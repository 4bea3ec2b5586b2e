"""What one person costs: a year on disk, a small batch, some reads, and the memory of each process.

``python -m tests.bench.people`` starts a database and the servers, invents a year of the demo person, and
sends batches and reads one after the other. Processor time counts, of the server and of the database.
``tests.bench.capacity`` computes from these figures; nothing here asserts.
"""

import json
import statistics
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import httpx2
import psycopg
from click.testing import CliRunner

from deploy.demo.command import demo
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared import queries
from shared.settings import Settings
from tests import processes
from tests.bench import figures, scratch
from tests.bench.receivers import Clock, postmaster
from tests.client import NO_TLS
from tests.conftest import Person, person

SQL: Final = queries.load(Path(__file__).with_name("people.sql"))

DAYS: Final = 365
ROUNDS: Final = 5
REQUESTS: Final = 20
"""Of each kind in a round."""
BATCH: Final = 5
"""The events of a small batch."""
_SESSIONS: Final = ("activity.app_session", "activity.coding_session", "activity.beat")
_ROLLUPS: Final = tuple(
    f"activity.{name}" for name in ("label", "app_time", "coding_time", "app_timeline")
)

Owner = psycopg.Connection[Any]


def disk(owner: Owner, before: dict[str, int]) -> dict[str, float]:
    """Return the events of a day, and the bytes of a year: of sessions, of rollups, of all else."""
    found = {name: (size, count) for name, size, count in owner.execute(SQL["sizes"]).fetchall()}
    bytes_of = {name: size - before[name] for name, (size, _) in found.items()}
    sessions = sum(found[name][1] for name in _SESSIONS)
    others = [
        name
        for name in found
        if name not in {*_SESSIONS, *_ROLLUPS} and name.split(".")[0] not in {"profile", "identity"}
    ]
    return {
        "sessions_a_day": sessions / DAYS,
        "other_records_a_day": sum(found[name][1] for name in others) / DAYS,
        "bytes_of_a_session": sum(bytes_of[name] for name in _SESSIONS) / sessions,
        "mib_of_sessions_a_year": sum(bytes_of[name] for name in _SESSIONS) / 2**20,
        "mib_of_rollups_a_year": sum(bytes_of[name] for name in _ROLLUPS) / 2**20,
        "mib_of_other_records_a_year": sum(bytes_of[name] for name in others) / 2**20,
    }


def sender(client: httpx2.Client, who: Person) -> Callable[[], None]:
    """Return a function that sends the next batch of new events."""
    headers = who.headers("ingest:app_sessions")
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)

    def send() -> None:
        nonlocal at
        batch = []
        for _ in range(BATCH):
            at += timedelta(seconds=12)
            batch.append(
                {"app": "Code", "title": "svc", "started_at": f"{at:%FT%TZ}", "duration_ms": 11_000}
            )
        answer = client.post(
            "/api/v1/ingest/app-sessions",
            content=json.dumps({"events": batch, "client": {"name": "laptop/1.0"}}),
            headers=headers | {"Content-Type": "application/json"},
        )
        if answer.status_code != 200:
            raise click.ClickException(answer.text)

    return send


def reader(client: httpx2.Client, who: Person) -> Callable[[], None]:
    """Return a function that sends the next of some usual reads."""
    headers = who.headers("read:activity", "read:profile")
    today = datetime.now(UTC).date()
    week = f"from={today - timedelta(days=6)}&to={today}&tz=Europe/Berlin"
    paths = (
        f"/api/v1/analytics/daily?{week}",
        f"/api/v1/analytics/hourly?date={today - timedelta(days=1)}&tz=Europe/Berlin",
        "/api/v1/integrations",
        "/api/v1/account/summaries",
        f"/api/v1/analytics/context-switches?from={today - timedelta(days=6)}T00:00:00Z&to={today}T00:00:00Z",
    )
    count = 0

    def read() -> None:
        nonlocal count
        answer = client.get(paths[count % len(paths)], headers=headers)
        count += 1
        if answer.status_code != 200:
            raise click.ClickException(f"{answer.url}: {answer.text}")

    return read


def cost(request: Callable[[], None], clock: Clock) -> tuple[float, float]:
    """Return the medians of milliseconds a request: of the server, of the database."""
    servers, databases = [], []
    for round_ in range(ROUNDS + 1):
        before = clock.now()
        for _ in range(REQUESTS):
            request()
        server, database = clock.now()
        # The first round warms up.
        if round_ > 0:
            servers.append((server - before[0]) / REQUESTS)
            databases.append((database - before[1]) / REQUESTS)
    return statistics.median(servers), statistics.median(databases)


def memory_mib(pid: int) -> float:
    """Return a process's share of memory: its own, and its part of what it shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def own_memory_mib(pid: int) -> float:
    """Return the memory that a process alone has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def bench(directory: Path) -> None:
    """Measure everything, print it and store it."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(data_dir=directory / "deployment", database_url=postgres.url, jobs=False)
        migrate(chosen, lambda _: None)
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            alice = person(owner, "alice")
            empty = {name: size for name, size, _ in owner.execute(SQL["sizes"]).fetchall()}
            invented = CliRunner().invoke(demo, [alice.email, f"--days={DAYS}"], obj=chosen)
            if invented.exit_code != 0:
                raise click.ClickException(invented.output)
            owner.execute("vacuum analyze")
            found = disk(owner, empty)
            with (
                processes.service(chosen, directory) as service,
                processes.running(
                    ["resource", "work"],
                    chosen,
                    processes.role_urls(chosen, ("worker", "importer")),
                    f"{service.base_url}/healthz",
                    directory / "worker.log",
                ) as worker,
                httpx2.Client(base_url=service.base_url, verify=NO_TLS, timeout=60) as client,
            ):
                clock = Clock(service.resource_pid, postmaster(postgres))
                for name, request in (
                    ("batch", sender(client, alice)),
                    ("read", reader(client, alice)),
                ):
                    found[f"{name}_server_ms"], found[f"{name}_database_ms"] = cost(request, clock)
                backends = [pid for (pid,) in owner.execute(SQL["backends"]).fetchall()]
                found["mib_of_a_server"] = memory_mib(service.resource_pid)
                found["mib_of_a_worker"] = memory_mib(worker)
                found["mib_of_a_connection"] = statistics.mean(map(own_memory_mib, backends))
    click.echo("one person")
    for name, value in found.items():
        click.echo(f"  {name.replace('_', ' '):46}{value:12.2f}")
    figures.keep("people", found)


if __name__ == "__main__":
    with scratch.directory() as directory:
        bench(directory)
