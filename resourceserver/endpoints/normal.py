"""Own normal: how a day differs from the same weekdays of the eight weeks before it, and why.

A day that is not over is compared with the same hours of the others. Days that nobody reported are left out:
absent is not zero.
"""

from collections.abc import Mapping, Sequence
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
from resourceserver.api.parameters import Day, Instant, Params, Zone
from resourceserver.timeline import metrics, normal
from resourceserver.timeline.metrics import METRICS
from resourceserver.timeline.normal import Comparison, Normal, rounded
from shared import pipeline, queries
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql", _TIMELINE / "reported.sql", _HERE / "normal.sql"
)

SCOPE: Final = "read:activity"
COMPARED: Final = (
    *("tracked_ms", "productive_ms", "distracted_ms", "focus_ms", "coding_ms"),
    *("meeting_ms", "asleep_ms", "health:steps"),
)
"""The metrics of a day, in the order of the answer."""
STORED: Final = frozenset(("tracked_ms", "productive_ms", "distracted_ms", "focus_ms", "coding_ms"))
"""Those of them that stored summaries have."""
APART: Final = ("measured_health",)
"""Statements that read all time between the first slot and the last, so that each day gets one of its own."""
MOST_ROWS: Final = 20
"""The most applications, and the most categories, before the row for all others."""

Weekday = Annotated[int, Field(ge=1, le=7)]


class DaySoFar(Params):
    """A calendar day in a time zone, and the instant up to which it counts."""

    date: Day = Field(description="Calendar day.", examples=["2025-10-20"])
    tz: Zone = Field(default="UTC", description="IANA time zone of the days.")
    until: Instant | None = Field(
        default=None,
        description="The instant up to which the day counts, and the other days up to the same time of day;"
        " by default the end of the day, or now if it is not over. One that is not on the day, or is later"
        " than now, counts as the nearest that is.",
    )

    def values(self) -> dict[str, Any]:
        """Return the values for a statement that looks for reported days."""
        return super().values() | {"is_counted": True}


class EarlierDay(Body):
    """One of the same weekdays of the eight weeks before the day."""

    date: CalendarDay
    until: Timestamp
    """The instant up to which it counts: as late on that day as the end of the range."""
    reported: bool
    """Whether any tracker reported anything on that day; if not, its activity is unknown."""


class OfDay(Body):
    """A day, and the days with which it is compared."""

    date: CalendarDay
    tz: str
    day_of_week: Weekday
    """The ISO weekday of all these days: 1 is Monday."""
    range: InstantRangeEcho
    """From the start of the day to the instant up to which it counts."""
    is_whole_day: bool
    """Whether the whole day counts; if not, so many hours of the others count."""
    days: list[EarlierDay]
    """The eight same weekdays before the day, in order."""


class NormalDefinition(Body):
    """What counts as usual."""

    weeks: Count
    """The number of weeks whose same weekdays are compared."""
    fewest_days: Count
    """With fewer known days there is no usual range."""
    spread: Annotated[float, Field(ge=0)]
    """How far the usual range reaches beyond each quartile, as a part of the distance between the two."""
    least_percent: Annotated[float, Field(ge=0)]
    """How far it reaches from the median at least, in percent of the median."""
    least_ms: Milliseconds
    """The same for durations, in milliseconds."""


class MetricOfDay(Body):
    """The value of one metric, and what is usual for it."""

    metric: Literal[
        "tracked_ms",
        "productive_ms",
        "distracted_ms",
        "focus_ms",
        "coding_ms",
        "meeting_ms",
        "asleep_ms",
        "health:steps",
    ]
    """The metric, as correlation names it."""
    unit: Literal["ms", "count"]
    """Milliseconds, or a number of times."""
    value: float | None
    """The value of the day up to the end of the range; null if it is not known. A sleep belongs whole to the
    day on which it ended."""
    days: Count
    """How many of the eight days have a value."""
    median: float | None
    """The median of their values; null without any."""
    lower_quartile: float | None
    """A quarter of their values are smaller; null without any."""
    upper_quartile: float | None
    """A quarter of their values are larger; null without any."""
    usual_from: float | None
    """The lower end of the usual range; null with too few days."""
    usual_to: float | None
    """The upper end of the usual range; null with too few days."""
    difference: float | None
    """The value minus the median; null if one of them is not known."""
    difference_percent: float | None
    """The difference in percent of the median; null if the difference is not known or the median is 0."""
    comparison: Comparison | None
    """Whether the value is within the usual range, above or below it; null if the value is not known."""


class OmittedMetric(Body):
    """A metric whose scope the token lacks."""

    metric: str
    """The metric, as correlation names it."""
    scope: str
    """The missing scope."""


class NormalBody(OfDay):
    """How a day compares with what is usual for its weekday."""

    definition: NormalDefinition
    data: list[MetricOfDay]
    """The metrics that the token may read, always in the same order."""
    omitted: list[OmittedMetric]
    """The others."""


Change = Literal["new", "absent", "more", "less", "same"]


class DifferenceDefinition(Body):
    """What is compared."""

    weeks: Count
    """The number of weeks whose same weekdays are compared."""
    most_rows: Count
    """The most rows of a list; one more row has the sums of all others."""


class DifferenceTotals(Body):
    """All tracked time; each list adds up to it."""

    tracked_ms: Milliseconds | None
    """Tracked time of the day up to the end of the range; null, as the next two, unless the day and at least
    one of the eight were reported."""
    normal_ms: Milliseconds | None
    """The mean of the reported days among the eight, up to the same time of day."""
    difference_ms: int | None
    """The first minus the second."""
    days: Count
    """How many of the eight days were reported."""


class CategoryDifference(Body):
    """The difference in one category."""

    category: str | None
    """The category; null in the row with the sums of all others."""
    productivity: Productivity | None
    """What the category's score means; null in the row with the sums of all others."""
    total_ms: Milliseconds
    """Time of the day, in milliseconds."""
    normal_ms: Milliseconds
    """The mean of the reported days among the eight, rounded so that rows add up to the total."""
    difference_ms: int
    """The first minus the second."""
    days: Count | None
    """On how many of the reported days it was used; null in the row with the sums of all others."""
    change: Change | None
    """``new`` if it was used on none of those days, ``absent`` if it was used on some of them and not on
    this day; null in the row with the sums of all others."""


class AppDifference(CategoryDifference):
    """The difference in one application."""

    app: str | None
    """The application; null in the row with the sums of all others."""
    category: str | None
    """The category with most of its time on all these days; null in the row with the sums of all others."""


class Differences(Body):
    """Two ways to divide the same difference; each adds up to it exactly."""

    apps: list[AppDifference]
    """By application, the largest difference first, at most 20 and one row for all others."""
    categories: list[CategoryDifference]
    """The same by category."""


class DayDifferenceBody(OfDay):
    """Why the tracked time of a day differs from what is normal for its weekday."""

    definition: DifferenceDefinition
    totals: DifferenceTotals
    data: Differences
    """Empty lists if the difference is not known."""


def _allowed(query: Mapping[str, Any]) -> list[str]:
    """Return the metrics that the token may read."""
    return [name for name in COMPARED if _scope(name) in query["scopes"]]


def _scope(name: str) -> str:
    known = metrics.find(name)
    return SCOPE if known is None else known.scope


def _steps(_: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statements that compute the metrics of these days, unless they are stored."""
    query = answers["query"]
    steps: dict[str, Step] = {}
    for statement, names in metrics.by_statement(_allowed(query)).items():
        slots = _apart(query["slots"])
        if STORED.issuperset(names):
            slots = [slot for slot in slots if slot["dates"][0] not in query["stored"]]
        for n, each in enumerate(slots if statement in APART else _together(slots)):
            steps[f"{statement} {n}"] = (
                metrics.STATEMENTS[statement],
                metrics.values(names, each, reported=query["reported"]),
            )
    return steps


def _apart(slots: metrics.Slots) -> list[metrics.Slots]:
    """Return each slot alone."""
    return [
        {name: [values[n]] for name, values in slots.items()} for n in range(len(slots["dates"]))
    ]


def _together(slots: Sequence[metrics.Slots]) -> list[metrics.Slots]:
    """Return these slots as the slots of one statement; none if there are none."""
    if not slots:
        return []
    return [{name: [value for slot in slots for value in slot[name]] for name in slots[0]}]


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: the metrics of the day, each with its normal."""
    query = answers["query"]
    allowed = _allowed(query)
    return _of_day(query) | {
        "definition": {
            "weeks": normal.WEEKS,
            "fewest_days": normal.FEWEST_DAYS,
            "spread": float(normal.SPREAD),
            "least_percent": normal.LEAST_PERCENT,
            "least_ms": normal.LEAST_MS,
        },
        "data": [_metric(name, answers) for name in allowed],
        "omitted": [
            {"metric": name, "scope": _scope(name)} for name in COMPARED if name not in allowed
        ],
    }


def _of_day(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: query[name] for name in OfDay.model_fields}


def _metric(name: str, answers: Answers) -> dict[str, Any]:
    """Return the MetricOfDay of a metric."""
    *before, value = _values(name, answers)
    known = METRICS.get(name)
    unit = "count" if known is None else known.unit
    usual = Normal.of(
        [each for each in before if each is not None],
        decimals=0,
        least=normal.LEAST_MS if unit == "ms" else 0,
    )
    value = None if value is None else rounded(normal.exact(value), 0)
    difference = None if value is None or usual.median is None else value - usual.median
    return {
        "metric": name,
        "unit": unit,
        "value": value,
        "days": usual.days,
        "median": usual.median,
        "lower_quartile": usual.lower_quartile,
        "upper_quartile": usual.upper_quartile,
        "usual_from": usual.usual_from,
        "usual_to": usual.usual_to,
        "difference": difference,
        "difference_percent": normal.percent(difference, usual.median),
        "comparison": usual.compare(value),
    }


def _values(name: str, answers: Answers) -> list[float | None]:
    """Return the values of a metric on the compared days and the day, stored or computed."""
    query = answers["query"]
    stored = query["stored"] if name in STORED else {}
    (statement,) = metrics.by_statement([name])
    computed = (
        value
        for step, answer in answers.items()
        if step.partition(" ")[0] == statement
        for value in answer["days"][name]
    )
    return [
        stored[day][name] if day in stored else next(computed) for day in query["slots"]["dates"]
    ]


_TIME: Final = "time_of_weekdays"
_OF_WEEKDAYS: Final = {_TIME: pipeline.statement(SQL[_TIME])}
"""What is read of the reported days."""


def _steps_of_difference(_: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statement about the day and the reported days before it, if both are known."""
    query = answers["query"]
    is_known = query["date"] in query["reported"] and len(query["reported"]) > 1
    return {_TIME: (_OF_WEEKDAYS[_TIME], query["slots"])} if is_known else {}


def _finish_difference(answers: Answers) -> dict[str, Any]:
    """Return the body: the difference, and what it consists of."""
    query = answers["query"]
    definition = {"weeks": normal.WEEKS, "most_rows": MOST_ROWS}
    compared: dict[str, Any] = answers.get(_TIME) or _unknown(query)
    return _of_day(query) | {"definition": definition} | compared


def _unknown(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the totals and the lists of a day that cannot be compared."""
    days = sum(day["reported"] for day in query["days"])
    return {
        "totals": {"tracked_ms": None, "normal_ms": None, "difference_ms": None, "days": days},
        "data": {"apps": [], "categories": []},
    }


ENDPOINTS: Final = [
    Endpoint(
        name="normal",
        path="/api/v1/analytics/normal",
        scope=SCOPE,
        summary="A day compared with the same weekdays of the eight weeks before it.",
        params=DaySoFar,
        body=NormalBody,
        query=SQL["normal"],
        further=Further(metrics.STATEMENTS, _steps, _finish),
    ),
    Endpoint(
        name="day_difference",
        path="/api/v1/analytics/day-difference",
        scope=SCOPE,
        summary="Why the tracked time of a day differs from what is normal for its weekday.",
        params=DaySoFar,
        body=DayDifferenceBody,
        query=SQL["day_difference"],
        further=Further(_OF_WEEKDAYS, _steps_of_difference, _finish_difference),
    ),
]
