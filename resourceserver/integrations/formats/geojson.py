"""Points as JSON: GeoJSON (RFC 7946), the files of Overland, and those of OwnTracks' recorder."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.records import Point, Record, Refused
from resourceserver.integrations.values import Flaw

_TIMES: Final = (
    *("timestamp", "time", "recorded_at", "datetime", "date_time", "tst", "created_at"),
    *("timestampMs", "start_time", "begin", "date"),
)
"""Names under which programs write the time of a point, in the order of preference."""
_MILLISECONDS: Final = 100_000_000_000
"""Numbers above it are milliseconds since 1970; as seconds they would be after the year 5138."""

_COLLECTION: Final = re.compile(r'"type"\s*:\s*"(FeatureCollection|Feature)"')
_OVERLAND: Final = re.compile(r'^\s*\{\s*"locations"\s*:\s*\[\s*\{')
_REC: Final = re.compile(r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\t[^\t\n]*\t\{")


def feature(value: Any, person: Person) -> Iterator[Point | Refused]:
    """Yield the points of one feature that have a time."""
    try:
        given = values.members(value)
        geometry = values.members(given.get("geometry"))
        properties = given.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        if "google_maps_url" in properties:
            # Takeout's saved places and reviews: where something is, and when the person was at the screen.
            raise Flaw("saved_place")
        places = geometry.get("coordinates")
        if not isinstance(places, list):
            raise Flaw("missing_place")
        if geometry.get("type") == "Point":
            yield _point(_time(properties), places, properties, person)
            return
        times = _times_of_line(properties)
        if geometry.get("type") != "LineString" or len(times) != len(places):
            raise Flaw("line_without_times" if geometry.get("type") == "LineString" else "no_point")
    except Flaw as flaw:
        yield values.refused(flaw, value)
        return
    for at, place in zip(times, places, strict=True):
        try:
            yield _point(at, place, {}, person)
        except Flaw as flaw:
            yield values.refused(flaw, [at, place])


def overland_point(value: Any, person: Person) -> Point:
    """Return the point of one of Overland's records. Raises Flaw."""
    given = values.members(value)
    geometry = values.members(given.get("geometry"))
    if geometry.get("type") != "Point":
        raise Flaw("no_point")
    properties = given.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    if properties.get("action") == "visit":
        # It has the time at which the phone recognised it, when the person may have left.
        raise Flaw("visit")
    return _point(_time(properties), geometry.get("coordinates"), properties, person)


def _time(properties: dict[str, Any]) -> Any:
    return next((properties[name] for name in _TIMES if properties.get(name) is not None), None)


def _times_of_line(properties: dict[str, Any]) -> list[Any]:
    """Return the times of the places of a line, for which programs have two names."""
    times = properties.get("coordTimes")
    if times is None and isinstance(properties.get("coordinateProperties"), dict):
        times = properties["coordinateProperties"].get("times")
    return times if isinstance(times, list) else []


def instant(value: Any, person: Person) -> datetime:
    """Return the instant of a number of seconds or milliseconds, or of an ISO 8601 text. Raises Flaw."""
    number = values.number(value)
    if number is None:
        return values.instant_in(value, person.zone)
    return values.epoch(number, 1000 if abs(number) > _MILLISECONDS else 1)


def _point(time: Any, place: Any, properties: dict[str, Any], person: Person) -> Point:
    at = instant(time, person)
    if not isinstance(place, list) or len(place) < 2:
        raise Flaw("missing_place")
    positive = {
        name: next(
            (
                found
                for key in keys
                if (found := tracks.at_least_zero(properties.get(key))) is not None
            ),
            None,
        )
        for name, keys in {
            "accuracy_m": ("horizontal_accuracy", "accuracy"),
            "vertical_accuracy_m": ("vertical_accuracy",),
            "speed_mps": ("speed",),
            "course_deg": ("course", "bearing", "heading"),
        }.items()
    }
    altitude = place[2] if len(place) > 2 else properties.get("altitude")
    battery = tracks.at_least_zero(properties.get("battery_level"))
    motion = properties.get("motion")
    return tracks.point(
        at,
        place[1],
        place[0],
        altitude_m=values.number(altitude),
        # Overland writes a share of one.
        battery_percent=round(battery * 100) if battery is not None and battery <= 1 else None,
        activity=values.text(motion[0]) if isinstance(motion, list) and motion else None,
        device=values.text(properties.get("device_id")),
        **positive,
    )


def _read_geojson(file: File, person: Person) -> Iterator[Record | Refused]:
    for value in reading.items(file, "features.item"):
        yield from feature(value, person)


def _read_overland(file: File, person: Person) -> Iterator[Record | Refused]:
    for value in reading.items(file, "locations.item"):
        try:
            yield overland_point(value, person)
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _read_owntracks(file: File, _person: Person) -> Iterator[Record | Refused]:
    for line in reading.lines(file):
        try:
            yield owntracks_point(_message(line))
        except Flaw as flaw:
            yield values.refused(flaw, line)


def _message(line: str) -> Any:
    try:
        return json.loads(line.split("\t", 2)[-1])
    except (ValueError, RecursionError) as error:
        raise Flaw("not_json") from error


def owntracks_point(value: Any) -> Point:
    """Return the point of one of OwnTracks' messages. Raises Flaw."""
    message = values.members(value)
    kind = message.get("_type")
    if kind != "location":
        raise Flaw("encrypted" if kind == "encrypted" else "no_location")
    speed_kmh = tracks.at_least_zero(message.get("vel"))
    return tracks.point(
        values.epoch(message.get("tst")),
        message.get("lat"),
        message.get("lon"),
        accuracy_m=tracks.at_least_zero(message.get("acc")),
        altitude_m=values.number(message.get("alt")),
        vertical_accuracy_m=tracks.at_least_zero(message.get("vac")),
        speed_mps=None if speed_kmh is None else speed_kmh / 3.6,
        course_deg=tracks.at_least_zero(message.get("cog")),
        battery_percent=values.count(message.get("batt")),
        device=values.text(message.get("tid")),
    )


def _recognise_geojson(head: Head) -> float:
    is_object = head.text.lstrip().startswith("{")
    is_feature = is_object and '"features"' in head.text and _COLLECTION.search(head.text)
    return 0.9 if is_feature else 0.0


def _recognise_overland(head: Head) -> float:
    # An iPhone writes the members of an object in any order.
    is_list = _OVERLAND.search(head.text) is not None
    return 1.0 if is_list and '"Feature"' in head.text and '"geometry"' in head.text else 0.0


def _recognise_owntracks(head: Head) -> float:
    return 1.0 if _REC.search(head.text) else 0.0


GEOJSON: Final = Format(
    name="geojson",
    title="GeoJSON points and lines",
    source=tracks.SOURCE,
    records=(Point,),
    recognise=_recognise_geojson,
    read=_read_geojson,
)

OVERLAND: Final = Format(
    name="overland",
    title="Overland, locations",
    source="overland",
    records=(Point,),
    recognise=_recognise_overland,
    read=_read_overland,
)

OWNTRACKS: Final = Format(
    name="owntracks",
    title="OwnTracks Recorder, .rec files",
    source="owntracks",
    records=(Point,),
    recognise=_recognise_owntracks,
    read=_read_owntracks,
)
