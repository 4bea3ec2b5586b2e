"""Stored daily summaries, which a job keeps up to date (resourceserver/timeline/summaries.py)."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api.bodies import Body, CalendarDay, Count, Listing, Milliseconds, Timestamp
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import FIRST_DAY, LAST_DAY, Day, Listed, at_most
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "timeline.sql", _HERE / "rows.sql", _HERE / "summaries.sql")


class SummaryPage(Listed):
    """The stored summaries to list."""

    from_: Day | None = Field(default=None, alias="from", description="First calendar day.")
    to: Day | None = Field(default=None, description="Last calendar day, included.")
    limit: Annotated[int, at_most(366)] = Field(
        default=31, ge=0, description="Most rows of the answer; more than 366 are 366."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            raise PydanticCustomError("order", "must not be after to", {"parameter": "from"})
        return self

    def values(self) -> dict[str, Any]:
        """Return the values with both ends, because a query with fixed ends has one plan for all calls."""
        ends = {"from": self.from_ or FIRST_DAY, "to": self.to or LAST_DAY}
        return super().values() | ends


class TopApp(Body):
    """An application with much of the day's time."""

    app: str
    """The application."""
    total_ms: Milliseconds


class TopCategory(Body):
    """A category with much of the day's time."""

    category: str
    total_ms: Milliseconds


class TopProject(Body):
    """A project with much of the day's coding time."""

    project: str
    total_ms: Milliseconds


class Summary(Body):
    """The stored summary of one day."""

    date: CalendarDay
    tz: str
    """The time zone of the day: the caller's own when it was summed up."""
    status: Literal["provisional", "final"]
    """Provisional until the day has been over for an hour, and while it is among the pending days."""
    tracked_ms: Milliseconds
    productive_ms: Milliseconds
    neutral_ms: Milliseconds
    distracted_ms: Milliseconds
    coding_ms: Milliseconds
    app_switches: Count
    focus_ms: Milliseconds
    longest_focus_ms: Milliseconds
    """The longest streak of focus within the day, in milliseconds."""
    top_apps: list[TopApp]
    """At most five, like the other tops."""
    top_categories: list[TopCategory]
    """The categories with most tracked time."""
    top_projects: list[TopProject]
    """The projects with most coding time."""
    text: str | None
    """The day in words; null without a text."""
    generated_at: Timestamp


class SummariesBody(Listing):
    """Stored summaries of days, the newest first."""

    data: list[Summary]
    pending_days: list[CalendarDay]
    """Days of this page that will be summed up within minutes: their rows are provisional or missing."""


ENDPOINTS: Final = [
    Endpoint(
        name="summaries",
        path="/api/v1/account/summaries",
        scope="read:activity",
        summary="Stored daily summaries, the newest first.",
        params=SummaryPage,
        body=SummariesBody,
        query=SQL["summaries"],
        is_quick=True,
    ),
]
