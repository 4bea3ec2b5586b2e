"""Device authorization (RFC 8628): the codes, the page for the person, and the polls of the device."""

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from html import unescape
from typing import Any, Final
from urllib.parse import urlsplit

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
from tests.oauth.conftest import CHEAP, PASSWORD, visitor_of
from tests.oauth.visitor import CALLBACK, Application, Visitor, forms

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
    client_id = register(client, grant_types=[GRANT_TYPE])["client_id"]
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
    given = {"client_id": register(client, grant_types=[GRANT_TYPE])["client_id"]} | changed

    response = client.post(ENDPOINT, data=given)

    assert response.json()["error"] == error
    assert owner.execute("select from oauth.device_authorization").fetchall() == []


@pytest.mark.parametrize("grant_types", [None, ["authorization_code", "refresh_token"]])
def test_an_application_that_has_not_registered_for_devices_gets_no_codes(
    client: TestClient, owner: Rows, grant_types: list[str] | None
) -> None:
    registered = register(client, **({"grant_types": grant_types} if grant_types else {}))

    response = client.post(ENDPOINT, data={"client_id": registered["client_id"]})

    assert (response.status_code, response.json()["error"]) == (400, "unauthorized_client")
    assert owner.execute("select from oauth.device_authorization").fetchall() == []


def test_requests_for_codes_are_counted_by_address(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "_FREE_AUTHORIZATIONS", 2)
    sent = {"client_id": register(client, grant_types=[GRANT_TYPE])["client_id"]}

    statuses = [client.post(ENDPOINT, data=sent).status_code for _ in range(3)]

    assert statuses == [200, 200, 429]


# The person


def test_a_device_gets_what_its_person_ticks(
    browser: Visitor, device: Device, alice: Person, owner: Rows
) -> None:
    assert device.error() == "authorization_pending"
    page = consent(browser, device)
    allowed = browser.submit(page, decision="allow", scope="ingest:app_sessions", days="30")

    assert "Tracker" in page.text
    assert "The device that shows the code" in page.text
    assert "if another person gave you the code" in page.text
    assert allowed.status_code == 200
    assert "Your device continues by itself" in allowed.text
    pair = device.poll()
    assert pair.status_code == 200, pair.text
    assert pair.headers["cache-control"] == "no-store"
    body = pair.json()
    assert (body["scope"], body["token_type"], body["expires_in"]) == (
        "ingest:app_sessions", "Bearer", 3600
    )  # fmt: skip
    granted = owner.execute(
        "select user_id, client_id, expires_at - created_at = '30 days' from oauth.grant"
    ).fetchall()
    assert granted == [(alice.user_id, device.client_id, True)]
    renewed = Application(device.client, device.client_id).refresh(body["refresh_token"])
    assert renewed.status_code == 200
    noted = owner.execute(
        "select event from identity.security_event order by occurred_at, event_id"
    ).fetchall()
    assert [event for (event,) in noted] == ["consented", "token_created"]
    assert device.error() == "invalid_grant"


def test_a_link_with_the_code_shows_it_and_asks(browser: Visitor, device: Device) -> None:
    link = urlsplit(device.codes["verification_uri_complete"])

    page = browser.get(f"{link.path}?{link.query}")

    assert f"<code>{device.codes['user_code']}</code>" in page.text
    assert "Does your device show this code now?" in page.text
    assert "Allow" not in page.text
    assert device.error() == "authorization_pending"
    assert "Allow access to your data?" in browser.follow(browser.submit(page)).text


def test_a_link_with_the_code_leads_through_the_sign_in(
    client: TestClient, device: Device, alice: Person, owner: Rows
) -> None:
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [alice.user_id, CHEAP.hash(PASSWORD)],
    )
    stranger = Visitor(client)
    link = urlsplit(device.codes["verification_uri_complete"])

    signing_in = stranger.follow(stranger.get(f"{link.path}?{link.query}"))
    page = stranger.follow(
        stranger.submit(signing_in, email="alice@example.org", password=PASSWORD)
    )

    assert f"<code>{device.codes['user_code']}</code>" in page.text


def test_a_link_with_the_code_may_be_used_with_another_account(
    browser: Visitor, device: Device, bob: Person, owner: Rows
) -> None:
    owner.execute(
        "insert into identity.password (user_id, password_hash) values (%s, %s)",
        [bob.user_id, CHEAP.hash(PASSWORD)],
    )
    link = urlsplit(device.codes["verification_uri_complete"])
    of_alice = browser.get(f"{link.path}?{link.query}")

    signing_in = browser.follow(browser.submit(of_alice, form=1))
    of_bob = browser.follow(browser.submit(signing_in, email="bob@example.org", password=PASSWORD))

    assert "Signed in as <strong>alice@example.org</strong>" in of_alice.text
    assert "Signed in as <strong>bob@example.org</strong>" in of_bob.text
    assert f"<code>{device.codes['user_code']}</code>" in of_bob.text


@pytest.mark.parametrize("link", ["x", "AAAA-AAAA", "BCDF-GHJ", "%3Cscript%3E", "%00", "B" * 3000])
def test_a_link_with_something_else_shows_the_empty_form(browser: Visitor, link: str) -> None:
    page = browser.get(f"/device?user_code={link}")

    assert page.status_code == 200
    assert dict(forms(page)[0].fields)["user_code"] == ""


def test_a_code_may_be_typed_in_any_way(browser: Visitor, device: Device) -> None:
    letters = device.codes["user_code"].replace("-", "").lower()

    assert enter(browser, f" {letters[:3]} {letters[3:]} ").status_code == 303


@pytest.mark.parametrize("typed", ["BCDF-GHJK", "x", "", "\0", "é" * 50])
def test_a_wrong_code_is_refused(browser: Visitor, device: Device, typed: str) -> None:
    assert enter(browser, typed).status_code == 400
    assert device.error() == "authorization_pending"


def test_declining_denies_the_device(browser: Visitor, device: Device, owner: Rows) -> None:
    page = consent(browser, device)

    declined = browser.submit(page, decision="decline")

    assert "Declined" in declined.text
    assert device.error() == "access_denied"
    assert owner.execute("select from oauth.grant").fetchall() == []
    assert enter(browser, device.codes["user_code"]).status_code == 400
    assert browser.submit(page, decision="allow").status_code == 400


def test_the_last_browser_that_enters_a_code_decides_and_once(
    browser: Visitor, client: TestClient, settings: Settings, bob: Person, device: Device
) -> None:
    first = consent(browser, device)
    bobs = visitor_of(client, settings, bob)
    second = consent(bobs, device)

    assert browser.submit(first, decision="allow").status_code == 400
    assert bobs.submit(second, decision="allow").status_code == 200
    assert bobs.submit(second, decision="allow").status_code == 400
    assert enter(browser, device.codes["user_code"]).status_code == 400


def test_a_device_that_was_allowed_elsewhere_cannot_be_declined(
    browser: Visitor, client: TestClient, settings: Settings, bob: Person, owner: Rows
) -> None:
    bobs = visitor_of(client, settings, bob)
    allowed, other = start(client), start(client)
    page = consent(bobs, other)
    allow(browser, allowed)
    # As if alice had allowed it while bob entered its code.
    owner.execute(
        """
        update oauth.device_authorization as device
           set user_id = allowed.user_id,
               grant_id = allowed.grant_id
          from oauth.device_authorization as allowed
         where device.grant_id is null
           and allowed.grant_id is not null
        """
    )

    declined = bobs.submit(page, decision="decline")

    assert declined.status_code == 400
    assert "Declined" not in declined.text


def test_eight_decisions_at_once_give_one_grant(
    browser: Visitor, device: Device, owner: Rows
) -> None:
    page = consent(browser, device)
    rivals = [Visitor(browser.client, dict(browser.cookies)) for _ in range(8)]

    with ThreadPoolExecutor(8) as at_once:
        statuses = list(
            at_once.map(lambda each: each.submit(page, decision="allow").status_code, rivals)
        )

    assert Counter(statuses) == {200: 1, 400: 7}
    assert len(owner.execute("select from oauth.grant").fetchall()) == 1


def test_a_code_that_expires_before_the_decision_gives_nothing(
    browser: Visitor, device: Device, owner: Rows
) -> None:
    page = consent(browser, device)
    owner.execute("update oauth.device_authorization set expires_at = now()")

    assert browser.submit(page, decision="allow").status_code == 400
    assert owner.execute("select from oauth.grant").fetchall() == []
    assert device.error() == "expired_token"
    assert enter(browser, device.codes["user_code"]).status_code == 400


def test_a_form_of_another_site_enters_no_code(browser: Visitor, device: Device) -> None:
    fields = dict(forms(browser.get("/device"))[0].fields) | {
        "user_code": device.codes["user_code"]
    }

    cross = browser.post("/device", fields, headers={"Sec-Fetch-Site": "cross-site"})
    forged = browser.post("/device", fields | {"csrf": "x"})

    assert (cross.status_code, forged.status_code) == (403, 403)


@pytest.mark.parametrize("free", ["_FREE_FOR_ACCOUNT", "_FREE_FOR_ADDRESS"])
def test_wrong_codes_are_delayed_by_account_and_by_address(
    browser: Visitor, device: Device, monkeypatch: pytest.MonkeyPatch, free: str
) -> None:
    monkeypatch.setattr(throttle, free, 2)
    right = device.codes["user_code"]

    statuses = [enter(browser, typed).status_code for typed in (right, right, right)]
    statuses += [enter(browser, "BCDF-GHJK").status_code for _ in range(3)]
    refused = enter(browser, right)

    # A right code is uncounted.
    assert statuses == [303, 303, 303, 400, 400, 429]
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0


# The polls


def test_a_device_that_polls_too_soon_waits_longer_for_good(device: Device, owner: Rows) -> None:
    def passes(seconds: int) -> None:
        owner.execute(
            "update oauth.device_authorization set polled_at = polled_at - make_interval(secs => %s)",
            [seconds],
        )

    errors = [device.error(), device.error(), device.error()]
    passes(14)
    errors.append(device.error())
    passes(21)
    errors.append(device.error())

    # After three polls too soon the interval is 20 s, and stays so.
    assert errors == [
        "authorization_pending", "slow_down", "slow_down", "slow_down", "authorization_pending"
    ]  # fmt: skip
    assert owner.execute("select interval_s from oauth.device_authorization").fetchone() == (20,)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"device_code": None}, "invalid_request"),
        ({"device_code": "x"}, "invalid_grant"),
        ({"device_code": tokens.mint(tokens.DEVICE, tokens.NOBODY).text}, "invalid_grant"),
        ({"device_code": tokens.mint(tokens.CODE, tokens.NOBODY).text}, "invalid_grant"),
        ({"client_id": None}, "invalid_request"),
        ({"device_code": "x", "client_id": "x"}, "invalid_client"),
        ({"resource": "http://testserver/mcp"}, "invalid_target"),
    ],
)
def test_a_wrong_poll_is_refused_and_redeems_nothing(
    browser: Visitor, device: Device, changed: dict[str, str | None], error: str
) -> None:
    allow(browser, device)

    assert device.error(**changed) == error
    assert device.poll().status_code == 200


def test_another_client_gets_nothing_for_a_device_code(browser: Visitor, device: Device) -> None:
    allow(browser, device)

    assert device.error(client_id=register(device.client)["client_id"]) == "invalid_grant"
    assert device.poll().status_code == 200


def test_ten_polls_at_once_redeem_once(browser: Visitor, device: Device, owner: Rows) -> None:
    allow(browser, device)

    with ThreadPoolExecutor(10) as at_once:
        responses = list(at_once.map(lambda _: device.poll(), range(10)))

    assert Counter(response.status_code for response in responses) == {200: 1, 400: 9}
    (pair,) = [each.json() for each in responses if each.status_code == 200]
    refreshed = Application(device.client, device.client_id).refresh(pair["refresh_token"])
    assert refreshed.status_code == 200
    assert len(owner.execute("select from oauth.refresh_token").fetchall()) == 2


def test_an_allowed_device_that_comes_late_gets_nothing(
    browser: Visitor, device: Device, owner: Rows
) -> None:
    allow(browser, device)
    owner.execute("update oauth.device_authorization set expires_at = now()")

    assert device.error() == "expired_token"


def test_access_that_was_revoked_before_the_first_poll_gives_nothing(
    browser: Visitor, device: Device
) -> None:
    allow(browser, device)
    page = browser.get("/settings/apps")
    question = re.search(r"/settings/revoke\?[^\"]+", page.text)
    assert question is not None
    asked = browser.get(unescape(question[0]))
    form = [each.action for each in forms(asked)].index("/settings/revoke")
    browser.submit(asked, form=form)

    assert device.error() == "invalid_grant"
