"""Lower priority for work that takes long, so that short requests do not wait for a processor.

Where more threads are ready than there are processors, the system gives each an equal share, and a request
of a millisecond waits for those that compute for seconds. Linux has a priority for each thread
(setpriority(2)); a lower one costs nothing while a processor is free. No privilege is needed to lower it.
"""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg

LOWER: Final = 10
"""The niceness of long work: a tenth of the share of a thread at 0, where both are ready."""


def give_way() -> None:
    """Lower the priority of this thread, and of the threads that it starts from now on."""
    if sys.platform == "linux":
        with suppress(OSError):
            _lower(threading.get_native_id())


def let_give_way(connection: psycopg.AsyncConnection[Any]) -> None:
    """Lower the priority of the database process behind a connection, if it runs here and we may."""
    if sys.platform != "linux" or not connection.info.host.startswith("/"):
        return
    pid = connection.info.backend_pid
    with suppress(OSError):
        # In another container the number may be that of a process of ours.
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"postgres: svc_"):
            _lower(pid)


def _lower(thread: int) -> None:
    # A privileged process could raise what is lower already.
    if os.getpriority(os.PRIO_PROCESS, thread) < LOWER:
        os.setpriority(os.PRIO_PROCESS, thread, LOWER)
