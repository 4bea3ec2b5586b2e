"""Fitbit's export, from fitbit.com or from Google Takeout.

| file | what it holds |
|---|---|
| `Global Export Data/steps-2023-01-01.json` and the like | what was measured, once a minute or more often |
| `Global Export Data/sleep-2023-01-01.json` | sleeps, with the time in each stage |
| `Global Export Data/weight-2023-01-01.json` | weights, in pounds whatever the profile says |
| `Physical Activity_GoogleData/steps_2024-01-01.csv` and the like | the same as the first, with its device |

Times of what was measured are in UTC, those of sleeps and weights are local, with no zone named; they are
taken as local in the zone of the profile. A file of measures does not say what it measures: its name does.
A resting heart rate belongs to a local day, so it is at noon of that day in the zone of the profile, whatever
zone its midnight names; its key is the midnight of that day in UTC, so it does not depend on the profile.

The files of JSON and CSV share keys where they hold the same. Energy is left out, because it is that of
activity and of rest together.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.reading import instant_ms, items, table
from resourceserver.integrations.records import (
    HeartRate,
    Record,
    Refused,
    Sample,
    Sensor,
    Sleep,
)
from resourceserver.integrations.values import Flaw

SOURCE: Final = "fitbit"
POUND_KG: Final = 0.45359237
_FITBIT: Final = Sensor("Fitbit", kind="watch")
_MINUTE: Final = timedelta(minutes=1)
_MEASURES: Final = {"steps": ("steps", 1.0), "distance": ("distance_m", 0.01)}
"""The metric of each file of numbers by the first word of its name, and the factor to its unit."""
_COLUMNS: Final = {
    "steps": ("steps", 1.0),
    "distance": ("distance_m", 1.0),
    "floors": ("floors", 1.0),
    "weight grams": ("weight_kg", 0.001),
    "body fat percentage": ("body_fat_percent", 1.0),
    "average percentage": ("blood_oxygen_percent", 1.0),
    "oxygen saturation percentage": ("blood_oxygen_percent", 1.0),
    "breaths per minute": ("respiratory_rate_bpm", 1.0),
    "average heart rate variability milliseconds": ("hrv_rmssd_ms", 1.0),
    "root mean square of successive differences milliseconds": ("hrv_rmssd_ms", 1.0),
}
"""The metric of each column of the tables, and the factor to its unit."""
_BEATS: Final = "beats per minute"

Records = Iterator[Record | Refused]


def _word(file: File) -> str:
    """Return what a file measures, by its name: ``steps`` of ``steps-2023-01-01.json``."""
    name = file.name.rpartition("/")[2].lower()
    return re.split(r"[-_ .]*\d{4}-\d{2}-\d{2}|\.", name, maxsplit=1)[0]


def _sample(
    metric: str, at: datetime, value: float, sensor: Sensor, *, lasts: timedelta = timedelta(0)
) -> Sample:
    return Sample(f"{metric}:{instant_ms(at)}", metric, at, at + lasts, value, sensor)


def _heart_rate(at: datetime, bpm: float, sensor: Sensor) -> HeartRate:
    return HeartRate(str(instant_ms(at)), at, round(bpm), sensor)


# Measures in JSON


def _read_measures(file: File, person: Person) -> Records:
    word = _word(file)
    for value in items(file, "item"):
        try:
            record = _measure(values.members(value), word, person)
            if record is not None:
                yield record
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _measure(given: dict[str, Any], word: str, person: Person) -> Record | None:
    at = _american(given.get("dateTime")).replace(tzinfo=UTC)
    value = given.get("value")
    if isinstance(value, dict):
        if "bpm" in value:
            return _heart_rate(at, _number(value["bpm"]), _FITBIT)
        if word != "resting_heart_rate":
            raise Flaw("quantity_is_not_kept")
        resting = _number(value.get("value"))
        # 0 stands for a day without a measurement.
        return _resting_heart_rate(at.date(), resting, _FITBIT, person) if resting else None
    if word not in _MEASURES:
        raise Flaw("quantity_is_not_kept")
    metric, factor = _MEASURES[word]
    return _sample(metric, at, round(_number(value) * factor, 9), _FITBIT, lasts=_MINUTE)


def _resting_heart_rate(day: date, bpm: float, sensor: Sensor, person: Person) -> Sample:
    noon = values.utc(datetime.combine(day, time(12), person.zone))
    keyed = _sample("resting_heart_rate_bpm", datetime.combine(day, time(), UTC), bpm, sensor)
    return keyed._replace(started_at=noon, ended_at=noon)


def _american(value: Any) -> datetime:
    """Return a time such as ``12/31/23 08:00:00``, which has no zone."""
    written = values.text(value)
    if written is None:
        raise Flaw("missing_time")
    # Ten times as fast as strptime, in files with a heart rate every five seconds.
    month, day, year, clock = written[:2], written[3:5], written[6:8], written[9:]
    return values.wall_time(f"20{year}-{month}-{day}T{clock}")


def _number(value: Any) -> float:
    number = values.number(value)
    if number is None:
        raise Flaw("value_is_no_number")
    return number


# Sleeps


def _read_sleeps(file: File, person: Person) -> Records:
    for value in items(file, "item"):
        try:
            yield _sleep(values.members(value), person)
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _sleep(given: dict[str, Any], person: Person) -> Sleep:
    log_id = values.count(given.get("logId"))
    asleep_ms, in_bed_ms = _minutes(given, "minutesAsleep"), _minutes(given, "timeInBed")
    if log_id is None:
        raise Flaw("missing_id")
    if asleep_ms is None or in_bed_ms is None:
        raise Flaw("missing_duration")
    levels = given.get("levels")
    summary = levels.get("summary") if isinstance(levels, dict) else None
    stages = summary if isinstance(summary, dict) and given.get("type") == "stages" else {}
    wake = stages.get("wake")
    return Sleep(
        key=values.key(log_id),
        started_at=values.instant_in(given.get("startTime"), person.zone),
        ended_at=values.instant_in(given.get("endTime"), person.zone),
        sensor=_FITBIT,
        in_bed_ms=in_bed_ms,
        asleep_ms=asleep_ms,
        is_nap=given.get("mainSleep") is False,
        awake_ms=_minutes(given, "minutesAwake"),
        light_ms=_stage(stages, "light"),
        deep_ms=_stage(stages, "deep"),
        rem_ms=_stage(stages, "rem"),
        latency_ms=_minutes(given, "minutesToFallAsleep"),
        disturbance_count=values.count(wake.get("count")) if isinstance(wake, dict) else None,
        efficiency_percent=values.number(given.get("efficiency")),
    )


def _minutes(given: dict[str, Any], name: str) -> int | None:
    minutes = values.number(given.get(name))
    return round(minutes * 60_000) if minutes is not None and 0 <= minutes < 1e6 else None


def _stage(stages: dict[str, Any], name: str) -> int | None:
    stage = stages.get(name)
    return _minutes(stage, "minutes") if isinstance(stage, dict) else None


# Weights


def _read_weights(file: File, person: Person) -> Records:
    for value in items(file, "item"):
        try:
            yield from _weight(values.members(value), person)
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _weight(given: dict[str, Any], person: Person) -> Iterator[Sample]:
    local = _american(f"{given.get('date')} {given.get('time') or '00:00:00'}")
    at = values.utc(local.replace(tzinfo=person.zone))
    pounds = _number(given.get("weight"))
    scale = Sensor(values.text(given.get("source")) or "Fitbit")
    yield _sample("weight_kg", at, round(pounds * POUND_KG, 9), scale)
    for name, metric in (("bmi", "body_mass_index"), ("fat", "body_fat_percent")):
        value = values.number(given.get(name))
        if value:
            yield _sample(metric, at, value, scale)


# Tables of Google Health


def _read_table(file: File, person: Person) -> Records:
    is_resting = "resting" in _word(file)
    for row in table(file):
        try:
            yield _row(row, is_resting, person)
        except Flaw as flaw:
            yield values.refused(flaw, ",".join(row.values()))


def _row(row: dict[str, str], is_resting: bool, person: Person) -> Record:
    # Some rows of whole days have no zone.
    at = values.instant_in(row.get("timestamp"), person.zone)
    name = row.get("data source")
    sensor = Sensor(name) if name else _FITBIT
    if _BEATS in row:
        bpm = _number(row[_BEATS])
        if is_resting:
            day = values.wall_time(row.get("timestamp")).date()
            return _resting_heart_rate(day, bpm, sensor, person)
        return _heart_rate(at, bpm, sensor)
    for column, (metric, factor) in _COLUMNS.items():
        if column in row:
            value = round(_number(row[column]) * factor, 9)
            lasts = _MINUTE if metric == "steps" else timedelta(0)
            return _sample(metric, at, value, sensor, lasts=lasts)
    raise Flaw("quantity_is_not_kept")


# How they are recognised


def _is_measures(head: Head) -> float:
    found = re.match(
        r'\s*\[\s*\{\s*"dateTime"\s*:\s*"\d\d/\d\d/\d\d \d\d:\d\d:\d\d"\s*,\s*"value"', head.text
    )
    return 1.0 if found else 0.0


def _is_sleeps(head: Head) -> float:
    text = head.text
    if not re.match(r'\s*\[\s*\{\s*"logId"', text):
        return 0.0
    return 1.0 if '"dateOfSleep"' in text and '"minutesAsleep"' in text else 0.0


def _is_weights(head: Head) -> float:
    text = head.text
    if not re.match(r'\s*\[\s*\{\s*"logId"', text):
        return 0.0
    return 1.0 if re.search(r'"weight"\s*:\s*[\d.]+\s*,', text) and '"bmi"' in text else 0.0


def _is_table(head: Head) -> float:
    header = head.text.partition("\n")[0].strip().split(",")
    if header[0] != "timestamp":
        return 0.0
    if _BEATS in header or not _COLUMNS.keys().isdisjoint(header):
        # Other services have tables with a column `steps`, few with `data source`.
        return 1.0 if "data source" in header or len(header[1]) > 10 else 0.8
    return 0.0


MEASURES: Final = Format(
    name="fitbit",
    title="Fitbit export, measures",
    source=SOURCE,
    records=(Sample, HeartRate),
    recognise=_is_measures,
    read=_read_measures,
)
SLEEPS: Final = Format(
    name="fitbit_sleep",
    title="Fitbit export, sleep",
    source=SOURCE,
    records=(Sleep,),
    recognise=_is_sleeps,
    read=_read_sleeps,
)
WEIGHTS: Final = Format(
    name="fitbit_weight",
    title="Fitbit export, weight",
    source=SOURCE,
    records=(Sample,),
    recognise=_is_weights,
    read=_read_weights,
)
GOOGLE_HEALTH: Final = Format(
    name="google_health",
    title="Google Health or Fitbit in Google Takeout",
    source=SOURCE,
    records=(Sample, HeartRate),
    recognise=_is_table,
    read=_read_table,
)
