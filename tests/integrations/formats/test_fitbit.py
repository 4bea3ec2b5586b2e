"""What becomes of Fitbit's and Google's exports of health."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats.fitbit import GOOGLE_HEALTH, MEASURES, SLEEPS, WEIGHTS
from resourceserver.integrations.formats.google_fit import GOOGLE_FIT
from resourceserver.integrations.records import HeartRate, Sample, Sensor, Sleep
from tests.integrations import samples
from tests.integrations.memory import ALICE, read

FITBIT = Sensor("Fitbit", kind="watch")


def june_16(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2023, 6, 16, hour, minute, second, tzinfo=UTC)


def test_measures_are_samples_of_a_minute_and_heart_rates() -> None:
    sample = samples.fitbit()

    assert read(MEASURES, sample.content, sample.name).records == [
        Sample("steps:1686902400000", "steps", june_16(8), june_16(8, 1), 12.0, FITBIT),
        HeartRate("1686902405000", june_16(8, 0, 5), 72, FITBIT),
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("distance-2023-06-16.json", "1234", [("distance_m", 12.34)]),
        (
            "resting_heart_rate-2023-06-16.json",
            {"date": "06/16/23", "value": 62.1, "error": 6.7},
            [("resting_heart_rate_bpm", 62.1)],
        ),
        ("resting_heart_rate-2023-06-16.json", {"date": None, "value": 0, "error": 0}, []),
    ],
)
def test_the_name_of_a_file_says_what_it_measures(
    name: str, value: Any, expected: list[tuple[str, float]]
) -> None:
    content = json.dumps([{"dateTime": "06/16/23 08:00:00", "value": value}])

    reading = read(MEASURES, content, f"Fitbit/{name}")

    assert [(each.metric_type, each.value) for each in reading.records] == expected
    assert reading.refused == []


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Pacific/Auckland"])
def test_a_resting_heart_rate_is_of_its_local_day_in_every_zone(zone: str) -> None:
    person = replace(ALICE, zone=ZoneInfo(zone))
    measure = {"dateTime": "06/16/23 00:00:00", "value": {"date": "06/16/23", "value": 62}}
    table = "timestamp,beats per minute\n2023-06-16T00:00:00Z,62\n"

    of_json = read(MEASURES, json.dumps([measure]), "resting_heart_rate.json", person=person)
    of_table = read(GOOGLE_HEALTH, table, "daily_resting_heart_rate.csv", person=person)

    [sample] = of_json.records
    assert sample.started_at.astimezone(person.zone).isoformat()[:16] == "2023-06-16T12:00"
    assert of_table.records == [sample]


def test_a_sleep_is_local_in_the_zone_of_the_profile() -> None:
    [sleep] = read(SLEEPS, samples.fitbit_sleep().content).records

    assert sleep == Sleep(
        key="42012345678",
        started_at=datetime(2023, 6, 15, 21, 10, 30, tzinfo=UTC),
        ended_at=june_16(5, 10, 30),
        sensor=FITBIT,
        in_bed_ms=28_800_000,
        asleep_ms=26_100_000,
        awake_ms=2_700_000,
        light_ms=13_500_000,
        deep_ms=5_400_000,
        rem_ms=7_200_000,
        latency_ms=420_000,
        disturbance_count=9,
        efficiency_percent=93,
    )


def test_a_nap_without_stages_is_a_nap() -> None:
    [night] = json.loads(samples.fitbit_sleep().content)
    nap = {**night, "type": "classic", "mainSleep": False, "levels": {"summary": {"asleep": {}}}}

    [sleep] = read(SLEEPS, json.dumps([nap])).records

    assert (sleep.is_nap, sleep.light_ms, sleep.asleep_ms) == (True, None, 26_100_000)


def test_weights_are_in_pounds_and_in_the_zone_of_the_profile() -> None:
    records = read(WEIGHTS, samples.fitbit_weight().content).records

    assert [(each.metric_type, each.value, each.started_at) for each in records] == [
        ("weight_kg", 80.013694068, june_16(5, 49, 59)),
        ("body_mass_index", 23.1, june_16(5, 49, 59)),
        ("body_fat_percent", 18.5, june_16(5, 49, 59)),
    ]
    assert records[0].sensor == Sensor("Aria")


@pytest.mark.parametrize(
    ("name", "column", "value", "expected"),
    [
        ("steps_2023-06-16.csv", "steps", "12", Sample),
        ("daily_resting_heart_rate.csv", "beats per minute", "60.25", Sample),
        ("heart_rate_2023-06-16.csv", "beats per minute", "60.25", HeartRate),
    ],
)
def test_tables_have_the_quantity_in_a_column(
    name: str, column: str, value: str, expected: type[Sample | HeartRate]
) -> None:
    content = f'timestamp,{column},data source\r\n2023-06-16T08:00:00Z,{value},"Watch, 5"\r\n'

    [record] = read(GOOGLE_HEALTH, content, f"x/{name}").records

    assert isinstance(record, expected)
    assert record.sensor == Sensor("Watch, 5")


def test_the_same_steps_in_json_and_in_a_table_have_one_key() -> None:
    sample = samples.fitbit()
    table = "timestamp,steps,data source\n2023-06-16T08:00:00Z,12,Charge 6\n"

    [in_table] = read(GOOGLE_HEALTH, table).records

    assert read(MEASURES, sample.content, sample.name).records[0].key == in_table.key


def test_rows_of_days_and_of_google_data_are_read() -> None:
    content = "timestamp,weight grams\n2023-06-16T00:00:00,80500\n2023-06-16T08:00:00Z,nothing\n"

    reading = read(GOOGLE_HEALTH, content)

    assert [(each.value, each.started_at.hour) for each in reading.records] == [(80.5, 22)]
    assert reading.reasons == ["value_is_no_number"]


def test_google_fit_names_the_stream_that_measured() -> None:
    records = read(GOOGLE_FIT, samples.google_fit().content).records

    assert records == [
        Sample(
            key="steps:1686902400000:1686902460000",
            metric_type="steps",
            started_at=june_16(8),
            ended_at=june_16(8, 1),
            value=42.0,
            sensor=Sensor("com.example.app, merged", "Watch 5"),
        ),
        HeartRate("1686902460000", june_16(8, 1), 61, Sensor("Google Fit, merged")),
    ]


def test_each_stream_of_google_fit_is_a_sensor_of_its_own() -> None:
    """Streams cut the same steps differently: only of different sensors is one counted at each instant."""
    google, kind = "com.google.android.gms", "com.google.step_count.delta"
    content = json.loads(samples.google_fit().content)
    origin = content["Data Points"][0]["originDataSourceId"]
    sensors = []
    for stream in (
        origin,
        f"derived:{kind}:{google}:merge_step_deltas",
        f"derived:{kind}:{google}:estimated_steps",
        None,
    ):
        points = {"Data Points": content["Data Points"][:1]}
        # The stream may stand behind its points.
        for file in ({"Data Source": stream} | points, points | {"Data Source": stream}):
            sensors += [each.sensor for each in read(GOOGLE_FIT, json.dumps(file)).records]

    raw = Sensor("com.example.app", "Watch 5")
    merged, estimated = (
        raw._replace(name=f"com.example.app, {name}")
        for name in ("merge_step_deltas", "estimated_steps")
    )
    assert sensors == [raw, raw, merged, merged, estimated, estimated, raw, raw]


def test_a_truncated_file_of_google_fit_keeps_its_first_points() -> None:
    content = json.loads(samples.google_fit().content)
    del content["Data Source"]

    reading = read(GOOGLE_FIT, json.dumps(content)[:-20])

    assert [each.sensor.name for each in reading.records] == ["com.example.app"]
    assert reading.unreadable is not None


@pytest.mark.parametrize(
    ("format_", "name", "value", "reason"),
    [
        (MEASURES, "steps-x.json", {"dateTime": "6/16/2023", "value": "1"}, "invalid_time"),
        (MEASURES, "steps-x.json", {"value": "1"}, "missing_time"),
        (
            *(MEASURES, "steps-2023-06-16.json"),
            *({"dateTime": "06/16/23 08:00:00", "value": "x"}, "value_is_no_number"),
        ),
        (
            *(MEASURES, "calories-2023-06-16.json"),
            *({"dateTime": "06/16/23 08:00:00", "value": "1.2"}, "quantity_is_not_kept"),
        ),
        (
            *(MEASURES, "time_in_heart_rate_zones-2023-06-16.json"),
            *({"dateTime": "06/16/23 00:00:00", "value": {}}, "quantity_is_not_kept"),
        ),
        (SLEEPS, "sleep.json", {"logId": 1}, "missing_duration"),
        (SLEEPS, "sleep.json", {"minutesAsleep": 1, "timeInBed": 1}, "missing_id"),
        (
            *(SLEEPS, "sleep.json"),
            *({"logId": 1, "minutesAsleep": 1, "timeInBed": 1}, "missing_time"),
        ),
        (WEIGHTS, "weight.json", {"date": "06/16/23"}, "value_is_no_number"),
        (WEIGHTS, "weight.json", {"date": "16.06.23", "weight": 1}, "invalid_time"),
        (GOOGLE_FIT, "fit.json", {"dataTypeName": "com.google.speed"}, "type_is_not_kept"),
        (GOOGLE_FIT, "fit.json", {"dataTypeName": "com.google.weight"}, "missing_time"),
        (MEASURES, "steps.json", 5, "not_an_object"),
    ],
)
def test_what_says_no_value_is_refused(format_: Format, name: str, value: Any, reason: str) -> None:
    content = {"Data Points": [value]} if format_ is GOOGLE_FIT else [value]

    assert read(format_, json.dumps(content), name).reasons == [reason]
