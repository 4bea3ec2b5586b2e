"""Rows of the database as dataclasses, one for each shape that a statement answers."""

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
"""What statements are sent to. Each is a transaction of its own, and does all that belongs together. Before
it the database checks that our version fits the schema."""
Parameters = Mapping[str, Any]

_PIPELINE_DEPTH: Final = 32
_ANSWER_TIMEOUT_S: Final = 12.0
"""How long an answer may take: a little longer than the server's own limit (sql/roles.sql)."""


def load(*files: str) -> dict[str, Statement]:
    """Return the statements of these files of the package, by name."""
    return pipeline.load(*(Path(__file__).parent / file for file in files))


def connect(chosen: Settings, *, size: int | None = None, depth: int = _PIPELINE_DEPTH) -> Database:
    """Return the database as the authorization server sees it; it connects when it is first asked.

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
    """Return in one line what went wrong, in the words of Postgres where they are known."""
    return " ".join((error.diag.message_primary or str(error)).split())


async def one(
    connection: Database, shape: type[Row], statement: Statement, parameters: Parameters
) -> Row | None:
    """Return the first row that ``statement`` answers, or None where there is none."""
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
    """Return all rows that ``statement`` answers. Raises psycopg.Error.

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
    """Run ``statement`` for what it changes, and return how many rows that were. Raises psycopg.Error."""
    result = await _run(connection, (statement,), parameters)
    return result.command_tuples or 0


async def _run(
    connection: Database, statements: Sequence[Statement], parameters: Parameters
) -> PGresult:
    # What was lost on the way may have been done, and most statements here must not be done twice.
    steps = [schema.STEP, *((statement, parameters) for statement in statements)]
    return (await connection.run(steps, may_repeat=False))[-1]
