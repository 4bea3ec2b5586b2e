"""Noon of today in a zone in which it is past noon, so that today always has hours before and after it."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo


def midday() -> datetime:
    """Return noon of the present day in a zone in which it is between noon and 13:00, or has just been."""
    now = datetime.now(UTC)
    # In these names, what is east of Greenwich has a minus.
    zone = ZoneInfo(f"Etc/GMT{now.hour - 12:+}")
    return now.astimezone(zone).replace(hour=12, minute=0, second=0, microsecond=0)
