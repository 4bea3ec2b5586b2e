"""The roles of a backup: the service's own, with settings, memberships and passwords.

Roles belong to the whole cluster, so pg_dump leaves them out. Only a superuser sees passwords, as PostgreSQL
stores them; without them, ``svc migrate`` gives the roles those of the data directory or the operator does.
"""

import json
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from shared import queries

_SQL: Final = queries.load(Path(__file__).with_name("roles.sql"))

Connection = psycopg.Connection[tuple[Any, ...]]


def text_of(database: Connection) -> str:
    """Return the roles of the service in this cluster as JSON."""
    with database.cursor(row_factory=dict_row) as cursor:
        roles = cursor.execute(_SQL["roles"]).fetchall()
        memberships = cursor.execute(_SQL["memberships"]).fetchall()
        may_read = cursor.execute(_SQL["may_read_verifiers"]).fetchone()
        verifiers: dict[str, str] = {}
        if may_read is not None and may_read["has_table_privilege"]:
            verifiers = {
                row["name"]: row["verifier"] for row in cursor.execute(_SQL["verifiers"]).fetchall()
            }
    for role in roles:
        role["verifier"] = verifiers.get(role["name"])
    return json.dumps({"roles": roles, "memberships": memberships}, indent=2) + "\n"
