"""Correlation: coefficients, their certainty, and the caution in the answer."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person, mark_all_days
from tests.endpoints.test_health_summary import WATCH, measure
from tests.mcp.assistant import Assistant, error

FIRST: Final = date(2025, 6, 1)
TWELVE: Final = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]


class Days:
    """Days of alice's from 1 June 2025, each with an hour at a laptop."""

    def __init__(self, alice: Person, owner: psycopg.Connection[Any]) -> None:
        """Add a laptop."""
        self.alice, self.owner = alice, owner
        row = owner.execute(
            "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
            [alice.user_id],
        ).fetchone()
        assert row is not None
        self.device = row[0]

    def add(self, plays: list[int], commits: list[int]) -> None:
        """Insert so many plays and commits on each day."""
        for n, (played, committed) in enumerate(zip(plays, commits, strict=True)):
            at = datetime(2025, 6, 1, 12, tzinfo=UTC) + timedelta(days=n)
            self.owner.execute(
                "insert into activity.app_session "
                "(user_id, idempotency_key, device_id, started_at, ended_at, app, category) "
                "values (%s, %s, %s, %s, %s, 'Code', 'Development')",
                [self.alice.user_id, str(n), self.device, at, at + timedelta(hours=1)],
            )
            self.owner.execute(
                "insert into music.listen (user_id, listened_at, track, artist, played_ms, source) "
                "select %s, %s::timestamptz + n * interval '1 minute', 'T', 'A', 60000, 'spotify'"
                " from generate_series(1, %s) as n",
                [self.alice.user_id, at, played],
            )
            self.owner.execute(
                "insert into code.event (user_id, provider, provider_key, type, action, occurred_at,"
                " repository) select %s, 'github', %s::text || '-' || n, 'commit', 'pushed', %s, 'svc'"
                " from generate_series(1, %s) as n",
                [self.alice.user_id, n, at, committed],
            )
        mark_all_days(self.owner)


@pytest.fixture
def days(alice: Person, owner: psycopg.Connection[Any]) -> Days:
    """Alice, without any days so far."""
    return Days(alice, owner)


def upto(last: int) -> dict[str, str]:
    """Return the arguments for a number of days, whose values are compared as they are."""
    return {"from_": "2025-06-01", "to": f"2025-06-{last:02}", "tz": "UTC", "adjust": "none"}


def rounded(value: Any) -> Any:
    """Return numbers with four decimals, as a tool rounds coefficients."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return round(value, 4) if isinstance(value, float) else value


# Two metrics


def test_two_metrics_are_compared_as_the_endpoint_does(assistant: Assistant, days: Days) -> None:
    days.add(plays=[1, 2, 3, 4, 5], commits=[2, 1, 4, 3, 5])

    answer = assistant.ask("correlate", metric_a="play_count", metric_b="commits", **upto(5))

    (pairing,) = answer["data"]
    assert (pairing["n"], pairing["strength"], pairing["direction"]) == (
        5,
        "very_strong",
        "positive",
    )
    assert pairing["coefficient"] == pytest.approx(0.8)
    assert pairing["p_value"] == 0.1
    assert pairing["metric_a"] == {
        "name": "play_count",
        "unit": "count",
        "days": 5,
        "average": 3.0,
        "average_text": "3.0",
        "standard_deviation": 1.58,
    }
    endpoint = assistant.client.get(
        "/api/v1/account/correlation",
        params={
            "metric_a": "play_count",
            "metric_b": "commits",
            "from": "2025-06-01",
            "to": "2025-06-05",
        },
        headers=assistant.headers,
    ).json()["data"]
    of_chance = ("p_value", "p_value_adjusted")
    assert {name: pairing.get(name) for name in endpoint} == rounded(endpoint) | {
        name: float(f"{endpoint[name]:.2g}") for name in of_chance
    }
    assert endpoint["p_value"] == pytest.approx(0.104088, abs=1e-6)
    assert (answer["comparisons"], answer["days"], answer["lag_days"]) == (1, 5, 0)
    assert answer["adjust"] == "none"


def test_similar_consecutive_days_count_as_fewer(assistant: Assistant, days: Days) -> None:
    """The plays' autocorrelation is 1, the commits' 0.5 / √43.75."""
    days.add(plays=[1, 2, 3, 4, 5], commits=[2, 1, 4, 3, 5])

    answer = assistant.ask("correlate", metric_a="play_count", metric_b="commits", **upto(5))

    (pairing,) = answer["data"]
    assert pairing["n_effective"] == 4.3
    assert pairing["p_value"] < pairing["p_value_adjusted"] < 0.2
    assert pairing["is_beyond_chance"] is False
    assert pairing["phrase"] == (
        "play_count and commits: very strong positive correlation, r = 0.80 over 5 days,"
        " which may well be chance."
    )


@pytest.mark.parametrize(
    ("pair", "lag", "n"),
    [
        (("play_count", "commits"), 1, 11),
        (("commits", "play_count"), -1, 11),
    ],
)
def test_a_lag_compares_each_day_with_a_later_or_an_earlier_one(
    assistant: Assistant, days: Days, pair: tuple[str, str], lag: int, n: int
) -> None:
    days.add(plays=TWELVE, commits=[7, *TWELVE[:-1]])
    a, b = pair

    answer = assistant.ask("correlate", metric_a=a, metric_b=b, lag=lag, **upto(12))

    (pairing,) = answer["data"]
    assert (pairing["n"], answer["lag_days"]) == (n, lag)
    assert pairing["coefficient"] == pytest.approx(1)
    assert pairing["is_beyond_chance"] is True
    assert pairing["phrase"].endswith("more than chance explains.")


def test_ranks_may_be_compared(assistant: Assistant, days: Days) -> None:
    days.add(plays=[1, 2, 3, 40], commits=[1, 3, 2, 4])

    answer = assistant.ask(
        "correlate", metric_a="play_count", metric_b="commits", method="spearman", **upto(4)
    )

    assert answer["method"] == "spearman"
    assert answer["data"][0]["coefficient"] == pytest.approx(0.8)


@pytest.mark.parametrize("adjust", ["none", "weekday"])
@pytest.mark.parametrize("method", ["pearson", "spearman"])
@pytest.mark.parametrize("lag", [-2, 0, 1])
def test_the_endpoint_gives_the_same_numbers_for_the_same_question(
    assistant: Assistant, days: Days, adjust: str, method: str, lag: int
) -> None:
    days.add(
        plays=TWELVE * 2, commits=[n % 7 * 2 + each for n, each in enumerate(TWELVE[::-1] * 2)]
    )
    question: dict[str, str | int] = {
        "metric_a": "play_count",
        "metric_b": "commits",
        "method": method,
        "lag": lag,
    }

    answer = assistant.ask("correlate", **question, **upto(24) | {"adjust": adjust})
    endpoint = assistant.client.get(
        "/api/v1/account/correlation",
        params=question | {"from": "2025-06-01", "to": "2025-06-24", "adjust": adjust},
        headers=assistant.headers,
    ).json()

    (pairing,), expected = answer["data"], endpoint["data"]
    of_chance = {name: float(f"{expected[name]:.2g}") for name in ("p_value", "p_value_adjusted")}
    assert {name: pairing[name] for name in expected if expected[name] is not None} == (
        rounded({name: value for name, value in expected.items() if value is not None}) | of_chance
    )
    assert expected["n"] == 24 - abs(lag)
    assert (answer["adjust"], answer["method"], answer["lag_days"]) == (adjust, method, lag)
    assert (endpoint["adjust"], endpoint["method"], endpoint["lag_days"]) == (adjust, method, lag)


@pytest.mark.parametrize(
    ("plays", "phrase"),
    [
        ([1, 2], "play_count and commits both have values on only 2 days, which is too few."),
        (
            [2, 2, 2],
            "play_count or commits never varies, so there is no correlation.",
        ),
    ],
)
def test_a_missing_coefficient_has_a_reason(
    assistant: Assistant, days: Days, plays: list[int], phrase: str
) -> None:
    days.add(plays=plays, commits=list(range(len(plays))))

    answer = assistant.ask("correlate", metric_a="play_count", metric_b="commits", **upto(5))

    (pairing,) = answer["data"]
    assert pairing.keys() & {"coefficient", "p_value_adjusted"} == set()
    assert pairing["phrase"] == phrase
    assert "No pairs were compared." in answer["caution"]


def test_a_shared_weekly_rhythm_is_no_correlation(assistant: Assistant, days: Days) -> None:
    """Both are low on Saturdays and Sundays; on the other days they are unrelated."""
    free = {0, 6}
    plays = [1 if n % 7 in free else 8 + each % 2 for n, each in enumerate(TWELVE * 2)]
    commits = [0 if n % 7 in free else 7 + n // 7 % 2 for n in range(24)]
    days.add(plays=plays, commits=commits)
    question = {"metric_a": "play_count", "metric_b": "commits", **upto(24)}

    plain = assistant.ask("correlate", **question)
    adjusted = assistant.ask("correlate", **{k: v for k, v in question.items() if k != "adjust"})

    assert (plain["adjust"], adjusted["adjust"]) == ("none", "weekday")
    assert plain["data"][0]["coefficient"] > 0.9
    assert plain["data"][0]["is_beyond_chance"] is True
    (pairing,) = adjusted["data"]
    assert abs(pairing["coefficient"]) < 0.4
    assert pairing["is_beyond_chance"] is False
    # Of 24 days, the means of the weekdays cost six.
    assert pairing["n"] == 24
    assert pairing["n_effective"] <= 18
    assert pairing["p_value"] == pairing["p_value_adjusted"]
    assert "the weekday is adjusted for" in adjusted["caution"]


# Partners


def test_the_strongest_partners_are_found(assistant: Assistant, days: Days) -> None:
    plays = [each + 3 * (n == 0) for n, each in enumerate(TWELVE)]
    days.add(plays=plays, commits=TWELVE)
    for n, weight in enumerate(TWELVE):
        days.owner.execute(
            "insert into health.metric (user_id, metric_type, unit, aggregation)"
            " values (%s, 'weight', 'kg', 'avg') on conflict do nothing",
            [days.alice.user_id],
        )
        days.owner.execute(
            "insert into health.source (user_id, provider, name, kind) values (%s, 'p', 'scale', 'other')"
            " on conflict do nothing",
            [days.alice.user_id],
        )
        days.owner.execute(
            "insert into health.sample (user_id, source_id, metric_type, started_at, ended_at, value)"
            " select user_id, source_id, 'weight', %s, %s, %s from health.source",
            [f"{FIRST + timedelta(days=n)}T08:00Z"] * 2 + [100 - weight],
        )

    answer = assistant.ask("correlate", with_="commits", **upto(12))

    assert answer["metric_a"]["name"] == "commits"
    assert [row.keys() & {"metric_a", "phrase"} for row in answer["data"]] == [set()] * 3
    assert answer["data"][0]["metric_b"]["name"] == "health:weight"
    assert answer["data"][0]["coefficient"] == pytest.approx(-1)
    assert {row["metric_b"]["name"] for row in answer["data"][1:]} == {"play_count", "listened_ms"}
    assert answer["data"][1]["coefficient"] == 0.9417
    assert answer["comparisons"] == 3
    assert answer["caution"].endswith(
        "3 pairs were compared, some of which may be strong by chance; p_value_adjusted accounts"
        " for this and p_value does not."
    )
    assert {"tracked_ms", "asleep_ms", "pull_requests"} <= set(answer["not_compared"])
    assert "commits" not in answer["not_compared"]
    assert (answer["own_family"], "lines_added" in answer["not_compared"]) == (
        ["lines_added"],
        False,
    )


def test_a_partner_with_data_on_few_days_is_skipped(assistant: Assistant, days: Days) -> None:
    days.add(plays=TWELVE[:9], commits=TWELVE[:9])

    answer = assistant.ask("correlate", with_="commits", **upto(12))

    assert (answer["data"], answer["comparisons"]) == ([], 0)
    assert "play_count" in answer["not_compared"]


def test_more_comparisons_need_stronger_correlations(assistant: Assistant, days: Days) -> None:
    days.add(plays=[2, 1, 1, 1, 3, 3, 2, 2, 1, 3, 2, 3], commits=TWELVE)

    (alone,) = assistant.ask("correlate", metric_a="commits", metric_b="play_count", **upto(12))[
        "data"
    ]
    partners = assistant.ask("correlate", with_="commits", **upto(12))["data"]

    assert {row["metric_b"]["name"] for row in partners} == {"play_count", "listened_ms"}
    assert alone["p_value_adjusted"] == 0.044
    assert alone["is_beyond_chance"] is True
    # Of two comparisons with the same outcome both count twice (Holm).
    assert [row["p_value"] for row in partners] == [alone["p_value"]] * 2
    assert [row["p_value_adjusted"] for row in partners] == [0.088] * 2
    assert [row["is_beyond_chance"] for row in partners] == [False, False]


# Scopes


def test_partners_are_metrics_whose_scopes_the_token_has(api: TestClient, days: Days) -> None:
    days.add(plays=TWELVE, commits=TWELVE)
    held = days.alice.headers("read:activity", "read:code", "read:health")

    answer = Assistant(api, held).ask("correlate", with_="commits", **upto(12))

    assert answer["data"] == []
    assert not {"play_count", "listened_ms"} & set(answer["not_compared"])
    assert answer["missing_scopes"] == ["read:content", "read:location", "read:music"]


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({"with_": "asleep_ms"}, "read:activity read:health"),
        ({"with_": "health:steps"}, "read:activity read:health"),
        (
            {"metric_a": "commits", "metric_b": "play_count"},
            "read:activity read:code read:music",
        ),
    ],
)
def test_a_named_metric_needs_its_scope(
    api: TestClient, alice: Person, given: dict[str, str], needed: str
) -> None:
    response = Assistant(api, alice.headers("read:activity")).call("correlate", **given)

    assert error(response) == (403, 403, 7)
    assert f'scope="{needed}"' in response.headers["www-authenticate"]


# Days


def test_a_metric_that_nobody_measured_is_a_mistake_that_names_the_nearest(
    assistant: Assistant, owner: psycopg.Connection[Any], alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-16T12:00Z", "2025-06-16T13:00Z", 4000)

    pair = assistant.mistake("correlate", metric_a="tracked_ms", metric_b="health:stepps")
    search = assistant.mistake("correlate", with_="health:sleep_efficiency")
    heart = assistant.ask("correlate", metric_a="health:heart_rate", metric_b="health:steps")

    assert pair.startswith(
        "metric_b: nothing of the person's has the name health:stepps;"
        ' the nearest known are: ["health:steps", '
    )
    assert search.startswith("with: nothing of the person's has the name health:sleep_efficiency")
    assert heart["data"][0]["n"] == 0


def test_today_is_left_out(assistant: Assistant, alice: Person) -> None:
    answer = assistant.ask("correlate")

    yesterday = date.fromisoformat(answer["generated_at"][:10]) - timedelta(days=1)
    assert answer["range"]["to"] == str(yesterday)
    assert answer["days"] == 89


def test_a_search_covers_the_last_year_of_its_range_and_is_truncated(
    assistant: Assistant, alice: Person
) -> None:
    years = {"from_": "2020-01-01", "to": "2024-12-31"}

    search = assistant.ask("correlate", with_="commits", **years)
    pair = assistant.ask("correlate", metric_a="commits", metric_b="play_count", **years)

    assert (search["range"]["from"], search["days"]) == ("2024-01-01", 366)
    assert search["truncated"] is True
    assert (pair["range"]["from"], pair["days"]) == ("2020-01-01", 1827)
    assert pair["truncated"] is False


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metric_a": "commits"}, "metric_a and metric_b are needed together"),
        (
            {"metric_a": "commits", "metric_b": "play_count", "with_": "focus_ms"},
            "give either metric_a and metric_b, or with",
        ),
        ({"with_": "happiness"}, "with: must be one of tracked_ms, "),
        ({"with_": "health:"}, "with: must be one of tracked_ms, "),
        ({"with_": 5}, "with: must be a string"),
        ({"metric_a": ["commits"], "metric_b": "commits"}, "metric_a: must be a string"),
        ({"method": "kendall"}, "method: input should be 'pearson' or 'spearman'"),
        ({"lag": 31}, "lag: input should be less than or equal to 30"),
        ({"lag": -31}, "lag: input should be greater than or equal to -30"),
        ({"lag": "1"}, "lag: input should be a valid integer"),
    ],
)
def test_a_comparison_that_is_impossible_is_an_error(
    assistant: Assistant, alice: Person, given: dict[str, Any], said: str
) -> None:
    assert assistant.mistake("correlate", **given).startswith(said)
