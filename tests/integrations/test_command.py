"""``svc import`` and ``svc imports``, as people and scripts use them."""

import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg import sql

from deploy.operators import imports
from resourceserver.integrations.format import Head
from resourceserver.integrations.imports import running
from shared.settings import Settings
from tests.conftest import Person
from tests.integrations.bringing import of_listens

Rows = psycopg.Connection[Any]


class Command:
    """Runs the commands on the database of the tests."""

    def __init__(self, deployment: Settings, email: str) -> None:
        self.deployment, self.email = deployment, email

    def bring(self, *words: str | Path) -> Result:
        """Run ``svc import``."""
        return self.run(imports.import_files, *map(str, words), "--user", self.email)

    def run(self, command: Any, *words: str) -> Result:
        return CliRunner().invoke(command, [*words], obj=self.deployment)


@pytest.fixture
def command(deployment: Settings, alice: Person, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr(imports, "FORMATS", (of_listens("plays"), of_listens("other", 0.5)))
    return Command(deployment, alice.email)


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    path = tmp_path / "a.plays"
    path.write_text("1\n2\nbad\n")
    return path


def test_a_receipt_is_printed(command: Command, plays: Path) -> None:
    done = command.bring(plays)

    lines = done.output.splitlines()
    assert done.exit_code == 0
    assert lines[0].startswith(f"{plays}: plays (import ")
    assert lines[1:] == [
        "  3 records read, 2 new, 0 known, 0 changed, 1 refused",
        "  from 2025-06-15T15:07:40.000Z to 2025-06-15T15:08:40.000Z",
        "  refused 1: bad",
        "    bad",
        "  never tested with files that the services themselves have made: Plays",
    ]


def test_scripts_get_the_receipt_as_json(command: Command, plays: Path) -> None:
    first = json.loads(command.bring(plays, "--json").stdout)
    again = json.loads(command.bring(plays, "--json").stdout)
    listed = json.loads(command.run(imports.list_imports, command.email, "--json").stdout)
    found = json.loads(command.run(imports.show, first["import_id"], "--json").stdout)

    assert first["records"] == {"read": 3, "new": 2, "known": 0, "changed": 0, "refused": 1}
    assert again["records"] == {"read": 3, "new": 0, "known": 2, "changed": 0, "refused": 1}
    assert [each["import"] for each in listed] == [again["import_id"], first["import_id"]]
    assert found == first


def test_many_formats_are_printed_as_three_and_how_many_more(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    formats = []

    def recognise(wanted: str, head: Head) -> float:
        return float(head.name == wanted)

    for name in ("one", "two", "three", "four", "five"):
        (folder / f"{name}.plays").write_text("1")
        named = replace(of_listens(), name=name, title=name.title())
        formats.append(replace(named, recognise=partial(recognise, f"{name}.plays")))
    monkeypatch.setattr(imports, "FORMATS", formats)

    brought = command.bring(folder).stdout
    listed = command.run(imports.list_imports, command.email).stdout

    assert f"{folder}: five, four, one and 2 more (import " in brought
    assert "themselves have made: One, Two, Three and 2 more\n" in brought
    assert "five, four, one and 2 more  5 " in listed


def test_what_no_format_recognises_is_said_once(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "diary.txt"
    path.write_text("Dear diary")

    done = command.bring(path, "--dry-run")

    assert done.stdout == f"{path}: no known format\n"
    assert done.stderr == (
        f'{path}: no format recognises it; it looks like text that begins with "Dear diary"\n'
    )


def test_nothing_usable_is_a_failure_that_says_what_the_file_looks_like(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "diary.txt"
    path.write_text("Dear diary")

    done = command.bring(path, "--json")

    assert done.exit_code == 1
    assert json.loads(done.stdout)["status"] == "failed"
    assert done.stderr == (
        f'{path}: no format recognises it; it looks like text that begins with "Dear diary"\n'
    )


def test_one_usable_file_of_several_is_a_success(
    command: Command, plays: Path, tmp_path: Path
) -> None:
    nothing = tmp_path / "nothing"

    both = command.bring(nothing, plays)
    alone = command.bring(nothing)

    assert both.exit_code == 0
    assert alone.exit_code == 1
    assert alone.stderr == f"{nothing}: No such file or directory\n"


def test_a_dry_run_writes_nothing(command: Command, plays: Path, owner: Rows) -> None:
    done = command.bring(plays, "--dry-run")

    assert done.exit_code == 0
    assert "3 records read, 1 refused" in done.stdout
    assert owner.execute("select from profile.import").fetchall() == []


def test_rollups_and_summaries_are_made_and_nothing_is_due(
    deployment: Settings, alice: Person, owner: Rows, tmp_path: Path
) -> None:
    windows = {
        "id": "windows",
        "type": "currentwindow",
        "client": "aw-watcher-window",
        "hostname": "laptop",
        "events": [
            {
                "id": day,
                "timestamp": f"2025-{month:02}-{day:02}T08:00:00+00:00",
                "duration": 600,
                "data": {"app": "Code", "title": "main.py"},
            }
            for month in (5, 6)
            for day in range(1, 29)
        ],
    }
    path = tmp_path / "buckets.json"
    path.write_text(json.dumps({"buckets": {"windows": windows}}))
    command = Command(deployment, alice.email)

    done = command.bring(path)

    assert done.exit_code == 0, done.output
    assert due(owner, alice) == (0, 0, 0)
    made = owner.execute(
        "select count(distinct date) from activity.daily_summary where user_id = %s",
        [alice.user_id],
    )
    assert made.fetchone() == (56,)

    listed = json.loads(command.run(imports.list_imports, command.email, "--json").stdout)
    undone = command.run(imports.import_files, "--undo", listed[0]["import"])

    assert undone.exit_code == 0, undone.output
    assert due(owner, alice) == (0, 0, 0)


def due(owner: Rows, person: Person) -> tuple[Any, ...] | None:
    """Return how many days of a person wait for visits, rollups and summaries."""
    return owner.execute(
        """
        select (select count(*) from location.derivation_due where user_id = %(user_id)s),
               (select count(*) from activity.rollup_due where user_id = %(user_id)s),
               (select count(*) from activity.summary_due where user_id = %(user_id)s)
        """,
        {"user_id": person.user_id},
    ).fetchone()


def test_the_format_can_be_chosen(command: Command, plays: Path) -> None:
    chosen = command.bring(plays, "--as", "other")
    unknown = command.bring(plays, "--as", "nothing")

    assert "other (import " in chosen.stdout
    assert unknown.exit_code == 1
    assert "there is no format nothing; there are other, plays" in unknown.stderr


def test_an_import_is_undone(command: Command, plays: Path, owner: Rows) -> None:
    import_id = json.loads(command.bring(plays, "--json").stdout)["import_id"]

    done = command.run(imports.import_files, "--undo", import_id)
    unknown = command.run(imports.import_files, "--undo", "x")

    assert done.stdout == f"removed the records that import {import_id} added\n"
    assert owner.execute("select from music.listen").fetchall() == []
    assert unknown.exit_code == 1


def test_ctrl_c_leaves_an_import_that_the_next_run_ends(
    command: Command, plays: Path, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    owner.execute(
        "insert into location.derivation_due select user_id, '2025-06-16' from identity.user"
        " where email = %s",
        [command.email],
    )
    marked = "select date::text from location.derivation_due"
    with monkeypatch.context() as patch:
        patch.setattr(running, "run", interrupt)
        stopped = command.bring(plays)
    assert owner.execute(marked).fetchall() == [("2025-06-16",)]
    again = json.loads(command.bring(plays, "--json").stdout)
    listed = json.loads(command.run(imports.list_imports, command.email, "--json").stdout)

    assert stopped.exit_code == 1
    assert "interrupted: import the same file again to continue" in stopped.stderr
    assert [each["import"] for each in listed] == [again["import_id"]]
    assert again["records"]["new"] == 2
    assert owner.execute(marked).fetchall() == []


def test_ctrl_c_ends_the_command_and_not_only_the_file(
    command: Command, plays: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run", interrupt)

    stopped = command.bring(plays, tmp_path / "further.plays")

    assert stopped.exit_code == 1
    assert stopped.stderr == f"{plays}: interrupted: import the same file again to continue\n"


def test_a_server_that_was_restarted_midway_does_not_make_an_import_fail(
    command: Command, plays: Path, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = running.run

    def run_and_restart(*given: Any) -> None:
        run(*given)
        ended = owner.execute(
            "select pg_terminate_backend(pid) from pg_locks"
            " where locktype = 'advisory' and database ="
            " (select oid from pg_database where datname = current_database())"
        )
        assert ended.rowcount > 0

    monkeypatch.setattr(running, "run", run_and_restart)

    done = command.bring(plays, "--json")

    assert done.exit_code == 0
    assert json.loads(done.stdout)["status"] == "done"


def test_scripts_get_the_receipts_of_files_before_an_error_of_the_database(
    command: Command, plays: Path, tmp_path: Path, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, later = running.run, tmp_path / "later.plays"
    later.write_text("7\n")

    def run_and_break(planned: running.Plan, *given: Any) -> None:
        run(planned, *given)
        if planned.parts[0].name == later.name:
            owner.execute("alter table profile.import rename to import_away")

    monkeypatch.setattr(running, "run", run_and_break)
    try:
        done = command.bring(plays, later, "--json")
    finally:
        owner.execute("alter table profile.import_away rename to import")

    assert done.exit_code == 1
    assert [each["file"] for each in json.loads(done.stdout)] == [plays.name]
    assert "profile.import" in done.stderr


def test_a_terminal_gets_a_progress_bar_from_the_first_byte_on(
    command: Command, plays: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = os.openpty()
    words = [str(plays), "--user", command.email, "--json"]
    with monkeypatch.context() as patch, open(theirs, "w") as screen:
        patch.setattr(sys, "stderr", screen)
        imports.import_files.main(words, obj=command.deployment, standalone_mode=False)
        screen.flush()
        written = os.read(ours, 100_000).decode()

    os.close(ours)
    label = str(plays)[-40:]
    assert written.index(f"{label}, checksum  [") < written.index(f"{label}  [")
    assert written.count("100%") >= 2


def test_ctrl_c_while_the_database_is_away_says_how_to_go_on(
    command: Command, plays: Path, owner: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = command.deployment.database_url or ""
    statement = sql.SQL("alter database {} allow_connections {}")
    place = sql.Identifier(owner.info.dbname)
    # Not from within the database, which would keep a way back.
    with psycopg.connect(url, dbname="postgres", autocommit=True) as outside:

        def leave(*_: object) -> None:
            outside.execute(statement.format(place, sql.SQL("false")))
            raise KeyboardInterrupt

        monkeypatch.setattr(running, "run", leave)
        try:
            stopped = command.bring(plays)
        finally:
            outside.execute(statement.format(place, sql.SQL("true")))

    assert stopped.exit_code == 1
    assert stopped.stderr == f"{plays}: interrupted: import the same file again to continue\n"


def test_files_of_nobody_are_refused(command: Command, plays: Path) -> None:
    command.email = "nobody@example.org"

    done = command.bring(plays)

    assert done.exit_code == 1
    assert "there is no account nobody@example.org" in done.stderr
