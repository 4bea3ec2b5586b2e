"""Children that begin as copies of the supervisor, and share with it the memory of all that it has imported.

Both servers and the worker consist mostly of the same modules, which take 50 MiB of each process that imports
them itself. A copy takes memory only for what it changes. Garbage collection would change every object, so
what has been imported is left out of it for good.

Only a process without threads may be copied, since a lock that a thread holds stays locked in the copy. So
the first children are copies, made before any thread; a server that ended by itself is started anew.

Copies are also made before the supervisor reads its plan, which has the secrets of all of them: each copy
receives its own settings alone, through a pipe.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

_MODULES: Final = (
    *("deploy.cli", "authserver.cli.server", "authserver.app"),
    *("resourceserver.server_command", "resourceserver.app"),
    *("resourceserver.worker.process", "resourceserver.worker.kinds"),
    *("uvicorn.lifespan.on", "uvicorn.loops.auto", "encodings.idna"),
)
"""By name: they are commands of other packages, which ``svc`` imports by name too."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PAUSE_S: Final = 0.02


def prepare() -> bool:
    """Import what the children need; return whether this process can be copied."""
    if sys.platform != "linux":
        # Elsewhere libraries of the system itself may not survive a copy.
        return False
    try:
        for name in _MODULES:
            importlib.import_module(name)
    except Exception:
        # PostgreSQL runs already and has to be stopped in order. The child that needs the module says what is
        # wrong with it.
        return False
    gc.collect()
    gc.freeze()
    return threading.active_count() == 1


class Copy:
    """A copy of this process that runs a command of ``svc``, with what the supervisor uses of a Popen."""

    def __init__(self, descriptor: int) -> None:
        """Make the copy, which waits for its command. It keeps ``descriptor`` open."""
        output, writing_end = os.pipe()
        order, self._order = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _run(order, writing_end, descriptor)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        os.close(order)
        os.close(writing_end)
        self.stdout = os.fdopen(output, encoding="utf-8", errors="replace")
        self.returncode: int | None = None

    def begin(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Have it run ``command`` with these environment variables besides the inherited ones."""
        # A copy that has ended meanwhile is seen by ``poll``.
        with suppress(BrokenPipeError), os.fdopen(self._order, "w", encoding="utf-8") as order:
            json.dump([command, variables], order)

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit status. Raises subprocess.TimeoutExpired."""
        until = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() >= until:
                raise subprocess.TimeoutExpired("svc", timeout or 0.0)
            # The system has no wait for a process that ends after a time.
            time.sleep(_PAUSE_S)
        return status

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


def _run(order: int, output: int, descriptor: int) -> NoReturn:
    """Run a command of ``svc`` in the copy, and end it without what the supervisor does at its own end."""
    status = 1
    try:
        os.setsid()
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _keep_open(output, order, descriptor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        with os.fdopen(order, encoding="utf-8") as given:
            text = given.read()
        if text:
            _follow(*json.loads(text))
        # Else the supervisor has ended before it had a command.
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def _follow(command: list[str], variables: dict[str, str]) -> None:
    os.environ.update(variables)
    sys.argv = ["svc", *command]
    # A system without /proc only shows another name.
    with suppress(OSError):
        _rename(command)
    importlib.import_module("deploy.cli").main()


def _keep_open(output: int, *others: int) -> None:
    """Close everything but standard input and output, which become nothing and ``output``, and ``others``.

    Among the rest are the other end of the lifeline, which would keep all children alive, and the plan.
    """
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    first = 3
    for kept in (*sorted(others), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, kept)
        first = kept + 1


def _rename(command: Sequence[str]) -> None:
    """Write the command where the kernel has the arguments of this process, for lists of processes."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    words = ("svc", *command)
    arguments = "".join(f"{word}\0" for word in words).encode()
    if start and len(arguments) <= end - start:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, arguments, len(arguments))
