"""One batch, one transaction: rivals, revocations and failures during it."""

import asyncio
import json
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, LiteralString

import psycopg
import pytest
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.api import session
from resourceserver.api.errors import DatabaseUnavailable, Unauthorized
from resourceserver.ingest import route
from resourceserver.ingest.events import APP_SESSIONS, Row, judge, read_batch
from shared import database, tokens
from shared.pipeline import Pipelines
from shared.settings import Settings
from tests import limits
from tests.client import AppClient
from tests.conftest import Connect, Person
from tests.ingest.conftest import HOUR, PATH, SCOPE, Exchange, numbered
from tests.waiting import wait_for_rivals


def count(person: Person) -> int:
    row = person.connection.execute("select count(*) from activity.app_session").fetchone()
    assert row is not None
    return int(row[0])


def encoded(*events: Any) -> bytes:
    return json.dumps({"events": events}).encode()


def write(
    writers: Pipelines, who: session.Credential, rows: list[Row]
) -> Coroutine[Any, Any, route.Written]:
    """Write app sessions as a request does after its body was validated."""
    columns = route.columns_of(APP_SESSIONS, rows)
    return route.write(writers, who, APP_SESSIONS, rows, columns)


def interrupted(body: bytes, interrupt: Callable[[], object]) -> Iterator[bytes]:
    """A body in whose middle, after the check of the credential, a function is called."""
    yield body[:10]
    interrupt()
    yield body[10:]


def test_a_token_revoked_while_the_body_comes_writes_nothing(exchange: Any, alice: Person) -> None:
    headers = alice.headers(SCOPE)

    def revoke() -> None:
        alice.connection.execute("update oauth.access_token set revoked_at = now()")

    done = exchange(headers, interrupted(encoded(HOUR), revoke))

    assert (done.status, done.body["error"]) == (401, "unauthorized")
    assert count(alice) == 0


def test_an_account_deleted_while_the_body_comes_writes_nothing(
    exchange: Any, alice: Person
) -> None:
    headers = alice.headers(SCOPE)

    def leave() -> None:
        alice.connection.execute("delete from identity.user")

    done = exchange(headers, interrupted(encoded(HOUR), leave))

    assert done.status == 401
    assert count(alice) == 0


def test_connections_that_died_are_replaced(
    api: TestClient, alice: Person, ending_as: Connect
) -> None:
    headers = alice.headers(SCOPE)
    bystander = ending_as("ingester")
    first = api.post(PATH, json={"events": numbered([1])}, headers=headers)
    bystander.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where application_name = 'svc ingester' and datname = current_database()"
    )

    second = api.post(PATH, json={"events": numbered([2])}, headers=headers)

    assert first.json()["accepted"] == second.json()["accepted"] == 1


def test_an_unreachable_database_is_reported_and_the_retry_writes_everything(
    deployment: Settings, api: TestClient, alice: Person
) -> None:
    nowhere = {"ingester": "host=127.0.0.1 port=1 dbname=svc"}
    chosen = replace(deployment, base_url="http://testserver", role_urls=nowhere)
    batch = {"events": numbered(range(10))}
    headers = alice.headers(SCOPE)

    with AppClient(resourceserver.app.create(chosen)) as half_dead, limits.short():
        refused = half_dead.post(PATH, json=batch, headers=headers)
    lost = count(alice)
    retried = api.post(PATH, json=batch, headers=headers)

    assert (refused.status_code, refused.json()["error"]) == (503, "database_unavailable")
    assert int(refused.headers["retry-after"]) > 0
    assert lost == 0
    assert retried.json()["accepted"] == 10


def test_a_device_deleted_between_two_statements_fails_the_batch_and_drops_no_event(
    deployment: Settings, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token(SCOPE))
    assert token is not None
    who = session.Credential(token, (SCOPE,), ())
    batch = read_batch({"events": numbered([1, 2])})
    first, second = judge(APP_SESSIONS, batch, now_ms=2**42, full_urls=False).rows

    async def run() -> None:
        login = database.login(deployment, "ingester")
        with closing(Pipelines.to(login, size=1, depth=1, patience_s=30, prepare=True)) as writers:
            assert (await write(writers, who, [first])).new == 1
            with owner.transaction():
                # The statement has read the device, and then waits with the sessions until the device is
                # deleted.
                owner.execute("lock table activity.app_session in exclusive mode")
                later = asyncio.create_task(write(writers, who, [second]))
                await asyncio.to_thread(wait_for_rivals, owner, 1)
                assert not later.done()
                owner.execute("delete from activity.device")
            with pytest.raises(DatabaseUnavailable):
                await later

            assert (await write(writers, who, [second])).new == 1

    asyncio.run(run())
    assert count(alice) == 1


def test_a_token_revoked_while_the_batch_waits_writes_nothing(
    deployment: Settings, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    token = tokens.parse(tokens.ACCESS, alice.token(SCOPE))
    assert token is not None
    who = session.Credential(token, (SCOPE,), ())
    batch = read_batch({"events": numbered([1])})
    rows = judge(APP_SESSIONS, batch, now_ms=2**42, full_urls=False).rows

    async def run() -> None:
        login = database.login(deployment, "ingester")
        with closing(Pipelines.to(login, size=1, depth=1, patience_s=30, prepare=True)) as writers:
            with owner.transaction():
                # The session is open, and then the batch waits for a device of another transaction.
                owner.execute(HOLD_DEVICE_NAMED, ["default"])
                later = asyncio.create_task(write(writers, who, rows))
                await asyncio.to_thread(wait_for_rivals, owner, 1)
                assert not later.done()
                with psycopg.connect(owner.info.dsn, password=owner.info.password) as other:
                    other.execute("update oauth.access_token set revoked_at = now()")
            with pytest.raises(Unauthorized):
                await later

    asyncio.run(run())
    assert count(alice) == 0


@pytest.mark.parametrize("rivals", [2, 8])
def test_rivals_with_the_same_batch_write_it_once(
    api: TestClient, alice: Person, rivals: int
) -> None:
    body = encoded(*numbered(range(200)))

    results = together(api, [(alice.headers(SCOPE), body)] * rivals)

    assert sum(result["accepted"] for result in results) == 200
    assert sum(result["duplicates"] for result in results) == 200 * (rivals - 1)
    assert count(alice) == 200


HOLD_SESSION = """
insert into activity.app_session
       (user_id, idempotency_key, device_id, started_at, ended_at, app)
select user_id, 'laptop:2', device_id, now(), now(), 'x' from activity.device
"""
HOLD_DEVICE_NAMED = (
    "insert into activity.device (user_id, name) select user_id, %s from identity.user"
)
HOLD_DEVICE = "insert into activity.device (user_id, name) select user_id, '2' from identity.user"


@pytest.mark.parametrize("hold", [HOLD_SESSION, HOLD_DEVICE])
def test_rivals_in_opposite_order_do_not_deadlock(
    api: TestClient, alice: Person, owner: psycopg.Connection[Any], hold: LiteralString
) -> None:
    headers = {"Content-Type": "application/json"} | alice.headers(SCOPE)
    api.post(PATH, json={"events": numbered([0])}, headers=headers)
    events = [event | {"device": event["idempotency_key"][-1]} for event in numbered([1, 2, 3])]
    there = Exchange(api, headers, iter([encoded(*events)]), ends=True)
    back = Exchange(api, headers, iter([encoded(*reversed(events))]), ends=True)

    async def run() -> None:
        # The middle one of three is locked, so that each rival has its first before any has its last.
        owner.execute("begin")
        owner.execute(hold)
        rivals = asyncio.gather(there.run(), back.run())
        await asyncio.to_thread(wait_for_rivals, owner, 2)
        owner.execute("rollback")
        await rivals

    assert api.portal is not None
    api.portal.call(run)

    assert (there.status, back.status) == (200, 200)
    assert there.body["accepted"] + back.body["accepted"] == 3


def test_rivals_with_overlapping_batches_in_any_order_write_their_union(
    api: TestClient, alice: Person
) -> None:
    chance = random.Random(6)
    headers = alice.headers(SCOPE)
    posts = []
    sent = set()
    for _ in range(16):
        numbers = chance.sample(range(300), 150)
        sent |= set(numbers)
        events = [
            event | {"device": f"device {chance.randrange(5)}"} for event in numbered(numbers)
        ]
        posts.append((headers, encoded(*events)))

    results = together(api, posts)

    assert all(result["accepted"] + result["duplicates"] == 150 for result in results)
    assert sum(result["accepted"] for result in results) == count(alice) == len(sent)


def together(api: TestClient, posts: list[tuple[dict[str, str], bytes]]) -> list[Any]:
    """The answers to concurrent requests."""
    exchanges = [
        Exchange(api, {"Content-Type": "application/json"} | headers, iter([body]), ends=True)
        for headers, body in posts
    ]

    async def run() -> None:
        await asyncio.gather(*(made.run() for made in exchanges))

    assert api.portal is not None
    api.portal.call(run)
    assert [made.status for made in exchanges] == [200] * len(exchanges)
    return [made.body for made in exchanges]
