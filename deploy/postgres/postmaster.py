"""PostgreSQL's main process, as its pid file and the kernel tell of it."""

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
# The server itself gives its processes five seconds before it kills them.
_IMMEDIATE_STOP_TIMEOUT: Final = 8.0
_KILL_TIMEOUT: Final = 5.0


@dataclass(frozen=True)
class PidFile:
    """What a server says of itself in postmaster.pid."""

    pid: int
    socket_dir: str
    is_ready: bool


def read_pid_file(cluster: Path) -> PidFile | None:
    """Return None where there is none. A file that is still being written is not ready."""
    try:
        lines = (cluster / "postmaster.pid").read_text(errors="surrogateescape").split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    pid = int(lines[0]) if lines[0].isdecimal() else 0
    if len(lines) < 8:
        return PidFile(pid, "", is_ready=False)
    return PidFile(pid, lines[4], is_ready=lines[7].strip() == "ready")


def is_postmaster(pid: int, cluster: Path) -> bool:
    """Whether ``pid`` is a PostgreSQL on this cluster, and not whoever has that number today."""
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

    The caller holds the data directory's lock, so that nobody alive is using that server.
    """
    pid_file = read_pid_file(cluster)
    if pid_file is None:
        return
    pid = pid_file.pid
    if is_postmaster(pid, cluster):
        say("Stopping a PostgreSQL that a crash left running")
        stop(pid, cluster, lambda: not is_postmaster(pid, cluster))
    # It may have been killed, even just now while it was being stopped.
    _end_orphans(cluster)
    # PostgreSQL would refuse to start while an unrelated process, or a zombie, has that number.
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def stop(pid: int, cluster: Path, has_ended: Callable[[], bool]) -> None:
    """Ask a server to stop, ever less politely, until it has. Raises EmbeddedError."""
    for wanted, timeout in (
        (signal.SIGINT, _FAST_STOP_TIMEOUT),  # Fast: ends all sessions and writes everything out.
        (signal.SIGQUIT, _IMMEDIATE_STOP_TIMEOUT),  # Immediate: the next start recovers.
        (signal.SIGKILL, _KILL_TIMEOUT),
    ):
        if has_ended():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, wanted)
        if _waited_for(has_ended, timeout):
            if wanted == signal.SIGKILL:
                _end_orphans(cluster)
            return
    raise EmbeddedError(f"PostgreSQL (process {pid}) does not stop")


def _waited_for(has_ended: Callable[[], bool], timeout: float) -> bool:
    until = time.monotonic() + timeout
    while not has_ended():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _end_orphans(cluster: Path) -> None:
    """Kill server processes whose main process is gone.

    Most notice that by themselves, but one that computes may go on for hours, and a new server
    refuses to start meanwhile. Elsewhere than on Linux it is left to them.
    """
    orphans = [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if _is_server_process(process, cluster)
    ]
    for pid in orphans:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _waited_for(
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
        return False  # Gone meanwhile, or not ours to look at.
