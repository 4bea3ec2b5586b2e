"""The timeline of a day in stretches, few enough to draw, and when its activity begins and ends."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    InstantRangeEcho,
    Milliseconds,
    Productivity,
    Timestamp,
)
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import Day, Instant, Params, Zone, between
from shared import pipeline, queries
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql", _TIMELINE / "segments.sql", _HERE / "stretches.sql"
)

UNREPORTED: Final = "unreported_time"
_SCREEN_TIME: Final = "screen_time"
BESIDE: Final = {name: pipeline.statement(SQL[name]) for name in (UNREPORTED, _SCREEN_TIME)}
"""What is read beside the stretches of a day; hours have the first beside them too."""
_LONGEST_GAP_MS: Final = 10_800_000
_UNREPORTED_MS: Final = 300_000
"""The limits of the statements, as the answer names them."""


class DayInStretches(Params):
    """A calendar day in a time zone, and how exact its stretches are."""

    date: Day = Field(description="Calendar day.", examples=["2025-10-20"])
    tz: Zone = Field(default="UTC", description="IANA time zone of the day.")
    resolution_s: Annotated[int, between(30, 3600)] = Field(
        default=120,
        ge=30,
        le=3600,
        description="The length of a cell in seconds; no stretch is shorter unless time without activity"
        " is beside it.",
    )
    until: Instant | None = Field(
        default=None,
        description="The instant up to which time without activity counts as a gap; now by default, and"
        " at the latest.",
    )


class StretchOfCategory(Body):
    """Adjacent cells in which the same category has most of the time."""

    starts_at: Timestamp
    """The start of the first tracked time in the cells."""
    ends_at: Timestamp
    """The end of the last tracked time in the cells."""
    category: str
    productivity: Productivity
    total_ms: Milliseconds
    """Tracked time in the cells, of all categories."""
    category_ms: Milliseconds
    """How much of it is this category's."""
    app: str
    """The application of this category with most time in the cells."""
    app_count: Count
    """The number of applications in the cells, of all categories."""


class StretchOfProject(Body):
    """Adjacent cells in which the same project has most of the coding time."""

    starts_at: Timestamp
    """The start of the first coding time in the cells."""
    ends_at: Timestamp
    """The end of the last coding time in the cells."""
    project: str
    total_ms: Milliseconds
    """Coding time in the cells, of all projects."""


class Unreported(Body):
    """Time in which no tracker reported anything."""

    starts_at: Timestamp
    ends_at: Timestamp
    duration_ms: Milliseconds


class CountedByPhone(Body):
    """For how long an application was in use on a phone, which does not say when on the day."""

    device: str
    """The name of the phone; empty where it is unknown."""
    app: str
    """The id of the application."""
    name: str | None
    """What people call the application."""
    duration_ms: Milliseconds
    source: str


class StretchDefinition(Body):
    """The limits of this answer."""

    resolution_ms: Milliseconds
    """The length of a cell; the first one begins with the day."""
    longest_gap_ms: Milliseconds
    """A shorter gap in the night does not separate two days."""
    unreported_ms: Milliseconds
    """Shorter time without a report is not listed."""


class ActivityOfDay(Body):
    """When the activity of a day begins and ends; a night out belongs to the day on which it began.

    Activity is tracked time and coding time. The longest time without it between 18:00 and 12:00, of equal
    ones the first, separates the days if it has at least three hours; otherwise midnight does.
    """

    first_at: Timestamp | None
    """The start of the first activity after the gap in the night before; null without activity."""
    last_at: Timestamp | None
    """The end of the last activity before the gap in the night after; null without activity."""
    begins: Literal["gap", "midnight"]
    """Whether a gap in the night before separates the day from the one before it, or midnight."""
    ends: Literal["gap", "midnight"]
    """The same for the night after, which counts up to now while it is not over."""


class Stretches(Body):
    """The stretches of a day, in order."""

    apps: list[StretchOfCategory]
    """Tracked time. Each cell with any is in one stretch, so totals add up to the day's tracked time."""
    coding: list[StretchOfProject]
    """Coding time, in the same way."""
    unreported: list[Unreported]
    """Time of at least five minutes in which no tracker reported any session, nor that the person was
    away."""


class StretchTotals(Body):
    """Sums over the stretches."""

    tracked_ms: Milliseconds
    coding_ms: Milliseconds
    unreported_ms: Milliseconds
    """Time without a report, in milliseconds."""


class DayTimelineBody(Body):
    """One day in order."""

    date: CalendarDay
    tz: str
    range: InstantRangeEcho
    """From the day's first instant to its last."""
    definition: StretchDefinition
    activity: ActivityOfDay
    """When the activity of the day begins and ends, which may be after midnight."""
    data: Stretches
    totals: StretchTotals
    screen_time: list[CountedByPhone]
    """What phones counted on this day of theirs, the longest 100 times. It stands beside the stretches: no
    stretch and no total contains it, and a tracker on the same phone may have reported the same time."""
    screen_time_count: Count
    """How many times phones counted on this day, of which `screen_time` has the longest."""
    removed_before: Timestamp | None
    """Single sessions that ended before this have been removed: `apps` has their time, `coding` and
    `activity` do not have that of coding sessions, and `unreported` is by quarters of an hour. Null where it
    is before the evening before the day."""


def _steps(values: Mapping[str, Any], _: Answers) -> dict[str, Step]:
    """Return the statements about time without a report, and about screen time, of the same day."""
    return {name: (statement, values) for name, statement in BESIDE.items()}


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: the stretches, with their sums, and what stands beside them."""
    query, unreported = answers["query"], answers[UNREPORTED]["times"]
    removed_before = answers[UNREPORTED]["removed_before"]
    return {
        "date": query["date"],
        "tz": query["tz"],
        "range": query["range"],
        "definition": {
            "resolution_ms": query["resolution_ms"],
            "longest_gap_ms": _LONGEST_GAP_MS,
            "unreported_ms": _UNREPORTED_MS,
        },
        "activity": query["activity"],
        "data": {
            "apps": query["apps"],
            "coding": query["coding"],
            "unreported": unreported,
        },
        "totals": {
            "tracked_ms": sum(row["total_ms"] for row in query["apps"]),
            "coding_ms": sum(row["total_ms"] for row in query["coding"]),
            "unreported_ms": sum(row["duration_ms"] for row in unreported),
        },
        "screen_time": answers[_SCREEN_TIME]["times"],
        "screen_time_count": answers[_SCREEN_TIME]["count"],
        "removed_before": removed_before,
    }


ENDPOINTS: Final = [
    Endpoint(
        name="day_timeline",
        path="/api/v1/analytics/day-timeline",
        scope="read:activity",
        summary="One day in stretches, and when its activity begins and ends.",
        params=DayInStretches,
        body=DayTimelineBody,
        query=SQL["day_timeline"],
        further=Further(BESIDE, _steps, _finish),
    ),
]
