"""The tool compare_periods: two periods side by side, the largest changes first."""

import math
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Self, get_args

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api import parameters
from resourceserver.api.bodies import Body, CalendarDay, Count
from resourceserver.mcp import names, tool
from resourceserver.mcp.arguments import LISTED, InZone, Period, Text
from resourceserver.mcp.tool import ENTRY, Answer, Part, Tool
from resourceserver.mcp.tools import measures
from resourceserver.mcp.tools.measures import MetricRequest
from resourceserver.timeline import metrics
from resourceserver.timeline.metrics import METRICS, OF_HEALTH

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(_HERE / "comparison.sql", _TIMELINE / "reported.sql")

PERIODS: Final = get_args(Period)
MOST_METRICS: Final = 30
ACTIVITY: Final = [name for name, known in METRICS.items() if known.scope == ENTRY]
FEWEST_DAYS: Final = 3
"""The fewest days of either period for a change to be notable."""


def _days(text: str) -> tuple[date, date] | None:
    """Return the first and the last day of a period, None for a named one. Raises ValueError."""
    if text in PERIODS:
        return None
    first_text, slash, last_text = text.partition("/")
    try:
        first = parameters.parse_day(first_text)
        last = parameters.parse_day(last_text) if slash else first
    except ValueError as error:
        raise ValueError(
            f"must be one of {', '.join(PERIODS)}, a day such as 2025-06-16, or two as"
            " 2025-06-01/2025-06-30"
        ) from error
    if first > last:
        raise ValueError("must not end before it begins")
    if (last - first).days >= parameters.MOST_DAYS:
        raise ValueError(f"must have at most {parameters.MOST_DAYS} days")
    return first, last


def _checked_period(text: str) -> str:
    try:
        _days(text)
    except ValueError as error:
        raise PydanticCustomError("malformed", "{reason}", {"reason": str(error)}) from error
    return text


def _checked_metric(name: str) -> str:
    try:
        return metrics.parse(name)
    except ValueError as error:
        raise PydanticCustomError("malformed", "{reason}", {"reason": str(error)}) from error


Days = Annotated[
    Text,
    AfterValidator(_checked_period),
    WithJsonSchema({"type": "string"}),
]
MetricName = Annotated[
    Text,
    AfterValidator(_checked_metric),
    WithJsonSchema({"type": "string"}),
]


class Comparison(InZone):
    """Which days to compare with which, and by which metrics."""

    a: Days = Field(
        default="this_week",
        description="A period named as in other tools, a day (YYYY-MM-DD), or first and last day"
        " (YYYY-MM-DD/YYYY-MM-DD).",
    )
    b: Days | None = Field(
        default=None,
        description="What to compare a with. Default: the period before a, up to the same day and time if a"
        " is not over.",
    )
    metrics: Annotated[list[MetricName], Field(min_length=1, max_length=MOST_METRICS), LISTED] = (
        Field(
            default=ACTIVITY,
            description="Default: all of read:activity. Names by scope, also for correlate: "
            + "; ".join(
                f"{scope}: {', '.join(name for name, known in METRICS.items() if known.scope == scope)}"
                for scope in dict.fromkeys(known.scope for known in METRICS.values())
            )
            + ", and health:NAME for any other, such as health:steps.",
        )
    )

    @model_validator(mode="after")
    def _has_something_before(self) -> Self:
        if self.b is None and self.a == "all":
            reason = "b: is required if a is all, because no period comes before all"
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def scopes(self) -> tuple[str, ...]:
        """Return the scopes of the metrics' domains."""
        return tuple(
            dict.fromkeys((metrics.find(name) or OF_HEALTH).scope for name in self.metrics)
        )

    def named(self) -> dict[str, list[str]]:
        """Return the names of metrics by argument."""
        return {"metrics": list(dict.fromkeys(self.metrics))}

    def values(self) -> dict[str, Any]:
        """Return the values with the days of periods that are given as dates."""
        metric_names = self.named()["metrics"]
        ends: dict[str, Any] = {}
        for side, text in (("a", self.a), ("b", self.b)):
            first, last = (text is not None and _days(text)) or (None, None)
            ends |= {f"{side}_first": first, f"{side}_last": last}
        return (
            super().values()
            | ends
            | measures.names_values(self.named())
            | {
                "metrics": metric_names,
                "is_counted": any(map(metrics.is_counter, metric_names)),
            }
        )


class Compared(Body):
    """One of the two periods."""

    from_: CalendarDay = Field(alias="from")
    to: CalendarDay
    days: Count
    active_days: Count
    """Days with any tracked or coding time."""
    is_over: bool
    """Whether its last day is in the past; if not, its values may still grow."""
    same_hours: str | None
    """The part of it that counts, if it is limited to the same hours as the other, unfinished period."""


class Periods(Body):
    """Both periods."""

    a: Compared
    b: Compared


class Value(Body):
    """The value of a metric in one period."""

    value: float | None
    """The sum of a count or duration, the maximum of longest_focus_ms, or the mean of the days with data;
    null without data."""
    value_text: str | None
    per_active_day: float | None
    """The sum divided by the number of active days; null for metrics that are not sums. For periods of
    different lengths, only completed days count."""
    per_active_day_text: str | None
    days: Count
    """The number of days with data."""


class Change(Body):
    """One metric in both periods."""

    metric: str
    unit: str | None
    is_notable: bool
    """Whether the daily means differ by at least two standard errors, which is rarely due to chance. Today
    is included only if the other period is limited to the same hours."""
    phrase: str
    a: Value
    b: Value
    change: float | None
    """The value of a minus the value of b."""
    change_text: str | None
    percent: float | None
    """The change in percent of b; null if b is 0 or null."""
    percent_per_active_day: float | None
    """The same for values per active day; use it for periods of different lengths."""


class ComparisonAnswer(Answer):
    """Every metric in both periods. The range begins with the first day of the earlier period and ends with
    the last day of the later one."""

    periods: Periods
    data: list[Change]
    """Notable changes first, by the number of standard errors; then the others, by percent."""
    unmatched: list[names.Unmatched]
    """Requested metrics without any data."""


_TRACKED: Final = ("measured_app_time", "measured_coding")
"""Statements that return the days with tracked or coding time."""


_SIDES: Final = ("a", "b")


def _days_over(frame: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the completed days of each unfinished period, unless the same hours are compared."""
    if frame["same_hours"] is not None:
        return {}
    yesterday = str(date.fromisoformat(frame["today"]) - timedelta(days=1))
    return {
        side: (frame[f"{side}_first"], yesterday)
        for side in _SIDES
        if frame[f"{side}_first"] <= yesterday < frame[f"{side}_last"]
    }


def _request(frame: Mapping[str, Any], given: Mapping[str, Any]) -> MetricRequest:
    """Return the metrics of both periods."""
    periods = {side: (frame[f"{side}_first"], frame[f"{side}_last"]) for side in _SIDES}
    periods |= {f"{side}_over": days for side, days in _days_over(frame).items()}
    return MetricRequest(
        given["metrics"], frame["slots"], frame["reported"], periods, always=_TRACKED
    )


def _render(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with changes as numbers and as phrases, the largest first."""
    frame = answer["frame"]
    for side in _SIDES:
        tool.check_begun(frame[f"{side}_first"], frame["today"])
    active = {day for name in _TRACKED for day in answer[name]["active"] or ()}
    by_metric = {
        (row["metric"], row["kind"]): row
        for measured in measures.taken(answer)
        for row in measured["periods"] or ()
    }
    unmatched = measures.unmatched(answer.pop("names"))
    unknown = {each["name"] for each in unmatched}
    units, over = answer.pop("units"), _days_over(frame)

    def active_days(first: str, last: str) -> int:
        return sum(first <= day <= last for day in active)

    for side, period in answer["periods"].items():
        period["active_days"] = active_days(period["from"], period["to"])
        period["same_hours"] = _same_hours(frame["same_hours"], side)

    def of_side(name: str, side: str) -> dict[str, Any]:
        whole = _of_period(by_metric[name, side], answer["periods"][side]["active_days"])
        if side not in over:
            return whole | {"compared": whole}
        compared = _of_period(by_metric[name, f"{side}_over"], active_days(*over[side]))
        return whole | {"compared": compared}

    rows = [
        {"metric": name, "unit": units.get(name)} | {side: of_side(name, side) for side in _SIDES}
        for name in answer.pop("metrics")
        if name not in unknown
    ]
    rows = sorted(rows, key=_weight, reverse=True)
    return answer | {"data": [_change(row) for row in rows], "unmatched": unmatched}


def _same_hours(counted: Mapping[str, Any] | None, side: str) -> str | None:
    """Return in words the part of a period that counts, if it is limited to the same hours; else None."""
    if counted is None or counted["kind"] != side:
        return None
    if counted["is_each_day"]:
        return f"each day until {counted['until']}, because today is not over"
    return f"until {counted['until']}, because the other period is not over"


def _of_period(row: dict[str, Any], active_days: int) -> dict[str, Any]:
    """Return the row of a metric in a period with its value: the sum of a counter, else the mean."""
    value = row["mean"]
    if row["days"] > 0 and metrics.is_counter(row["metric"]):
        value = row["sum"] or 0
    return row | {"value": value, "active_days": active_days}


def _weight(row: dict[str, Any]) -> tuple[bool, float]:
    errors = _standard_errors(row["a"]["compared"], row["b"]["compared"])
    if errors >= 2:
        return True, errors
    rate = _rate(row)
    return False, -1.0 if rate is None else abs(rate)


def _standard_errors(a: dict[str, Any], b: dict[str, Any]) -> float:
    """Return by how many standard errors the means of the days differ; 0 for too few days (Welch's t)."""
    if min(a["days"], b["days"]) < FEWEST_DAYS:
        return 0.0
    away = abs(a["mean"] - b["mean"])
    error = math.sqrt(sum(each["deviation"] ** 2 / each["days"] for each in (a, b)))
    # Without any deviation in either period, every difference is notable.
    return away / error if error else math.inf if away else 0.0


def _adds_up(name: str) -> bool:
    return metrics.is_counter(name) and name != "longest_focus_ms"


def _per_active_day(row: dict[str, Any], side: str) -> float | None:
    each = row[side]["compared"]
    if each["value"] is None or not each["active_days"] or not _adds_up(row["metric"]):
        return None
    per_day: float = each["value"] / each["active_days"]
    return per_day


def _percent(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else round(100 * (a - b) / b, 2)


def _rate(row: dict[str, Any]) -> float | None:
    """Return the percentage to sort and phrase by: per active day if there is one."""
    per_day = _percent(_per_active_day(row, "a"), _per_active_day(row, "b"))
    return _percent(row["a"]["value"], row["b"]["value"]) if per_day is None else per_day


def _change(row: dict[str, Any]) -> dict[str, Any]:
    name = row["metric"]
    unit = (metrics.find(name) or OF_HEALTH).unit or row["unit"]
    a, b = (_value(row, side, name, unit) for side in _SIDES)
    change = None
    if a["value"] is not None and b["value"] is not None:
        change = measures.rounded(row["a"]["value"] - row["b"]["value"], name, unit)
    return {
        "metric": name,
        "unit": unit,
        "is_notable": _weight(row)[0],
        "phrase": _phrase(row, a, b),
        "a": a,
        "b": b,
        "change": change,
        "change_text": measures.words(change, name, unit),
        "percent": _percent(row["a"]["value"], row["b"]["value"]),
        "percent_per_active_day": _percent(_per_active_day(row, "a"), _per_active_day(row, "b")),
    }


def _value(row: dict[str, Any], side: str, name: str, unit: str | None) -> dict[str, Any]:
    value = measures.rounded(row[side]["value"], name, unit)
    per_day = measures.rounded(_per_active_day(row, side), name, unit)
    return {
        "value": value,
        "value_text": measures.words(value, name, unit),
        "per_active_day": per_day,
        "per_active_day_text": measures.words(per_day, name, unit),
        "days": row[side]["days"],
    }


def _phrase(row: dict[str, Any], a: dict[str, Any], b: dict[str, Any]) -> str:
    unknown = [side for side in _SIDES if row[side]["value"] is None]
    if unknown:
        return f"not known in {' and '.join(unknown)}"
    is_daily = a["per_active_day"] is not None and b["per_active_day"] is not None
    member = "per_active_day_text" if is_daily else "value_text"
    rate = _rate(row)
    if rate is None:
        how = "as" if a[member] == b[member] else "after"
    elif rate == 0:
        how = "as"
    else:
        how = f"{abs(rate):.0f} % {'more' if rate > 0 else 'less'} than"
    return f"{a[member]}{' per active day' if is_daily else ''}, {how} {b[member]}"


TOOLS: Final = [
    Tool(
        name="compare_periods",
        title="Two periods compared",
        description="What changed between two periods in metrics of activity, code, health, music, places and"
        " meetings: totals, per active day, change and percent, notable ones first. Use it for 'Was I more"
        " focused than last month?' and 'Did I code more this week than last?'. Not for time by application"
        " or project: use get_time_breakdown.",
        scope=ENTRY,
        arguments=Comparison,
        answer=ComparisonAnswer,
        frame=SQL["comparison_frame"],
        parts=(
            Part(SQL["compare_periods"]),
            measures.names_part(Comparison.named),
            *measures.parts(_request),
        ),
        finish=_render,
        rows="data",
    )
]
