"""A form with one file, read while it arrives: small fields first, then the file (RFC 7578).

    pieces of the body ──► MultipartParser ──► Field, Field, FileBegin, bytes, bytes, …, FileEnd

The parser is python-multipart's, which calls back while it reads a piece. Nothing of the file is kept in
memory.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

MEDIA_TYPE: Final = "multipart/form-data"
_LONGEST_FIELD: Final = 1024
"""Most bytes of a field that is no file."""
_LONGEST_HEADER: Final = 8 * 1024
_MOST_HEADERS: Final = 8
_MOST_PARTS: Final = 8


class Malformed(Exception):
    """The body is not a form; the message says why."""


@dataclass(frozen=True)
class Field:
    """A small field."""

    name: str
    value: str


@dataclass(frozen=True)
class FileBegin:
    """The beginning of a file, whose bytes follow."""

    name: str
    file_name: str


@dataclass(frozen=True)
class FileEnd:
    """The end of the file and of the whole form."""


Event = Field | FileBegin | bytes | FileEnd


@dataclass
class _Reader:
    """Takes what the parser calls, and lists events."""

    events: list[Event] = field(default_factory=list)
    header: bytearray = field(default_factory=bytearray)
    value: bytearray = field(default_factory=bytearray)
    disposition: bytes = b""
    name: str = ""
    content: bytearray = field(default_factory=bytearray)
    is_file: bool = False
    has_file: bool = False
    parts: int = 0
    is_over: bool = False

    def part_begin(self) -> None:
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise Malformed("the form has too many fields")
        self.disposition = b""
        self.content = bytearray()

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self.header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += data[start:end]

    def header_end(self) -> None:
        if self.header.lower() == b"content-disposition":
            self.disposition = bytes(self.value)
        self.header, self.value = bytearray(), bytearray()

    def headers_finished(self) -> None:
        kind, options = parse_options_header(self.disposition)
        if kind != b"form-data" or b"name" not in options:
            raise Malformed("a part of the form has no name")
        if self.has_file:
            raise Malformed("the file must be the last field of the form")
        self.name = _text(options[b"name"])
        self.is_file = self.has_file = b"filename" in options
        if self.is_file:
            self.events.append(FileBegin(self.name, _text(options[b"filename"])))

    def part_data(self, data: bytes, start: int, end: int) -> None:
        if self.is_file:
            self.events.append(data[start:end])
            return
        self.content += data[start:end]
        if len(self.content) > _LONGEST_FIELD:
            raise Malformed(f"a field of the form is longer than {_LONGEST_FIELD} bytes")

    def part_end(self) -> None:
        if not self.is_file:
            self.events.append(Field(self.name, _text(bytes(self.content))))

    def end(self) -> None:
        self.is_over = True


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Malformed("the form is not UTF-8") from error


def boundary(content_type: str) -> bytes | None:
    """Return the boundary in the Content-Type header of a form; None if it is not one."""
    kind, options = parse_options_header(content_type)
    if kind != MEDIA_TYPE.encode():
        return None
    return options.get(b"boundary") or None


def _parse(parser: MultipartParser, piece: bytes) -> Exception | None:
    """Parse a piece; return what is wrong with it, so that what comes before in it is used first."""
    try:
        parser.write(piece)
    except (FormParserError, Malformed) as error:
        return error
    return None


async def read(pieces: AsyncIterator[bytes], limit: bytes) -> AsyncIterator[Event]:
    """Yield what a form contains; ``limit`` is its boundary. Raises Malformed, and what ``pieces`` does."""
    reader = _Reader()
    try:
        parser = MultipartParser(
            limit,
            {
                "on_part_begin": reader.part_begin,
                "on_part_data": reader.part_data,
                "on_part_end": reader.part_end,
                "on_header_field": reader.header_field,
                "on_header_value": reader.header_value,
                "on_header_end": reader.header_end,
                "on_headers_finished": reader.headers_finished,
                "on_end": reader.end,
            },
            max_header_count=_MOST_HEADERS,
            max_header_size=_LONGEST_HEADER,
        )
        async for piece in pieces:
            if reader.is_over:
                # An epilogue has no meaning (RFC 2046, section 5.1.1).
                continue
            problem = _parse(parser, piece)
            events, reader.events = reader.events, []
            for event in events:
                yield event
            if problem is not None:
                raise problem
    except FormParserError as error:
        raise Malformed("the body is not a form") from error
    if not reader.is_over:
        raise Malformed("the form ends early")
    if not reader.has_file:
        raise Malformed("the form has no file")
    yield FileEnd()
