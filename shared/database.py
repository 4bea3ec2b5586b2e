"""Connections: where each role logs in, and pools that notice within seconds when the database is gone."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg import AsyncConnection, OperationalError, conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from shared import settings
from shared.settings import Settings, SettingsError

Answer = TypeVar("Answer")
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


def pool(chosen: Settings, role: str, *, size: int) -> Pool:
    """Return a pool of at most ``size`` autocommit connections of ``role``; the caller opens it.

    It opens even where the database is down, so that a server starts, answers 503 and recovers.
    """
    return AsyncConnectionPool(
        conninfo.make_conninfo(
            role_url(chosen, role),
            application_name=f"svc {role}",
            connect_timeout=2,
            # A peer that has vanished without a word is given up after this many milliseconds.
            tcp_user_timeout=3000,
        ),
        # Every statement is prepared at its first use. With psycopg's default of five uses first, an
        # error in the pipeline in which a statement would be prepared leaves the connection broken
        # (psycopg 3.3.9); see tests/sql/test_pipeline.py.
        kwargs={"autocommit": True, "prepare_threshold": 0 if chosen.prepare else None},
        min_size=1,
        max_size=size,
        timeout=WAIT_S,
        reconnect_timeout=5,
        open=False,
        name=f"svc {role}",
    )


async def revive(pool: Pool, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return what ``ask`` answers, asking again where its connection turns out to have died before.

    After a restart of the database a pool is full of dead connections; the first to notice sorts them
    all out. For questions only: what ``ask`` does may be done twice.
    """
    try:
        return await ask()
    except OperationalError as error:
        # A connection that broke has no SQLSTATE, or one that says the server is going away.
        if isinstance(error, PoolTimeout) or not (error.sqlstate or "57P").startswith("57P"):
            raise
        await pool.check()
        return await ask()
