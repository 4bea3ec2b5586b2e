"""The texts and links that set up applications."""

import base64
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from shared.setups import setup

KEY = "svc_ik_7kQ+/=&?"
"""A key with characters that links must escape."""


def test_the_link_of_overland_has_address_and_key() -> None:
    link = setup("overland", "https://svc.example", KEY).link or ""

    assert link.startswith("overland://setup?url=https%3A%2F%2Fsvc.example%2Freceive%2Foverland&")
    assert parse_qs(urlsplit(link).query) == {
        "url": ["https://svc.example/receive/overland"],
        "token": [KEY],
        "device_id": ["phone"],
    }


def test_the_link_of_owntracks_contains_a_configuration() -> None:
    link = setup("owntracks", "https://svc.example/", KEY).link or ""

    assert link.startswith("owntracks:///config?inline=")
    (inline,) = parse_qs(urlsplit(link).query)["inline"]
    assert json.loads(base64.b64decode(inline)) == {
        "_type": "configuration",
        "mode": 3,
        "url": "https://svc.example/receive/owntracks",
        "auth": True,
        "username": "svc",
        "password": KEY,
    }


def test_applications_without_headers_get_the_key_in_the_address() -> None:
    ready = setup("osmand", "https://svc.example", "svc_ik_abc")
    texts = dict(ready.texts)

    assert texts["Address for Traccar Client"] == "https://svc.example/receive/osmand/svc_ik_abc"
    assert texts["Address for GPSLogger"].startswith(
        "https://svc.example/receive/osmand/svc_ik_abc?lat=%LAT&lon=%LON&timestamp=%TIMESTAMP&"
    )
    assert "logs" in "".join(ready.warnings)


def test_the_lines_of_wakatime_are_a_configuration_file() -> None:
    texts = dict(setup("wakatime", "https://svc.example", "0b7c").texts)

    assert texts["~/.wakatime.cfg"] == (
        "[settings]\napi_url = https://svc.example/api/compat/wakatime/v1\napi_key = 0b7c\n"
    )


@pytest.mark.parametrize("kind", ["wakatime", "listenbrainz", "owntracks", "overland", "health"])
def test_each_application_gets_the_key_to_copy(kind: str) -> None:
    ready = setup(kind, "https://svc.example", "svc_ik_abc")

    assert ready.steps
    assert any("svc_ik_abc" in text for _, text in ready.texts)


@pytest.mark.parametrize("address", ["http://localhost:8401", "http://[::1]:8401"])
def test_only_phones_are_warned_of_an_address_that_they_cannot_reach(address: str) -> None:
    warned = [
        kind
        for kind in ("wakatime", "listenbrainz", "owntracks", "overland", "osmand", "health")
        if "cannot reach" in "".join(setup(kind, address, KEY).warnings)
    ]

    assert warned == ["owntracks", "overland", "osmand", "health"]
    assert setup("overland", "https://svc.example", KEY).warnings == ()


def test_wakatime_warns_of_the_option_that_ignores_the_address() -> None:
    assert "--today ignores api_url" in "".join(
        setup("wakatime", "https://svc.example", KEY).warnings
    )
