"""Alice's assistant, which calls the application without a network; and others for the running servers."""

from collections.abc import Iterator

import httpx2
import pytest
from starlette.testclient import TestClient

from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.mcp.assistant import Assistant
from tests.oauth.conftest import visitor_of
from tests.oauth.program import Program
from tests.oauth.visitor import Visitor
from tests.processes import Service


@pytest.fixture
def assistant(api: TestClient, alice: Person) -> Assistant:
    """An assistant that may read everything of alice's."""
    return Assistant(api, alice.headers())


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers, each a process."""
    with processes.service(deployment, tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture
def browser(service: Service, alice: Person) -> Iterator[Visitor]:
    """A browser in which alice is signed in."""
    with httpx2.Client(base_url=service.auth_url) as client:
        yield visitor_of(client, service.settings, alice)


@pytest.fixture
def program(service: Service, browser: Visitor) -> Program:
    """An assistant's program that has just been started."""
    return Program(service, browser, "/mcp")
