"""Apple Health's export: `export.xml` in `export.zip`.

Exports can be a gigabyte of millions of elements, so the reader gets its events from expat directly and
does little for each. Some versions of iOS write a document type declaration that no parser accepts, and
control characters that XML forbids; both are cut out of the stream, so no entity is ever declared.

The offset of Apple's times is that of the phone's zone at the export, not at the recording, and says
nothing of where the person was: samples have none, and a sleep has that of its metadata, if there is any.

What is left out because something else in the file says it already: summaries of days, and records within
a correlation, which stand at the top level too.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final, Literal, NamedTuple
from xml.parsers import expat
from zoneinfo import ZoneInfo

from resourceserver.integrations import sleep_stages, units, values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.reading import text, utc_offset
from resourceserver.integrations.records import (
    HeartRate,
    Record,
    Refused,
    Sample,
    Sensor,
    Sleep,
)
from resourceserver.integrations.sleep_stages import Stage
from resourceserver.integrations.values import Flaw
from resourceserver.integrations.xml_stream import TAG_LENGTH

CHUNK_LENGTH: Final = 256 * 1024
DECLARATION_LENGTH: Final = 1024 * 1024
"""Most characters before and in the document type declaration."""
REFERENCE_LENGTH: Final = 12
"""Most characters of a reference to a character."""
STAGES_HELD: Final = 100_000
"""How many parts of sleeps wait to be joined: some eight years of a watch."""
SENSORS_HELD: Final = 10_000

_QUANTITY: Final = "HKQuantityTypeIdentifier"
_FRACTION: Final = {"%": 100.0}
"""Apple writes a percentage as a part of 1."""
_METRICS: Final[dict[str, tuple[str, units.Units]]] = {
    f"{_QUANTITY}StepCount": ("steps", units.COUNT),
    f"{_QUANTITY}DistanceWalkingRunning": ("distance_m", units.LENGTH),
    f"{_QUANTITY}DistanceCycling": ("cycling_distance_m", units.LENGTH),
    f"{_QUANTITY}DistanceSwimming": ("swimming_distance_m", units.LENGTH),
    f"{_QUANTITY}FlightsClimbed": ("floors", units.COUNT),
    f"{_QUANTITY}ActiveEnergyBurned": ("active_energy_kj", units.ENERGY),
    f"{_QUANTITY}BasalEnergyBurned": ("basal_energy_kj", units.ENERGY),
    f"{_QUANTITY}DietaryEnergyConsumed": ("dietary_energy_kj", units.ENERGY),
    f"{_QUANTITY}AppleExerciseTime": ("exercise_ms", units.TIME),
    f"{_QUANTITY}AppleStandTime": ("stand_ms", units.TIME),
    f"{_QUANTITY}TimeInDaylight": ("daylight_ms", units.TIME),
    f"{_QUANTITY}DietaryWater": ("water_ml", units.VOLUME),
    f"{_QUANTITY}BodyMass": ("weight_kg", units.MASS),
    f"{_QUANTITY}Height": ("height_m", units.LENGTH),
    f"{_QUANTITY}BodyMassIndex": ("body_mass_index", units.COUNT),
    f"{_QUANTITY}BodyFatPercentage": ("body_fat_percent", _FRACTION),
    f"{_QUANTITY}LeanBodyMass": ("lean_body_mass_kg", units.MASS),
    f"{_QUANTITY}OxygenSaturation": ("blood_oxygen_percent", _FRACTION),
    f"{_QUANTITY}BloodPressureSystolic": ("blood_pressure_systolic_mmhg", units.PRESSURE),
    f"{_QUANTITY}BloodPressureDiastolic": ("blood_pressure_diastolic_mmhg", units.PRESSURE),
    f"{_QUANTITY}BloodGlucose": ("blood_glucose_mmol_per_l", units.GLUCOSE),
    f"{_QUANTITY}BodyTemperature": ("body_temperature_c", units.TEMPERATURE),
    f"{_QUANTITY}RespiratoryRate": ("respiratory_rate_bpm", units.RATE),
    f"{_QUANTITY}RestingHeartRate": ("resting_heart_rate_bpm", units.RATE),
    f"{_QUANTITY}WalkingHeartRateAverage": ("walking_heart_rate_bpm", units.RATE),
    f"{_QUANTITY}HeartRateVariabilitySDNN": ("hrv_sdnn_ms", units.TIME),
    f"{_QUANTITY}VO2Max": ("vo2_max", units.OXYGEN_UPTAKE),
    f"{_QUANTITY}WalkingSpeed": ("walking_speed_mps", units.SPEED),
    f"{_QUANTITY}EnvironmentalAudioExposure": ("environmental_sound_db", units.SOUND),
    f"{_QUANTITY}HeadphoneAudioExposure": ("headphone_sound_db", units.SOUND),
}
"""The metric of each type, and the factor from each unit to that of the metric."""
_PARTS_OF_MEALS: Final = frozenset({"dietary_energy_kj", "water_ml"})
"""Metrics of which a source writes several values for one time: one for each food or drink of a meal."""
_RATE: Final = "heart_rate"
_STAGE: Final = "sleep_stage"
"""These two are no metrics: their records are not samples."""
_TYPES: Final[dict[str, tuple[str, units.Units]]] = {
    **_METRICS,
    f"{_QUANTITY}HeartRate": (_RATE, units.RATE),
    "HKCategoryTypeIdentifierSleepAnalysis": (_STAGE, {}),
    "HKCategoryTypeIdentifierMindfulSession": ("mindful_ms", {}),
}
"""All types that are read; categories have no units."""
_NO_TYPE: Final[tuple[str, units.Units]] = ("", {})
_SLEEP_VALUE: Final = "HKCategoryValueSleepAnalysis"
_READ: Final = ("type", "startDate", "endDate", "value", "unit", "sourceName", "device")
"""The attributes of a record that are read."""

_FORBIDDEN: Final = bytes(each for each in range(32) if each not in b"\t\n\r")
_FORBIDDEN_REFERENCE: Final = re.compile(
    rb"&#(?:0*(?:[0-8]|1[124-9]|2\d|3[01])|x0*(?:[0-8bcefBCEF]|1[0-9a-fA-F]));"
)
_HARDWARE: Final = re.compile(r"\bhardware:(.+?)(?:, \w+( \w+)?:|>|$)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INFINITY: Final = math.inf
_parse: Final = datetime.fromisoformat
_new: Final = tuple.__new__
"""Makes a record of all its values in half the time of its type."""
_ROOT: Final = re.compile(r"<!DOCTYPE\s+HealthData|<HealthData[\s>/]")


class _Source(NamedTuple):
    sensor: Sensor
    key: str
    """How keys name it: by the name that the person sees, for Apple exports no id of it."""


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    parser = expat.ParserCreate("utf-8")
    export = _Export(parser)
    # Half the time of making dictionaries.
    parser.ordered_attributes = True
    parser.StartElementHandler = export.start
    parser.StartDoctypeDeclHandler = _refuse_declaration
    fed = 0
    try:
        for chunk in _clean(file):
            parser.Parse(chunk, False)
            yield from export.take()
            fed += len(chunk)
            # The parser keeps a tag that does not end, and begins it anew with each chunk.
            if fed - parser.CurrentByteIndex > TAG_LENGTH:
                raise Unreadable("a tag is too long")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        yield from export.take()
        yield from export.sleeps(is_cut_off=True)
        raise Unreadable(f"the file is no XML from here on: {error}") from error
    yield from export.take()
    yield from export.sleeps()


def _refuse_declaration(*_: object) -> None:
    raise Unreadable("the file has a second document type declaration")


def _clean(file: File) -> Iterator[bytes]:
    """Yield the file as UTF-8, without its document type declaration and what XML forbids."""
    with text(file) as stream:
        start = stream.read(CHUNK_LENGTH)
        if not start.strip():
            raise Unreadable("the file is empty")
        rest = _without_declaration(start, stream.read)
        while rest:
            more = stream.read(CHUNK_LENGTH)
            # A reference to a character that this chunk cuts in two goes to the next one.
            cut = rest.rfind("&", -REFERENCE_LENGTH) if more else -1
            whole, rest = (rest, more) if cut < 0 else (rest[:cut], rest[cut:] + more)
            chunk = whole.encode()
            # Looking for each of them takes half the time of taking them out, and nearly no file has any.
            if any(map(chunk.__contains__, _FORBIDDEN)):
                chunk = chunk.translate(None, _FORBIDDEN)
            # Nearly all have a "&" and no "#", which is found faster.
            if b"#" in chunk:
                chunk = _FORBIDDEN_REFERENCE.sub(b"", chunk)
            yield chunk


def _without_declaration(start: str, read: Callable[[int], str]) -> str:
    opening = re.search(r"<!DOCTYPE\s+HealthData\s*(\[|>)", start)
    if opening is None:
        return start
    if opening.group(1) == ">":
        return start[: opening.start()] + start[opening.end() :]
    while "]>" not in start:
        more = read(CHUNK_LENGTH)
        if not more or len(start) > DECLARATION_LENGTH:
            raise Unreadable("the document type declaration does not end")
        start += more
    return start[: opening.start()] + start[start.index("]>") + 2 :]


class _Export:
    """What the elements of an export say. Each is looked at when it begins."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        self._found: list[Record | Refused] = []
        self._sources: dict[tuple[str, str], _Source] = {}
        self._stages: dict[_Source, list[Stage]] = {}
        self._stage_count = 0
        self._names: list[str] = []
        self._pick = _picker(self._names)
        """Returns the attributes that are read of an element with these names, "" for one that is missing."""
        self._epochs: dict[str, datetime] = {}
        """The local time of 1970-01-01T00:00:00Z at each offset, by the end of a time that has it."""
        self._last_stage: list[Stage] | None = None
        """The stages of which the last one is the latest element of type Record."""

    def take(self) -> list[Record | Refused]:
        """Return what was found since the last time."""
        found, self._found = self._found, []
        return found

    def start(self, name: str, given: list[str]) -> None:
        """Read an element of XML by its name, and by its attributes: a name, its value, the next name, ..."""
        if name == "Record":
            self._last_stage = None
            try:
                self._record(given)
            except Flaw as flaw:
                self._found.append(values.refused(flaw, _members(given)))
        elif name == "MetadataEntry":
            if self._last_stage and "HKTimeZone" in given:
                entry = _members(given)
                if entry.get("key") == "HKTimeZone":
                    self._last_stage[-1] = self._last_stage[-1]._replace(zone=entry.get("value"))
        elif name == "Correlation":
            # Only here are ends of elements looked at: a call for each would take a tenth of all time.
            self._parser.StartElementHandler = None
            self._parser.EndElementHandler = self._end
        elif name == "Workout":
            self._found.append(values.refused(Flaw("workouts_are_not_kept"), _members(given)))

    def _end(self, name: str) -> None:
        if name == "Correlation":
            self._parser.StartElementHandler = self.start
            self._parser.EndElementHandler = None

    def _record(self, given: list[str]) -> None:
        # A file has millions of these, so what nearly all of them need is done here, without further calls.
        if given[::2] != self._names:
            self._names = given[::2]
            self._pick = _picker(self._names)
        kind, start, end, written, unit, name, device = self._pick(given)
        metric, factors = _TYPES.get(kind, _NO_TYPE)
        if not metric:
            raise Flaw("type_is_not_kept")
        try:
            start_delta = _parse(start[:19]) - self._epochs[start[19:]]
            end_delta = start_delta if start == end else _parse(end[:19]) - self._epochs[end[19:]]
            started_at = _EPOCH + start_delta
            ended_at = started_at if start == end else _EPOCH + end_delta
        except (KeyError, TypeError, ValueError, OverflowError):
            started_at, ended_at = self._instant(start), self._instant(end)
            start_delta, end_delta = started_at - _EPOCH, ended_at - _EPOCH
        # The device begins with an address in memory, which differs from one record to the next.
        named = (name, device.partition(",")[2])
        source = self._sources.get(named)
        if source is None:
            source = self._add_source(named)
        if not factors:
            self._category(metric, written, started_at, ended_at, source)
            return
        sensor, source_key = source
        try:
            value = float(written)
        except ValueError as error:
            raise Flaw("value_is_no_number") from error
        if not -_INFINITY < value < _INFINITY:
            raise Flaw("value_is_no_number")
        # Apple writes whole seconds.
        start_s = start_delta.days * 86_400 + start_delta.seconds
        if metric == _RATE:
            bpm = value * factors.get(unit, 1)
            if not -_INFINITY < bpm < _INFINITY:
                raise Flaw("value_is_no_number")
            rate = (f"{start_s}:{source_key}", started_at, round(bpm), sensor, (), None)
            self._found.append(_new(HeartRate, rate))
            return
        if factors.get(unit) != 1:
            value = units.convert(value, unit, factors)
        end_s = end_delta.days * 86_400 + end_delta.seconds
        key = f"{metric}:{start_s}:{end_s}:{source_key}"
        if metric in _PARTS_OF_MEALS:
            # Six digits are equal in exports with different units.
            key = f"{key}:{value:.6g}"
        sample = (key, metric, started_at, ended_at, value, sensor, None, False)
        self._found.append(_new(Sample, sample))

    def _category(
        self, metric: str, value: str, started_at: datetime, ended_at: datetime, source: _Source
    ) -> None:
        if metric == _STAGE:
            self._stage(value, started_at, ended_at, source)
            return
        start_s, end_s = int(started_at.timestamp()), int(ended_at.timestamp())
        key = f"{metric}:{start_s}:{end_s}:{source.key}"
        lasted_ms = (ended_at - started_at) / timedelta(milliseconds=1)
        self._found.append(Sample(key, metric, started_at, ended_at, lasted_ms, source.sensor))

    def _instant(self, written: str) -> datetime:
        """Return the instant of a time such as ``2018-09-10 02:28:55 -0700``. Raises Flaw."""
        try:
            parsed = datetime.fromisoformat(written[:19] + written[19:].replace(" ", ""))
        except (ValueError, OverflowError) as error:
            raise Flaw("invalid_time" if written else "missing_time") from error
        if parsed.tzinfo is None:
            raise Flaw("time_without_offset")
        instant = values.utc(parsed)
        if len(written) == 25 and len(self._epochs) < 100:
            self._epochs[written[19:]] = datetime(1970, 1, 1) + (parsed.utcoffset() or timedelta(0))  # noqa: DTZ001 # a local time
        return instant

    def _add_source(self, named: tuple[str, str]) -> _Source:
        if len(self._sources) == SENSORS_HELD:
            self._sources.clear()
        source = self._sources[named] = _source(*named)
        return source

    def _stage(self, value: str, started_at: datetime, ended_at: datetime, source: _Source) -> None:
        kind = value.removeprefix(_SLEEP_VALUE)
        if kind not in sleep_stages.KINDS:
            if not kind.startswith("Asleep"):
                raise Flaw("unknown_stage_of_sleep")
            kind = sleep_stages.UNKNOWN_DEPTH
        if ended_at <= started_at:
            raise Flaw("ends_before_it_starts")
        stages = self._stages.setdefault(source, [])
        stages.append(Stage(started_at, ended_at, kind))
        self._last_stage = stages
        self._stage_count += 1
        if self._stage_count > STAGES_HELD:
            self._found += self._ended_sleeps()
            self._last_stage = self._stages.get(source)

    def _ended_sleeps(self) -> list[Record | Refused]:
        """Return all sleeps but the one of each source to which its last stage belongs.

        Stages of that one may follow, so it is held on, as long as it leaves room for others.
        """
        ended: list[Record | Refused] = []
        held = {}
        for source, stages in self._stages.items():
            last = stages[-1]
            for group in sleep_stages.groups(stages):
                others = [each for each in group if each is not last]
                if len(others) == len(group):
                    ended.append(_sleep(source, group))
                else:
                    # The last stage stays at the end: its metadata may follow.
                    held[source] = [*others, last]
        self._stages = held
        self._stage_count = sum(map(len, held.values()))
        return ended if self._stage_count <= STAGES_HELD // 2 else ended + self.sleeps()

    def sleeps(self, *, is_cut_off: bool = False) -> list[Record | Refused]:
        """Return the sleeps of the stages that were held, which are held no longer.

        The sleep in which a file is cut off is refused: it would take the place of the whole one.
        """
        last = self._last_stage[-1] if is_cut_off and self._last_stage else None
        joined: list[Record | Refused] = [
            each for source, stages in self._stages.items() for each in _join(source, stages, last)
        ]
        self._stages = {}
        self._stage_count = 0
        self._last_stage = None
        return joined


def _picker(names: list[str]) -> Callable[[list[str]], tuple[str, ...]]:
    """Return what picks the values of ``_READ`` from attributes with these names."""
    places = {name: 2 * place + 1 for place, name in enumerate(names)}
    pick = itemgetter(*(places.get(name, -1) for name in _READ))
    return pick if places.keys() >= set(_READ) else lambda given: pick([*given, ""])


def _members(given: list[str]) -> dict[str, str]:
    return dict(zip(given[::2], given[1::2], strict=True))


def _source(name: str, device: str) -> _Source:
    # Apple writes names with no-break spaces.
    name = " ".join(name.replace("\0", "").split()) or "Apple Health"
    written = _HARDWARE.search(device)
    hardware = written.group(1) if written else None
    kind: Literal["watch", "phone", "other"] = "other"
    if "watch" in (hardware or name).lower():
        kind = "watch"
    elif "phone" in (hardware or name).lower():
        kind = "phone"
    key = name
    if len(name) > 80 or not name.isprintable():
        key = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return _Source(Sensor(name=name, device=hardware, kind=kind), key)


def _join(source: _Source, stages: list[Stage], last: Stage | None) -> Iterator[Sleep | Refused]:
    """Yield a sleep for each group of stages with no gap between them, without that of the last stage."""
    for group in sleep_stages.groups(stages):
        # The same object, not an equal one: another source can have slept alike.
        if any(each is last for each in group):
            yield _refused("sleep_is_cut_off", source, group)
        else:
            yield _sleep(source, group)


def _refused(reason: str, source: _Source, stages: list[Stage]) -> Refused:
    return Refused(reason, f"{source.sensor.name}, {stages[0].started_at:%Y-%m-%d}")


def _sleep(source: _Source, stages: list[Stage]) -> Sleep | Refused:
    joined = sleep_stages.sleep(stages, source.sensor, source.key)
    if joined is None:
        # A phone that lay beside the bed: how long the person slept, it does not know.
        return _refused("time_in_bed_without_sleep", source, stages)
    zone = next((each.zone for each in stages if each.zone), None)
    return joined._replace(utc_offset=_offset(zone, joined.ended_at))


def _offset(zone: str | None, at: datetime) -> str | None:
    if zone is None:
        return None
    try:
        offset = at.astimezone(ZoneInfo(zone)).utcoffset()
    except (KeyError, ValueError, OSError, OverflowError):
        return None
    return utc_offset(offset.total_seconds()) if offset is not None else None


def _recognise(head: Head) -> float:
    return 1.0 if _ROOT.search(head.text) else 0.0


APPLE_HEALTH: Final = Format(
    name="apple_health",
    title="Apple Health export",
    source="apple_health",
    records=(Sample, HeartRate, Sleep),
    recognise=_recognise,
    read=_read,
)
