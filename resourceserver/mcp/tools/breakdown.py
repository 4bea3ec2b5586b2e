"""The tool get_time_breakdown: time of one kind, applications or coding, by up to two keys."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api import parameters
from resourceserver.api.bodies import Body, Count, Milliseconds, Percent
from resourceserver.api.endpoint import Answers, Further
from resourceserver.mcp import apps, names, tool
from resourceserver.mcp.arguments import LISTED, WHOLE, Arguments, Filtered, Kind, Ranked
from resourceserver.mcp.tool import ENTRY, LONG_ROWS, MOST_BYTES, MOST_ROWS, Page, Part, Tool
from shared import pipeline
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(
    _HERE / "breakdown.sql",
    _HERE / "filter.sql",
    _HERE / "names.sql",
    _TIMELINE / "timeline.sql",
)

Key = Literal[
    "app",
    "domain",
    "category",
    "project",
    "language",
    "day",
    "week",
    "month",
    "weekday",
    "hour",
    "device",
]
_OF_TIME: Final = ("day", "week", "month", "weekday", "hour")
_OF_KIND: Final[dict[Kind, tuple[Key, ...]]] = {
    "app": ("app", "domain", "category"),
    "coding": ("project", "language"),
}
_OF_BOTH: Final = (*_OF_TIME, "device")
_IN_ORDER: Final = {"day", "week", "month"}
"""With only these keys, rows are in the order of time, and the last ones are kept."""
_BY_KIND: Final[dict[Kind, str]] = {"app": "breakdown_of_apps", "coding": "breakdown_of_coding"}
_STATEMENTS: Final = {name: pipeline.statement(SQL[name]) for name in _BY_KIND.values()}
"""The statements that add up the time of slots."""

MOST: Final = 100
_DAYS_OF_DEVICES: Final = 184
_ROOM: Final = MOST_BYTES - 4 * 1024
"""Bytes for rows; the rest of the limit is for totals and gaps."""


class Breakdown(Ranked, Filtered):
    """Which time to add up, by which keys, and how many rows to return."""

    group_by: Annotated[list[Key], Field(min_length=1, max_length=2), LISTED] | None = Field(
        default=None,
        description="One or two keys. Default: app, or project for coding. app, domain and category are of"
        " kind app, project and language of coding. Keys of time are in order, others most time first."
        " device: at most 184 days.",
    )
    top: Annotated[int, Field(ge=1, le=MOST), WHOLE] | None = Field(
        default=None,
        description=f"Most rows; other sums up the rest. Default: {LONG_ROWS}, for keys of time {MOST_ROWS}.",
    )

    @model_validator(mode="after")
    def _groups_by_what_there_is(self) -> Self:
        kind = self.chosen_kind()
        allowed = (*_OF_KIND[kind], *_OF_BOTH)
        keys = self.keys()
        wrong = [key for key in keys if key not in allowed]
        reason = None
        if wrong:
            reason = (
                f"group_by: {' and '.join(wrong)} cannot be used with kind {kind},"
                f" which has {', '.join(allowed)}"
            )
        elif len(set(keys)) < len(keys):
            reason = f"group_by: {keys[0]} is given twice"
        if reason is not None:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def chosen_kind(self) -> Kind:
        """Return the requested kind, or the one that the keys need."""
        if self.kind is None and set(self.group_by or ()) & set(_OF_KIND["coding"]):
            return "coding"
        return super().chosen_kind()

    def keys(self) -> list[Key]:
        """Return the requested keys, or the usual one of the kind."""
        return self.group_by or [_OF_KIND[self.chosen_kind()][0]]

    def values(self) -> dict[str, Any]:
        """Return the values with the keys and the number of rows."""
        keys = self.keys()
        is_of_time = set(keys) <= set(_OF_TIME)
        top = self.top or (MOST_ROWS if is_of_time else LONG_ROWS)
        return super().values() | {
            "group_by": list(keys),
            "is_of_time": is_of_time,
            "is_in_order": set(keys) <= _IN_ORDER,
            "top": top,
            "most_days": self._most_days(keys),
        }

    def _most_days(self, keys: list[Key]) -> int | None:
        """Return how many of the last days of a period are read; None for all.

        Hours cover at most as many days as a request with dates may have, because the first day of "all" may
        have a wrong year.
        """
        if self.chosen_kind() == "app" and "device" in keys:
            return _DAYS_OF_DEVICES
        return parameters.MOST_DAYS + 1 if "hour" in keys else None


class BreakdownRow(Body):
    """The time of one key, or of a combination of two."""

    by: dict[Key, str]
    """The value of each key of group_by. A week is the date of its first day, which may be before the range;
    the domain of windows without a site is ``no site``."""
    total_ms: Milliseconds
    percent: Percent | None
    """Share of the total; null if the total is 0."""
    session_count: Count
    """A session that crosses midnight counts on both days, and once in the total."""


class OtherTime(Body):
    """Sums of the rows after these."""

    rows: Count
    total_ms: Milliseconds
    percent: Percent | None
    session_count: Count


class TimeTotals(Body):
    """Sums of all time that matches the filter: the sums of data and other."""

    total_ms: Milliseconds
    session_count: Count
    productive_ms: Milliseconds | None
    """This and the next two add up to the total; null for coding."""
    neutral_ms: Milliseconds | None
    distracted_ms: Milliseconds | None


class BreakdownAnswer(Page):
    """Time by the requested keys."""

    kind: Kind
    group_by: list[Key]
    data: list[BreakdownRow]
    other: OtherTime | None
    """Sums of the rows after these; left out if there are none."""
    totals: TimeTotals
    unmatched: list[names.Unmatched]
    """Names in the filter that occur nowhere in the person's data."""


def _has_names(given: Arguments) -> bool:
    return isinstance(given, Filtered) and given.has_names()


def _steps(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statement that adds up the slots."""
    name = _BY_KIND[values["kind"]]
    return {name: (_STATEMENTS[name], {**values, **answers["query"]})}


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the result of that statement."""
    (found,) = (answers[name] for name in _STATEMENTS if name in answers)
    body: dict[str, Any] = found
    return body


def _finished(answer: dict[str, Any]) -> dict[str, Any]:
    fitting = _fitting(answer | {"unmatched": names.unmatched(answer.pop("names"))})
    has_more = fitting["other"]["rows"] > 0
    return fitting | {"has_more": has_more, "other": fitting["other"] if has_more else None}


def _fitting(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with as many rows as fit, and the rest in ``other``."""
    rows, other = answer["data"], answer["other"]
    # SQL cuts them in the same way: in the order of time, the last ones are kept.
    keeps_last = set(answer["group_by"]) <= _IN_ORDER
    sizes = [len(json.dumps(tool.with_texts(row), ensure_ascii=False).encode()) for row in rows]
    room = _ROOM
    kept = 0
    for size in reversed(sizes) if keeps_last else sizes:
        room -= size
        if room < 0:
            break
        kept += 1
    if kept == len(rows):
        return answer
    left = rows[: len(rows) - kept] if keeps_last else rows[kept:]
    kept_rows = rows[len(rows) - kept :] if keeps_last else rows[:kept]
    sums = {
        name: other[name] + sum(row[name] for row in left) for name in ("total_ms", "session_count")
    }
    whole = answer["totals"]["total_ms"]
    percent = round(100 * sums["total_ms"] / whole, 2) if whole else None
    other = {"rows": other["rows"] + len(left), "percent": percent} | sums
    return answer | {"data": kept_rows, "other": other, "truncated": True}


TOOLS: Final = [
    Tool(
        name="get_time_breakdown",
        title="Time breakdown",
        description="Sums of time in applications, sites and categories, or in coding projects and languages,"
        " by one or two keys. Use it for 'Where did my time go?', 'How long was I in Slack last week?' and"
        " 'How much Python per week this year?'. Not for single sessions and titles (list_sessions), nor for"
        " a summary of one day (get_day).",
        scope=ENTRY,
        arguments=Breakdown,
        answer=BreakdownAnswer,
        frame=SQL["period"],
        parts=(
            Part(SQL["breakdown_slots"], further=Further(_STATEMENTS, _steps, _finish)),
            Part(SQL["names_of_filter"], name="names", is_wanted=_has_names),
        ),
        app=apps.BREAKDOWN,
        finish=_finished,
        rows="data",
        most_rows=MOST,
    )
]
