"""Two periods side by side, worked out by hand."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.conftest import Person, mark_all_days
from tests.endpoints.test_health_summary import WATCH, measure
from tests.mcp.assistant import Assistant, error
from tests.midday import midday

TOOL: Final = "compare_periods"
MINUTE: Final = 60_000
MAY: Final = "2025-05-01/2025-05-10"
JUNE: Final = "2025-06-01/2025-06-10"


def add_session(
    alice: Person, device_id: Any, app: str, category: str, start: datetime, minutes: int
) -> None:
    alice.connection.execute(
        "insert into activity.app_session"
        " (user_id, idempotency_key, device_id, app, category, started_at, ended_at)"
        " values (%s, %s, %s, %s, %s, %s, %s)",
        [
            alice.user_id, f"{app} {start}", device_id, app, category, start,
            start + timedelta(minutes=minutes),
        ],
    )  # fmt: skip


@pytest.fixture
def months(alice: Person, owner: psycopg.Connection[Any]) -> Person:
    """Alice, who programs for an hour or so on ten days of May and for two on five of June.

    She also does on one day between, which belongs to neither. One session of June lasts over midnight.
    """
    row = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [alice.user_id],
    ).fetchone()
    assert row is not None
    for day in range(1, 11):
        minutes = 55 + day
        add_session(
            alice, row[0], "Code", "Development", datetime(2025, 5, day, 9, tzinfo=UTC), minutes
        )
    add_session(alice, row[0], "Code", "Development", datetime(2025, 5, 20, 9, tzinfo=UTC), 600)
    for day in range(1, 6):
        minutes = 117 + day
        add_session(
            alice, row[0], "Code", "Development", datetime(2025, 6, day, 9, tzinfo=UTC), minutes
        )
    add_session(alice, row[0], "Firefox", "News", datetime(2025, 6, 3, 23, 55, tzinfo=UTC), 10)
    for number, at in enumerate(
        ("2025-05-02", "2025-05-15", "2025-06-02", "2025-06-02", "2025-06-11")
    ):
        alice.connection.execute(
            "insert into code.event (user_id, provider, provider_key, type, action, occurred_at, repository)"
            " values (%s, 'github', %s, 'commit', 'pushed', %s, 'me/svc')",
            [alice.user_id, f"{number}", f"{at}T10:00:00Z"],
        )
    mark_all_days(owner)
    return alice


def rows(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in answer["data"]}


def test_each_metric_has_a_value_for_both_periods(assistant: Assistant, months: Person) -> None:
    answer = assistant.ask(TOOL, a=JUNE, b=MAY, tz="UTC")

    over = {"days": 10, "is_over": True}
    assert answer["periods"] == {
        "a": over | {"from": "2025-06-01", "to": "2025-06-10", "active_days": 5},
        "b": over | {"from": "2025-05-01", "to": "2025-05-10", "active_days": 10},
    }
    # 56 + … + 65 minutes in May, and 118 + … + 122 in June.
    productive = rows(answer)["productive_ms"]
    assert productive["a"] == {
        "value": 600 * MINUTE, "value_text": "10 h",
        "per_active_day": 120 * MINUTE, "per_active_day_text": "2 h",
        "days": 5,
    }  # fmt: skip
    assert productive["b"]["value_text"] == "10 h 5 min"
    assert productive["b"]["per_active_day"] == 60.5 * MINUTE
    assert (productive["change"], productive["change_text"]) == (-5 * MINUTE, "-5 min")
    assert (productive["percent"], productive["percent_per_active_day"]) == (-0.83, 98.35)
    assert productive["phrase"] == "2 h per active day, 98 % more than 1 h 1 min"
    assert productive["is_notable"] is True


def test_sessions_and_streaks_over_midnight_count_once_and_days_between_do_not_count(
    assistant: Assistant, months: Person
) -> None:
    answer = assistant.ask(
        TOOL,
        a=JUNE,
        b=MAY,
        tz="UTC",
        metrics=["session_count", "longest_focus_ms", "commits", "app_switches"],
    )

    values = {
        name: (row["a"]["value"], row["b"]["value"], row["a"].get("per_active_day"), row["change"])
        for name, row in rows(answer).items()
    }
    assert values == {
        "session_count": (6, 10, 1.2, -4),
        "longest_focus_ms": (122 * MINUTE, 65 * MINUTE, None, 57 * MINUTE),
        "commits": (2, 1, 0.4, 1),
        "app_switches": (0, 0, 0, 0),
    }
    assert "percent" not in rows(answer)["app_switches"]
    assert rows(answer)["app_switches"]["phrase"] == "0 per active day, as 0"


def test_a_day_with_only_a_session_without_length_is_not_active(
    assistant: Assistant, months: Person, owner: psycopg.Connection[Any]
) -> None:
    row = months.connection.execute("select device_id from activity.device").fetchone()
    assert row is not None
    add_session(months, row[0], "Code", "Development", datetime(2025, 6, 8, 9, tzinfo=UTC), 0)
    mark_all_days(owner)

    answer = assistant.ask(TOOL, a=JUNE, b=MAY, tz="UTC", metrics=["session_count"])

    assert answer["periods"]["a"]["active_days"] == 5
    assert answer["data"][0]["a"]["value"] == 7


def test_notable_changes_come_first(assistant: Assistant, months: Person) -> None:
    answer = assistant.ask(TOOL, a=JUNE, b=MAY, tz="UTC")

    notable = [row["is_notable"] for row in answer["data"]]
    assert notable == sorted(notable, reverse=True)
    assert {row["metric"] for row in answer["data"] if row["is_notable"]} == {
        "tracked_ms", "productive_ms", "focus_ms", "longest_focus_ms"
    }  # fmt: skip
    assert len(answer["data"]) == 9


def test_metrics_without_data_are_not_known(assistant: Assistant, months: Person) -> None:
    answer = assistant.ask(
        TOOL, a=JUNE, b="2024-01-01", tz="UTC", metrics=["tracked_ms", "health:heart_rate"]
    )

    by_metric = rows(answer)
    assert by_metric["tracked_ms"]["phrase"] == "not known in b"
    assert by_metric["tracked_ms"]["b"] == {"days": 0}
    assert by_metric["health:heart_rate"]["phrase"] == "not known in a and b"
    assert "change" not in by_metric["health:heart_rate"]
    assert by_metric["health:heart_rate"]["unit"] == "bpm"


def test_periods_may_overlap_and_be_in_either_order(assistant: Assistant, months: Person) -> None:
    answer = assistant.ask(
        TOOL, a="2025-05-01/2025-05-05", b="2025-05-03/2025-05-10", tz="UTC", metrics=["tracked_ms"]
    )
    earlier = assistant.ask(TOOL, a=MAY, b=JUNE, tz="UTC", metrics=["tracked_ms"])

    (row,) = answer["data"]
    assert row["a"]["value"] == (56 + 57 + 58 + 59 + 60) * MINUTE
    assert row["b"]["value"] == (58 + 59 + 60 + 61 + 62 + 63 + 64 + 65) * MINUTE
    assert earlier["data"][0]["a"]["value"] == 605 * MINUTE
    assert (answer["range"]["from"], answer["range"]["to"]) == ("2025-05-01", "2025-05-10")


def test_measurements_are_averaged_over_the_days_with_data(
    assistant: Assistant, months: Person
) -> None:
    row = months.connection.execute(
        "insert into health.source (user_id, provider, name, kind) values (%s, 'x', 'watch', 'watch')"
        " returning source_id",
        [months.user_id],
    ).fetchone()
    assert row is not None
    months.connection.execute(
        "insert into health.metric (user_id, metric_type, unit, aggregation)"
        " values (%s, 'steps', 'count', 'sum')",
        [months.user_id],
    )
    for day, value in (("05-02", 8000), ("05-20", 90_000), ("06-01", 4000), ("06-09", 8000)):
        months.connection.execute(
            "insert into health.sample (user_id, source_id, metric_type, value, started_at, ended_at)"
            " values (%s, %s, 'steps', %s, %s, %s)",
            [months.user_id, row[0], value, f"2025-{day}T10:00:00Z", f"2025-{day}T11:00:00Z"],
        )

    answer = assistant.ask(TOOL, a=JUNE, b=MAY, tz="UTC", metrics=["health:steps"])

    (change,) = answer["data"]
    assert (change["a"]["value"], change["a"]["days"], change["b"]["value"]) == (6000, 2, 8000)
    assert change["unit"] == "count"
    assert change["phrase"] == "6000, 25 % less than 8000"


# The default second period


def days(alice: Person, *expressions: str) -> list[str]:
    """Return days as Postgres reckons them from ``today``."""
    chosen = ", ".join(f"({each})::date::text" for each in expressions)
    row = alice.connection.execute(
        f"select {chosen} from (select (now() at time zone 'UTC')::date as today) as x"  # noqa: S608 -- ours
    ).fetchone()
    assert row is not None
    return list(row)


QUARTER: Final = "date_trunc('quarter', today)::date"
MONDAY: Final = "date_trunc('week', today)::date"
FIRST: Final = "date_trunc('month', today)::date"


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        ("today", ("today", "today", "today - 1", "today - 1")),
        ("yesterday", ("today - 1", "today - 1", "today - 2", "today - 2")),
        ("this_week", (MONDAY, "today", f"{MONDAY} - 7", "today - 7")),
        ("last_week", (f"{MONDAY} - 7", f"{MONDAY} - 1", f"{MONDAY} - 14", f"{MONDAY} - 8")),
        (
            "this_month",
            (FIRST, "today", f"{FIRST} - interval '1 month'", "today - interval '1 month'"),
        ),
        (
            "last_month",
            (
                f"{FIRST} - interval '1 month'", f"{FIRST} - 1",
                f"{FIRST} - interval '2 months'", f"{FIRST} - interval '1 month 1 day'",
            ),
        ),
        ("last_7_days", ("today - 6", "today", "today - 13", "today - 7")),
        ("last_30_days", ("today - 29", "today", "today - 59", "today - 30")),
        (
            "last_quarter",
            (
                f"{QUARTER} - interval '3 months'", f"{QUARTER} - 1",
                f"{QUARTER} - interval '6 months'", f"{QUARTER} - interval '3 months 1 day'",
            ),
        ),
        (
            "this_quarter",
            (QUARTER, "today", f"{QUARTER} - interval '3 months'", "today - interval '3 months'"),
        ),
        (
            "this_year",
            (
                "date_trunc('year', today)", "today",
                "date_trunc('year', today) - interval '1 year'", "today - interval '1 year'",
            ),
        ),
        ("2025-06-16", ("'2025-06-16'", "'2025-06-16'", "'2025-06-15'", "'2025-06-15'")),
        (JUNE, ("'2025-06-01'", "'2025-06-10'", "'2025-05-22'", "'2025-05-31'")),
    ],
)  # fmt: skip
def test_a_period_is_compared_with_the_one_before_by_default(
    assistant: Assistant, alice: Person, a: str, expected: tuple[str, ...]
) -> None:
    answer = assistant.ask(TOOL, a=a, metrics=["tracked_ms"], tz="UTC")

    periods = answer["periods"]
    assert [
        periods["a"]["from"], periods["a"]["to"], periods["b"]["from"], periods["b"]["to"]
    ] == days(alice, *expected)  # fmt: skip


@pytest.fixture
def afternoons(alice: Person, owner: psycopg.Connection[Any]) -> datetime:
    """Noon of today, before which alice programs for 90 minutes, and for an hour on each of nine days before.

    On those days she programs for 90 minutes in the afternoon too.
    """
    row = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [alice.user_id],
    ).fetchone()
    assert row is not None
    noon = midday()
    for before in range(1, 10):
        then = noon - timedelta(days=before)
        add_session(alice, row[0], "Code", "Development", then - timedelta(hours=1), 60)
        add_session(alice, row[0], "Code", "Development", then + timedelta(hours=2), 90)
    add_session(alice, row[0], "Code", "Development", noon - timedelta(hours=2), 90)
    mark_all_days(owner)
    return noon


def minutes(answer: dict[str, Any], metric: str) -> tuple[float, ...]:
    """Return the values of both periods, and the mean of its active days."""
    row = rows(answer)[metric]
    sides = (row["a"], row["b"])
    each = (*(side["value"] for side in sides), *(side.get("per_active_day", 0) for side in sides))
    return tuple(value / MINUTE for value in each)


def test_today_is_compared_with_the_same_hours_of_other_days(
    assistant: Assistant, afternoons: datetime
) -> None:
    tz, today = str(afternoons.tzinfo), afternoons.date()
    days_before = f"{today - timedelta(days=8)}/{today - timedelta(days=1)}"

    yesterday = assistant.ask(TOOL, a="today", tz=tz)
    many = assistant.ask(TOOL, a="today", b=days_before, tz=tz)
    turned = assistant.ask(TOOL, a=days_before, b="today", tz=tz)

    assert minutes(yesterday, "tracked_ms") == (90, 60, 90, 60)
    assert minutes(many, "tracked_ms") == (90, 480, 90, 60)
    assert minutes(many, "longest_focus_ms") == (90, 60, 0, 0)
    assert minutes(turned, "tracked_ms") == (480, 90, 60, 90)
    sessions = rows(many)["session_count"]
    assert (sessions["a"]["value"], sessions["b"]["value"]) == (1, 8)
    assert "same_hours" not in many["periods"]["a"]
    said = many["periods"]["b"]["same_hours"]
    assert said.startswith("each day until 1")
    assert said.endswith(", because today is not over")


def test_the_last_day_of_a_period_is_compared_with_the_same_hours_of_its_counterpart(
    assistant: Assistant, afternoons: datetime
) -> None:
    tz, today = str(afternoons.tzinfo), afternoons.date()
    three_days = f"{today - timedelta(days=2)}/{today}"
    # Two days of it have not begun, so nothing of their counterparts counts.
    with_future = f"{today}/{today + timedelta(days=2)}"

    answer = assistant.ask(TOOL, a=three_days, tz=tz)
    future = assistant.ask(TOOL, a=with_future, tz=tz)

    assert minutes(answer, "tracked_ms") == (390, 360, 130, 120)
    assert rows(answer)["tracked_ms"]["b"]["days"] == 3
    counterpart = today - timedelta(days=3)
    assert answer["periods"]["b"]["same_hours"].startswith(f"until {counterpart:%a %Y-%m-%d} 1")
    assert minutes(future, "tracked_ms") == (90, 60, 90, 60)
    assert rows(future)["tracked_ms"]["b"]["days"] == 1


def test_of_periods_of_different_length_an_active_day_is_one_that_is_over(
    assistant: Assistant, afternoons: datetime
) -> None:
    tz, today = str(afternoons.tzinfo), afternoons.date()

    answer = assistant.ask(
        TOOL,
        a=f"{today - timedelta(days=2)}/{today}",
        b=f"{today - timedelta(days=7)}/{today - timedelta(days=3)}",
        tz=tz,
    )

    assert minutes(answer, "tracked_ms") == (390, 750, 150, 150)
    assert [side for side in "ab" if "same_hours" in answer["periods"][side]] == []


def test_all_time_may_be_compared_with_a_part_of_it(assistant: Assistant, months: Person) -> None:
    answer = assistant.ask(TOOL, a="2025-06-03", b="all", tz="UTC", metrics=["tracked_ms"])
    other = assistant.ask(TOOL, a="all", b="2025-06-03", tz="UTC", metrics=["tracked_ms"])

    assert answer["periods"]["b"]["from"] == other["periods"]["a"]["from"] == "2025-05-01"
    # 125 minutes of the third of June, of which five are news.
    assert answer["data"][0]["a"]["value"] == other["data"][0]["b"]["value"] == 125 * MINUTE
    assert answer["data"][0]["b"]["value"] == (605 + 600 + 600 + 10) * MINUTE


def test_all_time_begins_at_the_earliest_with_the_first_valid_day(
    assistant: Assistant, alice: Person
) -> None:
    """One row with a wrong year must not make a statement read two millennia."""
    alice.connection.execute(
        "insert into music.listen (user_id, listened_at, track, artist, source) "
        "values (%s, '0001-01-01T12:00:00Z', 'Song', 'Band', 'spotify')",
        [alice.user_id],
    )

    answer = assistant.ask(TOOL, a="all", b="2025-06-03", tz="UTC", metrics=["tracked_ms"])

    assert answer["periods"]["a"]["from"] == "1900-01-01"
    assert answer["range"]["from"] == "1900-01-01"


# Time by a key, and of a filter


def sums(answer: dict[str, Any], key: str) -> dict[str, tuple[float, float]]:
    """Return the minutes of both periods by a key, in the order of the answer."""
    return {
        row["by"][key]: (row["a"]["value"] / MINUTE, row["b"]["value"] / MINUTE)
        for row in answer["data"]
    }


def test_time_by_application_is_compared_the_largest_change_first(
    assistant: Assistant, months: Person
) -> None:
    apps = assistant.ask(TOOL, a=JUNE, b=MAY, tz="UTC", group_by="app")
    news = assistant.ask(TOOL, a=JUNE, b=MAY, tz="UTC", filter={"categories": "news"})
    both = assistant.ask(
        TOOL, a=JUNE, b=MAY, tz="UTC", group_by=["category"], filter={"apps": ["code", "Cod"]}
    )

    assert list(sums(apps, "app").items()) == [("Firefox", (10, 0)), ("Code", (600, 605))]
    _, code = apps["data"]
    assert code == {
        "by": {"app": "Code"}, "metric": "tracked_ms", "unit": "ms",
        "phrase": "2 h per active day, 98 % more than 1 h 1 min",
        "a": {
            "value": 600 * MINUTE, "value_text": "10 h",
            "per_active_day": 120 * MINUTE, "per_active_day_text": "2 h",
        },
        "b": {
            "value": 605 * MINUTE, "value_text": "10 h 5 min",
            "per_active_day": 60.5 * MINUTE, "per_active_day_text": code["b"]["per_active_day_text"],
        },
        "change": -5 * MINUTE, "change_text": "-5 min",
        "percent": -0.83, "percent_per_active_day": 98.35,
    }  # fmt: skip
    assert apps["truncated"] is False
    assert minutes(news, "tracked_ms") == (10, 0, 2, 0)
    assert sums(both, "category") == {"Development": (600, 605)}
    assert [each["name"] for each in both["unmatched"]] == ["Cod"]


def test_time_is_compared_of_periods_that_overlap(assistant: Assistant, months: Person) -> None:
    days = {"a": "2025-05-01/2025-05-05", "b": "2025-05-03/2025-05-20", "tz": "UTC"}
    expected = (56 + 57 + 58 + 59 + 60, 58 + 59 + 60 + 61 + 62 + 63 + 64 + 65 + 600)

    assert sums(assistant.ask(TOOL, **days, group_by="app"), "app") == {"Code": expected}
    filtered = assistant.ask(TOOL, **days, filter={"apps": "Code"}, metrics=["tracked_ms"])
    assert minutes(filtered, "tracked_ms")[:2] == expected


def test_the_twenty_projects_with_the_largest_changes_are_compared(
    assistant: Assistant, months: Person, owner: psycopg.Connection[Any]
) -> None:
    row = months.connection.execute("select device_id from activity.device").fetchone()
    assert row is not None
    spent: dict[str, list[int]] = {}
    for number in range(48):
        project, side = f"project {number % 24}", number % 5 % 2
        length = 1 + number * 7 % 29
        start = datetime(2025, 5 + side, 4, tzinfo=UTC) + timedelta(minutes=30 * number)
        spent.setdefault(project, [0, 0])[1 - side] += length
        months.connection.execute(
            "insert into activity.coding_session"
            " (user_id, idempotency_key, device_id, project, language, started_at, ended_at)"
            " values (%s, %s, %s, %s, 'Python', %s, %s)",
            [
                months.user_id, f"c{number}", row[0], project, start,
                start + timedelta(minutes=length),
            ],
        )  # fmt: skip
    mark_all_days(owner)

    answer = assistant.ask(TOOL, a=JUNE, b=MAY, tz="UTC", group_by="project")

    order = sorted(spent, key=lambda name: (-abs(spent[name][0] - spent[name][1]), name))
    assert list(sums(answer, "project").items()) == [
        (name, tuple(spent[name])) for name in order[:20]
    ]
    assert {row["metric"] for row in answer["data"]} == {"coding_ms"}
    assert answer["truncated"] is True


def test_time_of_a_day_that_is_not_over_is_compared_with_the_same_hours(
    assistant: Assistant, afternoons: datetime
) -> None:
    tz, today = str(afternoons.tzinfo), afternoons.date()
    each_day = {"b": f"{today - timedelta(days=8)}/{today - timedelta(days=1)}"}
    longer = {
        "a": f"{today - timedelta(days=2)}/{today}",
        "b": f"{today - timedelta(days=7)}/{today - timedelta(days=3)}",
    }

    def code(**days: str) -> tuple[float, ...]:
        answer = assistant.ask(TOOL, **{"a": "today"} | days, tz=tz, filter={"apps": "Code"})
        return minutes(answer, "tracked_ms")

    assert code() == (90, 60, 90, 60)
    assert code(**each_day) == (90, 480, 90, 60)
    assert code(**longer) == (390, 750, 150, 150)


# Scopes and mistakes


@pytest.mark.parametrize(
    ("metric", "scope"),
    [
        ("commits", "read:code"), ("asleep_ms", "read:health"), ("health:steps", "read:health"),
        ("listened_ms", "read:music"), ("distance_m", "read:location"), ("meeting_ms", "read:content"),
    ],
)  # fmt: skip
def test_a_metric_needs_the_scope_of_its_domain(
    api: TestClient, alice: Person, metric: str, scope: str
) -> None:
    few = Assistant(api, alice.headers("read:activity")).call(TOOL, metrics=["tracked_ms", metric])
    more = Assistant(api, alice.headers("read:activity", scope)).call(TOOL, metrics=[metric])

    assert error(few) == (403, 403, 7)
    assert f'scope="read:activity {scope}"' in few.headers["www-authenticate"]
    assert more.status_code == 200


PERIOD_SAID: Final = (
    "must be one of today, yesterday, this_week, last_week, this_month, last_month, this_quarter,"
    " last_quarter, this_year, last_year, last_7_days, last_14_days, last_30_days, last_90_days, next_7_days,"
    " all, a day such as 2025-06-16, or two as 2025-06-01/2025-06-30"
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": "May"}, f"a: {PERIOD_SAID}"),
        ({"b": "2025-02-30"}, f"b: {PERIOD_SAID}"),
        ({"a": "2025-06-01/"}, f"a: {PERIOD_SAID}"),
        ({"a": "2025-06-01/today"}, f"a: {PERIOD_SAID}"),
        ({"a": "2025-06-02/2025-06-01"}, "a: must not end before it begins"),
        ({"a": "2000-01-01/2025-06-01"}, "a: must have at most 3700 days"),
        ({"a": 5}, "a: must be a string"),
        ({"a": {"from": "2025-06-01"}}, "a: must be a string"),
        ({"a": "all"}, "b: is required if a is all, because no period comes before all"),
        ({"metrics": []}, "metrics: list should have at least 1 item after validation, not 0"),
        ({"metrics": 5}, "metrics: input should be a valid list"),
        ({"metrics": [7]}, "metrics[0]: must be a string"),
        (
            {"group_by": "app", "metrics": ["coding_ms"]},
            "metrics: with group_by or filter, leave it out, because tracked_ms is compared",
        ),
        (
            {"group_by": "app", "filter": {"projects": "svc", "languages": "SQL"}},
            "filter: projects and languages cannot be used with group_by app",
        ),
        (
            {"filter": {"apps": "Code", "projects": "svc"}},
            "filter: apps cannot be used with projects",
        ),
    ],
)
def test_an_invalid_period_or_metric_is_an_error(
    assistant: Assistant, given: dict[str, Any], said: str
) -> None:
    assert assistant.mistake(TOOL, **given) == said


def test_metrics_that_nobody_measured_are_named_with_the_nearest_ones(
    assistant: Assistant, owner: psycopg.Connection[Any], alice: Person
) -> None:
    measure(owner, alice, WATCH, "2025-06-16T12:00Z", "2025-06-16T13:00Z", 4000)

    answer = assistant.ask(TOOL, metrics=["tracked_ms", "health:stepps", "health:heart_rate"])
    said = assistant.mistake(TOOL, metrics=["health:stepps", "health:asleep"])

    (unmatched,) = answer["unmatched"]
    assert (unmatched["name"], unmatched["nearest"][0]) == ("health:stepps", "health:steps")
    assert set(rows(answer)) == {"tracked_ms", "health:heart_rate"}
    steps, asleep = said.splitlines()
    assert steps.startswith(
        "metrics: nothing of the person's has the name health:stepps; the nearest"
    )
    assert '["asleep_ms", ' in asleep


@pytest.mark.parametrize("name", ["steps", "TRACKED_MS", "health:", "health:Steps"])
def test_the_error_about_an_unknown_metric_lists_the_known_ones(
    assistant: Assistant, name: str
) -> None:
    said = assistant.mistake(TOOL, metrics=["tracked_ms", name])

    assert said.startswith("metrics[1]: must be one of tracked_ms, productive_ms,")
    assert said.endswith("or health: and the name of a metric of health")


def test_a_metric_requested_twice_is_in_the_answer_once(assistant: Assistant) -> None:
    answer = assistant.ask(TOOL, metrics=["tracked_ms", "tracked_ms"])

    assert [row["metric"] for row in answer["data"]] == ["tracked_ms"]


def test_a_day_that_the_zone_skipped_has_no_effect(assistant: Assistant, months: Person) -> None:
    answer = assistant.ask(
        TOOL, a="2011-12-30/2012-01-01", b="2011-12-28/2011-12-29", tz="Pacific/Apia"
    )

    assert answer["periods"]["a"]["days"] == 3
    assert answer["periods"]["a"]["active_days"] == 0
    assert date.fromisoformat(answer["range"]["from"]) == date(2011, 12, 28)
