"""GET /api/v1/health/summary."""

from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.health import Sample, Source, amounts, counts

Rows = psycopg.Connection[Any]

PATH = "/api/v1/health/summary"
WATCH = Source("apple_health", "Apple Watch", "watch", 100)
PHONE = Source("apple_health", "iPhone", "phone", 100)

STEPS = ("steps", "count", "sum")
WATER = ("water_ml", "ml", "sum")
ENERGY = ("active_energy_kj", "kj", "sum")
SPO2 = ("spo2", "percent", "avg")
TEMPERATURE = ("body_temperature", "celsius", "avg")


def ask(
    api: TestClient, person: Person, start: str, end: str, tz: str | None = None
) -> dict[str, Any]:
    answer = api.get(
        PATH,
        params={"from": start, "to": end} | ({"tz": tz} if tz else {}),
        headers=person.headers("read:health"),
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def one(body: dict[str, Any]) -> dict[str, Any]:
    (row,) = body["data"]
    assert isinstance(row, dict)
    return row


def measure(
    owner: Rows,
    person: Person,
    source: Source,
    start: str | datetime,
    end: str | datetime,
    value: float,
    *,
    metric: tuple[str, str, str] = STEPS,
    is_daily_total: bool = False,
) -> None:
    statement: LiteralString = """
        with metric as (
            insert into health.metric (user_id, metric_type, unit, aggregation)
            values (%(user_id)s, %(metric)s, %(unit)s, %(aggregation)s)
            on conflict do nothing
        ),
        source as (
            insert into health.source as known (user_id, provider, name, kind, priority)
            values (%(user_id)s, %(provider)s, %(name)s, %(kind)s, %(priority)s)
            on conflict (user_id, provider, name, device) do update set name = known.name
            returning source_id
        )
        insert into health.sample
               (user_id, metric_type, source_id, started_at, ended_at, value, is_daily_total)
        select %(user_id)s, %(metric)s, source_id, %(start)s, %(end)s, %(value)s, %(is_daily_total)s
          from source
        """
    owner.execute(
        statement,
        {
            "user_id": person.user_id,
            "metric": metric[0],
            "unit": metric[1],
            "aggregation": metric[2],
            "provider": source.provider,
            "name": source.name,
            "kind": source.kind,
            "priority": source.priority,
            "start": start,
            "end": end,
            "value": value,
            "is_daily_total": is_daily_total,
        },
    )


def beat(owner: Rows, person: Person, at: str, bpm: int, source: str | None = None) -> None:
    owner.execute(
        """
        insert into health.heart_rate (user_id, recorded_at, bpm, source_id)
        values (%(user_id)s, %(at)s, %(bpm)s,
                (select source_id from health.source
                  where user_id = %(user_id)s and name = %(source)s))
        """,
        {"user_id": person.user_id, "at": at, "bpm": bpm, "source": source},
    )


def test_two_days_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    # The phone owns the five minutes that the watch did not see: 30 of its 60 steps.
    measure(owner, alice, WATCH, "2025-06-16T10:00Z", "2025-06-16T10:10Z", 100)
    measure(owner, alice, PHONE, "2025-06-16T10:05Z", "2025-06-16T10:15Z", 60)
    measure(owner, alice, PHONE, "2025-06-17T08:00Z", "2025-06-17T09:00Z", 241)
    measure(owner, alice, WATCH, "2025-06-16T06:00Z", "2025-06-16T06:00Z", 36.6, metric=TEMPERATURE)
    measure(
        owner, alice, WATCH, "2025-06-17T06:00Z", "2025-06-17T06:00Z", 36.65, metric=TEMPERATURE
    )
    beat(owner, alice, "2025-06-16T10:00Z", 60, "Apple Watch")
    beat(owner, alice, "2025-06-16T10:01Z", 62, "Apple Watch")
    beat(owner, alice, "2025-06-17T10:00Z", 71)
    measure(owner, bob, WATCH, "2025-06-16T10:00Z", "2025-06-16T10:10Z", 7000)
    beat(owner, bob, "2025-06-16T10:00Z", 200)

    body = ask(api, alice, "2025-06-16T00:00Z", "2025-06-18T00:00Z")

    assert body == {
        "range": {"from": "2025-06-16T00:00:00.000Z", "to": "2025-06-18T00:00:00.000Z"},
        "tz": "UTC",
        "data": [
            {
                "metric_type": "body_temperature",
                "unit": "celsius",
                "aggregation": "avg",
                "count": 2,
                "total": None,
                "average": 36.63,
                "minimum": 36.6,
                "maximum": 36.65,
                "basis": "sample",
                "days_with_data": 2,
                "latest": {"value": 36.65, "recorded_at": "2025-06-17T06:00:00.000Z"},
                "sources": ["Apple Watch"],
            },
            {
                "metric_type": "heart_rate",
                "unit": "bpm",
                "aggregation": "avg",
                "count": 3,
                "total": None,
                "average": 64.33,
                "minimum": 60,
                "maximum": 71,
                "basis": "sample",
                "days_with_data": 2,
                "latest": {"value": 71, "recorded_at": "2025-06-17T10:00:00.000Z"},
                "sources": ["Apple Watch"],
            },
            {
                "metric_type": "steps",
                "unit": "count",
                "aggregation": "sum",
                "count": 3,
                "total": 371,
                "average": 185.5,
                "minimum": 130,
                "maximum": 241,
                "basis": "day",
                "days_with_data": 2,
                "latest": {"value": 241, "recorded_at": "2025-06-17T09:00:00.000Z"},
                "sources": ["Apple Watch", "iPhone"],
            },
        ],
    }


def test_metrics_without_data_in_the_range_are_not_listed(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-15T10:00Z", "2025-06-15T11:00Z", 100)

    body = ask(api, alice, "2025-06-16T00:00Z", "2025-06-17T00:00Z")

    assert body["data"] == []


def test_a_sample_across_the_edge_of_the_range_counts_in_part(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-15T23:50Z", "2025-06-16T00:10Z", 100)

    row = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-16T00:05Z"))

    assert (row["total"], row["count"], row["days_with_data"]) == (25, 1, 1)


def test_days_begin_at_midnight_of_the_zone(api: TestClient, owner: Rows, alice: Person) -> None:
    measure(owner, alice, WATCH, "2025-06-16T21:30Z", "2025-06-16T22:30Z", 100)

    utc = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-18T00:00Z"))
    berlin = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-18T00:00Z", "Europe/Berlin"))

    assert (utc["total"], utc["days_with_data"], utc["maximum"]) == (100, 1, 100)
    assert (berlin["total"], berlin["days_with_data"], berlin["maximum"]) == (100, 2, 50)


@pytest.mark.parametrize(
    ("watch", "phone", "total"), [(100, 100, 100), (100, 99, 70), (1, 2, 100), (2, 1, 70)]
)
def test_priority_comes_before_the_kind_of_device(
    api: TestClient, owner: Rows, alice: Person, watch: int, phone: int, total: int
) -> None:
    start, end = "2025-06-16T10:00Z", "2025-06-16T11:00Z"
    measure(owner, alice, Source("apple_health", "W", "watch", watch), start, end, 100)
    measure(owner, alice, Source("apple_health", "P", "phone", phone), start, end, 70)
    measure(owner, alice, Source("apple_health", "O", "other", 100), start, end, 10)

    row = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-17T00:00Z"))

    assert row["total"] == total


def test_the_time_of_a_better_source_is_cut_out_of_the_middle(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, PHONE, "2025-06-16T10:00Z", "2025-06-16T11:00Z", 60)
    measure(owner, alice, WATCH, "2025-06-16T10:10Z", "2025-06-16T10:20Z", 1000)
    measure(owner, alice, WATCH, "2025-06-16T10:30Z", "2025-06-16T10:40Z", 1000)

    row = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-17T00:00Z"))

    assert row["total"] == 2040


def test_two_providers_with_the_same_measurement_count_once(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-16T10:00Z", "2025-06-16T11:00Z", 500)
    garmin = Source("garmin", "Fenix", "watch", 50)
    measure(owner, alice, garmin, "2025-06-16T10:00Z", "2025-06-16T11:00Z", 520)

    row = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-17T00:00Z"))

    assert (row["total"], row["sources"]) == (520, ["Apple Watch", "Fenix"])


def test_a_daily_total_replaces_the_samples_of_its_day(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-16T10:00Z", "2025-06-16T11:00Z", 500)
    measure(owner, alice, WATCH, "2025-06-17T10:00Z", "2025-06-17T11:00Z", 300)
    measure(owner, alice, PHONE, "2025-06-16T00:00Z", "2025-06-17T00:00Z", 800, is_daily_total=True)

    row = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-18T00:00Z"))

    assert (row["total"], row["maximum"], row["minimum"]) == (1100, 800, 300)


def test_samples_and_not_the_total_count_on_a_partial_day(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-16T10:00Z", "2025-06-16T11:00Z", 500)
    measure(
        owner, alice, WATCH, "2025-06-16T00:00Z", "2025-06-17T00:00Z", 2400, is_daily_total=True
    )

    morning = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-16T12:00Z"))
    evening = ask(api, alice, "2025-06-16T18:00Z", "2025-06-16T19:00Z")["data"]

    assert morning["total"] == 500
    # The provider has samples on that day, so an hour without any has no row.
    assert evening == []


def test_a_total_without_samples_counts_in_part_on_a_partial_day(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(
        owner, alice, WATCH, "2025-06-16T00:00Z", "2025-06-17T00:00Z", 2400, is_daily_total=True
    )

    row = one(ask(api, alice, "2025-06-16T18:00Z", "2025-06-16T19:00Z"))

    assert row["total"] == 100


def test_measurements_of_a_provider_of_smaller_priority_replace_a_total(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(
        owner, alice, WATCH, "2025-06-16T00:00Z", "2025-06-17T00:00Z", 2400, is_daily_total=True
    )
    garmin = Source("garmin", "Fenix", "watch", 50)
    measure(owner, alice, garmin, "2025-06-16T10:00Z", "2025-06-16T11:00Z", 520)

    row = one(ask(api, alice, "2025-06-16T00:00Z", "2025-06-17T00:00Z"))

    assert row["total"] == 520


def test_a_sample_without_length_counts_unless_a_better_source_measured(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, PHONE, "2025-06-16T10:00Z", "2025-06-16T10:00Z", 250, metric=WATER)
    measure(owner, alice, PHONE, "2025-06-16T12:30Z", "2025-06-16T12:30Z", 250, metric=WATER)
    measure(owner, alice, WATCH, "2025-06-16T12:00Z", "2025-06-16T13:00Z", 330, metric=WATER)

    row = one(ask(api, alice, "2025-06-16T10:00Z", "2025-06-17T00:00Z"))

    assert row["total"] == 580


def test_a_mean_is_over_all_samples_of_all_sources(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-16T23:00Z", "2025-06-17T01:00Z", 96, metric=SPO2)
    measure(owner, alice, PHONE, "2025-06-17T00:30Z", "2025-06-17T00:40Z", 99, metric=SPO2)

    row = one(ask(api, alice, "2025-06-17T00:00Z", "2025-06-18T00:00Z"))

    assert (row["average"], row["minimum"], row["maximum"]) == (97.5, 96, 99)
    assert (row["count"], row["days_with_data"]) == (2, 1)


def test_sums_of_decimals_have_no_noise(api: TestClient, owner: Rows, alice: Person) -> None:
    measure(owner, alice, WATCH, "2025-06-16T10:00Z", "2025-06-16T11:00Z", 0.1, metric=ENERGY)
    measure(owner, alice, WATCH, "2025-06-16T11:00Z", "2025-06-16T12:00Z", 0.2, metric=ENERGY)

    answer = api.get(
        PATH,
        params={"from": "2025-06-16T00:00Z", "to": "2025-06-17T00:00Z"},
        headers=alice.headers("read:health"),
    )

    assert '"total":0.3,' in answer.text


MIDNIGHT = datetime(2025, 6, 16, tzinfo=UTC)

SOURCES = st.builds(
    Source,
    st.sampled_from(["apple_health", "garmin"]),
    st.sampled_from(["A", "B"]),
    st.sampled_from(["watch", "phone", "other"]),
    st.integers(1, 3),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    sources = draw(
        st.lists(
            SOURCES, min_size=1, max_size=4, unique_by=lambda source: (source.provider, source.name)
        )
    )
    samples = draw(
        st.lists(
            st.tuples(
                st.sampled_from(sources),
                st.integers(-30, 30),
                st.integers(0, 25),
                st.integers(1, 99),
                st.booleans(),
            ),
            max_size=9,
        )
    )
    return [
        Sample(source, start, start + length, value, is_total)
        for source, start, length, value, is_total in samples
    ]


@given(histories(), st.tuples(st.integers(-40, 40), st.integers(-40, 40)))
def test_totals_are_those_of_the_model(
    api: TestClient, owner: Rows, alice: Person, samples: list[Sample], edges: tuple[int, int]
) -> None:
    owner.execute("delete from health.sample")
    owner.execute("delete from health.source")
    for sample in samples:
        measure(
            owner,
            alice,
            sample.source,
            MIDNIGHT + timedelta(milliseconds=sample.started),
            MIDNIGHT + timedelta(milliseconds=sample.ended),
            sample.value,
            is_daily_total=sample.is_daily_total,
        )
    start, end = sorted(edges)
    expected = amounts(samples, start, end, midnight=0)
    seen = [
        sample
        for sample in samples
        if start < end and sample.overlaps(start, end) and counts(sample, samples, start, end)
    ]

    body = ask(
        api,
        alice,
        (MIDNIGHT + timedelta(milliseconds=start)).isoformat(),
        (MIDNIGHT + timedelta(milliseconds=end)).isoformat(),
    )

    if not seen:
        assert body["data"] == []
        return
    row = one(body)
    average = float(sum(expected.values())) / len(expected)
    assert row["count"] == len(seen)
    assert row["days_with_data"] == len(expected)
    assert row["sources"] == sorted({sample.source.name for sample in seen})
    assert row["total"] == pytest.approx(float(sum(expected.values())), abs=0.0051)
    assert row["minimum"] == pytest.approx(float(min(expected.values())), abs=0.0051)
    assert row["maximum"] == pytest.approx(float(max(expected.values())), abs=0.0051)
    assert row["average"] == pytest.approx(average, abs=0.0051)


def test_a_day_that_the_zone_skipped_takes_no_part_of_a_sample(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2011-12-30T09:30Z", "2011-12-30T10:30Z", 100)
    measure(owner, alice, PHONE, "2011-12-30T09:00Z", "2011-12-30T11:00Z", 80)

    answer = api.get(
        "/api/v1/analytics/trend",
        params={
            "metric": "health:steps",
            "from": "2011-12-29",
            "to": "2011-12-31",
            "tz": "Pacific/Apia",
        },
        headers=alice.headers("read:activity", "read:health"),
    )

    assert answer.status_code == 200, answer.text
    # A quarter of the phone's time, and half of the watch's, is on each side.
    assert [row["value"] for row in answer.json()["data"]] == [70, 0, 70]
