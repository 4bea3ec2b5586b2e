"""Client id metadata documents: addresses, what a document must and must not have, how long it is kept."""

import json
from typing import Any

import pytest

from authserver.errors import UnusableDocument
from authserver.oauth import client_ids, documents
from authserver.oauth.clients import Client
from tests.oauth.visitor import CALLBACK

URL = "https://calendar.example/client.json"
VALID = {"client_id": URL, "client_name": "Notebook", "redirect_uris": [CALLBACK]}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 3600),
        ({"cache-control": "no-store"}, 3600),
        ({"cache-control": "max-age=60"}, 3600),
        ({"cache-control": "public, Max-Age=7200"}, 7200),
        ({"cache-control": "max-age=7300", "age": "100"}, 7200),
        ({"cache-control": "max-age=31536000"}, 86400),
        ({"cache-control": "max-age=7200", "age": "old"}, 3600),
        ({"cache-control": "s-maxage=7200"}, 3600),
        (
            {
                "date": "Mon, 23 Nov 2026 10:00:00 GMT",
                "expires": "Mon, 23 Nov 2026 12:00:00 GMT",
            },
            7200,
        ),
        ({"date": "Mon, 23 Nov 2026 10:00:00 GMT", "expires": "0"}, 3600),
        ({"expires": "Mon, 23 Nov 2026 12:00:00 GMT"}, 3600),
    ],
)
def test_headers_say_how_long_a_document_is_kept(headers: dict[str, str], seconds: int) -> None:
    assert documents.lifetime(headers).total_seconds() == seconds


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"client_id": URL + "?"}, "its client_id is not the address"),
        ({"client_id": URL.replace("calendar", "Calendar")}, "its client_id is not the address"),
        ({"client_name": "\u200b"}, "client_name: it has no visible character"),
        ({"client_name": "x" * 101}, "client_name: at most 100 characters"),
        ({"redirect_uris": []}, "redirect_uris: List should have at least 1 item"),
        ({"redirect_uris": CALLBACK}, "redirect_uris: Input should be a valid array"),
        ({"redirect_uris": [f"https://a.example/{n}" for n in range(11)]}, "at most 10 items"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "must not have the scheme javascript"),
        ({"redirect_uris": ["http://192.168.7.1/cb"]}, "must have the host 127.0.0.1"),
        ({"client_secret": "x"}, "must not have client_secret"),
        ({"client_secret_expires_at": 0}, "must not have client_secret_expires_at"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "should be 'none'"),
        ({"token_endpoint_auth_method": None}, "should be 'none'"),
        ({"jwks": {"keys": [{"kty": "EC", "x": "a", "y": "b", "d": "c"}]}}, "a private key"),
        ({"jwks": {"keys": [{"kty": "oct", "k": "a"}]}}, "a private key"),
    ],
)
def test_an_invalid_document_is_refused(changed: dict[str, Any], reason: str) -> None:
    body = json.dumps(VALID | changed).encode()

    with pytest.raises(UnusableDocument) as error:
        documents.client_of(URL, body)

    assert reason in error.value.description


def test_other_members_of_a_document_are_ignored() -> None:
    others = {
        "scope": "openid read:everything",
        "logo_uri": "https://evil.example/logo.png",
        "jwks": {"keys": [{"kty": "EC", "x": "a", "y": "b"}]},
        "token_endpoint_auth_method": "none",
    }

    client = documents.client_of(URL, json.dumps(VALID | others).encode())

    assert client == Client(URL, "Notebook", [CALLBACK], None)


@pytest.mark.parametrize(
    ("client_id", "host"),
    [
        (URL, "calendar.example"),
        ("https://app.example/", "app.example"),
        ("https://app.example:8443/a?b=/../c", "app.example:8443"),
        ("https://[2001:db8::1]/a", "[2001:db8::1]"),
        ("https://app.example", None),
        ("http://app.example/a", None),
        ("HTTPS://app.example/a", None),
        ("https://me@app.example/a", None),
        ("https://app.example/a#b", None),
        ("https://app.example/a/../b", None),
        ("https://app.example/./b", None),
        ("https://app.example/%2e%2E/b", None),
        ("https://app.example/%252e/b", None),
        ("https://app.example/a\n", None),
        ("https://app.example/a b", None),
        ("https://app.example/%zz", None),
        ("https://app.example/" + "a" * 500, None),
    ],
)
def test_an_address_has_a_path_and_neither_user_nor_fragment_nor_dot_segments(
    client_id: str, host: str | None
) -> None:
    assert client_ids.document_host(client_id) == host
