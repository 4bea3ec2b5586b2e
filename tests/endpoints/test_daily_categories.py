"""GET /api/v1/analytics/daily-categories."""

import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.histories import ask
from tests.endpoints.test_app_usage import event, post

PATH = "/api/v1/analytics/daily-categories"


def test_two_days_by_hand_are_clipped_to_the_range(api: TestClient, alice: Person) -> None:
    post(
        api,
        alice,
        [
            event("Code", "20:00:00", "23:00:00", category="Development"),
            event("Reddit", "21:30:00", "21:45:00", category="Social"),
            event("Glance", "20:30:00", "20:30:00", category="News"),
        ],
    )

    body = ask(
        api,
        alice,
        PATH,
        start="2025-06-16T21:00:00Z",
        end="2025-06-16T22:30:00Z",
        tz="Europe/Berlin",
    )

    assert body == {
        "range": {"from": "2025-06-16T21:00:00.000Z", "to": "2025-06-16T22:30:00.000Z"},
        "tz": "Europe/Berlin",
        "data": [
            {
                "date": "2025-06-16",
                "tracked_ms": 3_600_000,
                "categories": [
                    {
                        "category": "Development",
                        "productivity": "productive",
                        "total_ms": 2_700_000,
                        "percent": 75.0,
                    },
                    {
                        "category": "Social",
                        "productivity": "distracting",
                        "total_ms": 900_000,
                        "percent": 25.0,
                    },
                ],
            },
            {
                "date": "2025-06-17",
                "tracked_ms": 1_800_000,
                "categories": [
                    {
                        "category": "Development",
                        "productivity": "productive",
                        "total_ms": 1_800_000,
                        "percent": 100.0,
                    }
                ],
            },
        ],
        "totals": {"tracked_ms": 5_400_000},
        "removed_before": None,
    }


def test_a_day_continues_when_clocks_go_back_over_its_midnight(
    api: TestClient, alice: Person
) -> None:
    # At 00:01 clocks went back to 23:01, so that at 03:00Z they showed the day before once more.
    post(
        api,
        alice,
        [{"app": "Code", "started_at": "2006-10-29T02:00:00Z", "ended_at": "2006-10-29T04:00:00Z"}],
    )

    body = ask(
        api,
        alice,
        PATH,
        start="2006-10-29T02:00:00Z",
        end="2006-10-29T03:00:00Z",
        tz="America/St_Johns",
    )

    assert [(day["date"], day["tracked_ms"]) for day in body["data"]] == [
        ("2006-10-28", 1_800_000),
        ("2006-10-29", 1_800_000),
    ]


def test_a_day_that_the_zone_skipped_is_listed_within_a_range(
    api: TestClient, alice: Person
) -> None:
    post(
        api,
        alice,
        [{"app": "Code", "started_at": "2011-12-30T09:00:00Z", "ended_at": "2011-12-30T11:00:00Z"}],
    )

    body = ask(
        api,
        alice,
        PATH,
        start="2011-12-29T10:00:00Z",
        end="2011-12-31T10:00:00Z",
        tz="Pacific/Apia",
    )

    assert [(day["date"], day["tracked_ms"]) for day in body["data"]] == [
        ("2011-12-29", 3_600_000),
        ("2011-12-30", 0),
        ("2011-12-31", 3_600_000),
    ]
    at_its_edge = ask(
        api,
        alice,
        PATH,
        start="2011-12-29T10:00:00Z",
        end="2011-12-30T10:00:00Z",
        tz="Pacific/Apia",
    )
    assert [day["date"] for day in at_its_edge["data"]] == ["2011-12-29"]


def test_empty_days_are_listed_too(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, start="2025-06-16T23:59:59Z", end="2025-06-18T00:00:00Z")

    assert body["data"] == [
        {"date": "2025-06-16", "tracked_ms": 0, "categories": []},
        {"date": "2025-06-17", "tracked_ms": 0, "categories": []},
    ]


def test_a_range_of_no_length_has_no_days(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, PATH, start="2025-06-16T09:00:00Z", end="2025-06-16T09:00:00Z")

    assert body["data"] == []
    assert body["totals"] == {"tracked_ms": 0}


def test_bob_sees_nothing_of_alices(api: TestClient, alice: Person, bob: Person) -> None:
    post(api, alice, [event("Code", "09:00:00", "10:00:00", category="Secret of alice")])

    body = ask(api, bob, PATH, start="2025-06-16T00:00:00Z", end="2025-06-17T00:00:00Z")

    assert body["data"] == [{"date": "2025-06-16", "tracked_ms": 0, "categories": []}]


@pytest.mark.parametrize(
    ("start", "end", "parameter"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z", "from"),
        ("9999-12-30T00:00:00Z", "9999-12-31T00:00:00Z", "from"),
        ("2015-01-01T00:00:00Z", "2025-02-17T00:00:01Z", "to"),
    ],
)
def test_days_outside_the_calendar_are_refused(
    api: TestClient, alice: Person, start: str, end: str, parameter: str
) -> None:
    answer = api.get(
        PATH, params={"from": start, "to": end}, headers=alice.headers("read:activity")
    )

    assert answer.status_code == 400
    assert answer.json()["parameter"] == parameter
