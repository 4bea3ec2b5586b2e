"""Garmin's account export: sleeps and totals of days. Workouts are in FIT files beside them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import METRICS, Record, Refused, Sample, Sensor, Sleep
from resourceserver.integrations.values import Flaw

_SENSOR: Final = Sensor("Garmin", kind="watch")
_UTC: Final = ZoneInfo("UTC")


def _read_sleeps(file: File, _person: Person) -> Iterator[Record | Refused]:
    for value in reading.items(file, "item"):
        try:
            yield _sleep(values.members(value))
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _sleep(given: dict[str, Any]) -> Sleep:
    started_at = _instant(given.get("sleepStartTimestampGMT"))
    ended_at = _instant(given.get("sleepEndTimestampGMT"))
    stages = {name: _ms(given, f"{name}SleepSeconds") for name in ("light", "deep", "rem")}
    measured = [ms for ms in stages.values() if ms is not None]
    if not measured:
        # Garmin writes nights without the watch with their planned times alone.
        raise Flaw("no_sleep")
    return Sleep(
        key=f"garmin:{instant_ms(started_at)}",
        started_at=started_at,
        ended_at=ended_at,
        sensor=_SENSOR,
        in_bed_ms=instant_ms(ended_at) - instant_ms(started_at),
        asleep_ms=sum(measured),
        awake_ms=_ms(given, "awakeSleepSeconds"),
        light_ms=stages["light"],
        deep_ms=stages["deep"],
        rem_ms=stages["rem"],
        no_data_ms=_ms(given, "unmeasurableSeconds"),
        respiratory_rate_bpm=values.number(given.get("averageRespiration")),
    )


def _read_days(file: File, _person: Person) -> Iterator[Record | Refused]:
    for value in reading.items(file, "item"):
        try:
            yield from _day(values.members(value))
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _day(given: dict[str, Any]) -> Iterator[Sample]:
    started_at = _instant(given.get("wellnessStartTimeGmt"))
    ended_at = _instant(given.get("wellnessEndTimeGmt"))
    totals = {
        "steps": values.number(given.get("totalSteps")),
        "distance_m": values.number(given.get("totalDistanceMeters")),
        "active_energy_kj": _kilojoules(given, "activeKilocalories"),
        "basal_energy_kj": _kilojoules(given, "bmrKilocalories"),
        "resting_heart_rate_bpm": values.number(given.get("restingHeartRate")),
    }
    for metric, value in totals.items():
        if value is not None:
            yield Sample(
                key=f"{metric}:{instant_ms(started_at)}",
                metric_type=metric,
                started_at=started_at,
                ended_at=ended_at,
                value=value,
                sensor=_SENSOR,
                is_daily_total=METRICS[metric][1] == "sum",
            )


def _kilojoules(given: dict[str, Any], name: str) -> float | None:
    kcal = values.number(given.get(name))
    return None if kcal is None else round(kcal * tracks.KJ_PER_KCAL, 3)


def _instant(value: Any) -> datetime:
    """Return the instant of milliseconds since 1970, or of a text in UTC. Raises Flaw."""
    if isinstance(value, int | float):
        return values.epoch(value, 1000)
    return values.instant_in(value, _UTC)


def _ms(given: dict[str, Any], name: str) -> int | None:
    seconds = values.count(given.get(name))
    return None if seconds is None else seconds * 1000


def _recognise_sleeps(head: Head) -> float:
    is_list = head.text.lstrip().startswith("[")
    return 1.0 if is_list and '"sleepStartTimestampGMT"' in head.text else 0.0


def _recognise_days(head: Head) -> float:
    is_list = head.text.lstrip().startswith("[")
    return 1.0 if is_list and '"wellnessStartTimeGmt"' in head.text else 0.0


SLEEPS: Final = Format(
    name="garmin_sleeps",
    title="Garmin, account export: sleeps",
    source="garmin",
    records=(Sleep,),
    recognise=_recognise_sleeps,
    read=_read_sleeps,
)

DAYS: Final = Format(
    name="garmin_days",
    title="Garmin, account export: days",
    source="garmin",
    records=(Sample,),
    recognise=_recognise_days,
    read=_read_days,
)
