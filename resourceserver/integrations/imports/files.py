"""What a person brings: a file, a folder or an archive, opened as the files in it.

Archives lie in archives at most twice. Nothing is ever unpacked to a name of an archive's choice: members
are read as streams, and an archive within an archive through a temporary file without a name. Whatever could
do harm is listed with the reason and left out: a name that leads out of the archive, a link, a member that
is encrypted, and one that unpacks to more than data of a person can.
"""

import gzip
import hashlib
import io
import lzma
import os
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Final, NamedTuple, cast

from resourceserver.integrations.format import HEAD_BYTES, File, Head, Unreadable

LARGEST: Final = 64 * 2**30
"""Most bytes that what is brought may have, unpacked."""
LARGEST_RATIO: Final = 200
"""To how many times its size a member may unpack; text of exports reaches some forty times."""
_HARMLESS: Final = 16 * 2**20
"""Bytes of a member that may have any ratio."""
DEPTH: Final = 2
"""How many archives may lie in each other."""
MOST_MEMBERS: Final = 100_000
"""How many files are listed at most: each takes almost a kilobyte of memory."""
LONGEST_NAME: Final = 500
"""Most characters of the name of a member."""
_MOST_OPEN: Final = 64
"""How many archives are open at once: a folder may have more than a process may open files."""
_IN_MEMORY: Final = 64 * 2**10
"""Bytes of an inner archive that are kept in memory; many are open at once."""
_LONGEST_LIST: Final = 32 * 2**20
"""Bytes of the list at the end of an archive, which zipfile reads as a whole."""
_CHUNK: Final = 2**20
_SKIPPED: Final = {"__MACOSX", ".DS_Store", "Thumbs.db", ".git"}

OnRead = Callable[[int], None]
"""Called with the number of bytes whenever some were read."""


class CannotOpen(Exception):
    """What was brought cannot be opened; the message is one line."""


class Refusal(NamedTuple):
    """A member that is left out, and why."""

    name: str
    problem: str


@dataclass
class Brought:
    """The files in what was brought, in the order of their names, and members that are left out."""

    files: list["Member"] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    unpacked: int = 0
    """Bytes of all files together."""

    def named(self, name: str) -> "Member | None":
        """Return the file of this name."""
        if len(self._names) != len(self.files):
            self._names = {each.name: each for each in self.files}
        return self._names.get(name)

    _names: dict[str, "Member"] = field(default_factory=dict)


@dataclass(slots=True)
class Member:
    """One file (``resourceserver.integrations.format.File``)."""

    name: str
    size: int
    opener: Callable[[], IO[bytes]]
    brought: Brought
    packed: int | None = None
    """Its size in the archive; None outside of one."""
    on_read: OnRead | None = None

    def open(self) -> BinaryIO:
        """Return a stream of its bytes, whose errors are Unreadable. The caller closes it."""
        try:
            stream = self.opener()
        except _DAMAGE as error:
            raise Unreadable(_damage(error)) from error
        return cast("BinaryIO", io.BufferedReader(_Stream(stream, self), 256 * 1024))

    def beside(self, name: str) -> File | None:
        """Return the file with another name in the same folder, if there is one."""
        folder = self.name.rpartition("/")[0]
        return self.brought.named(f"{folder}/{name}" if folder else name)

    def head(self) -> Head:
        """Return its beginning. Raises Unreadable."""
        counted, self.on_read = self.on_read, None
        try:
            with self.open() as stream:
                start = stream.read(HEAD_BYTES)
                return Head(self.name, start, is_whole=len(start) < HEAD_BYTES)
        finally:
            self.on_read = counted


_DAMAGE: Final = (
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(NotImplementedError, RuntimeError, ValueError),
)
"""The errors of reading a damaged file: RuntimeError if a member of a zip is encrypted, NotImplementedError
if zipfile does not know its compression, ValueError if its name is no text."""


def _damage(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"the file cannot be read: {error.strerror}"
    if isinstance(error, NotImplementedError):
        return "it is packed in a way that is not supported"
    return f"the file is damaged or cut off: {' '.join(str(error).split())[:200]}"


class _Stream(io.RawIOBase):
    """Counts what is read, and ends where more comes than the member can reasonably have."""

    def __init__(self, stream: IO[bytes], member: Member) -> None:
        """Read from ``stream``, which is closed with this one."""
        self._stream = stream
        self._member = member
        self._count = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into ``buffer``. Raises Unreadable."""
        try:
            piece = self._stream.read(len(buffer))
        except _DAMAGE as error:
            raise Unreadable(_damage(error)) from error
        self._count += len(piece)
        member = self._member
        if member.packed is not None and self._count > max(
            _HARMLESS, member.packed * LARGEST_RATIO
        ):
            raise Unreadable(_TOO_DENSE)
        if self._count > LARGEST:
            raise Unreadable(_TOO_LARGE)
        if member.on_read is not None:
            member.on_read(len(piece))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """Close both."""
        if not self.closed:
            self._stream.close()
        super().close()


class _Gunzip(gzip.GzipFile):
    """A gzip file that closes what it is read from."""

    def __init__(self, packed: BinaryIO) -> None:
        """Read from ``packed``."""
        super().__init__(fileobj=packed, mode="rb")
        self._packed = packed

    def close(self) -> None:
        """Close both."""
        super().close()
        self._packed.close()


class _Bounded:
    """A file with an archive whose list of members may be as long as the whole file."""

    def __init__(self, packed: IO[bytes]) -> None:
        """Read from ``packed``."""
        self._packed = packed
        self.seek, self.tell, self.seekable = packed.seek, packed.tell, packed.seekable

    def read(self, count: int = -1) -> bytes:
        """Read. Raises CannotOpen where the list of members does not fit into memory."""
        if count > _LONGEST_LIST:
            raise CannotOpen("its list of members is too long")
        piece = self._packed.read(count)
        if count > _CHUNK and piece.count(b"PK\x01\x02") > MOST_MEMBERS:
            raise CannotOpen(_TOO_MANY)
        return piece


def _unzip(packed: IO[bytes]) -> zipfile.ZipFile:
    return zipfile.ZipFile(cast("IO[bytes]", _Bounded(packed)))


def _gunzip(member: Member) -> IO[bytes]:
    return cast("IO[bytes]", _Gunzip(member.open()))


_NO_FILE: Final = "it is no file and no folder"
_TOO_MANY: Final = f"there are more than {MOST_MEMBERS} files in it"
_LINK: Final = "it is a symbolic link"
_TOO_DENSE: Final = f"it unpacks to more than {LARGEST_RATIO} times its size, as no export does"
_TOO_LARGE: Final = f"it unpacks to more than {LARGEST // 2**30} GiB"


def bring(path: Path, within: ExitStack, name: str | None = None) -> Brought:
    """Return the files in what lies at ``path``; ``within`` keeps open what they are read from.

    ``name`` is the name of a single file, if it lies there under another one. Raises CannotOpen.
    """
    listing = _Listing(Brought())
    within.callback(_close_all, listing.opened)
    try:
        if path.is_dir():
            listing.add_folder(path)
        elif stat.S_ISREG(path.stat().st_mode):
            listing.add(name or path.name, path.stat().st_size, None, _opener(path))
        else:
            raise CannotOpen(_NO_FILE)
    except OSError as error:
        raise CannotOpen(error.strerror or str(error)) from error
    listing.brought.files.sort(key=lambda each: each.name)
    return listing.brought


def size(path: Path) -> int:
    """Return the bytes of what lies at ``path``, of which a folder has those of its files.

    Raises CannotOpen.
    """
    try:
        if path.is_dir():
            return sum(file_size for _, _, file_size in _walk(path))
        return path.stat().st_size
    except OSError as error:
        raise CannotOpen(error.strerror or str(error)) from error


def digest(path: Path, on_read: OnRead = lambda _: None) -> tuple[bytes, int]:
    """Return the SHA-256 of what lies at ``path``, a folder's made of its files, and its size.

    Raises CannotOpen.
    """
    whole, count = hashlib.sha256(), 0
    try:
        if not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
            # A pipe would be waited for, and a device read without end.
            raise CannotOpen(_NO_FILE)
        is_folder = path.is_dir()
        for name, file, file_size in _walk(path) if is_folder else [("", path, 0)]:
            if is_folder:
                whole.update(f"{name}\0{file_size}\0".encode("utf-8", "surrogateescape"))
            try:
                with file.open("rb") as stream:
                    while piece := stream.read(_CHUNK):
                        whole.update(piece)
                        count += len(piece)
                        on_read(len(piece))
            except OSError:
                # In a folder it is left out with its name, when the files are listed.
                if not is_folder:
                    raise
    except OSError as error:
        raise CannotOpen(error.strerror or str(error)) from error
    return whole.digest(), count


def _walk(
    folder: Path, refuse: Callable[[str, str], None] = lambda *_: None
) -> Iterator[tuple[str, Path, int]]:
    """Yield name, path and size of the regular files in a folder, in the order of their names.

    ``refuse`` gets the name of what is left out, and why. Raises OSError for the folder itself.
    """

    def on_error(error: OSError) -> None:
        place = Path(error.filename)
        if place == folder:
            raise error
        refuse(place.relative_to(folder).as_posix(), _unopened(error))

    for parent, folders, files in os.walk(folder, onerror=on_error):
        folders[:] = sorted(set(folders) - _SKIPPED)
        for each in sorted({*folders, *files} - _SKIPPED):
            path = Path(parent, each)
            name = path.relative_to(folder).as_posix()
            try:
                found = path.lstat()
            except OSError as error:
                # A folder comes to ``on_error``.
                if each not in folders:
                    refuse(name, _damage(error))
                continue
            if stat.S_ISLNK(found.st_mode):
                refuse(name, _LINK)
            elif stat.S_ISREG(found.st_mode):
                yield name, path, found.st_size


def _unopened(error: OSError) -> str:
    return f"the folder cannot be opened: {error.strerror}"


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    return lambda: path.open("rb")


def _clean(name: str) -> str:
    """Return a name as it can be stored and printed."""
    return "".join(
        each if each.isprintable() and not "\ud800" <= each <= "\udfff" else "\ufffd"
        for each in name
    )


_Opened = dict["_Archive", tuple[zipfile.ZipFile, ExitStack]]
"""Archives that are open, the last used last."""


def _close_all(opened: _Opened) -> None:
    while opened:
        opened.popitem()[1][1].close()


@dataclass(frozen=True, eq=False)
class _Archive:
    """An archive, opened when it is read, and closed when many others have been read since."""

    member: Member
    is_inner: bool
    opened: _Opened

    def open(self, entry: zipfile.ZipInfo) -> IO[bytes]:
        """Return a stream of a member."""
        return self.unzipped().open(entry)

    def unzipped(self) -> zipfile.ZipFile:
        """Return the archive, which can be read from any place."""
        found = self.opened.pop(self, None)
        if found is None:
            while len(self.opened) >= _MOST_OPEN:
                self.opened.pop(next(iter(self.opened)))[1].close()
            with ExitStack() as within:
                archive = within.enter_context(_unzip(within.enter_context(self._source())))
                found = archive, within.pop_all()
        self.opened[self] = found
        return found[0]

    def _source(self) -> IO[bytes]:
        if not self.is_inner:
            return self.member.opener()
        # The list of an archive stands at its end, and a packed stream cannot be read from there.
        with ExitStack() as within:
            copy = within.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
            with self.member.open() as packed:
                while piece := packed.read(_CHUNK):
                    copy.write(piece)
            within.pop_all()
            return cast("IO[bytes]", copy)


@dataclass(frozen=True)
class _Listing:
    """Lists the files in what was brought."""

    brought: Brought
    opened: _Opened = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    """How many members have each name."""

    def refuse(self, name: str, problem: str) -> None:
        """List a member that is left out."""
        self.brought.refused.append(Refusal(self._unique(name[:LONGEST_NAME]), problem))

    def _unique(self, name: str) -> str:
        """Return a name that no other member has: an archive may hold several of one name."""
        count = self.names[name] = self.names.get(name, 0) + 1
        return name if count == 1 else self._unique(f"{name} ({count})")

    def add_folder(self, folder: Path) -> None:
        """Add the files in a folder."""

        def refuse(name: str, problem: str) -> None:
            self.refuse(_clean(name), problem)

        for name, path, size in _walk(folder, refuse):
            self.add(_clean(name), size, None, _opener(path))

    def add(
        self,
        name: str,
        size: int,
        packed: int | None,
        opener: Callable[[], IO[bytes]],
        *,
        depth: int = 0,
    ) -> None:
        """Add a file, or the files in it if it is an archive, which lies in ``depth`` others."""
        if len(name) > LONGEST_NAME:
            self.refuse(name, "its name is too long")
            return
        if len(self.brought.files) + len(self.brought.refused) >= MOST_MEMBERS:
            raise CannotOpen(_TOO_MANY)
        member = Member(name, size, opener, self.brought, packed)
        try:
            start = member.head().start
        except Unreadable as error:
            self.refuse(name, str(error))
            return
        is_archive = start[:4] in (b"PK\x03\x04", b"PK\x05\x06")
        is_packed = start[:2] == b"\x1f\x8b"
        if (is_archive and depth >= DEPTH) or (is_packed and depth > DEPTH):
            self.refuse(name, f"it lies in more than {DEPTH} archives")
        elif is_archive:
            self._add_archive(member, depth)
        elif is_packed:
            # Under the name without its ending.
            self.add(
                name.removesuffix(".gz"),
                size,
                size,
                partial(_gunzip, member),
                depth=depth + 1,
            )
        else:
            member.name = self._unique(name)
            self.brought.files.append(member)
            self.brought.unpacked += size
            if self.brought.unpacked > LARGEST:
                raise CannotOpen(_TOO_LARGE)

    def _add_archive(self, member: Member, depth: int) -> None:
        try:
            archive = _Archive(member, depth > 0, self.opened)
            entries = archive.unzipped().infolist()
        except Unreadable as error:
            self.refuse(member.name, str(error))
            return
        except _DAMAGE as error:
            if not depth:
                raise CannotOpen(_damage(error)) from error
            self.refuse(member.name, _damage(error))
            return
        prefix = f"{member.name}/" if depth else ""
        for entry in entries:
            plain = entry.filename.replace("\\", "/")
            path = PurePosixPath(plain)
            if plain.endswith("/") or not _SKIPPED.isdisjoint(path.parts):
                continue
            problem = _problem(entry, path)
            name = _clean(prefix + plain)
            if problem is not None:
                self.refuse(name, problem)
            else:
                opener = partial(archive.open, entry)
                self.add(name, entry.file_size, entry.compress_size, opener, depth=depth + 1)


def _problem(entry: zipfile.ZipInfo, path: PurePosixPath) -> str | None:
    """Return why an entry of an archive is left out, or None."""
    if not path.parts:
        return "it has no name"
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        return "its name leads out of the archive"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return _LINK
    if entry.flag_bits & 1:
        return "it is encrypted"
    if entry.file_size > max(_HARMLESS, entry.compress_size * LARGEST_RATIO):
        return _TOO_DENSE
    return None
