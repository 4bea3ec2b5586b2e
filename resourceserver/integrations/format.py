"""What a format is: how a file is recognised, and a reader that yields its records.

A format declares nothing else. It is given bytes and yields records; what becomes of them is the
importer's work.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Final, Protocol
from zoneinfo import ZoneInfo

from resourceserver.integrations.records import KINDS, Record, Refused, Sourced

HEAD_BYTES: Final = 64 * 1024
"""How much of a file is read to recognise it."""


class Unreadable(Exception):
    """The file cannot be read any further; the records before this point stay.

    The message says in one sentence what is wrong and where, in words for the person who brought the file.
    """


class File(Protocol):
    """One file that was brought, or one member of an archive or a folder."""

    @property
    def name(self) -> str:
        """Its path in the archive or folder, with ``/`` between the parts; else its own name."""

    @property
    def size(self) -> int:
        """Its size in bytes, unpacked."""

    def open(self) -> BinaryIO:
        """Return a stream of its bytes, from the beginning. The caller closes it."""

    def beside(self, name: str) -> "File | None":
        """Return the file with another name in the same folder, if there is one."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file, by which it is recognised."""

    name: str
    """As the name of File."""
    start: bytes
    """The first ``HEAD_BYTES`` bytes."""
    is_whole: bool
    """Whether the file ends there."""

    @property
    def text(self) -> str:
        """``start`` as text; bytes that are no UTF-8 or UTF-16 become U+FFFD."""
        if self.start[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            return self.start.decode("utf-16", "replace")
        return self.start.decode("utf-8-sig", "replace")

    @property
    def basename(self) -> str:
        """The last part of the name, in lower case."""
        return self.name.rpartition("/")[2].lower()


@dataclass(frozen=True)
class Person:
    """What a reader may need to know of the person who brings a file."""

    zone: ZoneInfo
    """The zone of the profile, for local times in files that name no zone."""
    now: datetime
    """The instant of the import: calendars that never end are expanded around it."""


@dataclass(frozen=True)
class Format:
    """A format of files."""

    name: str
    """Its name on the command line (``--as``) and in receipts, such as ``spotify_extended``."""
    title: str
    """Its name for people, such as "Spotify, extended streaming history"."""
    source: str
    """The ``source`` of its rows, such as ``spotify``; formats of one service share it if their keys do."""
    records: tuple[type[Record], ...]
    """The types of records that its reader can yield, the main one first."""
    recognise: Callable[[Head], float]
    """How sure it is that a file is of this format: 1.0 if nothing else looks like it, 0.0 if it is not."""
    read: Callable[[File, Person], Iterator[Record | Sourced | Refused]]
    """Yields the file's records in constant memory. Raises Unreadable where it cannot go on."""
    is_proven: bool = False
    """Whether tests read a file, or follow a schema, that others made; receipts say so where it is False."""

    @property
    def kind(self) -> str | None:
        """The kind of its main records; None for a format whose records are all refused."""
        return KINDS[self.records[0]] if self.records else None
