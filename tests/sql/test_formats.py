"""Functions that format values of an answer (sql/functions/formats.sql)."""

import struct
from typing import Any

import psycopg
from hypothesis import example, given
from hypothesis import strategies as st


@given(st.floats(min_value=-180, max_value=180))
@example(-0.0)
@example(52.12345675)
@example(-1e-8)
@example(13.4049540)
def test_degrees_are_rounded_as_decimal_numbers(
    owner: psycopg.Connection[Any], degrees: float
) -> None:
    row = owner.execute(
        "select svc.degrees(%(degrees)s), round(%(degrees)s::numeric, 7)::double precision",
        {"degrees": degrees},
    ).fetchone()

    assert row is not None
    assert [struct.pack("d", value) for value in row] == [struct.pack("d", row[1])] * 2
