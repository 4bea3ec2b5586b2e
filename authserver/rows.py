"""Query results as dataclasses, one class for each result shape."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq.abc import PGresult

from shared import database, pipeline, schema
from shared.pipeline import Pipelines, Statement
from shared.settings import Settings

Row = TypeVar("Row")
Database = Pipelines
"""The connections to the database. Each call is one transaction. Before its statement the database checks
that the version of this program fits the schema."""
Parameters = Mapping[str, Any]

_PIPELINE_DEPTH: Final = 32
_ANSWER_TIMEOUT_S: Final = 12.0
"""The time limit of a call: a little longer than the statement_timeout of the role (sql/roles.sql)."""


def load(*files: str) -> dict[str, Statement]:
    """Return the statements of these files, relative to this package, by name."""
    return pipeline.load(*(Path(__file__).parent / file for file in files))


def connect(chosen: Settings, *, size: int | None = None, depth: int = _PIPELINE_DEPTH) -> Database:
    """Return the database as the authorization server sees it; it connects at its first use.

    It has at most ``size`` connections, by default as many as are set, and ``depth`` statements under way on
    each. A commit waits for the disk, and others on its connection wait with it.
    """
    return Pipelines.to(
        database.login(chosen, "authserver"),
        size=size or chosen.auth_connections,
        depth=depth,
        patience_s=_ANSWER_TIMEOUT_S,
        prepare=chosen.prepare,
    )


@asynccontextmanager
async def connected(chosen: Settings) -> AsyncIterator[Database]:
    """The database for the time of the block, as ``connect`` returns it."""
    connection = connect(chosen)
    try:
        yield connection
    finally:
        connection.close()


def reason(error: psycopg.Error) -> str:
    """Return the error message in one line, preferably that of Postgres."""
    return " ".join((error.diag.message_primary or str(error)).split())


async def one(
    connection: Database, shape: type[Row], statement: Statement, parameters: Parameters
) -> Row | None:
    """Return the first row of ``statement``, or None if it has no rows."""
    found = await every(connection, shape, statement, parameters)
    return found[0] if found else None


async def every(
    connection: Database,
    shape: type[Row],
    statement: Statement,
    parameters: Parameters,
    *,
    preceded_by: Statement | None = None,
) -> list[Row]:
    """Return all rows of ``statement``. Raises psycopg.Error.

    ``preceded_by`` runs first, in the same transaction and with the same parameters.
    """
    first = () if preceded_by is None else (preceded_by,)
    result = await _run(connection, (*first, statement), parameters)
    names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
    reader = Transformer()
    reader.set_pgresult(result)
    return reader.load_rows(
        0, result.ntuples, lambda values: shape(**dict(zip(names, values, strict=True)))
    )


async def execute(connection: Database, statement: Statement, parameters: Parameters) -> int:
    """Run ``statement`` and return the number of affected rows. Raises psycopg.Error."""
    result = await _run(connection, (statement,), parameters)
    return result.command_tuples or 0


async def _run(
    connection: Database, statements: Sequence[Statement], parameters: Parameters
) -> PGresult:
    # After a lost connection the statement may have run, and most of them must not run twice.
    steps = [schema.STEP, *((statement, parameters) for statement in statements)]
    return (await connection.run(steps, may_repeat=False))[-1]
