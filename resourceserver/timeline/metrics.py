"""The metrics by which days are compared and goals are set (timeline/measured.sql).

Each domain has one statement, which computes all of its metrics.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, Final, Literal

from shared import pipeline, queries

_HERE: Final = Path(__file__).parent
SQL: Final = queries.load(
    _HERE / "timeline.sql",
    _HERE / "segments.sql",
    _HERE / "wearables.sql",
    _HERE / "metrics.sql",
    _HERE / "measured.sql",
)
STATEMENTS: Final = {name: pipeline.statement(text) for name, text in SQL.items()}
"""The statements by their names, in the order in which they run."""

ActivityMetric = Literal[
    "tracked_ms",
    "productive_ms",
    "distracted_ms",
    "neutral_ms",
    "coding_ms",
    "app_switches",
    "session_count",
    "focus_ms",
    "longest_focus_ms",
]


@dataclass(frozen=True)
class Metric:
    """A value of each day."""

    scope: str
    unit: str | None
    """None for a metric of health, whose unit is stored with it."""
    statement: str
    """The statement in STATEMENTS that computes it."""
    is_counter: bool = True
    """Whether a day without events has the value 0; if not, its value is unknown."""
    decimals: int = 0
    """The number of decimals of its mean."""
    adds_up: bool = True
    """Whether the values of days add up to that of a longer time. For a metric of devices this is stored with
    it."""

    def rounded(self, value: float) -> float | int:
        """Return ``value`` with the metric's decimals, rounded half up."""
        if abs(value) > 1e15 or (isinstance(value, int) and not self.decimals):
            # A value of this size has no decimals.
            return value
        if value == (whole := int(value)):
            # Decimals are slow, and most values of days are whole.
            return float(whole) if self.decimals else whole
        if not self.decimals:
            # The difference is exact.
            return whole + (int(math.copysign(1, value)) if abs(value - whole) >= 0.5 else 0)
        step = Decimal(1).scaleb(-self.decimals)
        return float(Decimal(repr(value)).quantize(step, ROUND_HALF_UP))


def _of_health(unit: str | None, statement: str = "measured_health") -> Metric:
    """Return a metric of health that is no length of time."""
    return Metric("read:health", unit, statement, is_counter=False, decimals=2, adds_up=False)


_RECOVERY: Final = "measured_recovery"
_ASLEEP: Final = Metric("read:health", "ms", _RECOVERY, is_counter=False)
_TIME: Final = Metric("read:activity", "ms", "measured_app_time")
_FOCUS: Final = Metric("read:activity", "ms", "measured_focus")
METRICS: Final[dict[str, Metric]] = {
    "tracked_ms": _TIME,
    "productive_ms": _TIME,
    "distracted_ms": _TIME,
    "neutral_ms": _TIME,
    "coding_ms": Metric("read:activity", "ms", "measured_coding"),
    "app_switches": Metric("read:activity", "count", "measured_switches", decimals=2),
    "session_count": Metric(
        "read:activity", "count", "measured_app_time", decimals=2, adds_up=False
    ),
    "focus_ms": _FOCUS,
    "longest_focus_ms": Metric("read:activity", "ms", "measured_focus", adds_up=False),
    "commits": Metric("read:code", "count", "measured_code", decimals=2),
    "pull_requests": Metric("read:code", "count", "measured_code", decimals=2),
    "reviews": Metric("read:code", "count", "measured_code", decimals=2),
    "lines_added": Metric("read:code", "count", "measured_code", decimals=2),
    "recovery_score": _of_health("percent", _RECOVERY),
    "strain_score": _of_health("score", _RECOVERY),
    "asleep_ms": _ASLEEP,
    "deep_ms": _ASLEEP,
    "rem_ms": _ASLEEP,
    "hrv_rmssd_ms": _of_health("ms", _RECOVERY),
    "resting_heart_rate_bpm": _of_health("bpm", _RECOVERY),
    "listened_ms": Metric("read:music", "ms", "measured_music"),
    "play_count": Metric("read:music", "count", "measured_music", decimals=2),
    "place_count": Metric("read:location", "count", "measured_places", decimals=2, adds_up=False),
    "distance_m": Metric("read:location", "m", "measured_places", is_counter=False, decimals=2),
    "meeting_ms": Metric("read:content", "ms", "measured_content"),
    "watch_ms": Metric("read:content", "ms", "measured_content"),
}
"""Metrics by name. Besides, ``health:`` and the name of any metric of health is a metric."""

HEALTH: Final = "health:[a-z][a-z0-9_]{0,63}"
OF_HEALTH: Final = _of_health(None)
_HEART_RATE: Final = _of_health("bpm")


def find(name: str) -> Metric | None:
    """Return the metric of this name, if there is one."""
    if name == "health:heart_rate":
        return _HEART_RATE
    return METRICS.get(name, OF_HEALTH if re.fullmatch(HEALTH, name, re.ASCII) else None)


def parse(name: str) -> str:
    """Return ``name``, which must be that of a metric. Raises ValueError, which lists the names."""
    if find(name) is None:
        known = ", ".join(METRICS)
        raise ValueError(f"must be one of {known}, or health: and the name of a metric of health")
    return name


_FAMILIES: Final = (
    frozenset(name for name, known in METRICS.items() if known.scope == "read:activity"),
    frozenset({"commits", "lines_added"}),
    frozenset({"asleep_ms", "deep_ms", "rem_ms", "health:sleep_ms"}),
    frozenset({"hrv_rmssd_ms", "recovery_score", "resting_heart_rate_bpm"}),
    frozenset({"health:distance_m", "health:floors", "health:steps"}),
    frozenset({"listened_ms", "play_count"}),
    frozenset({"distance_m", "place_count"}),
)
"""Metrics that partly measure the same thing, so that they correlate anyway."""


def family(name: str) -> frozenset[str]:
    """Return the metrics that partly measure the same thing as this one, including itself."""
    return next((each for each in _FAMILIES if name in each), frozenset({name}))


OF_ACTIVITY: Final = tuple(
    dict.fromkeys(known.statement for known in METRICS.values() if known.scope == "read:activity")
)
"""The statements that also return the values of goals."""


def by_statement(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names in STATEMENTS that compute these metrics, each with its metrics."""
    named: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        known = find(name)
        if known is not None:
            named.setdefault(known.statement, []).append(name)
    return {name: named[name] for name in STATEMENTS if name in named}


def is_counter(name: str) -> bool:
    """Tell whether a metric is 0 on a day without events."""
    known = find(name)
    return known is not None and known.is_counter


Slots = Mapping[str, Sequence[str | None]]
"""Slots in order of time: ``dates``, ``starts`` and ``ends``, as Postgres writes them. One without a date
belongs to no period."""


def values(
    names: Sequence[str],
    slots: Slots,
    *,
    reported: Sequence[str] = (),
    periods: Mapping[str, tuple[str, str]] | None = None,
    goals: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the parameters of one of STATEMENTS for ``names``, which are metrics of it.

    ``reported`` are the days on which any tracker reported anything. ``periods`` are the first and the last
    day of each period by its name.
    """
    named = periods or {}
    return {
        **{each: list(slots[each]) for each in ("dates", "starts", "ends")},
        "metrics": list(names),
        "counters": [name for name in names if is_counter(name)],
        "reported": list(reported),
        "kinds": list(named),
        "period_firsts": [first for first, _ in named.values()],
        "period_lasts": [last for _, last in named.values()],
        "goals": list(goals),
    }
