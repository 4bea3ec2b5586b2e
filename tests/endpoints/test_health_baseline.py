"""GET /api/v1/health/baseline."""

import statistics
from datetime import date, timedelta
from typing import Any, Final

import psycopg
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.conftest import Person
from tests.endpoints.test_correlation import measure
from tests.endpoints.test_recovery import WHOOP, sleep

Rows = psycopg.Connection[Any]

PATH: Final = "/api/v1/health/baseline"
FIRST: Final = date(2025, 6, 1)
"""The day from which measures are written."""


def ask(api: TestClient, person: Person, metric: str, **params: Any) -> dict[str, Any]:
    """Return days and bands; ``start`` and ``end`` are the days."""
    names = {"start": "from", "end": "to"}
    answer = api.get(
        PATH,
        params={"metric": metric}
        | {names.get(name, name): str(value) for name, value in params.items()},
        headers=person.headers("read:health"),
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_days_by_hand(api: TestClient, owner: Rows, alice: Person, bob: Person) -> None:
    # Seven days, then one within the band of their quartiles, one above it and one below.
    measure(owner, alice, "mood", [1, 2, 3, 4, 5, 6, 7, 5.5, 6.001, 1])
    measure(owner, bob, "mood", [100] * 10)

    body = ask(api, alice, "health:mood", start="2025-06-07", end="2025-06-11", window=7)

    assert body == {
        "range": {"from": "2025-06-07", "to": "2025-06-11"},
        "tz": "UTC",
        "metric": "health:mood",
        "unit": "points",
        "definition": {"window_days": 7, "fewest_days": 7},
        "data": [
            day("2025-06-07", 7, None, 6, None),
            day("2025-06-08", 5.5, (2.5, 4, 5.5), 7, "within"),
            day("2025-06-09", 6, (3.5, 5, 5.75), 7, "above"),
            day("2025-06-10", 1, (4.5, 5.5, 6), 7, "below"),
            day("2025-06-11", None, (4.5, 5.5, 6), 7, None),
        ],
        "totals": {"days": 5, "known_days": 4, "below": 1, "within": 1, "above": 1},
    }


def day(
    of: str,
    value: float | None,
    band: tuple[float, float, float] | None,
    days: int,
    position: str | None,
) -> dict[str, Any]:
    low, middle, high = band or (None, None, None)
    return {
        "date": of,
        "value": value,
        "lower_quartile": low,
        "median": middle,
        "upper_quartile": high,
        "days": days,
        "position": position,
    }


def test_nights_are_those_of_recovery(api: TestClient, owner: Rows, alice: Person) -> None:
    for n in range(8):
        slept = sleep(owner, alice, WHOOP, f"2025-06-{16 + n}T04:00Z", offset="+02:00")
        owner.execute(
            "insert into health.recovery values (%s, %s, 'scored', 66, 52, %s, 96.1, 33.7)",
            [alice.user_id, slept, 40 + n],
        )

    body = ask(api, alice, "hrv_rmssd_ms", start="2025-06-23", end="2025-06-23", tz="Pacific/Apia")

    assert body["unit"] == "ms"
    assert body["data"] == [day("2025-06-23", 47, (41.5, 43, 44.5), 7, "above")]


def test_a_metric_of_another_domain_is_refused(api: TestClient, alice: Person) -> None:
    answer = api.get(
        PATH,
        params={"metric": "tracked_ms", "from": "2025-06-16", "to": "2025-06-16"},
        headers=alice.headers("read:health"),
    )

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "metric"


@given(st.lists(st.integers(0, 50), max_size=29), st.integers(7, 12))
def test_bands_are_those_of_the_days_before(
    api: TestClient, owner: Rows, alice: Person, values: list[int], window: int
) -> None:
    owner.execute("delete from health.sample")
    owner.execute("delete from health.metric")
    measure(owner, alice, "mood", values)

    body = ask(api, alice, "health:mood", start=FIRST, end="2025-06-30", window=window)

    for n, row in enumerate(body["data"]):
        before = values[max(n - window, 0) : n]
        value = values[n] if n < len(values) else None
        band = tuple(statistics.quantiles(before, method="inclusive")) if len(before) >= 7 else None
        position = None
        if band is not None and value is not None:
            position = "below" if value < band[0] else "above" if value > band[2] else "within"
        expected = day(str(FIRST + timedelta(days=n)), value, band, len(before), position)  # type: ignore[arg-type] # three quartiles
        assert row == expected
