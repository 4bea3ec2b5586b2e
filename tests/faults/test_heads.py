"""Heads of requests that are too large, too late or no HTTP, sent to a server process."""

import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from resourceserver.api.metadata import PATH
from shared.heads import MAX_HEAD_BYTES
from shared.settings import Settings
from tests import processes
from tests.conftest import Person
from tests.faults.hurried import MAX_CONNECTIONS
from tests.waiting import LIMIT_S, wait_for

HALF_OPEN = 300
GET = f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n".encode()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The messages of the server."""
    return tmp_path_factory.mktemp("heads") / "resource.log"


@pytest.fixture(scope="module")
def port(deployment: Settings, log: Path) -> Iterator[int]:
    """The port of a resource server as an operator runs it, with small bounds."""
    (number,) = processes.free_ports(1)
    chosen = replace(deployment, base_url=f"http://localhost:{number}")
    logins = processes.role_urls(chosen, processes.RESOURCE_ROLES)
    with processes.running(
        ["resource", "serve"],
        chosen,
        logins,
        f"{chosen.base_url}{PATH}",
        log,
        module="tests.faults.hurried",
    ):
        yield number


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        yield connection


def received(connection: socket.socket) -> bytes:
    """Return everything until the server closes."""
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
    return answer


def split(answer: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and the body of an answer in JSON, which is the last of its connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\ncontent-type: application/json\r\n" in head
    assert b"\r\nx-request-id: " in head
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), json.loads(body)


def is_answered(port: int) -> bool:
    with connected(port) as other:
        other.sendall(GET + b"Connection: close\r\n\r\n")
        return received(other).startswith(b"HTTP/1.1 200 ")


def is_over(connection: socket.socket) -> bool:
    """Whether an answer or the end has arrived."""
    return bool(select.select([connection], [], [], 0.05)[0])


def test_a_slow_head_is_answered_408(port: int, log: Path) -> None:
    with connected(port) as connection:
        connection.sendall(GET)

        def drip() -> bool:
            if not is_over(connection):
                connection.sendall(b"A: b\r\n")
            return is_over(connection)

        wait_for(drip, "the end of a head in drips")
        status, body = split(received(connection))

    message = "the request line and the headers did not arrive in time"
    assert (status, body) == (408, {"error": "invalid_request", "message": message})
    wait_for(lambda: "method=other status=408" in log.read_text(), "a line in the log")


def test_a_connection_without_a_request_closes_without_an_answer(port: int) -> None:
    with connected(port) as silent, connected(port) as empty_lines:
        empty_lines.sendall(b"\r\n\r\n")

        assert [received(silent), received(empty_lines)] == [b"", b""]


def test_a_head_on_a_kept_connection_has_its_own_time(port: int) -> None:
    with connected(port) as connection:
        connection.sendall(GET + b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(GET)

        answer = received(connection)

    assert split(answer[answer.rindex(b"HTTP/1.1 ") :])[0] == 408


@pytest.mark.parametrize(
    "line", [b"GET /", GET + b"Cookie: ", GET + b"A: b\r\n" * 9000], ids=["path", "one", "many"]
)
def test_a_head_of_65_kib_is_refused_before_its_end(port: int, line: bytes) -> None:
    with connected(port) as connection:
        connection.sendall(line + b"a" * (MAX_HEAD_BYTES + 1024 - len(line)))
        # The rest does not reset the connection before the answer has arrived.
        connection.sendall(b"a" * 64 * MAX_HEAD_BYTES)

        status, body = split(received(connection))

    message = "the headers are larger than 32 KiB"
    assert (status, body) == (431, {"error": "invalid_request", "message": message})


def test_300_half_open_connections_are_closed_and_others_answered_meanwhile(port: int) -> None:
    with ExitStack() as opened:
        connections = []
        for _ in range(HALF_OPEN):
            connections.append(opened.enter_context(connected(port)))
            # At once: a connection without a request would be closed without an answer.
            connections[-1].sendall(GET)

        assert is_answered(port)
        statuses = {split(received(connection))[0] for connection in connections}

    assert statuses == {408}


def test_too_many_connections_are_answered_503(port: int) -> None:
    def one_too_many() -> bytes:
        with ExitStack() as opened:
            for _ in range(MAX_CONNECTIONS):
                opened.enter_context(connected(port))
            one_more = opened.enter_context(connected(port))
            one_more.sendall(GET + b"Connection: close\r\n\r\n")
            answer = received(one_more)
            return b"" if answer.startswith(b"HTTP/1.1 200 ") else answer

    # On a slow machine the server may close the first one before the last one opens.
    refused = wait_for(one_too_many, "a refusal for one connection too many")

    status, body = split(refused)
    assert (status, body["error"]) == (503, "database_unavailable")
    wait_for(lambda: is_answered(port), "an answer after the others have gone")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        (b"get / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET \xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ],
)
def test_a_head_that_cannot_be_parsed_is_answered_in_json(
    port: int, sent: bytes, status: int
) -> None:
    with connected(port) as connection:
        connection.sendall(sent)

        answer = split(received(connection))

    message = {
        400: "the request is not valid HTTP/1.1",
        501: "this method is not known here",
    }[status]
    assert answer == (status, {"error": "invalid_request", "message": message})


def test_answers_to_earlier_requests_come_before_a_refusal(port: int) -> None:
    with connected(port) as connection:
        connection.sendall((GET + b"\r\n") * 3 + b"BREW / HTTP/1.1\r\n\r\n" + GET + b"\r\n")

        answer = received(connection)

    assert [answer.count(b"HTTP/1.1 200 "), answer.count(b"HTTP/1.1 ")] == [3, 4]
    assert split(answer[answer.rindex(b"HTTP/1.1 ") :])[0] == 501


def test_a_fault_in_a_body_is_answered_once(port: int, alice: Person) -> None:
    with connected(port) as connection:
        connection.sendall(post(alice, b"Transfer-Encoding: chunked") + b"1\r\n{\r\nno chunk\r\n")

        answer = received(connection)

    assert answer.count(b"HTTP/1.1 ") == 1
    assert split(answer)[0] == 400


def test_more_than_64_kib_of_pipelined_requests_are_answered(port: int) -> None:
    request = GET + b"A: " + b"a" * 1000 + b"\r\n"
    with connected(port) as connection:
        connection.sendall((request + b"\r\n") * 100 + request + b"Connection: close\r\n\r\n")

        answer = received(connection)

    assert [answer.count(b"HTTP/1.1 200 "), answer.count(b"HTTP/1.1 ")] == [101, 101]


def post(person: Person, length: bytes) -> bytes:
    token = person.headers("ingest:app_sessions")["Authorization"].encode()
    return b"\r\n".join(
        (
            b"POST /api/v1/ingest/app-sessions HTTP/1.1",
            b"Host: localhost",
            b"Content-Type: application/json",
            b"Authorization: " + token,
            length,
            b"",
            b"",
        )
    )


def batch(size: int) -> bytes:
    event = {
        "app": "Code",
        "started_at": "2025-06-16T09:00:00Z",
        "duration_ms": 1000,
        "idempotency_key": str(uuid4()),
    }
    return json.dumps({"events": [event]}).encode().ljust(size)


def test_a_body_may_take_longer_than_a_head(port: int, alice: Person) -> None:
    body = batch(20_000)
    with connected(port) as connection, connected(port) as half_open:
        connection.sendall(post(alice, b"Connection: close\r\nContent-Length: 20000") + body[:10])
        half_open.sendall(GET)
        assert split(received(half_open))[0] == 408
        connection.sendall(body[10:])

        answer = received(connection)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"accepted"' in answer


def test_a_body_larger_than_a_head_arrives_whole_behind_it(port: int, alice: Person) -> None:
    body = batch(2 * MAX_HEAD_BYTES)
    length = f"Connection: close\r\nContent-Length: {len(body)}".encode()
    with connected(port) as connection:
        connection.sendall(post(alice, length) + body)

        answer = received(connection)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"accepted"' in answer


@pytest.mark.parametrize("hosts", [b"", b"Host: localhost\r\nHost: localhost\r\n"])
def test_a_request_without_a_host_or_with_two_is_answered_400_in_json(
    port: int, hosts: bytes
) -> None:
    with connected(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")

        answer = split(received(connection))

    message = "the request needs one Host header"
    assert answer == (400, {"error": "invalid_request", "message": message})
