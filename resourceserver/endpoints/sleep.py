"""Sleep: how regular it is, and when the person usually goes to bed and wakes up."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from resourceserver import timeline
from resourceserver.api.bodies import (
    Body,
    CalendarDay,
    Count,
    DayRangeEcho,
    Milliseconds,
    Timestamp,
)
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import LocalDayRange
from resourceserver.timeline import medians, nights
from shared import queries

_HERE: Final = Path(__file__).parent
_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "wearables.sql", _HERE / "sleep.sql")

FRIDAY: Final = 5

Clock = Annotated[str, StringConstraints(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]


class SleepDefinition(Body):
    """What a day is here."""

    day_begins: Literal["12:00"]
    """A day lasts from the noon before to its own noon, on the clock of the place where the person slept."""
    day_ms: Milliseconds
    """Its length, in milliseconds: 24 hours, even when clocks change."""


class Night(Body):
    """The local date on which the main sleep ended."""

    date: CalendarDay
    has_data: bool
    """Whether there is a main sleep, so that the day is known."""
    provider: str | None
    """The provider that the row comes from; null without data."""
    utc_offset: str | None
    """The offset of local time where the person woke up."""
    started_at: Timestamp | None
    """When the main sleep began; null without one."""
    ended_at: Timestamp | None
    """When the main sleep ended; null without one."""
    bedtime: Clock | None
    """When it began, on the clock of the place."""
    wake_up: Clock | None
    """When it ended, on the clock of the place."""
    duration_ms: Milliseconds | None
    """From its beginning to its end, in milliseconds."""
    asleep_ms: Milliseconds | None
    nap_ms: Milliseconds
    """Asleep in naps that ended on the day, which `asleep_ms` does not include."""
    agreeing_ms: Milliseconds | None
    """For how long of the day the person was asleep or awake as 24 hours before; null unless this day and the
    day before are known and in the range."""


class Regularity(Body):
    """How alike successive days are."""

    index: Annotated[float, Field(ge=-100, le=100)] | None
    """The Sleep Regularity Index: 100 if the person sleeps at the same times each day, 0 at random; null
    without a pair of known days."""
    pairs: Count
    """The pairs of successive days that are both known; other days do not count."""
    agreeing_ms: Milliseconds
    """The sum over these pairs."""
    compared_ms: Milliseconds
    """24 hours for each pair."""


class UsualTime(Body):
    """A usual time, on the clock of the places where the person slept."""

    lower_quartile: Clock
    """A quarter of the nights is earlier."""
    median: Clock
    """Half of the nights are earlier."""
    upper_quartile: Clock
    """A quarter of the nights is later."""


class UsualSleep(Body):
    """The usual times of some nights; null without any, and for times all around the clock."""

    nights: Count
    """The number of nights with a main sleep."""
    bedtime: UsualTime | None
    """When main sleeps begin."""
    wake_up: UsualTime | None
    """When they end."""
    mid_sleep: UsualTime | None
    """Their middle."""
    duration_ms: Milliseconds | None
    """The median length, in milliseconds."""


class UsualSleeps(Body):
    """The usual times of all nights, and of two kinds of nights."""

    all: UsualSleep
    """All nights of the range."""
    work_days: UsualSleep
    """Nights that end on Monday to Friday."""
    free_days: UsualSleep
    """Nights that end on Saturday or Sunday."""


class SleepRegularityBody(Body):
    """Every calendar day of the range, in order, and what they have in common."""

    range: DayRangeEcho
    definition: SleepDefinition
    """What a day is here."""
    data: list[Night]
    regularity: Regularity
    """The Sleep Regularity Index of the range."""
    usual: UsualSleeps
    """Usual times."""
    social_jetlag_ms: Milliseconds | None
    """How far the usual middles of sleep of work days and free days are apart; null unless both have one."""


def _finish(answers: Answers) -> dict[str, Any]:
    """Return the body: nights, their regularity and usual times."""
    query = answers["query"]
    first = date.fromisoformat(query["range"]["from"])
    last = date.fromisoformat(query["range"]["to"])
    rows = {date.fromisoformat(night["date"]): night for night in query["nights"]}
    slept = {
        day: (night["started_ms"], night["ended_ms"])
        for day, night in rows.items()
        if night["started_at"] is not None
    }
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    # The first day of the range has no day before it.
    agreeing = {
        day: alike
        for day, alike in nights.alike(
            slept, [(start, end) for start, end in query["naps"]]
        ).items()
        if first < day <= last
    }
    in_range = [(day, slept[day]) for day in days if day in slept]
    work_days = [span for day, span in in_range if day.isoweekday() <= FRIDAY]
    free_days = [span for day, span in in_range if day.isoweekday() > FRIDAY]
    return {
        "range": query["range"],
        "definition": {"day_begins": "12:00", "day_ms": nights.DAY_MS},
        "data": [_night(day, rows.get(day), agreeing.get(day)) for day in days],
        "regularity": _regularity(list(agreeing.values())),
        "usual": {
            "all": _usual([span for _, span in in_range]),
            "work_days": _usual(work_days),
            "free_days": _usual(free_days),
        },
        "social_jetlag_ms": _jetlag(work_days, free_days),
    }


def _night(day: date, row: Mapping[str, Any] | None, agreeing_ms: int | None) -> dict[str, Any]:
    known = row or {}
    has_data = known.get("started_at") is not None
    return {
        "date": str(day),
        "has_data": has_data,
        "provider": known.get("provider"),
        "utc_offset": known.get("utc_offset"),
        "started_at": known.get("started_at"),
        "ended_at": known.get("ended_at"),
        "bedtime": nights.clock(known["started_ms"]) if has_data else None,
        "wake_up": nights.clock(known["ended_ms"]) if has_data else None,
        "duration_ms": known["ended_ms"] - known["started_ms"] if has_data else None,
        "asleep_ms": known.get("asleep_ms"),
        "nap_ms": known.get("nap_ms", 0),
        "agreeing_ms": agreeing_ms,
    }


def _regularity(agreeing: Sequence[int]) -> dict[str, Any]:
    agreeing_ms, compared_ms = sum(agreeing), len(agreeing) * nights.DAY_MS
    return {
        "index": nights.index(agreeing_ms, compared_ms),
        "pairs": len(agreeing),
        "agreeing_ms": agreeing_ms,
        "compared_ms": compared_ms,
    }


def _usual(spans: Sequence[nights.Span]) -> dict[str, Any]:
    """Return the UsualSleep of some main sleeps."""
    lengths = sorted(end - start for start, end in spans)
    return {
        "nights": len(spans),
        "bedtime": _usual_time([start for start, _ in spans]),
        "wake_up": _usual_time([end for _, end in spans]),
        "mid_sleep": _usual_time([_middle(span) for span in spans]),
        "duration_ms": int(medians.median(lengths) + 0.5) if lengths else None,
    }


def _usual_time(times: Sequence[float]) -> dict[str, str] | None:
    usual = nights.usual(times)
    if usual is None:
        return None
    return {
        "lower_quartile": nights.clock(usual.lower_quartile),
        "median": nights.clock(usual.median),
        "upper_quartile": nights.clock(usual.upper_quartile),
    }


def _middle(span: nights.Span) -> float:
    return (span[0] + span[1]) / 2


def _jetlag(work_days: Sequence[nights.Span], free_days: Sequence[nights.Span]) -> int | None:
    """Return the social jetlag (Wittmann et al., 2006), without a sign."""
    both = [nights.usual([_middle(span) for span in spans]) for spans in (work_days, free_days)]
    if both[0] is None or both[1] is None:
        return None
    return int(nights.apart(both[0].median, both[1].median) + 0.5)


ENDPOINTS: Final = [
    Endpoint(
        name="sleep_regularity",
        path="/api/v1/health/sleep-regularity",
        scope="read:health",
        summary="Nights, how regular they are, and usual times of sleep.",
        params=LocalDayRange,
        body=SleepRegularityBody,
        query=SQL["sleep_regularity"],
        further=Further({}, lambda _, __: {}, _finish),
    ),
]
