"""Sums of time, worked out by hand from a few sessions, from rollups and from raw sessions."""

import json
from datetime import date, timedelta
from itertools import combinations
from typing import Any, Final

import psycopg
import pytest

from resourceserver.mcp.tools.breakdown import TOOLS
from tests.conftest import MakeRollups, Person, mark_all_days
from tests.mcp.assistant import Assistant
from tests.midday import midday

TOOL: Final = "get_time_breakdown"
MINUTE: Final = 60_000
WEEK: Final = {"from_": "2025-06-16", "to": "2025-06-23", "tz": "UTC"}

APP_SESSIONS: Final = (
    ("laptop", "Code", None, "Development", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"),
    ("laptop", "Firefox", "example.org", "News", "2025-06-16T10:00:00Z", "2025-06-16T10:30:00Z"),
    # The session that begins last owns the time, on any device.
    ("phone", "Chat", None, "Communication", "2025-06-16T10:10:00Z", "2025-06-16T10:20:00Z"),
    ("laptop", "Code", None, "Development", "2025-06-16T23:30:00Z", "2025-06-17T00:30:00Z"),
    ("laptop", "Code", None, "Development", "2025-06-23T09:00:00Z", "2025-06-23T09:15:00Z"),
)
CODING_SESSIONS: Final = (
    ("svc", "Python", "2025-06-16T09:00:00Z", "2025-06-16T10:00:00Z"),
    ("svc", "SQL", "2025-06-16T10:00:00Z", "2025-06-16T10:30:00Z"),
    ("web", "Python", "2025-06-17T09:00:00Z", "2025-06-17T09:15:00Z"),
    ("web", None, "2025-06-23T10:00:00Z", "2025-06-23T10:05:00Z"),
)


def device(alice: Person, name: str) -> Any:
    row = alice.connection.execute(
        "insert into activity.device (user_id, name) values (%s, %s) returning device_id",
        [alice.user_id, name],
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.fixture(params=["raw", "rolled up"])
def sessions(
    request: pytest.FixtureRequest,
    alice: Person,
    owner: psycopg.Connection[Any],
    make_rollups: MakeRollups,
) -> Person:
    """Alice, with 2 h 45 min in applications and 1 h 50 min of coding over eight days of June 2025."""
    devices = {name: device(alice, name) for name in ("laptop", "phone")}
    for number, (name, *rest) in enumerate(APP_SESSIONS):
        alice.connection.execute(
            "insert into activity.app_session"
            " (user_id, idempotency_key, device_id, app, domain, category, started_at, ended_at)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s)",
            [alice.user_id, f"a{number}", devices[name], *rest],
        )
    for number, session in enumerate(CODING_SESSIONS):
        alice.connection.execute(
            "insert into activity.coding_session"
            " (user_id, idempotency_key, device_id, project, language, started_at, ended_at)"
            " values (%s, %s, %s, %s, %s, %s, %s)",
            [alice.user_id, f"c{number}", devices["laptop"], *session],
        )
    mark_all_days(owner)
    if request.param == "rolled up":
        make_rollups()
    return alice


def rows(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (*row["by"].values(), row["total_ms"] / MINUTE, row["session_count"])
        for row in answer["data"]
    ]


@pytest.mark.parametrize(
    ("group_by", "expected"),
    [
        (["app"], [("Code", 135, 3), ("Firefox", 20, 1), ("Chat", 10, 1)]),
        (["domain"], [("no site", 145, 4), ("example.org", 20, 1)]),
        (["category"], [("Development", 135, 3), ("News", 20, 1), ("Communication", 10, 1)]),
        (["device"], [("laptop", 155, 4), ("phone", 10, 1)]),
        (["week"], [("2025-06-16", 150, 4), ("2025-06-23", 15, 1)]),
        (["month"], [("2025-06", 165, 5)]),
        (
            ["week", "month"],
            [("2025-06-16", "2025-06", 150, 4), ("2025-06-23", "2025-06", 15, 1)],
        ),
        (
            ["weekday"],
            [
                ("Monday", 135, 5), ("Tuesday", 30, 1), ("Wednesday", 0, 0), ("Thursday", 0, 0),
                ("Friday", 0, 0), ("Saturday", 0, 0), ("Sunday", 0, 0),
            ],
        ),
        (
            ["app", "month"],
            [("Code", "2025-06", 135, 3), ("Firefox", "2025-06", 20, 1), ("Chat", "2025-06", 10, 1)],
        ),
        (
            ["week", "app"],
            [
                ("2025-06-16", "Code", 120, 2), ("2025-06-16", "Firefox", 20, 1),
                ("2025-06-16", "Chat", 10, 1), ("2025-06-23", "Code", 15, 1),
            ],
        ),
    ],
)  # fmt: skip
def test_time_is_added_up_by_the_requested_keys(
    assistant: Assistant, sessions: Person, group_by: list[str], expected: list[tuple[Any, ...]]
) -> None:
    answer = assistant.ask(TOOL, group_by=group_by, **WEEK)

    assert rows(answer) == expected
    assert list(answer["data"][0]["by"]) == group_by
    assert (answer["totals"]["total_ms"], answer["totals"]["session_count"]) == (165 * MINUTE, 5)
    assert answer["truncated"] is False


def test_days_are_in_order_and_a_session_over_midnight_counts_in_both(
    assistant: Assistant, sessions: Person
) -> None:
    answer = assistant.ask(TOOL, group_by=["day"], **WEEK)

    assert rows(answer) == [
        ("2025-06-16", 120, 4), ("2025-06-17", 30, 1), ("2025-06-18", 0, 0), ("2025-06-19", 0, 0),
        ("2025-06-20", 0, 0), ("2025-06-21", 0, 0), ("2025-06-22", 0, 0), ("2025-06-23", 15, 1),
    ]  # fmt: skip
    assert answer["totals"]["session_count"] == 5


def test_hours_are_those_of_the_zone(assistant: Assistant, sessions: Person) -> None:
    answer = assistant.ask(
        TOOL, group_by=["hour"], from_="2025-06-16", to="2025-06-23", tz="Asia/Kathmandu"
    )

    measured = [row for row in rows(answer) if row[2]]
    # 09:00 UTC is 14:45 local time.
    assert measured == [
        ("05:00", 45, 1), ("06:00", 15, 1), ("14:00", 30, 2), ("15:00", 60, 3), ("16:00", 15, 2)
    ]  # fmt: skip
    assert len(answer["data"]) == 24


def test_percents_are_of_the_total_and_totals_include_productivity(
    assistant: Assistant, sessions: Person
) -> None:
    answer = assistant.ask(TOOL, **WEEK)

    assert answer["group_by"] == ["app"]
    assert [row["percent"] for row in answer["data"]] == [81.82, 12.12, 6.06]
    assert answer["data"][0]["total_text"] == "2 h 15 min"
    assert answer["totals"] == {
        "total_ms": 9_900_000, "total_text": "2 h 45 min",
        "session_count": 5,
        "productive_ms": 8_100_000, "productive_text": "2 h 15 min",
        "neutral_ms": 600_000, "neutral_text": "10 min",
        "distracted_ms": 1_200_000, "distracted_text": "20 min",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("group_by", "expected"),
    [
        (["project"], [("svc", 90, 2), ("web", 20, 2)]),
        (["language"], [("Python", 75, 2), ("SQL", 30, 1), ("unknown", 5, 1)]),
        (
            ["project", "language"],
            [("svc", "Python", 60, 1), ("svc", "SQL", 30, 1), ("web", "Python", 15, 1),
             ("web", "unknown", 5, 1)],
        ),
        (["device"], [("laptop", 110, 4)]),
    ],
)  # fmt: skip
def test_coding_is_added_up_by_project_and_language(
    assistant: Assistant, sessions: Person, group_by: list[str], expected: list[tuple[Any, ...]]
) -> None:
    answer = assistant.ask(TOOL, group_by=group_by, kind="coding", **WEEK)

    assert rows(answer) == expected
    assert answer["totals"]["total_ms"] == 110 * MINUTE
    assert "productive_ms" not in answer["totals"]


@pytest.mark.parametrize(
    ("given", "kind", "total"),
    [
        ({"group_by": ["day"]}, "app", 165),
        ({"group_by": ["language"]}, "coding", 110),
        ({"group_by": ["project", "day"]}, "coding", 110),
        ({"group_by": ["day"], "filter": {"languages": ["python"]}}, "coding", 75),
        ({"group_by": ["day"], "filter": {"projects": ["web"], "languages": ["Python"]}}, "coding", 15),
        ({"filter": {"apps": ["code", "CHAT"]}}, "app", 145),
        ({"filter": {"categories": ["News"]}}, "app", 20),
        ({"filter": {"domains": ["EXAMPLE.org"]}}, "app", 20),
        ({"group_by": "day", "filter": {"domains": "example.org", "apps": "Code"}}, "app", 0),
        ({"filter": {"languages": ["Python"]}}, "coding", 75),
        ({"filter": {"productivity": ["productive", "neutral"]}}, "app", 145),
        ({"filter": {"apps": ["Code"], "categories": ["News"]}}, "app", 0),
        ({"group_by": ["device"], "filter": {"apps": ["Chat"]}}, "app", 10),
    ],
)  # fmt: skip
def test_a_filter_selects_sessions_that_match_all_members_and_decides_the_kind(
    assistant: Assistant, sessions: Person, given: dict[str, Any], kind: str, total: int
) -> None:
    answer = assistant.ask(TOOL, **given, **WEEK)

    assert answer["kind"] == kind
    assert answer["totals"]["total_ms"] == total * MINUTE
    assert sum(row["total_ms"] for row in answer["data"]) == total * MINUTE


def test_names_without_a_match_are_listed(assistant: Assistant, sessions: Person) -> None:
    answer = assistant.ask(
        TOOL, filter={"apps": ["Slack", "code"], "categories": ["development", "Music"]}, **WEEK
    )

    assert [each["name"] for each in answer["unmatched"]] == ["Slack", "Music"]
    assert "Chat" in answer["unmatched"][0]["nearest"]
    assert rows(answer) == [("Code", 135, 3)]


@pytest.mark.parametrize(
    ("member", "name", "nearest"),
    [
        ("apps", "Chatt", "Chat"),
        ("domains", "exampel.org", "example.org"),
        ("categories", "Developing", "Development"),
        ("projects", "wed", "web"),
        ("languages", "Pyhton", "Python"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(
    assistant: Assistant, sessions: Person, member: str, name: str, nearest: str
) -> None:
    given = {"filter": {member: [name]}, **WEEK}
    said = (
        f"filter.{member}: nothing of the person's has the name {name};"
        f' the nearest known are: ["{nearest}"'
    )

    assert assistant.mistake(TOOL, group_by=["day"], **given).startswith(said)
    assert assistant.mistake("list_sessions", **given).startswith(said)


def test_a_name_that_occurs_only_on_other_days_is_no_error(
    assistant: Assistant, sessions: Person
) -> None:
    answer = assistant.ask(TOOL, filter={"apps": ["code"]}, from_="2024-01-01", to="2024-01-02")

    assert (answer["totals"]["total_ms"], answer["unmatched"]) == (0, [])


def test_the_rest_of_the_rows_is_added_up(assistant: Assistant, sessions: Person) -> None:
    by_app = assistant.ask(TOOL, top=1, **WEEK)
    by_day = assistant.ask(TOOL, group_by=["day"], top=2, **WEEK)

    assert rows(by_app) == [("Code", 135, 3)]
    assert by_app["other"] == {
        "rows": 2, "total_ms": 1_800_000, "total_text": "30 min", "percent": 18.18, "session_count": 2
    }  # fmt: skip
    assert by_app["truncated"] is True
    # Of days the last ones are of interest, however little was done.
    assert [row[0] for row in rows(by_day)] == ["2025-06-22", "2025-06-23"]
    assert (by_day["other"]["rows"], by_day["other"]["total_ms"]) == (6, 150 * MINUTE)


def test_weeks_begin_on_the_persons_day_and_are_clipped_to_the_range(
    assistant: Assistant, sessions: Person
) -> None:
    sessions.connection.execute("update identity.user set week_starts_on = 7")

    answer = assistant.ask(
        TOOL,
        group_by=["week"],
        from_="2025-06-16T09:30:00Z",
        to="2025-06-23T09:05:00Z",
        tz="UTC",
    )

    assert rows(answer) == [("2025-06-15", 120, 4), ("2025-06-22", 5, 1)]


def test_hours_cover_at_most_the_longest_range_of_days(assistant: Assistant, alice: Person) -> None:
    """One row with a wrong year must not add a hundred years of hours."""
    alice.connection.execute(
        "insert into music.listen (user_id, listened_at, track, artist, source) "
        "values (%s, '1900-01-01T12:00:00Z', 'Song', 'Band', 'spotify')",
        [alice.user_id],
    )

    by_hour = assistant.ask(TOOL, period="all", group_by=["hour"])["range"]
    by_month = assistant.ask(TOOL, period="all", group_by=["month"])["range"]

    days = date.fromisoformat(by_hour["to"]) - date.fromisoformat(by_hour["from"])
    assert days == timedelta(days=3700)
    assert by_month["from"] == "1900-01-01"


def test_devices_cover_at_most_half_a_year(assistant: Assistant, sessions: Person) -> None:
    whole = {"from_": "2022-01-01", "to": "2025-06-23", "tz": "UTC"}

    answer = assistant.ask(TOOL, group_by=["device"], **whole)
    coded = assistant.ask(TOOL, group_by=["device"], kind="coding", **whole)

    assert (answer["range"]["from"], answer["truncated"]) == ("2024-12-22", True)
    assert (date(2025, 6, 23) - date(2024, 12, 22)).days == 183
    assert rows(answer) == [("laptop", 155, 4), ("phone", 10, 1)]
    assert (coded["range"]["from"], coded["truncated"]) == ("2022-01-01", False)


def test_days_and_hours_that_have_not_begun_have_no_row(assistant: Assistant) -> None:
    noon = midday()
    tz, today = str(noon.tzinfo), noon.date()
    until_next_week = {
        "from_": f"{today - timedelta(days=1)}",
        "to": f"{today + timedelta(days=7)}",
    }

    days = assistant.ask(TOOL, group_by=["day"], tz=tz, **until_next_week)
    hours = assistant.ask(TOOL, group_by=["hour"], tz=tz, period="today")

    assert [row["by"]["day"] for row in days["data"]] == [
        f"{today - timedelta(days=1)}",
        f"{today}",
    ]
    assert days["not_yet"]["from"] == f"{today + timedelta(days=1)}"
    assert len(hours["data"]) in (13, 14)


def test_an_empty_range_has_no_rows(assistant: Assistant, sessions: Person) -> None:
    at = "2025-06-16T09:30:00Z"

    for keys in (["app"], ["day"], ["hour"], ["device"]):
        answer = assistant.ask(TOOL, group_by=keys, from_=at, to=at)

        assert answer["data"] == []
        assert answer["totals"]["total_ms"] == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"group_by": ["language"], "kind": "app"},
            "group_by: language cannot be used with kind app, which has app, domain, category, day, week,"
            " month, weekday, hour, device",
        ),
        (
            {"group_by": ["app", "project"]},
            "group_by: app cannot be used with kind coding, which has project, language, day, week, month,"
            " weekday, hour, device",
        ),
        ({"group_by": ["app", "app"]}, "group_by: app is given twice"),
        (
            {"filter": {"languages": ["Python"]}, "kind": "app"},
            "filter: languages can be asked of kind coding alone",
        ),
        (
            {"filter": {"apps": ["Code"]}, "group_by": ["language"]},
            "filter: apps can be asked of kind app alone",
        ),
        ({"group_by": []}, "group_by: list should have at least 1 item after validation, not 0"),
        (
            {"group_by": ["app", "day", "hour"]},
            "group_by: list should have at most 2 items after validation, not 3",
        ),
        ({"group_by": 5}, "group_by: input should be a valid list"),
        ({"group_by": [1]}, "group_by[0]: input should be 'app', 'domain', 'category', 'project', 'language',"
         " 'day', 'week', 'month', 'weekday', 'hour' or 'device'"),
        ({"top": 0}, "top: input should be greater than or equal to 1"),
        ({"top": 101}, "top: input should be less than or equal to 100"),
        ({"top": "many"}, "top: input should be a valid integer"),
        ({"kind": "apps"}, "kind: input should be 'app' or 'coding'"),
        ({"period": "today", "from_": "2025-06-16"}, "give either period, or from and to"),
    ],
)  # fmt: skip
def test_the_error_about_senseless_arguments_names_valid_ones(
    assistant: Assistant, given: dict[str, Any], said: str
) -> None:
    assert assistant.mistake(TOOL, **given) == said


# Sums


KEYS: Final = {
    "app": ("app", "domain", "category", "day", "week", "month", "weekday", "hour", "device"),
    "coding": ("project", "language", "day", "week", "month", "weekday", "hour", "device"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_rows_and_the_rest_add_up_whatever_the_keys(
    assistant: Assistant, sessions: Person, kind: str
) -> None:
    total = {"app": 165, "coding": 110}[kind] * MINUTE
    pairs = [[key] for key in KEYS[kind]] + [list(pair) for pair in combinations(KEYS[kind], 2)]

    for keys in pairs:
        answer = assistant.ask(TOOL, kind=kind, group_by=keys, top=3, **WEEK)

        assert answer["totals"]["total_ms"] == total, keys
        shown = sum(row["total_ms"] for row in answer["data"])
        rest = answer["other"]["total_ms"] if answer["truncated"] else 0
        assert shown + rest == total, keys


@pytest.mark.parametrize(("keys", "kept"), [(["app"], "most"), (["day"], "last")])
def test_rows_that_do_not_fit_are_added_to_the_rest(keys: list[str], kept: str) -> None:
    (tool,) = TOOLS
    row = {
        "range": None,
        "group_by": keys,
        "data": [
            {"by": {keys[0]: f"{number:02}{'x' * 500}"}, "total_ms": 10, "percent": 1.0, "session_count": 1}
            for number in range(100)
        ],
        "other": {"rows": 2, "total_ms": 50, "percent": 4.76, "session_count": 5},
        "totals": {"total_ms": 1050},
    }  # fmt: skip

    parts = {"answer": b"{}", "answer/breakdown_of_apps": json.dumps(row).encode()}
    answer = json.loads(tool.render(parts))

    count = len(answer["data"])
    assert 30 < count < 50
    assert answer["other"]["rows"] == 102 - count
    assert answer["other"]["session_count"] == 105 - count
    assert 10 * count + answer["other"]["total_ms"] == 1050
    assert answer["other"]["percent"] == round(answer["other"]["total_ms"] / 10.5, 2)
    assert answer["truncated"] is True
    ends = (answer["data"][0]["by"][keys[0]][:2], answer["data"][-1]["by"][keys[0]][:2])
    assert ends == (("00", f"{count - 1:02}") if kept == "most" else (f"{100 - count:02}", "99"))
