"""Load on both servers and a worker while the database, processes and the network fail: nothing is lost.

``python -m tests.bench.faults`` does the same for longer and with more clients, and measures times too.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.faults.run import carry_out, lines


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that the database's own account can reach."""
    made = Path(tempfile.mkdtemp(prefix="svc-faults-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_faults_under_load_lose_nothing_and_each_refusal_says_when_to_come_again(
    directory: Path, record_property: Callable[[str, object], None]
) -> None:
    run = carry_out("uvloop", 20, 60, directory)

    broken = [line for line in lines(run) if not line.holds and not line.is_timed]
    assert broken == []
    assert len(run.faults) == 6
    record_property("requests beside faults", len(run.record.answers))
