"""Today: the day so far, beside what is usual for this weekday up to this hour."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from resourceserver.dashboard.charts import Bar, Table, bars, top
from resourceserver.dashboard.charts.bars import Bars, TopBars
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.metrics import find
from resourceserver.dashboard.period import Day
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures
from resourceserver.dashboard.views import first_steps

MOST_NAMES: Final = 8
"""The most applications and projects; all others are on the day's page."""
PARTS: Final = ("productive", "neutral", "distracting")

TILES: Final = tuple(
    find(name)
    for name in (
        *("tracked_ms", "productive_ms", "distracted_ms", "focus_ms", "coding_ms", "meeting_ms"),
        *("asleep_ms", "health:steps"),
    )
)
"""The metrics of a day, a tile each."""


def asks(scene: Scene) -> Asks:
    """Return the questions about the day."""
    day = {"date": str(scene.period.first), "tz": scene.tz}
    return {
        "normal": Ask("normal", {**day, **up_to(scene)}),
        "hours": Ask("hourly", {**day, "include_unreported": "true"}),
        "apps": Ask("app_usage", scene.instant_query),
        "coding": Ask("coding", scene.instant_query),
        "goals": Ask("goals", {"tz": scene.tz, "include_history": "false"}),
        "devices": Ask("devices"),
    }


def more(scene: Scene, answers: Answers) -> Asks:
    """Return the question why the day is unusual, if it is; for an empty account, whether it is empty."""
    if "normal" not in answers or not is_unusual(answers["normal"]):
        return first_steps.asks(answers)
    day = {"date": str(scene.period.first), "tz": scene.tz}
    return {"why": Ask("day_difference", {**day, **up_to(scene)})}


def up_to(scene: Scene) -> dict[str, str]:
    """Return the end of a comparison of today, so that its address gives the same answer later."""
    if not scene.is_current:
        return {}
    return {"until": scene.now.astimezone(UTC).isoformat(timespec="milliseconds")}


def is_unusual(normal: Answer) -> bool:
    """Tell whether the tracked time of a day is not usual."""
    row = normal.row("/data", metric="tracked_ms")
    return row is not None and normal.at(row)["comparison"] in (
        "more_than_usual",
        "less_than_usual",
    )


def is_unknown(normal: Answer) -> bool:
    """Tell whether no tracker has reported anything on a day, so that zeros would be wrong."""
    row = normal.row("/data", metric="tracked_ms")
    return row is not None and normal.at(row)["value"] is None


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the charts of the page."""
    return {
        "metrics": TILES,
        "hours": strip(scene, answers["hours"]) if "hours" in answers else None,
        "is_unknown": "normal" in answers and is_unknown(answers["normal"]),
        "busiest": busiest(answers["hours"]) if "hours" in answers else None,
        "hour_table": hour_table(scene, answers["hours"]) if "hours" in answers else None,
        "apps_chart": ranking(scene, answers["apps"], "/data", "app")
        if "apps" in answers
        else None,
        "projects_chart": (
            ranking(scene, answers["coding"], "/data/projects", "project")
            if "coding" in answers
            else None
        ),
        "goal_places": {goal["id"]: f"/data/{n}" for n, goal in enumerate(answers["goals"]["data"])}
        if "goals" in answers
        else {},
        "newest": newest(answers["devices"]) if "devices" in answers else None,
        "ago": ago,
        "most_names": MOST_NAMES,
    }


def strip(scene: Scene, hourly: Answer) -> Bars:
    """Return the hours of a day as bars; hours that have not begun are empty."""
    gaps = hourly["unreported"]
    return bars("hours", [_bar(scene, row, gaps) for row in hourly["data"]], parts=PARTS)


def _bar(scene: Scene, hour: Mapping[str, Any], gaps: Sequence[Mapping[str, Any]]) -> Bar:
    label = f"{hour['hour']:02}"
    start, end = (datetime.fromisoformat(hour[name]) for name in ("starts_at", "ends_at"))
    if start >= scene.now:
        return Bar(label, 0)
    end = min(end, scene.now)
    for gap in gaps:
        # The API rounds the end of the gap to milliseconds, and the current time has microseconds.
        is_over = datetime.fromisoformat(gap["ends_at"]) > end - timedelta(milliseconds=2)
        if datetime.fromisoformat(gap["starts_at"]) <= start and is_over:
            return Bar(label, None, title=f"{label}:00: no data reported")
    return Bar(
        label,
        parts=[hour["productive_ms"], hour["neutral_ms"], hour["distracted_ms"]],
        title=f"{label}:00: {figures(scene).text(hour['total_ms'], 'duration')}",
    )


def busiest(hourly: Answer) -> str | None:
    """Return the pointer of the only hour with most time; None if there is none, or no other hour."""
    lengths = sorted(
        (row["total_ms"], n) for n, row in enumerate(hourly["data"]) if row["total_ms"]
    )
    if len(lengths) < 2 or lengths[-1][0] == lengths[-2][0]:
        return None
    return f"/data/{lengths[-1][1]}"


def hour_table(scene: Scene, hourly: Answer) -> Table:
    """Return the table of the hours in which something was tracked."""
    write = figures(scene)
    return Table(
        ("Hour", "Tracked", *(part.capitalize() for part in PARTS)),
        [
            (
                f"{row['hour']:02}:00",
                *(
                    write.figure(hourly, f"/data/{n}/{member}", "duration")
                    for member in ("total_ms", "productive_ms", "neutral_ms", "distracted_ms")
                ),
            )
            for n, row in enumerate(hourly["data"])
            if row["total_ms"]
        ],
    )


def ranking(scene: Scene, answer: Answer, pointer: str, member: str) -> TopBars:
    """Return the longest rows of a list, which are its first ones."""
    write = figures(scene)
    return top(
        f"by-{member}",
        [
            Bar(
                row[member] or "all others",
                row["total_ms"],
                text=write.text(row["total_ms"], "duration"),
            )
            for row in answer.at(pointer)[:MOST_NAMES]
        ],
    )


def newest(devices: Answer) -> str | None:
    """Return the pointer of the device whose last event is the newest; None if there is no event."""
    known = [
        (row["last_event_at"], n) for n, row in enumerate(devices["data"]) if row["last_event_at"]
    ]
    return f"/data/{max(known)[1]}" if known else None


def ago(scene: Scene, instant: str) -> str:
    """Return how long ago an instant was, in words, or how far ahead: a device's clock may be wrong."""
    seconds = (scene.now - datetime.fromisoformat(instant)).total_seconds()
    minutes = round(abs(seconds) / 60)
    if minutes < 1:
        return "less than a minute ago"
    hours = round(minutes / 60)
    length = (
        f"{minutes} min"
        if minutes < 90
        else f"{hours} h"
        if hours < 48
        else f"{round(hours / 24)} days"
    )
    return f"{length} ago" if seconds > 0 else f"{length} ahead of the server's clock"


VIEW: Final = View(
    name="today",
    title="Today",
    paths=("/",),
    address=Day,
    endpoints=(
        "normal",
        "hourly",
        "app_usage",
        "coding",
        "goals",
        "devices",
        "day_difference",
        "integrations",
    ),
    asks=asks,
    show=show,
    more=more,
    is_waiting=first_steps.is_empty,
)
