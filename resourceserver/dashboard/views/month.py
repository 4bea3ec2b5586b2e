"""Month: a calendar of its days, and its sums beside the month before."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from resourceserver.dashboard.charts.grid import leveller
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import Month, month_before, week_of
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View
from resourceserver.dashboard.views.today import MOST_NAMES, ranking
from resourceserver.dashboard.views.week import MEASURES, largest

_DAY: Final = timedelta(days=1)


def asks(scene: Scene) -> Asks:
    """Return the questions about the month and the one before."""
    first = scene.period.first
    if first > scene.today:
        return {}
    before = {"from": str(month_before(first)), "to": str(first - _DAY), "tz": scene.tz}
    known = {"from": str(first), "to": str(min(scene.period.last, scene.today)), "tz": scene.tz}
    return {
        "calendar": Ask(
            "trend", {"metric": "tracked_ms", "by": "day", **known, "include_levels": "false"}
        ),
        "days": Ask("daily", known),
        "before": Ask("daily", before),
        "apps": Ask("app_usage", scene.instant_query),
        "categories": Ask("categories", scene.instant_query),
    }


@dataclass(frozen=True)
class Square:
    """A day of the calendar."""

    day: date
    place: str | None
    """The pointer of its row in the answer; None for a day of the future."""
    level: int | None
    """From 0 to 4, the share of the longest day; None where no tracker reported anything."""


@dataclass(frozen=True)
class Row:
    """A week of the calendar."""

    week: str | None
    """The path of its page."""
    squares: list[Square | None]
    """Its seven days; None for those of other months."""


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the calendar and the charts of the page."""
    found: dict[str, Any] = {
        "measures": MEASURES,
        "has_begun": scene.period.first <= scene.today,
        "is_over": scene.period.last < scene.today,
        "most_names": MOST_NAMES,
    }
    if "calendar" in answers:
        tracked = answers["calendar"]
        found |= {
            "is_reported": tracked.at("/totals/known_days") > 0,
            "rows": list(rows(scene, tracked)),
            "longest": largest(answers["days"], "tracked_ms"),
            "apps_chart": ranking(scene, answers["apps"], "/data", "app"),
            "categories_chart": ranking(scene, answers["categories"], "/data", "category"),
        }
    return found


def rows(scene: Scene, tracked: Answer) -> Iterator[Row]:
    """Yield the weeks of the month, each from the first weekday of the profile on."""
    level = leveller(row["value"] for row in tracked["data"])
    squares = [
        Square(day, f"/data/{n}", level(tracked.at(f"/data/{n}/value")))
        if day <= scene.today
        else Square(day, None, None)
        for n, day in enumerate(scene.period.days)
    ]
    before = (scene.period.first.isoweekday() - scene.week_starts_on) % 7
    padded: list[Square | None] = [None] * before + squares
    padded += [None] * (-len(padded) % 7)
    for n in range(0, len(padded), 7):
        week = padded[n : n + 7]
        first = next(square.day for square in week if square is not None)
        yield Row(week_of(first, scene), week)


VIEW: Final = View(
    name="month",
    title="Month",
    paths=("/month", "/month/{month}"),
    address=Month,
    endpoints=("trend", "daily", "app_usage", "categories"),
    asks=asks,
    show=show,
)
