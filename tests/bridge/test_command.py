"""`svc bridge activitywatch`: once, or until it is stopped."""

import json
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from resourceserver.trackers.commands import bridge
from shared.settings import Settings
from tests import processes
from tests.bridge.conftest import (
    EDITOR,
    WINDOWS,
    Watch,
    event,
    resource_server,
    sessions,
)
from tests.conftest import Person
from tests.deploy.runner import SELF
from tests.waiting import wait_for

NOWHERE = "http://127.0.0.1:1"


def run(*words: str, token: str, server: str, directory: Path) -> Result:
    """Run it once; the day of the tests is long past for its clock, so everything has ended."""
    return CliRunner().invoke(
        bridge,
        ["activitywatch", "--once", "--token", token, *words],
        obj=replace(Settings(), base_url=server, state_dir=directory),
    )


@pytest.fixture
def filled(watch: Watch) -> Watch:
    """Two windows and an edit that have ended."""
    watch.make(WINDOWS, "currentwindow")
    watch.make(EDITOR, "app.editor.activity")
    watch.insert(WINDOWS, event("09:00:00", 60, app="a"), event("09:01:01", 60, app="b"))
    watch.insert(EDITOR, event("09:00:00", 60, project="svc"))
    return watch


def test_once_sends_everything_and_prints_the_sums(
    filled: Watch, server: str, alice: Person, tmp_path: Path
) -> None:
    token = alice.token("ingest:app_sessions", "ingest:coding_sessions")

    first = run("--url", filled.address, token=token, server=server, directory=tmp_path)
    second = run("--url", filled.address, token=token, server=server, directory=tmp_path)

    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout == (
        "app-sessions: accepted 2, duplicates 0, rejected 0\n"
        "coding-sessions: accepted 1, duplicates 0, rejected 0\n"
    )
    assert (second.exit_code, second.output) == (0, "")
    stored = alice.connection.execute("select source from activity.coding_session").fetchall()
    assert stored == [("svc-bridge/1.0.0",)]


def test_the_state_file_is_where_the_option_says(
    filled: Watch, server: str, alice: Person, tmp_path: Path
) -> None:
    token = alice.token()
    state_file = tmp_path / "mine" / "state"
    words = ["--url", filled.address, "--to", f"{server}/", "--state", str(state_file)]

    done = run(*words, token=token, server=NOWHERE, directory=tmp_path)

    assert done.exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    [route] = json.loads(state_file.read_text())["routes"]
    assert route.endswith(f" to {server} {alice.user_id}")
    assert token not in state_file.read_text()


def test_a_rejected_event_sets_the_exit_status(
    watch: Watch, server: str, alice: Person, tmp_path: Path
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("1999-01-01T09:00:00", 60, app="a"))
    watch.insert(WINDOWS, event("09:01:01", 60, app="b"))

    done = run("--url", watch.address, token=alice.token(), server=server, directory=tmp_path)

    assert done.exit_code == 1
    assert done.stdout == "app-sessions: accepted 1, duplicates 0, rejected 1\n"
    assert "timestamp_out_of_range" in done.stderr


def test_a_bad_token_is_one_line(filled: Watch, server: str, alice: Person, tmp_path: Path) -> None:
    revoked, weak = alice.token(), alice.token("ingest:coding_sessions")
    alice.connection.execute(
        "update oauth.access_token set revoked_at = now() where last_four = %s", [revoked[-4:]]
    )

    def try_with(token: str) -> Result:
        return run("--url", filled.address, token=token, server=server, directory=tmp_path)

    mistyped, gone, too_weak = try_with("svc_dt_x"), try_with(revoked), try_with(weak)

    assert mistyped.stderr == "Error: this is not a token of this service; is it complete?\n"
    assert gone.stderr.startswith("Error: the server refuses the token: the token is unknown")
    assert (
        too_weak.stderr == "Error: the server refuses the token: ingest:app_sessions is required\n"
    )
    assert mistyped.exit_code == gone.exit_code == too_weak.exit_code == 1
    right = try_with(alice.token())
    assert right.stdout.splitlines()[0] == "app-sessions: accepted 2, duplicates 0, rejected 0"


def test_an_address_of_another_server_is_one_line(
    server: str, alice: Person, tmp_path: Path
) -> None:
    token = alice.token()

    nobody = run("--url", NOWHERE, token=token, server=server, directory=tmp_path)
    other = run("--url", server, token=token, server=server, directory=tmp_path)
    none = run("--url", "127.0.0.1:5600", token=token, server=server, directory=tmp_path)

    assert re.fullmatch(r"Error: http://127\.0\.0\.1:1 cannot be reached: .+\n", nobody.stderr)
    assert other.stderr == f"Error: {server} is not an ActivityWatch server\n"
    assert none.stderr.startswith("Error: the server's address must begin with http://")
    assert nobody.exit_code == other.exit_code == none.exit_code == 1


def test_the_bridge_survives_outages_of_either_side_and_ends_on_a_signal(
    standing_watch: Watch,
    deployment: Settings,
    alice: Person,
    tmp_path: Path,
) -> None:
    watch = standing_watch
    watch.clear()
    watch.make(WINDOWS, "currentwindow")
    watch.stop()
    (port,) = processes.free_ports(1)
    variables = {
        "SVC_TOKEN": alice.token("ingest:app_sessions"),
        "SVC_BASE_URL": f"http://localhost:{port}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "DATABASE_URL_FILE": "/closed/to/who/runs/a/bridge",
    }
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as written, err.open("w") as messages:
        process = subprocess.Popen(
            [*SELF.command, "bridge", "activitywatch", "--url", watch.address, "--every", "1"],
            env=SELF.variables | variables,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=messages,
        )
    try:
        wait_beside(process, err, lambda: "cannot be reached" in err.read_text())
        watch.start()
        watch.insert(WINDOWS, event("09:00:00", 60, app="a"), event("09:01:01", 60, app="b"))
        wait_beside(process, err, lambda: "trying again in" in err.read_text())
        with resource_server(deployment, tmp_path, port):
            wait_beside(process, err, lambda: len(sessions(alice)) == 2)
            watch.stop()
            watch.start()
            watch.insert(WINDOWS, event("09:03:00", 60, app="c"))
            wait_beside(process, err, lambda: len(sessions(alice)) == 3)
        watch.insert(WINDOWS, event("09:05:00", 60, app="d"))
        wait_beside(process, err, lambda: err.read_text().count("trying again in") > 1)
        with resource_server(deployment, tmp_path, port):
            wait_beside(process, err, lambda: len(sessions(alice)) == 4)
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=20)
    finally:
        process.kill()
        process.wait()

    assert status == 0
    assert "Traceback" not in err.read_text()
    assert variables["SVC_TOKEN"] not in err.read_text() + out.read_text()
    assert (tmp_path / "state" / "svc" / "bridge.json").exists()


def test_an_interrupt_while_the_bridge_waits_is_no_failure(
    watch: Watch, alice: Person, tmp_path: Path
) -> None:
    watch.make(WINDOWS, "currentwindow")
    watch.insert(WINDOWS, event("09:00:00", 60, app="a"))
    err = tmp_path / "err"
    with err.open("w") as messages:
        process = subprocess.Popen(
            [*SELF.command, "bridge", "activitywatch", "--url", watch.address, "--to", NOWHERE],
            env=SELF.variables | {"SVC_TOKEN": alice.token(), "XDG_STATE_HOME": str(tmp_path)},
            stderr=messages,
        )
    wait_beside(process, err, lambda: "trying again in" in err.read_text())

    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=20) == 0
    assert err.read_text().count("\n") == 1


def test_the_bridge_waits_on_temporary_errors_and_ends_on_a_refused_token(
    filled: Watch, server: str, alice: Person, tmp_path: Path
) -> None:
    token = alice.token("ingest:coding_sessions")
    err = tmp_path / "err"

    def staying(to: str) -> subprocess.Popen[bytes]:
        words = ["bridge", "activitywatch", "--url", filled.address, "--to", to, "--every", "1"]
        with err.open("w") as messages:
            return subprocess.Popen(
                [*SELF.command, *words],
                env=SELF.variables | {"SVC_TOKEN": token, "XDG_STATE_HOME": str(tmp_path)},
                stderr=messages,
            )

    # Another server may answer at this address for a while.
    waiting = staying(filled.address)
    wait_beside(waiting, err, lambda: "looking again every 1 s" in err.read_text())
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(timeout=20) == 0
    assert "is not an ingest endpoint" in err.read_text()

    refused = staying(server)
    assert refused.wait(timeout=60) == 1
    assert (
        err.read_text() == "Error: the server refuses the token: ingest:app_sessions is required\n"
    )


def wait_beside(process: subprocess.Popen[bytes], err: Path, condition: Callable[[], bool]) -> None:
    """Wait for ``condition`` while a bridge runs; if it has ended, fail with its output."""

    def holds() -> bool:
        assert process.poll() is None, err.read_text()
        return condition()

    wait_for(holds, "what the bridge was started for")
