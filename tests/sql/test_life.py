"""The checks of the tables of user data, on which answers rely."""

from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import errors, sql

ALICE = "00000000-0000-4000-8000-00000000000a"

METRIC = "insert into health.metric values (%s, '{}', 'bpm', '{}')"
SAMPLE = """
    with source as (
        insert into health.source (user_id, provider, name)
        values (%s, 'withings', 'Scales')
        returning user_id, source_id
    )
    insert into health.sample (user_id, source_id, metric_type, started_at, ended_at, value)
    select user_id, source_id, 'weight_kg', '2025-06-16 08:00Z', '2025-06-16 08:00Z', {}
      from source
    """
SLEEP = """
    with source as (
        insert into health.source (user_id, provider, name)
        values (%s, 'whoop', 'Strap')
        returning user_id, source_id
    )
    insert into health.sleep (user_id, source_id, started_at, ended_at, utc_offset, in_bed_ms, asleep_ms)
    select user_id, source_id, '2025-06-15 22:00Z', '2025-06-16 06:00Z', '{}', 1, {}
      from source
    """


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        # Heart rate has a table of its own, and must not be in two.
        (METRIC.format("heart_rate", "avg"), "metric_is_no_heart_rate"),
        (METRIC.format("steps", "avg"), "metric_that_is_known_to_add_up_does"),
        (METRIC.format("Steps", "sum"), "metric_type_is_a_name"),
        (SLEEP.format("+19:00", 1), "sleep_offset_is_one"),
        (SLEEP.format("+2:00", 1), "sleep_offset_is_one"),
        (SLEEP.format("+02:00", -1), "sleep_takes_time"),
        (
            """
            insert into content.insight
                   (user_id, week_start, week_end, tz, title, summary, highlights, generated_at)
            values (%s, '2025-06-09', '2025-06-15', 'UTC', '', '', '{}', now())
            """,
            "insight_highlights_are_a_list",
        ),
        (
            "insert into location.place (user_id, name, latitude) values (%s, 'X', 91)",
            "place_is_on_earth",
        ),
        (SAMPLE.format("1e-16"), "sample_is_of_a_size"),
        (SAMPLE.format("-1e-16"), "sample_is_of_a_size"),
        (SAMPLE.format("1.1e15"), "sample_is_of_a_size"),
        (SAMPLE.format("'NaN'"), "sample_is_of_a_size"),
        (SLEEP.format("+02:00", 1_000_000_000_001), "sleep_takes_time"),
    ],
)
def test_a_row_that_no_answer_could_contain_is_refused(
    db: psycopg.Connection[Any], statement: LiteralString, rule: str
) -> None:
    with pytest.raises(errors.CheckViolation) as refused:
        db.execute(statement, [ALICE])

    assert refused.value.diag.constraint_name == rule


NO_VALUES = {
    "double precision": ("Infinity", "-Infinity", "NaN", "1e300", "-1e300"),
    "bigint": ("9000000000000000000", "-1"),
    "timestamp with time zone": ("infinity", "-infinity", "10000-01-01 00:00Z", "0001-01-01 BC"),
    "date": ("infinity", "-infinity", "10000-01-01", "0001-01-01 BC"),
}
"""Values that no answer can contain or add up, by the type of the column."""

LANDED = {"activity.device", "activity.app_session"}
"""Older tables, whose times come from the database's clock, or from a tracker after validation."""

MADE = {"activity.app_time", "activity.coding_time", "activity.app_timeline", "activity.attention"}
"""Tables that are computed from sessions, with values of these only."""


def test_no_column_of_user_data_accepts_values_that_no_answer_could_contain(
    db: psycopg.Connection[Any],
) -> None:
    columns = db.execute(
        """
        select format('%%I.%%I', table_schema, table_name), column_name, data_type
          from information_schema.columns as held
          join information_schema.tables using (table_schema, table_name)
         where table_schema in (
                   'activity', 'code', 'health', 'music', 'location', 'content', 'profile'
               )
           and table_type = 'BASE TABLE'
           and (
                   data_type in ('double precision', 'timestamp with time zone', 'date')
                   or data_type = 'bigint' and column_name like '%%\\_ms'
               )
           and exists (
                   select
                     from information_schema.columns as whose
                    where whose.table_schema = held.table_schema
                      and whose.table_name = held.table_name
                      and whose.column_name = 'user_id'
               )
        """,
        [],
    ).fetchall()

    taken = [
        (table, column, value)
        for table in sorted({table for table, _, _ in columns} - LANDED - MADE)
        for column, value in taken_by(
            db, table, [(column, kind) for name, column, kind in columns if name == table]
        )
    ]

    assert {kind for _, _, kind in columns} == set(NO_VALUES)
    assert len(columns) > 80
    assert taken == []


def taken_by(
    db: psycopg.Connection[Any], table: str, columns: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the values that a table's columns accept and should refuse, by the checks of each alone."""
    taken = []
    with db.transaction(force_rollback=True):
        # In a copy with the same checks, all columns but one can be left out.
        db.execute(
            sql.SQL("create temporary table alike (like {} including constraints)").format(
                sql.Identifier(*table.split("."))
            )
        )
        db.execute(
            """
            do $$
            declare
                statement text;
            begin
                for statement in
                    select format('alter table alike alter %I drop not null', attname)
                      from pg_attribute
                     where attrelid = 'alike'::regclass
                       and attnum > 0
                loop
                    execute statement;
                end loop;
            end
            $$
            """
        )
        for column, kind in columns:
            insert = sql.SQL("insert into alike ({}) values (%s)").format(sql.Identifier(column))
            for value in NO_VALUES[kind]:
                try:
                    with db.transaction():
                        db.execute(insert, [value])
                except errors.CheckViolation:
                    continue
                taken.append((column, value))
    return taken
