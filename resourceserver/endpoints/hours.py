"""Time by hour: of one day, of each hour of some days, and of each weekday on average.

Instants with the same date, hour and offset from UTC on the local clock make an hour. So a day has 24 of them
except when clocks change: then one is missing, doubled or short.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    DayRangeEcho,
    InstantRangeEcho,
    Milliseconds,
    Productivity,
    Timestamp,
)
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import Day, DayRange, Flag, Params, Zone, between
from resourceserver.endpoints import stretches
from resourceserver.endpoints.stretches import UNREPORTED, Unreported
from resourceserver.timeline import metrics
from shared import pipeline, queries
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql", _TIMELINE / "reported.sql", _HERE / "hours.sql"
)

_TIME: Final = "time_of_hours"
_CODING: Final = "measured_coding"
_OF_HOURS: Final = {
    _TIME: pipeline.statement(SQL[_TIME]),
    _CODING: metrics.STATEMENTS[_CODING],
    UNREPORTED: stretches.BESIDE[UNREPORTED],
}
"""What is read of the hours of a day."""

_METRICS: Final = {
    "tracked_ms": "total_ms",
    "productive_ms": "productive_ms",
    "neutral_ms": "neutral_ms",
    "distracted_ms": "distracted_ms",
    "coding_ms": "coding_ms",
}
"""What an hour calls the metrics of its time."""
_OF_METRICS: Final = {
    name: metrics.STATEMENTS[name] for name in metrics.by_statement(list(_METRICS))
}
MOST_DAYS: Final = 62
"""The most days whose hours one answer lists: two months."""
BEST_HOURS: Final = 5

HourOfDay = Annotated[int, Field(ge=0, le=23)]
Weekday = Annotated[int, Field(ge=1, le=7)]
"""An ISO weekday: 1 is Monday."""


class LocalDay(Params):
    """A calendar day in a time zone."""

    date: Day = Field(description="Calendar day.", examples=["2025-10-20"])
    tz: Zone = Field(default="UTC", description="IANA time zone of the day and its hours.")
    include_unreported: Flag = Field(
        default=False, description="Whether the time without a report is listed."
    )


class Weeks(Params):
    """The number of weeks before today, and the time zone of their days and hours."""

    weeks: Annotated[int, between(1, 52)] = Field(
        default=6, ge=1, le=52, description="The number of weeks, of which the last ends yesterday."
    )
    tz: Zone = Field(default="UTC", description="IANA time zone of days and hours.")


class DaysOfHours(DayRange):
    """A range of calendar days whose hours are listed."""

    to: Day = Field(
        description=f"Last calendar day, included; a range has at most {MOST_DAYS} days.",
        examples=["2025-10-26"],
    )

    @model_validator(mode="after")
    def _is_short(self) -> Self:
        if (self.to - self.from_).days >= MOST_DAYS:
            raise PydanticCustomError(
                "length",
                "must be less than {most} days after from",
                {"parameter": "to", "most": MOST_DAYS},
            )
        return self

    def values(self) -> dict[str, Any]:
        """Return the values for a statement that looks for reported days."""
        return super().values() | {"is_counted": True}


class CategoryOfHour(Body):
    """One category's time in one hour."""

    category: str
    productivity: Productivity
    total_ms: Milliseconds


class Hour(Body):
    """One hour; its categories, and productive, neutral and distracted time, add up to its total."""

    hour: HourOfDay
    """The hour on the local clock."""
    utc_offset: Annotated[str, Field(pattern=r"^[+-]\d\d:\d\d(:\d\d)?$")]
    """Distinguishes two hours of the same name."""
    starts_at: Timestamp
    ends_at: Timestamp
    total_ms: Milliseconds
    productive_ms: Milliseconds
    neutral_ms: Milliseconds
    distracted_ms: Milliseconds
    coding_ms: Milliseconds
    """Time in coding sessions, which the total does not include."""
    categories: list[CategoryOfHour]
    """Longest first."""


class HourlyTotals(Body):
    """Sums over the hours."""

    tracked_ms: Milliseconds


class HourlyBody(Body):
    """All hours of a day, in order."""

    date: CalendarDay
    tz: str
    range: InstantRangeEcho
    """From the day's first instant to its last."""
    data: list[Hour]
    totals: HourlyTotals
    unreported: list[Unreported] | None
    """Time until now of at least five minutes in which no tracker reported anything, as day-timeline lists
    it. Null unless `include_unreported` is true."""


class HourOfDays(Body):
    """One hour of one of the days; productive, neutral and distracted time add up to its total."""

    date: CalendarDay
    hour: HourOfDay
    """The hour on the local clock."""
    utc_offset: Annotated[str, Field(pattern=r"^[+-]\d\d:\d\d(:\d\d)?$")]
    """Distinguishes two hours of the same name."""
    starts_at: Timestamp
    ends_at: Timestamp
    total_ms: Milliseconds
    productive_ms: Milliseconds
    neutral_ms: Milliseconds
    distracted_ms: Milliseconds
    coding_ms: Milliseconds
    """Time in coding sessions, which the total does not include."""


class ReportedDay(Body):
    """One of the days."""

    date: CalendarDay
    reported: bool
    """Whether any tracker reported anything on this day; if not, its hours are unknown and not empty."""


class HoursTotals(Body):
    """Sums over all hours."""

    tracked_ms: Milliseconds
    productive_ms: Milliseconds
    neutral_ms: Milliseconds
    distracted_ms: Milliseconds
    coding_ms: Milliseconds


class HoursBody(Body):
    """All hours of some days, in order."""

    range: DayRangeEcho
    tz: str
    data: list[HourOfDays]
    days: list[ReportedDay]
    """The days, in order."""
    best_hours: list[HourOfDays]
    """The five hours with most productive time, the most first, of equal ones the earliest; none without."""
    totals: HoursTotals


class HourPattern(Body):
    """The averages of one hour of a weekday."""

    day_of_week: Weekday
    """An ISO weekday: 1 is Monday."""
    hour: HourOfDay
    average_ms: Milliseconds
    """Average tracked time, in milliseconds."""
    productive_average_ms: Milliseconds
    """Average productive time, in milliseconds."""
    distracted_average_ms: Milliseconds
    """Average distracting time, in milliseconds."""
    coding_average_ms: Milliseconds
    """Average coding time, in milliseconds."""
    sample_count: Count
    """The number of such hours since the first tracked day, including empty ones, by which sums are
    divided."""


class DayPattern(Body):
    """The average of one weekday."""

    day_of_week: Weekday
    """An ISO weekday: 1 is Monday."""
    average_ms: Milliseconds
    """Average tracked time, in milliseconds."""
    sample_count: Count


class HourlyPatternsBody(Body):
    """An average week: every hour of every weekday."""

    weeks: Annotated[int, Field(ge=1, le=52)]
    """The number of weeks."""
    tz: str
    range: DayRangeEcho
    """Whole weeks; the last day is yesterday."""
    weeks_with_data: Count
    """The number of these weeks with any tracked or coding time."""
    data: list[HourPattern]
    by_day: list[DayPattern]
    """One row for each weekday."""


_PATTERNS: Final = "time_of_weeks"
_OF_WEEKS: Final = {_PATTERNS: pipeline.statement(SQL[_PATTERNS])}
"""What is read of the hours of weeks."""


def _steps_of_weeks(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statement about the hours of weeks."""
    query = answers["query"]
    found = {
        "edges": query["edges"],
        "first_tracked": query["first_tracked"],
        "first_day": query["range"]["from"],
    }
    return {_PATTERNS: (_OF_WEEKS[_PATTERNS], {**values, **found})}


def _finish_weeks(answers: Answers) -> dict[str, Any]:
    """Return the body: weeks with their averages."""
    query = answers["query"]
    return {
        "weeks": query["weeks"],
        "tz": query["tz"],
        "range": query["range"],
        **answers[_PATTERNS],
    }


def _slots(hours: Sequence[Mapping[str, Any]], dates: Sequence[str]) -> metrics.Slots:
    return {
        "dates": dates,
        "starts": [hour["starts_at"] for hour in hours],
        "ends": [hour["ends_at"] for hour in hours],
    }


def _steps_of_days(_: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statements that read the time of the hours; none for a day that the zone skipped."""
    hours = answers["query"]["data"]
    slots = _slots(hours, [hour["date"] for hour in hours])
    return {
        name: (_OF_METRICS[name], metrics.values(names, slots))
        for name, names in metrics.by_statement(list(_METRICS)).items()
        if hours
    }


def _finish_days(answers: Answers) -> dict[str, Any]:
    """Return the body: hours with their time, and the best of them."""
    body: dict[str, Any] = answers["query"]
    for statement in _OF_METRICS.keys() & answers.keys():
        for metric, values in answers[statement]["days"].items():
            for hour, value in zip(body["data"], values, strict=True):
                hour[_METRICS[metric]] = value or 0
    productive = [hour for hour in body["data"] if hour["productive_ms"] > 0]
    best = sorted(productive, key=lambda hour: (-hour["productive_ms"], hour["starts_at"]))
    return body | {
        "best_hours": best[:BEST_HOURS],
        "totals": {
            metric: sum(hour[name] for hour in body["data"]) for metric, name in _METRICS.items()
        },
    }


def _steps(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return what reads the time of the hours. A day that the zone skipped has none."""
    hours = answers["query"]["data"]
    beside: dict[str, Step] = {}
    if values["include_unreported"]:
        beside[UNREPORTED] = (_OF_HOURS[UNREPORTED], {**values, "until": None})
    if not hours:
        return beside
    slots = _slots(hours, [answers["query"]["date"]] * len(hours))
    return beside | {
        _TIME: (_OF_HOURS[_TIME], slots),
        _CODING: (_OF_HOURS[_CODING], metrics.values(["coding_ms"], slots)),
    }


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: hours with their time."""
    unreported = answers[UNREPORTED]["times"] if UNREPORTED in answers else None
    body: dict[str, Any] = answers["query"] | {"unreported": unreported}
    if _TIME not in answers:
        return body | {"totals": {"tracked_ms": 0}}
    times, coded = answers[_TIME], answers[_CODING]["days"]["coding_ms"]
    for hour, time, coding_ms in zip(body["data"], times["hours"], coded, strict=True):
        hour.update(time | {"coding_ms": coding_ms or 0})
    return body | {"totals": times["totals"]}


ENDPOINTS: Final = [
    Endpoint(
        name="hourly",
        path="/api/v1/analytics/hourly",
        scope="read:activity",
        summary="One day by hour and category.",
        params=LocalDay,
        body=HourlyBody,
        query=SQL["hourly"],
        further=Further(_OF_HOURS, _steps, _finish),
    ),
    Endpoint(
        name="hours",
        path="/api/v1/analytics/hours",
        scope="read:activity",
        summary="Every hour of some days, and the most productive ones.",
        params=DaysOfHours,
        body=HoursBody,
        query=SQL["hours"],
        further=Further(_OF_METRICS, _steps_of_days, _finish_days),
    ),
    Endpoint(
        name="hourly_patterns",
        path="/api/v1/analytics/hourly-patterns",
        scope="read:activity",
        summary="Average time by hour and day of the week.",
        params=Weeks,
        body=HourlyPatternsBody,
        query=SQL["hourly_patterns"],
        further=Further(_OF_WEEKS, _steps_of_weeks, _finish_weeks),
    ),
]
