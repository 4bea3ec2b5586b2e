"""A run of load and faults: the deployment, the clients, what goes wrong, and the rules that must hold."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

import click
import httpx2
import psycopg

from authserver.people import sessions
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from shared import database, queries, tokens
from shared.settings import Settings, environment
from tests import processes
from tests.bench.faults import clients
from tests.bench.faults.clients import Answer, Record
from tests.bench.faults.wire import Wire, wire
from tests.client import NO_TLS
from tests.conftest import Person, person
from tests.oauth.visitor import CALLBACK

SQL: Final = queries.load(Path(__file__).with_name("faults.sql"))
SLOWEST_S: Final = 5.0
RECOVERY_S: Final = 2.0
OUTAGE_S: Final = 10.0
GROWTH: Final = 1.15
"""How much more memory all processes may have in the last quarter of a run than before the first fault."""
LISTENS: Final = 100_000
"""The records of the file that is imported meanwhile."""

# (what, when): as a part of the whole time.
FAULTS: Final = (
    ("database restarted", 0.25),
    ("processes killed", 0.35),
    ("no network", 0.45),
    ("database restarted", 0.65),
    ("processes killed", 0.75),
    ("no network", 0.85),
)


@dataclass
class Fault:
    """Something that went wrong, and for how long."""

    what: str
    began: float
    ended: float


@dataclass
class Run:
    """A run, and what was measured in it."""

    loop: str
    record: Record = field(default_factory=Record)
    faults: list[Fault] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Moments, and the bytes of all processes of the service."""
    began: float = 0.0
    ended: float = 0.0
    stored: int = 0
    """How many of the accepted events are stored."""
    imported: int = 0


# The deployment


class Worker:
    """A worker that is started again when it ends, as a service manager would."""

    def __init__(self, chosen: Settings, log: Path) -> None:
        """Start it."""
        role_urls = {role: database.role_url(chosen, role) for role in chosen.connections_of_worker}
        # Another worker takes the turn of one that was killed when its lease ends.
        self.environment = {"PATH": os.environ["PATH"]} | environment(
            replace(chosen, database_url=None), role_urls
        )
        self.log = log
        self.process = self._start()
        self.is_over = threading.Event()
        self.watch = threading.Thread(target=self._watch)
        self.watch.start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "deploy.cli", "resource", "work"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=Path.cwd(),
            )

    def _watch(self) -> None:
        while not self.is_over.wait(0.2):
            if self.process.poll() is not None:
                self.process = self._start()

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()

    def end(self) -> None:
        """End it and its watch."""
        self.is_over.set()
        self.watch.join()
        self.process.terminate()
        self.process.wait(timeout=60)


@dataclass(frozen=True)
class Site:
    """The running deployment."""

    chosen: Settings
    cluster: EmbeddedPostgres
    network: Wire
    servers: tuple[int, int]
    """The process ids of both servers."""
    worker: Worker

    def restart_database(self) -> None:
        """Stop and start the database."""
        self.cluster.stop()
        self.cluster.start()

    def kill(self) -> None:
        """Kill one process of each server, and the worker."""
        for pid in self.servers:
            os.kill(int(random.choice(children(pid))), signal.SIGKILL)
        self.worker.kill()

    def interrupt_network(self) -> None:
        """Let nothing pass for a while."""
        self.network.stop()
        time.sleep(OUTAGE_S)
        self.network.restore()

    def memory(self) -> int:
        """Return the bytes of all processes but those of the database; shared ones count once."""
        pids = [str(self.worker.process.pid)]
        for pid in self.servers:
            pids += [str(pid), *children(pid)]
        return sum(map(proportional, pids))


def children(pid: int) -> list[str]:
    """Return the worker processes of a server."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        each for each in listed if b"spawn_main" in (Path("/proc") / each / "cmdline").read_bytes()
    ]


def proportional(pid: str) -> int:
    """Return the bytes of a process, its part of shared pages included; 0 for one that has ended."""
    try:
        lines = (Path("/proc") / pid / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


@contextmanager
def site(loop: str, directory: Path) -> Iterator[Site]:
    """Run everything until the end of the block."""
    with ExitStack() as stack:
        cluster = stack.enter_context(EmbeddedPostgres(directory / "postgres"))
        network = stack.enter_context(wire(cluster.url))
        auth_port, base_port = processes.free_ports(2)
        chosen = Settings(
            database_url=cluster.url,
            data_dir=directory / "deployment",
            upload_dir=directory / "uploads",
            auth_url=f"http://localhost:{auth_port}",
            base_url=f"http://localhost:{base_port}",
            worker=True,
            refresh_retry_s=30,
            registrations_per_hour=0,
        )
        migrate(chosen, lambda _: None)
        (directory / "uploads").mkdir()
        passwords = {
            role: network.url(database.role_url(chosen, role))
            for role in ("authserver", "reader", "ingester", "importer", "worker")
        }
        chosen = replace(chosen, role_urls=passwords)
        module = "deploy.cli" if loop == "uvloop" else "tests.bench.faults.without_uvloop"
        pids = [
            stack.enter_context(
                processes.running(
                    [command, "serve", "--workers=2"],
                    chosen,
                    {role: passwords[role] for role in roles},
                    f"{url}/healthz",
                    directory / f"{command}.log",
                    module=module,
                )
            )
            for command, roles, url in (
                ("auth", processes.AUTH_ROLES, chosen.auth_url),
                ("resource", processes.RESOURCE_ROLES, chosen.base_url),
            )
        ]
        worker = Worker(chosen, directory / "worker.log")
        stack.callback(worker.end)
        yield Site(chosen, cluster, network, (pids[0], pids[1]), worker)


# The run


def client_threads(
    record: Record, place: Site, people: list[Person], count: int
) -> Iterator[threading.Thread]:
    """Yield the threads of so many clients, of which each person has a few."""
    base_url, auth_url = place.chosen.base_url, place.chosen.auth_url
    signer = sessions.signer(place.chosen)
    application = register(auth_url)
    for number in range(count):
        who = people[number % len(people)]
        name = f"client-{number}"
        match number % 10:
            case 0 | 1 | 2 | 3 | 4:
                yield threading.Thread(target=clients.read, args=(record, base_url, who.token()))
            case 5 | 6 | 7:
                work = (record, base_url, who.token(), name)
                yield threading.Thread(target=clients.track, args=work)
            case 8:
                yield threading.Thread(target=clients.assist, args=(record, base_url, who.token()))
            case _:
                her = person(who.connection, name)
                session = tokens.mint(tokens.SESSION, her.user_id)
                who.connection.execute(SQL["add_session"], [her.user_id, session.hash])
                cookies = {signer.cookie_name: signer.cookies.sign(session.text).decode()}
                work_of = (record, (auth_url, base_url), application, cookies)
                yield threading.Thread(target=clients.authorize, args=work_of)


def register(auth_url: str) -> str:
    """Register an application, and return its id."""
    answer = httpx2.post(
        f"{auth_url}/oauth/register",
        json={"redirect_uris": [CALLBACK], "client_name": "Load"},
        verify=NO_TLS,
    )
    client_id: str = answer.json()["client_id"]
    return client_id


def upload(place: Site, who: Person) -> UUID:
    """Put a complete upload of a file there, as the upload's last byte does."""
    lines = "".join(
        f'{{"listened_at": {1_500_000_000 + 200 * number}, "track_metadata": {{"artist_name": "Artist'
        f' {number % 500}", "track_name": "Track {number % 5000}"}}}}\n'
        for number in range(LISTENS)
    ).encode()
    ticket = tokens.mint(tokens.UPLOAD, who.user_id)
    row = who.connection.execute(
        SQL["add_upload"], {"user_id": who.user_id, "hash": ticket.hash, "size": len(lines)}
    ).fetchone()
    assert row is not None
    upload_id: UUID = row[0]
    assert place.chosen.upload_dir is not None
    (place.chosen.upload_dir / str(upload_id)).write_bytes(lines)
    who.connection.execute(SQL["make_import_due"], [who.user_id])
    return upload_id


def carry_out(loop: str, count: int, seconds: float, directory: Path) -> Run:
    """Run the clients and the faults, and return what was measured."""
    run = Run(loop)
    with site(loop, directory) as place:
        with closing(psycopg.connect(place.cluster.url, autocommit=True)) as owner:
            people = [person(owner, f"person-{number}") for number in range(max(1, count // 5))]
            importing = person(owner, "importing")
            threads = list(client_threads(run.record, place, people, count))
            run.began = time.monotonic()
            for thread in threads:
                thread.start()
            upload(place, importing)
        try:
            for what, part in FAULTS:
                watch(run, place, run.began + part * seconds)
                inflict(run, place, what)
            watch(run, place, run.began + seconds)
        finally:
            run.record.is_over.set()
            for thread in threads:
                thread.join()
        run.ended = time.monotonic()
        check_data(run, place, importing.user_id)
    return run


def watch(run: Run, place: Site, until: float) -> None:
    """Wait, and measure the memory every two seconds."""
    while (left := until - time.monotonic()) > 0:
        run.memory.append((time.monotonic(), place.memory()))
        time.sleep(min(2.0, left))


def inflict(run: Run, place: Site, what: str) -> None:
    """Have something go wrong."""
    actions: dict[str, Callable[[], None]] = {
        "database restarted": place.restart_database,
        "processes killed": place.kill,
        "no network": place.interrupt_network,
    }
    began = time.monotonic()
    actions[what]()
    run.faults.append(Fault(what, began, time.monotonic()))
    click.echo(
        f"  {began - run.began:6.1f} s  {what}, for {time.monotonic() - began:.1f} s", err=True
    )


def check_data(run: Run, place: Site, importing: UUID) -> None:
    """Count what is stored of what was accepted, once the import has ended."""
    with closing(psycopg.connect(place.cluster.url, autocommit=True)) as owner:
        row = owner.execute(SQL["count_events"], [list(run.record.accepted)]).fetchone()
        run.stored = 0 if row is None else row[0]
        # The turn of a killed worker is free again when its lease ends, after a minute or two.
        until = time.monotonic() + 300
        while time.monotonic() < until:
            row = owner.execute(SQL["import_of"], [importing]).fetchone()
            if row is not None and row[0] == "done":
                run.imported = row[1]
                return
            time.sleep(1)


# What it says


@dataclass(frozen=True)
class Line:
    """A rule, what was measured, and whether the rule holds."""

    rule: str
    measured: str
    holds: bool
    is_timed: bool = False
    """Whether a busy machine breaks it."""


def lines(run: Run) -> list[Line]:
    """Return the lines of the table."""
    answers = run.record.answers
    wrong = [each for each in answers if each.status >= 500 and not is_honest(each)]
    refused = sum(each.status == 503 for each in answers)
    broken = [each for each in answers if each.status == 0]
    unexplained = [each for each in broken if not during(run, each, "processes killed", 2.0)]
    others = [each for each in answers if 400 <= each.status < 500]
    slowest = max(answers, key=lambda each: each.took_s)
    took = sorted(each.took_s for each in answers if not during(run, each, None, 3.0))
    half, most = took[len(took) // 2], took[len(took) * 99 // 100]
    recoveries = {fault.what: 0.0 for fault in run.faults}
    for fault in run.faults:
        recoveries[fault.what] = max(recoveries[fault.what], recovery(run, fault))
    growth = grown(run)
    kept = len(run.record.accepted)
    rate = len(answers) / (run.ended - run.began)
    return [
        Line(
            "requests",
            f"{len(answers)}, {rate:.0f}/s; median {half * 1000:.0f} ms, "
            f"99th percentile {most * 1000:.0f} ms between faults",
            True,
        ),
        Line(
            "no 5xx but 503 with Retry-After", f"{refused} of 503, {len(wrong)} others", not wrong
        ),
        Line("no 4xx", f"{len(others)}", not others),
        Line(
            "no broken connection but of killed processes",
            f"{len(broken)}, {len(unexplained)} unexplained",
            not unexplained,
        ),
        Line(
            f"slowest request at most {SLOWEST_S:.0f} s",
            f"{slowest.took_s:.1f} s ({slowest.kind}, {slowest.status})",
            slowest.took_s <= SLOWEST_S,
            is_timed=True,
        ),
        *(
            Line(
                f"recovery within {RECOVERY_S:.0f} s: {what}",
                f"{seconds:.1f} s",
                seconds <= RECOVERY_S,
                is_timed=True,
            )
            for what, seconds in recoveries.items()
        ),
        Line("accepted events are stored", f"{run.stored} of {kept}", run.stored == kept),
        Line("issued tokens work", f"{len(run.record.losses)} do not", not run.record.losses),
        Line(
            "the import is whole", f"{run.imported} of {LISTENS} records", run.imported == LISTENS
        ),
        Line("memory is flat", f"{growth:.2f} times as much", growth <= GROWTH, is_timed=True),
    ]


def is_honest(answer: Answer) -> bool:
    """Whether a refusal says when to come again."""
    return answer.status == 503 and answer.may_retry


def during(run: Run, answer: Answer, what: str | None, after_s: float) -> bool:
    """Whether a request overlaps a fault, or the seconds after it."""
    return any(
        answer.begun < fault.ended + after_s and answer.begun + answer.took_s > fault.began
        for fault in run.faults
        if what in (None, fault.what)
    )


def recovery(run: Run, fault: Fault) -> float:
    """Return how long after a fault, and before the next one, requests still began that failed."""
    until = min((each.began for each in run.faults if each.began > fault.ended), default=run.ended)
    later = [
        each.begun - fault.ended
        for each in run.record.answers
        if (each.status == 0 or each.status >= 500)
        and fault.ended <= each.begun
        and each.begun + each.took_s < until
    ]
    return max(later, default=0.0)


def grown(run: Run) -> float:
    """Return by which factor memory grew from before the first fault to the last quarter, by medians."""
    seconds = run.ended - run.began

    def median(first: float, last: float) -> float:
        found = sorted(
            size for moment, size in run.memory if first <= (moment - run.began) / seconds <= last
        )
        return found[len(found) // 2] if found else 1.0

    return median(0.75, 1.0) / median(0.1, 0.25)
