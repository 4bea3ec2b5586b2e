"""Garmin's account export: sleeps and totals of days."""

import json
from datetime import UTC, datetime

from resourceserver.integrations.formats.garmin import DAYS, SLEEPS
from resourceserver.integrations.records import Sample, Sensor, Sleep
from tests.integrations.memory import read, recognise

SENSOR = Sensor("Garmin", kind="watch")

NIGHT = {
    "sleepStartTimestampGMT": "2025-06-15T21:30:00.0",
    "sleepEndTimestampGMT": "2025-06-16T05:30:00.0",
    "calendarDate": "2025-06-16",
    "sleepWindowConfirmationType": "ENHANCED_CONFIRMED_FINAL",
    "deepSleepSeconds": 5400,
    "lightSleepSeconds": 13500,
    "remSleepSeconds": 7200,
    "awakeSleepSeconds": 2700,
    "unmeasurableSeconds": 0,
    "averageRespiration": 14.0,
}

DAY = {
    "calendarDate": "2025-06-16",
    "wellnessStartTimeGmt": "2025-06-15T22:00:00.0",
    "wellnessEndTimeGmt": "2025-06-16T22:00:00.0",
    "totalSteps": 8000,
    "totalDistanceMeters": 6500,
    "activeKilocalories": 500.0,
    "bmrKilocalories": None,
    "restingHeartRate": 51,
}


def test_sleeps_are_the_sum_of_their_stages() -> None:
    unworn = {"sleepStartTimestampGMT": 1750023000000, "sleepEndTimestampGMT": 1750051800000}
    content = json.dumps([NIGHT, unworn, {"deepSleepSeconds": 1}, "night"])

    reading = read(SLEEPS, content)

    assert (recognise(SLEEPS, content), recognise(DAYS, content)) == (1.0, 0.0)
    assert reading.records == [
        Sleep(
            key="garmin:1750023000000",
            started_at=datetime(2025, 6, 15, 21, 30, tzinfo=UTC),
            ended_at=datetime(2025, 6, 16, 5, 30, tzinfo=UTC),
            sensor=SENSOR,
            in_bed_ms=28_800_000,
            asleep_ms=26_100_000,
            awake_ms=2_700_000,
            light_ms=13_500_000,
            deep_ms=5_400_000,
            rem_ms=7_200_000,
            no_data_ms=0,
            respiratory_rate_bpm=14.0,
        )
    ]
    assert reading.reasons == ["no_sleep", "missing_time", "not_an_object"]


def test_days_have_totals_and_a_resting_heart_rate() -> None:
    content = json.dumps([DAY, {"calendarDate": "2025-06-17"}])

    reading = read(DAYS, content)

    begin, end = datetime(2025, 6, 15, 22, tzinfo=UTC), datetime(2025, 6, 16, 22, tzinfo=UTC)
    assert (recognise(SLEEPS, content), recognise(DAYS, content)) == (0.0, 1.0)
    assert reading.records == [
        Sample("steps:1750024800000", "steps", begin, end, 8000.0, SENSOR, None, True),
        Sample("distance_m:1750024800000", "distance_m", begin, end, 6500.0, SENSOR, None, True),
        Sample(
            "active_energy_kj:1750024800000",
            "active_energy_kj",
            begin,
            end,
            2092.0,
            SENSOR,
            None,
            True,
        ),
        Sample(
            "resting_heart_rate_bpm:1750024800000",
            "resting_heart_rate_bpm",
            begin,
            end,
            51.0,
            SENSOR,
        ),
    ]
    assert reading.reasons == ["missing_time"]


def test_a_truncated_file_keeps_the_records_before_the_break() -> None:
    content = json.dumps([NIGHT, NIGHT])

    reading = read(SLEEPS, content[:-20])

    assert len(reading.records) == 1
    assert "no JSON" in str(reading.unreadable)
