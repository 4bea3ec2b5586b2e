"""WHOOP's export: physiological cycles with their sleep and recovery, naps, and workouts, as tables.

Times are local, beside the offset of the cycle. The table of sleeps holds the nights again, without the
recovery; where both tables are brought, only its naps are taken. The names of columns are those of an English
account.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import (
    Cycle,
    Record,
    Recovery,
    Refused,
    Sample,
    Sensor,
    Sleep,
)
from resourceserver.integrations.values import Flaw

_SENSOR: Final = Sensor("WHOOP", kind="watch")
_CYCLES: Final = "physiological_cycles.csv"
_OFFSET: Final = re.compile(r"UTC(?:Z|([+-])(\d\d):(\d\d))?")
_STRAIN_SCALE: Final = 21.0


class _Row:
    """A row of a table, with its offset."""

    def __init__(self, cells: dict[str, str]) -> None:
        self._cells = cells
        offset = _OFFSET.fullmatch(cells.get("Cycle timezone", ""))
        if not offset:
            raise Flaw("missing_zone")
        sign, hours, minutes = offset.groups()
        shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        self._zone = timezone(-shift if sign == "-" else shift)
        self.utc_offset = f"{sign or '+'}{hours or '00'}:{minutes or '00'}"

    def text(self, name: str) -> str:
        return self._cells.get(name, "")

    def number(self, *names: str) -> float | None:
        """Return the number of the first column that has one; WHOOP changed the names of some."""
        parsed = (values.number(self.text(name)) for name in names)
        return next((each for each in parsed if each is not None), None)

    def minutes_ms(self, name: str) -> int | None:
        minutes = values.count(self.text(name))
        return None if minutes is None else minutes * 60_000

    def at(self, name: str) -> datetime | None:
        if not self.text(name):
            return None
        return values.utc(values.wall_time(self.text(name)).replace(tzinfo=self._zone))


def _read_cycles(file: File, _person: Person) -> Iterator[Record | Refused]:
    def records(cells: dict[str, str]) -> list[Sleep]:
        row = _Row(cells)
        return [_sleep(row, _recovery(row), _cycle(row))]

    return reading.table_records(file, records)


def _read_sleeps(file: File, _person: Person) -> Iterator[Record | Refused]:
    has_nights = file.beside(_CYCLES) is not None

    def records(cells: dict[str, str]) -> list[Sleep]:
        row = _Row(cells)
        is_nap = row.text("Nap").lower() == "true"
        if has_nights and not is_nap:
            raise Flaw("also_in_physiological_cycles")
        return [_sleep(row, None, None, is_nap=is_nap)]

    return reading.table_records(file, records)


def _read_workouts(file: File, _person: Person) -> Iterator[Record | Refused]:
    return reading.table_records(file, _workout)


def _sleep(
    row: _Row, recovery: Recovery | None, cycle: Cycle | None, *, is_nap: bool = False
) -> Sleep:
    started_at, ended_at = row.at("Sleep onset"), row.at("Wake onset")
    if started_at is None or ended_at is None:
        # The strap was not worn that night, or it is not over.
        raise Flaw("no_sleep")
    asleep_ms = row.minutes_ms("Asleep duration (min)")
    in_bed_ms = row.minutes_ms("In bed duration (min)")
    if asleep_ms is None or in_bed_ms is None:
        raise Flaw("no_sleep")
    return Sleep(
        key=f"whoop:{instant_ms(started_at)}",
        started_at=started_at,
        ended_at=ended_at,
        sensor=_SENSOR,
        in_bed_ms=in_bed_ms,
        asleep_ms=asleep_ms,
        utc_offset=row.utc_offset,
        is_nap=is_nap,
        awake_ms=row.minutes_ms("Awake duration (min)"),
        light_ms=row.minutes_ms("Light sleep duration (min)"),
        deep_ms=row.minutes_ms("Deep (SWS) duration (min)"),
        rem_ms=row.minutes_ms("REM duration (min)"),
        efficiency_percent=row.number("Sleep efficiency %"),
        performance_percent=row.number("Sleep performance %"),
        consistency_percent=row.number("Sleep consistency %"),
        need_ms=row.minutes_ms("Sleep need (min)"),
        debt_ms=row.minutes_ms("Sleep debt (min)"),
        respiratory_rate_bpm=row.number("Respiratory rate (rpm)"),
        recovery=recovery,
        cycle=cycle,
    )


def _recovery(row: _Row) -> Recovery:
    score = row.number("Recovery score %")
    return Recovery(
        state="pending" if score is None else "scored",
        score=score,
        resting_heart_rate_bpm=row.number("Resting heart rate (bpm)"),
        hrv_rmssd_ms=row.number("Heart rate variability (ms)"),
        spo2_percent=row.number("Blood oxygen %"),
        skin_temperature_c=row.number("Skin temp (celsius)"),
    )


def _cycle(row: _Row) -> Cycle | None:
    started_at, strain = row.at("Cycle start time"), row.number("Day Strain")
    if started_at is None:
        return None
    return Cycle(
        started_at=started_at,
        ended_at=row.at("Cycle end time"),
        strain=strain,
        strain_scale_max=None if strain is None else _STRAIN_SCALE,
        energy_kj=_kilojoules(row),
        average_heart_rate_bpm=row.number("Average HR (bpm)"),
        max_heart_rate_bpm=row.number("Max HR (bpm)"),
    )


def _kilojoules(row: _Row) -> float | None:
    # The column says cal and holds kilocalories.
    kcal = row.number("Energy burned (cal)")
    return None if kcal is None else round(kcal * tracks.KJ_PER_KCAL, 3)


def _workout(cells: dict[str, str]) -> list[Sample]:
    row = _Row(cells)
    started_at, ended_at = row.at("Workout start time"), row.at("Workout end time")
    if started_at is None or ended_at is None:
        raise Flaw("missing_time")
    minutes = row.number("Duration (min)")
    return tracks.totals(
        started_at,
        ended_at,
        _SENSOR,
        distance_m=row.number("Distance (meters)"),
        energy_kcal=row.number("Energy burned (cal)"),
        exercise_s=None if minutes is None else minutes * 60,
    )


def _is_table(head: Head, *columns: str) -> float:
    header = head.text.partition("\n")[0]
    named = ("Cycle start time", "Cycle timezone", *columns)
    return 1.0 if all(column in header for column in named) else 0.0


def _recognise_cycles(head: Head) -> float:
    return _is_table(head, "Recovery score %", "Sleep onset")


def _recognise_sleeps(head: Head) -> float:
    return _is_table(head, "Sleep onset", "Nap")


def _recognise_workouts(head: Head) -> float:
    return _is_table(head, "Workout start time")


CYCLES: Final = Format(
    name="whoop_cycles",
    title="WHOOP, physiological cycles",
    source="whoop",
    records=(Sleep,),
    recognise=_recognise_cycles,
    read=_read_cycles,
)

SLEEPS: Final = Format(
    name="whoop_sleeps",
    title="WHOOP, sleeps",
    source="whoop",
    records=(Sleep,),
    recognise=_recognise_sleeps,
    read=_read_sleeps,
)

WORKOUTS: Final = Format(
    name="whoop_workouts",
    title="WHOOP, workouts",
    source="whoop",
    records=(Sample,),
    recognise=_recognise_workouts,
    read=_read_workouts,
)
