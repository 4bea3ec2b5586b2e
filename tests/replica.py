"""A streaming replica of an embedded PostgreSQL, made as an operator makes one, by pg_basebackup.

With SVC_TEST_REPLICA=1 in the environment the server of a run has one, and every test's resource server sends
its long reads there (SVC_READER_REPLICA_URL).
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.postgres.account import run_checked, server_account
from deploy.postgres.binaries import copied_binaries
from deploy.postgres.embedded import EmbeddedPostgres, binaries
from tests.waiting import wait_for

IS_ON: Final = os.environ.get("SVC_TEST_REPLICA") == "1"
STREAMED: Final = {"synchronous_commit": "on"}
"""Settings of a primary in tests. A replica gets what the primary has written, which is at once only what a
commit waits for; fsync may be off."""


def copy(
    primary: EmbeddedPostgres, directory: Path, settings: Mapping[str, str]
) -> EmbeddedPostgres:
    """Return a replica of ``primary`` in ``directory``, which replays what the primary writes."""
    account = server_account()
    directory.mkdir(mode=0o755)
    # A directory of its own for the server's account, in which it can create the copy.
    target = directory / "copy"
    target.mkdir(mode=0o700)
    shutil.chown(target, account.uid, account.gid)
    programs = binaries()
    if account.uid != os.geteuid():
        programs = copied_binaries(directory, lambda _: None)
    url = conninfo_to_dict(primary.url)
    where = [f"--host={url['host']}", f"--port={url['port']}", f"--username={url['user']}"]
    how = ["--checkpoint=fast", "--no-sync", "--wal-method=stream", "--write-recovery-conf"]
    command = [str(programs / "pg_basebackup"), *where, *how, f"--pgdata={target / 'cluster'}"]
    run_checked(command, account)
    (target / "cluster").rename(directory / "postgres")
    replica = EmbeddedPostgres(directory, settings=settings)
    replica.start()
    return replica


@contextmanager
def streaming(settings: Mapping[str, str]) -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    """A primary with these settings and its replica, for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="svc-replica-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o755)
        with EmbeddedPostgres(directory / "primary", settings=settings) as primary:
            replica = copy(primary, directory / "replica", settings)
            try:
                yield primary, replica
            finally:
                replica.stop()


def address(url: str) -> str:
    """Return SVC_READER_REPLICA_URL for the replica at ``url``: no more than where it is."""
    where = conninfo_to_dict(url)
    return make_conninfo(host=where["host"], port=where["port"])


def catch_up(primary: str, replica: str) -> None:
    """Wait until the replica has everything that the primary has now."""
    with psycopg.connect(primary) as connection:
        row = connection.execute("select pg_current_wal_flush_lsn()").fetchone()
    assert row is not None
    with psycopg.connect(replica, autocommit=True) as connection:
        wait_for(
            lambda: (
                connection.execute("select pg_last_wal_replay_lsn() >= %s", [row[0]]).fetchone()
                == (True,)
            ),
            "the replica has caught up",
        )
