"""The metrics that days are compared by and goals are set in (timeline/metrics.sql)."""

import re
from dataclasses import dataclass
from typing import Final, Literal

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
    """What days are compared by."""

    scope: str
    unit: str | None
    """None for a metric of health, whose unit is stored with it."""
    is_counter: bool = True
    """Whether it is 0 on a day on which nothing of it happened; else it is unknown then."""
    decimals: int = 0
    """Of its mean."""


_DURATION: Final = Metric("read:activity", "ms")
METRICS: Final[dict[str, Metric]] = {
    "tracked_ms": _DURATION,
    "productive_ms": _DURATION,
    "distracted_ms": _DURATION,
    "neutral_ms": _DURATION,
    "coding_ms": _DURATION,
    "app_switches": Metric("read:activity", "count", decimals=2),
    "session_count": Metric("read:activity", "count", decimals=2),
    "focus_ms": _DURATION,
    "longest_focus_ms": _DURATION,
    "commits": Metric("read:code", "count", decimals=2),
    "pull_requests": Metric("read:code", "count", decimals=2),
    "reviews": Metric("read:code", "count", decimals=2),
    "lines_added": Metric("read:code", "count", decimals=2),
    "recovery_score": Metric("read:health", "percent", is_counter=False, decimals=2),
    "strain_score": Metric("read:health", "score", is_counter=False, decimals=2),
    "asleep_ms": Metric("read:health", "ms", is_counter=False),
    "deep_ms": Metric("read:health", "ms", is_counter=False),
    "rem_ms": Metric("read:health", "ms", is_counter=False),
    "hrv_rmssd_ms": Metric("read:health", "ms", is_counter=False, decimals=2),
    "resting_heart_rate_bpm": Metric("read:health", "bpm", is_counter=False, decimals=2),
    "listened_ms": Metric("read:music", "ms"),
    "play_count": Metric("read:music", "count", decimals=2),
    "place_count": Metric("read:location", "count", decimals=2),
    "distance_m": Metric("read:location", "m", is_counter=False, decimals=2),
    "meeting_ms": Metric("read:content", "ms"),
    "watch_ms": Metric("read:content", "ms"),
}
"""By name. Besides, there are ``health:`` and the name of any metric of health."""

HEALTH: Final = "health:[a-z][a-z0-9_]{0,63}"
OF_HEALTH: Final = Metric("read:health", None, is_counter=False, decimals=2)
_HEART_RATE: Final = Metric("read:health", "bpm", is_counter=False, decimals=2)


def find(name: str) -> Metric | None:
    """Return the metric of this name, if there is one."""
    if name == "health:heart_rate":
        return _HEART_RATE
    return METRICS.get(name, OF_HEALTH if re.fullmatch(HEALTH, name, re.ASCII) else None)


def parse(name: str) -> str:
    """Return ``name``, which must be that of a metric. Raises ValueError, which says what there is."""
    if find(name) is None:
        known = ", ".join(METRICS)
        raise ValueError(f"must be one of {known}, or health: and the name of a metric of health")
    return name
