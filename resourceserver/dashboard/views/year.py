"""Year: each day as a cell of a heat map, for a few metrics, or for one with its months."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final, Self
from urllib.parse import quote

from markupsafe import Markup

from resourceserver.dashboard.charts import Bar, Cell, bars, unit_of
from resourceserver.dashboard.charts import year as heat_map
from resourceserver.dashboard.charts.bars import Bars
from resourceserver.dashboard.charts.escaping import escaped
from resourceserver.dashboard.charts.grid import Grid
from resourceserver.dashboard.figures import Answer, Column, short_day
from resourceserver.dashboard.metrics import METRICS, Metric, find, measured
from resourceserver.dashboard.period import Calendar, Period, Year, month_of
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures

FEW: Final = ("tracked_ms", "focus_ms", "asleep_ms", "health:steps")
"""The metrics of the page without a choice: each one costs time and bytes."""
EXTREMES: Final = 5
"""The number of days with most, and of those with least."""


@dataclass(frozen=True)
class YearOfMetric(Year):
    """A year, and with ``?metric=focus_ms`` one metric of it."""

    @classmethod
    def parse(cls, parts: Any) -> Self:
        """Read the parts ``year`` and ``metric``. Raises Misaddressed."""
        found = super().parse(parts)
        if not parts.get("metric"):
            return found
        return replace(found, suffix=f"?metric={quote(find(parts['metric']).name, safe='')}")

    def period(self, calendar: Calendar) -> Period:
        """Return the year as a period; the current one has the same metric."""
        return replace(super().period(calendar), current=f"/year{self.suffix}")


def chosen(scene: Scene) -> Metric | None:
    """Return the metric that the address names."""
    return find(scene.parts["metric"]) if scene.parts.get("metric") else None


def asks(scene: Scene) -> Asks:
    """Return a question for each heat map, and for the months of a single one."""
    if scene.period.first > scene.today:
        return {}
    only = chosen(scene)
    if only is None:
        return {find(name).key: days_of(scene, name) for name in FEW}
    days = days_of(scene, only.name)
    return {only.key: days, "months": replace(days, query={**days.query, "by": "month"})}


def days_of(scene: Scene, metric: str) -> Ask:
    """Return the question for the days of the year up to today: nobody has reported the others yet."""
    last = min(scene.period.last, scene.today)
    days = {"from": str(scene.period.first), "to": str(last), "tz": scene.tz}
    return Ask("trend", {"metric": metric, "by": "day", **days, "include_levels": "false"})


@dataclass(frozen=True)
class Days:
    """The days of a metric in a year."""

    metric: Metric
    answer: Answer
    drawing: Grid
    rows: Markup
    """The rows of the table of days."""
    highest: list[str]
    """The pointers of the days with the largest values, the largest first."""
    lowest: list[str]
    """The pointers of the days with the smallest values above zero, the smallest first, without today:
    it is not over."""

    @property
    def has_sum(self) -> bool:
        """Whether the sum of the days says something."""
        return not self.metric.is_level and self.answer.at("/totals/total") is not None


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the heat maps of the metrics that have anything, and the titles of the others."""
    only = chosen(scene)
    metrics = [find(name) for name in ((only.name,) if only else FEW)]
    maps, empty = [], []
    for metric in metrics:
        answer = answers.get(metric.key)
        if answer is None:
            continue
        if answer.at("/totals/known_days") and answer.at("/totals/maximum"):
            maps.append(days(scene, measured(metric, answer), answer))
        else:
            empty.append(metric)
    has_months = only is not None and bool(maps)
    return {
        "only": only,
        "maps": maps,
        "empty": empty,
        "has_begun": scene.period.first <= scene.today,
        "begun_months": begun_months(scene),
        "months": months(scene, maps[0].metric, answers["months"]) if has_months else None,
        "choices": [
            metric
            for metric in METRICS.values()
            if not set(days_of(scene, metric.name).scopes) - scene.scopes
        ],
    }


def days(scene: Scene, metric: Metric, answer: Answer) -> Days:
    """Return the heat map of a metric, with the days that stand out."""
    write = figures(scene)
    cells = {}
    for row in answer["data"]:
        day, value = date.fromisoformat(row["from"]), row["value"]
        text = "no data" if value is None else write.text(value, metric.kind) + suffix(metric)
        cells[day] = Cell(
            value, f"{short_day(row['from'])}: {text}", scene.link(f"/day/{row['from']}")
        )
    known = sorted(
        (row["value"], -n) for n, row in enumerate(answer["data"]) if row["value"] is not None
    )
    today = (scene.today - scene.period.first).days
    return Days(
        metric,
        answer,
        heat_map(
            metric.key,
            scene.period.first,
            scene.period.last,
            cells,
            week_starts_on=scene.week_starts_on - 1,
            from_zero=not metric.is_level,
            words="a larger cell is more" + (", from the least on" if metric.is_level else ""),
        ),
        rows(scene, metric, answer),
        [f"/data/{-n}" for _, n in known[: -EXTREMES - 1 : -1]],
        [f"/data/{-n}" for value, n in known if value > 0 and -n != today][:EXTREMES],
    )


def suffix(metric: Metric) -> str:
    """Return the unit as it follows a number in plain text."""
    return f"\N{NO-BREAK SPACE}{metric.unit}" if metric.unit else ""


def rows(scene: Scene, metric: Metric, answer: Answer) -> Markup:
    """Return the rows of the table of days, each with a link to its day."""

    def head(row: Mapping[str, Any]) -> str:
        href = escaped(scene.link(f"/day/{row['from']}"))
        return f'<th scope="row"><a href="{href}">{short_day(row["from"])}</a></th>'

    column = Column("value", metric.kind, metric.unit, metric.name)
    return figures(scene).rows(answer, "/data", head, [column])


def begun_months(scene: Scene) -> list[date]:
    """Return the first day of each month of the year that has begun and has a page."""
    firsts = [scene.period.first.replace(month=number) for number in range(1, 13)]
    return [first for first in firsts if first <= scene.today and month_of(first)]


@dataclass(frozen=True)
class Months:
    """The months of a metric in a year."""

    answer: Answer
    drawing: Bars
    member: str
    """``total``, or ``value`` of a metric that does not add up."""
    best: str | None
    """The pointer of the month with the largest value."""
    names: list[str]


def months(scene: Scene, metric: Metric, answer: Answer) -> Months:
    """Return the bars of the months."""
    write = figures(scene)
    has_sum = not metric.is_level and answer.at("/totals/total") is not None
    member = "total" if has_sum else "value"
    rows = answer["data"]
    firsts = [date.fromisoformat(row["from"]) for row in rows]
    known = [(row[member], -n) for n, row in enumerate(rows) if row[member] is not None]
    return Months(
        answer,
        bars(
            "months",
            [
                Bar(
                    f"{first:%b}",
                    row[member],
                    title=f"{first:%B}: "
                    + (
                        "no data"
                        if row[member] is None
                        else write.text(row[member], metric.kind) + suffix(metric)
                    ),
                )
                for first, row in zip(firsts, rows, strict=True)
            ],
            unit=unit_of(metric.kind, metric.unit),
        ),
        member,
        f"/data/{-max(known)[1]}" if known else None,
        [f"{first:%B}" for first in firsts],
    )


VIEW: Final = View(
    name="year",
    title="Year",
    paths=("/year", "/year/{year}"),
    address=YearOfMetric,
    endpoints=("trend",),
    asks=asks,
    show=show,
)
