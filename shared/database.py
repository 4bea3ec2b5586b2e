"""Connections: where each role logs in, and pools that notice within seconds when the database is gone."""

from psycopg import AsyncConnection, conninfo
from psycopg_pool import AsyncConnectionPool

from shared import settings
from shared.settings import Settings, SettingsError

Pool = AsyncConnectionPool[AsyncConnection[tuple[object, ...]]]

WAIT_S = 1.5
"""How long a request waits for a connection before it is answered 503."""


def role_url(chosen: Settings, role: str) -> str:
    """Return the connection string with which ``role`` logs in.

    The operator's own URL for the role wins; else it is DATABASE_URL with the role's name and the
    password that ``svc migrate`` made. Raises SettingsError where neither is there.
    """
    given = chosen.role_urls.get(role)
    if given is not None:
        return given
    if chosen.database_url is None:
        raise SettingsError(
            f"no database: set DATABASE_URL or SVC_{role.upper()}_DATABASE_URL, or start 'svc up'"
        )
    password = settings.read_secrets(chosen.data_dir).passwords[role]
    return conninfo.make_conninfo(chosen.database_url, user=f"svc_{role}", password=password)


def login(chosen: Settings, role: str) -> str:
    """Return ``role_url`` with what keeps a vanished server from holding a request up."""
    return conninfo.make_conninfo(
        role_url(chosen, role),
        application_name=f"svc {role}",
        connect_timeout=2,
        # A peer that has vanished without a word is given up after this many milliseconds.
        tcp_user_timeout=3000,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
    )


def pool(chosen: Settings, role: str, *, size: int) -> Pool:
    """Return a pool of at most ``size`` autocommit connections of ``role``; the caller opens it.

    It opens even where the database is down, so that a server starts, answers 503 and recovers.
    """
    return AsyncConnectionPool(
        login(chosen, role),
        # Every statement is prepared at its first use. With psycopg's default of five uses first, an
        # error in the pipeline in which a statement would be prepared leaves the connection broken
        # (psycopg 3.3.9).
        kwargs={"autocommit": True, "prepare_threshold": 0 if chosen.prepare else None},
        min_size=1,
        max_size=size,
        timeout=WAIT_S,
        reconnect_timeout=5,
        open=False,
        name=f"svc {role}",
    )
