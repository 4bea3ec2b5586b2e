"""Properties of every tool, derived from the list of declarations, without naming any."""

import json
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, FormatChecker
from starlette.testclient import TestClient

from deploy.demo.command import demo
from resourceserver.mcp.tool import ENTRY, IN_EVERY_ANSWER, Tool, listed_schema, output_schema
from resourceserver.mcp.tools import TOOLS
from resourceserver.mcp.tools.listening import RecentPlay
from resourceserver.timeline.metrics import METRICS
from shared import durations
from shared.scopes import SCOPES
from shared.settings import Settings
from tests.conftest import Person, owning, person
from tests.mcp import weight
from tests.mcp.assistant import REQUIRED, Assistant, as_rows, ends_of, error, without_texts

ZONE: Final = "America/New_York"
README: Final = Path(__file__).parents[2] / "README.md"
COMMON: Final = {"range", "tz", "today", "generated_at", "data_gaps", "truncated"}
ALL: Final[dict[str, dict[str, Any]]] = {
    "get_listening": {"period": "last_30_days", "top": 50},
    "get_health": {
        "period": "all",
        "metrics": ["steps", "heart_rate", "asleep_ms", "hrv_rmssd_ms"],
        "include_recovery": True,
    },
    "get_places": {"period": "all", "raw": True},
    "get_content": {"period": "all", "limit": 50},
    "get_time_breakdown": {"period": "last_30_days", "group_by": ["app", "day"], "top": 100},
    "list_sessions": {"period": "last_30_days", "limit": 200},
    "get_focus": {"period": "all", "include_switches": True},
    "get_code_activity": {"period": "all", "limit": 50},
    "compare_periods": {"a": "last_7_days", "metrics": list(METRICS)},
    "search": REQUIRED["search"],
}
"""Arguments with which a tool returns more than with its defaults."""

KEYWORDS: Final = {
    "type", "description", "default", "enum", "format", "items", "minimum", "maximum", "minLength",
    "maxLength", "minItems", "maxItems", "pattern", "properties", "additionalProperties", "required",
}  # fmt: skip
"""Of JSON Schema, in descriptions of arguments."""

MOST_LISTED: Final = 40_000
"""Most bytes of the list of tools."""
MOST_SEEN: Final = 5_000
"""Most tokens of what a model sees of all tools together."""

FRAMED: Final = [tool for tool in TOOLS if tool.is_framed]

each_tool = pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
ANSWERING: Final = [tool for tool in TOOLS if tool.name in ALL or tool.name not in REQUIRED]
"""Tools that answer these arguments, or none."""
each_answering_tool = pytest.mark.parametrize(
    "tool", ANSWERING, ids=[each.name for each in ANSWERING]
)
each_framed_tool = pytest.mark.parametrize("tool", FRAMED, ids=[tool.name for tool in FRAMED])


@pytest.fixture(scope="module")
def people(deployment: Settings) -> Iterator[dict[str, Person]]:
    """Alice with an invented life up to this moment, and bob with an empty account."""
    with owning(deployment) as connection:
        made = {name: person(connection, name) for name in ("alice", "bob")}
        connection.execute("update identity.user set timezone = %s", [ZONE])
        words = ["alice@example.org", "--days=35"]
        done = CliRunner().invoke(demo, words, obj=deployment)
        assert done.exit_code == 0, done.output
        yield made


@pytest.fixture(scope="module")
def assistants(people: dict[str, Person], resource_client: TestClient) -> dict[str, Assistant]:
    """An assistant of each, which may read everything."""
    return {name: Assistant(resource_client, each.headers()) for name, each in people.items()}


def listed(assistants: dict[str, Assistant]) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = assistants["bob"].modern("tools/list").json()["result"]["tools"]
    return tools


# How they are listed


def test_the_list_is_in_one_order(assistants: dict[str, Assistant]) -> None:
    assert [tool["name"] for tool in listed(assistants)] == [tool.name for tool in TOOLS]
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)


@each_tool
def test_a_tool_is_listed_with_all_that_an_assistant_needs(
    assistants: dict[str, Assistant], tool: Tool
) -> None:
    (shown,) = [each for each in listed(assistants) if each["name"] == tool.name]

    assert set(shown) - {"_meta"} == {
        "name", "title", "description", "inputSchema", "outputSchema", "annotations"
    }  # fmt: skip
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", tool.name)
    assert shown["annotations"] == {
        "title": tool.title,
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert tool.scope in SCOPES
    needs = "" if tool.scope == ENTRY else f" Needs the scope {tool.scope}."
    common = IN_EVERY_ANSWER if tool.is_framed else ""
    assert shown["description"] == tool.description + common + needs
    # When to use it, and when not.
    assert re.search(r"\b(Use it|Call it)\b.*\bNot for\b", tool.description)


@each_tool
def test_schemas_are_valid_and_allow_no_further_members(
    assistants: dict[str, Assistant], tool: Tool
) -> None:
    (shown,) = [each for each in listed(assistants) if each["name"] == tool.name]

    for schema in (shown["inputSchema"], shown["outputSchema"]):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
    for name, described in shown["inputSchema"]["properties"].items():
        assert described["description"], name
        assert "anyOf" not in described
        assert described.get("default", 0) is not None
        # A bound that pydantic cannot describe would go under a name of its own.
        assert described.keys() <= KEYWORDS, name
        assert described.get("format", "date") in {"date", "date-time", "uuid"}


def test_the_list_is_light(assistants: dict[str, Assistant]) -> None:
    response = assistants["bob"].modern("tools/list")

    assert len(response.content) <= MOST_LISTED, weight.table()
    assert weight.total(map(weight.of, TOOLS)).tokens <= MOST_SEEN, weight.table()


def test_names_of_metrics_are_listed_once() -> None:
    listing = json.dumps([tool.listing() for tool in TOOLS])

    for name in ("longest_focus_ms", "hrv_rmssd_ms", "pull_requests, reviews", "watch_ms"):
        assert listing.count(name) == 1, name


@each_tool
def test_the_listed_schema_has_the_types_of_the_whole_one(tool: Tool) -> None:
    listed, whole = listed_schema(tool.answer), output_schema(tool.answer)

    assert listed["properties"].keys() == whole["properties"].keys()
    assert listed["required"] == whole["required"]
    for name, described in listed["properties"].items():
        assert "$ref" not in json.dumps(described), name
        assert "properties" not in described, name


@each_tool
def test_the_readme_names_the_scope_of_each_tool(tool: Tool) -> None:
    assert f"| `{tool.name}` | `{tool.scope}` |" in README.read_text()


# Answers


@each_answering_tool
@pytest.mark.parametrize("name", ["alice", "bob"], ids=["a life", "nothing known"])
def test_an_answer_fits_its_schema_and_is_repeated_as_text(
    assistants: dict[str, Assistant], tool: Tool, name: str
) -> None:
    response = assistants[name].call(tool.name, **ALL.get(tool.name, {}))

    assert response.status_code == 200
    result = response.json()["result"]
    answer = result["structuredContent"]
    for schema in (listed_schema(tool.answer), output_schema(tool.answer)):
        validator = Draft202012Validator(schema, format_checker=FormatChecker())
        assert [problem.message for problem in validator.iter_errors(answer)] == []
    (said,) = result["content"]
    assert said["type"] == "text"
    assert json.loads(said["text"]) == answer
    assert result["isError"] is False


@each_framed_tool
@pytest.mark.parametrize("name", ["alice", "bob"], ids=["a life", "nothing known"])
def test_an_answer_names_its_days_its_zone_and_its_gaps(
    assistants: dict[str, Assistant], tool: Tool, name: str
) -> None:
    answer = assistants[name].ask(tool.name)

    assert answer.keys() >= COMMON
    assert answer["tz"] == ZONE
    assert answer["range"]["from"] <= answer["range"]["to"]
    if name == "bob":
        (gap,) = answer["data_gaps"]
        assert (gap["from"], gap["to"]) == (answer["range"]["from"], answer["range"]["to"])


@each_framed_tool
def test_a_zone_can_be_requested(assistants: dict[str, Assistant], tool: Tool) -> None:
    answer = assistants["alice"].ask(tool.name, tz="Asia/Kathmandu")

    assert answer["tz"] == "Asia/Kathmandu"
    written = datetime.fromisoformat(answer["generated_at"]).astimezone(ZoneInfo("Asia/Kathmandu"))
    assert answer["generated_local"] == f"{written:%a %Y-%m-%d %H:%M}"
    assert answer["today"] == f"{written:%a %Y-%m-%d}"


@each_answering_tool
def test_every_duration_has_words(assistants: dict[str, Assistant], tool: Tool) -> None:
    found = list(durations_of(assistants["alice"].ask(tool.name, **ALL.get(tool.name, {}))))

    for value, words in found:
        assert words == (None if value is None else durations.text(value))


def durations_of(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from durations_of(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from durations_of(each)
            if name.endswith("_ms") and not isinstance(each, list | dict):
                yield each, value[f"{name.removesuffix('_ms')}_text"]


@each_framed_tool
def test_every_instant_has_its_local_time(assistants: dict[str, Assistant], tool: Tool) -> None:
    given = ALL.get(tool.name, {}) | {"tz": "Asia/Kathmandu"}

    pairs = list(instants_of(assistants["alice"].ask(tool.name, **given)))

    zone = ZoneInfo("Asia/Kathmandu")
    assert pairs
    for at, text in pairs:
        assert text == f"{datetime.fromisoformat(at).astimezone(zone):%a %Y-%m-%d %H:%M}"


def instants_of(value: Any) -> Iterator[tuple[str, str]]:
    """Yield each instant with the text after it."""
    if isinstance(value, list):
        for each in value:
            yield from instants_of(each)
    elif isinstance(value, dict):
        names = list(value)
        for place, name in enumerate(names):
            each = value[name]
            yield from instants_of(each)
            if isinstance(each, str) and re.fullmatch(r"\d{4}-\S+:\S+Z", each):
                yield each, value[names[place + 1]]


@each_framed_tool
def test_an_answer_has_no_members_that_are_null_and_its_rows_have_no_ids(
    assistants: dict[str, Assistant], tool: Tool
) -> None:
    answer = assistants["alice"].ask(tool.name, **ALL.get(tool.name, {}))

    # Like GET /api/v1/token, which documents them.
    answer.pop("token", None)
    members = [pair for each in objects_of(answer) for pair in each.items()]
    assert [name for name, value in members if value is None] == []
    names = [name for value in answer.values() for row in rows_of(value) for name in row]
    assert "id" not in names


def rows_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in lists, with those in them."""
    if isinstance(value, list):
        for each in value:
            yield from objects_of(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from rows_of(each)


def objects_of(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from objects_of(each)


@pytest.mark.parametrize(
    ("tool", "given", "rows", "count"),
    [
        ("list_sessions", {"limit": 200, "filter": {"productivity": "distracting"}}, "data", None),
        ("get_time_breakdown", {"period": "all", "top": 7}, "data", None),
        ("get_time_breakdown", {"group_by": "hour", "top": 5}, "data", None),
        ("get_time_breakdown", {"group_by": "day", "top": 3}, "data", None),
        ("get_listening", {"group_by": "track", "period": "all", "top": 5}, "data", None),
        ("get_focus", {"period": "all"}, "data", "totals.streak_count"),
        ("get_code_activity", {"period": "all", "limit": 30}, "recent", "totals.count"),
        ("get_places", {"period": "all", "raw": True}, "data", "count"),
        ("get_content", {"period": "all", "limit": 13}, "data", "count"),
        ("get_health", {"period": "all"}, "recovery", "usual_night.nights"),
    ],
)
def test_all_pages_together_have_each_row_once(
    assistants: dict[str, Assistant], tool: str, given: dict[str, Any], rows: str, count: str | None
) -> None:
    answer = assistants["alice"].ask(tool, **given)
    pages: list[list[dict[str, Any]]] = [answer[rows]]
    first = answer
    while (cursor := answer.get("next_cursor")) is not None:
        answer = assistants["alice"].ask(tool, cursor=cursor, **given)
        pages.append(answer[rows])
        assert len(pages) < 100

    every = [json.dumps(without_texts(row)) for page in pages for row in page]
    assert len(pages) > 1
    assert len(set(every)) == len(every)
    if count is not None:
        total: Any = first
        for name in count.split("."):
            total = total[name]
        assert len(every) == total
    else:
        sums = [row.get("total_ms", row.get("listened_ms", 0)) for page in pages for row in page]
        totals = first.get("totals", {})
        assert sum(sums) == totals.get("total_ms", totals.get("listened_ms", 0))


def test_today_has_its_weekday(assistants: dict[str, Assistant]) -> None:
    answer = assistants["alice"].ask("get_goals", tz="Pacific/Kiritimati")

    now = datetime.fromisoformat(answer["generated_at"])
    assert answer["today"] == f"{now.astimezone(ZoneInfo('Pacific/Kiritimati')):%a %Y-%m-%d}"


@each_answering_tool
def test_an_answer_is_short(assistants: dict[str, Assistant], tool: Tool) -> None:
    response = assistants["alice"].call(tool.name, **ALL.get(tool.name, {}))

    assert len(response.content) <= 64 * 1024
    answer = response.json()["result"]["structuredContent"]
    if tool.rows is not None:
        assert len(answer[tool.rows]) <= tool.most_rows


@each_answering_tool
def test_answers_to_bob_have_nothing_of_alice(assistants: dict[str, Assistant], tool: Tool) -> None:
    answer = json.dumps(assistants["bob"].ask(tool.name, **ALL.get(tool.name, {})))

    assert "alice" not in answer
    assert not re.search(r"_ms\": [1-9]", answer)


# Refusals


@each_framed_tool
def test_an_unknown_argument_is_named(assistants: dict[str, Assistant], tool: Tool) -> None:
    said = assistants["bob"].mistake(tool.name, wekks=6)

    assert said.startswith("wekks: there is no such argument; there are tz")


def test_an_unknown_argument_with_half_of_a_surrogate_pair_is_named(
    assistants: dict[str, Assistant],
) -> None:
    said = assistants["bob"].mistake("get_goals", **{"\ud800": 6})

    assert said == "\\ud800: there is no such argument; there are tz"


@each_framed_tool
def test_an_unknown_zone_is_an_error(assistants: dict[str, Assistant], tool: Tool) -> None:
    for tz in ("nowhere", "europe/berlin", "+02:00", "", "\x00", "\ud800"):
        said = assistants["bob"].mistake(tool.name, tz=tz)

        assert said.startswith("tz: must be "), tz


@each_framed_tool
def test_a_zone_that_is_no_text_is_an_error(assistants: dict[str, Assistant], tool: Tool) -> None:
    values: tuple[object, ...] = (5, True, [], {}, 1.5)
    for tz in values:
        assert assistants["bob"].mistake(tool.name, tz=tz) == "tz: must be a string", tz


@each_framed_tool
def test_null_counts_as_absent(assistants: dict[str, Assistant], tool: Tool) -> None:
    assert assistants["bob"].ask(tool.name, tz=None)["tz"] == ZONE


def test_the_first_ten_mistakes_are_reported_and_long_names_are_cut(
    assistants: dict[str, Assistant],
) -> None:
    many = {f"x{number:02}" + "y" * 200: 1 for number in range(20)}

    said = assistants["bob"].mistake("get_goals", **many).splitlines()

    assert len(said) == 10
    assert said[0].startswith(f"x00{'y' * 97}…: there is no such argument")


@pytest.mark.parametrize(
    "tool",
    [tool for tool in TOOLS if tool.scope != "read:activity"],
    ids=lambda tool: tool.name,
)
def test_a_tool_of_another_scope_needs_it(
    people: dict[str, Person], resource_client: TestClient, tool: Tool
) -> None:
    rest = [scope for scope in SCOPES if scope != tool.scope]

    response = Assistant(resource_client, people["alice"].headers(*rest)).call(tool.name)

    assert error(response) == (403, 403, 7)
    assert f'scope="read:activity {tool.scope}"' in response.headers["www-authenticate"]


# Agreement with the endpoints


def test_values_equal_those_of_endpoints(
    assistants: dict[str, Assistant], resource_client: TestClient
) -> None:
    assistant = assistants["alice"]

    def rest(path: str, **params: Any) -> Any:
        response = resource_client.get(path, params=params, headers=assistant.headers)
        assert response.status_code == 200, response.text
        return response.json()

    goals = assistant.ask("get_goals")
    assert [
        (goal["title"], goal["progress"]["status"], goal["streak"]) for goal in goals["data"]
    ] == [
        (goal["title"], goal["progress"]["status"], goal["streak"])
        for goal in rest("/api/v1/goals")["data"]
    ]
    assert goals["data"]

    patterns = assistant.ask("get_patterns", weeks=4)
    endpoint = rest("/api/v1/analytics/hourly-patterns", weeks=4, tz=ZONE)
    assert [
        (day["day_of_week"], hour, average)
        for day in patterns["days"]
        for hour, average in enumerate(day["average_by_hour"])
    ] == [(row["day_of_week"], row["hour"], row["average_ms"]) for row in endpoint["data"]]
    assert (patterns["range"]["from"], patterns["range"]["to"]) == (
        endpoint["range"]["from"],
        endpoint["range"]["to"],
    )

    listening = assistant.ask("get_listening", period="last_30_days", group_by="day", top=50)
    ends = ends_of(listening)
    daily = rest("/api/v1/music/daily", **ends, tz=ZONE)
    assert [(day["name"], day["listened_ms"]) for day in listening["data"]] == [
        (day["date"], day["listened_ms"]) for day in daily["data"]
    ]
    assert {name: listening["totals"][name] for name in daily["totals"]} == daily["totals"]
    history = rest("/api/v1/music/history", **ends, limit=3)
    plays = [
        {name: value for name, value in play.items() if name in RecentPlay.model_fields}
        for play in history["data"]
    ]
    assert without_texts(listening["recent"]) == as_rows(plays)

    status = assistant.ask("get_data_status")
    left_out = {
        "devices": {"first_seen_at"},
        "integrations": {"connected", "connected_at", "first_record_at"},
    }
    for member, names in left_out.items():
        assert without_texts(status[member]) == [
            {name: value for name, value in row.items() if name not in names}
            for row in as_rows(rest(f"/api/v1/{member}")["data"])
        ]
    assert without_texts(status["token"]) == rest("/api/v1/token")["data"]


def test_sums_are_those_of_the_endpoints(
    assistants: dict[str, Assistant], resource_client: TestClient
) -> None:
    assistant = assistants["alice"]

    def rest(path: str, **params: Any) -> Any:
        response = resource_client.get(
            f"/api/v1/analytics/{path}", params=params, headers=assistant.headers
        )
        assert response.status_code == 200, response.text
        return response.json()

    def broken_down(key: str) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
        answer = assistant.ask("get_time_breakdown", period="last_30_days", group_by=[key], top=100)
        rows = [(row["by"][key], row["total_ms"], row["session_count"]) for row in answer["data"]]
        assert sum(row[1] for row in rows) == answer["totals"]["total_ms"]
        return rows, answer

    apps, answer = broken_down("app")
    ends = ends_of(answer)
    days = {"from": answer["range"]["from"], "to": answer["range"]["to"], "tz": ZONE}
    usage = rest("app-usage", **ends)
    assert {row[0]: row[1:] for row in apps} == {
        row["app"]: (row["total_ms"], row["session_count"]) for row in usage["data"]
    }
    assert answer["totals"]["session_count"] == usage["totals"]["session_count"]
    categories, answer = broken_down("category")
    endpoint = rest("categories", **ends)
    assert {row[0]: row[1:] for row in categories} == {
        row["category"]: (row["total_ms"], row["session_count"]) for row in endpoint["data"]
    }
    for name in ("productive_ms", "neutral_ms", "distracted_ms"):
        assert answer["totals"][name] == endpoint["totals"][name]
    daily = rest("daily", **days)
    assert broken_down("day")[0] == [
        (row["date"], row["tracked_ms"], row["session_count"]) for row in daily["data"]
    ]
    coding = rest("coding", **ends)["data"]
    assert sorted(broken_down("project")[0]) == sorted(
        (row["project"], row["total_ms"], row["session_count"]) for row in coding["projects"]
    )
    assert sorted(broken_down("language")[0]) == sorted(
        (row["language"], row["total_ms"], row["session_count"]) for row in coding["languages"]
    )
    assert sum(row[1] for row in broken_down("device")[0]) == usage["totals"]["tracked_ms"]

    # A day, whose tops are chosen as in summaries.
    day = assistant.ask("get_day", date=daily["data"][-2]["date"])
    ends_of_day = ends_of(day)
    values = {row["metric"]: row["value"] for row in day["totals"]}
    row = daily["data"][-2]
    assert {name: row[name] for name in values.keys() & row.keys()} == {
        name: values[name] for name in values.keys() & row.keys()
    }
    assert len(values.keys() & row.keys()) == 7
    assert (day["first_activity_at"], day["last_activity_at"]) == (
        row["first_activity_at"],
        row["last_activity_at"],
    )
    streaks = rest("focus-streaks", **ends_of_day)
    # A day without a streak has no average, and tools leave out what has no value.
    assert without_texts(day["focus"]) == as_rows(
        {name: streaks["totals"][name] for name in ("streak_count", "average_ms")}
    )
    assert (values["focus_ms"], values["longest_focus_ms"]) == (
        streaks["totals"]["focus_ms"],
        streaks["totals"]["longest_ms"],
    )
    assert [(top["name"], top["total_ms"], top["percent"]) for top in day["top_apps"]] == [
        (app["app"], app["total_ms"], app["percent"])
        for app in rest("app-usage", **ends_of_day)["data"][:4]
    ]

    # Two periods.
    yesterday = date.fromisoformat(daily["data"][-2]["date"])
    compared = assistant.ask("compare_periods", a=f"{yesterday - timedelta(days=6)}/{yesterday}")
    changes = {change["metric"]: change for change in compared["data"]}
    for side, period in compared["periods"].items():
        sums = rest("daily", **{"from": period["from"], "to": period["to"], "tz": ZONE})
        edges = {"from": sums["data"][0]["starts_at"], "to": sums["data"][-1]["ends_at"]}
        focus = rest("focus-streaks", **edges)["totals"]
        assert period["active_days"] == sums["totals"]["active_days"]
        assert {name: change[side]["value"] for name, change in changes.items()} == {
            name: sums["totals"][name]
            for name in (
                "tracked_ms", "productive_ms", "neutral_ms", "distracted_ms", "coding_ms", "app_switches"
            )
        } | {
            "focus_ms": focus["focus_ms"],
            "longest_focus_ms": focus["longest_ms"],
            "session_count": rest("app-usage", **edges)["totals"]["session_count"],
        }  # fmt: skip
        for name, average in sums["daily_average"].items():
            assert changes[name][side]["per_active_day"] == average


def test_health_places_and_content_are_those_of_the_endpoints(
    assistants: dict[str, Assistant], resource_client: TestClient
) -> None:
    assistant = assistants["alice"]

    def rest(path: str, **params: Any) -> Any:
        response = resource_client.get(f"/api/v1/{path}", params=params, headers=assistant.headers)
        assert response.status_code == 200, response.text
        return response.json()

    health = assistant.ask("get_health", period="last_30_days", metrics=["steps", "distance_m"])
    ends = ends_of(health)
    days = {"from": health["range"]["from"], "to": health["range"]["to"]}
    summary = {row["metric_type"]: row for row in rest("health/summary", **ends, tz=ZONE)["data"]}
    names = ("total", "minimum", "maximum", "days_with_data")
    for metric in health["metrics"]:
        endpoint = summary[metric["metric"].removeprefix("health:")]
        assert {name: metric["summary"][name] for name in names} == {
            name: endpoint[name] for name in names
        }
        assert (metric["summary"]["mean"], metric["unit"]) == (
            endpoint["average"],
            endpoint["unit"],
        )
    readings = assistant.ask(
        "get_health", metrics=["steps"], resolution="raw", period="last_30_days"
    )
    samples = rest("health/samples", **ends, metric_type="steps", limit=50)
    assert [(each["started_at"], each["value"]) for each in readings["samples"]] == [
        (sample["started_at"], sample["value"]) for sample in samples["data"]
    ]
    nights = assistant.ask("get_health", period="last_30_days")
    recovery = rest("health/recovery", **days)
    with_data = [night for night in reversed(recovery["data"]) if night["has_data"]]
    assert [
        (night["date"], night.get("strain", {}).get("score"), night["recovery"]["hrv_rmssd"])
        for night in nights["recovery"]
    ] == [
        (night["date"], (night["strain"] or {}).get("score"), night["recovery"]["hrv_rmssd_ms"])
        for night in with_data[: len(nights["recovery"])]
    ]

    places = assistant.ask("get_places", period="last_30_days", raw=True)
    events = rest("locations/events", **ends, limit=1000)["data"]
    assert [(row["started_at"], row["name"], row.get("note")) for row in places["data"]] == [
        (event["started_at"], event["place"]["name"], event["note"])
        for event in events
        if event["status"] != "declined"
    ][:10]
    points = rest("locations", **ends, limit=10000)["data"]
    assert places["point_count"] == len(points)
    assert {(point["at"], point["latitude"]) for point in places["points"]} <= {
        (point["recorded_at"], point["latitude"]) for point in points
    }

    content = assistant.ask("get_content", period="last_30_days", kind="calendar", limit=50)
    events = rest("calendar/events", **ends)["data"]
    shown = ("title", "starts_at", "ends_at", "response", "attendee_count", "recurring")
    assert [[row.get(name) for name in shown] for row in content["data"]] == [
        [event[name] for name in shown] for event in events
    ]
    assert content["totals"]["calendar"]["event_count"] == len(events) > 0


def test_sessions_focus_correlation_and_code_are_those_of_the_endpoints(
    assistants: dict[str, Assistant], resource_client: TestClient
) -> None:
    assistant = assistants["alice"]

    def rest(path: str, **params: Any) -> Any:
        response = resource_client.get(f"/api/v1/{path}", params=params, headers=assistant.headers)
        assert response.status_code == 200, response.text
        return response.json()

    for kind, path in (("app", "sessions/apps"), ("coding", "sessions/coding")):
        sessions = assistant.ask("list_sessions", period="last_30_days", kind=kind)
        ends = ends_of(sessions)
        shown = sessions["data"]
        assert len(shown) == 10
        rows = rest(path, **ends, limit=len(shown))["data"]
        assert as_rows([{**row, "device": row["device"]["name"]} for row in rows]) == [
            {**without_texts(row), "source": each["source"]}
            for row, each in zip(shown, rows, strict=True)
        ]

    focus = assistant.ask("get_focus", period="last_30_days", include_switches=True)
    streaks, switches = (
        rest(f"analytics/{path}", **ends) for path in ("focus-streaks", "context-switches")
    )
    for answer, endpoint in (
        (focus["totals"], streaks["totals"]),
        (focus["switch_totals"], switches["totals"]),
        *zip(focus["pairs"], switches["pairs"], strict=False),
        *zip(focus["switches"], switches["data"], strict=False),
    ):
        assert answer | as_rows(endpoint) == answer
    assert [row["broken_by"]["at"] for row in focus["data"]] == [
        row["broken_by"]["at"] for row in streaks["data"][: len(focus["data"])]
    ]

    found = assistant.ask("correlate", period="last_30_days", with_="tracked_ms")
    days = {"from": found["range"]["from"], "to": found["range"]["to"], "tz": ZONE}
    for pairing in found["data"]:
        endpoint = rest(
            "account/correlation", metric_b=pairing["metric_b"]["name"], adjust="weekday", **days
        )
        r = endpoint["data"]["coefficient"]
        assert (pairing["n"], pairing["coefficient"]) == (endpoint["data"]["n"], round(r, 4))
        assert pairing["metric_b"] | as_rows(endpoint["metric_b"]) == pairing["metric_b"]

    code = assistant.ask("get_code_activity", period="last_30_days")
    counts = rest("codehost/activity/counts", **ends)
    assert (code["types"], code["totals"]) == (counts["data"], counts["totals"])
    events = rest("codehost/activity", **ends, limit=10)["data"]
    assert [(row["title"], row["occurred_at"]) for row in code["recent"]] == [
        (event["title"], event["occurred_at"]) for event in events
    ]
