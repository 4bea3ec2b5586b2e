"""Answers of single tools, worked out by hand; and the cutting of answers that are too long."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
import pytest
from starlette.testclient import TestClient

from resourceserver.mcp.tool import Tool
from resourceserver.mcp.tools import TOOLS, status
from tests.conftest import Person, mark_all_days
from tests.mcp.assistant import Assistant, without_texts

GET: Final = {tool.name: tool for tool in TOOLS}


def listen(
    alice: Person, at: str, artist: str, track: str, ms: int | None, album: str | None
) -> None:
    alice.connection.execute(
        "insert into music.listen (user_id, listened_at, track, artist, album, played_ms, source) "
        "values (%s, %s, %s, %s, %s, %s, 'spotify')",
        [alice.user_id, at, track, artist, album, ms],
    )


@pytest.fixture
def plays(alice: Person) -> Person:
    """Alice, with seven plays over three days of June 2025 in Berlin."""
    alice.connection.execute("update identity.user set timezone = 'Europe/Berlin'")
    listen(alice, "2025-06-15T21:59:59Z", "Before", "Midnight", 1_000_000, None)
    listen(alice, "2025-06-15T22:00:00Z", "Ana", "One", 100_000, "A")
    listen(alice, "2025-06-16T10:00:00Z", "Ana", "Two", 200_000, "A")
    listen(alice, "2025-06-16T11:00:00Z", "Bea", "One", 400_000, "B")
    listen(alice, "2025-06-17T10:00:00Z", "Cleo", "Three", 50_000, None)
    listen(alice, "2025-06-18T10:00:00Z", "Ana", "One", 250_000, "A")
    listen(alice, "2025-06-18T22:00:00Z", "After", "Midnight", 1_000_000, None)
    return alice


JUNE: Final = {"from_": "2025-06-16", "to": "2025-06-18"}


def rows(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (row["name"], row.get("artist"), row["listened_ms"], row["play_count"], row["percent"])
        for row in answer["data"]
    ]


def test_listening_by_artist(assistant: Assistant, plays: Person) -> None:
    answer = assistant.ask("get_listening", **JUNE)

    assert rows(answer) == [
        ("Ana", None, 550_000, 3, 55.0),
        ("Bea", None, 400_000, 1, 40.0),
        ("Cleo", None, 50_000, 1, 5.0),
    ]
    assert answer["data"][0]["listened_text"] == "9 min"
    assert answer["totals"]["listened_text"] == "17 min"
    assert "other" not in answer
    assert answer["truncated"] is False
    assert answer["group_by"] == "artist"
    assert [play["track"] for play in answer["recent"]] == ["One", "Three", "One"]


def test_listening_by_album_and_track_names_the_artist(assistant: Assistant, plays: Person) -> None:
    albums = assistant.ask("get_listening", group_by="album", **JUNE)
    tracks = assistant.ask("get_listening", group_by="track", **JUNE)

    assert rows(albums) == [("A", "Ana", 550_000, 3, 55.0), ("B", "Bea", 400_000, 1, 40.0)]
    assert rows(tracks) == [
        ("One", "Bea", 400_000, 1, 40.0),
        ("One", "Ana", 350_000, 2, 35.0),
        ("Two", "Ana", 200_000, 1, 20.0),
        ("Three", "Cleo", 50_000, 1, 5.0),
    ]


def test_listening_by_day_is_in_order_and_keeps_the_last_days(
    assistant: Assistant, plays: Person
) -> None:
    answer = assistant.ask("get_listening", group_by="day", top=2, **JUNE)

    assert rows(answer) == [
        ("2025-06-17", None, 50_000, 1, 5.0),
        ("2025-06-18", None, 250_000, 1, 25.0),
    ]
    assert (answer["other"]["rows"], answer["other"]["listened_ms"]) == (1, 700_000)
    assert answer["truncated"] is True


def test_the_rest_of_listening_is_added_up(assistant: Assistant, plays: Person) -> None:
    answer = assistant.ask("get_listening", top=1, **JUNE)

    assert rows(answer) == [("Ana", None, 550_000, 3, 55.0)]
    assert answer["other"] == {
        "rows": 2, "listened_ms": 450_000, "listened_text": "8 min", "play_count": 2
    }  # fmt: skip
    assert answer["truncated"] is True


# Gaps


def test_days_without_any_report_are_gaps(assistant: Assistant, alice: Person) -> None:
    """A session of each kind on two days, and one over midnight, which is a report on both its days."""
    device = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [alice.user_id],
    ).fetchone()
    assert device is not None
    for key, start, end in (
        ("a", "2025-06-03T10:00:00Z", "2025-06-03T10:30:00Z"),
        ("b", "2025-06-07T23:30:00Z", "2025-06-08T00:30:00Z"),
    ):
        alice.connection.execute(
            "insert into activity.app_session "
            "(user_id, idempotency_key, device_id, started_at, ended_at, app) "
            "values (%s, %s, %s, %s, %s, 'Code')",
            [alice.user_id, key, device[0], start, end],
        )
    alice.connection.execute(
        "insert into activity.coding_session "
        "(user_id, idempotency_key, device_id, started_at, ended_at, project)"
        " values (%s, 'c', %s, '2025-06-04T10:00:00Z', '2025-06-04T10:30:00Z', 'svc')",
        [alice.user_id, device[0]],
    )

    answer = assistant.ask("get_listening", from_="2025-06-01", to="2025-06-10", tz="UTC")

    assert answer["data_gaps"] == [
        {"from": "2025-06-01", "to": "2025-06-02", "days": 2},
        {"from": "2025-06-05", "to": "2025-06-06", "days": 2},
        {"from": "2025-06-09", "to": "2025-06-10", "days": 2},
    ]


# Goals


def test_goals_have_words_in_their_own_units(assistant: Assistant, alice: Person) -> None:
    for title, metric, target in (("Code", "coding_ms", 14_400_000), ("Calm", "app_switches", 40)):
        alice.connection.execute(
            "insert into activity.goal (user_id, title, metric, comparison, target, period, created_at) "
            "values (%s, %s, %s, 'at_least', %s, 'day', now() + %s)",
            [alice.user_id, title, metric, target, timedelta(seconds=target % 7)],
        )

    answer = assistant.ask("get_goals")

    texts = {
        goal["title"]: (
            goal["progress"]["value_text"],
            goal["progress"]["target_text"],
            goal["progress"]["remaining_text"],
            goal["history"][0]["value_text"],
        )
        for goal in answer["data"]
    }
    assert texts == {"Code": ("0 s", "4 h", "4 h", "0 s"), "Calm": ("0", "40", "40", "0")}
    assert answer["count"] == 2


def test_goals_are_those_of_the_days_of_the_requested_zone(
    assistant: Assistant, alice: Person
) -> None:
    alice.connection.execute(
        "insert into activity.goal (user_id, title, metric, comparison, target, period) "
        "values (%s, 'Code', 'coding_ms', 'at_least', 1, 'day')",
        [alice.user_id],
    )

    answer = assistant.ask("get_goals", tz="Pacific/Kiritimati")

    assert answer["tz"] == "Pacific/Kiritimati"
    assert answer["data"][0]["progress"]["tz"] == "Pacific/Kiritimati"


# Patterns


def test_the_best_hours_are_the_most_productive_ones(
    assistant: Assistant, alice: Person, owner: psycopg.Connection[Any]
) -> None:
    device = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [alice.user_id],
    ).fetchone()
    assert device is not None
    yesterday = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(
        days=1
    )
    for key, hour, minutes, category in (
        ("a", 9, 30, "Development"), ("b", 14, 42, "Development"), ("c", 20, 50, "Games")
    ):  # fmt: skip
        start = yesterday.replace(hour=hour)
        alice.connection.execute(
            "insert into activity.app_session "
            "(user_id, idempotency_key, device_id, started_at, ended_at, app, category) "
            "values (%s, %s, %s, %s, %s, 'Thing', %s)",
            [alice.user_id, key, device[0], start, start + timedelta(minutes=minutes), category],
        )
    mark_all_days(owner)
    day = f"{yesterday:%A}"

    answer = assistant.ask("get_patterns", weeks=1)

    assert [
        (best["name"], best["hour"], best["productive_average_text"])
        for best in answer["best_hours"]
    ] == [
        (day, 14, "42 min"),
        (day, 9, "30 min"),
    ]
    assert answer["phrase"] == (
        f"Most productive on {day}s from 14:00 to 15:00, with 42 min of productive time on average."
        " A usual day begins at 09:00 and ends at 20:50."
    )
    assert answer["usual_day"] == {"starts_at": "09:00", "ends_at": "20:50", "days": 1}
    (measured,) = [each for each in answer["days"] if each["name"] == day]
    assert measured["distracted_by_hour"][20] == 3_000_000
    assert measured["average_text"] == "2 h 2 min"
    assert [each["name"] for each in answer["days"]] == [
        "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"
    ]  # fmt: skip


# Status


def test_data_without_its_scope_is_neither_counted_nor_denied(
    api: TestClient, plays: Person
) -> None:
    answer = Assistant(api, plays.headers("read:activity", "read:health")).ask("get_data_status")

    domains = {each["domain"]: each for each in answer["domains"]}
    assert domains["listening"] == {
        "domain": "listening",
        "scope": "read:music",
        "is_visible": False,
    }
    assert (domains["heart_rate"]["is_visible"], domains["heart_rate"]["rows"]) == (True, 0)
    assert "profile" not in answer
    assert "integrations" not in answer
    assert answer["scopes"] == {
        "held": ["read:activity", "read:health"],
        "missing": ["read:code", "read:location", "read:music", "read:content", "read:profile"],
    }


def test_data_with_its_scope_is_counted_between_its_days(
    assistant: Assistant, plays: Person
) -> None:
    answer = assistant.ask("get_data_status", tz="UTC")

    (listening,) = [each for each in answer["domains"] if each["domain"] == "listening"]
    assert (listening["rows"], listening["first_day"], listening["last_day"]) == (
        7, "2025-06-15", "2025-06-18"
    )  # fmt: skip
    assert answer["profile"] == {
        "email": "alice@example.org",
        "timezone": "Europe/Berlin",
        "week_starts_on": 1,
    }
    assert answer["scopes"]["missing"] == []


@pytest.mark.parametrize(("most", "expected"), [(6, (6, True)), (7, (7, False))])
def test_rows_are_counted_up_to_a_bound(
    assistant: Assistant,
    plays: Person,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    expected: tuple[int, bool],
) -> None:
    monkeypatch.setattr(status, "MOST_ROWS", most)

    answer = assistant.ask("get_data_status", tz="UTC")

    (listening,) = [each for each in answer["domains"] if each["domain"] == "listening"]
    assert (listening["rows"], listening["has_more_rows"]) == expected
    assert (listening["first_day"], listening["last_day"]) == ("2025-06-15", "2025-06-18")


def test_a_token_that_opens_only_assistants_tools_is_described(
    api: TestClient, alice: Person
) -> None:
    token = alice.token("read:activity", "read:music", resource="http://testserver/mcp")

    answer = Assistant(api, {"Authorization": f"Bearer {token}"}).ask("get_data_status")

    described = without_texts(answer["token"])
    assert described.pop("created_at") <= answer["generated_at"]
    assert described == {
        "kind": "api_token",
        "scopes": ["read:activity", "read:music"],
        "resource": "http://testserver/mcp",
        "name": "test",
        "application": None,
        "expires_at": None,
    }


# Long answers


def rendered(tool: Tool, *, devices: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    parts = {"answer": members, "devices": {"data": devices}, "token": {"data": {}}}
    found = {name: json.dumps(part).encode() for name, part in parts.items()}
    answer: dict[str, Any] = json.loads(tool.render(found))
    return answer


def test_more_than_fifty_rows_are_cut_and_the_answer_says_so() -> None:
    tool = GET["get_data_status"]

    short = rendered(tool, devices=[{"n": n} for n in range(50)])
    long = rendered(tool, devices=[{"n": n} for n in range(51)])

    assert (len(short["devices"]), short["truncated"]) == (50, False)
    assert (len(long["devices"]), long["truncated"]) == (50, True)
    assert long["devices"][-1] == {"n": 49}


def test_rows_that_are_too_long_together_are_cut_until_they_fit() -> None:
    tool = GET["get_data_status"]

    answer = rendered(tool, devices=[{"text": "é" * 5000} for _ in range(20)])

    assert (len(answer["devices"]), answer["truncated"]) == (2, True)
    assert rendered(tool, devices=[{"text": "é" * 20_000}])["devices"] == []


def test_texts_that_are_too_long_without_any_rows_are_cut_until_they_fit() -> None:
    profile = {"display_name": "é" * 20_000, "email": "alice@example.org"}

    answer = rendered(GET["get_data_status"], devices=[], profile=profile)

    assert answer["profile"]["display_name"] == "é" * 497 + "…"
    assert answer["profile"]["email"] == "alice@example.org"
    assert answer["truncated"] is True


@pytest.mark.parametrize("letter", ["a", '"', "\\", "\x01", "é", "😀"])
def test_no_text_makes_an_answer_longer_than_64_kib(
    assistant: Assistant, alice: Person, owner: psycopg.Connection[Any], letter: str
) -> None:
    """All texts of a day that other people may have written, each as long as possible."""

    def text(n: int, length: int = 1024) -> str:
        return f"{n:02}{letter * (length - 2)}"

    now = datetime.now(UTC).replace(microsecond=0)
    alice.connection.execute("update identity.user set timezone = 'UTC'")
    device = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop') returning device_id",
        [alice.user_id],
    ).fetchone()
    calendar = alice.connection.execute(
        "insert into content.calendar (user_id, name, provider) values (%s, 'Work', 'google') "
        "returning calendar_id",
        [alice.user_id],
    ).fetchone()
    assert device is not None
    assert calendar is not None
    day = (now - timedelta(days=1)).replace(hour=0, minute=0, second=0)
    for n in range(50):
        at = day + timedelta(minutes=20 * n)
        values = {
            "user_id": alice.user_id, "device_id": device[0], "calendar_id": calendar[0], "key": str(n),
            "at": at, "end": at + timedelta(minutes=12), "long": text(n), "name": text(n, 255),
            "short": text(n, 64), "title": text(n, 200),
        }  # fmt: skip
        for statement in _LONG:
            alice.connection.execute(statement, values)
    mark_all_days(owner)

    for tool, given in (
        ("get_day", {"date": day.date().isoformat()}),
        ("get_listening", {"group_by": "track", "top": 50}),
        ("get_places", {}),
        ("get_code_activity", {}),
        ("get_content", {}),
        ("get_time_breakdown", {"group_by": ["app", "category"], "top": 100}),
        ("get_time_breakdown", {"group_by": ["project", "language"], "top": 100}),
        ("get_focus", {"include_switches": True}),
        ("list_sessions", {}),
        ("get_goals", {}),
    ):
        response = assistant.call(tool, **given)

        assert response.json()["result"]["isError"] is False, tool
        assert len(response.content) <= 64 * 1024, tool


_LONG: Final = (
    "insert into activity.app_session (user_id, idempotency_key, device_id, app, title, category, "
    "started_at, ended_at, source) values (%(user_id)s, %(key)s, %(device_id)s, %(name)s, %(long)s, "
    "%(short)s, %(at)s, %(end)s, 'test')",
    "insert into activity.coding_session (user_id, idempotency_key, device_id, project, language, file, "
    "activity, started_at, ended_at, source) values (%(user_id)s, %(key)s, %(device_id)s, %(name)s, "
    "%(short)s, %(long)s, 'coding', %(at)s, %(end)s, 'test')",
    "insert into activity.goal (user_id, title, metric, comparison, target, period, projects) "
    "values (%(user_id)s, %(title)s, 'coding_ms', 'at_least', 1, 'day', array[%(name)s])",
    "insert into music.listen (user_id, listened_at, track, artist, album, played_ms, source) "
    "values (%(user_id)s, %(at)s, %(long)s, %(long)s, %(long)s, 1000, 'test')",
    "insert into code.event (user_id, provider, provider_key, type, action, occurred_at, repository, "
    "title) values (%(user_id)s, 'github', %(key)s, 'commit', 'pushed', %(at)s, %(long)s, %(long)s)",
    "insert into content.calendar_event (user_id, calendar_id, title, description, starts_at, ends_at, "
    "status, response) values (%(user_id)s, %(calendar_id)s, %(long)s, %(long)s, %(at)s, %(end)s, "
    "'confirmed', 'accepted')",
    "with place as (insert into location.place (user_id, name, category, city) "
    "values (%(user_id)s, %(long)s, %(long)s, %(long)s) returning place_id) "
    "insert into location.event (user_id, type, status, started_at, ended_at, place_id, note, source) "
    "select %(user_id)s, 'visit', 'confirmed', %(at)s, %(end)s, place_id, %(long)s, 'test' from place",
)
