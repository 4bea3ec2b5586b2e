"""Workers of a parallel run, as copies of one process that has imported all tests.

Importing the tests and what they test takes several seconds, and each worker of pytest-xdist would do it for
itself, and compile the same modules again after a change. Here one process collects all tests and is copied
once for each worker, by ``fork``. A copy collects once more, but finds every module imported.

xdist starts a program for each worker, and its standard input and output are the worker's connection. That
program is this file, run by itself: it hands its files to the process that is copied, and ends with the copy.
A copy whose program is killed is killed too. The process that is copied ends with the run, however that ends,
since that closes its standard input.
"""

import gc
import importlib
import json
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NoReturn

_LONGEST_LINE: Final = 2**12


class Original:
    """The process that is copied."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Start it; it collects what the arguments of pytest name."""
        # The process runs what comes through the socket, so no other account may reach its directory.
        self._directory = tempfile.TemporaryDirectory(prefix="svc-test-")
        address = str(Path(self._directory.name) / "socket")
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listener:
            listener.bind(address)
            listener.listen()
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", __file__, str(listener.fileno())),
                    json.dumps([sys.path, [*arguments, "--collect-only", "-n0"]]),
                ],
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
        # Without its site and the environment this Python starts in a third of the time.
        self.program = shlex.join([sys.executable, "-I", "-S", __file__, address])
        """What xdist starts for each worker."""

    def end(self) -> None:
        """End it, and wait for its end."""
        with self._process:
            pass
        self._directory.cleanup()


def _stand_for_a_copy(address: str, line: str) -> None:
    """Have a copy run a line of Python with the files of this process, and wait for its end."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as control:
        control.connect(address)
        socket.send_fds(control, [line.encode()], [0, 1, 2])
        # The other side of a file sees its end when the copy closes it.
        os.close(0)
        os.close(1)
        control.recv(1)


def _serve(listener: socket.socket) -> None:
    """Make a copy for each program that connects, and end each with the other."""
    copies = dict[socket.socket, int]()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            # One event at a time: the end of a copy removes what waits for the end of its program.
            key, _ = selector.select()[0]
            if key.fd == 0:
                return
            if key.fileobj is listener:
                control, _ = listener.accept()
                line, files, _, _ = socket.recv_fds(control, _LONGEST_LINE, 3)
                pid = os.fork()
                if pid == 0:
                    for each in (listener, control, *copies):
                        each.close()
                    selector.close()
                    _run(line.decode(), files)
                for file in files:
                    os.close(file)
                copies[control] = pid
                selector.register(control, selectors.EVENT_READ)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, control)
            elif isinstance(key.fileobj, socket.socket):
                # The program was killed.
                selector.unregister(key.fileobj)
                os.kill(copies[key.fileobj], signal.SIGKILL)
            else:
                selector.unregister(key.fileobj)
                os.close(key.fd)
                with suppress(KeyError):
                    selector.unregister(key.data)
                os.waitpid(copies.pop(key.data), 0)
                key.data.close()


def _run(line: str, files: Sequence[int]) -> NoReturn:
    """Run a line of Python in this copy, with these files as its input, output and errors."""
    status = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.argv = ["-c"]
        exec(line, {"__name__": "__main__"})  # noqa: S102 -- what Python is given to run otherwise
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(status)


def _main(descriptor: int, path: Sequence[str], arguments: Sequence[str]) -> None:
    """Import all tests, and make copies until the run ends."""
    sys.path[:] = path
    # Errors of the collection are reported by the workers.
    importlib.import_module("pytest").main(list(arguments))
    # Otherwise each copy would write the rest of its output.
    sys.stdout.flush()
    # One for all workers, since these are copies of this process.
    copies = importlib.import_module("tests.copies")
    if copies.ARE_POSSIBLE:
        copies.original()
    # What the workers collect again is freed, and the rest left out of all garbage collections, which would
    # copy its memory.
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    # Ctrl-C is for the workers, with which this process ends.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A lock that a thread holds would stay locked in the copy.
    assert threading.active_count() == 1
    with socket.socket(fileno=descriptor) as listener:
        _serve(listener)


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        _main(int(sys.argv[1]), *json.loads(sys.argv[2]))
    else:
        _stand_for_a_copy(sys.argv[1], sys.argv[-1])
