"""Sleep and body: nights under each other, how regular they are, and measures in their own band."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, Self

from markupsafe import Markup

from resourceserver.dashboard.charts import Night, Stretch, Table, Unit, band, nights
from resourceserver.dashboard.charts import Range as Ranged
from resourceserver.dashboard.charts.escaping import escaped
from resourceserver.dashboard.charts.line import Line
from resourceserver.dashboard.charts.ribbon import Ribbon
from resourceserver.dashboard.figures import ABSENT, Answer, short_day
from resourceserver.dashboard.period import Calendar, Period, Range
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures
from resourceserver.dashboard.views import heart

SUMMARY_DAYS: Final = 28
"""Other measures are of the last days of the range alone: samples are many, and reading a year takes long."""
FRIDAY: Final = 5


@dataclass(frozen=True)
class Measure:
    """A measure of each night that has a band."""

    metric: str
    """Its name in the API."""
    title: str
    unit: str


MEASURES: Final[Mapping[str, Measure]] = {
    "hrv": Measure("hrv_rmssd_ms", "Heart rate variability", "ms"),
    "resting": Measure("resting_heart_rate_bpm", "Resting heart rate", "bpm"),
    "recovery": Measure("recovery_score", "Recovery", "%"),
    "strain": Measure("strain_score", "Strain", ""),
}
"""The measures by the names of their questions."""


@dataclass(frozen=True)
class Days(Range):
    """Any days of at most three months, each night in a line; without a choice the last four weeks."""

    LENGTH = 28
    MOST = 92


@dataclass(frozen=True)
class Body:
    """Any days, or the heart rate of one day, ``/body?date=2026-11-21``."""

    address: Days | heart.HeartOfDay

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the part ``date``, or those of a range. Raises Misaddressed."""
        is_day = bool(parts.get("date"))
        return cls(heart.HeartOfDay.parse(parts) if is_day else Days.parse(parts))

    def period(self, calendar: Calendar) -> Period:
        """Return the days as a period."""
        return self.address.period(calendar)


def asks(scene: Scene) -> Asks:
    """Return the questions about the range, or about the heart rate of a day."""
    if is_zoomed(scene):
        return heart.asks(scene)
    days = scene.period.day_query
    questions: dict[str, Ask] = {
        "sleep": Ask("sleep_regularity", days),
        "averages": Ask("recovery", days),
        **{
            name: Ask("health_baseline", {"metric": measure.metric, **days})
            for name, measure in MEASURES.items()
        },
    }
    if scene.period.first <= scene.today:
        questions["others"] = Ask("health_summary", {**latest(scene), "tz": scene.tz})
    return questions


def is_zoomed(scene: Scene) -> bool:
    """Tell whether the page is about the heart rate of one day."""
    return bool(scene.parts.get("date"))


def more(scene: Scene, answers: Answers) -> Asks:
    """Return the question about shorter steps of the heart rate."""
    return heart.more(scene, answers) if is_zoomed(scene) else {}


def latest(scene: Scene) -> dict[str, str]:
    """Return the last days of the range up to today as instants."""
    last = min(scene.period.last, scene.today)
    first = max(scene.period.first, last - timedelta(days=SUMMARY_DAYS - 1))
    return replace(scene.period, first=first, last=last).instant_query(scene.tz)


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the charts and tables of the page."""
    if is_zoomed(scene):
        return {"is_zoomed": True, **heart.show(scene, answers)}
    if "sleep" not in answers:
        return {"is_zoomed": False}
    sleep = answers["sleep"]
    return {
        "is_zoomed": False,
        "sleeps": sleeps(scene, sleep),
        "sleep_table": Table(
            ("Night to", "Asleep at", "Up at", "Asleep", "Naps", "As the day before"),
            rows_of_nights(scene, sleep),
        ),
        "bands": [
            banded(scene, answers[name], name, measure)
            for name, measure in MEASURES.items()
            if answers[name].at("/totals/known_days")
        ],
        "other_measures": list(other_measures(answers["others"])) if "others" in answers else [],
        "summary_days": SUMMARY_DAYS if len(sleep["data"]) > SUMMARY_DAYS else None,
        "presets": scene.ranges("/body", "2 weeks", "4 weeks", "3 months"),
    }


def newest_first(sleep: Answer) -> list[tuple[int, dict[str, Any]]]:
    """Return the nights with their places in the answer."""
    return list(enumerate(sleep["data"]))[::-1]


def sleeps(scene: Scene, sleep: Answer) -> Ribbon:
    """Return the nights under each other, on an axis that is as long as all of them need."""
    write = figures(scene)
    drawn, edges = [], [-6.0, 12.0]
    for _, row in newest_first(sleep):
        day = date.fromisoformat(row["date"])
        stretches = []
        if row["has_data"]:
            start, end = (
                local(row[member], row["utc_offset"]) for member in ("started_at", "ended_at")
            )
            midnight = datetime.combine(day, time())
            edges += [(at - midnight) / timedelta(hours=1) for at in (start, end)]
            stretches = [
                Stretch(
                    start,
                    end,
                    1 if day.isoweekday() <= FRIDAY else 2,
                    f"{short_day(row['date'])}: {row['bedtime']} to {row['wake_up']}, "
                    f"asleep for {write.text(row['asleep_ms'], 'duration')}",
                    scene.link(f"/day/{day}"),
                )
            ]
        drawn.append(Night(day - timedelta(days=1), f"{day:%a} {day.day}", stretches))
    # Hours of the labels are multiples of three.
    first, last = 3 * int(min(edges) // 3), -3 * int(-max(edges) // 3)
    return nights(
        "nights",
        drawn,
        first_hour=24 + max(first, -24),
        last_hour=min(last, 24),
        usual=[
            (time.fromisoformat(usual["median"]), words)
            for member, words in (("bedtime", "usual bedtime"), ("wake_up", "usual wake-up"))
            if sleep.at("/usual/all/nights") > 1 and (usual := sleep.at(f"/usual/all/{member}"))
        ],
        kinds=("before a work day", "before a free day"),
    )


def local(instant: str, utc_offset: str) -> datetime:
    """Return what the clock beside the bed says, without a zone."""
    offset = datetime.fromisoformat(f"2000-01-01T00:00{utc_offset}").utcoffset() or timedelta()
    return (datetime.fromisoformat(instant).astimezone(UTC) + offset).replace(tzinfo=None)


def rows_of_nights(scene: Scene, sleep: Answer) -> Iterator[Sequence[str | Markup]]:
    """Yield the rows of the table of nights."""
    write = figures(scene)
    for n, row in newest_first(sleep):
        place = f"/data/{n}"
        yield (
            linked_day(scene, row["date"]),
            write.figure(sleep, f"{place}/bedtime", "text"),
            write.figure(sleep, f"{place}/wake_up", "text"),
            write.figure(sleep, f"{place}/asleep_ms", "duration"),
            write.figure(sleep, f"{place}/nap_ms", "duration") if row["nap_ms"] else "",
            write.figure(sleep, f"{place}/agreeing_ms", "duration"),
        )


def linked_day(scene: Scene, day: str) -> Markup:
    """Return a day as a link to its page."""
    href = escaped(scene.link(f"/day/{day}"))
    return Markup(f'<a href="{href}">{short_day(day)}</a>')  # noqa: S704 -- a day is digits and letters


@dataclass(frozen=True)
class Banded:
    """A measure with its chart."""

    measure: Measure
    answer: Answer
    drawing: Line
    table: Table
    newest: str
    """The pointer of the last day with a value."""
    day: str
    """This day in words."""


def banded(scene: Scene, answer: Answer, name: str, measure: Measure) -> Banded:
    """Return the chart of a measure with at least one value, each day in the band of the days before."""
    newest = max(n for n, row in enumerate(answer["data"]) if row["value"] is not None)
    return Banded(
        measure,
        answer,
        band(
            name,
            [
                Ranged(
                    short_day(row["date"]).partition(" ")[2],
                    row["value"],
                    row["lower_quartile"],
                    row["upper_quartile"],
                    title=title(scene, row, measure),
                )
                for row in answer["data"]
            ],
            unit=Unit(f" {measure.unit}" if measure.unit else "", least_step=1),
            words=measure.title,
            normal="your band",
        ),
        Table(
            ("Day", measure.title, "Band from", "to"),
            rows_of_band(scene, answer, measure),
        ),
        f"/data/{newest}",
        short_day(answer.at(f"/data/{newest}/date")),
    )


def title(scene: Scene, row: Mapping[str, Any], measure: Measure) -> str:
    """Return a day's value in words."""
    if row["value"] is None:
        return ""
    value = figures(scene).text(row["value"], "count")
    place = f", {WORDS[row['position']]}" if row["position"] else ""
    return f"{short_day(row['date'])}: {value} {measure.unit}".rstrip() + place


WORDS: Final[Mapping[str, str]] = {
    "below": "below your band",
    "within": "within your band",
    "above": "above your band",
}
"""Where a value lies."""


def rows_of_band(
    scene: Scene, answer: Answer, measure: Measure
) -> Iterator[Sequence[str | Markup]]:
    """Yield the rows of the table of a measure, the newest first."""
    write = figures(scene)
    for n in reversed(range(len(answer["data"]))):
        row = answer.at(f"/data/{n}")
        yield (
            linked_day(scene, row["date"]),
            *(
                ABSENT
                if row[member] is None
                else write.figure(answer, f"/data/{n}/{member}", "count", measure.unit)
                for member in ("value", "lower_quartile", "upper_quartile")
            ),
        )


@dataclass(frozen=True)
class Other:
    """A metric of health as people read it."""

    place: str
    """The pointer of its row."""
    title: str
    kind: str
    unit: str


UNITS: Final[Mapping[str, tuple[str, str]]] = {
    "ms": ("duration", ""),
    "percent": ("percent", ""),
    "m": ("metres", ""),
    "count": ("count", ""),
}
"""How figures of a unit are written; those of all others are counts with the unit behind them."""


def other_measures(summary: Answer) -> Iterator[Other]:
    """Yield the metrics of health that the person has."""
    for n, row in enumerate(summary["data"]):
        kind, unit = UNITS.get(row["unit"], ("count", row["unit"]))
        words = row["metric_type"].split("_")
        # The name ends with the unit, which stands behind each figure.
        if len(words) > 1 and words[-1].lower() == row["unit"].lower():
            words.pop()
        yield Other(f"/data/{n}", " ".join(words).capitalize(), kind, unit)


VIEW: Final = View(
    name="body",
    title="Sleep and body",
    paths=("/body",),
    address=Body,
    endpoints=(
        *("sleep_regularity", "recovery", "health_baseline", "health_summary"),
        "heart_rate_series",
    ),
    asks=asks,
    more=more,
    show=show,
)
