"""The exchange of a code for a token pair: checklist lines 26 to 34."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from shared import tokens
from tests.conftest import Person
from tests.oauth.conftest import Opens, Register, Welcome
from tests.oauth.visitor import CALLBACK, VERIFIER, Application, Visitor

Rows = psycopg.Connection[Any]


def test_a_code_is_exchanged_for_a_valid_token_pair(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    response = application.exchange(application.code(alice_browser))

    assert response.status_code == 200
    assert status(response.json()["access_token"]) == 200


@pytest.mark.checklist(31)
def test_line_31_the_token_response_follows_the_standard(
    application: Application, alice_browser: Visitor
) -> None:
    response = application.exchange(application.code(alice_browser))

    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert tokens.parse(tokens.ACCESS, body.pop("access_token"))
    assert tokens.parse(tokens.REFRESH, body.pop("refresh_token"))
    assert body == {
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": "read:activity read:profile",
    }


@pytest.mark.checklist(26)
@pytest.mark.parametrize(
    ("verifier", "error"),
    [
        (None, "invalid_request"),
        ("", "invalid_request"),
        (VERIFIER[:42], "invalid_request"),
        ("a" * 129, "invalid_request"),
        (VERIFIER + "=", "invalid_request"),
        (VERIFIER + " ", "invalid_request"),
        (VERIFIER + "\n", "invalid_request"),
        ("é" * 43, "invalid_request"),
        (VERIFIER + "x", "invalid_grant"),
        (VERIFIER.upper(), "invalid_grant"),
        ("a" * 128, "invalid_grant"),
    ],
)
def test_line_26_a_wrong_verifier_is_refused_and_the_code_stays_valid(
    application: Application, alice_browser: Visitor, verifier: str | None, error: str
) -> None:
    code = application.code(alice_browser)

    refused = application.exchange(code, code_verifier=verifier)

    assert refused.status_code == 400
    assert refused.json()["error"] == error
    assert application.exchange(code).status_code == 200


@pytest.mark.parametrize("name", ["code", "client_id", "redirect_uri"])
def test_a_missing_parameter_is_an_invalid_request_and_the_code_stays_valid(
    application: Application, alice_browser: Visitor, name: str
) -> None:
    code = application.code(alice_browser)
    presented: dict[str, Any] = {"code": code} | {name: ""}

    refused = application.exchange(**presented)

    assert refused.status_code == 400
    assert refused.json()["error"] == "invalid_request"
    assert name in refused.json()["error_description"]
    assert application.exchange(code).status_code == 200


@pytest.mark.checklist(27)
def test_line_27_a_code_is_bound_to_its_client(
    application: Application, register: Register, alice_browser: Visitor
) -> None:
    other = register()
    code = application.code(alice_browser)

    refused = other.exchange(code)

    assert refused.status_code == 400
    assert refused.json()["error"] == "invalid_grant"
    assert application.exchange(code).status_code == 200


@pytest.mark.checklist(27)
def test_line_27_a_code_is_bound_to_its_redirect_uri(
    application: Application, alice_browser: Visitor
) -> None:
    code = application.code(alice_browser)

    refused = application.exchange(code, redirect_uri=f"{CALLBACK}/")

    assert refused.status_code == 400
    assert refused.json()["error"] == "invalid_grant"
    assert application.exchange(code).status_code == 200


@pytest.mark.checklist(28)
def test_line_28_a_second_use_revokes_both_tokens_of_the_first(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()
    before = status(pair["access_token"])

    second = application.exchange(code)

    assert before == 200
    assert second.status_code == 400
    assert second.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401
    assert application.refresh(pair["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.checklist(28)
@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "svc_client_0000000000000000000000"},
        {"client_id": "nobody"},
        {"client_id": None},
        {"redirect_uri": "https://evil.example/"},
        {"redirect_uri": None},
        {"code_verifier": "b" * 43},
        {"code_verifier": "short"},
        {"code_verifier": None},
        {"resource": "https://other.example"},
        {"resource": "http://testserver"},
    ],
)
def test_line_28_a_second_use_revokes_whatever_else_is_wrong(
    application: Application,
    alice_browser: Visitor,
    status: Opens,
    changed: dict[str, str | None],
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()

    second = application.exchange(code, **changed)

    assert second.status_code == 400
    assert second.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401


@pytest.mark.checklist(28)
def test_line_28_a_second_use_by_another_client_revokes(
    application: Application, register: Register, alice_browser: Visitor, status: Opens
) -> None:
    thief = register()
    code = application.code(alice_browser)
    pair = application.exchange(code).json()

    second = thief.exchange(code)

    assert second.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401


@pytest.mark.checklist(28)
def test_line_28_a_second_use_with_a_malformed_form_revokes(
    application: Application, alice_browser: Visitor, server: TestClient, status: Opens
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()

    second = server.post(
        "/oauth/token",
        content=f"grant_type=authorization_code&code={code}&client_id=a&client_id=b",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )

    assert second.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401


def test_a_second_use_leaves_another_grant_of_the_same_client_alone(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    code = application.code(alice_browser)
    application.exchange(code)
    other = application.pair(alice_browser)

    application.exchange(code)

    assert status(other["access_token"]) == 200


@pytest.mark.checklist(29)
def test_line_29_of_eight_concurrent_exchanges_one_wins_and_the_grant_is_revoked(
    application: Application, alice_browser: Visitor, status: Opens, owner: Rows
) -> None:
    for _ in range(5):
        code = application.code(alice_browser)

        with ThreadPoolExecutor(8) as rivals:
            responses = list(rivals.map(application.exchange, [code] * 8))

        won = [response for response in responses if response.status_code == 200]
        lost = [response for response in responses if response.status_code == 400]
        assert len(won) == 1
        assert len(lost) == 7
        assert {response.json()["error"] for response in lost} == {"invalid_grant"}
        assert status(won[0].json()["access_token"]) == 401
        assert application.refresh(won[0].json()["refresh_token"]).status_code == 400
    live = owner.execute("select count(*) from oauth.grant where revoked_at is null").fetchone()
    assert live == (0,)


@pytest.mark.checklist(30)
def test_line_30_a_code_expires_after_a_minute(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    code = application.code(alice_browser)
    lifetime = owner.execute(
        "select extract(epoch from expires_at - issued_at)::int from oauth.authorization_code"
    ).fetchone()
    owner.execute("update oauth.authorization_code set expires_at = now()")

    response = application.exchange(code)

    assert lifetime == (60,)
    assert response.status_code == 400
    assert response.json()["error"] == "invalid_grant"


@pytest.mark.checklist(32)
def test_line_32_get_is_405(server: TestClient) -> None:
    response = server.get("/oauth/token?grant_type=authorization_code")

    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"] == "invalid_request"


@pytest.mark.checklist(32)
@pytest.mark.parametrize(
    "body",
    [
        {"json": {"grant_type": "authorization_code"}},
        {"files": {"grant_type": (None, "authorization_code")}},
        {"content": b"grant_type=authorization_code"},
        {"content": b"grant_type=x", "headers": {"Content-Type": "text/plain"}},
        {},
    ],
)
def test_line_32_another_body_than_a_form_is_refused(
    server: TestClient, body: dict[str, Any]
) -> None:
    response = server.post("/oauth/token", **body)

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_request"


def test_parameters_of_the_content_type_are_ignored(
    application: Application, alice_browser: Visitor, server: TestClient
) -> None:
    code = application.code(alice_browser)

    response = server.post(
        "/oauth/token",
        content=f"grant_type=authorization_code&code={code}&client_id={application.client_id}"
        f"&redirect_uri=https%3A%2F%2Fapp.example%2Fcallback&code_verifier={VERIFIER}&unknown=1&empty=",
        headers={"Content-Type": "Application/X-WWW-Form-Urlencoded ; charset=UTF-8"},
    )

    assert response.status_code == 200


@pytest.mark.checklist(33)
@pytest.mark.parametrize(
    ("grant_type", "error"),
    [
        (None, "invalid_request"),
        ("", "invalid_request"),
        ("password", "unsupported_grant_type"),
        ("client_credentials", "unsupported_grant_type"),
        ("AUTHORIZATION_CODE", "unsupported_grant_type"),
    ],
)
def test_line_33_a_missing_or_unknown_grant_type_is_refused(
    application: Application, grant_type: str | None, error: str
) -> None:
    response = application.token(grant_type=grant_type, code="x", client_id=application.client_id)

    assert response.status_code == 400
    assert response.json()["error"] == error


@pytest.mark.checklist(34)
@pytest.mark.parametrize("code", ["real", "x", "svc_ac_" + "0" * 71])
@pytest.mark.parametrize("client_id", ["svc_client_0000000000000000000000", "x", "é'"])
def test_line_34_an_unknown_client_is_401(
    application: Application, alice_browser: Visitor, code: str, client_id: str
) -> None:
    real = application.code(alice_browser)

    response = application.exchange(real if code == "real" else code, client_id=client_id)

    assert response.status_code == 401
    assert response.json()["error"] == "invalid_client"
    assert response.headers["www-authenticate"] == 'Basic realm="svc"'
    assert application.exchange(real).status_code == 200


def test_client_authentication_is_401_with_a_challenge(
    application: Application, alice_browser: Visitor, server: TestClient
) -> None:
    code = application.code(alice_browser)

    response = server.post(
        "/oauth/token",
        data={"grant_type": "authorization_code", "code": code},
        auth=(application.client_id, "secret"),
    )

    assert response.status_code == 401
    assert response.json()["error"] == "invalid_client"
    assert response.headers["www-authenticate"].startswith("Basic ")
    assert application.exchange(code).status_code == 200


@pytest.mark.parametrize("code", ["x", "svc_ac_" + "0" * 71, "svc_rt_" + "A" * 71, "' or 1=1 --"])
def test_a_code_that_was_never_issued_is_an_invalid_grant(
    application: Application, code: str
) -> None:
    response = application.exchange(code)

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_grant"


def test_a_code_with_another_persons_id_in_it_finds_nothing(
    application: Application, alice_browser: Visitor, bob: Person
) -> None:
    application.code(alice_browser)

    response = application.exchange(tokens.mint(tokens.CODE, bob.user_id).text)

    assert response.json()["error"] == "invalid_grant"


def test_the_resource_must_be_sent_again_unchanged(
    application: Application, alice_browser: Visitor
) -> None:
    code = application.code(alice_browser, resource="http://testserver/mcp")

    absent = application.exchange(code)
    different = application.exchange(code, resource="http://testserver")
    foreign = application.exchange(code, resource="https://other.example")
    same = application.exchange(code, resource="HTTP://TestServer/mcp")

    assert [absent.json()["error"], different.json()["error"], foreign.json()["error"]] == [
        "invalid_target",
        "invalid_target",
        "invalid_target",
    ]
    assert same.status_code == 200


def test_a_resource_that_was_not_authorized_is_refused(
    application: Application, alice_browser: Visitor
) -> None:
    code = application.code(alice_browser)

    refused = application.exchange(code, resource="http://testserver")

    assert refused.json()["error"] == "invalid_target"
    assert application.exchange(code).status_code == 200


@pytest.mark.checklist(52)
@pytest.mark.parametrize(
    ("resource", "opens"),
    [
        (None, 200),
        ("http://testserver", 200),
        ("http://testserver/", 200),
        ("http://testserver/mcp", 401),
    ],
)
def test_line_52_a_token_is_valid_for_the_resource_that_it_is_bound_to(
    application: Application,
    alice_browser: Visitor,
    api: TestClient,
    resource: str | None,
    opens: int,
) -> None:
    pair = application.pair(
        alice_browser, scope="read:profile ingest:app_sessions", resource=resource
    )
    bearer = {"Authorization": f"Bearer {pair['access_token']}"}

    read = api.get("/api/v1/me", headers=bearer)
    written = api.post("/api/v1/ingest/app-sessions", json={"events": []}, headers=bearer)

    assert [read.status_code, written.status_code] == [opens, opens]
    if opens == 401:
        assert 'error="invalid_token"' in read.headers["www-authenticate"]
        assert 'error="invalid_token"' in written.headers["www-authenticate"]


@pytest.mark.checklist(53)
def test_line_53_a_code_or_refresh_token_is_not_an_access_token(
    application: Application, alice_browser: Visitor, status: Opens
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()

    assert status(code) == 401
    assert status(pair["refresh_token"]) == 401


def test_only_hashes_are_stored(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()

    stored = str(
        owner.execute(
            "select c::text, r::text, a::text from oauth.authorization_code as c, "
            "oauth.refresh_token as r, oauth.access_token as a"
        ).fetchall()
    )

    for secret in (code, pair["access_token"], pair["refresh_token"]):
        assert secret not in stored
        assert secret[7:-6] not in stored


@pytest.mark.parametrize(
    "body",
    [
        "grant_type=authorization_code&code={code}&code=x&client_id={client_id}",
        "grant_type=authorization_code&code=x&code={code}&client_id={client_id}",
        "grant_type=authorization_code&code={code}&code={code}&client_id={client_id}",
        "grant_type=refresh_token&code={code}&client_id={client_id}",
        "grant_type=refresh_token&code={code}&refresh_token=x&client_id={client_id}",
        "grant_type=password&code={code}",
        "code={code}",
    ],
)
def test_a_second_use_is_detected_anywhere_in_the_form(
    application: Application, alice_browser: Visitor, server: TestClient, status: Opens, body: str
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()

    second = server.post(
        "/oauth/token",
        content=body.format(code=code, client_id=application.client_id),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )

    assert second.status_code == 400
    assert second.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401


def test_a_second_use_in_the_query_revokes(
    application: Application, alice_browser: Visitor, server: TestClient, status: Opens
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()

    second = server.post(f"/oauth/token?code={code}", data={"grant_type": "authorization_code"})

    assert second.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401


def test_a_second_use_beside_a_good_refresh_revokes_and_rotates_nothing(
    application: Application, alice_browser: Visitor, status: Opens, owner: Rows
) -> None:
    code = application.code(alice_browser)
    pair = application.exchange(code).json()

    second = application.refresh(pair["refresh_token"], code=code)

    assert second.json()["error"] == "invalid_grant"
    assert status(pair["access_token"]) == 401
    assert owner.execute("select count(*) from oauth.refresh_token").fetchone() == (1,)


def test_every_spent_code_of_a_request_revokes_its_grant(
    application: Application, alice_browser: Visitor, server: TestClient, status: Opens
) -> None:
    codes = [application.code(alice_browser) for _ in range(2)]
    pairs = [application.exchange(code).json() for code in codes]

    server.post("/oauth/token", data={"code": codes})

    assert [status(pair["access_token"]) for pair in pairs] == [401, 401]


def test_a_code_that_is_not_spent_survives_a_request_that_mentions_it(
    application: Application, alice_browser: Visitor, server: TestClient
) -> None:
    code = application.code(alice_browser)

    repeated = server.post("/oauth/token", data={"code": [code, code]})
    in_query = server.post(f"/oauth/token?code={code}", data={"grant_type": "x"})

    assert repeated.json()["error"] == "invalid_request"
    assert in_query.json()["error"] == "invalid_request"
    assert application.exchange(code).status_code == 200


def test_a_grant_that_was_revoked_since_the_consent_gives_no_tokens(
    application: Application, alice_browser: Visitor, owner: Rows
) -> None:
    code = application.code(alice_browser)
    owner.execute("update oauth.grant set revoked_at = now()")

    response = application.exchange(code)

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_grant"
    assert owner.execute("select count(*) from oauth.access_token").fetchone() == (0,)
    assert owner.execute("select count(*) from oauth.refresh_token").fetchone() == (0,)


def test_an_account_can_be_deleted_while_it_gets_tokens_without_a_deadlock(
    application: Application, welcome: Welcome, owner: Rows
) -> None:
    for _ in range(5):
        row = owner.execute(
            "insert into identity.user (email) values ('carol@example.org') returning user_id"
        ).fetchone()
        assert row is not None
        browser = welcome(Person(row[0], "carol@example.org", owner))
        codes = [application.code(browser) for _ in range(3)]
        refresh_tokens = [application.pair(browser)["refresh_token"] for _ in range(3)]

        with ThreadPoolExecutor(7) as rivals:
            issuing = [rivals.submit(application.exchange, code) for code in codes]
            issuing += [rivals.submit(application.refresh, token) for token in refresh_tokens]
            deleting = rivals.submit(owner.execute, "delete from identity.user")
            statuses = {rival.result().status_code for rival in issuing}

        assert deleting.result().rowcount == 1
        assert statuses <= {200, 400}
        assert owner.execute("select count(*) from oauth.access_token").fetchone() == (0,)
