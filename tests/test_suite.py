"""The suite itself: a run leaves nothing behind, and limits the time of each test."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import copies
from tests.waiting import wait_for
from tests.workers import Original

HERE = Path(__file__).parent


def postmaster_of(directory: Path) -> int | None:
    """Return the process id of the ready server below ``directory``."""
    for file in directory.glob("svc-test-*/postgres/postgres/postmaster.pid"):
        lines = file.read_text().split("\n")
        if "ready" in lines[-2:][0]:
            return int(lines[0])
    return None


# Fails where the run itself is started with one of them ignored, as by nohup, and passes that on.
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_programs_of_tests_ignore_no_signal(number: signal.Signals) -> None:
    ask = f"import signal; print(signal.getsignal({number:d}) == signal.SIG_IGN)"

    printed = subprocess.check_output([sys.executable, "-I", "-S", "-c", ask], text=True)

    assert printed == "False\n"


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that the server's own account can reach; it cannot reach pytest's."""
    with tempfile.TemporaryDirectory(prefix="svc-run-") as name:
        made = Path(name)
        made.chmod(0o755)
        yield made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_an_interrupted_run_leaves_no_server_and_no_directory(
    directory: Path, number: signal.Signals
) -> None:
    output = directory / "output"
    with output.open("wb") as written:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-n", "1", "-vv", "tests/sql/test_isolation.py"],
            cwd=HERE.parent,
            env=os.environ | {"TMPDIR": str(directory)},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        wait_for(lambda: "PASSED" in output.read_text() or run.poll() is not None, "a test", 80)
        postmaster = postmaster_of(directory)
    finally:
        run.send_signal(number)
        status = run.wait(timeout=30)

    # A signal may also come while the test runner handles what it takes for an error of its own.
    ended = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
    assert status in ended, output.read_text()
    assert postmaster is not None, output.read_text()
    wait_for(lambda: not Path(f"/proc/{postmaster}").exists(), "the server to be gone")
    assert list(directory.glob("svc-test-*")) == []


@pytest.fixture
def original() -> Iterator[Original]:
    """A process that has imported a file of tests."""
    if not copies.ARE_POSSIBLE:
        # Elsewhere each worker imports the tests for itself, and there is no such process.
        pytest.skip("a copy needs Linux")
    chosen = Original([str(HERE / "test_glossary.py")])
    yield chosen
    chosen.end()


def worker(original: Original, line: str) -> "subprocess.Popen[str]":
    """Start what xdist starts for a worker, with the Python that the worker runs."""
    command = [*shlex.split(original.program), "-u", "-c", line]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_worker_has_imported_the_tests_before_it_runs(original: Original) -> None:
    line = "import sys; print(sys.stdin.read(), 'tests.test_glossary' in sys.modules, sys.argv)"

    with worker(original, line) as program:
        printed, _ = program.communicate("input", timeout=60)

    assert printed == "input True ['-c']\n"


def test_a_worker_ends_with_the_program_that_stands_for_it(original: Original) -> None:
    # It sleeps for longer than the test may take, so that it ends only if it is killed.
    line = "import os, time; print(os.getpid(), flush=True); time.sleep(100)"

    with worker(original, line) as program:
        assert program.stdout is not None
        copy = int(program.stdout.readline())
        program.kill()

    assert copy != program.pid
    wait_for(lambda: not Path(f"/proc/{copy}").exists(), "the worker to be gone")


def test_a_worker_that_is_killed_ends_its_program_and_no_other(original: Original) -> None:
    line = "import os; print(os.getpid(), flush=True); input(); print('alive')"

    with worker(original, line) as first, worker(original, line) as second:
        assert first.stdout is not None
        assert second.stdout is not None
        os.kill(int(first.stdout.readline()), signal.SIGKILL)
        first.wait(timeout=60)
        second.stdout.readline()
        printed, _ = second.communicate("\n", timeout=60)

    assert printed == "alive\n"
