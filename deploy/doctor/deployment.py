"""The deployment that is examined from inside: its settings, and connections to its database.

The database is examined by the login of its owner (DATABASE_URL, or the embedded server). Where servers run
with the logins of their roles alone, catalogues are still readable, and what needs the owner is not examined.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from deploy.doctor.checks import CannotExamine
from shared import database, queries
from shared.settings import Settings

SQL: Final = queries.load(Path(__file__).with_name("doctor.sql"))
_NO_OWNER: Final = "Run the command with DATABASE_URL, the login with which 'svc migrate' runs."

Connection = psycopg.Connection[dict[str, Any]]


@dataclass(frozen=True)
class Deployment:
    """What is examined."""

    chosen: Settings

    @contextmanager
    def login(self, role: str) -> Iterator[Connection]:
        """A connection as a role of the servers. Raises psycopg.Error, SettingsError."""
        with closing(_connect(database.role_url(self.chosen, role))) as connection:
            yield connection

    @contextmanager
    def catalogue(self) -> Iterator[Connection]:
        """A connection that can read the catalogues. Raises CannotExamine."""
        url = self.chosen.database_url
        if url is None:
            url = next(iter(self.chosen.role_urls.values()), None)
        if url is None:
            raise CannotExamine(
                str(database.no_database(self.chosen)), "Start 'svc up', or set DATABASE_URL."
            )
        with _examining(url) as connection:
            yield connection

    @contextmanager
    def owner(self) -> Iterator[Connection]:
        """A connection with the rights of the tables' owner. Raises CannotExamine."""
        if self.chosen.database_url is None:
            raise CannotExamine("no login of the owner is set", _NO_OWNER)
        with _examining(self.chosen.database_url) as connection:
            connection.execute(SQL["become_owner"])
            yield connection


@contextmanager
def _examining(url: str) -> Iterator[Connection]:
    try:
        with closing(_connect(url)) as connection:
            yield connection
    except psycopg.Error as error:
        raise CannotExamine(
            f"the database cannot be examined: {one_line(error)}",
            "Correct the failures of 'database logins' and 'schema' first.",
        ) from error


def _connect(url: str) -> Connection:
    return psycopg.connect(url, connect_timeout=5, autocommit=True, row_factory=dict_row)


def one_line(error: psycopg.Error) -> str:
    """Return an error as one line."""
    return " ".join(str(error).split()) or type(error).__name__
