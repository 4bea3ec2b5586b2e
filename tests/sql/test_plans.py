"""The plan of each statement in hundreds of thousands of rows: it uses an index and never scans a table.

Sums over long ranges are read from rollups, and from sessions on days without them.

The rows are alice's invented month, copied to many other people: to forty where it is long, and to thousands
where it is a handful, so that no table is small enough to be read whole. Plans are generic ones, as the
servers' prepared statements get them, for the reader's role and under its policies.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from deploy.demo.command import demo
from resourceserver.endpoints import ENDPOINTS
from resourceserver.export.resources import RESOURCES
from resourceserver.ingest import route
from resourceserver.mcp.tools import TOOLS
from resourceserver.timeline import metrics, rollups, summaries
from shared import SCHEMA_VERSION, database, pipeline, tokens
from shared.pipeline import Statement, Step
from shared.settings import Settings
from tests.conftest import Person, cloned, mark_all_days, person

Rows = psycopg.Connection[Any]

OTHERS: Final = 12
"""The smallest number of people with copies of alice's rows."""
FEW: Final = 5_000
"""How many rows each table has at least."""

LONG: Final = 10_000
"""The size of a table in which one person has too many rows to read all of them."""
AT_AN_END: Final = {
    ("goals", "activity.app_session"),
    ("rollups.extent", "activity.app_session"),
    ("summaries.person", "activity.app_session"),
    ("hourly_patterns", "activity.app_session"),
    ("mcp.get_health.available", "health.heart_rate"),
} | {
    (f"mcp.{tool.name}.frame", table)
    for tool in TOOLS
    if tool.frame is not None and "first_known as (" in tool.frame
    for table in ("activity.app_session", "health.heart_rate", "location.point", "music.listen")
}
"""Statements that search one person's first row at an end of the index of a long table, and no further."""

READS_ALL: Final = {
    "mcp.get_data_status.answer",
    "mcp.get_time_breakdown.names",
    "mcp.compare_periods.names_of_filter",
    "mcp.list_sessions.names",
    "mcp.search.search_sessions",
    "mcp.search.search_code",
    "mcp.search.search_content",
    "mcp.search.search_places",
}
"""Statements that count all rows of a person, or search them for words that no index has.

Postgres may scan what is shorter for them."""

LOOKS_AT_NOTHING: Final = {
    "hourly",
    "ingest.lock_new_devices",
    "mcp.get_day.answer",
    "mcp.correlate.answer",
    "summaries.store_days",
    "token",
}
"""Statements that read no table."""

ENDPOINTS_READ: Final = metrics.STATEMENTS | {
    each.name if part == "query" else f"{each.name}.{part}": statement
    for each in ENDPOINTS
    for part, statement in each.statements.items()
    if part not in metrics.STATEMENTS
}
STATEMENTS: Final[dict[str, dict[str, Statement]]] = {
    "reader": ENDPOINTS_READ
    | {
        f"export.{each.name}": pipeline.statement(each.rows)
        for each in RESOURCES
        if isinstance(each.rows, str)
    }
    | {
        f"mcp.{each.name}.{part}": statement
        for each in TOOLS
        for part, statement in each.statements.items()
        if statement.name not in {known.name for known in ENDPOINTS_READ.values()}
    },
    "ingester": {f"ingest.{name}": found for name, found in route.STATEMENTS.items()},
    "worker": {
        f"{module}.{name}": pipeline.statement(text)
        for module, found in (("rollups", rollups.SQL), ("summaries", summaries.SQL))
        for name, text in found.items()
        if "activity." in text
    },
}
"""The statements of each role."""


@pytest.fixture(scope="module")
def crowded(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """A deployment with more than a quarter of a million rows."""
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

    # Days with rollups may be marked again at any time.
    mark_all_days(owner)
    owner.execute("select svc.mark_all_summaries(%s)", [alice.user_id])
    owner.execute("insert into activity.attention_due (user_id) values (%s)", [alice.user_id])
    owner.execute(
        """
        insert into profile.subscription (user_id, plan, status, billing)
        values (%s, 'self_hosted', 'active', 'none')
        """,
        [alice.user_id],
    )
    owner.execute(
        """
        with brought as (
            insert into profile.import (user_id, file_name, file_size, digest, status)
            select %s, 'file ' || n, 1, sha256(n::text::bytea), 'done' from generate_series(1, 4) as n
            returning user_id, import_id, started_at
        ),
        part as (
            insert into profile.import_part (
                user_id, import_id, name, position, source, first_at, last_at
            )
            select user_id, import_id, 'part ' || n, n, 'spotify', started_at, started_at
              from brought
             cross join generate_series(1, 4) as n
            returning user_id, import_id, name
        )
        insert into profile.import_refusal (user_id, import_id, name, reason, count)
        select user_id, import_id, name, 'no_track', 1 from part
        """,
        [alice.user_id],
    )
    owner.execute(
        """
        insert into profile.connection (user_id, kind, data, name, import_id)
        select %s, 'owntracks', 'location', 'Phone ' || n, gen_random_uuid() from generate_series(1, 4) as n
        """,
        [alice.user_id],
    )
    owner.execute(
        """
        insert into profile.integration (user_id, provider, kind, status)
        select %s, 'service ' || n, 'code', 'active' from generate_series(1, 4) as n
        """,
        [alice.user_id],
    )
    owner.execute(
        """
        insert into activity.raw_limit (user_id, closed_before, removed_before)
        values (%(user_id)s, '2001-01-01', '2001-01-01')
        """,
        {"user_id": alice.user_id},
    )
    owner.execute(
        """
        insert into activity.removed_day (user_id, date, app_sessions, coding_sessions, reported, active)
        select %(user_id)s, date '2000-01-01' + n, 1, 0, '{}', '{}' from generate_series(1, 30) as n
        """,
        {"user_id": alice.user_id},
    )
    owner.execute(
        "insert into identity.user (email) select n || '@example.org' from generate_series(1, %s) as n",
        [FEW],
    )


def crowd(owner: Rows) -> None:
    """Copy alice's rows to other people, and update the statistics."""
    # Pulse and places of each minute would be a third of all rows. A fifth is still too much to read.
    owner.execute(
        "delete from health.heart_rate where extract(minute from recorded_at)::integer % 5 > 0"
    )
    owner.execute(
        "delete from location.point where extract(minute from recorded_at)::integer % 5 > 0"
    )
    # Copies refer to copies. Examining that takes as long as all else, and not every login may skip it.
    with suppress(psycopg.errors.InsufficientPrivilege):
        owner.execute("set session_replication_role = replica")
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
                "insert into {table} (user_id, {columns}) overriding system value "
                "select md5(n::text)::uuid, {columns} from {table}, generate_series(1, %s) as n"
            ).format(
                table=sql.SQL(table),
                columns=sql.SQL(", ").join(sql.Identifier(name) for (name,) in columns),
            ),
            [copies[table]],
        )
    owner.execute("analyze")


def by_reference(owner: Rows) -> list[tuple[str, set[str]]]:
    """Return every table of people and those that it refers to, which come before it."""
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


def test_every_statement_finds_its_rows_with_an_index(crowded: Settings) -> None:
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
    scans: dict[str, list[tuple[str, str, str]]] = {}
    for role, statements in STATEMENTS.items():
        with closing(psycopg.connect(database.role_url(crowded, role), autocommit=True)) as asking:
            asking.execute("set plan_cache_mode = force_generic_plan")
            for name, statement in statements.items():
                scans[name] = list(scanned(plan(asking, statement)))

    through_tables, through_lives = set(), set()
    for name, found in scans.items():
        for table, how, condition in found:
            if name in READS_ALL:
                continue
            if table in {*sizes, "identity.user"} and "user_id = " not in condition:
                through_tables.add((name, table, how))
            if sizes.get(table, 0) > LONG and re.fullmatch(r"\(\w+\.user_id = \S+\)", condition):
                through_lives.add((name, table))
    assert sum(sizes.values()) > 250_000
    assert {name for name, found in scans.items() if not found} == LOOKS_AT_NOTHING
    assert through_tables == set()
    # Older servers find a bound for some of them.
    assert through_lives <= AT_AN_END


def test_a_frame_looks_for_the_first_day_of_all_data_in_one_place_of_its_plan(
    deployment: Settings,
) -> None:
    with closing(
        psycopg.connect(database.role_url(deployment, "reader"), autocommit=True)
    ) as asking:
        asking.execute("set plan_cache_mode = force_generic_plan")
        searches = {
            tool.name: [table for table, *_ in scanned(plan(asking, tool.statements["frame"]))]
            for tool in TOOLS
            if tool.frame is not None
        }

    # Nothing else in a frame reads this table.
    assert {found.count("content.play") for found in searches.values()} == {0, 1}


def plan(asking: Rows, statement: Statement) -> dict[str, Any]:
    """Return the generic plan of a statement."""
    unknown = ", ".join(["null"] * len(statement.parameters))
    asking.execute(b"prepare question as " + statement.text)
    row = asking.execute(
        sql.SQL("explain (format json, verbose) execute question ({})").format(sql.SQL(unknown))
    ).fetchone()
    asking.execute("deallocate question")
    assert row is not None
    found: dict[str, Any] = row[0][0]["Plan"]
    return found


def scanned(node: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each table that is read below ``node``, how, and by which condition of an index."""
    below = node.get("Plans", [])
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        conditions = [each["Index Cond"] for each in (node, *below) if "Index Cond" in each]
        yield f"{node['Schema']}.{node['Relation Name']}", node["Node Type"], " ".join(conditions)
    for each in below:
        yield from scanned(each)


READ: Final = (
    "activity.app_session",
    "activity.coding_session",
    "activity.app_time",
    "activity.coding_time",
    "activity.app_timeline",
)
"""Tables of which rows that are read are counted."""


def questions(first: date, last: date) -> dict[str, dict[str, str]]:
    """Return a statement of each kind about days in UTC; that about hours is for the last of them."""
    zone = {"tz": "UTC"}
    days = {"from": f"{first}", "to": f"{last}"}
    instants = {"from": f"{first}T00:00Z", "to": f"{last + timedelta(days=1)}T00:00Z"}
    return {
        "app_usage": instants,
        "categories": instants,
        "coding": instants,
        "daily": days | zone,
        "daily_categories": instants | zone,
        "sessions_daily": instants | zone,
        "sessions_by_app": instants,
        "hourly": {"date": f"{last}"} | zone,
        "hourly_patterns": {"weeks": "2"} | zone,
        "context_switches": instants,
        # More than the streaks of twenty days, or the oldest days would not be read for their switches.
        "focus_streaks": instants | {"limit": "1000"},
    }


def rows_read(reader: Rows, alice: Person, name: str, params: dict[str, str]) -> Counter[str]:
    """Return how many rows a question reads of each table in ``READ``, used or not."""
    (endpoint,) = (each for each in ENDPOINTS if each.name == name)
    token = tokens.parse(tokens.ACCESS, alice.token(*endpoint.scopes))
    assert token is not None
    with reader.transaction():
        reader.execute(
            "call svc.open_token_session(%s, %s, '{}', '{}', p_version => %s)",
            [alice.user_id, token.hash, SCHEMA_VERSION],
        )
        before = counted(reader)
        asking = psycopg.RawCursor(reader)

        async def ask(step: Step) -> bytes:
            statement, own = step
            given = {**own, "user_id": alice.user_id}
            asking.execute(statement.text, [given[each] for each in statement.parameters])
            row = asking.fetchone()
            assert row is not None
            answer: str = row[0]
            return answer.encode()

        asyncio.run(endpoint.read_with(ask, endpoint.params.model_validate(params).values()))
        return counted(reader) - before


def counted(reader: Rows) -> Counter[str]:
    """Return how many rows of each table this connection has read lately, by an index or without."""
    found = reader.execute(
        """
        select relname,
               pg_stat_get_xact_tuples_returned(indrelid)
               + sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint
          from pg_index
          join pg_class
            on pg_class.oid = indrelid
         where indrelid = any (%s::regclass[])
         group by relname,
                  indrelid
        """,
        [list(READ)],
    )
    return Counter(dict(found.fetchall()))


def slots(owner: Rows, alice: Person, grain: int, first: date, last: date) -> tuple[int, int]:
    """Return how many rows of a grain days have, of applications and of coding."""
    counts = (
        owner.execute(
            sql.SQL(
                "select count(*) from activity.{} where user_id = %s and grain = %s "
                "and starts_at >= %s::date and starts_at < %s::date + 1"
            ).format(sql.Identifier(table)),
            [alice.user_id, grain, first, last],
        ).fetchone()
        for table in ("app_time", "coding_time")
    )
    app, coding = (row[0] for row in counts if row is not None)
    return app, coding


def newest(owner: Rows, alice: Person, first: date, last: date) -> int:
    """Return how many sessions must be read for the newest twenty of each application on some days.

    If there are fewer, those of the day before are read as well.
    """
    row = owner.execute(
        """
        select sum(case when listed < 20 then nearby else 20 end)::integer
          from (
                   select count(*) filter (where started_at >= %(first)s) as listed,
                          count(*) as nearby
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at >= %(first)s - 1
                      and started_at < %(last)s + 1
                      and not idle
                    group by app
               ) as used
         where listed > 0
        """,
        {"user_id": alice.user_id, "first": first, "last": last},
    ).fetchone()
    assert row is not None
    listed: int = row[0]
    return listed


def account(owner: Rows, email: str) -> Person:
    """Return the id of a person with rows."""
    row = owner.execute("select user_id from identity.user where email = %s", [email]).fetchone()
    assert row is not None
    return Person(row[0], email, owner)


def busiest(owner: Rows, alice: Person, first: date, last: date) -> date:
    """Return the day with the most coding, which has streaks of focus. Not every day of the demo has one."""
    row = owner.execute(
        "select started_at::date from activity.coding_session "
        "where user_id = %s and started_at >= %s and started_at < %s::date + 1 "
        "group by 1 order by sum(ended_at - started_at) desc limit 1",
        [alice.user_id, first, last],
    ).fetchone()
    assert row is not None
    day: date = row[0]
    return day


def at(day: date, clock: str) -> datetime:
    """Return an instant in UTC."""
    return datetime.fromisoformat(f"{day}T{clock}Z")


def sessions(owner: Rows, alice: Person, *spans: tuple[datetime, datetime]) -> int:
    """Return how many app sessions begin in some spans of time."""
    counts = (
        owner.execute(
            "select count(*) from activity.app_session "
            "where user_id = %s and started_at >= %s and started_at < %s",
            [alice.user_id, *span],
        ).fetchone()
        for span in spans
    )
    return sum(row[0] for row in counts if row is not None)


def test_long_ranges_are_read_from_rollups_and_from_sessions_at_their_edges_and_where_days_are_marked(
    crowded: Settings,
) -> None:
    today = datetime.now(UTC).date()
    first, last = (today - timedelta(days=days) for days in (24, 5))
    fortnight = today - timedelta(days=14), today - timedelta(days=1)
    asked = questions(first, last)
    with (
        closing(psycopg.connect(crowded.database_url or "", autocommit=True)) as owner,
        closing(psycopg.connect(database.role_url(crowded, "reader"), autocommit=True)) as reader,
    ):
        owner.execute("set timezone = 'UTC'")
        alice = account(owner, "alice@example.org")
        owner.execute("delete from activity.rollup_due where user_id = %s", [alice.user_id])
        # Else it depends on the day of the month whether the streaks of a sixth of it are kept.
        owner.execute("update activity.attention set rules = ''")

        marked = busiest(owner, alice, today - timedelta(days=13), today - timedelta(days=7))
        made = {name: rows_read(reader, alice, name, params) for name, params in asked.items()}
        edges = rows_read(
            reader,
            alice,
            "app_usage",
            {"from": f"{first}T10:07:13Z", "to": f"{last}T15:52:47Z"},
        )
        owner.execute(
            "insert into activity.rollup_due (user_id, date) values (%s, %s)",
            [alice.user_id, marked],
        )
        stale = {name: rows_read(reader, alice, name, params) for name, params in asked.items()}

        days, coding_days = slots(owner, alice, 3, first, last)
        wider_days, _ = slots(owner, alice, 3, first - timedelta(days=1), last + timedelta(days=1))
        hours, coding_hours = slots(owner, alice, 2, last, last)
        fortnight_days, _ = slots(owner, alice, 3, *fortnight)
        fortnight_hours, fortnight_coding_hours = slots(owner, alice, 2, *fortnight)
        listed = newest(owner, alice, first, last)
        at_edges = sessions(
            owner,
            alice,
            (at(first - timedelta(days=1), "10:07:13"), at(first, "10:15")),
            (at(last - timedelta(days=1), "15:45"), at(last, "15:52:47")),
        )
        nearby = sessions(
            owner, alice, (at(marked - timedelta(days=1), "00:00"), at(marked, "23:59:59.999"))
        )

    assert days > 200
    expected: dict[str, dict[str, int]] = {
        "app_usage": {"app_time": days},
        "categories": {"app_time": days},
        "coding": {"coding_time": coding_days},
        "daily": {"app_time": days, "coding_time": coding_days},
        "daily_categories": {"app_time": days},
        "sessions_daily": {"app_time": days, "coding_time": coding_days},
        "sessions_by_app": {"app_time": days, "app_session": listed},
        # On some days nothing was coded, and a Counter does not list what is zero.
        "hourly": Counter(app_time=hours, coding_time=coding_hours),
        # Labels come from days; the first session of a person comes from sessions.
        "hourly_patterns": {
            "app_time": fortnight_hours + fortnight_days,
            "coding_time": fortnight_coding_hours,
            "app_session": 1,
            "coding_session": 1,
        },
        "context_switches": {"app_time": days},
        # The next session of a person comes from sessions. Only a streak that nothing ends needs it.
        "focus_streaks": Counter(app_session=min(made["focus_streaks"]["app_session"], 1)),
    }
    # The first and the last of the twenty days are searched for pauses. Without one, switches and streaks may
    # cross midnight, and then the day beyond is read too. The switches within streaks are read after these,
    # on the days of the streaks and those between them. Between streaks that are more than 48 hours apart,
    # only the days next to a streak may be read.
    timelines = {
        name: counts.pop("app_timeline") for name, counts in made.items() if counts["app_timeline"]
    }
    assert timelines.keys() == {"daily", "context_switches", "focus_streaks"}
    assert 22 <= timelines["daily"] == timelines["context_switches"] <= 24
    # The first and the last days may have no streak.
    assert 34 <= timelines["focus_streaks"] <= 48
    labels = made["focus_streaks"].pop("app_time")
    assert days <= labels <= wider_days
    made["context_switches"]["app_time"] -= labels
    # A day without coding, such as a Sunday, has no rows of coding.
    assert made == {name: Counter(counts) for name, counts in expected.items()}
    assert edges["app_session"] == at_edges > 0
    assert {name: stale[name]["app_session"] - made[name]["app_session"] for name in asked} == {
        "app_usage": nearby,
        "categories": nearby,
        "coding": 0,
        # Once for its sums, and once for its switches.
        "daily": 2 * nearby,
        "daily_categories": nearby,
        "sessions_daily": nearby,
        "sessions_by_app": nearby,
        "hourly": 0,
        "hourly_patterns": nearby,
        "context_switches": nearby,
        "focus_streaks": 2 * nearby,
    }


def test_pending_days_are_found_without_reading_the_whole_history(crowded: Settings) -> None:
    today = datetime.now(UTC).date()
    marked = today - timedelta(days=12)
    with (
        closing(psycopg.connect(crowded.database_url or "", autocommit=True)) as owner,
        closing(psycopg.connect(database.role_url(crowded, "reader"), autocommit=True)) as reader,
    ):
        owner.execute("set timezone = 'UTC'")
        alice = account(owner, "alice@example.org")
        owner.execute("delete from activity.summary_due where user_id = %s", [alice.user_id])
        owner.execute(
            "insert into activity.summary_due (user_id, date) values (%s, %s)",
            [alice.user_id, marked],
        )

        read = rows_read(reader, alice, "summaries", {})

        day_before, day_after = marked - timedelta(days=1), marked + timedelta(days=1)
        nearby = sessions(owner, alice, (at(day_before, "00:00"), at(day_after, "23:59:59.999")))
    # Both days on either side of both ends of the marked day are looked at.
    assert 0 < read["app_session"] <= 2 * nearby
