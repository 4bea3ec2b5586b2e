"""get_places: stays, how long they were and how far it was between points, worked out by hand."""

import itertools
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest

from tests.conftest import Person
from tests.mcp.assistant import Assistant, without_texts

Rows = psycopg.Connection[Any]

JUNE: Final = {"from_": "2025-06-16", "to": "2025-06-18", "tz": "Europe/Berlin"}
ROME: Final = {"city": "Rome", "country_code": "IT", "latitude": 41.9, "longitude": 12.5}
BERLIN: Final = {"city": "Berlin", "country_code": "DE", "latitude": 52.52, "longitude": 13.4}
DEGREE_M: Final = 2 * math.pi * 6371008.8 / 360
"""A degree of latitude."""

Place = Callable[..., str]
Stay = Callable[..., None]


@pytest.fixture
def place(owner: Rows, alice: Person) -> Place:
    """Adds a place of alice's and returns its id."""

    def make(name: str, **known: Any) -> str:
        values = {"category": None, "address": None} | BERLIN | known
        row = owner.execute(
            """
            insert into location.place
                   (user_id, name, category, address, city, country_code, latitude, longitude)
            values (%(user_id)s, %(name)s, %(category)s, %(address)s, %(city)s, %(country_code)s,
                    %(latitude)s, %(longitude)s)
            returning place_id
            """,
            {"user_id": alice.user_id, "name": name} | values,
        ).fetchone()
        assert row is not None
        return str(row[0])

    return make


@pytest.fixture
def stay(owner: Rows, alice: Person) -> Stay:
    """Has alice stay at a place."""

    def make(
        place: str, start: str, end: str | None = None, status: str = "confirmed", note: str = ""
    ) -> None:
        owner.execute(
            "insert into location.event "
            "(user_id, place_id, type, status, started_at, ended_at, note, source) "
            "values (%s, %s, %s, %s, %s, %s, nullif(%s, ''), 'phone')",
            [alice.user_id, place, "visit" if end else "check_in", status, start, end, note],
        )

    return make


def be(owner: Rows, alice: Person, at: str, latitude: float, accuracy_m: float = 5) -> None:
    owner.execute(
        "insert into location.point (user_id, recorded_at, latitude, longitude, accuracy_m, source)"
        " values (%s, %s, %s, 13.4, %s, 'phone')",
        [alice.user_id, at, latitude, accuracy_m],
    )


def names(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["name"], row["started_at"][:16]) for row in answer["data"]]


def test_stays_are_listed_newest_first_and_time_is_added_up_by_place(
    assistant: Assistant, place: Place, stay: Stay
) -> None:
    office = place("Office", category="Office", address="Low Street 1")
    cafe = place("Café", category="Café")
    # Berlin's 16th begins at 22:00 in UTC, so an hour and a half of the first visit belongs to it.
    stay(office, "2025-06-15T20:00Z", "2025-06-15T23:30Z")
    stay(office, "2025-06-17T08:00Z", "2025-06-17T10:00Z")
    # A guess that overlaps a visit to the same place is the same time.
    stay(office, "2025-06-17T09:00Z", "2025-06-17T11:00Z", status="suggested")
    stay(office, "2025-06-17T12:00Z", "2025-06-17T20:00Z", status="declined")
    stay(cafe, "2025-06-18T12:00Z", note="too loud")
    stay(cafe, "2025-06-18T22:00Z")

    answer = assistant.ask("get_places", **JUNE)

    assert names(answer) == [
        ("Café", "2025-06-18T12:00"),
        ("Office", "2025-06-17T09:00"),
        ("Office", "2025-06-17T08:00"),
        ("Office", "2025-06-15T20:00"),
    ]
    assert (answer["count"], answer["place_count"], answer["truncated"]) == (4, 2, False)
    assert answer["data"][0] == {
        "type": "check_in", "status": "confirmed",
        "started_at": "2025-06-18T12:00:00.000Z", "started_local": "Wed 2025-06-18 14:00",
        "name": "Café", "category": "Café",
        "city": "Berlin", "country_code": "DE", "latitude": 52.52, "longitude": 13.4,
        "note": "too loud",
    }  # fmt: skip
    assert answer["data"][1]["status"] == "suggested"
    assert answer["places"] == [
        {
            "name": "Office", "category": "Office", "city": "Berlin", "country_code": "DE",
            "stayed_ms": 16_200_000, "stayed_text": "4 h 30 min",
            "visit_count": 3, "check_in_count": 0, "last_at": "2025-06-17T09:00:00.000Z",
            "last_local": "Tue 2025-06-17 11:00",
        },
        {
            "name": "Café", "category": "Café", "city": "Berlin", "country_code": "DE",
            "stayed_ms": 0, "stayed_text": "0 s",
            "visit_count": 0, "check_in_count": 1, "last_at": "2025-06-18T12:00:00.000Z",
            "last_local": "Wed 2025-06-18 14:00",
        },
    ]  # fmt: skip


def test_a_visit_of_many_days_is_found_in_their_middle(
    assistant: Assistant, place: Place, stay: Stay
) -> None:
    stay(place("Hotel"), "2025-06-01T00:00Z", "2025-06-30T00:00Z")

    answer = assistant.ask("get_places", **JUNE)

    assert answer["places"][0]["stayed_text"] == "72 h"


def test_the_last_stay_at_a_place_is_the_first_row(
    assistant: Assistant, place: Place, stay: Stay
) -> None:
    rome, hotel, home = place("Forum", **ROME), place("Hotel Roma", **ROME), place("Home")
    stay(rome, "2023-05-01T10:00Z")
    stay(hotel, "2024-05-01T10:00Z", "2024-05-02T10:00Z")
    stay(home, "2025-06-16T10:00Z")

    answer = assistant.ask("get_places", search="ROME", period="all")

    assert names(answer) == [("Hotel Roma", "2024-05-01T10:00"), ("Forum", "2023-05-01T10:00")]
    assert answer["range"]["from"] == "2023-05-01"


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("forum", ["Forum"]),
        ("MUSEUM", ["Forum"]),
        ("via sacra", ["Forum"]),
        ("berlin", ["Home"]),
        ("it", ["Forum"]),
        ("sunny", ["Home"]),
        ("100", ["Forum"]),
        ("note", []),
    ],
)
def test_a_search_is_literal_and_in_any_case(
    assistant: Assistant, place: Place, stay: Stay, search: str, expected: list[str]
) -> None:
    stay(place("Forum", category="Museum", address="Via Sacra 100", **ROME), "2025-06-16T10:00Z")
    stay(place("Home"), "2025-06-17T10:00Z", note="a sunny day")
    stay(place("Elsewhere"), "2025-01-17T10:00Z", note="of note")

    answer = assistant.ask("get_places", search=search, **JUNE)

    assert [row["name"] for row in answer["data"]] == expected


@pytest.mark.parametrize(
    ("search", "nearest"),
    [("100%", "Rome, Forum"), ("_", "Rome"), ("Rom e", "Rome"), ("Fourum", "Forum")],
)
def test_an_unknown_place_is_an_error_that_names_the_nearest(
    assistant: Assistant, place: Place, stay: Stay, search: str, nearest: str
) -> None:
    stay(place("Forum", address="Via Sacra 100", **ROME), "2025-06-16T10:00Z")

    said = assistant.mistake("get_places", search=search, **JUNE)

    assert said.startswith(f"search: nothing of the person's has the name {search}; the nearest")
    assert nearest.partition(",")[0] in said


def test_near_selects_places_within_a_circle(
    assistant: Assistant, owner: Rows, alice: Person, place: Place, stay: Stay
) -> None:
    # A thousandth of a degree of latitude is 111.19 m.
    stay(place("Near", **BERLIN | {"latitude": 52.521}), "2025-06-16T10:00Z")
    stay(place("Far", **BERLIN | {"latitude": 52.522}), "2025-06-16T11:00Z")
    stay(place("Nowhere", **BERLIN | {"latitude": None}), "2025-06-16T12:00Z")
    be(owner, alice, "2025-06-16T10:00Z", 52.521)
    be(owner, alice, "2025-06-16T11:00Z", 52.522)
    middle = {"latitude": 52.52, "longitude": 13.4}

    near = assistant.ask("get_places", near=middle | {"radius_m": 112}, raw=True, **JUNE)
    nearer = assistant.ask("get_places", near=middle | {"radius_m": 111}, raw=True, **JUNE)
    around = assistant.ask("get_places", near=middle, raw=True, **JUNE)

    assert [row["name"] for row in near["data"]] == ["Near"]
    assert [point["latitude"] for point in near["points"]] == [52.521]
    assert (nearer["data"], nearer["points"], nearer["point_count"]) == ([], [], 0)
    assert [row["name"] for row in around["data"]] == ["Far", "Near"]


def test_the_distance_is_that_of_each_day_through_exact_points(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    be(owner, alice, "2025-06-16T10:00Z", 52.0)
    be(owner, alice, "2025-06-16T11:00Z", 55.0, accuracy_m=101)
    be(owner, alice, "2025-06-16T12:00Z", 52.1)
    # Each day begins with its own first point, so the step over midnight is not counted.
    be(owner, alice, "2025-06-17T12:00Z", 53.0)
    be(owner, alice, "2025-06-17T13:00Z", 53.2)

    answer = assistant.ask("get_places", **JUNE)
    year = assistant.ask("get_places", from_="2025-01-01", to="2026-01-01")
    longer = assistant.ask("get_places", from_="2025-01-01", to="2026-01-02")

    assert answer["distance_m"] == pytest.approx(0.3 * DEGREE_M, abs=0.01)
    assert year["distance_m"] == pytest.approx(0.3 * DEGREE_M, abs=0.01)
    assert "distance_m" not in longer
    assert (answer["distance_text"], longer.get("distance_text")) == ("33.4 km", None)
    assert (answer["points"], answer.get("point_count")) == ([], None)


def test_many_points_are_thinned_evenly_to_fit(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    owner.execute(
        """
        insert into location.point (user_id, recorded_at, latitude, longitude, source)
        select %s, timestamptz '2025-06-16 00:00Z' + n * interval '1 minute', n / 100.0, 13.4, 'phone'
          from generate_series(0, 2000) as n
        """,
        [alice.user_id],
    )

    answer = assistant.ask("get_places", raw=True, **JUNE)

    first = datetime(2025, 6, 16, tzinfo=UTC)
    times = [datetime.fromisoformat(point["at"]) for point in answer["points"]]
    assert (answer["point_count"], answer["truncated"]) == (2001, True)
    assert 200 <= len(times) <= 500
    assert (times[0], times[-1]) == (first, first + timedelta(minutes=2000))
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(steps) <= 3 * min(steps)


def test_a_few_points_are_all_listed(assistant: Assistant, owner: Rows, alice: Person) -> None:
    be(owner, alice, "2025-06-16T10:00Z", 52.123456789)
    be(owner, alice, "2025-06-16T10:00:01Z", 52.2, accuracy_m=500)

    answer = assistant.ask("get_places", raw=True, **JUNE)

    assert without_texts(answer["points"]) == [
        {"at": "2025-06-16T10:00:00.000Z", "latitude": 52.1234568, "longitude": 13.4, "accuracy_m": 5},
        {"at": "2025-06-16T10:00:01.000Z", "latitude": 52.2, "longitude": 13.4, "accuracy_m": 500},
    ]  # fmt: skip
    assert (answer["point_count"], answer["truncated"]) == (2, False)


def test_more_than_ten_places_and_twenty_stays_are_cut_and_counted(
    assistant: Assistant, place: Place, stay: Stay
) -> None:
    for number in range(11):
        stay(
            place(f"P{number}"),
            "2025-06-16T10:00Z",
            f"2025-06-16T{10 + number % 10}:{number + 1:02}Z",
        )
    home = place("Home")
    for minute in range(40):
        stay(home, f"2025-06-16T09:{minute:02}Z")

    answer = assistant.ask("get_places", **JUNE)

    assert (answer["count"], answer["place_count"], answer["truncated"]) == (51, 12, True)
    assert len(answer["data"]) == 20
    assert [row["name"] for row in answer["places"]][:2] == ["P9", "P8"]
    # The visit of a minute, and the check-ins.
    assert answer["other"]["places"] == 2
    assert (answer["other"]["stayed_ms"], answer["other"]["check_in_count"]) == (60_000, 40)


# Invalid arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"search": ""}, "search: must have between 1 and 1024 characters"),
        ({"search": "a\x00"}, "search: must not contain NUL"),
        ({"search": 5}, "search: must be a string"),
        ({"near": [52, 13]}, "near: must be an object"),
        ({"near": {"latitude": 52}}, "near.longitude: field required"),
        ({"near": {"latitude": 91, "longitude": 0}}, "near.latitude: input should be less than"),
        ({"near": {"latitude": "52", "longitude": 0}}, "near.latitude: input should be a valid number"),
        ({"near": {"latitude": True, "longitude": 0}}, "near.latitude: input should be a valid number"),
        (
            {"near": {"latitude": 0, "longitude": 0, "radius_m": 0}},
            "near.radius_m: input should be greater than or equal to 1",
        ),
        (
            {"near": {"latitude": 0, "longitude": 0, "radius": 9}},
            "near.radius: there is no such argument; there are latitude, longitude, radius_m",
        ),
        ({"raw": 1}, "raw: input should be a valid boolean"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(
    assistant: Assistant, arguments: dict[str, Any], message: str
) -> None:
    assert assistant.mistake("get_places", **arguments).startswith(message)


def test_infinite_and_undefined_numbers_are_refused(assistant: Assistant) -> None:
    near = {"latitude": float("nan"), "longitude": 0.0, "radius_m": float("inf")}

    response = assistant.call("get_places", near=near)

    assert response.status_code in (200, 400)
    assert "structuredContent" not in response.text


def test_the_smallest_numbers_count_as_zero(assistant: Assistant, place: Place, stay: Stay) -> None:
    stay(place("Null Island", latitude=1e-200, longitude=-1e-200), "2025-06-16T10:00Z")

    answer = assistant.ask("get_places", near={"latitude": -1e-300, "longitude": 5e-324}, **JUNE)

    assert [row["name"] for row in answer["data"]] == ["Null Island"]
