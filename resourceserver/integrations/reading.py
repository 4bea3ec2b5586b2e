"""What readers of several formats share: streams of text, tables and JSON, and instants."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Final, TextIO, cast

from resourceserver.integrations import json_stream, values
from resourceserver.integrations.format import File, Unreadable
from resourceserver.integrations.records import Record, Refused
from resourceserver.integrations.values import Flaw

LINE_LENGTH: Final = 8 * 1024 * 1024
"""Most characters of one line, or of one cell of a table."""


@contextmanager
def binary(file: File) -> Iterator[BinaryIO]:
    """Open a file behind its byte order mark, if it begins with that of UTF-8."""
    with file.open() as stream:
        buffered = io.BufferedReader(cast("io.RawIOBase", stream), 256 * 1024)
        if buffered.peek(3)[:3] == b"\xef\xbb\xbf":
            buffered.read(3)
        yield buffered


@contextmanager
def text(file: File) -> Iterator[TextIO]:
    """Open a file as text: UTF-16 with a byte order mark, else UTF-8; other bytes become U+FFFD."""
    with file.open() as stream:
        buffered = io.BufferedReader(cast("io.RawIOBase", stream), 256 * 1024)
        marked = buffered.peek(2)[:2] in {b"\xff\xfe", b"\xfe\xff"}
        yield io.TextIOWrapper(
            buffered, "utf-16" if marked else "utf-8-sig", errors="replace", newline=""
        )


def lines(file: File) -> Iterator[str]:
    """Yield the lines that are not blank, without their ends. Raises Unreadable where one is too long."""
    with text(file) as stream:
        while line := stream.readline(LINE_LENGTH):
            if len(line) == LINE_LENGTH:
                raise Unreadable("a line is too long")
            if not line.isspace():
                yield line.rstrip("\r\n")


def table(file: File, delimiter: str = ",") -> Iterator[dict[str, str]]:
    """Yield the rows of a table with a header: the cells, without white space, by the names of their columns.

    Cells that a row lacks are empty, and cells beyond the header are left out. Raises Unreadable where a
    row cannot be read.
    """
    found = cells(file, delimiter)
    header = next(found, [])
    for row in found:
        missing = [""] * (len(header) - len(row))
        yield dict(zip(header, row + missing, strict=False))


def cells(file: File, delimiter: str = ",") -> Iterator[list[str]]:
    """Yield the rows of a table without a header, the empty ones left out; the cells without white space.

    Raises Unreadable where a row cannot be read.
    """
    csv.field_size_limit(LINE_LENGTH)
    with text(file) as stream:
        lines = (line.replace("\0", "") for line in _lines(stream))
        found = csv.reader(lines, delimiter=delimiter)
        try:
            for row in found:
                if row:
                    yield [cell.strip() for cell in row]
        except csv.Error as error:
            raise Unreadable(f"line {found.line_num} is no row of a table: {error}") from error


def json_lines(file: File) -> Iterator[Any]:
    """Yield the value of each line of a file, and a Refused for each line that is no JSON.

    Raises Unreadable where a line is too long.
    """
    with text(file) as stream:
        for line in filter(str.strip, _lines(stream)):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield Refused("line_is_no_json", line[:200])


def _lines(stream: TextIO) -> Iterator[str]:
    """Yield lines. A file without an end of line would otherwise be read into memory whole."""
    number = 0
    while line := stream.readline(LINE_LENGTH):
        number += 1
        if len(line) == LINE_LENGTH:
            raise Unreadable(f"line {number} is too long")
        yield line


def table_records(
    file: File, records: Callable[[dict[str, str]], Iterable[Record]], delimiter: str = ","
) -> Iterator[Record | Refused]:
    """Yield the records of each row of a table, and what was refused of a row for which Flaw is raised."""
    for row in table(file, delimiter):
        try:
            yield from records(row)
        except Flaw as flaw:
            yield Refused(str(flaw), values.example(", ".join(filter(None, row.values()))))


def items(file: File, path: str) -> Iterator[Any]:
    """Yield the values of a JSON file that lie at ``path`` (``json_stream.elements``)."""
    return (value for _, value in elements(file, path))


def elements(file: File, *paths: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of a JSON file that lie at ``paths``, each with its path, in the order of the file.

    Raises Unreadable where the file is no JSON.
    """
    with text(file) as stream:
        yield from json_stream.elements(stream, paths)


def instant(text: str) -> datetime:
    """Return the instant that an ISO 8601 text with an offset names. Raises ValueError."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError("the time has no offset")
    return parsed.astimezone(UTC)


def instant_ms(at: datetime) -> int:
    """Return milliseconds since 1970-01-01T00:00:00Z, for keys."""
    return (at - _EPOCH) // _MILLISECOND


def utc_offset(seconds: float) -> str | None:
    """Return ``+02:00`` for 7,200 seconds; None for an offset that no place has."""
    if not abs(seconds) <= 18 * 3600:
        return None
    minutes = round(seconds / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
