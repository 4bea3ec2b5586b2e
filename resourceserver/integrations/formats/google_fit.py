"""Google Fit in Takeout: `Fit/All Data/*.json`, one file for each stream of data.

The same step can be in several files: as an application wrote it, and in streams that Google merged from
others and cut into other times. The key of a sample is its metric and its time, so that what several streams
say alike is kept once; what they say differently has different sensors, of which sums take one at a time: the
sensor of a derived stream names the stream too.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.reading import instant_ms, items
from resourceserver.integrations.records import HeartRate, Record, Refused, Sample, Sensor
from resourceserver.integrations.values import Flaw

_METRICS: Final = {
    "com.google.step_count.delta": ("steps", 1.0),
    "com.google.distance.delta": ("distance_m", 1.0),
    "com.google.active_minutes": ("exercise_ms", 60_000.0),
    "com.google.weight": ("weight_kg", 1.0),
    "com.google.height": ("height_m", 1.0),
    "com.google.body.fat.percentage": ("body_fat_percent", 1.0),
    "com.google.oxygen_saturation": ("blood_oxygen_percent", 1.0),
    "com.google.body.temperature": ("body_temperature_c", 1.0),
    "com.google.hydration": ("water_ml", 1000.0),
}
"""The metric of each type of data, and the factor to its unit."""
_HEART_RATE: Final = "com.google.heart_rate.bpm"
_STREAM_LENGTH: Final = 60
_STREAM: Final = re.compile(r"(?:raw|derived):[\w.]+:([^:]+)(?::([^:]*):([^:]*))?")


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    derived = _derived_stream(file)
    for value in items(file, "Data Points.item"):
        try:
            yield _point(values.members(value), derived)
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _derived_stream(file: File) -> str | None:
    """Return the name of the stream that the whole file is; None if it is as an application wrote it."""
    stream = None
    # Where the file is broken is reported when its points are read.
    with suppress(Unreadable):
        stream = values.text(next(items(file, "Data Source"), None))
    if stream is None or not stream.startswith("derived:"):
        return None
    return stream.rpartition(":")[2][:_STREAM_LENGTH] or None


def _point(given: dict[str, Any], derived: str | None) -> Record:
    kind = values.text(given.get("dataTypeName"))
    if kind != _HEART_RATE and kind not in _METRICS:
        raise Flaw("type_is_not_kept")
    started_at, ended_at = _instant(given, "startTimeNanos"), _instant(given, "endTimeNanos")
    value = _value(given)
    sensor = _sensor(values.text(given.get("originDataSourceId")) or "", derived)
    if kind == _HEART_RATE:
        return HeartRate(str(instant_ms(ended_at)), ended_at, round(value), sensor)
    metric, factor = _METRICS[kind]
    key = f"{metric}:{instant_ms(started_at)}:{instant_ms(ended_at)}"
    return Sample(key, metric, started_at, ended_at, round(value * factor, 9), sensor)


def _instant(given: dict[str, Any], name: str) -> datetime:
    return values.epoch(given.get(name), per_second=1_000_000_000)


def _value(given: dict[str, Any]) -> float:
    try:
        value = given["fitValue"][0]["value"]
        number = values.number(value.get("fpVal", value.get("intVal")))
    except (LookupError, TypeError, AttributeError):
        number = None
    if number is None:
        raise Flaw("value_is_no_number")
    return number


def _sensor(origin: str, derived: str | None) -> Sensor:
    """Return the application or device of a stream: ``raw:type:application:maker:model:…``."""
    parts = _STREAM.match(origin)
    name, device = (parts.group(1), parts.group(3) or None) if parts else ("Google Fit", None)
    return Sensor(f"{name}, {derived}" if derived else name, device)


def _recognise(head: Head) -> float:
    text = head.text
    if not re.match(r'\s*\{\s*"Data (Source|Points)"\s*:', text):
        return 0.0
    return 1.0 if '"fitValue"' in text else 0.6


GOOGLE_FIT: Final = Format(
    name="google_fit",
    title="Google Fit in Google Takeout",
    source="google_fit",
    records=(Sample, HeartRate),
    recognise=_recognise,
    read=_read,
)
