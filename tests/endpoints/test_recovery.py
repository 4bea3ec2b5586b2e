"""GET /api/v1/health/recovery."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.health import Sleep, Source, day

Rows = psycopg.Connection[Any]

PATH = "/api/v1/health/recovery"
WHOOP = Source("whoop", "WHOOP 4.0", "watch", 100)
OURA = Source("oura", "Ring", "other", 100)
NOTHING = {
    "has_data": False,
    "provider": None,
    "utc_offset": None,
    "recovery": None,
    "strain": None,
    "sleep": None,
}


def ask(api: TestClient, person: Person, start: str, end: str) -> dict[str, Any]:
    answer = api.get(PATH, params={"from": start, "to": end}, headers=person.headers("read:health"))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def sleep(
    owner: Rows,
    person: Person,
    source: Source,
    end: str | datetime,
    *,
    offset: str = "+00:00",
    is_nap: bool = False,
    asleep_ms: int = 25_200_000,
) -> Any:
    """Return the id of a sleep of eight hours."""
    row = owner.execute(
        """
        with source as (
            insert into health.source as known (user_id, provider, name, kind, priority)
            values (%(user_id)s, %(provider)s, %(name)s, %(kind)s, %(priority)s)
            on conflict (user_id, provider, name, device) do update set name = known.name
            returning source_id
        )
        insert into health.sleep
               (user_id, source_id, started_at, ended_at, utc_offset, is_nap, in_bed_ms, asleep_ms)
        select %(user_id)s, source_id, %(end)s::timestamptz - interval '8 hours', %(end)s, %(offset)s,
               %(is_nap)s, 28800000, %(asleep_ms)s
          from source
        returning sleep_id
        """,
        {
            "user_id": person.user_id,
            "provider": source.provider,
            "name": source.name,
            "kind": source.kind,
            "priority": source.priority,
            "end": end,
            "offset": offset,
            "is_nap": is_nap,
            "asleep_ms": asleep_ms,
        },
    ).fetchone()
    assert row is not None
    return row[0]


def test_a_day_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    main = sleep(owner, alice, WHOOP, "2025-06-16T04:30Z", offset="+02:00", asleep_ms=26_100_000)
    owner.execute(
        """
        update health.sleep
           set awake_ms = 2700000, light_ms = 13500000, deep_ms = 5400000, rem_ms = 7200000,
               no_data_ms = 0, latency_ms = 420000, disturbance_count = 9, cycle_count = 5,
               efficiency_percent = 90.6, performance_percent = 88, consistency_percent = 79,
               need_ms = 29400000, debt_ms = 1800000, respiratory_rate_bpm = 14.6,
               average_heart_rate_bpm = 55, lowest_heart_rate_bpm = 48
        """
    )
    owner.execute(
        "insert into health.recovery values (%s, %s, 'scored', 66, 52, 48.2, 96.1, 33.7)",
        [alice.user_id, main],
    )
    owner.execute(
        "insert into health.cycle values (%s, %s, '2025-06-15T20:30Z', null, 11.4, 21, 9210.4, 68, 165)",
        [alice.user_id, main],
    )
    sleep(
        owner,
        alice,
        WHOOP,
        "2025-06-16T13:00Z",
        offset="+02:00",
        is_nap=True,
        asleep_ms=1_500_000,
    )
    sleep(owner, alice, WHOOP, "2025-06-17T04:00Z", offset="+02:00", asleep_ms=25_500_001)
    sleep(owner, bob, WHOOP, "2025-06-16T04:00Z")

    body = ask(api, alice, "2025-06-15", "2025-06-17")

    assert body["range"] == {"from": "2025-06-15", "to": "2025-06-17"}
    assert body["data"][0] == {"date": "2025-06-15", **NOTHING}
    assert body["data"][1] == {
        "date": "2025-06-16",
        "has_data": True,
        "provider": "whoop",
        "utc_offset": "+02:00",
        "recovery": {
            "score": 66,
            "state": "scored",
            "resting_heart_rate_bpm": 52,
            "hrv_rmssd_ms": 48.2,
            "spo2_percent": 96.1,
            "skin_temperature_c": 33.7,
        },
        "strain": {
            "score": 11.4,
            "scale_max": 21,
            "energy_kj": 9210.4,
            "average_heart_rate_bpm": 68,
            "max_heart_rate_bpm": 165,
        },
        "sleep": {
            "started_at": "2025-06-15T20:30:00.000Z",
            "ended_at": "2025-06-16T04:30:00.000Z",
            "in_bed_ms": 28_800_000,
            "asleep_ms": 26_100_000,
            "awake_ms": 2_700_000,
            "light_ms": 13_500_000,
            "deep_ms": 5_400_000,
            "rem_ms": 7_200_000,
            "no_data_ms": 0,
            "latency_ms": 420_000,
            "disturbance_count": 9,
            "cycle_count": 5,
            "efficiency_percent": 90.6,
            "performance_percent": 88,
            "consistency_percent": 79,
            "need_ms": 29_400_000,
            "debt_ms": 1_800_000,
            "respiratory_rate_bpm": 14.6,
            "average_heart_rate_bpm": 55,
            "lowest_heart_rate_bpm": 48,
            "nap_count": 1,
            "nap_ms": 1_500_000,
        },
    }
    assert (body["data"][2]["recovery"], body["data"][2]["strain"]) == (None, None)
    assert body["data"][2]["sleep"]["asleep_ms"] == 25_500_001
    # Over the days that have a value each, half up.
    assert body["averages"] == {
        "recovery_score": 66,
        "strain_score": 11.4,
        "asleep_ms": 25_800_001,
        "hrv_rmssd_ms": 48.2,
        "resting_heart_rate_bpm": 52,
    }


def test_an_empty_account_has_every_day_and_no_averages(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, "2025-06-16", "2025-06-17")

    assert body["data"] == [{"date": "2025-06-16", **NOTHING}, {"date": "2025-06-17", **NOTHING}]
    assert body["averages"] == {
        "recovery_score": None,
        "strain_score": None,
        "asleep_ms": None,
        "hrv_rmssd_ms": None,
        "resting_heart_rate_bpm": None,
    }


@pytest.mark.parametrize(
    ("end", "offset", "of"),
    [
        ("2025-06-15T23:30:00Z", "+00:00", "2025-06-15"),
        ("2025-06-15T23:30:00Z", "+02:00", "2025-06-16"),
        ("2025-06-16T21:59:59.999Z", "+02:00", "2025-06-16"),
        ("2025-06-16T22:00:00Z", "+02:00", "2025-06-17"),
        ("2025-06-16T04:00:00Z", "-05:30", "2025-06-15"),
        ("2025-06-16T10:00:00Z", "+14:00", "2025-06-17"),
        ("2025-06-17T11:59:59Z", "-12:00", "2025-06-16"),
    ],
)
def test_a_sleep_belongs_to_the_local_date_on_which_it_ended(
    api: TestClient, owner: Rows, alice: Person, end: str, offset: str, of: str
) -> None:
    sleep(owner, alice, WHOOP, end, offset=offset)

    body = ask(api, alice, "2025-06-14", "2025-06-18")
    just_that_day = ask(api, alice, of, of)

    assert [row["date"] for row in body["data"] if row["has_data"]] == [of]
    assert just_that_day["data"][0]["has_data"]


def test_the_provider_of_smaller_priority_has_the_day(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    first = Source("oura", "Ring", "other", 50)
    sleep(owner, alice, WHOOP, "2025-06-16T05:00Z", asleep_ms=1)
    sleep(owner, alice, first, "2025-06-16T05:10Z", asleep_ms=2)
    sleep(owner, alice, WHOOP, "2025-06-16T15:00Z", is_nap=True, asleep_ms=10)
    sleep(owner, alice, first, "2025-06-16T15:00Z", is_nap=True, asleep_ms=20)

    (row,) = ask(api, alice, "2025-06-16", "2025-06-16")["data"]

    assert row["provider"] == "oura"
    assert (row["sleep"]["asleep_ms"], row["sleep"]["nap_ms"]) == (2, 20)


def test_a_main_sleep_is_preferred_to_a_nap_of_a_better_provider(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    sleep(owner, alice, OURA, "2025-06-16T05:00Z", asleep_ms=1)
    sleep(owner, alice, WHOOP, "2025-06-16T15:00Z", is_nap=True, asleep_ms=10)

    (row,) = ask(api, alice, "2025-06-16", "2025-06-16")["data"]

    assert (row["provider"], row["sleep"]["nap_count"]) == ("oura", 0)


def test_a_day_with_only_a_nap_has_no_main_sleep(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    sleep(owner, alice, WHOOP, "2025-06-16T15:00Z", is_nap=True, asleep_ms=1_200_000)

    body = ask(api, alice, "2025-06-16", "2025-06-16")

    (row,) = body["data"]
    assert (row["has_data"], row["provider"], row["recovery"]) == (True, "whoop", None)
    assert (row["sleep"]["started_at"], row["sleep"]["asleep_ms"]) == (None, None)
    assert (row["sleep"]["nap_count"], row["sleep"]["nap_ms"]) == (1, 1_200_000)
    assert body["averages"]["asleep_ms"] is None


SOURCES = st.sampled_from(
    [
        Source(provider, name, kind, priority)
        for provider, name, kind, priority in [
            ("oura", "Ring", "other", 2),
            ("whoop", "Strap", "watch", 2),
            ("apple_health", "Apple Watch", "watch", 1),
            ("apple_health", "iPhone", "phone", 1),
        ]
    ]
)
DAYS = st.datetimes(
    datetime(2025, 6, 15),  # noqa: DTZ001 -- hypothesis takes naive bounds, and this is local time
    datetime(2025, 6, 18, 23, 59),  # noqa: DTZ001 -- the same: local time
)
SLEEPS = st.lists(
    st.tuples(
        st.builds(Sleep, SOURCES, DAYS, st.booleans(), st.integers(0, 5)),
        st.integers(-12 * 60, 14 * 60),
    ),
    max_size=8,
)


@given(SLEEPS)
def test_days_are_those_of_the_model(
    api: TestClient, owner: Rows, alice: Person, sleeps: list[tuple[Sleep, int]]
) -> None:
    owner.execute("delete from health.source")
    for slept, minutes in sleeps:
        hours, rest = divmod(abs(minutes), 60)
        sleep(
            owner,
            alice,
            slept.source,
            slept.woke_at.replace(tzinfo=UTC) - timedelta(minutes=minutes),
            offset=f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}",
            is_nap=slept.is_nap,
            asleep_ms=slept.asleep_ms,
        )

    body = ask(api, alice, "2025-06-16", "2025-06-17")

    assert [
        row["sleep"]
        and (
            row["provider"],
            row["sleep"]["asleep_ms"],
            row["sleep"]["nap_count"],
            row["sleep"]["nap_ms"],
        )
        for row in body["data"]
    ] == [day([slept for slept, _ in sleeps], date(2025, 6, of)) for of in (16, 17)]
