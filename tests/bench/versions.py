"""This version beside an older one: the same data, the same requests in turns, and the ratios.

``python -m tests.bench.versions COMMIT`` checks the commit out into a worktree, gives each version a database
server of its own with a year of the demo and three years of a busy life, and asks both the same. Answers that
must not differ are compared. Figures of a fresh server come from servers that are started for them alone.

Nothing here asserts: the figures are for a reader. It takes about five minutes. The commit's schema must have
the tables of this one.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import httpx2
import psycopg

from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.endpoints import ENDPOINTS
from resourceserver.mcp.tools import TOOLS
from shared import settings
from shared.settings import Settings
from tests import processes
from tests.bench import scratch
from tests.bench.years import SQL
from tests.conftest import Person
from tests.mcp.assistant import REQUIRED, Assistant

ROOT: Final = Path(__file__).parent.parent.parent
ZONE: Final = "Europe/Berlin"
ROUNDS: Final = 10
ROUND_S: Final = 0.4
"""How long a request is repeated in each round; it is sent at least once."""
FRESH_ROUNDS: Final = 5
AT_ONCE: Final = 8
YEARS: Final = 3
A_DAY: Final = 300
DEMO: Final = "alice@example.org"
BUSY: Final = "bob@example.org"


@dataclass(frozen=True)
class Version:
    """One version with its database server and its people."""

    name: str
    code: Path
    settings: Settings
    owner: psycopg.Connection[Any]
    directory: Path
    figures: dict[str, list[float]] = field(default_factory=dict)
    """Seconds by request."""

    def command(self, *arguments: str) -> None:
        """Run a command of ``svc`` with the owner's login."""
        subprocess.run(
            [sys.executable, "-m", "deploy.cli", *arguments],
            env=os.environ
            | settings.environment(self.settings, {})
            | {"DATABASE_URL": str(self.settings.database_url)},
            cwd=self.code,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=300,
        )

    @contextmanager
    def server(self) -> Iterator[str]:
        """Run its resource server; yields its address."""
        (port,) = processes.free_ports(1)
        chosen = replace(self.settings, base_url=f"http://localhost:{port}")
        # An older version may have fewer roles.
        known = settings.read_secrets(chosen.data_dir).passwords
        roles = [role for role in processes.RESOURCE_ROLES if role in known]
        with processes.running(
            ["resource", "serve"],
            chosen,
            processes.role_urls(chosen, roles),
            f"{chosen.base_url}/healthz",
            self.directory / "resource.log",
            directory=self.code,
        ):
            yield chosen.base_url

    def person(self, email: str) -> Person:
        """Return the person with this address."""
        row = self.owner.execute(
            "select user_id from identity.user where email = %s", [email]
        ).fetchone()
        assert row is not None
        return Person(row[0], email, self.owner)

    def headers(self, email: str) -> dict[str, str]:
        """Return the headers of a token with all scopes."""
        return {"Authorization": f"Bearer {self.person(email).token()}"}


@dataclass(frozen=True)
class Question:
    """A request that both versions answer again and again."""

    label: str
    email: str
    path: str
    """The path of an endpoint, or the name of a tool."""
    params: dict[str, str] = field(default_factory=dict)
    is_compared: bool = True
    """Whether both answers must be equal. Ids and new members of answers may differ."""

    def ask(self, client: httpx2.Client, headers: dict[str, str]) -> httpx2.Response:
        """Return the answer. Raises ClickException for an error."""
        if self.path.startswith("/"):
            answer = client.get(self.path, params=self.params, headers=headers)
        else:
            answer = Assistant(client, headers).call(self.path, **self.params)
        if answer.status_code != 200:
            raise click.ClickException(f"{self.label}: {answer.text}")
        return answer


def questions(last: date) -> list[Question]:
    """Return the requests; ``last`` is the last day of both lives."""
    midnight = datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)

    def days(count: int) -> dict[str, str]:
        return {"from": str(last - timedelta(days=count - 1)), "to": str(last)}

    def instants(count: int) -> dict[str, str]:
        return {"from": f"{midnight - timedelta(days=count):%FT%TZ}", "to": f"{midnight:%FT%TZ}"}

    correlation = "/api/v1/account/correlation"
    health = {"metric_a": "asleep_ms", "metric_b": "recovery_score", "tz": ZONE}
    activity = {"metric_a": "tracked_ms", "metric_b": "asleep_ms", "tz": ZONE}
    zone = {"tz": ZONE}
    analytics = "/api/v1/analytics"
    return [
        Question("get_day, with goals", DEMO, "get_day", {"date": str(last)}, is_compared=False),
        Question("get_day, without goals", BUSY, "get_day", {"date": str(last)}, is_compared=False),
        Question("goals", DEMO, "/api/v1/goals", zone, is_compared=False),
        Question("correlation, no activity", DEMO, correlation, health | days(90)),
        Question("correlation, activity", DEMO, correlation, activity | days(90)),
        Question("focus-streaks, three years", BUSY, f"{analytics}/focus-streaks", instants(1095)),
        Question("context-switches, a year", BUSY, f"{analytics}/context-switches", instants(365)),
        Question("daily, a year", BUSY, f"{analytics}/daily", zone | days(365)),
        Question(
            "daily-categories, a year", BUSY, f"{analytics}/daily-categories", zone | instants(365)
        ),
        Question("app-usage, a year", BUSY, f"{analytics}/app-usage", instants(365)),
    ]


def everything(last: date) -> Iterator[Question]:
    """Yield every endpoint and every tool once, with as few parameters as they need."""
    of_type = {
        date: {"from": str(last - timedelta(days=6)), "to": str(last), "date": str(last)},
        datetime: {"from": f"{last - timedelta(days=6)}T00:00:00Z", "to": f"{last}T00:00:00Z"},
        str: {"metric_type": "steps", "metric": "asleep_ms"},
    }
    for endpoint in ENDPOINTS:
        needed = {
            each.alias or name: each.annotation
            for name, each in endpoint.params.model_fields.items()
            if each.is_required()
        }
        params = {name: of_type[kind][name] for name, kind in needed.items() if kind in of_type}
        yield Question(endpoint.name, DEMO, endpoint.path, params)
    for tool in TOOLS:
        yield Question(tool.name, DEMO, tool.name, REQUIRED.get(tool.name, {}))


def warm(versions: list[Version], asked: list[Question]) -> list[str]:
    """Send requests in alternating rounds; returns the labels of answers that differ."""
    different = []
    with ExitStack() as running:
        clients = [
            running.enter_context(
                httpx2.Client(base_url=running.enter_context(version.server()), timeout=60)
            )
            for version in versions
        ]
        headers = [
            {email: version.headers(email) for email in (DEMO, BUSY)} for version in versions
        ]
        pairs = list(zip(versions, clients, headers, strict=True))
        for question in asked:
            bodies = [question.ask(client, own[question.email]).json() for _, client, own in pairs]
            if question.is_compared and bodies[0] != bodies[1]:
                different.append(question.label)
        with click.progressbar(range(ROUNDS), label="rounds", file=sys.stderr) as rounds:
            for number in rounds:
                for question in asked:
                    for version, client, own in pairs if number % 2 else reversed(pairs):
                        ask = partial(question.ask, client, own[question.email])
                        version.figures.setdefault(question.label, []).append(_median_s(ask))
    return different


def _median_s(ask: Callable[[], object]) -> float:
    figures: list[float] = []
    until = time.perf_counter() + ROUND_S
    for _ in range(1000):
        started = time.perf_counter()
        ask()
        figures.append(time.perf_counter() - started)
        if time.perf_counter() >= until:
            break
    return statistics.median(figures)


def fresh(versions: list[Version], day: Question) -> None:
    """Measure the first ``day`` of a fresh server, for one request and for several at once."""
    for count in (1, AT_ONCE):
        label = f"{day.label}, {count} on a fresh server"
        with click.progressbar(range(FRESH_ROUNDS), label=label, file=sys.stderr) as rounds:
            for number in rounds:
                for version in versions if number % 2 else reversed(versions):
                    version.figures.setdefault(label, []).append(_first_s(version, day, count))


def _first_s(version: Version, day: Question, count: int) -> float:
    headers = version.headers(day.email)
    with ExitStack() as running:
        url = running.enter_context(version.server())
        clients = [
            running.enter_context(httpx2.Client(base_url=url, timeout=60)) for _ in range(count)
        ]
        for client in clients:
            client.get("/.well-known/oauth-protected-resource")
        pool = running.enter_context(ThreadPoolExecutor(count))
        started = time.perf_counter()
        list(pool.map(lambda client: day.ask(client, headers), clients))
        return time.perf_counter() - started


def memory(version: Version, last: date) -> tuple[float, int]:
    """Return the private memory of the largest backend of a server that has answered everything, in MiB.

    Also returns how many backends it had. Requests are sent one after the other, so that one backend
    answers nearly all of them. An older version does not have all endpoints and tools.
    """
    headers = version.headers(DEMO)
    with version.server() as url, httpx2.Client(base_url=url, timeout=60) as client:
        listed = Assistant(client, headers).modern("tools/list").json()["result"]["tools"]
        known = {*client.get("/openapi.json").json()["paths"], *(tool["name"] for tool in listed)}
        for _ in range(2):
            for question in everything(last):
                if question.path in known:
                    question.ask(client, headers)
        found = version.owner.execute(
            "select pid from pg_stat_activity where application_name = 'svc reader'"
        ).fetchall()
        private = [_private_mib(pid) for (pid,) in found]
    return max(private), len(private)


def _private_mib(pid: int) -> float:
    """Return the private memory of a backend, without the shared buffers that it alone has touched.

    The kernel calls a page private as long as a single process has it.
    """
    total, is_shared = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, value, *_ = line.split()
        if not name.endswith(":"):
            is_shared = value.endswith("s")
        elif name.startswith("Private_") and not is_shared:
            total += int(value)
    return total / 1024


@contextmanager
def worktree(commit: str, directory: Path) -> Iterator[Path]:
    """Check ``commit`` out into ``directory`` for the time of the block."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(directory), commit], check=True)
    try:
        yield directory
    finally:
        subprocess.run([*git, "remove", "--force", str(directory)], check=True)


@contextmanager
def prepared(name: str, code: Path, directory: Path, last: date) -> Iterator[Version]:
    """Yield a version whose database has both people and their rollups."""
    directory.mkdir(mode=0o755)
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(
            data_dir=directory / "deployment",
            database_url=postgres.url,
            jobs=False,
            mcp_calls_per_minute=0,
        )
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            version = Version(name, code, chosen, owner, directory)
            version.command("migrate")
            owner.execute("insert into identity.user (email) values (%s)", [DEMO])
            version.command("demo", DEMO, f"--until={last}")
            invent(owner, last)
            version.command("rollup", "rebuild", "--all")
            owner.execute("vacuum analyze")
            yield version


def invent(owner: psycopg.Connection[Any], last: date) -> None:
    """Add the busy person with years of sessions up to the day ``last``."""
    owner.execute("set timezone = 'UTC'")
    row = owner.execute(SQL["add_person"], {"email": BUSY}).fetchone()
    assert row is not None
    owner.execute(SQL["seed"])
    for year in range(YEARS):
        first = last - timedelta(days=365 * (YEARS - year) - 1)
        values = {"user_id": row[0], "a_day": A_DAY, "from": first}
        owner.execute(SQL["add_sessions"], values)
        owner.execute(SQL["add_coding_sessions"], values)
    owner.execute(SQL["mark_days"], {"user_id": row[0]})


def table(old: Version, new: Version) -> None:
    """Print medians, the median of the ratios by round, and the ratios between which half of them are."""
    click.echo(
        f"{f'{new.name} beside {old.name}':44}{'old':>10}{'new':>10}{'ratio':>8}{'half':>14}"
    )
    for label, before in old.figures.items():
        after = new.figures[label]
        ratios = [mine / theirs for theirs, mine in zip(before, after, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        click.echo(
            f"  {label:42}{statistics.median(before) * 1000:7.1f} ms"
            f"{statistics.median(after) * 1000:7.1f} ms{middle:8.2f}{low:8.2f}-{high:.2f}"
        )


def bench(commit: str, directory: Path) -> None:
    """Prepare both versions, measure them, and print the table."""
    last = datetime.now(UTC).date() - timedelta(days=1)
    with ExitStack() as running:
        code = running.enter_context(worktree(commit, directory / "code"))
        old, new = (
            running.enter_context(prepared(name, where, directory / folder, last))
            for name, where, folder in (
                (commit, code, "old"),
                ("the working directory", ROOT, "new"),
            )
        )
        asked = questions(last)
        different = warm([old, new], asked)
        fresh([old, new], asked[0])
        table(old, new)
        for version in (old, new):
            largest, count = memory(version, last)
            click.echo(
                f"  private memory of the largest of {count} reading backends after every endpoint and tool, "
                f"{version.name}: {largest:.0f} MiB"
            )
        click.echo(f"  answers that differ: {', '.join(different) or 'none'}")


@click.command()
@click.argument("commit")
def main(commit: str) -> None:
    """Measure this version beside COMMIT."""
    with scratch.directory() as directory:
        bench(commit, directory)


if __name__ == "__main__":
    main()
