"""GET /api/v1/analytics/trend."""

import random
import statistics
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from resourceserver.endpoints.trend import DAYS, ENDPOINTS, TrendParams
from resourceserver.timeline.metrics import METRICS
from shared.settings import Settings
from tests.conftest import Person
from tests.endpoints.histories import add_coding, add_sessions
from tests.endpoints.test_correlation import ALL, measure
from tests.endpoints.test_summaries import make_due, post
from tests.endpoints.timeline import CodingSession, Session

Rows = psycopg.Connection[Any]

PATH: Final = "/api/v1/analytics/trend"
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
MINUTE: Final = 60_000
MONDAY: Final = date(2025, 6, 16)
"""The day from which sessions are counted."""


def ask(api: TestClient, person: Person, metric: str, **params: Any) -> dict[str, Any]:
    """Return the trend of a metric; ``start`` and ``end`` are the days."""
    names = {"start": "from", "end": "to"}
    answer = api.get(
        PATH,
        params={"metric": metric}
        | {names.get(name, name): str(value) for name, value in params.items()},
        headers=person.headers(*ALL),
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def track(owner: Rows, person: Person, hours: Mapping[int, float]) -> None:
    """Write one app session for each day after the Monday: how many hours it lasts from 1:00 UTC on."""
    add_sessions(
        owner,
        person,
        [
            Session(
                f"day {day}",
                "laptop",
                "Code",
                day * DAY + HOUR,
                day * DAY + HOUR + round(long * HOUR),
                category="Development",
            )
            for day, long in hours.items()
        ],
    )


def test_days_weeks_and_months_by_hand(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    # A day with a coding session alone was reported: nothing was tracked on it. The day after it is unknown.
    track(owner, alice, {0: 4, 1: 1, 13: 6, 14: 2})
    add_coding(
        owner,
        alice,
        [CodingSession("a", "laptop", "svc", "Python", None, 2 * DAY, 2 * DAY + HOUR)],
    )
    track(owner, bob, {0: 9, 3: 9})

    days = ask(api, alice, "tracked_ms", start="2025-06-16", end="2025-06-19")
    weeks = ask(api, alice, "tracked_ms", start="2025-06-17", end="2025-07-02", by="week")
    months = ask(api, alice, "tracked_ms", start="2025-06-17", end="2025-07-02", by="month")

    assert days == {
        "range": {"from": "2025-06-16", "to": "2025-06-19"},
        "tz": "UTC",
        "metric": "tracked_ms",
        "unit": "ms",
        "by": "day",
        "definition": {
            "median_days": 28,
            "fewest_days": 7,
            "min_segment_days": 14,
            "penalty": 3.0,
        },
        "data": [
            row("2025-06-16", "2025-06-16", 4 * HOUR, 4 * HOUR, 1),
            row("2025-06-17", "2025-06-17", 1 * HOUR, 1 * HOUR, 1),
            row("2025-06-18", "2025-06-18", 0, 0, 1),
            row("2025-06-19", "2025-06-19", None, None, 0),
        ],
        "totals": {
            "days": 4,
            "known_days": 3,
            "mean": 5 * HOUR // 3,
            "median": 1 * HOUR,
            "minimum": 0,
            "maximum": 4 * HOUR,
            "total": 5 * HOUR,
        },
        "change_points": [],
    }
    assert weeks["data"] == [
        row("2025-06-17", "2025-06-22", HOUR // 2, HOUR, 2),
        row("2025-06-23", "2025-06-29", 6 * HOUR, 6 * HOUR, 1),
        row("2025-06-30", "2025-07-02", 2 * HOUR, 2 * HOUR, 1),
    ]
    assert months["data"] == [
        row("2025-06-17", "2025-06-30", 9 * HOUR // 4, 9 * HOUR, 4),
        row("2025-07-01", "2025-07-02", None, None, 0),
    ]
    assert weeks["totals"] == months["totals"]


def row(first: str, last: str, value: int | None, total: int | None, days: int) -> dict[str, Any]:
    return {
        "from": first,
        "to": last,
        "value": value,
        "total": total,
        "days": days,
        "median": None,
    }


def test_a_median_is_of_the_known_days_among_28(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    # 27 days before the Monday, and one before these, which no median of the range contains.
    track(owner, alice, {-28: 20, -27: 1, -20: 2, -10: 3, -3: 4, -2: 5, -1: 6, 0: 9})

    body = ask(api, alice, "tracked_ms", start="2025-06-16", end="2025-06-18")

    # Seven days of 28; one of 1 h is gone on the day after, and six are too few.
    assert [each["median"] for each in body["data"]] == [4 * HOUR, None, None]


def test_days_begin_in_the_zone(api: TestClient, owner: Rows, alice: Person) -> None:
    # From 01:00 UTC on it is still the day before in New York, until 04:00 UTC.
    track(owner, alice, {0: 5})

    body = ask(
        api, alice, "tracked_ms", start="2025-06-15", end="2025-06-16", tz="America/New_York"
    )

    assert [each["value"] for each in body["data"]] == [3 * HOUR, 2 * HOUR]


def test_a_change_has_its_day_and_both_levels(api: TestClient, owner: Rows, alice: Person) -> None:
    drawn = random.Random(3)
    hours = {
        # Every tenth day nobody reported.
        day: (5 if day < 40 else 8) + drawn.choice([-0.5, 0, 0.5])
        for day in range(90)
        if day % 10 != 7
    }
    track(owner, alice, hours)

    body = ask(api, alice, "tracked_ms", start="2025-06-10", end="2025-09-20", by="month")

    (change,) = body["change_points"]
    assert change["date"] == str(MONDAY + timedelta(days=40))
    for level, first, last in (("before", 0, 39), ("after", 40, 89)):
        values = [round(hours[day] * HOUR) for day in range(first, last + 1) if day in hours]
        assert change[level] == {
            "from": str(MONDAY + timedelta(days=first)),
            "to": str(MONDAY + timedelta(days=last)),
            "days": len(values),
            "mean": int(statistics.fmean(values) + 0.5),
            "median": statistics.median(values),
        }


@pytest.mark.parametrize("by", ["day", "week", "month"])
def test_without_levels_only_medians_and_changes_are_missing(
    api: TestClient, owner: Rows, alice: Person, by: str
) -> None:
    track(owner, alice, {day: 2 if day < 40 else 8 for day in range(80) if day % 9})
    days = {"start": "2025-06-18", "end": "2025-09-10", "by": by}

    whole = ask(api, alice, "tracked_ms", **days)
    rest = ask(api, alice, "tracked_ms", **days, include_levels="false")

    assert whole["change_points"]
    assert any(row["median"] for row in whole["data"])
    rows = [row | {"median": None} for row in whole["data"]]
    assert rest == whole | {"data": rows, "change_points": []}


def test_the_total_of_a_day_counts_as_much_without_levels(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    """A total that begins before the range, whose provider has samples too, counts if it is read whole."""
    owner.execute(
        """
        with metric as (
            insert into health.metric (user_id, metric_type, unit, aggregation)
            values (%(user_id)s, 'steps', 'count', 'sum')
        ),
        source as (
            insert into health.source (user_id, provider, name)
            values (%(user_id)s, 'test', 'Test')
            returning source_id
        )
        insert into health.sample (
            user_id, metric_type, source_id, started_at, ended_at, value, is_daily_total
        )
        select %(user_id)s,
               'steps',
               source_id,
               (%(day)s || started)::timestamptz,
               (%(day)s || ended)::timestamptz,
               value,
               is_daily_total
          from source
         cross join (
                   values ('16T12:00:00Z', '18T11:00:00Z', 4700, true),
                          ('17T10:00:00Z', '17T11:00:00Z', 900, false)
               ) as sample (started, ended, value, is_daily_total)
        """,
        {"user_id": alice.user_id, "day": "2025-06-"},
    )
    days = {"start": "2025-06-18", "end": "2025-06-19"}

    whole = ask(api, alice, "health:steps", **days)
    rest = ask(api, alice, "health:steps", **days, include_levels="false")

    assert [row["value"] for row in whole["data"]] == [1100, None]
    assert [row["value"] for row in rest["data"]] == [1100, None]


def test_trends_of_the_same_days_share_the_statement_about_them() -> None:
    (endpoint,) = ENDPOINTS
    days = {"from": "2025-06-16", "to": "2025-06-29"}

    def step(**params: str) -> list[Any]:
        assert endpoint.further is not None
        asked = TrendParams.model_validate({**days, **params}).values()
        statement, values = endpoint.further.first(asked, {})[DAYS]
        return [values[name] for name in statement.parameters if name != "user_id"]

    assert step(metric="tracked_ms") == step(metric="commits", by="month")
    assert step(metric="tracked_ms") != step(metric="tracked_ms", tz="Europe/Berlin")


def test_a_metric_of_a_device_has_its_own_unit_and_decimals(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, "mood", [1, 2, 2.005])

    body = ask(api, alice, "health:mood", start="2025-06-01", end="2025-06-04")
    unknown = ask(api, alice, "health:nothing", start="2025-06-01", end="2025-06-01")

    assert body["unit"] == "points"
    assert [each["value"] for each in body["data"]] == [1, 2, 2.01, None]
    # The mean of samples does not add up over days.
    assert body["totals"]["total"] is None
    assert body["totals"]["mean"] == 1.67
    assert (unknown["unit"], unknown["data"][0]["value"]) == (None, None)


@pytest.mark.parametrize("metric", [*METRICS, "health:steps"])
def test_each_metric_of_an_empty_account_has_unknown_days(
    api: TestClient, alice: Person, metric: str
) -> None:
    body = ask(api, alice, metric, start="2025-06-16", end="2025-06-17")

    assert [each["value"] for each in body["data"]] == [None, None]
    assert body["totals"]["known_days"] == 0


def test_heart_rates_do_not_add_up_and_stairs_do(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, "stairs", [1000, 500])
    owner.execute("update health.metric set aggregation = 'sum'")
    owner.execute(
        """
        insert into health.heart_rate (user_id, source_id, recorded_at, bpm)
        select user_id, source_id, '2025-06-01T12:00Z', 60 from health.source
        """
    )

    totals = {
        metric: ask(api, alice, metric, start="2025-06-01", end="2025-06-02")["totals"]
        for metric in ("health:stairs", "health:heart_rate")
    }

    assert [(each["known_days"], each["total"]) for each in totals.values()] == [
        (2, 1500),
        (1, None),
    ]


def test_a_metric_needs_the_scope_of_its_domain(api: TestClient, alice: Person) -> None:
    params = {"metric": "listened_ms", "from": "2025-06-16", "to": "2025-06-16"}

    refused = api.get(PATH, params=params, headers=alice.headers("read:activity"))
    read = api.get(PATH, params=params, headers=alice.headers("read:activity", "read:music"))

    assert refused.status_code == 403
    assert refused.json()["message"] == "read:music is required"
    assert read.status_code == 200


SUMMED_UP: Final = (
    "tracked_ms",
    "productive_ms",
    "neutral_ms",
    "distracted_ms",
    "coding_ms",
    "app_switches",
    "focus_ms",
    "longest_focus_ms",
)


def test_stored_summaries_give_the_same_values(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    days = {"start": "2025-06-16", "end": "2025-06-25"}
    post(
        api,
        alice,
        ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T09:30:00Z"),
        ("Slack", "Communication", "2025-06-16T09:30:00Z", "2025-06-16T09:31:00Z"),
        ("Code", "Development", "2025-06-16T23:30:00Z", "2025-06-17T00:40:00Z"),
        ("Chess", "Games", "2025-06-19T12:00:00Z", "2025-06-19T12:20:00Z"),
        ("Code", "Development", "2025-06-24T12:00:00Z", "2025-06-24T13:00:00Z"),
    )
    add_coding(
        owner, alice, [CodingSession("a", "laptop", "svc", "Python", None, 5 * DAY, 5 * DAY + 1)]
    )
    computed = [ask(api, alice, metric, **days) for metric in (*SUMMED_UP, "session_count")]

    # The coding came without a mark, and so has no summary.
    assert make_due(deployment) == 4

    assert [ask(api, alice, metric, **days) for metric in (*SUMMED_UP, "session_count")] == computed
    assert [each["value"] for each in computed[0]["data"]] == [
        61 * MINUTE, 40 * MINUTE, None, 20 * MINUTE, None, 0, None, None, 60 * MINUTE, None,
    ]  # fmt: skip


def test_a_summary_counts_in_its_own_zone_until_something_arrives(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    day = {"start": "2025-06-16", "end": "2025-06-16"}
    post(api, alice, ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T09:30:00Z"))
    make_due(deployment)
    # So that the answer tells where it comes from.
    owner.execute("update activity.daily_summary set tracked_ms = 7")

    def tracked(tz: str = "UTC") -> Any:
        return ask(api, alice, "tracked_ms", tz=tz, **day)["data"][0]["value"]

    assert (tracked(), tracked("Europe/Berlin")) == (7, 30 * MINUTE)

    post(api, alice, ("Code", "Development", "2025-06-16T10:00:00Z", "2025-06-16T10:30:00Z"))

    assert tracked() == 60 * MINUTE


def test_days_without_a_summary_are_read_together_if_they_are_many(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    # Every third day has idle sessions alone, every third a session without a mark, and the others a summary.
    days = {"start": MONDAY, "end": "2025-07-04"}
    track(owner, alice, dict.fromkeys(range(0, 18, 3), 2))
    owner.execute("update activity.app_session set idle = true")
    track(owner, alice, dict.fromkeys(range(1, 18, 3), 1))
    dates = [MONDAY + timedelta(days=day) for day in range(2, 18, 3)]
    post(
        api,
        alice,
        *(("Code", "Development", f"{day}T09:00:00Z", f"{day}T09:30:00Z") for day in dates),
    )
    computed = ask(api, alice, "tracked_ms", **days)

    assert make_due(deployment) == 6

    assert ask(api, alice, "tracked_ms", **days) == computed
    assert [each["value"] for each in computed["data"]] == [0, HOUR, 30 * MINUTE] * 6 + [None]


@given(
    st.dictionaries(st.integers(-40, 40), st.integers(1, 20), max_size=30),
    st.integers(-10, 10),
    st.integers(0, 50),
    st.sampled_from(["day", "week", "month"]),
)
def test_periods_are_those_of_the_days(
    api: TestClient,
    owner: Rows,
    alice: Person,
    hours: dict[int, int],
    first: int,
    length: int,
    by: str,
) -> None:
    owner.execute("delete from activity.app_session")
    track(owner, alice, hours)
    start = MONDAY + timedelta(days=first)
    end = start + timedelta(days=length)

    body = ask(api, alice, "tracked_ms", start=start, end=end, by=by)

    spent = {MONDAY + timedelta(days=n): long for n, long in hours.items()}
    days = [start + timedelta(days=n) for n in range(length + 1)]
    keys = {
        "day": lambda day: day,
        "week": lambda day: day - timedelta(days=day.weekday()),
        "month": lambda day: day.replace(day=1),
    }
    periods: dict[date, list[date]] = {}
    for day in days:
        periods.setdefault(keys[by](day), []).append(day)
    expected = []
    for of_it in periods.values():
        values = [spent[day] * HOUR for day in of_it if day in spent]
        window = [of_it[-1] - timedelta(days=n) for n in range(28)]
        known = [spent[day] * HOUR for day in window if day in spent]
        expected.append(
            {
                "from": str(of_it[0]),
                "to": str(of_it[-1]),
                "value": int(sum(values) / len(values) + 0.5) if values else None,
                "total": sum(values) if values else None,
                "days": len(values),
                "median": int(statistics.median(known)) if len(known) >= 7 else None,
            }
        )
    assert body["data"] == expected
