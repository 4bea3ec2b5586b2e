"""What the worker spends on people who are active: turns of rollups and of daily summaries.

``python -m tests.bench.summaries`` starts a database, invents a few days of one person, copies two of them to
a thousand people, marks the busier one of everybody, and lets a worker take the turns, as
``svc resource work`` does. The processor time of the worker and of the database count for each person, and
the time by the clock beside the interval in which the worker looks for marks. Nothing here asserts: the
figures are for a reader.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Final

import click
import psycopg
from click.testing import CliRunner
from psycopg import sql

from deploy.demo.command import demo
from deploy.migrate import migrate
from deploy.postgres.embedded import EmbeddedPostgres
from resourceserver.timeline import summaries
from resourceserver.worker.kinds import ROLLUPS, SUMMARIES, kinds
from resourceserver.worker.running import Worker
from resourceserver.worker.turns import Outcome, Turn
from shared import database, queries
from shared.pool import Pool
from shared.settings import Settings
from tests.bench import figures, scratch
from tests.bench.receivers import cpu_of_database_ms, postmaster
from tests.conftest import person

SQL: Final = queries.load(Path(__file__).with_name("summaries.sql"))

DAYS: Final = 10
"""The days of the life of which the busiest one is copied, with the day before."""
_COPIED: Final = {
    "device": None,
    "device_stream": None,
    "category_rule": None,
    "category_score": None,
    "label": None,
    "app_session": "started_at",
    "coding_session": "started_at",
    "app_time": "starts_at",
    "coding_time": "starts_at",
    "app_timeline": "date",
    "daily_summary": "date",
}
"""The tables of which rows are copied, with the column that says when they were."""

Owner = psycopg.Connection[Any]
Clock = Callable[[], list[float]]
"""Returns milliseconds: by the clock, of this process, of the database."""


@dataclass(frozen=True)
class Cost:
    """What some turns took, in milliseconds for each person."""

    clock: float
    python: float
    database: float


def copies(owner: Owner, model: Any, day: date, people: int) -> None:
    """Add people with the rows of ``model`` of a day and of the day before."""
    owner.execute(SQL["add_people"], {"people": people})
    with click.progressbar(_COPIED.items(), label="tables", file=sys.stderr) as tables:
        for name, at in tables:
            columns = owner.execute(SQL["columns"], {"table": f"activity.{name}"}).fetchall()
            owner.execute(
                sql.SQL(
                    "insert into {table} (user_id, {columns}) overriding system value "
                    "select md5('person ' || n)::uuid, {columns} "
                    "from {table}, generate_series(1, {people}) as n "
                    "where user_id = {model} and {at} >= {day}::date - 1 and {at} < {day}::date + 1"
                ).format(
                    table=sql.Identifier("activity", name),
                    columns=sql.SQL(", ").join(sql.Identifier(column) for (column,) in columns),
                    people=sql.Literal(people),
                    model=sql.Literal(model),
                    at=sql.Literal(day) if at is None else sql.Identifier(at),
                    day=sql.Literal(day),
                )
            )
    owner.execute("vacuum analyze")


async def turns(chosen: Settings, kind_name: str, clock: Clock, count: int) -> list[float]:
    """Look for marks once, and take ``count`` turns of a kind; return the costs."""
    login = database.login(chosen, "worker")
    control = Pool.to(login, size=1, is_patient=True, prepare=chosen.prepare)
    workers = Pool.to(login, size=chosen.job_connections, is_patient=True, prepare=chosen.prepare)
    kind = kinds(workers)[kind_name]
    assert kind.look is not None
    stop = asyncio.Event()
    async with control, workers:
        begun = clock()
        async with workers.connection() as connection:
            await kind.look.work(connection)

        async def handle(turn: Turn) -> Outcome:
            nonlocal count
            outcome = await kind.handle(turn)
            count -= 1
            if count == 0:
                stop.set()
            return outcome

        await Worker({kind_name: replace(kind, handle=handle)}, control).run(stop)
        return [end - begin for begin, end in zip(begun, clock(), strict=True)]


def measure(chosen: Settings, pid: int, kind: str, people: int) -> Cost:
    """Take the turns of a kind that are due for ``people``."""

    def clock() -> list[float]:
        return [time.perf_counter() * 1000, time.process_time() * 1000, cpu_of_database_ms(pid)]

    # One more is the person whose days were copied.
    costs = asyncio.run(turns(chosen, kind, clock, people + 1))
    return Cost(*(cost / (people + 1) for cost in costs))


def bench(directory: Path, people: int) -> None:
    """Run everything and print the table."""
    with EmbeddedPostgres(directory / "postgres") as postgres:
        chosen = Settings(data_dir=directory / "deployment", database_url=postgres.url, jobs=False)
        migrate(chosen, lambda _: None)
        with closing(psycopg.connect(postgres.url, autocommit=True)) as owner:
            alice = person(owner, "alice")
            invented = CliRunner().invoke(demo, [alice.email, f"--days={DAYS}"], obj=chosen)
            if invented.exit_code != 0:
                raise click.ClickException(invented.output)
            found = owner.execute(SQL["busiest_day"], {"user_id": alice.user_id}).fetchone()
            assert found is not None
            day, sessions = found
            copies(owner, alice.user_id, day, people)
            click.echo(f"{people} people, {sessions} sessions on the marked day of each\n")
            title = "turns of a worker, ms a person"
            click.echo(f"{title:44}{'clock':>10}{'worker':>10}{'database':>10}{'of 5 min':>12}")
            pid = postmaster(postgres)
            owner.execute(SQL["mark_summaries"], {"date": day})
            quiet = measure(chosen, pid, SUMMARIES, people)
            row("summaries, from rollups", quiet, people)
            owner.execute(SQL["mark_summaries"], {"date": day})
            owner.execute(SQL["mark_rollups"], {"date": day})
            busy = measure(chosen, pid, SUMMARIES, people)
            row("summaries, from sessions", busy, people)
            rolled_up = measure(chosen, pid, ROLLUPS, people)
            row("rollups", rolled_up, people)
    costs = {"quiet_summary": quiet, "busy_summary": busy, "rollup": rolled_up}
    figures.keep(
        "summaries",
        {
            f"{name}_{part}_ms": ms
            for name, cost in costs.items()
            for part, ms in asdict(cost).items()
        }
        | {"people": people},
    )


def row(title: str, cost: Cost, people: int) -> None:
    """Print a line."""
    share = cost.clock * people / 1000 / summaries.INTERVAL.total_seconds()
    click.echo(
        f"  {title:42}{cost.clock:10.2f}{cost.python:10.2f}{cost.database:10.2f}{share:12.0%}"
    )


@click.command()
@click.option("--people", default=1000, show_default=True, help="How many people are active.")
def main(people: int) -> None:
    """Measure turns of rollups and summaries."""
    with scratch.directory() as directory:
        bench(directory, people)


if __name__ == "__main__":
    main()
