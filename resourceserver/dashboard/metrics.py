"""The metrics of days in words: their titles, and how their figures are written."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from resourceserver.api.parameters import parse_metric_type
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import Misaddressed


@dataclass(frozen=True)
class Metric:
    """A metric as people read it."""

    name: str
    """Its name in the API."""
    title: str
    kind: str
    """The format of its figures."""
    unit: str = ""
    """What follows a figure."""
    is_level: bool = False
    """Whether its days are compared by their middle, since their sum says nothing, such as that of sleep."""

    @property
    def key(self) -> str:
        """The name as an id of a page."""
        return self.name.replace(":", "-")

    @property
    def most(self) -> str:
        """What the largest value is: there can be most sleep, but no most heart rate."""
        return "highest" if self.is_level and self.kind != "duration" else "most"

    @property
    def least(self) -> str:
        """What the smallest value is."""
        return "lowest" if self.most == "highest" else "least"


METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("tracked_ms", "Tracked", "duration"),
        Metric("productive_ms", "Productive", "duration"),
        Metric("neutral_ms", "Neutral", "duration"),
        Metric("distracted_ms", "Distracting", "duration"),
        Metric("focus_ms", "Focus", "duration"),
        Metric("longest_focus_ms", "Longest streak of focus", "duration"),
        Metric("coding_ms", "Coding", "duration"),
        Metric("meeting_ms", "Meetings", "duration"),
        Metric("app_switches", "Switches", "count"),
        Metric("session_count", "Sessions", "count"),
        Metric("commits", "Commits", "count"),
        Metric("pull_requests", "Pull requests", "count"),
        Metric("reviews", "Reviews", "count"),
        Metric("lines_added", "Lines added", "count"),
        Metric("asleep_ms", "Sleep", "duration", is_level=True),
        Metric("deep_ms", "Deep sleep", "duration", is_level=True),
        Metric("rem_ms", "REM sleep", "duration", is_level=True),
        Metric("recovery_score", "Recovery", "percent", is_level=True),
        Metric("strain_score", "Strain", "count", is_level=True),
        Metric("hrv_rmssd_ms", "Heart rate variability", "count", "ms", is_level=True),
        Metric("resting_heart_rate_bpm", "Resting heart rate", "count", "bpm", is_level=True),
        Metric("health:steps", "Steps", "count"),
        Metric("listened_ms", "Music", "duration"),
        Metric("play_count", "Plays", "count"),
        Metric("place_count", "Places", "count"),
        Metric("distance_m", "Distance", "metres"),
        Metric("watch_ms", "Videos", "duration"),
    )
}
"""All metrics of a trend but those of health that only some people have."""

DOMAINS: Final[Mapping[str, str]] = {
    "read:activity": "At the computer",
    "read:code": "Code",
    "read:content": "Meetings and videos",
    "read:health": "Sleep and body",
    "read:music": "Music",
    "read:location": "Places",
}
"""The groups of metrics by the scope that they need."""
_OF_HEALTH: Final = "health:"


def find(name: str) -> Metric:
    """Return a metric by its name in the API. Raises Misaddressed."""
    known = METRICS.get(name)
    if known is not None:
        return known
    try:
        words = parse_metric_type(name.removeprefix(_OF_HEALTH)).replace("_", " ")
        if not name.startswith(_OF_HEALTH):
            raise ValueError
    except ValueError as error:
        raise Misaddressed("A metric must look like focus_ms or health:steps.") from error
    return Metric(name, words.capitalize(), "count")


def measured(metric: Metric, trend: Answer) -> Metric:
    """Return a metric as its trend describes it, if it is not one of the known ones."""
    unit = trend["unit"]
    if metric.name in METRICS or unit is None:
        return metric
    is_level = trend.at("/totals/total") is None
    if unit == "ms":
        return replace(metric, kind="duration", is_level=is_level)
    return replace(metric, unit="" if unit == "count" else unit, is_level=is_level)
