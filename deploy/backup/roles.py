"""The roles of a backup: the service's own, with settings, memberships and passwords.

Roles belong to the whole cluster, so pg_dump leaves them out. Only a superuser sees passwords, as PostgreSQL
stores them; without them, ``svc migrate`` gives the roles those of the data directory or the operator does.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from deploy.backup.backups import BackupError
from shared import queries
from shared.settings import ROLES

_SQL: Final = queries.load(Path(__file__).with_name("roles.sql"))

_OURS: Final = {"names": ["svc_owner", *(f"svc_{role}" for role in ROLES)]}
"""The roles of the service (sql/roles.sql). Other programs of the cluster may have roles with such names."""

Connection = psycopg.Connection[tuple[Any, ...]]


def text_of(database: Connection) -> str:
    """Return the roles of the service in this cluster as JSON."""
    with database.cursor(row_factory=dict_row) as cursor:
        roles = cursor.execute(_SQL["roles"], _OURS).fetchall()
        memberships = cursor.execute(_SQL["memberships"], _OURS).fetchall()
        may_read = cursor.execute(_SQL["may_read_verifiers"]).fetchone()
        verifiers: dict[str, str] = {}
        if may_read is not None and may_read["has_table_privilege"]:
            verifiers = {
                row["name"]: row["verifier"]
                for row in cursor.execute(_SQL["verifiers"], _OURS).fetchall()
            }
    for role in roles:
        role["verifier"] = verifiers.get(role["name"])
    return json.dumps({"roles": roles, "memberships": memberships}, indent=2) + "\n"


def create_missing(database: Connection, text: str, say: Callable[[str], None]) -> None:
    """Create the roles of ``text`` that this cluster lacks. Raises BackupError, psycopg.Error."""
    roles = _members(text)["roles"]
    with database.transaction():
        creations = database.execute(_SQL["creations"], {"roles": Jsonb(roles)}).fetchall()
        for _, statement in creations:
            database.execute(statement)
        names = [name for name, _ in creations]
        parameters = {"roles": Jsonb(roles), "names": names}
        _run_allowed(database, _SQL["settings"], parameters, say)


def grant_memberships(database: Connection, text: str, say: Callable[[str], None]) -> None:
    """Make the members of the service's roles members again, as far as this cluster has them."""
    with database.transaction():
        _run_allowed(
            database, _SQL["grants"], {"memberships": Jsonb(_members(text)["memberships"])}, say
        )


def _run_allowed(
    database: Connection, query: str, parameters: dict[str, Any], say: Callable[[str], None]
) -> None:
    """Run the statements that ``query`` returns, and say which of them the login may not run."""
    for (statement,) in database.execute(query, parameters).fetchall():
        try:
            with database.transaction():
                database.execute(statement)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject) as error:
            say(f"left out: {statement} ({error.diag.message_primary})")


def _members(text: str) -> dict[str, Any]:
    try:
        members = json.loads(text)
        return {name: members[name] for name in ("roles", "memberships")}
    except (ValueError, LookupError, TypeError) as error:
        raise BackupError(f"the roles of the backup cannot be read: {error}") from None
