"""Servers that can be got into trouble, and the ways to their databases."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import uvicorn

import resourceserver.app
from shared import database
from shared.settings import Settings
from tests.faults.proxy import Proxy, proxy
from tests.waiting import wait_for

# pytest shows the compared values of assertions in this module too.
pytest.register_assert_rewrite("tests.faults.tracker")

CUTS = {"suite": 6, "bounded": 27, "proof": 120}
"""The number of cuts of each kind, of which there are eight between server and database alone."""


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    """The number of cuts of each kind."""
    return CUTS[str(request.config.getoption("--hypothesis-profile") or "suite")]


@pytest.fixture
def way(deployment: Settings) -> Iterator[Proxy]:
    """A proxy to the database of this worker."""
    with proxy(database.role_url(deployment, "reader")) as opened:
        yield opened


@pytest.fixture(scope="module")
def port(deployment: Settings) -> Iterator[int]:
    """The port of a resource server that listens on the loopback interface."""
    with listening(deployment) as number:
        yield number


@contextmanager
def listening(deployment: Settings) -> Iterator[int]:
    """Run a resource server for the time of the block; yields its port on the loopback interface."""
    listener = socket.create_server(("127.0.0.1", 0))
    number = listener.getsockname()[1]
    chosen = replace(deployment, base_url=f"http://127.0.0.1:{number}")
    app = resourceserver.app.create(chosen)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    wait_for(lambda: server.started, "the server to listen")
    try:
        yield number
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
