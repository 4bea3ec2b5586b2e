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

import contextlib
import errno
import fcntl
import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self
from urllib.parse import quote

import psycopg

from deploy.postgres import postmaster
from deploy.postgres.account import (
    Account,
    EmbeddedError,
    may_enter,
    own_account,
    run,
    run_checked,
    server_account,
    spawn,
)
from deploy.postgres.binaries import binaries, bundled_version, copied_binaries
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

DATABASE: Final = "svc"
SUPERUSER: Final = "postgres"

_PORT: Final = 5432
# The address of a socket has 108 bytes on Linux and 104 on macOS, with the closing zero.
_LONGEST_SOCKET_PATH: Final = 103
_START_TIMEOUT: Final = 120.0

# initdb writes these into postgresql.conf, where the operator may change them.
_DEFAULTS: Final = {
    # Its pages are read through the system's cache anyway, which gives way to programs where memory is short.
    "shared_buffers": "64MB",
    # Nothing is replicated by tables, so its launcher need not run.
    "max_logical_replication_workers": "0",
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    # Statements can contain secrets, so errors are logged without their statement.
    "log_min_error_statement": "panic",
}


def _defaults() -> dict[str, str]:
    """Return the settings of a new cluster, for the version that runs it."""
    # From version 18 on, further processes read from the disk for others; sync does without them, as before.
    has_method = int(bundled_version().partition(".")[0]) >= 18
    return _DEFAULTS | ({"io_method": "sync"} if has_method else {})


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
        self._lock = _lock(self.data_dir)
        postmaster.stop_leftover(self.cluster, self._say)
        account = server_account()
        if account.uid == os.geteuid():
            programs = binaries()
        else:
            programs = copied_binaries(self.data_dir, self._say)
            _check_reach(self.data_dir, programs, account)
        if self.cluster.exists():
            _check_cluster(self.cluster, account)
        else:
            self._say("Initialising the database (first start only)")
            self._create_cluster(programs, account)
        self._socket_dir = _make_socket_dir(self.data_dir, account)
        self._await_ready(self._launch(programs, account, self._socket_dir))
        self._create_database()

    def _create_cluster(self, programs: Path, account: Account) -> None:
        """Create the cluster in a draft and rename that, so that an incomplete one is never used."""
        if any(character in str(programs) for character in '"$`\\'):
            # initdb passes the path to a shell, between double quotes.
            raise EmbeddedError(f'PostgreSQL cannot run from {programs}: the path has one of "$`\\')
        draft = self.data_dir / "postgres.draft"
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir(mode=0o700)
        os.chown(draft, account.uid, account.gid)
        command = [
            str(programs / "initdb"),
            f"--pgdata={draft}",
            f"--username={SUPERUSER}",
            # The built-in provider gives the same results on every machine, whatever locales are
            # installed; C is the system locale that always exists.
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--auth-local=peer",
            "--auth-host=reject",
            "--no-instructions",
            *(f"--set={name}={value}" for name, value in _defaults().items()),
        ]
        if self._settings.get("fsync") == "off":
            command.append("--no-sync")
        run_checked(command, account)
        draft.rename(self.cluster)

    def _launch(
        self, programs: Path, account: Account, socket_dir: Path
    ) -> subprocess.Popen[bytes]:
        hba, ident = self.data_dir / "pg_hba.conf", self.data_dir / "pg_ident.conf"
        _write(hba, _hba())
        _write(ident, _ident(account))
        settings = {
            "listen_addresses": "",
            "port": str(_PORT),
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
        where = [f"--host={self._socket_dir}", f"--port={_PORT}", f"--username={SUPERUSER}"]
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
    return f"postgresql://{SUPERUSER}@/{DATABASE}?host={host}&port={_PORT}"


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


def _lock(data_dir: Path) -> int:
    """Return an open file that holds the data directory's lock. Raises EmbeddedError.

    The kernel releases the lock when its holder ends, however it ends.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(data_dir / "postgres.lock", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode(errors="replace").strip()
        os.close(descriptor)
        raise EmbeddedError(
            f"data directory {data_dir} is in use by process {holder or 'unknown'}: stop that "
            "one first, or choose another directory with SVC_DATA_DIR"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _check_reach(data_dir: Path, programs: Path, account: Account) -> None:
    """Refuse a data directory that the server's account cannot enter."""
    try:
        run_checked([str(programs / "postgres"), "--version"], account)
    except PermissionError:
        path = (*reversed(data_dir.parents), data_dir)
        closed = next((part for part in path if not may_enter(part, account)), data_dir)
        raise EmbeddedError(
            f"data directory {data_dir} cannot be used: {closed} is closed to the system user "
            f"{account.name}, who runs the database for root; choose another with SVC_DATA_DIR"
        ) from None


def _check_cluster(cluster: Path, account: Account) -> None:
    """Refuse a cluster of another user or another major version."""
    owner = cluster.stat().st_uid
    if owner != account.uid:
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = f"user id {owner}"
        raise EmbeddedError(f"{cluster} belongs to {name}, not to {account.name}")
    version = (cluster / "PG_VERSION").read_text(encoding="ascii").strip()
    bundled = bundled_version().partition(".")[0]
    if version != bundled:
        raise EmbeddedError(
            f"{cluster} is of PostgreSQL {version} and cannot be used by {bundled}: dump it "
            "with that version, or choose another data directory with SVC_DATA_DIR"
        )


def _make_socket_dir(data_dir: Path, account: Account) -> Path:
    """Return a directory for the socket that only ``account`` can enter.

    The caller holds the data directory's lock, and no server runs in it.
    """
    path = data_dir / "socket"
    socket = os.fsencode(path / f".s.PGSQL.{_PORT}")
    # A comma in the host of a connection string would separate two hosts.
    if len(socket) > _LONGEST_SOCKET_PATH or b"," in socket:
        name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
        path = Path(f"/tmp/svc-{os.geteuid()}-{name}")  # noqa: S108 (owner and mode are checked)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if status.st_uid == os.geteuid() != account.uid and stat.S_ISDIR(status.st_mode):
        # This call has created it, or an earlier one that was killed before the next line.
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
        status = path.lstat()
    is_private = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700
    if not is_private or status.st_uid != account.uid:
        raise EmbeddedError(
            f"{path} must be a directory of {account.name} with mode 0700: remove it"
        )
    # PostgreSQL would refuse the socket of a killed server while another process has that server's number.
    for left in (path / f".s.PGSQL.{_PORT}", path / f".s.PGSQL.{_PORT}.lock"):
        left.unlink(missing_ok=True)
    return path


def _hba() -> str:
    return (
        "# Written at every start of the embedded server.\n"
        f"local all {SUPERUSER} peer map=superuser\n"
        f"local replication {SUPERUSER} peer map=superuser\n"
        "local all all scram-sha-256\n"
    )


def _ident(account: Account) -> str:
    names = sorted({account.name, own_account().name})
    lines = [f'superuser "{name}" {SUPERUSER}\n' for name in names]
    return "# Written at every start of the embedded server.\n" + "".join(lines)


def _write(path: Path, text: str) -> None:
    """Replace a file by one that the server's account can read."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o644)
    Path(draft).rename(path)


def _open_start_log(data_dir: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(data_dir / "postgres.start.log", flags, 0o600), "wb")
