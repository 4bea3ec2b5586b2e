"""A ``svc up`` to look at from outside, and what is looked at: its output, ports and processes."""

import http.client
import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.waiting import wait_for


@dataclass(frozen=True)
class Login:
    """Somebody who runs ``svc``: another user than the tests', or with None the same."""

    command: tuple[str, ...]
    variables: dict[str, str] = field(repr=False)
    uid: int | None = None
    gid: int | None = None

    def run(
        self, variables: dict[str, str], *words: str, stdin: str = "", cwd: Path = Path("/")
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of ``svc`` to its end, with these settings."""
        return subprocess.run(
            [*self.command, *words],
            env=self.variables | variables,
            input=stdin,
            capture_output=True,
            check=False,
            cwd=cwd,
            user=self.uid,
            group=self.gid,
            extra_groups=None if self.uid is None else [],
            text=True,
        )


# Everything that these tests start has this environment, and what a test adds to it. A variable of the
# developer's could change what is tested; and Python's bytecode, where it may be kept, is kept.
ENVIRONMENT: Final = {
    name: os.environ[name]
    for name in ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR")
    if name in os.environ
} | {"SVC_JOBS": "off"}

SELF = Login((sys.executable, "-P", "-m", "deploy.cli"), ENVIRONMENT)


class Runner:
    """A ``svc up`` with ports of its own."""

    def __init__(
        self, parent: Path, variables: dict[str, str], *, login: Login = SELF, cwd: Path = Path("/")
    ) -> None:
        """Start it; its output goes to files in ``parent``."""
        self.login = login
        self.cwd = cwd
        self.variables = variables
        self.out = parent / "out"
        self.err = parent / "err"
        # However the tests end, this pipe is closed then, which ends the runner and all it started.
        lifeline, held_end = os.pipe()
        self.lifeline: int | None = held_end
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [*login.command, "up"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=login.variables | variables | {"SVC_LIFELINE": str(lifeline)},
                pass_fds=[lifeline],
                user=login.uid,
                group=login.gid,
                extra_groups=None if login.uid is None else [],
                start_new_session=True,
            )
        os.close(lifeline)

    def __enter__(self) -> Self:
        """Leave the end to the end of the block."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Stop it if it still runs."""
        try:
            if self.process.poll() is None:
                self.stop()
        finally:
            self.let_go()
            if self.process.poll() is None:
                # It hangs, which has failed the test. Its servers end with it.
                self.process.kill()
                self.process.wait()

    def let_go(self) -> None:
        """Close the lifeline, as the end of this process would."""
        lifeline, self.lifeline = self.lifeline, None
        if lifeline is not None:
            os.close(lifeline)

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run another command of ``svc`` with the same settings, at the same place."""
        return self.login.run(self.variables, *words, stdin=stdin, cwd=self.cwd)

    def wait_for(self, text: str) -> None:
        """Wait until ``text`` has been printed."""
        wait_for(lambda: text in self.out.read_text() or self.process.poll() is not None, text)
        assert text in self.out.read_text(), self.err.read_text()

    def wait_for_error(self, text: str) -> None:
        """Wait until ``text`` is among the messages and the servers' logs."""
        wait_for(lambda: text in self.err.read_text() or self.process.poll() is not None, text)
        assert text in self.err.read_text(), self.out.read_text()

    def wait_until_up(self) -> None:
        """Wait until both servers answer and everything has been said."""
        self.wait_for("Ctrl-C stops everything")

    def wait(self) -> int:
        """Return its exit status, which comes within a bounded time."""
        return self.process.wait(timeout=60)

    def stop(self) -> int:
        """Ask for the end, and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def child(self, words: str) -> int:
        """Return the id of the one child that has ``words`` in its command."""
        (pid,) = [pid for pid, command in self.children() if words in command]
        return pid

    def children(self) -> list[tuple[int, str]]:
        """Return its direct children: ids and command lines."""
        if sys.platform != "linux":
            listed = ps("-A", "-o", "ppid=,pid=,command=")
            rows = [line.split(None, 2) for line in listed.splitlines()]
            return [(int(pid), rest) for ppid, pid, rest in rows if int(ppid) == self.process.pid]
        pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        parent = str(self.process.pid)
        return [
            (pid, kernel_file(pid, "cmdline").replace("\0", " "))
            for pid in pids
            if fields(pid).get("PPid") == parent
        ]


def owner(pid: int) -> int:
    """Return as which user a process runs."""
    if sys.platform != "linux":
        return int(ps("-o", "uid=", "-p", str(pid)))
    return int(fields(pid)["Uid"].split()[1])


def fields(pid: int) -> dict[str, str]:
    """Return what Linux says of a process, by name; nothing where there is none."""
    lines = kernel_file(pid, "status").splitlines()
    return {name: said.strip() for name, _, said in (line.partition(":") for line in lines)}


def kernel_file(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:  # Gone meanwhile.
        return ""


def ps(*options: str) -> str:
    """Return what ps says: elsewhere than on Linux, where small systems lack it."""
    command = ["ps", "-ww", *options]
    return subprocess.run(command, capture_output=True, check=False, text=True).stdout


def addresses(ports: tuple[int, int]) -> dict[str, str]:
    """Return the settings that put both servers on these ports."""
    return {
        "SVC_AUTH_URL": f"http://localhost:{ports[0]}",
        "SVC_BASE_URL": f"http://localhost:{ports[1]}",
    }


def get(host: str, port: int, path: str) -> tuple[int, bytes]:
    """Return status and body of an answer."""
    with closing(http.client.HTTPConnection(host, port, timeout=5)) as connection:
        connection.request("GET", path, headers={"Host": f"localhost:{port}"})
        response = connection.getresponse()
        return response.status, response.read()


def wait_until_gone(*pids: int) -> None:
    """Wait until there are no such processes, or only zombies that nobody has asked after."""
    wait_for(lambda: all(_state(pid) in ("", "Z") for pid in pids), f"the end of {pids}")


def _state(pid: int) -> str:
    if sys.platform != "linux":
        return ps("-o", "stat=", "-p", str(pid))[:1]
    return fields(pid).get("State", "")[:1]
