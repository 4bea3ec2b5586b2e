"""Uploaded files that the worker imports."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from resourceserver.integrations.format import File, Format, Head
from resourceserver.integrations.format import Person as Reader
from resourceserver.integrations.formats.watching import NETFLIX
from resourceserver.integrations.imports import files, receipts, running, turn
from resourceserver.integrations.imports.receipts import AlreadyRunning
from resourceserver.integrations.imports.running import Interrupted, Over
from resourceserver.integrations.imports.turn import FileMissing, Taken
from resourceserver.integrations.records import Listen
from resourceserver.uploads import upkeep
from resourceserver.uploads.directory import Directory
from shared import settings, tokens
from shared.settings import Settings
from tests.conftest import Person
from tests.integrations import samples
from tests.integrations.bringing import of_listens
from tests.monitoring.scraping import counting
from tests.processes import role_urls
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]
PLAYS: Final = of_listens()


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    found = Directory(tmp_path / "uploads", 0)
    found.prepare()
    return found


@pytest.fixture
def chosen(deployment: Settings, directory: Directory) -> Settings:
    return replace(deployment, upload_dir=directory.path)


def upload(
    directory: Directory,
    person: Person,
    content: bytes,
    name: str = "a.plays",
    form: str | None = None,
) -> str:
    """Put a complete upload there, and return its id."""
    ticket = tokens.mint(tokens.UPLOAD, person.user_id)
    row = person.connection.execute(
        """
        insert into profile.upload (
            user_id, ticket_hash, status, file_name, format, length, received, completed_at
        )
        values (%(user_id)s, %(hash)s, 'complete', %(name)s, %(form)s, %(size)s, %(size)s, now())
        returning upload_id
        """,
        {
            "user_id": person.user_id,
            "hash": ticket.hash,
            "name": name,
            "form": form,
            "size": len(content),
        },
    ).fetchone()
    assert row is not None
    directory.file(row[0]).write_bytes(content)
    person.connection.execute("select svc.make_due(%s, 'import')", [person.user_id])
    return str(row[0])


def take(chosen: Settings, person: Person, *formats: Format, stop: bool = False) -> Taken:
    event = threading.Event()
    if stop:
        event.set()
    assert chosen.upload_dir is not None
    return turn.take(
        chosen, Directory(chosen.upload_dir, 0), formats or (PLAYS,), person.user_id, event
    )


def uploads(owner: Rows) -> list[Any]:
    return owner.execute(
        "select upload.status, upload.problem, import.status from profile.upload"
        " left join profile.import using (user_id, import_id) order by completed_at"
    ).fetchall()


def plays(owner: Rows) -> list[int]:
    return [
        int(track.removeprefix("Track "))
        for (track,) in owner.execute("select track from music.listen order by listened_at")
    ]


def numbers(count: int) -> bytes:
    return "".join(f"{number}\n" for number in range(count)).encode()


def test_the_oldest_upload_is_imported_and_its_file_removed(
    chosen: Settings, directory: Directory, owner: Rows, alice: Person, bob: Person
) -> None:
    upload(directory, bob, numbers(9))
    first = upload(directory, alice, numbers(3), "Plays ä.plays")
    upload(directory, alice, numbers(5))

    with counting() as count:
        taken = take(chosen, alice)

        assert count("svc_imports_total", outcome="done") == 1
        assert count("svc_import_records_total", outcome="new") == 3
    assert taken == Taken(f"upload_id={first} import_status=done", has_more=True)
    assert sorted(uploads(owner)) == [
        ("complete", None, None),
        ("complete", None, None),
        ("ended", None, "done"),
    ]
    assert owner.execute(
        "select import.file_name, part.name, part.added from profile.import"
        " join profile.import_part as part using (user_id, import_id)"
    ).fetchall() == [("Plays ä.plays", "Plays ä.plays", 3)]
    assert plays(owner) == [0, 1, 2]
    assert not (directory.path / first).exists()
    assert [take(chosen, alice).has_more, take(chosen, alice)] == [True, Taken()]
    assert plays(owner) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "content", "form", "problem", "status"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n", None, None, "failed"),
        ("a.zip", b"PK\x03\x04" + b"x" * 100, None, "File is not a zip file", None),
        ("a.plays", b"1\n", "no_such", "there is no format no_such", None),
    ],
)
def test_a_file_of_which_nothing_can_be_used_ends_with_the_reason(
    chosen: Settings,
    directory: Directory,
    owner: Rows,
    alice: Person,
    name: str,
    content: bytes,
    form: str | None,
    problem: str | None,
    status: str | None,
) -> None:
    one = upload(directory, alice, content, name, form)

    take(chosen, alice)

    ((ended, reason, import_status),) = uploads(owner)
    assert (ended, import_status) == ("ended", status)
    assert (reason is None) == (problem is None)
    assert (problem or "") in (reason or "")
    assert not (directory.path / one).exists()


def test_of_a_file_of_several_profiles_the_chosen_one_is_imported(
    chosen: Settings, directory: Directory, owner: Rows, alice: Person
) -> None:
    ben = b"Ben,2023-11-14 20:30:00,00:51:07,,Dark,,TV,00:51:07,00:51:07,DE\n"
    content = samples.netflix().content + ben
    upload(directory, alice, content, "netflix.csv", "netflix:Ben")

    take(chosen, alice, NETFLIX)

    assert uploads(owner) == [("ended", None, "done")]
    titles = owner.execute("select name from content.play join content.title using (title_id)")
    assert titles.fetchall() == [("Dark",)]


def test_an_import_that_is_stopped_goes_on_at_the_next_turn(
    chosen: Settings,
    directory: Directory,
    owner: Rows,
    alice: Person,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "BATCH", 10)
    upload(directory, alice, numbers(95))

    def until(number: int) -> Format:
        def read(file: File, person: Reader) -> Iterator[Any]:
            for place, record in enumerate(PLAYS.read(file, person)):
                if place == number:
                    # As the worker's end does, while the file is read.
                    raise KeyboardInterrupt
                yield record

        return Format("plays", "Plays", "plays", (Listen,), PLAYS.recognise, read)

    before = take(chosen, alice, stop=True)
    stopped = take(chosen, alice, until(45))
    halfway = len(plays(owner))
    done = take(chosen, alice)

    assert (before, stopped) == (Taken("stopped", has_more=True),) * 2
    assert halfway == 40
    assert done.line.endswith(" import_status=done")
    assert plays(owner) == list(range(95))
    assert owner.execute(
        "select status, (select sum(added) from profile.import_part) from profile.import"
    ).fetchall() == [("done", 95)]


def test_an_import_stops_when_the_disk_of_the_database_is_full_and_goes_on_later(
    chosen: Settings, directory: Directory, owner: Rows, alice: Person
) -> None:
    upload(directory, alice, numbers(95))
    # More MiB than any disk of this machine has.
    full = replace(chosen, storage_dir=directory.path, storage_reserve_mib=10**9 - 1)

    with pytest.raises(Interrupted, match=r"^the disk of the database is full$"):
        take(full, alice)
    problem = owner.execute("select status, problem from profile.import").fetchall()
    before = plays(owner)
    done = take(chosen, alice)

    assert problem == [("interrupted", "the disk of the database is full")]
    assert before == []
    assert done.line.endswith("status=done")
    assert plays(owner) == list(range(95))


def test_a_file_that_always_fails_delays_no_other_and_expires(
    chosen: Settings, directory: Directory, owner: Rows, alice: Person
) -> None:
    poison = upload(directory, alice, b"1\n", "poison.plays")
    upload(directory, alice, numbers(3))

    def recognise(head: Head) -> float:
        if head.name == "poison.plays":
            raise ZeroDivisionError
        return 1.0

    failing = Format("plays", "Plays", "plays", (Listen,), recognise, PLAYS.read)
    with pytest.raises(ZeroDivisionError):
        take(chosen, alice, failing)
    other = take(chosen, alice, failing)
    owner.execute(
        "update profile.upload set completed_at = now() - interval '71 hours' where upload_id = %s",
        [poison],
    )
    with pytest.raises(ZeroDivisionError):
        take(chosen, alice, failing)

    assert other.line.endswith(" import_status=done")
    assert owner.execute(
        "select status, expires_at - now() < interval '2 hours' from profile.upload"
        " where upload_id = %s",
        [poison],
    ).fetchone() == ("taken", True)


def test_a_command_that_imports_the_same_file_is_waited_for(
    chosen: Settings, directory: Directory, owner: Rows, alice: Person
) -> None:
    content = numbers(3)
    one = upload(directory, alice, content)
    digest, size = files.digest(directory.path / one)

    with closing(psycopg.connect(chosen.database_url or "", autocommit=True)) as command:
        receipts.begin(
            command,
            alice.user_id,
            file_name="a.plays",
            file_size=size,
            digest=digest,
            chosen_format=None,
        )
        with pytest.raises(AlreadyRunning):
            take(chosen, alice)
        waiting = uploads(owner)

    assert waiting == [("taken", None, None)]
    assert take(chosen, alice).line.endswith(" import_status=done")
    assert plays(owner) == [0, 1, 2]


def test_an_account_that_is_deleted_midway_ends_its_import(
    chosen: Settings, directory: Directory, owner: Rows, alice: Person
) -> None:
    one = upload(directory, alice, numbers(5))

    def read(file: File, person: Reader) -> Iterator[Any]:
        yield from PLAYS.read(file, person)
        owner.execute("delete from identity.user")

    deleting = Format("plays", "Plays", "plays", (Listen,), PLAYS.recognise, read)
    with pytest.raises(Over):
        take(chosen, alice, deleting)

    assert take(chosen, alice) == Taken()
    assert plays(owner) == []
    assert one in os.listdir(directory.path)


def test_a_file_that_cannot_be_opened_is_waited_for_and_delays_no_other(
    chosen: Settings, directory: Directory, owner: Rows, alice: Person
) -> None:
    one = upload(directory, alice, numbers(5))
    away = directory.path / one
    moved = away.rename(directory.path / "elsewhere")
    # As a file that another user of the system may not read: an open that fails, though its name is there.
    away.symlink_to(away)
    upload(directory, alice, numbers(3))

    other = take(chosen, alice)
    with pytest.raises(FileMissing):
        take(chosen, alice)
    waiting = uploads(owner)
    moved.replace(away)

    assert other.line.endswith(" import_status=done")
    assert sorted(waiting) == [("complete", None, None), ("ended", None, "done")]
    assert take(chosen, alice).line.endswith(" import_status=done")
    assert plays(owner) == [0, 1, 2, 3, 4]


@contextmanager
def worker(chosen: Settings, log: Path) -> Iterator[int]:
    """Run a worker until the end of the block; yields its process id."""
    lifeline, held = os.pipe()
    own = replace(chosen, jobs=True, database_url=None, lifeline=lifeline)
    variables = settings.environment(own, role_urls(chosen, ["worker", "importer"]))
    kept = {key: os.environ[key] for key in ("HOME", "PATH", "PYTHONPATH") if key in os.environ}
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "deploy.cli", "resource", "work"],
            env=kept | variables,
            pass_fds=[lifeline],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
    os.close(lifeline)
    try:
        yield process.pid
    finally:
        # The lifeline ends it like SIGTERM, also if this process ends first.
        os.close(held)
        assert process.wait(30) in (0, -signal.SIGKILL), log.read_text()


def test_a_worker_that_is_killed_midway_loses_and_doubles_nothing(
    chosen: Settings, directory: Directory, owner: Rows, alice: Person, tmp_path: Path
) -> None:
    count = 60_000
    listens = (
        samples.listenbrainz_listen() | {"listened_at": 1_600_000_000 + 60 * number}
        for number in range(count)
    )
    content = "\n".join(json.dumps(each) for each in listens).encode()
    upload(directory, alice, content, "listens.jsonl", "listenbrainz")

    def written() -> int:
        row = owner.execute("select coalesce(sum(records), 0) from profile.import_part").fetchone()
        return 0 if row is None else int(row[0])

    with worker(chosen, tmp_path / "first.log") as pid:
        wait_for(written, "the first batch")
        os.kill(pid, signal.SIGKILL)
    killed = written()
    # The lease of the one that was killed.
    owner.execute("update svc.turn set leased_until = now()")
    with worker(chosen, tmp_path / "second.log"):
        wait_for(lambda: uploads(owner) == [("ended", None, "done")], "the end of the import")

    assert 0 < killed < count
    assert owner.execute("select count(*) from music.listen").fetchone() == (count,)
    assert owner.execute(
        "select sum(records), sum(added), count(distinct import_id) from profile.import_part"
    ).fetchone() == (count, count, 1)


def test_a_worker_says_that_its_directory_is_another_one(
    chosen: Settings, directory: Directory, owner: Rows, tmp_path: Path
) -> None:
    owner.execute(
        "insert into svc.upload_directory (process, directory_id) values ('server', %s)",
        [directory.prepare()],
    )
    log = tmp_path / "worker.log"
    with worker(replace(chosen, upload_dir=tmp_path / "other"), log):
        wait_for(lambda: upkeep.DIFFERENT["worker"] in log.read_text(), "the line")
