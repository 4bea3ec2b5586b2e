"""A batch of beats beside a batch of events: what each costs server and database in processor time.

Both are sent by one client, in turns, for a person of their own: an editor sends 25 beats of a working day,
a minute apart, in two projects and languages; a tracker sends 25 coding sessions of such a day. All are
new. Nothing here asserts: the figures are for a reader.
"""

import json
import os
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click
import httpx2
import psycopg

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared.settings import Settings
from tests import processes
from tests.bench import figures, scratch
from tests.bench.ingest import People
from tests.client import NO_TLS
from tests.connecting import connect

BATCH: Final = 25
ROUNDS: Final = 10
REQUESTS: Final = 24
"""Of each contestant in a round."""
_DAYS: Final = 20
_BEAT_S: Final = 60


def _working_times(count: int) -> list[float]:
    """Return times of beats: eight hours a day, all in the last weeks."""
    a_day = 8 * 3600 // _BEAT_S
    midnight = (time.time() // 86_400 - _DAYS) * 86_400
    return [
        midnight + number // a_day * 86_400 + 9 * 3600 + number % a_day * _BEAT_S
        for number in range(count)
    ]


def bodies_of_beats(count: int) -> list[bytes]:
    """Return bodies as an editor sends them."""
    beats = [
        {
            "time": at + 0.25,
            "entity": f"/src/svc/module_{number // 5 % 12}.py",
            "type": "file",
            "category": "coding",
            "is_write": number % 6 == 0,
            "project": ("svc", "garden")[number // 40 % 2],
            "branch": "main",
            "language": ("Python", "SQL")[number // 7 % 2],
            "lines": 212,
            "lineno": 40 + number % 90,
            "cursorpos": 12,
            "user_agent": "wakatime/v1.98.1 (linux-6.1.0) go1.22.4 vscode/1.90.0 vscode-wakatime/24.6.0",
        }
        for number, at in enumerate(_working_times(count * BATCH))
    ]
    return [
        json.dumps(beats[first : first + BATCH]).encode() for first in range(0, len(beats), BATCH)
    ]


def bodies_of_sessions(count: int) -> list[bytes]:
    """Return bodies as a tracker sends them."""
    events = [
        {
            "idempotency_key": f"editor:{number}",
            "started_at": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.250Z",
            "duration_ms": 110_000,
            "project": ("svc", "garden")[number // 40 % 2],
            "language": ("Python", "SQL")[number // 7 % 2],
            "file": f"/src/svc/module_{number // 5 % 12}.py",
            "branch": "main",
            "editor": "vscode",
            "is_write": number % 6 == 0,
        }
        for number, at in enumerate(_working_times(count * BATCH))
    ]
    return [
        json.dumps(
            {"events": events[first : first + BATCH], "client": {"name": "laptop/1.0"}}
        ).encode()
        for first in range(0, len(events), BATCH)
    ]


@dataclass
class Contestant:
    """One kind of batches."""

    send: Callable[[bytes], None]
    bodies: list[bytes]
    server_ms: list[float] = field(default_factory=list)
    database_ms: list[float] = field(default_factory=list)

    def run(self, clock: "Clock") -> None:
        """Send the batches of a round, and note what each has cost."""
        before = clock.now()
        for body in self.bodies[:REQUESTS]:
            self.send(body)
        server, database = clock.now()
        del self.bodies[:REQUESTS]
        self.server_ms.append((server - before[0]) / REQUESTS)
        self.database_ms.append((database - before[1]) / REQUESTS)

    @property
    def figures(self) -> tuple[float, float]:
        """The medians of server and database."""
        return statistics.median(self.server_ms), statistics.median(self.database_ms)


@dataclass(frozen=True)
class Clock:
    """The processor time of the server and of the database."""

    server: int
    postmaster: int

    def now(self) -> tuple[float, float]:
        """Return the milliseconds until now."""
        return _cpu_ms(self.server), cpu_of_database_ms(self.postmaster)


def cpu_of_database_ms(pid: int) -> float:
    """Return the processor time of a database until now; ``pid`` is its main process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    # Those that have ended, such as closed connections, count in ticks.
    ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    ticks_ms = sum(map(int, ended)) * 1000 / os.sysconf("SC_CLK_TCK")
    return ticks_ms + sum(map(_cpu_ms, (pid, *map(int, children.split()))))


def _cpu_ms(pid: int) -> float:
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e6


def contestants(
    owner: psycopg.Connection[Any], client: httpx2.Client
) -> tuple[Contestant, Contestant]:
    """Return ingest and the receiver, each with bodies for all rounds."""
    people = People(owner)
    tracker, editor = people.new(), people.new()
    token = tracker.token("ingest:coding_sessions")
    key = connect(owner, editor, "wakatime").key

    def posting(path: str, credential: str, status: int) -> Callable[[bytes], None]:
        headers = {
            "Authorization": f"Bearer {credential}",
            "Content-Type": "application/json",
            "X-Machine-Name": "laptop",
            "Timezone": "Europe/Berlin",
        }

        def send(body: bytes) -> None:
            answer = client.post(path, content=body, headers=headers)
            if answer.status_code != status:
                raise click.ClickException(answer.text)

        return send

    count = (ROUNDS + 1) * REQUESTS
    return (
        Contestant(
            posting("/api/v1/ingest/coding-sessions", token, 200), bodies_of_sessions(count)
        ),
        Contestant(
            posting("/api/compat/wakatime/v1/users/current/heartbeats.bulk", str(key), 202),
            bodies_of_beats(count),
        ),
    )


def bench(directory: Path) -> None:
    """Run everything and print the table."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        (port,) = processes.free_ports(1)
        chosen = replace(
            Settings(data_dir=directory / "deployment", database_url=postgres.url),
            base_url=f"http://localhost:{port}",
            receivers=("wakatime",),
            jobs=False,
        )
        migrate(chosen, lambda _: None)
        roles = ("reader", "ingester", "worker", "importer")
        with (
            closing(psycopg.connect(postgres.url, autocommit=True)) as owner,
            processes.running(
                ["resource", "serve"],
                chosen,
                processes.role_urls(chosen, roles),
                f"{chosen.base_url}/healthz",
                directory / "resource.log",
            ) as pid,
            httpx2.Client(base_url=chosen.base_url, verify=NO_TLS) as client,
        ):
            clock = Clock(pid, postmaster(postgres))
            pair = contestants(owner, client)
            for round_ in range(ROUNDS + 1):
                for each in pair:
                    each.run(clock)
                    if round_ == 0:
                        # The first round warms both up.
                        each.server_ms.clear()
                        each.database_ms.clear()
    table(*pair)


def postmaster(postgres: EmbeddedPostgres) -> int:
    """Return the id of the database's main process."""
    return int((postgres.cluster / "postmaster.pid").read_text().split()[0])


def table(ingest: Contestant, receiver: Contestant) -> None:
    """Print what a batch of each costs."""
    click.echo(f"{'a batch of 25, ms of a processor':40}{'server':>10}{'database':>10}{'sum':>8}")
    for name, each in (("ingest, coding sessions", ingest), ("receiver, beats", receiver)):
        server, database = each.figures
        click.echo(f"  {name:38}{server:10.2f}{database:10.2f}{server + database:8.2f}")
    ratio = sum(receiver.figures) / sum(ingest.figures)
    figures.keep(
        "receivers",
        {
            "batch_server_ms": ingest.figures[0],
            "batch_database_ms": ingest.figures[1],
            "ratio_of_beats": ratio,
        },
    )
    click.echo(f"  {'ratio (at most 1.5)':58}{ratio:8.2f}\n")


if __name__ == "__main__":
    with scratch.directory() as directory:
        bench(directory)
