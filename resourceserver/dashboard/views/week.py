"""Week: its hours as a grid, its best hours, the free time between meetings, and its days."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from markupsafe import Markup

from resourceserver.dashboard.charts import Bar, Cell, Table, bars
from resourceserver.dashboard.charts import week as hours_of_week
from resourceserver.dashboard.charts.bars import Bars
from resourceserver.dashboard.charts.grid import Grid
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import Week
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures
from resourceserver.dashboard.views.today import MOST_NAMES, PARTS, ranking

MEASURES: Final[Mapping[str, str]] = {
    "tracked_ms": "Tracked",
    "productive_ms": "Productive",
    "neutral_ms": "Neutral",
    "distracted_ms": "Distracting",
    "coding_ms": "Coding",
}
"""The measures of a day and of the week, by their names in the API."""
GRIDS: Final[Mapping[str, str]] = {
    "productive_ms": "productive time",
    "distracted_ms": "distracting time",
}
"""The measures that have a grid, and what its cells are."""
_WEEK: Final = timedelta(days=7)


def asks(scene: Scene) -> Asks:
    """Return the questions about the week and the one before."""
    before = {
        "from": str(scene.period.first - _WEEK),
        "to": str(scene.period.last - _WEEK),
        "tz": scene.tz,
    }
    return {
        "days": Ask("daily", scene.day_query),
        "before": Ask("daily", before),
        "hours": Ask("hours", scene.day_query),
        "apps": Ask("app_usage", scene.instant_query),
        "categories": Ask("categories", scene.instant_query),
        "load": Ask("calendar_load", scene.day_query),
    }


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the charts of the page."""
    found: dict[str, Any] = {
        "measures": MEASURES,
        "has_begun": scene.period.first <= scene.today,
        "is_over": scene.period.last < scene.today,
        "weekday": weekday,
        "most_names": MOST_NAMES,
    }
    if "hours" in answers:
        hours, days = answers["hours"], answers["days"]
        found |= {
            "is_reported": bool(reported(hours)),
            "days_chart": by_day(scene, answers),
            "days_table": day_table(scene, answers),
            "longest": largest(days, "tracked_ms"),
            "most_distracting": largest(days, "distracted_ms"),
            "grids": {
                member: (grid(scene, hours, member), hour_table(scene, hours, member))
                for member in GRIDS
            },
            "apps_chart": ranking(scene, answers["apps"], "/data", "app"),
            "categories_chart": ranking(scene, answers["categories"], "/data", "category"),
        }
    return found


def weekday(day: str) -> str:
    """Return the weekday of a day of the API."""
    return f"{date.fromisoformat(day):%A}"


def label(day: date) -> str:
    """Return a day of the week in few letters."""
    return f"{day:%a} {day.day}"


def reported(hours: Answer) -> set[str]:
    """Return the days on which any tracker reported anything."""
    return {row["date"] for row in hours["days"] if row["reported"]}


def largest(days: Answer, member: str) -> str | None:
    """Return the pointer of the day with most of a measure, of equal ones the first; None without any."""
    values = [row[member] for row in days["data"]]
    return f"/data/{values.index(max(values))}" if any(values) else None


def by_day(scene: Scene, answers: Answers) -> Bars:
    """Return the days as bars, each beside the same weekday of the week before."""
    write = figures(scene)
    known = reported(answers["hours"])
    placed = []
    for row, before in zip(answers["days"]["data"], answers["before"]["data"], strict=True):
        day = date.fromisoformat(row["date"])
        is_missing = row["date"] not in known and day <= scene.today
        text = "no data reported" if is_missing else write.text(row["tracked_ms"], "duration")
        placed.append(
            Bar(
                label(day),
                # A day that has not begun is empty.
                parts=() if is_missing else _parts(row),
                usual=before["tracked_ms"] if before["has_data"] else None,
                title=f"{label(day)}: {text}",
                href=scene.link(f"/day/{day}") if day <= scene.today else "",
            )
        )
    return bars("days", placed, parts=PARTS, usual="the same day a week before")


def _parts(row: Mapping[str, Any]) -> Sequence[float]:
    return [row["productive_ms"], row["neutral_ms"], row["distracted_ms"]]


def day_table(scene: Scene, answers: Answers) -> Table:
    """Return the table of the days, which links to the page of each."""
    write = figures(scene)
    known = reported(answers["hours"])
    days, before = answers["days"], answers["before"]
    rows = []
    for n, row in enumerate(days["data"]):
        day = date.fromisoformat(row["date"])
        has_before = before["data"][n]["has_data"]
        rows.append(
            (
                _link(scene, day),
                *(
                    write.figure(days, f"/data/{n}/{member}", "duration")
                    if row["date"] in known
                    else _nothing(scene, day)
                    for member in MEASURES
                ),
                write.figure(before, f"/data/{n}/tracked_ms", "duration")
                if has_before
                else "no data",
            )
        )
    return Table(("Day", *MEASURES.values(), "Tracked a week before"), rows)


def _link(scene: Scene, day: date) -> str | Markup:
    if day > scene.today:
        return label(day)
    return Markup('<a href="{}">{}</a>').format(scene.link(f"/day/{day}"), label(day))


def _nothing(scene: Scene, day: date) -> str:
    """Return what stands in the table of a day without a report."""
    return "no data" if day <= scene.today else "not yet"


def by_hour(hours: Answer) -> Mapping[tuple[str, int], list[int]]:
    """Return the places of the rows of each hour: two where clocks went back, none where they went on."""
    places: dict[tuple[str, int], list[int]] = {}
    for n, row in enumerate(hours["data"]):
        places.setdefault((row["date"], row["hour"]), []).append(n)
    return places


def grid(scene: Scene, hours: Answer, member: str) -> Grid:
    """Return the hours of the week as a grid. An hour that has not begun has no cell."""
    write = figures(scene)
    known, places = reported(hours), by_hour(hours)

    def cell(day: date, hour: int) -> Cell | None:
        rows = [
            row
            for row in (hours["data"][n] for n in places.get((str(day), hour), ()))
            if datetime.fromisoformat(row["starts_at"]) <= scene.now
        ]
        if not rows:
            return None
        name = f"{label(day)}, {hour:02}:00"
        if str(day) not in known:
            return Cell(None, f"{name}: no data reported")
        texts = [write.text(row[member], "duration") for row in rows]
        return Cell(sum(row[member] for row in rows), f"{name}: {', then '.join(texts)}")

    return hours_of_week(
        member.removesuffix("_ms"),
        [(label(day), [cell(day, hour) for hour in range(24)]) for day in scene.period.days],
        words=f"{GRIDS[member]}; a larger cell is more",
    )


def hour_table(scene: Scene, hours: Answer, member: str) -> Table:
    """Return the table of the hours in which there was any of a measure."""
    write = figures(scene)
    known, places = reported(hours), by_hour(hours)
    rows = []
    for hour in range(24):
        of_days = [places.get((str(day), hour), []) for day in scene.period.days]
        if any(hours["data"][n][member] for places_of_day in of_days for n in places_of_day):
            cells = [
                Markup(", then ").join(
                    write.figure(hours, f"/data/{n}/{member}", "duration") for n in places_of_day
                )
                if str(day) in known
                else _nothing(scene, day)
                for day, places_of_day in zip(scene.period.days, of_days, strict=True)
            ]
            rows.append((f"{hour:02}:00", *cells))
    return Table(("Hour", *map(label, scene.period.days)), rows)


VIEW: Final = View(
    name="week",
    title="Week",
    paths=("/week", "/week/{week}"),
    address=Week,
    endpoints=("daily", "hours", "app_usage", "categories", "calendar_load"),
    asks=asks,
    show=show,
)
