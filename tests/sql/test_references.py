"""Every reference to user data names its user itself, so that users can be spread over machines.

Postgres parses each statement of the resource server, and the test examines the parse tree: in every query,
subquery and common table expression, each table with a user must have a condition of its own that compares
its `user_id` with the parameter.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from resourceserver.endpoints import ENDPOINTS
from resourceserver.mcp.tools import TOOLS
from shared import pipeline, queries

ROOT: Final = Path(__file__).parent.parent.parent / "resourceserver"
FILES: Final = sorted(
    path for path in ROOT.rglob("*.sql") if path.parent.name != "tools" and path.name != "frame.sql"
)
"""Statements of tools include those of endpoints, and are examined whole."""
SHARED: Final = [path for path in FILES if "-- name: " not in path.read_text(encoding="utf-8")]
"""Files of fragments that other statements include."""


def refers_to_tables(text: str) -> bool:
    """Tell whether a statement can be examined: a call cannot, and a template is examined with its
    contents."""
    code = re.sub(r"^ *-- .*\n", "", text, flags=re.MULTILINE)
    is_template = re.search(r"^ *--\w", code, re.MULTILINE) is not None
    return code.startswith(("select", "with", "insert", "update", "delete")) and not is_template


QUESTIONS: Final = {endpoint.name: endpoint.query for endpoint in ENDPOINTS} | {
    f"{tool.name}.{part.name}": part.query for tool in TOOLS for part in tool.parts
}
STATEMENTS: Final = QUESTIONS | {
    f"{path.stem}.{name}": text
    for path in FILES
    for name, text in queries.load(*{*SHARED, path}).items()
    if refers_to_tables(text) and text not in QUESTIONS.values()
}
UUID_EQUALS: Final = "2956"


@dataclass(frozen=True)
class Node:
    """A node of a parse tree, as pg_node_tree spells it: ``{KIND :member value ...}``."""

    kind: str
    items: list[Any]

    def member(self, name: str) -> list[Any]:
        """Return the parts of the member ``name``."""
        values: list[Any] = []
        is_here = False
        for item in self.items:
            if isinstance(item, str) and item.startswith(":"):
                is_here = item == f":{name}"
            elif is_here:
                values.append(item)
        return values

    def atom(self, name: str) -> str:
        """Return the member ``name``, which is one word."""
        (value,) = self.member(name)
        assert isinstance(value, str)
        return value


def parse(tree: str) -> list[Any]:
    """Return the nodes of a pg_node_tree; a list of nodes is a list."""
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[{}()]|(?:\\.|[^\s{}()\\])+", tree):
        if token in "{(":
            stack.append([])
        elif token in "})":
            items = stack.pop()
            stack[-1].append(Node(items[0], items[1:]) if token == "}" else items)
        else:
            stack[-1].append(token)
    return stack[0]


def nodes(value: Any) -> Iterator[Node]:
    """Yield every node in ``value``, in any order."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Node):
            yield each
            left += each.items
        elif isinstance(each, list):
            left += each


def conditions(value: Any) -> Iterator[Node]:
    """Yield the conditions that all rows of ``value``, the FROM and WHERE of a query, must meet."""
    for node in value if isinstance(value, list) else [value]:
        if isinstance(node, list):
            yield from conditions(node)
        elif isinstance(node, Node) and node.kind in ("FROMEXPR", "JOINEXPR"):
            for name in ("fromlist", "larg", "rarg", "quals"):
                yield from conditions(node.member(name))
        elif isinstance(node, Node) and node.kind == "BOOLEXPR" and node.atom("boolop") == "and":
            yield from conditions(node.member("args"))
        elif isinstance(node, Node):
            yield node


def named(query: Node, user: str) -> set[tuple[str, str]]:
    """Return which columns (number of the table, number of the column) equal the parameter ``user``."""
    found = set()
    for condition in conditions(query.member("jointree")):
        if condition.kind != "OPEXPR" or condition.atom("opfuncid") != UUID_EQUALS:
            continue
        (sides,) = condition.member("args")
        variables = [each for each in sides if each.kind == "VAR"]
        parameters = [each.atom("paramid") for each in sides if each.kind == "PARAM"]
        if parameters == [user]:
            found |= {
                (each.atom("varno"), each.atom("varattno"))
                for each in variables
                if each.atom("varlevelsup") == "0"
            }
    return found


def nameless(tree: list[Any], user: str, tables: dict[str, tuple[str, str]]) -> list[str]:
    """Return the tables that a query of ``tree`` refers to without naming ``user``.

    ``tables`` has, by its oid, each table's name and the number of its column ``user_id``.
    """
    missing = []
    for query in nodes(tree):
        if query.kind != "QUERY":
            continue
        own = named(query, user)
        is_insert = query.atom("commandType") == "3"
        (entries,) = query.member("rtable")
        for number, entry in enumerate(entries if isinstance(entries, list) else [], 1):
            if entry.atom("rtekind") != "0" or entry.atom("relid") not in tables:
                continue
            name, column = tables[entry.atom("relid")]
            # The target of an insert, and the row that it could not write, are no references.
            is_written = is_insert and (
                query.atom("resultRelation") == str(number) or entry.atom("relkind") == "c"
            )
            if not is_written and (str(number), column) not in own:
                missing.append(name)
    return missing


@pytest.fixture
def tables(db: psycopg.Connection[Any]) -> dict[str, tuple[str, str]]:
    """Every table with a user, by oid: its name and the number of its column ``user_id``."""
    rows = db.execute(
        """
        select attrelid::text,
               attrelid::regclass::text,
               attnum::text
          from pg_attribute
          join pg_class on pg_class.oid = attrelid
         where attname = 'user_id'
           and relkind in ('r', 'p', 'v')
        """
    ).fetchall()
    return {oid: (name, number) for oid, name, number in rows}


def tree_of(db: psycopg.Connection[Any], text: str) -> tuple[list[Any], str]:
    """Return the parse tree of ``text``, and the number of its parameter ``user_id``."""
    statement = pipeline.statement(text)
    numbered = sql.SQL(statement.text.decode())
    db.execute(sql.SQL("prepare looked_at as {}").format(numbered))
    row = db.execute("select parameter_types::text[] from pg_prepared_statements").fetchone()
    assert row is not None
    types = sql.SQL(", ").join(map(sql.SQL, row[0]))
    db.execute(
        sql.SQL("create procedure pg_temp.looked_at ({}) begin atomic {}; end").format(
            types, numbered
        )
    )
    row = db.execute("select prosqlbody::text from pg_proc where proname = 'looked_at'").fetchone()
    assert row is not None
    number = statement.parameters.index("user_id") + 1 if "user_id" in statement.parameters else 0
    return parse(row[0]), str(number)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_reference_to_user_data_names_its_user(
    db: psycopg.Connection[Any], tables: dict[str, tuple[str, str]], name: str
) -> None:
    tree, user = tree_of(db, STATEMENTS[name])

    assert nameless(tree, user, tables) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("select from activity.device where user_id = %(user_id)s", []),
        ("select from activity.device where %(user_id)s = user_id and name = 'a'", []),
        ("select from activity.device", ["activity.device"]),
        (
            "select from activity.device where user_id = %(user_id)s or name = 'a'",
            ["activity.device"],
        ),
        ("select from activity.device where user_id <> %(user_id)s", ["activity.device"]),
        ("select from activity.device where device_id = %(user_id)s", ["activity.device"]),
        ("select from activity.device where user_id = %(other)s::uuid", ["activity.device"]),
        (
            # A condition that only follows from the others is not enough: a router of queries need not see
            # it.
            """
            select from activity.device
              join activity.app_session using (user_id, device_id)
             where activity.device.user_id = %(user_id)s
            """,
            ["activity.app_session"],
        ),
        (
            """
            select from activity.device
              left join activity.app_session as session
                on session.user_id = %(user_id)s and session.device_id = device.device_id
             where device.user_id = %(user_id)s
            """,
            [],
        ),
        (
            """
            with mine as (select name from activity.device where user_id = %(user_id)s)
            select from mine where exists (select from activity.goal where title = mine.name)
            """,
            ["activity.goal"],
        ),
        (
            """
            select from activity.device
             where user_id = %(user_id)s
               and exists (select from activity.goal where device.user_id = %(user_id)s)
            """,
            ["activity.goal"],
        ),
        (
            """
            select name from activity.device where user_id = %(user_id)s
             union all
            select title from activity.goal
            """,
            ["activity.goal"],
        ),
        (
            """
            insert into activity.device (user_id, name) values (%(user_id)s, 'a')
            on conflict (user_id, name) do update set platform = excluded.platform
            """,
            [],
        ),
        ("delete from activity.device", ["activity.device"]),
    ],
)
def test_a_missing_condition_is_detected_at_any_place(
    db: psycopg.Connection[Any],
    tables: dict[str, tuple[str, str]],
    text: str,
    missing: list[str],
) -> None:
    tree, user = tree_of(db, text)

    assert nameless(tree, user, tables) == missing
