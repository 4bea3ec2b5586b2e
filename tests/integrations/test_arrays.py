"""Columns as arrays of Postgres: the database gets the values that were sent."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import errors, sql

from resourceserver.integrations.imports import arrays
from resourceserver.integrations.imports.checks import FIRST, LAST

Rows = psycopg.Connection[Any]

TEXT: Final = st.text('\\",{} é') | st.just("null")


def columns(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Return columns with and without nulls."""
    return st.lists(values, max_size=5) | st.lists(st.none() | values, max_size=5)


def sent(owner: Rows, kind: str, array: Any) -> list[Any]:
    owner.adapters.register_dumper(arrays.Array, arrays.ArrayDumper)
    query = sql.SQL("select each from unnest(%s::{}[]) as each").format(sql.SQL(kind))
    return [each for (each,) in owner.execute(query, [array])]


@pytest.mark.parametrize(
    ("kind", "write", "values"),
    [
        ("text", arrays.texts, columns(TEXT)),
        ("integer", arrays.integers, columns(st.integers(-(2**31), 2**31 - 1))),
        (
            "double precision",
            arrays.doubles,
            columns(st.floats(allow_nan=False) | st.integers(-9, 9)),
        ),
    ],
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_column_arrives_as_it_was_sent(
    owner: Rows,
    kind: str,
    write: Callable[[Sequence[Any]], Any],
    values: st.SearchStrategy[list[Any]],
    data: st.DataObject,
) -> None:
    column = data.draw(values)

    found = sent(owner, kind, write(column))

    # Without any value it is empty, and null where the other columns have rows.
    assert found == ([] if set(column) == {None} else column)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.datetimes(FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None)), min_size=1))
def test_instants_are_cut_off_to_milliseconds(owner: Rows, naive: list[datetime]) -> None:
    column = [at.replace(tzinfo=UTC) for at in naive]

    found = sent(owner, "timestamptz", arrays.instants(column))

    assert found == [at.replace(microsecond=at.microsecond // 1000 * 1000) for at in column]


def test_ids_arrive_as_they_were_sent(owner: Rows) -> None:
    column = [UUID(int=n) for n in (0, 1, 2**128 - 1)]

    assert sent(owner, "uuid", arrays.ids([each.bytes for each in column])) == column


@pytest.mark.parametrize("column", [[1, 2**31], [None, 2**40]])
def test_the_database_refuses_a_number_that_is_too_large(
    owner: Rows, column: list[int | None]
) -> None:
    with pytest.raises(errors.NumericValueOutOfRange):
        sent(owner, "integer", arrays.integers(column))
