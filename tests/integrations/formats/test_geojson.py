"""Points as JSON: GeoJSON, Overland and OwnTracks."""

import json
from datetime import UTC, datetime
from typing import Any

from resourceserver.integrations.formats.geojson import GEOJSON, OVERLAND, OWNTRACKS
from resourceserver.integrations.records import Point
from tests.integrations.memory import Reading, read, recognise

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)
EIGHT_S = 1750060800


def feature(properties: Any, coordinates: Any = (4.5, 52.5), kind: str = "Point") -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": {"type": kind, "coordinates": coordinates},
        "properties": properties,
    }


def collection(*features: Any) -> str:
    return json.dumps({"type": "FeatureCollection", "features": features})


def read_features(*features: Any) -> Reading:
    return read(GEOJSON, collection(*features))


def test_points_have_times_in_seconds_milliseconds_or_words() -> None:
    reading = read_features(
        feature({"timestamp": EIGHT_S, "accuracy": 5}, [4.5, 52.5, 12]),
        feature({"time": str((EIGHT_S + 1) * 1000)}),
        feature({"timestamp": None, "recorded_at": "2025-06-16T10:00:02+02:00"}),
        feature({"datetime": "2025-06-16T10:00:03"}),
    )

    assert [(each.key, each.recorded_at.second) for each in reading.records] == [
        ("pt:1750060800000", 0),
        ("pt:1750060801000", 1),
        ("pt:1750060802000", 2),
        ("pt:1750060803000", 3),
    ]
    assert reading.records[0] == Point(
        "pt:1750060800000", EIGHT, 52.5, 4.5, altitude_m=12.0, accuracy_m=5.0
    )


def test_a_line_with_a_time_for_each_place_is_read() -> None:
    times = ["2025-06-16T08:00:00Z", "2025-06-16T08:00:01Z"]
    places = [[4.5, 52.5], [4.6, 52.6, 3]]

    for properties in ({"coordTimes": times}, {"coordinateProperties": {"times": times}}):
        reading = read_features(feature(properties, places, "LineString"))
        assert [(each.recorded_at.second, each.latitude) for each in reading.records] == [
            (0, 52.5),
            (1, 52.6),
        ]


def test_what_has_no_time_or_no_place_is_refused_and_the_rest_kept() -> None:
    reading = read_features(
        "no feature",
        {"type": "Feature", "geometry": None, "properties": {}},
        feature({}),
        feature(None),
        feature({"time": "noon"}),
        feature({"time": 1e30}),
        feature({"time": EIGHT_S}, ["x", None]),
        feature({"time": EIGHT_S}, [200, 100]),
        feature({"time": EIGHT_S}, [[[4.5, 52.5]]], "Polygon"),
        feature({"coordTimes": [EIGHT_S]}, [[4.5, 52.5], [4.6, 52.6]], "LineString"),
        feature({"coordTimes": [EIGHT_S, "?"]}, [[4.5, 52.5], [4.6, 52.6]], "LineString"),
    )

    assert reading.reasons == [
        "not_an_object",
        "not_an_object",
        "missing_time",
        "missing_time",
        "invalid_time",
        "invalid_time",
        "missing_place",
        "place_out_of_range",
        "no_point",
        "line_without_times",
        "invalid_time",
    ]
    assert len(reading.records) == 1


def test_overland_knows_no_negative_speeds_and_courses() -> None:
    properties = {
        "timestamp": "2025-06-16T08:00:00Z",
        "altitude": 12,
        "speed": -1,
        "course": -1,
        "horizontal_accuracy": 5,
        "vertical_accuracy": -1,
        "battery_level": 0.81,
        "motion": ["walking", "stationary"],
        "device_id": "phone",
    }
    content = json.dumps({"locations": [feature(properties)], "current": {}})

    assert recognise(OVERLAND, content) == 1.0
    assert read(OVERLAND, content).records == [
        Point(
            "pt:1750060800000",
            EIGHT,
            52.5,
            4.5,
            accuracy_m=5.0,
            altitude_m=12.0,
            battery_percent=81,
            activity="walking",
            device="phone",
        )
    ]


def test_overland_writes_where_a_visit_was_with_the_time_of_its_record() -> None:
    visit = feature({"timestamp": EIGHT_S, "action": "visit"})
    content = json.dumps({"locations": [visit, feature({"timestamp": EIGHT_S})]})

    reading = read(OVERLAND, content)

    assert reading.reasons == ["visit"]
    assert len(reading.records) == 1


def test_the_recorder_of_owntracks_writes_a_message_a_line() -> None:
    location = {
        "_type": "location",
        "tst": EIGHT_S,
        "lat": 52.5,
        "lon": 4.5,
        "vel": 36,
        "cog": 210,
        "acc": 12,
        "batt": 81,
        "tid": "ph",
    }
    lines = [
        f"2025-06-16T08:00:00Z\t*                 \t{json.dumps(location)}",
        "",
        '2025-06-16T08:00:01Z\t*                 \t{"_type":"transition"}',
        '2025-06-16T08:00:02Z\t*                 \t{"_type":"encrypted","data":"x"}',
        '2025-06-16T08:00:03Z\tlwt               \t{"_type":',
        "2025-06-16T08:00:04Z\t*\t" + "[" * 100_000,
    ]
    content = "\n".join(lines)

    reading = read(OWNTRACKS, content)

    assert recognise(OWNTRACKS, content) == 1.0
    assert reading.records == [
        Point(
            "pt:1750060800000",
            EIGHT,
            52.5,
            4.5,
            accuracy_m=12.0,
            speed_mps=10.0,
            course_deg=210.0,
            battery_percent=81,
            device="ph",
        )
    ]
    assert reading.reasons == ["no_location", "encrypted", "not_json", "not_json"]


def test_a_truncated_collection_keeps_the_points_before_the_break() -> None:
    text = collection(feature({"time": EIGHT_S}), feature({"time": EIGHT_S + 1}))

    reading = read(GEOJSON, text[:-40])

    assert len(reading.records) == 1
    assert "no JSON" in str(reading.unreadable)


def test_collections_are_recognised() -> None:
    assert recognise(GEOJSON, collection(feature({"time": 1}))) == 0.9
    assert recognise(GEOJSON, '{"features": []}') == 0.0
    assert recognise(OVERLAND, '{"locations": [{"latitudeE7": 1}]}') == 0.0


def test_places_that_a_person_saved_are_no_places_where_the_person_was() -> None:
    saved = {"date": "2025-06-16T08:00:00Z", "google_maps_url": "http://maps.google.com/?cid=1"}

    reading = read_features(feature(saved))

    assert (reading.records, reading.reasons) == ([], ["saved_place"])


def test_files_of_overland_are_recognised_whatever_the_order_of_their_members() -> None:
    members = feature({"timestamp": "2025-06-16T08:00:00Z"})

    for each in (members, dict(reversed(members.items()))):
        assert recognise(OVERLAND, json.dumps({"locations": [each]})) == 1.0
