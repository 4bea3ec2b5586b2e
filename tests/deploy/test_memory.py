"""The memory of all that ``svc up`` starts: at rest, and with a year of data on a machine of 512 MB."""

import os
import sys
from pathlib import Path

import pytest

from tests.bench.memory import CGROUPS, deployment, has_demo, load, processes, total
from tests.deploy.conftest import ON_DISK, fast_copy, reachable_directory
from tests.deploy.runner import Runner, addresses, fields

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts shared memory")


def test_everything_at_rest_takes_at_most_200_mib(prepared: Path, ports: tuple[int, int]) -> None:
    with reachable_directory() as parent:
        data_dir = fast_copy(prepared, parent / "data")
        chosen = {"SVC_DATA_DIR": str(data_dir), "SVC_JOBS": "on"} | addresses(ports)
        with Runner(parent, chosen) as runner:
            runner.wait_until_up()
            runner.wait_for_error("this worker takes turns")

            measured = processes(runner)

    names = {process.name for process in measured}
    assert {"auth serve", "resource serve", "resource work", "supervisor"} <= names
    assert total(measured) <= 200, measured


@pytest.mark.long
def test_a_machine_of_512_mb_is_enough_for_a_year_and_eight_requests_at_once() -> None:
    # Without memory cgroups that this user may make, the sum of all processes is bounded alone.
    can_limit = os.access(CGROUPS, os.W_OK) and (CGROUPS / "memory.limit_in_bytes").exists()
    with (
        # A file system in memory would count as memory of the processes.
        reachable_directory(ON_DISK) as parent,
        deployment(parent, limit_mib=512 if can_limit else None) as runner,
    ):
        servers = [runner.child(words) for words in ("auth serve", "resource serve")]
        base_url = runner.variables["SVC_BASE_URL"]

        statuses = load(base_url, has_demo(runner), rounds=3)

        measured = processes(runner)
        log = runner.err.read_text()
        assert [fields(pid)["State"][0] in "RS" for pid in servers] == [True, True]
    assert set(statuses) == {200}
    assert statuses.total() >= 100
    assert "has ended by itself" not in log
    assert total(measured) <= 512, measured
