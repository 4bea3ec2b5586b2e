"""What the readers of messages about health find: names, units, times, keys, and what they refuse."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resourceserver.integrations.format import Person
from resourceserver.integrations.formats.life_dashboard import SCREEN_TIME
from resourceserver.integrations.receivers.health.items import Bucket, Item, StageOf
from resourceserver.integrations.receivers.health.messages import Unrecognised, parse
from resourceserver.integrations.records import (
    HeartRate,
    Refused,
    Sample,
    ScreenTime,
    Sensor,
    Sleep,
)
from tests.integrations.memory import read
from tests.integrations.more_samples import screen_time_message

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
BERLIN = Person(ZoneInfo("Europe/Berlin"), NOON)
MORNING = datetime(2026, 11, 23, 7, 30, tzinfo=UTC)


def dashboard(**lists: Any) -> dict[str, Any]:
    """Return a message of Life Dashboard Companion."""
    head = {"timestamp": "2026-11-23T12:00:00Z", "app_version": "2", "source": "health_connect"}
    return head | lists


def webhook(**lists: Any) -> dict[str, Any]:
    """Return a message of Health Connect Webhook."""
    return {"timestamp": "2026-11-23T12:00:00Z", "app_version": "1.9.13"} | lists


def export(name: str, units: str, *points: Any) -> dict[str, Any]:
    """Return a message of Health Auto Export with the values of one metric."""
    return {"data": {"metrics": [{"name": name, "units": units, "data": list(points)}]}}


def items(message: Any) -> list[Item]:
    """Return what a message contains, for a person in Berlin."""
    return list(parse(json.dumps(message).encode()).items(BERLIN))


def refusals(found: list[Item]) -> Counter[str]:
    """Count what was refused, by reason."""
    return Counter(item.reason for item in found if isinstance(item, Refused))


def sample(found: Any) -> Sample:
    """Return the only item, which is a sample."""
    [item] = found
    assert isinstance(item, Sample)
    return item


# Life Dashboard Companion


def test_a_record_of_life_dashboard_is_known_by_its_id() -> None:
    steps = {"count": 1234, "start_time": "2026-11-23T07:00:00Z", "source": "com.zepp.app"}

    found = items(dashboard(steps=[steps | {"end_time": "2026-11-23T07:30:00Z", "uuid": "a-1"}]))

    assert sample(found) == Sample(
        key="steps:a-1",
        metric_type="steps",
        started_at=MORNING - timedelta(minutes=30),
        ended_at=MORNING,
        value=1234.0,
        sensor=Sensor("com.zepp.app", platform="android"),
    )


def test_heart_rates_of_one_series_share_an_id_and_have_keys_of_their_own() -> None:
    series = [
        {"bpm": bpm, "time": f"2026-11-23T07:30:0{bpm % 10}Z", "uuid": "s"} for bpm in (71, 72)
    ]

    found = items(dashboard(heart_rate=series))

    assert [(each.key, each.bpm) for each in found if isinstance(each, HeartRate)] == [
        ("s:1795419001000", 71),
        ("s:1795419002000", 72),
    ]


def test_a_bucket_keeps_its_exact_sum_and_the_number_of_its_samples() -> None:
    window = {"bucket_start": "2026-11-23T07:00:00Z", "bucket_end": "2026-11-23T07:30:00Z"}
    pulse = window | {"sample_count": 3, "avg": 72.1, "min": 66, "max": 81, "sources": ["watch"]}
    energy = window | {"sample_count": 2, "total": 0.1}

    [first, second] = items(dashboard(heart_rate=[pulse], active_calories=[energy]))

    assert isinstance(first, Bucket)
    assert isinstance(second, Bucket)
    assert (first.metric_type, first.sample_count, first.total) == (
        "heart_rate",
        3,
        Decimal("216.3"),
    )
    assert (first.minimum, first.maximum, first.sensor.name) == (66.0, 81.0, "watch")
    assert (second.metric_type, second.total) == ("active_energy_kj", Decimal("0.4184"))


def test_the_total_of_today_ends_when_the_message_was_written() -> None:
    days = [{"date": "2026-11-22", "steps": 9000}, {"date": "2026-11-23", "steps": 400}]

    found = items(dashboard(daily_totals=days))

    assert [
        (each.started_at, each.ended_at, each.value, each.is_daily_total)
        for each in found
        if isinstance(each, Sample)
    ] == [
        (
            datetime(2026, 11, 21, 23, tzinfo=UTC),
            datetime(2026, 11, 22, 23, tzinfo=UTC),
            9000.0,
            True,
        ),
        (datetime(2026, 11, 22, 23, tzinfo=UTC), NOON, 400.0, True),
    ]


def test_variability_of_an_iphone_is_the_deviation_of_its_intervals() -> None:
    measured = [{"heart_rate_variability_millis": 42.5, "time": "2026-11-23T07:30:00Z"}]

    android = items(dashboard(heart_rate_variability=measured))
    iphone = items(dashboard(heart_rate_variability=measured) | {"source": "healthkit_ios"})

    assert [sample(android).metric_type, sample(iphone).metric_type] == [
        "hrv_rmssd_ms",
        "hrv_sdnn_ms",
    ]


def test_screen_time_is_read_as_from_a_file() -> None:
    message = screen_time_message(timestamp="2026-11-23T13:00:00Z")

    found = items(message)

    assert found == read(SCREEN_TIME, json.dumps(message), person=BERLIN).records
    assert [type(item) for item in found] == [ScreenTime]
    assert refusals(items(message | {"screen_time": None})) == {"days_are_missing": 1}


def test_what_has_no_place_is_counted_by_its_reason() -> None:
    found = items(
        dashboard(
            exercise=[{"type": "running"}],
            total_calories=[{"calories": 1}, {"calories": 2}],
            moods=[{"mood": "good"}],
            screen_time=[{"date": "2026-11-23"}, {"date": "2026-11-25", "apps": []}],
            deleted_records=[{"type": "nutrition", "uuid": "x"}],
            steps=["many", {"count": "ten", "start_time": "2026-11-23T07:00:00Z"}],
            weight=[{"kilograms": 70}],
        )
    )

    assert refusals(found) == {
        "workouts_are_not_kept": 1,
        "type_is_not_kept": 2,
        "unknown_metric": 1,
        "applications_are_missing": 1,
        "timestamp_in_future": 1,
        "removals_are_not_kept": 1,
        "not_an_object": 1,
        "missing_time": 2,
    }


# Sleep


def stage(name: str, start: str, end: str) -> dict[str, str]:
    """Return a stage between two times of the night to the 23rd."""
    return {
        "stage": name,
        "start_time": f"2026-11-23T{start}:00Z",
        "end_time": f"2026-11-23T{end}:00Z",
    }


@pytest.mark.parametrize("message", [dashboard, webhook])
def test_a_sleep_begins_its_duration_before_its_end(message: Any) -> None:
    night = {"session_end_time": "2026-11-23T07:30:00Z", "duration_seconds": 27_000}

    [found] = items(message(sleep=[night]))

    assert isinstance(found, Sleep)
    assert (found.started_at, found.ended_at) == (datetime(2026, 11, 23, tzinfo=UTC), MORNING)
    assert (found.in_bed_ms, found.asleep_ms, found.deep_ms) == (27_000_000, 27_000_000, None)


def test_stages_count_once_and_within_their_session() -> None:
    night = {"session_end_time": "2026-11-23T04:00:00Z", "duration_seconds": 4 * 3600}
    stages = [
        stage("deep", "00:00", "01:00"),
        stage("deep", "00:30", "01:30"),
        stage("out_of_bed", "01:30", "02:00"),
        stage("awake", "02:00", "02:15"),
        stage("rem", "03:00", "05:00"),
        stage("dreaming", "02:15", "03:00"),
        {"stage": "light"},
    ]

    [named] = items(dashboard(sleep=[night | {"stages": stages, "uuid": "n"}]))
    [numbered] = items(
        webhook(
            sleep=[night | {"stages": [stage("5", "00:00", "01:30"), stage("6", "03:00", "04:00")]}]
        )
    )

    minutes = 60_000
    assert isinstance(named, Sleep)
    assert (named.key, named.in_bed_ms, named.asleep_ms) == (
        "sleep:n",
        210 * minutes,
        150 * minutes,
    )
    assert (named.deep_ms, named.rem_ms, named.light_ms) == (90 * minutes, 60 * minutes, 0)
    assert named.awake_ms == 15 * minutes
    assert isinstance(numbered, Sleep)
    assert (numbered.deep_ms, numbered.rem_ms) == (90 * minutes, 60 * minutes)


# Health Auto Export


@pytest.mark.parametrize(
    ("name", "units", "given_value", "metric", "value"),
    [
        ("weight_body_mass", "lb", 150, "weight_kg", 68.0388555),
        ("walking_running_distance", "mi", 2, "distance_m", 3218.688),
        ("active_energy", "kcal", 100, "active_energy_kj", 418.4),
        ("basal_energy_burned", "kJ", 100, "basal_energy_kj", 100.0),
        ("body_temperature", "°F", 98.6, "body_temperature_c", 37.0),
        ("blood_glucose", "mg/dL", 90, "blood_glucose_mmol_per_l", 4.995673747),
        ("blood_oxygen_saturation", "%", 97, "blood_oxygen_percent", 97.0),
        ("vo2_max", "ml/(kg·min)", 51.4, "vo2_max", 51.4),
        ("apple_exercise_time", "min", 30, "exercise_ms", 1_800_000.0),
        ("walking_speed", "km/hr", 3.6, "walking_speed_mps", 1.0),
        ("dietary_water", "fl_oz_us", 10, "water_ml", 295.735295625),
        ("heart_rate_variability", "ms", 50, "hrv_sdnn_ms", 50.0),
        ("step_count", "steps", 12, "steps", 12.0),
    ],
)
def test_a_value_is_converted_from_the_unit_that_it_has(
    name: str, units: str, given_value: float, metric: str, value: float
) -> None:
    point = {
        "qty": given_value,
        "date": "2026-11-23 08:30:00 +0100",
        "source": "Ann\u2019s Apple Watch",
    }

    found = sample(items(export(name, units, point)))

    assert (found.metric_type, found.value) == (metric, value)
    assert (found.started_at, found.sensor.kind) == (MORNING, "watch")


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("2026-11-23 08:30:00 +0100", MORNING),
        ("2026-11-23 8:30:00\u202fAM +0100", MORNING),
        ("2026-11-23 12:05:00 am +0000", datetime(2026, 11, 23, 0, 5, tzinfo=UTC)),
        ("2026-11-23T07:30:00.000Z", MORNING),
        ("2026-11-23 08:30:00", MORNING),
        ("2026-11-23", datetime(2026, 11, 22, 23, tzinfo=UTC)),
        # Of an hour that the clocks have twice, the first.
        ("2026-10-25 02:30:00", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
    ],
)
def test_times_are_read_with_and_without_an_offset(written: str, at: datetime) -> None:
    point = {"qty": 70, "date": written}

    assert sample(items(export("weight_body_mass", "kg", point))).started_at == at


@pytest.mark.parametrize(
    ("times", "ends", "is_of_a_day"),
    [
        (("00:00:00", "00:00:00"), datetime(2026, 11, 20, 23, tzinfo=UTC), True),
        (("00:00:00", "13:00:00"), datetime(2026, 11, 20, 0, tzinfo=UTC), False),
        (("00:00:00", "13:01:00"), datetime(2026, 11, 19, 23, 1, tzinfo=UTC), False),
        (("00:00:00", "13:01:01"), datetime(2026, 11, 19, 23, tzinfo=UTC), False),
    ],
)
def test_a_sum_lasts_as_long_as_the_times_of_its_metric_allow(
    times: tuple[str, str], ends: datetime, is_of_a_day: bool
) -> None:
    points = [
        {"qty": 5, "date": f"2026-11-2{day} {clock} +0100"} for day, clock in enumerate(times)
    ]

    found = items(export("step_count", "count", *points))

    assert isinstance(found[0], Sample)
    assert (found[0].ended_at, found[0].is_daily_total) == (ends, is_of_a_day)


def test_a_sum_of_today_ends_now() -> None:
    point = {"qty": 4321, "date": "2026-11-23 00:00:00 +0100"}

    assert sample(items(export("step_count", "count", point))).ended_at == NOON


def test_pulse_and_blood_pressure_have_members_of_their_own() -> None:
    at = {"date": "2026-11-23 08:30:00 +0100"}
    pulse = items(export("heart_rate", "count/min", at | {"Min": 54, "Avg": 63.6, "Max": 118}))
    pressure = items(export("blood_pressure", "mmHg", at | {"systolic": 120, "diastolic": 80}))

    assert [(each.bpm, each.recorded_at) for each in pulse if isinstance(each, HeartRate)] == [
        (64, MORNING)
    ]
    assert [(each.metric_type, each.value) for each in pressure if isinstance(each, Sample)] == [
        ("blood_pressure_systolic_mmhg", 120.0),
        ("blood_pressure_diastolic_mmhg", 80.0),
    ]


def test_sums_of_a_night_are_hours_and_time_in_bed_is_never_added() -> None:
    night = {
        "date": "2026-11-23 00:00:00 +0100",
        "sleepStart": "2026-11-22 23:30:00 +0100",
        "sleepEnd": "2026-11-23 07:30:00 +0100",
        "totalSleep": 7.5,
        "asleep": 0,
        "core": 4.5,
        "deep": 1,
        "rem": 2,
        "awake": 0.5,
        "inBed": 8.25,
    }

    [found] = items(export("sleep_analysis", "hr", night))

    assert isinstance(found, Sleep)
    assert (found.in_bed_ms, found.asleep_ms, found.awake_ms) == (29_700_000, 27_000_000, 1_800_000)
    assert (found.light_ms, found.deep_ms, found.rem_ms) == (16_200_000, 3_600_000, 7_200_000)


def test_stages_of_a_night_wait_for_those_of_other_messages() -> None:
    part = {
        "startDate": "2026-11-23 01:00:00 +0100",
        "endDate": "2026-11-23 02:00:00 +0100",
        "qty": 1,
    }

    found = items(
        export("sleep_analysis", "hr", part | {"value": "In Bed"}, part | {"value": "Purple"})
    )

    assert [each.stage.kind for each in found if isinstance(each, StageOf)] == ["InBed"]
    assert refusals(found) == {"unknown_stage_of_sleep": 1}


def test_other_lists_and_units_are_counted_and_left() -> None:
    point = {"qty": 1, "date": "2026-11-23 08:30:00 +0100"}
    message = export("step_count", "furlong", point, point)
    message["data"]["metrics"] += [{"name": "handwashing", "units": "count", "data": [point]}, 7]
    message["data"] |= {"workouts": [{}, {}], "ecg": [{}], "novelty": [{}], "symptoms": 3}

    assert refusals(items(message)) == {
        "unknown_unit": 2,
        "unknown_metric": 2,
        "not_an_object": 1,
        "workouts_are_not_kept": 2,
        "type_is_not_kept": 1,
        "not_a_list": 1,
    }


# Health Connect Webhook


def test_a_record_without_an_id_is_known_by_its_metric_times_and_application() -> None:
    times = {"start_time": "2026-11-23T07:00:00Z", "end_time": "2026-11-23T07:30:00Z"}
    metadata = {
        "data_origin": "com.fit.app",
        "device": {"manufacturer": "Acme", "model": "Band 7", "type": 1},
    }

    found = sample(items(webhook(steps=[{"count": 5, **times, "metadata": metadata}])))

    assert found.key == "steps:1795417200000:1795419000000:com.fit.app"
    assert found.sensor == Sensor("com.fit.app", "Band 7", "watch", "android")


def test_the_sum_of_a_day_keeps_its_key_while_it_grows() -> None:
    midnight = "2026-11-22T23:00:00Z"
    early = items(
        webhook(steps=[{"count": 5, "start_time": midnight, "end_time": "2026-11-23T07:30:00.5Z"}])
    )
    late = items(
        webhook(steps=[{"count": 9, "start_time": midnight, "end_time": "2026-11-23T09:00:07Z"}])
    )
    window = items(
        webhook(steps=[{"count": 1, "start_time": midnight, "end_time": "2026-11-22T23:15:00Z"}])
    )

    assert sample(early).key == sample(late).key
    assert [sample(each).is_daily_total for each in (early, late, window)] == [True, True, False]


def test_the_two_applications_name_some_values_differently() -> None:
    at = {"time": "2026-11-23T07:30:00Z"}

    hers = dashboard(
        heart_rate_variability=[at | {"heart_rate_variability_millis": 40}],
        vo2_max=[at | {"vo2_ml_per_min_per_kg": 42.5}],
        basal_metabolic_rate=[at | {"kilocalories_per_day": 1650}],
    )
    his = webhook(
        heart_rate_variability=[at | {"rmssd_millis": 40}],
        vo2_max=[at | {"ml_per_kg_per_min": 42.5}],
        basal_metabolic_rate=[at | {"watts": 80}],
    )

    expected = [("hrv_rmssd_ms", 40.0), ("vo2_max", 42.5)]
    for found in (items(hers), items(his)):
        assert [(s.metric_type, s.value) for s in found if isinstance(s, Sample)] == expected
        assert refusals(found) == {"type_is_not_kept": 1}


# Bad input


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"timestamp":"x"}',
        b'{"data":[]}',
        b'{"data":{}',
        b'{"data":' * 100_000,
    ],
    ids=["empty", "bytes", "list", "object", "half", "other", "cut off", "deep"],
)
def test_a_body_of_another_shape_says_what_is_wrong(body: bytes) -> None:
    with pytest.raises(Unrecognised, match=r"^the body is .+"):
        parse(body)


def test_records_beside_broken_ones_are_kept() -> None:
    body = json.dumps(dashboard(weight=[{"kilograms": 70, "time": "2026-11-23T07:30:00Z"}]))
    broken = ["NaN", "Infinity", "1e999", "9" * 5000, '"\\ud800"', "[[[]]]", "null"]
    others = ",".join(f'{{"kilograms":{each},"time":"2026-11-23T07:30:00Z"}}' for each in broken)

    found = list(parse(body.replace('"weight": [', f'"weight": [{others},').encode()).items(BERLIN))

    assert [each.value for each in found if isinstance(each, Sample)] == [70.0]
    assert refusals(found) == {"value_is_no_number": len(broken)}


def test_bytes_that_are_no_utf_8_spoil_one_name_alone() -> None:
    message = dashboard(
        weight=[{"kilograms": 70, "time": "2026-11-23T07:30:00Z", "source": "\u00e9"}]
    )
    body = json.dumps(message, ensure_ascii=False).encode("latin-1")

    [found] = parse(body).items(BERLIN)

    assert isinstance(found, Sample)
    assert found.sensor.name == "\ufffd"


def test_a_clock_that_is_ahead_has_its_records_refused() -> None:
    times = ["2026-11-23T13:00:00Z", "2026-11-23T13:00:01Z", "2027-11-23T12:00:00Z"]

    found = items(dashboard(weight=[{"kilograms": 70, "time": each} for each in times]))

    assert len(found) == 3
    assert refusals(found) == {"timestamp_in_future": 2}


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31 23:59:59"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
_MEMBERS = st.sampled_from(
    [
        *("time", "start_time", "end_time", "count", "bpm", "bucket_start", "bucket_end", "total"),
        *("sample_count", "avg", "min", "max", "sources", "uuid", "source", "metadata", "stages"),
        *("session_end_time", "duration_seconds", "date", "qty", "Avg", "sleepStart", "sleepEnd"),
        *("totalSleep", "value", "startDate", "endDate", "steps", "systolic", "stage"),
    ]
)
_ELEMENTS = st.lists(_VALUES | st.dictionaries(_MEMBERS, _VALUES, max_size=8), max_size=3)
_LISTS = st.sampled_from(
    ["steps", "heart_rate", "sleep", "daily_totals", "blood_pressure", "mindfulness", "weight"]
)
_METRICS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(
            ["step_count", "heart_rate", "sleep_analysis", "blood_pressure", "body_temperature"]
        ),
        "units": st.sampled_from(["count", "count/min", "hr", "degF", "", "x"]),
        "data": _ELEMENTS,
    }
)


@given(
    st.dictionaries(_LISTS, _ELEMENTS | _VALUES).map(lambda lists: dashboard(**lists))
    | st.dictionaries(_LISTS, _ELEMENTS | _VALUES).map(lambda lists: webhook(**lists))
    | st.lists(_METRICS | _VALUES).map(lambda metrics: {"data": {"metrics": metrics}})
)
def test_a_reader_reads_to_the_end_whatever_the_values_are(message: dict[str, Any]) -> None:
    # NaN and infinite numbers are written as JavaScript does.
    for item in parse(json.dumps(message).encode()).items(BERLIN):
        assert isinstance(item, Sample | HeartRate | Sleep | Bucket | StageOf | Refused)
