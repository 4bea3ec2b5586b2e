"""Revocation (RFC 7009): checklist lines 42 to 46."""

import pytest
from starlette.testclient import TestClient

from shared import tokens
from tests.conftest import Person
from tests.oauth.conftest import Opens, Register
from tests.oauth.visitor import Application, Visitor


@pytest.mark.checklist(42)
@pytest.mark.parametrize(
    "token", ["x", "svc_rt_" + "0" * 71, "svc_dt_" + "0" * 71, "svc_ac_" + "0" * 71, "' or 1=1 --"]
)
def test_line_42_revoking_garbage_is_200(application: Application, token: str) -> None:
    response = application.revoke(token)

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.checklist(42)
def test_line_42_tokens_that_were_never_issued_are_200(
    application: Application, alice: Person
) -> None:
    refresh_token = tokens.mint(tokens.REFRESH, alice.user_id).text
    access_token = tokens.mint(tokens.ACCESS, alice.user_id).text

    assert application.revoke(refresh_token).status_code == 200
    assert application.revoke(access_token).status_code == 200


def test_revoking_a_code_does_nothing(application: Application, alice_browser: Visitor) -> None:
    code = application.code(alice_browser)

    response = application.revoke(code, client_id=application.client_id)

    assert response.status_code == 200
    assert application.exchange(code).status_code == 200


@pytest.mark.checklist(42)
@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_line_42_another_clients_token_is_200_and_nothing_changes(
    application: Application,
    register: Register,
    alice_browser: Visitor,
    status: Opens,
    kind: str,
) -> None:
    other = register()
    pair = application.pair(alice_browser)

    response = other.revoke(pair[kind], client_id=other.client_id)

    assert response.status_code == 200
    assert status(pair["access_token"]) == 200
    assert application.refresh(pair["refresh_token"]).status_code == 200


@pytest.mark.checklist(43, 44, 46)
@pytest.mark.parametrize("hint", ["access_token", "nonsense"])
@pytest.mark.parametrize("with_client", [True, False])
def test_lines_43_44_46_a_refresh_token_ends_its_grant_at_once(
    application: Application,
    alice_browser: Visitor,
    status: Opens,
    hint: str,
    with_client: bool,
) -> None:
    pair = application.pair(alice_browser)
    client = {"client_id": application.client_id} if with_client else {}

    response = application.revoke(pair["refresh_token"], token_type_hint=hint, **client)

    assert response.status_code == 200
    assert status(pair["access_token"]) == 401
    assert application.refresh(pair["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_rotated_refresh_token_ends_its_grant(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    first = application.pair(alice_browser)
    second = application.refresh(first["refresh_token"]).json()

    application.revoke(first["refresh_token"])

    assert status(second["access_token"]) == 401
    assert application.refresh(second["refresh_token"]).status_code == 400


@pytest.mark.checklist(43, 46)
def test_revoking_an_access_token_keeps_the_grant(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    pair = application.pair(alice_browser)

    response = application.revoke(pair["access_token"], token_type_hint="refresh_token")

    assert response.status_code == 200
    assert status(pair["access_token"]) == 401
    refreshed = application.refresh(pair["refresh_token"])
    assert refreshed.status_code == 200
    assert status(refreshed.json()["access_token"]) == 200


def test_any_holder_can_revoke_an_api_token(
    application: Application, alice: Person, status: Opens
) -> None:
    kept, ended = alice.token("read:profile"), alice.token("read:profile")

    foreign = application.revoke(kept, client_id=application.client_id)
    response = application.revoke(ended)

    assert foreign.status_code == 200
    assert response.status_code == 200
    assert status(kept) == 200
    assert status(ended) == 401
    rows = alice.connection.execute("select revoked_at is null from oauth.grant").fetchall()
    assert sorted(rows) == [(False,), (True,)]


def test_bobs_tokens_survive_alices_revocation(
    application: Application, alice_browser: Visitor, bob: Person, status: Opens
) -> None:
    pair = application.pair(alice_browser)
    bobs = bob.token("read:profile")

    application.revoke(pair["refresh_token"])

    assert status(bobs) == 200


@pytest.mark.checklist(45)
@pytest.mark.parametrize("body", [{}, {"token": ""}, {"token_type_hint": "refresh_token"}])
def test_line_45_a_missing_token_is_400(server: TestClient, body: dict[str, str]) -> None:
    response = server.post("/oauth/revoke", data=body)

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_request"


def test_a_repeated_token_is_400(server: TestClient) -> None:
    response = server.post("/oauth/revoke", data={"token": ["a", "b"]})

    assert response.status_code == 400


def test_get_is_405(server: TestClient) -> None:
    response = server.get("/oauth/revoke?token=x")

    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


def test_client_authentication_is_401_with_a_challenge(
    application: Application, alice_browser: Visitor, server: TestClient, status: Opens
) -> None:
    pair = application.pair(alice_browser)

    response = server.post(
        "/oauth/revoke",
        data={"token": pair["refresh_token"]},
        auth=(application.client_id, "secret"),
    )

    assert response.status_code == 401
    assert response.json()["error"] == "invalid_client"
    assert response.headers["www-authenticate"].startswith("Basic ")
    assert status(pair["access_token"]) == 200
