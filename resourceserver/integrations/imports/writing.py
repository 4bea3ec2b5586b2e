"""Writing records: one writer for each type, each of which adds a batch in one statement or a few.

A statement gets its batch as a JSON array for each column, as ingest's do; of the types of which files have
millions, most columns are arrays of Postgres (``arrays``). Within a transaction types are written in the
order of ``WRITERS``, and rows in that of their keys, so that two imports of one person may wait for each
other, and never deadlock. Each writer says how many records were new and how many changed a row; all others
were known.

Which record wins where one comes again is said in the SQL files, with the reason.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from psycopg import errors

from resourceserver.derived import zones
from resourceserver.ingest import events, route
from resourceserver.ingest.events import APP_SESSIONS, CODING_SESSIONS, Stream
from resourceserver.integrations import records
from resourceserver.integrations.imports import arrays
from resourceserver.integrations.records import KEY_LENGTH, METRICS, Sensor, Title
from shared import queries

HERE: Final = Path(__file__).parent
SQL: Final = queries.load(
    *(
        HERE / f"{name}.sql"
        for name in ("activity", "code", "content", "health", "location", "music")
    )
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)

MOST_IDS: Final = 20_000
"""How many ids of what records refer to are kept in memory, about."""

UNNAMED: Final = ""
"""The source of sessions whose tracker sent no name."""

Rows = Sequence[Any]
"""Records of one type."""


class Written(NamedTuple):
    """What became of the records of a batch."""

    added: int
    """How many were new."""
    changed: int = 0
    """How many changed a row that was there."""
    refused: tuple[tuple[str, str], ...] = ()
    """Reason and example of each that was refused while it was written."""


@dataclass
class Target:
    """Whose rows are written, and what is known of them already."""

    connection: psycopg.Connection[Any]
    user_id: UUID
    import_id: UUID
    zone: ZoneInfo
    full_urls: bool
    is_current: bool = False
    """Whether records are as their source has them now; a file may be older than what is known."""
    ids: dict[str, dict[Any, UUID]] = field(default_factory=dict)
    """Ids of what records refer to, by its kind, source and name."""
    locked: dict[str, dict[Any, UUID]] = field(default_factory=dict)
    """The same of rows that the transaction has locked."""
    adds_at_once: bool = False
    """Whether records of frequent types may be written without a search for each key. Where another import
    adds the same ones at this moment, the database then refuses them all."""
    batches_to_look_up: dict[str, int] = field(default_factory=dict)
    """How many of the next batches of each frequent type have their keys looked up, since some were known."""
    touched: set[date] = field(default_factory=set)
    """Days of UTC whose visits and offsets have to be derived again."""

    def begin(self) -> None:
        """Forget the ids of locked rows, and all once they are many: memory is bounded, a file is not."""
        self.locked.clear()
        if sum(map(len, self.ids.values())) > MOST_IDS:
            self.ids.clear()

    def forget(self) -> None:
        """Forget all ids, after a transaction or a savepoint that was rolled back."""
        self.locked.clear()
        self.ids.clear()

    def execute(
        self, statement: str, source: str, /, **values: Any
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute one of SQL for rows of ``source``."""
        common = {"user_id": self.user_id, "import_id": self.import_id, "source": source}
        return self.connection.execute(SQL[statement], common | values)

    def mark_days(self) -> None:
        """Mark the days that were touched, all at once, so that two imports lock them in the same order."""
        if self.touched:
            self.connection.execute(
                SQL["mark_days"], {"user_id": self.user_id, "dates": list(self.touched)}
            )
            self.touched.clear()


_KNOWN_BATCHES: Final = 16
"""After a batch with known records, or one that was refused, the keys of so many are looked up."""


def _add_new(target: Target, source: str, kind: str, values: Mapping[str, Any]) -> bool:
    """Write records that are all new; return False if some may be known, and then write none."""
    if not target.adds_at_once:
        return False
    if left := target.batches_to_look_up.get(kind, 0):
        target.batches_to_look_up[kind] = left - 1
        return False
    # Set before the statement, since it also holds for a batch that the database refuses.
    target.batches_to_look_up[kind] = _KNOWN_BATCHES
    if not target.execute(f"add_new_{kind}", source, **values).rowcount:
        return False
    target.batches_to_look_up[kind] = 0
    return True


def _are_distinct(keys: Sequence[str]) -> bool:
    """Return whether no two records have one key."""
    return len(set(keys)) == len(keys)


Writer = Callable[[Target, str, Any], Written]
"""Takes records of one type as ``prepare`` returns them."""


class Prepared(NamedTuple):
    """Measurements or heart rates as their statement takes them, but for the ids of their sensors."""

    values: dict[str, Any]
    sensors: Sequence[Sensor]
    """What measured them, each once."""
    size: int
    are_distinct: bool
    """Whether no two have one key."""


compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def new_ids(count: int) -> list[bytes]:
    """Return new ids in the order in which they are written: UUIDs of version 7 (RFC 9562, section 5.7).

    An index on ids then grows at its end. Random ones would change a page of it for each row. ``count`` is at
    most 4,096.
    """
    start = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    end = b"\x80" + os.urandom(7)
    return [start + number + end for number in _NUMBERS[:count]]


_NUMBERS: Final = [(0x7000 + number).to_bytes(2, "big") for number in range(4096)]
"""The version, and the numbers of ids with one time."""


def instants(column: Iterable[datetime | None]) -> list[int | None]:
    """Return milliseconds since 1970."""
    return [None if at is None else (at - _EPOCH) // _MS for at in column]


def texts(column: Iterable[Sequence[str]]) -> list[str]:
    """Return arrays of texts as Postgres writes them."""
    return ["{" + ",".join(map(_quoted, each)) + "}" if each else "{}" for each in column]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def numbers(column: Iterable[Sequence[int]]) -> list[str | None]:
    """Return arrays of numbers as Postgres writes them, and None for an empty one."""
    return ["{" + ",".join(map(str, each)) + "}" if each else None for each in column]


def days(column: Iterable[Any]) -> list[str | None]:
    """Return dates as ISO 8601 writes them."""
    return [None if day is None else day.isoformat() for day in column]


_CONVERTERS: Final[Mapping[str, Callable[[Iterable[Any]], list[Any]]]] = {
    **dict.fromkeys(
        (
            *("listened_at", "started_at", "ended_at", "recorded_at", "watched_at"),
            *("starts_at", "ends_at", "updated_at", "occurred_at", "counted_at", "last_used_at"),
        ),
        instants,
    ),
    "artists": texts,
    "rr_intervals_ms": numbers,
    "date": days,
    "start_date": days,
    "end_date": days,
}


def _by_field(rows: Rows) -> dict[str, tuple[Any, ...]]:
    """Return the values of each field."""
    return dict(zip(rows[0]._fields, zip(*rows, strict=True), strict=True))


def columns(rows: Rows, skip: tuple[str, ...] = ()) -> dict[str, str]:
    """Return a JSON array for each field of ``rows`` but those of ``skip``, and one of new ids."""
    values = {
        name: _array(_CONVERTERS.get(name, list)(column))
        for name, column in _by_field(rows).items()
        if name not in skip
    }
    return values | {"id": compact([str(UUID(bytes=each)) for each in new_ids(len(rows))])}


_ARRAYS: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    **dict.fromkeys(("key", "metric_type", "utc_offset", "activity"), arrays.texts),
    **dict.fromkeys(("recorded_at", "started_at", "ended_at"), arrays.instants),
    **dict.fromkeys(
        (
            *("value", "latitude", "longitude", "accuracy_m", "altitude_m", "vertical_accuracy_m"),
            *("speed_mps", "course_deg"),
        ),
        arrays.doubles,
    ),
    **dict.fromkeys(("bpm", "battery_percent"), arrays.integers),
}
"""How the columns of frequent types are sent."""


def _frequent_columns(
    by_field: Mapping[str, tuple[Any, ...]], skip: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return what ``columns`` does, as arrays of Postgres where ``_ARRAYS`` has the name."""
    values: dict[str, Any] = {"id": arrays.ids(new_ids(len(by_field["key"])))}
    for name, column in by_field.items():
        if name in _ARRAYS:
            values[name] = _ARRAYS[name](column)
        elif name not in skip:
            values[name] = _array(_CONVERTERS.get(name, list)(column))
    return values


def _array(column: list[Any]) -> str:
    # A function with fewer rows than the others of its ``rows from`` has null in the remaining ones.
    return "[]" if column.count(None) == len(column) else compact(column)


def newest(rows: Rows) -> list[Any]:
    """Return the last record of each key, since a statement changes a row once."""
    return list({row.key: row for row in rows}.values())


def _places(values: Iterable[Any]) -> tuple[list[Any], list[int]]:
    """Return each value once, and for each of ``values`` its place among these, counted from 1."""
    values = list(values)
    known = {value: place for place, value in enumerate(dict.fromkeys(values), 1)}
    return list(known), [known[value] for value in values]


def counted(cursor: psycopg.Cursor[tuple[Any, ...]]) -> Written:
    """Count the rows of a statement that returns key and ``is_new``."""
    written = cursor.fetchall()
    added = sum(is_new for _, is_new in written)
    return Written(added, len(written) - added)


def add_listens(target: Target, source: str, rows: Rows) -> Written:
    """Write plays of tracks."""
    return Written(target.execute("add_listens", source, **columns(rows)).rowcount)


def sensor_ids(target: Target, source: str, sensors: Sequence[Sensor]) -> list[UUID]:
    """Return the ids of what measured, which is added where it is new."""
    known = target.locked.setdefault(f"sensor {source}", {})
    if any((sensor.name, sensor.device) not in known for sensor in sensors):
        given = [sensor._asdict() for sensor in sensors]
        target.execute("add_sensors", source, sensors=compact(given))
        names = [sensor.name for sensor in sensors]
        for source_id, name, device in target.execute("sensors", source, names=names):
            known[name, device] = source_id
    return _ids(known, [(sensor.name, sensor.device) for sensor in sensors])


def _ids(known: Mapping[Any, UUID], names: Sequence[Any]) -> list[UUID]:
    """Return the ids of these names. Raises ForeignKeyViolation where a row was removed meanwhile."""
    try:
        return [known[name] for name in names]
    except KeyError as error:
        raise errors.ForeignKeyViolation("what records refer to was removed") from error


def measured(target: Target, source: str, rows: Rows) -> dict[str, Any]:
    """Return what measured ``rows``, as a statement with JSON arrays takes it."""
    sensors, indexes = _places(row.sensor for row in rows)
    return {
        "sensor_ids": sensor_ids(target, source, sensors),
        "sensor": compact(indexes),
    }


def _prepare_heart_rates(rows: Rows) -> Prepared:
    """Return heart rates as their statement takes them."""
    return _prepare_measured(_by_field(rows))


def _prepare_measured(by_field: Mapping[str, tuple[Any, ...]]) -> Prepared:
    """Return heart rates, or measurements of which none is a total of a day."""
    sensors, indexes = _places(by_field["sensor"])
    values = _frequent_columns(by_field, skip=("sensor", "is_daily_total"))
    values["sensor"] = arrays.integers(indexes)
    return Prepared(values, sensors, len(indexes), _are_distinct(by_field["key"]))


class Samples(NamedTuple):
    """Measurements as their statements take them."""

    metrics: frozenset[str]
    plain: Prepared | None
    totals: Rows


def _prepare_samples(rows: Rows) -> Samples:
    """Return measurements as their statements take them."""
    by_field = _by_field(rows)
    metrics = frozenset(by_field["metric_type"])
    if not any(by_field["is_daily_total"]):
        return Samples(metrics, _prepare_measured(by_field), [])
    totals = [row for row in rows if row.is_daily_total]
    plain = [row for row in rows if not row.is_daily_total]
    return Samples(metrics, _prepare_measured(_by_field(plain)) if plain else None, totals)


def add_metrics(target: Target, source: str, names: frozenset[str]) -> None:
    """Write the metrics of measurements, as far as they are new."""
    known = target.ids.setdefault("metric", {})
    new = names - known.keys()
    if new:
        metrics = [
            {"metric_type": name, "unit": METRICS[name][0], "aggregation": METRICS[name][1]}
            for name in sorted(new)
        ]
        target.execute("add_metrics", source, metrics=compact(metrics))
        known.update(dict.fromkeys(new, target.import_id))


def add_samples(target: Target, source: str, samples: Samples) -> Written:
    """Write measurements, and totals of days."""
    add_metrics(target, source, samples.metrics)
    added = changed = 0
    if samples.plain is not None:
        added += _add_measured(target, source, "samples", samples.plain)
    if samples.totals:
        written = put_samples(target, source, samples.totals, is_growing=True)
        added, changed = added + written.added, written.changed
    return Written(added, changed)


def put_samples(target: Target, source: str, rows: Rows, *, is_growing: bool) -> Written:
    """Write measurements that come again with other values, after their metrics.

    ``is_growing``: they are sums that grow.
    """
    # As in the statement: the newest sum is the one that ends last, and of these the largest.
    in_time = sorted(rows, key=attrgetter("ended_at", "value")) if is_growing else rows
    chosen = newest(in_time)
    values = columns(chosen, skip=("sensor",)) | measured(target, source, chosen)
    return counted(target.execute("put_samples", source, is_growing=is_growing, **values))


def _add_measured(target: Target, source: str, kind: str, prepared: Prepared) -> int:
    values = prepared.values | {"sensor_ids": sensor_ids(target, source, prepared.sensors)}
    if prepared.are_distinct and _add_new(target, source, kind, values):
        return prepared.size
    return target.execute(f"add_{kind}", source, **values).rowcount


def add_heart_rates(target: Target, source: str, prepared: Prepared) -> Written:
    """Write heart rates."""
    return Written(_add_measured(target, source, "heart_rates", prepared))


def put_sleeps(target: Target, source: str, rows: Rows) -> Written:
    """Write sleeps, each with the recovery and the cycle that belong to it.

    Where a source does not say the offset, that of the profile's zone stands until one is derived.
    """
    rows = newest(rows)
    is_derived = [row.utc_offset is None for row in rows]
    rows = [
        row
        if row.utc_offset is not None
        else row._replace(utc_offset=zones.offset(target.zone.key, row.ended_at))
        for row in rows
    ]
    values = columns(rows, skip=("sensor", "recovery", "cycle")) | measured(target, source, rows)
    values["is_offset_derived"] = compact(is_derived)
    written = target.execute("put_sleeps", source, **values).fetchall()
    added = {key for key, is_new, _ in written if is_new}
    changed = {key for key, _, _ in written}
    target.touched.update(day for _, _, day in written if day is not None)
    for name, statement in (("recovery", "put_recoveries"), ("cycle", "put_cycles")):
        keyed = [(row.key, getattr(row, name)) for row in rows if getattr(row, name) is not None]
        if keyed:
            values = columns([each for _, each in keyed]) | {"key": compact([k for k, _ in keyed])}
            changed |= {key for (key,) in target.execute(statement, source, **values)}
    return Written(len(added), len(changed - added))


class Points(NamedTuple):
    """Points as their statement takes them."""

    values: dict[str, Any]
    platforms: dict[str | None, str | None]
    """That of each device, in the order in which the points name devices; None is no device."""
    size: int
    are_distinct: bool
    """Whether no two have one key."""
    days: frozenset[date]
    """Their days of UTC."""


def _prepare_points(rows: Rows) -> Points:
    """Return points as their statement takes them."""
    by_field = _by_field(rows)
    devices = by_field["device"]
    _, indexes = _places(devices)
    values = _frequent_columns(by_field, skip=("device", "platform")) | {
        "device": arrays.integers(indexes),
        "timezone": arrays.texts(
            list(map(zones.zone, by_field["latitude"], by_field["longitude"]))
        ),
    }
    days = {(at - _EPOCH).days for at in by_field["recorded_at"]}
    return Points(
        values,
        dict(zip(devices, by_field["platform"], strict=True)),
        len(rows),
        _are_distinct(by_field["key"]),
        frozenset(_EPOCH.date() + timedelta(days=day) for day in days),
    )


def add_points(target: Target, source: str, points: Points) -> Written:
    """Write where the person was."""
    names = list(points.platforms)
    known = target.locked.setdefault("location device", {None: None})  # type: ignore[dict-item] # no device
    new = [name for name in names if name not in known]
    if new:
        platforms = [points.platforms[name] for name in new]
        target.execute("add_location_devices", source, names=new, platforms=platforms)
        for device_id, name in target.execute("location_devices", source, names=new):
            known[name] = device_id
    values = points.values | {"device_ids": _ids(known, names)}
    if points.are_distinct and _add_new(target, source, "points", values):
        target.touched.update(points.days)
        return Written(points.size)
    added, touched = target.execute("add_points", source, **values).fetchone() or (0, None)
    target.touched.update(touched or ())
    return Written(added)


def _parents(
    target: Target, source: str, kind: str, statements: tuple[str, str], rows: Rows
) -> dict[str, UUID]:
    """Return the ids of what records refer to, by key; new and changed rows are written first."""
    seen = target.ids.setdefault(f"{kind} {source} seen", {})
    known = target.ids.setdefault(f"{kind} {source}", {})
    new = [row for row in newest(rows) if row not in seen]
    if new:
        put, find = statements
        target.execute(put, source, **columns(new, skip=("genres",)))
        keys = [row.key for row in new]
        for row_id, key in target.execute(find, source, keys=keys):
            known[key] = row_id
        seen.update({row: known[row.key] for row in new})
    return known


def put_place_events(target: Target, source: str, rows: Rows) -> Written:
    """Write check-ins and visits, and their places."""
    rows = newest(rows)
    known = _parents(target, source, "place", ("put_places", "places"), [r.place for r in rows])
    keys, indexes = _places(row.place.key for row in rows)
    values = columns(rows, skip=("place",)) | {
        "place_ids": [known[key] for key in keys],
        "place": compact(indexes),
    }
    written = target.execute("put_place_events", source, **values).fetchall()
    target.touched.update(*(touched for _, _, touched in written))
    added = sum(is_new for _, is_new, _ in written)
    return Written(added, len(written) - added)


class _KeyedTitle(NamedTuple):
    """A title, whose key is what it is called."""

    key: str
    kind: str
    name: str
    genres: tuple[str, ...]


def add_plays(target: Target, source: str, rows: Rows) -> Written:
    """Write what was watched, and its titles with their genres."""
    keyed = [_KeyedTitle(_title_key(row.title), *row.title) for row in rows]
    known = _parents(target, source, "title", ("add_titles", "titles"), keyed)
    genres = target.ids.setdefault(f"genre {source}", {})
    pairs = {(known[title.key], genre) for title in keyed for genre in title.genres} - genres.keys()
    if pairs:
        target.execute(
            "add_genres",
            source,
            title_id=compact([str(title_id) for title_id, _ in pairs]),
            genre=compact([genre for _, genre in pairs]),
        )
        genres.update({pair: pair[0] for pair in pairs})
    added = changed = 0
    for is_of_a_day in (False, True):
        pairs_of_kind = [
            (row, title.key)
            for row, title in zip(rows, keyed, strict=True)
            if row.is_of_a_day is is_of_a_day
        ]
        if not pairs_of_kind:
            continue
        keys, indexes = _places(key for _, key in pairs_of_kind)
        values = columns([row for row, _ in pairs_of_kind], skip=("title", "is_of_a_day")) | {
            "title_ids": [known[key] for key in keys],
            "title": compact(indexes),
        }
        if is_of_a_day:
            added += target.execute("add_plays_of_days", source, **values).rowcount
        else:
            given = target.execute("give_times", source, **values, zone=target.zone.key)
            changed += given.rowcount
            added += target.execute("add_plays", source, **values).rowcount
    return Written(added, changed)


def _title_key(title: Title) -> str:
    """Return what a title is known by: its name, or the digest of one that is longer than a key."""
    key = f"{title.kind}:{title.name}"
    return (
        key if len(key) <= KEY_LENGTH else f"{title.kind}:{sha256(title.name.encode()).hexdigest()}"
    )


def put_calendar_events(target: Target, source: str, rows: Rows) -> Written:
    """Write events, and their calendars."""
    # As in the statement: an event that says that it is older changes nothing.
    latest: dict[str, records.CalendarEvent] = {}
    for row in rows:
        before = latest.setdefault(row.key, row).updated_at
        if before is None or row.updated_at is None or before <= row.updated_at:
            latest[row.key] = row
    rows = list(latest.values())
    calendars = [row.calendar for row in rows]
    known = _parents(target, source, "calendar", ("put_calendars", "calendars"), calendars)
    keys, indexes = _places(calendar.key for calendar in calendars)
    values = columns(rows, skip=("calendar",)) | {
        "calendar_ids": [known[key] for key in keys],
        "calendar": compact(indexes),
    }
    return counted(
        target.execute("put_calendar_events", source, **values, is_current=target.is_current)
    )


def put_recordings(target: Target, source: str, rows: Rows) -> Written:
    """Write recordings with their transcripts."""
    rows = newest(rows)
    status = [row.status or ("none" if row.transcript is None else "ready") for row in rows]
    segments = [compact([part._asdict() for part in row.segments]) for row in rows]
    values = columns(rows, skip=("segments", "status")) | {
        "transcript_status": compact(status),
        "transcript_segments": compact(segments),
    }
    return counted(target.execute("put_recordings", source, **values))


def put_code_events(target: Target, source: str, rows: Rows) -> Written:
    """Write what happened in repositories."""
    return counted(target.execute("put_code_events", source, **columns(newest(rows))))


def add_app_sessions(target: Target, source: str, rows: Rows) -> Written:
    """Write app sessions as ingest does."""
    return _add_sessions(target, source, APP_SESSIONS, rows)


def add_coding_sessions(target: Target, source: str, rows: Rows) -> Written:
    """Write coding sessions as ingest does."""
    return _add_sessions(target, source, CODING_SESSIONS, rows)


def put_screen_times(target: Target, source: str, rows: Rows) -> Written:
    """Write for how long applications were in use on days."""
    # As in the statement: the one that was counted last.
    rows = newest(sorted(rows, key=attrgetter("counted_at")))
    return counted(target.execute("put_screen_times", source, **columns(rows)))


_EVENT_NAMES: Final = {"key": "idempotency_key", "is_idle": "idle"}


def _event(row: Any) -> dict[str, Any]:
    """Return a session as the event that a tracker would send."""
    event = {
        _EVENT_NAMES.get(name, name): value
        for name, value in zip(row._fields, row, strict=True)
        if value is not None
    }
    return event | {"started_at": row.started_at.isoformat(), "ended_at": row.ended_at.isoformat()}


def _add_sessions(target: Target, source: str, stream: Stream, rows: Rows) -> Written:
    """Write sessions by ingest's checks and statements, so that rollups and summaries stay true."""
    verdict = events.judge(
        stream,
        events.Batch([_event(row) for row in rows], "default", source),
        now_ms=time.time_ns() // 1_000_000,
        full_urls=target.full_urls,
    )
    refused = [(each["code"], example(rows[each["index"]])) for each in verdict.rejected]
    if not verdict.rows:
        return Written(0, refused=tuple(refused))
    values: dict[str, Any] = route.columns_of(stream, verdict.rows) | {
        "user_id": target.user_id,
        "source": source[: events.MAX_SOURCE] or None,
        "import_id": target.import_id,
        "most_devices": events.MAX_DEVICES,
        "stream": stream.name,
    }
    target.connection.execute(_ingest("lock_new_devices"), values)
    beyond = {name for (name,) in target.connection.execute(_ingest("add_devices"), values)}
    # Before the new ones are added, which are as long as they are.
    longer = {key for (key,) in target.connection.execute(SQL[f"lengthen_{stream.name}"], values)}
    new = {key for (key,) in target.connection.execute(_ingest(f"add_{stream.name}"), values)}
    kept = [row for row in verdict.rows if row["device"] not in beyond]
    closed = target.connection.execute(_ingest("closed_before"), values).fetchone()
    old = [] if closed is None else route.too_old(verdict.rows, new, beyond, closed[0])
    refused += [
        ("timestamp_out_of_range", example(rows[index])) for row in old for index in row["indexes"]
    ]
    refused += [
        ("too_many_devices", example(rows[index]))
        for row in verdict.rows
        if row["device"] in beyond
        for index in row["indexes"]
    ]
    values |= route.consequences(kept, new, longer)
    target.connection.execute(_ingest("mark_days"), values)
    target.connection.execute(SQL["count_sessions"], values)
    return Written(len(new), len(longer), refused=tuple(refused))


_INGEST: Final = queries.load(Path(route.__file__).with_name("ingest.sql"))


def _ingest(name: str) -> Any:
    return _INGEST[name]


EXAMPLE: Final = 200
"""Most characters of an example."""


def example(record: Any) -> str:
    """Return the beginning of a record as text, by which the person finds it in the file."""
    parts = (
        f"{name}={value.isoformat() if isinstance(value, datetime) else value}"
        for name, value in zip(record._fields, record, strict=True)
        if name != "key" and value not in (None, "", ())
    )
    return ", ".join(parts)[:EXAMPLE]


WRITERS: Final[dict[type, Writer]] = {
    records.Listen: add_listens,
    records.Sample: add_samples,
    records.HeartRate: add_heart_rates,
    records.Sleep: put_sleeps,
    records.Point: add_points,
    records.PlaceEvent: put_place_events,
    records.Play: add_plays,
    records.CalendarEvent: put_calendar_events,
    records.Recording: put_recordings,
    records.CodeEvent: put_code_events,
    records.AppSession: add_app_sessions,
    records.CodingSession: add_coding_sessions,
    records.ScreenTime: put_screen_times,
}

FREQUENT: Final[dict[type, Callable[[Rows], Any]]] = {
    records.Sample: _prepare_samples,
    records.HeartRate: _prepare_heart_rates,
    records.Point: _prepare_points,
}
"""The types of which files have millions, each with what prepares its records."""


def prepare(kind: type, rows: Rows) -> Any:
    """Return records as their writer takes them.

    Of the frequent types, this is what needs no database: the thread that reads does it, since the one that
    writes holds up the import. All other types are taken as they are.
    """
    preparer = FREQUENT.get(kind)
    return rows if preparer is None else preparer(rows)


_STARTS: Final = (
    "listened_at",
    "recorded_at",
    "started_at",
    "watched_at",
    "starts_at",
    "occurred_at",
    "date",
)

PLACES: Final[dict[type, int]] = {
    kind: next(place for place, name in enumerate(kind.__annotations__) if name in _STARTS)
    for kind in WRITERS
}
"""The place of the field with the instant, or the day, of each type of record."""
