"""What becomes of Google's location history."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from resourceserver.integrations.formats.google_location import (
    RECORDS,
    SEMANTIC,
    TIMELINE_ANDROID,
    TIMELINE_EDITS,
    TIMELINE_IOS,
)
from resourceserver.integrations.records import Place, PlaceEvent, Point
from tests.integrations import samples
from tests.integrations.memory import read


def utc(
    year: int, month: int, day: int, hour: int, minute: int = 0, second: int = 0, micro: int = 0
) -> datetime:
    return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)


def records_of(*locations: Any) -> str:
    return json.dumps({"locations": locations})


def test_records_are_points() -> None:
    reading = read(RECORDS, samples.google_records().content)

    assert reading.records == [
        Point(
            key="1620036000190",
            recorded_at=utc(2021, 5, 3, 10, 0, 0, 190000),
            latitude=52.3702157,
            longitude=4.8951679,
            accuracy_m=12,
            altitude_m=3,
            vertical_accuracy_m=4,
            speed_mps=1,
            course_deg=210,
            activity="walking",
            device="Android phone -8024144696862913506",
        ),
        Point("1620036060000", utc(2021, 5, 3, 10, 1), -33.7654321, -0.1234567, accuracy_m=20),
    ]


def test_semantic_history_is_visits_and_points() -> None:
    reading = read(SEMANTIC, samples.google_semantic().content)

    cafe = Place(
        "ChIJcafe",
        "Café X",
        latitude=52.371,
        longitude=4.891,
        address="Prinsengracht 1\n1015 Amsterdam\nNederland",
    )
    assert reading.records == [
        Point("1620034200000", utc(2021, 5, 3, 9, 30), 52.36, 4.88, activity="cycling"),
        Point(
            *("1620034800500", utc(2021, 5, 3, 9, 40, 0, 500000), 52.365, 4.885),
            accuracy_m=9,
            activity="cycling",
        ),
        PlaceEvent(
            key="1620035880000",
            type="visit",
            status="confirmed",
            started_at=utc(2021, 5, 3, 9, 58),
            ended_at=utc(2021, 5, 3, 11),
            place=cafe,
        ),
        PlaceEvent(
            key="1620037800000:ChIJbar",
            type="visit",
            status="suggested",
            started_at=utc(2021, 5, 3, 10, 30),
            ended_at=utc(2021, 5, 3, 11),
            place=cafe._replace(key="ChIJbar", name="The bar"),
        ),
    ]


def test_timeline_edits_are_points() -> None:
    reading = read(TIMELINE_EDITS, samples.google_timeline_edits().content)

    assert reading.records == [
        Point(
            *("1708149240932", utc(2024, 2, 17, 5, 54, 0, 932000), 42.6974802, -77.8539156),
            accuracy_m=13.5,
            altitude_m=224.0,
            speed_mps=0.5,
        )
    ]


def test_the_timeline_of_android_is_visits_and_points() -> None:
    reading = read(TIMELINE_ANDROID, samples.google_timeline_android().content)

    car = "in_passenger_vehicle"
    assert reading.records == [
        Point("1718518320000", utc(2024, 6, 16, 6, 12), 52.3702157, 4.8951679),
        PlaceEvent(
            key="1718517790000",
            type="visit",
            status="suggested",
            started_at=utc(2024, 6, 16, 6, 3, 10),
            ended_at=utc(2024, 6, 16, 7),
            place=Place("ChIJhome", "Home", "home", 52.36, 4.88),
            utc_offset="+02:00",
        ),
        Point("1718521200000", utc(2024, 6, 16, 7), 52.36, 4.88, activity=car),
        Point("1718522400000", utc(2024, 6, 16, 7, 20), 52.371, 4.891, activity=car),
        Point(
            *("1718522460250", utc(2024, 6, 16, 7, 21, 0, 250000), 52.3702157, 4.8951679),
            accuracy_m=13,
            altitude_m=3.5,
            speed_mps=1.25,
        ),
    ]


def test_the_timeline_of_an_iphone_is_visits_and_points() -> None:
    reading = read(TIMELINE_IOS, samples.google_timeline_ios().content)

    car = "in_passenger_vehicle"
    assert reading.records == [
        PlaceEvent(
            key="1718542990000:ChIJshop",
            type="visit",
            status="suggested",
            started_at=utc(2024, 6, 16, 13, 3, 10),
            ended_at=utc(2024, 6, 16, 14),
            place=Place("ChIJshop", "30.4759, -97.8056", latitude=30.475887, longitude=-97.805634),
            utc_offset="-05:00",
        ),
        Point("1718546400000", utc(2024, 6, 16, 14), 30.475887, -97.805634, activity=car),
        Point("1718547600000", utc(2024, 6, 16, 14, 20), 30.479312, -97.798734, activity=car),
        Point("1718549760000", utc(2024, 6, 16, 14, 56), 30.48, -97.79),
        # Its time wins, which is half a minute later than its offset.
        Point("1718550030000", utc(2024, 6, 16, 15, 0, 30), 30.481, -97.791),
    ]


def test_raw_signals_may_come_first_and_alone() -> None:
    position = {"latLng": "52.1°, 4.2°", "timestamp": "2024-06-16T09:21:00Z"}

    first = {"rawSignals": [{"position": position}], "semanticSegments": []}
    for content in (first, {"rawSignals": [{"position": position}]}):
        reading = read(TIMELINE_ANDROID, json.dumps(content))

        assert reading.records == [Point("1718529660000", utc(2024, 6, 16, 9, 21), 52.1, 4.2)]


def test_files_of_one_day_share_the_keys_of_points_and_visits() -> None:
    # The same point in Records.json and in a semantic path, and the same visit from Takeout and a phone.
    at = "2021-05-03T09:40:00.500Z"
    point = {"timestamp": at, "latitudeE7": 523650000, "longitudeE7": 48850000}
    segment = {
        "startTime": "2021-05-03T11:58:00.000+02:00",
        "endTime": "2021-05-03T13:00:00.000+02:00",
        "visit": {"topCandidate": {"placeId": "ChIJcafe", "placeLocation": "52.371°, 4.891°"}},
    }

    [record] = read(RECORDS, records_of(point)).records
    _, in_path, visit, _ = read(SEMANTIC, samples.google_semantic().content).records
    [on_phone] = read(TIMELINE_ANDROID, json.dumps({"semanticSegments": [segment]})).records

    assert record.key == in_path.key
    assert (on_phone.key, on_phone.place.key) == (visit.key, visit.place.key)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("stray", "not_an_object"),
        ({"latitudeE7": 1, "longitudeE7": 1}, "missing_time"),
        ({"timestamp": "yesterday", "latitudeE7": 1, "longitudeE7": 1}, "invalid_time"),
        (
            {"timestamp": "2021-05-03T10:00:00", "latitudeE7": 1, "longitudeE7": 1},
            "time_without_offset",
        ),
        (
            {"timestamp": "0001-01-01T00:00:00+10:00", "latitudeE7": 1, "longitudeE7": 1},
            "invalid_time",
        ),
        ({"timestampMs": "9" * 30, "latitudeE7": 1, "longitudeE7": 1}, "invalid_time"),
        ({"timestamp": "2021-05-03T10:00:00Z", "longitudeE7": 1}, "missing_position"),
        (
            {"timestamp": "2021-05-03T10:00:00Z", "latitudeE7": "NaN", "longitudeE7": 1},
            "missing_position",
        ),
        (
            {"timestamp": "2021-05-03T10:00:00Z", "latitudeE7": 10**400, "longitudeE7": 1},
            "missing_position",
        ),
    ],
)
def test_a_location_without_time_or_position_is_refused_and_the_next_one_read(
    location: Any, reason: str
) -> None:
    good = {"timestampMs": 1620036060000, "latitudeE7": "10000000", "longitudeE7": "20000000"}

    reading = read(RECORDS, records_of(location, good))

    assert reading.reasons == [reason]
    assert reading.records == [Point("1620036060000", utc(2021, 5, 3, 10, 1), 1.0, 2.0)]


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
def test_the_first_and_the_last_year_are_read(time: str) -> None:
    location = {"timestamp": time, "latitudeE7": 1, "longitudeE7": 1}

    [point] = read(RECORDS, records_of(location)).records

    assert point.recorded_at.isoformat().startswith(time[:19])


def test_numbers_that_lost_their_sign_get_it_back() -> None:
    location = {
        "timestampMs": "1620036060000",
        "latitudeE7": 4294967296 - 337654321,
        "longitudeE7": 4294967296 - 704321987,
        "accuracy": -1,
    }

    [point] = read(RECORDS, records_of(location)).records

    assert (point.latitude, point.longitude, point.accuracy_m) == (-33.7654321, -70.4321987, None)


def test_segments_of_other_kinds_are_refused() -> None:
    segment = {"startTime": "2024-06-16T08:00:00Z", "endTime": "2024-06-16T09:00:00Z", "trip": {}}

    reading = read(TIMELINE_IOS, json.dumps([segment, 5, {"visit": {}}]))

    assert reading.reasons == ["unknown_segment", "not_an_object", "missing_time"]


def test_many_visits_within_each_other_are_read() -> None:
    visit: dict[str, Any] = {}
    for _ in range(200):
        visit = {
            "location": {"latitudeE7": 1, "longitudeE7": 1, "placeId": "p"},
            "duration": {"startTimestampMs": "1620036060000", "endTimestampMs": "1620036070000"},
            "childVisits": [visit] if visit else None,
        }

    reading = read(SEMANTIC, json.dumps({"timelineObjects": [{"placeVisit": visit}]}))

    assert len(reading.records) == 200
