"""Which clients accept gzip (RFC 9110, section 12.5.3)."""

import zlib

import pytest
from starlette.datastructures import Headers

from resourceserver.api.packing import accepts_gzip, compressed


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
