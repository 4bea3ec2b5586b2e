"""Trends: a metric by day, week or month, with its running median and its changes of level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, Final, Self
from urllib.parse import urlencode

from markupsafe import Markup

from resourceserver.dashboard.charts import (
    Change,
    Point,
    Table,
    line,
    unit_of,
)
from resourceserver.dashboard.charts.line import MOST_DOTS, Line
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.metrics import DOMAINS, METRICS, Metric, find, measured
from resourceserver.dashboard.period import Calendar, Misaddressed, Period, Range, week_name
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures

METRIC: Final = "tracked_ms"
"""The metric of an address that names none."""
BY: Final[Mapping[str, str]] = {"day": "day", "week": "week", "month": "month"}
"""The lengths of periods, and what people read."""
MOST_DAYS: Final = 120
"""The longest range that is by day if the address does not say by what."""
MOST_WEEKS: Final = 3 * 53
"""The same for weeks."""
PRESETS: Final = ("4 weeks", "3 months", "A year", "3 years", "10 years")
"""The ranges that are a link each."""
LONGEST_TABLE: Final = 400
"""The most rows of the table, so that a page of ten years by day is small too: the latest."""
_YEAR: Final = 366
_SPARSE: Final = 25
"""How far apart marks of changes must be for their dates to have room, in percent."""


@dataclass(frozen=True)
class Series:
    """A metric over any days, ``/trends?metric=focus_ms&by=week&from=2026-09-01&to=2026-11-21``.

    Without ``by`` it follows from the number of days.
    """

    days: Range

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the parts ``metric`` and ``by``, and those of a range. Raises Misaddressed."""
        chosen = {name: parts[name] for name in ("metric", "by") if parts.get(name)}
        try:
            find(chosen.get("metric", METRIC))
        except Misaddressed as error:
            raise Misaddressed(
                f"The part “metric” of the address must be one of {', '.join(METRICS)},"
                " or health: and the name of another metric of a device."
            ) from error
        if chosen.get("by", "day") not in BY:
            raise Misaddressed(f"The part “by” of the address must be one of {', '.join(BY)}.")
        path = parts["path"] + (f"?{urlencode(chosen)}" if chosen else "")
        return cls(Range.parse({**parts, "path": path}))

    def period(self, calendar: Calendar) -> Period:
        """Return the days as a period."""
        return self.days.period(calendar)


def chosen_by(scene: Scene) -> str:
    """Return the length of the periods: that of the address, or one that suits the number of days."""
    if scene.parts.get("by"):
        return scene.parts["by"]
    count = (scene.period.last - scene.period.first).days + 1
    return "day" if count <= MOST_DAYS else "week" if count <= 7 * MOST_WEEKS else "month"


def asks(scene: Scene) -> Asks:
    """Return the question about the metric. Today is left out: its value would look like a fall."""
    metric = find(scene.parts.get("metric") or METRIC)
    first, last = scene.period.first, min(scene.period.last, scene.today - timedelta(days=1))
    days = {"from": str(first), "to": str(max(first, last)), "tz": scene.tz}
    return {"trend": Ask("trend", {"metric": metric.name, "by": chosen_by(scene), **days})}


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return what can be chosen, and the chart."""
    metric, by = find(scene.parts.get("metric") or METRIC), chosen_by(scene)
    found: dict[str, Any] = {
        "metric": metric,
        "by": by,
        "lengths": BY,
        "domains": domains(scene, metric),
        "presets": scene.ranges("/trends", *PRESETS, metric=metric.name),
    }
    if "trend" in answers:
        trend = answers["trend"]
        metric = measured(metric, trend)
        found |= {
            "metric": metric,
            "drawing": drawing(scene, trend, metric),
            "table": table(scene, trend, metric),
            "longest_table": LONGEST_TABLE,
            "medians": medians(trend),
            "words_of_day": long,
        }
    return found


def domains(scene: Scene, chosen: Metric) -> Mapping[str, Sequence[tuple[Metric, bool]]]:
    """Return the metrics by their domains, each with whether the token may read it."""
    found: dict[str, list[tuple[Metric, bool]]] = {words: [] for words in DOMAINS.values()}
    for metric in {**METRICS, chosen.name: chosen}.values():
        scopes = Ask("trend", {"metric": metric.name}).scopes
        found[DOMAINS[scopes[-1]]].append((metric, scene.scopes.issuperset(scopes)))
    return found


def query(metric: Metric, first: date, last: date) -> Mapping[str, str]:
    """Return the query of an address of this view."""
    return {"metric": metric.name, "from": str(first), "to": str(last)}


def medians(trend: Answer) -> tuple[str, str] | None:
    """Return the pointers of the first and the last running median; None with fewer than two."""
    known = [n for n, row in enumerate(trend["data"]) if row["median"] is not None]
    return (f"/data/{known[0]}/median", f"/data/{known[-1]}/median") if len(known) > 1 else None


def long(day: str) -> str:
    """Return a day of the API in words."""
    at = date.fromisoformat(day)
    return f"{at.day} {at:%B %Y}"


def label(row: Mapping[str, str], *, has_day: bool) -> str:
    """Return a period in few letters."""
    first = date.fromisoformat(row["from"])
    return f"{first.day} {first:%b}" if has_day else f"{first:%b %Y}"


def name(row: Mapping[str, str], by: str) -> str:
    """Return a period as the header of its row."""
    first, last = date.fromisoformat(row["from"]), date.fromisoformat(row["to"])
    text = f"{last.day} {last:%b %Y}"
    if by == "day":
        return f"{first:%a} {text}"
    return f"{first.day} {first:%b} to {text}" if first < last else text


def place(scene: Scene, row: Mapping[str, str], metric: Metric, by: str) -> str:
    """Return the address of a period: its day, its week, or the days of its month."""
    first, last = date.fromisoformat(row["from"]), date.fromisoformat(row["to"])
    if first > scene.today:
        return ""
    if by == "day":
        return scene.link(f"/day/{first}")
    if by == "week":
        return scene.link(f"/week/{week_name(first)}")
    return scene.link(f"/trends?{urlencode(query(metric, first, last))}")


def drawing(scene: Scene, trend: Answer, metric: Metric) -> Line:
    """Return the chart. Periods are links if they are few enough to be pointed at."""
    write, by, rows = figures(scene), trend["by"], trend["data"]
    has_day = by != "month" and len(scene.period.days) <= _YEAR

    def point(row: Mapping[str, Any]) -> Point:
        text = label(row, has_day=has_day)
        if len(rows) > MOST_DOTS:
            return Point(text, row["value"], usual=row["median"])
        value = (
            "no data reported" if row["value"] is None else write.text(row["value"], metric.kind)
        )
        title = f"{name(row, by)}: {value} {metric.unit}".rstrip()
        return Point(text, row["value"], row["median"], title, place(scene, row, metric, by))

    return line(
        "trend",
        [point(row) for row in rows],
        unit=unit_of(metric.kind, metric.unit),
        changes=marks(trend),
        words=metric.title if by == "day" else f"{metric.title}, mean of the days of a {by}",
        from_zero=not metric.is_level,
        height=260,
    )


def marks(trend: Answer) -> list[Change]:
    """Return the marks of changes: with their dates if these have room, else with their numbers."""
    rows = trend["data"]
    places = [
        next(n for n, row in enumerate(rows) if row["from"] <= change["date"] <= row["to"])
        for change in trend["change_points"]
    ]
    has_room = all(
        100 * (later - earlier) / len(rows) >= _SPARSE for earlier, later in pairwise(places)
    )
    texts = [date.fromisoformat(change["date"]) for change in trend["change_points"]]
    return [
        Change(at, f"{day.day} {day:%b %Y}" if has_room else str(number))
        for number, (at, day) in enumerate(zip(places, texts, strict=True), 1)
    ]


def table(scene: Scene, trend: Answer, metric: Metric) -> Table:
    """Return the latest periods as a table, the last one first."""
    write, by, rows = figures(scene), trend["by"], trend["data"]
    has_total = by != "day" and trend.at("/totals/total") is not None
    columns = ["value", *(["total"] if has_total else []), "median"]
    found = []
    for n in range(len(rows) - 1, max(-1, len(rows) - 1 - LONGEST_TABLE), -1):
        row = rows[n]
        href, text = place(scene, row, metric, by), name(row, by)
        found.append(
            (
                Markup('<a href="{}">{}</a>').format(href, text) if href else text,
                *(
                    write.figure(trend, f"/data/{n}/{column}", metric.kind, metric.unit)
                    for column in columns
                ),
                *([write.figure(trend, f"/data/{n}/days", "count")] if by != "day" else []),
            )
        )
    if by == "day":
        return Table(("Day", metric.title, "Median of 28 days"), found)
    total = ["Sum"] if has_total else []
    header = (by.capitalize(), "Mean of a day", *total, "Median of 28 days", "Days with data")
    return Table(header, found)


VIEW: Final = View(
    name="trends",
    title="Trends",
    paths=("/trends",),
    address=Series,
    endpoints=("trend",),
    asks=asks,
    show=show,
)
