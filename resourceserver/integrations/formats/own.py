"""Exports of this service, as JSON and as NDJSON.

Each record keeps the source that the export names, and its key: sessions their idempotency key, other records
the key by which their source knows them. So an account knows the records of its own export, and of a newer
one only what is new is added. Settings, such as goals, and what the service computes from records are not
brought back.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Any, Final, cast

from resourceserver.integrations import reading, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.records import (
    AppSession,
    Calendar,
    CalendarEvent,
    CodeEvent,
    CodingSession,
    Cycle,
    HeartRate,
    Listen,
    Place,
    PlaceEvent,
    Play,
    Point,
    Record,
    Recording,
    Recovery,
    Refused,
    Sample,
    ScreenTime,
    Sensor,
    Sleep,
    Sourced,
    Title,
    TranscriptSegment,
)
from resourceserver.integrations.values import Flaw

_SOURCE: Final = "svc"
_Row = dict[str, Any]

_EXPORT: Final = re.compile(r'^\s*\{\s*"exported_at"\s*:')
_LINE: Final = re.compile(r'^\{"resource":"\w+",')


def _key(row: _Row, member: str = "provider_key", identified: _Row | None = None) -> str:
    """Return the key under which the source of a row knows it, or what it refers to: ``identified``.

    Exports of before the rows had keys name them by their ids alone.
    """
    if key := values.text(row.get(member)):
        return values.key(key)
    identifier = values.text((row if identified is None else identified).get("id"))
    if identifier is None:
        raise Flaw("missing_id")
    return values.key(_SOURCE, identifier)


def _inner(row: _Row, member: str) -> _Row:
    """Return an object within a row, empty where the row has none."""
    value = row.get(member)
    return value if isinstance(value, dict) else {}


def _several(row: _Row, member: str) -> tuple[Any, ...]:
    value = row.get(member)
    return tuple(value) if isinstance(value, list) else ()


def _instant(row: _Row, member: str) -> datetime | None:
    return None if row.get(member) is None else values.instant(row[member])


def _day(row: _Row, member: str) -> date | None:
    return None if row.get(member) is None else values.wall_time(row[member]).date()


def _picked(row: _Row, *members: str) -> dict[str, Any]:
    """Return the members that a row and a record have under the same name."""
    return {member: row.get(member) for member in members}


def _session(row: _Row) -> dict[str, Any]:
    key = values.text(row.get("idempotency_key"))
    if key is None:
        raise Flaw("missing_id")
    return {
        "key": key,
        "started_at": values.instant(row.get("started_at")),
        "ended_at": values.instant(row.get("ended_at")),
        **_picked(row, "device", "platform", "utc_offset", "metadata"),
    }


def _app_session(row: _Row) -> Record:
    picked = _picked(row, "app", "title", "url", "category")
    return AppSession(**_session(row), **picked, is_idle=row.get("idle") is True)


def _coding_session(row: _Row) -> Record:
    members = ("project", "language", "file", "branch", "editor", "activity")
    counted = ("lines_added", "lines_removed", "is_write")
    return CodingSession(**_session(row), **_picked(row, *members, *counted))


def _code_event(row: _Row) -> Record:
    repository = _inner(row, "repository")
    members = ("type", "action", "title", "url", "ref", "sha", "number", "state")
    counted = ("additions", "deletions", "changed_files")
    return CodeEvent(
        key=_key(row),
        occurred_at=values.instant(row.get("occurred_at")),
        repository=cast("str", repository.get("name")),
        is_private=repository.get("private"),
        **_picked(row, *members, *counted),
    )


def _sensor(row: _Row, otherwise: str = "unknown") -> Sensor:
    source = _inner(row, "source")
    # Older exports have the source alone.
    sensor = _inner(row, "sensor")
    others = {name: sensor[name] for name in ("kind", "platform", "priority") if name in sensor}
    return Sensor(values.text(source.get("name")) or otherwise, source.get("device"), **others)


def _sample(row: _Row) -> Record:
    return Sample(
        key=_key(row),
        started_at=values.instant(row.get("started_at")),
        ended_at=values.instant(row.get("ended_at")),
        sensor=_sensor(row),
        is_daily_total=row.get("is_daily_total") is True,
        **_picked(row, "metric_type", "value", "utc_offset"),
    )


def _heart_rate(row: _Row) -> Record:
    device = _inner(row, "device")
    sensor = _sensor(row, values.text(device.get("name")) or "unknown")
    return HeartRate(
        key=_key(row),
        recorded_at=values.instant(row.get("recorded_at")),
        sensor=sensor._replace(platform=device.get("platform")),
        rr_intervals_ms=_several(row, "rr_intervals_ms"),
        **_picked(row, "bpm", "contact"),
    )


def _sleep(row: _Row) -> Record:
    recovery, strain = row.get("recovery"), row.get("strain")
    members = (
        *("in_bed_ms", "asleep_ms", "utc_offset", "awake_ms", "light_ms", "deep_ms", "rem_ms"),
        *("no_data_ms", "latency_ms", "disturbance_count", "cycle_count", "efficiency_percent"),
        *("performance_percent", "consistency_percent", "need_ms", "debt_ms"),
        *("respiratory_rate_bpm", "average_heart_rate_bpm", "lowest_heart_rate_bpm"),
    )
    return Sleep(
        key=_key(row),
        started_at=values.instant(row.get("started_at")),
        ended_at=values.instant(row.get("ended_at")),
        sensor=_sensor(row, values.text(row.get("provider")) or _SOURCE),
        is_nap=row.get("nap") is True,
        recovery=_recovery(recovery) if isinstance(recovery, dict) else None,
        cycle=_cycle(strain) if isinstance(strain, dict) else None,
        **_picked(row, *members),
    )


def _recovery(row: _Row) -> Recovery:
    members = ("resting_heart_rate_bpm", "hrv_rmssd_ms", "spo2_percent", "skin_temperature_c")
    return Recovery(**_picked(row, "state", "score", *members))


def _cycle(row: _Row) -> Cycle:
    return Cycle(
        started_at=values.instant(row.get("started_at")),
        ended_at=_instant(row, "ended_at"),
        strain=row.get("score"),
        strain_scale_max=row.get("scale_max"),
        **_picked(row, "energy_kj", "average_heart_rate_bpm", "max_heart_rate_bpm"),
    )


def _listen(row: _Row) -> Record:
    ids = _inner(row, "ids")
    return Listen(
        key=_key(row),
        listened_at=values.instant(row.get("listened_at")),
        artists=_several(row, "artists"),
        is_skipped=row.get("skipped"),
        spotify_uri=ids.get("spotify"),
        **_picked(row, "track", "artist", "album", "played_ms", "duration_ms"),
        **_picked(ids, "isrc", "recording_mbid"),
    )


def _point(row: _Row) -> Record:
    members = (
        *("latitude", "longitude", "accuracy_m", "altitude_m", "vertical_accuracy_m"),
        *("speed_mps", "course_deg", "battery_percent", "activity"),
    )
    device = _inner(row, "device")
    return Point(
        key=_key(row),
        recorded_at=values.instant(row.get("recorded_at")),
        device=device.get("name"),
        platform=device.get("platform"),
        **_picked(row, *members),
    )


def _place_event(row: _Row) -> Record:
    place = values.members(row.get("place"))
    members = ("category", "latitude", "longitude", "address", "city", "country_code")
    return PlaceEvent(
        key=_key(row),
        started_at=values.instant(row.get("started_at")),
        ended_at=_instant(row, "ended_at"),
        place=Place(key=_key(row, "place_key", place), **_picked(place, "name", *members)),
        **_picked(row, "type", "status", "utc_offset", "note"),
    )


def _recording(row: _Row) -> Record:
    transcript = _inner(row, "transcript")
    members = ("start_ms", "end_ms", "speaker", "text")
    return Recording(
        key=_key(row),
        recorded_at=values.instant(row.get("recorded_at")),
        transcript=transcript.get("text"),
        status=transcript.get("status"),
        segments=tuple(
            TranscriptSegment(**_picked(values.members(each), *members))
            for each in _several(transcript, "segments")
        ),
        **_picked(row, "duration_ms", "title", "language"),
    )


def _play(row: _Row) -> Record:
    title = values.members(row.get("title"))
    return Play(
        key=_key(row),
        title=Title(genres=_several(title, "genres"), **_picked(title, "kind", "name")),
        watched_at=values.instant(row.get("watched_at")),
        **_picked(row, "watch_ms", "season", "episode"),
    )


def _calendar_event(row: _Row) -> Record:
    calendar, organizer = values.members(row.get("calendar")), _inner(row, "organizer")
    members = (
        *("status", "title", "description", "location", "timezone", "response"),
        *("attendee_count", "series_id", "conference_url"),
    )
    return CalendarEvent(
        key=_key(row),
        calendar=Calendar(
            _key(row, "calendar_key", calendar),
            cast("str", calendar.get("name")),
            values.text(row.get("calendar_timezone")) or "UTC",
        ),
        starts_at=values.instant(row.get("starts_at")),
        ends_at=values.instant(row.get("ends_at")),
        start_date=_day(row, "start_date"),
        end_date=_day(row, "end_date"),
        organizer_name=organizer.get("name"),
        organizer_is_self=organizer.get("self") is True,
        updated_at=_instant(row, "updated_at"),
        **_picked(row, *members),
    )


def _screen_time(row: _Row) -> Record:
    return ScreenTime(
        key=_key(row),
        date=values.wall_time(row.get("date")).date(),
        counted_at=values.instant(row.get("counted_at")),
        last_used_at=_instant(row, "last_used_at"),
        **_picked(row, "device", "app", "name", "duration_ms"),
    )


_RESOURCES: Final[dict[str, tuple[Callable[[_Row], Record], tuple[str, ...]]]] = {
    "app_sessions": (_app_session, ("source",)),
    "coding_sessions": (_coding_session, ("source",)),
    "screen_times": (_screen_time, ("source",)),
    "code_events": (_code_event, ("provider",)),
    "health_samples": (_sample, ("source", "provider")),
    "heart_rates": (_heart_rate, ("source", "provider")),
    "sleeps": (_sleep, ("provider",)),
    "listens": (_listen, ("source",)),
    "locations": (_point, ("source",)),
    "location_events": (_place_event, ("source",)),
    "recordings": (_recording, ("source",)),
    "plays": (_play, ("source",)),
    "calendar_events": (_calendar_event, ("calendar", "provider")),
}
"""How the rows of each resource become records, and where they name their source."""
_SESSIONS: Final = ("app_sessions", "coding_sessions")
SETTINGS: Final = ("goals", "category_rules", "category_scores", "insights")
"""Resources that a person made, or that cannot be computed again, and for which there are no records."""


def _record(resource: str, value: Any) -> Sourced | Refused:
    try:
        row = values.members(value)
        if resource in SETTINGS:
            return Refused("no_record_for_it", values.example(row)[:200])
        convert, path = _RESOURCES[resource]
        source: Any = row
        for member in path:
            source = source.get(member) if isinstance(source, dict) else None
        named = values.text(source)
        return Sourced(named if resource in _SESSIONS else named or _SOURCE, convert(row))
    except Flaw as flaw:
        return values.refused(flaw, value)


def _read_json(file: File, _person: Person) -> Iterator[Sourced | Refused]:
    paths = {f"resources.{name}.item": name for name in (*_RESOURCES, *SETTINGS)}
    for path, value in reading.elements(file, *paths):
        yield _record(paths[path], value)


def _read_ndjson(file: File, _person: Person) -> Iterator[Sourced | Refused]:
    for line in reading.lines(file):
        try:
            row = values.members(json.loads(line))
        except (ValueError, RecursionError, Flaw):
            yield Refused("not_json", values.example(line))
            continue
        resource = values.text(row.pop("resource", None))
        if resource is not None and (resource in _RESOURCES or resource in SETTINGS):
            yield _record(resource, row)


def _recognise_json(head: Head) -> float:
    return 1.0 if _EXPORT.search(head.text) and '"resources"' in head.text else 0.0


def _recognise_ndjson(head: Head) -> float:
    return 1.0 if _LINE.search(head.text) else 0.0


_KINDS: Final = (
    *(AppSession, CodingSession, CodeEvent, Sample, HeartRate, Sleep, Listen, Point, PlaceEvent),
    *(Recording, Play, CalendarEvent, ScreenTime),
)

OWN_JSON: Final = Format(
    name="own_json",
    title="Export of this service, JSON",
    source=_SOURCE,
    records=_KINDS,
    recognise=_recognise_json,
    read=_read_json,
)

OWN_NDJSON: Final = Format(
    name="own_ndjson",
    title="Export of this service, NDJSON",
    source=_SOURCE,
    records=_KINDS,
    recognise=_recognise_ndjson,
    read=_read_ndjson,
)
