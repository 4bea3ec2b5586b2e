"""Last.fm's scrobbles, which people get through other programs: it exports none itself.

| file | program |
|---|---|
| `user.csv`: artist, album, track, `08 Feb 2011 22:50`, no header | benjaminbenben's "Last.fm to CSV" |
| `recenttracks-user-1650000000.csv` and `.json` | ghan's "Last.fm data export" |
| pages of `user.getRecentTracks` | Last.fm's interface |

The first knows times to the minute, so all share keys of minutes.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.listens import listen, mbid
from resourceserver.integrations.reading import cells, elements, table
from resourceserver.integrations.records import Listen, Record, Refused
from resourceserver.integrations.values import Flaw

SOURCE: Final = "lastfm"
PRECISION_S: Final = 60
_MONTHS: Final = {
    name: f"{number:02}"
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
"""Not those of strptime, which are of the locale of the server."""
_TIME: Final = re.compile(r"(\d{1,2}) (\w{3}) (\d{4}),? (\d\d:\d\d)")

Records = Iterator[Record | Refused]


def _read_csv(file: File, _person: Person) -> Records:
    for row in cells(file):
        try:
            if len(row) < 4:
                raise Flaw("too_few_columns")
            artist, album, track, time = row[:4]
            yield listen(_minute(time), track, artist, precision_s=PRECISION_S, album=album or None)
        except Flaw as flaw:
            yield values.refused(flaw, ",".join(row))


def _minute(written: str) -> datetime:
    found = _TIME.fullmatch(written)
    if found is None:
        raise Flaw("invalid_time" if written else "missing_time")
    day, month, year, time = found.groups()
    number = _MONTHS.get(month.lower())
    return values.wall_time(f"{year}-{number}-{int(day):02}T{time}").replace(tzinfo=UTC)


def _read_table(file: File, _person: Person) -> Records:
    for row in table(file):
        try:
            yield listen(
                values.epoch(row.get("uts")),
                row.get("track"),
                row.get("artist"),
                precision_s=PRECISION_S,
                album=row.get("album") or None,
                recording_mbid=mbid(row.get("track_mbid")),
            )
        except Flaw as flaw:
            yield values.refused(flaw, ",".join(row.values()))


def _read_pages(file: File, _person: Person) -> Records:
    paths = ("item.track.item", "item.recenttracks.track.item", "recenttracks.track.item")
    for _, value in elements(file, *paths):
        try:
            if not is_playing(value):
                yield listen_of(value)
        except Flaw as flaw:
            yield values.refused(flaw, value)


def is_playing(value: Any) -> bool:
    """Return whether a track of the interface is playing now, so that it has no time yet."""
    return isinstance(value, dict) and "date" not in value and "@attr" in value


def listen_of(value: Any) -> Listen:
    """Return the listen of a track of the interface. Raises Flaw."""
    track = values.members(value)
    date = track.get("date")
    return listen(
        values.epoch(date.get("uts") if isinstance(date, dict) else None),
        track.get("name"),
        _name(track.get("artist")),
        precision_s=PRECISION_S,
        album=_name(track.get("album")),
        recording_mbid=mbid(track.get("mbid")),
    )


def _name(value: Any) -> str | None:
    """Return the name of an artist or album, which is in one member or another."""
    if isinstance(value, dict):
        value = value.get("#text") or value.get("name")
    return values.text(value)


def _is_csv(head: Head) -> float:
    line = head.text.partition("\n")[0].strip()
    return 1.0 if re.search(r',"?\d{1,2} \w{3} \d{4},? \d\d:\d\d"?$', line) else 0.0


def _is_table(head: Head) -> float:
    columns = {column.strip('"') for column in head.text.partition("\n")[0].strip().split(",")}
    return 1.0 if {"uts", "artist", "track"} <= columns else 0.0


def _is_pages(head: Head) -> float:
    text = head.text
    if not re.match(r'\s*(\[\s*)?\{\s*("recenttracks"\s*:\s*\{\s*)?"(track|@attr)"', text):
        return 0.0
    return 1.0 if '"uts"' in text and '"#text"' in text else 0.0


CSV: Final = Format(
    name="lastfm_csv",
    title="Last.fm to CSV",
    source=SOURCE,
    records=(Listen,),
    recognise=_is_csv,
    read=_read_csv,
)
TABLE: Final = Format(
    name="lastfm_table",
    title="Last.fm data export, CSV",
    source=SOURCE,
    records=(Listen,),
    recognise=_is_table,
    read=_read_table,
)
PAGES: Final = Format(
    name="lastfm_pages",
    title="Last.fm data export, JSON",
    source=SOURCE,
    records=(Listen,),
    recognise=_is_pages,
    read=_read_pages,
)
