"""Statements in the form in which connections prepare them."""

from shared import pipeline
from tests.rooms import PACKAGES, ROOT

WRITTEN = """select name,
       -- Several reports may be of one day.
       count(*) as count  -- of them
  from report
 where user_id = %(user_id)s
   and name <> %(name)s"""


def test_a_statement_is_prepared_without_indentation_and_lines_of_comments() -> None:
    statement = pipeline.statement(WRITTEN)

    assert statement.parameters == ("user_id", "name")
    assert statement.text.decode().splitlines() == [
        "select name,",
        "count(*) as count  -- of them",
        "from report",
        "where user_id = $1",
        "and name <> $2",
    ]


def test_no_text_in_a_statement_spans_lines() -> None:
    spanning = [
        f"{path.relative_to(ROOT)}: {line}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.sql")
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith("--") and line.partition(" -- ")[0].count("'") % 2
    ]

    assert spanning == []
