"""What goes with what: pairs of metrics whose days go together, or of which that cannot be said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self
from urllib.parse import urlencode

from markupsafe import Markup

from resourceserver.dashboard.charts import Dot, Table, scatter, unit_of
from resourceserver.dashboard.charts.scatter import Scatter
from resourceserver.dashboard.figures import Answer, short_day
from resourceserver.dashboard.metrics import DOMAINS, METRICS, Metric, find
from resourceserver.dashboard.period import Calendar, Misaddressed, Period, Range
from resourceserver.dashboard.view import Answers, Ask, Asks, Scene, View, figures

PAIRS: Final = (
    ("asleep_ms", "focus_ms"),
    ("meeting_ms", "focus_ms"),
    ("asleep_ms", "hrv_rmssd_ms"),
)
"""The pairs of a page without a choice: each one costs time and bytes."""
OTHERS: Final = (("health:steps", "productive_ms"), ("listened_ms", "focus_ms"))
"""The pairs in the place of those for which the person has no data."""


@dataclass(frozen=True)
class Days(Range):
    """Any days of at most a year, each of which is a dot."""

    MOST = 366


@dataclass(frozen=True)
class Pair:
    """Two metrics and any days, ``/together?a=asleep_ms&b=focus_ms&from=2026-09-01&to=2026-11-21``.

    Without metrics there are a few pairs.
    """

    days: Days

    @classmethod
    def parse(cls, parts: Mapping[str, str]) -> Self:
        """Read the parts ``a`` and ``b``, and those of a range. Raises Misaddressed."""
        chosen = {name: parts[name] for name in ("a", "b") if parts.get(name)}
        if len(chosen) == 1:
            raise Misaddressed("The address must name two metrics, “a” and “b”.")
        for name, metric in chosen.items():
            try:
                find(metric)
            except Misaddressed as error:
                raise Misaddressed(
                    f"The part “{name}” of the address must be one of {', '.join(METRICS)},"
                    " or health: and the name of another metric of a device."
                ) from error
        path = parts["path"] + (f"?{urlencode(chosen)}" if chosen else "")
        return cls(Days.parse({**parts, "path": path}))

    def period(self, calendar: Calendar) -> Period:
        """Return the days as a period."""
        return self.days.period(calendar)


def chosen(scene: Scene) -> tuple[str, str] | None:
    """Return the pair that the address names."""
    return (scene.parts["a"], scene.parts["b"]) if scene.parts.get("a") else None


def asks(scene: Scene) -> Asks:
    """Return a question for each pair. A metric is not compared with itself."""
    only = chosen(scene)
    pairs = PAIRS if only is None else [only] if only[0] != only[1] else []
    return {f"pair{n}": question(scene, *pair) for n, pair in enumerate(pairs, 1)}


def more(scene: Scene, answers: Answers) -> Asks:
    """Return the questions in the place of those without a day that has both metrics."""
    if chosen(scene) is not None:
        return {}
    known = sum(answer.at("/data/n") > 0 for answer in answers.values())
    others = OTHERS[: len(PAIRS) - known]
    return {f"pair{n}": question(scene, *pair) for n, pair in enumerate(others, len(PAIRS) + 1)}


def question(scene: Scene, a: str, b: str) -> Ask:
    """Return the question about two metrics. Today is left out, because it is not over."""
    first, last = scene.period.first, min(scene.period.last, scene.today - timedelta(days=1))
    return Ask(
        "correlation",
        {
            "metric_a": a,
            "metric_b": b,
            "from": str(first),
            "to": str(max(first, last)),
            "adjust": "weekday",
            "tz": scene.tz,
        },
    )


@dataclass(frozen=True)
class Together:
    """Two metrics, and what the answer says about them."""

    a: Metric
    b: Metric
    answer: Answer
    finding: str
    """``more`` or ``less`` of one with more of the other, ``unsure``, ``few`` days, or the ``same`` value."""
    drawing: Scatter
    table: Table
    href: str
    """The page of this pair alone."""


def show(scene: Scene, answers: Answers) -> dict[str, Any]:
    """Return the pairs with data, the titles of those without, and what can be chosen."""
    only = chosen(scene)
    pairs = [together(scene, answer) for answer in answers.values()]
    known = [pair for pair in pairs if only or pair.answer.at("/data/n")]
    selected = [find(name) for name in only or first_choice(scene)]
    return {
        "only": only,
        "pairs": known,
        "empty": [pair for pair in pairs if pair not in known],
        "selected": selected,
        "domains": domains(scene, selected),
        "presets": scene.ranges("/together", "4 weeks", "3 months", "A year", **named(only)),
    }


def first_choice(scene: Scene) -> tuple[str, str]:
    """Return the pair that the form has before anything is chosen: one that the token may read, if any."""
    allowed = (
        pair
        for pair in (*PAIRS, *OTHERS, ("tracked_ms", "coding_ms"))
        if scene.scopes.issuperset(question(scene, *pair).scopes)
    )
    return next(allowed, PAIRS[0])


def domains(
    scene: Scene, selected: Sequence[Metric]
) -> Mapping[str, Sequence[tuple[Metric, bool]]]:
    """Return the metrics by their domains, each with whether the token may read it."""
    found: dict[str, list[tuple[Metric, bool]]] = {words: [] for words in DOMAINS.values()}
    for metric in {**METRICS, **{each.name: each for each in selected}}.values():
        scopes = Ask("correlation", {"metric_a": metric.name, "metric_b": "tracked_ms"}).scopes
        found[DOMAINS[scopes[-1]]].append((metric, scene.scopes.issuperset(scopes)))
    return found


def named(pair: tuple[str, str] | None) -> dict[str, str]:
    """Return the query that names a pair; an empty one without a choice."""
    return {"a": pair[0], "b": pair[1]} if pair else {}


def together(scene: Scene, answer: Answer) -> Together:
    """Return what an answer says of its two metrics."""
    a, b = (described(answer[f"metric_{letter}"]) for letter in "ab")
    write, points = figures(scene), answer["points"]
    return Together(
        a,
        b,
        answer,
        finding(answer["data"]),
        scatter(
            answer.name,
            [
                Dot(
                    point["a"],
                    point["b"],
                    f"{short_day(point['date'])}: {with_unit(write.text(point['a'], a.kind), a)}, "
                    f"{with_unit(write.text(point['b'], b.kind), b)}",
                    scene.link(f"/day/{point['date']}"),
                )
                for point in points
            ],
            x_words=a.title,
            y_words=b.title,
            x_unit=unit_of(a.kind, a.unit),
            y_unit=unit_of(b.kind, b.unit),
        ),
        Table(("Day", a.title, b.title), rows(scene, answer, a, b)),
        scene.link(f"/together?{urlencode({**named((a.name, b.name)), **scene.period.day_query})}"),
    )


def described(given: Mapping[str, Any]) -> Metric:
    """Return a metric as an answer describes it."""
    known, unit = find(given["name"]), given["unit"]
    if known.name in METRICS or unit is None:
        return known
    # The name may end with the unit, which stands behind each figure.
    title = known.title.removesuffix(f" {unit.lower()}")
    kind = {"ms": "duration", "percent": "percent", "m": "metres"}.get(unit, "count")
    suffix = "" if kind != "count" or unit == "count" else unit
    return Metric(known.name, title, kind, suffix, is_level=True)


def finding(data: Mapping[str, Any]) -> str:
    """Return what the coefficient and its interval say; ``unsure`` if they allow both signs."""
    interval = data["confidence_interval"]
    if data["reason"] == "no_variation":
        return "same"
    if data["reason"] == "not_enough_days":
        return "few"
    if interval is None or interval["low"] <= 0 <= interval["high"]:
        return "unsure"
    return "more" if data["direction"] == "positive" else "less"


def rows(scene: Scene, answer: Answer, a: Metric, b: Metric) -> Iterator[Sequence[str | Markup]]:
    """Yield the rows of the table of days, the newest first."""
    write = figures(scene)
    for n in reversed(range(len(answer["points"]))):
        yield (
            short_day(answer.at(f"/points/{n}/date")),
            write.figure(answer, f"/points/{n}/a", a.kind, a.unit, a.name),
            write.figure(answer, f"/points/{n}/b", b.kind, b.unit, b.name),
        )


def with_unit(text: str, metric: Metric) -> str:
    """Return a number with its unit in plain text."""
    return f"{text}\N{NO-BREAK SPACE}{metric.unit}" if metric.unit else text


VIEW: Final = View(
    name="together",
    title="What goes with what",
    paths=("/together",),
    address=Pair,
    endpoints=("correlation",),
    asks=asks,
    show=show,
    more=more,
)
