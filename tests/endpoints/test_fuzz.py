"""The whole description, tried out by Schemathesis with all its checks, on a real server."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from deploy.demo.command import demo
from shared.settings import Settings
from tests import processes
from tests.conftest import Person

ROOT: Final = Path(__file__).parent.parent.parent
EXAMPLES: Final = {"bounded": 4, "proof": 200}
"""How many requests it invents for each operation, by profile, beside those that it always tries."""

SEED: Final = {"bounded": ["--seed=1"], "proof": []}
"""The same requests in ordinary runs, so that no run fails by chance, and others in the proof."""

CONFIGURATION: Final = """
hooks = "tests.endpoints.fuzzing"
continue-on-failure = true

[auth.openapi.apiToken]
bearer = "{token}"

[generation]
max-examples = {examples}

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "405", "413", "414", "415"]

[checks.positive_data_acceptance]
expected-statuses = ["2xx"]

# Such as operations of which no request was good enough to show anything.
[warnings]
fail-on = true
"""


@pytest.fixture
def url(deployment: Settings, tmp_path: Path) -> Iterator[str]:
    """The address of the resource server, a process of its own."""
    (port,) = processes.free_ports(1)
    chosen = replace(deployment, base_url=f"http://127.0.0.1:{port}")
    logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
    probe, log = f"{chosen.base_url}/healthz", tmp_path / "resource.log"
    with processes.running(["resource", "serve"], chosen, logins, probe, log):
        yield chosen.base_url


@pytest.mark.long
def test_every_answer_to_schemathesis_is_as_described(
    request: pytest.FixtureRequest, deployment: Settings, url: str, alice: Person, tmp_path: Path
) -> None:
    profile = request.config.getoption("--hypothesis-profile")
    made = CliRunner().invoke(demo, [alice.email, "--days", "30"], obj=deployment)
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(
        CONFIGURATION.format(token=alice.token(), examples=EXAMPLES[str(profile)])
    )

    tried = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", configuration,
         "run", f"{url}/openapi.json", "--generation-database=none"],
        # It writes a cache into the working directory, and imports the hooks from the path.
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )  # fmt: skip

    assert made.exit_code == 0, made.output
    assert tried.returncode == 0, tried.stdout


def test_an_unusual_address_is_answered(url: str) -> None:
    status_of = {
        b"/api/v1/me?" + b"a" * 60_000: 414,
        b"/api/v1/me/" + b"a" * 60_000: 414,
        b"/api/v1/me?" + b"a" * 65_536: 431,
        # The web server itself refuses these (RFC 3986, section 2).
        b"/api/v1/me?a=\xff\xfe": 400,
        b"/api/v1/\xed\xa0\x80": 400,
        b"/api/v1/me?a=\x00": 400,
        b"/api/v1/../../etc/passwd": 404,
        b"//api/v1/me": 404,
        b"http://evil.example/api/v1/me": 401,
    }

    answers = {target: raw_answer(url, target) for target in status_of}

    assert {each: int(answer.split()[1]) for each, answer in answers.items()} == status_of
    for answer in answers.values():
        assert b"evil" not in answer
        assert b"x-request-id" in answer


def raw_answer(url: str, target: bytes) -> bytes:
    """Return the answer to a request for ``target``, sent unchanged."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=60) as to:
        lines = [b"GET " + target + b" HTTP/1.1", b"Host: evil.example", b"Connection: close"]
        to.sendall(b"\r\n".join([*lines, b"", b""]))
        return to.makefile("rb").read()
