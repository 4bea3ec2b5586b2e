"""Data directories for servers that these tests start themselves, each at a place of its own."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared import listening
from shared.listening import Address, Listen


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory that is not there yet."""
    parent = reachable_directory()
    yield parent / "data"
    shutil.rmtree(parent)


@pytest.fixture(scope="module")
def used_data_dir() -> Iterator[Path]:
    """A data directory that tests use one after the other, so that it is made only once."""
    parent = reachable_directory()
    yield parent / "data"
    shutil.rmtree(parent)


def reachable_directory() -> Path:
    """Return a new directory where root's system user can go; pytest's own are closed to it."""
    path = Path(tempfile.mkdtemp(prefix="svc-test-", dir="/tmp"))
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def standing_data_dir() -> Iterator[Path]:
    """The data directory of what runs as long as a module's tests."""
    parent = reachable_directory()
    yield parent / "data"
    shutil.rmtree(parent)


@pytest.fixture
def ports() -> tuple[int, int]:
    """Two ports that are free on both loopback addresses."""
    return next(PORTS), next(PORTS)


@pytest.fixture(scope="module")
def standing_ports() -> tuple[int, int]:
    """The ports of what runs as long as a module's tests."""
    return next(PORTS), next(PORTS)


def free_ports() -> Iterator[int]:
    """Ports outside the range that the system hands out, no two workers' alike."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in range(20000 + 500 * worker, 20500 + 500 * worker):
        try:
            listeners = listening.bind(Listen("tests", (Address("localhost", port),)))
        except listening.AddressError:
            continue
        for listener in listeners:
            listener.close()
        yield port


PORTS = free_ports()
