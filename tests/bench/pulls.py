"""What it costs the worker to pull a connection, as a share of a processor for a thousand of them an hour.

``python -m tests.bench.pulls`` starts a database and a host with a calendar over TLS, and pulls the calendars
of some people: the first time, when nothing has changed, and when it is read again. The processor time of
the pulling thread, which includes TLS, and of the database count; waiting does not. Nothing here asserts: the
figures are for a reader.
"""

import statistics
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import click
import psycopg

from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.integrations.pulls.sources import PULLS
from resourceserver.integrations.pulls.turn import Pulls
from shared.sealing import Opener
from shared.settings import Settings
from tests import https
from tests.bench import scratch
from tests.bench.receivers import cpu_of_database_ms, postmaster
from tests.conftest import Person, person
from tests.https import Request, plain
from tests.pulls.calendars import PATH, PRIVATE, Worker, event, text

PEOPLE: Final = 40
EVENTS: Final = 200
AN_HOUR: Final = 1000
MOST_PERCENT: Final = 10.0
_TAG: Final = '"1"'


def bench(directory: Path) -> None:
    """Run everything and print the table."""
    calendar = text(
        *(
            event(
                str(number),
                f"202506{1 + number % 28:02}T{8 + number % 12:02}0000Z",
                "DURATION:PT1H",
            )
            for number in range(EVENTS)
        )
    ).encode()

    def answer(request: Request) -> tuple[bytes, ...]:
        if request.headers.get("if-none-match") == _TAG:
            return plain(b"", status="304 Not Modified")
        return plain(calendar, headers={"ETag": _TAG})

    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(data_dir=directory / "deployment", database_url=postgres.url, jobs=False)
        migrate(chosen, lambda _: None)
        with (
            closing(psycopg.connect(postgres.url, autocommit=True)) as owner,
            https.host(answer) as host,
        ):
            people = [
                Worker.of(chosen, owner, person(owner, f"person{number}"), host.url(PATH)).person
                for number in range(PEOPLE)
            ]
            pulls = Pulls.to(chosen, PULLS, Opener([PRIVATE]), host.fetcher().fetch)
            title = f"a pull of {EVENTS} events, ms of a processor"
            click.echo(f"{title:44}{'worker':>10}{'database':>10}{'of a core':>12}")
            for title in ("first", "unchanged"):
                owner.execute("update profile.connection set next_pull_at = now()")
                row(title, [cost(pulls, each, postmaster(postgres)) for each in people])
            pulls.close()
    click.echo(f"  at most {MOST_PERCENT:.0f} % for {AN_HOUR} connections an hour\n")


def cost(pulls: Pulls, of: Person, pid: int) -> tuple[float, float]:
    """Pull once; return the milliseconds of this thread and of the database."""
    before, began = cpu_of_database_ms(pid), time.thread_time()
    taken = pulls.take(of.user_id, threading.Event())
    spent = time.thread_time() - began
    if "read=" not in taken.line:
        raise click.ClickException(taken.line)
    return spent * 1000, cpu_of_database_ms(pid) - before


def row(title: str, costs: list[tuple[float, float]]) -> None:
    """Print the medians of a kind of pull."""
    worker, database = (statistics.median(column) for column in zip(*costs, strict=True))
    percent = (worker + database) * AN_HOUR / 36_000
    click.echo(f"  {title:42}{worker:10.2f}{database:10.2f}{percent:10.2f} %")


if __name__ == "__main__":
    with scratch.directory() as directory:
        bench(directory)
