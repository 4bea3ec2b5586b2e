"""GET /api/v1/health/sleep-regularity."""

from datetime import date, timedelta
from typing import Any, Final

import psycopg
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.test_recovery import OURA, WHOOP, sleep

Rows = psycopg.Connection[Any]

PATH: Final = "/api/v1/health/sleep-regularity"
HOUR: Final = 3_600_000
NOTHING: Final = {
    "has_data": False,
    "provider": None,
    "utc_offset": None,
    "started_at": None,
    "ended_at": None,
    "bedtime": None,
    "wake_up": None,
    "duration_ms": None,
    "asleep_ms": None,
    "nap_ms": 0,
    "agreeing_ms": None,
}
NO_TIMES: Final = {
    "nights": 0,
    "bedtime": None,
    "wake_up": None,
    "mid_sleep": None,
    "duration_ms": None,
}


def ask(api: TestClient, person: Person, start: str, end: str) -> dict[str, Any]:
    answer = api.get(PATH, params={"from": start, "to": end}, headers=person.headers("read:health"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def lies_from(owner: Rows, sleep_id: Any, start: str) -> None:
    owner.execute("update health.sleep set started_at = %s where sleep_id = %s", [start, sleep_id])


def test_waking_up_an_hour_later_is_an_index_of_91_7(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    first = sleep(owner, alice, WHOOP, "2025-06-16T04:00Z", offset="+02:00", asleep_ms=24_000_000)
    lies_from(owner, first, "2025-06-15T21:00Z")
    # The second night begins at 23:00 too, after a flight: the clock of its place counts.
    sleep(owner, alice, WHOOP, "2025-06-17T12:00Z", offset="-05:00")
    sleep(owner, bob, WHOOP, "2025-06-16T22:00Z")

    body = ask(api, alice, "2025-06-15", "2025-06-17")

    assert body["range"] == {"from": "2025-06-15", "to": "2025-06-17"}
    assert body["definition"] == {"day_begins": "12:00", "day_ms": 24 * HOUR}
    assert body["data"] == [
        {"date": "2025-06-15", **NOTHING},
        {
            "date": "2025-06-16",
            "has_data": True,
            "provider": "whoop",
            "utc_offset": "+02:00",
            "started_at": "2025-06-15T21:00:00.000Z",
            "ended_at": "2025-06-16T04:00:00.000Z",
            "bedtime": "23:00",
            "wake_up": "06:00",
            "duration_ms": 7 * HOUR,
            "asleep_ms": 24_000_000,
            "nap_ms": 0,
            "agreeing_ms": None,
        },
        {
            "date": "2025-06-17",
            "has_data": True,
            "provider": "whoop",
            "utc_offset": "-05:00",
            "started_at": "2025-06-17T04:00:00.000Z",
            "ended_at": "2025-06-17T12:00:00.000Z",
            "bedtime": "23:00",
            "wake_up": "07:00",
            "duration_ms": 8 * HOUR,
            "asleep_ms": 25_200_000,
            "nap_ms": 0,
            "agreeing_ms": 23 * HOUR,
        },
    ]
    assert body["regularity"] == {
        "index": 91.7,
        "pairs": 1,
        "agreeing_ms": 23 * HOUR,
        "compared_ms": 24 * HOUR,
    }
    both = {
        "nights": 2,
        "bedtime": {"lower_quartile": "23:00", "median": "23:00", "upper_quartile": "23:00"},
        "wake_up": {"lower_quartile": "06:15", "median": "06:30", "upper_quartile": "06:45"},
        "mid_sleep": {"lower_quartile": "02:38", "median": "02:45", "upper_quartile": "02:53"},
        "duration_ms": 27_000_000,
    }
    # A Monday and a Tuesday.
    assert body["usual"] == {"all": both, "work_days": both, "free_days": NO_TIMES}
    assert body["social_jetlag_ms"] is None


def test_an_empty_account_has_every_day(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, "2025-06-16", "2025-06-16")

    assert body["data"] == [{"date": "2025-06-16", **NOTHING}]
    assert body["regularity"] == {"index": None, "pairs": 0, "agreeing_ms": 0, "compared_ms": 0}
    assert body["usual"] == dict.fromkeys(("all", "work_days", "free_days"), NO_TIMES)


def test_days_without_a_main_sleep_are_in_no_pair(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    for day in ("16", "17", "19", "20"):
        sleep(owner, alice, WHOOP, f"2025-06-{day}T06:00Z")
    sleep(owner, alice, WHOOP, "2025-06-18T15:00Z", is_nap=True)

    body = ask(api, alice, "2025-06-16", "2025-06-20")

    assert body["regularity"]["pairs"] == 2
    assert [row["agreeing_ms"] is not None for row in body["data"]] == [
        False, True, False, False, True,
    ]  # fmt: skip
    nap = body["data"][2]
    assert (nap["has_data"], nap["provider"], nap["nap_ms"]) == (False, "whoop", 25_200_000)


def test_a_nap_of_the_day_before_the_range_counts(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    for day in ("15", "16", "17"):
        sleep(owner, alice, WHOOP, f"2025-06-{day}T06:00Z")
    nap = sleep(owner, alice, WHOOP, "2025-06-15T14:00Z", is_nap=True, asleep_ms=1)
    lies_from(owner, nap, "2025-06-15T13:00Z")
    # What another provider took for a nap does not count: the day is WHOOP's.
    sleep(owner, alice, OURA, "2025-06-15T20:00Z", is_nap=True)

    body = ask(api, alice, "2025-06-16", "2025-06-17")

    assert body["regularity"]["agreeing_ms"] == 23 * HOUR
    assert [row["nap_ms"] for row in body["data"]] == [0, 0]


def test_free_days_are_two_hours_later(api: TestClient, owner: Rows, alice: Person) -> None:
    monday = date(2025, 6, 16)
    for n in range(14):
        hour = 8 if n % 7 > 4 else 6
        sleep(owner, alice, WHOOP, f"{monday + timedelta(days=n)}T{hour:02}:00Z")

    body = ask(api, alice, "2025-06-16", "2025-06-29")

    usual = body["usual"]
    assert [usual[kind]["nights"] for kind in ("all", "work_days", "free_days")] == [14, 10, 4]
    assert usual["work_days"]["bedtime"]["median"] == "22:00"
    assert usual["free_days"]["bedtime"]["median"] == "00:00"
    assert usual["all"]["bedtime"]["median"] == "22:00"
    assert body["social_jetlag_ms"] == 2 * HOUR
    # Two hours at either end differ from Friday to Saturday and from Sunday to Monday: 3 of 13 pairs.
    assert body["regularity"]["agreeing_ms"] == (13 * 24 - 3 * 4) * HOUR
