"""Files in memory, for tests of formats: what a reader makes of bytes, and what recognises them."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final
from zoneinfo import ZoneInfo

from resourceserver.integrations.format import HEAD_BYTES, Format, Head, Person, Unreadable
from resourceserver.integrations.records import Refused, Sourced

ALICE: Final = Person(ZoneInfo("Europe/Berlin"), datetime(2026, 1, 15, 12, tzinfo=UTC))


@dataclass(frozen=True)
class MemoryFile:
    """A file whose bytes are in memory, with others beside it."""

    content: bytes
    name: str = "file"
    others: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.content)

    def open(self) -> BinaryIO:
        return io.BytesIO(self.content)

    def beside(self, name: str) -> "MemoryFile | None":
        return MemoryFile(self.others[name], name, self.others) if name in self.others else None

    @property
    def head(self) -> Head:
        return Head(self.name, self.content[:HEAD_BYTES], self.size <= HEAD_BYTES)


@dataclass
class Reading:
    """What a reader yielded of a file."""

    records: list[Any] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    unreadable: str | None = None
    """What the reader said where it could not go on."""

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.refused]


def read(
    chosen: Format,
    content: bytes | str,
    name: str = "file",
    others: Mapping[str, bytes] | None = None,
    person: Person = ALICE,
) -> Reading:
    """Return what ``chosen`` makes of a file of this content."""
    raw = content.encode() if isinstance(content, str) else content
    reading = Reading()
    try:
        for each in chosen.read(MemoryFile(raw, name, others or {}), person):
            if isinstance(each, Refused):
                reading.refused.append(each)
            else:
                record = each.record if isinstance(each, Sourced) else each
                assert isinstance(record, chosen.records)
                reading.records.append(record)
    except Unreadable as error:
        reading.unreadable = str(error)
    return reading


def recognise(chosen: Format, content: bytes | str, name: str = "file") -> float:
    """Return how sure ``chosen`` is of a file of this content."""
    raw = content.encode() if isinstance(content, str) else content
    return chosen.recognise(MemoryFile(raw, name).head)
