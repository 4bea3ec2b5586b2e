"""The memory of one connection that has prepared all statements of endpoints and tools.

A server keeps its connections, and each of their backends keeps the text, the analyzed query and the generic
plan of every statement that it has answered. ``python -m tests.bench.versions`` measures a whole backend;
what is limited here does not depend on the machine.
"""

from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from tests.sql.test_sizes import READING

MOST_MIB: Final = 60.0
"""Each block that a statement needs beyond a power of two doubles one of its three contexts."""


def test_all_statements_of_endpoints_and_tools_fit_into_one_backend(
    db: psycopg.Connection[Any],
) -> None:
    statements = {
        statement.name: statement for each in READING for statement in each.statements.values()
    }
    if db.execute(
        "select has_table_privilege('pg_catalog.pg_backend_memory_contexts', 'select')"
    ).fetchone() != (True,):
        # It is for superusers and the monitoring role, and the tests on PostgreSQL 15 log in as neither.
        pytest.skip("this login may not read what a backend keeps")
    db.execute("set local plan_cache_mode = force_generic_plan")
    db.execute("set local jit = off")
    db.execute("set local search_path = ''")
    db.execute("set local role svc_reader")
    before = _kept_mib(db)

    for statement in statements.values():
        prepared = db.pgconn.prepare(statement.name, statement.text)
        assert not prepared.error_message, prepared.error_message
        # The plan is made and kept, and not executed.
        given = sql.SQL(", ").join([sql.NULL] * len(statement.parameters))
        db.execute(
            sql.SQL("explain execute {}").format(sql.Identifier(statement.name.decode()))
            + (sql.SQL("({})").format(given) if statement.parameters else sql.SQL(""))
        )

    try:
        assert len(statements) > 100
        assert _kept_mib(db) - before < MOST_MIB
    finally:
        db.execute("reset role")
        for name in statements:
            db.execute(sql.SQL("deallocate {}").format(sql.Identifier(name.decode())))


def _kept_mib(db: psycopg.Connection[Any]) -> float:
    """Return the size of everything that the backend keeps of prepared statements."""
    db.execute("reset role")
    row = db.execute(
        """
        select coalesce(sum(total_bytes), 0)::float8 / 1048576
          from pg_catalog.pg_backend_memory_contexts
         where name in ('CachedPlan', 'CachedPlanQuery', 'CachedPlanSource')
        """
    ).fetchone()
    db.execute("set local role svc_reader")
    assert row is not None
    kept: float = row[0]
    return kept
