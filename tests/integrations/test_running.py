"""One import from its begin to its end, and what may happen between."""

import gzip
import io
import json
import secrets
import subprocess
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from resourceserver.integrations.format import File, Format, Person
from resourceserver.integrations.imports import (
    batches,
    checks,
    files,
    receipts,
    running,
    undo,
    writing,
)
from resourceserver.integrations.imports.receipts import AlreadyRunning
from resourceserver.integrations.imports.running import Interrupted, Over
from resourceserver.integrations.records import (
    AppSession,
    Calendar,
    CalendarEvent,
    CodeEvent,
    HeartRate,
    Listen,
    Place,
    PlaceEvent,
    Point,
    Recording,
    Sample,
    Sensor,
    TranscriptSegment,
)
from tests import conftest
from tests.conftest import Connect
from tests.integrations.bringing import (
    NOW,
    Importer,
    archive,
    counts,
    listen,
    of_listens,
    of_records,
)
from tests.integrations.test_writing import EXAMPLES
from tests.waiting import wait_for, wait_for_rivals

Rows = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BATCH", 10)
    monkeypatch.setattr(batches, "ROWS", 4)


def numbers(path: Path, count: int, *others: str) -> Path:
    """Write a file of plays."""
    path.write_text("\n".join([*map(str, range(count)), *others]))
    return path


def locks(owner: Rows) -> int:
    """Return how many imports and files are locked."""
    row = owner.execute(
        """
        select count(*)
          from pg_locks
          join pg_database on pg_database.oid = pg_locks.database
         where locktype = 'advisory'
           and datname = current_database()
        """
    ).fetchone()
    assert row is not None
    return int(row[0])


def listens(owner: Rows) -> int:
    row = owner.execute("select count(*) from music.listen").fetchone()
    assert row is not None
    return int(row[0])


def test_a_receipt_accounts_for_every_record(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    file = numbers(tmp_path / "a.plays", 25, *["0"] * 3, *["x", "y", "z", "w"], "stop", "26")

    receipt = importer.run(file, of_listens())

    assert counts(receipt) == (32, 25, 3, 0, 4)
    assert receipt["refused"] == [{"reason": "bad", "count": 4, "examples": ["x", "y", "z"]}]
    assert receipt["formats"] == ["plays"]
    assert (receipt["first_at"], receipt["last_at"]) == (
        "2025-06-15T15:06:40.000Z",
        "2025-06-15T15:30:40.000Z",
    )
    assert receipt["parts"][0]["problem"] == "it stops here"
    assert listens(owner) == 25


def test_the_same_file_again_adds_nothing_and_a_newer_one_what_is_new(
    importer: Importer, tmp_path: Path
) -> None:
    importer.run(numbers(tmp_path / "a.plays", 25), of_listens())

    again = importer.run(numbers(tmp_path / "a.plays", 25), of_listens())
    newer = importer.run(numbers(tmp_path / "a.plays", 27), of_listens())

    assert counts(again) == (25, 0, 25, 0, 0)
    assert counts(newer) == (27, 2, 25, 0, 0)


def test_a_fault_of_a_reader_costs_no_record_before_it(importer: Importer, tmp_path: Path) -> None:
    receipt = importer.run(numbers(tmp_path / "a.plays", 25, "fault"), of_listens())

    assert counts(receipt) == (25, 25, 0, 0, 0)
    assert "ZeroDivisionError" in receipt["parts"][0]["problem"]


@given(
    lines=st.lists(st.sampled_from([*map(str, range(12)), "x", "y"]), max_size=60),
    already=st.lists(st.sampled_from([*map(str, range(12))]), max_size=8),
)
def test_new_known_changed_and_refused_add_up_to_what_was_read(
    importer: Importer, owner: Rows, tmp_path: Path, lines: list[str], already: list[str]
) -> None:
    owner.execute("delete from music.listen")
    owner.execute("delete from profile.import")
    (tmp_path / "before.plays").write_text("\n".join(already))
    importer.run(tmp_path / "before.plays", of_listens())
    (tmp_path / "a.plays").write_text("\n".join(lines))

    receipt = importer.run(tmp_path / "a.plays", of_listens())

    good = {line for line in lines if line.isdecimal()}
    refused = sum(not line.isdecimal() for line in lines)
    new = len(good - set(already))
    assert counts(receipt) == (len(lines), new, len(lines) - refused - new, 0, refused)


@pytest.mark.parametrize("stop_after", [0, 10, 11, 34])
def test_a_killed_run_goes_on_under_the_same_import_without_doubling(
    importer: Importer, owner: Rows, tmp_path: Path, stop_after: int
) -> None:
    lines = [*map(str, range(30)), "bad", "3", "worse", "31", "32"]
    file = tmp_path / "a.plays"
    file.write_text("\n".join(lines))
    words = {
        "database_url": importer.settings.database_url,
        "file": str(file),
        "batch": 10,
        "data_dir": str(importer.settings.data_dir),
        "stop_after": stop_after,
        "user_id": str(importer.person.user_id),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integrations.killed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        assert killed.stdin is not None
        assert killed.stdout is not None
        killed.stdin.write(json.dumps(words) + "\n")
        killed.stdin.flush()
        assert killed.stdout.readline() == "waiting\n"
        # Its batches may still be on their way; what the receipt says is what was written.
        killed.kill()
        killed.wait()
    before = owner.execute("select import_id::text, status from profile.import").fetchall()
    written = wait_for_quiet(owner)

    receipt = importer.run(file, of_listens())

    assert [(receipt["import_id"], "running")] == before
    assert written <= stop_after
    assert counts(receipt) == (35, 32, 1, 0, 2)
    assert [each["count"] for each in receipt["refused"]] == [2]
    assert listens(owner) == 32


def test_an_interrupted_file_with_another_name_is_another_import(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    file = numbers(tmp_path / "a.plays", 25)

    def leave() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        importer.run(file, Gate(15, leave).format)
    # A server releases the locks of a connection a moment after its client has closed it.
    wait_for(lambda: not locks(owner), "the lock of the first run to be released")
    receipt = importer.run(file.rename(tmp_path / "b.plays"), of_listens())

    assert (receipt["file"], len(receipt["parts"])) == ("b.plays", 1)
    assert counts(receipt) == (25, 15, 10, 0, 0)


def wait_for_quiet(owner: Rows) -> int:
    """Return how many records are counted when the server has noticed that the process is gone."""
    for _ in range(1000):
        row = owner.execute(
            "select count(*) from pg_stat_activity"
            " where usename = 'svc_importer' and datname = current_database()"
        ).fetchone()
        if row == (0,):
            break
        owner.execute("select pg_sleep(0.01)")
    row = owner.execute("select coalesce(sum(records), 0) from profile.import_part").fetchone()
    assert row is not None
    return int(row[0])


class Gate:
    """A format whose reader does something before it yields the record at a place."""

    def __init__(self, at: int, action: Callable[[], object]) -> None:
        self.done = False
        plain = of_listens()

        def read(file: File, person: Person) -> Any:
            for place, item in enumerate(plain.read(file, person)):
                if place == at and not self.done:
                    self.done = True
                    action()
                yield item

        self.format = Format("plays", "Plays", "plays", (Listen,), plain.recognise, read)


def test_one_file_is_not_imported_twice_at_once(importer: Importer, tmp_path: Path) -> None:
    file = numbers(tmp_path / "a.plays", 25)
    refused: list[Exception] = []

    def bring_again() -> None:
        with suppress(AlreadyRunning):
            importer.run(file, of_listens())
            return
        refused.append(AlreadyRunning())

    receipt = importer.run(file, Gate(15, bring_again).format)

    assert len(refused) == 1
    assert counts(receipt) == (25, 25, 0, 0, 0)


def test_two_imports_of_the_same_records_at_once_write_each_once(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    found: list[Any] = []
    files_ = [tmp_path / "a.plays", tmp_path / "b.plays"]
    files_[0].write_text("\n".join(map(str, range(400))))
    files_[1].write_text("\n".join(map(str, reversed(range(400)))))

    def bring(path: Path) -> None:
        found.append(counts(importer.run(path, of_listens())))

    threads = [threading.Thread(target=bring, args=(path,)) for path in files_]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert listens(owner) == 400
    assert [each[0] for each in found] == [400, 400]
    assert sum(each[1] for each in found) == 400
    assert sum(each[2] for each in found) == 400


def test_new_records_that_another_transaction_adds_at_this_moment_are_written_once(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    rates = [HeartRate(f"rate {n}", NOW, 60, Sensor("watch")) for n in range(6)]
    importer.take(tmp_path / "first", rates[0])
    found: list[Any] = []
    bringing = threading.Thread(
        target=lambda: found.append(counts(importer.take(tmp_path / "file", *rates[1:])))
    )

    with owner.transaction():
        owner.execute(
            """
            insert into health.heart_rate (
                user_id, heart_rate_id, source, provider_key, recorded_at, bpm, source_id
            )
            select user_id, gen_random_uuid(), source, 'rate 3', recorded_at, bpm, source_id
              from health.heart_rate
            """
        )
        bringing.start()
        wait_for_rivals(owner, 1)
    bringing.join()

    assert found == [(5, 4, 1, 0, 0)]
    assert owner.execute("select count(*) from health.heart_rate").fetchone() == (6,)


@pytest.mark.parametrize("played_ms", [-1, 2**70], ids=["constraint", "value"])
def test_a_record_that_only_the_database_refuses_costs_no_other(
    importer: Importer,
    owner: Rows,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    played_ms: int,
) -> None:
    # As if the checks had a gap.
    monkeypatch.setattr(checks, "refusal", lambda _: None)
    plays = [listen(n, played_ms=played_ms if n in (3, 17) else 1) for n in range(25)]
    rates = [
        HeartRate(f"rate {n}", NOW, 2**70 if n == 1 else 60, Sensor(f"watch {n % 2}"))
        for n in range(5)
    ]

    receipt = importer.take(tmp_path / "file", *plays[:5], *rates, *plays[5:], listen(1))

    assert counts(receipt) == (31, 27, 1, 0, 3)
    (refused,) = receipt["refused"]
    assert (refused["reason"], refused["count"]) == ("refused_by_database", 3)
    assert any("track=Track 17, " in example for example in refused["examples"])
    assert listens(owner) == 23
    assert owner.execute("select count(*) from health.heart_rate").fetchone() == (4,)


def test_a_key_that_is_too_long_for_an_index_costs_no_other_record(
    importer: Importer, owner: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks, "refusal", lambda _: None)
    monkeypatch.setattr(running, "PATIENCE_S", 0.0)
    # Random, since an index compresses what it holds.
    plays = [listen(1), listen(2, key=secrets.token_hex(4000)), listen(3)]

    receipt = importer.take(tmp_path / "file", *plays)

    assert counts(receipt) == (3, 2, 0, 0, 1)
    assert receipt["refused"][0]["reason"] == "refused_by_database"
    assert listens(owner) == 2


def test_an_account_that_is_deleted_midway_ends_the_import(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    file = numbers(tmp_path / "a.plays", 45)
    gate = Gate(25, lambda: owner.execute("delete from identity.user"))

    with pytest.raises(Over):
        importer.run(file, gate.format)

    assert listens(owner) < 45


def test_a_run_that_was_taken_over_writes_nothing_more(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    file = numbers(tmp_path / "a.plays", 45)
    gate = Gate(25, lambda: owner.execute("update profile.import set key_hash = sha256('x')"))

    with pytest.raises(Over):
        importer.run(file, gate.format)

    row = owner.execute("select sum(records) from profile.import_part").fetchone()
    assert row == (listens(owner),)


def end_sessions(connection: Rows) -> int:
    """End the sessions of the importer, and return how many there were."""
    rows = connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where usename = 'svc_importer' and datname = current_database()"
    )
    return len(rows.fetchall())


def test_a_connection_that_breaks_midway_loses_and_doubles_nothing(
    importer: Importer, owner: Rows, ending_as: Connect, tmp_path: Path
) -> None:
    ended: list[int] = []

    def end_all() -> None:
        ended.append(end_sessions(ending_as("importer")))

    receipt = importer.run(numbers(tmp_path / "a.plays", 45), Gate(25, end_all).format)

    assert ended == [1]
    assert counts(receipt) == (45, 45, 0, 0, 0)
    assert listens(owner) == 45


def test_what_records_refer_to_is_added_again_when_it_is_gone(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    rates = [HeartRate(f"rate {n}", NOW, 60, Sensor("watch")) for n in range(30)]

    def remove() -> None:
        owner.execute("delete from health.source")

    def read(*_: object) -> Iterator[HeartRate]:
        yield from rates[:25]
        remove()
        yield from rates[25:]

    path = tmp_path / "file"
    path.write_bytes(b"x")
    receipt = importer.run(path, replace(of_records([]), read=read))

    assert counts(receipt) == (30, 30, 0, 0, 0)
    assert owner.execute("select name from health.source").fetchall() == [("watch",)]


@pytest.mark.parametrize(
    ("record", "table"),
    [
        (HeartRate("rate", NOW, 60, Sensor("watch")), "health.source"),
        (Sample("weight", "weight_kg", NOW, NOW, 70, Sensor("scale")), "health.source"),
        (Point("point", NOW, 52.4, 4.9, device="phone"), "location.device"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_what_records_refer_to_cannot_go_before_they_are_written(
    importer: Importer,
    owner: Rows,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    record: Any,
    table: str,
) -> None:
    # No foreign key keeps it.
    monkeypatch.setattr(running, "BATCH", 1)
    write = writing.WRITERS[type(record)]
    removed: list[int] = []

    def remove(target: writing.Target, source: str, rows: writing.Rows) -> writing.Written:
        written = write(target, source, rows)
        free = owner.execute(f"select from {table} for update skip locked")
        removed.append(free.rowcount)
        return written

    monkeypatch.setitem(writing.WRITERS, type(record), remove)

    importer.take(tmp_path / "file", record, record._replace(key="another"))

    assert removed == [0, 0]
    assert owner.execute(f"select from {table} for update skip locked").rowcount == 1


def test_what_a_crashed_server_has_lost_is_written_again(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    def lose() -> None:
        # As if the server had crashed before its last transactions were on the disk.
        owner.execute("delete from music.listen")
        owner.execute(
            "update profile.import_part set records = 0, added = 0, known = 0, refused = 0"
        )

    receipt = importer.run(numbers(tmp_path / "a.plays", 45), Gate(25, lose).format)

    assert receipt["records"]["read"] == 45
    assert listens(owner) == 45


def test_a_database_that_stays_away_interrupts_the_import_and_the_next_run_goes_on(
    importer: Importer, owner: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(running, "PATIENCE_S", 0.0)
    file = numbers(tmp_path / "a.plays", 45)
    place = sql.Identifier(owner.info.dbname)

    def leave() -> None:
        owner.execute(sql.SQL("revoke connect on database {} from public").format(place))
        end_sessions(owner)

    try:
        with pytest.raises(Interrupted, match="the database does not answer"):
            importer.run(file, Gate(25, leave).format)
    finally:
        owner.execute(sql.SQL("grant connect on database {} to public").format(place))

    # A server releases the locks of a connection a moment after its client has closed it.
    wait_for(lambda: not locks(owner), "the lock of the first run to be released")
    receipt = importer.run(file, of_listens())

    assert counts(receipt) == (45, 45, 0, 0, 0)
    assert listens(owner) == 45


def test_ctrl_c_waits_for_no_database_that_is_away(
    importer: Importer, owner: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    attempts: list[bool] = []
    connect = psycopg.connect

    def count(*given: Any, **named: Any) -> Any:
        attempts.append(True)
        return connect(*given, **named)

    def read(*_: object) -> Iterator[Listen]:
        yield from map(listen, range(15))
        wait_for(lambda: listens(owner) == 10, "the first batch")
        owner.execute(sql.SQL("revoke connect on database {} from public").format(place))
        end_sessions(owner)
        yield from map(listen, range(15, 20))
        # The second batch is full, and its writer tries in vain.
        before = len(attempts)
        wait_for(lambda: len(attempts) > before + 1, "a second attempt to connect")
        attempts.clear()
        raise KeyboardInterrupt

    monkeypatch.setattr(psycopg, "connect", count)
    monkeypatch.setattr(running, "_PAUSES_S", (0.2,))
    monkeypatch.setattr(running, "PATIENCE_S", 4.0)
    monkeypatch.setattr(running, "GRACE_S", 0.1)
    place = sql.Identifier(owner.info.dbname)
    path = tmp_path / "file"
    path.write_bytes(b"x")
    try:
        with pytest.raises(KeyboardInterrupt):
            importer.run(path, replace(of_records([]), read=read))
    finally:
        owner.execute(sql.SQL("grant connect on database {} to public").format(place))

    assert len(attempts) <= 2


def test_an_import_is_undone_and_what_others_brought_stays(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    kept = importer.take(
        tmp_path / "kept", listen(1), AppSession("kept", *EXAMPLES["activity.app_session"][0][1:])
    )
    brought = importer.take(
        tmp_path / "all", listen(1), *(record for record, _ in EXAMPLES.values())
    )
    owner.execute("delete from activity.summary_due")
    with closing(psycopg.connect(importer.settings.database_url or "", autocommit=True)) as own:
        undo.undo(own, importer.person.user_id, brought["import_id"])
        receipt = receipts.read(own, importer.person.user_id, brought["import_id"])

    assert receipt is not None
    assert receipt["status"] == "undone"
    for table in (
        *EXAMPLES,
        "location.place",
        "content.title",
        "content.calendar",
        "health.recovery",
    ):
        rows = owner.execute(f"select count(*) from {table}").fetchone()  # noqa: S608 -- named above
        assert rows == (1 if table in ("music.listen", "activity.app_session") else 0,), table
    assert owner.execute("select date::text from activity.summary_due").fetchall() == [
        ("2025-06-16",)
    ]
    assert owner.execute(
        "select stream, event_count from activity.device_stream order by 1"
    ).fetchall() == [
        ("app_sessions", 1),
        ("coding_sessions", 0),
    ]
    assert counts(kept) == (2, 2, 0, 0, 0)
    again = importer.take(tmp_path / "all", listen(1), *(record for record, _ in EXAMPLES.values()))
    assert counts(again) == (14, 13, 1, 0, 0)


def test_an_import_that_runs_is_not_undone(importer: Importer, owner: Rows, tmp_path: Path) -> None:
    refused: list[bool] = []

    def undo_it() -> None:
        row = owner.execute("select import_id from profile.import").fetchone()
        assert row is not None
        with closing(psycopg.connect(importer.settings.database_url or "", autocommit=True)) as own:
            try:
                undo.undo(own, importer.person.user_id, row[0])
            except AlreadyRunning:
                refused.append(True)

    importer.run(numbers(tmp_path / "a.plays", 25), Gate(15, undo_it).format)

    assert refused == [True]


def inner(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, each in members.items():
            packed.writestr(name, each)
    return content.getvalue()


def test_files_in_archives_and_folders_are_found_and_what_could_do_harm_is_left_out(
    importer: Importer, owner: Rows, tmp_path: Path
) -> None:
    deepest = inner({"e.plays": b"5"})
    path = archive(
        tmp_path / "takeout.zip",
        {
            "a.plays": b"1",
            "folder/b.plays.gz": gzip.compress(b"2"),
            "c.zip": inner({"c.plays": b"3", "d.plays": b"\x00\x01 no number"}),
            "deep.zip": inner({"deeper.zip": inner({"deepest.zip": deepest})}),
            "../evil.plays": b"6",
            "/absolute.plays": b"7",
            "bomb.plays": b"8" * 2**25,
            "photo.jpg": b"\xff\xd8\xff",
            "__MACOSX/a.plays": b"9",
        },
    )

    receipt = importer.run(path, of_listens())

    problems = {part["name"]: part["problem"] for part in receipt["parts"] if part["problem"]}
    assert problems == {
        "../evil.plays": "its name leads out of the archive",
        "/absolute.plays": "its name leads out of the archive",
        "bomb.plays": files._TOO_DENSE,
        "deep.zip/deeper.zip": "it lies in more than 2 archives",
    }
    assert receipt["ignored"] == {"count": 1, "names": ["photo.jpg"]}
    assert counts(receipt) == (4, 3, 0, 0, 1)
    keys = owner.execute("select provider_key from music.listen order by 1").fetchall()
    assert keys == [("play 1",), ("play 2",), ("play 3",)]


def test_members_of_one_name_are_each_read(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        packed.writestr("a.plays", "1")
        packed.writestr("a.plays", "2")
        packed.writestr("a.plays.gz", gzip.compress(b"3"))

    receipt = importer.run(path, replace(of_listens(), recognise=lambda _: 1.0))

    assert counts(receipt) == (3, 3, 0, 0, 0)
    names = [part["name"] for part in receipt["parts"]]
    assert names == ["a.plays", "a.plays (2)", "a.plays (3)"]


LONG = "x" * 600
PLACE = Place("p", "Home", address=LONG)


@pytest.mark.parametrize(
    "record",
    [
        Recording("a", NOW, 0, transcript=LONG),
        Recording("a", NOW, 0, segments=(TranscriptSegment(0, 1, None, LONG),)),
        CalendarEvent("a", Calendar("c", "Work"), NOW, NOW, "confirmed", title=LONG),
        PlaceEvent("a", "visit", "confirmed", NOW, NOW, PLACE),
        CodeEvent("a", "commit", "pushed", NOW, "me/svc", title=LONG),
        AppSession("a", NOW, NOW, "laptop", "Code", url=LONG),
        listen(1, artists=(LONG,)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_long_texts_make_batches_small(
    importer: Importer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record: Any
) -> None:
    monkeypatch.setattr(running, "HEAVIEST", 1000)
    sizes: list[int] = []
    finish = batches.Batch.finished

    def note(batch: batches.Batch) -> batches.Batch:
        sizes.append(batch.count)
        return finish(batch)

    monkeypatch.setattr(batches.Batch, "finished", note)

    importer.take(tmp_path / "file", *[record] * 5)

    assert sizes == [2, 2, 1]


def test_ids_of_more_than_fit_into_memory_are_forgotten(
    importer: Importer, owner: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(writing, "MOST_IDS", 5)
    most: list[int] = []
    write = writing.WRITERS[PlaceEvent]

    def note(target: writing.Target, source: str, rows: writing.Rows) -> writing.Written:
        written = write(target, source, rows)
        most.append(sum(map(len, target.ids.values())))
        return written

    monkeypatch.setitem(writing.WRITERS, PlaceEvent, note)
    visits = [
        PlaceEvent(f"visit {n}", "visit", "confirmed", NOW, None, Place(f"place {n % 30}", "Home"))
        for n in range(60)
    ]

    receipt = importer.take(tmp_path / "file", *visits)

    assert counts(receipt) == (60, 60, 0, 0, 0)
    assert max(most) <= 2 * 10
    assert owner.execute("select count(*) from location.place").fetchall() == [(30,)]


def test_links_in_folders_are_not_followed(importer: Importer, tmp_path: Path) -> None:
    outside = tmp_path / "secret.plays"
    outside.write_text("1")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.plays").write_text("2")
    (folder / "link.plays").symlink_to(outside)

    receipt = importer.run(folder, of_listens())

    assert counts(receipt) == (1, 1, 0, 0, 0)
    assert receipt["parts"][1]["problem"] == "it is a symbolic link"


@pytest.mark.parametrize("cut", [1, 20, 60, 100])
def test_a_damaged_archive_is_an_error_in_words(tmp_path: Path, cut: int) -> None:
    path = archive(tmp_path / "a.zip", {"a.plays": b"1\n" * 5000})
    path.write_bytes(path.read_bytes()[:-cut])

    with pytest.raises(files.CannotOpen, match="damaged"), ExitStack() as within:
        files.bring(path, within)


def test_a_member_that_is_damaged_keeps_what_was_read_before(
    importer: Importer, tmp_path: Path
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a.plays", "\n".join(f"{number:0300}" for number in range(2000)))
    content = bytearray(path.read_bytes())
    content[400_000] = ord("x")
    path.write_bytes(content)

    receipt = importer.run(path, of_listens())

    assert "damaged" in receipt["parts"][0]["problem"]
    assert 0 < receipt["records"]["new"] <= 2000


def test_formats_that_are_equally_sure_are_a_choice_of_the_person(
    importer: Importer, tmp_path: Path
) -> None:
    file = numbers(tmp_path / "a.plays", 3)
    first, second = of_listens("first"), of_listens("second")

    tied = importer.run(file, first, second)
    chosen = importer.run(file, first, second, chosen=second)
    surest = importer.run(file, first, of_listens("other", 0.5))

    assert tied["parts"][0]["problem"] == "it may be first or second: choose one with --as"
    assert chosen["formats"] == ["second"]
    assert surest["formats"] == ["first"]


def test_a_dry_run_counts_and_writes_nothing(
    owner: Rows, tmp_path: Path, importer: Importer
) -> None:
    dry = running.DryRun()
    with ExitStack() as within:
        file = numbers(tmp_path / "a.plays", 25, "x")
        planned = running.plan(files.bring(file, within), [of_listens()])
        running.run(planned, Person(importer.zone, NOW), dry)

    receipt = dry.receipt("a.plays", 1, b"")
    assert receipt["records"] | {"refused": 1} == {
        "read": 26,
        "new": None,
        "known": None,
        "changed": None,
        "refused": 1,
    }
    assert listens(owner) == 0
    assert running.failure(receipt, planned) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"%PDF-1.7", "a PDF document"),
        (b'{"songs": [{"title": 1}]}', "JSON with songs, title"),
        (b"<?xml version='1.0'?><plist>", "XML with the root element plist"),
        (b"Name,Date\nx,y\n", "a table with the columns Name, Date"),
        (b"Dear diary", 'text that begins with "Dear diary"'),
    ],
)
def test_a_file_that_no_format_recognises_is_described(
    importer: Importer, tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)

    with ExitStack() as within:
        planned = running.plan(files.bring(path, within), [of_listens()])

    assert planned.likeness == words
    assert planned.parts == ()


def test_a_person_sees_nothing_of_the_import_of_another(
    importer: Importer, bob: conftest.Person, tmp_path: Path
) -> None:
    file = numbers(tmp_path / "a.plays", 3)
    importer.run(file, of_listens())

    receipt = replace(importer, person=bob).run(file, of_listens())

    assert counts(receipt) == (3, 3, 0, 0, 0)
