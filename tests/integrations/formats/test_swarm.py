"""What becomes of Swarm's check-ins."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from resourceserver.integrations.formats.swarm import SWARM
from resourceserver.integrations.records import Place, PlaceEvent
from tests.integrations import samples
from tests.integrations.memory import Reading, read

CHECK_IN = {"id": "a", "createdAt": 1700000300, "type": "checkin", "venue": {"name": "X"}}


def read_items(*check_ins: Any) -> Reading:
    return read(SWARM, json.dumps({"count": len(check_ins), "items": check_ins}))


def test_check_ins_are_confirmed_events_at_places() -> None:
    assert read(SWARM, samples.swarm().content).records == [
        PlaceEvent(
            key="5eeb1c7d",
            type="check_in",
            status="confirmed",
            started_at=datetime(2023, 11, 14, 22, 18, 20, tzinfo=UTC),
            ended_at=None,
            place=Place("4bf58dd8", "Café X", latitude=37.7749, longitude=-122.4194),
            utc_offset="-08:00",
            note="with friends",
        ),
        PlaceEvent(
            key="5eeb1c7e",
            type="check_in",
            status="confirmed",
            started_at=datetime(2023, 11, 14, 22, 18, 20, tzinfo=UTC),
            ended_at=None,
            place=Place(
                *("12.9716, 77.5946", "12.9716, 77.5946"), latitude=12.9716, longitude=77.5946
            ),
            utc_offset="+05:30",
        ),
    ]


def test_pages_of_the_interface_have_more_of_a_venue() -> None:
    location = {"lat": 52.37, "lng": 4.89, "address": "Dam 1", "city": "Amsterdam", "cc": "NL"}
    venue = {"id": "v", "name": "X", "location": location, "categories": [{"name": "Café"}]}
    check_in = {**CHECK_IN, "venue": venue}
    place = Place("v", "X", "Café", 52.37, 4.89, "Dam 1", "Amsterdam", "NL")

    for content in ([check_in], {"response": {"checkins": {"items": [check_in]}}}):
        [event] = read(SWARM, json.dumps(content)).records

        assert event.place == place


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": None}, "missing_id"),
        ({"createdAt": None}, "missing_time"),
        ({"createdAt": "now"}, "invalid_time"),
        ({"createdAt": "9" * 400}, "invalid_time"),
        ({"venue": None}, "missing_venue"),
        ({"venue": None, "lat": 1}, "missing_venue"),
    ],
)
def test_a_check_in_that_says_no_time_or_place_is_refused(
    change: dict[str, Any], reason: str
) -> None:
    reading = read_items({**CHECK_IN, **change}, 5, CHECK_IN)

    assert reading.reasons == [reason, "not_an_object"]
    assert [each.key for each in reading.records] == ["a"]


def test_members_of_other_types_are_left_out() -> None:
    [event] = read_items(
        {**CHECK_IN, "timeZoneOffset": 1e9, "lat": "x", "lng": [], "shout": 5}
    ).records

    assert (event.utc_offset, event.note, event.place.latitude) == (None, None, None)
