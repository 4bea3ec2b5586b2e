"""A person's own band of a metric of health: the quartiles of the days before each day."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, WithJsonSchema

from resourceserver import timeline
from resourceserver.api.bodies import Body, CalendarDay, Count, DayRangeEcho
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import DayRange, between, validated
from resourceserver.timeline import medians, metrics
from resourceserver.timeline.metrics import METRICS, OF_HEALTH, Metric
from shared import queries
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "reported.sql", _HERE / "baseline.sql")

SCOPE: Final = "read:health"
OF_NIGHTS: Final = tuple(name for name, metric in METRICS.items() if metric.scope == SCOPE)
WINDOW_DAYS: Final = 28
"""The default number of days before: four weeks, so that each weekday counts alike."""
MOST_WINDOW_DAYS: Final = 90


def _parse_metric(name: str) -> str:
    """Return ``name``, which must be that of a metric of health. Raises ValueError."""
    known = metrics.find(name)
    if known is None or known.scope != SCOPE:
        names = ", ".join(OF_NIGHTS)
        raise ValueError(f"must be one of {names}, or health: and the name of a metric of health")
    return name


HealthMetric = Annotated[
    str,
    validated(_parse_metric),
    WithJsonSchema({"type": "string", "pattern": f"^({'|'.join(OF_NIGHTS)}|{metrics.HEALTH})$"}),
]


class BaselineParams(DayRange):
    """A metric of health, the days, and the number of days with which each of them is compared."""

    metric: HealthMetric = Field(description="A metric of health.", examples=["hrv_rmssd_ms"])
    window: Annotated[int, between(medians.FEWEST, MOST_WINDOW_DAYS)] = Field(
        default=WINDOW_DAYS,
        ge=medians.FEWEST,
        le=MOST_WINDOW_DAYS,
        description="The number of days before each day with which it is compared.",
    )


class BaselineDefinition(Body):
    """The constants of the band."""

    window_days: Count
    """The days before each day with which it is compared."""
    fewest_days: Count
    """The fewest known days that give a band."""


class BaselineDay(Body):
    """One calendar day; values of nights belong to the local date on which the main sleep ended."""

    date: CalendarDay
    value: float | None
    """Null where it was not measured."""
    lower_quartile: float | None
    """A quarter of the days before is below; null with fewer than seven known days."""
    median: float | None
    """Half of the days before are below; null with fewer than seven known days."""
    upper_quartile: float | None
    """A quarter of the days before is above; null with fewer than seven known days."""
    days: Count
    """The known days among the days before."""
    position: Literal["below", "within", "above"] | None
    """Where the value lies: the quartiles belong to the band. Null without a value or a band."""


class BaselineTotals(Body):
    """The days of the range, by their position."""

    days: Count
    """Days of the range."""
    known_days: Count
    """Days with a value."""
    below: Count
    """Days below their band."""
    within: Count
    """Days within it."""
    above: Count
    """Days above it."""


class BaselineBody(Body):
    """Every day of the range, in order, each with the band of the days before it."""

    range: DayRangeEcho
    tz: str
    """The zone in which days of devices begin; nights have the clock of their place."""
    metric: str
    unit: str | None
    """Null for a metric of health without any data."""
    definition: BaselineDefinition
    """The constants of the band."""
    data: list[BaselineDay]
    totals: BaselineTotals
    """The days of the range, by their position."""


def _steps(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statement that computes the metric."""
    names = [values["metric"]]
    return {
        statement: (
            metrics.STATEMENTS[statement],
            metrics.values(names, answers["query"]["slots"]),
        )
        for statement in metrics.by_statement(names)
    }


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: each day beside the days before it."""
    query = answers["query"]
    name, window = query["metric"], query["window_days"]
    known = metrics.find(name) or OF_HEALTH
    (values,) = (answers[statement]["days"][name] for statement in metrics.by_statement([name]))
    # The window that ends with the day before.
    before = list(medians.windows(values, window))[window - 1 : -1]
    dates = query["slots"]["dates"]
    data = [
        _day(dates[n], values[n], earlier, known) for n, earlier in enumerate(before, start=window)
    ]
    positions = [day["position"] for day in data]
    return {
        "range": query["range"],
        "tz": query["tz"],
        "metric": name,
        "unit": known.unit or query["unit"],
        "definition": {"window_days": window, "fewest_days": medians.FEWEST},
        "data": data,
        "totals": {
            "days": len(data),
            "known_days": sum(day["value"] is not None for day in data),
            **{name: positions.count(name) for name in ("below", "within", "above")},
        },
    }


def _day(day: str, value: float | None, earlier: Sequence[float], known: Metric) -> dict[str, Any]:
    """Return the BaselineDay of a day, whose value is compared before anything is rounded."""
    band = None
    if len(earlier) >= medians.FEWEST:
        band = [medians.quantile(earlier, part) for part in (0.25, 0.5, 0.75)]
    low, middle, high = [None] * 3 if band is None else map(known.rounded, band)
    return {
        "date": day,
        "value": None if value is None else known.rounded(value),
        "lower_quartile": low,
        "median": middle,
        "upper_quartile": high,
        "days": len(earlier),
        "position": None if value is None or band is None else _position(value, band),
    }


def _position(value: float, band: Sequence[float]) -> Literal["below", "within", "above"]:
    if value < band[0]:
        return "below"
    return "above" if value > band[2] else "within"


ENDPOINTS: Final = [
    Endpoint(
        name="health_baseline",
        path="/api/v1/health/baseline",
        scope=SCOPE,
        summary="A metric of health by day, beside the band of the days before each day.",
        params=BaselineParams,
        body=BaselineBody,
        query=SQL["health_baseline"],
        further=Further(
            {name: metrics.STATEMENTS[name] for name in ("measured_recovery", "measured_health")},
            _steps,
            _finish,
        ),
    ),
]
