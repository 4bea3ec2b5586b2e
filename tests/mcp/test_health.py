"""get_health: metrics beside their normal values, and nights, worked out by hand."""

from datetime import timedelta
from typing import Any, Final

import psycopg
import pytest

from tests.conftest import Person
from tests.endpoints.test_health_summary import PHONE, SPO2, WATCH, beat, measure
from tests.endpoints.test_recovery import WHOOP, sleep
from tests.mcp.assistant import Assistant, ends_of, without_texts
from tests.midday import midday

Rows = psycopg.Connection[Any]

JUNE: Final = {"from_": "2025-06-16", "to": "2025-06-18", "tz": "Europe/Berlin"}


def walk(owner: Rows, alice: Person, day: str, steps: int) -> None:
    """Steps from noon to one o'clock, UTC."""
    measure(owner, alice, WATCH, f"{day}T12:00Z", f"{day}T13:00Z", steps)


@pytest.fixture
def walks(owner: Rows, alice: Person) -> None:
    """1,000 and 3,000 steps by turns on each of ten days of May, and three days in June."""
    for day in range(22, 32):
        walk(owner, alice, f"2025-05-{day}", 1000 if day % 2 else 3000)
    walk(owner, alice, "2025-06-16", 4000)
    walk(owner, alice, "2025-06-18", 6000)


def only(answer: dict[str, Any]) -> dict[str, Any]:
    (metric,) = answer["metrics"]
    assert isinstance(metric, dict)
    return metric


@pytest.mark.usefixtures("walks")
def test_a_metric_has_daily_values_and_those_of_the_days_before(assistant: Assistant) -> None:
    answer = assistant.ask("get_health", metrics=["steps"], **JUNE)

    metric = only(answer)
    assert metric["series"] == [
        {"at": "2025-06-16", "value": 4000},
        {"at": "2025-06-18", "value": 6000},
    ]
    assert {name: metric["summary"][name] for name in ("total", "mean", "minimum", "maximum")} == {
        "total": 10_000, "mean": 5000, "minimum": 4000, "maximum": 6000
    }  # fmt: skip
    assert (metric["summary"]["days_with_data"], metric["summary"]["latest_day"]) == (
        2,
        "2025-06-18",
    )
    # Five days of 1,000 and five of 3,000: 1,000 from the mean each, ten of them over nine.
    assert metric["normal"] == {
        "mean": 2000, "deviation": 1054.09, "days": 10
    }  # fmt: skip
    assert (metric["z"], metric["phrase"]) == (2.85, "much higher than usual")
    assert (metric["metric"], metric["unit"], metric["aggregation"]) == (
        "health:steps",
        "count",
        "sum",
    )
    assert (answer["resolution"], answer["truncated"]) == ("day", False)
    assert (answer["available"], answer["recovery"]) == ([], [])
    assert "recovery_normal" not in answer


def test_all_begins_with_the_first_sample_of_any_metric(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    walk(owner, alice, "2025-06-16", 1000)
    measure(owner, alice, WATCH, "2025-03-01T10:00Z", "2025-03-01T10:05Z", 97, metric=SPO2)

    answer = assistant.ask("get_health", period="all", tz="UTC")

    assert answer["range"]["from"] == "2025-03-01"


def test_fewer_than_seven_days_before_give_no_normal_value(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    for day in range(10, 16):
        walk(owner, alice, f"2025-06-{day}", 1000 + day)
    walk(owner, alice, "2025-06-16", 4000)

    metric = only(assistant.ask("get_health", metrics=["steps"], **JUNE))

    assert metric.keys() & {"normal", "z"} == set()
    assert metric["phrase"] == "too few earlier days to compare with"


def test_today_is_compared_with_the_same_hours_of_the_days_before(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    noon = midday()
    for before in range(1, 9):
        then = noon - timedelta(days=before)
        for hours, steps, bpm in ((-2, 500 + 1000 * (before % 2), 50), (2, 9000, 150)):
            at = then + timedelta(hours=hours)
            measure(owner, alice, WATCH, at, at + timedelta(minutes=90), steps)
            beat(owner, alice, f"{at}", bpm + before % 2)
    at = noon - timedelta(hours=2)
    measure(owner, alice, WATCH, at, at + timedelta(minutes=30), 3000)
    beat(owner, alice, f"{at}", 60)
    given: dict[str, Any] = {"metrics": ["steps", "heart_rate"], "tz": str(noon.tzinfo)}
    yesterday = f"{noon.date() - timedelta(days=1)}"

    steps, heart = assistant.ask("get_health", period="today", **given)["metrics"]
    two_days = assistant.ask("get_health", from_=yesterday, to=f"{noon.date()}", **given)

    assert (steps["summary"]["total"], steps["normal"]["days"]) == (3000, 8)
    # 1,500 and 500 by turns, and none of the afternoon.
    assert "12:00" <= steps["normal"]["until"] < "14:00"
    assert steps["normal"]["mean"] == 1000
    assert (heart["normal"]["mean"], heart["summary"]["daily_mean"]) == (50.5, 60)
    assert heart["phrase"] == f"much higher than usual until {heart['normal']['until']}"
    # Of two days the one that is over is compared.
    _, heart = two_days["metrics"]
    assert (heart["normal"]["mean"], heart["normal"].get("until"), heart["z"]) == (
        100.43,
        None,
        1.07,
    )


@pytest.mark.usefixtures("walks")
def test_many_days_are_grouped_by_week_and_very_many_by_month(assistant: Assistant) -> None:
    weeks = assistant.ask("get_health", metrics=["steps"], from_="2025-05-21", to="2025-07-31")
    months = assistant.ask("get_health", metrics=["steps"], from_="2024-06-01", to="2025-07-31")

    assert (weeks["resolution"], weeks["truncated"]) == ("week", True)
    assert only(weeks)["series"] == [
        {"at": "2025-05-21", "value": 2000},
        {"at": "2025-05-26", "value": 2000},
        {"at": "2025-06-16", "value": 5000},
    ]
    assert (months["resolution"], months["truncated"]) == ("month", True)
    assert only(months)["series"] == [
        {"at": "2025-05-01", "value": 2000},
        {"at": "2025-06-01", "value": 5000},
    ]


def test_hourly_values_add_up_to_days_and_two_devices_count_once(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-16T10:30Z", "2025-06-16T11:30Z", 600)
    measure(owner, alice, PHONE, "2025-06-16T10:30Z", "2025-06-16T11:30Z", 500)
    for minute, bpm in ((0, 60), (10, 80), (70, 100)):
        beat(owner, alice, f"2025-06-16T{10 + minute // 60}:{minute % 60:02}Z", bpm)

    answer = assistant.ask(
        "get_health",
        metrics=["steps", "heart_rate"],
        resolution="hour",
        from_="2025-06-16",
        to="2025-06-16",
    )

    steps, beats = answer["metrics"]
    assert without_texts(steps["series"]) == [
        {"at": "2025-06-16T10:00:00.000Z", "value": 300},
        {"at": "2025-06-16T11:00:00.000Z", "value": 300},
    ]
    assert without_texts(beats["series"]) == [
        {"at": "2025-06-16T10:00:00.000Z", "value": 70},
        {"at": "2025-06-16T11:00:00.000Z", "value": 100},
    ]
    assert (steps["summary"]["total"], beats["summary"]["mean"]) == (600, 80)
    assert (answer["resolution"], answer["truncated"]) == ("hour", False)


def test_minimum_and_maximum_are_of_readings_as_in_the_endpoint(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    for day, rate in (("15T23", 50), ("16T08", 60), ("16T10", 80), ("17T08", 170), ("18T22", 200)):
        beat(owner, alice, f"2025-06-{day}:00Z", rate)
    for date, percent in ((16, 91), (16, 97), (17, 98)):
        at = f"2025-06-{date}T0{percent - 90}:00Z"
        measure(owner, alice, WATCH, at, at, percent, metric=SPO2)
    walk(owner, alice, "2025-06-16", 4000)
    walk(owner, alice, "2025-06-17", 6000)

    answer = assistant.ask(
        "get_health", metrics=["heart_rate", "spo2", "steps"], **JUNE | {"tz": "UTC"}
    )

    summaries = {
        each["metric"].removeprefix("health:"): each["summary"] for each in answer["metrics"]
    }
    heart = summaries["heart_rate"]
    assert (heart["minimum"], heart["maximum"], heart["mean"]) == (60, 200, 127.5)
    assert (heart["daily_minimum"], heart["daily_maximum"]) == (70, 200)
    assert heart["daily_mean"] == 146.67
    endpoint = assistant.client.get(
        "/api/v1/health/summary",
        params=ends_of(answer),
        headers=assistant.headers,
    ).json()["data"]
    assert {
        name: (each["minimum"], each["maximum"], each["mean"]) for name, each in summaries.items()
    } == {
        each["metric_type"]: (each["minimum"], each["maximum"], each["average"])
        for each in endpoint
    }


@pytest.mark.usefixtures("walks")
def test_hours_of_too_many_days_are_grouped_by_day_and_the_answer_names_it(
    assistant: Assistant,
) -> None:
    eight = assistant.ask(
        "get_health", metrics=["steps"], resolution="hour", from_="2025-05-22", to="2025-05-29"
    )
    nine = assistant.ask(
        "get_health", metrics=["steps"], resolution="hour", from_="2025-05-22", to="2025-05-30"
    )

    assert (eight["resolution"], eight["truncated"]) == ("hour", False)
    assert (nine["resolution"], nine["truncated"]) == ("day", True)
    assert len(only(nine)["series"]) == 9


@pytest.mark.usefixtures("walks")
def test_readings_are_unchanged(assistant: Assistant) -> None:
    answer = assistant.ask("get_health", metrics=["health:steps"], resolution="raw", **JUNE)

    assert without_texts(answer["samples"]) == [
        {
            "started_at": f"2025-06-{day}T12:00:00.000Z",
            "ended_at": f"2025-06-{day}T13:00:00.000Z",
            "value": value,
            "source": "Apple Watch",
        }
        for day, value in ((18, 6000), (16, 4000))
    ]
    assert (only(answer)["series"], answer["resolution"], answer["truncated"]) == ([], "raw", False)


def test_only_the_newest_fifty_readings_are_listed(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    for minute in range(51):
        beat(owner, alice, f"2025-06-16T10:{minute:02}Z", 60 + minute)

    answer = assistant.ask("get_health", metrics=["heart_rate"], resolution="raw", **JUNE)

    assert [reading["value"] for reading in answer["samples"]] == list(range(110, 60, -1))
    assert answer["truncated"] is True


# Nights


@pytest.fixture
def nights(owner: Rows, alice: Person) -> None:
    """Two nights in June, of seven and six hours, and one of eight hours in May."""
    for day, hours, rate in (("06-16", 7, 50), ("06-18", 6, 54), ("05-31", 8, 48)):
        made = sleep(owner, alice, WHOOP, f"2025-{day}T05:00Z", asleep_ms=hours * 3_600_000)
        owner.execute(
            "insert into health.recovery values (%s, %s, 'scored', 66, %s, 48.25, 96.1, 33.7)",
            [alice.user_id, made, rate],
        )


@pytest.mark.usefixtures("nights")
def test_of_more_than_two_nights_the_main_values_are_listed(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    sleep(owner, alice, WHOOP, "2025-06-17T05:00Z")

    few = assistant.ask("get_health", from_="2025-06-17", to="2025-06-18")["recovery"]
    many = assistant.ask("get_health", from_="2025-06-16", to="2025-06-18")["recovery"]

    assert few[0]["sleep"].keys() - many[0]["sleep"].keys() >= {"in_bed_ms", "nap_count"}
    assert many[0]["sleep"]["asleep_text"] == few[0]["sleep"]["asleep_text"] == "6 h"
    assert many[0]["recovery"] == {
        "score": 66, "resting_heart_rate_bpm": 54, "hrv_rmssd": 48.25
    }  # fmt: skip


@pytest.mark.usefixtures("nights")
def test_the_usual_night_is_that_of_main_sleeps(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    # A day with only naps counts for nothing.
    sleep(owner, alice, WHOOP, "2025-06-17T06:31Z")
    sleep(owner, alice, WHOOP, "2025-06-19T13:00Z", is_nap=True)

    answer = assistant.ask("get_health", from_="2025-06-16", to="2025-06-19")

    assert answer["usual_night"] == {"starts_at": "21:00", "ends_at": "05:00", "nights": 3}


@pytest.mark.usefixtures("nights")
def test_without_metrics_nights_and_available_metrics_are_listed(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    walk(owner, alice, "2025-06-17", 4000)

    answer = assistant.ask("get_health", **JUNE)

    assert [(day["date"], day["sleep"]["asleep_text"]) for day in answer["recovery"]] == [
        ("2025-06-18", "6 h"),
        ("2025-06-16", "7 h"),
    ]
    assert answer["recovery"][0]["recovery"]["resting_heart_rate_bpm"] == 54
    assert answer["recovery"][0]["recovery"]["hrv_rmssd"] == 48.25
    assert answer["recovery_averages"]["asleep_text"] == "6 h 30 min"
    assert answer["recovery_averages"]["resting_heart_rate_bpm"] == 52
    assert answer["recovery_normal"]["asleep_text"] == "8 h"
    assert answer["metrics"] == []
    assert [
        (each["metric"], each["unit"], each["first_day"], each["last_day"], each["days_measured"])
        for each in answer["available"]
    ] == [
        ("asleep_ms", "ms", "2025-05-31", "2025-06-18", 2),
        ("health:steps", "count", "2025-06-17", "2025-06-17", 1),
        ("hrv_rmssd_ms", "ms", "2025-05-31", "2025-06-18", 2),
        ("recovery_score", "percent", "2025-05-31", "2025-06-18", 2),
        ("resting_heart_rate_bpm", "bpm", "2025-05-31", "2025-06-18", 2),
    ]


@pytest.mark.usefixtures("nights")
def test_durations_of_nights_have_words(
    assistant: Assistant,
) -> None:
    answer = assistant.ask(
        "get_health", metrics=["asleep_ms", "hrv_rmssd_ms"], include_recovery=True, **JUNE
    )

    asleep, variability = answer["metrics"]
    assert asleep["series"][0] == {"at": "2025-06-16", "value": 25_200_000, "value_text": "7 h"}
    assert (asleep["summary"]["mean_text"], "total" in asleep["summary"]) == ("6 h 30 min", False)
    assert variability["series"][0] == {"at": "2025-06-16", "value": 48.25}
    assert (variability["unit"], "mean_text" in variability["summary"]) == ("ms", False)
    assert len(answer["recovery"]) == 2


@pytest.mark.usefixtures("nights")
def test_a_metric_without_data_is_answered_with_the_available_ones(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    measure(owner, alice, PHONE, "2025-01-01T10:00Z", "2025-01-01T10:05Z", 97, metric=SPO2)

    answer = assistant.ask("get_health", metrics=["asleep_ms", "steps_2"], **JUNE)

    assert [each["metric"] for each in answer["metrics"]] == ["asleep_ms"]
    assert [each["name"] for each in answer["unmatched"]] == ["steps_2"]
    (spo2,) = [each for each in answer["available"] if each["metric"] == "health:spo2"]
    assert (spo2["first_day"], spo2["days_measured"]) == ("2025-01-01", 0)
    assert answer["recovery"] == []


def test_an_unknown_metric_is_an_error_that_names_the_nearest(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    walk(owner, alice, "2025-01-01", 4000)

    said = assistant.mistake("get_health", metrics=["step_count"], **JUNE)

    assert said.startswith(
        'metrics: nothing of the person\'s has the name step_count; the nearest known are: ["steps", '
    )


def test_many_months_of_many_metrics_are_cut_to_fit(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    """Eight durations over ten years: of each the newest months, and the sums of all of them."""
    names = [f"of_kind_{number}" for number in range(8)]
    for name in names:
        measure(
            owner,
            alice,
            WATCH,
            "2015-06-15T10:00Z",
            "2015-06-15T11:00Z",
            1,
            metric=(name, "ms", "sum"),
        )
    owner.execute(
        """
        insert into health.sample (user_id, metric_type, source_id, started_at, ended_at, value)
        select %(user_id)s, metric_type, source_id, day, day + interval '1 hour', 12345678
          from health.metric
          join health.source using (user_id)
         cross join generate_series('2015-07-15 10:00Z', '2025-06-15 10:00Z', interval '1 month') as day
         where user_id = %(user_id)s
        """,
        {"user_id": alice.user_id},
    )

    response = assistant.call(
        "get_health", metrics=names, from_="2015-06-01", to="2025-06-30", include_recovery=True
    )

    answer = response.json()["result"]["structuredContent"]
    assert len(response.content) <= 64 * 1024
    assert (answer["resolution"], answer["truncated"]) == ("month", True)
    for metric in answer["metrics"]:
        assert metric["series"][-1]["at"] == "2025-06-01"
        assert 30 < len(metric["series"]) < 121
        assert metric["summary"]["days_with_data"] == 121


def test_more_than_fifty_metrics_are_cut_to_those_with_most_data(
    assistant: Assistant, owner: Rows, alice: Person
) -> None:
    walk(owner, alice, "2025-06-17", 1)
    for number in range(50):
        measure(
            owner, alice, PHONE, "2025-01-01T10:00Z", "2025-01-01T10:05Z", 97,
            metric=(f"a{number:02}", "x", "avg"),
        )  # fmt: skip

    answer = assistant.ask("get_health", **JUNE)

    listed = [each["metric"] for each in answer["available"]]
    assert (len(listed), answer["truncated"]) == (50, True)
    assert listed[-2:] == ["health:a48", "health:steps"]


# Invalid arguments

NIGHTS: Final = (
    "recovery_score, strain_score, asleep_ms, deep_ms, rem_ms, hrv_rmssd_ms, resting_heart_rate_bpm"
)
NAMED: Final = f"metrics[0]: must be one of {NIGHTS}, or the name of a metric such as steps"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": ["Steps"]}, NAMED),
        ({"metrics": ["health:"]}, NAMED),
        ({"metrics": ["health:health:steps"]}, NAMED),
        ({"metrics": [5]}, "metrics[0]: must be a string"),
        ({"metrics": 5}, "metrics: input should be a valid list"),
        ({"metrics": []}, "metrics: list should have at least 1 item"),
        ({"metrics": ["steps"] * 9}, "metrics: list should have at most 8 items"),
        ({"resolution": "week"}, "resolution: input should be 'day', 'hour' or 'raw'"),
        ({"include_recovery": "yes"}, "include_recovery: input should be a valid boolean"),
        ({"resolution": "raw"}, "resolution: raw needs exactly one of metrics"),
        (
            {"resolution": "raw", "metrics": ["steps", "heart_rate"]},
            "resolution: raw needs exactly one of metrics",
        ),
        ({"resolution": "hour"}, "resolution: hour needs metrics"),
        (
            {"resolution": "hour", "metrics": ["steps", "rem_ms", "asleep_ms"]},
            "resolution: asleep_ms, rem_ms are available only by day",
        ),
    ],
)
def test_a_wrong_argument_is_named(
    assistant: Assistant, arguments: dict[str, Any], message: str
) -> None:
    assert assistant.mistake("get_health", **arguments).startswith(message)
