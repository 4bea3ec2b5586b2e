"""Exports of servers and players that count listens: Maloja, Koito, Libre.fm, Pano Scrobbler and Rockbox."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.listens import listen, mbid, milliseconds
from resourceserver.integrations.reading import cells, items, json_lines, table
from resourceserver.integrations.records import Listen, Record, Refused
from resourceserver.integrations.values import Flaw

Records = Iterator[Record | Refused]


def _each(given: Iterator[Any], read: Callable[[Any], Listen | None]) -> Records:
    for value in given:
        if isinstance(value, Refused):
            yield value
            continue
        try:
            record = read(value)
            if record is not None:
                yield record
        except Flaw as flaw:
            quoted = "\t".join(value) if isinstance(value, list) else value
            yield values.refused(flaw, quoted)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# Maloja


def _read_maloja(file: File, _person: Person) -> Records:
    return _each(items(file, "scrobbles.item"), _maloja)


def _maloja(value: Any) -> Listen:
    given = values.members(value)
    track = values.members(given.get("track"))
    artists = tuple(filter(None, map(values.text, _list(track.get("artists")))))
    album = track.get("album")
    title = album.get("albumtitle") if isinstance(album, dict) else album
    return listen(
        values.epoch(given.get("time")),
        track.get("title"),
        ", ".join(artists),
        artists=artists,
        album=values.text(title),
        duration_ms=milliseconds(track.get("length"), 1000),
        played_ms=milliseconds(given.get("duration"), 1000),
    )


# Koito


def _read_koito(file: File, _person: Person) -> Records:
    return _each(items(file, "listens.item"), _koito)


def _koito(value: Any) -> Listen:
    given = values.members(value)
    track = values.members(given.get("track"))
    artists = tuple(filter(None, map(_primary_name, _list(given.get("artists")))))
    return listen(
        values.instant(given.get("listened_at")),
        _primary_name(track),
        ", ".join(artists),
        artists=artists,
        album=_primary_name(given.get("album")),
        duration_ms=milliseconds(track.get("duration"), 1000),
        recording_mbid=mbid(track.get("mbid")),
    )


def _primary_name(value: Any) -> str | None:
    """Return the name by which Koito shows an artist, album or track that has several."""
    aliases = _list(value.get("aliases")) if isinstance(value, dict) else []
    named = [each for each in aliases if isinstance(each, dict)]
    primary = [each for each in named if each.get("is_primary") is True]
    return next((values.text(each.get("alias")) for each in primary + named), None)


# Libre.fm


_COLUMNS: Final = {
    "time": ("timestamp", "time", "date", "uts", "unixtime"),
    "artist": ("artist", "artist name"),
    "track": ("track", "title", "name", "track name"),
    "album": ("album", "album name"),
    "mbid": ("mbid", "track mbid", "trackmbid"),
}
"""Names of columns that are met, in lower case."""


def _columns(header: list[str]) -> dict[str, str]:
    """Return the column of each part of a listen, as the header writes it."""
    known = {column.strip('" ').lower(): column for column in header}
    return {
        part: known[name]
        for part, names in _COLUMNS.items()
        for name in reversed(names)
        if name in known
    }


def _read_librefm_csv(file: File, _person: Person) -> Records:
    def read(row: dict[str, str]) -> Listen:
        columns = _columns(list(row))
        given = {part: row[column] for part, column in columns.items()}
        return listen(
            _time(given.get("time")),
            given.get("track"),
            given.get("artist"),
            album=given.get("album") or None,
            recording_mbid=mbid(given.get("mbid")),
        )

    return _each(table(file), read)


def _time(written: str | None) -> datetime:
    """Return the instant of seconds since 1970, or of a time in UTC."""
    if values.number(written) is not None:
        return values.epoch(written)
    parsed = values.wall_time(written)
    return values.utc(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def _read_librefm_tsv(file: File, _person: Person) -> Records:
    def read(row: list[str]) -> Listen:
        if len(row) < 3:
            raise Flaw("too_few_columns")
        time, track, artist, album, track_mbid = (row + [""] * 2)[:5]
        return listen(
            values.epoch(time),
            track,
            artist,
            album=album or None,
            recording_mbid=mbid(track_mbid),
        )

    return _each(cells(file, "\t"), read)


# Pano Scrobbler


def _read_pano(file: File, _person: Person) -> Records:
    return _each(json_lines(file), _pano)


def _pano(value: Any) -> Listen | None:
    given = values.members(value)
    if given.get("event", "scrobble") != "scrobble":
        # The others say that a person loves a track.
        return None
    return listen(
        values.epoch(given.get("timeMs"), per_second=1000),
        given.get("track"),
        given.get("artist"),
        album=values.text(given.get("album")),
        duration_ms=milliseconds(given.get("durationMs")),
    )


# Rockbox and other players


def _read_rockbox(file: File, person: Person) -> Records:
    zone: Any = person.zone

    def read(row: list[str]) -> Listen | None:
        nonlocal zone
        if row[0].startswith("#"):
            if row[0].upper() == "#TZ/UTC":
                zone = UTC
            return None
        if len(row) < 7:
            raise Flaw("too_few_columns")
        artist, album, track, _, length, rating, time = row[:7]
        # A player that knows no zone counts seconds of its own clock.
        local = values.epoch(time).replace(tzinfo=zone)
        return listen(
            values.utc(local),
            track,
            artist,
            album=album or None,
            duration_ms=milliseconds(length, 1000),
            is_skipped=rating == "S",
            recording_mbid=mbid(row[7]) if len(row) > 7 else None,
        )

    return _each(cells(file, "\t"), read)


# How they are recognised


def _with_object(*patterns: str) -> Callable[[Head], float]:
    """Return a recogniser of an object in which all patterns are found."""

    def recognise(head: Head) -> float:
        text = head.text
        is_object = text.lstrip()[:1] == "{"
        return 1.0 if is_object and all(re.search(each, text) for each in patterns) else 0.0

    return recognise


def _is_librefm_csv(head: Head) -> float:
    columns = _columns(head.text.partition("\n")[0].strip().split(","))
    return 0.6 if {"time", "artist", "track"} <= columns.keys() else 0.0


def _is_librefm_tsv(head: Head) -> float:
    return 0.9 if re.match(r"\d{9,10}\t[^\t\n]+\t[^\t\n]+(\t|\r?\n)", head.text) else 0.0


MALOJA: Final = Format(
    name="maloja",
    title="Maloja export",
    source="maloja",
    records=(Listen,),
    recognise=_with_object(r'"maloja"\s*:\s*\{', r'"scrobbles"\s*:\s*\['),
    read=_read_maloja,
)
KOITO: Final = Format(
    name="koito",
    title="Koito export",
    source="koito",
    records=(Listen,),
    recognise=_with_object(r'"listens"\s*:\s*\[', r'"listened_at"', r'"aliases"'),
    read=_read_koito,
)
LIBREFM_CSV: Final = Format(
    name="librefm_csv",
    title="Libre.fm export, or another table of listens",
    source="librefm",
    records=(Listen,),
    recognise=_is_librefm_csv,
    read=_read_librefm_csv,
)
LIBREFM_TSV: Final = Format(
    name="librefm_tsv",
    title="Libre.fm export, as lastexport writes it",
    source="librefm",
    records=(Listen,),
    recognise=_is_librefm_tsv,
    read=_read_librefm_tsv,
)
PANO: Final = Format(
    name="pano_scrobbler",
    title="Pano Scrobbler log",
    source="pano_scrobbler",
    records=(Listen,),
    recognise=_with_object(r'"timeMs"\s*:\s*\d', r'"track"\s*:', r'"artist"\s*:'),
    read=_read_pano,
)
ROCKBOX: Final = Format(
    name="rockbox",
    title="Scrobbler log of Rockbox and other players",
    source="rockbox",
    records=(Listen,),
    recognise=lambda head: 1.0 if head.text.startswith("#AUDIOSCROBBLER/") else 0.0,
    read=_read_rockbox,
)
