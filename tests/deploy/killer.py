"""Migrates in processes that are killed: ``python -m tests.deploy.killer URL DIRECTORY``.

For each line of the input, a child process migrates until it prints that line, and is then killed. The
program prints the signal that ended the child, or 0.
"""

import os
import signal
import sys
from pathlib import Path

import click

from deploy.migrate import migrate
from shared.settings import Settings


def main() -> None:
    """Run a child for each line of the input."""
    chosen = Settings(database_url=sys.argv[1], data_dir=Path(sys.argv[2]))
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _migrate_until(chosen, line.rstrip("\n"))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        click.echo(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)


def _migrate_until(chosen: Settings, last_line: str) -> None:
    def say(line: str) -> None:
        if line == last_line:
            os.kill(os.getpid(), signal.SIGKILL)

    migrate(chosen, say)


if __name__ == "__main__":
    main()
