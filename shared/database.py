"""Logins: where each role connects, so that it notices within seconds when the database is gone."""

from psycopg import conninfo

from shared import settings
from shared.settings import Settings, SettingsError

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
