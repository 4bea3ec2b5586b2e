"""The parts of a data directory: its lock, its cluster, the directory of the socket, and who may connect."""

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

from deploy.postgres.account import (
    Account,
    EmbeddedError,
    may_enter,
    own_account,
    run_checked,
)
from deploy.postgres.binaries import bundled_version

DATABASE: Final = "svc"
SUPERUSER: Final = "postgres"
PORT: Final = 5432
DRAFT: Final = "postgres.draft"
"""A cluster that is being created."""
UPGRADED: Final = "postgres.upgraded"
"""A cluster of a newer major version that is complete (upgrade.py)."""

# The address of a socket has 108 bytes on Linux and 104 on macOS, with the closing zero.
_LONGEST_SOCKET_PATH: Final = 103

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


def lock(data_dir: Path) -> int:
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


def check_reach(data_dir: Path, programs: Path, account: Account) -> None:
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


def create(
    path: Path,
    programs: Path,
    account: Account,
    *,
    is_durable: bool = True,
    has_checksums: bool = True,
) -> None:
    """Create a cluster at ``path``, in place of an incomplete one. Raises EmbeddedError."""
    if any(character in str(programs) for character in '"$`\\'):
        # initdb passes the path to a shell, between double quotes.
        raise EmbeddedError(f'PostgreSQL cannot run from {programs}: the path has one of "$`\\')
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(mode=0o700)
    os.chown(path, account.uid, account.gid)
    command = [
        str(programs / "initdb"),
        f"--pgdata={path}",
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
    if not is_durable:
        command.append("--no-sync")
    if not has_checksums:
        command.append("--no-data-checksums")
    run_checked(command, account)


def major_of(cluster: Path) -> int:
    """Return the major version of PostgreSQL to which a cluster belongs."""
    return int((cluster / "PG_VERSION").read_text(encoding="ascii"))


def finish_upgrade(data_dir: Path) -> None:
    """Give an upgraded cluster its name, if the upgrade was killed between its last two steps.

    The caller holds the data directory's lock.
    """
    upgraded, cluster = data_dir / UPGRADED, data_dir / "postgres"
    if upgraded.exists() and not cluster.exists():
        upgraded.rename(cluster)


def check_owner(cluster: Path, account: Account) -> None:
    """Refuse a cluster of another user."""
    owner = cluster.stat().st_uid
    if owner != account.uid:
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = f"user id {owner}"
        raise EmbeddedError(f"{cluster} belongs to {name}, not to {account.name}")


def check(cluster: Path, account: Account) -> None:
    """Refuse a cluster of another user or another major version."""
    check_owner(cluster, account)
    version, bundled = major_of(cluster), int(bundled_version().partition(".")[0])
    if version < bundled:
        raise EmbeddedError(
            f"{cluster} is of PostgreSQL {version}, and this svc has PostgreSQL {bundled}: run "
            "'svc upgrade-database', which keeps the old directory"
        )
    if version > bundled:
        raise EmbeddedError(
            f"{cluster} is of PostgreSQL {version}, and this svc has PostgreSQL {bundled}: start it with the "
            "newer svc that it is from, or choose another data directory with SVC_DATA_DIR"
        )


def make_socket_dir(data_dir: Path, account: Account) -> Path:
    """Return a directory for the socket that only ``account`` can enter.

    The caller holds the data directory's lock, and no server runs in it.
    """
    path = data_dir / "socket"
    socket = os.fsencode(path / f".s.PGSQL.{PORT}")
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
    for left in (path / f".s.PGSQL.{PORT}", path / f".s.PGSQL.{PORT}.lock"):
        left.unlink(missing_ok=True)
    return path


def hba() -> str:
    """Return the contents of pg_hba.conf: who may connect, and how they prove who they are."""
    return (
        "# Written at every start of the embedded server.\n"
        f"local all {SUPERUSER} peer map=superuser\n"
        f"local replication {SUPERUSER} peer map=superuser\n"
        "local all all scram-sha-256\n"
    )


def ident(account: Account) -> str:
    """Return the contents of pg_ident.conf: which accounts of the system are the superuser."""
    names = sorted({account.name, own_account().name})
    lines = [f'superuser "{name}" {SUPERUSER}\n' for name in names]
    return "# Written at every start of the embedded server.\n" + "".join(lines)


def write(path: Path, text: str) -> None:
    """Replace a file by one that the server's account can read."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o644)
    Path(draft).rename(path)
