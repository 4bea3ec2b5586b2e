"""Trends: the values of a metric by day, week or month, their running median, and changes of level."""

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from starlette.datastructures import QueryParams

from resourceserver import timeline
from resourceserver.api.bodies import Body, CalendarDay, Count, DayRangeEcho
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import DayRange, Flag
from resourceserver.endpoints.correlation import SCOPE, MetricName
from resourceserver.timeline import changes, correlation, medians, metrics, stored
from resourceserver.timeline.metrics import OF_HEALTH, Metric
from shared import pipeline, queries
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "reported.sql", _HERE / "trend.sql")
DAYS: Final = "days"
"""The statement about the days of a trend. It depends on neither the metric nor the periods, so a page with
many trends of the same days runs it once."""
STATEMENTS: Final = {DAYS: pipeline.statement(SQL[DAYS]), **metrics.STATEMENTS}
"""The statements after the query."""

MEDIAN_DAYS: Final = 28
"""The days of a running median: four weeks, so that each weekday counts alike."""

_MARGIN_DAYS: Final = 3
"""The days before the range that are read without medians. No sample of a device is longer than two days, so
the first day of the range has the same value as with medians."""

By = Literal["day", "week", "month"]


class TrendParams(DayRange):
    """A metric, the days, and the length of the periods."""

    metric: MetricName = Field(
        default="tracked_ms", description="A metric, which needs its own domain's scope too."
    )
    by: By = Field(
        default="day",
        description="The length of the periods; weeks begin on Monday. The first and the last are cut at the"
        " ends of the range.",
    )
    include_levels: Flag = Field(
        default=True,
        description="Whether running medians and changes of level are computed; without them, `median` of"
        " each period is null and `change_points` is empty.",
    )

    def values(self) -> dict[str, Any]:
        """Return the values with the first day that is read, and whether the metric is a counter."""
        before = MEDIAN_DAYS - 1 if self.include_levels else _MARGIN_DAYS
        return super().values() | {
            "first_day": self.from_ - timedelta(days=before),
            "is_counted": metrics.is_counter(self.metric),
        }

    @classmethod
    def scopes(cls, given: QueryParams) -> tuple[str, ...]:
        """Return the scope of the metric's domain."""
        known = [metrics.find(name) for name in given.getlist("metric")]
        needed = [each.scope for each in known if each is not None and each.scope != SCOPE]
        return tuple(dict.fromkeys(needed))


class TrendDefinition(Body):
    """The constants of medians and changes."""

    median_days: Count
    """The days of a running median."""
    fewest_days: Count
    """The fewest known days that have a median."""
    min_segment_days: Count
    """The fewest known days before a change and after it."""
    penalty: Annotated[float, Field(ge=0)]
    """The price of a change: times the variance of a day and the natural logarithm of the known days."""


class TrendPeriod(Body):
    """One day, week or month."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay
    """Last day, included."""
    value: float | None
    """The value of a day; of a week or month the mean of its known days. Null where none is known."""
    total: float | None
    """The sum of the known days; null where none is known, and for metrics that do not add up, such as heart
    rates."""
    days: Count
    """The known days of the period."""
    median: float | None
    """The median of the known days among the 28 that end with the period; null with fewer than seven, or if
    `include_levels` is false."""


class TrendTotals(Body):
    """All days of the range, whatever the periods."""

    days: Count
    """Days of the range."""
    known_days: Count
    """Days with a value."""
    mean: float | None
    """The mean of the known days; null without any."""
    median: float | None
    """The median of the known days; null without any."""
    minimum: float | None
    maximum: float | None
    total: float | None
    """The sum of the known days; null without any, and for metrics that do not add up."""


class TrendLevel(Body):
    """The days between two changes, or between a change and an end of the range."""

    from_: CalendarDay = Field(alias="from")
    """The first known day."""
    to: CalendarDay
    """The last known day."""
    days: Count
    """The known days."""
    mean: float
    """The mean of these days."""
    median: float
    """The median of these days."""


class ChangePoint(Body):
    """A day from which on the level of the metric was another one."""

    date: CalendarDay
    """The first day of the new level."""
    before: TrendLevel
    """The days since the change before."""
    after: TrendLevel
    """The days up to the next change."""


class TrendBody(Body):
    """A metric over time."""

    range: DayRangeEcho
    tz: str
    metric: str
    unit: str | None
    """Null for a metric of health without any data."""
    by: By
    """The length of the periods."""
    definition: TrendDefinition
    """The constants of medians and changes."""
    data: list[TrendPeriod]
    """Every period of the range, in order."""
    totals: TrendTotals
    """All days of the range."""
    change_points: list[ChangePoint]
    """The changes of level between days, in order, whatever the periods; empty if `include_levels` is
    false."""


def _steps(values: Mapping[str, Any], _: Answers) -> dict[str, Step]:
    """Return the statement about the days."""
    return {DAYS: (STATEMENTS[DAYS], values)}


def _more(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statements that compute the metric on the days that no stored summary has."""
    steps = stored.steps([values["metric"]], answers[DAYS])
    return {} if steps.keys() <= answers.keys() else steps


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: periods, totals and changes of the values of the days."""
    query, days = answers["query"], answers[DAYS]
    name = query["metric"]
    known = metrics.find(name) or OF_HEALTH
    adds_up = query["aggregation"] == "sum" if known is OF_HEALTH else known.adds_up
    values = stored.values(name, {**answers, "query": days})
    first = date.fromisoformat(query["range"]["from"])
    last = date.fromisoformat(query["range"]["to"])
    length = (last - first).days + 1
    dates, own = days["slots"]["dates"][-length:], values[-length:]
    has_levels = query["include_levels"]
    running = list(medians.windows(values, MEDIAN_DAYS))[-length:] if has_levels else []
    if query["by"] == "day":
        data = _days(dates, own, running, known, adds_up)
    else:
        data = [
            {
                "from": dates[begin],
                "to": dates[end - 1],
                **_sums(own[begin:end], known, adds_up),
                "median": _median(running[end - 1], known, medians.FEWEST) if has_levels else None,
            }
            for begin, end in _periods(query["by"], first, length)
        ]
    return {
        "range": query["range"],
        "tz": query["tz"],
        "metric": name,
        "unit": known.unit or query["unit"],
        "by": query["by"],
        "definition": {
            "median_days": MEDIAN_DAYS,
            "fewest_days": medians.FEWEST,
            "min_segment_days": changes.LEAST,
            "penalty": changes.PENALTY,
        },
        "data": data,
        "totals": _totals(own, known, adds_up),
        "change_points": _change_points(own, first, known) if has_levels else [],
    }


def _days(
    dates: Sequence[str],
    values: Sequence[float | None],
    running: Sequence[Sequence[float]],
    known: Metric,
    adds_up: bool,
) -> list[dict[str, Any]]:
    """Return periods of one day each, with running medians if there are any. Years of them are read often."""
    return [
        {
            "from": day,
            "to": day,
            "value": (rounded := None if value is None else known.rounded(value)),
            "total": rounded if adds_up else None,
            "days": 0 if value is None else 1,
            "median": _median(ordered, known, medians.FEWEST) if ordered else None,
        }
        for day, value, ordered in zip_longest(dates, values, running)
    ]


def _periods(by: By, first: date, length: int) -> list[tuple[int, int]]:
    """Return where each week or month of the days begins and ends."""
    starts = [
        n
        for n in range(length)
        if n == 0
        or (by == "week" and (first + timedelta(days=n)).weekday() == 0)
        or (by == "month" and (first + timedelta(days=n)).day == 1)
    ]
    return list(zip(starts, [*starts[1:], length], strict=True))


def _sums(days: Sequence[float | None], known: Metric, adds_up: bool) -> dict[str, Any]:
    """Return mean, sum and number of the known days of a period."""
    values = [value for value in days if value is not None]
    if not values:
        return {"value": None, "total": None, "days": 0}
    mean = known.rounded(correlation.mean(values) if len(values) > 1 else values[0])
    return {
        "value": mean,
        "total": (mean if len(values) == 1 else known.rounded(math.fsum(values)))
        if adds_up
        else None,
        "days": len(values),
    }


def _median(ordered: Sequence[float], known: Metric, fewest: int) -> float | None:
    return known.rounded(medians.median(ordered)) if len(ordered) >= fewest else None


def _totals(values: Sequence[float | None], known: Metric, adds_up: bool) -> dict[str, Any]:
    ordered = sorted(value for value in values if value is not None)
    sums = _sums(ordered, known, adds_up)
    return {
        "days": len(values),
        "known_days": len(ordered),
        "mean": sums["value"],
        "median": _median(ordered, known, 1),
        "minimum": known.rounded(ordered[0]) if ordered else None,
        "maximum": known.rounded(ordered[-1]) if ordered else None,
        "total": sums["total"],
    }


def _change_points(
    values: Sequence[float | None], first: date, known: Metric
) -> list[dict[str, Any]]:
    """Return each ChangePoint between days."""
    measured = [
        (first + timedelta(days=n), value) for n, value in enumerate(values) if value is not None
    ]
    starts = changes.changes(
        [value for _, value in measured], [day.weekday() for day, _ in measured]
    )
    if not starts:
        return []
    levels = [
        _level(measured[begin:end], known)
        for begin, end in zip([0, *starts], [*starts, len(measured)], strict=True)
    ]
    return [
        {"date": after["from"], "before": before, "after": after}
        for before, after in pairwise(levels)
    ]


def _level(measured: Sequence[tuple[date, float]], known: Metric) -> dict[str, Any]:
    """Return the TrendLevel of some known days."""
    values = sorted(value for _, value in measured)
    return {
        "from": str(measured[0][0]),
        "to": str(measured[-1][0]),
        "days": len(values),
        "mean": known.rounded(correlation.mean(values)),
        "median": known.rounded(medians.median(values)),
    }


ENDPOINTS: Final = [
    Endpoint(
        name="trend",
        path="/api/v1/analytics/trend",
        scope=SCOPE,
        summary="A metric by day, week or month, with its running median and changes of level.",
        params=TrendParams,
        body=TrendBody,
        query=SQL["trend"],
        further=Further(STATEMENTS, _steps, _finish, _more),
    ),
]
