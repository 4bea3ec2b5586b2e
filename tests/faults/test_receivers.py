"""Receivers whose database hangs or is gone, or is busy with what others have sent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.integrations.receivers.wakatime import BASE
from shared import database
from shared.settings import Settings
from tests import limits
from tests.client import AppClient
from tests.conftest import Person, person
from tests.connecting import connect
from tests.faults.proxy import Proxy
from tests.processes import RESOURCE_ROLES
from tests.waiting import wait_for, wait_for_rivals

Rows = psycopg.Connection[Any]


@pytest.fixture
def client(deployment: Settings, way: Proxy) -> Iterator[TestClient]:
    """A resource server with receivers, which reaches its database only through the proxy."""
    roles = (*RESOURCE_ROLES, "importer")
    urls = {role: way.url(database.role_url(deployment, role)) for role in roles}
    chosen = replace(
        deployment,
        base_url="http://testserver",
        role_urls=urls,
        receivers=("owntracks", "listenbrainz", "wakatime"),
    )
    app = resourceserver.app.create(chosen)
    with AppClient(app, raise_server_exceptions=False) as opened:
        yield opened


def send(client: TestClient, key: str | None, second: int) -> int:
    """Send a place, and return the status of the answer."""
    place = {"_type": "location", "lat": 52.5, "lon": 13.4, "tst": 1_750_060_800 + second}
    headers = {"Authorization": f"Bearer {key}"}
    return client.post("/receive/owntracks", json=place, headers=headers).status_code


def is_taken(client: TestClient, key: str | None, second: int) -> bool:
    return send(client, key, second) == 200


def count(owner: Rows) -> int:
    (found,) = owner.execute("select count(*) from location.point").fetchone() or (0,)
    return int(found)


def test_what_is_sent_while_the_database_hangs_is_503_and_taken_later(
    client: TestClient, way: Proxy, owner: Rows, alice: Person
) -> None:
    key = connect(owner, alice, "owntracks").key
    before = send(client, key, 0)
    way.stop()
    with limits.short(), ThreadPoolExecutor() as background:
        hanging = [background.submit(send, client, key, each) for each in range(1, 9)]
        during = [each.result(60) for each in hanging]
        later = send(client, key, 9)
    way.restore()
    for second in range(1, 10):
        wait_for(partial(is_taken, client, key, second), "a place that is taken")

    assert (before, during, later) == (200, [503] * 8, 503)
    assert count(owner) == 10


def test_beats_that_are_sent_while_the_database_hangs_are_503_and_taken_once_later(
    client: TestClient, way: Proxy, owner: Rows, alice: Person
) -> None:
    key = connect(owner, alice, "wakatime").key

    def send_beat(second: int) -> int:
        beat = {"time": 1_750_060_800 + second, "entity": "app.py", "project": "svc"}
        headers = {"Authorization": f"Bearer {key}", "X-Machine-Name": "laptop"}
        return client.post(f"{BASE}/heartbeats", json=beat, headers=headers).status_code

    def is_beat_taken(second: int) -> bool:
        return send_beat(second) == 202

    before = [send_beat(each) for each in (0, 1)]
    way.stop()
    with limits.short(), ThreadPoolExecutor() as background:
        during = list(background.map(send_beat, range(2, 6)))
    way.restore()
    for second in range(2, 6):
        wait_for(partial(is_beat_taken, second), "a beat that is taken")

    assert (before, during) == ([202, 202], [503] * 4)
    assert owner.execute(
        "select metadata ->> 'beats', ended_at - started_at = '5 s' from activity.coding_session"
    ).fetchall() == [("6", True)]


def test_without_a_database_each_answer_is_503(
    client: TestClient, way: Proxy, owner: Rows, alice: Person
) -> None:
    key = connect(owner, alice, "owntracks").key
    way.cut()
    first = [send(client, key, 0) for _ in range(4)]
    way.restore()
    wait_for(partial(is_taken, client, key, 0), "the first place that is taken")
    way.cut()
    again = [send(client, key, 1) for _ in range(4)]
    way.restore()
    wait_for(partial(is_taken, client, key, 1), "the second place that is taken")

    assert (first, again) == ([503] * 4, [503] * 4)
    assert count(owner) == 2


def test_the_answer_without_a_database_says_when_to_send_again(
    client: TestClient, way: Proxy, owner: Rows, alice: Person
) -> None:
    paths = {
        "wakatime": f"{BASE}/users/current/heartbeats.bulk",
        "listenbrainz": "/1/submit-listens",
        "owntracks": "/receive/owntracks",
    }
    keys = {kind: connect(owner, alice, kind).key for kind in paths}
    way.cut()
    answers = [
        client.post(path, json=[{}], headers={"Authorization": f"Bearer {keys[kind]}"})
        for kind, path in paths.items()
    ]

    assert {(each.status_code, each.headers.get("retry-after")) for each in answers} == {(503, "1")}
    assert ["error" in each.json() for each in answers] == [True, True, True]


def test_deliveries_that_wait_keep_no_key_of_another_person_from_being_looked_up(
    client: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    phones = [connect(owner, each, "owntracks") for each in (alice, bob)]
    token = connect(owner, person(owner, "carol"), "listenbrainz").key
    headers = {"Authorization": f"Token {token}"}
    with ThreadPoolExecutor() as background:
        with owner.transaction():
            owner.execute("select from profile.connection where kind = 'owntracks' for update")
            sent = [
                background.submit(send, client, phones[each % 2].key, each) for each in range(6)
            ]
            wait_for_rivals(owner, 2)
            answer = client.get("/1/validate-token", headers=headers)
            are_done = [each.done() for each in sent]
        statuses = [each.result(60) for each in sent]

    assert (answer.json()["valid"], are_done) == (True, [False] * 6)
    assert statuses == [200] * 6
