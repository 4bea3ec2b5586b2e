"""The authorization server, called without a network but otherwise complete."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from argon2 import PasswordHasher, profiles
from httpx2 import Client, Response
from starlette.testclient import TestClient

import authserver.app
from authserver.people import sessions
from authserver.people.passwords import Hasher
from deploy.migrate import SQL_DIR
from shared import dashboard, queries, sealing, tokens
from shared.connections import RECEIVERS
from shared.settings import Settings
from tests.cli.terminal import Terminal
from tests.client import AppClient
from tests.conftest import Person
from tests.oauth.visitor import CALLBACK, Application, Visitor

PASSWORD = "an owl reads under the lamp"
CHEAP = PasswordHasher.from_parameters(profiles.CHEAPEST)
"""Argon2 at a cost that a thousand sign-ins do not feel."""

Opens = Callable[..., int]


SEALING_KEY = sealing.new_private_key()
"""What opens the secrets of connections; the servers of these tests have its public half."""


@pytest.fixture(scope="session")
def settings(deployment: Settings) -> Settings:
    """The settings that both servers of these tests share: people can upload files, and connect all kinds."""
    return replace(
        deployment,
        base_url="http://testserver",
        upload_dir=deployment.data_dir / "uploads",
        receivers=RECEIVERS,
        sealing_public_key=sealing.public_key_of(SEALING_KEY),
    )


@pytest.fixture(scope="session")
def auth_client(settings: Settings) -> Iterator[TestClient]:
    """The authorization server under the issuer's name."""
    app = authserver.app.create(settings, hasher=Hasher(CHEAP))
    with AppClient(app, "http://localhost:8400", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def server(auth_client: TestClient, owner: psycopg.Connection[Any]) -> TestClient:
    """The authorization server with committed data, which is deleted after the test."""
    assert not owner.closed
    return auth_client


@pytest.fixture
def visitor(server: TestClient) -> Visitor:
    """A browser without cookies."""
    return Visitor(server)


@pytest.fixture(scope="session")
def password_hash() -> str:
    """The stored hash of PASSWORD."""
    return CHEAP.hash(PASSWORD)


def visitor_of(client: Client, settings: Settings, person: Person) -> Visitor:
    """Return a browser with a session of a person: a row and a cookie, as sign-in creates them.

    A sign-in takes 0.2 s of CPU where a server hashes passwords at full cost.
    """
    session = tokens.mint(tokens.SESSION, person.user_id)
    person.connection.execute(
        "insert into identity.session (user_id, session_hash) values (%s, %s)",
        [person.user_id, session.hash],
    )
    signer = sessions.signer(settings)
    cookie = signer.cookies.sign(session.text).decode()
    return Visitor(client, {signer.cookie_name: cookie})


Welcome = Callable[[Person], Visitor]


@pytest.fixture
def welcome(
    server: TestClient, settings: Settings, owner: psycopg.Connection[Any], password_hash: str
) -> Welcome:
    """Gives a person a password and returns a browser in which they are signed in."""

    def sign_in(person: Person) -> Visitor:
        owner.execute(
            "insert into identity.password (user_id, password_hash) values (%s, %s) "
            "on conflict do nothing",
            [person.user_id, password_hash],
        )
        return visitor_of(server, settings, person)

    return sign_in


@pytest.fixture
def alice_browser(welcome: Welcome, alice: Person) -> Visitor:
    """A browser in which alice is signed in."""
    return welcome(alice)


Register = Callable[..., Application]


@pytest.fixture
def register(server: TestClient) -> Register:
    """Registers applications."""

    def make(redirect_uri: str = CALLBACK, **members: Any) -> Application:
        response = server.post("/oauth/register", json={"redirect_uris": [redirect_uri]} | members)
        assert response.status_code == 201, response.text
        return Application(server, response.json()["client_id"], redirect_uri)

    return make


@pytest.fixture
def application(register: Register) -> Application:
    """An application with a name and one redirect URI."""
    return register(client_name="Weekly Report")


def store_dashboard(owner: psycopg.Connection[Any], base_url: str) -> None:
    """Store the dashboard as ``svc migrate`` does."""
    owner.execute(
        queries.load(SQL_DIR / "migrate.sql")["store_dashboard"],
        {
            "client_id": dashboard.DASHBOARD_CLIENT_ID,
            "client_name": dashboard.CLIENT_NAME,
            "redirect_uri": dashboard.redirect_uri(base_url),
        },
    )


@pytest.fixture
def own_pages(
    server: TestClient, settings: Settings, owner: psycopg.Connection[Any]
) -> Application:
    """The dashboard, which is an application of the authorization server like any other."""
    store_dashboard(owner, settings.base_url)
    return Application(
        server, dashboard.DASHBOARD_CLIENT_ID, dashboard.redirect_uri(settings.base_url)
    )


@pytest.fixture
def terminal(settings: Settings, owner: psycopg.Connection[Any]) -> Terminal:
    """A terminal of the operator's."""
    assert not owner.closed
    return Terminal(settings)


@pytest.fixture
def status(api: TestClient) -> Opens:
    """Sends a request with a token to the resource server and returns its status."""

    def ask(access_token: str, path: str = "/api/v1/me") -> int:
        response: Response = api.get(path, headers={"Authorization": f"Bearer {access_token}"})
        return response.status_code

    return ask
