"""The tables of Withings' export: weights, blood pressures, sleeps, heart rates and totals of days.

Times without an offset are local, and the tables name no zone.
"""

import json
from collections.abc import Iterator
from datetime import datetime, time
from typing import Any, Final

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person, Unreadable
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import (
    HeartRate,
    Record,
    Refused,
    Sample,
    Sensor,
    Sleep,
)
from resourceserver.integrations.values import Flaw

_SENSOR: Final = Sensor("Withings")
_KG_PER_LB: Final = 0.45359237
_DAILY: Final = {
    "aggregates_steps.csv": ("steps", 1.0),
    "aggregates_distance.csv": ("distance_m", 1.0),
    "aggregates_calories_earned.csv": ("active_energy_kj", tracks.KJ_PER_KCAL),
}
"""The metric of each table of a date and a value, and the factor into its unit; the tables do not say it."""

_Row = dict[str, str]


def _sample(metric: str, at: datetime, value: float) -> Sample:
    return Sample(f"{metric}:{instant_ms(at)}", metric, at, at, value, _SENSOR)


def _read_weights(file: File, person: Person) -> Iterator[Record | Refused]:
    def records(row: _Row) -> Iterator[Sample]:
        at = values.instant_in(row.get("Date"), person.zone)
        weight, fat = _kilograms(row, "Weight"), _kilograms(row, "Fat mass")
        if weight is None:
            raise Flaw("no_weight")
        yield _sample("weight_kg", at, weight)
        if fat is not None and 0 < fat < weight:
            yield _sample("body_fat_percent", at, round(100 * fat / weight, 2))
            yield _sample("lean_body_mass_kg", at, round(weight - fat, 3))

    return reading.table_records(file, records)


def _kilograms(row: _Row, name: str) -> float | None:
    kilograms, pounds = (values.number(row.get(f"{name} ({unit})")) for unit in ("kg", "lb"))
    return kilograms if pounds is None else round(pounds * _KG_PER_LB, 3)


def _read_pressures(file: File, person: Person) -> Iterator[Record | Refused]:
    def records(row: _Row) -> Iterator[Record]:
        at = values.instant_in(row.get("Date"), person.zone)
        systolic, diastolic = (
            values.number(row.get("Systolic")),
            values.number(row.get("Diastolic")),
        )
        if systolic is None or diastolic is None:
            raise Flaw("no_blood_pressure")
        yield _sample("blood_pressure_systolic_mmhg", at, systolic)
        yield _sample("blood_pressure_diastolic_mmhg", at, diastolic)
        if rate := tracks.heart_rate(at, row.get("Heart rate"), _SENSOR):
            yield rate

    return reading.table_records(file, records)


def _read_sleeps(file: File, person: Person) -> Iterator[Record | Refused]:
    def records(row: _Row) -> Iterator[Sleep]:
        started_at = values.instant_in(row.get("from"), person.zone)
        ended_at = values.instant_in(row.get("to"), person.zone)
        stages = {name: _ms(row, f"{name} (s)") for name in ("light", "deep", "rem")}
        measured = [ms for ms in stages.values() if ms is not None]
        if not measured:
            raise Flaw("no_sleep")
        begin = values.wall_time(row.get("from"))
        yield Sleep(
            key=f"withings:{instant_ms(started_at)}",
            started_at=started_at,
            ended_at=ended_at,
            sensor=_SENSOR,
            in_bed_ms=instant_ms(ended_at) - instant_ms(started_at),
            asleep_ms=sum(measured),
            utc_offset=begin.isoformat()[-6:] if begin.tzinfo else None,
            awake_ms=_ms(row, "awake (s)"),
            light_ms=stages["light"],
            deep_ms=stages["deep"],
            rem_ms=stages["rem"],
            latency_ms=_ms(row, "Duration to sleep (s)"),
            disturbance_count=values.count(row.get("wake up")),
            average_heart_rate_bpm=values.number(row.get("Average heart rate")),
            lowest_heart_rate_bpm=values.number(row.get("Heart rate (min)")),
        )

    return reading.table_records(file, records)


def _ms(row: _Row, name: str) -> int | None:
    seconds = values.count(row.get(name))
    return None if seconds is None else seconds * 1000


def _read_heart_rates(file: File, person: Person) -> Iterator[Record | Refused]:
    def records(row: _Row) -> Iterator[HeartRate]:
        at = values.instant_in(row.get("start"), person.zone)
        durations, rates = _list(row.get("duration")), _list(row.get("value"))
        if len(durations) != len(rates):
            raise Flaw("no_heart_rate")
        for seconds, bpm in zip(durations, rates, strict=True):
            if rate := tracks.heart_rate(at, bpm, _SENSOR):
                yield rate
            at = values.later(at, seconds=values.number(seconds) or 0.0)

    return reading.table_records(file, records)


def _list(written: str | None) -> list[Any]:
    try:
        parsed = json.loads(written or "")
    except (ValueError, RecursionError) as error:
        raise Flaw("no_heart_rate") from error
    return parsed if isinstance(parsed, list) else [parsed]


def _read_days(file: File, person: Person) -> Iterator[Record | Refused]:
    name = file.name.rpartition("/")[2].lower()
    if name not in _DAILY:
        raise Unreadable(
            f"only the names of these tables say what they hold, and {name!r} does not"
        )
    metric, factor = _DAILY[name]

    def records(row: _Row) -> Iterator[Sample]:
        day, value = values.wall_time(row.get("date")), values.number(row.get("value"))
        if value is None:
            raise Flaw("no_value")
        # A day of 23 or 25 hours ends at its own midnight.
        begin, end = (
            values.utc(datetime.combine(each, time(), person.zone))
            for each in (day.date(), values.later(day, days=1).date())
        )
        yield Sample(
            key=f"{metric}:{instant_ms(begin)}",
            metric_type=metric,
            started_at=begin,
            ended_at=end,
            value=round(value * factor, 3),
            sensor=_SENSOR,
            is_daily_total=True,
        )

    return reading.table_records(file, records)


def _header(head: Head) -> str:
    return head.text.partition("\n")[0].strip().replace('"', "")


def _recognise_weights(head: Head) -> float:
    return (
        1.0 if _header(head).startswith(("Date,Weight (kg),Fat", "Date,Weight (lb),Fat")) else 0.0
    )


def _recognise_pressures(head: Head) -> float:
    return 1.0 if _header(head).startswith("Date,Heart rate,Systolic,Diastolic") else 0.0


def _recognise_sleeps(head: Head) -> float:
    return 1.0 if _header(head).startswith("from,to,light (s),deep (s),rem (s)") else 0.0


def _recognise_heart_rates(head: Head) -> float:
    # Other tables of raw values have the same columns.
    is_raw = _header(head) == "start,duration,value"
    return 1.0 if is_raw and head.basename.startswith("raw_hr") else 0.0


def _recognise_days(head: Head) -> float:
    return 1.0 if _header(head) == "date,value" and head.basename in _DAILY else 0.0


WEIGHTS: Final = Format(
    name="withings_weights",
    title="Withings, weights",
    source="withings",
    records=(Sample,),
    recognise=_recognise_weights,
    read=_read_weights,
)

PRESSURES: Final = Format(
    name="withings_blood_pressures",
    title="Withings, blood pressures",
    source="withings",
    records=(Sample, HeartRate),
    recognise=_recognise_pressures,
    read=_read_pressures,
)

SLEEPS: Final = Format(
    name="withings_sleeps",
    title="Withings, sleeps",
    source="withings",
    records=(Sleep,),
    recognise=_recognise_sleeps,
    read=_read_sleeps,
)

HEART_RATES: Final = Format(
    name="withings_heart_rates",
    title="Withings, heart rates",
    source="withings",
    records=(HeartRate,),
    recognise=_recognise_heart_rates,
    read=_read_heart_rates,
)

DAYS: Final = Format(
    name="withings_days",
    title="Withings, totals of days",
    source="withings",
    records=(Sample,),
    recognise=_recognise_days,
    read=_read_days,
)
