"""The local runner, ``svc up``: database, migrations and both servers, until it is told to stop.

    svc up ─┬─ postgres           only where DATABASE_URL is not set
            ├─ svc auth serve
            └─ svc resource serve

The children are sessions of their own, so that Ctrl-C reaches this process alone and it stops them
in order. Both servers hold the reading end of a pipe whose other end nobody but this process has:
should it be killed, they notice and end too. A database left behind like that is found and stopped
by the next start.

A server that ends by itself is started again, after a wait that doubles each time; with the fifth end in
a minute everything ends. One that ends before it has answered for the first time has a wrong setting or no
address to listen on: that ends everything at once, with its last words. So does the end of PostgreSQL. It
starts its own processes again after a crash; when its main process ends, somebody has stopped it, or it
has lost its disk or its data directory, and starting it again could do harm.

Signals only leave a note, which is read wherever this process waits. An exception thrown in the
middle of starting a child could lose track of it.
"""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import IO, Final
from urllib.parse import urlsplit

import click
import psycopg

from authserver.people import first_account
from deploy.migrate import MigrationError, migrate
from deploy.postgres.embedded import EmbeddedError, EmbeddedPostgres, make_data_dir
from shared import database, lifeline, listening, settings
from shared.listening import AddressError, Listen
from shared.settings import Settings, SettingsError

_ANSWER_TIMEOUT: Final = 60.0
# A server gives the requests that it is answering five seconds to finish.
_STOP_TIMEOUT: Final = 8.0
# A server that ends by itself is started again after this many seconds, then after twice as many.
_FIRST_WAIT: Final = 0.5
_MOST_ENDS: Final = 5
_RESTARTS_WITHIN: Final = 60.0
# What could log in as somebody stronger than a server's own roles.
_OWNERS_VARIABLES: Final = ("DATABASE_URL", "DATABASE_URL_FILE", "PGPASSWORD", "PGPASSFILE")


class UpError(Exception):
    """Why the service cannot run, or runs no longer; the message is one line for the operator."""


class _Stopped(KeyboardInterrupt):
    """Somebody asked for the end. psycopg cancels what it waits for on exceptions of this kind."""


@dataclass(frozen=True)
class _Server:
    """One of the two servers: how it is started, where it answers and as whom it logs in."""

    name: str
    command: str
    url: str
    listen: Listen
    probe: str
    roles: tuple[str, ...]


@dataclass(frozen=True)
class _Child:
    """A server's process, and the last lines it wrote."""

    server: _Server
    process: subprocess.Popen[str]
    output: threading.Thread
    tail: deque[str]


@dataclass
class _Watched:
    """A server's process, which is started again when it ends by itself."""

    child: _Child
    ends: deque[float] = field(default_factory=deque)
    """When processes of this server ended, within the last minute."""
    due: float | None = None
    """When the next one is to be started; None while one runs."""

    def is_due(self) -> bool:
        """Whether a new process is to be started now. Raises UpError with the fifth end in a minute."""
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
        while self.ends and now - self.ends[0] > _RESTARTS_WITHIN:
            self.ends.popleft()
        self.ends.append(now)
        if len(self.ends) == _MOST_ENDS:
            raise UpError(_last_words(self.child, f", the {_MOST_ENDS}th time within a minute"))
        wait = _FIRST_WAIT * (1 << len(self.ends) - 1)
        _say(f"svc: {_how(self.child)}; starting it again in {wait:g} s", is_error=True)
        return wait


@dataclass
class _Signals:
    """Whether a signal has asked for the end. Further ones change nothing."""

    has_asked: bool = False
    is_urgent: bool = field(default=False, repr=False)

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Take note of a signal (its handler)."""
        self.has_asked = True
        self._end_urgently()

    def pause(self, seconds: float) -> None:
        """Wait, unless the end has been asked for: then raise ``_Stopped``."""
        if not self.has_asked:
            time.sleep(seconds)
        if self.has_asked:
            raise _Stopped

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Let a signal end what may wait for long and starts no process of its own."""
        self.is_urgent = True
        try:
            if self.has_asked:
                self._end_urgently()
            yield
        finally:
            self.is_urgent = False

    def _end_urgently(self) -> None:
        if self.is_urgent:
            self.is_urgent = False
            raise _Stopped


def run(chosen: Settings) -> int:
    """Run everything until a signal or a failure ends it, and return the exit status.

    It is 0 when somebody asked for the end and 1 when something failed, which one line says.
    """
    _say(f"Data directory: {chosen.data_dir}")
    signals = _watch_signals()
    if chosen.lifeline is not None:
        lifeline.watch(chosen.lifeline)
    try:
        with ExitStack() as running:
            _run(chosen, signals, running)
    except _Stopped:
        _say("Stopped")
        return 0
    except (UpError, AddressError, EmbeddedError, MigrationError, SettingsError) as error:
        _say(f"svc: {error}", is_error=True)
    return 1


def _run(chosen: Settings, signals: _Signals, running: ExitStack) -> None:
    """Start everything, leaving its end to ``running``, and watch over it; never returns."""
    servers = _servers(chosen)
    _check_addresses(servers)
    make_data_dir(chosen.data_dir)
    postgres = None
    url, name = chosen.database_url, "DATABASE_URL"
    if url is None:
        _check_roles(chosen)
        postgres = EmbeddedPostgres(chosen.data_dir, say=_say, pause=signals.pause)
        running.callback(postgres.stop)
        postgres.start()
        url, name = postgres.url, "the embedded PostgreSQL"
        chosen = replace(chosen, database_url=url)
    with signals.urgent():
        _check_database(url, name)
        migrate(chosen, _say)
    _warn_of_shortages(chosen, servers)
    reading_end, writing_end = os.pipe()
    running.callback(os.close, writing_end)
    running.callback(os.close, reading_end)
    watched: list[_Watched] = []
    running.callback(_stop, watched)
    for server in servers:
        _say(f"Starting the {server.name}")
        watched.append(_Watched(_start(server, chosen, reading_end)))
    for each in watched:
        _await_answer(each.child, signals)
    _say(_welcome(chosen))
    while True:
        for each in watched:
            if each.is_due():
                each.child = _start(each.child.server, chosen, reading_end)
        if postgres is not None and postgres.poll() is not None:
            raise UpError(f"PostgreSQL has ended by itself; see {postgres.log_dir}")
        signals.pause(0.2)


def _watch_signals() -> _Signals:
    signals = _Signals()
    signal.signal(signal.SIGINT, signals.note)
    signal.signal(signal.SIGTERM, signals.note)
    # Under nohup the end of the terminal is to be ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signals.note)
    return signals


def _say(line: str, *, is_error: bool = False) -> None:
    try:
        click.echo(line, err=is_error)
    except OSError:
        # A reader that has gone, as in `svc up | head`, is no reason to end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2 if is_error else 1)
        os.close(nowhere)


def _servers(chosen: Settings) -> tuple[_Server, _Server]:
    return (
        _Server(
            name="authorization server",
            command="auth",
            url=chosen.auth_url,
            listen=chosen.auth_listeners,
            probe="/.well-known/oauth-authorization-server",
            roles=("authserver",),
        ),
        _Server(
            name="resource server",
            command="resource",
            url=chosen.base_url,
            listen=chosen.base_listeners,
            probe="/healthz",
            roles=("reader", "ingester", "worker"),
        ),
    )


# What can be known to fail before anything is started


def _check_addresses(servers: tuple[_Server, _Server]) -> None:
    """Raise AddressError or UpError where a server could not listen."""
    first, second = (server.listen for server in servers)
    both = first.overlap(second)
    if both is not None:
        raise UpError(
            f"{first.source} and {second.source} both say to listen on {both}: each server needs an "
            "address of its own, which SVC_AUTH_LISTEN and SVC_BASE_LISTEN can name"
        )
    for listen in (first, second):
        for listener in listening.bind(listen):
            listener.close()


def _check_roles(chosen: Settings) -> None:
    if chosen.role_urls:
        raise UpError(
            f"SVC_{next(iter(chosen.role_urls)).upper()}_DATABASE_URL is set and DATABASE_URL is "
            "not: which server is to be used?"
        )


def _check_database(url: str, name: str) -> None:
    """Raise UpError where the database does not let us in; ``name`` says which one it is."""
    timeout = psycopg.conninfo.conninfo_to_dict(url).get("connect_timeout", 5)
    try:
        psycopg.connect(url, connect_timeout=timeout).close()
    except psycopg.Error as error:
        raise UpError(f"{name} cannot be reached: {_one_line(error)}") from error


def _warn_of_shortages(chosen: Settings, servers: tuple[_Server, _Server]) -> None:
    """Say where the database takes fewer connections than both servers together may open."""
    roles = [role for server in servers for role in server.roles]
    role_urls = {role: database.role_url(chosen, role) for role in roles}
    for line in database.connection_shortages(role_urls, chosen.connections):
        _say(f"svc: {line}", is_error=True)


def _welcome(chosen: Settings) -> str:
    """Return where everything is, and how to begin."""
    try:
        link = first_account.link(chosen)
    except psycopg.Error as error:
        raise UpError(f"the first account's link cannot be made: {_one_line(error)}") from error
    if link is None:
        beginning = f"Sign in at {chosen.auth_url}"
    else:
        beginning = f"Make the first account with this link, which works once:\n    {link}"
    return f"""
Authorization server   {chosen.auth_url}
Resource server        {chosen.base_url}

{beginning}

Try it:
    curl {chosen.base_url}/healthz

Ctrl-C stops everything, and the data is kept.
"""


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# The two servers


def _start(server: _Server, chosen: Settings, reading_end: int) -> _Child:
    role_urls = {role: database.role_url(chosen, role) for role in server.roles}
    cookie_key = chosen.cookie_key if server.command == "auth" else None
    own = settings.environment(
        replace(chosen, lifeline=reading_end, cookie_key=cookie_key), role_urls
    )
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SVC_") and name not in _OWNERS_VARIABLES
    }
    process = subprocess.Popen(  # noqa: S603 (the command is our own)
        [sys.executable, "-P", "-m", "deploy.cli", server.command, "serve"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=inherited | own,
        pass_fds=(reading_end,),
        start_new_session=True,
    )
    tail: deque[str] = deque(maxlen=10)
    output = threading.Thread(
        target=_pass_on, args=(process.stdout, server.command, tail), daemon=True
    )
    output.start()
    return _Child(server, process, output, tail)


def _pass_on(output: IO[str], command: str, tail: deque[str]) -> None:
    """Write a server's lines to our standard error, each with the server's name."""
    for line in output:
        tail.append(line.rstrip("\n"))
        _say(f"{command}: {line.rstrip()}", is_error=True)


def _await_answer(child: _Child, signals: _Signals) -> None:
    """Wait until the server answers. Raises UpError when it ends, or not within a minute."""
    until = time.monotonic() + _ANSWER_TIMEOUT
    while not _answers(child.server):
        _check_child(child)
        if time.monotonic() > until:
            raise UpError(f"the {child.server.name} does not answer at {child.server.url}")
        signals.pause(0.05)


def _answers(server: _Server) -> bool:
    # The name in the public address need not stand for this machine.
    for address in server.listen.addresses:
        for host in address.reachable_hosts:
            connection = http.client.HTTPConnection(host, address.port, timeout=2)
            with closing(connection), suppress(OSError, http.client.HTTPException):
                headers = {"Host": urlsplit(server.url).netloc}
                connection.request("GET", server.probe, headers=headers)
                return connection.getresponse().status == 200
    return False


def _check_child(child: _Child) -> None:
    """Raise UpError when a server has ended."""
    if child.process.poll() is not None:
        raise UpError(_last_words(child))


def _how(child: _Child) -> str:
    """Return how a server ended that has ended."""
    status = child.process.returncode
    how = f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    return f"the {child.server.name} has ended by itself with {how}"


def _last_words(child: _Child, how_often: str = "") -> str:
    """Return how a server ended, and the last lines that it wrote."""
    child.output.join(timeout=1)
    said = f": {' | '.join(child.tail)}" if child.tail else ""
    return f"{_how(child)}{how_often}{said}"


def _stop(watched: list[_Watched]) -> None:
    """End both servers, politely for a bounded time, and wait until they are gone."""
    children = [each.child for each in watched]
    if any(child.process.poll() is None for child in children):
        _say("Stopping")
    for child in children:
        child.process.terminate()
    until = time.monotonic() + _STOP_TIMEOUT
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=max(0.0, until - time.monotonic()))
        if child.process.poll() is None:
            os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()
        child.output.join(timeout=1)
