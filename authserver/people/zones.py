"""The time zones that people can choose: those that both the database and Python know.

The database computes the days of answers, and Python formats instants on pages. Listing the zones makes
Postgres read many files, so a process queries them once; new zones are available after a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zoneinfo import available_timezones

from authserver import rows
from authserver.rows import Database

SQL: Final = rows.load("people/account.sql")

DEFAULT: Final = "UTC"
"""Where the days of a new account begin if its person chose no zone."""


@dataclass(frozen=True)
class _Zone:
    name: str


@dataclass
class Zones:
    """The zones of the database, read at the first use."""

    database: Database
    _known: Mapping[str, str] | None = None

    async def known(self) -> Mapping[str, str]:
        """Return the names of the zones, in order, by their folded names. Raises psycopg.Error."""
        if self._known is None:
            # An error is not cached. Concurrent first calls each run the query and get equal results.
            found = await rows.every(self.database, _Zone, SQL["zones"], {})
            here = available_timezones()
            self._known = {folded(zone.name): zone.name for zone in found if zone.name in here}
        return self._known


def folded(name: str) -> str:
    """Return a zone's name in lower case with underscores for spaces, for lookups."""
    return "_".join(name.lower().split())
