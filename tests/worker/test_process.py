"""Workers as processes: they follow what is ingested, and one that is killed loses nothing."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from shared import settings
from shared.settings import Settings
from tests.conftest import Person
from tests.processes import role_urls
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]


@dataclass(frozen=True)
class WorkerProcess:
    """A worker that runs, with a file of its log lines and the folder of its imports."""

    process: subprocess.Popen[bytes]
    log: Path
    directory: Path

    def lines(self, pattern: str) -> list[str]:
        """Return what ``pattern`` matches in the log."""
        return re.findall(pattern, self.log.read_text())


@contextmanager
def worker(deployment: Settings, directory: Path, name: str) -> Iterator[WorkerProcess]:
    """Run a worker until the end of the block, and then end it in order unless it has ended."""
    log = directory / name
    lifeline, held = os.pipe()
    chosen = replace(deployment, database_url=None, lifeline=lifeline)
    variables = settings.environment(chosen, role_urls(deployment, ["worker"]))
    kept = {key: os.environ[key] for key in ("HOME", "PATH", "PYTHONPATH") if key in os.environ}
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.example", str(directory)],
            env=kept | variables,
            pass_fds=[lifeline],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
    os.close(lifeline)
    try:
        yield WorkerProcess(process, log, directory)
    finally:
        # The lifeline ends it like SIGTERM, also if this process ends first.
        os.close(held)
        assert process.wait(30) in (0, -signal.SIGKILL), log.read_text()


@pytest.fixture(scope="module")
def standing(
    deployment: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """The worker of all tests."""
    with worker(deployment, tmp_path_factory.mktemp("worker"), "standing.log") as running:
        yield running


def upload(standing: WorkerProcess, owner: Rows, person: Person, *names: str) -> None:
    """Bring files of a person, and make the turn due that imports them."""
    folder = standing.directory / str(person.user_id)
    folder.mkdir()
    for name in names:
        (folder / f"{name}.upload").touch()
    owner.execute("select svc.make_due(%s, 'import')", [person.user_id])


def test_rollups_and_summaries_follow_what_is_ingested(
    standing: WorkerProcess, api: TestClient, owner: Rows, alice: Person
) -> None:
    session = {
        "idempotency_key": "a",
        "device": "laptop",
        "app": "Code",
        "started_at": "2025-06-16T09:00:00Z",
        "duration_ms": 3_600_000,
    }
    headers = alice.headers("ingest:app_sessions")
    accepted = api.post(
        "/api/v1/ingest/app-sessions", json={"events": [session]}, headers=headers
    ).json()
    # As if the day had been quiet since then.
    owner.execute("update activity.rollup_due set marked_at = now() - interval '5 minutes'")

    def left() -> object:
        return owner.execute(
            """
            select (select count(*) from activity.rollup_due),
                   (select count(*) from activity.summary_due),
                   (select count(*) from svc.turn)
            """
        ).fetchone()

    wait_for(lambda: left() == (0, 0, 0), "rollups and summaries")

    assert accepted["accepted"] == 1
    assert owner.execute(
        "select user_id, sum(owned_ms) from activity.app_time where grain = 3 group by user_id"
    ).fetchall() == [(alice.user_id, 3_600_000)]
    assert owner.execute(
        "select user_id, date::text, status from activity.daily_summary"
    ).fetchall() == [(alice.user_id, "2025-06-16", "final")]
    assert standing.lines(rf"kind=rollups user_id={alice.user_id} attempt=1 .* days=(\d+)") == ["1"]
    assert standing.lines(rf"kind=summaries user_id={alice.user_id} .* days=(\d+)") == ["1"]


def test_imports_of_two_people_take_turns_with_a_line_each(
    standing: WorkerProcess, owner: Rows, alice: Person, bob: Person
) -> None:
    (standing.directory / "hold").touch()
    upload(standing, owner, alice, "a1", "a2")
    upload(standing, owner, bob, "b1", "b2")
    (standing.directory / "hold").unlink()

    wait_for(lambda: len(standing.lines(r"file=([ab]\d)")) == 4, "four imports")

    assert standing.lines(r"kind=import .* file=([ab]\d)") == ["a1", "b1", "a2", "b2"]


@pytest.mark.parametrize(
    ("number", "attempt"), [(signal.SIGKILL, "2"), (signal.SIGTERM, "1")], ids=["killed", "stopped"]
)
def test_the_turn_of_a_worker_that_ends_is_another_workers(
    deployment: Settings,
    standing: WorkerProcess,
    owner: Rows,
    alice: Person,
    bob: Person,
    number: signal.Signals,
    attempt: str,
) -> None:
    hold = standing.directory / "hold"
    hold.touch()
    with worker(deployment, standing.directory, f"{number.name}.log") as other:
        # Each worker has one place for imports.
        upload(standing, owner, alice, f"{number.name}1")
        upload(standing, owner, bob, f"{number.name}2")
        (lost,) = wait_for(lambda: other.lines(r"reads (SIG\w+)"), "the other worker's turn")
        wait_for(lambda: standing.lines(rf"reads ({number.name}\d)"), "the first worker's turn")
        other.process.send_signal(number)
        status = other.process.wait(30)
    hold.unlink()

    (line,) = wait_for(lambda: standing.lines(rf"kind=import .* file={lost}\n"), "its import")

    assert status == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert f" attempt={attempt} " in line
    assert len(standing.lines(rf"kind=import .* file={number.name}\d\n")) == 2
    assert (len(other.lines("given back")) == 1) is (number == signal.SIGTERM)
