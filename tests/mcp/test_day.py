"""A day beside the 28 days before it, worked out by hand."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.mcp.tools import measures
from tests.conftest import Person, mark_all_days
from tests.mcp.assistant import Assistant
from tests.midday import midday

TOOL: Final = "get_day"
DAY: Final = date(2025, 7, 1)
MINUTE: Final = 60_000
WORDS: Final = "or today, yesterday, or a weekday such as monday"


def use(alice: Person, device_id: Any, app: str, category: str, at: datetime, minutes: int) -> None:
    alice.connection.execute(
        "insert into activity.app_session"
        " (user_id, idempotency_key, device_id, app, category, started_at, ended_at)"
        " values (%s, %s, %s, %s, %s, %s, %s)",
        [
            alice.user_id, f"{app} {at}", device_id, app, category, at, at + timedelta(minutes=minutes)
        ],
    )  # fmt: skip


def at(day: date, hour: int) -> datetime:
    return datetime(day.year, day.month, day.day, hour, tzinfo=UTC)


def laptop(alice: Person) -> Any:
    row = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [alice.user_id],
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def life(alice: Person, owner: psycopg.Connection[Any]) -> Person:
    """Alice, who programs for 60 or 80 minutes a day in turns, and on one day for 120 and reads news."""
    device_id = laptop(alice)
    for before in range(1, 29):
        minutes = 60 if before % 2 else 80
        use(alice, device_id, "Code", "Development", at(DAY - timedelta(days=before), 9), minutes)
    use(alice, device_id, "Code", "Development", at(DAY, 8), 120)
    use(alice, device_id, "Firefox", "News", at(DAY, 12), 10)
    # More than 28 days before, so without effect on normal values.
    use(alice, device_id, "Code", "Development", at(DAY - timedelta(days=29), 9), 900)
    for key, title in (("a", "Mend it"), ("b", "x" * 300)):
        alice.connection.execute(
            "insert into code.event (user_id, provider, provider_key, type, action, occurred_at, repository,"
            " title) values (%s, 'github', %s, 'commit', 'pushed', '2025-07-01T10:00:00Z', 'me/svc', %s)",
            [alice.user_id, key, title],
        )
    alice.connection.execute(
        "insert into music.listen (user_id, listened_at, track, artist, played_ms, source)"
        " values (%s, '2025-07-01T11:00:00Z', 'Song', 'Band', 180000, 'spotify')",
        [alice.user_id],
    )
    mark_all_days(owner)
    return alice


def totals(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {
        row["metric"]: tuple(row.get(each) for each in ("value", "normal", "phrase"))
        for row in rows
    }


def test_each_total_is_compared_with_the_28_days_before(assistant: Assistant, life: Person) -> None:
    answer = assistant.ask(TOOL, date="2025-07-01", tz="UTC")

    measured = totals(answer["totals"])
    # Of 60 and 80 in turns the mean is 70, and the deviation 10.18.
    assert measured["tracked_ms"] == (
        130 * MINUTE, 70 * MINUTE, "much more than usual (usually 1 h 10 min)"
    )  # fmt: skip
    assert measured["productive_ms"][:2] == (120 * MINUTE, 70 * MINUTE)
    assert [row.get("z") for row in answer["totals"]][:3] == [5.89, 4.91, None]
    assert [row for row in answer["totals"] if "days" in row] == []
    assert measured["distracted_ms"] == (
        10 * MINUTE, 0, "more than on any day (usually 0 s)"
    )  # fmt: skip
    assert measured["neutral_ms"] == (0, 0, "the same as every day (usually 0 s)")
    assert measured["session_count"][:2] == (2, 1)
    assert measured["focus_ms"][:2] == (120 * MINUTE, 70 * MINUTE)
    assert answer["totals"][0]["value_text"] == "2 h 10 min"
    assert list(measured) == [
        "tracked_ms", "productive_ms", "distracted_ms", "neutral_ms", "coding_ms", "app_switches",
        "session_count", "focus_ms", "longest_focus_ms",
    ]  # fmt: skip


def test_a_day_has_its_top_applications_categories_and_projects(
    assistant: Assistant, life: Person
) -> None:
    answer = assistant.ask(TOOL, date="2025-07-01", tz="UTC")

    assert (answer["date"], answer["is_over"]) == ("2025-07-01", True)
    assert answer["first_activity_at"] == "2025-07-01T08:00:00.000Z"
    assert answer["last_activity_at"] == "2025-07-01T12:10:00.000Z"
    assert answer["top_apps"] == [
        {"name": "Code", "total_ms": 7_200_000, "total_text": "2 h", "percent": 92.31},
        {"name": "Firefox", "total_ms": 600_000, "total_text": "10 min", "percent": 7.69},
    ]
    assert [row["name"] for row in answer["top_categories"]] == ["Development", "News"]
    assert answer["top_projects"] == []
    assert answer["focus"] == {
        "streak_count": 1,
        "average_ms": 7_200_000,
        "average_text": "2 h",
    }


def test_other_domains_are_included_with_their_scopes(assistant: Assistant, life: Person) -> None:
    answer = assistant.ask(TOOL, date="2025-07-01", tz="UTC")

    assert answer["omitted"] == []
    assert totals(answer["commits"]["totals"])["commits"][:2] == (2, 0)
    assert [(row["title"], row["repository"]) for row in answer["commits"]["recent"]] in (
        [("Mend it", "me/svc"), (f"{'x' * 199}…", "me/svc")],
        [(f"{'x' * 199}…", "me/svc"), ("Mend it", "me/svc")],
    )
    assert totals(answer["music"]["totals"])["listened_ms"][:2] == (180_000, 0)
    assert answer["music"]["top_artist"] == {"artist": "Band", "play_count": 1}
    assert totals(answer["sleep"]["totals"])["asleep_ms"] == (None, None, "not known")
    assert "night" not in answer["sleep"]
    assert answer["meetings"]["events"] == []


def test_domains_without_their_scope_are_named_and_left_out(api: TestClient, life: Person) -> None:
    few = Assistant(api, life.headers("read:activity")).ask(TOOL, date="2025-07-01")
    more = Assistant(api, life.headers("read:activity", "read:music")).ask(TOOL, date="2025-07-01")

    assert few["omitted"] == [
        {"section": "commits", "scope": "read:code"},
        {"section": "sleep", "scope": "read:health"},
        {"section": "meetings", "scope": "read:content"},
        {"section": "music", "scope": "read:music"},
    ]
    assert not few.keys() & {each["section"] for each in few["omitted"]}
    assert "Mend it" not in str(few)
    assert "Band" not in str(few)
    assert [each["section"] for each in more["omitted"]] == ["commits", "sleep", "meetings"]
    assert more["music"]["top_artist"]["artist"] == "Band"


def test_a_day_without_data_is_unknown(assistant: Assistant, life: Person) -> None:
    answer = assistant.ask(TOOL, date="2025-08-15", tz="UTC")

    assert {row["phrase"] for row in answer["totals"]} == {"not known"}
    assert [row for row in answer["totals"] if "value" in row] == []
    assert "first_activity_at" not in answer
    assert answer["data_gaps"] == [{"from": "2025-08-15", "to": "2025-08-15", "days": 1}]


def test_a_day_that_is_not_over_is_compared_with_the_same_hours(
    assistant: Assistant, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    device_id = laptop(alice)
    noon = midday()
    today = noon.date()
    owner.execute(
        "update identity.user set timezone = %s where user_id = %s",
        [str(noon.tzinfo), alice.user_id],
    )
    for before in range(1, 9):
        then = noon - timedelta(days=before)
        use(alice, device_id, "Code", "Development", then - timedelta(hours=1), 60)
        use(alice, device_id, "Firefox", "News", then + timedelta(hours=2), 90)
    use(alice, device_id, "Code", "Development", noon - timedelta(hours=2), 90)
    for title, is_enabled in (("Little", True), ("Given up", False)):
        alice.connection.execute(
            "insert into activity.goal"
            " (user_id, title, metric, comparison, target, period, is_enabled)"
            " values (%s, %s, 'tracked_ms', 'at_least', 7200000, 'day', %s)",
            [alice.user_id, title, is_enabled],
        )
    mark_all_days(owner)

    answer = assistant.ask(TOOL)
    yesterday = assistant.ask(TOOL, date=f"{today - timedelta(days=1)}")
    long_ago = assistant.ask(TOOL, date=f"{today - timedelta(days=30)}")

    until = answer["normal_until"]
    assert (answer["is_over"], yesterday.get("normal_until")) == (False, None)
    assert "12:00" <= until < "14:00"
    by_metric = totals(answer["totals"])
    assert by_metric["tracked_ms"] == (
        90 * MINUTE, 60 * MINUTE, "more than on any day (usually 1 h)"
    )  # fmt: skip
    assert by_metric["distracted_ms"][:2] == (0, 0)
    assert by_metric["session_count"][:2] == (1, 1)
    assert by_metric["longest_focus_ms"][:2] == (90 * MINUTE, 60 * MINUTE)
    assert by_metric["app_switches"][:2] == (0, 0)
    assert totals(yesterday["totals"])["tracked_ms"][:2] == (150 * MINUTE, 150 * MINUTE)
    (goal,) = answer["goals"]
    assert (goal["title"], goal["value_text"], goal["target_text"]) == (
        "Little",
        "1 h 30 min",
        "2 h",
    )
    assert goal["status"] == "in_progress"
    assert [(goal["value_text"], goal["status"]) for goal in yesterday["goals"]] == [
        ("2 h 30 min", "met")
    ]
    assert long_ago["goals"] == []


@pytest.mark.parametrize(
    ("value", "normal", "deviation", "days", "phrase"),
    [
        (60.0, 60.0, 10.0, 28, "about as usual (usually 60)"),
        (69.9, 60.0, 10.0, 28, "about as usual (usually 60)"),
        (70.0, 60.0, 10.0, 28, "more than usual (usually 60)"),
        (50.0, 60.0, 10.0, 28, "less than usual (usually 60)"),
        (80.0, 60.0, 10.0, 28, "much more than usual (usually 60)"),
        (40.0, 60.0, 10.0, 28, "much less than usual (usually 60)"),
        (40.0, 60.0, 10.0, 6, "too few earlier days to compare with"),
        (40.0, None, None, 0, "too few earlier days to compare with"),
        (60.0, 60.0, 0.0, 7, "the same as every day (usually 60)"),
        (59.0, 60.0, 0.0, 7, "less than on any day (usually 60)"),
        (None, 60.0, 10.0, 28, "not known"),
    ],
)  # fmt: skip
def test_deviations_from_normal_are_phrased_in_words(
    value: float | None,
    normal: float | None,
    deviation: float | None,
    days: int,
    phrase: str,
) -> None:
    compared = {
        "metric": "app_switches", "value": value, "normal": normal, "deviation": deviation, "days": days
    }  # fmt: skip

    assert measures.measure(compared)["phrase"] == phrase


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"date": "2025-02-30"}, f"date: is not a day that exists; {WORDS}"),
        ({"date": "the other day"}, f"date: must be a calendar day, such as 2025-06-16; {WORDS}"),
        (
            {"date": "2025-06-16T10:00:00Z"},
            f"date: must be a calendar day, such as 2025-06-16; {WORDS}",
        ),
        ({"date": 20250616}, "date: must be a string"),
        ({"date": "0001-01-01"}, f"date: must be between 1900-01-01 and 9998-12-31; {WORDS}"),
        ({"period": "today"}, "period: there is no such argument; there are tz, date"),
    ],
)
def test_an_invalid_day_is_an_error(assistant: Assistant, given: dict[str, Any], said: str) -> None:
    assert assistant.mistake(TOOL, **given) == said


def test_a_day_may_be_a_word(assistant: Assistant) -> None:
    """In Kiritimati it is mostly the day after."""
    now = datetime.now(ZoneInfo("Pacific/Kiritimati")).date()

    def day(word: str) -> date:
        return date.fromisoformat(assistant.ask(TOOL, date=word, tz="Pacific/Kiritimati")["date"])

    assert (day("today"), day("Yesterday")) == (now, now - timedelta(days=1))
    for ago in range(7):
        # Today's own name is today.
        assert day(f"{now - timedelta(days=ago):%A}") == now - timedelta(days=ago)


@pytest.mark.parametrize(
    ("day", "tz"),
    [
        ("1900-01-01", "UTC"),
        ("2011-12-30", "Pacific/Apia"),
    ],
)
def test_the_first_and_a_skipped_day_can_be_requested(
    assistant: Assistant, day: str, tz: str
) -> None:
    answer = assistant.ask(TOOL, date=day, tz=tz)

    assert (answer["range"]["from"], answer["range"]["to"]) == (day, day)
    assert answer["top_apps"] == []


def test_the_last_day_of_the_calendar_is_in_the_future(assistant: Assistant) -> None:
    said = assistant.mistake(TOOL, date="9998-12-31", tz="Pacific/Kiritimati")

    assert said.startswith("9998-12-31 is not yet: today is ")
