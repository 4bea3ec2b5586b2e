"""Rows of the database as dataclasses, one for each shape that a statement answers."""

from collections.abc import Mapping
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import class_row

Row = TypeVar("Row")
Connection = AsyncConnection[Any]
Parameters = Mapping[str, Any]


async def one(
    connection: Connection, shape: type[Row], statement: str, parameters: Parameters
) -> Row | None:
    """Return the first row that ``statement`` answers, or None where there is none."""
    cursor = connection.cursor(row_factory=class_row(shape))
    await cursor.execute(statement, parameters)
    return await cursor.fetchone()


async def every(
    connection: Connection, shape: type[Row], statement: str, parameters: Parameters
) -> list[Row]:
    """Return all rows that ``statement`` answers."""
    cursor = connection.cursor(row_factory=class_row(shape))
    await cursor.execute(statement, parameters)
    return await cursor.fetchall()
