"""Removes a directory, and ends the databases in it, once the process that created it has ended.

That process holds the other end of this one's standard input. A worker of a test run that is killed cannot
clean up.
"""

import fcntl
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path


def end_left_databases(place: Path) -> bool:
    """End each database whose starter has ended; return whether one still runs."""
    is_any = False
    for pid_file in place.rglob("postmaster.pid"):
        with (
            suppress(OSError, ValueError),
            (pid_file.parent.parent / "postgres.lock").open() as lock,
        ):
            pid = int(pid_file.read_text().split("\n")[0])
            os.kill(pid, 0)
            is_any = True
            # A `svc up` that still runs holds the lock, and ends its database by itself.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.kill(pid, signal.SIGQUIT)
    return is_any


if __name__ == "__main__":
    sys.stdin.read()
    directory = Path(sys.argv[1])
    until = time.monotonic() + 30
    while end_left_databases(directory) and time.monotonic() < until:
        time.sleep(0.05)
    shutil.rmtree(directory, ignore_errors=True)
