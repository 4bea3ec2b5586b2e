"""Heart rate of a day, or of a part of it: the nearer, the shorter are the steps, down to single readings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from resourceserver.dashboard.charts import Range, Unit, band
from resourceserver.dashboard.charts.line import Line
from resourceserver.dashboard.figures import Answer
from resourceserver.dashboard.period import (
    Calendar,
    Misaddressed,
    PartOfDay,
    Period,
    day_start,
    rewritten,
    written,
)
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene

STEPS_S: Final = (10, 30, 60, 120, 300, 600)
"""The lengths of a step in seconds; the last one is that of a day."""
MOST_STEPS: Final = 200
LENGTHS: Final = (timedelta(hours=6), timedelta(hours=2), timedelta(minutes=30))
"""The lengths of the parts of a day to which the page links, each a whole part of the one before."""


@dataclass(frozen=True)
class HeartOfDay:
    """A day, ``?date=2026-11-21``, and a part of it.

    The part is ``&from=2026-11-21T08:00:00Z&to=2026-11-21T10:00:00Z``.
    """

    part: PartOfDay

    @classmethod
    def parse(cls, parts: Any) -> Self:
        """Read the part ``date``, and check the parts ``from`` and ``to``. Raises Misaddressed."""
        if parts.get("from") and parts.get("from") == parts.get("to"):
            raise Misaddressed("A part of a day ends after its start.")
        return cls(PartOfDay.parse({**parts, "day": parts["date"]}))

    def period(self, calendar: Calendar) -> Period:
        """Return the whole day as a period."""
        found = self.part.period(calendar)

        def moved(path: str | None) -> str | None:
            return path and path.replace("/day/", "/body?date=")

        return replace(
            found,
            path=f"/body?date={found.first}",
            previous=moved(found.previous),
            following=moved(found.following),
        )


def window(scene: Scene) -> tuple[datetime, datetime]:
    """Return the instants between which the heart rate is drawn: a part of the day, or all of it."""
    instants = scene.instant_query
    if "from" in scene.parts:
        instants = {name: rewritten(scene.parts[name]) for name in ("from", "to")}
    start, end = (datetime.fromisoformat(instants[name]) for name in ("from", "to"))
    return start, end


def asks(scene: Scene) -> Asks:
    """Return the question about the heart rate in steps of ten minutes."""
    return {"heart": _ask(scene, STEPS_S[-1])}


def more(scene: Scene, answers: Answers) -> Asks:
    """Return the question about shorter steps, if there is more than a reading in each of them."""
    if "heart" not in answers:
        return {}
    start, end = window(scene)
    readings = sum(row["count"] for row in answers["heart"]["data"])
    fewest_s = (end - start).total_seconds() / max(min(readings, MOST_STEPS), 1)
    step_s = next((step_s for step_s in STEPS_S if step_s >= fewest_s), STEPS_S[-1])
    return {"near": _ask(scene, step_s)} if step_s < STEPS_S[-1] else {}


def _ask(scene: Scene, step_s: int) -> Ask:
    start, end = window(scene)
    instants = {"from": written(start), "to": written(end)}
    return Ask("heart_rate_series", {**instants, "step_s": str(step_s)})


@dataclass(frozen=True)
class Part:
    """A link to another part of the day."""

    words: str
    path: str


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the chart, and the links to parts of what it shows and to what lies around it."""
    start, end = window(scene)
    series = answers.get("near") or answers.get("heart")
    return {
        "series": series,
        "heart_chart": drawing(scene, series) if series and series["data"] else None,
        "step": series and _words(timedelta(milliseconds=series["step_ms"])),
        "window": _between(scene, start, end),
        "is_part": "from" in scene.parts,
        "nearer": list(nearer(scene, start, end)),
        "around": list(around(scene, start, end)),
    }


def nearer(scene: Scene, start: datetime, end: datetime) -> Iterator[Part]:
    """Yield the parts of a time, the longest of which is shorter than it."""
    length = next((length for length in LENGTHS if length < end - start), None)
    while length is not None and start < end:
        following = min(start + length, end)
        yield _part(scene, start, following, _between(scene, start, following))
        start = following


def around(scene: Scene, start: datetime, end: datetime) -> Iterator[Part]:
    """Yield the times of the same length before and after a part of a day, and a longer one."""
    if "from" not in scene.parts:
        return
    first = day_start(scene.period.first, scene.tz)
    last = day_start(scene.period.last + timedelta(days=1), scene.tz)
    length = end - start
    if first < start:
        yield _part(scene, max(start - length, first), start, "Before")
    if end < last:
        yield _part(scene, end, min(end + length, last), "After")
    longer = next((each for each in reversed(LENGTHS) if each > length), None)
    if longer is not None:
        begin = max(first + (start - first) // longer * longer, first)
        yield _part(scene, begin, min(begin + longer, last), "Wider")
    yield Part("The whole day", scene.link(scene.period.path))


def _part(scene: Scene, start: datetime, end: datetime, words: str) -> Part:
    instants = urlencode({"from": written(start), "to": written(end)})
    return Part(words, scene.link(f"{scene.period.path}&{instants}"))


def _between(scene: Scene, start: datetime, end: datetime) -> str:
    zone = ZoneInfo(scene.tz)
    return f"{start.astimezone(zone):%H:%M} to {end.astimezone(zone):%H:%M}"


def _words(step: timedelta) -> str:
    seconds = round(step.total_seconds())
    if seconds < 60:
        return f"{seconds} seconds"
    return "a minute" if seconds == 60 else f"{seconds // 60} minutes"


def drawing(scene: Scene, heart: Answer) -> Line:
    """Return the average heart rate of each step in the band from the lowest to the highest."""
    zone = ZoneInfo(scene.tz)
    step = timedelta(milliseconds=heart["step_ms"])
    known = {datetime.fromisoformat(row["starts_at"]): row for row in heart["data"]}
    at, end = (datetime.fromisoformat(heart.at(f"/range/{name}")) for name in ("from", "to"))
    label = "%H:%M" if end - at <= LENGTHS[0] else "%H"
    ranges = []
    while at < end:
        row, local = known.get(at), at.astimezone(zone)
        ranges.append(
            Range(f"{local:{label}}", None)
            if row is None
            else Range(
                f"{local:{label}}",
                row["average"],
                row["minimum"],
                row["maximum"],
                f"{local:%H:%M}: {row['minimum']} to {row['maximum']} bpm",
            )
        )
        at += step
    return band(
        "heart",
        ranges,
        unit=Unit(" bpm", least_step=1),
        words=f"average of {_words(step)}",
        normal="lowest to highest",
        height=160,
    )
