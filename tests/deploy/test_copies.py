"""Copies of ``svc``, by which tests start commands and servers, behave like processes of their own."""

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from shared.settings import Settings
from tests import copies
from tests.deploy.runner import ENVIRONMENT, SELF, fields
from tests.processes import AUTH_ROLES, free_ports, role_urls, running

# Elsewhere tests start processes of their own instead of copies, so there is nothing to compare.
pytestmark = pytest.mark.skipif(not copies.ARE_POSSIBLE, reason="a copy needs Linux")


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["--version"], {}),
        (["auth", "serve"], {"SVC_BASE_URL": "nonsense", "SVC_PROBE": "1"}),
        (["user", "add", "alice@example.org", "--nonsense"], {}),
        (["migrate"], {"SVC_DATA_DIR": "relative"}),
    ],
    ids=["answer", "settings", "usage", "directory"],
)
def test_a_copy_says_what_a_process_says(
    words: list[str], variables: dict[str, str], tmp_path: Path
) -> None:
    chosen = ENVIRONMENT | variables

    copy = copies.run(words, env=chosen, cwd=tmp_path)
    process = subprocess.run(
        [*SELF.command, *words],
        env=chosen,
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
    )

    assert (copy.returncode, copy.stdout, copy.stderr) == (
        process.returncode,
        process.stdout,
        process.stderr,
    )
    assert copy.stdout + copy.stderr


def test_a_copy_knows_nothing_of_those_before_it() -> None:
    first = copies.run(["auth", "serve"], env=ENVIRONMENT | {"SVC_BASE_URL": "nonsense"})
    second = copies.run(["auth", "serve"], env=ENVIRONMENT | {"SVC_AUTH_URL": "nonsense"})

    assert ("SVC_BASE_URL" in first.stderr, "SVC_AUTH_URL" in first.stderr) == (True, False)
    assert ("SVC_BASE_URL" in second.stderr, "SVC_AUTH_URL" in second.stderr) == (False, True)


def test_a_copy_reports_the_signal_that_ended_it_and_shares_no_socket(
    deployment: Settings, tmp_path: Path
) -> None:
    url = f"http://localhost:{free_ports(1)[0]}"
    chosen = replace(deployment, auth_url=url)
    logins = role_urls(deployment, AUTH_ROLES)
    with running(["auth", "serve"], chosen, logins, f"{url}/healthz", tmp_path / "log") as pid:
        session = os.getsid(pid)
        own = sockets(pid)
        shared = own & sockets(int(fields(pid)["PPid"]))
    copy = waiting(deployment, tmp_path)
    copy.send_signal(signal.SIGKILL)

    # It has at least the socket on which it listens.
    assert own
    assert (session, shared) == (pid, set())
    assert copy.wait(60) == -signal.SIGKILL
    assert copy.poll() == -signal.SIGKILL


def sockets(pid: int) -> set[str]:
    """Return the sockets that a process has open."""
    links = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # A process that runs may close a file meanwhile.
        with suppress(FileNotFoundError):
            links.add(os.readlink(path))
    return {link for link in links if link.startswith("socket:")}


def waiting(deployment: Settings, directory: Path) -> copies.Copy:
    """Return a copy that waits for a password, which nobody writes."""
    reading, writing = os.pipe()
    variables = {
        "DATABASE_URL": deployment.database_url or "",
        "SVC_DATA_DIR": str(deployment.data_dir),
    }
    with (directory / "out").open("wb") as out:
        files = (reading, out.fileno(), out.fileno())
        words = ["user", "add", "alice@example.org", "--password-stdin"]
        copy = copies.Copy(words, env=ENVIRONMENT | variables, files=files, pass_fds=[writing])
    os.close(reading)
    os.close(writing)
    return copy
