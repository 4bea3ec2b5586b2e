"""Listens from services that record them as a time, a track and an artist."""

import re
from datetime import datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import Listen
from resourceserver.integrations.values import Flaw

_MBID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def listen(
    listened_at: datetime, track: Any, artist: Any, *, precision_s: int = 1, **more: Any
) -> Listen:
    """Return a listen whose key is its time, rounded down to a precision, its artist and its track.

    If a service has formats with times to the second and to the minute, all of them use the precision of a
    minute, so that their keys are the same. Raises Flaw if the name of the track or artist is missing.
    """
    track, artist = values.text(track), values.text(artist)
    if track is None:
        raise Flaw("missing_track")
    if artist is None:
        raise Flaw("missing_artist")
    at = instant_ms(listened_at) // (1000 * precision_s)
    return Listen(values.key(at, artist, track), listened_at, track, artist, **more)


def mbid(value: Any) -> str | None:
    """Return a MusicBrainz id, or None if ``value`` is not one."""
    written = values.text(value)
    return written.lower() if written and _MBID.fullmatch(written) else None


def milliseconds(value: Any, per_unit: int = 1) -> int | None:
    """Return a duration in milliseconds; None for 0, which means unknown."""
    number = values.number(value)
    # A number that is longer than any track has an unexpected unit.
    return round(number * per_unit) if number is not None and 0 < number < 1e9 else None
