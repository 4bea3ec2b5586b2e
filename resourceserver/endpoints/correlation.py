"""Correlation: how closely two metrics of the caller's days go together."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError
from starlette.datastructures import QueryParams

from resourceserver import timeline
from resourceserver.api.bodies import Body, CalendarDay, Count, DayRangeEcho
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import FIRST_DAY, MOST_DAYS, Day, Params, Zone, validated
from resourceserver.timeline import correlation, metrics, stored
from resourceserver.timeline.correlation import Adjust, Method, Reason
from resourceserver.timeline.metrics import METRICS, OF_HEALTH
from shared import queries
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "reported.sql", _HERE / "correlation.sql")

DAYS: Final = 90
"""The default number of days, up to yesterday."""

SCOPE: Final = "read:activity"
"""The scope of the endpoint itself; metrics of other domains need their own too."""


def _parse_lag(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,2}", text, re.ASCII) or abs(int(text)) > 30:
        raise ValueError("must be a whole number of days between -30 and 30")
    return int(text)


MetricName = Annotated[
    str,
    validated(metrics.parse),
    WithJsonSchema({"type": "string", "pattern": f"^({'|'.join(METRICS)}|{metrics.HEALTH})$"}),
]
Lag = Annotated[
    int,
    validated(_parse_lag),
    WithJsonSchema({"type": "integer", "minimum": -30, "maximum": 30}),
]


class CorrelationParams(Params):
    """Two metrics, and the days to compare."""

    metric_a: MetricName = Field(
        default="tracked_ms", description="A metric, which needs its own domain's scope too."
    )
    metric_b: MetricName = Field(default="coding_ms", description="The other metric.")
    from_: Day | None = Field(
        default=None, alias="from", description="First calendar day; by default 89 before the last."
    )
    to: Day | None = Field(
        default=None, description="Last calendar day, included; by default yesterday."
    )
    method: Method = Field(
        default="pearson", description="pearson of the values themselves, spearman of their ranks."
    )
    lag: Lag = Field(
        default=0, description="By how many days metric_b's value is later than metric_a's."
    )
    adjust: Adjust = Field(
        default="none",
        description="How values are adjusted before they are compared: none compares them as they are;"
        " weekday compares their distances from the mean of the weekday, with p_value and"
        " confidence_interval of n_effective days.",
    )
    tz: Zone = Field(default="UTC", description="IANA time zone in which days begin.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        first, last = self._days()
        if first > last:
            raise PydanticCustomError("order", "must not be after to", {"parameter": "from"})
        if (last - first).days >= MOST_DAYS:
            raise PydanticCustomError(
                "length",
                "must be at most {most} days after from",
                {"parameter": "to", "most": MOST_DAYS},
            )
        return self

    def _days(self) -> tuple[date, date]:
        last = self.to or datetime.now(ZoneInfo(self.tz)).date() - timedelta(days=1)
        return self.from_ or max(last - timedelta(days=DAYS - 1), FIRST_DAY), last

    def values(self) -> dict[str, Any]:
        """Return the values with the default days, and whether each metric is a counter."""
        first, last = self._days()
        is_counted = metrics.is_counter(self.metric_a) or metrics.is_counter(self.metric_b)
        return super().values() | {"from": first, "to": last, "is_counted": is_counted}

    @classmethod
    def scopes(cls, given: QueryParams) -> tuple[str, ...]:
        """Return the scopes of the metrics' domains."""
        names = given.getlist("metric_a") + given.getlist("metric_b")
        needed = [known.scope for known in map(metrics.find, names) if known is not None]
        return tuple(dict.fromkeys(scope for scope in needed if scope != SCOPE))


class Described(Body):
    """One of the two metrics over all days with a value."""

    name: str
    """The name of the metric."""
    unit: str | None
    """Null for a metric of health without any data."""
    days: Count
    """The number of days of the range with a value; metric_b's range is later by the lag."""
    average: float | None
    """Null without any day."""
    standard_deviation: Annotated[float, Field(ge=0)] | None
    """The standard deviation of a sample; null with fewer than two days."""


class Interval(Body):
    """The confidence interval of the coefficient, by Fisher's transformation."""

    level: float
    """The confidence level: 0.95."""
    low: Annotated[float, Field(ge=-1, le=1)]
    """The lower end."""
    high: Annotated[float, Field(ge=-1, le=1)]
    """The upper end."""


class Coefficients(Body):
    """The correlation of the metrics on the days on which both have a value."""

    n: Count
    """The number of these days."""
    coefficient: Annotated[float, Field(ge=-1, le=1)] | None
    """From -1 to 1; null where it cannot be computed."""
    n_effective: Annotated[float, Field(ge=0)]
    """The number of independent days that these count as: consecutive days resemble each other (Bartlett),
    and with adjust=weekday the mean of each weekday but one costs a day."""
    p_value: Annotated[float, Field(ge=0, le=1)] | None
    """Two-sided, from Student's t with n - 2 degrees of freedom; with adjust=weekday n_effective - 2."""
    p_value_adjusted: Annotated[float, Field(ge=0, le=1)] | None
    """The same with n_effective - 2 degrees of freedom, and corrected for the number of comparisons in the
    answer (Holm)."""
    confidence_interval: Interval | None
    """Null with fewer than four days, with adjust=weekday fewer than four of n_effective."""
    strength: Literal["negligible", "weak", "moderate", "strong", "very_strong"] | None
    """By the absolute value of the coefficient: less than 0.1, 0.3, 0.5, 0.7, or more."""
    direction: Literal["positive", "negative", "none"] | None
    """The sign of the coefficient."""
    reason: Reason | None
    """Why there is no coefficient."""


class Point(Body):
    """A day on which both metrics have a value."""

    date: CalendarDay
    a: float
    """The value of ``metric_a``."""
    b: float
    """The value of ``metric_b`` on the day that is later by the lag."""


class CorrelationBody(Body):
    """How closely two metrics go together."""

    range: DayRangeEcho
    tz: str
    method: Method
    """Pearson's coefficient, or Spearman's, of ranks."""
    adjust: Adjust
    """The adjustment that was requested."""
    lag_days: int
    """The number of days from ``metric_a``'s day to ``metric_b``'s."""
    metric_a: Described
    """The first metric."""
    metric_b: Described
    """The second metric."""
    data: Coefficients
    """The coefficient, its interval and p-values."""
    points: list[Point]
    """In the order of days."""


def _metrics(values: Mapping[str, Any]) -> tuple[str, str]:
    return values["metric_a"], values["metric_b"]


def _steps(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statements that compute the metrics."""
    return stored.steps(_metrics(values), answers["query"])


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: the values of both metrics by day, and their correlation."""
    body = {**answers["query"]}
    slots, lag = body.pop("slots"), body["lag_days"]
    for unread in ("stored", "reported", "active"):
        del body[unread]
    a, b = (stored.values(body[f"metric_{letter}"]["name"], answers) for letter in "ab")
    # The values of both begin with the first day that is read for either.
    begins, count = max(-lag, 0), len(a) - abs(lag)
    dates = slots["dates"][begins : begins + count]
    sides = {"a": a[begins : begins + count], "b": b[begins + lag : begins + lag + count]}
    for letter, values in sides.items():
        metric = body[f"metric_{letter}"]
        metric |= described(metric, [value for value in values if value is not None])
    points = [
        {"date": date, "a": left, "b": right}
        for date, left, right in zip(dates, sides["a"], sides["b"], strict=True)
        if left is not None and right is not None
    ]
    body["data"] = compared(sides["a"], sides["b"], dates, body["method"], body["adjust"])
    body["points"] = points
    return body


def described(given: dict[str, Any], values: list[float]) -> dict[str, Any]:
    """Return the members of a Described, without the name, from the values of the metric."""
    known = metrics.find(given["name"]) or OF_HEALTH
    return {
        "unit": known.unit or given["unit"],
        "days": len(values),
        "average": known.rounded(correlation.mean(values)) if values else None,
        "standard_deviation": (
            known.rounded(correlation.deviation(values)) if len(values) > 1 else None
        ),
    }


_BANDS: Final = ((0.1, "negligible"), (0.3, "weak"), (0.5, "moderate"), (0.7, "strong"))


def compared(
    left: Sequence[float | None],
    right: Sequence[float | None],
    dates: Sequence[str],
    method: Method,
    adjust: Adjust,
) -> dict[str, Any]:
    """Return Coefficients of the values of both metrics on ``dates``."""
    weekdays = [date.fromisoformat(day).weekday() for day in dates] if adjust == "weekday" else None
    comparison = correlation.compare(left, right, method, weekdays)
    known = comparison.correlation
    r = known.coefficient
    interval = known.interval and {
        "level": correlation.LEVEL,
        "low": known.interval[0],
        "high": known.interval[1],
    }
    return {
        "n": comparison.n,
        "coefficient": r,
        "n_effective": round(comparison.n_effective, 1),
        "p_value": known.p_value,
        "p_value_adjusted": comparison.p_value_adjusted,
        "confidence_interval": interval,
        "strength": None if r is None else _strength(abs(r)),
        "direction": None if r is None else _direction(r),
        "reason": known.reason,
    }


def _strength(size: float) -> str:
    return next((name for least, name in _BANDS if size < least), "very_strong")


def _direction(r: float) -> str:
    return "positive" if r > 0 else "negative" if r < 0 else "none"


ENDPOINTS: Final = [
    Endpoint(
        name="correlation",
        path="/api/v1/account/correlation",
        scope=SCOPE,
        summary="How closely two metrics of calendar days go together.",
        params=CorrelationParams,
        body=CorrelationBody,
        query=SQL["correlation"],
        further=Further(metrics.STATEMENTS, _steps, _finish),
    ),
]
