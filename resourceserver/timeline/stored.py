"""Values of days: those that stored summaries have, and those that are computed.

The query of an endpoint returns ``slots``, ``stored`` (measures by date), and of the other days ``reported``
and ``active`` (reported.sql, fragment days_not_stored).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from resourceserver.timeline import metrics
from resourceserver.timeline.metrics import OF_HEALTH, ActivityMetric
from shared.pipeline import Step

METRICS: Final = frozenset(get_args(ActivityMetric)) - {"session_count"}
"""The metrics that stored summaries have."""

_STORED_TOGETHER: Final = metrics.by_statement(name for name in metrics.METRICS if name in METRICS)
"""The metrics that stored summaries have, by the statements that compute them."""

_Run = tuple[str, int, int]
"""A statement, and the places of the first of some successive days and of the first day after them."""
MOST_RUNS: Final = 4
"""The most runs of days with a statement each; more of them are read as one."""


def steps(names: Iterable[str], query: Mapping[str, Any]) -> dict[str, Step]:
    """Return the statements that compute the metrics ``names`` on the days that no stored summary has.

    Where summaries have a metric, its statement computes all that they have of it: that costs as much, and
    questions about several metrics of the same days then have the same step, which runs once.
    """
    slots = query["slots"]
    reported = [*(query["stored"] or {}), *query["reported"]]
    named: dict[_Run, list[str]] = {}
    for name in dict.fromkeys(names):
        for run in _runs(name, query):
            named.setdefault(run, []).append(name)
    found: dict[str, Step] = {}
    for (statement, begin, end), of_run in named.items():
        days = {each: of_all[begin:end] for each, of_all in slots.items()}
        found[_key((statement, begin, end))] = (
            metrics.STATEMENTS[statement],
            metrics.values(
                _STORED_TOGETHER[statement] if METRICS.issuperset(of_run) else of_run,
                days,
                reported=[day for day in reported if days["dates"][0] <= day <= days["dates"][-1]],
            ),
        )
    return found


def values(name: str, answers: Mapping[str, Any]) -> list[float | None]:
    """Return the metric's value on each day, from the answers of the query and of its statements."""
    query = answers["query"]
    dates = query["slots"]["dates"]
    found: list[float | None] = [None] * len(dates)
    if name in METRICS:
        # Nothing happened on a day that was reported without a session that is not idle.
        known = dict.fromkeys(query["reported"], 0)
        known |= {day: measures[name] for day, measures in (query["stored"] or {}).items()}
        found = [known.get(day) for day in dates]
    for run in _runs(name, query):
        _, begin, end = run
        found[begin:end] = answers[_key(run)]["days"][name]
    return found


def _key(run: _Run) -> str:
    return " ".join(map(str, run))


def _runs(name: str, query: Mapping[str, Any]) -> list[_Run]:
    """Return the runs of days whose values are computed."""
    statement = (metrics.find(name) or OF_HEALTH).statement
    dates = query["slots"]["dates"]
    if name not in METRICS:
        return [(statement, 0, len(dates))]
    unread = set(query["active"])
    runs: list[_Run] = []
    for n, day in enumerate(dates):
        if day in unread:
            begins = runs.pop()[1] if runs and runs[-1][2] == n else n
            runs.append((statement, begins, n + 1))
    return runs if len(runs) <= MOST_RUNS else [(statement, runs[0][1], runs[-1][2])]
