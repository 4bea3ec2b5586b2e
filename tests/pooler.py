"""PgBouncer between the servers' roles and the database, as Debian has it and with its default settings.

With SVC_TEST_POOLER=1 in the environment every test's deployment has one: the logins of the servers' roles
lead through it, in transaction mode, and the owner's login leads to PostgreSQL itself.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.waiting import wait_for

IS_ON: Final = os.environ.get("SVC_TEST_POOLER") == "1"
PATH: Final = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
MISSING: Final = "PgBouncer is not installed; make test does it"
_PORT: Final = 6432


def program() -> str | None:
    """Return PgBouncer, or None where it is not installed."""
    return shutil.which("pgbouncer", path=PATH)


@contextmanager
def pooler(server: str, passwords: Mapping[str, str], mode: str = "transaction") -> Iterator[str]:
    """Run a PgBouncer in front of ``server`` for logins by name; yields its address.

    A client adds user and database to it. Nobody else can reach its socket, so no password is needed.
    """
    command = program()
    assert command is not None, MISSING
    where = conninfo_to_dict(server)
    host = str(where["host"])
    # The embedded server's socket is open to nobody but the account that it runs as.
    account = pwd.getpwuid(Path(host).stat().st_uid).pw_name if host.startswith("/") else "nobody"
    with tempfile.TemporaryDirectory(prefix="svc-pooler-") as name:
        directory = Path(name)
        users = directory / "users"
        users.write_text("".join(f'"{user}" "{secret}"\n' for user, secret in passwords.items()))
        file = directory / "pgbouncer.ini"
        file.write_text(
            f"[databases]\n* = host={host} port={where.get('port') or 5432}\n"
            f"[pgbouncer]\nlisten_addr =\nlisten_port = {_PORT}\nunix_socket_dir = {directory}\n"
            f"auth_type = trust\nauth_file = {users}\npool_mode = {mode}\n"
            f"logfile = {directory}/log\n"
        )
        if os.geteuid() == 0:
            for each in (directory, users, file):
                shutil.chown(each, account)
        process = subprocess.Popen(
            [command, "-q", str(file)],
            user=account if os.geteuid() == 0 else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            socket_file = directory / f".s.PGSQL.{_PORT}"
            wait_for(lambda: _answers(socket_file), "PgBouncer listens")
            yield make_conninfo(host=str(directory), port=_PORT)
        finally:
            process.terminate()
            process.wait(timeout=30)


def _answers(socket_file: Path) -> bool:
    """Tell whether something accepts connections at a socket, which it creates a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(socket_file)) == 0
