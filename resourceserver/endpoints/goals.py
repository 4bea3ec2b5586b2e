"""Goals: what somebody wants of their days, weeks and months, and how far they have come."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, Count, DayRangeEcho, Timestamp
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import NoParams
from resourceserver.timeline.metrics import ActivityMetric
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql",
    _TIMELINE / "segments.sql",
    _TIMELINE / "metrics.sql",
    _HERE / "goals.sql",
)

Status = Literal["met", "missed", "in_progress", "exceeded", "skipped"]
Weekday = Annotated[int, Field(ge=1, le=7)]


class Filter(Body):
    """What of somebody's activity counts; an empty list leaves nothing out."""

    categories: list[str]
    apps: list[str]
    projects: list[str]
    languages: list[str]


class Progress(Body):
    """How far the period that is under way has come."""

    period: DayRangeEcho
    tz: str
    """The caller's own zone."""
    value: Count
    target: Count
    percent: Annotated[float, Field(ge=0)] | None
    """Of the target, also beyond 100; null where the target is 0."""
    status: Status
    remaining: Count
    """What is left until the target, which to reach is good or bad."""


class Finished(DayRangeEcho):
    """A period that is over."""

    value: Count
    status: Status


class Goal(Body):
    """One goal."""

    id: str
    title: str
    metric: ActivityMetric
    comparison: Literal["at_least", "at_most"]
    target: Count
    unit: Literal["ms", "count"]
    period: Literal["day", "week", "month"]
    days_of_week: list[Weekday]
    """ISO weekdays on which it counts: 1 is Monday."""
    filter: Filter
    enabled: bool
    progress: Progress
    streak: Count
    """How many periods were met in a row up to the last one that is over; skipped ones are passed over.
    About a year is looked back."""
    history: list[Finished]
    """The last seven periods that are over, in order."""
    created_at: Timestamp


class GoalsBody(Body):
    """All goals, the oldest first."""

    data: list[Goal]
    count: Count


ENDPOINTS: Final = [
    Endpoint(
        name="goals",
        path="/api/v1/goals",
        scope="read:activity",
        summary="Goals and their progress.",
        params=NoParams,
        body=GoalsBody,
        query=SQL["goals"],
    ),
]
