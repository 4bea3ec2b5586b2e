"""Checks of records before they are written: what the database would refuse is refused here, with a reason.

A reason is a code in snake_case. The database would refuse the whole batch for one value, and would say
neither which record it was nor why.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from math import isfinite, isnan
from operator import sub
from typing import Any, Final, get_args
from zoneinfo import available_timezones

from resourceserver.integrations import records
from resourceserver.integrations.records import KEY_LENGTH, METRICS, Record, Sourced

FIRST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)
"""Between these lies whatever a person can have measured or planned. Years such as 1 and 9999 are what
programs write where they know no time."""
NAME: Final = 1024
"""Most characters of a name or a title."""
TEXT: Final = 1_000_000
"""Most characters of a note, a description or a transcript."""
_LONGEST_SAMPLE: Final = timedelta(hours=48)
_LONGEST_DAY_MS: Final = 25 * 3_600_000
_LONGEST_MS: Final = 1_000_000_000_000
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_OFFSET: Final = re.compile(r"[+-](0\d|1[0-8]):[0-5]\d")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_COUNTRY: Final = re.compile(r"[A-Z]{2}")

_SESSIONS: Final = (records.AppSession, records.CodingSession)

Check = Callable[[Any], str | None]
"""Returns why a value cannot be written, or None."""


def refusal(record: Record | Sourced) -> str | None:
    """Return why a record cannot be written, or None."""
    try:
        if isinstance(record, Sourced):
            named = (
                None
                if isinstance(record.record, _SESSIONS) and record.source is None
                else _KEY(record.source)
            )
            return named or _refusal(record.record)
        return _refusal(record)
    except (TypeError, ValueError, OverflowError):
        # A value of another type than the record's, such as a time without a zone, cannot be compared.
        return "invalid_value"


def _refusal(record: Any) -> str | None:
    for place, check in _CHECKS[type(record)]:
        reason = check(record[place])
        if reason is not None:
            return reason
    across = _ACROSS.get(type(record))
    return None if across is None else across(record)


def _text(limit: int, *, may_be_blank: bool = False) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return "invalid_value"
        if not value.isprintable() and _UNSTORABLE.search(value):
            return "unstorable_text"
        if len(value) > limit:
            return "text_too_long"
        return "empty_name" if not may_be_blank and not value.strip() else None

    return check


def _instant(value: Any) -> str | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return "invalid_time"
    return None if FIRST <= value < LAST else "time_out_of_range"


def _day(value: Any) -> str | None:
    if not isinstance(value, date):
        return "invalid_time"
    return None if FIRST.date() <= value < LAST.date() else "time_out_of_range"


def _between(low: float, high: float) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return "invalid_value"
        # Not a number is between no two numbers.
        return None if low <= value <= high else "value_out_of_range"

    return check


def _whole(low: int, high: int) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return "invalid_value"
        return None if low <= value <= high else "value_out_of_range"

    return check


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "invalid_value"


def _one_of(choices: tuple[str, ...]) -> Check:
    return lambda value: None if value in choices else "invalid_value"


def _matching(pattern: re.Pattern[str]) -> Check:
    return lambda value: (
        None if isinstance(value, str) and pattern.fullmatch(value) else "invalid_value"
    )


def _zone(value: Any) -> str | None:
    return None if value in _ZONES else "invalid_value"


def _each(check: Check) -> Check:
    def check_all(values: Any) -> str | None:
        return next(filter(None, map(check, values)), None)

    return check_all


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _within(kind: type) -> Check:
    """Check a record within a record."""

    def check(value: Any) -> str | None:
        return _refusal(value) if isinstance(value, kind) else "invalid_value"

    return check


_ZONES: Final = available_timezones()
_KEY: Final = _text(KEY_LENGTH)
_NAME: Final = _text(NAME)
_LONG: Final = _text(TEXT, may_be_blank=True)
_MS: Final = _whole(0, _LONGEST_MS)
_COUNT: Final = _whole(0, 2**31 - 1)
_PERCENT: Final = _between(0, 100)
_RATE: Final = _between(0, 1000)
_OFFSETS: Final = _matching(_OFFSET)


def _size(value: Any) -> str | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        return "invalid_value"
    return None if value == 0 or 1e-15 <= abs(value) <= 1e15 else "value_out_of_range"


def _literal(kind: type, field: str) -> Check:
    return _one_of(get_args(kind.__annotations__[field]))


_GOOD_SENSORS: Final[set[records.Sensor]] = set()
"""Sensors that were checked; a file has few of them."""
_MOST_SENSORS: Final = 10_000
_GOOD_NAMES: Final[set[tuple[object, ...]]] = set()
"""Activities, devices and platforms of points that were checked."""
_MOST_NAMES: Final = 1000
_NUMBERS: Final = frozenset((int, float))
_FLOATS: Final = frozenset((float,))
_INTEGERS: Final = frozenset((int,))


def _sensor(value: Any) -> str | None:
    reason = _within(records.Sensor)(value)
    if reason is None and len(_GOOD_SENSORS) < _MOST_SENSORS:
        _GOOD_SENSORS.add(value)
    return reason


_RULES: Final[dict[type, dict[str, Check]]] = {
    # These stand in keys of indexes.
    records.Sensor: {
        "name": _KEY,
        "device": _KEY,
        "platform": _KEY,
        "priority": _whole(-(2**15), 2**15 - 1),
    },
    records.Listen: {
        "listened_at": _instant,
        "track": _NAME,
        "artist": _NAME,
        "artists": _each(_NAME),
        "album": _NAME,
        "played_ms": _MS,
        "duration_ms": _MS,
        "is_skipped": _flag,
        "spotify_uri": _NAME,
        "isrc": _NAME,
        "recording_mbid": _matching(_UUID),
    },
    records.Sample: {
        "metric_type": lambda value: None if value in METRICS else "unknown_metric",
        "started_at": _instant,
        "ended_at": _instant,
        "value": _size,
        "sensor": _sensor,
        "utc_offset": _OFFSETS,
        "is_daily_total": _flag,
    },
    records.HeartRate: {
        "recorded_at": _instant,
        "bpm": _whole(1, 400),
        "sensor": _sensor,
        "rr_intervals_ms": _each(_COUNT),
        "contact": _flag,
    },
    records.Recovery: {
        "score": _PERCENT,
        "resting_heart_rate_bpm": _RATE,
        "hrv_rmssd_ms": _between(0, 100_000),
        "spo2_percent": _PERCENT,
        "skin_temperature_c": _between(-100, 100),
    },
    records.Cycle: {
        "started_at": _instant,
        "ended_at": _instant,
        "strain": _between(0, 1_000_000),
        "strain_scale_max": _between(0, 1_000_000),
        "energy_kj": _between(0, 1_000_000),
        "average_heart_rate_bpm": _RATE,
        "max_heart_rate_bpm": _RATE,
    },
    records.Sleep: {
        "started_at": _instant,
        "ended_at": _instant,
        "sensor": _sensor,
        "utc_offset": _OFFSETS,
        "is_nap": _flag,
        **dict.fromkeys(
            (
                *("in_bed_ms", "asleep_ms", "awake_ms", "light_ms", "deep_ms", "rem_ms"),
                *("no_data_ms", "latency_ms", "need_ms", "debt_ms"),
            ),
            _MS,
        ),
        "disturbance_count": _COUNT,
        "cycle_count": _COUNT,
        "efficiency_percent": _PERCENT,
        "performance_percent": _PERCENT,
        "consistency_percent": _PERCENT,
        "respiratory_rate_bpm": _RATE,
        "average_heart_rate_bpm": _RATE,
        "lowest_heart_rate_bpm": _RATE,
        "recovery": _within(records.Recovery),
        "cycle": _within(records.Cycle),
    },
    records.Point: {
        "recorded_at": _instant,
        "latitude": _between(-90, 90),
        "longitude": _between(-180, 180),
        "accuracy_m": _between(0, 1e8),
        "altitude_m": _between(-1e8, 1e8),
        "vertical_accuracy_m": _between(0, 1e8),
        "speed_mps": _between(0, 1e6),
        "course_deg": _between(0, 360),
        "battery_percent": _whole(0, 100),
        "activity": _NAME,
        "device": _KEY,
        "platform": _KEY,
    },
    records.Place: {
        "name": _NAME,
        "category": _NAME,
        "latitude": _between(-90, 90),
        "longitude": _between(-180, 180),
        "address": _LONG,
        "city": _NAME,
        "country_code": _matching(_COUNTRY),
    },
    records.PlaceEvent: {
        "started_at": _instant,
        "ended_at": _instant,
        "place": _within(records.Place),
        "utc_offset": _OFFSETS,
        "note": _LONG,
    },
    records.Title: {"name": _NAME, "genres": _each(_text(64))},
    records.Play: {
        "title": _within(records.Title),
        "watched_at": _instant,
        "watch_ms": _MS,
        "season": _whole(0, 32767),
        "episode": _whole(0, 32767),
    },
    records.Calendar: {"name": _NAME, "timezone": _zone},
    records.CalendarEvent: {
        "calendar": _within(records.Calendar),
        "starts_at": _instant,
        "ends_at": _instant,
        "title": _LONG,
        "description": _LONG,
        "location": _LONG,
        "start_date": _day,
        "end_date": _day,
        "timezone": _NAME,
        "organizer_name": _NAME,
        "organizer_is_self": _flag,
        "attendee_count": _COUNT,
        "series_id": _text(NAME),
        "conference_url": _LONG,
        "updated_at": _instant,
    },
    records.TranscriptSegment: {
        "start_ms": _MS,
        "end_ms": _MS,
        "speaker": _LONG,
        "text": _LONG,
    },
    records.Recording: {
        "recorded_at": _instant,
        "duration_ms": _MS,
        "title": _NAME,
        "language": _NAME,
        "transcript": _text(10 * TEXT, may_be_blank=True),
        "segments": _each(_within(records.TranscriptSegment)),
    },
    records.CodeEvent: {
        "action": _NAME,
        "occurred_at": _instant,
        "repository": _NAME,
        "is_private": _flag,
        "title": _LONG,
        "url": _LONG,
        "ref": _NAME,
        "sha": _NAME,
        "number": _whole(-(2**31), 2**31 - 1),
        "state": _NAME,
        "additions": _COUNT,
        "deletions": _COUNT,
        "changed_files": _COUNT,
    },
    records.ScreenTime: {
        "date": _day,
        "device": _text(KEY_LENGTH, may_be_blank=True),
        "app": _KEY,
        "duration_ms": _whole(0, _LONGEST_DAY_MS),
        "counted_at": _instant,
        "name": _NAME,
        "last_used_at": _instant,
    },
    # Ingest checks the values of sessions.
    records.AppSession: {"started_at": _instant, "ended_at": _instant},
    records.CodingSession: {"started_at": _instant, "ended_at": _instant},
}


def _is_optional(kind: type, field: str) -> bool:
    return type(None) in get_args(kind.__annotations__[field])


def _rules(kind: Any) -> tuple[tuple[int, Check], ...]:
    """Return the checks of a type of record, each with the place of its field."""
    rules = {"key": _KEY} | _RULES[kind]
    for field in ("type", "status", "kind", "state", "response"):
        choices = get_args(kind.__annotations__.get(field))
        texts = tuple(text for choice in choices for text in (get_args(choice) or (choice,)))
        if texts and all(isinstance(text, str) for text in texts if text is not type(None)):
            rules.setdefault(field, _one_of(texts))
    return tuple(
        (place, _optional(rules[field]) if _is_optional(kind, field) else rules[field])
        for place, field in enumerate(kind._fields)
        if field in rules
    )


_CHECKS: Final = {kind: _rules(kind) for kind in _RULES}


def _ends_after_start(record: Any) -> str | None:
    return "ends_before_start" if record.ended_at < record.started_at else None


def _sample(record: records.Sample) -> str | None:
    if record.ended_at < record.started_at:
        return "ends_before_start"
    return "lasts_too_long" if record.ended_at - record.started_at > _LONGEST_SAMPLE else None


def _sleep(record: records.Sleep) -> str | None:
    return "ends_before_start" if record.ended_at <= record.started_at else None


def _open_end(record: Any) -> str | None:
    return None if record.ended_at is None else _ends_after_start(record)


def _place_event(record: records.PlaceEvent) -> str | None:
    if record.type == "check_in" and record.status != "confirmed":
        return "invalid_value"
    return _open_end(record)


def _calendar_event(record: records.CalendarEvent) -> str | None:
    if record.ends_at < record.starts_at:
        return "ends_before_start"
    has_both = (record.start_date is None) == (record.end_date is None)
    return None if has_both else "invalid_value"


_ACTIONS: Final = {
    "commit": ("pushed",),
    "pull_request": ("opened", "merged", "closed", "reopened"),
    "review": ("approved", "changes_requested", "commented", "dismissed"),
}


def _code_event(record: records.CodeEvent) -> str | None:
    return None if record.action in _ACTIONS[record.type] else "invalid_value"


def _is_usual_sample(record: records.Sample) -> bool:
    key, metric, started, ended, value, sensor, offset, is_total = record
    try:
        return (
            type(value) in _NUMBERS
            and (1e-15 <= value <= 1e15 or value == 0)
            and metric in METRICS
            and type(key) is str
            and key.isprintable()
            and not key.isspace()
            and 0 < len(key) <= KEY_LENGTH
            and FIRST <= started <= ended < LAST
            and ended - started <= _LONGEST_SAMPLE
            and offset is None
            and is_total is False
            and sensor in _GOOD_SENSORS
        )
    except TypeError:
        return False


def _is_usual_heart_rate(record: records.HeartRate) -> bool:
    key, at, bpm, sensor, intervals, contact = record
    try:
        return (
            type(bpm) is int
            and 1 <= bpm <= 400
            and type(key) is str
            and key.isprintable()
            and not key.isspace()
            and 0 < len(key) <= KEY_LENGTH
            and FIRST <= at < LAST
            and intervals == ()
            and contact is None
            and sensor in _GOOD_SENSORS
        )
    except TypeError:
        return False


def _is_usual_point(record: records.Point) -> bool:
    key, at, latitude, longitude, accuracy, altitude, deviation, speed, course, *rest = record
    battery, activity, device, platform = rest
    try:
        return (
            type(key) is str
            and key.isprintable()
            and not key.isspace()
            and 0 < len(key) <= KEY_LENGTH
            and FIRST <= at < LAST
            and type(latitude) is float
            and -90 <= latitude <= 90
            and type(longitude) is float
            and -180 <= longitude <= 180
            and (accuracy is None or (type(accuracy) in _NUMBERS and 0 <= accuracy <= 1e8))
            and (altitude is None or (type(altitude) in _NUMBERS and -1e8 <= altitude <= 1e8))
            and (deviation is None or (type(deviation) in _NUMBERS and 0 <= deviation <= 1e8))
            and (speed is None or (type(speed) in _NUMBERS and 0 <= speed <= 1e6))
            and (course is None or (type(course) in _NUMBERS and 0 <= course <= 360))
            and battery is None
            and (activity, device, platform) in _GOOD_NAMES
        )
    except TypeError:
        return False


# A record that waits for the check of columns holds no long text.


def _has_usual_texts(record: records.Point) -> bool:
    try:
        return len(record[0]) <= KEY_LENGTH and record[-3:] in _GOOD_NAMES
    except TypeError:
        return False


def _sample_has_usual_texts(record: records.Sample) -> bool:
    try:
        return (
            len(record[0]) <= KEY_LENGTH
            and record[1] in METRICS
            and record[5] in _GOOD_SENSORS
            and record[6] is None
            and record[7] is False
        )
    except TypeError:
        return False


def _heart_rate_has_usual_texts(record: records.HeartRate) -> bool:
    try:
        return (
            len(record[0]) <= KEY_LENGTH
            and record[3] in _GOOD_SENSORS
            and record[4] == ()
            and record[5] is None
        )
    except TypeError:
        return False


_MEASURES_OF_POINTS: Final = ((0.0, 1e8), (-1e8, 1e8), (0.0, 1e8), (0.0, 1e6), (0.0, 360.0))
"""The least and the most of accuracy, altitude, its deviation, speed and course."""


def _are_usual_keys(keys: Sequence[str]) -> bool:
    joined = "".join(keys)
    return (
        joined.isprintable()
        and all(keys)
        # The only printable character that is white space.
        and not (" " in joined and any(map(str.isspace, keys)))
    )


def _are_usual_samples(rows: Sequence[records.Sample]) -> bool:
    keys, _, starts, ends, numbers, *_ = zip(*rows, strict=True)
    try:
        lengths = list(map(sub, ends, starts))
        return (
            _are_usual_keys(keys)
            and min(starts) >= FIRST
            and max(ends) < LAST
            and min(lengths) >= timedelta(0)
            and max(lengths) <= _LONGEST_SAMPLE
            and _are_between(0, 1e15, numbers, _NUMBERS)
            and min(filter(None, numbers), default=1) >= 1e-15
        )
    except TypeError:
        return False


def _are_usual_heart_rates(rows: Sequence[records.HeartRate]) -> bool:
    keys, ats, rates, *_ = zip(*rows, strict=True)
    try:
        return (
            _are_usual_keys(keys)
            and FIRST <= min(ats) <= max(ats) < LAST
            and _are_between(1, 400, rates, _INTEGERS)
        )
    except TypeError:
        return False


def _are_usual_points(rows: Sequence[records.Point]) -> bool:
    keys, ats, latitudes, longitudes, *measures = tuple(zip(*rows, strict=True))[:9]
    try:
        return (
            _are_usual_keys(keys)
            and FIRST <= min(ats) <= max(ats) < LAST
            and _are_between(-90, 90, latitudes, _FLOATS)
            and _are_between(-180, 180, longitudes, _FLOATS)
            and all(
                _are_between(low, high, [n for n in column if n is not None], _NUMBERS)
                for (low, high), column in zip(_MEASURES_OF_POINTS, measures, strict=True)
                if column.count(None) < len(column)
            )
            and all(row[9] is None for row in rows)
        )
    except TypeError:
        return False


def _are_between(low: float, high: float, column: Sequence[Any], types: frozenset[type]) -> bool:
    return (
        types.issuperset(map(type, column))
        and low <= min(column)
        and max(column) <= high
        # Beside a number that is none, the least and the most depend on the order.
        and not isnan(sum(column))
    )


QUICK: Final[dict[type, Callable[[Any], bool]]] = {
    records.Sample: _is_usual_sample,
    records.HeartRate: _is_usual_heart_rate,
    records.Point: _is_usual_point,
}
"""Whether a record is as nearly all of its type, and can be written, in a few comparisons. A file can hold
millions of these types. Any other record is checked by the rules (``refusal``)."""
COLUMNS: Final[dict[type, tuple[Callable[[Any], bool], Callable[[Sequence[Any]], bool]]]] = {
    records.Sample: (_sample_has_usual_texts, _are_usual_samples),
    records.HeartRate: (_heart_rate_has_usual_texts, _are_usual_heart_rates),
    records.Point: (_has_usual_texts, _are_usual_points),
}
"""The same of many records at once, in half the time: whether the texts of one record are as usual, and then
whether all values of all of them are. Until then a record takes memory, but no more than usual ones."""


def _point(record: records.Point) -> None:
    """Note activity, device and platform, which passed the rules; a file has few of them."""
    if len(_GOOD_NAMES) < _MOST_NAMES:
        _GOOD_NAMES.add((record.activity, record.device, record.platform))


_ACROSS: Final[dict[type, Check]] = {
    records.Sample: _sample,
    records.Point: _point,
    records.Sleep: _sleep,
    records.Cycle: _open_end,
    records.PlaceEvent: _place_event,
    records.CalendarEvent: _calendar_event,
    records.CodeEvent: _code_event,
}
