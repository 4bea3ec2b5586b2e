"""The loader of named SQL."""

from pathlib import Path

import pytest

from shared import queries


def test_statements_are_loaded_by_name_and_fragments_put_in(tmp_path: Path) -> None:
    path = tmp_path / "some.sql"
    path.write_text(
        "-- fragment: twice\nselect 2 * n as n from one\n\n"
        "-- name: four\nwith one as (select 2 as n), two as (\n--include twice\n)\nselect n from two\n"
    )

    loaded = queries.load(path)

    assert loaded == {
        "four": "with one as (select 2 as n), two as (\nselect 2 * n as n from one\n)\nselect n from two"
    }


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
