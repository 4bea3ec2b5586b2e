"""GPX: tracks, with the heart rates that watches add to their points.

Waypoints and routes are places that a person marked or planned, and say nothing of where the person was.
"""

import re
from collections.abc import Iterator
from typing import Final
from zoneinfo import ZoneInfo

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.records import (
    KEY_LENGTH,
    HeartRate,
    Point,
    Record,
    Refused,
    Sensor,
)
from resourceserver.integrations.values import Flaw
from resourceserver.integrations.xml_stream import Element, elements

_WHOLE: Final = frozenset(("trkpt", "wpt", "rtept", "type"))
_OPENED: Final = frozenset(("gpx", "trk"))
_ROOT: Final = re.compile(r"<(\w+:)?gpx[\s>]")
_UTC: Final = ZoneInfo("UTC")


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    sensor, activity = Sensor("GPX"), None
    with reading.binary(file) as stream:
        for each in elements(stream, _WHOLE, _OPENED):
            if each.name == "gpx":
                creator = values.text(each.attributes.get("creator")) or "GPX"
                sensor = Sensor(creator[:KEY_LENGTH])
            elif each.name == "trk":
                activity = None
            elif each.name == "type" and each.path[-1:] == ("trk",):
                activity = values.text(each.text)
            elif each.name == "trkpt":
                yield from _records(each, activity, sensor)
            elif each.name == "wpt":
                yield Refused("waypoint", _example(each))
            elif each.name == "rtept":
                yield Refused("planned_route", _example(each))


def _records(element: Element, activity: str | None, sensor: Sensor) -> Iterator[Record | Refused]:
    # Extensions have a place of their own in each program's files.
    extensions = [leaf for each in element.inside("extensions") for leaf in _leaves(each)]
    more = {leaf.name: leaf.text for leaf in extensions}
    try:
        at = values.instant_in(element.text_of("time"), _UTC)
        yield tracks.point(
            at,
            element.attributes.get("lat"),
            element.attributes.get("lon"),
            altitude_m=values.number(element.text_of("ele")),
            # GPX 1.0 has both in the point itself.
            speed_mps=tracks.at_least_zero(element.text_of("speed") or more.get("speed")),
            course_deg=tracks.at_least_zero(element.text_of("course") or more.get("course")),
            activity=activity,
        )
    except Flaw as flaw:
        yield Refused(str(flaw), _example(element))
        return
    if rate := tracks.heart_rate(at, more.get("hr") or more.get("heartrate"), sensor):
        yield rate


def _leaves(element: Element) -> Iterator[Element]:
    for each in element.children:
        if each.children:
            yield from _leaves(each)
        else:
            yield each


def _example(element: Element) -> str:
    place = f"{element.attributes.get('lat')}, {element.attributes.get('lon')}"
    words = (element.text_of("time"), place, element.text_of("name"))
    return values.example(" ".join(filter(None, words)))


def _recognise(head: Head) -> float:
    return 1.0 if head.text.lstrip().startswith("<") and _ROOT.search(head.text) else 0.0


GPX: Final = Format(
    name="gpx",
    title="GPX tracks",
    source=tracks.SOURCE,
    records=(Point, HeartRate),
    recognise=_recognise,
    read=_read,
    is_proven=True,
)
