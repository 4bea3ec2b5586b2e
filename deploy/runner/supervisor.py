"""The supervisor: starts both servers and a worker, watches them and PostgreSQL, and stops them in order.

    svc up ─┬─ postgres           only where DATABASE_URL is not set
            ├─ svc auth serve
            ├─ svc resource serve
            └─ svc resource work  unless SVC_JOBS is off

``svc up`` replaces its own image by this module once the database is ready. This process then imports what
the children consist of, and these begin as copies of it (deploy/runner/forking.py), which share that memory.

Each child has its own session, so that Ctrl-C reaches this process alone and it stops them in order. Servers
and worker hold the reading end of a pipe whose writing end only this process has: if it is killed, they
notice and end too. The next start finds and stops a database that was left behind like that.

A server or a worker that ends by itself is started again, after a wait that doubles each time; with its fifth
end in a minute everything ends. A server that ends before its first answer has a wrong setting or no address
to listen on: that ends everything at once, with its last words. So does the end of PostgreSQL. It starts its
own processes again after a crash; when its main process ends, an operator has stopped it, or it has lost its
disk or its data directory, and starting it again could do harm.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import IO, Any, Final

from deploy.postgres.account import EmbeddedError
from deploy.postgres.started import StartedPostgres
from deploy.runner import forking
from deploy.runner.forking import Copy
from deploy.runner.output import say
from deploy.runner.signals import Signals, Stopped
from shared import lifeline, readiness

_ANSWER_TIMEOUT: Final = 60.0


class RunError(Exception):
    """Why the service cannot run, or runs no longer; the message is one line for the operator."""


@dataclass(frozen=True)
class Server:
    """One of the two servers, or the worker: how it is started and where it answers."""

    name: str
    label: str
    """What its lines begin with."""
    command: list[str]
    variables: dict[str, str] = field(repr=False)
    """Its settings as environment variables, which hold the logins of its own roles."""
    url: str = ""
    host: str = ""
    """The Host header of a request to it."""
    addresses: list[tuple[str, int]] = field(default_factory=list)
    """Addresses and ports under which this machine reaches it; none for the worker."""
    probe: str = ""


@dataclass(frozen=True)
class RestartPolicy:
    """How long the supervisor waits, and how many ends of one server it accepts."""

    first_wait_s: float = 0.5
    """A server that ends by itself is started again after this time, then after twice as long."""
    most_ends: int = 5
    most_ends_within_s: float = 60.0
    stop_timeout_s: float = 8.0
    """More than the five seconds in which a server finishes the requests that it is answering."""


@dataclass(frozen=True)
class Plan:
    """All that the supervisor needs to know, as ``svc up`` hands it over."""

    servers: list[Server]
    postgres: StartedPostgres | None
    lifeline: int | None
    notify_socket: str | None
    """The socket of the service manager that started ``svc up``, if one did."""
    welcome: str = field(repr=False)
    """What is printed when both servers answer."""
    restart_policy: RestartPolicy


def _plan(given: dict[str, Any]) -> Plan:
    """Return the plan that ``dataclasses.asdict`` turned into ``given``."""
    postgres = given["postgres"]
    return Plan(
        servers=[Server(**each) for each in given["servers"]],
        postgres=None if postgres is None else StartedPostgres(**postgres),
        lifeline=given["lifeline"],
        notify_socket=given["notify_socket"],
        welcome=given["welcome"],
        restart_policy=RestartPolicy(**given["restart_policy"]),
    )


@dataclass(frozen=True)
class _Child:
    """A server's process, and the last lines it wrote."""

    server: Server
    process: subprocess.Popen[str] | Copy
    output: threading.Thread
    tail: deque[str]


@dataclass
class _Watched:
    """A server's process, which is started again when it ends by itself."""

    child: _Child
    restart_policy: RestartPolicy
    ends: deque[float] = field(default_factory=deque)
    """When processes of this server ended, within the last minute."""
    due: float | None = None
    """When the next process is to be started; None while one runs."""

    def is_due(self) -> bool:
        """Whether a new process is to be started now. Raises RunError with the fifth end in a minute."""
        now = time.monotonic()
        if self.due is None:
            if self.child.process.poll() is None:
                return False
            self.due = now + self._wait(now)
        if now < self.due:
            return False
        self.due = None
        return True

    def _wait(self, now: float) -> float:
        """Note an end, and return how many seconds to wait before the next start."""
        while self.ends and now - self.ends[0] > self.restart_policy.most_ends_within_s:
            self.ends.popleft()
        self.ends.append(now)
        if len(self.ends) == self.restart_policy.most_ends:
            how_often = f", the {self.restart_policy.most_ends}th time within a minute"
            raise RunError(_last_words(self.child, how_often))
        wait = self.restart_policy.first_wait_s * (1 << len(self.ends) - 1)
        say(f"svc: {_how(self.child)}; starting it again in {wait:g} s", is_error=True)
        return wait


def main() -> int:
    """Read the plan from the descriptor that the command line names, and follow it to the end.

    The exit status is 0 when a signal asked for the end and 1 when something failed, which one line says.
    """
    signals = Signals()
    ends = os.pipe()
    # Before the plan, whose secrets are no server's to know, and before any thread.
    copies = [Copy(ends[0]) for _ in range(int(sys.argv[2]))] if forking.prepare() else []
    with os.fdopen(int(sys.argv[1]), encoding="utf-8") as file:
        plan = _plan(json.load(file))
    if plan.lifeline is not None:
        lifeline.watch(plan.lifeline)
    try:
        with ExitStack() as running:
            _run(plan, ends, copies, signals, running)
    except Stopped:
        say("Stopped")
        return 0
    except (RunError, EmbeddedError) as error:
        say(f"svc: {error}", is_error=True)
    return 1


def _run(
    plan: Plan, ends: tuple[int, int], copies: list[Copy], signals: Signals, running: ExitStack
) -> None:
    """Start servers and worker and watch over everything, leaving its end to ``running``; never returns.

    ``ends`` are those of the children's lifeline. ``copies`` are there for the servers, or are none.
    """
    postgres = plan.postgres
    if postgres is not None:
        running.callback(postgres.stop)
    reading_end, writing_end = ends
    running.callback(os.close, writing_end)
    running.callback(os.close, reading_end)
    watched: list[_Watched] = []
    running.callback(_stop, watched, plan.restart_policy.stop_timeout_s)
    running.callback(readiness.send, plan.notify_socket, readiness.STOPPING)
    for server, copy in zip_longest(plan.servers, copies):
        signals.check()
        say(f"Starting the {server.name}")
        watched.append(_Watched(_start(server, reading_end, copy), plan.restart_policy))
    for each in watched:
        if each.child.server.addresses:
            _await_answer(each.child, signals)
    readiness.send(plan.notify_socket, readiness.READY)
    say(plan.welcome)
    while True:
        for each in watched:
            if each.is_due():
                each.child = _start(each.child.server, reading_end)
        if postgres is not None and postgres.poll() is not None:
            raise RunError(f"PostgreSQL has ended by itself; see {postgres.cluster / 'log'}")
        signals.pause(0.2)


def _start(server: Server, reading_end: int, copy: Copy | None = None) -> _Child:
    process = _new_process(server, reading_end) if copy is None else copy
    if copy is not None:
        copy.begin(server.command, server.variables | {"SVC_LIFELINE": str(reading_end)})
    tail: deque[str] = deque(maxlen=10)
    output = threading.Thread(
        target=_pass_on, args=(process.stdout, server.label, tail), daemon=True
    )
    output.start()
    return _Child(server, process, output, tail)


def _new_process(server: Server, reading_end: int) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 (the command is our own)
        [sys.executable, "-P", "-m", "deploy.cli", *server.command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | server.variables | {"SVC_LIFELINE": str(reading_end)},
        pass_fds=(reading_end,),
        start_new_session=True,
    )


def _pass_on(output: IO[str], label: str, tail: deque[str]) -> None:
    """Write a server's lines to standard error, each behind the server's label."""
    for line in output:
        tail.append(line.rstrip("\n"))
        say(f"{label}{line.rstrip()}", is_error=True)


def _await_answer(child: _Child, signals: Signals) -> None:
    """Wait until the server answers. Raises RunError when it ends, or not within a minute."""
    until = time.monotonic() + _ANSWER_TIMEOUT
    server = child.server
    while not readiness.answers(server.addresses, server.probe, server.host):
        if child.process.poll() is not None:
            raise RunError(_last_words(child))
        if time.monotonic() > until:
            raise RunError(f"the {server.name} does not answer at {server.url}")
        signals.pause(0.05)


def _how(child: _Child) -> str:
    """Return how a server ended that has ended."""
    status = child.process.wait()
    how = f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    return f"the {child.server.name} has ended by itself with {how}"


def _last_words(child: _Child, how_often: str = "") -> str:
    """Return how a server ended, and the last lines that it wrote."""
    child.output.join(timeout=1)
    last_lines = f": {' | '.join(child.tail)}" if child.tail else ""
    return f"{_how(child)}{how_often}{last_lines}"


def _stop(watched: list[_Watched], timeout_s: float) -> None:
    """End servers and worker, politely for a bounded time, and wait until they are gone."""
    children = [each.child for each in watched]
    if any(child.process.poll() is None for child in children):
        say("Stopping")
    for child in children:
        child.process.terminate()
    until = time.monotonic() + timeout_s
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=max(0.0, until - time.monotonic()))
        if child.process.poll() is None:
            os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()
        child.output.join(timeout=1)


if __name__ == "__main__":
    sys.exit(main())
