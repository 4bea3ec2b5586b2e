"""Time by day, by application and by category.

At each instant the session that started last owns the time, so sums over applications, categories
and days equal the tracked time to the millisecond.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    DayRangeEcho,
    InstantRangeEcho,
    Milliseconds,
    OfSums,
    Percent,
    Productivity,
    Timestamp,
)
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import DayRange, InstantRange, InstantRangeInZone
from resourceserver.endpoints import sessions
from shared import pipeline, queries
from shared.pipeline import Step

HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql",
    _TIMELINE / "segments.sql",
    HERE / "rows.sql",
    HERE / "activity.sql",
)

_BESIDE: Final = {
    "coding_ms": sessions.CODING,
    "app_switches": pipeline.statement(SQL["daily_switches"]),
}
"""The columns of a day that have statements of their own, and these statements."""


class AppUsage(Body):
    """One application's time in the range."""

    app: str | None
    """The application; null in a last row beyond 5,000, which adds up all further applications."""
    category: str
    """The category with most of the application's time in the range."""
    productivity: Productivity
    total_ms: Milliseconds
    percent: Percent | None
    """Of the tracked time; null where there is none."""
    session_count: Count
    longest_session_ms: Milliseconds
    """The longest time that one session owned, in milliseconds."""
    first_used_at: Timestamp | None
    """Start of the first time that the application owned; null where it owned none."""
    last_used_at: Timestamp | None
    """End of the last time that the application owned; null where it owned none."""


class DomainUsage(Body):
    """One website's time in the range, in all browsers."""

    domain: str
    """The host of the sessions' addresses, without ``www.``."""
    category: str
    """The category with most of the website's time in the range."""
    productivity: Productivity
    total_ms: Milliseconds
    percent: Percent | None
    """Of the tracked time; null where there is none."""
    session_count: Count


class AppUsageTotals(Body):
    """Sums over all applications; time with and without a domain adds up to the tracked time."""

    tracked_ms: Milliseconds
    app_count: Count
    session_count: Count
    domains_ms: Milliseconds
    """Time of sessions with a web address, including websites that are not listed."""
    without_domain_ms: Milliseconds
    """Time of sessions without a web address."""


class AppUsageBody(OfSums):
    """Time per application and per website, longest first."""

    range: InstantRangeEcho
    data: list[AppUsage]
    """At most 5,000 applications, and one row for all others; browsers are applications too."""
    domains: Annotated[list[DomainUsage], Field(max_length=1000)]
    """At most 1,000 websites. Their time is also in ``data``, in the rows of the browsers."""
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
    """Time in coding sessions, which is measured separately and may exceed the tracked time."""
    app_switches: Count
    """How often one application followed another without a break (see context switches)."""
    session_count: Count
    """Sessions that overlap the day, including those that began the day before."""
    first_activity_at: Timestamp | None
    """Start of the day's first tracked time; null where there is none."""
    last_activity_at: Timestamp | None
    """End of the day's last tracked time; null where there is none."""
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
    """Days of the range."""
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
    """Averages over active days."""


class CategoryTime(Body):
    """One category's time in the range."""

    category: str
    """The name of the category."""
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
    """Time in ``Uncategorized``, which no rule assigns to a category."""


class CategoriesBody(OfSums):
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
    """The day's categories, longest first."""


class DailyCategoriesTotals(Body):
    """Sums over all days."""

    tracked_ms: Milliseconds


class DailyCategoriesBody(OfSums):
    """Every day that overlaps the range, in order; days are clipped to the range."""

    range: InstantRangeEcho
    tz: str
    data: list[CategorizedDay]
    totals: DailyCategoriesTotals


def _steps(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statements of the columns that the query leaves out."""
    days = answers["query"]["data"]
    # Coding has the statement of another endpoint, whose days are those between two instants.
    instants = {"from": days[0]["starts_at"], "to": days[-1]["ends_at"]}
    return {
        "coding_ms": (_BESIDE["coding_ms"], {**values, **instants}),
        "app_switches": (_BESIDE["app_switches"], values),
    }


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: days with all of their columns, and the sums of these."""
    body = {**answers["query"]}
    days = body["data"]
    coding, switches = (answers[column]["days"] for column in _BESIDE)
    for day in days:
        day["coding_ms"] = coding[day["date"]]["coding_ms"] if day["date"] in coding else 0
        day["app_switches"] = switches.get(day["date"], 0)
        day["has_data"] = day["tracked_ms"] > 0 or day["coding_ms"] > 0
    active_days = sum(day["has_data"] for day in days)
    totals = {
        name: sum(day[name] for day in days)
        for name in DailyTotals.model_fields
        if name not in {"days", "active_days"}
    }
    body["totals"] = totals | {"days": len(days), "active_days": active_days}
    body["daily_average"] = {
        # To the nearest whole number, halves up, as Postgres rounds.
        name: (2 * totals[name] + active_days) // (2 * active_days) if active_days else None
        for name in DailyAverage.model_fields
    }
    return body


ENDPOINTS: Final = [
    Endpoint(
        name="daily",
        path="/api/v1/analytics/daily",
        scope="read:activity",
        summary="Day-by-day totals of tracked, productive, distracted and coding time.",
        params=DayRange,
        body=DailyBody,
        query=SQL["daily"],
        further=Further(_BESIDE, _steps, _finish),
    ),
    Endpoint(
        name="app_usage",
        path="/api/v1/analytics/app-usage",
        scope="read:activity",
        summary="Time spent per application and per website, longest first.",
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
