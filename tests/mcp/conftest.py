"""Alice's assistant, which calls the application without a network; and others for the running servers."""

from collections.abc import Iterator

import httpx2
import pytest
from argon2 import PasswordHasher
from starlette.testclient import TestClient

from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.mcp.assistant import Assistant
from tests.oauth.conftest import PASSWORD
from tests.oauth.program import Program
from tests.oauth.visitor import Visitor, signed_in
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


@pytest.fixture(scope="module")
def password_hash() -> str:
    """The stored hash of PASSWORD."""
    return PasswordHasher().hash(PASSWORD)


@pytest.fixture
def browser(service: Service, alice: Person, password_hash: str) -> Iterator[Visitor]:
    """A browser in which alice has signed in."""
    alice.connection.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [alice.user_id, password_hash],
    )
    with httpx2.Client(base_url=service.auth_url) as client:
        yield signed_in(client, alice.email, PASSWORD)


@pytest.fixture
def program(service: Service, browser: Visitor) -> Program:
    """An assistant's program that has just been started."""
    return Program(service, browser, "/mcp")
