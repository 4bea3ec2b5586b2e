"""Application use: where the time went, by application and by day.

At each instant the session that started last owns the time, so sums over applications and days equal
the tracked time to the millisecond.
"""

from pathlib import Path
from typing import Final

from resourceserver.bodies import (
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
from resourceserver.endpoint import Endpoint
from resourceserver.parameters import DayRange, InstantRange
from shared import queries

HERE: Final = Path(__file__).parent
SQL: Final = queries.load(HERE / "timeline.sql", HERE / "activity.sql")


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
    coding_ms: Milliseconds | None
    """Time in coding sessions, beside the tracked time; null where they are not counted yet."""
    app_switches: Count | None
    session_count: Count
    """Sessions that overlap the day, also those that began the day before."""
    first_activity_at: Timestamp | None
    last_activity_at: Timestamp | None
    has_data: bool


class DailyTotals(Body):
    """Sums over the days of the range."""

    tracked_ms: Milliseconds
    productive_ms: Milliseconds
    neutral_ms: Milliseconds
    distracted_ms: Milliseconds
    coding_ms: Milliseconds | None
    app_switches: Count | None
    days: Count
    active_days: Count


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


ENDPOINTS: Final = [
    Endpoint(
        name="daily",
        path="/api/v1/analytics/daily",
        scope="read:activity",
        summary="Day-by-day totals of tracked, productive and distracted time.",
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
]
