"""Focus and its interruptions, on an invented day."""

from typing import Any, Final

import psycopg
import pytest

from tests.conftest import Person, mark_all_days
from tests.mcp.assistant import Assistant

DAY: Final = {"from_": "2025-06-17", "to": "2025-06-17", "tz": "UTC"}


@pytest.fixture
def tuesday(alice: Person, owner: psycopg.Connection[Any]) -> Person:
    """Alice, who codes five times, interrupted by chess twice, by mail and by a pause."""
    device = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [alice.user_id],
    ).fetchone()
    assert device is not None
    for start, end, app, category in (
        ("08:00", "08:20", "Code", "Development"),
        ("08:20", "08:25", "Chess", "Games"),
        ("08:25", "08:45", "Code", "Development"),
        ("08:45", "08:50", "Chess", "Games"),
        ("08:50", "09:05", "Code", "Development"),
        ("09:05", "09:10", "Mail", "Email"),
        ("09:10", "09:20", "Code", "Development"),
        ("10:20", "10:35", "Code", "Development"),
    ):
        alice.connection.execute(
            "insert into activity.app_session "
            "(user_id, idempotency_key, device_id, started_at, ended_at, app, category) "
            "values (%s, %s, %s, %s, %s, %s, %s)",
            [
                alice.user_id,
                start,
                device[0],
                f"2025-06-17T{start}Z",
                f"2025-06-17T{end}Z",
                app,
                category,
            ],
        )
    mark_all_days(owner)
    return alice


def test_causes_of_broken_focus_are_ranked(assistant: Assistant, tuesday: Person) -> None:
    answer = assistant.ask("get_focus", **DAY)

    assert [
        (row["reason"], row.get("app"), row.get("category"), row["count"], row["percent"])
        for row in answer["breakers"]
    ] == [
        ("distraction", "Chess", "Games", 2, 50.0),
        ("neutral", "Mail", "Email", 1, 25.0),
        ("idle", None, None, 1, 25.0),
    ]
    assert [row["average_before_text"] for row in answer["breakers"]] == [
        "20 min", "15 min", "10 min"
    ]  # fmt: skip


def test_streaks_and_switches_are_added_up(assistant: Assistant, tuesday: Person) -> None:
    answer = assistant.ask("get_focus", **DAY)

    assert answer["totals"] == {
        "streak_count": 5,
        "focus_ms": 4_800_000,
        "focus_text": "1 h 20 min",
        "longest_ms": 1_200_000,
        "longest_text": "20 min",
        "average_ms": 960_000,
        "average_text": "16 min",
    }
    assert answer["longest"] == {
        "started_at": "2025-06-17T08:00:00.000Z",
        "started_local": "Tue 2025-06-17 08:00",
        "ended_at": "2025-06-17T08:20:00.000Z",
        "ended_local": "Tue 2025-06-17 08:20",
        "duration_ms": 1_200_000,
        "duration_text": "20 min",
    }
    assert [row["broken_by"]["reason"] for row in answer["data"]] == [
        "end_of_data", "idle", "neutral", "distraction", "distraction"
    ]  # fmt: skip
    assert answer["switch_totals"]["switch_count"] == 6
    assert [(row["from_app"], row["to_app"], row["count"]) for row in answer["pairs"]] == [
        ("Chess", "Code", 2),
        ("Code", "Chess", 2),
        ("Code", "Mail", 1),
        ("Mail", "Code", 1),
    ]


def test_what_is_not_in_pages_is_on_the_first_one_alone(
    assistant: Assistant, tuesday: Person, owner: psycopg.Connection[Any]
) -> None:
    tuesday.connection.execute(
        "insert into activity.app_session "
        "(user_id, idempotency_key, device_id, started_at, ended_at, app, category) "
        "select user_id, start::text, device_id, start, start + interval '15 minutes', 'Code', 'Development' "
        "  from activity.device, "
        "       generate_series("
        "           timestamptz '2025-06-17T12:00Z', '2025-06-17T16:00Z', interval '1 hour') as start"
    )
    mark_all_days(owner)
    once = {"totals", "longest", "breakers", "switch_totals", "pairs", "switches"}

    first = assistant.ask("get_focus", include_switches=True, **DAY)
    second = assistant.ask("get_focus", include_switches=True, cursor=first["next_cursor"], **DAY)

    assert first.keys() >= once
    assert not second.keys() & once
    assert first["totals"]["streak_count"] == len(first["data"]) + len(second["data"])


def test_switches_are_listed_on_request(assistant: Assistant, tuesday: Person) -> None:
    without = assistant.ask("get_focus", **DAY)
    answer = assistant.ask("get_focus", include_switches=True, **DAY)

    assert without["switches"] == []
    assert [(row["at"][11:16], row["to_app"]) for row in answer["switches"]] == [
        ("09:10", "Code"),
        ("09:05", "Mail"),
        ("08:50", "Code"),
        ("08:45", "Chess"),
        ("08:25", "Code"),
        ("08:20", "Chess"),
    ]
    assert (without["truncated"], answer["truncated"]) == (False, False)


def test_a_streak_that_begins_before_the_range_counts_in_part(
    assistant: Assistant, tuesday: Person
) -> None:
    answer = assistant.ask(
        "get_focus", from_="2025-06-17T09:15:00Z", to="2025-06-17T10:00:00Z", tz="UTC"
    )

    assert answer["totals"]["focus_text"] == "5 min"
    assert answer["longest"]["duration_text"] == "10 min"
    assert [row["reason"] for row in answer["breakers"]] == ["idle"]


def test_without_data_nothing_broke_focus(assistant: Assistant, alice: Person) -> None:
    answer = assistant.ask("get_focus", period="all", include_switches=True)

    assert (answer["breakers"], answer.get("longest"), answer["data"]) == ([], None, [])
    assert "average_before_text" not in answer["switch_totals"]


@pytest.mark.parametrize("given", [1, "true", [], 0.0])
def test_the_flag_for_switches_must_be_a_boolean(
    assistant: Assistant, alice: Person, given: object
) -> None:
    said = assistant.mistake("get_focus", include_switches=given)

    assert said == "include_switches: input should be a valid boolean"
