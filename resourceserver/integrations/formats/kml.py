"""KML: tracks whose points have times, and places and lines with a time or a span of time.

Of a line with one span only the ends are points, since nothing says when the person was in between.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.records import Point, Record, Refused
from resourceserver.integrations.values import Flaw
from resourceserver.integrations.xml_stream import Element, elements

WAITING: Final = 500_000
"""Most times of a track that may stand before the first of its places."""

_WHOLE: Final = frozenset(("when", "coord", "coordinates", "TimeSpan", "TimeStamp", "name"))
_OPENED: Final = frozenset(("Placemark", "Track"))
_ROOT: Final = re.compile(r"<(\w+:)?kml[\s>]")


@dataclass
class _Placemark:
    """What has been read of one placemark."""

    name: str = "a placemark"
    times: list[str | None] = field(default_factory=list)
    """Begin and end, or one time."""
    places: list[str] = field(default_factory=list)
    """The first and the last place of its point or line."""
    is_track: bool = False
    when: deque[str] = field(default_factory=deque)
    where: deque[str] = field(default_factory=deque)


def _read(file: File, person: Person) -> Iterator[Record | Refused]:
    placemark: _Placemark | None = None
    with reading.binary(file) as stream:
        for each in elements(stream, _WHOLE, _OPENED):
            if each.name == "Placemark":
                yield from _finish(placemark, person)
                placemark = _Placemark()
            elif placemark is not None:
                yield from _add(placemark, each, person)
    yield from _finish(placemark, person)


def _add(placemark: _Placemark, each: Element, person: Person) -> Iterator[Record | Refused]:
    if each.name == "Track":
        placemark.is_track = True
    elif each.name == "name" and each.path[-1:] == ("Placemark",):
        placemark.name = values.text(each.text) or placemark.name
    elif each.name == "TimeStamp":
        placemark.times = [each.text_of("when")]
    elif each.name == "TimeSpan":
        placemark.times = [each.text_of("begin"), each.text_of("end")]
    elif each.name == "coordinates" and each.path[-1:] in {("Point",), ("LineString",)}:
        places = each.text.split()
        placemark.places = places[:1] + places[1:][-1:]
    elif each.name in {"when", "coord"}:
        (placemark.when if each.name == "when" else placemark.where).append(each.text)
        if max(len(placemark.when), len(placemark.where)) > WAITING:
            raise Unreadable(f"a track has more than {WAITING} times or places in a row")
        while placemark.when and placemark.where:
            yield _point(placemark.when.popleft(), placemark.where.popleft().split(), person)


def _finish(placemark: _Placemark | None, person: Person) -> Iterator[Record | Refused]:
    if placemark is None:
        return
    for waiting in (*placemark.when, *placemark.where):
        yield Refused("incomplete_point", values.example(waiting))
    places = [place.split(",") for place in placemark.places]
    if len(placemark.times) == 2 and places:
        for when, place in zip(placemark.times, (places[0], places[-1]), strict=True):
            yield _point(when, place, person)
    elif len(placemark.times) == 1 and len(places) == 1:
        yield _point(placemark.times[0], places[0], person)
    elif not placemark.is_track:
        yield Refused("placemark_without_time", values.example(placemark.name))


def _point(when: str | None, place: list[str], person: Person) -> Point | Refused:
    """Return the point of a time and of longitude, latitude and perhaps altitude."""
    try:
        if when is not None and "T" not in when:
            raise Flaw("time_without_hour")
        at: datetime = values.instant_in(when, person.zone)
        longitude, latitude, altitude = [*place, None, None, None][:3]
        return tracks.point(at, latitude, longitude, altitude_m=values.number(altitude))
    except Flaw as flaw:
        return Refused(str(flaw), values.example(f"{when} {place}"))


def _recognise(head: Head) -> float:
    return 1.0 if head.text.lstrip().startswith("<") and _ROOT.search(head.text) else 0.0


KML: Final = Format(
    name="kml",
    title="KML tracks and places",
    source=tracks.SOURCE,
    records=(Point,),
    recognise=_recognise,
    read=_read,
    is_proven=True,
)
