"""Batches whose connection to the database is cut, silent or blocked: nothing is lost or stored twice."""

import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, LiteralString

import httpx2
import pytest
from starlette.testclient import TestClient

import resourceserver.app
from resourceserver.api import session
from shared.settings import Settings
from tests.conftest import Connect, Person
from tests.faults.proxy import Direction, Proxy, Trap
from tests.faults.tracker import (
    SCOPES,
    Answer,
    Rows,
    Tracker,
    assert_whole,
    body,
    each_stream,
    length_of_exchange,
    path,
    serving,
    spread,
    through,
)
from tests.waiting import wait_for


@pytest.fixture
def client(deployment: Settings, way: Proxy) -> Iterator[TestClient]:
    """The resource server, which reaches the database only through the proxy."""
    with serving(deployment, way) as opened:
        yield opened


@contextmanager
def impatient(deployment: Settings, way: Proxy, sender: Tracker, person: Person) -> Iterator[None]:
    """Have the sender post to a server whose database may take only half a second for an answer."""
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(resourceserver.app, "PATIENT_S", 0.5)
        limits.setattr(session, "QUICK_S", 0.5)
        with serving(deployment, way) as opened:
            sender.post = through(opened, person, sender.stream).post
            yield


@each_stream
@pytest.mark.parametrize("direction", ["asked", "answered"])
@pytest.mark.parametrize("is_warm", [True, False], ids=["connected", "connecting"])
@pytest.mark.proof
def test_a_connection_cut_after_any_number_of_bytes_loses_and_doubles_nothing(
    client: TestClient, way: Proxy, alice: Person, count: int, record_property: Any, stream: str,
    direction: Direction, is_warm: bool,
) -> None:  # fmt: skip
    sender = through(client, alice, stream)
    sender.send(0)
    if not is_warm:
        way.break_off()
    length = length_of_exchange(way, direction, sender, 1)

    for number, after in enumerate(spread(length, count), 2):
        if not is_warm:
            way.break_off()
        way.trap = Trap(direction, after, way.break_off)
        sender.send(number)
        assert way.trap is None, "the connection was not cut"

    record_property("cuts between server and database", count)
    assert_whole(alice.connection, alice.user_id, [sender])
    # A request is complete only with its last byte; with the last byte of the answer it has been executed.
    assert sender.first_attempts["lost" if direction == "asked" else "written"] >= count // 4


@each_stream
def test_a_batch_takes_three_round_trips_at_most(
    client: TestClient, way: Proxy, alice: Person, stream: str
) -> None:
    sender = through(client, alice, stream)
    sender.send(0)

    before = way.round_trips
    sender.send(1)
    took = way.round_trips - before

    assert 1 <= took <= 3


@each_stream
@pytest.mark.parametrize("direction", ["asked", "answered"])
def test_a_batch_that_arrives_late_is_written_once(
    deployment: Settings, client: TestClient, way: Proxy, alice: Person, stream: str,
    direction: Direction,
) -> None:  # fmt: skip
    sender = through(client, alice, stream)
    sender.send(0)
    length = length_of_exchange(way, direction, sender, 1)
    sender.mend = way.restore
    became = []

    with impatient(deployment, way, sender, alice):
        sender.send(2)
        for number, after in enumerate(spread(length, 4), 3):
            way.trap = Trap(direction, after, way.hang)
            became.append(sender.send(number))
            assert way.trap is None, "nothing was held back"
            way.restore()

    assert_whole(alice.connection, alice.user_id, [sender])
    assert became.count("answered") < 2


@contextmanager
def limited(owner: Rows, limit: LiteralString) -> Iterator[None]:
    """Have a limit of the ingester's be shorter, for connections of this block."""
    (name,) = owner.execute("select quote_ident(current_database())").fetchone() or ("",)
    owner.execute(f"alter role svc_ingester in database {name} set {limit}")
    try:
        yield
    finally:
        owner.execute(f"alter role svc_ingester in database {name} reset all")


HOLDS: dict[str, LiteralString] = {
    "the day": "insert into activity.summary_due (user_id, date) values (%s, '2020-01-02')",
    "a device": "insert into activity.device (user_id, name) values (%s, 'device 0001')",
}


@each_stream
@pytest.mark.parametrize("limit", ["lock_timeout = '200ms'", "statement_timeout = '200ms'"])
@pytest.mark.parametrize("hold", HOLDS)
def test_a_batch_that_waits_too_long_is_not_written_and_the_retry_is(
    client: TestClient, alice: Person, stream: str, limit: LiteralString, hold: str
) -> None:
    owner = alice.connection
    sender = through(client, alice, stream)
    sender.mend = lambda: owner.execute("rollback")

    with limited(owner, limit):
        sender.send(0)
        owner.execute("begin")
        owner.execute(HOLDS[hold], [alice.user_id])
        became = sender.send(1)

    assert became == "lost"
    assert_whole(owner, alice.user_id, [sender])


@each_stream
def test_a_vanished_server_locks_its_rows_no_longer_than_a_transaction_may_last(
    deployment: Settings, client: TestClient, way: Proxy, alice: Person, connect_as: Connect,
    stream: str,
) -> None:  # fmt: skip
    if alice.connection.info.server_version < 170000:
        pytest.skip("before PostgreSQL 17 nothing but the network ends a transaction that hangs")
    sender = through(client, alice, stream)
    (allowed,) = connect_as("ingester").execute("show transaction_timeout").fetchone() or ("",)
    assert allowed == "25s"

    sender.send(0)
    length = length_of_exchange(way, "asked", sender, 1)
    with (
        limited(alice.connection, "transaction_timeout = '1s'"),
        impatient(deployment, way, sender, alice),
    ):
        sender.send(2)
        # Everything has arrived except the end of the last message, the sync.
        way.trap = Trap("asked", length - 1, way.hang)
        try:
            became = sender.send(3)
        finally:
            way.restore()

    assert became == "lost"
    assert_whole(alice.connection, alice.user_id, [sender])


# Two trackers of one person


def pad(device: str, day: str) -> dict[str, Any]:
    """Return a batch of one event, of a third tracker."""
    event = {"started_at": f"{day}T09:00:00Z", "duration_ms": 0, "app": "Code", "project": "svc"}
    return {"events": [event | {"idempotency_key": "pad", "device": device}]}


@contextmanager
def stuck(client: TestClient, way: Proxy, person: Person, stream: str) -> Iterator[Future[str]]:
    """Have a batch written, all but the end of its transaction, until the end of the block."""
    sender = through(client, person, stream)
    sender.send(0)
    length = length_of_exchange(way, "asked", sender, 1)
    way.trap = Trap("asked", length - 1, way.hang)
    with ThreadPoolExecutor(1) as background:
        try:
            later = background.submit(sender.send, 2)
            until(person.connection, A_BATCH_IS_WRITTEN)
            yield later
        finally:
            way.restore()


@each_stream
def test_a_tracker_on_another_device_does_not_wait_for_a_batch_of_other_days(
    client: TestClient, api: TestClient, way: Proxy, alice: Person, stream: str
) -> None:
    headers = alice.headers(*SCOPES)

    with stuck(client, way, alice, stream) as later:
        answer = api.post(path(stream), json=pad("tablet", "2021-06-16"), headers=headers)
        was_done = later.done()

    assert not was_done
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
    assert later.result() == "answered"


@each_stream
@pytest.mark.parametrize(
    ("device", "day"), [("laptop", "2021-06-16"), ("tablet", "2020-01-03")], ids=["device", "day"]
)
def test_a_tracker_on_the_same_device_or_of_the_same_day_waits_for_one_batch_and_no_longer(
    client: TestClient, api: TestClient, way: Proxy, alice: Person, stream: str, device: str, day: str
) -> None:  # fmt: skip
    headers = alice.headers(*SCOPES)

    with ThreadPoolExecutor(1) as background, stuck(client, way, alice, stream) as first:
        second = background.submit(api.post, path(stream), json=pad(device, day), headers=headers)
        until(alice.connection, A_BATCH_WAITS)
        were_done = first.done(), second.done()

    assert were_done == (False, False)
    assert (first.result(), second.result().json()["accepted"]) == ("answered", 1)


# Clients


def request(token: str, where: str, content: bytes) -> bytes:
    head = (
        f"POST {where} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


@each_stream
@pytest.mark.proof
def test_a_batch_cut_after_any_number_of_bytes_is_written_whole_or_not_at_all(
    port: int, alice: Person, count: int, record_property: Any, stream: str
) -> None:
    token = alice.token(*SCOPES)
    gone_after: list[int] = []

    with httpx2.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    ) as patient:

        def post(where: str, content: bytes) -> Answer | None:
            if not gone_after:
                answer = patient.post(where, content=content)
                return Answer(answer.status_code, answer.json())
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(request(token, where, content)[: gone_after.pop()])
            return None

        sender = Tracker(stream, post)
        sender.send(0)
        length = len(request(token, path(stream), body(stream, 1)))
        for number, after in enumerate(spread(length, count), 1):
            gone_after.append(after)
            sender.send(number)

    record_property("clients gone before the answer", count)
    assert_whole(alice.connection, alice.user_id, [sender])
    # The last one had arrived completely, so it may have been written or not.
    assert sender.first_attempts["lost"] >= count - 1


@each_stream
def test_a_client_that_disconnects_while_its_batch_waits_can_retry(
    port: int, alice: Person, stream: str
) -> None:
    owner, token = alice.connection, alice.token(*SCOPES)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    is_gone = False

    def post(where: str, content: bytes) -> Answer | None:
        nonlocal is_gone
        if is_gone:
            answer = httpx2.post(
                f"http://127.0.0.1:{port}{where}", content=content, headers=headers
            )
            return Answer(answer.status_code, answer.json())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request(token, where, content))
            until(owner, A_BATCH_WAITS)
        is_gone = True
        owner.execute("rollback")
        return None

    sender = Tracker(stream, post)

    owner.execute("begin")
    owner.execute(HOLDS["the day"], [alice.user_id])
    sender.send(1)

    assert_whole(owner, alice.user_id, [sender])


def until(owner: Rows, query: LiteralString) -> None:
    """Return when ``query`` finds something."""

    def found() -> bool:
        # Within a transaction the activity of others stays as it was first seen.
        owner.execute("select pg_stat_clear_snapshot()")
        return bool(owner.execute(query).fetchall())

    wait_for(found, query)


A_BATCH_WAITS: LiteralString = """
select
  from pg_stat_activity
 where application_name = 'svc ingester'
   and datname = current_database()
   and wait_event_type = 'Lock'
"""
# The counters of devices are written last.
A_BATCH_IS_WRITTEN: LiteralString = """
select
  from pg_locks
  join pg_stat_activity using (pid)
 where relation = 'activity.device_stream'::regclass
   and wait_event = 'ClientRead'
"""
