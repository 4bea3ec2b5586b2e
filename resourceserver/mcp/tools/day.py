"""The tool get_day: a summary of one day, compared with the 28 days before it."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, WithJsonSchema

from resourceserver import timeline
from resourceserver.api.bodies import Body, CalendarDay, Count, Milliseconds, Percent, Timestamp
from resourceserver.api.parameters import Listed
from resourceserver.endpoints import (
    activity,
    attention,
    code,
    coding,
    content,
    goals,
    health,
    music,
)
from resourceserver.endpoints.goals import Status
from resourceserver.endpoints.music import TopArtist
from resourceserver.mcp import apps, arguments, named_days, tool
from resourceserver.mcp.arguments import InZone
from resourceserver.mcp.tool import ENTRY, Answer, Part, Tool
from resourceserver.mcp.tools import measures
from resourceserver.mcp.tools.measures import Measure, MetricRequest
from resourceserver.timeline.metrics import METRICS

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(_HERE / "day.sql", _TIMELINE / "reported.sql")

MOST_TOPS: Final = 4
MOST: Final = 5
"""The most events of a kind."""
MOST_COMMITS: Final = 2
MOST_GOALS: Final = 10
LONGEST_TEXT: Final = 200
"""The most characters of a title; an answer has many titles and must stay short."""

SectionName = Literal["commits", "sleep", "meetings", "music"]
SECTIONS: Final[dict[SectionName, tuple[str, ...]]] = {
    "commits": ("commits", "pull_requests", "reviews", "lines_added"),
    "sleep": ("asleep_ms", "recovery_score"),
    "meetings": ("meeting_ms",),
    "music": ("listened_ms", "play_count"),
}
"""The metrics of each section that needs a scope of its own."""


def _scope(section: SectionName) -> str:
    """Return the scope that a section needs."""
    return METRICS[SECTIONS[section][0]].scope


ACTIVITY: Final = tuple(name for name, known in METRICS.items() if known.scope == ENTRY)

NamedDay = Annotated[
    date | str, arguments.parsed(named_days.parse), WithJsonSchema({"type": "string"})
]


def _named(day: date | str | None) -> dict[str, Any]:
    """Return the parameters of the frame for a day, of which only the database knows how a word is meant."""
    word = day if isinstance(day, str) else None
    return {
        "date": None if isinstance(day, str) else day,
        "days_ago": named_days.DAYS_AGO.get(word) if word else None,
        "weekday": named_days.WEEKDAYS.index(word) + 1 if word in named_days.WEEKDAYS else None,
    }


class OneDay(InZone):
    """Which day."""

    date: NamedDay | None = Field(
        default=None,
        description="YYYY-MM-DD, today, yesterday or a weekday: its last day, today included.",
    )

    def values(self) -> dict[str, Any]:
        """Return the values with the metrics to compare and the limits of the endpoints' lists."""
        names = [*ACTIVITY, *(name for section in SECTIONS.values() for name in section)]
        return (
            super().values()
            | Listed().values()
            | _named(self.date)
            | {
                "limit": MOST,
                "include_cancelled": False,
                "metrics": names,
                "is_counted": True,
            }
        )


class Top(Body):
    """An application, category or project with much time."""

    name: str
    total_ms: Milliseconds
    percent: Percent | None


class Focus(Body):
    """Streaks of focus; totals have their time."""

    streak_count: Count
    average_ms: Milliseconds | None


class GoalOfDay(Body):
    """The progress of a goal in the period to which the day belongs."""

    title: str
    comparison: Literal["at_least", "at_most"]
    period: Literal["day", "week", "month"]
    value_text: str
    target_text: str
    status: Status


class CodeEvent(Body):
    """A commit, or an event of a pull request."""

    occurred_at: Timestamp
    type: str
    action: str
    repository: str
    title: str | None


class Commits(Body):
    """Events of code hosts, the newest first."""

    totals: list[Measure]
    recent: list[CodeEvent]


class Night(Body):
    """The main sleep that ended on the day; null for what was not measured."""

    started_at: Timestamp | None
    ended_at: Timestamp | None
    asleep_ms: Milliseconds | None
    deep_ms: Milliseconds | None
    rem_ms: Milliseconds | None
    nap_ms: Milliseconds
    """Asleep in naps, which asleep_ms does not include."""


class SleepOfDay(Body):
    """The sleep before the day."""

    totals: list[Measure]
    night: Night | None


class Meeting(Body):
    """An event of a calendar that was not cancelled."""

    title: str | None
    starts_at: Timestamp
    ends_at: Timestamp
    all_day: bool | None
    """Null if it is not."""
    response: str | None
    """The person's own response. Only accepted events count as meetings in the totals."""


class Meetings(Body):
    """Events of calendars, in order."""

    totals: list[Measure]
    events: list[Meeting]


class Music(Body):
    """Music that was played."""

    totals: list[Measure]
    top_artist: TopArtist | None


class Omitted(Body):
    """A part whose scope this assistant lacks."""

    section: SectionName
    scope: str
    """The missing scope."""


class DayAnswer(Answer):
    """One day. A part whose scope is missing is null and is listed in omitted."""

    date: CalendarDay
    is_over: bool
    """False for today; its values may still grow."""
    normal_until: str | None
    """The current time of day (HH:MM) if the day is not over: normal values include only the hours before
    it."""
    first_activity_at: Timestamp | None
    last_activity_at: Timestamp | None
    totals: list[Measure]
    top_apps: list[Top]
    top_categories: list[Top]
    top_projects: list[Top]
    """The four projects with most coding time."""
    focus: Focus
    goals: list[GoalOfDay]
    commits: Commits | None
    sleep: SleepOfDay | None
    meetings: Meetings | None
    music: Music | None
    omitted: list[Omitted]


def _request(frame: Mapping[str, Any], given: Mapping[str, Any]) -> MetricRequest:
    """Return the metrics of the day and the four weeks before it that the token may read."""
    return MetricRequest(
        [name for name in given["metrics"] if METRICS[name].scope in frame["scopes"]],
        frame["slots"],
        frame["reported"],
        {
            "day": (frame["first_day"], frame["last_day"]),
            "before": (frame["before_first_day"], frame["before_last_day"]),
        },
    )


def _compared(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Remove the results of metrics from the answer, and return them by name."""
    rows = [row for found in measures.taken(answer) for row in found["periods"]]
    values = {row["metric"]: row["mean"] for row in rows if row["kind"] == "day"}
    return {
        row["metric"]: {
            "metric": row["metric"],
            "value": values[row["metric"]],
            "normal": row["mean"],
            "deviation": row["deviation"],
            "days": row["days"],
        }
        for row in rows
        if row["kind"] == "before"
    }


def _tops(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the rows of an endpoint with most time, with their names as ``name``."""
    return [
        _short({"name": row[name], "total_ms": row["total_ms"], "percent": row["percent"]})
        for row in rows[:MOST_TOPS]
        if row["total_ms"] > 0
    ]


def _render(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with measures as phrases, and with a few rows of each part."""
    found = _compared(answer)
    apps, categories = answer.pop("app_usage")["data"], answer.pop("categories")["data"]
    coded = answer.pop("coding")["data"]["projects"]

    def totals(names: tuple[str, ...]) -> list[dict[str, Any]]:
        return [measures.measure(found[name]) for name in names]

    focus, goals = answer.pop("focus_streaks"), answer.pop("goals")
    parts: dict[SectionName, Any] = {name: answer[name] for name in SECTIONS}
    held: dict[str, Any] = {
        name: None
        if part is None
        else {"totals": totals(SECTIONS[name])} | _SECTION_DETAILS[name](part["data"])
        for name, part in parts.items()
    }
    cut = [part for part in parts.values() if part is not None]
    return (
        answer
        | held
        | {
            "first_activity_at": min((app["first_used_at"] for app in apps), default=None),
            "last_activity_at": max((app["last_used_at"] for app in apps), default=None),
            "totals": totals(ACTIVITY),
            "top_apps": _tops(apps, "app"),
            "top_categories": _tops(categories, "category"),
            "top_projects": _tops(coded, "project"),
            "focus": _only(Focus, focus["totals"]),
            "goals": _goals(goals["data"], answer["date"]),
            "omitted": [
                {"section": name, "scope": _scope(name)}
                for name, part in parts.items()
                if part is None
            ],
            "truncated": any(part.get("has_more", False) for part in cut),
        }
    )


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``row`` with long texts cut."""
    return {
        name: f"{value[: LONGEST_TEXT - 1]}…"
        if isinstance(value, str) and len(value) > LONGEST_TEXT
        else value
        for name, value in row.items()
    }


def _only(model: type[Body], row: Mapping[str, Any]) -> dict[str, Any]:
    return _short({name: row[name] for name in model.model_fields})


def _goals(rows: list[dict[str, Any]], day: str) -> list[dict[str, Any]]:
    """Return the first enabled goals with a period that includes ``day``, each with that period."""
    kept = []
    for goal in rows:
        periods = [*goal["history"], goal["progress"] | goal["progress"]["period"]]
        of_day = [each for each in periods if each["from"] <= day <= each["to"]]
        if goal["enabled"] and of_day:
            kept.append(_goal(goal, of_day[0]))
    return kept[:MOST_GOALS]


def _goal(goal: dict[str, Any], period: dict[str, Any]) -> dict[str, Any]:
    name, unit = goal["metric"], goal["unit"]
    return _short(
        {
            "title": goal["title"],
            "comparison": goal["comparison"],
            "period": goal["period"],
            "value_text": measures.words(period["value"], name, unit),
            "target_text": measures.words(goal["target"], name, unit),
            "status": period["status"],
        }
    )


def _commits(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "recent": [
            _only(CodeEvent, row | {"repository": row["repository"]["name"]}) for row in rows
        ]
    }


def _sleep(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (day,) = rows
    return {"night": None if day["sleep"] is None else _only(Night, day["sleep"])}


def _meetings(rows: list[dict[str, Any]]) -> dict[str, Any]:
    events = [row | {"all_day": row["all_day"] or None} for row in reversed(rows)]
    return {"events": [_only(Meeting, row) for row in events]}


def _music(rows: list[dict[str, Any]]) -> dict[str, Any]:
    # A day that the zone skipped has no row.
    best = rows[0]["top_artist"] if rows else None
    return {"top_artist": None if best is None else _short(best)}


_SECTION_DETAILS: Final = {
    "commits": _commits,
    "sleep": _sleep,
    "meetings": _meetings,
    "music": _music,
}


TOOLS: Final = [
    Tool(
        name="get_day",
        title="A day",
        description="One day: tracked, productive, distracted, coding and focus time, each against the mean"
        " of the 28 days before (for today up to the same hour); top applications, categories and projects,"
        " focus, goals; also commits, meetings, music and the sleep that ended on that day, where"
        " scopes allow (omitted lists the rest). Use it for 'How was my day?', 'Was yesterday unusual?' and"
        " 'When did I start on Monday?'. Not for several days: use get_time_breakdown or compare_periods.",
        scope=ENTRY,
        arguments=OneDay,
        answer=DayAnswer,
        frame=SQL["day_frame"],
        parts=(
            Part(SQL["get_day"]),
            *measures.parts(_request),
            tool.part(activity.ENDPOINTS, "app_usage"),
            tool.part(activity.ENDPOINTS, "categories"),
            tool.part(coding.ENDPOINTS, "coding"),
            tool.part(attention.ENDPOINTS, "focus_streaks"),
            tool.part(goals.ENDPOINTS, "goals"),
            tool.part(
                code.ENDPOINTS,
                "codehost_activity",
                name="commits",
                scope=_scope("commits"),
                own={"limit": MOST_COMMITS},
            ),
            tool.part(health.ENDPOINTS, "recovery", name="sleep", scope=_scope("sleep")),
            tool.part(
                content.ENDPOINTS, "calendar_events", name="meetings", scope=_scope("meetings")
            ),
            tool.part(music.ENDPOINTS, "music_daily", name="music", scope=_scope("music")),
        ),
        app=apps.DAY,
        finish=_render,
    )
]
