"""WHOOP's tables: nights with recovery and strain, naps, workouts."""

from datetime import UTC, datetime

from resourceserver.integrations.formats.whoop import CYCLES, SLEEPS, WORKOUTS
from resourceserver.integrations.records import Cycle, Recovery, Sample, Sensor, Sleep
from tests.integrations.memory import read, recognise

CYCLES_HEADER = (
    "Cycle start time,Cycle end time,Cycle timezone,Recovery score %,Resting heart rate (bpm),"
    "Heart rate variability (ms),Skin temp (celsius),Blood oxygen %,Day Strain,Energy burned (cal),"
    "Max HR (bpm),Average HR (bpm),Sleep onset,Wake onset,Sleep performance %,"
    "Respiratory rate (rpm),Asleep duration (min),In bed duration (min),Light sleep duration (min),"
    "Deep (SWS) duration (min),REM duration (min),Awake duration (min),Sleep need (min),"
    "Sleep debt (min),Sleep efficiency %,Sleep consistency %\n"
)
SLEEPS_HEADER = (
    "Cycle start time,Cycle end time,Cycle timezone,Sleep onset,Wake onset,"
    "Asleep duration (min),In bed duration (min),Nap\n"
)
SENSOR = Sensor("WHOOP", kind="watch")


def test_a_cycle_has_its_night_its_recovery_and_its_strain() -> None:
    reading = read(
        CYCLES,
        CYCLES_HEADER
        + "2026-01-01 22:30:00,2026-01-02 23:00:00,UTC+01:00,66,52,48.2,33.7,96.1,11.4,2000,165,68,"
        "2026-01-01 22:30:00,2026-01-02 06:30:00,88,14.6,435,480,225,90,120,45,490,30,90.6,79\n",
    )

    assert reading.records == [
        Sleep(
            key="whoop:1767303000000",
            started_at=datetime(2026, 1, 1, 21, 30, tzinfo=UTC),
            ended_at=datetime(2026, 1, 2, 5, 30, tzinfo=UTC),
            sensor=SENSOR,
            in_bed_ms=28_800_000,
            asleep_ms=26_100_000,
            utc_offset="+01:00",
            awake_ms=2_700_000,
            light_ms=13_500_000,
            deep_ms=5_400_000,
            rem_ms=7_200_000,
            efficiency_percent=90.6,
            performance_percent=88.0,
            consistency_percent=79.0,
            need_ms=29_400_000,
            debt_ms=1_800_000,
            respiratory_rate_bpm=14.6,
            recovery=Recovery("scored", 66.0, 52.0, 48.2, 96.1, 33.7),
            cycle=Cycle(
                datetime(2026, 1, 1, 21, 30, tzinfo=UTC),
                datetime(2026, 1, 2, 22, tzinfo=UTC),
                11.4,
                21.0,
                8368.0,
                68.0,
                165.0,
            ),
        )
    ]


def test_an_open_cycle_is_kept_and_one_without_a_sleep_is_refused() -> None:
    reading = read(
        CYCLES,
        CYCLES_HEADER
        + "2026-01-01 22:30:00,,UTC-04:30,,,,,,,,,,2026-01-01 22:30:00,2026-01-02 06:30:00,,,400,480\n"
        + "2026-01-02 22:30:00,,UTCZ,,50\n"
        + "2026-01-02 22:30:00,,Berlin,,50\n"
        + "2026-01-02 22:30:00,,UTCZ,,,,,,,,,,tonight,tomorrow,,,400,480\n",
    )

    (sleep,) = reading.records
    assert sleep.utc_offset == "-04:30"
    assert sleep.started_at == datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert sleep.recovery == Recovery("pending")
    assert sleep.cycle == Cycle(sleep.started_at, None)
    assert reading.reasons == ["no_sleep", "missing_zone", "invalid_time"]


def test_the_table_of_sleeps_adds_naps_to_the_nights_of_the_cycles() -> None:
    rows = (
        "2026-01-01 22:30:00,,UTCZ,2026-01-01 22:30:00,2026-01-02 06:30:00,435,480,false\n"
        "2026-01-01 22:30:00,,UTCZ,2026-01-02 14:00:00,2026-01-02 14:30:00,25,30,true\n"
    )
    both = {"physiological_cycles.csv": b""}

    beside = read(SLEEPS, SLEEPS_HEADER + rows, "sleeps.csv", both)
    alone = read(SLEEPS, SLEEPS_HEADER + rows, "sleeps.csv")

    assert [(each.is_nap, each.asleep_ms) for each in beside.records] == [(True, 1_500_000)]
    assert beside.reasons == ["also_in_physiological_cycles"]
    assert [each.is_nap for each in alone.records] == [False, True]


def test_workouts_are_totals() -> None:
    reading = read(
        WORKOUTS,
        "Cycle start time,Cycle end time,Cycle timezone,Workout start time,Workout end time,"
        "Duration (min),Activity name,Activity Strain,Energy burned (cal)\n"
        "2026-01-01 22:30:00,,UTC+01:00,2026-01-02 08:00:00,2026-01-02 08:30:00,30,Running,15,500\n"
        "2026-01-01 22:30:00,,UTC+01:00,,,30,Running,15,500\n",
    )

    at, ended = datetime(2026, 1, 2, 7, tzinfo=UTC), datetime(2026, 1, 2, 7, 30, tzinfo=UTC)
    assert reading.records == [
        Sample("active_energy_kj:1767337200000", "active_energy_kj", at, ended, 2092.0, SENSOR),
        Sample("exercise_ms:1767337200000", "exercise_ms", at, ended, 1_800_000.0, SENSOR),
    ]
    assert reading.reasons == ["missing_time"]


def test_each_table_is_recognised_by_its_columns() -> None:
    cycles, sleeps = CYCLES_HEADER, "\ufeff" + SLEEPS_HEADER
    formats = (CYCLES, SLEEPS, WORKOUTS)

    assert [recognise(each, cycles) for each in formats] == [1.0, 0.0, 0.0]
    assert [recognise(each, sleeps) for each in formats] == [0.0, 1.0, 0.0]
    journal = "Cycle start time,Cycle end time,Cycle timezone,Question text,Answered yes\n"
    assert [recognise(each, journal) for each in formats] == [0.0, 0.0, 0.0]
