"""What a body did, as an assistant tells of it: metrics against what is normal, and how nights were."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api import parameters
from resourceserver.api.bodies import Body, CalendarDay, Count, Percent, Timestamp
from resourceserver.api.parameters import Listed
from resourceserver.endpoints import health
from resourceserver.mcp import durations, names, tool
from resourceserver.mcp.arguments import Arguments, InPeriod, Text
from resourceserver.mcp.tool import MOST_ROWS, Answer, Part, Tool
from resourceserver.mcp.tools.measures import FEWEST_DAYS
from resourceserver.timeline import metrics

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    Path(__file__).with_name("health.sql"),
    _TIMELINE / "timeline.sql",
    _TIMELINE / "wearables.sql",
    _TIMELINE / "metrics.sql",
)

PREFIX: Final = "health:"
"""What metrics of devices are called with elsewhere, beside those of nights."""
OF_NIGHTS: Final = tuple(
    name for name, metric in metrics.METRICS.items() if metric.scope == "read:health"
)
"""Metrics that have one value a day."""
MOST_METRICS: Final = 8


def _named(name: str) -> str:
    """Return the name under which every tool knows a metric; the prefix may be left out."""
    if name in OF_NIGHTS:
        return name
    try:
        return PREFIX + parameters.parse_metric_type(name.removeprefix(PREFIX))
    except ValueError as error:
        reason = f"must be one of {', '.join(OF_NIGHTS)}, or the name of a metric such as steps"
        raise PydanticCustomError("malformed", "{reason}", {"reason": reason}) from error


MetricName = Annotated[
    Text,
    AfterValidator(_named),
    WithJsonSchema({"type": "string", "pattern": f"^({metrics.HEALTH}|[a-z][a-z0-9_]{{0,63}})$"}),
]


class Health(InPeriod):
    """What to tell of a body."""

    metrics: Annotated[list[MetricName], Field(min_length=1, max_length=MOST_METRICS)] | None = (
        Field(
            default=None,
            description=f"Which metrics: of each night and the day after it {', '.join(OF_NIGHTS)};"
            " of devices whatever there is, such as steps or heart_rate. Leave it out for a list of what"
            " there is and since when.",
        )
    )
    resolution: Literal["day", "hour", "raw"] = Field(
        default="day",
        description="What a value of a series is of. Many days are told by week or month instead. hour is"
        " for eight days divided by the number of metrics at most; raw for the newest 50 readings of one"
        " metric. Metrics of nights have day alone.",
    )
    include_recovery: bool | None = Field(
        default=None,
        description="Whether recovery, strain and sleep of each day come along, the newest first."
        " Default: true where metrics is left out, else false.",
    )

    @model_validator(mode="after")
    def _asks_for_what_there_can_be(self) -> Self:
        reason = self._contradiction()
        if reason is not None:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def _contradiction(self) -> str | None:
        """Return why resolution and metrics do not go together, if so."""
        requested = set(self.metrics or ())
        of_nights = sorted(requested.intersection(OF_NIGHTS))
        if self.resolution == "raw" and len(requested) != 1:
            return "resolution: raw needs exactly one of metrics"
        if self.resolution != "day" and of_nights:
            return f"resolution: {', '.join(of_nights)} can be told by day alone"
        if self.resolution == "hour" and not requested:
            return "resolution: hour needs metrics"
        return None

    def values(self) -> dict[str, Any]:
        """Return, beside the rest, what the endpoint's list of readings begins with."""
        requested = list(dict.fromkeys(self.metrics or ()))
        is_raw = self.resolution == "raw"
        is_wanted = self.metrics is None if self.include_recovery is None else self.include_recovery
        rest = super().values() | Listed().values()
        return rest | {
            "metrics": requested,
            "include_recovery": is_wanted,
            "fewest_days": FEWEST_DAYS,
            "metric_type": requested[0].removeprefix(PREFIX) if is_raw else "",
            "limit": MOST_ROWS,
        }


class Point(Body):
    """One value of a series."""

    at: str
    """The day, the first one of a week or month, or the instant at which an hour begins."""
    value: float
    """Of a day or an hour; of a week or month the mean of its days that have one."""


class DurationPoint(Point):
    """One value of a series of durations, in words too."""

    value_text: str


class MetricSummary(Body):
    """All readings of the range and its days, in words where they are durations; null where there are none.

    Of what adds up, and of nights, a day has one value, so mean, minimum and maximum are those of days.
    """

    total: float | None
    """Null for what does not add up."""
    total_text: str | None
    mean: float | None
    """Of all readings."""
    mean_text: str | None
    minimum: float | None
    """The least reading."""
    minimum_text: str | None
    maximum: float | None
    """The largest reading."""
    maximum_text: str | None
    daily_mean: float | None
    """The mean of the days that have a value, which normal and z are about."""
    daily_mean_text: str | None
    daily_minimum: float | None
    """The least value of a day; a day's value is the mean of its readings, or their sum."""
    daily_minimum_text: str | None
    daily_maximum: float | None
    daily_maximum_text: str | None
    days_with_data: Count
    latest: float | None
    """Of the last day that has a value."""
    latest_text: str | None
    latest_day: CalendarDay | None


class Normal(Body):
    """What days came to in the 28 days before the range."""

    mean: float
    mean_text: str | None
    deviation: float
    """The standard deviation of days."""
    days: Count
    """How many of the 28 have a value; there is no normal of fewer than seven."""


class Metric(Body):
    """One metric."""

    metric: str
    unit: str | None
    """Null for a metric that nobody measured."""
    aggregation: Literal["sum", "avg"] | None
    """Whether measurements of a day add up or have a mean; null for a metric that nobody measured."""
    summary: MetricSummary
    normal: Normal | None
    z: float | None
    """How many deviations of a day daily_mean lies above what is normal; null where nobody can tell. Of what
    adds up only days that are over are compared."""
    phrase: str
    series: list[Point | DurationPoint]
    """In order, days without a value left out; none where resolution is raw."""


class Reading(Body):
    """One measurement."""

    started_at: Timestamp
    ended_at: Timestamp
    value: float
    source: str | None


class Recovery(Body):
    """How well somebody was after the main sleep."""

    score: Percent | None
    state: Literal["scored", "pending", "unscorable"]
    resting_heart_rate_bpm: float | None
    hrv_rmssd: float | None
    """Heart rate variability in milliseconds: a measure and no duration."""
    spo2_percent: Percent | None
    skin_temperature_c: float | None


class Day(Body):
    """The day on which a main sleep was over, where the person then was."""

    date: CalendarDay
    provider: str | None
    utc_offset: str | None
    recovery: Recovery | None
    strain: health.Strain | None
    sleep: health.Sleep | None


class Averages(Body):
    """Over the days that have a value; null where none has."""

    recovery_score: float | None
    strain_score: float | None
    asleep_ms: Annotated[int, Field(ge=0)] | None
    hrv_rmssd: float | None
    """In milliseconds."""
    resting_heart_rate_bpm: float | None


class Available(Body):
    """A metric that there is, and how much of it."""

    metric: str
    unit: str | None
    aggregation: Literal["sum", "avg"]
    first_day: CalendarDay
    last_day: CalendarDay
    days_measured: Count
    """Days of the range on which a measurement began."""


class HealthAnswer(Answer):
    """Metrics that were asked for, days if they were, and what there is if nothing else was named."""

    resolution: Literal["day", "hour", "raw", "week", "month"]
    """What the values of series are of; coarser than asked for where there would be too many."""
    metrics: list[Metric]
    samples: list[Reading]
    """The newest readings, where resolution is raw."""
    recovery: list[Day]
    """The newest first, days of which nothing is known left out."""
    recovery_averages: Averages | None
    """Of all days of the range."""
    recovery_normal: Averages | None
    """Of the 28 days before it."""
    available: list[Available]
    """What there is; told where no metrics were asked for, or one that nobody measured."""
    unmatched: list[names.Unmatched]
    """Requested metrics that nobody ever measured."""


def _fitting(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with as many of the newest values of each series as there is room for."""
    most = max((len(metric["series"]) for metric in answer["metrics"]), default=0)
    # Days have what room is left, and are cut later.
    while most > 1 and tool.is_too_long(answer | {"recovery": []}):
        most = most * 9 // 10
        reduced = [metric | {"series": metric["series"][-most:]} for metric in answer["metrics"]]
        answer = answer | {"metrics": reduced, "truncated": True}
    return answer


def _wants_samples(given: Arguments) -> bool:
    return isinstance(given, Health) and given.resolution == "raw"


def _wants_readings(given: Arguments) -> bool:
    return isinstance(given, Health) and bool(given.metrics)


def _wants_recovery(given: Arguments) -> bool:
    return isinstance(given, Health) and given.values()["include_recovery"]


def _hours(frame: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is asked of hours, where values of hours are shown."""
    if frame["resolution"] != "hour":
        return None
    return {**given, **{f"frame_{name}": value for name, value in frame.items()}}


def _finished(answer: dict[str, Any]) -> dict[str, Any]:
    hours, available = answer.pop("hours"), answer.pop("available")
    if hours is not None:
        for metric in answer["metrics"]:
            metric["series"] = hours["series"].get(metric["metric"], [])
    unknown = [metric for metric in answer["metrics"] if not _is_known(metric)]
    nearest = [each["metric"].removeprefix(PREFIX) for each in available["available"]]
    checked = {
        "given": [
            {
                "argument": "metrics",
                "name": metric["metric"].removeprefix(PREFIX),
                "is_known": metric not in unknown,
            }
            for metric in answer["metrics"]
        ],
        "known": {"metrics": [*OF_NIGHTS, *nearest]},
    }
    answer["unmatched"] = names.unmatched(checked)
    answer["metrics"] = [metric for metric in answer["metrics"] if metric not in unknown]
    readings = (answer.pop("readings") or {"of_metrics": {}})["of_metrics"]
    for metric in answer["metrics"]:
        metric["summary"] = _summary(metric["summary"], readings.get(metric["metric"]))
    is_cut = available["is_cut"] or (hours is not None and hours["is_cut"])
    samples = answer.pop("health_samples") or {"data": [], "has_more": False}
    recovery, before = answer.pop("recovery"), answer.pop("recovery_before")
    nights = [] if recovery is None else [day for day in recovery["data"] if day["has_data"]]
    measured = answer | {
        "metrics": [_render(metric) for metric in answer["metrics"]],
        "samples": [_reading(sample) for sample in samples["data"]],
        "recovery": [_day(day) for day in sorted(nights, key=_date, reverse=True)],
        "recovery_averages": None if recovery is None else _measures(recovery["averages"]),
        "recovery_normal": None if before is None else _measures(before["averages"]),
        "truncated": answer["truncated"] or samples["has_more"] or is_cut,
        "available": [
            each | {"unit": each["unit"] or _unit(each["metric"])}
            for each in available["available"]
        ],
    }
    return _fitting(measured)


def _is_known(metric: dict[str, Any]) -> bool:
    return metric["metric"] in OF_NIGHTS or metric["aggregation"] is not None


def _summary(of_days: dict[str, Any], readings: dict[str, Any] | None) -> dict[str, Any]:
    """Return a MetricSummary without words, of readings where a day has more than one."""
    own = ("mean", "minimum", "maximum")
    daily = {f"daily_{name}": of_days[name] for name in own}
    return {**of_days, **(readings or {}), **daily}


def _unit(metric: str) -> str | None:
    """Return the unit of a metric of nights."""
    known = metrics.METRICS.get(metric)
    return known.unit if known is not None else None


def _render(metric: dict[str, Any]) -> dict[str, Any]:
    """Return a metric with its unit, durations in words, and how it compares with what is normal."""
    name = metric["metric"]
    unit = metric["unit"] or _unit(name)
    # Heart rate variability is a measure, though its unit is that of durations.
    is_duration = unit == "ms" and name != "hrv_rmssd_ms"

    def words(value: float | None) -> str | None:
        return durations.text(round(value)) if is_duration and value is not None else None

    def in_words(measured: dict[str, Any], *names: str) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        for each, value in measured.items():
            pairs[each] = value
            if each in names:
                pairs[f"{each}_text"] = words(value)
        return pairs

    extent = ("mean", "minimum", "maximum")
    daily = tuple(f"daily_{each}" for each in extent)
    summary = in_words(metric["summary"], "total", *extent, *daily, "latest")
    normal = None if metric["normal"] is None else in_words(metric["normal"], "mean")
    return metric | {
        "unit": unit,
        "aggregation": "avg" if name in OF_NIGHTS else metric["aggregation"],
        "summary": summary,
        "normal": normal,
        "phrase": _phrase(summary["days_with_data"], normal, metric["z"]),
        "series": [
            in_words(point, "value") if is_duration else point for point in metric["series"]
        ],
    }


def _phrase(days_with_data: int, normal: dict[str, Any] | None, z: float | None) -> str:
    if days_with_data == 0:
        return "nothing was measured"
    if normal is None:
        return "too few days before it to compare with"
    if z is None:
        return "not to be compared: the days before were all the same, or this one is not over"
    if abs(z) < 1:
        return "about as usual"
    much = "much " if abs(z) >= 2 else ""
    return f"{much}{'higher' if z > 0 else 'lower'} than usual"


def _reading(sample: dict[str, Any]) -> dict[str, Any]:
    reduced = {name: sample[name] for name in ("started_at", "ended_at", "value")}
    source = sample["source"]
    return reduced | {"source": None if source is None else source["name"][:100]}


def _date(day: dict[str, Any]) -> str:
    date: str = day["date"]
    return date


def _day(day: dict[str, Any]) -> dict[str, Any]:
    rest = {name: each for name, each in day.items() if name != "has_data"}
    return rest | {"recovery": _measures(day["recovery"])}


def _measures(measured: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an object in which heart rate variability has no name that ends as those of durations."""
    if measured is None:
        return None
    return {
        ("hrv_rmssd" if name == "hrv_rmssd_ms" else name): value for name, value in measured.items()
    }


TOOLS: Final = [
    Tool(
        name="get_health",
        title="Health",
        description="What devices measured of the person's body in a period: sleep, recovery and strain by"
        " day, and metrics such as steps, heart rate or weight, each against the 28 days before. Use it for"
        " 'How did I sleep?' (without metrics), 'What was my resting heart rate?' and 'How many steps did I"
        " take?'; without metrics it also lists which there are. Not for whether two things go together, and"
        " not for medical advice.",
        scope="read:health",
        arguments=Health,
        answer=HealthAnswer,
        frame=SQL["health_frame"],
        parts=(
            Part(SQL["get_health"]),
            Part(SQL["health_readings"], name="readings", is_wanted=_wants_readings),
            Part(SQL["health_by_hour"], name="hours", ask=_hours),
            Part(SQL["available_health"], name="available"),
            tool.part(health.ENDPOINTS, "health_samples", is_wanted=_wants_samples),
            tool.part(health.ENDPOINTS, "recovery", is_wanted=_wants_recovery),
            tool.part(
                health.ENDPOINTS,
                "recovery",
                name="recovery_before",
                ends=("before_first_day", "before_last_day"),
                is_wanted=_wants_recovery,
            ),
        ),
        finish=_finished,
        rows="recovery",
    )
]
