"""Time zones of positions on Earth, and the offsets of local time in them."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import tzfpy


def zone(latitude: float, longitude: float) -> str | None:
    """Return the IANA name of the time zone at a position, such as Europe/Berlin, or Etc/GMT-1 at sea.

    The library has simplified borders: within some hundred metres of one, the zone may be the neighbour's.
    """
    return tzfpy.get_tz(longitude, latitude) or None


def offset(name: str, at: datetime) -> str:
    """Return how far local time in a zone is ahead of UTC at an instant, such as ``+02:00``."""
    minutes = (at.astimezone(ZoneInfo(name)).utcoffset() or timedelta()) // timedelta(minutes=1)
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"
