"""Oura's collections: sleeps with readiness, days and heart rates."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from resourceserver.integrations.formats.oura import OURA
from resourceserver.integrations.records import HeartRate, Recovery, Sample, Sensor, Sleep
from tests.integrations.memory import read, recognise

SENSOR = Sensor("Oura ring")
DAY_MS = 1750039200000


def sleep(**members: Any) -> dict[str, Any]:
    return {
        "id": "8f9a5221-639e-4a85-81cb-4065ef23f979",
        "day": "2025-06-16",
        "type": "long_sleep",
        "bedtime_start": "2025-06-15T23:30:00.000+02:00",
        "bedtime_end": "2025-06-16T07:30:00.000+02:00",
        "time_in_bed": 28800,
        "total_sleep_duration": 26100,
        "awake_time": 2700,
        "light_sleep_duration": 13500,
        "deep_sleep_duration": 5400,
        "rem_sleep_duration": 7200,
        "latency": 420,
        "efficiency": 91,
        "restless_periods": 120,
        "average_breath": 14.625,
        "average_heart_rate": 55.5,
        "lowest_heart_rate": 48,
        "average_hrv": 48,
        "readiness": {"score": 81, "contributors": {}},
        "heart_rate": {"items": [None, 55.0]},
    } | members


ACTIVITY = {
    "day": "2025-06-16",
    "timestamp": "2025-06-16T04:00:00.000+02:00",
    "steps": 8000,
    "active_calories": 500,
    "equivalent_walking_distance": 6500,
}


def test_sleeps_days_and_heart_rates_are_read() -> None:
    content = json.dumps(
        {
            "email": "alice@example.org",
            "sleep": [sleep()],
            "daily_readiness": [{"score": 81}],
            "daily_activity": [ACTIVITY],
            "heartrate": {
                "data": [{"bpm": 61, "source": "awake", "timestamp": "2025-06-16T08:00:00+00:00"}]
            },
        }
    )

    reading = read(OURA, content)

    assert recognise(OURA, content) == 0.9
    day = datetime(2025, 6, 16, 2, tzinfo=UTC)
    next_day = day + timedelta(days=1)
    assert reading.records == [
        Sleep(
            key="oura:1750023000000",
            started_at=datetime(2025, 6, 15, 21, 30, tzinfo=UTC),
            ended_at=datetime(2025, 6, 16, 5, 30, tzinfo=UTC),
            sensor=SENSOR,
            in_bed_ms=28_800_000,
            asleep_ms=26_100_000,
            utc_offset="+02:00",
            awake_ms=2_700_000,
            light_ms=13_500_000,
            deep_ms=5_400_000,
            rem_ms=7_200_000,
            latency_ms=420_000,
            disturbance_count=120,
            efficiency_percent=91.0,
            respiratory_rate_bpm=14.625,
            average_heart_rate_bpm=55.5,
            lowest_heart_rate_bpm=48.0,
            recovery=Recovery("scored", 81.0, 48.0, 48.0),
        ),
        Sample(f"steps:{DAY_MS}", "steps", day, next_day, 8000.0, SENSOR, None, True),
        Sample(f"distance_m:{DAY_MS}", "distance_m", day, next_day, 6500.0, SENSOR, None, True),
        Sample(
            f"active_energy_kj:{DAY_MS}",
            "active_energy_kj",
            day,
            next_day,
            2092.0,
            SENSOR,
            None,
            True,
        ),
        HeartRate("hr:1750060800000", datetime(2025, 6, 16, 8, tzinfo=UTC), 61, SENSOR),
    ]


def test_what_has_no_times_or_no_sleep_is_refused_and_naps_are_naps() -> None:
    reading = read(
        OURA,
        json.dumps(
            {
                "sleep": [
                    sleep(type="deleted"),
                    sleep(total_sleep_duration=None),
                    sleep(bedtime_start="2025-06-15T23:30:00"),
                    sleep(bedtime_end=5),
                    None,
                    sleep(type="late_nap", readiness=None, average_hrv=None, time_in_bed="28800"),
                ],
                "heartrate": [{"bpm": 0, "timestamp": "2025-06-16T08:00:00Z"}],
            }
        ),
    )

    assert reading.reasons == [
        "deleted_sleep",
        "no_sleep",
        "time_without_offset",
        "missing_time",
        "not_an_object",
        "no_heart_rate",
    ]
    assert [(each.is_nap, each.recovery) for each in reading.records] == [(True, None)]


def test_a_truncated_file_keeps_the_records_before_the_break() -> None:
    content = json.dumps({"sleep": [sleep(), sleep()]})

    reading = read(OURA, content[:-50])

    assert len(reading.records) == 1
    assert "no JSON" in str(reading.unreadable)
