"""The guard: what remains of a test run that is killed."""

import subprocess
import sys
from pathlib import Path

from tests.deploy.runner import wait_until_gone
from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent.parent

WORKER = """
import sys
from pathlib import Path
from deploy.postgres.embedded import EmbeddedPostgres
from tests.conftest import FAST
from tests.deploy.conftest import copied, reachable_directory

with reachable_directory() as place:
    server = EmbeddedPostgres(copied(Path(sys.argv[1]), place / "data"), settings=FAST)
    server.start()
    print(place, (server.cluster / "postmaster.pid").read_text().split()[0], flush=True)
    sys.stdin.read()
"""


def test_a_worker_that_is_killed_leaves_no_database_and_no_directory(prepared: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(prepared)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        place, postmaster = worker.stdout.readline().split()

        worker.kill()

    wait_until_gone(int(postmaster))
    wait_for(lambda: not Path(place).exists(), "the end of the directory")
