"""The programs of the guide, run as they stand there, against both servers and the real pages."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest

from resourceserver.description.guide import TEXTS
from shared.settings import Settings
from tests import processes
from tests.clients.test_generated import TYPESCRIPT, run
from tests.conftest import Person
from tests.endpoints import snapshot
from tests.oauth.conftest import visitor_of
from tests.oauth.program import decide, expire_access_tokens
from tests.processes import Service

_BLOCK: Final = re.compile(r"^```(\w+) title=(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAMS: Final = {
    name: text for _, name, text in _BLOCK.findall((TEXTS / "programs.md").read_text())
}
SESSIONS: Final = 230
"""More than two pages of the programs."""
NODE: Final = shutil.which("node") or "node"


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers."""
    with processes.service(deployment, tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture
def week(service: Service, alice: Person) -> list[str]:
    """The lines that a program prints of alice's week, newest first."""
    minutes = [f"2025-06-17T{n // 60:02}:{n % 60:02}:00" for n in range(SESSIONS)]
    headers = {"Authorization": f"Bearer {alice.token('ingest:app_sessions')}"}
    events = [
        {"app": "Code", "started_at": f"{each}Z", "duration_ms": 1000 * (n % 60)}
        for n, each in enumerate(minutes)
    ]
    answer = httpx2.post(
        f"{service.base_url}/api/v1/ingest/app-sessions", json={"events": events}, headers=headers
    )
    assert answer.json()["accepted"] == SESSIONS
    return [f"{each}.000Z Code {n % 60} s" for n, each in enumerate(minutes)][::-1]


@contextmanager
def started(
    service: Service, directory: Path, *command: str | Path
) -> Iterator[subprocess.Popen[str]]:
    """Start a program of the guide."""
    (port,) = processes.free_ports(1)
    addresses = {"SVC_AUTH_URL": service.auth_url, "SVC_BASE_URL": service.base_url}
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=os.environ | addresses | {"CALLBACK_PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def consented(service: Service, alice: Person, directory: Path, *command: str | Path) -> list[str]:
    """Run a program for the first time, consent in alice's browser, and return what it prints then."""
    with (
        started(service, directory, *command) as process,
        httpx2.Client(base_url=service.auth_url) as client,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Open http"), line + process.communicate(timeout=60)[0]
        back = decide(visitor_of(client, service.settings, alice), line.split()[1])
        assert httpx2.get(back).text == "You may close this tab."
        printed = process.communicate(timeout=60)[0]
    assert process.returncode == 0, printed
    return printed.splitlines()


def again(service: Service, directory: Path, *command: str | Path) -> list[str]:
    """Run a program that has access already; return what it prints."""
    with started(service, directory, *command) as process:
        printed = process.communicate(timeout=60)[0]
    assert process.returncode == 0, printed
    return printed.splitlines()


def test_ten_lines_print_the_first_answer(
    service: Service, alice: Person, week: list[str], tmp_path: Path
) -> None:
    (tmp_path / "first_answer.py").write_text(PROGRAMS["first_answer.py"])

    printed = run(
        *(sys.executable, "first_answer.py"),
        directory=tmp_path,
        SVC_BASE_URL=service.base_url,
        SVC_TOKEN=alice.token("read:activity"),
    )

    seconds = sum(int(line.split()[-2]) for line in week)
    assert printed == f"Code {seconds // 60} min\n"


def test_the_program_in_python_pages_and_refreshes(
    service: Service, alice: Person, week: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sessions.py").write_text(PROGRAMS["sessions.py"])
    command = (sys.executable, "sessions.py")

    assert consented(service, alice, tmp_path, *command) == week

    kept = tmp_path / "access.json"
    first = kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0
    expire_access_tokens(alice)
    kept.write_text(re.sub(r'"expires_at": \d+', '"expires_at": 1', first))
    assert again(service, tmp_path, *command) == week
    assert again(service, tmp_path, *command) == week
    assert kept.read_text() != first


@pytest.mark.foreign
@pytest.mark.skipif(
    not (TYPESCRIPT / "node_modules").exists(),
    reason="the compiler is not installed; make proof does it",
)
def test_the_program_in_typescript_pages_and_refreshes(
    service: Service, alice: Person, week: list[str], tmp_path: Path
) -> None:
    modules = TYPESCRIPT / "node_modules"
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(TYPESCRIPT / name, tmp_path)
    (tmp_path / "sessions.ts").write_text(PROGRAMS["sessions.ts"])
    (tmp_path / "node_modules").symlink_to(modules)
    generator = modules / "openapi-typescript/bin/cli.js"
    run(NODE, generator, snapshot.PATH, "-o", "api.d.ts", directory=tmp_path)
    run(NODE, modules / "typescript/bin/tsc", directory=tmp_path)
    command = (NODE, "sessions.js")

    assert consented(service, alice, tmp_path, *command) == week

    kept = tmp_path / "access.json"
    first = kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0
    expire_access_tokens(alice)
    kept.write_text(re.sub(r'"expiresAt":\d+', '"expiresAt":1', first))
    assert again(service, tmp_path, *command) == week
    assert again(service, tmp_path, *command) == week
    assert kept.read_text() != first
