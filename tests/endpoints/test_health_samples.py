"""GET /api/v1/health/samples, /api/v1/health/heart-rate and heart-rate-series."""

from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.test_health_summary import PHONE, SPO2, WATCH, beat, measure

Rows = psycopg.Connection[Any]

SAMPLES = "/api/v1/health/samples"
HEART_RATE = "/api/v1/health/heart-rate"
SERIES = "/api/v1/health/heart-rate-series"


def ask(
    api: TestClient, person: Person, path: str, start: str, end: str, **params: str
) -> dict[str, Any]:
    answer = api.get(
        path,
        params={"from": start, "to": end, **params},
        headers=person.headers("read:health"),
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_sample_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    measure(owner, alice, WATCH, "2025-06-16T10:00Z", "2025-06-16T10:05Z", 212)
    owner.execute("update health.sample set utc_offset = '+02:00'")
    owner.execute("update health.source set device = 'Watch6,2'")
    measure(owner, alice, PHONE, "2025-06-16T10:00Z", "2025-06-16T10:05Z", 97, metric=SPO2)
    beat(owner, alice, "2025-06-16T10:00Z", 61)
    row = owner.execute("select sample_id from health.sample where value = 212").fetchone()
    assert row is not None

    body = ask(api, alice, SAMPLES, "2025-06-16T00:00Z", "2025-06-17T00:00Z", metric_type="steps")

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "metric_type": "steps",
        "unit": "count",
        "data": [
            {
                "id": str(row[0]),
                "metric_type": "steps",
                "value": 212,
                "unit": "count",
                "started_at": "2025-06-16T10:00:00.000Z",
                "ended_at": "2025-06-16T10:05:00.000Z",
                "utc_offset": "+02:00",
                "source": {
                    "provider": "apple_health",
                    "name": "Apple Watch",
                    "device": "Watch6,2",
                },
            }
        ],
        "count": 1,
        "limit": 1000,
        "has_more": False,
        "next_cursor": None,
    }


def test_samples_that_overlap_the_range_are_listed_whole(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-13T10:00Z", "2025-06-15T10:00Z", 1)
    measure(owner, alice, WATCH, "2025-06-14T10:01Z", "2025-06-16T10:01Z", 2)
    measure(owner, alice, WATCH, "2025-06-16T09:00Z", "2025-06-16T10:00Z", 3)
    measure(owner, alice, WATCH, "2025-06-16T10:59Z", "2025-06-16T12:00Z", 4)
    measure(owner, alice, WATCH, "2025-06-16T11:00Z", "2025-06-16T12:00Z", 5)

    body = ask(api, alice, SAMPLES, "2025-06-16T10:00Z", "2025-06-16T11:00Z", metric_type="steps")

    assert [(row["value"], row["started_at"]) for row in body["data"]] == [
        (4, "2025-06-16T10:59:00.000Z"),
        (2, "2025-06-14T10:01:00.000Z"),
    ]


def test_a_metric_without_data_has_no_rows_and_no_unit(api: TestClient, alice: Person) -> None:
    body = ask(
        api, alice, SAMPLES, "2025-06-16T00:00Z", "2025-06-17T00:00Z", metric_type="of_tomorrow_2"
    )

    assert (body["metric_type"], body["unit"], body["data"]) == ("of_tomorrow_2", None, [])


@pytest.mark.parametrize(
    "malformed", ["Steps", "2steps", "_steps", "heart-rate", "a" * 65, "étape"]
)
def test_an_invalid_name_of_a_metric_is_named(
    api: TestClient, alice: Person, malformed: str
) -> None:
    answer = api.get(
        SAMPLES,
        params={
            "from": "2025-06-16T00:00Z",
            "to": "2025-06-17T00:00Z",
            "metric_type": malformed,
        },
        headers=alice.headers("read:health"),
    )

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "metric_type"


def test_heart_rate_is_listed_as_samples_too(api: TestClient, owner: Rows, alice: Person) -> None:
    measure(owner, alice, WATCH, "2025-06-16T10:00Z", "2025-06-16T10:05Z", 212)
    beat(owner, alice, "2025-06-16T10:00Z", 61, "Apple Watch")

    body = ask(
        api, alice, SAMPLES, "2025-06-16T00:00Z", "2025-06-17T00:00Z", metric_type="heart_rate"
    )

    assert body["unit"] == "bpm"
    assert [{**row, "id": ""} for row in body["data"]] == [
        {
            "id": "",
            "metric_type": "heart_rate",
            "value": 61,
            "unit": "bpm",
            "started_at": "2025-06-16T10:00:00.000Z",
            "ended_at": "2025-06-16T10:00:00.000Z",
            "utc_offset": None,
            "source": {"provider": "apple_health", "name": "Apple Watch", "device": None},
        }
    ]


def test_a_reading_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    row = owner.execute(
        """
        with belt as (
            insert into health.source (user_id, provider, name, platform)
            values (%(user_id)s, 'bluetooth', 'H10', 'ble')
            returning user_id, source_id
        )
        insert into health.heart_rate (user_id, recorded_at, bpm, rr_intervals_ms, contact, source_id)
        select user_id, '2025-06-16 10:00:00.123Z', 61, '{982,975}', true, source_id
          from belt
        returning heart_rate_id, source_id
        """,
        {"user_id": alice.user_id},
    ).fetchone()
    assert row is not None
    beat(owner, alice, "2025-06-16T11:00Z", 48)
    beat(owner, alice, "2025-06-16T12:00Z", 172)
    beat(owner, alice, "2025-06-16T13:00Z", 48)
    beat(owner, alice, "2025-06-17T00:00Z", 200)
    beat(owner, bob, "2025-06-16T12:00Z", 30)

    first = ask(api, alice, HEART_RATE, "2025-06-16T00:00Z", "2025-06-17T00:00Z", limit="3")
    body = ask(
        api,
        alice,
        HEART_RATE,
        "2025-06-16T00:00Z",
        "2025-06-17T00:00Z",
        limit="3",
        cursor=first["next_cursor"],
    )

    assert [reading["bpm"] for reading in first["data"]] == [48, 172, 48]
    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-17T00:00:00.000Z"},
        "unit": "bpm",
        "data": [
            {
                "id": str(row[0]),
                "recorded_at": "2025-06-16T10:00:00.123Z",
                "bpm": 61,
                "rr_intervals_ms": [982, 975],
                "contact": True,
                "device": {"id": str(row[1]), "name": "H10", "platform": "ble"},
            }
        ],
        # Of all four readings, whatever the page.
        "summary": {"minimum": 48, "maximum": 172, "average": 82.25},
        "count": 1,
        "limit": 3,
        "has_more": False,
        "next_cursor": None,
    }


def test_an_empty_account_has_no_heart_rate(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, HEART_RATE, "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert body["summary"] == {"minimum": None, "maximum": None, "average": None}


def test_heart_rate_in_steps_by_hand(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    for at, bpm in (("09:59", 60), ("10:00", 70), ("10:04:59.999", 81), ("10:10", 90)):
        beat(owner, alice, f"2025-06-16T{at}Z", bpm)
    beat(owner, bob, "2025-06-16T10:06Z", 180)

    body = ask(api, alice, SERIES, "2025-06-16T10:00Z", "2025-06-16T11:00Z")

    assert body == {
        "range": {"from": "2025-06-16T10:00:00.000Z", "to": "2025-06-16T11:00:00.000Z"},
        "unit": "bpm",
        "step_ms": 300_000,
        "data": [
            {
                "starts_at": "2025-06-16T10:00:00.000Z",
                "count": 2,
                "minimum": 70,
                "maximum": 81,
                "average": 75.5,
            },
            {
                "starts_at": "2025-06-16T10:10:00.000Z",
                "count": 1,
                "minimum": 90,
                "maximum": 90,
                "average": 90,
            },
        ],
        "summary": {"minimum": 70, "maximum": 90, "average": 80.33},
    }


def test_a_range_of_too_many_steps_is_refused(api: TestClient, alice: Person) -> None:
    params = {"from": "2025-06-16T00:00Z", "to": "2025-06-17T03:46:40Z", "step_s": "10"}
    headers = alice.headers("read:health")

    most = api.get(SERIES, params=params, headers=headers)
    answer = api.get(SERIES, params=params | {"to": "2025-06-17T03:46:41Z"}, headers=headers)

    assert most.json()["data"] == []
    assert answer.status_code == 400
    assert answer.json()["message"] == "to: must be at most 10000 steps after from"
