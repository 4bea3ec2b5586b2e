"""The directory of uploads: locks, a disk that is full, and files that are not needed any more."""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

import resourceserver.app
from resourceserver.uploads import upkeep
from resourceserver.uploads.directory import Directory, Locked
from shared import database
from shared.settings import Settings
from tests.client import AppClient
from tests.conftest import Person
from tests.uploads.conftest import PATH, MakeSender, sender
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]


@pytest.fixture
def cleaned(deployment: Settings, upload_dir: Path) -> Callable[[], int]:
    """Removes the files that are not needed, and returns their number."""

    async def clean() -> int:
        login = database.login(deployment, "worker")
        async with await psycopg.AsyncConnection.connect(login, autocommit=True) as worker:
            return await upkeep.clean(Directory(upload_dir, 0), worker)

    return lambda: asyncio.run(clean())


def noted(deployment: Settings, process: upkeep.Process, directory_id: UUID) -> UUID | None:
    async def note() -> UUID | None:
        login = database.login(deployment, "worker")
        async with await psycopg.AsyncConnection.connect(login, autocommit=True) as worker:
            return await upkeep.note(worker, process, directory_id)

    return asyncio.run(note())


def files(upload_dir: Path) -> set[str]:
    return {path.name for path in upload_dir.iterdir() if not path.name.startswith(".")}


@pytest.fixture
def empty(upload_dir: Path, upload_client: AppClient) -> Path:
    """The directory without the files of other tests."""
    assert upload_client is not None
    for name in files(upload_dir):
        (upload_dir / name).unlink()
    return upload_dir


def test_files_that_are_not_needed_are_removed(
    sends: MakeSender,
    alice: Person,
    bob: Person,
    owner: Rows,
    empty: Path,
    cleaned: Callable[[], int],
) -> None:
    receiving, complete, canceled, expired = (sends(alice) for _ in range(4))
    deleted = sends(bob)
    for each in (receiving, complete, canceled, expired, deleted):
        each.create(4)
        each.send(0, b"01")
    complete.send(2, b"23")
    for statement, one in (
        ("set status = 'ended', ended_at = now()", canceled),
        ("set expires_at = now() - interval '1 s'", expired),
    ):
        owner.execute(
            f"update profile.upload {statement} where upload_id = %s",
            [one.upload_id],
        )
    owner.execute("delete from identity.user where user_id = %s", [bob.user_id])
    (empty / str(uuid4())).touch()
    (empty / "notes.txt").touch()

    first, second = cleaned(), cleaned()

    assert (first, second) == (4, 0)
    assert files(empty) == {str(receiving.upload_id), str(complete.upload_id), "notes.txt"}
    assert receiving.send(2, b"23").status_code == 204


def test_a_file_that_is_being_written_is_not_removed(
    empty: Path, cleaned: Callable[[], int]
) -> None:
    directory, upload_id = Directory(empty, 0), uuid4()
    file = directory.open(upload_id)

    meanwhile = cleaned()
    directory.close(file)
    afterwards = cleaned()

    assert (meanwhile, afterwards) == (0, 1)


def test_one_request_at_a_time_writes_to_an_upload(
    sends: MakeSender, alice: Person, empty: Path
) -> None:
    one = sends(alice)
    one.create(4)
    directory = Directory(empty, 0)
    file = directory.open(one.upload_id)

    with pytest.raises(Locked):
        directory.open(one.upload_id)
    refused, looked = one.send(0, b"0123"), one.look()
    directory.close(file)

    assert (refused.status_code, refused.headers["retry-after"]) == (423, "5")
    assert looked.headers["upload-offset"] == "0"
    assert one.send(0, b"0123").status_code == 204


def test_a_file_that_was_removed_while_it_was_opened_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, upload_id = Directory(tmp_path, 0), uuid4()
    opened = os.open
    left = [True]

    def opening(path: Path, *options: int) -> int:
        descriptor = opened(path, *options)
        if left.pop():
            path.unlink()
            left.append(False)
        return descriptor

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opening)
        file = directory.open(upload_id)
    file.write(b"x", 0)
    directory.close(file)

    assert directory.file(upload_id).read_bytes() == b"x"


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    directory, upload_id = Directory(tmp_path, 0), uuid4()
    target = tmp_path / "target"
    target.write_text("mine")
    directory.file(upload_id).symlink_to(target)

    with pytest.raises(OSError, match="Too many levels"):
        directory.open(upload_id)
    assert target.read_text() == "mine"


def test_without_enough_free_space_nothing_is_accepted(
    sends: MakeSender, alice: Person, uploading: Settings, owner: Rows, empty: Path
) -> None:
    begun = sends(alice)
    begun.create(4)
    # More MiB than any disk of this machine has.
    full = replace(uploading, upload_free_mib=10**9 - 1)

    with AppClient(resourceserver.app.create(full)) as client:
        new, known = sender(client, alice), replace(begun, client=client)
        answers = [new.create(4), known.send(0, b"0123")]
        answers.append(
            client.post(PATH, data={"ticket": new.ticket.text}, files={"file": ("a", b"x")})
        )
        offset = known.look().headers["upload-offset"]

    assert {(each.status_code, each.json()["error"]) for each in answers} == {(503, "storage_full")}
    assert offset == "0"
    assert owner.execute(
        "select status from profile.upload order by created_at, upload_id = %s", [new.upload_id]
    ).fetchall() == [("receiving",), ("ticket",)]


def test_a_directory_that_is_away_costs_no_upload(
    sends: MakeSender, alice: Person, empty: Path
) -> None:
    one = sends(alice)
    one.create(4)
    one.send(0, b"01")
    away = empty.with_name("away")

    empty.rename(away)
    refused = one.send(2, b"23")
    away.rename(empty)

    assert (refused.status_code, refused.json()["error"]) == (503, "storage_unavailable")
    assert one.send(2, b"23").status_code == 204


def test_the_marker_of_a_directory_stays(tmp_path: Path) -> None:
    place = tmp_path / "a" / "uploads"

    ids = {Directory(place, 0).prepare() for _ in range(3)}
    (place / ".directory").write_text("nothing")

    assert len(ids) == 1
    assert place.stat().st_mode & 0o777 == 0o700
    assert Directory(place, 0).uploads() == []
    with pytest.raises(OSError, match="holds no id"):
        Directory(place, 0).prepare()


def test_a_server_says_that_the_worker_uses_another_directory(
    uploading: Settings, tmp_path: Path, owner: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    assert not owner.closed
    noted(uploading, "worker", uuid4())
    chosen = replace(uploading, upload_dir=tmp_path)

    with caplog.at_level(logging.ERROR), AppClient(resourceserver.app.create(chosen)):
        wait_for(lambda: upkeep.DIFFERENT["server"] in caplog.text, "the line about the worker")


def test_a_server_says_nothing_if_the_worker_uses_the_same_directory(
    uploading: Settings, tmp_path: Path, owner: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    noted(uploading, "worker", Directory(tmp_path, 0).prepare())
    chosen = replace(uploading, upload_dir=tmp_path)

    def processes() -> int:
        row = owner.execute("select count(*) from svc.upload_directory").fetchone()
        return 0 if row is None else row[0]

    with caplog.at_level(logging.ERROR), AppClient(resourceserver.app.create(chosen)):
        wait_for(lambda: processes() == 2, "the row of the server")

    assert caplog.text == ""


def test_a_server_starts_without_its_directory(
    uploading: Settings, tmp_path: Path, owner: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    assert not owner.closed
    (tmp_path / "file").touch()
    chosen = replace(uploading, upload_dir=tmp_path / "file")

    with caplog.at_level(logging.ERROR), AppClient(resourceserver.app.create(chosen)) as client:
        wait_for(lambda: f"{tmp_path}/file cannot be used" in caplog.text, "the line about it")
        alive = client.get("/healthz").status_code

    assert alive == 200
