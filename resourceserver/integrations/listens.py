"""Listens as services that count them write them down: a time, a track and an artist."""

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

    Formats of one service that know the time to the second and to the minute share the precision of a
    minute. Raises Flaw where the track or the artist has no name.
    """
    track, artist = values.text(track), values.text(artist)
    if track is None:
        raise Flaw("missing_track")
    if artist is None:
        raise Flaw("missing_artist")
    at = instant_ms(listened_at) // (1000 * precision_s)
    return Listen(values.key(at, artist, track), listened_at, track, artist, **more)


def mbid(value: Any) -> str | None:
    """Return an id of MusicBrainz; None if it is none."""
    written = values.text(value)
    return written.lower() if written and _MBID.fullmatch(written) else None


def milliseconds(value: Any, per_unit: int = 1) -> int | None:
    """Return a duration in milliseconds; None for 0, which stands for an unknown one."""
    number = values.number(value)
    # What is longer than any track has another unit, or none.
    return round(number * per_unit) if number is not None and 0 < number < 1e9 else None
