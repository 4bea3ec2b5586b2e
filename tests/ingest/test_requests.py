"""The batch as a whole: its rights, its form, and the order of the checks."""

import asyncio
import gzip
import itertools
import json
import os
import re
import socket
import sys
import threading
import tracemalloc
import zlib
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.api import turns
from resourceserver.ingest import route
from shared import priority
from shared.settings import Settings
from tests.conftest import Person
from tests.ingest.conftest import HOUR, PATH, SCOPE, Exchange
from tests.waiting import wait_for_rivals

JSON = {"Content-Type": "application/json"}
NOTHING_DONE = {"accepted": 0, "duplicates": 0, "rejected": []}
MIB = 1024 * 1024

each_stream = pytest.mark.parametrize(
    ("path", "scope"),
    [(PATH, SCOPE), ("/api/v1/ingest/coding-sessions", "ingest:coding_sessions")],
    ids=["app", "coding"],
)


@pytest.fixture
def headers(alice: Person) -> dict[str, str]:
    return JSON | alice.headers(SCOPE)


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_an_empty_batch_is_accepted(api: TestClient, headers: dict[str, str]) -> None:
    before = datetime.now(UTC)
    answer = api.post(PATH, content=b'{"events":[]}', headers=headers)
    after = datetime.now(UTC)

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "private, no-store"
    body = answer.json()
    server_time = body.pop("server_time")
    assert body == NOTHING_DONE
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", server_time)
    # It is cut off to the millisecond.
    assert before - timedelta(milliseconds=1) < datetime.fromisoformat(server_time) <= after


@pytest.mark.parametrize("media_type", ["application/json;charset=utf-8", "Application/JSON ; x=y"])
def test_the_media_type_may_have_parameters(
    api: TestClient, headers: dict[str, str], media_type: str
) -> None:
    answer = api.post(
        PATH, content=b'{"events":[]}', headers=headers | {"Content-Type": media_type}
    )

    assert answer.status_code == 200


@each_stream
def test_each_refusal_comes_before_the_next(
    api: TestClient, alice: Person, path: str, scope: str
) -> None:
    wrong = {"Content-Type": "text/plain", "Content-Length": str(41 * MIB)}
    stranger = {"Authorization": "Bearer nonsense"}
    many = json.dumps({"events": [0] * 1001, "client": {"name": 5}}).encode()

    def post(content: bytes, sent: dict[str, str]) -> tuple[int, str]:
        return code(api.post(path, content=content, headers=sent))

    assert post(b"{", wrong) == (401, "unauthorized")
    assert post(b"{", wrong | stranger) == (401, "unauthorized")
    assert post(b"{", wrong | alice.headers("read:activity")) == (403, "insufficient_scope")
    allowed = alice.headers(scope)
    assert post(b"{", wrong | allowed) == (415, "unsupported_media_type")
    assert post(b"{", wrong | allowed | JSON) == (413, "payload_too_large")
    assert post(b"{", allowed | JSON) == (400, "invalid_json")
    assert post(many, allowed | JSON) == (400, "invalid_request")
    assert post(many.replace(b"5", b'"5"'), allowed | JSON) == (413, "batch_too_large")


def test_the_missing_scope_is_named(api: TestClient, alice: Person) -> None:
    answer = api.post(PATH, json={"events": []}, headers=alice.headers("ingest:coding_sessions"))

    assert answer.json()["message"] == "ingest:app_sessions is required"
    assert 'scope="ingest:app_sessions"' in answer.headers["www-authenticate"]


def test_a_request_without_a_valid_token_is_refused_before_its_body(exchange: Any) -> None:
    refused = exchange({"Authorization": "Bearer nonsense"}, itertools.repeat(bytes(65536)))

    assert refused.status == 401
    assert refused.taken == 0


def test_other_methods_are_refused(api: TestClient) -> None:
    answer = api.get(PATH)

    assert code(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("media_type", ["", "text/json", "application/x-ndjson", "text/plain"])
def test_other_media_types_are_refused(
    api: TestClient, headers: dict[str, str], media_type: str
) -> None:
    answer = api.post(
        PATH, content=b'{"events":[]}', headers=headers | {"Content-Type": media_type}
    )

    assert code(answer) == (415, "unsupported_media_type")
    assert answer.json()["message"].startswith("Content-Type: ")


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, identity"])
def test_other_encodings_are_refused(
    api: TestClient, headers: dict[str, str], encoding: str
) -> None:
    answer = api.post(PATH, content=b"", headers=headers | {"Content-Encoding": encoding})

    assert code(answer) == (415, "unsupported_media_type")
    assert answer.json()["message"].startswith("Content-Encoding: ")


@pytest.mark.parametrize(
    ("body", "refusal", "parameter"),
    [
        (b"", "invalid_json", None),
        (b"{", "invalid_json", None),
        (b'{"events":[NaN]}', "invalid_json", None),
        (b'{"events":[-Infinity]}', "invalid_json", None),
        (b'{"events":["\xff"]}', "invalid_json", None),
        (b'{"events":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_json", None),
        (b"[]", "invalid_request", None),
        (b"{}", "invalid_request", "events"),
        (b'{"events":{}}', "invalid_request", "events"),
        (b'{"events":[],"client":"x"}', "invalid_request", "client"),
        (b'{"events":[],"client":{"name":5}}', "invalid_request", "client.name"),
        (b'{"events":[],"client":{"name":"\\u0000"}}', "invalid_request", "client.name"),
        (b'{"events":[],"client":{"name":"\\ud800"}}', "invalid_request", "client.name"),
    ],
)
@each_stream
def test_a_body_that_is_no_batch_is_refused(
    api: TestClient, alice: Person, path: str, scope: str, body: bytes, refusal: str,
    parameter: str | None,
) -> None:  # fmt: skip
    answer = api.post(path, content=body, headers=JSON | alice.headers(scope))

    assert code(answer) == (400, refusal)
    assert answer.json().get("parameter") == parameter
    assert answer.json()["message"].startswith(parameter or "the body")


def test_the_last_of_equal_keys_counts(api: TestClient, headers: dict[str, str]) -> None:
    event = json.dumps(HOUR)
    body = f'{{"events":5,"events":[{event[:-1]},"app":5,"app":"Code"}}]}}'

    assert api.post(PATH, content=body, headers=headers).json()["accepted"] == 1


@each_stream
def test_more_than_a_thousand_events_write_nothing(
    api: TestClient, alice: Person, path: str, scope: str
) -> None:
    events = [HOUR | {"project": "svc"}] * 1001

    answer = api.post(path, json={"events": events}, headers=alice.headers(scope))

    assert code(answer) == (413, "batch_too_large")
    assert answer.json()["parameter"] == "events"
    assert alice.connection.execute("select from activity.device").fetchall() == []


# Size


def test_a_body_without_end_is_read_no_further_than_its_limit(
    exchange: Any, headers: dict[str, str]
) -> None:
    refused = exchange(headers, itertools.repeat(b" " * 65536))

    assert (refused.status, refused.body["error"]) == (413, "payload_too_large")
    assert refused.taken <= 40 * MIB + 65536


def test_an_announced_length_over_the_limit_is_not_read_at_all(
    exchange: Any, headers: dict[str, str]
) -> None:
    announced = headers | {"Content-Length": str(40 * MIB + 1)}

    refused = exchange(announced, itertools.repeat(b" " * 65536))

    assert refused.status == 413
    assert refused.taken == 0


@pytest.mark.parametrize(("length", "status"), [("0" * 5000 + "13", 200), ("9" * 5000, 413)])
def test_an_announced_length_of_any_number_of_digits_is_read(
    exchange: Any, headers: dict[str, str], length: str, status: int
) -> None:
    answered = exchange(headers | {"Content-Length": length}, [b'{"events":[]}'])

    assert answered.status == status


def test_a_small_body_of_millions_of_values_is_refused_with_little_memory(
    api: TestClient, headers: dict[str, str]
) -> None:
    body = gzip.compress(b'{"events":[' + b"{}," * (13 * MIB) + b"{}]}")
    assert len(body) < MIB

    tracemalloc.start()
    answer = api.post(PATH, content=body, headers=headers | {"Content-Encoding": "gzip"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert code(answer) == (413, "payload_too_large")
    assert answer.json()["message"] == "the body holds more than 3000000 values"
    assert peak < 160 * MIB


def test_a_second_large_batch_of_one_person_waits_a_while_and_is_then_refused(
    api: TestClient, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = json.dumps({"events": [HOUR] * 1000}).encode()
    entered, release = threading.Event(), threading.Event()
    judge = route.judge
    monkeypatch.setattr(turns, "PATIENCE_S", 0.1)

    def judge_later(*given: Any, **named: Any) -> Any:
        entered.set()
        assert release.wait(60)
        return judge(*given, **named)

    monkeypatch.setattr(route, "judge", judge_later)
    first, second = (Exchange(api, headers, iter([events]), ends=True) for _ in range(2))

    async def run() -> None:
        under_way = asyncio.create_task(first.run())
        assert await asyncio.to_thread(entered.wait, 60)
        await second.run()
        release.set()
        await under_way

    assert api.portal is not None
    api.portal.call(run)

    assert (second.status, second.body["error"]) == (429, "rate_limited")
    assert (b"retry-after", b"5") in second.sent[0]["headers"]
    assert first.body["accepted"] + first.body["duplicates"] == 1000


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has priorities of threads")
@pytest.mark.parametrize(("count", "is_large"), [(1, False), (1000, True)])
def test_a_thread_that_gives_way_validates_a_large_batch_and_renders_its_answer(
    api: TestClient,
    headers: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    is_large: bool,
) -> None:
    judge, result = route.judge, route._result
    ran: list[tuple[int, int]] = []

    def note_thread() -> None:
        thread = threading.get_native_id()
        ran.append((thread, os.getpriority(os.PRIO_PROCESS, thread)))

    def judge_here(*given: Any, **named: Any) -> Any:
        note_thread()
        return judge(*given, **named)

    def result_here(*given: Any) -> Any:
        note_thread()
        return result(*given)

    monkeypatch.setattr(route, "judge", judge_here)
    monkeypatch.setattr(route, "_result", result_here)
    assert api.portal is not None
    answering = api.portal.call(threading.get_native_id)
    usual = os.getpriority(os.PRIO_PROCESS, answering)

    answer = api.post(PATH, content=json.dumps({"events": [HOUR] * count}), headers=headers)

    assert answer.status_code == 200
    assert [thread == answering for thread, _ in ran] == [not is_large] * 2
    niceness = max(usual, priority.LITTLE_LOWER) if is_large else usual
    assert [lower for _, lower in ran] == [niceness] * 2


def test_a_large_batch_keeps_its_place_until_it_is_written(
    deployment: Settings,
    api: TestClient,
    headers: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    owner: psycopg.Connection[Any],
) -> None:
    body = json.dumps({"events": [HOUR] * 1000}).encode()
    first, second = (Exchange(api, headers, iter([body]), ends=True) for _ in range(2))
    monkeypatch.setattr(turns, "PATIENCE_S", 0.1)

    async def run() -> None:
        under_way = asyncio.create_task(first.run())
        await asyncio.to_thread(wait_for_rivals, owner, 1)
        await second.run()
        rival.rollback()
        await under_way

    assert api.portal is not None
    with closing(psycopg.connect(deployment.database_url or "")) as rival:
        rival.execute("lock table activity.app_session in exclusive mode")
        api.portal.call(run)

    assert (second.status, second.body["error"]) == (429, "rate_limited")
    assert (first.status, first.body["accepted"]) == (200, 1)


def test_a_body_that_ends_early_is_refused(exchange: Any, headers: dict[str, str]) -> None:
    refused = exchange(headers, [b'{"events":[]}'], ends=False)

    assert (refused.status, refused.body["error"]) == (400, "invalid_json")


def test_a_full_batch_at_every_limit_fits(
    api: TestClient, headers: dict[str, str], alice: Person
) -> None:
    # All characters are in the basic plane, with six bytes if escaped. Others take twelve, and a thousand
    # events full of them may exceed 40 MiB; svc ingest then sends them in halves.
    events = [
        {
            "idempotency_key": f"{number:04}" + "\u00e9" * 196,
            "started_at": "2025-06-16T09:00:00.123456789+00:00",
            "ended_at": "2025-06-17T09:00:00.123456789+00:00",
            "duration_ms": 86_400_000,
            "app": "\u20ac" * 255,
            "title": "\u20ac" * 1024,
            "url": "https://example.com/" + "\u20ac" * 2028,
            "category": "\u20ac" * 64,
            "idle": False,
            "device": "\u20ac" * 128,
            "platform": "windows",
            "utc_offset": "+02:00",
            "metadata": {"m": "\u00e9" * 2044},
        }
        for number in range(1000)
    ]
    body = json.dumps({"events": events, "client": {"name": "\u20ac" * 128}}, ensure_ascii=True)
    assert 33 * MIB < len(body) < 40 * MIB

    answer = api.post(PATH, content=body, headers=headers)

    assert answer.json()["accepted"] == 1000
    row = alice.connection.execute(
        "select min(length(url)), min(octet_length(metadata::text)), count(*)"
        " from activity.app_session"
    ).fetchone()
    assert row == (2048, 4096, 1000)


def send_until_cut_off(connection: socket.socket) -> int:
    """How many bytes the other side took before it hung up."""
    for sent in range(0, 1024 * MIB, 65536):
        try:
            connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        except ConnectionError:
            return sent
    return 1024 * MIB


@pytest.mark.parametrize(("is_known", "status"), [(True, b"413"), (False, b"401")])
def test_a_client_that_does_not_stop_is_cut_off(
    address: str, alice: Person, is_known: bool, status: bytes
) -> None:
    token = alice.token(SCOPE) if is_known else "nonsense"
    host, port = address.removeprefix("http://").split(":")

    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(
            f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        sent = send_until_cut_off(connection)
        answer = connection.recv(4096)

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"\r\nconnection: close\r\n" in answer
    assert sent < 64 * MIB


def test_a_client_that_sends_its_whole_body_first_gets_the_refusal(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    size = 30 * MIB

    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(
            f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nonsense\r\n"
            f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()
        )
        connection.sendall(b" " * size)
        answer = connection.recv(4096)
        while piece := connection.recv(4096):
            answer += piece

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"\r\nconnection: close\r\n" in answer


def test_a_connection_is_kept_after_a_refused_batch(address: str, alice: Person) -> None:
    headers = JSON | alice.headers(SCOPE)

    with httpx2.Client(base_url=address, headers=headers) as client:
        refused = client.post(PATH, content=b"{")
        unread = client.post(PATH, content=b"{}", headers={"Content-Type": "text/plain"})

    assert "connection" not in refused.headers
    assert unread.headers["connection"] == "close"


# Compression


@each_stream
@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_a_gzip_body_is_read(
    api: TestClient, alice: Person, path: str, scope: str, encoding: str
) -> None:
    headers = JSON | alice.headers(scope) | {"Content-Encoding": encoding}
    body = gzip.compress(json.dumps({"events": [HOUR | {"project": "svc"}]}).encode())

    answer = api.post(path, content=body, headers=headers)

    assert answer.json()["accepted"] == 1


def test_a_gzip_body_may_come_byte_by_byte(exchange: Any, headers: dict[str, str]) -> None:
    padding = " " * 2 * MIB
    body = gzip.compress(f'{{"events":[{json.dumps(HOUR)}]{padding}}}'.encode())

    done = exchange(
        headers | {"Content-Encoding": "gzip"}, [body[at : at + 1] for at in range(len(body))]
    )

    assert done.body["accepted"] == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"events":[]}',
        zlib.compress(b'{"events":[]}'),
        gzip.compress(b'{"events":[]}')[:-1],
        gzip.compress(b'{"events":[]}')[:-8] + bytes(8),
        gzip.compress(b'{"events":[]}') + b"x",
        gzip.compress(b'{"events":') + gzip.compress(b"[]}"),
    ],
    # Compressed bytes contain the time of the test, which the name of a test must not.
    ids=["empty", "plain", "zlib", "cut", "checksum", "followed", "two members"],
)
def test_a_body_that_is_not_one_gzip_member_is_refused(
    api: TestClient, headers: dict[str, str], body: bytes
) -> None:
    answer = api.post(PATH, content=body, headers=headers | {"Content-Encoding": "gzip"})

    assert code(answer) == (400, "invalid_json")


def test_data_after_a_gzip_member_is_not_read_to_its_end(
    exchange: Any, headers: dict[str, str]
) -> None:
    # zlib copies each piece of it together with all those before.
    pieces = iter([gzip.compress(b'{"events":[]}'), *[bytes(1024)] * 1000])

    refused = exchange(headers | {"Content-Encoding": "gzip"}, pieces, ends=True)

    assert (refused.status, refused.body["error"]) == (400, "invalid_json")
    assert len(list(pieces)) > 990


def bomb(mebibytes: int) -> bytes:
    """A gzip member of blanks, without its end."""
    squeeze = zlib.compressobj(9, wbits=zlib.MAX_WBITS + 16)
    start = squeeze.flush(zlib.Z_FULL_FLUSH)
    mebibyte = squeeze.compress(b" " * MIB) + squeeze.flush(zlib.Z_FULL_FLUSH)
    return start + mebibyte * mebibytes


def test_a_small_body_that_inflates_to_a_gigabyte_is_refused_with_little_memory(
    api: TestClient, headers: dict[str, str]
) -> None:
    body = bomb(1024)
    assert len(body) < 1.1 * MIB

    tracemalloc.start()
    answer = api.post(PATH, content=body, headers=headers | {"Content-Encoding": "gzip"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert code(answer) == (413, "payload_too_large")
    assert peak < 64 * MIB


def test_the_limit_holds_for_the_inflated_body_to_the_byte(
    api: TestClient, headers: dict[str, str]
) -> None:
    packed = headers | {"Content-Encoding": "gzip"}
    text = b'{"events":[]}'

    fits = gzip.compress(text + b" " * (40 * MIB - len(text)), 1)
    exceeds = gzip.compress(text + b" " * (40 * MIB - len(text) + 1), 1)

    assert api.post(PATH, content=fits, headers=packed).status_code == 200
    assert api.post(PATH, content=exceeds, headers=packed).status_code == 413
