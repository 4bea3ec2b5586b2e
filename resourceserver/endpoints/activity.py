"""Where the time went: by day, by application and by category.

At each instant the session that started last owns the time, so sums over applications, categories
and days equal the tracked time to the millisecond.
"""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    DayRangeEcho,
    InstantRangeEcho,
    Milliseconds,
    Percent,
    Productivity,
    Timestamp,
)
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.parameters import DayRange, InstantRange, InstantRangeInZone
from shared import queries

HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql", _TIMELINE / "segments.sql", HERE / "activity.sql"
)


class AppUsage(Body):
    """One application's time in the range."""

    app: str
    category: str
    """The category with most of the application's time in the range."""
    productivity: Productivity
    total_ms: Milliseconds
    percent: Percent | None
    """Of the tracked time; null where there is none."""
    session_count: Count
    longest_session_ms: Milliseconds
    first_used_at: Timestamp | None
    """Null where the application owned no time."""
    last_used_at: Timestamp | None


class AppUsageTotals(Body):
    """Sums over all applications."""

    tracked_ms: Milliseconds
    app_count: Count
    session_count: Count


class AppUsageBody(Body):
    """Time per application, longest first."""

    range: InstantRangeEcho
    data: list[AppUsage]
    totals: AppUsageTotals


class Day(Body):
    """One calendar day; productive, neutral and distracted time add up to the tracked time."""

    date: CalendarDay
    starts_at: Timestamp
    ends_at: Timestamp
    tracked_ms: Milliseconds
    productive_ms: Milliseconds
    neutral_ms: Milliseconds
    distracted_ms: Milliseconds
    coding_ms: Milliseconds
    """Time in coding sessions, which stands beside the tracked time and may exceed it."""
    app_switches: Count
    """How often one application followed another without a break (see context switches)."""
    session_count: Count
    """Sessions that overlap the day, also those that began the day before."""
    first_activity_at: Timestamp | None
    last_activity_at: Timestamp | None
    has_data: bool
    """Whether any time was tracked or coded."""


class DailyTotals(Body):
    """Sums over the days of the range."""

    tracked_ms: Milliseconds
    productive_ms: Milliseconds
    neutral_ms: Milliseconds
    distracted_ms: Milliseconds
    coding_ms: Milliseconds
    app_switches: Count
    days: Count
    active_days: Count
    """Days on which any time was tracked or coded."""


class DailyAverage(Body):
    """Averages over the active days; null where there is none."""

    tracked_ms: Milliseconds | None
    productive_ms: Milliseconds | None
    distracted_ms: Milliseconds | None
    coding_ms: Milliseconds | None


class DailyBody(Body):
    """Every day of the range, in order."""

    range: DayRangeEcho
    tz: str
    data: list[Day]
    totals: DailyTotals
    daily_average: DailyAverage


class CategoryTime(Body):
    """One category's time in the range."""

    category: str
    productivity: Productivity
    score: Annotated[int, Field(ge=-2, le=2)]
    """From -2, very distracting, to 2, very productive."""
    total_ms: Milliseconds
    percent: Percent | None
    """Of the tracked time; null where there is none."""
    app_count: Count
    session_count: Count


class CategoriesTotals(Body):
    """Sums over all categories; productive, neutral and distracted time add up to the tracked time."""

    tracked_ms: Milliseconds
    productive_ms: Milliseconds
    neutral_ms: Milliseconds
    distracted_ms: Milliseconds
    uncategorized_ms: Milliseconds
    """Time in ``Uncategorized``, which no rule put into a category."""


class CategoriesBody(Body):
    """Time per category, longest first."""

    range: InstantRangeEcho
    data: list[CategoryTime]
    totals: CategoriesTotals


class CategoryOfDay(Body):
    """One category's time on one day."""

    category: str
    productivity: Productivity
    total_ms: Milliseconds
    percent: Percent | None
    """Of the day's tracked time; null where there is none."""


class CategorizedDay(Body):
    """One day's time per category, longest first; the sum is the tracked time."""

    date: CalendarDay
    tracked_ms: Milliseconds
    categories: list[CategoryOfDay]


class DailyCategoriesTotals(Body):
    """Sums over all days."""

    tracked_ms: Milliseconds


class DailyCategoriesBody(Body):
    """Every day that the range touches, in order; what lies outside the range is cut off."""

    range: InstantRangeEcho
    tz: str
    data: list[CategorizedDay]
    totals: DailyCategoriesTotals


ENDPOINTS: Final = [
    Endpoint(
        name="daily",
        path="/api/v1/analytics/daily",
        scope="read:activity",
        summary="Day-by-day totals of tracked, productive, distracted and coding time.",
        params=DayRange,
        body=DailyBody,
        query=SQL["daily"],
    ),
    Endpoint(
        name="app_usage",
        path="/api/v1/analytics/app-usage",
        scope="read:activity",
        summary="Time spent per application, longest first.",
        params=InstantRange,
        body=AppUsageBody,
        query=SQL["app_usage"],
    ),
    Endpoint(
        name="categories",
        path="/api/v1/analytics/categories",
        scope="read:activity",
        summary="Time spent per category, longest first.",
        params=InstantRange,
        body=CategoriesBody,
        query=SQL["categories"],
    ),
    Endpoint(
        name="daily_categories",
        path="/api/v1/analytics/daily-categories",
        scope="read:activity",
        summary="Time spent per category on each day.",
        params=InstantRangeInZone,
        body=DailyCategoriesBody,
        query=SQL["daily_categories"],
    ),
]
