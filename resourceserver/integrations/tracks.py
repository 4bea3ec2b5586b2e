"""What files of tracks have in common: points, heart rates and totals with the same keys.

Watches and applications write one workout in several formats, and services hand it on in others. A person is
at one place at an instant, so the key of a point or a heart rate is its instant, and that of a total is what
it measures and when it began: a workout that comes as GPX and as FIT is there once.
"""

from datetime import datetime
from typing import Any, Final

from resourceserver.integrations import values
from resourceserver.integrations.reading import instant_ms
from resourceserver.integrations.records import HeartRate, Point, Sample, Sensor
from resourceserver.integrations.values import Flaw

SOURCE: Final = "track"
"""The source of all formats of tracks."""

KJ_PER_KCAL: Final = 4.184


def point(recorded_at: datetime, latitude: Any, longitude: Any, **more: Any) -> Point:
    """Return a point. Raises Flaw where its place is not on the globe."""
    lat, lon = values.number(latitude), values.number(longitude)
    if lat is None or lon is None:
        raise Flaw("missing_place")
    if not (-90 <= lat <= 90 and -180 <= lon <= 180):
        raise Flaw("place_out_of_range")
    return Point(f"pt:{instant_ms(recorded_at)}", recorded_at, lat, lon, **more)


def heart_rate(recorded_at: datetime, bpm: Any, sensor: Sensor) -> HeartRate | None:
    """Return a heart rate; None where none was measured, for which devices write nothing or 0."""
    beats = values.count(bpm)
    if not beats:
        return None
    return HeartRate(f"hr:{instant_ms(recorded_at)}", recorded_at, beats, sensor)


def totals(
    started_at: datetime,
    ended_at: datetime,
    sensor: Sensor,
    *,
    distance_m: float | None = None,
    energy_kcal: float | None = None,
    exercise_s: float | None = None,
) -> list[Sample]:
    """Return the samples of one workout, of what was measured in it."""
    measured = {
        "distance_m": distance_m,
        "active_energy_kj": None if energy_kcal is None else round(energy_kcal * KJ_PER_KCAL, 3),
        "exercise_ms": None if exercise_s is None else exercise_s * 1000,
    }
    return [
        Sample(f"{metric}:{instant_ms(started_at)}", metric, started_at, ended_at, value, sensor)
        for metric, value in measured.items()
        if value is not None and value > 0
    ]


def at_least_zero(value: Any) -> float | None:
    """Return a number; None if it is negative, as phones write what they do not know."""
    parsed = values.number(value)
    return parsed if parsed is not None and parsed >= 0 else None
