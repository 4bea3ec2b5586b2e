"""Records that all formats of tracks share: points, heart rates and totals, with keys that do not depend on
the format.

Watches, applications and services write the same workout in different formats. A person is at one place at an
instant, so the key of a point or a heart rate is its instant, and the key of a total is its metric and its
start. A workout that is imported as GPX and as FIT is therefore stored once.
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
    """Return a point. Raises Flaw if a coordinate is missing or out of range."""
    lat, lon = values.number(latitude), values.number(longitude)
    if lat is None or lon is None:
        raise Flaw("missing_place")
    if not (-90 <= lat <= 90 and -180 <= lon <= 180):
        raise Flaw("place_out_of_range")
    return Point(f"pt:{instant_ms(recorded_at)}", recorded_at, lat, lon, **more)


def heart_rate(recorded_at: datetime, bpm: Any, sensor: Sensor) -> HeartRate | None:
    """Return a heart rate; None if it was not measured: devices then write nothing or 0."""
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
    """Return a sample for each measured total of one workout."""
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
    """Return a number; None if it is negative, which phones write for an unknown value."""
    parsed = values.number(value)
    return parsed if parsed is not None and parsed >= 0 else None
