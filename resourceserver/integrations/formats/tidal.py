"""TIDAL's streaming history: `streaming.csv` of the copy of a person's data.

| column | |
|---|---|
| `artist_name`, `track_title` | the track |
| `entry_date` | the local time of the play: `08/02/2011 23:50`, the day first |
| `time_zone` | the zone of this time, such as `Europe/Berlin`; empty or `null`: UTC |

Other columns are not read. The columns and their times are those that ListenBrainz's importer reads; no file
from TIDAL has been seen. Times in ISO 8601 are read too, since no day of theirs can be taken for a month.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.listens import listen
from resourceserver.integrations.reading import table_records
from resourceserver.integrations.records import Listen, Record, Refused
from resourceserver.integrations.values import Flaw

PRECISION_S: Final = 60
_COLUMNS: Final = {"artist_name", "track_title", "entry_date"}
_TIME: Final = re.compile(r"(\d\d?)/(\d\d?)/(\d{4}) (\d\d?):(\d\d)(?::(\d\d))?", re.ASCII)


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    def records(row: dict[str, str]) -> Iterator[Listen]:
        yield listen(
            _instant(row.get("entry_date", ""), row.get("time_zone", "")),
            row.get("track_title"),
            row.get("artist_name"),
            precision_s=PRECISION_S,
        )

    return table_records(file, records)


def _instant(written: str, zone_name: str) -> datetime:
    found = _TIME.fullmatch(written)
    if found is not None:
        day, month, year, hour, minute, second = found.groups("00")
        written = f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute}:{second}"
    local = values.wall_time(written)
    return values.utc(local if local.tzinfo else local.replace(tzinfo=_zone(zone_name)))


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    if name.lower() in {"", "null"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        # A time in another zone would be hours off, and have another key than in a corrected file.
        raise Flaw("unknown_zone") from error


def _recognise(head: Head) -> float:
    columns = {column.strip('" ') for column in head.text.partition("\n")[0].strip().split(",")}
    return 1.0 if columns >= _COLUMNS else 0.0


TIDAL: Final = Format(
    name="tidal",
    title="TIDAL, streaming history",
    source="tidal",
    records=(Listen,),
    recognise=_recognise,
    read=_read,
)
