"""Logins of the roles, whose connections notice within seconds that the database is unreachable."""

from collections import Counter
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import conninfo

from shared import queries, settings
from shared.settings import Settings, SettingsError

SQL: Final = queries.load(Path(__file__).with_name("database.sql"))

POOLED: Final = (
    "DATABASE_URL leads to a connection pooler, and must name the PostgreSQL server itself; servers and "
    "workers use a pooler by SVC_READER_DATABASE_URL and the like, one for each role"
)
"""Why commands with the login of the database's owner refuse a pooler: they hold locks and roles for longer
than a transaction."""

WAIT_S = 1.5
"""How long a request waits for a connection before it is answered 503."""


def no_database(chosen: Settings, variables: str = "DATABASE_URL") -> SettingsError:
    """Return the error for settings that name no database."""
    return SettingsError(
        f"no database: 'svc up' is not running on SVC_DATA_DIR, which is {chosen.data_dir};"
        f" start it, set SVC_DATA_DIR to its directory, or set {variables}"
    )


def role_url(chosen: Settings, role: str) -> str:
    """Return the connection string with which ``role`` logs in.

    The operator's own URL for the role is used if it is set, else DATABASE_URL with the role's name and the
    password that ``svc migrate`` generated. Raises SettingsError without either.
    """
    given = chosen.role_urls.get(role)
    if given is not None:
        return given
    if chosen.database_url is None:
        raise no_database(chosen, f"DATABASE_URL or SVC_{role.upper()}_DATABASE_URL")
    password = settings.read_secrets(chosen.data_dir).passwords.get(role)
    if password is None:
        raise SettingsError(f"there is no password for svc_{role} yet: run 'svc migrate'")
    return conninfo.make_conninfo(chosen.database_url, user=f"svc_{role}", password=password)


def login(chosen: Settings, role: str) -> str:
    """Return ``role_url`` with options that limit how long a vanished server can delay a request."""
    return _watchful(role_url(chosen, role), f"svc {role}")


def replica_login(chosen: Settings) -> str | None:
    """Return the same for the reader on the replica, or None without one.

    A replica has the databases, roles and passwords of its primary, so an address without them is enough.
    Raises SettingsError if the reader has no login.
    """
    if chosen.reader_replica_url is None:
        return None
    own = conninfo.conninfo_to_dict(role_url(chosen, "reader"))
    given = conninfo.conninfo_to_dict(chosen.reader_replica_url)
    names = ("dbname",) if "user" in given else ("dbname", "user", "password")
    missing = {name: own[name] for name in names if name in own and name not in given}
    return _watchful(conninfo.make_conninfo(chosen.reader_replica_url, **missing), "svc reader")


def _watchful(url: str, name: str) -> str:
    return conninfo.make_conninfo(
        url,
        application_name=name,
        # libpq takes whole seconds.
        connect_timeout=ceil(WAIT_S),
        # A connection whose peer does not respond is given up after this many milliseconds.
        tcp_user_timeout=3000,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
    )


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether a pooler, such as PgBouncer, stands between: see ``leads_to_pooler``. Raises psycopg.Error."""
    row = connection.execute(SQL["backend"], prepare=False).fetchone()
    return row != (connection.info.backend_pid,)


async def leads_to_pooler(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether a pooler, such as PgBouncer, stands between. Raises psycopg.Error.

    When a client connects, the server names the process that serves it, for cancelling what it does. A pooler
    has several processes for a client, so it makes that name up. What only forwards bytes passes it on.
    """
    cursor = await connection.execute(SQL["backend"], prepare=False)
    return await cursor.fetchone() != (connection.info.backend_pid,)


def prepare_nothing_if_pooled(connection: psycopg.Connection[Any]) -> None:
    """Let a connection to a pooler prepare no statements. Raises psycopg.Error.

    A prepared statement belongs to the process in which it was prepared, and a pooler that gives a client
    another one for each transaction may not know it there. PgBouncer up to 1.20 does not.
    """
    if connection.prepare_threshold is not None and is_pooled(connection):
        connection.prepare_threshold = None


def connection_shortages(urls: Mapping[str, str], needed: Mapping[str, int]) -> list[str]:
    """Return a line for each database server that allows fewer connections than the ``needed`` maximum.

    Both arguments are by role. A server that does not answer now is left out.
    """
    by_server: dict[tuple[object, ...], Counter[str]] = {}
    for role, url in urls.items():
        where = conninfo.conninfo_to_dict(url)
        server = tuple(where.get(name) for name in ("host", "hostaddr", "port"))
        by_server.setdefault(server, Counter())[role] = needed[role]
    lines = []
    for roles in by_server.values():
        limit = _connection_limit(urls[next(iter(roles))])
        if limit is not None and roles.total() > limit:
            lines.append(
                f"under full load up to {roles.total()} connections are opened, and the database takes "
                f"{limit}: raise its max_connections, or lower SVC_..._CONNECTIONS, unless a connection "
                "pooler stands between"
            )
    return lines


def _connection_limit(url: str) -> int | None:
    """Return how many connections the server at ``url`` allows this login, or None without an answer."""
    try:
        with psycopg.connect(conninfo.make_conninfo(url, connect_timeout=2)) as connection:
            row = connection.execute(SQL["connection_limit"]).fetchone()
    except psycopg.Error:
        # Requests will report it; a server also starts without its database.
        return None
    return None if row is None else int(row[0])
