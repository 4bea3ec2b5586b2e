"""Wrong keys, which are counted by address and not looked up once they are too many."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.integrations.receivers.receiving import WRONG_KEYS, WrongKeys
from shared import database
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.processes import RESOURCE_ROLES
from tests.receivers.connecting import connect

NOBODY = UUID(int=0)


def test_addresses_of_a_48_are_counted_together_after_many_of_them() -> None:
    wrong = WrongKeys()
    for network in range(16):
        for _ in range(WRONG_KEYS):
            wrong.note(f"2001:db8:1:{network:x}::1")

    assert wrong.are_too_many("2001:db8:1:0::2", None)
    assert wrong.are_too_many("2001:db8:1:ff::1", None)
    assert not wrong.are_too_many("2001:db8:2::1", None)


def test_a_key_that_was_right_counts_once_it_is_replaced() -> None:
    wrong, key_hash = WrongKeys(), b"k" * 32
    wrong.accept(key_hash, NOBODY)
    for _ in range(WRONG_KEYS):
        wrong.note("192.0.2.1")
    before = wrong.are_too_many("192.0.2.1", key_hash)
    wrong.note("192.0.2.1", key_hash)

    assert (before, wrong.are_too_many("192.0.2.1", key_hash)) == (False, True)


@pytest.fixture
def client(deployment: Settings) -> Iterator[TestClient]:
    """A resource server with the receiver of OwnTracks."""
    urls = {role: database.role_url(deployment, role) for role in (*RESOURCE_ROLES, "importer")}
    chosen = replace(
        deployment, base_url="http://testserver", role_urls=urls, receivers=("owntracks",)
    )
    with AppClient(resourceserver.app.create(chosen), raise_server_exceptions=False) as opened:
        yield opened


def test_an_iphone_keeps_its_places_while_others_of_its_address_send_wrong_keys(
    client: TestClient, owner: psycopg.Connection[object], alice: Person
) -> None:
    # It throws away what is answered with 429, and keeps what is answered with 503.
    connected = connect(owner, alice, "owntracks")
    for _ in range(WRONG_KEYS):
        client.post("/receive/owntracks", headers={"Authorization": "Bearer x"})

    answer = client.post("/receive/owntracks", json={}, headers=connected.bearer)

    assert answer.status_code == 503
