"""The length of statements, with their fragments, and the functions and views that they call.

Postgres plans a statement as a whole, and a connection keeps its plan. Both take time and memory for each
common table expression, and people who read it need time for each line.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from authserver import janitor
from resourceserver.api.endpoint import Endpoint
from resourceserver.endpoints import ENDPOINTS
from resourceserver.export.resources import RESOURCES
from resourceserver.ingest import route
from resourceserver.mcp.tool import Tool
from resourceserver.mcp.tools import TOOLS
from resourceserver.timeline import rollups, summaries
from shared import queries
from tests.sql.fragments import tables_read

ROOT: Final = Path(__file__).parent.parent.parent
PACKAGES: Final = ("authserver", "deploy", "resourceserver", "shared")

MOST_EXPRESSIONS: Final = 60
MOST_LINES: Final = 750
MOST_OWN_LINES: Final = 250

EXPRESSION: Final = re.compile(
    r"^ *(?:with (?:recursive )?)?\w+(?: \([\w, ]+\))? as (?:not )?(?:materialized )?\($",
    re.MULTILINE,
)
EXPRESSION_NAME: Final = re.compile(
    r"^ *(?:with (?:recursive )?)?(\w+)(?: \([\w, ]+\))? as (?:not )?(?:materialized )?\($",
    re.MULTILINE,
)
DEFINITION: Final = re.compile(
    r"^create or replace (?:function|procedure|view) ([\w.]+)", re.MULTILINE
)
BODY: Final = re.compile(r"^(?:begin atomic$|return\b|as (\$\w*\$))", re.MULTILINE)


def code(text: str) -> str:
    """Return ``text`` without comments and empty lines."""
    lines = (line for line in text.splitlines() if line.strip())
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))


def definitions() -> Iterator[tuple[str, str]]:
    """Yield the functions, procedures and views of the standing files: the name of each, and its text."""
    for path in sorted((ROOT / "sql").rglob("*.sql")):
        if path.parent.name == "migrations":
            continue
        text = code(queries.written_out(path))
        for definition in DEFINITION.finditer(text):
            yield definition[1], text[definition.start() : end_of_definition(text, definition)]


def end_of_definition(text: str, definition: re.Match[str]) -> int:
    """Return the end of the definition that begins with ``found``."""
    if " view " in definition[0]:
        return text.index(";", definition.end())
    body = BODY.search(text, definition.end())
    assert body is not None, definition[0]
    if body[1] is not None:
        return text.index(body[1], body.end()) + len(body[1])
    return text.index("\nend;" if body[0] == "begin atomic" else ";", body.end())


DEFINITIONS: Final = dict(definitions())


def unread_expressions(text: str) -> list[str]:
    """Return the common table expressions of a statement that no ``from`` or ``join`` of it names."""
    read = tables_read(text)
    return [name for name in EXPRESSION_NAME.findall(text) if name not in read]


def written_out(text: str) -> str:
    """Return a statement with all that it calls, and they call, behind it."""
    whole = [code(text)]
    called: set[str] = set()
    for each in whole:
        for name in re.findall(r"\b\w+\.\w+\b", each):
            if name in DEFINITIONS and name not in called:
                called.add(name)
                whole.append(DEFINITIONS[name])
    return "\n".join(whole)


READING: Final[tuple[Tool | Endpoint, ...]] = (*TOOLS, *ENDPOINTS)
READ: Final = {
    statement.text.decode(): f"{each.name}.{name}"
    for each in READING
    for name, statement in each.statements.items()
}
"""The statements of endpoints and tools, each under the name of one that uses it."""
STATEMENTS: Final = {
    **{name: text for text, name in READ.items()},
    **{f"export.{each.name}": each.rows for each in RESOURCES if isinstance(each.rows, str)},
    **{f"ingest.{name}": each.text.decode() for name, each in route.STATEMENTS.items()},
    **{f"rollups.{name}": text for name, text in rollups.SQL.items()},
    **{f"summaries.{name}": text for name, text in summaries.SQL.items()},
    **{f"janitor.{kind.name}": kind.statement for kind in janitor.KINDS},
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_with_its_fragments_is_within_the_limits(name: str) -> None:
    whole = written_out(STATEMENTS[name])

    assert len(EXPRESSION.findall(whole)) <= MOST_EXPRESSIONS
    assert len(whole.splitlines()) <= MOST_LINES


def test_the_own_text_of_a_statement_is_within_the_limit() -> None:
    own = {
        f"{path.relative_to(ROOT)}: {block.name}": len(code(block.text).splitlines())
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.sql")
        for block in queries.blocks(path)
    }

    assert len(own) > 250
    assert [name for name, lines in own.items() if lines > MOST_OWN_LINES] == []


def test_common_table_expressions_of_called_functions_are_counted() -> None:
    text = "with recursive a as (\n    select 1\n),\nb (n) as materialized (\n    with c as (\n"

    assert len(EXPRESSION.findall(text)) == 3
    assert len(EXPRESSION.findall(written_out("select svc.judge()"))) > 5
    assert "svc.owned_segments" not in written_out("select svc.instant(now())")
    assert "function svc.day_start(" in written_out("select svc.days()")


def test_a_read_statement_uses_each_of_its_common_table_expressions() -> None:
    # Postgres plans no others, and each connection keeps their text and their analyzed form nevertheless.
    unread = [
        f"{name}: {expression}"
        for text, name in READ.items()
        for expression in unread_expressions(text)
    ]

    assert unread == []


def test_an_expression_that_nothing_reads_is_found() -> None:
    text = (
        "with a as (\n    select 1 as n\n),\nb as (\n    select n from a\n)\nselect a.n from a, c"
    )

    assert unread_expressions(text) == ["b"]
    assert unread_expressions(text + ",\n     b") == []
