"""Registration of clients (RFC 7591): checklist lines 5 to 13."""

from typing import Any

import pytest
from starlette.testclient import TestClient

REGISTER = "/oauth/register"
GOOD = {"redirect_uris": ["https://app.example/callback"]}


@pytest.mark.checklist(9)
def test_the_response_has_all_registered_metadata(server: TestClient) -> None:
    response = server.post(
        REGISTER,
        json={
            "client_name": "Weekly Report",
            "redirect_uris": ["https://app.example/callback", "http://127.0.0.1:3000/cb"],
            "scope": "read:profile read:activity",
        },
    )

    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body.pop("client_id").startswith("svc_client_")
    assert isinstance(body.pop("client_id_issued_at"), int)
    assert body == {
        "client_name": "Weekly Report",
        "redirect_uris": ["https://app.example/callback", "http://127.0.0.1:3000/cb"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": "read:activity read:profile",
    }


@pytest.mark.checklist(9)
def test_members_that_were_not_given_are_left_out(server: TestClient) -> None:
    response = server.post(REGISTER, json=GOOD | {"client_name": None, "scope": ""})

    assert response.status_code == 201
    assert response.json().keys() == {
        "client_id",
        "client_id_issued_at",
        "redirect_uris",
        "grant_types",
        "response_types",
        "token_endpoint_auth_method",
    }


@pytest.mark.checklist(9)
def test_unknown_members_are_ignored_and_not_returned(server: TestClient) -> None:
    response = server.post(
        REGISTER,
        json=GOOD
        | {
            "logo_uri": "https://app.example/logo.png",
            "application_type": "native",
            "token_endpoint_auth_method": "client_secret_post",
            "grant_types": ["authorization_code", "implicit"],
        },
    )

    assert response.status_code == 201
    assert "logo_uri" not in response.json()
    assert "client_secret" not in response.json()
    assert response.json()["token_endpoint_auth_method"] == "none"
    assert response.json()["grant_types"] == ["authorization_code", "refresh_token"]


@pytest.mark.checklist(12)
def test_registration_needs_no_authentication(server: TestClient) -> None:
    server.cookies.clear()

    response = server.post(REGISTER, json=GOOD)

    assert "authorization" not in response.request.headers
    assert "cookie" not in response.request.headers
    assert response.status_code == 201


@pytest.mark.checklist(11)
def test_two_registrations_with_the_same_metadata_get_different_ids(server: TestClient) -> None:
    first, second = server.post(REGISTER, json=GOOD), server.post(REGISTER, json=GOOD)

    assert first.json()["client_id"] != second.json()["client_id"]


@pytest.mark.checklist(7, 10)
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://app.example/cb"}, "invalid_redirect_uri"),
        ({"redirect_uris": [1]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://app.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.example/cb", "javascript:x"]}, "invalid_redirect_uri"),
        (
            {"redirect_uris": [f"https://app.example/{n}" for n in range(11)]},
            "invalid_redirect_uri",
        ),
        (
            {"redirect_uris": [f"https://{n}.example/{'a' * 1400}" for n in range(3)]},
            "invalid_redirect_uri",
        ),
        ({"client_name": "a" * 101}, "invalid_client_metadata"),
        ({"client_name": 7}, "invalid_client_metadata"),
        ({"scope": ["read:activity"]}, "invalid_client_metadata"),
        ({"scope": "read:everything"}, "invalid_scope"),
        ({"scope": "READ:ACTIVITY"}, "invalid_scope"),
        ({"scope": "read:activity,read:profile"}, "invalid_scope"),
        ({"scope": "read:activity\u0000"}, "invalid_scope"),
    ],
)
def test_metadata_that_cannot_be_registered_is_refused_by_name(
    server: TestClient, changed: dict[str, Any], error: str
) -> None:
    response = server.post(REGISTER, json=GOOD | changed)

    assert response.status_code == 400
    assert response.headers["cache-control"] == "no-store"
    assert response.json()["error"] == error
    assert response.json()["error_description"].isascii()


@pytest.mark.checklist(7)
def test_ten_redirect_uris_are_accepted(server: TestClient) -> None:
    uris = [f"https://app.example/{n}" for n in range(10)]

    response = server.post(REGISTER, json={"redirect_uris": uris})

    assert response.json()["redirect_uris"] == uris


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b'{"redirect_uris":',
        b"\xff\xfe",
        b"[" * 10000,
        b'{"a":NaN}x',
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(server: TestClient, body: bytes) -> None:
    response = server.post(REGISTER, content=body, headers={"Content-Type": "application/json"})

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_client_metadata"


def test_a_lone_surrogate_is_refused(server: TestClient) -> None:
    body = b'{"redirect_uris":["https://app.example/cb"],"client_name":"\\ud800"}'

    response = server.post(REGISTER, content=body, headers={"Content-Type": "application/json"})

    assert response.status_code == 400


@pytest.mark.checklist(13)
def test_a_form_body_is_refused(server: TestClient) -> None:
    response = server.post(REGISTER, data={"redirect_uris": "https://app.example/callback"})

    assert response.status_code == 400
    assert response.json()["error"] == "invalid_client_metadata"


@pytest.mark.checklist(13)
def test_a_body_of_a_megabyte_is_refused(server: TestClient) -> None:
    response = server.post(REGISTER, json=GOOD | {"client_name": "a" * 1_000_000})

    assert response.status_code == 413
    assert response.json()["error"] == "invalid_request"


@pytest.mark.checklist(10)
@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("Weekly\u202eReport", "WeeklyReport"),
        ("\u2066Weekly\u2069 Report\u200b", "Weekly Report"),
        ("Weekly\r\nReport\u0000", "WeeklyReport"),
        ("Weekly\u2028Report", "WeeklyReport"),
        ("<b>Report</b>", "<b>Report</b>"),
        ("W\u0435ekly", "W\u0435ekly"),
        ("📈 週報", "📈 週報"),
    ],
)
def test_invisible_characters_are_removed_from_a_name(
    server: TestClient, sent: str, kept: str
) -> None:
    response = server.post(REGISTER, json=GOOD | {"client_name": sent})

    assert response.json()["client_name"] == kept


@pytest.mark.checklist(10)
def test_a_name_of_a_hundred_characters_is_accepted(server: TestClient) -> None:
    response = server.post(REGISTER, json=GOOD | {"client_name": "é" * 100})

    assert response.status_code == 201
    assert response.json()["client_name"] == "é" * 100


@pytest.mark.checklist(10)
@pytest.mark.parametrize(
    "name",
    [
        "\u200b \u202e",
        "\u3164",
        "\u115f\u1160",
        "\uffa0 \u2800",
        "\u00a0\u3164\u2003",
        "\u034f",
        "\u3164\ufe0f",
    ],
)
def test_a_name_without_visible_characters_is_left_out(server: TestClient, name: str) -> None:
    response = server.post(REGISTER, json=GOOD | {"client_name": name})

    assert response.status_code == 201
    assert "client_name" not in response.json()
