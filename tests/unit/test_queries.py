"""The loader of named SQL."""

from pathlib import Path

import pytest

from shared import queries
from tests.rooms import ROOT

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


SPANS = """
-- fragment: spans
-- needs: slot (position, starts_at)
-- gives: span (position, grain)
span as (
    select slot.position,
           slot.starts_at as grain
      from slot
),
"""


MORE = """
-- fragment: more
-- needs: span (grain)
more as (
    select * from span
),
-- name: a
with slot (position, starts_at) as (
    values (1, 2)
),
--include spans
--include more
last as (
    select 1
)
select
"""


def test_a_statement_or_another_fragment_may_provide_what_a_fragment_needs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "some.sql"
    path.write_text(SPANS + MORE)

    assert "from slot\n),\nmore as (" in queries.load(path)["a"]


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "a: spans needs slot.position"),
        ("slot as (\n    select 1 as position\n),\n", "a: spans needs slot.starts_at"),
        # A table within parentheses is not visible after them.
        (
            "outer as (\n    with slot as (\n        select 1 as position,\n               2 as starts_at\n"
            "    )\n    select 1\n),\n",
            "a: spans needs slot.position",
        ),
    ],
)
def test_a_fragment_that_lacks_what_it_needs_is_refused_by_name(
    tmp_path: Path, before: str, said: str
) -> None:
    path = tmp_path / "some.sql"
    path.write_text(f"{SPANS}-- name: a\nwith\n{before}--include spans\nselect\n")

    with pytest.raises(queries.FragmentError, match=f"^{said}$"):
        queries.load(path)


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        ("-- gives: b (n, m)\nb as (\n    select 1 as n\n),", "b does not give b.m"),
        ("-- gives: c (n)\nb as (\n    select 1 as n\n),", "b does not give c.n"),
        ("b as (\n    select n from c\n),", "b reads c, which it neither has nor needs"),
        (
            "b as (\n    select extract(epoch from n), n is distinct from 1, 'from c' from t.c\n),",
            None,
        ),
    ],
)
def test_a_fragment_with_a_wrong_header_is_refused(
    tmp_path: Path, fragment: str, said: str | None
) -> None:
    path = tmp_path / "some.sql"
    path.write_text(f"-- fragment: b\n{fragment}\n-- name: a\nwith\n--include b\nselect\n")

    if said is None:
        assert "a" in queries.load(path)
    else:
        with pytest.raises(queries.FragmentError, match=f"^{said}$"):
            queries.load(path)


def test_a_function_cannot_read_the_tables_of_the_function_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragments, functions = tmp_path / "fragments.sql", tmp_path / "functions.sql"
    fragments.write_text(SPANS)
    monkeypatch.setattr(queries, "SHARED", (fragments,))
    slots = "slot (position, starts_at) as (\n    -- Two columns;\n    values (1, 2)\n),\n"
    function = "begin atomic\nwith\n{}--include spans\nselect 1;\nend;\n"

    functions.write_text(function.format(slots) * 2)
    assert queries.written_out(functions).count("span as (") == 2

    functions.write_text(function.format(slots) + function.format(""))
    with pytest.raises(queries.FragmentError, match=r"^functions.sql: spans needs slot.position$"):
        queries.written_out(functions)


def test_the_statements_of_the_bench_load() -> None:
    assert queries.load(ROOT / "tests" / "bench" / "years.sql") != {}


def test_an_answer_without_its_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "open.sql"
    path.write_text("-- name: titles\n-- All.\n--include answer\nselect 1 as count\n")

    said = "^titles needs '--include end_of_answer' for each 'answer'$"
    with pytest.raises(queries.FragmentError, match=said):
        queries.load(path)
