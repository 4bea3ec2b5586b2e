"""The time zones that people choose from: those in which both the database and we can form days.

The database forms the days of answers, and we show instants on pages. It reads its zones from files each
time it is asked, so a process asks it once; zones that are new are known after the next start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zoneinfo import available_timezones

from authserver import rows
from authserver.rows import Database

SQL: Final = rows.load("people/account.sql")


@dataclass(frozen=True)
class _Zone:
    name: str


@dataclass
class Zones:
    """What there is to choose from, as the database first said it."""

    database: Database
    _known: Mapping[str, str] | None = None

    async def known(self) -> Mapping[str, str]:
        """Return the names of the zones, in order, by what may be typed for them. Raises psycopg.Error."""
        if self._known is None:
            # Nothing is kept but an answer. Several who ask at first get equal ones.
            found = await rows.every(self.database, _Zone, SQL["zones"], {})
            here = available_timezones()
            self._known = {folded(zone.name): zone.name for zone in found if zone.name in here}
        return self._known


def folded(name: str) -> str:
    """Return a zone's name so that letter case and spaces make no difference."""
    return "_".join(name.lower().split())
