"""Focus: its streaks and what broke them, pairs of switches, and what a switch costs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from markupsafe import Markup

from resourceserver.dashboard.charts import Bar, bars, top
from resourceserver.dashboard.charts.bars import Bars, TopBars
from resourceserver.dashboard.charts.escaping import escaped
from resourceserver.dashboard.charts.svg import cut
from resourceserver.dashboard.figures import Answer, Column, short_day
from resourceserver.dashboard.period import Period, Range
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, after_all, figures

MOST_DAYS: Final = 365
"""The longest range: switch-costs takes 366 days, one of which may be an hour longer."""
MOST_ROWS: Final = 8
REASONS: Final = {
    "distraction": "distracting time",
    "neutral": "neutral time",
    "idle": "a pause",
    "end_of_data": "the end of the data",
    "ongoing": "nothing so far",
}
"""What ends a streak, by its name in the API."""
DAY_COLUMNS: Final = (
    Column("value", "duration", name="focus_ms"),
    Column("median", "duration"),
)
BREAK_COLUMNS: Final = (
    Column("count", "count"),
    Column("percent", "percent"),
    Column("average_before_ms", "duration"),
)
COST_COLUMNS: Final = (
    Column("count", "count"),
    Column("returned_count", "count"),
    Column("median_ms", "duration"),
    Column("total_ms", "duration"),
)
PAIR_COLUMNS: Final = (
    Column("count", "count"),
    Column("median_before_ms", "duration"),
)


class Weeks(Range):
    """Any days; without any, the last four weeks."""

    LENGTH = 28


def read_period(scene: Scene) -> Period:
    """Return the part of the period that the page is about: at most a year, and nothing of the future."""
    period = scene.period
    last = min(period.last, scene.today)
    return replace(period, first=max(period.first, last - timedelta(days=MOST_DAYS - 1)), last=last)


def asks(scene: Scene) -> Asks:
    """Return the questions about the range."""
    period = read_period(scene)
    if period.first > period.last:
        return {}
    instants = period.instant_query(scene.tz)
    return {
        "focus": Ask("trend", {"metric": "focus_ms", **period.day_query, "tz": scene.tz}),
        "breaks": Ask("focus_breaks", instants),
        "switches": Ask("context_switches", after_all(instants)),
        "costs": Ask("switch_costs", instants),
    }


@dataclass(frozen=True)
class Charts:
    """The charts of the page, and the places of what stands out."""

    by_day: Bars
    breaks: TopBars
    pairs: TopBars
    costs: TopBars
    rows: Mapping[str, Markup]
    """The rows of the table of each chart, by its name."""
    longest: list[tuple[str, str]]
    """The pointers of the longest streaks, and the paths of the days on which they began."""
    best_day: str | None
    """The pointer of the day with most focus."""


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the charts of the page."""
    period = read_period(scene)
    is_reported = "focus" in answers and answers["focus"].at("/totals/known_days") > 0
    return {
        "has_begun": period.first <= period.last,
        "shortened": period if period.first > scene.period.first else None,
        "charts": charts(scene, answers) if is_reported else None,
        "is_silent": bool(answers) and not is_reported,
        "reasons": REASONS,
        "reason": reason,
        "app": app,
        "most_rows": MOST_ROWS,
        "presets": scene.ranges("/focus", "2 weeks", "4 weeks", "3 months", "A year"),
    }


def charts(scene: Scene, answers: Answers) -> Charts:
    """Return the charts from the answers, all of which have the same scope."""
    write = figures(scene)

    def count(row: dict[str, Any], label: str, second: str = "") -> Bar:
        return Bar(label, row["count"], text=write.text(row["count"], "count"), second=second)

    focus = answers["focus"]
    known = [(row["value"], -n) for n, row in enumerate(focus["data"]) if row["value"]]
    return Charts(
        by_day(scene, focus),
        top(
            "breaks",
            [
                count(row, label if row["app"] else REASONS[row["reason"]].capitalize())
                for row, label in labelled(answers["breaks"]["data"])
            ],
        ),
        top(
            "pairs",
            [
                count(row, row["from_app"], f"→ {row['to_app']}")
                for row in answers["switches"]["pairs"][:MOST_ROWS]
            ],
        ),
        top(
            "costs",
            [
                Bar(label, row["total_ms"], text=write.text(row["total_ms"], "duration"))
                for row, label in labelled(answers["costs"]["data"])
            ],
        ),
        {
            "days": rows_of_days(scene, focus),
            "breaks": write.rows(answers["breaks"], "/data", reason_cell, BREAK_COLUMNS),
            "costs": write.rows(answers["costs"], "/data", reason_cell, COST_COLUMNS),
            "pairs": write.rows(answers["switches"], "/pairs", pair_cells, PAIR_COLUMNS),
        },
        [
            (f"/longest_streaks/{n}", f"/day/{write.local(row['started_at']):%F}")
            for n, row in enumerate(answers["breaks"]["longest_streaks"])
        ],
        f"/data/{-max(known)[1]}" if known else None,
    )


def by_day(scene: Scene, focus: Answer) -> Bars:
    """Return the focus of each day."""
    write = figures(scene)
    values = []
    for row in focus["data"]:
        day = short_day(row["from"])
        text = "no data" if row["value"] is None else write.text(row["value"], "duration")
        values.append(
            Bar(
                day.partition(" ")[2],
                row["value"],
                usual=row["median"],
                title=f"{day}: {text}",
                href=scene.link(f"/day/{row['from']}"),
            )
        )
    return bars("by-day", values, usual="median of 28 days")


def rows_of_days(scene: Scene, focus: Answer) -> Markup:
    """Return the rows of the table of days, each with a link to its day."""
    write = figures(scene)

    def head(row: Mapping[str, Any]) -> str:
        href = escaped(scene.link(f"/day/{row['from']}"))
        return f'<th scope="row"><a href="{href}">{write.text(row["from"], "day")}</a></th>'

    return write.rows(focus, "/data", head, DAY_COLUMNS)


def reason(row: Mapping[str, Any]) -> Markup:
    """Return what broke a streak, or what a detour led to: an application with its category, or a reason."""
    text = (
        f"{app(row['app'])} ({app(row['category'])})"
        if row["app"]
        else REASONS[row["reason"]].capitalize()
    )
    return Markup(text)  # noqa: S704 -- the names are escaped


def app(name: str) -> Markup:
    """Return the name of an application or a category, whose letters do not turn the text around it."""
    return Markup(f"<bdi>{escaped(cut(name, 40))}</bdi>")  # noqa: S704 -- the name is escaped


def reason_cell(row: Mapping[str, Any]) -> str:
    """Return a reason as the first cell of a row."""
    return f'<th scope="row">{reason(row)}</th>'


def pair_cells(row: Mapping[str, Any]) -> str:
    """Return the two applications of a switch as the first cells of a row."""
    return f'<th scope="row">{app(row["from_app"])}</th><td>{app(row["to_app"])}</td>'


def labelled(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Return the first rows with their applications, and the categories of those that have several."""
    first = rows[:MOST_ROWS]
    names = Counter(row["app"] for row in first)
    return [
        (row, f"{row['app']}, {row['category']}" if names[row["app"]] > 1 else row["app"])
        for row in first
    ]


VIEW: Final = View(
    name="focus",
    title="Focus",
    paths=("/focus",),
    address=Weeks,
    endpoints=("trend", "focus_breaks", "context_switches", "switch_costs"),
    asks=asks,
    show=show,
)
