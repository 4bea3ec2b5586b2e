"""The tool get_patterns: an average week."""

import calendar
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from resourceserver.api.bodies import Body, Count, Milliseconds
from resourceserver.endpoints import hours
from resourceserver.endpoints.hours import HourOfDay, Weekday
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import WHOLE, InZone
from resourceserver.mcp.tool import ENTRY, Answer, Part, Tool
from shared import durations

SQL: Final = tool.load(Path(__file__).with_name("patterns.sql"))

BEST_HOURS: Final = 5

Day = Annotated[list[Milliseconds], Field(min_length=24, max_length=24)]
"""Means of a weekday's hours, from 0 to 23."""


class Weeks(InZone):
    """How many weeks to average."""

    weeks: Annotated[int, Field(ge=1, le=52), WHOLE] = Field(
        default=6, description="How many; the last one ends yesterday."
    )

    def values(self) -> dict[str, Any]:
        """Return the values with the days of these weeks."""
        return super().values() | {"first_back": 7 * self.weeks, "last_back": 1}


class DayPattern(Body):
    """The averages of one weekday."""

    day_of_week: Weekday
    """An ISO weekday: 1 is Monday."""
    name: str
    average_ms: Milliseconds
    sample_count: Count
    """The number of such days since the first tracked one, including empty ones; sums are divided by it."""
    average_by_hour: Day
    """Milliseconds of tracked time in each hour from 0 to 23."""
    productive_by_hour: Day
    distracted_by_hour: Day


class BestHour(Body):
    """One of the most productive hours of the week."""

    day_of_week: Weekday
    name: str
    hour: HourOfDay
    productive_average_ms: Milliseconds
    average_ms: Milliseconds


class UsualDay(Body):
    """The medians of the first and the last minute at the computer, as local times (HH:MM)."""

    starts_at: str
    ends_at: str
    """After midnight if it is earlier than starts_at: a day lasts until 04:00."""
    days: Count
    """The number of days with any use."""


class PatternsAnswer(Answer):
    """An average week: every hour of every weekday."""

    weeks: Annotated[int, Field(ge=1, le=52)]
    weeks_with_data: Count
    """The number of these weeks with any tracked or coding time."""
    phrase: str
    usual_day: UsualDay | None
    best_hours: list[BestHour]
    """Most productive first; empty without productive time."""
    days: list[DayPattern]


def _as_a_week(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with a row for each weekday in place of a row for each of its hours."""
    week = answer.pop("hourly_patterns")
    usual = answer["usual_day"] if answer["usual_day"]["days"] else None
    rows, by_day = week["data"], week["by_day"]
    best = sorted(
        (row for row in rows if row["productive_average_ms"] > 0),
        key=lambda row: (-row["productive_average_ms"], row["day_of_week"], row["hour"]),
    )[:BEST_HOURS]
    return answer | {
        "weeks": week["weeks"],
        "weeks_with_data": week["weeks_with_data"],
        "phrase": _phrase(best, usual),
        "usual_day": usual,
        "best_hours": [
            {
                "day_of_week": row["day_of_week"],
                "name": _name(row),
                "hour": row["hour"],
                "productive_average_ms": row["productive_average_ms"],
                "average_ms": row["average_ms"],
            }
            for row in best
        ],
        "days": [_day(day, rows) for day in by_day],
    }


def _day(day: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    hours_of_day = [row for row in rows if row["day_of_week"] == day["day_of_week"]]
    kinds = {
        "average_by_hour": "average_ms",
        "productive_by_hour": "productive_average_ms",
        "distracted_by_hour": "distracted_average_ms",
    }
    averages = {name: [row[kind] for row in hours_of_day] for name, kind in kinds.items()}
    return {
        "day_of_week": day["day_of_week"],
        "name": _name(day),
        "average_ms": day["average_ms"],
        "sample_count": day["sample_count"],
        **averages,
    }


def _name(row: dict[str, Any]) -> str:
    # strftime would use the locale of the machine.
    name: str = calendar.day_name[row["day_of_week"] - 1]
    return name


def _phrase(best: list[dict[str, Any]], usual: dict[str, Any] | None) -> str:
    sentences = [_best_phrase(best)]
    if usual is not None:
        sentences.append(
            f"A usual day begins at {usual['starts_at']} and ends at {usual['ends_at']}."
        )
    return " ".join(sentences)


def _best_phrase(best: list[dict[str, Any]]) -> str:
    if not best:
        return "Nothing productive was measured in these weeks."
    first = best[0]
    share = durations.text(first["productive_average_ms"])
    return (
        f"Most productive on {_name(first)}s from {first['hour']}:00 to {first['hour'] + 1}:00,"
        f" with {share} of productive time on average."
    )


TOOLS: Final = [
    Tool(
        name="get_patterns",
        title="Average week",
        description="The usual week: averages of every hour of every weekday over the last weeks, the best"
        " hours, and when a day usually begins and ends. Use it for 'When am I most productive?' and 'When do"
        " I usually start?'. Not for what happened on a certain day.",
        scope=ENTRY,
        arguments=Weeks,
        answer=PatternsAnswer,
        frame=SQL["recent"],
        parts=(
            tool.part(hours.ENDPOINTS, "hourly_patterns"),
            Part(SQL["usual_day"], name="usual_day"),
        ),
        finish=_as_a_week,
    )
]
