"""Ingest beside ``COPY``: the same rows into the same table, by the same driver, in turns.

``COPY`` gets its rows as finished text, validated by the server's own code beforehand, and writes each
thousand in a transaction of its own, as the server does. The bodies of trackers are finished beforehand as
well. Each run writes to a new account, so that all have the same start.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, LiteralString
from uuid import uuid4

import click
import psycopg

from resourceserver.ingest import events, fields, route
from resourceserver.ingest.events import APP_SESSIONS, CODING_SESSIONS, Row, Stream
from tests.bench.load import Order
from tests.conftest import Person

BATCHES: Final = 16
MANY: Final = 8
"""The number of clients that send while memory is measured."""

_WINDOWS: Final = (
    ("Code", "ingest.py - svc", None),
    (
        "Firefox",
        "Vec in std - Rust",
        "https://doc.rust-lang.org/std/vec/struct.Vec.html?search=push",
    ),
    ("Slack", "general (Channel) - Example - Slack", None),
    ("Alacritty", "~/src/svc: make test", None),
)
_FILES: Final = (("svc", "ingest.py"), ("svc", "events.py"), ("garden", "beds.py"))


def _event(stream: Stream, number: int) -> dict[str, Any]:
    """Return one of a day's events, each half a minute after the one before."""
    started = datetime(2025, 6, 16, tzinfo=UTC) + timedelta(seconds=30 * number)
    event = {
        "idempotency_key": f"aw:aw-watcher-window_laptop:{number}:{started.timestamp() * 1000:.0f}",
        "started_at": f"{started:%Y-%m-%dT%H:%M:%S}.250Z",
        "ended_at": f"{started + timedelta(seconds=29):%Y-%m-%dT%H:%M:%S}.750Z",
    }
    if stream is CODING_SESSIONS:
        project, file = _FILES[number % len(_FILES)]
        return event | {
            "project": project,
            "file": f"/src/{project}/{file}",
            "language": "Python",
            "branch": "main",
            "editor": "vscode",
        }
    app, title, url = _WINDOWS[number % len(_WINDOWS)]
    return event | {"app": app, "title": title} | ({"url": url} if url else {})


def batches(stream: Stream) -> list[bytes]:
    """Return the bodies of ``BATCHES`` requests, a thousand events each."""
    return [
        json.dumps(
            {
                "events": [
                    _event(stream, number) for number in range(first, first + events.MAX_EVENTS)
                ],
                "client": {"name": "laptop/1.0"},
            }
        ).encode()
        for first in range(0, BATCHES * events.MAX_EVENTS, events.MAX_EVENTS)
    ]


@dataclass
class People:
    """A new person for each run."""

    owner: psycopg.Connection[Any]
    count: int = 0

    def new(self) -> Person:
        """Return a person who has sent nothing yet."""
        self.count += 1
        email = f"tracker-{self.count}@example.org"
        row = self.owner.execute(
            "insert into identity.user (email) values (%s) returning user_id", [email]
        ).fetchone()
        assert row is not None
        return Person(row[0], email, self.owner)


_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "app_sessions": ("app", "title", "url", "domain", "category", "utc_offset", "source"),
    "coding_sessions": (
        "project", "language", "branch", "file", "editor", "utc_offset", "source",
    ),
}  # fmt: skip
_COPY: Final[dict[str, LiteralString]] = {
    "app_sessions": """
        copy activity.app_session (
            user_id, device_id, app_session_id, idempotency_key, started_at, ended_at,
            app, title, url, domain, category, utc_offset, source
        ) from stdin
        """,
    "coding_sessions": """
        copy activity.coding_session (
            user_id, device_id, coding_session_id, idempotency_key, started_at, ended_at,
            project, language, branch, file, editor, utc_offset, source
        ) from stdin
        """,
}


@dataclass(frozen=True)
class Copying:
    """A contestant: rows per second that ``COPY`` writes, as the owner and past row-level security."""

    people: People
    stream: Stream
    bodies: list[bytes]

    def __call__(self) -> float:
        """Return the number of rows that were written in a second."""
        person = self.people.new()
        row = person.connection.execute(
            "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
            [person.user_id],
        ).fetchone()
        assert row is not None
        blocks = ["".join(self._lines(body, person, row[0])).encode() for body in self.bodies]
        started = time.perf_counter()
        for block in blocks:
            with person.connection.cursor().copy(_COPY[self.stream.name]) as copy:
                copy.write(block)
        return len(blocks) * events.MAX_EVENTS / (time.perf_counter() - started)

    def _lines(self, body: bytes, person: Person, device_id: object) -> Iterator[str]:
        now_ms = time.time_ns() // 1_000_000
        verdict = route.judge(self.stream, bytearray(body), now_ms=now_ms, full_urls=False)
        for row in verdict.rows:
            yield (
                "\t".join(
                    [
                        str(person.user_id),
                        str(device_id),
                        str(uuid4()),
                        row["idempotency_key"],
                        fields.timestamp(row["started_ms"]),
                        fields.timestamp(row["ended_ms"]),
                        *(_cell(row, name) for name in _COLUMNS[self.stream.name]),
                    ]
                )
                + "\n"
            )


def _cell(row: Row, name: str) -> str:
    value = row.get(name)
    return r"\N" if value is None else str(value)


@dataclass
class Posting:
    """A contestant: events per second that a number of clients send through HTTP."""

    people: People
    stream: Stream
    bodies: list[bytes]
    port: int
    clients: int
    before: "Posting | None" = None
    """The contestant whose events are sent once more; None for new events of a new person."""
    medians_ms: list[float] = field(default_factory=list)
    """The times of batches, in each run."""
    person: Person | None = None
    """The person of the last run."""

    def __call__(self) -> float:
        """Return the number of events that were answered in a second; all are stored then, once."""
        person = self.person = self.before.person if self.before else self.people.new()
        assert person is not None
        described = route.operation(self.stream)
        head = (
            f"POST {described.path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {person.token(str(described.scope))}\r\n"
            "Content-Type: application/json\r\n"
        )
        requests = [
            f"{head}Content-Length: {len(body)}\r\n\r\n{body.decode()}" for body in self.bodies
        ]
        shares = [requests[first :: self.clients] for first in range(self.clients)]
        report = Order(self.port, shares, None).carried_out()
        self.medians_ms.append(report.median_ms)
        row = person.connection.execute(
            "select sum(event_count) from activity.device_stream where user_id = %s",
            [person.user_id],
        ).fetchone()
        assert row is not None
        if row[0] != len(self.bodies) * events.MAX_EVENTS:
            raise click.ClickException(f"{row[0]} events of {person.email} are there")
        return report.per_second * events.MAX_EVENTS


@dataclass(frozen=True)
class Contest:
    """The measurements of ingest, on the server that listens on ``port``."""

    app_copy: Copying
    posting: dict[str, Posting]
    coding_copy: Copying
    coding: Posting

    @classmethod
    def on(cls, owner: psycopg.Connection[Any], port: int) -> "Contest":
        """Return the contest; ``owner`` is a connection with all rights."""
        people = People(owner)
        app, coding = batches(APP_SESSIONS), batches(CODING_SESSIONS)
        posting = {}
        for clients in (1, 4):
            who = f"{clients} client{'s' if clients > 1 else ''}"
            new = posting[f"new events, {who}"] = Posting(people, APP_SESSIONS, app, port, clients)
            posting[f"duplicates alone, {who}"] = Posting(
                people, APP_SESSIONS, app, port, clients, before=new
            )
        return cls(
            Copying(people, APP_SESSIONS, app),
            posting,
            Copying(people, CODING_SESSIONS, coding),
            Posting(people, CODING_SESSIONS, coding, port, clients=4),
        )

    def contestants(self) -> dict[str, Callable[[], float]]:
        """Return all contestants by their names; one that repeats comes after the one that it repeats."""
        return {
            "copy": self.app_copy,
            **self.posting,
            "coding copy": self.coding_copy,
            "coding": self.coding,
        }

    def table(self, figures: dict[str, float]) -> None:
        """Print the figure of each contestant, and its share of ``COPY``'s rate."""
        click.echo(f"{'ingest, 1000 events a batch':40}{'per second':>12}{'of COPY':>9}{'p50':>10}")
        _line("COPY, app sessions", figures["copy"], figures["copy"])
        for name, contestant in self.posting.items():
            _line(name, figures[name], figures["copy"], contestant)
        _line("COPY, coding sessions", figures["coding copy"], figures["coding copy"])
        _line("new events, 4 clients", figures["coding"], figures["coding copy"], self.coding)
        click.echo()


def _line(name: str, figure: float, copied: float, posting: Posting | None = None) -> None:
    p50 = f"{statistics.median(posting.medians_ms):7.0f} ms" if posting else ""
    click.echo(f"  {name:38}{figure:12.0f}{figure / copied:9.2f}{p50}")


def memory(owner: psycopg.Connection[Any], port: int, pid: int) -> None:
    """Print the memory of the server before its first batch, and the most while many clients send."""
    before = _resident_mib(pid, "VmRSS")
    Posting(People(owner, count=1000), APP_SESSIONS, batches(APP_SESSIONS), port, clients=MANY)()
    most = _resident_mib(pid, "VmHWM")
    click.echo(
        f"memory of the server: {before} MiB at rest, {most} MiB at most with {MANY} clients\n"
    )


def _resident_mib(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name))) // 1024
