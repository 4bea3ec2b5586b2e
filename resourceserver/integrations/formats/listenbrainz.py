"""ListenBrainz: the zip with a line for each listen, a file a month, and the array of before 2024."""

import re
from collections.abc import Iterator
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.listens import listen, mbid, milliseconds
from resourceserver.integrations.reading import items, json_lines
from resourceserver.integrations.records import Listen, Record, Refused
from resourceserver.integrations.values import Flaw

_SPOTIFY: Final = re.compile(r"(?:spotify:track:|https?://open\.spotify\.com/track/)(\w+)")


def _read_lines(file: File, _person: Person) -> Iterator[Record | Refused]:
    return _each(json_lines(file))


def _read_array(file: File, _person: Person) -> Iterator[Record | Refused]:
    return _each(items(file, "item"))


def _each(given: Iterator[Any]) -> Iterator[Record | Refused]:
    for value in given:
        if isinstance(value, Refused):
            yield value
            continue
        try:
            yield listen_of(value)
        except Flaw as flaw:
            yield values.refused(flaw, value)


def listen_of(value: Any) -> Listen:
    """Return the listen of one of ListenBrainz's objects, as files and applications send it. Raises Flaw."""
    given = values.members(value)
    track = values.members(given.get("track_metadata"))
    info, mapping = _member(track, "additional_info"), _member(track, "mbid_mapping")
    names = info.get("artist_names")
    spotify = _SPOTIFY.match(values.text(info.get("spotify_id")) or "") or _SPOTIFY.match(
        values.text(info.get("origin_url")) or ""
    )
    return listen(
        values.epoch(given.get("listened_at")),
        track.get("track_name"),
        track.get("artist_name"),
        artists=tuple(filter(None, map(values.text, names if isinstance(names, list) else []))),
        album=values.text(track.get("release_name")),
        duration_ms=milliseconds(info.get("duration_ms"))
        or milliseconds(info.get("duration"), 1000),
        played_ms=milliseconds(info.get("duration_played"), 1000),
        spotify_uri=f"spotify:track:{spotify.group(1)}" if spotify else None,
        isrc=values.text(info.get("isrc")),
        recording_mbid=mbid(mapping.get("recording_mbid")) or mbid(info.get("recording_mbid")),
    )


def _member(given: dict[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name)
    return value if isinstance(value, dict) else {}


def _is_lines(head: Head) -> float:
    line = head.text.lstrip().partition("\n")[0]
    return 1.0 if line[:1] == "{" and _has_names(line) else 0.0


def _is_array(head: Head) -> float:
    return 1.0 if re.match(r"\s*\[\s*\{", head.text) and _has_names(head.text) else 0.0


def _has_names(text: str) -> bool:
    return '"listened_at"' in text and '"track_metadata"' in text


LINES: Final = Format(
    name="listenbrainz",
    title="ListenBrainz export",
    source="listenbrainz",
    records=(Listen,),
    recognise=_is_lines,
    read=_read_lines,
)
ARRAY: Final = Format(
    name="listenbrainz_array",
    title="ListenBrainz export of before 2024",
    source="listenbrainz",
    records=(Listen,),
    recognise=_is_array,
    read=_read_array,
)
