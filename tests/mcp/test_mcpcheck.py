"""A foreign validator of the newest revision against the running server; `make proof` installs it."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.clients.test_generated import PYTHON
from tests.conftest import Person
from tests.processes import Service

PROGRAM: Final = PYTHON / ".venv/bin/mcpcheck"

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not PROGRAM.exists(), reason="mcpcheck is not installed: make proof"),
]


def test_all_eight_checks_pass_without_a_warning(
    service: Service, alice: Person, tmp_path: Path
) -> None:
    finished = subprocess.run(
        [PROGRAM, f"{service.base_url}/mcp", "--strict", "--no-color"],
        env={"MCPCHECK_TOKEN": alice.token(), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "All 8 checks passed" in finished.stdout
