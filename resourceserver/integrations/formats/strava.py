"""The list of activities in Strava's bulk export; the activities themselves are GPX, FIT and TCX files.

The names of the columns are those of an English account. Two columns are there twice, first as Strava shows
them, then in metres and seconds; the reader of tables keeps the latter.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.records import Record, Refused, Sample, Sensor
from resourceserver.integrations.values import Flaw

_HEADER: Final = "Activity ID,Activity Date,"
_SENSOR: Final = Sensor("Strava")
_DATES: Final = ("%b %d, %Y, %I:%M:%S %p", "%d %b %Y, %H:%M:%S", "%Y-%m-%d %H:%M:%S")
_WITH_TOTALS: Final = (".fit", ".fit.gz", ".tcx", ".tcx.gz")


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    return reading.table_records(file, _totals)


def _totals(row: dict[str, str]) -> list[Sample]:
    if row.get("Filename", "").lower().endswith(_WITH_TOTALS):
        # The file begins its totals at its own second, so they would count twice.
        raise Flaw("totals_are_in_its_own_file")
    started_at = _instant(row.get("Activity Date", ""))
    elapsed_s = values.number(row.get("Elapsed Time"))
    if elapsed_s is None:
        raise Flaw("missing_duration")
    return tracks.totals(
        started_at,
        values.later(started_at, seconds=elapsed_s),
        _SENSOR,
        distance_m=values.number(row.get("Distance")),
        energy_kcal=values.number(row.get("Calories")),
        exercise_s=values.number(row.get("Moving Time") or row.get("Elapsed Time")),
    )


def _instant(written: str) -> datetime:
    for pattern in _DATES:
        with suppress(ValueError):
            return datetime.strptime(written, pattern).replace(tzinfo=UTC)
    raise Flaw("invalid_time" if written else "missing_time")


def _recognise(head: Head) -> float:
    return 1.0 if head.text.startswith(_HEADER) else 0.0


ACTIVITIES: Final = Format(
    name="strava_activities",
    title="Strava, bulk export: activities.csv",
    source=tracks.SOURCE,
    records=(Sample,),
    recognise=_recognise,
    read=_read,
)
