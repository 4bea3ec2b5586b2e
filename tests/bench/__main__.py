"""The bench: starts a database and the servers, runs each contestant in turn, and prints ratios.

Contestants take turns in short rounds, so that whatever else the machine does hits all of them; the
median of the rounds counts. Nothing here asserts: a figure is for a reader.
"""

import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import httpx2
import psycopg

from deploy.embedded import EmbeddedPostgres, binaries, libpq_environment
from deploy.migrate import migrate
from resourceserver import session
from resourceserver.endpoints import ENDPOINTS
from shared import database, settings, tokens
from shared.settings import Settings
from tests.conftest import Person

CONNECTIONS: Final = 8
ROUNDS: Final = 5
SECONDS: Final = 2.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(
    arguments: list[str], chosen: Settings, role_urls: dict[str, str], url: str
) -> Iterator[int]:
    """Run ``svc`` with ``arguments`` until it answers at ``url``; yields its process id."""
    environment = os.environ | settings.environment(chosen, role_urls)
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.cli", *arguments], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_it_answers(url)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def _wait_until_it_answers(url: str) -> None:
    for _ in range(200):
        try:
            if httpx2.get(url).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.05)
    raise RuntimeError(f"{url} does not answer")


def http(port: int, path: str, token: str | None = None) -> Callable[[], float]:
    """Return a contestant: requests per second for ``path``."""
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n{authorization}\r\n".encode()

    def run() -> float:
        completed = subprocess.run(
            [sys.executable, "-m", "tests.bench.load", str(port), str(CONNECTIONS), str(SECONDS)],
            input=request,
            stdout=subprocess.PIPE,
            check=True,
            timeout=SECONDS + 30,
        )
        return float(completed.stdout)

    return run


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


def same_statements(directory: Path) -> Path:
    """Write the two statements of ``/api/v1/me`` as a pgbench script."""
    me = next(endpoint for endpoint in ENDPOINTS if endpoint.name == "me")
    question = session.SQL["as_json"].replace("--rows", me.query)
    script = directory / "me.sql"
    script.write_text(
        "\n".join(
            [
                "\\startpipeline",
                *(_for_pgbench(sql) for sql in (session.SQL["open_session"], question)),
                "\\endpipeline",
                "",
            ]
        )
    )
    return script


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


def resident_mib(pid: int) -> float:
    """Return a process's resident memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def bench(directory: Path) -> None:
    """Run everything and print the table."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        port = free_port()
        chosen = Settings(
            base_url=f"http://localhost:{port}",
            data_dir=directory / "deployment",
            database_url=postgres.url,
        )
        migrate(chosen, lambda _: None)
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            row = owner.execute(
                "insert into identity.user (email) values ('alice@example.org') returning user_id"
            ).fetchone()
            assert row is not None
            text = Person(row[0], "alice@example.org", owner).token("read:profile")
        token = tokens.parse(tokens.ACCESS, text)
        assert token is not None
        roles = {role: database.role_url(chosen, role) for role in ("reader", "ingester")}
        served = running(
            ["resource", "serve"],
            replace(chosen, database_url=None),
            roles,
            f"{chosen.base_url}/healthz",
        )
        with served as pid:
            at_rest = resident_mib(pid)
            bare = "/.well-known/oauth-protected-resource"
            figures = compare(
                {
                    "me": http(port, "/api/v1/me", text),
                    "bare": http(port, bare),
                    "pgbench": pgbench(
                        roles["reader"],
                        same_statements(directory),
                        {
                            "user_id": str(token.user_id),
                            "token_hash": f"\\x{token.hash.hex()}",
                            "scopes": "{read:profile}",
                            "resources": f"{{{chosen.base_url}}}",
                        },
                    ),
                }
            )
            loaded = resident_mib(pid)
    click.echo(
        f"{CONNECTIONS} connections, one server process, {ROUNDS} rounds of {SECONDS:.0f} s each\n"
    )
    click.echo(f"{'contestant':44}{'per second':>12}{'/api/v1/me is':>16}")
    for name, label in {
        "me": "GET /api/v1/me with a token",
        "bare": f"GET {bare} (no database)",
        "pgbench": "pgbench, the same two statements",
    }.items():
        ratio = figures["me"] / figures[name]
        click.echo(f"{label:44}{figures[name]:12.0f}{ratio:15.2f}x")
    click.echo(
        f"\nresource server, resident: {at_rest:.0f} MiB at rest, {loaded:.0f} MiB after the load"
    )


if __name__ == "__main__":
    scratch = Path(tempfile.mkdtemp(prefix="svc-bench-"))
    scratch.chmod(0o755)
    try:
        bench(scratch)
    finally:
        shutil.rmtree(scratch)
