"""Long ranges: each answer from rollups, beside the same answer from sessions.

``python -m tests.bench.years`` starts a database and the servers, invents ten years of a person's life, makes
the rollups, and asks in turns while no day is marked and while all days are, so that whatever else the
machine does hits both. Both answers must be the same. Then it measures what rollups cost: bytes on disk, and
events that ingest takes in a second with and without them. Nothing here asserts how fast anything is: a
figure is for a reader.

The life has 300 sessions a day, which takes about two minutes to make; ``--sessions-a-day=1233`` gives the
heavy user's four and a half million, and takes ten.
"""

import asyncio
import json
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

import click
import httpx2
import psycopg

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.ingest.events import APP_SESSIONS, MAX_EVENTS
from resourceserver.timeline import rollups, rounds
from shared import database, queries
from shared.listening import port_of
from shared.settings import Settings
from tests import processes
from tests.bench import scratch
from tests.bench.ingest import People, Posting
from tests.conftest import Person

_HERE: Final = Path(__file__).parent
SQL: Final = queries.load(_HERE / "years.sql")

YEARS: Final = 10
ZONE: Final = "Europe/Berlin"
ROUNDS: Final = 3
ROUND_S: Final = 1.0
"""How long a request is repeated through HTTP in each round; there are at least three answers."""
LONG_S: Final = 10.0
"""A request that takes longer from sessions is sent once."""
INGEST_ROUNDS: Final = 5
BATCHES: Final = 16
PAUSE_S: Final = 0.05


@dataclass(frozen=True)
class Question:
    """A request, and the times of both ways to answer it."""

    label: str
    path: str
    params: dict[str, str]
    http_s: list[float] = field(default_factory=list)
    sessions_s: list[float] = field(default_factory=list)
    """Empty if the server refuses the request for its time."""


def questions(last: date) -> list[Question]:
    """Return the requests; ``last`` is the last day of the life."""

    def instants(days: int) -> dict[str, str]:
        end = datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)
        return {"from": f"{end - timedelta(days=days):%FT%TZ}", "to": f"{end:%FT%TZ}"}

    analytics = "/api/v1/analytics"
    zone = {"tz": ZONE}
    days = {"from": str(last - timedelta(days=364)), "to": str(last)}
    return [
        Question("a day by hour", f"{analytics}/hourly", {"date": str(last)} | zone),
        Question("app-usage, a month", f"{analytics}/app-usage", instants(30)),
        Question("app-usage, a year", f"{analytics}/app-usage", instants(365)),
        Question("app-usage, ten years", f"{analytics}/app-usage", instants(365 * YEARS)),
        Question("daily, a year", f"{analytics}/daily", days | zone),
        Question("daily-categories, a year", f"{analytics}/daily-categories", instants(365) | zone),
        Question("hourly-patterns, a year", f"{analytics}/hourly-patterns", {"weeks": "52"} | zone),
        Question("context-switches, a year", f"{analytics}/context-switches", instants(365)),
        Question("focus-streaks, a year", f"{analytics}/focus-streaks", instants(365)),
    ]


def ask(client: httpx2.Client, question: Question) -> dict[str, Any]:
    """Send the request once, and keep its time. Raises ClickException."""
    started = time.perf_counter()
    answer = client.get(question.path, params=question.params)
    question.http_s.append(time.perf_counter() - started)
    if answer.status_code != 200:
        raise click.ClickException(f"{question.label}: {answer.text}")
    body: dict[str, Any] = answer.json()
    return body


def ask_sessions(
    client: httpx2.Client, owner: psycopg.Connection[Any], alice: Person, question: Question
) -> dict[str, Any] | None:
    """Send the request once while all days are marked, so that the answer comes from sessions alone.

    Returns None if the server refuses the request for its time.
    """
    owner.execute(SQL["mark_days"], {"user_id": alice.user_id})
    started = time.perf_counter()
    answer = client.get(question.path, params=question.params)
    took_s = time.perf_counter() - started
    # Nothing was written since the rollups, so they are right without marks.
    owner.execute(SQL["forget_marks"])
    if answer.status_code == 503:
        return None
    if answer.status_code != 200:
        raise click.ClickException(f"{question.label}, from sessions: {answer.text}")
    question.sessions_s.append(took_s)
    body: dict[str, Any] = answer.json()
    return body


def take_turns(
    client: httpx2.Client, owner: psycopg.Connection[Any], alice: Person, asked: list[Question]
) -> None:
    """Send all requests in turns. Raises ClickException if two answers differ."""
    for question in asked:
        summed, raw = ask(client, question), ask_sessions(client, owner, alice, question)
        if raw is not None and summed != raw:
            raise click.ClickException(f"{question.label}: sessions give another answer")
        # A connection prepares a statement at its first use.
        question.http_s.clear()
    with click.progressbar(range(ROUNDS), label="rounds", file=sys.stderr) as rounds:
        for _ in rounds:
            for question in asked:
                until = time.perf_counter() + ROUND_S
                for count in range(1000):
                    if count >= 3 and time.perf_counter() >= until:
                        break
                    ask(client, question)
                if question.sessions_s and question.sessions_s[0] < LONG_S:
                    ask_sessions(client, owner, alice, question)


def percentile(figures: list[float], part: float) -> float:
    """Return the smallest figure that is at least as large as such a part of all."""
    return sorted(figures)[math.ceil(part * len(figures)) - 1]


def table(asked: list[Question]) -> None:
    """Print the times of each, and the ratio of the medians."""
    click.echo(
        f"{'from rollups, beside sessions':32}{'answers':>8}{'p50':>9}{'p99':>9}{'sessions p50':>14}"
        f"{'ratio':>8}"
    )
    for each in asked:
        p50 = statistics.median(each.http_s)
        beside = "too long".rjust(14)
        if each.sessions_s:
            sessions = statistics.median(each.sessions_s)
            beside = f"{sessions * 1000:11.0f} ms{sessions / p50:8.1f}"
        click.echo(
            f"  {each.label:30}{len(each.http_s):8}{p50 * 1000:6.0f} ms"
            f"{percentile(each.http_s, 0.99) * 1000:6.0f} ms{beside}"
        )
    by_label = {each.label: statistics.median(each.http_s) for each in asked}
    ratio = by_label["app-usage, ten years"] / by_label["app-usage, a year"]
    click.echo(f"  ten years of app-usage take {ratio:.1f} times as long as a year\n")


def invent(owner: psycopg.Connection[Any], a_day: int, first: date) -> Person:
    """Return a person with ten years of sessions."""
    row = owner.execute(SQL["add_person"], {"email": "alice@example.org"}).fetchone()
    assert row is not None
    owner.execute(SQL["seed"])
    with click.progressbar(range(YEARS), label="years", file=sys.stderr) as years:
        for year in years:
            values = {
                "user_id": row[0],
                "a_day": a_day,
                "from": first + timedelta(days=365 * year),
            }
            owner.execute(SQL["add_sessions"], values)
            owner.execute(SQL["add_coding_sessions"], values)
    owner.execute("vacuum analyze")
    owner.execute(SQL["mark_days"], {"user_id": row[0]})
    return Person(row[0], "alice@example.org", owner)


def make_rollups(chosen: Settings) -> int:
    """Roll up the marked days, as the job does; return their number."""

    async def make() -> int:
        async with rounds.connected(database.role_url(chosen, "worker")) as worker:
            return await rollups.make_due(worker, quiet=timedelta(0))

    return asyncio.run(make())


def sizes(owner: psycopg.Connection[Any]) -> None:
    """Print the size of rollups on disk."""
    cursor = owner.execute(SQL["sizes"])
    names = [column.name for column in cursor.description or ()]
    found = dict(zip(names, cursor.fetchone() or (), strict=True))
    raw = found.pop("sessions")
    parts = ", ".join(f"{name} {size / raw:.2f}" for name, size in found.items())
    click.echo(
        f"on disk: sessions {raw / 2**20:.0f} MiB, rollups {sum(found.values()) / 2**20:.0f} MiB, "
        f"which is {sum(found.values()) / raw:.2f} of it ({parts})\n"
    )


def batches() -> list[bytes]:
    """Return the bodies of some requests, each of a thousand events of a day."""
    return [
        json.dumps(
            {
                "events": [
                    {
                        "app": f"App {number % 17}",
                        "title": f"Document {number % 40}",
                        "started_at": f"{started:%FT%T}.250Z",
                        "ended_at": f"{started + timedelta(seconds=29):%FT%T}.750Z",
                    }
                    for number in range(MAX_EVENTS)
                    for started in [
                        datetime(2025, 6, 1 + day, 8, tzinfo=UTC) + timedelta(seconds=30 * number)
                    ]
                ],
                "client": {"name": "laptop/1.0"},
            }
        ).encode()
        for day in range(BATCHES)
    ]


def keep_making(chosen: Settings, is_ready: Event, is_wanted: Event) -> None:
    """Roll up marked days, again and again while the event is set."""

    async def make() -> None:
        async with rounds.connected(database.role_url(chosen, "worker")) as worker:
            is_ready.set()
            while is_wanted.wait():
                await rollups.make_due(worker, quiet=timedelta(0))
                # Without a pause, empty runs would take processor time that the real job does not.
                await asyncio.sleep(PAUSE_S)

    asyncio.run(make())


@contextmanager
def maker(chosen: Settings) -> Iterator[Event]:
    """Run a process that rolls days up while the event is set that this yields."""
    spawning = multiprocessing.get_context("spawn")
    is_ready, is_wanted = spawning.Event(), spawning.Event()
    process = spawning.Process(target=keep_making, args=(chosen, is_ready, is_wanted), daemon=True)
    process.start()
    try:
        if not is_ready.wait(30):
            raise click.ClickException("nobody makes rollups")
        yield is_wanted
    finally:
        process.terminate()
        process.join()


def ingest(chosen: Settings, owner: psycopg.Connection[Any], port: int) -> None:
    """Print the number of accepted events in a second: without marks, with them, and beside the job."""
    post = Posting(People(owner), APP_SESSIONS, batches(), port, clients=1)
    owner.execute(SQL["make_marks_void"])
    made: list[int] = []

    def unmarked() -> float:
        owner.execute(SQL["without_marks"])
        try:
            return post()
        finally:
            owner.execute(SQL["with_marks"])

    with maker(chosen) as is_wanted:

        def beside_the_job() -> float:
            # Events of earlier contestants are not its work now.
            owner.execute(SQL["forget_marks"])
            is_wanted.set()
            rate = post()
            is_wanted.clear()
            assert post.person is not None
            found = owner.execute(SQL["days_made"], {"user_id": post.person.user_id})
            made.extend(count for (count,) in found.fetchall())
            return rate

        contestants: dict[str, Callable[[], float]] = {
            "without marks": unmarked,
            "with marks": post,
            "with marks, while rollups are made": beside_the_job,
        }
        figures: dict[str, list[float]] = {name: [] for name in contestants}
        post()
        for _ in range(INGEST_ROUNDS):
            for name, contestant in contestants.items():
                figures[name].append(contestant())
    without = statistics.median(figures["without marks"])
    click.echo(f"{'ingest, 1000 events a batch':40}{'per second':>12}{'ratio':>8}")
    for name, each in figures.items():
        click.echo(
            f"  {name:38}{statistics.median(each):12.0f}{statistics.median(each) / without:8.2f}"
        )
    click.echo(
        f"  {statistics.median(made):.0f} of those {BATCHES} days were made by the last answer"
    )


def bench(directory: Path, a_day: int) -> None:
    """Run everything and print the tables."""
    last = datetime.now(UTC).date() - timedelta(days=1)
    with EmbeddedPostgres(directory / "postgres") as postgres:
        # The job would roll up the days that are marked for a measurement.
        chosen = Settings(data_dir=directory / "deployment", database_url=postgres.url, jobs=False)
        migrate(chosen, lambda _: None)
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            owner.execute("set timezone = 'UTC'")
            alice = invent(owner, a_day, last - timedelta(days=365 * YEARS - 1))
            started = time.perf_counter()
            days = make_rollups(chosen)
            click.echo(f"rollups of {days} days made in {time.perf_counter() - started:.0f} s\n")
            owner.execute("vacuum analyze")
            asked = questions(last)
            with (
                processes.service(chosen, directory) as service,
                httpx2.Client(base_url=service.base_url, timeout=60) as client,
            ):
                client.headers["Authorization"] = f"Bearer {alice.token('read:activity')}"
                take_turns(client, owner, alice, asked)
                table(asked)
                sizes(owner)
                ingest(chosen, owner, port_of(service.base_url))


@click.command()
@click.option("--sessions-a-day", default=300, show_default=True, help="How busy the life is.")
def main(sessions_a_day: int) -> None:
    """Measure long ranges."""
    with scratch.directory() as directory:
        bench(directory, sessions_a_day)


if __name__ == "__main__":
    main()
