"""Prompts: how they are listed, what they ask for, and that the tools in their texts exist."""

import re
from datetime import date, timedelta
from typing import Any, Final

import pytest

from resourceserver.mcp import arguments
from resourceserver.mcp.prompts import PROMPTS, Prompt
from resourceserver.mcp.tools import TOOLS
from tests.conftest import Person
from tests.mcp.assistant import Assistant, error

TODAY: Final = date(2026, 11, 16)
GIVEN: Final[dict[str, list[dict[str, str]]]] = {
    "weekly_review": [{}, {"week": "this_week"}, {"week": "last_week"}],
    "day_review": [{}, {"date": "2026-11-15"}],
    "plan_week": [{"priorities": "finish the report"}],
}
"""Valid arguments of each prompt."""


def get(assistant: Assistant, name: str, **given: str) -> str:
    """Return the text of a prompt."""
    response = assistant.modern("prompts/get", {"name": name, "arguments": given})
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    (said,) = result["messages"]
    assert said["role"] == "user"
    assert said["content"]["type"] == "text"
    assert result["description"]
    text: str = said["content"]["text"]
    return text


def test_prompts_are_listed_with_their_arguments(assistant: Assistant) -> None:
    listed = assistant.modern("prompts/list").json()["result"]["prompts"]

    assert [
        (each["name"], [(own["name"], own["required"]) for own in each["arguments"]])
        for each in listed
    ] == [
        ("weekly_review", [("week", False)]),
        ("day_review", [("date", False)]),
        ("plan_week", [("priorities", True)]),
    ]
    for each in listed:
        assert set(each) == {"name", "title", "description", "arguments"}
        assert all(own["description"] for own in each["arguments"])


@pytest.mark.parametrize("prompt", PROMPTS, ids=[each.name for each in PROMPTS])
def test_a_prompt_asks_for_calls_that_the_tools_accept(prompt: Prompt) -> None:
    tools = {tool.name: tool for tool in TOOLS}
    for given in GIVEN[prompt.name]:
        request = prompt.build(TODAY, prompt.check(given))

        text = request.text()
        assert request.calls
        for call in request.calls:
            assert call.text() in text
            # Raises ArgumentsProblem for a name or a value that the tool does not have.
            arguments.parse(tools[call.tool].arguments, call.arguments)
        named = set(re.findall(r"\b(?:get|list|compare)_\w+", text))
        assert named == {call.tool for call in request.calls} <= tools.keys()


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_days_in_a_prompt_are_those_of_the_persons_zone(
    assistant: Assistant, alice: Person, zone: str
) -> None:
    alice.connection.execute("update identity.user set timezone = %s", [zone])
    row = alice.connection.execute("select (now() at time zone %s)::date", [zone]).fetchone()
    assert row is not None
    today: date = row[0]

    text = get(assistant, "day_review")
    plan = get(assistant, "plan_week", priorities="rest")

    assert text.startswith(f"Review today, {today:%A}, {today}, with me.")
    assert f'"from": "{today + timedelta(days=1)}", "to": "{today + timedelta(days=7)}"' in plan


@pytest.mark.parametrize(
    ("word", "day"),
    [
        ("today", "Monday, 2026-11-16"),
        ("Yesterday", "Sunday, 2026-11-15"),
        ("monday", "Monday, 2026-11-16"),
        ("Tuesday", "Tuesday, 2026-11-10"),
    ],
)
def test_the_review_of_a_day_takes_the_words_that_get_day_takes(word: str, day: str) -> None:
    (prompt,) = (each for each in PROMPTS if each.name == "day_review")

    request = prompt.build(TODAY, prompt.check({"date": word}))

    assert day in request.task
    assert request.calls[0].arguments == {"date": day.partition(", ")[2]}


def test_a_prompt_repeats_what_its_person_wrote(assistant: Assistant) -> None:
    text = get(assistant, "plan_week", priorities=" größer {tz} %s \n")

    assert "What matters most to me: größer {tz} %s\n" in text


@pytest.mark.parametrize(("era", "status"), [("modern", 400), ("legacy", 200)])
@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"name": "monthly_review"}, "there is no such prompt: monthly_review"),
        ({"name": "plan_week"}, "priorities: is required"),
        ({"name": "plan_week", "arguments": {"priorities": " "}}, "priorities: is required"),
        ({"name": "day_review", "arguments": []}, "arguments must be an object"),
        ({"name": "day_review", "arguments": {"date": 5}}, "date: must be a string"),
        ({"name": "day_review", "arguments": {"date": "soon"}}, "date: must be"),
        ({"name": "day_review", "arguments": {"day": "today"}}, "day: there is no such argument"),
        ({"name": "weekly_review", "arguments": {"week": "5"}}, "week: must be one of this_week"),
        ({"name": "plan_week", "arguments": {"priorities": "x" * 2001}}, "at most 2000"),
    ],
)
def test_a_wrong_name_or_argument_is_refused(
    assistant: Assistant, era: str, status: int, params: dict[str, Any], reason: str
) -> None:
    response = getattr(assistant, era)("prompts/get", params)

    assert error(response) == (status, -32602, 7)
    assert reason in response.json()["error"]["message"]


def test_a_prompt_without_a_name_is_refused(assistant: Assistant) -> None:
    assert error(assistant.legacy("prompts/get")) == (200, -32602, 7)
    assert error(assistant.legacy("prompts/get", {"name": ["day_review"]})) == (200, -32602, 7)


def test_an_empty_argument_counts_as_left_out(assistant: Assistant) -> None:
    assert get(assistant, "weekly_review", week="") == get(assistant, "weekly_review")
