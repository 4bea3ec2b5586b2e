"""Health Auto Export for iOS: its JSON, in the versions 1 and 2.

A value stands for the interval that begins at its time: a minute, an hour or a day, as the person has chosen,
and no member says which. The longest to which the times of all values of a metric fit is taken. The same
interval comes several times a day, and replaces what was there; so its key is the metric and the start
alone. Of two sums the larger one is newer; of two averages the one that came last.

Sleeps come as sums of a night, or as stages, which are joined with those of other messages. All other lists
of a message are counted and left.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, time, timedelta
from typing import Any, Final, Literal

from resourceserver.integrations import sleep_stages, units, values
from resourceserver.integrations.format import Person
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.receivers.health import quantities
from resourceserver.integrations.receivers.health.items import Item, StageOf, attempt, refused
from resourceserver.integrations.records import HeartRate, Sample, Sensor, Sleep
from resourceserver.integrations.sleep_stages import Stage
from resourceserver.integrations.units import Units
from resourceserver.integrations.values import Flaw

SOURCE: Final = "health_auto_export"
LISTS: Final = {
    "workouts": "workouts_are_not_kept",
    **dict.fromkeys(
        (
            *("stateOfMind", "medications", "symptoms", "cycleTracking", "ecg"),
            "heartRateNotifications",
        ),
        "type_is_not_kept",
    ),
}
"""Why the elements of each list beside the metrics are left."""
_NAME: Final = "Health Auto Export"
_KEY_NAME: Final = 80
_HEART_RATE: Final = "heart_rate"
_SLEEP: Final = "sleep_analysis"
_BLOOD_PRESSURE: Final = "blood_pressure"
_PRESSURES: Final = {
    "systolic": "blood_pressure_systolic_mmhg",
    "diastolic": "blood_pressure_diastolic_mmhg",
}
_PERCENT: Final = {"%": 1.0}
_METRICS: Final[dict[str, tuple[str, Units]]] = {
    "step_count": ("steps", units.COUNT),
    "walking_running_distance": ("distance_m", units.LENGTH),
    "cycling_distance": ("cycling_distance_m", units.LENGTH),
    "swimming_distance": ("swimming_distance_m", units.LENGTH),
    "flights_climbed": ("floors", units.COUNT),
    "active_energy": ("active_energy_kj", units.ENERGY),
    "active_energy_burned": ("active_energy_kj", units.ENERGY),
    "basal_energy_burned": ("basal_energy_kj", units.ENERGY),
    "resting_energy": ("basal_energy_kj", units.ENERGY),
    "dietary_energy": ("dietary_energy_kj", units.ENERGY),
    "apple_exercise_time": ("exercise_ms", units.TIME),
    "apple_stand_time": ("stand_ms", units.TIME),
    "time_in_daylight": ("daylight_ms", units.TIME),
    "mindful_minutes": ("mindful_ms", units.TIME),
    "dietary_water": ("water_ml", units.VOLUME),
    "weight_body_mass": ("weight_kg", units.MASS),
    "body_mass": ("weight_kg", units.MASS),
    "height": ("height_m", units.LENGTH),
    "body_mass_index": ("body_mass_index", {**units.COUNT, "kg/m2": 1.0, "": 1.0}),
    "body_fat_percentage": ("body_fat_percent", _PERCENT),
    "lean_body_mass": ("lean_body_mass_kg", units.MASS),
    "blood_oxygen_saturation": ("blood_oxygen_percent", _PERCENT),
    "blood_glucose": ("blood_glucose_mmol_per_l", units.GLUCOSE),
    "body_temperature": ("body_temperature_c", units.TEMPERATURE),
    "respiratory_rate": ("respiratory_rate_bpm", units.RATE),
    "resting_heart_rate": ("resting_heart_rate_bpm", units.RATE),
    "walking_heart_rate_average": ("walking_heart_rate_bpm", units.RATE),
    "heart_rate_variability": ("hrv_sdnn_ms", units.TIME),
    "heart_rate_variability_sdnn": ("hrv_sdnn_ms", units.TIME),
    "vo2_max": ("vo2_max", units.OXYGEN_UPTAKE),
    "vo2max": ("vo2_max", units.OXYGEN_UPTAKE),
    "walking_speed": ("walking_speed_mps", units.SPEED),
    "environmental_audio_exposure": ("environmental_sound_db", units.SOUND),
    "headphone_audio_exposure": ("headphone_sound_db", units.SOUND),
}
"""The metric of each name, and the units in which it can be."""
_SPELLINGS: Final = {
    "steps": "count",
    "bpm": "count/min",
    "breaths/min": "count/min",
    "lbs": "lb",
    "miles": "mi",
    "h": "hr",
    "hour": "hr",
    "hours": "hr",
    "hrs": "hr",
    "minutes": "min",
    "mins": "min",
    "sec": "s",
    "seconds": "s",
    "°f": "degF",
    "°c": "degC",
    "f": "degF",
    "c": "degC",
    "mph": "mi/hr",
    "kmph": "km/h",
    "kph": "km/h",
    "ml/(kg·min)": "mL/kg·min",
    "ml/min/kg": "mL/min·kg",
    "ml/kg/min": "mL/kg·min",
    "floz": "fl_oz_us",
    "floz(us)": "fl_oz_us",
    "fl.oz": "fl_oz_us",
    "db": "dBASPL",
    "percent": "%",
}
"""Other spellings of units, in lower case and without blanks."""
_KNOWN_UNITS: Final = {
    unit.casefold(): unit
    for named in (
        *(units.LENGTH, units.MASS, units.TIME, units.VOLUME, units.SPEED, units.RATE),
        *(units.COUNT, units.PRESSURE, units.GLUCOSE, units.TEMPERATURE, units.SOUND),
        *(units.OXYGEN_UPTAKE, _PERCENT, {"kJ": 1.0, "J": 1.0, "kcal": 1.0}, {"kg/m2": 1.0}),
    )
    for unit in named
}
_WRITTEN: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)"
    r"(?:[ T](\d{1,2}):(\d\d)(?::(\d\d)(\.\d+)?)?\s*([AaPp])?\.?(?:[Mm]\.?)?)?"
    r"\s*(Z|[+-]\d\d:?\d\d)?"
)
_DAY: Final = timedelta(days=1)
_LENGTHS: Final = {"hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
_KINDS: Final = {
    "awake": "Awake",
    "inbed": "InBed",
    "core": "AsleepCore",
    "deep": "AsleepDeep",
    "rem": "AsleepREM",
    "asleep": sleep_stages.UNKNOWN_DEPTH,
    "unspecified": sleep_stages.UNKNOWN_DEPTH,
    "asleepunspecified": sleep_stages.UNKNOWN_DEPTH,
    "asleepcore": "AsleepCore",
    "asleepdeep": "AsleepDeep",
    "asleeprem": "AsleepREM",
}


def read(message: dict[str, Any], person: Person) -> Iterator[Item]:
    """Yield what a message contains."""
    data = message.get("data")
    for name, elements in data.items() if isinstance(data, dict) else ():
        if not isinstance(elements, list):
            yield refused("not_a_list", name, elements)
            continue
        for element in elements:
            if name == "metrics":
                yield from _metric(element, person)
            else:
                reason = LISTS.get(name, "unknown_metric")
                yield refused(reason, name, element)


def _metric(metric: Any, person: Person) -> Iterator[Item]:
    if not isinstance(metric, dict):
        yield refused("not_an_object", "metrics", metric)
        return
    name = str(metric.get("name")).strip().lower()
    points = metric.get("data")
    points = points if isinstance(points, list) else []
    written = values.text(metric.get("units")) or ""
    spelling = written.replace(" ", "").casefold()
    unit = _SPELLINGS.get(spelling) or _KNOWN_UNITS.get(spelling, written)
    length = _length(points)
    for point in points:
        found = _items(name, unit, point, length, person)
        yield from attempt(found, f"{name} ({written})", point)


def _items(name: str, unit: str, point: Any, length: str, person: Person) -> Iterator[Item]:
    given = values.members(point)
    sensor = _sensor(given.get("source"))
    if name == _SLEEP:
        yield _sleep(unit or "hr", given, sensor, person)
        return
    if name == _HEART_RATE:
        at = _instant(given.get("date", given.get("startDate")), person)
        written = next((given[each] for each in ("Avg", "avg", "qty") if each in given), None)
        bpm = units.convert(quantities.number(written, name), unit or "count/min", units.RATE)
        yield HeartRate(values.key(instant_ms(at)), at, round(bpm), sensor)
        return
    if name == _BLOOD_PRESSURE:
        at = _instant(given.get("date", given.get("startDate")), person)
        for member, metric in _PRESSURES.items():
            pressure = quantities.number(given.get(member), metric)
            value = units.convert(pressure, unit or "mmHg", units.PRESSURE)
            yield Sample(values.key(metric, instant_ms(at)), metric, at, at, value, sensor)
        return
    if name not in _METRICS:
        raise Flaw("unknown_metric")
    metric, known = _METRICS[name]
    value = units.convert(quantities.number(given.get("qty"), metric), unit, known)
    started_at = _instant(given.get("date", given.get("startDate")), person)
    is_of_a_day = False
    if "endDate" in given:
        ended_at = _instant(given["endDate"], person)
    elif not quantities.is_sum(metric):
        ended_at = started_at
    elif length == "day":
        ended_at, is_of_a_day = (
            _until_now(_next_midnight(started_at, person), started_at, person),
            True,
        )
    else:
        ended_at = values.later(started_at, seconds=_LENGTHS.get(length, timedelta()).seconds)
        ended_at = _until_now(ended_at, started_at, person)
    key = values.key(metric, instant_ms(started_at))
    yield Sample(key, metric, started_at, ended_at, value, sensor, is_daily_total=is_of_a_day)


def _sensor(source: Any) -> Sensor:
    """Return what measured. Several sources of one sum are written with a bar between them."""
    # Apple writes names with no-break spaces.
    name = " ".join((values.text(source) or _NAME).split())[:_KEY_NAME]
    kind: Literal["watch", "phone", "other"] = "other"
    if "watch" in name.lower():
        kind = "watch"
    elif "phone" in name.lower():
        kind = "phone"
    return Sensor(name, kind=kind, platform="ios")


# Times


def _parts(written: Any) -> re.Match[str]:
    text = values.text(written)
    if text is None:
        raise Flaw("missing_time")
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise Flaw("invalid_time")
    return found


def _clock(match: re.Match[str]) -> tuple[int, str, str]:
    """Return hour, minute and second; an hour of twelve is written with AM or PM."""
    hour, half = int(match.group(2) or 0), (match.group(6) or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return hour, match.group(3) or "00", match.group(4) or "00"


def _instant(written: Any, person: Person) -> datetime:
    """Return the instant of a time such as ``2024-02-06 14:30:00 -0800``. Raises Flaw."""
    found = _parts(written)
    hour, minute, second = _clock(found)
    # Milliseconds are what is stored, and a stage that was stored must equal itself.
    fraction = (found.group(5) or "")[:4]
    text = f"{found.group(1)}T{hour:02}:{minute}:{second}{fraction}"
    return values.instant_in(text + (found.group(7) or ""), person.zone)


def _length(points: Iterable[Any]) -> str:
    """Return the longest interval to which the times of all values fit."""
    length = "day"
    for point in points:
        try:
            hour, minute, second = _clock(_parts(point["date"]))
        except (Flaw, TypeError, KeyError):
            continue
        if second != "00":
            return "instant"
        if minute != "00":
            length = "minute"
        elif hour and length == "day":
            length = "hour"
    return length


def _next_midnight(started_at: datetime, person: Person) -> datetime:
    """Return the end of the day that begins here."""
    local = started_at.astimezone(person.zone)
    if local.time() != time():
        # The phone is in another zone than the profile, and which one that is no message says.
        return values.later(started_at, days=1)
    return values.utc(datetime.combine(local.date() + _DAY, time(), person.zone))


def _until_now(ended_at: datetime, started_at: datetime, person: Person) -> datetime:
    """Return the end of what was measured of an interval that may not be over."""
    return max(started_at, min(ended_at, person.now))


# Sleeps


def _sleep(unit: str, given: dict[str, Any], sensor: Sensor, person: Person) -> Item:
    if "value" in given and "sleepStart" not in given:
        return _stage(given, sensor, person)
    started_at = _instant(given.get("sleepStart"), person)
    ended_at = _instant(given.get("sleepEnd"), person)
    lasting = {
        name: _ms(given.get(name), unit)
        for name in ("totalSleep", "asleep", "core", "deep", "rem", "awake", "inBed")
    }
    light, deep, rem = lasting["core"], lasting["deep"], lasting["rem"]
    depths_ms = (light or 0) + (deep or 0) + (rem or 0)
    asleep_ms = lasting["totalSleep"] or max(lasting["asleep"] or 0, depths_ms)
    if not asleep_ms:
        raise Flaw("time_in_bed_without_sleep")
    lasts_ms = (ended_at - started_at) // quantities.MS
    # Apple's time in bed overlaps the stages, and is that of the phone where a watch measured the stages.
    in_bed_ms = lasting["inBed"] or lasts_ms
    has_depths = depths_ms > 0
    return Sleep(
        key=values.key("sleep", instant_ms(started_at), sensor.name),
        started_at=started_at,
        ended_at=ended_at,
        sensor=sensor,
        in_bed_ms=max(in_bed_ms, asleep_ms),
        asleep_ms=asleep_ms,
        is_nap=ended_at - started_at < sleep_stages.NAP,
        awake_ms=lasting["awake"],
        light_ms=light if has_depths else None,
        deep_ms=deep if has_depths else None,
        rem_ms=rem if has_depths else None,
    )


def _ms(written: Any, unit: str) -> int | None:
    parsed = values.number(written)
    if parsed is None or parsed < 0:
        return None
    # A stretch of sleep is at most two days long, so that the product is a number that fits.
    return round(min(units.convert(parsed, unit, units.TIME), 172_800_000))


def _stage(given: dict[str, Any], sensor: Sensor, person: Person) -> StageOf:
    kind = _KINDS.get(str(given["value"]).replace(" ", "").lower())
    if kind is None:
        raise Flaw("unknown_stage_of_sleep")
    started_at = _instant(given.get("startDate"), person)
    ended_at = _instant(given.get("endDate"), person)
    if ended_at <= started_at:
        raise Flaw("ends_before_start")
    if ended_at - started_at > 2 * _DAY:
        raise Flaw("lasts_too_long")
    return StageOf(Stage(started_at, ended_at, kind), sensor)
