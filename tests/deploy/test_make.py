"""``make run`` before the virtual environment exists."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.runner import SELF

ROOT = Path(__file__).parent.parent.parent
DEFAULT = "/var/lib/svc" if os.geteuid() == 0 else "{here}/.data"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, DEFAULT), ("/srv/svc data", "/srv/svc data"), ("mine", "{here}/mine")],
)
def test_the_data_directory_is_printed_before_anything_is_installed(
    tmp_path: Path, given: str | None, expected: str
) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    variables = {} if given is None else {"SVC_DATA_DIR": given}

    result = subprocess.run(
        ["make", "--no-print-directory", "run", "PYTHON=no-such-python"],
        env=SELF.variables | variables,
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
    )

    assert result.returncode != 0
    assert result.stdout == f"Data directory: {expected.format(here=tmp_path)}\n"
    assert "no-such-python is not here" in result.stderr
