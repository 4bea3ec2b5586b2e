"""Spotify's listening history: the extended one of a lifetime, and the one of a year in the account data.

| | extended | account data |
|---|---|---|
| file | `Streaming_History_Audio_*.json`, `endsong_*.json` | `StreamingHistory_music_*.json` |
| time of a play | its end, to the second | its end, to the minute |
| track | name, artist of the album, album, address | name, artist |
| skipped | yes | no |

Both say when a play *ended*, so it began ``ms_played`` before. Where people bring both, a play has the same
key in both: the minute in which it ended, how long it lasted, and the name of the track. The first one that
comes stays, so the extended history is the one to bring first.

Episodes of podcasts and chapters of audiobooks are no music, and are counted without being kept. The address
of the network, the country and the device that the extended history names are not read.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.reading import instant_ms, items
from resourceserver.integrations.records import Listen, Record, Refused
from resourceserver.integrations.values import Flaw

SKIPPED_BELOW_MS: Final = 30_000
SKIPPING: Final = frozenset({None, "", "fwdbtn", "logout", "unknown"})
"""How a play ended (``reason_end``) if the person, not the track, ended it."""


def _each(file: File, read: Callable[[dict[str, Any]], Listen]) -> Iterator[Record | Refused]:
    for value in items(file, "item"):
        try:
            yield read(values.members(value))
        except Flaw as flaw:
            # Never the whole element: it has the address of the network.
            named = values.members(value) if isinstance(value, dict) else {}
            yield values.refused(flaw, {name: named[name] for name in _QUOTED if named.get(name)})


_QUOTED: Final = (
    *("ts", "master_metadata_track_name", "episode_name", "audiobook_title"),
    *("endTime", "trackName", "podcastName", "episodeName", "audiobookName"),
)
"""Members that examples of refused plays quote."""


def _read_extended(file: File, _person: Person) -> Iterator[Record | Refused]:
    return _each(file, _extended)


def _extended(given: dict[str, Any]) -> Listen:
    track = values.text(given.get("master_metadata_track_name"))
    if track is None:
        _refuse_speech(given, "episode_name", "audiobook_title")
    played_ms = _played_ms(given.get("ms_played"))
    skipped = given.get("skipped")
    return _listen(
        _end(given.get("ts")),
        track,
        values.text(given.get("master_metadata_album_artist_name")),
        played_ms,
        album=values.text(given.get("master_metadata_album_album_name")),
        is_skipped=played_ms < SKIPPED_BELOW_MS
        and (skipped is True or given.get("reason_end") in SKIPPING),
        spotify_uri=values.text(given.get("spotify_track_uri")),
    )


def _read_account_data(file: File, _person: Person) -> Iterator[Record | Refused]:
    return _each(file, _account_data)


def _account_data(given: dict[str, Any]) -> Listen:
    track = values.text(given.get("trackName"))
    if track is None:
        _refuse_speech(given, "podcastName", "audiobookName")
    return _listen(
        _end(given.get("endTime")),
        track,
        values.text(given.get("artistName")),
        _played_ms(given.get("msPlayed")),
    )


def _refuse_speech(given: dict[str, Any], episode: str, book: str) -> None:
    if given.get(episode):
        raise Flaw("episodes_are_not_kept")
    if given.get(book):
        raise Flaw("audiobooks_are_not_kept")


def _end(value: Any) -> datetime:
    # Both are in UTC; account data and the first extended histories do not say so.
    written = values.wall_time(value)
    return values.utc(written if written.tzinfo else written.replace(tzinfo=UTC))


def _played_ms(value: Any) -> int:
    played_ms = values.count(value)
    if played_ms is None:
        raise Flaw("missing_duration")
    return played_ms


def _listen(
    ended_at: datetime, track: str | None, artist: str | None, played_ms: int, **more: Any
) -> Listen:
    if track is None:
        raise Flaw("missing_track")
    if artist is None:
        raise Flaw("missing_artist")
    minute = instant_ms(ended_at) // 60_000
    return Listen(
        key=values.key(minute, played_ms, track),
        listened_at=values.later(ended_at, milliseconds=-played_ms),
        track=track,
        artist=artist,
        played_ms=played_ms,
        **more,
    )


def _with_members(*names: str) -> Callable[[Head], float]:
    """Return a recogniser of arrays of objects that have all of these members."""

    def recognise(head: Head) -> float:
        text = head.text
        is_array = re.match(r"\s*\[\s*\{", text)
        return 1.0 if is_array and all(f'"{name}"' in text for name in names) else 0.0

    return recognise


EXTENDED: Final = Format(
    name="spotify_extended",
    title="Spotify, extended streaming history",
    source="spotify",
    records=(Listen,),
    recognise=_with_members("ts", "ms_played"),
    read=_read_extended,
)
ACCOUNT_DATA: Final = Format(
    name="spotify_account_data",
    title="Spotify, account data",
    source="spotify",
    records=(Listen,),
    recognise=_with_members("endTime", "msPlayed"),
    read=_read_account_data,
)
