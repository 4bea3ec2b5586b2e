"""The loader of named SQL."""

from pathlib import Path

import pytest

from shared import queries

TWICE = """
-- fragment: twice
-- needs: one (n)
select 2 * n as n from one

-- name: four
with one as (
    select 2 as n
),
two as (
--include twice
)
select n from two
"""
FOUR = """with one as (
    select 2 as n
),
two as (
select 2 * n as n from one
)
select n from two"""


def test_statements_are_loaded_by_name_with_their_fragments(tmp_path: Path) -> None:
    path = tmp_path / "some.sql"
    path.write_text(TWICE)

    assert queries.load(path) == {"four": FOUR}


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.sql"
    path.write_text("-- name: a\nselect 1\n-- name: a\nselect 2\n")

    with pytest.raises(ValueError, match="a is defined twice"):
        queries.load(path)


def test_an_unknown_fragment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.sql"
    path.write_text("-- name: a\n--include nothing\n")

    with pytest.raises(KeyError):
        queries.load(path)
