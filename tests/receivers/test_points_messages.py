"""What the receivers of locations make of the messages of OwnTracks, Overland, OsmAnd and others."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as some

from resourceserver.integrations.receivers import osmand, overland, owntracks
from resourceserver.integrations.records import Point, Refused
from shared.setups import setup
from tests.integrations.memory import ALICE

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)
EIGHT_S = 1_750_060_800
PLACE = Point("pt:1750060800000", EIGHT, 52.5, 4.5)
IN_A_YEAR_S = int(ALICE.now.timestamp()) + 366 * 86_400


def reasons(items: list[Point | Refused]) -> list[str]:
    return [each.reason if isinstance(each, Refused) else "" for each in items]


def owntracks_items(message: Any, device: str | None = None) -> list[Point | Refused]:
    return owntracks.read(json.dumps(message).encode(), ALICE, device)


def location(**members: Any) -> dict[str, Any]:
    return {"_type": "location", "lat": 52.5, "lon": 4.5, "tst": EIGHT_S, "tid": "al"} | members


def feature(timestamp: Any = "2025-06-16T08:00:00Z", **properties: Any) -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [4.5, 52.5]},
        "properties": {"timestamp": timestamp} | properties,
    }


def overland_items(*locations: Any) -> list[Point | Refused]:
    return overland.read(json.dumps({"locations": locations}).encode(), ALICE)


def osmand_items(query: str = "", body: bytes = b"") -> list[Point | Refused]:
    return osmand.read(body, ALICE, query)


def of_query(**fields: Any) -> list[Point | Refused]:
    return osmand_items(urlencode({"lat": 52.5, "lon": 4.5, "timestamp": EIGHT_S} | fields))


def of_json(timestamp: Any = EIGHT_S, **members: Any) -> list[Point | Refused]:
    place = {"timestamp": timestamp, "coords": {"latitude": 52.5, "longitude": 4.5}} | members
    return osmand_items(body=json.dumps({"location": place, "device_id": "phone"}).encode())


def test_a_location_of_owntracks_is_a_point_of_the_device_in_the_header() -> None:
    message = location(acc=12, alt=3, vac=4, vel=36, cog=210, batt=81)
    point = PLACE._replace(
        accuracy_m=12.0,
        altitude_m=3.0,
        vertical_accuracy_m=4.0,
        speed_mps=10.0,
        course_deg=210.0,
        battery_percent=81,
        device="al",
    )

    assert owntracks_items(message) == [point]
    assert owntracks_items(message, "pixel") == [point._replace(device="pixel")]


@pytest.mark.parametrize("kind", ["transition", "waypoint", "waypoints", "lwt", "status", "card"])
def test_other_messages_of_owntracks_are_left_without_a_count(kind: str) -> None:
    assert owntracks_items(location(_type=kind)) == []


def test_nothing_at_all_is_a_message_of_owntracks() -> None:
    assert owntracks.read(b"", ALICE) == []


def test_an_encrypted_message_is_counted_without_its_text() -> None:
    assert owntracks_items({"_type": "encrypted", "data": "LpD2S8"}) == [
        Refused("encrypted_messages", "")
    ]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ([location()], "not_an_object"),
        ({"lat": 52.5, "lon": 4.5, "tst": EIGHT_S}, "no_location"),
        (location(_type={}), "no_location"),
        (location(tst=None), "missing_time"),
        (location(tst=[1]), "invalid_time"),
        (location(tst=1e300), "invalid_time"),
        (location(tst=0), "time_out_of_range"),
        (location(tst=IN_A_YEAR_S), "timestamp_in_future"),
        (location(lat=90.5), "place_out_of_range"),
        (location(lon=float("nan")), "missing_place"),
        (location(lon=float("inf")), "missing_place"),
        (location(lat={}), "missing_place"),
    ],
)
def test_a_location_that_cannot_be_is_counted(message: Any, reason: str) -> None:
    assert reasons(owntracks_items(message)) == [reason]


def test_a_device_that_is_a_year_behind_is_believed() -> None:
    assert reasons(owntracks_items(location(tst=EIGHT_S - 366 * 86_400))) == [""]


def test_details_that_cannot_be_true_are_left_out() -> None:
    wrong = location(acc=-1, alt=1e30, vac="?", vel=-3.6, cog=720, batt=101, tid="\ud800")

    assert owntracks_items(wrong) == [PLACE]


def test_overland_sends_its_points_in_batches() -> None:
    items = overland_items(
        feature(
            horizontal_accuracy=5, speed=1.5, course=-1, battery_level=0.81, motion=["walking"]
        ),
        feature("2025-06-16T10:00:01+0200", speed=-1, horizontal_accuracy=-1, vertical_accuracy=-1),
    )

    assert items == [
        PLACE._replace(accuracy_m=5.0, speed_mps=1.5, battery_percent=81, activity="walking"),
        PLACE._replace(key="pt:1750060801000", recorded_at=EIGHT.replace(second=1)),
    ]


def test_what_is_no_point_of_overland_is_counted_and_the_rest_taken() -> None:
    items = overland_items(
        None,
        [feature()],
        feature() | {"geometry": None},
        feature() | {"geometry": {"type": "LineString", "coordinates": [[4.5, 52.5]]}},
        feature() | {"geometry": {"type": "Point", "coordinates": 4.5}},
        feature() | {"geometry": {"type": "Point", "coordinates": [4.5, 91]}},
        feature() | {"properties": []},
        feature("noon"),
        feature(IN_A_YEAR_S),
        feature(action="visit", arrival_date="2025-06-16T07:00:00Z"),
        feature(),
    )

    assert reasons(items) == [
        "not_an_object",
        "not_an_object",
        "not_an_object",
        "no_point",
        "missing_place",
        "place_out_of_range",
        "missing_time",
        "invalid_time",
        "timestamp_in_future",
        "visit",
        "",
    ]


def test_of_far_too_many_points_the_first_are_taken() -> None:
    items = overland_items(*[{}] * 10_001)

    assert len(items) == 10_001
    assert items[-1] == Refused("too_many_points", "10001 in one message")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'{"locations":' * 50_000, "not_json"),
        (b"[" + b"0," * 1_000_001 + b"0]", "too_many_values"),
        (b"[]", "not_an_object"),
        (b'{"locations": {}}', "no_locations"),
        (b"{}", "no_locations"),
    ],
    ids=range(7),
)
def test_a_body_that_is_no_batch_is_one_refusal(body: bytes, reason: str) -> None:
    assert reasons(overland.read(body, ALICE)) == [reason]


def test_osmand_and_traccar_send_a_query() -> None:
    items = of_query(
        speed=9, bearing=90, altitude=12.5, accuracy=7.5, hdop=3, batt=80.4, id="123456"
    )

    assert items == [
        PLACE._replace(
            speed_mps=4.63,
            course_deg=90.0,
            altitude_m=12.5,
            accuracy_m=7.5,
            battery_percent=80,
            device="123456",
        )
    ]


def test_a_form_is_read_like_a_query() -> None:
    assert osmand_items(body=b"location=52.5,4.5&timestamp=1750060800&hdop=6&heading=-1") == [
        PLACE._replace(accuracy_m=6.0)
    ]


@pytest.mark.parametrize(
    "timestamp",
    [
        EIGHT_S,
        f"{EIGHT_S}000",
        "2025-06-16T08:00:00Z",
        "2025-06-16T10:00:00+02:00",
        # Nothing says where it is: the time zone of the profile.
        "2025-06-16 10:00:00",
    ],
)
def test_times_of_osmand_have_several_forms(timestamp: Any) -> None:
    assert of_query(timestamp=timestamp) == [PLACE]


def test_a_plus_that_was_not_escaped_is_one() -> None:
    assert osmand_items("lat=52.5&lon=4.5&timestamp=2025-06-16T10:00:00+02:00") == [PLACE]


GPSLOGGER = (
    *(("%LAT", "52.5"), ("%LON", "4.5"), ("%TIMESTAMP", "1750060800"), ("%ACC", "7.5")),
    *(("%ALT", "12.5"), ("%SPD", "1.5"), ("%DIR", "90.0"), ("%BATT", "80.0")),
)
OSMAND = (
    *(("{0}", "52.5"), ("{1}", "4.5"), ("{2}", "1750060800000"), ("{3}", "7.5")),
    *(("{4}", "12.5"), ("{5}", "1.5"), ("{6}", "90.0")),
)


@pytest.mark.parametrize(
    ("label", "values"), [("Address for GPSLogger", GPSLOGGER), ("Address for OsmAnd", OSMAND)]
)
def test_the_addresses_to_paste_are_understood(
    label: str, values: tuple[tuple[str, str], ...]
) -> None:
    address = dict(setup("osmand", "https://svc.example", "svc_ik_abc").texts)[label]
    for name, value in values:
        address = address.replace(name, value)

    [point] = osmand_items(address.partition("?")[2])

    assert isinstance(point, Point)
    assert point._replace(battery_percent=None) == PLACE._replace(
        accuracy_m=7.5,
        altitude_m=12.5,
        speed_mps=1.5,
        course_deg=90.0,
        device=label.rpartition(" ")[2],
    )


def test_traccars_newer_application_sends_json() -> None:
    coordinates = {
        "latitude": 52.5,
        "longitude": 4.5,
        "accuracy": 5,
        "altitude": 12.5,
        "altitude_accuracy": -1,
        "speed": 1.5,
        "heading": -1,
    }
    items = of_json(
        "2025-06-16T08:00:00.000Z",
        coords=coordinates,
        battery={"level": 0.8},
        activity={"type": "on_foot"},
    )

    assert items == [
        PLACE._replace(
            accuracy_m=5.0,
            speed_mps=1.5,
            altitude_m=12.5,
            battery_percent=80,
            activity="on_foot",
            device="phone",
        )
    ]


def test_traccars_newer_application_can_send_many_at_once() -> None:
    place = {"timestamp": EIGHT_S, "coords": {"latitude": 52.5, "longitude": 4.5}}

    body = json.dumps({"location": [place, {"coords": []}, None]}).encode()

    assert reasons(osmand_items(body=body)) == ["", "not_an_object", "not_an_object"]


def test_a_request_without_any_field_is_no_place() -> None:
    assert osmand_items() == []


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        (of_query(lat=""), "missing_place"),
        (of_query(lon="NaN"), "missing_place"),
        (of_query(lat=91), "place_out_of_range"),
        (of_query(timestamp=""), "missing_time"),
        (of_query(timestamp="1e400"), "invalid_time"),
        (of_query(timestamp=IN_A_YEAR_S), "timestamp_in_future"),
        (osmand_items("&".join(f"f{n}=1" for n in range(101))), "too_many_fields"),
        (osmand_items(body=b"\xff\x00"), "missing_time"),
        (osmand_items(body=b"{" * 100_000), "not_json"),
        (osmand_items(body=b"[]"), "not_an_object"),
        (osmand_items(body=b"{}"), "not_an_object"),
        (of_json(None), "missing_time"),
        (of_json(coords=[52.5, 4.5]), "not_an_object"),
    ],
    ids=range(13),
)
def test_a_place_that_cannot_be_read_is_counted(items: list[Any], reason: str) -> None:
    assert reasons(items) == [reason]


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.dictionaries(
            some.sampled_from(
                (
                    *("_type", "tst", "lat", "lon", "locations", "geometry", "coordinates", "type"),
                    *("properties", "timestamp", "location", "coords", "battery", "listen_type"),
                    *("payload", "track_metadata", "additional_info", "listened_at", "motion"),
                )
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(JSON, some.booleans())
def test_no_json_stops_a_receiver(value: Any, is_batch: bool) -> None:
    for message in (value, {"locations": value, "_type": "location"}, {"location": value}):
        body = json.dumps([message] if is_batch else message).encode()
        owntracks.read(body, ALICE, "phone")
        overland.read(body, ALICE)
        osmand.read(body, ALICE)


@given(some.binary(max_size=200), some.text(max_size=100))
def test_no_bytes_stop_a_receiver(body: bytes, query: str) -> None:
    owntracks.read(body, ALICE)
    overland.read(body, ALICE)
    osmand.read(body, ALICE, query)
