"""Data directories as a svc with an older PostgreSQL has left them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.migrate import migrate
from deploy.postgres import account, cluster, postmaster
from shared.settings import Settings
from tests.conftest import FAST
from tests.waiting import wait_for


@contextmanager
def older_server(data_dir: Path, programs: Path) -> Iterator[str]:
    """Run the server in ``data_dir`` with other programs, and yield its URL."""
    place, user = data_dir / "postgres", account.server_account()
    sockets = cluster.make_socket_dir(data_dir, user)
    for name, text in {"pg_hba.conf": cluster.hba(), "pg_ident.conf": cluster.ident(user)}.items():
        cluster.write(data_dir / name, text)
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(sockets),
        "hba_file": str(data_dir / "pg_hba.conf"),
        "ident_file": str(data_dir / "pg_ident.conf"),
        "svc.is_embedded": "on",
        **FAST,
    }
    command = [str(programs / "postgres"), "-D", str(place)]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    with account.spawn(
        command, user, output=subprocess.DEVNULL, errors=subprocess.DEVNULL
    ) as process:

        def is_ready() -> bool:
            pid_file = postmaster.read_pid_file(place)
            return pid_file is not None and pid_file.is_ready

        wait_for(is_ready, "the older server")
        try:
            yield f"postgresql://postgres@/svc?host={sockets}&port=5432"
        finally:
            postmaster.stop(process.pid, place, lambda: process.poll() is not None)


def make_older(data_dir: Path, programs: Path) -> None:
    """Create a data directory with a migrated database of an older major version."""
    data_dir.mkdir(mode=0o755)
    user = account.server_account()
    place = data_dir / "postgres"
    place.mkdir(mode=0o700)
    os.chown(place, user.uid, user.gid)
    account.run_checked(
        [
            *(str(programs / "initdb"), f"--pgdata={place}", "--username=postgres"),
            *("--encoding=UTF8", "--locale=C", "--auth-local=peer", "--no-sync"),
        ],
        user,
    )
    with older_server(data_dir, programs) as url:
        where = url.replace("/svc?", "/postgres?")
        subprocess.run(
            [str(programs / "psql"), where, "--quiet", "--command=create database svc"], check=True
        )
        migrate(Settings(database_url=url, data_dir=data_dir), lambda _: None)
