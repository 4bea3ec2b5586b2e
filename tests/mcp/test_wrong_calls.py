"""Wrong and odd calls: each message lets an assistant correct itself, so that the next call succeeds."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from deploy.demo.command import demo
from shared.settings import Settings
from tests.conftest import Person, owning, person
from tests.mcp.assistant import SUGGESTION, Assistant

ZONE: Final = "Europe/Berlin"
Arguments = dict[str, Any]


@pytest.fixture(scope="module")
def alice_of_old(deployment: Settings) -> Iterator[Person]:
    """Alice in Berlin, with an invented life of two weeks."""
    with owning(deployment) as connection:
        made = person(connection, "alice")
        connection.execute("update identity.user set timezone = %s", [ZONE])
        done = CliRunner().invoke(demo, ["alice@example.org", "--days=14"], obj=deployment)
        assert done.exit_code == 0, done.output
        yield made


@pytest.fixture(scope="module")
def assistant(alice_of_old: Person, resource_client: TestClient) -> Assistant:
    """Her assistant, which may read everything."""
    return Assistant(resource_client, alice_of_old.headers())


def message(assistant: Assistant, tool: str, given: Any) -> str:
    """Return what an assistant reads about a wrong call."""
    response = assistant.modern("tools/call", {"name": tool, "arguments": given})
    body = response.json()
    if "result" in body:
        assert body["result"]["isError"] is True, body
        return str(body["result"]["content"][0]["text"])
    return str(body["error"]["message"])


def suggested(tool: str, given: Any, text: str) -> tuple[str, Any]:
    """Return the call that a message suggests, read from its text alone."""
    _, _, example = text.partition(SUGGESTION)
    if example:
        return tool, json.loads(example)
    if found := re.search(r"there is no such tool: .*; the nearest are ([a-z_]+)", text):
        return found[1], given
    if found := re.search(r"must be an object, such as (\{.*\})", text):
        return tool, json.loads(found[1])
    for name, nearest in re.findall(r"has the name (.+); the nearest known are: (\[.*\])", text):
        given = json.loads(json.dumps(given).replace(name, json.loads(nearest)[0]))
    if found := re.search(r"(\S+) is not yet: today is (\S+),", text):
        given = json.loads(json.dumps(given).replace(found[1], found[2]))
    return tool, given


BREAKDOWN: Final = "get_time_breakdown"
COMPARE: Final = "compare_periods"
CONTENT: Final = "get_content"
CORRELATE: Final = "correlate"
SESSIONS: Final = "list_sessions"
HEALTH: Final = "get_health"
PLACES: Final = "get_places"
CODE: Final = "get_code_activity"
DAY: Final = "get_day"
LISTENING: Final = "get_listening"
TODAY: Final = "the current day"
WEEK: Final = {"from": "2026-06-01", "to": "2026-06-07"}
NOON: Final = {"at": "2026-06-01T12:00:00Z"}
HERE: Final = {"latitude": 52.37, "longitude": 4.89}
HARBOUR: Final = {"projects": ["harbour"]}
BY_PROJECT: Final = {"group_by": ["project"]}
CODING: Final = {"kind": "coding"} | BY_PROJECT
SLEEP_AND_CODE: Final = {"metric_a": "asleep_ms", "metric_b": "coding_ms"}

NAMES: Final[list[tuple[str, Arguments, Arguments]]] = [
    (BREAKDOWN, {"start_date": "2026-06-01", "end_date": "2026-06-07"}, WEEK),
    (BREAKDOWN, {"time_range": "last_week"}, {"period": "last_week"}),
    (BREAKDOWN, {"range": "last week"}, {"period": "last_week"}),
    (BREAKDOWN, {"perod": "last_week"}, {"period": "last_week"}),
    (BREAKDOWN, {"Period": "last_week"}, {"period": "last_week"}),
    (BREAKDOWN, {"timezone": "Europe/Berlin"}, {"tz": "Europe/Berlin"}),
    (BREAKDOWN, {"limit": 5}, {"top": 5}),
    (BREAKDOWN, {"groupBy": ["day"]}, {"group_by": ["day"]}),
    (BREAKDOWN, {"app": "Slack"}, {"filter": {"apps": "Slack"}}),
    (BREAKDOWN, {"project": "harbour"}, {"filter": {"projects": "harbour"}}),
    (BREAKDOWN, {"app": "Code", "category": "News"}, {"filter": {"apps": "Code", "categories": "News"}}),
    (BREAKDOWN, {"filter": {"app": ["Slack"]}}, {"filter": {"apps": ["Slack"]}}),
    (BREAKDOWN, {"user_id": 7}, {}),
    (BREAKDOWN, {"filter": {"user": ["me"]}}, {"filter": {}}),
    (SESSIONS, {"query": "budget"}, {"search": "budget"}),
    (SESSIONS, {"title": "budget", "n": 3}, {"search": "budget", "limit": 3}),
    (SESSIONS, {"timestamp": "2026-06-01T12:00:00Z"}, NOON),
    (PLACES, {"city": "Lisbon", "period": "all"}, {"search": "Lisbon", "period": "all"}),
    (DAY, {"day": "2026-06-01"}, {"date": "2026-06-01"}),
    ("get_patterns", {"week": 3}, {"weeks": 3}),
    (HEALTH, {"metric": ["steps"]}, {"metrics": ["steps"]}),
    (CODE, {"repo": "harbour"}, {"repository": "harbour"}),
    (COMPARE, {"metric": "coding_ms"}, {"metrics": "coding_ms"}),
    (COMPARE, {"current": "today", "previous": "yesterday"}, {"a": "today", "b": "yesterday"}),
    (CORRELATE, {"metric": "coding_ms"}, {"with": "coding_ms"}),
    (CORRELATE, {"metric1": "asleep_ms", "metric2": "coding_ms"}, SLEEP_AND_CODE),
    ("get_goals", {"period": "today"}, {}),
    ("get_data_status", {"domain": "health"}, {}),
    (LISTENING, {"by": "track", "count": 3}, {"group_by": "track", "top": 3}),
]  # fmt: skip

VALUES: Final[list[tuple[str, Arguments, Arguments]]] = [
    (BREAKDOWN, {"period": "past_week"}, {"period": "last_week"}),
    (BREAKDOWN, {"period": "Last Week"}, {"period": "last_week"}),
    (BREAKDOWN, {"period": "last 7 days"}, {"period": "last_7_days"}),
    (BREAKDOWN, {"period": "everything"}, {"period": "all"}),
    (BREAKDOWN, {"period": "last_60_days"}, {"period": "last_90_days"}),
    (BREAKDOWN, {"period": "last_900_days"}, {"period": "all"}),
    (BREAKDOWN, {"period": "2026-02"}, {"from": "2026-02-01", "to": "2026-02-28"}),
    (BREAKDOWN, {"period": "2026-06-01/2026-06-07"}, WEEK),
    (BREAKDOWN, {"date": "2026-06-01"}, {"from": "2026-06-01", "to": "2026-06-01"}),
    (CONTENT, {"period": "next week"}, {"period": "next_7_days"}),
    (BREAKDOWN, {"period": ["today"]}, {"period": "today"}),
    (BREAKDOWN, {"period": 7}, {}),
    (BREAKDOWN, {"period": "todya"}, {"period": "today"}),
    (BREAKDOWN, {"group_by": ["apps"]}, {"group_by": ["app"]}),
    (BREAKDOWN, {"group_by": ["App"]}, {"group_by": ["app"]}),
    (BREAKDOWN, {"group_by": "app,category"}, {"group_by": ["app", "category"]}),
    (BREAKDOWN, {"group_by": []}, {}),
    (BREAKDOWN, {"group_by": ["day", "app", "category"]}, {"group_by": ["day", "app"]}),
    (BREAKDOWN, {"kind": "apps"}, {"kind": "app"}),
    (BREAKDOWN, {"kind": "code"}, {"kind": "coding"}),
    (BREAKDOWN, {"top": "5"}, {"top": 5}),
    (BREAKDOWN, {"top": 0}, {"top": 1}),
    (BREAKDOWN, {"top": 1000}, {"top": 100}),
    (BREAKDOWN, {"top": "all"}, {}),
    (BREAKDOWN, {"top": "1e999"}, {}),
    (BREAKDOWN, {"top": True}, {}),
    (BREAKDOWN, {"tz": "Berlin"}, {"tz": "Europe/Berlin"}),
    (BREAKDOWN, {"tz": "europe/berlin"}, {"tz": "Europe/Berlin"}),
    (BREAKDOWN, {"tz": "Europe/Berln"}, {"tz": "Europe/Berlin"}),
    (BREAKDOWN, {"filter": {"productivity": ["good"]}}, {"filter": {}}),
    (BREAKDOWN, {"filter": '{"apps": ["Slack"]}'}, {"filter": {"apps": ["Slack"]}}),
    (BREAKDOWN, {"filter": "Slack"}, {}),
    (DAY, {"date": "last tuesday"}, {"date": "tuesday"}),
    (DAY, {"date": "2026/06/01"}, {"date": "2026-06-01"}),
    (DAY, {"date": "01.06.2026"}, {"date": "2026-06-01"}),
    (DAY, {"date": "2026-02-30"}, {"date": "2026-02-28"}),
    (DAY, {"date": "2026-06-01T12:00:00Z"}, {"date": "2026-06-01"}),
    (DAY, {"date": 20260601}, {"date": "2026-06-01"}),
    ("search", {"q": "budget"}, {"query": "budget"}),
    ("search", {"query": "budget", "limit": 5}, {"query": "budget"}),
    (SESSIONS, {"at": "2026/06/01 14:15"}, {"at": "2026-06-01T14:15"}),
    (SESSIONS, {"cursor": "2"}, {}),
    (SESSIONS, {"search": 5}, {"search": "5"}),
    (SESSIONS, {"search": ["budget"]}, {"search": "budget"}),
    (SESSIONS, {"search": ""}, {}),
    ("get_patterns", {"weeks": "4"}, {"weeks": 4}),
    ("get_focus", {"include_switches": "true"}, {"include_switches": True}),
    ("get_focus", {"include_switches": 1}, {"include_switches": True}),
    (HEALTH, {"metrics": ["steps"] * 9}, {"metrics": ["steps"] * 8}),
    (HEALTH, {"resolution": "daily"}, {"resolution": "day"}),
    (PLACES, {"lat": 52.37, "lon": 4.89}, {"near": HERE}),
    (PLACES, {"near": HERE | {"latitude": "52.37"}}, {"near": HERE}),
    (PLACES, {"near": HERE | {"latitude": 152}}, {"near": HERE | {"latitude": 90.0}}),
    (PLACES, {"near": {"lat": 52.37, "lon": 4.89}}, {"near": HERE}),
    (PLACES, {"near": HERE | {"radius_m": 0}}, {"near": HERE | {"radius_m": 1.0}}),
    (PLACES, {"near": "Lisbon"}, {}),
    (CONTENT, {"kind": "meetings"}, {"kind": "calendar"}),
    (CONTENT, {"kind": ["calendar"]}, {"kind": "calendar"}),
    (CONTENT, {"full": "yes"}, {"full": True}),
    (CODE, {"type": "commits"}, {"type": "commit"}),
    (CODE, {"type": "pull request"}, {"type": "pull_request"}),
    (COMPARE, {"a": "past_month"}, {"a": "last_month"}),
    (COMPARE, {"a": "2026-06"}, {"a": "2026-06-01/2026-06-30"}),
    (COMPARE, {"a": "2026-06-07/2026-06-01"}, {"a": "2026-06-01/2026-06-07"}),
    (COMPARE, {"metrics": ["coding"]}, {"metrics": ["coding_ms"]}),
    (COMPARE, {"metrics": ["sleep"]}, {"metrics": ["asleep_ms"]}),
    (CORRELATE, SLEEP_AND_CODE | {"metric_a": "sleep_ms"}, SLEEP_AND_CODE),
    (CORRELATE, {"method": "kendall"}, {}),
    (CORRELATE, {"lag": 60}, {"lag": 30}),
]  # fmt: skip

CONTRADICTIONS: Final[list[tuple[str, Arguments, Arguments]]] = [
    (BREAKDOWN, WEEK | {"period": "today"}, WEEK),
    (BREAKDOWN, {"from": "2026-06-01"}, {"from": "2026-06-01", "to": "2026-06-01"}),
    (BREAKDOWN, {"to": "2026-06-01"}, {"from": "2026-06-01", "to": "2026-06-01"}),
    (BREAKDOWN, {"from": "2026-06-07", "to": "2026-06-01"}, WEEK),
    (BREAKDOWN, {"from": "2026-06-01", "to": "2026-06-07T12:00:00Z"}, WEEK),
    (BREAKDOWN, {"from": "2000-01-01", "to": "2026-06-07"}, {}),
    (BREAKDOWN, {"kind": "app", "filter": HARBOUR}, {"kind": "coding", "filter": HARBOUR}),
    (BREAKDOWN, {"kind": "coding", "group_by": ["app"]}, CODING),
    (BREAKDOWN, {"group_by": ["app", "app"]}, {"group_by": ["app"]}),
    (BREAKDOWN, {"group_by": ["app", "project"]}, {"group_by": ["app"]}),
    (BREAKDOWN, {"filter": {"apps": ["Code"]} | HARBOUR}, {"filter": HARBOUR}),
    (SESSIONS, NOON | {"period": "today"}, NOON),
    (SESSIONS, NOON | WEEK, NOON),
    (COMPARE, {"a": "all"}, {}),
    (CORRELATE, {"metric_a": "coding_ms"}, {"with": "coding_ms"}),
    (CORRELATE, SLEEP_AND_CODE | {"with": "coding_ms"}, SLEEP_AND_CODE),
    (HEALTH, {"resolution": "raw"}, {}),
    (HEALTH, {"resolution": "hour", "metrics": ["asleep_ms"]}, {"metrics": ["asleep_ms"]}),
]  # fmt: skip

OF_DATA: Final[list[tuple[str, Arguments, Arguments]]] = [
    (BREAKDOWN, {"filter": {"apps": ["Slak"]}}, {"filter": {"apps": ["Slack"]}}),
    (BREAKDOWN, {"filter": {"apps": ["Visual Studio Code"]}}, {"filter": {"apps": ["Code"]}}),
    (BREAKDOWN, {"filter": {"categories": ["Socail"]}}, {"filter": {"categories": ["Social"]}}),
    (
        BREAKDOWN,
        {"filter": {"projects": ["harbor"]}} | BY_PROJECT,
        {"filter": HARBOUR} | BY_PROJECT,
    ),
    (SESSIONS, {"filter": {"languages": ["ts"]}}, {"filter": {"languages": ["TypeScript"]}}),
    (SESSIONS, {"filter": {"apps": ["Thunder bird"]}}, {"filter": {"apps": ["Thunderbird"]}}),
    (HEALTH, {"metrics": ["step"]}, {"metrics": ["steps"]}),
    (HEALTH, {"metrics": ["heartrate"]}, {"metrics": ["heart_rate"]}),
    (COMPARE, {"metrics": ["health:weight"]}, {"metrics": ["health:weight_kg"]}),
    (CORRELATE, {"with": "health:step"}, {"with": "health:steps"}),
    (CODE, {"repository": "harbor"}, {"repository": "lantern-works/harbour"}),
    (PLACES, {"search": "Lantren Works"}, {"search": "Lantern Works"}),
    (BREAKDOWN, {"from": "2099-06-01", "to": "2099-06-01"}, {"from": TODAY, "to": TODAY}),
    (DAY, {"date": "2099-06-01"}, {"date": TODAY}),
    (COMPARE, {"a": "2099-06-01", "b": "yesterday"}, {"a": TODAY, "b": "yesterday"}),
]
"""Mistakes that only the data shows."""
OF_PROTOCOL: Final[list[tuple[str, Any, tuple[str, Any]]]] = [
    ("get_sleep", {}, (HEALTH, {})),
    ("list_session", {}, (SESSIONS, {})),
    ("time_breakdown", {}, (BREAKDOWN, {})),
    ("getDay", {}, (DAY, {})),
    ("get_music", {}, (LISTENING, {})),
    ("get_commits", {}, (CODE, {})),
    (BREAKDOWN, [], (BREAKDOWN, {})),
    (BREAKDOWN, "last_week", (BREAKDOWN, {})),
    (BREAKDOWN, None, (BREAKDOWN, {})),
]
"""Tools that there are not, and arguments that are no object."""
WRONG: Final = [
    (tool, given, (tool, right))
    for rows in (NAMES, VALUES, CONTRADICTIONS, OF_DATA)
    for tool, given, right in rows
] + OF_PROTOCOL


@pytest.mark.parametrize(
    ("tool", "given", "right"),
    WRONG,
    ids=[f"{tool} {json.dumps(given)}" for tool, given, _ in WRONG],
)
def test_each_message_says_how_to_call_instead(
    assistant: Assistant, tool: str, given: Any, right: tuple[str, Any]
) -> None:
    chosen, arguments = suggested(tool, given, message(assistant, tool, given))

    today = datetime.now(ZoneInfo(ZONE)).date()
    assert [chosen, arguments] == json.loads(json.dumps(right).replace(TODAY, str(today)))
    response = assistant.modern("tools/call", {"name": chosen, "arguments": arguments})
    assert response.json()["result"]["isError"] is False, response.text
