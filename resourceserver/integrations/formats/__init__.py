"""The formats of files that people can bring: one module each, which holds one or more declarations.

Reading is pure: bytes in, records out. Nothing in this room knows of a database.
"""

from typing import Final

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import wakatime

FORMATS: Final[tuple[Format, ...]] = (
    wakatime.HEARTBEATS,
    wakatime.DAILY_TOTALS,
)
"""All formats, the most widely used first."""
