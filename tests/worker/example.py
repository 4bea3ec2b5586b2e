"""A worker as a process, with imports of these tests: ``python -m tests.worker.example DIRECTORY``.

A person's files lie in a folder with the person's id. A turn imports one of them, as imports of uploads do:
it can be repeated from any point, and stops soon when it is asked to.
"""

import logging
import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from resourceserver.worker import process, running, turns
from resourceserver.worker.kinds import kinds
from resourceserver.worker.turns import LAST, Kind, Outcome, Turn
from shared import settings
from shared.pool import Pool

log = logging.getLogger("svc.tests")

OFTEN: Final = timedelta(seconds=0.05)
LEASE: Final = timedelta(seconds=2)


def main() -> None:
    """Work until a signal ends it."""
    directory = Path(sys.argv[1])

    def offered(workers: Pool) -> Mapping[str, Kind]:
        listed = kinds(workers, roll_up_every=OFTEN, sum_up_every=OFTEN)
        return {**listed, "import": Kind("import", partial(_handle, directory))}

    running.LOOK_EVERY_S = 0.05
    chosen = settings.read()
    process.work(chosen, chosen.role_urls, offered=offered, lease=LEASE)


async def _handle(directory: Path, turn: Turn) -> Outcome:
    return await turns.in_thread(partial(_import, directory, turn))


def _import(directory: Path, turn: Turn, stop: threading.Event) -> Outcome:
    waiting = sorted((directory / str(turn.user_id)).glob("*.upload"))
    if not waiting:
        return Outcome()
    log.info("reads %s of %s", waiting[0].stem, turn.user_id)
    while (directory / "hold").exists():
        if stop.wait(0.02):
            raise InterruptedError
    waiting[0].rename(waiting[0].with_suffix(".done"))
    return Outcome(f"file={waiting[0].stem}", LAST if len(waiting) > 1 else None)


if __name__ == "__main__":
    main()
