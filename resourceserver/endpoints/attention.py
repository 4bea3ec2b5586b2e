"""Attention: switches from one application to another, streaks of focus, what broke them, and detours.

All are computed on the whole timeline. A range selects switches and streaks and changes none, even if it
cuts through one.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    Count,
    InstantRangeEcho,
    Listing,
    Milliseconds,
    Percent,
    Timestamp,
)
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import (
    FIRST_ROW,
    FixedList,
    Instant,
    InstantRange,
    cursor,
    parse_instant,
)
from resourceserver.timeline import metrics
from resourceserver.timeline.normal import percent
from shared import pipeline, queries
from shared.pipeline import Step

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(
    _TIMELINE / "timeline.sql",
    _TIMELINE / "segments.sql",
    _TIMELINE / "kept.sql",
    _HERE / "attention.sql",
)


class SwitchPage(InstantRange, FixedList):
    """A range of instants, and which part of its list of switches."""

    LENGTH: ClassVar[int] = 5000


class StreakPage(InstantRange, FixedList):
    """A range of instants, and which part of its list of streaks."""

    LENGTH: ClassVar[int] = 2000


MOST_DAYS: Final = 366
"""The longest range whose detours are searched, in days."""


class RangeOfDetours(InstantRange):
    """A range of instants of at most a year."""

    to: Instant = Field(
        description="End of the range, an ISO 8601 instant; not part of it,"
        f" and at most {MOST_DAYS} days after the start.",
        examples=["2025-10-27T00:00:00Z"],
    )

    @model_validator(mode="after")
    def _is_short(self) -> Self:
        if self.to - self.from_ > timedelta(days=MOST_DAYS):
            raise PydanticCustomError(
                "length",
                "must be at most {most} days after from",
                {"parameter": "to", "most": MOST_DAYS},
            )
        return self


class ContextSwitch(Body):
    """The start of an application after another one."""

    at: Timestamp
    """When the application that was switched to began."""
    from_app: str
    to_app: str
    from_category: str
    """The category of the longest stretch before the switch."""
    to_category: str
    """The category after the switch."""
    before_ms: Milliseconds
    """How long the application before had been in use without another one, including time before the
    range."""


class SwitchPair(Body):
    """The number of switches from one application to a certain other one."""

    from_app: str
    to_app: str
    count: Count
    """The number of switches from the first to the second."""
    average_before_ms: Milliseconds
    median_before_ms: Milliseconds


class SwitchTotals(Body):
    """Of all switches of the range, whatever the page."""

    switch_count: Count
    average_before_ms: Milliseconds | None
    """Average time in the application before, in milliseconds; null without switches."""
    median_before_ms: Milliseconds | None
    per_active_hour: Annotated[float, Field(ge=0)] | None
    """Switches per hour of tracked time in the range; null where there is none."""


class SwitchDefinition(Body):
    """What counts as a switch."""

    max_gap_ms: Milliseconds
    """The next application after a longer pause is not a switch."""
    min_session_ms: Milliseconds
    """An application that was used for less time is ignored."""


class ContextSwitchesBody(Listing):
    """Switches between applications, the newest first."""

    range: InstantRangeEcho
    definition: SwitchDefinition
    data: list[ContextSwitch]
    pairs: list[SwitchPair]
    """The 50 most frequent ones of the whole range, the most frequent first."""
    totals: SwitchTotals


class StreakEnd(Body):
    """What ended a streak of focus."""

    reason: Literal["distraction", "neutral", "idle", "end_of_data", "ongoing"]
    """Too much distracting or too much neutral time, a pause, or nothing: then ``ongoing`` if something was
    tracked a moment ago, else ``end_of_data``."""
    at: Timestamp
    """The start of the time that broke it; for a pause and for unbroken streaks, the end of the last use."""
    app: str | None
    """The application that broke it."""
    category: str | None
    """The category of the application that broke it; null for a pause and for an unbroken streak."""
    gap_ms: Milliseconds | None
    """How long a pause was."""


class FocusStreak(Body):
    """A streak of focus, whole even if only a part lies in the range."""

    started_at: Timestamp
    ended_at: Timestamp
    """The end of its last productive stretch; the time that broke it may begin later."""
    duration_ms: Milliseconds
    productive_ms: Milliseconds
    """Only productive time; pauses and other use within the streak are left out."""
    top_app: str
    """The application with most of its time."""
    top_category: str
    """The category with most of its time."""
    app_count: Count
    """Different applications in the streak."""
    switch_count: Count
    """Context switches from its start, included, to its end, excluded: as many as context-switches returns
    for that range."""
    broken_by: StreakEnd
    """What ended the streak."""


class StreakTotals(Body):
    """Of all streaks that overlap the range, clipped to it, whatever the page."""

    streak_count: Count
    """Streaks that overlap the range."""
    focus_ms: Milliseconds
    """Time in streaks within the range, in milliseconds."""
    longest_ms: Milliseconds
    """The longest streak within the range, in milliseconds."""
    average_ms: Milliseconds | None
    """The average streak, in milliseconds; null where there is none."""


class StreakDefinition(Body):
    """What counts as a streak."""

    min_streak_ms: Milliseconds
    """Shorter ones are left out."""
    idle_gap_ms: Milliseconds
    """A longer pause breaks it."""
    distraction_ms: Milliseconds
    """As much distracting time without productive time between breaks it."""
    neutral_tolerance_ms: Milliseconds
    """More neutral time without productive time between breaks it."""


class FocusStreaksBody(Listing):
    """Streaks of focus that overlap the range, the newest first."""

    range: InstantRangeEcho
    definition: StreakDefinition
    data: list[FocusStreak]
    totals: StreakTotals


class LongestStreak(Body):
    """The longest streak of focus, whole even if only a part lies in the range."""

    started_at: Timestamp
    ended_at: Timestamp
    duration_ms: Milliseconds


class LongStreak(LongestStreak):
    """One of the longest streaks of focus, whole even if only a part lies in the range."""

    productive_ms: Milliseconds
    """Only productive time; pauses and other use within the streak are left out."""
    top_app: str
    """The application with most of its time."""
    top_category: str
    """The category with most of its time."""
    app_count: Count
    """Different applications in the streak."""
    broken_by: StreakEnd
    """What ended the streak."""


class FocusBreak(Body):
    """A reason for the end of streaks of focus."""

    reason: Literal["distraction", "neutral", "idle"]
    """Too much distracting or too much neutral time, or a pause."""
    app: str | None
    """The application that broke them; null for a pause."""
    category: str | None
    """The category of that application; null for a pause."""
    count: Count
    """How many streaks it broke."""
    percent: Percent
    """Their share of all broken streaks."""
    average_before_ms: Milliseconds
    """The average length of the streaks that it broke, in milliseconds."""


class FocusBreaksBody(Body):
    """What broke the streaks of focus that overlap the range."""

    range: InstantRangeEcho
    totals: StreakTotals
    longest: LongestStreak | None
    """Null where there is none."""
    longest_streaks: list[LongStreak]
    """The five longest, the longest first."""
    broken_count: Count
    """Streaks that were broken: not those that lasted until the end of the data."""
    data: list[FocusBreak]
    """The most frequent reason first, at most 100."""


class DetourDefinition(Body):
    """What counts as a detour."""

    max_gap_ms: Milliseconds
    """A longer pause ends a detour without a return."""
    min_detour_ms: Milliseconds
    """One with less tracked time does not count."""


class DetourTotals(Body):
    """All detours of the range."""

    count: Count
    """How often productive work was left for something else."""
    returned_count: Count
    """How often it went on without a pause in between; only these have a length."""
    total_ms: Milliseconds
    """The length of all of these, in milliseconds."""
    average_ms: Milliseconds | None
    """Their average length, in milliseconds; null without any."""
    median_ms: Milliseconds | None
    """Their median length, in milliseconds; null without any."""


class Detours(DetourTotals):
    """The detours to one application."""

    app: str
    """The application that productive work was left for."""
    category: str
    """The category of what was used first in it."""
    percent: Percent
    """Their share of the number of all detours."""


class SwitchCostsBody(Body):
    """How long productive work waits after it was left for something else."""

    range: InstantRangeEcho
    definition: DetourDefinition
    data: list[Detours]
    """By the application that productive work was left for, the longest total first, at most 50."""
    totals: DetourTotals


_SWITCHES: Final = "measured_switches"
_REST: Final = "streaks_in_rest"
_KEPT: Final = "kept_streaks"
_STATEMENTS: Final = {
    _REST: pipeline.statement(SQL[_REST]),
    _KEPT: pipeline.statement(SQL[_KEPT]),
    _SWITCHES: metrics.STATEMENTS[_SWITCHES],
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST: Final = 5
_MOST_BREAKS: Final = 100
_STREAK: Final = tuple(FocusStreak.model_fields)


def _streaks(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statements about streaks: those that begin in spans that are kept, and all others."""
    query = answers["query"]
    spans = {name: query[name] for name in ("firsts", "lasts", "starts", "ends")}
    page = {"limit": 0, "cursor_at": FIRST_ROW[0]}
    own = page | {name: values[name] for name in ("from", "to", *page) if name in values} | spans
    names = (_REST, _KEPT) if query["firsts"] else (_REST,)
    return {name: (_STATEMENTS[name], own) for name in names}


def _parts(answers: Answers) -> list[dict[str, Any]]:
    """Return the answers about streaks, none of which is in two of them."""
    return [answers[name] for name in (_REST, _KEPT) if name in answers]


def _lines(answers: Answers) -> list[dict[str, Any]]:
    """Return the streaks of all parts that have a line, the newest first."""
    lines = [line for part in _parts(answers) for line in part["lines"]]
    return sorted(lines, key=itemgetter("started_ms"), reverse=True)


def _row(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a streak from its line, with all members of LongStreak."""
    return {
        "started_at": _instant(line["started_ms"]),
        "ended_at": _instant(line["ended_ms"]),
        "duration_ms": line["ended_ms"] - line["started_ms"],
        "productive_ms": line["productive_ms"],
        "top_app": line["top_app"],
        "top_category": line["top_category"],
        "app_count": line["app_count"],
        "broken_by": {
            "reason": line["reason"],
            "at": _instant(line["broken_ms"]),
            "app": line["breaker_app"],
            "category": line["breaker_category"],
            "gap_ms": line["gap_ms"],
        },
    }


def _instant(at_ms: int) -> str:
    """Return an instant in milliseconds since 1970 as answers have it."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _on_page(answers: Answers) -> list[dict[str, Any]]:
    """Return the lines of a page and one more if there are more, the newest streak first."""
    found = [line for line in _lines(answers) if line["is_on_page"]]
    return found[: answers[_REST]["limit"] + 1]


def _page(answers: Answers) -> dict[str, Any]:
    """Return the streaks of a page, the newest first, with the members of a list."""
    limit, found = answers[_REST]["limit"], _on_page(answers)
    rows = [
        # The number of switches comes later.
        {name: row.get(name) for name in _STREAK}
        for row in map(_row, found[:limit])
    ]
    has_more = len(found) > limit
    return {
        "data": rows,
        "count": len(rows),
        "limit": limit,
        "has_more": has_more,
        "next_cursor": cursor_after(rows[-1]) if has_more else None,
    }


def cursor_after(streak: Mapping[str, Any]) -> str:
    """Return the cursor of the page after a streak. No two streaks have the same start, so it needs no id."""
    return cursor(parse_instant(streak["started_at"]), str(UUID(int=0)))


def _longest(answers: Answers) -> list[dict[str, Any]]:
    """Return the longest streaks, the longest first, and of two the older one."""
    lines = sorted(
        _lines(answers),
        key=lambda line: (line["started_ms"] - line["ended_ms"], line["started_ms"]),
    )
    return list(map(_row, lines[:_LONGEST]))


def _totals(answers: Answers) -> dict[str, Any]:
    """Return the totals of all parts."""
    totals = [part["totals"] for part in _parts(answers)]
    count, focus_ms = (sum(each[name] for each in totals) for name in ("streak_count", "focus_ms"))
    return {
        "streak_count": count,
        "focus_ms": focus_ms,
        "longest_ms": max(each["longest_ms"] for each in totals),
        "average_ms": _average(focus_ms, count),
    }


def _average(whole: int, count: int) -> int | None:
    """Return the average in whole milliseconds, rounded half up; None of nothing."""
    return (2 * whole + count) // (2 * count) if count else None


def _breaks(answers: Answers) -> list[dict[str, Any]]:
    """Return the reasons for the ends of streaks, the most frequent first."""
    sums: dict[tuple[Any, ...], list[int]] = {}
    for part in _parts(answers):
        for row in part["breakers"]:
            counted = sums.setdefault((row["reason"], row["app"], row["category"]), [0, 0])
            counted[0] += row["count"]
            counted[1] += row["lasted_ms"]
    broken = sum(count for count, _ in sums.values())
    rows = [
        {
            "reason": reason,
            "app": app,
            "category": category,
            "count": count,
            "percent": percent(count, broken),
            "average_before_ms": _average(lasted_ms, count),
        }
        for (reason, app, category), (count, lasted_ms) in sums.items()
    ]

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        # The order of Python's texts is that of their bytes. Only pauses have no application.
        names = (row["reason"], row["app"] or "", row["category"] or "")
        return (-row["count"], -row["average_before_ms"], *names)

    return sorted(rows, key=place)


def _next_switches(_: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statement that counts the switches within the streaks of a page."""
    if _SWITCHES in answers:
        return {}
    # The newest streak comes first, and slots are in order of time.
    lines = _on_page(answers)[: answers[_REST]["limit"]][::-1]
    starts = [_instant(line["started_ms"]) for line in lines]
    ends = [_instant(line["ended_ms"]) for line in lines]
    slots = {"dates": [start[:10] for start in starts], "starts": starts, "ends": ends}
    values = metrics.values(["app_switches"], slots)
    return {_SWITCHES: (metrics.STATEMENTS[_SWITCHES], values)} if lines else {}


def _page_with_switches(answers: Answers) -> dict[str, Any]:
    """Return the streaks of a page with the number of switches in each."""
    page = _page(answers)
    if _SWITCHES in answers:
        counts = answers[_SWITCHES]["days"]["app_switches"][::-1]
        for streak, count in zip(page["data"], counts, strict=True):
            streak["switch_count"] = count or 0
    return page


def _focus_streaks(answers: Answers) -> dict[str, Any]:
    """Return the body of focus-streaks."""
    return {
        "range": answers["query"]["range"],
        "definition": _DEFINITION,
        "totals": _totals(answers),
        **_page_with_switches(answers),
    }


def _focus_breaks(answers: Answers) -> dict[str, Any]:
    """Return the body of focus-breaks."""
    longest, breaks = _longest(answers), _breaks(answers)
    return {
        "range": answers["query"]["range"],
        "totals": _totals(answers),
        "longest": _only(LongestStreak, longest),
        "longest_streaks": longest,
        "broken_count": sum(row["count"] for row in breaks),
        "data": breaks[:_MOST_BREAKS],
    }


def _focus(answers: Answers) -> dict[str, Any]:
    """Return what both have, for the tool about focus."""
    page = _page_with_switches(answers)
    return {
        "totals": _totals(answers),
        "longest": _only(LongestStreak, _longest(answers)),
        "breakers": _breaks(answers),
        "data": page["data"],
        "has_more": page["has_more"],
        "truncated": page["has_more"],
    }


def _only(model: type[Body], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the members of ``model`` of the first row; None without one."""
    return {name: rows[0][name] for name in model.model_fields} if rows else None


_DEFINITION: Final = {
    "min_streak_ms": 600_000,
    "idle_gap_ms": 300_000,
    "distraction_ms": 30_000,
    "neutral_tolerance_ms": 120_000,
}

FOCUS: Final = Further(_STATEMENTS, _streaks, _focus, _next_switches)
"""The further statements of ``usable_spans`` for streaks of focus, a page of them, and their ends."""

ENDPOINTS: Final = [
    Endpoint(
        name="context_switches",
        path="/api/v1/analytics/context-switches",
        scope="read:activity",
        summary="Switches between applications, the newest first, and the time before each.",
        params=SwitchPage,
        body=ContextSwitchesBody,
        query=SQL["context_switches"],
        rowless=SQL["switch_totals"],
    ),
    Endpoint(
        name="focus_streaks",
        path="/api/v1/analytics/focus-streaks",
        scope="read:activity",
        summary="Streaks of focus, the newest first, and what broke each.",
        params=StreakPage,
        body=FocusStreaksBody,
        query=SQL["usable_spans"],
        further=Further(_STATEMENTS, _streaks, _focus_streaks, _next_switches),
    ),
    Endpoint(
        name="focus_breaks",
        path="/api/v1/analytics/focus-breaks",
        scope="read:activity",
        summary="What broke streaks of focus, the most frequent reason first.",
        params=InstantRange,
        body=FocusBreaksBody,
        query=SQL["usable_spans"],
        further=Further(
            {name: _STATEMENTS[name] for name in (_REST, _KEPT)}, _streaks, _focus_breaks
        ),
    ),
    Endpoint(
        name="switch_costs",
        path="/api/v1/analytics/switch-costs",
        scope="read:activity",
        summary="How long productive work waits after it was left for something else.",
        params=RangeOfDetours,
        body=SwitchCostsBody,
        query=SQL["switch_costs"],
    ),
]
