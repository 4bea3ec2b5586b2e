"""What the headers of fragments list, in all files, and each fault that the checks must find."""

from pathlib import Path
from typing import Final

import pytest

from shared import queries
from tests.rooms import PACKAGES, ROOT
from tests.sql.fragments import FragmentError, check, check_functions

FILES: Final = sorted(
    path for room in (*PACKAGES, "tests/bench") for path in (ROOT / room).rglob("*.sql")
)
STANDING: Final = sorted((ROOT / "sql").rglob("*.sql"))


def test_every_fragment_has_what_it_needs_and_gives_what_it_lists() -> None:
    assert {*queries.SHARED} < {*FILES}

    check(FILES)


def test_every_function_provides_what_its_fragments_need() -> None:
    assert any("--include " in path.read_text(encoding="utf-8") for path in STANDING)

    for path in STANDING:
        check_functions(path)


def test_two_fragments_of_one_name_are_refused(tmp_path: Path) -> None:
    # The checks would not know which one a file includes.
    one, other = tmp_path / "one.sql", tmp_path / "other.sql"
    for path in (one, other):
        path.write_text("-- fragment: a\na as (\n    select 1\n),\n")

    with pytest.raises(ValueError, match=r"^there are two fragments a$"):
        check((one, other))


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

    check([path])

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

    with pytest.raises(FragmentError, match=f"^{said}$"):
        check([path])


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        ("-- gives: b (n, m)\nb as (\n    select 1 as n\n),", "b does not give b.m"),
        ("-- gives: c (n)\nb as (\n    select 1 as n\n),", "b does not give c.n"),
        ("b as (\n    select n from c\n),", "b reads c, which it neither has nor needs"),
        (
            "b as (\n    select n\n      from t.a as one,\n           c\n),",
            "b reads c, which it neither has nor needs",
        ),
        ("b as (\n    select n from t.a,\n lateral unnest(n) as c, t.d\n),", None),
        # A table after a subquery, one after a function, and one that tells which rows are deleted.
        (
            "b as (\n    select n from t.a, lateral (select n from t.d) as e, c\n),",
            "b reads c, which it neither has nor needs",
        ),
        (
            "b as (\n    select n from unnest(array[1, 2]) as e (n), c\n),",
            "b reads c, which it neither has nor needs",
        ),
        (
            "b as (\n    delete from t.a\n     using c\n),",
            "b reads c, which it neither has nor needs",
        ),
        ("b as (\n    select n from t.a join t.d using (c, n) where n in (1, c)\n),", None),
        (
            "b as (\n    select extract(epoch from n), n is distinct from 1, 'from c' from t.c\n),",
            None,
        ),
        ("b as (\n    select n from rows from (unnest(array[1])) as sent (n)\n),", None),
    ],
)
def test_a_fragment_with_a_wrong_header_is_refused(
    tmp_path: Path, fragment: str, said: str | None
) -> None:
    path = tmp_path / "some.sql"
    path.write_text(f"-- fragment: b\n{fragment}\n-- name: a\nwith\n--include b\nselect\n")

    if said is None:
        check([path])
    else:
        with pytest.raises(FragmentError, match=f"^{said}$"):
            check([path])


def test_a_function_cannot_read_the_tables_of_the_function_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragments, functions = tmp_path / "fragments.sql", tmp_path / "functions.sql"
    fragments.write_text(SPANS)
    monkeypatch.setattr(queries, "SHARED", (fragments,))
    slots = "slot (position, starts_at) as (\n    -- Two columns;\n    values (1, 2)\n),\n"
    function = "begin atomic\nwith\n{}--include spans\nselect 1;\nend;\n"

    functions.write_text(function.format(slots) * 2)
    check_functions(functions)
    assert queries.written_out(functions).count("span as (") == 2

    functions.write_text(function.format(slots) + function.format(""))
    with pytest.raises(FragmentError, match=r"^functions.sql: spans needs slot.position$"):
        check_functions(functions)


def test_an_answer_without_its_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "open.sql"
    path.write_text("-- name: titles\n-- All.\n--include answer\nselect 1 as count\n")

    said = "^titles needs '--include end_of_answer' for each 'answer'$"
    with pytest.raises(FragmentError, match=said):
        check([*queries.SHARED, path])
