"""GET /api/v1/locations, /api/v1/locations/events and /api/v1/locations/places."""

from typing import Any

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person

Rows = psycopg.Connection[Any]

LOCATIONS = "/api/v1/locations"
EVENTS = "/api/v1/locations/events"


def ask(
    api: TestClient, person: Person, path: str, start: str, end: str, **params: str
) -> dict[str, Any]:
    answer = api.get(
        path, params={"from": start, "to": end, **params}, headers=person.headers("read:location")
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def be(
    owner: Rows,
    person: Person,
    start: str,
    end: str | None = None,
    kind: str = "visit",
    status: str = "confirmed",
    note: str | None = None,
) -> tuple[str, str]:
    """Return the ids of a new event and of its place."""
    row = owner.execute(
        """
        with place as (
            insert into location.place
                   (user_id, name, category, latitude, longitude, city, country_code)
            values (%(user_id)s, 'Café X', 'Café', 52.371, 4.891, 'Amsterdam', 'NL')
            returning place_id
        )
        insert into location.event
               (user_id, type, status, started_at, ended_at, utc_offset, place_id, note, source)
        select %(user_id)s, %(kind)s, %(status)s, %(start)s, %(end)s, '+02:00', place_id, %(note)s, 'swarm'
          from place
        returning event_id, place_id
        """,
        {
            "user_id": person.user_id,
            "kind": kind,
            "status": status,
            "start": start,
            "end": end,
            "note": note,
        },
    ).fetchone()
    assert row is not None
    return str(row[0]), str(row[1])


def test_points_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    row = owner.execute(
        """
        with phone as (
            insert into location.device (user_id, name, platform)
            values (%(user_id)s, 'phone', 'ios')
            returning user_id, device_id
        ),
        full_point as (
            insert into location.point
            select user_id, gen_random_uuid(), device_id, '2025-06-16 10:00Z', 52.3702157, 4.8951679,
                   12, 3.1, 4, 1.4, 210, 81, 'walking', 'owntracks'
              from phone
            returning device_id, point_id
        ),
        bare_point as (
            insert into location.point (user_id, recorded_at, latitude, longitude, source)
            values (%(user_id)s, '2025-06-16 09:00Z', -33.9, -180, 'import')
            returning point_id
        )
        select device_id, full_point.point_id, bare_point.point_id
          from full_point, bare_point
        """,
        {"user_id": alice.user_id},
    ).fetchone()
    assert row is not None
    device, full, bare = (str(key) for key in row)
    owner.execute("update location.point set timezone = 'Europe/Amsterdam' where speed_mps > 0")

    body = ask(api, alice, LOCATIONS, "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "data": [
            {
                "id": full,
                "recorded_at": "2025-06-16T10:00:00.000Z",
                "latitude": 52.3702157,
                "longitude": 4.8951679,
                "accuracy_m": 12,
                "altitude_m": 3.1,
                "vertical_accuracy_m": 4,
                "speed_mps": 1.4,
                "course_deg": 210,
                "battery_percent": 81,
                "activity": "walking",
                "device": {"id": device, "name": "phone", "platform": "ios"},
                "source": "owntracks",
                "timezone": "Europe/Amsterdam",
            },
            {
                "id": bare,
                "recorded_at": "2025-06-16T09:00:00.000Z",
                "latitude": -33.9,
                "longitude": -180,
                "accuracy_m": None,
                "altitude_m": None,
                "vertical_accuracy_m": None,
                "speed_mps": None,
                "course_deg": None,
                "battery_percent": None,
                "activity": None,
                "device": None,
                "source": "import",
                "timezone": None,
            },
        ],
        "count": 2,
        "limit": 1000,
        "has_more": False,
        "next_cursor": None,
    }


def test_a_check_in_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    event, place = be(owner, alice, "2025-06-16T10:00Z", kind="check_in", note="with friends")

    body = ask(api, alice, EVENTS, "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "data": [
            {
                "id": event,
                "type": "check_in",
                "status": "confirmed",
                "started_at": "2025-06-16T10:00:00.000Z",
                "ended_at": None,
                "duration_ms": None,
                "utc_offset": "+02:00",
                "place": {
                    "id": place,
                    "name": "Café X",
                    "category": "Café",
                    "latitude": 52.371,
                    "longitude": 4.891,
                    "address": None,
                    "city": "Amsterdam",
                    "country_code": "NL",
                },
                "note": "with friends",
                "source": "swarm",
            }
        ],
        "count": 1,
        "limit": 100,
        "has_more": False,
        "next_cursor": None,
    }


def test_a_visit_that_overlaps_the_range_is_listed_whole(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    weeks, _ = be(owner, alice, "2025-05-01T00:00Z", "2025-06-16T00:00:00.001Z")
    day, _ = be(owner, alice, "2025-06-15T00:00Z", "2025-06-16T01:00Z", status="suggested")
    hour, _ = be(owner, alice, "2025-06-15T23:30Z", "2025-06-16T00:30Z", status="declined")
    late, _ = be(owner, alice, "2025-06-16T23:00Z", "2025-06-18T00:00Z")
    be(owner, alice, "2025-05-01T00:00Z", "2025-06-16T00:00Z")
    be(owner, alice, "2025-06-15T23:00Z", "2025-06-16T00:00Z")
    be(owner, alice, "2025-06-17T00:00Z", "2025-06-18T00:00Z")

    body = ask(api, alice, EVENTS, "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert [row["id"] for row in body["data"]] == [late, hour, day, weeks]
    assert [row["status"] for row in body["data"]] == [
        "confirmed",
        "declined",
        "suggested",
        "confirmed",
    ]
    assert body["data"][1]["started_at"] == "2025-06-15T23:30:00.000Z"
    assert body["data"][1]["duration_ms"] == 3_600_000


def test_a_check_in_and_a_visit_without_an_end_lie_at_their_start(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    be(owner, alice, "2025-06-15T23:30Z", "2025-06-16T00:30Z", kind="check_in")
    be(owner, alice, "2025-05-01T00:00Z", "2025-06-20T00:00Z", kind="check_in")
    be(owner, alice, "2025-06-15T23:30Z")

    body = ask(api, alice, EVENTS, "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert body["data"] == []


def test_long_visits_have_their_place_in_the_pages(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    expected = [
        be(owner, alice, "2025-06-16T10:00Z", "2025-06-16T11:00Z")[0],
        be(owner, alice, "2025-06-15T20:00Z", "2025-06-16T02:00Z")[0],
        be(owner, alice, "2025-06-02T00:00Z", "2025-06-20T00:00Z")[0],
        be(owner, alice, "2025-06-01T00:00Z", "2025-06-20T00:00Z")[0],
    ]
    pages = [ask(api, alice, EVENTS, "2025-06-16T00:00Z", "2025-06-17T00:00Z", limit="1")]

    while pages[-1]["has_more"]:
        cursor = pages[-1]["next_cursor"]
        pages.append(
            ask(
                api,
                alice,
                EVENTS,
                "2025-06-16T00:00Z",
                "2025-06-17T00:00Z",
                limit="1",
                cursor=cursor,
            )
        )

    assert [row["id"] for page in pages for row in page["data"]] == expected


def test_places_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    # Two visits to one place that overlap for half an hour; the first one began before the range.
    _, cafe = be(owner, alice, "2025-06-15T23:00Z", "2025-06-16T01:00Z")
    second, elsewhere = be(owner, alice, "2025-06-16T00:30Z", "2025-06-16T02:00Z")
    owner.execute("update location.event set place_id = %s where event_id = %s", [cafe, second])
    owner.execute("delete from location.place where place_id = %s", [elsewhere])
    _, bar = be(owner, alice, "2025-06-16T20:00Z", kind="check_in")
    be(owner, alice, "2025-06-16T21:00Z", "2025-06-16T22:00Z", status="declined")

    body = ask(api, alice, "/api/v1/locations/places", "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert [
        (row["place"]["id"], row["stayed_ms"], row["visit_count"], row["check_in_count"])
        for row in body["data"]
    ] == [(cafe, 7_200_000, 2, 0), (bar, 0, 0, 1)]
    assert body["data"][0]["last_at"] == "2025-06-16T00:30:00.000Z"
    assert body["data"][0]["place"] == {
        "id": cafe,
        "name": "Café X",
        "category": "Café",
        "latitude": 52.371,
        "longitude": 4.891,
        "address": None,
        "city": "Amsterdam",
        "country_code": "NL",
    }
    assert body["totals"] == {
        "place_count": 2,
        "stayed_ms": 7_200_000,
        "visit_count": 2,
        "check_in_count": 1,
    }


def test_a_range_of_no_length_has_no_places(api: TestClient, owner: Rows, alice: Person) -> None:
    be(owner, alice, "2025-06-15T23:00Z", "2025-06-16T01:00Z")

    body = ask(api, alice, "/api/v1/locations/places", "2025-06-16T00:00Z", "2025-06-16T00:00Z")

    assert (body["data"], body["totals"]["place_count"]) == ([], 0)
