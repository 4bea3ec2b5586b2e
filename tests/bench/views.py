"""Every view of the dashboard for a heavy user: server time warm and cold, CPU time, and size.

``python -m tests.bench.views`` starts a database, invents three years in all domains and half a million
sessions, and opens every address of every view. Server time is that of the access log. CPU time is that of
the server and of its connections to the database together, and hardly depends on what else the machine does.
Today is marked, as it is for everybody whose tracker sends at the moment.

Nothing here asserts: an asterisk marks a figure above its limit, for a reader.
"""

import asyncio
import gzip
import re
import secrets
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click
import httpx2
import psycopg

from deploy.demo.command import demo
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.dashboard.period import Misaddressed
from resourceserver.dashboard.signin.cookie import cookies
from resourceserver.dashboard.view import View
from resourceserver.dashboard.views import VIEWS
from resourceserver.dashboard.views.explore import DOMAINS
from resourceserver.timeline import rollups, rounds, summaries
from shared import database, queries
from shared.settings import Settings
from tests import processes
from tests.bench import scratch, years
from tests.conftest import Person
from tests.dashboard.test_views import takes_a_range

SQL: Final = queries.load(Path(__file__).with_name("views.sql"))

EMAIL: Final = "alice@example.org"
ZONE: Final = "Europe/Berlin"
DAYS: Final = 1095
SESSIONS: Final = 500_000
ROUNDS: Final = 10
LONGEST_S: Final = 60.0
"""How long warm and cold measuring may each take; what is left then is not measured."""

WARM_MS: Final = 100.0
COLD_MS: Final = 300.0
HEAT_MAP_MS: Final = 20.0
KB: Final = 60.0


@dataclass
class Figures:
    """What was measured of an address."""

    warm_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    cold_ms: float | None = None
    kb: float = 0.0


@dataclass(frozen=True)
class Server:
    """A running server, with its log and the person's tokens."""

    client: httpx2.Client
    headers: dict[str, str]
    log: Path
    pid: int
    owner: psycopg.Connection[Any]

    def open(self, path: str) -> tuple[float, float, bytes]:
        """Return the server time and the CPU time of a request in milliseconds, and the body."""
        before = self._cpu_ms()
        answer = self.client.get(path, headers=self.headers)
        if answer.status_code != 200:
            raise click.ClickException(f"{path} was answered {answer.status_code}: {answer.text}")
        took_ms = self._logged_ms(answer.headers["x-request-id"])
        return took_ms, self._cpu_ms() - before, answer.content

    def _cpu_ms(self) -> float:
        """Return the CPU time of the server and its connections until now."""
        found = self.owner.execute(SQL["backends"]).fetchall()
        return sum(map(_cpu_ms, (self.pid, *(pid for (pid,) in found))))

    def _logged_ms(self, request_id: str) -> float:
        """Return the duration in the log line of a request, which is written after the answer."""
        until = time.monotonic() + 5
        while time.monotonic() < until:
            line = re.search(
                rf"request_id={request_id} .* duration_ms=([\d.]+)", self.log.read_text()
            )
            if line is not None:
                return float(line[1])
            # There is no signal that the server has written its line.
            time.sleep(0.002)
        raise click.ClickException("the log has no line of a request")


def _cpu_ms(pid: int) -> float:
    """Return the CPU time of all threads of a process."""
    return (
        sum(
            int(path.read_text().split()[0])
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
        )
        / 1e6
    )


def addresses(view: View, today: date) -> list[str]:
    """Return the addresses of a view: the current period, one that is over, and the longest range."""
    over = today - timedelta(days=8)
    week = over.isocalendar()
    values = {
        "day": [str(over)],
        "week": [f"{week.year}-W{week.week:02}"],
        "month": [f"{over:%Y-%m}"],
        "year": [str(today.year - 1)],
        "domain": DOMAINS,
    }
    found = []
    for path in view.paths:
        part = re.search(r"{(\w+)}", path)
        own = [path.replace(part[0], value) for value in values[part[1]]] if part else [path]
        found += own
        if takes_a_range(view):
            found += [f"{each}?{longest_range(view, today)}" for each in own]
    return found


def longest_range(view: View, today: date) -> str:
    """Return a query with a year, or with as many days as the view takes."""
    for days in (365, 92, 31):
        first = str(today - timedelta(days=days - 1))
        try:
            view.address.parse({"path": view.paths[0], "from": first, "to": str(today)})
        except Misaddressed:
            continue
        return f"from={first}&to={today}"
    raise click.ClickException(f"{view.name} takes no range")


@contextmanager
def serving(
    chosen: Settings, directory: Path, owner: psycopg.Connection[Any], token: str
) -> Iterator[Server]:
    """Run a resource server, for which the browser is signed in."""
    log = directory / "resource.log"
    assert chosen.dashboard_key is not None
    cipher = cookies(chosen, chosen.dashboard_key)
    value = cipher.encrypt(cipher.name, {"token": token}, 3600)
    headers = {
        "Accept": "text/html",
        "Authorization": f"Bearer {token}",
        "Cookie": f"{cipher.name}={value}",
    }
    with (
        processes.running(
            ["resource", "serve"],
            chosen,
            processes.role_urls(chosen, processes.RESOURCE_ROLES),
            f"{chosen.base_url}/healthz",
            log,
        ) as pid,
        httpx2.Client(base_url=chosen.base_url, timeout=60) as client,
    ):
        yield Server(client, headers, log, pid, owner)


def invent(chosen: Settings, owner: psycopg.Connection[Any]) -> Person:
    """Return a person with three years in all domains and half a million sessions."""
    owner.execute("set timezone = 'UTC'")
    row = owner.execute(SQL["add_person"], {"email": EMAIL, "tz": ZONE}).fetchone()
    assert row is not None
    own = {"user_id": row[0]}
    demo.main([EMAIL, f"--days={DAYS}"], obj=chosen, standalone_mode=False)
    count = owner.execute(SQL["count_sessions"], own).fetchone()
    assert count is not None
    owner.execute(SQL["add_rules"], own)
    owner.execute(years.SQL["seed"])
    today = datetime.now(UTC).date()
    for year in range(DAYS // 365):
        values = {
            **own,
            "a_day": (SESSIONS - count[0]) // DAYS,
            "from": today - timedelta(days=365 * (year + 1) - 1),
        }
        owner.execute(years.SQL["add_sessions"], values)
        owner.execute(years.SQL["add_coding_sessions"], values)
    owner.execute(SQL["remove_future"], own)
    owner.execute("vacuum analyze")

    async def compute() -> None:
        async with rounds.connected(database.role_url(chosen, "worker")) as worker:
            await rollups.rebuild(worker, row[0])
            await summaries.make_all(worker, row[0])

    asyncio.run(compute())
    owner.execute(SQL["mark_today"], own)
    owner.execute("vacuum analyze")
    return Person(row[0], EMAIL, owner)


def warm(server: Server, asked: dict[str, Figures]) -> None:
    """Open all addresses in turns, after two rounds that do not count."""
    until = time.monotonic() + LONGEST_S
    for number in range(-2, ROUNDS):
        for path, figures in asked.items():
            if time.monotonic() > until:
                return
            took_ms, cpu_ms, body = server.open(path)
            if number >= 0:
                figures.warm_ms.append(took_ms)
                figures.cpu_ms.append(cpu_ms)
            figures.kb = len(gzip.compress(body)) / 1000


def cold(
    chosen: Settings,
    directory: Path,
    owner: psycopg.Connection[Any],
    token: str,
    asked: dict[str, Figures],
) -> None:
    """Open each address as the first one of a fresh server."""
    until = time.monotonic() + LONGEST_S
    for path, figures in asked.items():
        if time.monotonic() > until:
            return
        with serving(chosen, directory, owner, token) as server:
            figures.cold_ms, _, _ = server.open(path)


def table(asked: dict[str, Figures], slowest_ms: dict[str, float]) -> None:
    """Print the figures of each address; ``slowest_ms`` are the limits of those that are no views."""
    click.echo(f"{'':48}{'warm':>10}{'CPU':>10}{'cold':>10}{'gzipped':>12}")
    for path, each in asked.items():
        limit_ms = slowest_ms.get(path, WARM_MS)
        click.echo(
            f"  {path.removeprefix('/api/v1')[:46]:46}"
            f"{_cell(statistics.median(each.warm_ms) if each.warm_ms else None, limit_ms, 'ms')}"
            f"{_cell(statistics.median(each.cpu_ms) if each.cpu_ms else None, limit_ms, 'ms')}"
            f"{_cell(each.cold_ms, COLD_MS, 'ms')}"
            f"{_cell(each.kb, KB, 'KB', 12)}"
        )


def _cell(value: float | None, limit: float, unit: str, width: int = 10) -> str:
    """Return a figure for the table, with an asterisk if it is above its limit."""
    if value is None:
        return "-".rjust(width - 1) + " "
    return f"{value:.{0 if unit == 'ms' else 1}f} {unit}{'*' if value > limit else ' '}".rjust(
        width
    )


def measure(chosen: Settings, directory: Path, owner: psycopg.Connection[Any], token: str) -> None:
    """Open all addresses, warm and cold, and print the table."""
    today = datetime.now(ZoneInfo(ZONE)).date()
    heat_map = (
        "/api/v1/analytics/trend?metric=tracked_ms&by=day"
        f"&from={today - timedelta(days=364)}&to={today}&tz={ZONE}"
    )
    asked = {path: Figures() for view in VIEWS for path in addresses(view, today)}
    asked[heat_map] = Figures()
    with serving(chosen, directory, owner, token) as server:
        warm(server, asked)
    cold(chosen, directory, owner, token, asked)
    table(asked, {heat_map: HEAT_MAP_MS})


def bench(directory: Path) -> None:
    """Run everything and print the table."""
    (port,) = processes.free_ports(1)
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(
            data_dir=directory / "deployment",
            database_url=postgres.url,
            base_url=f"http://localhost:{port}",
            dashboard_key=secrets.token_hex(32),
            jobs=False,
        )
        migrate(chosen, lambda _: None)
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            started = time.perf_counter()
            token = invent(chosen, owner).token()
            click.echo(f"a heavy user was invented in {time.perf_counter() - started:.0f} s\n")
            measure(chosen, directory, owner, token)


@click.command()
def main() -> None:
    """Measure all views for a heavy user."""
    with scratch.directory() as directory:
        bench(directory)


if __name__ == "__main__":
    main()
