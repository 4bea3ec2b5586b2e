"""Compressed answers: which clients accept gzip (RFC 9110, section 12.5.3), and how large ones are made."""

import asyncio
import gzip
import random
import zlib
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response

from resourceserver.api.packing import LARGE, accepts_gzip, compressed, packed


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip", True),
        ("br, GZIP ; q=0.5", True),
        ("x-gzip", True),
        ("*", True),
        ("identity, *;q=0.1", True),
        ("", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("gzip;q=much", False),
        ("nogzip", False),
    ],
)
def test_gzip_is_accepted_by_name_or_wildcard_with_a_quality(header: str, expected: bool) -> None:
    assert accepts_gzip(Headers({"accept-encoding": header})) is expected


def test_a_client_without_the_header_does_not_accept_gzip() -> None:
    assert not accepts_gzip(Headers({}))


@pytest.mark.parametrize("size", [1, 511, 512, 1024, 4095, 4096, 32768, 70_000])
def test_a_body_of_any_size_is_compressed_into_one_gzip_member(size: int) -> None:
    body = (b"0123456789abcdef" * 5000)[:size]
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    assert decoder.decompress(compressed(body)) == body
    assert decoder.eof
    assert decoder.unused_data == b""


BODY = random.Random(7).randbytes(5 * LARGE) + b"x"


def sent(response: Response, accepted: bytes) -> tuple[Headers, bytes, int]:
    """Return headers and body of an answer, and how many turns others had until it was sent."""
    turns = 0
    messages: list[MutableMapping[str, Any]] = []

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def receive() -> dict[str, Any]:
        raise AssertionError("a response reads nothing")

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)

    async def run() -> None:
        others = asyncio.create_task(count())
        scope = {"type": "http", "method": "GET", "headers": [(b"accept-encoding", accepted)]}
        await packed(response)(scope, receive, send)
        others.cancel()

    asyncio.run(run())
    start, *pieces = messages
    return Headers(raw=start["headers"]), b"".join(each["body"] for each in pieces), turns


def test_other_requests_get_turns_while_a_large_answer_is_compressed() -> None:
    headers, body, turns = sent(Response(BODY), b"gzip")

    assert gzip.decompress(body) == BODY
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert headers["content-length"] == str(len(body))
    assert turns > 1


@pytest.mark.parametrize(
    ("encoding", "accepted"), [({}, b"gzip;q=0"), ({"Content-Encoding": "gzip"}, b"gzip")]
)
def test_a_large_answer_stays_as_it_is_for_other_clients_and_if_it_is_compressed_already(
    encoding: dict[str, str], accepted: bytes
) -> None:
    headers, body, _ = sent(Response(BODY, headers=encoding), accepted)

    assert body == BODY
    assert headers.get("content-encoding") == encoding.get("Content-Encoding")
    assert headers["content-length"] == str(len(BODY))
