"""Values of metrics in answers: rounded, in words, and compared with the usual ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from resourceserver.api.bodies import Body, Count
from resourceserver.mcp import names, tool
from resourceserver.mcp.arguments import Arguments
from resourceserver.mcp.tool import Part
from resourceserver.timeline import metrics
from shared import durations

_NAMES: Final = tool.load(Path(__file__).with_name("names.sql"))

OF_NIGHTS: Final = tuple(
    name for name, metric in metrics.METRICS.items() if metric.scope == "read:health"
)
"""Metrics of health that have one value a day."""
ALL_DAYS: Final = 28
"""The days before a day with which it is compared."""
FEWEST_DAYS: Final = 7
"""The fewest days from which a normal value is computed."""


@dataclass(frozen=True)
class MetricRequest:
    """The metrics that an answer needs, and their days."""

    names: Sequence[str]
    slots: metrics.Slots
    reported: Sequence[str]
    """Days on which any tracker reported anything."""
    periods: Mapping[str, tuple[str, str]] | None = None
    """The first and the last day of each period by its name; None for the values of days."""
    always: tuple[str, ...] = ()
    """Statements that run even if none of their metrics is requested."""


def parts(ask: Callable[[Mapping[str, Any], Mapping[str, Any]], MetricRequest]) -> tuple[Part, ...]:
    """Return the statements of all metrics as parts. One runs if ``ask`` names a metric of it."""

    def part(statement: str) -> Part:
        def values(frame: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
            request = ask(frame, given)
            names = metrics.by_statement(request.names).get(statement, [])
            if not names and statement not in request.always:
                return None
            return metrics.values(
                names, request.slots, reported=request.reported, periods=request.periods
            )

        return Part(metrics.SQL[statement], name=statement, ask=values)

    return tuple(part(statement) for statement in metrics.SQL)


def taken(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Remove the results of these parts from the answer of a tool, and yield them."""
    for statement in metrics.SQL:
        measured = answer.pop(statement)
        if measured is not None:
            yield measured


def names_part(named: Callable[[Any], Mapping[str, Sequence[str]]]) -> Part:
    """Return the part that looks up metrics of devices, if arguments name any.

    ``named`` returns the names of metrics in them by argument.
    """

    def is_wanted(given: Arguments) -> bool:
        return any(name.startswith("health:") for each in named(given).values() for name in each)

    return Part(_NAMES["names_of_metrics"], name="names", is_wanted=is_wanted)


def names_values(named: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the parameters of this part."""
    pairs = [(argument, name) for argument, each in named.items() for name in each]
    return {"arguments": [pair[0] for pair in pairs], "names": [pair[1] for pair in pairs]}


def unmatched(checked: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the Unmatched of the row of this part; metrics of nights are suggested too.

    Raises ArgumentsProblem if no name of an argument is known.
    """
    if checked is None:
        return []
    known = {argument: [*OF_NIGHTS, *each] for argument, each in checked["known"].items()}
    return names.unmatched({"given": checked["given"], "known": known})


class Measure(Body):
    """The value of a metric on a day, and its mean on the 28 days before."""

    metric: str
    value: float | None
    """Null if there is no data."""
    value_text: str | None
    """Null for a plain number."""
    normal: float | None
    """The mean of the days with a value, each up to normal_until; null without any."""
    days: Count | None
    """The number of these days; null if it is 28."""
    z: float | None
    """The difference between value and normal in standard deviations; null with fewer than seven days, or if
    all of them have the same value."""
    phrase: str
    """Much more or less: by two standard deviations; about as usual: by less than one."""


def is_duration(name: str, unit: str | None) -> bool:
    """Tell whether values are durations; heart rate variability, in milliseconds, is not one."""
    known = metrics.METRICS.get(name)
    return known is not None and unit == "ms" and known.decimals == 0


def rounded(value: float | None, name: str, unit: str | None) -> float | None:
    """Return a value with at most two decimals, a duration with none."""
    if value is None:
        return None
    if is_duration(name, unit):
        return round(value)
    number = round(float(value), 2)
    return int(number) if number.is_integer() else number


def words(value: float | None, name: str, unit: str | None) -> str | None:
    """Return a rounded value in words.

    They include the unit only if it is one of the service's own: a tracker may send any text as a unit, and
    the words become part of sentences that an assistant takes for the service's.
    """
    if value is None:
        return None
    if is_duration(name, unit):
        return durations.text(round(value))
    known = metrics.find(name)
    if known is not None and known.unit == "m":
        return distance(value)
    if known is None or known.unit in (None, "count", "score"):
        return f"{value}"
    return f"{value} %" if known.unit == "percent" else f"{value} {known.unit}"


def distance(metres: float | None) -> str | None:
    """Return a distance in words: in kilometres from 1,000 m on."""
    if metres is None:
        return None
    return f"{round(metres)} m" if round(abs(metres)) < 1000 else f"{metres / 1000:.1f} km"


def measure(compared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Measure of a metric from a result with ``value``, ``normal``, ``deviation`` and ``days``."""
    name: str = compared["metric"]
    known = metrics.METRICS[name]
    value, normal = (
        rounded(_number(compared[key]), name, known.unit) for key in ("value", "normal")
    )
    z = _z(compared)
    text = words(value, name, known.unit)
    usual = f"usually {words(normal, name, known.unit)}"
    return {
        "metric": name,
        "value": value,
        "value_text": None if text == f"{value}" else text,
        "normal": normal,
        "days": None if compared["days"] == ALL_DAYS else compared["days"],
        "z": z,
        "phrase": _phrase(value, normal, usual, z, compared["days"]),
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _z(compared: Mapping[str, Any]) -> float | None:
    if compared["value"] is None or compared["days"] < FEWEST_DAYS or not compared["deviation"]:
        return None
    away = float(compared["value"]) - float(compared["normal"])
    return round(away / float(compared["deviation"]), 2)


def _phrase(
    value: float | None, normal: float | None, usual: str, z: float | None, days: int
) -> str:
    if value is None:
        return "not known"
    if normal is None or days < FEWEST_DAYS:
        return "too few earlier days to compare with"
    if z is None:
        how = (
            "the same as every day"
            if value == normal
            else "more than on any day"
            if value > normal
            else "less than on any day"
        )
    else:
        how = _how(z)
    return f"{how} ({usual})"


def _how(z: float) -> str:
    if abs(z) < 1:
        return "about as usual"
    much = "much " if abs(z) >= 2 else ""
    return f"{much}more than usual" if z > 0 else f"{much}less than usual"
