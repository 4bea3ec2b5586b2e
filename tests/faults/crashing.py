"""A crash of a database server."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from deploy.postgres import postmaster
from deploy.postgres.embedded import EmbeddedPostgres


def kill(postgres: EmbeddedPostgres) -> None:
    """Kill all processes of a server at once, so that none of them does anything more."""
    main = postmaster.read_pid_file(postgres.cluster)
    if main is None:
        return
    children = Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text(encoding="ascii")
    for pid in (main.pid, *map(int, children.split())):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
