"""A ``svc up`` as a process, with its output, ports and child processes."""

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from tests import copies
from tests.waiting import wait_for


@dataclass(frozen=True)
class Login:
    """A user who runs ``svc``: another user of the machine, or with None the user of the tests."""

    command: tuple[str, ...]
    variables: dict[str, str] = field(repr=False)
    uid: int | None = None
    gid: int | None = None
    change: str = ""
    """Python that changes the program before ``svc up`` starts."""

    @property
    def has_copies(self) -> bool:
        """Whether copies of a process (tests/copies.py) can stand for the processes of this user."""
        return copies.ARE_POSSIBLE and replace(self, change="") == SELF

    @property
    def changed_command(self) -> tuple[str, ...]:
        """The command of a changed program, where it is no copy."""
        if not self.change:
            return self.command
        return (self.command[0], "-P", "-c", f"{self.change}\nfrom deploy import cli\ncli.main()")

    def run(
        self, variables: dict[str, str], *words: str, stdin: str = "", cwd: Path = Path("/")
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of ``svc`` with these settings, and wait for its end; it is not changed."""
        if self.has_copies:
            return copies.run(words, env=self.variables | variables, stdin=stdin, cwd=cwd)
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


# The environment of all programs that these tests start, without variables of the developer, which could
# change the results. Python may keep bytecode.
ENVIRONMENT: Final = {
    name: os.environ[name]
    for name in ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR")
    if name in os.environ
} | {"SVC_JOBS": "off"}

SELF: Final = Login((sys.executable, "-P", "-m", "deploy.cli"), ENVIRONMENT)


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
        # The end of the tests, however it comes, closes this pipe. That ends the runner and its children.
        lifeline, held_end = os.pipe()
        self.lifeline: int | None = held_end
        self.process = self._started(lifeline)
        os.close(lifeline)

    def _started(self, lifeline: int) -> "subprocess.Popen[bytes] | copies.Copy":
        environment = self.login.variables | self.variables | {"SVC_LIFELINE": str(lifeline)}
        with (
            Path(os.devnull).open("rb") as nothing,
            self.out.open("wb") as out,
            self.err.open("wb") as err,
        ):
            if self.login.has_copies:
                # What it starts replaces the copy, and is a process with its own memory and variables.
                files = (nothing.fileno(), out.fileno(), err.fileno())
                return copies.Copy(
                    ["up"],
                    env=environment,
                    cwd=self.cwd,
                    files=files,
                    pass_fds=[lifeline],
                    change=self.login.change,
                )
            return subprocess.Popen(
                [*self.login.changed_command, "up"],
                stdin=nothing,
                stdout=out,
                stderr=err,
                cwd=self.cwd,
                env=environment,
                pass_fds=[lifeline],
                user=self.login.uid,
                group=self.login.gid,
                extra_groups=None if self.login.uid is None else [],
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        """Return the runner, which the end of the block stops."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Stop it if it still runs."""
        try:
            if self.process.poll() is None:
                self.stop()
        finally:
            self.let_go()
            if self.process.poll() is None:
                # It hangs, so the test has failed. Its servers end with it.
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()

    def let_go(self) -> None:
        """Close the lifeline, as the end of this process would."""
        lifeline, self.lifeline = self.lifeline, None
        if lifeline is not None:
            os.close(lifeline)

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run another command of ``svc`` with the same settings, in the same directory."""
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
        """Wait until both servers answer and the welcome has been printed."""
        self.wait_for("Ctrl-C stops everything")

    def wait(self) -> int:
        """Wait for its end, for a bounded time, and return its exit status."""
        return self.process.wait(timeout=60)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status."""
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
    """Return the id of the user that runs a process."""
    if sys.platform != "linux":
        return int(ps("-o", "uid=", "-p", str(pid)))
    return int(fields(pid)["Uid"].split()[1])


def fields(pid: int) -> dict[str, str]:
    """Return the fields of a process's status on Linux; none if the process does not exist."""
    lines = kernel_file(pid, "status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def memory(pid: int) -> bytes:
    """Return what a process on Linux has written into its own memory, environment and all."""
    pieces = []
    with Path(f"/proc/{pid}/mem").open("rb") as contents:
        for line in kernel_file(pid, "maps").splitlines():
            span, rights = line.split()[:2]
            if rights == "rw-p":
                start, end = (int(edge, 16) for edge in span.split("-"))
                contents.seek(start)
                pieces.append(contents.read(end - start))
    return b"".join(pieces)


def kernel_file(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:  # Gone meanwhile.
        return ""


def ps(*options: str) -> str:
    """Return the output of ps; not used on Linux, where small systems lack it."""
    command = ["ps", "-ww", *options]
    return subprocess.run(command, capture_output=True, check=False, text=True).stdout


def addresses(ports: Sequence[int]) -> dict[str, str]:
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
    """Wait until these processes have ended; a zombie that nobody has waited for counts as ended."""
    wait_for(lambda: all(_state(pid) in ("", "Z") for pid in pids), f"the end of {pids}")


def _state(pid: int) -> str:
    if sys.platform != "linux":
        return ps("-o", "stat=", "-p", str(pid))[:1]
    return fields(pid).get("State", "")[:1]
