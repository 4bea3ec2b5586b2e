"""How Postgres would go about each question where a million rows are: by an index, never through a table.

The rows are alice's invented month, given to many others too: to forty where it is long, and to thousands
where it is a handful, so that no table is so small that reading all of it would be no loss. Plans are
generic ones, as the servers' prepared statements get them, for the reader's role and under its policies.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from deploy.demo.command import demo
from resourceserver import summaries
from resourceserver.endpoints import ENDPOINTS
from resourceserver.export_resources import RESOURCES
from shared import database, lines
from shared.settings import Settings
from tests.conftest import cloned, person

Rows = psycopg.Connection[Any]

OTHERS: Final = 40
"""How many people at least have what alice has."""
FEW: Final = 20_000
"""How many rows each table has at least."""

LONG: Final = 30_000
"""How many rows a table has in which somebody's rows are so many that a question must not read all."""
AT_AN_END: Final = {
    ("goals", "activity.app_session"),
    ("export.goals", "activity.app_session"),
    ("hourly_patterns", "activity.app_session"),
}
"""Questions that look for somebody's first row in a long table, at the end of the index, and no further."""

QUESTIONS: Final = {endpoint.name: endpoint.query for endpoint in ENDPOINTS} | {
    f"export.{resource.name}": resource.rows for resource in RESOURCES
}


@pytest.fixture
def crowded(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """A deployment with about a million rows."""
    with cloned(request.config, "plans") as deployment:
        with closing(psycopg.connect(deployment.database_url or "", autocommit=True)) as owner:
            fill(deployment, owner)
            crowd(owner)
        yield deployment


def fill(deployment: Settings, owner: Rows) -> None:
    """Give alice rows in every table."""
    alice = person(owner, "alice")
    made = CliRunner().invoke(demo, [alice.email, "--days=30"], obj=deployment)
    assert made.exit_code == 0, made.output

    async def sum_up() -> None:
        async with summaries.connected(database.role_url(deployment, "worker")) as worker:
            await summaries.make_due(worker)

    asyncio.run(sum_up())
    owner.execute(
        """
        insert into profile.subscription (user_id, plan, status, billing)
        values (%s, 'self_hosted', 'active', 'none')
        """,
        [alice.user_id],
    )
    owner.execute(
        "insert into identity.user (email) select n || '@example.org' from generate_series(1, %s) as n",
        [FEW],
    )


def crowd(owner: Rows) -> None:
    """Give others what alice has, and let Postgres look at it."""
    copies: dict[str, int] = {}
    for table, parents in by_reference(owner):
        counted = owner.execute(sql.SQL("select count(*) from {}").format(sql.SQL(table)))
        (count,) = counted.fetchone() or (0,)
        copies[table] = min(
            max(OTHERS, FEW // max(count, 1)), *(copies[parent] for parent in parents), FEW
        )
        columns = owner.execute(
            """
            select attname
              from pg_attribute
             where attrelid = %s::regclass
               and attnum > 0
               and not attisdropped
               and attname <> 'user_id'
            """,
            [table],
        ).fetchall()
        owner.execute(
            sql.SQL(
                "insert into {table} (user_id, {columns}) "
                "select md5(n::text)::uuid, {columns} from {table}, generate_series(1, %s) as n"
            ).format(
                table=sql.SQL(table),
                columns=sql.SQL(", ").join(sql.Identifier(name) for (name,) in columns),
            ),
            [copies[table]],
        )
    owner.execute("analyze")


def by_reference(owner: Rows) -> list[tuple[str, set[str]]]:
    """Return every table of people and those it refers to, which come before it."""
    tables = [name for (name,) in owner.execute("select svc.tables_of_people()::text").fetchall()]
    references = owner.execute(
        "select conrelid::regclass::text, confrelid::regclass::text from pg_constraint where contype = 'f'"
    ).fetchall()
    parents = {
        table: {parent for child, parent in references if child == table and parent in tables}
        for table in tables
    }
    ordered: list[str] = []
    while len(ordered) < len(tables):
        ordered += [each for each in tables if each not in ordered and parents[each] <= {*ordered}]
    return [(table, parents[table]) for table in ordered]


def test_every_question_finds_its_rows_by_an_index(crowded: Settings) -> None:
    with closing(psycopg.connect(crowded.database_url or "")) as owner:
        sizes: dict[str, int] = dict(
            owner.execute(
                """
                select oid::regclass::text,
                       reltuples::bigint
                  from pg_class
                 where oid in (select svc.tables_of_people())
                """
            ).fetchall()
        )
    with closing(psycopg.connect(database.role_url(crowded, "reader"), autocommit=True)) as reader:
        reader.execute("set plan_cache_mode = force_generic_plan")
        scans = {name: list(scanned(plan(reader, text))) for name, text in QUESTIONS.items()}

    through_tables, through_lives = set(), set()
    for name, found in scans.items():
        for table, how, condition in found:
            if table in {*sizes, "identity.user"} and "user_id = " not in condition:
                through_tables.add((name, table, how))
            if sizes.get(table, 0) > LONG and re.fullmatch(r"\(\w+\.user_id = \S+\)", condition):
                through_lives.add((name, table))
    assert sum(sizes.values()) > 1_000_000
    assert all(found for found in scans.values())
    assert through_tables == set()
    # Older servers find a bound for some of them.
    assert through_lives <= AT_AN_END


def plan(reader: Rows, text: str) -> dict[str, Any]:
    """Return the plan that a statement of ours has whatever its parameters are."""
    statement = lines.statement(text)
    unknown = ", ".join(["null"] * len(statement.parameters))
    reader.execute(b"prepare question as " + statement.text)
    row = reader.execute(
        sql.SQL("explain (format json, verbose) execute question ({})").format(sql.SQL(unknown))
    ).fetchone()
    reader.execute("deallocate question")
    assert row is not None
    found: dict[str, Any] = row[0][0]["Plan"]
    return found


def scanned(node: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each table that is read below ``node``, how, and by which condition of an index."""
    below = node.get("Plans", [])
    if "Relation Name" in node:
        conditions = [each["Index Cond"] for each in (node, *below) if "Index Cond" in each]
        yield f"{node['Schema']}.{node['Relation Name']}", node["Node Type"], " ".join(conditions)
    for each in below:
        yield from scanned(each)
