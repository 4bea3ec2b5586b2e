"""Withings' tables."""

from datetime import UTC, datetime

from resourceserver.integrations.formats.withings import (
    DAYS,
    HEART_RATES,
    PRESSURES,
    SLEEPS,
    WEIGHTS,
)
from resourceserver.integrations.records import HeartRate, Sample, Sensor, Sleep
from tests.integrations.memory import read, recognise

SENSOR = Sensor("Withings")
WEIGHTS_HEADER = 'Date,"Weight (kg)","Fat mass (kg)","Bone mass (kg)",Comments\n'


def test_weights_are_local_times_and_fat_is_a_share() -> None:
    content = (
        WEIGHTS_HEADER
        + '"2025-06-16 08:00:00",80.00,16.00,3.2,\n'
        + '"2025-06-17 08:00:00",,,,\n'
        + "someday,80,16,3,\n"
    )

    reading = read(WEIGHTS, content)

    at = datetime(2025, 6, 16, 6, tzinfo=UTC)
    assert recognise(WEIGHTS, content) == 1.0
    assert reading.records == [
        Sample("weight_kg:1750053600000", "weight_kg", at, at, 80.0, SENSOR),
        Sample("body_fat_percent:1750053600000", "body_fat_percent", at, at, 20.0, SENSOR),
        Sample("lean_body_mass_kg:1750053600000", "lean_body_mass_kg", at, at, 64.0, SENSOR),
    ]
    assert reading.reasons == ["no_weight", "invalid_time"]


def test_pounds_are_converted() -> None:
    content = 'Date,"Weight (lb)","Fat mass (lb)"\n"2025-06-16 08:00:00",100,\n'

    assert recognise(WEIGHTS, content) == 1.0
    assert [each.value for each in read(WEIGHTS, content).records] == [45.359]


def test_blood_pressures_come_with_a_heart_rate() -> None:
    content = (
        'Date,"Heart rate",Systolic,Diastolic,Comments\n'
        '"2025-06-16 08:00:00",61,121,79,\n'
        '"2025-06-16 08:00:00",61,,79,\n'
    )

    reading = read(PRESSURES, content)

    assert recognise(PRESSURES, content) == 1.0
    assert [each.key for each in reading.records] == [
        "blood_pressure_systolic_mmhg:1750053600000",
        "blood_pressure_diastolic_mmhg:1750053600000",
        "hr:1750053600000",
    ]
    assert reading.reasons == ["no_blood_pressure"]


def test_sleeps_name_their_offset() -> None:
    content = (
        'from,to,"light (s)","deep (s)","rem (s)","awake (s)","wake up","Duration to sleep (s)",'
        '"Average heart rate","Heart rate (min)"\n'
        "2025-06-15T23:30:00+02:00,2025-06-16T07:30:00+02:00,13500,5400,7200,2700,3,420,55,48\n"
        "2025-06-16T23:30:00+02:00,2025-06-17T07:30:00+02:00,,,,,,,,\n"
    )

    reading = read(SLEEPS, content)

    assert recognise(SLEEPS, content) == 1.0
    assert reading.records == [
        Sleep(
            key="withings:1750023000000",
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
            disturbance_count=3,
            average_heart_rate_bpm=55.0,
            lowest_heart_rate_bpm=48.0,
        )
    ]
    assert reading.reasons == ["no_sleep"]


def test_a_row_of_heart_rates_has_one_for_each_stretch() -> None:
    content = (
        "start,duration,value\n"
        '2025-06-16T10:00:00+02:00,"[60,30]","[61,62]"\n'
        '2025-06-16T11:00:00+02:00,"[60]","[61,62]"\n'
        '2025-06-16T11:00:00+02:00,"[60","[61]"\n'
    )

    reading = read(HEART_RATES, content, "raw_hr_hr.csv")

    assert recognise(HEART_RATES, content, "x/raw_hr_hr.csv") == 1.0
    assert recognise(HEART_RATES, content, "raw_tracker_steps.csv") == 0.0
    eight = datetime(2025, 6, 16, 8, tzinfo=UTC)
    assert reading.records == [
        HeartRate("hr:1750060800000", eight, 61, SENSOR),
        HeartRate("hr:1750060860000", eight.replace(minute=1), 62, SENSOR),
    ]
    assert reading.reasons == ["no_heart_rate", "no_heart_rate"]


def test_a_day_of_a_changed_clock_ends_at_its_own_midnight() -> None:
    content = "date,value\n2025-03-30,8000\n2025-03-31,\n"

    reading = read(DAYS, content, "aggregates_steps.csv")

    assert recognise(DAYS, content, "aggregates_steps.csv") == 1.0
    assert recognise(DAYS, content, "steps.csv") == 0.0
    assert reading.records == [
        Sample(
            "steps:1743289200000",
            "steps",
            datetime(2025, 3, 29, 23, tzinfo=UTC),
            datetime(2025, 3, 30, 22, tzinfo=UTC),
            8000.0,
            SENSOR,
            None,
            True,
        )
    ]
    assert reading.reasons == ["no_value"]
    assert read(DAYS, content, "steps.csv").unreadable is not None
