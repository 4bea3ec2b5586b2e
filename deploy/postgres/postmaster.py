"""PostgreSQL's main process, as its pid file and the kernel describe it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.postgres.account import EmbeddedError

_FAST_STOP_TIMEOUT: Final = 20.0
# The server waits five seconds before it kills its own processes.
_IMMEDIATE_STOP_TIMEOUT: Final = 8.0
_KILL_TIMEOUT: Final = 5.0


@dataclass(frozen=True)
class PidFile:
    """The contents of a server's postmaster.pid."""

    pid: int
    socket_dir: str
    is_ready: bool


def read_pid_file(cluster: Path) -> PidFile | None:
    """Return the pid file of a cluster, or None. An incomplete file counts as not ready."""
    try:
        lines = (cluster / "postmaster.pid").read_text(errors="surrogateescape").split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    pid = int(lines[0]) if lines[0].isdecimal() else 0
    if len(lines) < 8:
        return PidFile(pid, "", is_ready=False)
    return PidFile(pid, lines[4], is_ready=lines[7].strip() == "ready")


def is_postmaster(pid: int, cluster: Path) -> bool:
    """Whether ``pid`` is a PostgreSQL on this cluster, and no other process that got the same number."""
    if pid <= 0:
        return False
    if sys.platform != "linux":
        listed = subprocess.run(  # noqa: S603 (pid is a number)
            ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)],
            capture_output=True,
            check=False,
            text=True,
        )
        return f"/postgres -D {cluster} " in listed.stdout
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"/postgres") and words[1:3] == [b"-D", os.fsencode(cluster)]


def stop_leftover(cluster: Path, say: Callable[[str], None]) -> None:
    """Stop the server that a crash of its starter left behind.

    The caller holds the data directory's lock, so no living process uses that server.
    """
    pid_file = read_pid_file(cluster)
    if pid_file is None:
        return
    pid = pid_file.pid
    if is_postmaster(pid, cluster):
        say("Stopping a PostgreSQL that a crash left running")
        stop(pid, cluster, lambda: not is_postmaster(pid, cluster))
    # The main process may have been killed before, or a moment ago while it was stopping.
    _end_orphans(cluster)
    # PostgreSQL would refuse to start while an unrelated process, or a zombie, has the number in the file.
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def stop(pid: int, cluster: Path, has_ended: Callable[[], bool]) -> None:
    """Send a server ever stronger signals until it has ended. Raises EmbeddedError if it does not."""
    for wanted, timeout in (
        (signal.SIGINT, _FAST_STOP_TIMEOUT),  # Fast: ends all sessions and writes all data to disk.
        (signal.SIGQUIT, _IMMEDIATE_STOP_TIMEOUT),  # Immediate: the next start recovers.
        (signal.SIGKILL, _KILL_TIMEOUT),
    ):
        if has_ended():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, wanted)
        if _wait_for(has_ended, timeout):
            if wanted == signal.SIGKILL:
                _end_orphans(cluster)
            return
    raise EmbeddedError(f"PostgreSQL (process {pid}) does not stop")


def _wait_for(has_ended: Callable[[], bool], timeout: float) -> bool:
    """Wait until the server has ended; return False if it takes longer than ``timeout`` seconds."""
    until = time.monotonic() + timeout
    while not has_ended():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _end_orphans(cluster: Path) -> None:
    """Kill server processes whose main process has ended.

    Most of them notice it, but one that computes may run for hours, and a new server refuses to
    start meanwhile. On systems other than Linux nothing is killed.
    """
    orphans = [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if _is_server_process(process, cluster)
    ]
    for pid in orphans:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait_for(
        lambda: not any(_is_server_process(Path(f"/proc/{pid}"), cluster) for pid in orphans),
        _KILL_TIMEOUT,
    )


def _is_server_process(process: Path, cluster: Path) -> bool:
    """Whether ``process``, a directory of /proc, works in this cluster."""
    try:
        return (process / "cwd").readlink() == cluster and (
            process / "cmdline"
        ).read_bytes().startswith(b"postgres: ")
    except OSError:
        return False  # It has ended, or we may not read it.
