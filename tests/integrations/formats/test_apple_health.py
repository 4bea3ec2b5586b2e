"""What becomes of Apple Health's export."""

from datetime import UTC, datetime
from typing import Any

import pytest

from resourceserver.integrations.formats import apple_health as module
from resourceserver.integrations.formats.apple_health import APPLE_HEALTH
from resourceserver.integrations.records import METRICS, HeartRate, Sample, Sensor, Sleep
from tests.integrations.memory import Reading, read
from tests.integrations.samples import apple_health, apple_health_export, apple_record

WATCH = Sensor("Zoë's Apple Watch", "Watch6,2", "watch")
HOURS = ("2022-06-16 08:00:00 +0200", "2022-06-16 09:00:00 +0200")
STEP = apple_record("QuantityTypeIdentifierStepCount", *HOURS, "212", "count")


def utc(
    year: int, month: int, day: int, hour: int, minute: int = 0, second: int = 0, micro: int = 0
) -> datetime:
    return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)


def read_elements(*elements: str) -> Reading:
    return read(APPLE_HEALTH, apple_health_export(*elements))


def stage(start: str, end: str, value: str, source: str = "") -> str:
    return apple_record(
        "CategoryTypeIdentifierSleepAnalysis",
        f"2022-06-{start} +0200",
        f"2022-06-{end} +0200",
        f"HKCategoryValueSleepAnalysis{value}",
        more=source,
    )


def test_records_are_samples_heart_rates_and_sleeps() -> None:
    reading = read(APPLE_HEALTH, apple_health().content)

    assert reading.records == [
        Sample(
            key="steps:1655359200:1655359830:Zoë's Apple Watch",
            metric_type="steps",
            started_at=utc(2022, 6, 16, 6),
            ended_at=utc(2022, 6, 16, 6, 10, 30),
            value=212.0,
            sensor=WATCH,
        ),
        HeartRate("1655359205:Zoë's Apple Watch", utc(2022, 6, 16, 6, 0, 5), 61, WATCH),
        Sleep(
            key="1655325000000:Zoë's Apple Watch",
            started_at=utc(2022, 6, 15, 20, 30),
            ended_at=utc(2022, 6, 16, 4, 30),
            sensor=WATCH,
            in_bed_ms=8 * 3_600_000,
            asleep_ms=24_300_000,
            awake_ms=900_000,
            light_ms=14_400_000,
            deep_ms=3_600_000,
            rem_ms=6_300_000,
        ),
    ]


def test_attributes_stand_in_any_order_and_may_be_missing() -> None:
    times = 'endDate="2022-06-16 09:00:00 +0200" startDate="2022-06-16 08:00:00 +0200"'
    reading = read_elements(
        STEP,
        f'<Record unit="count" value="7" {times} type="HKQuantityTypeIdentifierStepCount"/>',
        STEP,
        '<Record type="HKQuantityTypeIdentifierStepCount" unit="count" value="8"/>',
        f'<Record type="HKQuantityTypeIdentifierStepCount" {times} value="8"/>',
        f"<Record {times}/>",
        STEP,
    )

    assert [(each.value, each.sensor.name) for each in reading.records] == [
        (212.0, "Zoë's Apple Watch"),
        (7.0, "Apple Health"),
        (212.0, "Zoë's Apple Watch"),
        (212.0, "Zoë's Apple Watch"),
    ]
    assert [(each.reason, each.example) for each in reading.refused] == [
        (
            "missing_time",
            '{"type": "HKQuantityTypeIdentifierStepCount", "unit": "count", "value": "8"}',
        ),
        (
            "unknown_unit",
            '{"type": "HKQuantityTypeIdentifierStepCount",'
            ' "endDate": "2022-06-16 09:00:00 +0200",'
            ' "startDate": "2022-06-16 08:00:00 +0200", "value": "8"}',
        ),
        (
            "type_is_not_kept",
            '{"endDate": "2022-06-16 09:00:00 +0200", "startDate": "2022-06-16 08:00:00 +0200"}',
        ),
    ]


@pytest.mark.parametrize(
    ("kind", "value", "unit", "metric", "converted"),
    [
        ("DistanceWalkingRunning", "1.5", "km", "distance_m", 1500.0),
        ("DistanceWalkingRunning", "2", "mi", "distance_m", 3218.688),
        ("BodyMass", "100", "lb", "weight_kg", 45.359237),
        ("BodyMass", "80", "kg", "weight_kg", 80.0),
        ("ActiveEnergyBurned", "100", "kcal", "active_energy_kj", 418.4),
        ("ActiveEnergyBurned", "100", "Cal", "active_energy_kj", 418.4),
        ("BasalEnergyBurned", "100", "kJ", "basal_energy_kj", 100.0),
        ("BodyTemperature", "98.6", "degF", "body_temperature_c", 37.0),
        ("BodyTemperature", "36.6", "degC", "body_temperature_c", 36.6),
        ("OxygenSaturation", "0.57", "%", "blood_oxygen_percent", 57.0),
        ("AppleExerciseTime", "3", "min", "exercise_ms", 180_000.0),
        ("Height", "5.9", "ft", "height_m", 1.79832),
        ("BloodGlucose", "90", "mg/dL", "blood_glucose_mmol_per_l", 4.995673747),
        ("BloodGlucose", "5", "mmol&lt;180.1558800000541&gt;/L", "blood_glucose_mmol_per_l", 5.0),
        ("WalkingSpeed", "3.6", "km/hr", "walking_speed_mps", 1.0),
        ("DietaryWater", "8", "fl_oz_us", "water_ml", 236.5882365),
        ("VO2Max", "41.5", "mL/min·kg", "vo2_max", 41.5),
        ("HeartRateVariabilitySDNN", "48.2", "ms", "hrv_sdnn_ms", 48.2),
    ],
)
def test_units_are_converted(
    kind: str, value: str, unit: str, metric: str, converted: float
) -> None:
    reading = read_elements(apple_record(f"QuantityTypeIdentifier{kind}", *HOURS, value, unit))

    assert [(each.metric_type, each.value) for each in reading.records] == [(metric, converted)]


def test_each_metric_is_one_that_the_project_knows() -> None:
    assert {metric for metric, _ in module._METRICS.values()} <= set(METRICS)


def test_a_mindful_session_is_its_time() -> None:
    element = apple_record("CategoryTypeIdentifierMindfulSession", *HOURS, "0")

    [sample] = read_elements(element).records

    assert (sample.metric_type, sample.value) == ("mindful_ms", 3_600_000.0)


@pytest.mark.parametrize(
    ("kind", "unit", "other_unit", "factor"),
    [("DietaryEnergyConsumed", "kcal", "kJ", 4.184), ("DietaryWater", "cL", "mL", 10)],
)
def test_each_food_and_drink_of_a_meal_has_its_own_key(
    kind: str, unit: str, other_unit: str, factor: float
) -> None:
    kind = f"QuantityTypeIdentifier{kind}"
    parts = [apple_record(kind, *HOURS, value, unit) for value in ("52.7", "120", "1e300")]
    # The person changed the unit between two exports.
    again = apple_record(kind, *HOURS, str(round(52.7 * factor, 3)), other_unit)

    keys = [each.key for each in read_elements(*parts, again).records]

    assert len(set(keys[:3])) == 3
    assert keys[3] == keys[0]
    assert max(map(len, keys)) < 100


def test_an_offset_of_another_export_gives_the_same_key() -> None:
    in_berlin = apple_record("QuantityTypeIdentifierStepCount", *HOURS, "212", "count")
    in_tokyo = apple_record(
        *("QuantityTypeIdentifierStepCount", "2022-06-16 15:00:00 +0900"),
        *("2022-06-16 16:00:00 +0900", "212", "count"),
    )

    first, second = read_elements(in_berlin, in_tokyo).records

    assert first == second
    assert first.utc_offset is None


def test_control_characters_and_their_references_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = 'sourceName="My\x0b Wat&#11;ch&#x1F;&#10;\x00!"'
    element = apple_record("QuantityTypeIdentifierStepCount", *HOURS, "1", "count", source)

    # Wherever a chunk ends.
    sensors = []
    for length in range(250, 265):
        monkeypatch.setattr(module, "CHUNK_LENGTH", length)
        sensors += [each.sensor for each in read_elements(element).records]

    assert sensors == [Sensor("My Watch !", None, "watch")] * 15


def test_a_phone_and_other_sources_are_distinguished() -> None:
    device = "&lt;&lt;HKDevice: 0x2&gt;, name:iPhone, model:iPhone, hardware:iPhone13,2&gt;"
    sources = [f'sourceName="Alice" device="{device}"', 'sourceName="My scale"', 'unit2=""']

    records = read_elements(
        *(
            apple_record("QuantityTypeIdentifierStepCount", *HOURS, "1", "count", source)
            for source in sources
        )
    ).records

    assert [each.sensor for each in records] == [
        Sensor("Alice", "iPhone13,2", "phone"),
        Sensor("My scale", None, "other"),
        Sensor("Apple Health", None, "other"),
    ]


def test_a_source_with_a_long_name_has_a_short_key() -> None:
    element = apple_record(
        "QuantityTypeIdentifierStepCount", *HOURS, "1", "count", f'sourceName="{"x" * 5000}"'
    )

    [sample] = read_elements(element).records

    assert len(sample.key) < 60


def test_what_the_file_says_twice_is_read_once() -> None:
    correlation = f'<Correlation type="HKCorrelationTypeIdentifierFood">{STEP}</Correlation>'

    reading = read_elements(STEP, correlation, STEP.replace("212", "213"))

    assert [each.value for each in reading.records] == [212.0, 213.0]
    assert reading.refused == []


def test_workouts_and_unknown_types_are_counted() -> None:
    workout = '<Workout workoutActivityType="HKWorkoutActivityTypeRunning" duration="32"/>'
    other = apple_record("QuantityTypeIdentifierNumberOfTimesFallen", *HOURS, "1", "count")

    reading = read_elements(workout, other, STEP)

    assert reading.reasons == ["workouts_are_not_kept", "type_is_not_kept"]
    assert "NumberOfTimesFallen" in reading.refused[1].example
    assert len(reading.records) == 1


def test_each_source_has_a_sleep_of_its_own_each_night() -> None:
    app = 'sourceName="Sleep app"'

    records = read_elements(
        stage("15 23:00:00", "16 01:00:00", "AsleepCore"),
        stage("15 23:10:00", "16 06:00:00", "AsleepUnspecified", app),
        # Out of order, after a gap of less than two hours.
        stage("16 04:00:00", "16 06:00:00", "AsleepDeep"),
        stage("16 01:00:00", "16 02:01:00", "AsleepREM"),
        # Half an hour after noon is another sleep, and a nap.
        stage("16 12:30:00", "16 13:00:00", "AsleepCore"),
    ).records

    found = [(each.sensor.name, each.started_at, each.asleep_ms, each.is_nap) for each in records]
    assert found == [
        ("Zoë's Apple Watch", utc(2022, 6, 15, 21), 18_060_000, False),
        ("Zoë's Apple Watch", utc(2022, 6, 16, 10, 30), 1_800_000, True),
        ("Sleep app", utc(2022, 6, 15, 21, 10), 24_600_000, False),
    ]
    # The application does not know stages.
    assert (records[2].light_ms, records[2].awake_ms) == (None, None)


def test_stages_that_overlap_count_once() -> None:
    [sleep] = read_elements(
        stage("15 23:00:00", "16 01:00:00", "Asleep"),
        stage("15 23:30:00", "16 00:00:00", "Asleep"),
        stage("16 00:30:00", "16 03:00:00", "Asleep"),
    ).records

    assert (sleep.asleep_ms, sleep.in_bed_ms) == (4 * 3_600_000, 4 * 3_600_000)


def test_time_in_bed_alone_is_no_sleep() -> None:
    reading = read_elements(stage("15 23:00:00", "16 07:00:00", "InBed"))

    assert (reading.records, reading.reasons) == ([], ["time_in_bed_without_sleep"])


def test_stages_that_begin_together_need_no_zone() -> None:
    element = stage("15 23:00:00", "16 06:00:00", "Asleep")
    zoned = element.replace("/>", '><MetadataEntry key="HKTimeZone" value="Asia/Tokyo"/></Record>')

    [sleep] = read_elements(zoned, element, zoned).records

    assert (sleep.asleep_ms, sleep.utc_offset) == (7 * 3_600_000, "+09:00")


def test_the_zone_of_a_sleep_is_in_its_metadata() -> None:
    element = stage("15 23:00:00", "16 06:00:00", "AsleepCore").replace(
        "/>", '><MetadataEntry key="HKTimeZone" value="Asia/Tokyo"/></Record>'
    )
    other = STEP.replace("/>", '><MetadataEntry key="HKTimeZone" value="Europe/Rome"/></Record>')

    records = read_elements(element, other).records

    assert [each.utc_offset for each in records if isinstance(each, Sleep)] == ["+09:00"]


def test_long_series_of_sleeps_are_joined_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STAGES_HELD", 3)

    records = read_elements(
        *(stage(f"{day} 01:00:00", f"{day} 06:00:00", "Asleep") for day in range(10, 20))
    ).records

    assert [each.ended_at.day for each in records] == list(range(10, 20))


@pytest.mark.parametrize("is_newest_first", [False, True])
def test_a_sleep_is_whole_where_stages_are_joined_in_parts(
    monkeypatch: pytest.MonkeyPatch, *, is_newest_first: bool
) -> None:
    monkeypatch.setattr(module, "STAGES_HELD", 7)
    zone = '><MetadataEntry key="HKTimeZone" value="Asia/Tokyo"/></Record>'
    stages = [
        stage(f"{day} {hour:02}:00:00", f"{day} {hour + 1:02}:00:00", "Asleep")
        for day in range(10, 20)
        for hour in (1, 2, 3)
    ]
    # The second stage of the third night is the one with which there are too many.
    stages[1::3] = [each.replace("/>", zone) for each in stages[1::3]]

    sleeps = read_elements(*(reversed(stages) if is_newest_first else stages)).records

    assert sorted(each.started_at.day for each in sleeps) == list(range(9, 19))
    assert {each.asleep_ms for each in sleeps} == {3 * 3_600_000}
    assert {each.utc_offset for each in sleeps} == {"+09:00"}


def test_one_sleep_of_too_many_stages_ends_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STAGES_HELD", 3)

    sleeps = read_elements(*[stage("15 23:00:00", "16 06:00:00", "Asleep")] * 9).records

    assert len(sleeps) == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("2022-06-16 08:00:00 +0200", ""), "missing_time"),
        (("2022-06-16 08:00:00 +0200", "yesterday"), "invalid_time"),
        (("2022-06-16 08:00:00 +0200", "2022-06-16 08:00:00"), "time_without_offset"),
        (("2022-06-16 08:00:00 +0200", "0001-01-01 00:00:00 +0200"), "invalid_time"),
        (("212", "many"), "value_is_no_number"),
        (("212", "inf"), "value_is_no_number"),
        (('unit="count"', 'unit="furlong"'), "unknown_unit"),
    ],
)
def test_a_record_that_says_no_value_is_refused(change: tuple[str, str], reason: str) -> None:
    reading = read_elements(STEP, STEP.replace(*change), STEP)

    assert reading.reasons == [reason]
    assert len(reading.records) == 2


def test_a_heart_rate_beyond_all_numbers_is_refused() -> None:
    rate = STEP.replace("StepCount", "HeartRate").replace('unit="count"', 'unit="count/s"')
    reading = read_elements(STEP, rate.replace('value="212"', 'value="1e308"'), STEP)

    assert reading.reasons == ["value_is_no_number"]
    assert len(reading.records) == 2


def test_the_last_year_is_read() -> None:
    [sample] = read_elements(STEP.replace("2022", "9999")).records

    assert sample.started_at == utc(9999, 6, 16, 6)


def broken(content: bytes) -> tuple[list[Any], str]:
    reading = read(APPLE_HEALTH, content)
    assert reading.unreadable is not None
    return reading.records, reading.unreadable


def test_what_precedes_the_end_of_a_truncated_file_is_kept() -> None:
    content = apple_health_export(STEP, stage("15 23:00:00", "16 06:00:00", "Asleep"), STEP, STEP)

    records, reason = broken(content[: content.rindex(b"<Record") + 20])

    assert [type(each) for each in records] == [Sample, Sample, Sleep]
    assert reason.startswith("the file is no XML from here on: unclosed token")


def test_the_sleep_in_which_a_file_is_cut_off_is_refused() -> None:
    content = apple_health_export(
        stage("14 23:00:00", "15 06:00:00", "Asleep"),
        stage("15 23:00:00", "16 01:00:00", "Asleep"),
        stage("16 01:00:00", "16 06:00:00", "Asleep"),
    )

    reading = read(APPLE_HEALTH, content[: content.rindex(b"<Record") + 20])

    assert [each.started_at.day for each in reading.records] == [14]
    assert reading.reasons == ["sleep_is_cut_off"]


def test_no_entity_is_ever_replaced() -> None:
    entities = b'<!DOCTYPE HealthData [<!ENTITY a "1"><!ENTITY b SYSTEM "file:///etc/passwd">]>'
    body = apple_health_export(STEP.replace("212", "&a;")).partition(b"]>")[2]

    # The first declaration is cut out, so the entity is unknown; a second one is refused.
    assert "undefined entity" in broken(entities + body)[1]
    assert broken(entities * 2 + body)[1] == "the file has a second document type declaration"


def test_a_declaration_without_an_end_is_unreadable() -> None:
    assert broken(b"<!DOCTYPE HealthData [" + b"<!ELEMENT x>" * 10)[1] == (
        "the document type declaration does not end"
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks_are_understood(encoding: str) -> None:
    content = apple_health_export(STEP).decode().encode(encoding)

    assert [each.value for each in read(APPLE_HEALTH, content).records] == [212.0]


def test_an_empty_file_is_unreadable() -> None:
    assert broken(b"")[1] == broken(b"\n")[1] == "the file is empty"
