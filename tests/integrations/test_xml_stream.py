"""XML that a parser would read without end, or keep in memory whole."""

from io import RawIOBase
from typing import BinaryIO, cast

import pytest

from resourceserver.integrations import xml_stream
from resourceserver.integrations.format import Unreadable
from resourceserver.integrations.formats.apple_health import APPLE_HEALTH
from tests.integrations.memory import read


class Endless(RawIOBase):
    """A text that begins with ``start``, and 64 MiB of one letter more."""

    def __init__(self, start: bytes) -> None:
        self._start, self._count = start, 0

    def read(self, count: int = -1) -> bytes:
        self._count += count
        if self._count > 64 * 2**20:
            return b""
        start, self._start = self._start, b""
        return start + b"x" * count


@pytest.mark.parametrize("start", [b"<", b'<gpx version="', b"<!-- "])
def test_a_tag_that_does_not_end_is_unreadable(start: bytes) -> None:
    text = cast("BinaryIO", Endless(start))

    with pytest.raises(Unreadable, match="a tag is too long"):
        list(xml_stream.elements(text, frozenset({"trk"})))


@pytest.mark.parametrize("start", [b"<HealthData><", b'<HealthData a="', b"<HealthData><!-- "])
def test_a_tag_of_apple_health_that_does_not_end_is_unreadable(start: bytes) -> None:
    reading = read(APPLE_HEALTH, start + b"x" * 8 * 2**20)

    assert reading.unreadable == "a tag is too long"
