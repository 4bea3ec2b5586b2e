"""The guarded fetcher: its limits of time and size, and answers and headers that are not valid."""

import gzip
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from itertools import repeat
from typing import Final

import pytest

from shared import connections
from shared.fetcher import (
    Fetcher,
    FetchFailed,
    InvalidHeader,
    MalformedAnswer,
    TimedOut,
    TooLarge,
    WrongType,
)
from tests import https
from tests.https import LOOPBACK, plain


def trickle(head: bytes) -> Iterator[bytes]:
    """Send a head, and then a byte from time to time for much longer than the limit."""
    yield head
    for _ in range(600):
        threading.Event().wait(0.05)
        yield b"a"


@pytest.mark.parametrize(
    "head",
    [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"],
)
def test_the_time_limit_holds_for_an_answer_that_trickles(head: bytes) -> None:
    with https.host(lambda _: trickle(head)) as host, pytest.raises(TimedOut):
        host.fetcher().fetch("GET", host.url(), within_s=0.3)


def test_the_time_limit_holds_for_a_look_up_and_a_handshake() -> None:
    is_over = threading.Event()

    def hang(_: str) -> list[str]:
        is_over.wait(60)
        return []

    with pytest.raises(TimedOut):
        Fetcher(resolve=hang, context=https.trust()).fetch(
            "GET", "https://calendar.example/", within_s=0.2
        )
    is_over.set()
    with socket.create_server((LOOPBACK, 0)) as silent:
        url = f"https://{LOOPBACK}:{silent.getsockname()[1]}/"
        with pytest.raises(TimedOut):
            Fetcher([LOOPBACK], context=https.trust()).fetch("GET", url, within_s=0.2)


def test_look_ups_that_hang_do_not_pile_up() -> None:
    is_over = threading.Event()
    begun: list[str] = []

    def hang(host: str) -> list[str]:
        begun.append(host)
        is_over.wait(60)
        return []

    fetching = Fetcher(resolve=hang, context=https.trust())
    for _ in range(20):
        with pytest.raises(TimedOut):
            fetching.fetch("GET", "https://calendar.example/", within_s=0.02)
    is_over.set()

    assert len(begun) <= 16


def chunked(pieces: Iterator[bytes], *headers: str) -> Iterator[bytes]:
    """Send pieces of a body without its length."""
    yield "\r\n".join(["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", *headers, "", ""]).encode()
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)


BOMB: Final = gzip.compress(bytes(50_000_000), 1)
GZIP: Final = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"a" * 1001),
        plain(gzip.compress(b"a" * 1001), headers=GZIP),
        plain(BOMB, headers=GZIP),
        plain(gzip.compress(b"") * 100_000, headers=GZIP),
        (b"HTTP/1.1 200 OK\r\n", *repeat(b"X-Many: a\r\n", 100_000)),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"a" * 1_000_000),
        (*repeat(b"HTTP/1.1 103 Early Hints\r\n\r\n", 100_000),),
    ],
    ids=["plain", "inflated", "bomb", "members", "headers", "header", "hints"],
)
def test_an_answer_that_is_too_large_is_refused(answer: tuple[bytes, ...]) -> None:
    with https.host(lambda _: answer) as host, pytest.raises(TooLarge):
        host.fetcher().fetch("GET", host.url(), most_bytes=1000)


def test_a_body_that_inflates_to_much_is_refused_before_it_takes_memory() -> None:
    with https.host(lambda _: plain(BOMB, headers=GZIP)) as host:
        tracemalloc.start()
        try:
            with pytest.raises(TooLarge):
                host.fetcher().fetch("GET", host.url(), most_bytes=1_000_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 5_000_000


def test_a_body_without_end_is_refused() -> None:
    with (
        https.host(lambda _: chunked(repeat(b"a" * 1000, 100_000))) as host,
        pytest.raises(TooLarge),
    ):
        host.fetcher().fetch("GET", host.url(), most_bytes=100_000)


def test_an_answer_of_the_largest_size_is_taken_and_inflated() -> None:
    compressed = gzip.compress(b"a" * 600) + gzip.compress(b"b" * 400)

    with https.host(lambda _: plain(compressed, headers=GZIP)) as host:
        answer = host.fetcher().fetch("GET", host.url(), most_bytes=1000)

    assert answer.body == b"a" * 600 + b"b" * 400
    assert host.requests[0].headers["accept-encoding"] == "gzip"


def test_the_body_of_an_error_is_cut_off() -> None:
    with https.host(lambda _: plain(b"a" * 1001, status="403 Forbidden")) as host:
        answer = host.fetcher().fetch("GET", host.url(), most_bytes=1000)

    assert (answer.status, answer.body) == (403, b"a" * 1000)


@pytest.mark.parametrize(
    ("given_type", "types", "is_accepted"),
    [
        ("text/calendar; charset=utf-8", ("text/calendar",), True),
        ("TEXT/Calendar", ("text/calendar",), True),
        ("application/client+json", ("application/json", "+json"), True),
        ("text/html", ("text/calendar",), False),
        ("text/calendar-like", ("text/calendar",), False),
        ("", ("text/calendar",), False),
    ],
)
def test_the_media_type_of_a_successful_answer_is_checked(
    given_type: str,
    types: tuple[str, ...],
    is_accepted: bool,
) -> None:
    answer = plain(b"", headers={"Content-Type": given_type} if given_type else {})
    with https.host(lambda _: answer) as host:
        if is_accepted:
            assert host.fetcher().fetch("GET", host.url(), types=types).status == 200
        else:
            with pytest.raises(WrongType):
                host.fetcher().fetch("GET", host.url(), types=types)


@pytest.mark.parametrize(
    "answer",
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n",),
        (b"",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",),
        plain(b"no gzip", headers=GZIP),
        plain(gzip.compress(b"a" * 1000)[:-9], headers=GZIP),
        plain(b"a", headers={"Content-Encoding": "br"}),
    ],
    ids=["ssh", "empty", "short", "length", "encoding", "cut", "unknown"],
)
def test_an_answer_that_is_not_valid_is_named(answer: tuple[bytes, ...]) -> None:
    with https.host(lambda _: answer) as host, pytest.raises(MalformedAnswer):
        host.fetcher().fetch("GET", host.url())


@pytest.mark.parametrize(
    "header", [("Authorization", "hunter2\r\nX: y"), ("A b", "hunter2"), ("É", "hunter2")]
)
def test_a_header_that_would_be_two_is_refused_without_its_value(
    header: tuple[str, str],
) -> None:
    with https.host(lambda _: plain(b"")) as host, pytest.raises(InvalidHeader) as raised:
        host.fetcher().fetch("GET", host.url(), headers=dict([header]))

    assert "hunter2" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_caller_cannot_change_the_headers_of_the_connection() -> None:
    with https.host(lambda _: plain(b"")) as host:
        host.fetcher().fetch(
            "GET", host.url(), headers={"Host": "other.example", "Accept-Encoding": "br"}
        )

    assert host.requests[0].headers["host"] == f"calendar.example:{host.port}"
    assert host.requests[0].headers["accept-encoding"] == "gzip"


def test_every_failure_has_a_code_that_pages_explain_and_a_message() -> None:
    failures = FetchFailed.__subclasses__()

    assert sorted(each.code for each in failures) == [
        "address_forbidden",
        "invalid_address",
        "invalid_header",
        "malformed_answer",
        "not_https",
        "timed_out",
        "tls_failed",
        "too_large",
        "too_many_redirects",
        "unreachable",
        "wrong_type",
    ]
    assert {each.code for each in failures} <= connections.PROBLEMS.keys()
    assert str(TooLarge()) == "the answer is too large"
