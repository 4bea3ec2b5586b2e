"""The embedded PostgreSQL: a private server, run as a child of the process that starts it.

The data directory contains

    postgres/              the cluster, with the server's logs in postgres/log
    postgresql-<version>/  a copy of the binaries, only when root starts the server
    socket/                the Unix socket; below /tmp if its path would be too long
    pg_hba.conf, pg_ident.conf, postgres.lock, postgres.start.log

The server listens on no network. Only the account that runs it can connect as superuser, and root
if root started it; the kernel identifies them (``peer``), without a password. Every other role
needs its password.

The starter holds a lock as long as it lives. It distinguishes a server in use, whose directory is refused
with a clear error, from one that a crash left behind, which is stopped.
"""

import errno
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self
from urllib.parse import quote

import psycopg

from deploy.postgres import cluster, postmaster
from deploy.postgres.account import (
    Account,
    EmbeddedError,
    own_account,
    run,
    run_checked,
    server_account,
    spawn,
)
from deploy.postgres.binaries import binaries, copied_binaries
from deploy.postgres.cluster import DATABASE, PORT, SUPERUSER
from deploy.postgres.started import StartedPostgres, remove_socket_dir

__all__ = [
    "DATABASE",
    "SUPERUSER",
    "EmbeddedError",
    "EmbeddedPostgres",
    "binaries",
    "libpq_environment",
    "make_data_dir",
    "running_url",
]

_START_TIMEOUT: Final = 120.0


def _say_nothing(_: str) -> None:
    """Ignore a line of progress."""


class EmbeddedPostgres:
    """A PostgreSQL server in ``data_dir``, running between ``start`` and ``stop``.

    ``settings`` are further server settings by name.
    ``say`` is called with a line of progress when a step takes time.
    ``pause`` is called to wait some seconds; an exception from it ends the start and the server.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, str] | None = None,
        say: Callable[[str], None] = _say_nothing,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Store the parameters; ``start`` does the work."""
        self.data_dir = Path(os.path.realpath(data_dir))
        self.cluster = self.data_dir / "postgres"
        self._settings = dict(settings or {})
        self._say = say
        self._pause = pause
        self._lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_dir: Path | None = None

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()

    @property
    def url(self) -> str:
        """The connection string of the superuser for the database ``svc``."""
        if self._socket_dir is None:
            raise EmbeddedError("the embedded PostgreSQL is not running")
        return _url(self._socket_dir)

    @property
    def log_dir(self) -> Path:
        """The directory of the server's logs: one file for each weekday, emptied a week later."""
        return self.cluster / "log"

    def poll(self) -> int | None:
        """Return the exit status of a server that has ended by itself, None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the server and wait until it accepts connections.

        The first start in a data directory creates the cluster and the database. Raises
        EmbeddedError. After any exception no server runs.
        """
        if self._process is not None:
            raise EmbeddedError("the embedded PostgreSQL is running already")
        try:
            self._start()
        except OSError as error:
            self.stop()
            raise EmbeddedError(
                f"data directory {self.data_dir} cannot be used: {_reason(error)}"
            ) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server, within a bounded time. Does nothing where none is running."""
        process, self._process = self._process, None
        try:
            if process is not None:
                postmaster.stop(process.pid, self.cluster, lambda: process.poll() is not None)
        finally:
            if self._socket_dir is not None:
                remove_socket_dir(self._socket_dir, self.data_dir)
            self._socket_dir = None
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def hand_over(self) -> StartedPostgres:
        """Return the running server for the image that replaces this one, which inherits the lock."""
        if self._process is None or self._socket_dir is None or self._lock is None:
            raise EmbeddedError("the embedded PostgreSQL is not running")
        os.set_inheritable(self._lock, True)
        return StartedPostgres(
            pid=self._process.pid,
            data_dir=str(self.data_dir),
            socket_dir=str(self._socket_dir),
            lock=self._lock,
        )

    def _start(self) -> None:
        if "\n" in str(self.data_dir):
            raise EmbeddedError("the name of the data directory contains a line break")
        make_data_dir(self.data_dir)
        self._lock = cluster.lock(self.data_dir)
        postmaster.stop_leftover(self.cluster, self._say)
        account = server_account()
        cluster.finish_upgrade(self.data_dir)
        # Before copies of the binaries are removed, since an upgrade needs those of the old version.
        if self.cluster.exists():
            cluster.check(self.cluster, account)
        if account.uid == os.geteuid():
            programs = binaries()
        else:
            programs = copied_binaries(self.data_dir, self._say)
            cluster.check_reach(self.data_dir, programs, account)
        if not self.cluster.exists():
            self._say("Initialising the database (first start only)")
            self._create_cluster(programs, account)
        self._socket_dir = cluster.make_socket_dir(self.data_dir, account)
        self._await_ready(self._launch(programs, account, self._socket_dir))
        self._create_database()

    def _create_cluster(self, programs: Path, account: Account) -> None:
        """Create the cluster in a draft and rename that, so that an incomplete one is never used."""
        draft = self.data_dir / cluster.DRAFT
        is_durable = self._settings.get("fsync") != "off"
        cluster.create(draft, programs, account, is_durable=is_durable)
        draft.rename(self.cluster)

    def _launch(
        self, programs: Path, account: Account, socket_dir: Path
    ) -> subprocess.Popen[bytes]:
        hba, ident = self.data_dir / "pg_hba.conf", self.data_dir / "pg_ident.conf"
        cluster.write(hba, cluster.hba())
        cluster.write(ident, cluster.ident(account))
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": '"' + str(socket_dir).replace('"', '""') + '"',
            "unix_socket_permissions": "0700",
            "hba_file": str(hba),
            "ident_file": str(ident),
            "logging_collector": "on",
            "log_destination": "stderr",
            # The migration takes rights from everybody only where nobody else uses the server.
            "svc.is_embedded": "on",
            "log_directory": "log",
            "log_filename": "postgresql-%a.log",
            "log_rotation_age": "1d",
            "log_rotation_size": "0",
            "log_truncate_on_rotation": "on",
            **self._settings,
        }
        command = [str(programs / "postgres"), "-D", str(self.cluster)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        # The lines that the server writes before its log is open must not appear in a terminal.
        with _open_start_log(self.data_dir) as output:
            self._process = spawn(command, account, output=output, errors=output)
        return self._process

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        began = time.monotonic()
        is_reported = False
        while True:
            pid_file = postmaster.read_pid_file(self.cluster)
            if pid_file is not None and pid_file.pid == process.pid and pid_file.is_ready:
                return
            if process.poll() is not None:
                raise EmbeddedError(f"PostgreSQL did not start: {self._last_words(process.pid)}")
            waited = time.monotonic() - began
            if waited > _START_TIMEOUT:
                raise EmbeddedError(f"PostgreSQL was not ready in time; see {self.log_dir}")
            if waited > 2 and not is_reported:
                self._say("Waiting for PostgreSQL, which may be recovering from a crash")
                is_reported = True
            self._pause(0.01)

    def _last_words(self, pid: int) -> str:
        """Return the reason why the server ended, from its start log or its log."""
        start_log = self.data_dir / "postgres.start.log"
        lines = start_log.read_text(errors="replace").splitlines()
        for log in self.log_dir.glob("*.log"):
            logged = log.read_text(errors="replace").splitlines()
            lines += [line for line in logged if f"[{pid}]" in line]
        for mark in ("PANIC:", "FATAL:"):
            for line in reversed(lines):
                if mark in line:
                    return f"{line.partition(mark)[2].strip()} (see {self.log_dir})"
        return f"{lines[-1] if lines else 'no reason given'} (see {start_log})"

    def _create_database(self) -> None:
        """Create the service's database if it is missing, even after a start that was interrupted before
        this."""
        account = own_account()
        where = [f"--host={self._socket_dir}", f"--port={PORT}", f"--username={SUPERUSER}"]
        connect = [str(binaries() / "psql"), *where, f"--dbname={DATABASE}", "--command=\\q"]
        if run(connect, account).status != 0:
            run_checked([str(binaries() / "createdb"), *where, DATABASE], account)


def running_url(data_dir: Path) -> str | None:
    """Return the superuser's URL of the server that runs in ``data_dir``, or None.

    The server's own pid file decides, so there is no state that could be out of date. Raises
    EmbeddedError where the caller may not read it.
    """
    cluster = Path(os.path.realpath(data_dir)) / "postgres"
    try:
        pid_file = postmaster.read_pid_file(cluster)
    except OSError as error:
        raise EmbeddedError(
            f"data directory {data_dir} cannot be read: {_reason(error)}"
        ) from error
    if pid_file is None or not pid_file.is_ready:
        return None
    if not postmaster.is_postmaster(pid_file.pid, cluster):
        return None
    return _url(Path(pid_file.socket_dir))


def libpq_environment(url: str) -> dict[str, str]:
    """Return ``url`` as the environment variables that libpq's programs read.

    These may contain a password: unlike arguments, other users of the machine cannot read them.
    """
    names = {
        option.keyword.decode(): option.envvar.decode()
        for option in psycopg.pq.Conninfo.get_defaults()
        if option.envvar is not None
    }
    given = psycopg.conninfo.conninfo_to_dict(url)
    return {names[keyword]: str(value) for keyword, value in given.items() if keyword in names}


def _url(socket_dir: Path) -> str:
    # Without the port, the client's PGPORT would select another socket.
    host = quote(os.fsencode(socket_dir), safe="")
    return f"postgresql://{SUPERUSER}@/{DATABASE}?host={host}&port={PORT}"


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"


def make_data_dir(path: Path) -> None:
    """Create the data directory if it is missing. Raises EmbeddedError where it is not writable."""
    try:
        _make_directory(path)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise EmbeddedError(f"data directory {path} cannot be written: {_reason(error)}") from error


def _make_directory(path: Path) -> None:
    """Create ``path`` and its parents if they are missing; existing ones keep their permissions.

    The server's account must be able to enter those of root; each secret in them has its own
    permissions.
    """
    if path.is_dir():
        return
    if path.parent != path:
        _make_directory(path.parent)
    mode = 0o755 if os.geteuid() == 0 else 0o700
    try:
        path.mkdir(mode=mode)
    except FileExistsError:
        if path.is_dir():
            return  # Another process created it a moment ago.
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
    path.chmod(mode)


def _open_start_log(data_dir: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(data_dir / "postgres.start.log", flags, 0o600), "wb")
