"""The declaration of a file format: a function that recognises its files, and a reader that yields records.

A reader only turns bytes into records; the importer checks and writes them (``imports``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import BinaryIO, Final, Protocol
from zoneinfo import ZoneInfo

from resourceserver.integrations.records import KINDS, Record, Refused, Sourced

HEAD_BYTES: Final = 64 * 1024
"""The number of bytes that are read to recognise a file."""


class Unreadable(Exception):
    """The file cannot be read any further; the records before this point are kept.

    The message tells the person in one sentence what is wrong, and where in the file.
    """


class File(Protocol):
    """An imported file, or one member of an imported archive or folder."""

    @property
    def name(self) -> str:
        """Its path in the archive or folder, with ``/`` between the parts; for a single file, its name."""

    @property
    def size(self) -> int:
        """Its unpacked size in bytes."""

    def open(self) -> BinaryIO:
        """Return a stream of its bytes, from the beginning. The caller closes it."""

    def beside(self, name: str) -> "File | None":
        """Return the file with another name in the same folder, if there is one."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file, by which it is recognised."""

    name: str
    """The name of the File."""
    start: bytes
    """The first ``HEAD_BYTES`` bytes."""
    is_whole: bool
    """Whether ``start`` is the whole file."""

    @property
    def text(self) -> str:
        """``start`` as text; bytes that are not UTF-8 or UTF-16 become U+FFFD."""
        if self.start[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            return self.start.decode("utf-16", "replace")
        return self.start.decode("utf-8-sig", "replace")

    @property
    def basename(self) -> str:
        """The last part of the name, in lower case."""
        return self.name.rpartition("/")[2].lower()


@dataclass(frozen=True)
class Person:
    """The data of the importing person that a reader may need."""

    zone: ZoneInfo
    """The time zone of the profile, for local times in files that name no zone."""
    now: datetime
    """The instant of the import. Events that recur without end are expanded around it."""


Reader = Callable[[File, Person], Iterator[Record | Sourced | Refused]]


@dataclass(frozen=True)
class Format:
    """A format of files."""

    name: str
    """Its name on the command line (``--as``) and in receipts, such as ``spotify_extended``."""
    title: str
    """Its name for people, such as "Spotify, extended streaming history"."""
    source: str
    """The ``source`` of its rows, such as ``spotify``. Formats with the same keys share a source."""
    records: tuple[type[Record], ...]
    """The types of records that its reader can yield, the main one first."""
    recognise: Callable[[Head], float]
    """Returns how surely a file has this format: 1.0 if no other format looks like it, 0.0 if it does not."""
    read: Reader
    """Yields the file's records in constant memory. Raises Unreadable at a place where it cannot continue."""
    read_one: Callable[[str], Reader] | None = None
    """For files that hold the records of several people: returns the reader of those under a name."""
    is_proven: bool = False
    """Whether a test uses a file or a schema from outside this project; if not, receipts say so."""

    @property
    def kind(self) -> str | None:
        """The kind of its main records; None for a format whose records are all refused."""
        return KINDS[self.records[0]] if self.records else None


def named(name: str, formats: Sequence[Format]) -> Format | None:
    """Return the format of this name, or None.

    After a colon, the name may have that of one person in a file of several: ``netflix:Alice``.
    """
    first, colon, person = name.partition(":")
    found = next((each for each in formats if each.name == first), None)
    if found is None or not colon:
        return found
    if found.read_one is None or not person:
        return None
    return replace(found, name=name, read=found.read_one(person))
