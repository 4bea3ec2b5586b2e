"""Which clients accept gzip (RFC 9110, section 12.5.3)."""

import pytest
from starlette.datastructures import Headers

from resourceserver.api.packing import accepts_gzip


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
