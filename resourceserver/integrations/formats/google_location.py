"""Google's location history: three files of Takeout, and the Timeline that a phone exports.

| file | what it holds |
|---|---|
| `Records.json`, once `Location History.json` | points |
| `Semantic Location History/2021/2021_MAY.json` | visits, and the paths of activities |
| `Timeline Edits.json` | points of the last weeks before Timeline moved to the phone |
| `Timeline.json` (Android), `location-history.json` (iOS) | visits, activities, paths and points |

They describe the same days, so they share keys: the instant of a point, the beginning of a visit. A person
is at one place at an instant, so a point with an instant that is known already says nothing new. A visit
within another one (a shop in a mall) has its place in its key too.

Paths without times (``waypointPath``) are left out.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.reading import elements, instant_ms, items, utc_offset
from resourceserver.integrations.records import Place, PlaceEvent, Point, Record, Refused
from resourceserver.integrations.values import Flaw

SOURCE: Final = "google"

_POSITION: Final = re.compile(r"(-?\d+(?:\.\d+)?)[^\d,.-]*,[^\d.-]*(-?\d+(?:\.\d+)?)")
_TOP_LEVEL_ARRAY: Final = re.compile(r"\s*\[")
_IOS_SEGMENT: Final = re.compile(r'"(visit|activity|timelinePath|timelineMemory)"\s*:')

Records = Iterator[Record | Refused]


def _each(given: Iterator[Any], make: Callable[[Any], Records]) -> Records:
    """Yield what ``make`` yields of each value, and what it finds wrong with one."""
    for value in given:
        try:
            yield from make(value)
        except Flaw as flaw:
            yield values.refused(flaw, value)


# Records.json


def _read_records(file: File, _person: Person) -> Records:
    # Files have millions of them, so this reader goes without the generators of the others.
    for value in items(file, "locations.item"):
        try:
            yield _record(values.members(value))
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _record(given: dict[str, Any]) -> Point:
    get = given.get
    time = get("timestamp")
    at = _at_ms(given) if time is None else _instant(time)
    latitude, longitude = get("latitudeE7"), get("longitudeE7")
    accuracy, altitude = get("accuracy"), get("altitude")
    deviation, speed, course = get("verticalAccuracy"), get("velocity"), get("heading")
    # What nearly all records have is taken here, since each call takes a tenth of the time of a record.
    return _new_point(
        (
            str((at - _EPOCH) // _MILLISECOND),
            at,
            latitude / 1e7
            if type(latitude) is int and -_90_DEGREES <= latitude <= _90_DEGREES
            else _degrees(latitude, 90),
            longitude / 1e7
            if type(longitude) is int and -_180_DEGREES <= longitude <= _180_DEGREES
            else _degrees(longitude, 180),
            accuracy if type(accuracy) is int and accuracy >= 0 else _measure(accuracy),
            altitude if altitude is None or type(altitude) is int else values.number(altitude),
            deviation if type(deviation) is int and deviation >= 0 else _measure(deviation),
            None if speed is None else _measure(speed),
            None if course is None else _measure(course),
            None,
            _likely_activity(given["activity"]) if "activity" in given else None,
            _device_of(get("deviceTag"), get("platformType"), get("formFactor")),
            None,
        )
    )


_new_point: Final[Callable[[tuple[Any, ...]], Point]] = partial(tuple.__new__, Point)
"""Makes a point of the values of all its fields, in half the time that calling the type takes."""
_90_DEGREES: Final = 90 * 10**7
_180_DEGREES: Final = 180 * 10**7
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def _instant(written: Any) -> datetime:
    try:
        parsed = datetime.fromisoformat(written)
    except (TypeError, ValueError):
        parsed = None
    # Nearly all are in UTC, and a third of the time of a record is spent here.
    return parsed if parsed is not None and parsed.tzinfo is UTC else values.instant(written)


def _at_ms(given: dict[str, Any], name: str = "timestampMs") -> datetime:
    return values.epoch(given.get(name), per_second=1000)


def _likely_activity(scans: Any) -> str | None:
    """Return the first activity of the first scan: Google puts the likeliest one first."""
    if scans is None:
        return None
    try:
        return _activity(scans[0]["activity"][0]["type"])
    except (LookupError, TypeError):
        return None


def _device_of(tag: Any, platform: Any, form: Any) -> str | None:
    if not isinstance(tag, int | str):
        return None
    if type(platform) is str and type(form) is str:
        return _device(tag, platform, form)
    return _device(tag, str(platform), str(form))


@lru_cache(maxsize=1000)
def _device(tag: int | str, platform: str, form: str) -> str | None:
    """Return a name that stays the same: "Android phone 1234567890"."""
    # No number as others: tags have more digits than a float.
    number = re.fullmatch(r"-?\d{1,20}", str(tag))
    if number is None:
        return None
    maker = {"ANDROID": "Android ", "IOS": "iOS "}.get(platform, "")
    return f"{maker}{'tablet' if form == 'TABLET' else 'phone'} {tag}"


# Semantic Location History


def _read_semantic(file: File, _person: Person) -> Records:
    return _each(items(file, "timelineObjects.item"), _timeline_object)


def _timeline_object(value: Any) -> Records:
    given = values.members(value)
    if "placeVisit" in given:
        yield from _place_visits(given["placeVisit"])
    elif "activitySegment" in given:
        yield from _activity_segment(values.members(given["activitySegment"]))
    else:
        raise Flaw("unknown_segment")


def _place_visits(value: Any) -> Records:
    """Yield a visit, those within it, and the points of each."""
    waiting: list[tuple[Any, bool]] = [(value, False)]
    while waiting:
        each, is_within_another = waiting.pop()
        visit = values.members(each)
        yield _place_visit(visit, is_within_another)
        yield from _raw_path(visit, None)
        children = visit.get("childVisits")
        waiting += [(child, True) for child in children] if isinstance(children, list) else []


def _place_visit(visit: dict[str, Any], is_within_another: bool) -> PlaceEvent:
    location = values.members(visit.get("location", {}))
    started_at, ended_at = _duration(visit)
    return _visit(
        started_at,
        ended_at,
        _place(
            _degrees(location.get("latitudeE7", visit.get("centerLatE7")), 90),
            _degrees(location.get("longitudeE7", visit.get("centerLngE7")), 180),
            place_id=values.text(location.get("placeId")),
            name=values.text(location.get("name")),
            semantic_type=values.text(location.get("semanticType")),
            address=values.text(location.get("address")),
        ),
        is_confirmed=visit.get("placeConfidence") == "USER_CONFIRMED"
        or visit.get("editConfirmationStatus") == "CONFIRMED",
        is_within_another=is_within_another,
    )


def _activity_segment(segment: dict[str, Any]) -> Records:
    activity = _activity(segment.get("activityType"))
    started_at, ended_at = _duration(segment)
    yield from _end_of_activity(started_at, segment.get("startLocation"), activity)
    yield from _raw_path(segment, activity)
    yield from _end_of_activity(ended_at, segment.get("endLocation"), activity)


def _end_of_activity(at: datetime, value: Any, activity: str | None) -> Records:
    location = value if isinstance(value, dict) else {}
    # Google leaves the position of some ends out.
    if "latitudeE7" in location and "longitudeE7" in location:
        yield _point(
            at,
            _degrees(location["latitudeE7"], 90),
            _degrees(location["longitudeE7"], 180),
            accuracy_m=_measure(location.get("accuracyMetres")),
            activity=activity,
        )


def _raw_path(given: dict[str, Any], activity: str | None) -> Records:
    path = given.get("simplifiedRawPath")
    points = path.get("points") if isinstance(path, dict) else None

    def point(value: Any) -> Records:
        given = values.members(value)
        yield _point(
            values.instant(given["timestamp"]) if "timestamp" in given else _at_ms(given),
            _degrees(given.get("latE7"), 90),
            _degrees(given.get("lngE7"), 180),
            accuracy_m=_measure(given.get("accuracyMeters")),
            activity=activity,
        )

    return _each(iter(points if isinstance(points, list) else []), point)


def _duration(given: dict[str, Any]) -> tuple[datetime, datetime]:
    duration = values.members(given.get("duration"))
    if "startTimestamp" in duration:
        return (
            values.instant(duration["startTimestamp"]),
            values.instant(duration.get("endTimestamp")),
        )
    return _at_ms(duration, "startTimestampMs"), _at_ms(duration, "endTimestampMs")


# Timeline Edits.json


def _read_edits(file: File, _person: Person) -> Records:
    return _each(items(file, "timelineEdits.item"), _edit)


def _edit(value: Any) -> Records:
    raw = values.members(value).get("rawSignal")
    signal = raw.get("signal") if isinstance(raw, dict) else None
    position = signal.get("position") if isinstance(signal, dict) else None
    # The others are scans of networks, guesses at activities, and places without times.
    if position is not None:
        given = values.members(position)
        point = values.members(given.get("point"))
        accuracy_mm = values.number(given.get("accuracyMm"))
        yield _point(
            values.instant(given.get("timestamp")),
            _degrees(point.get("latE7"), 90),
            _degrees(point.get("lngE7"), 180),
            accuracy_m=None if accuracy_mm is None else accuracy_mm / 1000,
            altitude_m=values.number(given.get("altitudeMeters")),
            speed_mps=_measure(given.get("speedMetersPerSecond")),
        )


# Timeline.json of a phone


def _read_android(file: File, _person: Person) -> Records:
    for path, value in elements(file, "semanticSegments.item", "rawSignals.item"):
        make = _raw_signal if path == "rawSignals.item" else _segment
        yield from _each(iter([value]), make)


def _read_ios(file: File, _person: Person) -> Records:
    return _each(items(file, "item"), _segment)


def _raw_signal(value: Any) -> Records:
    signal = values.members(value)
    if "position" in signal:
        position = values.members(signal["position"])
        yield _point(
            values.instant(position.get("timestamp")),
            *_position(position),
            accuracy_m=_measure(position.get("accuracyMeters")),
            altitude_m=values.number(position.get("altitudeMeters")),
            speed_mps=_measure(position.get("speedMetersPerSecond")),
        )


def _segment(value: Any) -> Records:
    segment = values.members(value)
    started = values.wall_time(segment.get("startTime"))
    started_at, ended_at = values.utc(started), values.instant(segment.get("endTime"))
    if "visit" in segment:
        yield _segment_visit(segment, started, ended_at)
    elif "activity" in segment:
        activity = values.members(segment["activity"])
        likely = activity.get("topCandidate")
        kind = _activity(likely.get("type")) if isinstance(likely, dict) else None
        for at, end in ((started_at, "start"), (ended_at, "end")):
            if activity.get(end):
                yield _point(at, *_position(activity[end]), activity=kind)
    elif "timelinePath" in segment:
        path = segment["timelinePath"]

        def step(value: Any) -> Records:
            given = values.members(value)
            yield _point(_step_at(given, started_at), *_position(given.get("point")))

        yield from _each(iter(path if isinstance(path, list) else [path]), step)
    elif "timelineMemory" not in segment:
        raise Flaw("unknown_segment")


def _segment_visit(segment: dict[str, Any], started: datetime, ended_at: datetime) -> PlaceEvent:
    visit = values.members(segment["visit"])
    likely = values.members(visit.get("topCandidate"))
    minutes = values.number(segment.get("startTimeTimezoneUtcOffsetMinutes"))
    return _visit(
        values.utc(started),
        ended_at,
        _place(
            *_position(likely.get("placeLocation")),
            place_id=values.text(likely.get("placeId")) or values.text(likely.get("placeID")),
            semantic_type=values.text(likely.get("semanticType")),
        ),
        is_within_another=bool(values.number(visit.get("hierarchyLevel"))),
        offset=_offset(minutes, started),
    )


def _step_at(step: dict[str, Any], started_at: datetime) -> datetime:
    if step.get("time"):
        return values.instant(step["time"])
    minutes = values.number(step.get("durationMinutesOffsetFromStartTime"))
    if minutes is None:
        raise Flaw("missing_time")
    return values.later(started_at, minutes=minutes)


def _offset(minutes: float | None, started: datetime) -> str | None:
    if minutes is not None:
        return utc_offset(minutes * 60)
    # A time in UTC says nothing of the place, and an offset is what the phone's clock had.
    offset = started.utcoffset()
    return utc_offset(offset.total_seconds()) if offset else None


def _position(value: Any) -> tuple[float, float]:
    """Return the degrees of "52.1°, 4.2°" and "geo:52.1,4.2", also as the one member of an object."""
    if isinstance(value, dict):
        value = value.get("latLng", value.get("LatLng"))
    written = _POSITION.search(value) if isinstance(value, str) else None
    if written is None:
        raise Flaw("missing_position")
    return float(written.group(1)), float(written.group(2))


# What all have in common


def _degrees(value: Any, most: int) -> float:
    # Nearly all are whole numbers, and `values.number` takes longer. It refuses those that no float can hold.
    e7 = value if type(value) is int and abs(value) < 2**63 else values.number(value)
    if e7 is None:
        raise Flaw("missing_position")
    # Some of Google's numbers are negative ones of 32 bits that were written without their sign.
    return (e7 - 2**32 if e7 > most * 10**7 else e7) / 1e7


def _activity(value: Any) -> str | None:
    return _activity_named(value) if isinstance(value, str) else None


@lru_cache(maxsize=1000)
def _activity_named(written: str) -> str | None:
    name = (values.text(written) or "unknown").lower().replace(" ", "_")
    return None if name in {"unknown", "unknown_activity_type"} else name


def _measure(value: Any) -> float | None:
    if value is None:
        return None
    number = value if type(value) is int else values.number(value)
    # -1 stands for "not measured".
    return None if number is None or number < 0 else number


def _point(
    at: datetime,
    latitude: float,
    longitude: float,
    *,
    accuracy_m: float | None = None,
    altitude_m: float | None = None,
    speed_mps: float | None = None,
    activity: str | None = None,
) -> Point:
    return Point(
        key=str(instant_ms(at)),
        recorded_at=at,
        latitude=latitude,
        longitude=longitude,
        accuracy_m=accuracy_m,
        altitude_m=altitude_m,
        speed_mps=speed_mps,
        activity=activity,
    )


def _place(
    latitude: float,
    longitude: float,
    *,
    place_id: str | None,
    name: str | None = None,
    semantic_type: str | None = None,
    address: str | None = None,
) -> Place:
    position = f"{latitude:.4f}, {longitude:.4f}"
    kind = (semantic_type or "").upper().removeprefix("TYPE_").removeprefix("INFERRED_")
    category = kind.lower() if kind in {"HOME", "WORK"} else None
    street = address.splitlines()[0].strip() if address else None
    return Place(
        key=place_id or position,
        name=name or (category.capitalize() if category else None) or street or position,
        category=category,
        latitude=latitude,
        longitude=longitude,
        address=address,
    )


def _visit(
    started_at: datetime,
    ended_at: datetime,
    place: Place,
    *,
    is_confirmed: bool = False,
    is_within_another: bool = False,
    offset: str | None = None,
) -> PlaceEvent:
    beginning = instant_ms(started_at)
    return PlaceEvent(
        key=values.key(beginning, place.key) if is_within_another else str(beginning),
        type="visit",
        status="confirmed" if is_confirmed else "suggested",
        started_at=started_at,
        ended_at=ended_at,
        place=place,
        utc_offset=offset,
    )


# How they are recognised


def _with_array(name: str) -> Callable[[Head], float]:
    """Return a recogniser of files that have an array of this name at their top level."""
    member = re.compile(rf'\s*\{{[^\[]*"{name}"\s*:\s*\[')

    return lambda head: 1.0 if member.match(head.text) else 0.0


def _is_records(head: Head) -> float:
    text = head.text
    # Overland's files have points in GeoJSON under the same name.
    if not re.match(r'\s*\{\s*"locations"\s*:\s*\[', text) or '"Feature"' in text:
        return 0.0
    return 1.0 if '"latitudeE7"' in text or '"timestampMs"' in text or head.is_whole else 0.7


def _is_android(head: Head) -> float:
    text = head.text
    if not re.match(r'\s*\{\s*"(semanticSegments|rawSignals|userLocationProfile)"', text):
        return 0.0
    return 1.0


def _is_ios(head: Head) -> float:
    text = head.text
    if _TOP_LEVEL_ARRAY.match(text) and '"startTime"' in text and '"endTime"' in text:
        return 1.0 if _IOS_SEGMENT.search(text) else 0.0
    return 0.0


RECORDS: Final = Format(
    name="google_records",
    title="Google Takeout, location records",
    source=SOURCE,
    records=(Point,),
    recognise=_is_records,
    read=_read_records,
    is_proven=True,
)
SEMANTIC: Final = Format(
    name="google_semantic",
    title="Google Takeout, semantic location history",
    source=SOURCE,
    records=(Point, PlaceEvent),
    recognise=_with_array("timelineObjects"),
    read=_read_semantic,
    is_proven=True,
)
TIMELINE_EDITS: Final = Format(
    name="google_timeline_edits",
    title="Google Takeout, timeline edits",
    source=SOURCE,
    records=(Point,),
    recognise=_with_array("timelineEdits"),
    read=_read_edits,
    is_proven=True,
)
TIMELINE_ANDROID: Final = Format(
    name="google_timeline_android",
    title="Google Maps Timeline, exported by an Android phone",
    source=SOURCE,
    records=(Point, PlaceEvent),
    recognise=_is_android,
    read=_read_android,
)
TIMELINE_IOS: Final = Format(
    name="google_timeline_ios",
    title="Google Maps Timeline, exported by an iPhone",
    source=SOURCE,
    records=(Point, PlaceEvent),
    recognise=_is_ios,
    read=_read_ios,
)
