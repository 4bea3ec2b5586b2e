"""The bench: starts a database and the servers, runs each contestant in turn, and prints ratios.

Contestants take turns in short rounds, so that other load of the machine affects all of them; the median of
the rounds counts. Nothing here asserts: the figures are for a reader.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

import click
import httpx2
import psycopg
from argon2 import PasswordHasher

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres, binaries, libpq_environment
from resourceserver.api import session
from resourceserver.api.metadata import PATH as RESOURCE_METADATA
from resourceserver.endpoints import ENDPOINTS
from shared import SCHEMA_VERSION, database, tokens
from shared.listening import port_of
from shared.settings import Settings
from tests import conftest, processes
from tests.bench import assistants, scratch
from tests.bench.ingest import Contest, memory
from tests.bench.load import Order
from tests.bench.probe import CLIENT_ID
from tests.conftest import Person
from tests.oauth.visitor import Visitor

CONNECTIONS: Final = 4
ROUNDS: Final = 5
SECONDS: Final = 2.0
SIGN_INS: Final = 10
PROVIDER: Final = Path(__file__).parent / "provider"


def http(port: int, requests: Callable[[], list[str]]) -> Callable[[], float]:
    """Return a contestant: answers per second on ``port``, one request for each connection."""

    def run() -> float:
        order = Order(port, [[request] for request in requests()], SECONDS)
        return order.carried_out().per_second

    return run


def getting(path: str, *given: str) -> Callable[[], list[str]]:
    """Return a function with a request for ``path`` on every connection; the tokens take turns."""
    headers = [f"Authorization: Bearer {token}\r\n" for token in given] or [""]
    requests = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n" for header in headers]
    return lambda: list(islice(cycle(requests), CONNECTIONS))


@dataclass(frozen=True)
class Refreshing:
    """Refreshes of one person's grants to the probe's client, a new grant for each connection."""

    owner: psycopg.Connection[Any]
    user_id: UUID

    def __call__(self) -> list[str]:
        """Return one request for each connection."""
        return [refresh("/oauth/token", self._refresh_token()) for _ in range(CONNECTIONS)]

    def _refresh_token(self) -> str:
        token = tokens.mint(tokens.REFRESH, self.user_id)
        self.owner.execute(
            """
            with granted as (
                insert into oauth.grant (user_id, client_id, scopes)
                values (%(user_id)s, %(client_id)s, '{read:profile}')
                returning user_id, grant_id
            )
            insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at)
            select user_id, %(token_hash)s, grant_id, now() + interval '90 days'
              from granted
            """,
            {"user_id": self.user_id, "client_id": CLIENT_ID, "token_hash": token.hash},
        )
        return token.text


def refresh(path: str, refresh_token: str) -> str:
    """Return a request for a refresh."""
    form = urlencode(
        {
            "grant_type": "refresh_token",
            "client_id": CLIENT_ID,
            "refresh_token": refresh_token,
        }
    )
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(form)}\r\n\r\n{form}"
    )


@contextmanager
def foreign_provider(url: str) -> Iterator[dict[str, Callable[[], float]]]:
    """Run oidc-provider on Postgres; yields its refreshes as a contestant, if Node.js is there."""
    node = shutil.which("node")
    if node is None or not (PROVIDER / "node_modules").is_dir():
        yield {}
        return
    (port,) = processes.free_ports(1)
    # A token of a grant of its own for each connection in each round.
    count = CONNECTIONS * ROUNDS
    with subprocess.Popen(
        [node, str(PROVIDER / "provider.mjs"), str(port), url, CLIENT_ID, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"NODE_ENV": "production"},
    ) as process:
        assert process.stdout is not None
        issued = iter(json.loads(process.stdout.readline()))
        yield {
            "refresh foreign": http(
                port, lambda: [refresh("/token", next(issued)) for _ in range(CONNECTIONS)]
            )
        }
        process.communicate(timeout=10)


@dataclass(frozen=True)
class RefusedSignIn:
    """A contestant: wrong passwords per second, one after the other; all kinds should be equally fast."""

    client: httpx2.Client
    owner: psycopg.Connection[Any]
    email: str
    is_early: bool = False
    """Whether each comes before the delay of the one before it is over."""

    def __call__(self) -> float:
        """Return the number of answers in a second."""
        visitor = Visitor(self.client)
        page = visitor.get("/sign-in")
        taken_s = 0.0
        for _ in range(SIGN_INS):
            self.owner.execute("delete from identity.throttle")
            if self.is_early:
                visitor.submit(page, email=self.email, password="not the password")
                self.owner.execute(
                    "update identity.throttle set delayed_until = now() + interval '1 hour'"
                )
            started = time.perf_counter()
            answer = visitor.submit(page, email=self.email, password="not the password")
            taken_s += time.perf_counter() - started
            if answer.status_code != (429 if self.is_early else 400):
                raise click.ClickException(f"sign-in was answered {answer.status_code}")
        return SIGN_INS / taken_s


def pgbench(url: str, script: Path, variables: dict[str, str]) -> Callable[[], float]:
    """Return a contestant: transactions per second of ``script``, prepared and pipelined."""
    definitions = [f"--define={name}={value}" for name, value in variables.items()]

    def run() -> float:
        completed = subprocess.run(
            [
                str(binaries() / "pgbench"),
                *("--no-vacuum", "--protocol=prepared", f"--client={CONNECTIONS}"),
                *(f"--time={SECONDS:.0f}", f"--file={script}"),
                *definitions,
            ],
            env=os.environ | libpq_environment(url),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        line = next(line for line in completed.stdout.splitlines() if line.startswith("tps = "))
        return float(line.split()[2])

    return run


def same_statements(chosen: Settings, directory: Path, text: str) -> Callable[[], float]:
    """Return a contestant: pgbench sending the two statements of ``/api/v1/me``."""
    token = tokens.parse(tokens.ACCESS, text)
    assert token is not None
    me = next(endpoint for endpoint in ENDPOINTS if endpoint.name == "me")
    question = me.query
    script = directory / "me.sql"
    script.write_text(
        "\n".join(
            [
                "\\startpipeline",
                *(_for_pgbench(sql) for sql in (session.SQL["open_token_session"], question)),
                "\\endpipeline",
                "",
            ]
        )
    )
    return pgbench(
        database.role_url(chosen, "reader"),
        script,
        {
            "user_id": str(token.user_id),
            "token_hash": f"\\x{token.hash.hex()}",
            "scopes": "{read:profile}",
            "resources": f"{{{chosen.base_url}}}",
            "version": str(SCHEMA_VERSION),
            "limit_ms": str(session.QUICK_MS),
        },
    )


def _for_pgbench(statement: str) -> str:
    """Return a statement on one line, without comments and with pgbench's kind of placeholders."""
    lines = [line.strip() for line in statement.splitlines() if not line.startswith("--")]
    return re.sub(r"%\((\w+)\)s", r":\1", " ".join(lines)) + ";"


def compare(contestants: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Return each contestant's median over rounds in which all take turns."""
    results: dict[str, list[float]] = {name: [] for name in contestants}
    with click.progressbar(range(ROUNDS), label="rounds", file=sys.stderr) as rounds:
        for _ in rounds:
            for name, contestant in contestants.items():
                results[name].append(contestant())
    return {name: statistics.median(figures) for name, figures in results.items()}


def bench(directory: Path) -> None:
    """Run everything and print the tables."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(
            data_dir=directory / "deployment", database_url=postgres.url, refreshes_per_hour=0
        )
        migrate(chosen, lambda _: None)
        with (
            closing(psycopg.connect(postgres.url, autocommit=True)) as owner,
            processes.service(chosen, directory) as service,
            probe(service.settings, directory) as probe_port,
            uvicorn("tests.bench.bare:create", service.settings, {}, directory) as bare_port,
            assistants.serving(
                replace(service.settings, mcp_calls_per_minute=0), directory
            ) as assistants_port,
            foreign_provider(postgres.url) as foreign,
            httpx2.Client(base_url=service.auth_url) as browser,
        ):
            alice = person(owner)
            text = alice.token("read:profile")
            # Further requests of one person give way, so each connection is that of another person.
            others = [
                each.token("read:profile")
                for each in (conftest.person(owner, f"person{n}") for n in range(1, CONNECTIONS))
            ]
            refreshing = Refreshing(owner, alice.user_id)
            auth_port, base_port = (port_of(url) for url in (service.auth_url, service.base_url))
            memory(owner, base_port, service.resource_pid)
            contest = Contest.on(owner, base_port)
            ingested = compare(contest.contestants())
            assistants.live(chosen, alice)
            figures = compare(
                {
                    "bare": http(bare_port, getting("/")),
                    "simplest": http(base_port, getting(RESOURCE_METADATA)),
                    "refresh": http(auth_port, refreshing),
                    "refresh probe": http(probe_port, refreshing),
                    "refresh bare": http(auth_port, getting(processes.METADATA)),
                    **foreign,
                    "me": http(base_port, getting("/api/v1/me", text, *others)),
                    "me of one": http(base_port, getting("/api/v1/me", text)),
                    "me probe": http(probe_port, getting("/api/v1/me", text, *others)),
                    "me pgbench": same_statements(service.settings, directory, text),
                    **assistants.contestants(alice, partial(http, assistants_port), CONNECTIONS),
                    "wrong": RefusedSignIn(browser, owner, alice.email),
                    "unknown": RefusedSignIn(browser, owner, "nobody@example.org"),
                    "early": RefusedSignIn(browser, owner, alice.email, is_early=True),
                }
            )
    contest.table(ingested)
    click.echo(
        f"{CONNECTIONS} connections, one process a server, {ROUNDS} rounds of {SECONDS:.0f} s each\n"
    )
    table(
        "a bare Starlette route on uvicorn",
        figures,
        {
            "bare": "bare route, no middleware, no log",
            "simplest": f"GET {RESOURCE_METADATA}",
            "me": "GET /api/v1/me, each connection another person",
            "me of one": "GET /api/v1/me, all connections of one person",
        },
        of_first=True,
    )
    table(
        "a refresh, with rotation",
        figures,
        {
            "refresh": "POST /oauth/token",
            "refresh probe": "bare probe, the same statement",
            "refresh bare": f"GET {processes.METADATA}",
            **dict.fromkeys(foreign, "oidc-provider 9 on Postgres"),
        },
    )
    table(
        "a look-up of a token, with a small read",
        figures,
        {
            "me": "GET /api/v1/me",
            "me probe": "bare probe, the same statements",
            "me pgbench": "pgbench, the same statements, no HTTP",
        },
    )

    table("a call of a tool, beside the same question over REST", figures, assistants.LABELS)
    table(
        "a refused sign-in, which must not tell why",
        figures,
        {
            "wrong": "a wrong password",
            "unknown": "an address without an account",
            "early": "an attempt that comes too early",
        },
    )


def table(
    title: str, figures: dict[str, float], labels: dict[str, str], *, of_first: bool = False
) -> None:
    """Print the figure of each contestant, and the first one's ratio to it, or its ratio ``of_first``."""
    first = figures[next(iter(labels))]
    click.echo(f"{title:48}{'per second':>12}{'ratio':>8}")
    for name, label in labels.items():
        ratio = figures[name] / first if of_first else first / figures[name]
        click.echo(f"  {label:46}{figures[name]:12.0f}{ratio:8.2f}")
    click.echo()


def person(owner: psycopg.Connection[Any]) -> Person:
    """Return a person with an account, in a service that knows the probe's client."""
    owner.execute(
        "insert into oauth.client (client_id, redirect_uris) values (%s, %s)",
        [CLIENT_ID, ["https://app.example/callback"]],
    )
    row = owner.execute(
        "insert into identity.user (email) values ('alice@example.org') returning user_id"
    ).fetchone()
    assert row is not None
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [row[0], PasswordHasher().hash("an owl reads under the lamp")],
    )
    return Person(row[0], "alice@example.org", owner)


@contextmanager
def probe(chosen: Settings, directory: Path) -> Iterator[int]:
    """Run the bare probe; yields its port."""
    roles = processes.role_urls(chosen, ("authserver", "reader"))
    with uvicorn("tests.bench.probe:create", chosen, roles, directory) as port:
        yield port


@contextmanager
def uvicorn(
    factory: str, chosen: Settings, role_urls: dict[str, str], directory: Path
) -> Iterator[int]:
    """Run an application as the servers run theirs; yields its port."""
    (port,) = processes.free_ports(1)
    with processes.running(
        [factory, "--factory", f"--port={port}", "--no-access-log"],
        chosen,
        role_urls,
        f"http://localhost:{port}/",
        directory / f"{factory.partition(':')[0]}.log",
        module="uvicorn",
    ):
        yield port


if __name__ == "__main__":
    with scratch.directory() as directory:
        bench(directory)
