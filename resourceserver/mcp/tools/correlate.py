"""The tool correlate: the correlation of two metrics, with the caution that it is not causation.

Most metrics have a weekly rhythm, so by default days are compared with the mean of their weekday. Consecutive
days are alike, so they count as fewer independent days; and among many comparisons some are strong by
chance. The adjusted p-value accounts for both.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from resourceserver import timeline
from resourceserver.api import parameters
from resourceserver.api.bodies import Count
from resourceserver.endpoints import correlation as endpoint
from resourceserver.mcp import tool
from resourceserver.mcp.arguments import PERIODS, TEXT, WHOLE, InPeriod, Period, PeriodName
from resourceserver.mcp.tool import ENTRY, Answer, Part, Tool
from resourceserver.mcp.tools import measures
from resourceserver.mcp.tools.measures import MetricRequest
from resourceserver.timeline import correlation, metrics
from resourceserver.timeline.correlation import Adjust, Method
from resourceserver.timeline.metrics import METRICS

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = tool.load(Path(__file__).with_name("correlate.sql"), _TIMELINE / "reported.sql")

MOST_PARTNERS: Final = 10
FEWEST_DAYS: Final = 10
"""The fewest days with both values for a partner; with fewer, the strongest correlations are chance."""
HEART_RATE: Final = "health:heart_rate"
"""The metric of health that a search includes; METRICS lists the others by name."""
MOST_DAYS: Final = 366
"""The most days of a search for partners, the last ones of a period: more would take too long."""
LEVEL: Final = 0.05
"""The corrected p-value below which a result counts as more than chance."""

MetricName = Annotated[endpoint.MetricName, TEXT, WithJsonSchema({"type": "string"})]


class Correlate(InPeriod):
    """Two metrics, or one to compare with all others."""

    DEFAULT: ClassVar[Period] = "last_90_days"

    period: PeriodName | None = Field(
        default=None,
        description=f"{PERIODS}. Default: last_90_days. Today never counts.",
    )
    metric_a: MetricName | None = Field(
        default=None,
        description="A metric as in compare_periods; with metric_b.",
    )
    metric_b: MetricName | None = Field(default=None, description="The other metric.")
    with_: MetricName | None = Field(
        default=None,
        alias="with",
        description=f"In place of both: one metric to compare with all others but its own_family; the"
        f" {MOST_PARTNERS} that correlate most. Default: productive_ms.",
    )
    method: Method = Field(
        default="pearson",
        description="spearman: by ranks, so that extraordinary days have little effect.",
    )
    lag: Annotated[int, Field(ge=-30, le=30), WHOLE] = Field(
        default=0,
        description="By how many days the other metric is later; 1: each day with the next.",
    )
    adjust: Adjust = Field(
        default="weekday",
        description="weekday: relative to the mean of the weekday, since weekends make most metrics alike.",
    )

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        reason = None
        if self.with_ is not None and (self.metric_a is not None or self.metric_b is not None):
            reason = "give either metric_a and metric_b, or with"
        elif (self.metric_a is None) is not (self.metric_b is None):
            reason = (
                "metric_a and metric_b are needed together; to look for partners of one, give with"
            )
        if reason is not None:
            raise PydanticCustomError("contradiction", "{reason}", {"reason": reason})
        return self

    def _pair(self) -> tuple[str, ...]:
        if self.metric_a is not None and self.metric_b is not None:
            return self.metric_a, self.metric_b
        return (self.with_ or "productive_ms",)

    def named(self) -> dict[str, tuple[str, ...]]:
        """Return the names of metrics by argument."""
        pair = self._pair()
        arguments = ("with",) if len(pair) == 1 else ("metric_a", "metric_b")
        return {argument: (name,) for argument, name in zip(arguments, pair, strict=True)}

    def scopes(self) -> tuple[str, ...]:
        """Return the scopes of the named metrics."""
        known = [metrics.find(name) for name in self._pair()]
        return tuple(dict.fromkeys(metric.scope for metric in known if metric is not None))

    def values(self) -> dict[str, Any]:
        """Return the values with the names and scopes of the metrics to compare."""
        rest = super().values()
        for name in ("metric_a", "metric_b", "with"):
            del rest[name]
        pair = self._pair()
        is_search = len(pair) == 1
        family = metrics.family(pair[0]) if is_search else frozenset()
        others = [name for name in (*METRICS, HEART_RATE) if name not in family]
        names = list(dict.fromkeys((*others, *pair) if is_search else pair))
        known = {name: metrics.find(name) for name in names}
        rest |= measures.names_values(self.named())
        return rest | {
            "pair": list(pair),
            "is_search": is_search,
            "family": sorted(family - set(pair)),
            "most_days": MOST_DAYS if is_search else parameters.MOST_DAYS + 1,
            "metrics": names,
            "metric_scopes": [metric.scope for metric in known.values() if metric is not None],
            "is_counted": any(map(metrics.is_counter, names)),
        }


class Described(endpoint.Described):
    """One metric over all days with a value."""

    average_text: str | None


class Pairing(endpoint.Coefficients):
    """The correlation of two metrics over the days with both values."""

    metric_a: Described | None
    """Null in a search, where it is the same in all rows."""
    metric_b: Described
    is_beyond_chance: bool
    """Whether p_value_adjusted is below 0.05."""
    phrase: str | None
    """Null in a search, where it would say the same as the other members."""


class CorrelateAnswer(Answer):
    """One pair of metrics, or those that correlate most with one."""

    method: Method
    adjust: Adjust
    lag_days: int
    days: Count
    """Days of the range."""
    metric_a: Described | None
    """The metric that was compared with others; null if two were given."""
    comparisons: Count
    """The number of pairs that were compared, including those that are not in the answer."""
    data: list[Pairing]
    """The strongest first, 10 at most."""
    not_compared: list[str]
    """Metrics with too few days in common with the requested one, or that never vary."""
    own_family: list[str]
    """Metrics that were not compared because they partly measure the same thing. Tracked and productive time,
    for example, do."""
    missing_scopes: list[str]
    """Scopes that the token lacks, and that further metrics to compare need."""
    caution: str


def _request(frame: Mapping[str, Any], _: Mapping[str, Any]) -> MetricRequest:
    """Return all metrics to compare."""
    names = [metric["name"] for metric in frame["metrics"]]
    return MetricRequest(names, frame["slots"], frame["reported"])


def _compared(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with the correlations, computed from the values of days that the queries returned.

    Raises ArgumentsProblem for a metric without any data.
    """
    measures.unmatched(answer.pop("names"))
    values = {
        name: of_days
        for found in measures.taken(answer)
        for name, of_days in (found["days"] or {}).items()
    }
    known = {
        metric["name"]: metric | {"values": values[metric["name"]]}
        for metric in answer["frame"]["metrics"]
    }
    pair, is_search, family = (answer.pop(name) for name in ("pair", "is_search", "family"))
    first = known[pair[0]]
    others = [metric for name, metric in known.items() if name not in pair] if is_search else []
    partners = others if is_search else [known[pair[1]]]
    dates = answer["frame"]["slots"]["dates"]
    found = [_paired(first, other, dates, answer) for other in partners]
    fewest = FEWEST_DAYS if is_search else 0
    compared = [each for each in found if each["coefficient"] is not None and each["n"] >= fewest]
    for each, p in zip(
        compared,
        correlation.corrected([each["p_value_adjusted"] for each in compared]),
        strict=True,
    ):
        each |= {"p_value_adjusted": p, "is_beyond_chance": p < LEVEL}
    listed = sorted(compared, key=lambda each: -abs(each["coefficient"])) if is_search else found
    for each in listed:
        each["phrase"] = None if is_search else _phrase(each)
    left_out = [each["metric_b"]["name"] for each in found if each not in compared]
    described = found[0]["metric_a"] if is_search and found else None
    if is_search:
        listed = [each | {"metric_a": None} for each in listed]
    return answer | {
        "metric_a": described,
        "comparisons": len(compared),
        "data": [_rounded(each) for each in listed[:MOST_PARTNERS]],
        "not_compared": left_out,
        "missing_scopes": answer["missing_scopes"] if is_search else [],
        "own_family": family,
        "caution": _caution(len(compared), answer["adjust"]),
        "truncated": answer["truncated"] or len(listed) > MOST_PARTNERS,
    }


def _paired(
    first: dict[str, Any], other: dict[str, Any], dates: list[str], answer: dict[str, Any]
) -> dict[str, Any]:
    """Return a Pairing without its phrase; its adjusted p-value is still that of one comparison."""
    days, lag = answer["days"], answer["lag_days"]
    # The values of both begin with the first day that is read for either.
    begins = max(-lag, 0)
    left = first["values"][begins : begins + days]
    right = other["values"][begins + lag : begins + lag + days]
    # Values of a day that is not over are missing.
    right += [None] * (len(left) - len(right))
    compared = endpoint.compared(
        left, right, dates[begins : begins + days], answer["method"], answer["adjust"]
    )
    return compared | {
        "metric_a": _described(first, left),
        "metric_b": _described(other, right),
        "is_beyond_chance": False,
    }


def _rounded(pairing: dict[str, Any]) -> dict[str, Any]:
    """Return a Pairing with four decimals in coefficients, and two significant digits in p-values."""
    interval = pairing["confidence_interval"]
    return pairing | {
        "coefficient": _to(pairing["coefficient"], ".4f"),
        "confidence_interval": interval
        and interval | {end: _to(interval[end], ".4f") for end in ("low", "high")},
        "p_value": _to(pairing["p_value"], ".2g"),
        "p_value_adjusted": _to(pairing["p_value_adjusted"], ".2g"),
    }


def _to(value: float | None, digits: str) -> float | None:
    return None if value is None else float(format(value, digits))


def _described(metric: dict[str, Any], values: list[float | None]) -> dict[str, Any]:
    name = metric["name"]
    description = endpoint.described(metric, [value for value in values if value is not None])
    words = measures.words(description["average"], name, description["unit"])
    return {"name": name, **description, "average_text": words}


def _phrase(pairing: dict[str, Any]) -> str:
    a, b, n = pairing["metric_a"]["name"], pairing["metric_b"]["name"], pairing["n"]
    if pairing["reason"] == "not_enough_days":
        return f"{a} and {b} both have values on only {n} days, which is too few."
    if pairing["reason"] == "no_variation":
        return f"{a} or {b} never varies, so there is no correlation."
    strength = pairing["strength"].replace("_", " ")
    verdict = (
        "more than chance explains" if pairing["is_beyond_chance"] else "which may well be chance"
    )
    return (
        f"{a} and {b}: {strength} {pairing['direction']} correlation,"
        f" r = {pairing['coefficient']:.2f} over {n} days, {verdict}."
    )


_THIRD: Final[Mapping[Adjust, str]] = {
    "weekday": "such as a holiday or a season, may change both (the weekday is adjusted for)",
    "none": "such as the weekday, may change both",
}


def _caution(comparisons: int, adjust: Adjust) -> str:
    many = f"{comparisons or 'No'} pair{' was' if comparisons == 1 else 's were'} compared."
    if comparisons > 1:
        many = (
            f"{comparisons} pairs were compared, some of which may be strong by chance;"
            " p_value_adjusted accounts for this and p_value does not."
        )
    return (
        f"Correlation is not causation: a third factor, {_THIRD[adjust]}, and metrics that are"
        " parts of each other always correlate. Consecutive days are alike (autocorrelation), so they count"
        f" as fewer independent days. {many}"
    )


TOOLS: Final = [
    Tool(
        name="correlate",
        title="Correlation",
        description="Whether two daily metrics correlate, or which ones correlate most with one: coefficient,"
        " interval, and whether it is more than chance. Use it for 'Does sleep affect my coding?' and 'What"
        " goes along with productive days?' (with). Not for values of days, and never proof of a cause: pass"
        " on the caution.",
        scope=ENTRY,
        arguments=Correlate,
        answer=CorrelateAnswer,
        frame=SQL["correlate_frame"],
        parts=(
            Part(SQL["correlate"]),
            measures.names_part(Correlate.named),
            *measures.parts(_request),
        ),
        finish=_compared,
        rows="data",
    )
]
