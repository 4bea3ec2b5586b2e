"""Oura's data as JSON, in the shape of its API (version 2), one list for each collection."""

import re
from collections.abc import Iterator
from typing import Any, Final

from resourceserver.integrations import reading, tracks, values
from resourceserver.integrations.format import File, Format, Head, Person
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import (
    HeartRate,
    Record,
    Recovery,
    Refused,
    Sample,
    Sensor,
    Sleep,
)
from resourceserver.integrations.values import Flaw

_SENSOR: Final = Sensor("Oura ring")
_COLLECTIONS: Final = ("sleep", "daily_activity", "heartrate")
# A collection is a list, or an answer of the API that has the list as a member.
_PATHS: Final = {
    f"{name}{suffix}": name for name in _COLLECTIONS for suffix in (".item", ".data.item")
}
_NAMED: Final = re.compile(r'"(sleep|daily_activity|heartrate)"\s*:\s*[\[{]')
_MEMBERS: Final = ('"bedtime_start"', '"equivalent_walking_distance"', '"bpm"')


def _read(file: File, _person: Person) -> Iterator[Record | Refused]:
    for path, value in reading.elements(file, *_PATHS):
        try:
            given = values.members(value)
            match _PATHS[path]:
                case "sleep":
                    yield _sleep(given)
                case "daily_activity":
                    yield from _activity(given)
                case _:
                    yield _heart_rate(given)
        except Flaw as flaw:
            yield values.refused(flaw, value)


def _sleep(given: dict[str, Any]) -> Sleep:
    kind = values.text(given.get("type"))
    if kind == "deleted":
        raise Flaw("deleted_sleep")
    begin = values.wall_time(given.get("bedtime_start"))
    started_at = values.instant(given.get("bedtime_start"))
    asleep_ms, in_bed_ms = _ms(given, "total_sleep_duration"), _ms(given, "time_in_bed")
    if asleep_ms is None or in_bed_ms is None:
        raise Flaw("no_sleep")
    return Sleep(
        key=f"oura:{instant_ms(started_at)}",
        started_at=started_at,
        ended_at=values.instant(given.get("bedtime_end")),
        sensor=_SENSOR,
        in_bed_ms=in_bed_ms,
        asleep_ms=asleep_ms,
        utc_offset=begin.strftime("%z")[:3] + ":" + begin.strftime("%z")[3:5],
        is_nap=kind in {"sleep", "late_nap", "rest"},
        awake_ms=_ms(given, "awake_time"),
        light_ms=_ms(given, "light_sleep_duration"),
        deep_ms=_ms(given, "deep_sleep_duration"),
        rem_ms=_ms(given, "rem_sleep_duration"),
        latency_ms=_ms(given, "latency"),
        disturbance_count=values.count(given.get("restless_periods")),
        efficiency_percent=values.number(given.get("efficiency")),
        respiratory_rate_bpm=values.number(given.get("average_breath")),
        average_heart_rate_bpm=values.number(given.get("average_heart_rate")),
        lowest_heart_rate_bpm=values.number(given.get("lowest_heart_rate")),
        recovery=_recovery(given),
    )


def _recovery(given: dict[str, Any]) -> Recovery | None:
    readiness = given.get("readiness")
    score = values.number(readiness.get("score")) if isinstance(readiness, dict) else None
    hrv = values.number(given.get("average_hrv"))
    if score is None and hrv is None:
        return None
    return Recovery(
        state="unscorable" if score is None else "scored",
        score=score,
        resting_heart_rate_bpm=values.number(given.get("lowest_heart_rate")),
        hrv_rmssd_ms=hrv,
    )


def _activity(given: dict[str, Any]) -> list[Sample]:
    at = values.instant(given.get("timestamp"))
    kcal = values.number(given.get("active_calories"))
    totals = {
        "steps": values.number(given.get("steps")),
        "distance_m": values.number(given.get("equivalent_walking_distance")),
        "active_energy_kj": None if kcal is None else round(kcal * tracks.KJ_PER_KCAL, 3),
    }
    return [
        Sample(
            key=f"{metric}:{instant_ms(at)}",
            metric_type=metric,
            started_at=at,
            ended_at=values.later(at, days=1),
            value=value,
            sensor=_SENSOR,
            is_daily_total=True,
        )
        for metric, value in totals.items()
        if value is not None
    ]


def _heart_rate(given: dict[str, Any]) -> HeartRate:
    rate = tracks.heart_rate(values.instant(given.get("timestamp")), given.get("bpm"), _SENSOR)
    if rate is None:
        raise Flaw("no_heart_rate")
    return rate


def _ms(given: dict[str, Any], name: str) -> int | None:
    seconds = values.count(given.get(name))
    return None if seconds is None else seconds * 1000


def _recognise(head: Head) -> float:
    text = head.text
    is_named = text.lstrip().startswith("{") and _NAMED.search(text)
    return 0.9 if is_named and any(member in text for member in _MEMBERS) else 0.0


OURA: Final = Format(
    name="oura",
    title="Oura, sleep, activity and heart rate as JSON",
    source="oura",
    records=(Sleep, Sample, HeartRate),
    recognise=_recognise,
    read=_read,
)
