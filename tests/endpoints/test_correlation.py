"""GET /api/v1/account/correlation."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from resourceserver.timeline.metrics import METRICS
from shared.settings import Settings
from tests.conftest import Person
from tests.endpoints.attention import streaks, switches, whole_timeline
from tests.endpoints.histories import History, add_coding, add_sessions, carol_with, histories
from tests.endpoints.test_summaries import make_due, post
from tests.endpoints.timeline import (
    CodingSession,
    Session,
    by_productivity,
    counted,
    days,
    owned_ms,
    per_category,
)

Rows = psycopg.Connection[Any]

PATH = "/api/v1/account/correlation"
HOUR = 3_600_000
ALL = ["read:activity", "read:code", "read:health", "read:music", "read:location", "read:content"]


def ask(api: TestClient, person: Person, a: str, b: str, **params: Any) -> dict[str, Any]:
    """Return how two metrics go together; ``start`` and ``end`` are the days."""
    names = {"start": "from", "end": "to"}
    answer = api.get(
        PATH,
        params={"metric_a": a, "metric_b": b}
        | {names.get(name, name): value for name, value in params.items()},
        headers=person.headers(*ALL),
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def values(api: TestClient, person: Person, metric: str, tz: str = "UTC") -> dict[str, float]:
    """Return the values of days around 16 June 2025, on which the metric is known."""
    body = ask(api, person, metric, metric, start="2025-06-14", end="2025-06-18", tz=tz)
    return {point["date"]: point["a"] for point in body["points"]}


def measure(owner: Rows, person: Person, metric: str, values: Sequence[float]) -> None:
    """Write one sample a day from 1 June 2025 on, of a metric that does not add up."""
    owner.execute(
        """
        insert into health.metric (user_id, metric_type, unit, aggregation)
        values (%s, %s, 'points', 'avg')
        """,
        [person.user_id, metric],
    )
    owner.execute(
        """
        insert into health.source (user_id, provider, name)
        values (%s, 'test', 'Test')
        on conflict do nothing
        """,
        [person.user_id],
    )
    for n, value in enumerate(values):
        at = datetime(2025, 6, 1 + n, 12, tzinfo=UTC)
        owner.execute(
            """
            insert into health.sample (user_id, metric_type, source_id, started_at, ended_at, value)
            select %(user_id)s, %(metric)s, source_id, %(at)s, %(at)s, %(value)s
              from health.source
             where user_id = %(user_id)s
            """,
            {"user_id": person.user_id, "metric": metric, "at": at, "value": value},
        )


def track(owner: Rows, person: Person, *sessions: tuple[str, int, int]) -> None:
    """Write app sessions: a category, and start and end in milliseconds since 16 June 2025."""
    add_sessions(
        owner,
        person,
        [
            Session(f"{category} {start}", "laptop", category, start, end, category=category)
            for category, start, end in sessions
        ],
    )


def test_stored_summaries_give_the_same_points(
    api: TestClient, deployment: Settings, owner: Rows, alice: Person
) -> None:
    post(
        api,
        alice,
        ("Code", "Development", "2025-06-16T09:00:00Z", "2025-06-16T09:30:00Z"),
        ("Slack", "Communication", "2025-06-17T23:30:00Z", "2025-06-18T00:40:00Z"),
        ("Code", "Development", "2025-06-20T12:00:00Z", "2025-06-20T12:20:00Z"),
    )
    pairs = [
        ("tracked_ms", "productive_ms"),
        ("focus_ms", "session_count"),
        ("commits", "coding_ms"),
    ]
    days = {"start": "2025-06-16", "end": "2025-06-22", "lag": 1}
    computed = [ask(api, alice, a, b, **days) for a, b in pairs]

    assert make_due(deployment) == 4

    assert [ask(api, alice, a, b, **days) for a, b in pairs] == computed
    assert computed[0]["points"] == [
        {"date": "2025-06-16", "a": HOUR // 2, "b": 0},
        {"date": "2025-06-17", "a": HOUR // 2, "b": 0},
    ]
    # So that the answer tells where it comes from.
    owner.execute("update activity.daily_summary set tracked_ms = 7")
    assert ask(api, alice, "tracked_ms", "coding_ms", **days)["points"][0]["a"] == 7
    assert (
        ask(api, alice, "tracked_ms", "coding_ms", **days, tz="America/New_York")["points"][0]["a"]
        > 7
    )


@pytest.mark.parametrize(
    ("x", "y", "method", "coefficient", "p_value"),
    [
        (
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            [2, 1, 4, 3, 7, 5, 8, 6, 10, 9],
            "pearson",
            0.9030303030,
            0.000343612198,
        ),
        (
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            [2, 1, 4, 3, 7, 5, 8, 6, 10, 9],
            "spearman",
            0.9030303030,
            0.000343612198,
        ),
        (
            [10, 20, 20, 30, 40, 50, 60],
            [5, 3, 3, 8, 8, 9, 1],
            "pearson",
            0.0727053619,
            0.8768975110,
        ),
        (
            [10, 20, 20, 30, 40, 50, 60],
            [5, 3, 3, 8, 8, 9, 1],
            "spearman",
            0.1100963765,
            0.8142252838,
        ),
    ],
)
def test_vectors_to_ten_digits(
    api: TestClient,
    owner: Rows,
    alice: Person,
    x: list[float],
    y: list[float],
    method: str,
    coefficient: float,
    p_value: float,
) -> None:
    measure(owner, alice, "x", x)
    measure(owner, alice, "y", y)

    body = ask(
        api, alice, "health:x", "health:y", start="2025-06-01", end="2025-06-30", method=method
    )

    assert body["data"]["n"] == len(x)
    assert round(body["data"]["coefficient"], 10) == coefficient
    assert f"{body['data']['p_value']:.9g}" == f"{p_value:.9g}"
    assert body["method"] == method


def test_a_whole_answer_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    measure(owner, alice, "x", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    measure(owner, alice, "y", [2, 1, 4, 3, 7, 5, 8, 6, 10])

    body = ask(api, alice, "health:x", "health:y", start="2025-06-01", end="2025-06-10")

    assert body | {"data": {}, "points": []} == {
        "range": {"from": "2025-06-01", "to": "2025-06-10"},
        "tz": "UTC",
        "method": "pearson",
        "adjust": "none",
        "lag_days": 0,
        "metric_a": {
            "name": "health:x",
            "unit": "points",
            "days": 10,
            "average": 5.5,
            "standard_deviation": 3.03,
        },
        "metric_b": {
            "name": "health:y",
            "unit": "points",
            "days": 9,
            "average": 5.11,
            "standard_deviation": 2.93,
        },
        "data": {},
        "points": [],
    }
    assert body["data"]["n"] == 9
    assert body["data"]["strength"] == "very_strong"
    assert body["data"]["direction"] == "positive"
    assert body["data"]["reason"] is None
    assert body["data"]["confidence_interval"]["level"] == 0.95
    assert len(body["points"]) == 9
    assert body["points"][0] == {"date": "2025-06-01", "a": 1, "b": 2}
    assert body["points"][-1] == {"date": "2025-06-09", "a": 9, "b": 10}


def test_the_confidence_interval_is_fishers(api: TestClient, owner: Rows, alice: Person) -> None:
    measure(owner, alice, "x", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    measure(owner, alice, "y", [2, 1, 4, 3, 7, 5, 8, 6, 10, 9])

    body = ask(api, alice, "health:x", "health:y", start="2025-06-01", end="2025-06-10")

    interval = body["data"]["confidence_interval"]
    assert (round(interval["low"], 6), round(interval["high"], 6)) == (0.633718, 0.977103)


@pytest.mark.parametrize(
    ("y", "strength", "direction"),
    [
        ([1, 2, 2, 1], "negligible", "none"),
        ([1, 3, 4, 1], "negligible", "positive"),
        ([1, 2, 1, 1], "weak", "negative"),
        ([1, 2, 1, 2], "moderate", "positive"),
        ([2, 3, 1, 1], "strong", "negative"),
        ([1, 1, 1, 2], "very_strong", "positive"),
    ],
)
def test_strength_and_direction(
    api: TestClient, owner: Rows, alice: Person, y: list[float], strength: str, direction: str
) -> None:
    measure(owner, alice, "x", [1, 2, 3, 4])
    measure(owner, alice, "y", y)

    body = ask(api, alice, "health:x", "health:y", start="2025-06-01", end="2025-06-10")

    assert (body["data"]["strength"], body["data"]["direction"]) == (strength, direction)


@pytest.mark.parametrize(
    ("x", "reason"), [([1, 2], "not_enough_days"), ([3, 3, 3, 3], "no_variation")]
)
def test_a_missing_coefficient_is_null_and_has_a_reason(
    api: TestClient, owner: Rows, alice: Person, x: list[float], reason: str
) -> None:
    measure(owner, alice, "x", x)
    measure(owner, alice, "y", [1, 2, 3, 4])

    body = ask(api, alice, "health:x", "health:y", start="2025-06-01", end="2025-06-10")

    assert body["data"] == {
        "n": len(x),
        "coefficient": None,
        "n_effective": len(x),
        "p_value": None,
        "p_value_adjusted": None,
        "confidence_interval": None,
        "strength": None,
        "direction": None,
        "reason": reason,
    }


def test_weekday_means_are_subtracted_on_request(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    """Both are higher by 50 on two days of seven, and by chance alone together otherwise."""
    week = [50 if n % 7 in (0, 6) else 0 for n in range(28)]
    measure(owner, alice, "a", [high + n % 2 for n, high in enumerate(week)])
    measure(owner, alice, "b", [high + n // 2 % 2 for n, high in enumerate(week)])
    days = {"start": "2025-06-01", "end": "2025-06-28"}

    plain = ask(api, alice, "health:a", "health:b", **days)
    adjusted = ask(api, alice, "health:a", "health:b", **days, adjust="weekday")
    wrong = api.get(PATH, params={"adjust": "month"}, headers=alice.headers("read:activity"))

    assert (plain["adjust"], adjusted["adjust"]) == ("none", "weekday")
    assert plain["data"]["coefficient"] > 0.99
    assert plain["data"]["p_value_adjusted"] < 1e-6
    assert plain["points"] == adjusted["points"]
    assert plain["metric_a"] == adjusted["metric_a"]
    assert abs(adjusted["data"]["coefficient"]) < 0.1
    assert (adjusted["data"]["n"], adjusted["data"]["n_effective"]) == (28, 22.0)
    assert adjusted["data"]["p_value"] == adjusted["data"]["p_value_adjusted"] > 0.5
    assert (wrong.status_code, wrong.json()["parameter"]) == (400, "adjust")


def test_a_metric_correlates_with_itself(api: TestClient, owner: Rows, alice: Person) -> None:
    measure(owner, alice, "x", [1, 2.5, 2, 0.1])

    body = ask(api, alice, "health:x", "health:x", start="2025-06-01", end="2025-06-10")

    assert (body["data"]["coefficient"], body["data"]["p_value"]) == (1, 0)


@pytest.mark.parametrize(("lag", "pairs"), [(1, [(1, 20), (2, 30)]), (-1, [(2, 10), (3, 20)])])
def test_the_second_metric_is_read_later_by_the_lag(
    api: TestClient, owner: Rows, alice: Person, lag: int, pairs: list[tuple[float, float]]
) -> None:
    measure(owner, alice, "x", [1, 2, 3])
    measure(owner, alice, "y", [10, 20, 30])

    body = ask(api, alice, "health:x", "health:y", start="2025-06-01", end="2025-06-05", lag=lag)

    assert [(point["a"], point["b"]) for point in body["points"]] == pairs
    assert body["lag_days"] == lag
    assert (body["metric_a"]["days"], body["metric_b"]["days"]) == (3, 2 if lag > 0 else 3)


def test_the_second_metric_may_lie_beyond_the_range(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, "x", [1, 2, 3])
    measure(owner, alice, "y", [10, 20, 30])

    later = ask(api, alice, "health:x", "health:y", start="2025-06-01", end="2025-06-01", lag=2)
    before = ask(api, alice, "health:x", "health:y", start="2025-06-03", end="2025-06-03", lag=-2)

    assert later["points"] == [{"date": "2025-06-01", "a": 1, "b": 30}]
    assert before["points"] == [{"date": "2025-06-03", "a": 3, "b": 10}]


def test_the_default_range_is_the_ninety_days_until_yesterday(
    api: TestClient, alice: Person
) -> None:
    days = [datetime.now(ZoneInfo("Asia/Tokyo")).date()]
    answer = api.get(PATH, params={"tz": "Asia/Tokyo"}, headers=alice.headers("read:activity"))
    days.append(datetime.now(ZoneInfo("Asia/Tokyo")).date())

    body = answer.json()
    assert body["range"] in [
        {"from": str(day - timedelta(days=90)), "to": str(day - timedelta(days=1))} for day in days
    ]
    assert (body["metric_a"]["name"], body["metric_b"]["name"]) == ("tracked_ms", "coding_ms")
    assert body["tz"] == "Asia/Tokyo"


def test_a_missing_end_gets_its_default(api: TestClient, alice: Person) -> None:
    body = ask(api, alice, "tracked_ms", "coding_ms", end="2025-06-30")
    refused = api.get(PATH, params={"from": "2200-01-01"}, headers=alice.headers("read:activity"))

    assert body["range"] == {"from": "2025-04-02", "to": "2025-06-30"}
    assert refused.status_code == 400
    assert refused.json()["parameter"] == "from"


def test_counters_are_zero_on_days_with_a_report_and_unknown_on_others(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    track(owner, alice, ("Development", 9 * HOUR, 10 * HOUR))
    owner.execute("update activity.app_session set idle = true")
    owner.execute(
        """
        insert into code.event (user_id, provider, provider_key, type, action, occurred_at, repository)
        values (%s, 'github', '1', 'commit', 'pushed', '2025-06-17 12:00Z', 'me/svc')
        """,
        [alice.user_id],
    )

    assert values(api, alice, "tracked_ms") == {"2025-06-16": 0}
    assert values(api, alice, "longest_focus_ms") == {"2025-06-16": 0}
    assert values(api, alice, "commits") == {"2025-06-16": 0, "2025-06-17": 1}
    assert values(api, alice, "play_count") == {"2025-06-16": 0}
    assert values(api, alice, "distance_m") == {}
    assert values(api, alice, "recovery_score") == {}
    assert values(api, alice, "health:steps") == {}


def test_a_session_is_a_report_on_each_day_that_it_overlaps(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    add_coding(
        owner,
        alice,
        [
            CodingSession("a", "laptop", "svc", "Python", None, -HOUR, HOUR),
            CodingSession("b", "laptop", "svc", "Python", None, 47 * HOUR, 48 * HOUR),
        ],
    )

    assert values(api, alice, "coding_ms") == {
        "2025-06-15": HOUR,
        "2025-06-16": HOUR,
        "2025-06-17": HOUR,
    }
    assert values(api, alice, "tracked_ms") == {"2025-06-15": 0, "2025-06-16": 0, "2025-06-17": 0}


def test_days_are_those_of_the_zone(api: TestClient, owner: Rows, alice: Person) -> None:
    track(owner, alice, ("Development", 21 * HOUR, 23 * HOUR))

    assert values(api, alice, "tracked_ms", "Europe/Berlin") == {
        "2025-06-16": HOUR,
        "2025-06-17": HOUR,
    }


def test_metrics_of_activity_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    minute = 60_000
    track(
        owner,
        alice,
        ("Development", 0, 15 * minute),
        ("Communication", 15 * minute, 16 * minute),
        ("Development", 16 * minute, 26 * minute),
        ("Games", 26 * minute, 30 * minute),
        ("Development", 30 * minute, 42 * minute),
    )
    add_coding(owner, alice, [CodingSession("a", "laptop", "svc", None, None, 0, 5 * minute)])
    metrics = [
        "tracked_ms", "productive_ms", "neutral_ms", "distracted_ms", "coding_ms", "app_switches",
        "session_count", "focus_ms", "longest_focus_ms",
    ]  # fmt: skip

    found = {metric: values(api, alice, metric) for metric in metrics}

    assert found == {
        "tracked_ms": {"2025-06-16": 42 * minute},
        "productive_ms": {"2025-06-16": 37 * minute},
        "neutral_ms": {"2025-06-16": minute},
        "distracted_ms": {"2025-06-16": 4 * minute},
        "coding_ms": {"2025-06-16": 5 * minute},
        "app_switches": {"2025-06-16": 4},
        "session_count": {"2025-06-16": 5},
        "focus_ms": {"2025-06-16": 38 * minute},
        "longest_focus_ms": {"2025-06-16": 26 * minute},
    }


def test_metrics_of_code_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    for key, kind, action, at, added in [
        ("1", "commit", "pushed", "2025-06-16 00:00Z", 40),
        ("2", "commit", "pushed", "2025-06-16 23:59:59.999Z", None),
        ("3", "pull_request", "opened", "2025-06-16 12:00Z", 500),
        ("4", "pull_request", "merged", "2025-06-16 13:00Z", 500),
        ("5", "review", "approved", "2025-06-17 00:00Z", None),
    ]:
        owner.execute(
            """
            insert into code.event
                   (user_id, provider, provider_key, type, action, occurred_at, repository, additions)
            values (%s, 'github', %s, %s, %s, %s, 'me/svc', %s)
            """,
            [alice.user_id, key, kind, action, at, added],
        )

    assert values(api, alice, "commits") == {"2025-06-16": 2}
    assert values(api, alice, "pull_requests") == {"2025-06-16": 2}
    assert values(api, alice, "reviews") == {"2025-06-17": 1}
    assert values(api, alice, "lines_added") == {"2025-06-16": 40}


def test_metrics_of_recovery_belong_to_the_local_day_on_which_sleep_ended(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    owner.execute(
        """
        with source as (
            insert into health.source (user_id, provider, name)
            values (%(user_id)s, 'whoop', 'WHOOP')
            returning source_id
        ),
        slept as (
            insert into health.sleep (
                user_id, source_id, started_at, ended_at, utc_offset, in_bed_ms, asleep_ms, deep_ms, rem_ms
            )
            select %(user_id)s, source_id, '2025-06-15 08:00Z', '2025-06-15 16:00Z', '+09:00',
                   28800000, 26100000, 5400000, null
              from source
            returning sleep_id
        ),
        recovered as (
            insert into health.recovery
                   (user_id, sleep_id, state, score, hrv_rmssd_ms, resting_heart_rate_bpm)
            select %(user_id)s, sleep_id, 'scored', 66, 48.2, 52
              from slept
        )
        insert into health.cycle (user_id, sleep_id, started_at, strain)
        select %(user_id)s, sleep_id, '2025-06-15 08:00Z', 11.4
          from slept
        """,
        {"user_id": alice.user_id},
    )
    metrics = [
        "recovery_score", "strain_score", "asleep_ms", "deep_ms", "rem_ms", "hrv_rmssd_ms",
        "resting_heart_rate_bpm",
    ]  # fmt: skip

    found = {metric: values(api, alice, metric, "America/New_York") for metric in metrics}

    assert found == {
        "recovery_score": {"2025-06-16": 66},
        "strain_score": {"2025-06-16": 11.4},
        "asleep_ms": {"2025-06-16": 26_100_000},
        "deep_ms": {"2025-06-16": 5_400_000},
        "rem_ms": {},
        "hrv_rmssd_ms": {"2025-06-16": 48.2},
        "resting_heart_rate_bpm": {"2025-06-16": 52},
    }


def test_health_metrics_that_add_up_count_once_over_several_devices(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    owner.execute(
        """
        insert into health.metric (user_id, metric_type, unit, aggregation)
        values (%s, 'steps', 'count', 'sum')
        """,
        [alice.user_id],
    )
    for name, kind, start, end, steps in [
        ("Watch", "watch", "2025-06-16 10:00Z", "2025-06-16 11:00Z", 1000),
        ("Phone", "phone", "2025-06-16 10:30Z", "2025-06-16 11:30Z", 600),
        ("Phone", "phone", "2025-06-16 23:00Z", "2025-06-17 01:00Z", 100),
    ]:
        owner.execute(
            """
            with source as (
                insert into health.source as known (user_id, provider, name, kind)
                values (%(user_id)s, 'apple_health', %(name)s, %(kind)s)
                on conflict (user_id, provider, name, device) do update set name = known.name
                returning source_id
            )
            insert into health.sample (user_id, metric_type, source_id, started_at, ended_at, value)
            select %(user_id)s, 'steps', source_id, %(start)s, %(end)s, %(steps)s
              from source
            """,
            {
                "user_id": alice.user_id,
                "name": name,
                "kind": kind,
                "start": start,
                "end": end,
                "steps": steps,
            },
        )

    body = ask(api, alice, "health:steps", "health:steps", start="2025-06-14", end="2025-06-18")

    assert body["metric_a"]["unit"] == "count"
    assert values(api, alice, "health:steps") == {"2025-06-16": 1350, "2025-06-17": 50}


def test_other_health_metrics_are_the_mean_of_all_samples(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, "mood", [0] * 15 + [4, 5])
    owner.execute(
        """
        insert into health.sample (user_id, metric_type, source_id, started_at, ended_at, value)
        select user_id, metric_type, source_id, '2025-06-16 13:00Z', '2025-06-16 13:00Z', 7
          from health.sample
         limit 1
        """
    )
    for at, bpm in [
        ("2025-06-16 01:00Z", 60),
        ("2025-06-16 02:00Z", 71),
        ("2025-06-17 00:00Z", 90),
    ]:
        owner.execute(
            "insert into health.heart_rate (user_id, recorded_at, bpm) values (%s, %s, %s)",
            [alice.user_id, at, bpm],
        )

    body = ask(api, alice, "health:mood", "health:heart_rate", start="2025-06-16", end="2025-06-17")

    assert body["points"] == [
        {"date": "2025-06-16", "a": 5.5, "b": 65.5},
        {"date": "2025-06-17", "a": 5, "b": 90},
    ]
    assert body["metric_b"]["unit"] == "bpm"


def test_metrics_of_music_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    for at, played, length in [
        ("2025-06-16 23:59Z", 100_000, 200_000),
        ("2025-06-16 12:00Z", None, 200_000),
        ("2025-06-16 13:00Z", None, None),
    ]:
        owner.execute(
            """
            insert into music.listen
                   (user_id, listened_at, track, artist, played_ms, duration_ms, source)
            values (%s, %s, 'Andromeda', 'Gorillaz', %s, %s, 'spotify')
            """,
            [alice.user_id, at, played, length],
        )

    assert values(api, alice, "listened_ms") == {"2025-06-16": 300_000}
    assert values(api, alice, "play_count") == {"2025-06-16": 3}


def test_metrics_of_location_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    # A degree of a great circle is 111.195 km long.
    for at, latitude, longitude, accuracy in [
        ("2025-06-15 23:00Z", 10, 10, 5),
        ("2025-06-16 08:00Z", 0, 0, 5),
        ("2025-06-16 09:00Z", 80, 80, 101),
        ("2025-06-16 10:00Z", 0, 1, 100),
        ("2025-06-16 11:00Z", 1, 1, 10),
    ]:
        owner.execute(
            """
            insert into location.point
                   (user_id, recorded_at, latitude, longitude, accuracy_m, source)
            values (%s, %s, %s, %s, %s, 'owntracks')
            """,
            [alice.user_id, at, latitude, longitude, accuracy],
        )

    found = values(api, alice, "distance_m")

    assert {day: round(metres) for day, metres in found.items()} == {
        "2025-06-15": 0,
        "2025-06-16": 222_390,
    }


def test_almost_equal_places_have_no_distance(api: TestClient, owner: Rows, alice: Person) -> None:
    for hour, latitude in [(8, 0), (9, 1e-170), (10, 0)]:
        owner.execute(
            """
            insert into location.point
                   (user_id, recorded_at, latitude, longitude, accuracy_m, source)
            values (%s, make_timestamptz(2025, 6, 16, %s, 0, 0, 'UTC'), %s, %s, 5, 'owntracks')
            """,
            [alice.user_id, hour, latitude, latitude],
        )

    assert values(api, alice, "distance_m") == {"2025-06-16": 0}


def test_places_are_counted_on_each_day_that_a_visit_overlaps(
    api: TestClient, owner: Rows, alice: Person
) -> None:
    places = {
        name: owner.execute(
            "insert into location.place (user_id, name) values (%s, %s) returning place_id",
            [alice.user_id, name],
        ).fetchone()
        for name in ("home", "café", "hill")
    }
    for place, kind, status, start, end in [
        ("home", "visit", "confirmed", "2025-06-01 12:00Z", "2025-06-16 08:00Z"),
        ("home", "visit", "suggested", "2025-06-16 20:00Z", "2025-06-17 08:00Z"),
        ("café", "check_in", "confirmed", "2025-06-16 12:00Z", None),
        ("hill", "visit", "declined", "2025-06-16 13:00Z", "2025-06-16 14:00Z"),
    ]:
        owner.execute(
            """
            insert into location.event
                   (user_id, place_id, type, status, started_at, ended_at, source)
            values (%s, %s, %s, %s, %s, %s, 'swarm')
            """,
            [alice.user_id, (places[place] or [None])[0], kind, status, start, end],
        )

    assert values(api, alice, "place_count") == {
        "2025-06-14": 1,
        "2025-06-15": 1,
        "2025-06-16": 2,
        "2025-06-17": 1,
    }


def test_metrics_of_content_by_hand(api: TestClient, owner: Rows, alice: Person) -> None:
    for start, end, status, response, day in [
        ("2025-06-16 09:00Z", "2025-06-16 10:00Z", "confirmed", "accepted", None),
        ("2025-06-16 09:30Z", "2025-06-16 11:00Z", "confirmed", "accepted", None),
        ("2025-06-16 12:00Z", "2025-06-16 13:00Z", "tentative", "accepted", None),
        ("2025-06-16 13:00Z", "2025-06-16 14:00Z", "confirmed", "declined", None),
        ("2025-06-16 14:00Z", "2025-06-16 15:00Z", "confirmed", None, None),
        ("2025-06-16 00:00Z", "2025-06-17 00:00Z", "confirmed", "accepted", "2025-06-16"),
        ("2025-06-14 23:00Z", "2025-06-15 01:00Z", "confirmed", "accepted", None),
        ("2025-06-10 00:00Z", "2025-06-14 02:00Z", "confirmed", "accepted", None),
    ]:
        owner.execute(
            """
            with calendar as (
                insert into content.calendar (user_id, name, provider)
                values (%(user_id)s, 'Work', 'google')
                returning calendar_id
            )
            insert into content.calendar_event (
                user_id, calendar_id, starts_at, ends_at, status, response, start_date, end_date
            )
            select %(user_id)s, calendar_id, %(start)s, %(end)s, %(status)s, %(response)s,
                   %(day)s::date, %(day)s::date + 1
              from calendar
            """,
            {
                "user_id": alice.user_id,
                "start": start,
                "end": end,
                "status": status,
                "response": response,
                "day": day,
            },
        )
    owner.execute(
        """
        with film as (
            insert into content.title (user_id, kind, name)
            values (%(user_id)s, 'movie', 'Up')
            returning title_id
        )
        insert into content.play (user_id, title_id, watched_at, watch_ms)
        select %(user_id)s, title_id, '2025-06-16 20:00Z', 5760000
          from film
        """,
        {"user_id": alice.user_id},
    )

    assert values(api, alice, "meeting_ms") == {
        "2025-06-14": 3 * HOUR,
        "2025-06-15": HOUR,
        "2025-06-16": 2 * HOUR,
    }
    assert values(api, alice, "watch_ms") == {"2025-06-16": 5_760_000}


@given(history=histories(), data=st.data())
def test_any_history_has_the_days_that_the_slow_model_gives(
    api: TestClient, owner: Rows, history: History, data: st.DataObject
) -> None:
    carol = carol_with(owner, history)
    first, last = history.date - timedelta(days=1), history.date + timedelta(days=1)
    timeline = whole_timeline(history.sessions)
    kept = streaks(timeline, 0)
    expected: dict[str, dict[str, float]] = {}
    for day in days(first, last, history.zone):
        everything = [(s.started, s.ended) for s in history.sessions] + [
            (s.started, s.ended) for s in history.coding
        ]
        if day.start == day.end or not any(
            start < day.end and (end > day.start or start >= day.start) for start, end in everything
        ):
            continue
        focus = [min(s.end, day.end) - max(s.start, day.start) for s in kept]
        expected[str(day.date)] = {
            "tracked_ms": sum(owned_ms(history.sessions, day.start, day.end).values()),
            **by_productivity(per_category(history.sessions, day.start, day.end)),
            "coding_ms": sum(owned_ms(history.coding, day.start, day.end).values()),
            "session_count": len(counted(history.sessions, day.start, day.end)),
            "app_switches": len([s for s in switches(timeline) if day.start <= s.at < day.end]),
            "focus_ms": sum(length for length in focus if length > 0),
            "longest_focus_ms": max([length for length in focus if length > 0], default=0),
        }
    a, b = data.draw(st.sampled_from(PAIRS))

    body = ask(api, carol, a, b, start=str(first), end=str(last), tz=history.zone)

    assert body["points"] == [
        {"date": day, "a": measured[a], "b": measured[b]} for day, measured in expected.items()
    ]


OF_ACTIVITY = [name for name, metric in METRICS.items() if metric.scope == "read:activity"]
PAIRS = [*zip(OF_ACTIVITY, OF_ACTIVITY[1:] + OF_ACTIVITY[:1], strict=True)]


def test_bob_sees_nothing_of_alices(
    api: TestClient, owner: Rows, alice: Person, bob: Person
) -> None:
    measure(owner, alice, "x", [1, 2, 3, 4])
    track(owner, alice, ("Development", 0, HOUR))

    for metric in [*METRICS, "health:x"]:
        body = ask(api, bob, metric, metric, start="2025-06-01", end="2025-06-30")

        assert body["metric_a"]["days"] == 0, metric
        assert body["points"] == []


@pytest.mark.parametrize(
    ("params", "scopes", "missing", "needed"),
    [
        ({"metric_b": "commits"}, ["read:activity"], "read:code", "read:activity read:code"),
        (
            {"metric_a": "health:steps", "metric_b": "play_count"},
            ["read:activity", "read:music"],
            "read:health",
            "read:activity read:health read:music",
        ),
        (
            {"metric_a": "watch_ms", "metric_b": "place_count"},
            ["read:content", "read:location"],
            "read:activity",
            "read:activity read:content read:location",
        ),
        # A missing scope is reported before other mistakes.
        (
            {"metric_a": "commits", "lag": "99"},
            ["read:activity"],
            "read:code",
            "read:activity read:code",
        ),
    ],
)
def test_a_metric_of_another_domain_needs_its_scope_too(
    api: TestClient,
    alice: Person,
    params: dict[str, str],
    scopes: list[str],
    missing: str,
    needed: str,
) -> None:
    answer = api.get(PATH, params=params, headers=alice.headers(*scopes))

    assert answer.status_code == 403
    assert answer.json() == {"error": "insufficient_scope", "message": f"{missing} is required"}
    assert f'scope="{needed}"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("name", ["metric_a", "metric_b"])
@pytest.mark.parametrize(
    "metric", ["", "steps", "Tracked_ms", "tracked_ms ", "health:", "health:Steps", "health:a b"]
)
def test_an_unknown_metric_is_named_and_the_known_ones_are_listed(
    api: TestClient, alice: Person, name: str, metric: str
) -> None:
    answer = api.get(PATH, params={name: metric}, headers=alice.headers("read:activity"))

    assert answer.status_code == 400
    assert answer.json()["parameter"] == name
    for known in METRICS:
        assert known in answer.json()["message"]


@pytest.mark.parametrize("lag", ["31", "-31", "1.5", "", "one", "+1", "-", "0x1", "1" * 5000])
def test_an_invalid_lag_is_refused(api: TestClient, alice: Person, lag: str) -> None:
    answer = api.get(PATH, params={"lag": lag}, headers=alice.headers("read:activity"))

    assert answer.status_code == 400
    assert answer.json()["parameter"] == "lag"


def test_the_longest_range_may_end_with_the_calendar(api: TestClient, alice: Person) -> None:
    last = date(9998, 12, 31)

    body = ask(
        api,
        alice,
        "tracked_ms",
        "coding_ms",
        start=str(last - timedelta(days=3699)),
        end=str(last),
        lag=30,
    )
    refused = api.get(
        PATH,
        params={"from": str(last - timedelta(days=3700)), "to": str(last)},
        headers=alice.headers("read:activity"),
    )

    assert body["data"]["n"] == 0
    assert refused.status_code == 400
    assert refused.json()["parameter"] == "to"
