"""Sleeps of Health Connect: one session each, with its stages if it has any.

A session has no start in the messages: it is its end minus its duration. Time out of bed is no time in bed,
and a stage counts as far as it lies within the session.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from resourceserver.integrations import sleep_stages, values
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import Sensor, Sleep
from resourceserver.integrations.sleep_stages import Stage, covered_ms
from resourceserver.integrations.values import Flaw

_NAMES: Final = (
    *("unknown", "awake", "sleeping", "out_of_bed", "light", "deep", "rem", "awake_in_bed"),
)
"""The stages of Health Connect by the number that stands for each."""
_KINDS: Final = {
    "awake": "Awake",
    "awake_in_bed": "Awake",
    "sleeping": sleep_stages.UNKNOWN_DEPTH,
    "light": "AsleepCore",
    "deep": "AsleepDeep",
    "rem": "AsleepREM",
    "out_of_bed": "OutOfBed",
    "unknown": "Unknown",
    # HealthKit's names, which the application for iOS may leave as they are.
    "core": "AsleepCore",
    "asleep": sleep_stages.UNKNOWN_DEPTH,
    "in_bed": "InBed",
}
_LONGEST_S: Final = 48 * 3600


def sleep(given: dict[str, Any], key: str | None, sensor: Sensor, name: str) -> Sleep:
    """Return the sleep of a session; without ``key`` it is known by its instants. Raises Flaw."""
    ended_at = values.instant(given.get("session_end_time"))
    seconds = values.number(given.get("duration_seconds"))
    if seconds is None:
        raise Flaw("missing_duration")
    if not 0 < seconds <= _LONGEST_S:
        raise Flaw("lasts_too_long" if seconds > 0 else "ends_before_start")
    started_at = values.later(ended_at, seconds=-seconds)
    stages = _stages(given.get("stages"), started_at, ended_at)
    lasts_ms = (ended_at - started_at) // timedelta(milliseconds=1)
    in_bed_ms = lasts_ms - covered_ms(stages, "OutOfBed")
    asleep_ms = covered_ms(stages, *sleep_stages.ASLEEP)
    kinds = {each.kind for each in stages}
    if stages and not asleep_ms:
        raise Flaw("time_in_bed_without_sleep")
    has_depths = not kinds.isdisjoint(sleep_stages.DEPTHS)
    return Sleep(
        key=key or values.key("sleep", instant_ms(started_at), instant_ms(ended_at), name),
        started_at=started_at,
        ended_at=ended_at,
        sensor=sensor,
        in_bed_ms=max(in_bed_ms, asleep_ms),
        asleep_ms=asleep_ms if stages else lasts_ms,
        is_nap=ended_at - started_at < sleep_stages.NAP,
        awake_ms=covered_ms(stages, "Awake") if stages else None,
        light_ms=covered_ms(stages, "AsleepCore") if has_depths else None,
        deep_ms=covered_ms(stages, "AsleepDeep") if has_depths else None,
        rem_ms=covered_ms(stages, "AsleepREM") if has_depths else None,
    )


def _stages(given: Any, started_at: datetime, ended_at: datetime) -> list[Stage]:
    """Return the stages within a session, in the order of time. One that cannot be read is left out."""
    stages = []
    for each in given if isinstance(given, list) else []:
        with suppress(Flaw):
            stages.append(_stage(values.members(each), started_at, ended_at))
    return sorted(each for each in stages if each.ended_at > each.started_at)


def _stage(given: dict[str, Any], started_at: datetime, ended_at: datetime) -> Stage:
    name = str(given.get("stage")).strip().lower()
    if name.isascii() and name.isdigit():
        name = _NAMES[int(name)] if len(name) == 1 and int(name) < len(_NAMES) else ""
    first = values.instant(given.get("start_time"))
    last = values.instant(given.get("end_time"))
    return Stage(max(first, started_at), min(last, ended_at), _KINDS.get(name, "Unknown"))
