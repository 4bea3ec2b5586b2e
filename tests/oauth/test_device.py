"""Device authorization (RFC 8628): the codes that a device gets."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg
import pytest
from httpx2 import Response
from starlette.testclient import TestClient

import authserver.app
from authserver.people import throttle
from authserver.people.passwords import Hasher
from shared import tokens
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.oauth.conftest import CHEAP, visitor_of
from tests.oauth.visitor import CALLBACK, Visitor

Rows = psycopg.Connection[Any]

ENDPOINT: Final = "/oauth/device_authorization"
GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:device_code"
METADATA: Final = "/.well-known/oauth-authorization-server"


@pytest.fixture(scope="module")
def enabled(settings: Settings) -> Iterator[TestClient]:
    """An authorization server whose operator has switched device authorization on."""
    app = authserver.app.create(replace(settings, device_authorization=True), hasher=Hasher(CHEAP))
    with AppClient(app, "http://localhost:8400", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def client(enabled: TestClient, owner: Rows) -> TestClient:
    """That server on data that is deleted after the test."""
    assert not owner.closed
    return enabled


@pytest.fixture
def browser(client: TestClient, settings: Settings, alice: Person) -> Visitor:
    """A browser in which alice is signed in."""
    return visitor_of(client, settings, alice)


@dataclass(frozen=True)
class Device:
    """A device that has requested its codes."""

    client: TestClient
    client_id: str
    codes: dict[str, Any]

    def poll(self, **changed: str | None) -> Response:
        given = {
            "grant_type": GRANT_TYPE,
            "device_code": self.codes["device_code"],
            "client_id": self.client_id,
        } | changed
        sent = {name: value for name, value in given.items() if value is not None}
        return self.client.post("/oauth/token", data=sent)

    def error(self, **changed: str | None) -> str:
        response = self.poll(**changed)
        assert response.status_code in (400, 401), response.text
        assert response.headers["cache-control"] == "no-store"
        error: str = response.json()["error"]
        return error


def register(client: TestClient, **metadata: Any) -> dict[str, Any]:
    given = {"redirect_uris": [CALLBACK], "client_name": "Tracker"} | metadata
    response = client.post("/oauth/register", json=given)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


def start(client: TestClient, **changed: str) -> Device:
    client_id = register(client)["client_id"]
    given = {"client_id": client_id, "scope": "ingest:app_sessions read:profile"} | changed
    response = client.post(ENDPOINT, data=given)
    assert response.status_code == 200, response.text
    return Device(client, client_id, response.json())


@pytest.fixture
def device(client: TestClient) -> Device:
    """A device that waits for its person."""
    return start(client)


def enter(browser: Visitor, user_code: str) -> Response:
    """Type a code."""
    return browser.submit(browser.get("/device"), user_code=user_code)


def consent(browser: Visitor, device: Device) -> Response:
    """Return the consent page for a device."""
    return browser.follow(enter(browser, device.codes["user_code"]))


def allow(browser: Visitor, device: Device, **changed: Any) -> Response:
    return browser.submit(consent(browser, device), decision="allow", **changed)


# Off


def test_without_the_setting_nothing_of_it_is_there(
    server: TestClient, settings: Settings, alice: Person
) -> None:
    registered = register(server, grant_types=["authorization_code", GRANT_TYPE])
    visitor = visitor_of(server, settings, alice)
    sent = {"client_id": registered["client_id"]}
    device = Device(server, registered["client_id"], {"device_code": "svc_dc_x"})

    assert "device" not in server.get(METADATA).text
    assert registered["grant_types"] == ["authorization_code", "refresh_token"]
    assert server.post(ENDPOINT, data=sent).status_code == 404
    assert visitor.get("/device").status_code == 404
    assert device.error() == "unsupported_grant_type"


# The codes


def test_the_metadata_and_a_registration_name_the_grant_type(client: TestClient) -> None:
    document = client.get(METADATA).json()

    assert document["device_authorization_endpoint"] == f"http://localhost:8400{ENDPOINT}"
    assert GRANT_TYPE in document["grant_types_supported"]
    assert GRANT_TYPE not in register(client)["grant_types"]
    assert GRANT_TYPE in register(client, grant_types=[GRANT_TYPE])["grant_types"]
    assert register(client, grant_types={"x": 1})["grant_types"] == [
        "authorization_code",
        "refresh_token",
    ]


def test_a_device_gets_codes_of_which_only_hashes_are_stored(
    client: TestClient, device: Device, owner: Rows
) -> None:
    codes = device.codes
    user_code = codes["user_code"]

    assert codes == {
        "device_code": codes["device_code"],
        "user_code": user_code,
        "verification_uri": "http://localhost:8400/device",
        "verification_uri_complete": f"http://localhost:8400/device?user_code={user_code}",
        "expires_in": 900,
        "interval": 5,
    }
    assert len(user_code) == 9
    assert user_code[4] == "-"
    assert set(user_code) <= set("BCDFGHJKLMNPQRSTVWXZ-")
    assert tokens.parse(tokens.DEVICE, codes["device_code"]) is not None
    stored = str(owner.execute("select d::text from oauth.device_authorization as d").fetchall())
    assert codes["device_code"] not in stored
    assert user_code not in stored
    assert user_code.replace("-", "") not in stored


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"client_id": ""}, "invalid_request"),
        ({"client_id": "svc_client_0000000000000000000000"}, "invalid_client"),
        ({"client_id": "https://app.example/client"}, "invalid_client"),
        ({"scope": "everything"}, "invalid_scope"),
        ({"resource": "https://elsewhere.example"}, "invalid_target"),
    ],
)
def test_a_wrong_request_for_codes_is_refused(
    client: TestClient, changed: dict[str, str], error: str, owner: Rows
) -> None:
    given = {"client_id": register(client)["client_id"]} | changed

    response = client.post(ENDPOINT, data=given)

    assert response.json()["error"] == error
    assert owner.execute("select from oauth.device_authorization").fetchall() == []


def test_requests_for_codes_are_counted_by_address(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "_FREE_AUTHORIZATIONS", 2)
    sent = {"client_id": register(client)["client_id"]}

    statuses = [client.post(ENDPOINT, data=sent).status_code for _ in range(3)]

    assert statuses == [200, 200, 429]
