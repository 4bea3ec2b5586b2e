"""The tool compare_periods: two periods side by side, the largest changes first.

They are compared by metrics; or by time in applications or in editors, which the statements of
get_time_breakdown add up.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api import parameters
from resourceserver.api.bodies import Body, CalendarDay, Count
from resourceserver.mcp import names, tool
from resourceserver.mcp.arguments import (
    LISTED,
    MILLISECOND,
    OBJECT,
    Arguments,
    Filter,
    InZone,
    Kind,
    Period,
    Text,
)
from resourceserver.mcp.tool import ENTRY, ROWS, Answer, Part, Tool
from resourceserver.mcp.tools import breakdown, measures
from resourceserver.mcp.tools.measures import MetricRequest
from resourceserver.timeline import metrics
from resourceserver.timeline.metrics import METRICS, OF_HEALTH

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    _HERE / "comparison.sql", _TIMELINE / "reported.sql", _TIMELINE / "timeline.sql"
)

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


Key = Literal["app", "domain", "category", "project", "language"]
_OF_CODING: Final = ("project", "language")
_METRICS: Final[dict[Kind, str]] = {"app": "tracked_ms", "coding": "coding_ms"}
"""The metric whose time a filter or a key divides."""


def _one(value: Any) -> Any:
    """Return a list of one key as the key, because group_by of get_time_breakdown is a list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


class Comparison(InZone):
    """Which days to compare with which, and by what."""

    a: Days = Field(
        default="this_week",
        description="A period as in other tools, a day, or first and last day (YYYY-MM-DD/YYYY-MM-DD).",
    )
    b: Days | None = Field(
        default=None,
        description="Default: the period before a, up to the same day and time if a is not over.",
    )
    metrics: Annotated[list[MetricName], Field(min_length=1, max_length=MOST_METRICS), LISTED] = (
        Field(
            default=ACTIVITY,
            description="Default: all of read:activity. Names by scope, also for correlate: "
            + "; ".join(
                f"{scope}: {', '.join(name for name, known in METRICS.items() if known.scope == scope)}"
                for scope in dict.fromkeys(known.scope for known in METRICS.values())
            )
            + ", and health:NAME, such as health:steps.",
        )
    )
    group_by: Annotated[Key, BeforeValidator(_one)] | None = Field(
        default=None, description="Compares time by it, not metrics."
    )
    filter: Annotated[Filter, OBJECT, WithJsonSchema({"type": "object"})] | None = Field(
        default=None, description="As in get_time_breakdown; not with metrics."
    )

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        reason = self._contradiction()
        if reason is not None:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def _contradiction(self) -> str | None:
        if self.b is None and self.a == "all":
            return "b: is required if a is all, because no period comes before all"
        kind = self.kind()
        if kind is None:
            return None
        given = self.filter or Filter()
        wrong = given.members("coding" if kind == "app" else "app")
        if wrong:
            of_kind = f"group_by {self.group_by}" if self.group_by else given.members(kind)[0]
            return f"filter: {' and '.join(wrong)} cannot be used with {of_kind}"
        if "metrics" in self.model_fields_set and set(self.metrics) != {_METRICS[kind]}:
            return f"metrics: with group_by or filter, leave it out, because {_METRICS[kind]} is compared"
        return None

    def kind(self) -> Kind | None:
        """Return the kind of time that is compared by a key or with a filter; None for metrics."""
        given = self.filter or Filter()
        if self.group_by is not None:
            return "coding" if self.group_by in _OF_CODING else "app"
        if given.members("coding"):
            return "coding"
        return "app" if given.members("app") else None

    def has_names(self) -> bool:
        """Tell whether the filter has names, which may be unknown."""
        return self.filter is not None and self.filter.has_names()

    def scopes(self) -> tuple[str, ...]:
        """Return the scopes of the metrics' domains."""
        return tuple(
            dict.fromkeys((metrics.find(name) or OF_HEALTH).scope for name in self.metrics)
        )

    def named(self) -> dict[str, list[str]]:
        """Return the names of metrics by argument."""
        return {"metrics": [] if self.kind() else list(dict.fromkeys(self.metrics))}

    def values(self) -> dict[str, Any]:
        """Return the values with the days of periods that are given as dates."""
        metric_names = self.named()["metrics"]
        ends: dict[str, Any] = {}
        for side, text in (("a", self.a), ("b", self.b)):
            first, last = (text is not None and _days(text)) or (None, None)
            ends |= {f"{side}_first": first, f"{side}_last": last}
        rest = super().values()
        del rest["filter"]
        return (
            rest
            | (self.filter or Filter()).lists()
            | ends
            | measures.names_values(self.named())
            | {
                "metrics": metric_names,
                "kind": self.kind(),
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
    days: Count | None
    """The number of days with data; null with group_by or filter."""


class Change(Body):
    """One metric in both periods."""

    by: dict[Key, str] | None
    """The value of group_by, whose time this is; null without it."""
    metric: str
    """``coding_ms`` for projects and languages, ``tracked_ms`` with another group_by or filter."""
    unit: str | None
    is_notable: bool | None
    """Whether the daily means differ by at least two standard errors, which is rarely due to chance. Today
    is included only if the other period is limited to the same hours. Null with group_by or filter."""
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
    """Notable changes first, by the number of standard errors; then the others, by percent. With
    group_by, the largest changes, at most 20."""
    unmatched: list[names.Unmatched]
    """Metrics without any data, and names in the filter that occur nowhere in the person's data."""


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


def _periods(frame: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the days of both periods, and of what is over of them, by name."""
    periods = {side: (frame[f"{side}_first"], frame[f"{side}_last"]) for side in _SIDES}
    return periods | {f"{side}_over": days for side, days in _days_over(frame).items()}


def _request(frame: Mapping[str, Any], given: Mapping[str, Any]) -> MetricRequest:
    """Return the metrics of both periods."""
    return MetricRequest(
        given["metrics"], frame["slots"], frame["reported"], _periods(frame), always=_TRACKED
    )


_STATEMENTS: Final[dict[Kind, str]] = {"app": "breakdown_of_apps", "coding": "breakdown_of_coding"}
_ALL_ROWS: Final = 2**31 - 1


def _time_of(
    kind: Kind,
) -> Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any] | None]:
    """Return the function that returns the parameters of the statement of this kind of time."""

    def values(frame: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
        if given["kind"] != kind:
            return None
        slots = _slots(frame)
        if not slots:
            return None
        groups = list(dict.fromkeys(names for names, _, _ in slots if names))
        numbers = {names: str(n) for n, names in enumerate(groups, start=1)}
        return {name: given[name] for name in Filter.model_fields} | {
            "kind": kind,
            "group_by": ["periods", *filter(None, [given["group_by"]])],
            "edges": [*(str(start) for _, start, _ in slots), str(slots[-1][2])],
            # Slots of neither period have no group, so their time is not in the answer.
            "slot_groups": [numbers.get(names) for names, _, _ in slots],
            "first_names": groups,
            "second_names": [None] * len(groups),
            "begun": ["true"] * len(groups),
            "raw_days": frame["raw_days"],
            "is_of_time": False,
            "is_in_order": False,
            "skipped": 0,
            "top": _ALL_ROWS,
            "frame_is_cut": False,
        }

    return values


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _slots(frame: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return the longest slots of the same periods: the names of these, and both ends in milliseconds."""
    periods = _periods(frame)

    def names(day: str | None) -> str:
        if day is None:
            return ""
        return " ".join(name for name, (first, last) in periods.items() if first <= day <= last)

    given = frame["slots"]
    slots = [
        (names(day), _milliseconds(start), _milliseconds(end))
        for day, start, end in zip(given["dates"], given["starts"], given["ends"], strict=True)
    ]
    # A day that the zone skipped has no length.
    with_length = [slot for slot in slots if slot[1] < slot[2]]
    runs = (list(run) for _, run in groupby(with_length, key=lambda slot: slot[0]))
    return [(run[0][0], run[0][1], run[-1][2]) for run in runs]


def _milliseconds(instant: str) -> int:
    return (datetime.fromisoformat(instant) - _EPOCH) // MILLISECOND


def _has_names(given: Arguments) -> bool:
    return isinstance(given, Comparison) and given.has_names()


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
    unmatched += names.unmatched(answer.pop("names_of_filter"))
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
    data = [_change(row, is_notable=_weight(row)[0]) for row in rows]
    found = [answer.pop(name) for name in _STATEMENTS.values()]
    for time in filter(None, found):
        lengths = {name: active_days(*days) for name, days in _periods(frame).items()}
        timed = _time_rows(time, lengths)
        data = [_change(row, is_notable=None) for row in timed[:ROWS]]
        answer["truncated"] = len(timed) > ROWS
    return answer | {"data": data, "unmatched": unmatched}


def _time_rows(time: Mapping[str, Any], active_days: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the time in each period by the requested key, if any, the largest change first.

    ``time`` is the result of a statement, ``active_days`` the number of these by the name of a period.
    """
    key = (time["group_by"][1:] or [None])[0]
    sums: dict[str | None, Counter[str]] = {} if key else {None: Counter()}
    for row in time["data"]:
        spent = sums.setdefault(row["by"].get(key), Counter())
        spent.update(dict.fromkeys(row["by"]["periods"].split(), row["total_ms"]))

    def of_period(spent: Counter[str], name: str) -> dict[str, Any]:
        days = active_days[name]
        return {"value": spent[name] if days else None, "active_days": days, "days": None}

    def of_side(spent: Counter[str], side: str) -> dict[str, Any]:
        over = f"{side}_over" if f"{side}_over" in active_days else side
        return of_period(spent, side) | {"compared": of_period(spent, over)}

    rows = [
        {"by": {key: name} if key else None, "metric": _METRICS[time["kind"]], "unit": "ms"}
        | {side: of_side(spent, side) for side in _SIDES}
        for name, spent in sums.items()
        if not key or spent["a"] or spent["b"]
    ]
    return sorted(
        rows,
        key=lambda row: (
            -abs((row["a"]["value"] or 0) - (row["b"]["value"] or 0)),
            str(row["by"]),
        ),
    )


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


def _change(row: dict[str, Any], *, is_notable: bool | None) -> dict[str, Any]:
    name = row["metric"]
    unit = (metrics.find(name) or OF_HEALTH).unit or row["unit"]
    a, b = (_value(row, side, name, unit) for side in _SIDES)
    change = None
    if a["value"] is not None and b["value"] is not None:
        change = measures.rounded(row["a"]["value"] - row["b"]["value"], name, unit)
    return {
        "by": row.get("by"),
        "metric": name,
        "unit": unit,
        "is_notable": is_notable,
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
        " meetings, or in time by application or project, also per active day. Use it for 'Was I more focused"
        " than last month?' and 'Which project grew most?'. Not for one period (get_time_breakdown).",
        scope=ENTRY,
        arguments=Comparison,
        answer=ComparisonAnswer,
        frame=SQL["comparison_frame"],
        parts=(
            Part(SQL["compare_periods"]),
            measures.names_part(Comparison.named),
            Part(breakdown.SQL["names_of_filter"], name="names_of_filter", is_wanted=_has_names),
            *(
                Part(breakdown.SQL[name], name=name, ask=_time_of(kind))
                for kind, name in _STATEMENTS.items()
            ),
            *measures.parts(_request),
        ),
        finish=_render,
        rows="data",
    )
]
