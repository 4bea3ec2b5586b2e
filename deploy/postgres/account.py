"""The operating system's user that runs the embedded PostgreSQL, and processes of that user.

PostgreSQL refuses to run as root. If root starts it, a system user runs it; any other user runs it
under their own account.
"""

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

SYSTEM_USER: Final = "svc-postgres"

# Without the caller's variables: PGDATA, PGPORT and others would change the server.
_ENVIRONMENT: Final = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "PATH": os.defpath,
    # From this size on, a piece of memory is returned when it is freed, and a new one takes no memory until
    # it is written to. This is the default of glibc, which raises it, unless it is set, when larger pieces
    # are freed. Plans are kept in pieces that are often half empty.
    "MALLOC_MMAP_THRESHOLD_": "131072",
}
_SYSTEM_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"


class EmbeddedError(Exception):
    """Why the embedded PostgreSQL cannot be used; the message is one line for the operator."""


@dataclass(frozen=True)
class Account:
    """A user of the operating system, as which processes are started."""

    name: str
    uid: int
    gid: int


def own_account() -> Account:
    """Return the account of this process. Raises EmbeddedError where it has no name."""
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedError(
            f"user id {uid} has no name, which PostgreSQL needs: "
            "add one to /etc/passwd, or set DATABASE_URL"
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def server_account() -> Account:
    """Return the account that runs the server; for root, create the system user if it is missing."""
    if os.geteuid() != 0:
        return own_account()
    reasons = ["no reason given"]
    for pause in (0.0, 0.2, 0.5, 1.0):
        # Another process may be creating the same user, or hold the lock on /etc/passwd.
        time.sleep(pause)
        with contextlib.suppress(KeyError):
            return _system_account()
        result = run(_user_command(), own_account())
        reasons = result.stderr.strip().splitlines() or reasons
    with contextlib.suppress(KeyError):
        return _system_account()
    raise EmbeddedError(f"the system user {SYSTEM_USER} cannot be created: {reasons[-1]}")


def _system_account() -> Account:
    entry = pwd.getpwnam(SYSTEM_USER)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _user_command() -> list[str]:
    shell = shutil.which("nologin", path=_SYSTEM_PATH) or "/bin/false"
    if useradd := shutil.which("useradd", path=_SYSTEM_PATH):
        home = ["--home-dir", "/nonexistent", "--no-create-home"]
        return [useradd, "--system", "--user-group", *home, "--shell", shell, SYSTEM_USER]
    if adduser := shutil.which("adduser", path=_SYSTEM_PATH):  # BusyBox
        return [adduser, "-S", "-D", "-H", "-h", "/nonexistent", "-s", shell, SYSTEM_USER]
    raise EmbeddedError(
        "root cannot run PostgreSQL, and neither useradd nor adduser is installed to create the user "
        f"{SYSTEM_USER}: run svc as an ordinary user, or set DATABASE_URL"
    )


def may_enter(directory: Path, account: Account) -> bool:
    """Whether the permission bits of ``directory`` allow ``account`` to enter it."""
    status = directory.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def spawn(
    command: list[str],
    account: Account,
    *,
    output: BinaryIO | int,
    errors: BinaryIO | int,
    source: int = subprocess.DEVNULL,
    directory: Path = Path("/"),
) -> subprocess.Popen[bytes]:
    """Start a process as ``account``, in a new session, so that a terminal's signals do not reach it."""
    is_other = account.uid != os.geteuid()
    return subprocess.Popen(  # noqa: S603 (the commands are this package's own)
        command,
        stdin=source,
        stdout=output,
        stderr=errors,
        cwd=directory,
        env=_ENVIRONMENT,
        start_new_session=True,
        user=account.uid if is_other else None,
        group=account.gid if is_other else None,
        extra_groups=[] if is_other else None,
        umask=0o077,
    )


@dataclass(frozen=True)
class Result:
    """The exit status and the output of a command."""

    status: int
    stdout: str
    stderr: str


def run(
    command: list[str], account: Account, *, directory: Path = Path("/"), text: str | None = None
) -> Result:
    """Run a command as ``account`` in a directory with ``text`` as its input, and wait for its end.

    An exception meanwhile ends it.
    """
    with spawn(
        command,
        account,
        source=subprocess.DEVNULL if text is None else subprocess.PIPE,
        output=subprocess.PIPE,
        errors=subprocess.PIPE,
        directory=directory,
    ) as process:
        try:
            stdout, stderr = process.communicate(None if text is None else text.encode())
        except BaseException:
            process.terminate()
            raise
    return Result(
        process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace")
    )


def run_checked(command: list[str], account: Account) -> None:
    """Run a short command. Raises EmbeddedError with the reason when it fails."""
    result = run(command, account)
    if result.status != 0:
        lines = result.stderr.strip().splitlines() or ["no reason given"]
        reasons = [line for line in lines if "error:" in line] or lines
        raise EmbeddedError(f"{Path(command[0]).name} failed: {reasons[-1]}")
