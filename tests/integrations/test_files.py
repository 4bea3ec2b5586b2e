"""Archives that are damaged, or made to do harm: each is an error in words, or a refused member."""

import os
import random
import resource
import struct
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from resourceserver.integrations.format import Unreadable
from resourceserver.integrations.imports import files
from resourceserver.integrations.imports.files import Brought, CannotOpen


def bring(path: Path) -> Brought:
    """Return what lies at ``path``, whose files are read to their ends."""
    with ExitStack() as within:
        brought = files.bring(path, within)
        for member in brought.files:
            with suppress(Unreadable), member.open() as stream:
                while stream.read(2**20):
                    pass
    return brought


def packed(names: list[str], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive with a file of each name."""
    whole = BytesIO()
    with zipfile.ZipFile(whole, "w", compression) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), name.encode() * 50, compression)
    return whole.getvalue()


@pytest.mark.parametrize(
    "compression",
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA],
)
def test_whichever_bytes_of_an_archive_are_damaged_the_error_is_one_in_words(
    tmp_path: Path, compression: int
) -> None:
    chance, whole = random.Random(7), packed(["Records.json", "f/é.json"], compression)
    path = tmp_path / "damaged.zip"
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        with suppress(CannotOpen):
            bring(path)


@pytest.mark.parametrize("name", [".", "./."])
def test_a_member_without_a_name_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "nameless.zip"
    path.write_bytes(packed([name, "plays.json"]))
    brought = bring(path)
    assert [each.name for each in brought.files] == ["plays.json"]
    assert [each.problem for each in brought.refused] == ["it has no name"]


@pytest.mark.parametrize(
    ("count", "comment", "problem"),
    [(600, 60_000, "its list of members is too long"), (100_001, 0, "there are more than 100000")],
)
def test_an_archive_whose_list_of_members_does_not_fit_into_memory_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, comment: int, problem: str
) -> None:
    entry = b"PK\1\2" + bytes(28) + struct.pack("<H", comment) + bytes(12 + comment)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, count * len(entry), 30, 0)
    path = tmp_path / "many.zip"
    path.write_bytes(b"PK\3\4" + bytes(26) + entry * count + end)
    # What zipfile makes of each entry of the list.
    monkeypatch.delattr(zipfile, "ZipInfo")
    with pytest.raises(CannotOpen, match=problem):
        bring(path)


def test_a_folder_may_have_more_archives_than_a_process_may_open_files(tmp_path: Path) -> None:
    inner = BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("large.json", bytes(100_000))
    for number in range(150):
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as archive:
            archive.writestr(f"{number}.json", f"{number}")
            archive.writestr(f"inner {number}.zip", inner.getvalue())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = set(map(int, os.listdir("/dev/fd")))
    most = [number for number in range(len(taken) + 100) if number not in taken][99]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
    try:
        with ExitStack() as within:
            brought = files.bring(tmp_path, within)
            contents = {}
            for member in brought.files:
                with member.open() as stream:
                    contents[member.name] = stream.read()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert brought.refused == []
    assert contents == {
        **{f"{number}.json": f"{number}".encode() for number in range(150)},
        **{f"inner {number}.zip/large.json": bytes(100_000) for number in range(150)},
    }


@contextmanager
def without_rights() -> Iterator[None]:
    """Where root runs the tests, what root may not read is what another user may not."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_what_cannot_be_read_in_a_folder_is_named_and_the_rest_is_brought() -> None:
    # The folder of pytest is closed to other users.
    with TemporaryDirectory() as name:
        folder = Path(name)
        closed = (folder / "closed.json", folder / "closed", folder / "listed")
        for each in ("closed", "listed"):
            (folder / each).mkdir()
            (folder / each / "plays.json").write_text("1")
        for each in ("closed.json", "plays.json"):
            (folder / each).write_text("1")
        folder.chmod(0o755)
        for path, mode in zip(closed, (0, 0, 0o444), strict=True):
            path.chmod(mode)
        try:
            with without_rights():
                size = files.digest(folder)[1]
                brought = bring(folder)
                with pytest.raises(CannotOpen, match="Permission denied"):
                    bring(folder / "closed")
        finally:
            for path in closed:
                path.chmod(0o755)
    assert size == 1
    assert [each.name for each in brought.files] == ["plays.json"]
    assert dict(brought.refused) == {
        "closed.json": "the file cannot be read: Permission denied",
        "closed": "the folder cannot be opened: Permission denied",
        "listed/plays.json": "the file cannot be read: Permission denied",
    }


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CannotOpen, match="no file and no folder"):
        files.digest(pipe)
