"""Clients that others wrote, against the running servers: Authlib's, and the official SDK of MCP.

The person's side is the real pages: signed in, looked at, and submitted over HTTP as a browser would.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc6749.errors import MismatchingStateException
from authlib.oauth2.rfc8628 import DEVICE_CODE_GRANT_TYPE
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    handle_protected_resource_response,
)

from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.oauth.conftest import visitor_of
from tests.oauth.program import CALLBACK, Program, decide, expire_access_tokens
from tests.oauth.visitor import Visitor
from tests.processes import Service

ME: Final = "/api/v1/me"
DAILY: Final = "/api/v1/analytics/daily?from=2025-06-16&to=2025-06-17"


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers; devices without a browser may ask for access."""
    chosen = replace(deployment, device_authorization=True)
    with processes.service(chosen, tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture
def browser(service: Service, alice: Person) -> Iterator[Visitor]:
    """A browser in which alice is signed in."""
    with httpx2.Client(base_url=service.auth_url) as client:
        yield visitor_of(client, service.settings, alice)


def ask(service: Service, access_token: str) -> int:
    """Call the resource server without any client's help, and return the status of its answer."""
    headers = {"Authorization": f"Bearer {access_token}"}
    return httpx2.get(f"{service.base_url}{ME}", headers=headers).status_code


Authlib = Callable[..., OAuth2Client]


@pytest.fixture
def authlib(service: Service) -> Iterator[Authlib]:
    """Creates clients of Authlib's that know only the issuer, and register themselves."""
    opened: list[OAuth2Client] = []

    def make(scope: str = "read:activity read:profile") -> OAuth2Client:
        metadata = httpx2.get(f"{service.auth_url}{processes.METADATA}").json()
        registered = httpx2.post(
            metadata["registration_endpoint"],
            json={
                "client_name": "Weekly Report",
                "redirect_uris": [CALLBACK],
                "grant_types": ["authorization_code", "refresh_token", DEVICE_CODE_GRANT_TYPE],
            },
        ).json()
        client = OAuth2Client(
            client_id=registered["client_id"],
            token_endpoint_auth_method=registered["token_endpoint_auth_method"],
            redirect_uri=CALLBACK,
            scope=scope,
            code_challenge_method="S256",
            **metadata,
        )
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.close()


def let_in(
    client: OAuth2Client, browser: Visitor, further: Sequence[str] = (), **parameters: str
) -> dict[str, Any]:
    """Take a client of Authlib's through authorization and exchange; return the token response."""
    verifier = generate_token(48)
    url, state = client.create_authorization_url(
        client.metadata["authorization_endpoint"], code_verifier=verifier, **parameters
    )
    location = decide(browser, url, further=further)
    assert parse_qs(urlsplit(location).query)["iss"] == [client.metadata["issuer"]]
    pair: dict[str, Any] = client.fetch_token(
        authorization_response=location,
        state=state,
        code_verifier=verifier,
        redirect_uri=CALLBACK,
        **parameters,
    )
    return pair


@pytest.mark.checklist(2, 17, 31)
def test_authlib_gets_the_scopes_that_its_person_consented_to(
    service: Service, authlib: Authlib, browser: Visitor
) -> None:
    client = authlib()

    pair = let_in(client, browser)

    assert pair["token_type"] == "Bearer"
    assert pair["expires_in"] == 3600
    assert pair["scope"] == "read:activity read:profile"
    me = client.get(f"{service.base_url}{ME}")
    assert me.json()["data"]["email"] == "alice@example.org"
    assert client.get(f"{service.base_url}{DAILY}").status_code == 200


def test_authlib_gets_access_for_a_device_without_a_browser(
    service: Service, authlib: Authlib, browser: Visitor
) -> None:
    client = authlib()
    started = httpx2.post(
        client.metadata["device_authorization_endpoint"],
        data={"client_id": client.client_id, "scope": client.scope},
    ).json()
    poll = {"grant_type": DEVICE_CODE_GRANT_TYPE, "device_code": started["device_code"]}

    with pytest.raises(OAuthError, match="authorization_pending"):
        client.fetch_token(**poll)
    link = urlsplit(started["verification_uri_complete"])
    page = browser.get(f"{link.path}?{link.query}")
    browser.submit(browser.follow(browser.submit(page)), decision="allow")
    pair = client.fetch_token(**poll)

    assert pair["scope"] == "read:activity read:profile"
    me = client.get(f"{service.base_url}{ME}")
    assert me.json()["data"]["email"] == "alice@example.org"


@pytest.mark.checklist(35, 36)
def test_authlib_refreshes_by_itself_when_its_token_has_expired(
    service: Service, authlib: Authlib, browser: Visitor, alice: Person
) -> None:
    client = authlib()
    first = dict(let_in(client, browser))
    expire_access_tokens(alice)
    client.token["expires_at"] -= 3601
    assert ask(service, first["access_token"]) == 401

    me = client.get(f"{service.base_url}{ME}")

    assert me.status_code == 200
    assert client.token["access_token"] != first["access_token"]
    assert client.token["refresh_token"] != first["refresh_token"]
    assert client.token["scope"] == "read:activity read:profile"

    with pytest.raises(OAuthError, match="invalid_grant"):
        client.refresh_token(refresh_token=first["refresh_token"])
    assert client.get(f"{service.base_url}{ME}").status_code == 401


def let_in_with_health(service: Service, client: OAuth2Client, browser: Visitor) -> dict[str, Any]:
    """Take a client that asks for activity through a consent on which health is ticked as well."""
    resource = f"{service.base_url}/mcp"
    pair = let_in(client, browser, further=("read:health",), resource=resource)
    assert pair["scope"] == "read:activity read:health"
    return pair


@pytest.mark.checklist(37)
def test_authlib_narrows_the_grant_at_refresh_because_it_repeats_the_scope_that_it_asked_for(
    service: Service, authlib: Authlib, browser: Visitor
) -> None:
    client = authlib("read:activity")
    let_in_with_health(service, client, browser)

    renewed = client.refresh_token()

    assert renewed["scope"] == "read:activity"
    with pytest.raises(OAuthError, match="invalid_scope"):
        client.refresh_token(scope="read:activity read:health")


@pytest.mark.checklist(37)
def test_authlib_keeps_what_was_granted_if_it_takes_over_the_scope_of_the_answer(
    service: Service, authlib: Authlib, browser: Visitor
) -> None:
    client = authlib("read:activity")
    client.scope = let_in_with_health(service, client, browser)["scope"]

    renewed = client.refresh_token()

    assert renewed["scope"] == "read:activity read:health"


@pytest.mark.checklist(17, 28)
def test_authlib_refuses_an_answer_with_another_state_and_the_code_stays_unspent(
    service: Service, authlib: Authlib, browser: Visitor
) -> None:
    client = authlib()
    verifier = generate_token(48)
    url, state = client.create_authorization_url(
        client.metadata["authorization_endpoint"], code_verifier=verifier
    )
    location = decide(browser, url)
    kept = {"code_verifier": verifier, "redirect_uri": CALLBACK}

    with pytest.raises(MismatchingStateException):
        client.fetch_token(authorization_response=location, state="another", **kept)
    client.fetch_token(authorization_response=location, state=state, **kept)
    assert client.get(f"{service.base_url}{ME}").status_code == 200

    with pytest.raises(OAuthError, match="invalid_grant"):
        client.fetch_token(authorization_response=location, state=state, **kept)
    assert client.get(f"{service.base_url}{ME}").status_code == 401


@pytest.mark.checklist(44, 46)
@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_authlib_revokes_a_token(
    service: Service, authlib: Authlib, browser: Visitor, kind: str
) -> None:
    client = authlib()
    pair = let_in(client, browser)

    answer = client.revoke_token(
        client.metadata["revocation_endpoint"], token=pair[kind], token_type_hint=kind
    )

    assert answer.status_code == 200
    assert client.get(f"{service.base_url}{ME}").status_code == 401


@pytest.mark.checklist(52)
@pytest.mark.parametrize(("path", "status"), [("", 200), ("/", 200), ("/mcp", 401)])
def test_authlib_names_a_resource_and_its_token_is_for_that_one(
    service: Service, authlib: Authlib, browser: Visitor, path: str, status: int
) -> None:
    client = authlib()

    let_in(client, browser, resource=f"{service.base_url}{path}")

    assert client.get(f"{service.base_url}{ME}").status_code == status


@pytest.fixture
def mcp_client(service: Service, browser: Visitor) -> Program:
    """A program that uses the SDK, started for the first time."""
    return Program(service, browser, ME)


@pytest.mark.checklist(2, 3, 48)
def test_the_mcp_sdk_discovers_the_server_from_a_401(
    service: Service, mcp_client: Program, alice: Person
) -> None:
    (me,) = mcp_client.get(ME)

    assert me.json()["data"]["email"] == "alice@example.org"
    assert mcp_client.sent == [
        "GET /api/v1/me",
        "GET /.well-known/oauth-protected-resource",
        "GET /.well-known/oauth-authorization-server",
        "POST /oauth/register",
        "POST /oauth/token",
        "GET /api/v1/me",
    ]
    (asked,) = mcp_client.asked
    assert asked["code_challenge_method"] == "S256"
    assert asked["scope"] == "read:profile"
    assert asked["resource"] == service.base_url
    (exchange,) = mcp_client.forms
    assert exchange["resource"] == service.base_url
    assert len(exchange["code_verifier"]) == 128
    assert mcp_client.kept.tokens is not None
    assert mcp_client.kept.tokens.expires_in == 3600
    assert mcp_client.kept.tokens.scope == "read:profile"
    granted = alice.connection.execute(
        "select client_name, resource, grants.scopes from oauth.grant as grants "
        "join oauth.client using (client_id)"
    ).fetchall()
    assert granted == [("Notebook", service.base_url, ["read:profile"])]


@pytest.mark.checklist(3)
def test_the_mcp_sdk_reads_the_document_of_the_mcp_endpoint(service: Service) -> None:
    endpoint = f"{service.base_url}/mcp"
    first, *_ = build_protected_resource_metadata_discovery_urls(None, endpoint)

    document = asyncio.run(handle_protected_resource_response(httpx2.get(first)))

    assert document is not None
    assert str(document.resource) == endpoint
    assert [str(issuer) for issuer in document.authorization_servers] == [service.auth_url]


@pytest.mark.checklist(35)
def test_the_mcp_sdk_refreshes_by_itself_when_its_token_has_expired(
    service: Service, mcp_client: Program, alice: Person
) -> None:
    mcp_client.get(ME)
    first = mcp_client.kept.tokens
    assert first is not None
    expire_access_tokens(alice)
    assert ask(service, first.access_token) == 401
    # The SDK relies on its own clock. On a 401 it starts the authorization again.
    assert mcp_client.provider.context.token_expiry_time is not None
    mcp_client.provider.context.token_expiry_time -= 3601
    mcp_client.sent.clear()

    (me,) = mcp_client.get(ME)

    assert me.status_code == 200
    assert mcp_client.sent == ["POST /oauth/token", "GET /api/v1/me"]
    assert mcp_client.forms[-1]["grant_type"] == "refresh_token"
    assert mcp_client.forms[-1]["resource"] == service.base_url
    assert len(mcp_client.asked) == 1
    second = mcp_client.kept.tokens
    assert second is not None
    assert second.access_token != first.access_token
    assert second.refresh_token != first.refresh_token
    assert second.scope == "read:profile"


def test_the_mcp_sdk_keeps_working_after_a_restart(
    service: Service, browser: Visitor, mcp_client: Program
) -> None:
    mcp_client.get(ME)

    restarted = Program(service, browser, ME, mcp_client.kept)
    (me,) = restarted.get(ME)

    assert me.status_code == 200
    assert restarted.sent == ["GET /api/v1/me"]


@pytest.mark.checklist(50)
def test_the_mcp_sdk_requests_a_missing_scope(mcp_client: Program) -> None:
    me, days = mcp_client.get(ME, DAILY)

    assert (me.status_code, days.status_code) == (200, 200)
    assert [asked["scope"] for asked in mcp_client.asked] == [
        "read:profile",
        "read:profile read:activity",
    ]
    assert mcp_client.sent.count("POST /oauth/register") == 1


@pytest.mark.checklist(46)
def test_the_mcp_sdk_asks_its_person_again_after_a_revocation(
    service: Service, mcp_client: Program
) -> None:
    mcp_client.get(ME)
    assert mcp_client.kept.tokens is not None
    httpx2.post(
        f"{service.auth_url}/oauth/revoke", data={"token": mcp_client.kept.tokens.refresh_token}
    )

    (me,) = mcp_client.get(ME)

    assert me.status_code == 200
    assert len(mcp_client.asked) == 2
    assert mcp_client.sent.count("POST /oauth/register") == 1


@pytest.mark.checklist(20)
def test_the_mcp_sdk_gives_up_when_its_person_declines(mcp_client: Program) -> None:
    mcp_client.decision = "decline"

    with pytest.raises(OAuthFlowError, match="No authorization code received"):
        mcp_client.get(ME)

    assert "POST /oauth/token" not in mcp_client.sent


@pytest.mark.checklist(17)
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": "another"}, "State parameter mismatch"),
        ({"iss": "https://evil.example"}, "response iss mismatch"),
        ({"iss": None}, "missing iss"),
    ],
    ids=["another state", "another issuer", "no issuer"],
)
def test_the_mcp_sdk_refuses_a_response_of_another_issuer(
    mcp_client: Program, changes: dict[str, str | None], reason: str
) -> None:
    mcp_client.changes = changes

    with pytest.raises(OAuthFlowError, match=reason):
        mcp_client.get(ME)

    assert "POST /oauth/token" not in mcp_client.sent
