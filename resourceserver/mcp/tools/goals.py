"""The tool get_goals: goals with their values in words."""

from typing import Any, Final

from resourceserver.api.bodies import Count
from resourceserver.endpoints import goals
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import InZone
from resourceserver.mcp.tool import ENTRY, FRAMES, Answer, Tool
from shared import durations


class Current(InZone):
    """The time zone in which days are counted."""

    def values(self) -> dict[str, Any]:
        """Return the values with the days since the week or the month began."""
        return super().values() | {"first_back": None, "last_back": 0}


class Progress(goals.Progress):
    """The progress in the current period, in numbers and in words."""

    value_text: str
    target_text: str
    remaining_text: str


class Finished(goals.Finished):
    """A finished period, in numbers and in words."""

    value_text: str


class Goal(goals.Goal):
    """One goal; the days of its periods are those of the person's own zone."""

    progress: Progress
    streak: Count
    """The number of periods met in a row up to the last finished one; skipped periods are ignored. Covers
    about a year."""
    history: list[Finished]  # type: ignore[assignment] # each has one member more


class GoalsAnswer(Answer):
    """All goals, the oldest first, and the days of the longest current period."""

    data: list[Goal]
    count: Count


def _in_words(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with values in words. The unit is a member of the goal, not a part of other names."""
    goals = answer.pop("goals")
    return answer | {
        "data": [_goal_in_words(goal) for goal in goals["data"]],
        "count": goals["count"],
    }


def _goal_in_words(goal: dict[str, Any]) -> dict[str, Any]:
    words = durations.text if goal["unit"] == "ms" else str
    texts = {
        f"{name}_text": words(goal["progress"][name]) for name in ("value", "target", "remaining")
    }
    history = [each | {"value_text": words(each["value"])} for each in goal["history"]]
    return goal | {"progress": goal["progress"] | texts, "history": history}


TOOLS: Final = [
    Tool(
        name="get_goals",
        title="Goals and progress",
        description="The person's goals, such as four hours of coding a day: progress in the current period,"
        " the last seven finished ones, and how many were met in a row. Use it for 'Am I on track?' and 'What"
        " are my goals?'. Not for time that has no goal.",
        scope=ENTRY,
        arguments=Current,
        answer=GoalsAnswer,
        frame=FRAMES["recent"],
        parts=(tool.part(goals.ENDPOINTS, "goals"),),
        finish=_in_words,
        rows="data",
    )
]
