"""Functions that readers of several formats share: streams of text, tables and JSON, and instants."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Final, Literal, TextIO, cast

from resourceserver.integrations import json_stream, values
from resourceserver.integrations.format import File, Unreadable
from resourceserver.integrations.records import Record, Refused
from resourceserver.integrations.values import Flaw

LINE_LENGTH: Final = 8 * 1024 * 1024
"""The most characters of one line, or of one cell of a table."""


@contextmanager
def binary(file: File) -> Iterator[BinaryIO]:
    """Open a file; a UTF-8 byte order mark at its beginning is skipped."""
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
    """Yield the lines that are not blank, without line ends. Raises Unreadable if a line is too long."""
    with text(file) as stream:
        while line := stream.readline(LINE_LENGTH):
            if len(line) == LINE_LENGTH:
                raise Unreadable("a line is too long")
            if not line.isspace():
                yield line.rstrip("\r\n")


def table(file: File, delimiter: str = ",") -> Iterator[dict[str, str]]:
    """Yield the rows of a table with a header: cells without surrounding white space, by column name.

    Missing cells of a short row are empty, and cells beyond the header are left out. Raises Unreadable if a
    row cannot be read.
    """
    found = cells(file, delimiter)
    header = next(found, [])
    for row in found:
        missing = [""] * (len(header) - len(row))
        yield dict(zip(header, row + missing, strict=False))


def cells(file: File, delimiter: str = ",") -> Iterator[list[str]]:
    """Yield the rows of a table without a header, except empty rows; cells without surrounding white space.

    Raises Unreadable if a row cannot be read.
    """
    csv.field_size_limit(LINE_LENGTH)
    with text(file) as stream:
        lines = (line.replace("\0", "") for line in _lines(stream))
        # Programs that write tabs quote nothing: a title that begins with a mark would take the next lines.
        quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        found = csv.reader(lines, delimiter=delimiter, quoting=quoting)
        try:
            for row in found:
                if row:
                    yield [cell.strip() for cell in row]
        except csv.Error as error:
            raise Unreadable(
                f"line {found.line_num} is not a valid row of a table: {error}"
            ) from error


def json_lines(file: File) -> Iterator[Any]:
    """Yield the value of each line of a file, and a Refused for each line that is not valid JSON.

    Raises Unreadable if a line is too long.
    """
    with text(file) as stream:
        for line in filter(str.strip, _lines(stream)):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield Refused("line_is_no_json", line[:200])


def _lines(stream: TextIO) -> Iterator[str]:
    """Yield lines. Raises Unreadable for a long one; a file without line ends could otherwise fill memory."""
    number = 0
    while line := stream.readline(LINE_LENGTH):
        number += 1
        if len(line) == LINE_LENGTH:
            raise Unreadable(f"line {number} is too long")
        yield line


def table_records(
    file: File, records: Callable[[dict[str, str]], Iterable[Record]], delimiter: str = ","
) -> Iterator[Record | Refused]:
    """Yield the records of each row of a table, and a Refused for each row that raises Flaw."""
    for row in table(file, delimiter):
        try:
            yield from records(row)
        except Flaw as flaw:
            yield Refused(str(flaw), values.example(", ".join(filter(None, row.values()))))


def items(file: File, path: str) -> Iterator[Any]:
    """Yield the values at ``path`` of a JSON file (``json_stream.elements``)."""
    return (value for _, value in elements(file, path))


def elements(file: File, *paths: str) -> Iterator[tuple[str, Any]]:
    """Yield the values at ``paths`` of a JSON file, each with its path, in the order of the file.

    Raises Unreadable if the file is not valid JSON.
    """
    with text(file) as stream:
        yield from json_stream.elements(stream, paths)


def instant(text: str) -> datetime:
    """Return the instant of an ISO 8601 text with an offset. Raises ValueError."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError("the time has no offset")
    return parsed.astimezone(UTC)


def instant_ms(at: datetime) -> int:
    """Return milliseconds since 1970-01-01T00:00:00Z, for keys."""
    return (at - _EPOCH) // _MILLISECOND


def utc_offset(seconds: float) -> str | None:
    """Return ``+02:00`` for 7,200 seconds; None for an offset of more than 18 hours."""
    if not abs(seconds) <= 18 * 3600:
        return None
    minutes = round(seconds / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
