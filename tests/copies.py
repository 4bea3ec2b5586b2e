"""Commands of ``svc`` as copies of a process that has imported its modules, as ``svc up`` starts servers.

Importing takes most of the processor time of a command, and half of what the start of a server takes. A copy
is a process like any other: with an environment, a directory, files, a session and an exit status of its own.
What replaces itself by another program, and what begins worker processes, is started as a process instead.

One such process serves a process of the tests, from the first command on, or all workers of a parallel run.
It ends with the tests, however they end, since that closes its socket.
"""

import array
import atexit
import fcntl
import gc
import importlib
import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

ROOT: Final = Path(__file__).parent.parent
ARE_POSSIBLE: Final = sys.platform == "linux"
"""Elsewhere libraries of the system itself may not survive a copy."""

_SERVERS: Final = (
    *("authserver.app", "resourceserver.app", "resourceserver.worker.process"),
    *("resourceserver.worker.kinds", "uvicorn.lifespan.on", "uvicorn.loops.auto", "encodings.idna"),
)
_NUMBER: Final = struct.Struct("i")
_LONGEST_REQUEST: Final = 2**17


class Copy:
    """A command that runs, with what tests use of a Popen."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        files: tuple[int, int, int],
        pass_fds: Sequence[int] = (),
        change: str = "",
    ) -> None:
        """Start ``svc`` with these words in a session of its own.

        ``files`` are its standard input, output and error. ``change`` is Python that the copy runs before.
        """
        self.returncode: int | None = None
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            socket.send_fds(original(), [b"\0"], [other.fileno()])
        (self.pid,) = _NUMBER.unpack(self._control.recv(_NUMBER.size))
        targets = [0, 1, 2, *pass_fds]
        request = [list(command), dict(env), str(cwd or Path.cwd()), targets, change]
        socket.send_fds(self._control, [json.dumps(request).encode()], [*files, *pass_fds])

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit status. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._control], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("svc", timeout or 0.0)
            (self.returncode,) = _NUMBER.unpack(self._control.recv(_NUMBER.size))
            self._control.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            # It may end now. Its status comes a moment later.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def __del__(self) -> None:
        """Close the socket of a command for whose end nobody has waited."""
        self._control.close()


def run(
    command: Sequence[str], *, env: Mapping[str, str], stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``svc`` with these words, and return its output and exit status."""
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        os.write(files[0], stdin.encode())
        os.lseek(files[0], 0, os.SEEK_SET)
        status = Copy(command, env=env, cwd=cwd, files=(files[0], files[1], files[2])).wait(100)
        out, err = (os.pread(each, os.fstat(each).st_size, 0).decode() for each in files[1:])
    finally:
        for each in files:
            os.close(each)
    return subprocess.CompletedProcess(command, status, out, err)


@cache
def original() -> socket.socket:
    """Start the process that is copied; return the socket that takes a socket for each copy."""
    requests, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with other:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(other.fileno())],
            cwd=ROOT,
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        requests.close()
        process.wait()

    atexit.register(end)
    return requests


def _serve(requests: socket.socket) -> None:
    """Make a copy for each socket that comes, and send the exit status of each copy to its socket."""
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is requests:
                    _, descriptors, _, _ = socket.recv_fds(requests, 1, 1)
                    if not descriptors:
                        return
                    control = socket.socket(fileno=descriptors[0])
                    pid = os.fork()
                    if pid == 0:
                        _run(control)
                    _tell(control, pid)
                    ended = os.pidfd_open(pid)
                    selector.register(ended, selectors.EVENT_READ, (pid, control))
                else:
                    pid, control = key.data
                    _, status = os.waitpid(pid, 0)
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    # What a killed copy has left unread would reset the socket instead of the answer.
                    with suppress(OSError):
                        control.recv(_LONGEST_REQUEST, socket.MSG_DONTWAIT)
                    _tell(control, os.waitstatus_to_exitcode(status))
                    control.close()


def _tell(control: socket.socket, number: int) -> None:
    # A test that has ended does not wait for its command.
    with suppress(OSError):
        control.sendall(_NUMBER.pack(number))


def _run(control: socket.socket) -> NoReturn:
    """Run the command that comes through the socket, and end the copy without ending what it is a copy of."""
    status = 1
    try:
        os.setsid()
        size = array.array("i").itemsize * 64
        text, descriptors, _, _ = socket.recv_fds(control, _LONGEST_REQUEST, size)
        command, variables, directory, targets, change = json.loads(text)
        _keep_open(descriptors, targets)
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(directory)
        sys.argv = ["svc", *command]
        exec(change, {})  # noqa: S102 -- a line of a test
        importlib.import_module("deploy.cli").main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except KeyboardInterrupt:
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)


def _keep_open(descriptors: Sequence[int], targets: Sequence[int]) -> None:
    """Give the descriptors the numbers that they have in the request, and close all others."""
    above = max(*targets, *descriptors) + 1
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in descriptors]
    for each, target in zip(moved, targets, strict=True):
        os.dup2(each, target)
    first = 3
    for kept in (*sorted(target for target in targets if target > 2), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, kept)
        first = kept + 1


def _compile_templates() -> None:
    """Compile the templates of the dashboard, which takes each resource server half a second otherwise.

    A process keeps their code for all of its applications (shared/pages/layout.py), and so do its copies.
    """
    pages = importlib.import_module("resourceserver.dashboard.route")
    views = importlib.import_module("resourceserver.dashboard.views")
    settings = importlib.import_module("shared.settings")
    # The templates need neither a reader of data nor an answer for programs.
    templates = pages.Dashboard(settings.Settings(), None, views.VIEWS, None).templates
    for name in templates.list_templates(extensions=["html"]):
        templates.get_template(name)


def main(descriptor: int) -> None:
    """Import everything, and make copies until the tests end."""
    cli = importlib.import_module("deploy.cli")
    for name in (*(place.partition(":")[0] for place in cli._COMMANDS.values()), *_SERVERS):
        importlib.import_module(name)
    _compile_templates()
    # The start of pytest has done that in the process of the tests.
    importlib.import_module("tests.limits").lengthen()
    # Garbage collection would change every object, and so copy its memory.
    gc.collect()
    gc.freeze()
    # A lock that a thread holds would stay locked in the copy.
    assert threading.active_count() == 1
    with socket.socket(fileno=descriptor) as requests:
        _serve(requests)


if __name__ == "__main__":
    main(int(sys.argv[1]))
