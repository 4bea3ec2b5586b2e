"""The tool get_health: metrics of health, compared with the 28 days before, and nights."""

import statistics
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api import parameters
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    Milliseconds,
    Percent,
    Timestamp,
)
from resourceserver.api.parameters import Listed
from resourceserver.endpoints import health
from resourceserver.mcp import apps, names, tool
from resourceserver.mcp.arguments import LISTED, Arguments, InPeriod, Ranked, Text
from resourceserver.mcp.tool import MOST_ROWS, ROWS, Page, Part, Tool
from resourceserver.mcp.tools.measures import FEWEST_DAYS, OF_NIGHTS
from resourceserver.timeline import metrics
from shared import durations

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    Path(__file__).with_name("health.sql"),
    _TIMELINE / "timeline.sql",
    _TIMELINE / "wearables.sql",
    _TIMELINE / "metrics.sql",
    _TIMELINE / "reported.sql",
)

PREFIX: Final = "health:"
"""The prefix with which other tools name the metrics of devices; metrics of nights have none."""
MOST_METRICS: Final = 8
MOST_WHOLE_NIGHTS: Final = 2
"""The most nights of which every value is listed; of more, only the main ones."""
_MOST_HOURLY: Final = 8
"""The most days with values of hours, all metrics together."""
_NOON: Final = 12 * 60


def _named(name: str) -> str:
    """Return the name that every tool uses for a metric; callers may leave out the prefix."""
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
    WithJsonSchema({"type": "string"}),
]


class Health(Ranked, InPeriod):
    """Which metrics of health to return, and in which resolution."""

    metrics: (
        Annotated[list[MetricName], Field(min_length=1, max_length=MOST_METRICS), LISTED] | None
    ) = Field(
        default=None,
        description="Those of compare_periods for read:health, or any that devices send, such as steps or"
        " heart_rate. Default: lists all with data.",
    )
    resolution: Literal["day", "hour", "raw"] = Field(
        default="day",
        description="day becomes week or month in long periods; hour has few days; raw is the newest readings"
        " of one metric.",
    )
    include_recovery: bool | None = Field(
        default=None,
        description="Recovery, strain and sleep of each day; for one or two days every value. Default: true"
        " without metrics.",
    )

    @model_validator(mode="after")
    def _asks_for_what_there_can_be(self) -> Self:
        reason = self._contradiction()
        if reason is not None:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def _contradiction(self) -> str | None:
        """Return why resolution and metrics contradict each other, or None."""
        requested = set(self.metrics or ())
        of_nights = sorted(requested.intersection(OF_NIGHTS))
        if self.resolution == "raw" and len(requested) != 1:
            return "resolution: raw needs exactly one of metrics"
        if self.resolution != "day" and of_nights:
            return f"resolution: {', '.join(of_nights)} are available only by day"
        if self.resolution == "hour" and not requested:
            return "resolution: hour needs metrics"
        return None

    def values(self) -> dict[str, Any]:
        """Return the values with the first page of the endpoint's list of readings."""
        requested = list(dict.fromkeys(self.metrics or ()))
        is_raw = self.resolution == "raw"
        is_wanted = self.metrics is None if self.include_recovery is None else self.include_recovery
        rest = super().values() | Listed().values()
        return rest | {
            "metrics": requested,
            "include_recovery": is_wanted,
            "metric_type": requested[0].removeprefix(PREFIX) if is_raw else "",
            "limit": MOST_ROWS,
        }


class Point(Body):
    """One value of a series."""

    at: str
    """The day, the first day of a week or month, or the start of an hour, which has local beside it."""
    local: str | None = None
    value: float
    """The value of a day or an hour; for a week or month, the mean of its days with data."""


class DurationPoint(Point):
    """One value of a series of durations, also in words."""

    value_text: str


class MetricSummary(Body):
    """All readings of the range and its days, durations also in words; null without any.

    A metric that adds up, or that is of nights, has one value a day; its mean, minimum and maximum are those
    of days.
    """

    total: float | None
    """The sum; null for a metric that does not add up."""
    total_text: str | None
    mean: float | None
    """Of all readings."""
    mean_text: str | None
    minimum: float | None
    """The smallest reading."""
    minimum_text: str | None
    maximum: float | None
    """The largest reading."""
    maximum_text: str | None
    daily_mean: float | None
    """The mean of the days with data; normal and z refer to it."""
    daily_mean_text: str | None
    daily_minimum: float | None
    """The smallest value of a day, which is the mean or the sum of its readings."""
    daily_minimum_text: str | None
    daily_maximum: float | None
    daily_maximum_text: str | None
    days_with_data: Count
    latest: float | None
    """The value of the last day with data."""
    latest_text: str | None
    latest_day: CalendarDay | None


class Normal(Body):
    """The values of the 28 days before the range."""

    mean: float
    mean_text: str | None
    deviation: float
    """The standard deviation of the days' values."""
    days: Count
    """How many of the 28 days have a value; with fewer than seven, normal is null."""
    until: str | None
    """The current time of day (HH:MM) if the range is today: only the hours of each day before it count."""


class Metric(Body):
    """One metric."""

    metric: str
    unit: str | None
    """Null for a metric without any data."""
    aggregation: Literal["sum", "avg"] | None
    """Whether the readings of a day are added up or averaged; null for a metric without any data."""
    summary: MetricSummary
    normal: Normal | None
    z: float | None
    """The difference between daily_mean and the normal mean, in standard deviations; null without a normal,
    without values to compare, or with a deviation of 0. In a range of several days, only completed days are
    compared."""
    phrase: str
    series: list[Point | DurationPoint]
    """In order, without days that have no data; empty if resolution is raw."""


class Reading(Body):
    """One measurement."""

    started_at: Timestamp
    ended_at: Timestamp
    value: float
    source: str | None


class Recovery(Body):
    """The person's recovery after the main sleep."""

    score: Percent | None
    state: Literal["scored", "pending", "unscorable"]
    resting_heart_rate_bpm: float | None
    hrv_rmssd: float | None
    """Heart rate variability in milliseconds: a measure, not a duration."""
    spo2_percent: Percent | None
    skin_temperature_c: float | None


class MainRecovery(Body):
    """What most questions about recovery need."""

    score: Percent | None
    resting_heart_rate_bpm: float | None
    hrv_rmssd: float | None


class MainStrain(Body):
    """What most questions about strain need."""

    score: float | None


class MainSleep(Body):
    """What most questions about sleep need."""

    started_at: Timestamp | None
    ended_at: Timestamp | None
    asleep_ms: Milliseconds | None
    deep_ms: Milliseconds | None
    rem_ms: Milliseconds | None
    efficiency_percent: Percent | None
    nap_ms: Milliseconds


class Day(Body):
    """The local date on which a main sleep ended: every value if there are two days at most."""

    date: CalendarDay
    provider: str | None
    utc_offset: str | None
    recovery: Recovery | MainRecovery | None
    strain: health.Strain | MainStrain | None
    sleep: health.Sleep | MainSleep | None


class Averages(Body):
    """Means over the days with data; null without any."""

    recovery_score: float | None
    strain_score: float | None
    asleep_ms: Annotated[int, Field(ge=0)] | None
    hrv_rmssd: float | None
    """In milliseconds."""
    resting_heart_rate_bpm: float | None


class Available(Body):
    """A metric with data, and the days that have it."""

    metric: str
    unit: str | None
    first_day: CalendarDay
    last_day: CalendarDay
    days_measured: Count
    """Days of the range on which a reading began."""


class UsualNight(Body):
    """The medians of the local times (HH:MM) at which the main sleeps of the range began and ended."""

    starts_at: str
    ends_at: str
    nights: Count


class HealthAnswer(Page):
    """The requested metrics, the requested days, and the list of available metrics if none was requested."""

    resolution: Literal["day", "hour", "raw", "week", "month"]
    """The length of time of each value; longer than requested if there would be too many values."""
    metrics: list[Metric]
    samples: list[Reading]
    """The newest readings, if resolution is raw."""
    recovery: list[Day]
    """The newest first, without days that have no data."""
    usual_night: UsualNight | None
    """If recovery is listed."""
    recovery_averages: Averages | None
    """Means over all days of the range."""
    recovery_normal: Averages | None
    """Means over the 28 days before it."""
    available: list[Available]
    """Metrics with data; listed if no metrics were requested, or one without data."""
    unmatched: list[names.Unmatched]
    """Requested metrics without any data."""


def _fitting(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with as many of the newest values of each series as fit."""
    most = max((len(metric["series"]) for metric in answer["metrics"]), default=0)
    # The rows of days get the rest of the room, and are cut later.
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


def _derived(frame: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resolution, and the 28 days before, from which normal values are computed.

    The number of values in an answer is limited, so in a long period each value covers several days.
    """
    first, last = (date.fromisoformat(frame[name]) for name in ("first_day", "last_day"))
    days = (last - first).days + 1
    if given["resolution"] == "raw":
        resolution = "raw"
    elif given["resolution"] == "hour" and days * len(given["metrics"]) <= _MOST_HOURLY:
        resolution = "hour"
    else:
        resolution = "day" if days <= 50 else "week" if days <= 350 else "month"
    return {
        "resolution": resolution,
        "before_first_day": str(first - timedelta(days=28)),
        "before_last_day": str(first - timedelta(days=1)),
    }


def _hours(frame: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the parameters of the statement of hours, or None for any other resolution."""
    if frame["resolution"] != "hour":
        return None
    return {**given, **{f"frame_{name}": value for name, value in frame.items()}}


def _finished(answer: dict[str, Any]) -> dict[str, Any]:
    hours, available = answer.pop("hours"), answer.pop("available")
    skipped = answer.pop("skipped")
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
    before = (answer.pop("before") or {"of_metrics": {}})["of_metrics"]
    for metric in answer["metrics"]:
        compared_mean = metric.pop("compared_mean")
        metric.update(_compared(compared_mean, before.get(metric["metric"])))
        metric["summary"] = _summary(metric["summary"], readings.get(metric["metric"]))
    is_cut = available["is_cut"] or (hours is not None and hours["is_cut"])
    samples = answer.pop("health_samples") or {"data": [], "has_more": False}
    recovery, nights_before = answer.pop("recovery"), answer.pop("recovery_before")
    nights = [] if recovery is None else [day for day in recovery["data"] if day["has_data"]]
    measured = answer | {
        "metrics": [_render(metric) for metric in answer["metrics"]],
        "samples": [_reading(sample) for sample in samples["data"]],
        "recovery": [
            _day(day, is_whole=len(nights) <= MOST_WHOLE_NIGHTS)
            for day in sorted(nights, key=_date, reverse=True)[skipped:]
        ],
        "usual_night": _usual_night(nights, ZoneInfo(answer["tz"])),
        "recovery_averages": None if recovery is None else _measures(recovery["averages"]),
        "recovery_normal": None if nights_before is None else _measures(nights_before["averages"]),
        "truncated": answer["truncated"] or samples["has_more"] or is_cut,
        "available": [
            {name: value for name, value in each.items() if name != "aggregation"}
            | {"unit": each["unit"] or _unit(each["metric"])}
            for each in available["available"]
        ],
    }
    return _fitting(measured)


def _is_known(metric: dict[str, Any]) -> bool:
    return metric["metric"] in OF_NIGHTS or metric["aggregation"] is not None


def _compared(mean: float | None, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return the normal values, and the z-score of ``mean``."""
    if before is None or before["days"] < FEWEST_DAYS:
        return {"normal": None, "z": None}
    usual, deviation = (float(before[name]) for name in ("mean", "deviation"))
    rounded = {"mean": _rounded(usual), "deviation": _rounded(deviation)}
    z = None
    if mean is not None and rounded["deviation"] > 0:
        z = _rounded((mean - usual) / deviation)
    return {"normal": before | rounded, "z": z}


def _rounded(value: float) -> float:
    number = round(value, 2)
    return int(number) if number.is_integer() else number


def _summary(of_days: dict[str, Any], readings: dict[str, Any] | None) -> dict[str, Any]:
    """Return a MetricSummary without words, of readings if a day has more than one."""
    own = ("mean", "minimum", "maximum")
    daily = {f"daily_{name}": of_days[name] for name in own}
    return {**of_days, **(readings or {}), **daily}


def _unit(metric: str) -> str | None:
    """Return the unit of a metric of nights."""
    known = metrics.METRICS.get(metric)
    return known.unit if known is not None else None


def _render(metric: dict[str, Any]) -> dict[str, Any]:
    """Return a metric with its unit, durations in words, and the comparison with normal."""
    name = metric["metric"]
    unit = metric["unit"] or _unit(name)
    # Heart rate variability is no duration, although its unit is milliseconds.
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
        return "no data"
    if normal is None:
        return "too few earlier days to compare with"
    if z is None:
        return "cannot be compared: the earlier days were all the same, or this day is not over"
    until = f" until {normal['until']}" if normal["until"] is not None else ""
    if abs(z) < 1:
        return f"about as usual{until}"
    much = "much " if abs(z) >= 2 else ""
    return f"{much}{'higher' if z > 0 else 'lower'} than usual{until}"


def _reading(sample: dict[str, Any]) -> dict[str, Any]:
    reduced = {name: sample[name] for name in ("started_at", "ended_at", "value")}
    source = sample["source"]
    return reduced | {"source": None if source is None else source["name"][:100]}


def _date(day: dict[str, Any]) -> str:
    date: str = day["date"]
    return date


def _day(day: dict[str, Any], *, is_whole: bool) -> dict[str, Any]:
    whole = {name: each for name, each in day.items() if name != "has_data"}
    whole["recovery"] = _measures(day["recovery"])
    if is_whole:
        return whole
    main = {"date": day["date"]}
    for name, model in (("sleep", MainSleep), ("recovery", MainRecovery), ("strain", MainStrain)):
        measured = whole[name]
        main[name] = measured and {each: measured[each] for each in model.model_fields}
    return main


def _usual_night(days: list[dict[str, Any]], zone: ZoneInfo) -> dict[str, Any] | None:
    """Return the UsualNight of days; None without any sleep."""
    # A day with only naps has no times.
    sleeps = [day["sleep"] for day in days if day["sleep"] and day["sleep"]["started_at"]]
    if not sleeps:
        return None
    begun, ended = ([sleep[name] for sleep in sleeps] for name in ("started_at", "ended_at"))
    return {
        "starts_at": _usual_time(begun, zone),
        "ends_at": _usual_time(ended, zone),
        "nights": len(sleeps),
    }


def _usual_time(instants: list[str], zone: ZoneInfo) -> str:
    """Return the median of times of day, counted from noon, so that midnight is in the middle."""
    minutes = []
    for instant in instants:
        at = datetime.fromisoformat(instant).astimezone(zone)
        minutes.append((at.hour * 60 + at.minute - _NOON) % (2 * _NOON))
    median = (round(statistics.median(minutes)) + _NOON) % (2 * _NOON)
    return f"{median // 60:02}:{median % 60:02}"


def _measures(measured: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an object in which the name of heart rate variability does not end like that of a duration."""
    if measured is None:
        return None
    return {
        ("hrv_rmssd" if name == "hrv_rmssd_ms" else name): value for name, value in measured.items()
    }


TOOLS: Final = [
    Tool(
        name="get_health",
        title="Health",
        description="Sleep, recovery and strain by day, and metrics of devices such as steps, heart rate or"
        " weight, compared with the 28 days before. A night belongs to the day on which it ended. Use it for"
        " 'How did I sleep?' (without metrics, which also lists them) and 'How many steps did I take?'. Not"
        " for relating two metrics (correlate), nor for medical advice.",
        scope="read:health",
        arguments=Health,
        answer=HealthAnswer,
        frame=SQL["period"],
        derive=_derived,
        parts=(
            Part(SQL["get_health"]),
            Part(SQL["health_before"], name="before", is_wanted=_wants_readings),
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
        app=apps.SLEEP,
        finish=_finished,
        rows="recovery",
        most_rows=ROWS,
    )
]
