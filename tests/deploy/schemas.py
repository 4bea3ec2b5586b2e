"""Schemas that tests change: separate databases, and directories of SQL with further migrations."""

import itertools
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from deploy.migrate import SQL_DIR, migrate
from shared import tokens
from shared.settings import Settings
from tests.client import NO_TLS
from tests.conftest import Person
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]


def with_migrations(parent: Path, **texts: str) -> Path:
    """Return a copy of ``sql/`` in ``parent`` that has further migrations, by their names."""
    copy = parent / "sql"
    shutil.copytree(SQL_DIR, copy)
    for name, text in texts.items():
        (copy / "migrations" / f"{name}.sql").write_text(text)
    return copy


@dataclass
class Migrating:
    """A migration in a separate thread: its lines, and how it ends."""

    chosen: Settings
    directory: Path
    pauses_s: Sequence[float] = (0.2,) * 50
    lines: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            migrate(
                self.chosen, self.lines.append, directory=self.directory, pauses_s=self.pauses_s
            )
        except Exception as error:
            self.failures.append(error)

    @property
    def tries(self) -> int:
        """How often it has stopped waiting for a lock."""
        return sum(line.startswith("waiting for a lock") for line in self.lines)

    def end(self) -> None:
        """Wait until it has succeeded."""
        self.thread.join(timeout=120)
        assert not self.thread.is_alive()
        assert self.failures == []


@contextmanager
def killer(chosen: Settings) -> Iterator[Callable[[str], int]]:
    """A program that migrates and is killed when it prints a line; returns the signal that ended it."""
    words = [sys.executable, "-m", "tests.deploy.killer", chosen.database_url or ""]
    with subprocess.Popen(
        [*words, str(chosen.data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, answered = process.stdin, process.stdout

        def killed_at(line: str) -> int:
            given.write(f"{line}\n")
            given.flush()
            return int(answered.readline())

        yield killed_at
        given.close()


@dataclass(frozen=True)
class Answered:
    """A request of a load, and its answer."""

    kind: str
    begun: float
    """On the monotonic clock."""
    status: int
    error: str | None


class Load:
    """Reads and writes of one person, one after the other in a separate thread, 20,000 at most."""

    def __init__(self, base_url: str, headers: Mapping[str, str], prefix: str = "load") -> None:
        """Start it; the keys of its events begin with ``prefix``."""
        self.base_url = base_url
        self.headers = headers
        self.prefix = prefix
        self.answers: list[Answered] = []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with httpx2.Client(
            base_url=self.base_url, headers=self.headers, timeout=30, verify=NO_TLS
        ) as client:
            for number in itertools.takewhile(lambda _: not self.is_over.is_set(), range(20_000)):
                begun = time.monotonic()
                read = client.get(
                    "/api/v1/analytics/app-usage",
                    params={"from": "2025-06-16T00:00:00Z", "to": "2025-06-18T00:00:00Z"},
                )
                self._keep("read", begun, read)
                begun = time.monotonic()
                write = client.post(
                    "/api/v1/ingest/app-sessions", json={"events": [self._event(number)]}
                )
                self._keep("write", begun, write)

    def _event(self, number: int) -> dict[str, str]:
        at = f"2025-06-17T{number // 60 % 24:02d}:{number % 60:02d}"
        return {
            "idempotency_key": f"{self.prefix}-{number}",
            "device": "laptop",
            "app": "Mail",
            "started_at": f"{at}:00Z",
            "ended_at": f"{at}:30Z",
            "source": "test",
        }

    def _keep(self, kind: str, begun: float, answer: httpx2.Response) -> None:
        error = None if answer.status_code == 200 else str(answer.json().get("error"))
        self.answers.append(Answered(kind, begun, answer.status_code, error))

    def wait_for_more(self, count: int = 4) -> None:
        """Wait until so many more requests have been answered."""
        enough = len(self.answers) + count
        wait_for(lambda: len(self.answers) >= enough, "requests are answered")

    def begun_after(self, moment: float) -> list[Answered]:
        """Return the answers to requests that began after ``moment``."""
        return [answer for answer in self.answers if answer.begun > moment]

    def end(self) -> None:
        """Stop after the answer to the current request."""
        self.is_over.set()
        self.thread.join(timeout=60)
        assert not self.thread.is_alive()


@contextmanager
def owning(chosen: Settings) -> Iterator[Rows]:
    """A connection with all rights that commits each statement."""
    with closing(psycopg.connect(chosen.database_url or "", autocommit=True)) as connection:
        yield connection


def fill(owner: Rows, person: Person, count: int) -> None:
    """Give a person ``count`` sessions of a minute, with titles of a thousand letters."""
    owner.execute(
        """
        with laptop as (
            insert into activity.device (user_id, name)
            values (%(user_id)s, 'laptop')
            returning user_id, device_id
        )
        insert into activity.app_session
               (user_id, device_id, idempotency_key, app, title, started_at, ended_at)
        select user_id,
               device_id,
               'k' || number,
               'Code',
               repeat('x', 1000),
               timestamptz '2025-06-16 00:00Z' + number * interval '1 minute',
               timestamptz '2025-06-16 00:01Z' + number * interval '1 minute'
          from laptop
         cross join generate_series(1, %(count)s) as number
        """,
        {"user_id": person.user_id, "count": count},
    )


def token_of(person: Person) -> tokens.Token:
    """Return a new token of a person with all scopes."""
    token = tokens.parse(tokens.ACCESS, person.token())
    assert token is not None
    return token
