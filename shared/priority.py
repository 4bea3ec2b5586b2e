"""Lower priority for work that takes long, so that short requests do not wait for a processor.

Where more threads are ready than there are processors, the system gives each an equal share, and a request
of a millisecond waits for those that compute for seconds. Linux has a priority for each thread
(setpriority(2)); a lower one costs nothing while a processor is free. No privilege is needed to lower it.
"""

import asyncio
import ctypes
import os
import platform
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg

LOWER: Final = 10
"""A tenth of the share of a thread at 0, where both are ready: for work that may wait for long."""
LITTLE_LOWER: Final = 5
"""A third of the share: for long work that ends with an error if it is not done in time.

Other programs of the machine, such as one that converts films, have 0 too. Beside four of them on two
processors, 0.4 s of work took 1.3 s at 0, 3 s at 5, and 9 s at 10; a question has 10 s.
"""
_TURN_NS: Final = 20_000_000
"""How long a process that gives way computes at a time. The default is 1.4 ms on two processors.

Since version 6.12, Linux lets a process that becomes ready interrupt one whose turns are longer. Otherwise
it may wait for the next tick, which comes every 4 ms, each time that a question has arrived. For one batch,
the process of PostgreSQL receives five questions.
"""
_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}
"""The number of the system call; the C library of many systems has no function for it."""
_KEEP_POLICY: Final = 0x08
"""SCHED_FLAG_KEEP_POLICY."""
_SWITCH_INTERVAL_S: Final = 0.000_1
_TRIES: Final = 30
_PAUSE_S: Final = 0.11


def give_way(niceness: int = LOWER) -> None:
    """Lower the priority of this thread, and of the threads that it starts from now on."""
    if sys.platform == "linux":
        with suppress(OSError):
            _lower(threading.get_native_id(), niceness)


def leave_half() -> None:
    """Keep this thread, and those that it starts from now on, on half of the processors.

    The others stay free for what everybody else does. A priority alone does not ensure that: see
    ``_lower_session``.
    """
    if sys.platform == "linux":
        usable = sorted(os.sched_getaffinity(0))
        with suppress(OSError):
            os.sched_setaffinity(0, usable[len(usable) // 2 :])


def let_requests_interrupt_threads() -> None:
    """Have threads that compute give way to the one that answers requests after a tenth of a millisecond.

    By default a thread keeps the interpreter for 5 ms. A request waits for that several times: each time a
    part of it or of the database's answer has arrived.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def let_give_way(connection: psycopg.AsyncConnection[Any], tries: int = _TRIES) -> None:
    """Lower the priority of the database process behind a connection, if it runs here and we may."""
    if sys.platform != "linux" or not connection.info.host.startswith("/") or connection.closed:
        return
    pid = connection.info.backend_pid
    with suppress(OSError):
        # In another container the number may be that of a process of ours.
        if not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"postgres: svc_"):
            return
        _lower(pid, LITTLE_LOWER)
        _lengthen_turns(pid)
        try:
            _lower_session(pid)
        except BlockingIOError:
            # Linux lets those without a privilege do this ten times a second.
            if tries > 1:
                loop = asyncio.get_running_loop()
                loop.call_later(_PAUSE_S, let_give_way, connection, tries - 1)


def _lower(thread: int, niceness: int) -> None:
    # A privileged process could raise what is lower already.
    if os.getpriority(os.PRIO_PROCESS, thread) < niceness:
        os.setpriority(os.PRIO_PROCESS, thread, niceness)


def _lengthen_turns(pid: int) -> None:
    """Set how long a process computes at a time. Does nothing where the system has no such thing."""
    number = _SCHED_SETATTR.get(platform.machine())
    # A program of 32 bits has other numbers, also on a system of 64.
    if number is not None and struct.calcsize("P") == 8:
        niceness = os.getpriority(os.PRIO_PROCESS, pid)
        # struct sched_attr of sched_setattr(2); its sched_runtime is the turn.
        attributes = struct.pack("=IIQiIQQQ", 48, 0, _KEEP_POLICY, niceness, 0, _TURN_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, pid, attributes, 0)


def _lower_session(pid: int) -> None:
    """Lower the priority of the session of a process, if it leads one, as each process of PostgreSQL does.

    Linux may share the processors between sessions first, and only then between the processes of a session
    (autogroup in sched(7)). The priority of a process counts for nothing there if it is alone.
    """
    group = Path(f"/proc/{pid}/autogroup")
    if os.getsid(pid) != pid or not group.exists():
        return
    # Such as "/autogroup-25 nice 0".
    if int(group.read_text().split()[-1]) < LITTLE_LOWER:
        group.write_text(str(LITTLE_LOWER))
