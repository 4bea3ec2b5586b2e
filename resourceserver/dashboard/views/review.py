"""Year in review: one page to print, with the numbers of a year that people tell each other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final, Self

from resourceserver.dashboard.charts import Bar, bars, top
from resourceserver.dashboard.charts.bars import Bars, TopBars
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import Year
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures

MOST_NAMES: Final = 5
TRENDS: Final = {
    "tracked": "tracked_ms",
    "focus": "focus_ms",
    "longest": "longest_focus_ms",
    "commits": "commits",
    "steps": "health:steps",
    "distance": "distance_m",
}
"""The metrics of the page by their short names."""


@dataclass(frozen=True)
class YearInReview(Year):
    """A year, ``/year/2026/review``."""

    @classmethod
    def parse(cls, parts: Any) -> Self:
        """Read the part ``year``. Raises Misaddressed."""
        return replace(super().parse(parts), suffix="/review")


def asks(scene: Scene) -> Asks:
    """Return the questions about the year up to today."""
    if scene.period.first > scene.today:
        return {}
    period = replace(scene.period, last=min(scene.period.last, scene.today))
    days = {**period.day_query, "tz": scene.tz}
    instants = period.instant_query(scene.tz)
    values = {**days, "include_levels": "false"}
    trends = {
        name: Ask("trend", {"metric": metric, "by": "day", **values})
        for name, metric in TRENDS.items()
    }
    return {
        **trends,
        "months": Ask("trend", {"metric": "tracked_ms", "by": "month", **values}),
        "apps": Ask("app_usage", instants),
        "categories": Ask("categories", instants),
        "coding": Ask("coding", instants),
        "nights": Ask("sleep_regularity", period.day_query),
        # The days of music_daily are not needed, and take most of its time.
        "tracks": Ask("music_top", {**instants, "by": "track"}),
        **(
            {"goals": Ask("goals", {"tz": scene.tz, "include_current": "false"})}
            if scene.is_current
            else {}
        ),
    }


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return what stands out in the year."""
    return {
        "has_begun": scene.period.first <= scene.today,
        "has_data": {
            **{name: has_data(answers, name) for name in TRENDS},
            "nights": "nights" in answers and bool(answers["nights"].at("/usual/all/nights")),
            "listening": "tracks" in answers and bool(answers["tracks"].at("/totals/play_count")),
        },
        "kept": [f"/data/{n}" for n, goal in enumerate(answers["goals"]["data"]) if goal["streak"]]
        if "goals" in answers
        else [],
        "best": {name: best for name in TRENDS if (best := largest(answers, name, "value"))},
        "best_month": largest(answers, "months", "total"),
        "months_chart": by_month(scene, answers["months"]) if "months" in answers else None,
        "month": month,
        "lists": list(lists(scene, answers)),
    }


def has_data(answers: Answers, name: str) -> bool:
    """Tell whether a metric has any value but zero."""
    return name in answers and bool(answers[name].at("/totals/maximum"))


def largest(answers: Answers, name: str, member: str) -> str | None:
    """Return the pointer of the row with the largest value of a trend; None if all are unknown or zero."""
    if not has_data(answers, name):
        return None
    rows = answers[name]["data"]
    return f"/data/{-max((row[member], -n) for n, row in enumerate(rows) if row[member])[1]}"


def month(day: str) -> str:
    """Return the name of the month of a day."""
    return f"{date.fromisoformat(day):%B}"


def by_month(scene: Scene, months: Answer) -> Bars:
    """Return the tracked time of each month; those to come are empty."""
    write = figures(scene)
    known = {row["from"][:7]: row["total"] for row in months["data"]}
    values = []
    for number in range(1, 13):
        first = scene.period.first.replace(month=number)
        total = known.get(f"{first:%Y-%m}", 0)
        text = "no data" if total is None else write.text(total, "duration")
        values.append(Bar(f"{first:%b}", total, title=f"{first:%B}: {text}"))
    return bars("months", values, height=140)


@dataclass(frozen=True)
class TopList:
    """The longest rows of a list."""

    title: str
    answer: Answer
    pointer: str
    member: str
    drawing: TopBars


def lists(scene: Scene, answers: Answers) -> Iterator[TopList]:
    """Yield the lists that have a row."""
    write = figures(scene)
    for name, title, pointer, member in (
        ("apps", "Applications", "/data", "app"),
        ("categories", "Categories", "/data", "category"),
        ("coding", "Projects", "/data/projects", "project"),
        ("coding", "Languages", "/data/languages", "language"),
    ):
        if name not in answers or not answers[name].at(pointer):
            continue
        drawing = top(
            f"by-{member}",
            [
                Bar(
                    row[member] or "all others",
                    row["total_ms"],
                    text=write.text(row["total_ms"], "duration"),
                )
                for row in answers[name].at(pointer)[:MOST_NAMES]
            ],
        )
        yield TopList(title, answers[name], pointer, member, drawing)


VIEW: Final = View(
    name="review",
    title="Year in review",
    paths=("/year/{year}/review",),
    address=YearInReview,
    endpoints=(
        *("trend", "app_usage", "categories", "coding", "sleep_regularity", "music_top"),
        "goals",
    ),
    asks=asks,
    show=show,
    is_in_menu=False,
)
