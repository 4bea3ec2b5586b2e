"""Clients that foreign programs generate from the description; `make proof` installs these programs."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.endpoints import snapshot

HERE: Final = Path(__file__).parent
PYTHON: Final = HERE / "python"
TYPESCRIPT: Final = HERE / "typescript"

EXPECTED: Final = {
    "service": "personal-activity-analytics",
    "accepted": 1,
    "codes": ["invalid_interval"],
    "apps": [["Code", 60000]],
    "tracked_ms": 60000,
    "status": 403,
    "error": "insufficient_scope",
}

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(
        not ((PYTHON / ".venv/.run").exists() and (TYPESCRIPT / "node_modules").exists()),
        reason="the generators are not installed; make proof does it",
    ),
]


@pytest.fixture
def url(deployment: Settings, tmp_path: Path) -> Iterator[str]:
    """Where the resource server answers, a process of its own."""
    (port,) = processes.free_ports(1)
    chosen = replace(deployment, base_url=f"http://127.0.0.1:{port}")
    logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
    probe, log = f"{chosen.base_url}/healthz", tmp_path / "resource.log"
    with processes.running(["resource", "serve"], chosen, logins, probe, log):
        yield chosen.base_url


def run(*command: Path | str, directory: Path, **environment: str) -> str:
    """Return what a program prints; whatever it warns of fails the test."""
    ended = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def printed(alice: Person, url: str, *command: Path | str, directory: Path) -> Any:
    """Return what a program reports of its five calls."""
    token = alice.token("ingest:app_sessions", "read:activity")
    return json.loads(run(*command, directory=directory, BASE_URL=url, TOKEN=token))


def test_a_python_client_is_generated_whole_and_works(
    url: str, alice: Person, tmp_path: Path
) -> None:
    programs = PYTHON / ".venv/bin"
    run(
        programs / "openapi-python-client", "generate", "--path", snapshot.PATH, "--meta=none",
        "--fail-on-warning", "--output-path", tmp_path / "svc_client",
        directory=tmp_path,
        # It formats what it writes.
        PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
    )  # fmt: skip
    shutil.copy(PYTHON / "calls.py", tmp_path)

    assert printed(alice, url, programs / "python", "calls.py", directory=tmp_path) == EXPECTED


def test_a_typescript_client_compiles_and_works(url: str, alice: Person, tmp_path: Path) -> None:
    node, modules = shutil.which("node") or "node", TYPESCRIPT / "node_modules"
    for name in ("package.json", "tsconfig.json", "calls.ts"):
        shutil.copy(TYPESCRIPT / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    generator = modules / "openapi-typescript/bin/cli.js"
    run(node, generator, snapshot.PATH, "-o", "api.d.ts", directory=tmp_path)
    run(node, modules / "typescript/bin/tsc", directory=tmp_path)

    assert printed(alice, url, node, "calls.js", directory=tmp_path) == EXPECTED
