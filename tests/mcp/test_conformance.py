"""The protocol's own conformance suite against the running servers; `make proof` installs it.

Its scenarios for a server with tools, prompts and resources are examined check by check. Some of their
checks, and all other scenarios, need tools, prompts or resources of the suite's own.
"""

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest

from tests import processes
from tests.conftest import Person
from tests.oauth.program import decide
from tests.oauth.visitor import Visitor
from tests.processes import Service

HERE: Final = Path(__file__).parent / "conformance"
SUITE: Final = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
PROMPTS_AND_RESOURCES: Final = (
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
)
SCENARIOS: Final = {
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "server-sse-multiple-streams",
        "sep-2164-resource-not-found",
        *PROMPTS_AND_RESOURCES,
    ],
    "2025-11-25": [
        "server-initialize",
        "ping",
        "tools-list",
        "dns-rebinding-protection",
        *PROMPTS_AND_RESOURCES,
    ],
}
EXPECTED: Final = tomllib.loads((HERE / "expected_failures.toml").read_text())

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not SUITE.exists(), reason="the suite is not here: make proof"),
]


def node() -> Path:
    """Return the Node.js that npm installs, since the machine's own may be too old for these programs."""
    (path,) = (HERE / "node_modules").glob("node-*/bin/node")
    return path


@contextmanager
def suite(
    directory: Path, *words: str, token: str | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run the suite in the block, each of its requests with ``token``; its results are in ``directory``."""
    preloaded = ["--import", str(HERE / "token.mjs")] if token else []
    process = subprocess.Popen(
        [str(node()), *preloaded, str(SUITE), *words, "-o", str(directory)],
        env=os.environ | {"TOKEN": token or ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def checks(directory: Path, scenario: str) -> dict[str, set[str]]:
    """Return the statuses of each check of a scenario."""
    (path,) = directory.glob(f"{scenario}-2*/checks.json")
    found: dict[str, set[str]] = {}
    for check in json.loads(path.read_text()):
        found.setdefault(check["id"], set()).add(check["status"])
    return found


@pytest.mark.parametrize("revision", SCENARIOS)
def test_the_endpoint_passes_the_suite_for_servers(
    service: Service, alice: Person, tmp_path: Path, revision: str
) -> None:
    url = f"{service.base_url}/mcp"
    words = ("server", "--url", url, "--suite", "all", "--spec-version", revision)
    with suite(tmp_path, *words, token=alice.token("read:activity")) as process:
        # The suite as a whole fails, because of the expected failures.
        printed, _ = process.communicate(timeout=120)

    found = {scenario: checks(tmp_path, f"server-{scenario}") for scenario in SCENARIOS[revision]}
    assert all(found.values()), printed
    failures = {
        scenario: {check for check, statuses in each.items() if "FAILURE" in statuses}
        for scenario, each in found.items()
    }
    expected = EXPECTED.get(revision, {})
    assert failures == {scenario: set(expected.get(scenario, ())) for scenario in found}


def test_the_authorization_server_passes_its_suite(
    service: Service, browser: Visitor, tmp_path: Path
) -> None:
    (port,) = processes.free_ports(1)
    registered = httpx2.post(
        f"{service.auth_url}/oauth/register",
        json={"redirect_uris": [f"http://127.0.0.1:{port}/callback"]},
    )
    client_id = registered.json()["client_id"]
    words = ("authorization", "--url", service.auth_url, f"--port={port}")
    whose = (f"--client-id={client_id}", f"--resource={service.base_url}/mcp")

    with suite(tmp_path, *words, *whose) as process:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line.strip())
            if "Callback server started" in line:
                break
        (url,) = [
            line for line in printed if line.startswith(f"{service.auth_url}/oauth/authorize")
        ]
        httpx2.get(decide(browser, url))
        process.communicate(timeout=60)

    assert process.returncode == 0, printed
    for scenario in ("authorization-server-metadata-endpoint", "authorization-code-grant"):
        found = checks(tmp_path, f"authorization-server-{scenario}")
        assert found
        assert not any("FAILURE" in statuses for statuses in found.values())
