"""Tables and lines of any length are read in bounded memory."""

import io
from typing import BinaryIO

import pytest

from resourceserver.integrations import reading
from resourceserver.integrations.format import Unreadable
from resourceserver.integrations.reading import cells, json_lines, table, utc_offset
from resourceserver.integrations.records import Refused
from tests.integrations.memory import MemoryFile


class EndlessFile(MemoryFile):
    """A file of a gigabyte without an end of line."""

    def open(self) -> BinaryIO:
        return _Zeros()


class _Zeros(io.BytesIO):
    left = 2**30

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # a narrower type
        size = min(len(buffer), self.left)
        buffer[:size] = b"0" * size
        self.left -= size
        return size


@pytest.mark.parametrize("read", [cells, table, json_lines])
def test_a_line_that_does_not_end_is_unreadable(
    read: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LINE_LENGTH", 100_000)

    with pytest.raises(Unreadable, match="line 1 is too long"):
        list(read(EndlessFile(b"")))  # type: ignore[operator]  # one of three functions


def test_cells_that_a_row_lacks_are_empty_and_further_ones_are_left_out() -> None:
    found = list(table(MemoryFile(b'\xef\xbb\xbfa, b\n1\n\n1,2,3\n"x\ny",\x00 2 \n')))

    assert found == [{"a": "1", "b": ""}, {"a": "1", "b": "2"}, {"a": "x\ny", "b": "2"}]


def test_a_line_that_is_no_json_is_refused_and_the_next_one_read() -> None:
    found = list(json_lines(MemoryFile(b'{"a": 1}\r\n\nno\n[2]')))

    assert found == [{"a": 1}, Refused("line_is_no_json", "no\n"), [2]]


@pytest.mark.parametrize(
    ("seconds", "offset"),
    [
        (0, "+00:00"),
        (7200, "+02:00"),
        (-12_600, "-03:30"),
        (20_700, "+05:45"),
        (64_800, "+18:00"),
        (64_801, None),
        (float("nan"), None),
    ],
)
def test_an_offset_is_hours_and_minutes(seconds: float, offset: str | None) -> None:
    assert utc_offset(seconds) == offset
