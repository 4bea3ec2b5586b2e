"""Who may upload: tickets open uploads and nothing else, for pages of the authorization server alone."""

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.description import openapi
from shared import tokens
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.uploads.conftest import PATH, TUS, MakeSender, sender

ORIGIN = "http://localhost:8400"


def test_a_ticket_opens_no_other_route(
    uploads: TestClient, sends: MakeSender, alice: Person
) -> None:
    headers = sends(alice).headers()
    operations = [each for each in openapi.operations() if each.scopes is not None]

    answers = [uploads.request(each.method, each.path, headers=headers) for each in operations]
    answers.append(uploads.post("/mcp", headers=headers, json={}))

    assert len(operations) > 30
    assert {(answer.status_code, answer.json()["error"]) for answer in answers} == {
        (401, "unauthorized")
    }


def test_nothing_but_a_ticket_opens_uploads(
    uploads: TestClient, sends: MakeSender, alice: Person, bob: Person
) -> None:
    one = sends(alice)
    forged = tokens.mint(tokens.UPLOAD, alice.user_id).text
    presented = [
        {},
        {"Authorization": f"Basic {one.ticket.text}"},
        {"Cookie": f"session={one.ticket.text}"},
        {"Authorization": f"Bearer {one.ticket.text}x"},
        {"Authorization": f"Bearer {forged}"},
        alice.headers(),
        {"Authorization": f"Bearer {tokens.mint(tokens.UPLOAD, bob.user_id).text}"},
    ]

    answers = [
        uploads.request(method, path, headers=TUS | headers)
        for headers in presented
        for method, path in (("POST", PATH), ("HEAD", one.path), ("PATCH", one.path))
    ]
    in_an_address = uploads.post(f"{PATH}?ticket={one.ticket.text}", headers=TUS)

    assert {answer.status_code for answer in (*answers, in_an_address)} == {401}
    assert {answer.headers["www-authenticate"] for answer in answers} == {
        'Bearer realm="uploads"',
        'Bearer realm="uploads", error="invalid_token"',
    }


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_do_not_exist(
    uploads: TestClient, sends: MakeSender, alice: Person, method: str
) -> None:
    one = sends(alice)

    answers = [uploads.request(method, path, headers=one.headers()) for path in (PATH, one.path)]

    assert [answer.status_code for answer in answers] == [405, 405]
    assert [set(answer.headers["allow"].split(", ")) for answer in answers] == [
        {"POST"},
        {"PATCH"},
    ]


def test_only_pages_of_the_authorization_server_may_upload(
    uploads: TestClient, sends: MakeSender, alice: Person
) -> None:
    one = sends(alice)
    asking = {
        "Access-Control-Request-Method": "PATCH",
        "Access-Control-Request-Headers": "authorization,tus-resumable,upload-offset",
    }

    preflights = [
        uploads.options(one.path, headers=asking | {"Origin": origin})
        for origin in (ORIGIN, "https://evil.example")
    ]
    created = uploads.post(PATH, headers={"Origin": ORIGIN} | one.headers())
    refused = uploads.head(one.path, headers={"Origin": "https://evil.example"})

    assert [answer.status_code for answer in preflights] == [204, 204]
    opened, closed = preflights
    assert opened.headers["access-control-allow-origin"] == ORIGIN
    assert opened.headers["access-control-allow-methods"] == "POST, PATCH, HEAD"
    assert set(opened.headers["access-control-allow-headers"].split(", ")) == {
        *("Authorization", "Content-Type", "Tus-Resumable"),
        *("Upload-Length", "Upload-Metadata", "Upload-Offset"),
    }
    assert created.headers.get_list("access-control-allow-origin") == [ORIGIN]
    assert set(created.headers["access-control-expose-headers"].split(", ")) == {
        *("Location", "Retry-After", "Tus-Resumable", "Tus-Version"),
        *("Upload-Length", "Upload-Offset", "X-Request-Id"),
    }
    for answer in (closed, refused):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    for answer in (*preflights, created, refused):
        (vary,) = answer.headers.get_list("vary")
        assert vary.split(", ").count("Origin") == 1


def test_without_a_directory_uploads_are_off(deployment: Settings, alice: Person) -> None:
    chosen = replace(deployment, base_url="http://testserver", upload_dir=None)
    with AppClient(resourceserver.app.create(chosen)) as client:
        one = sender(client, alice)
        answers = [
            one.create(4),
            one.look(),
            one.send(0, b"x"),
            client.post(PATH, data={"ticket": one.ticket.text}, files={"file": ("a", b"x")}),
            client.post(PATH),
        ]

    assert [answer.status_code for answer in answers] == [503, 503, 503, 503, 401]
    assert answers[0].json()["error"] == "storage_unavailable"
