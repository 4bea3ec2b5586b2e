"""Goals for days, weeks and months, and their progress."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field

from resourceserver import timeline
from resourceserver.api.bodies import Body, Count, DayRangeEcho, Timestamp
from resourceserver.api.endpoint import Answers, Endpoint, Further
from resourceserver.api.parameters import Flag, Params, Zone, known_zone
from resourceserver.timeline import metrics
from resourceserver.timeline.metrics import ActivityMetric
from shared import pipeline, queries
from shared.pipeline import Step

_TIMELINE: Final = Path(timeline.__file__).parent
SQL: Final = queries.load(_TIMELINE / "reported.sql", Path(__file__).with_name("goals.sql"))
STATEMENTS: Final = {
    "slots_of_periods": pipeline.statement(SQL["slots_of_periods"]),
    **{name: metrics.STATEMENTS[name] for name in metrics.OF_ACTIVITY},
}
"""The statements after the query."""

STORED: Final = frozenset(get_args(ActivityMetric)) - {"session_count", "longest_focus_ms"}
"""The metrics whose stored values of days add up to that of a longer period."""
RECENT: Final = 8
"""The recent periods of every goal: the current one, and seven finished ones."""
CURRENT: Final = "current"
"""The only round of a question without history."""
ROUNDS: Final = {
    CURRENT: (0, 1),
    "recent": (0, RECENT),
    "finished": (1, RECENT),
    "older": (RECENT, 60),
    "oldest": (60, None),
}
"""Which periods a round reads, by their ages: the first one, and the one after the last."""
HISTORY: Final = ("recent", "older", "oldest")
"""The rounds of a question with history, in their order."""
FINISHED: Final = ("finished", "older", "oldest")
"""The rounds of a question with history and without the current period."""

Status = Literal["met", "missed", "in_progress", "exceeded", "skipped"]
Weekday = Annotated[int, Field(ge=1, le=7)]


class GoalsParams(Params):
    """The zone of the periods, and which of them are read."""

    tz: Zone | None = Field(
        default=None,
        description="IANA time zone in which periods begin; by default the caller's own.",
    )
    include_history: Flag = Field(
        default=True,
        description="Whether finished periods are read; without them, `history` is empty and `streak` null.",
    )
    include_current: Flag = Field(
        default=True,
        description="Whether the current period is read; without it, `progress` is null.",
    )

    def values(self) -> dict[str, Any]:
        """Return the zone, or null for the caller's own, and which periods are read."""
        return {
            "tz": self.tz and known_zone(self.tz),
            "given_tz": self.tz,
            "include_history": self.include_history,
            "include_current": self.include_current,
        }


class Filter(Body):
    """The activity that counts; an empty list includes everything."""

    categories: list[str]
    """Only these categories count."""
    apps: list[str]
    """Only these applications count."""
    projects: list[str]
    """Only these projects count."""
    languages: list[str]
    """Only these programming languages count."""


class Progress(Body):
    """The progress of the current period."""

    period: DayRangeEcho
    """The days of the current period."""
    tz: str
    """The time zone in which it begins."""
    value: Count
    """The value so far, in the goal's unit."""
    target: Count
    percent: Annotated[float, Field(ge=0)] | None
    """Percent of the target, possibly more than 100; null where the target is 0."""
    status: Status
    """Whether the goal is met so far."""
    remaining: Count
    """The amount left until the target: still missing for at_least, still allowed for at_most."""


class Finished(DayRangeEcho):
    """A finished period."""

    value: Count
    """The value of the period, in the goal's unit."""
    status: Status
    """Whether the goal was met."""


class Goal(Body):
    """One goal."""

    id: str
    title: str
    metric: ActivityMetric
    comparison: Literal["at_least", "at_most"]
    """Whether the target is a minimum or a maximum."""
    target: Count
    unit: Literal["ms", "count"]
    """Milliseconds, or a number of times."""
    period: Literal["day", "week", "month"]
    """How long one period is."""
    days_of_week: list[Weekday]
    """ISO weekdays on which it counts: 1 is Monday."""
    filter: Filter
    """The activity that counts."""
    enabled: bool
    progress: Progress | None
    """The current period; null if `include_current` is false."""
    streak: Count | None
    """The number of periods met in a row up to the last finished one; skipped periods are ignored. Covers
    about a year. Null without history."""
    history: list[Finished]
    """The last seven finished periods, in order; empty without history."""
    created_at: Timestamp


class GoalsBody(Body):
    """All goals, the oldest first."""

    tz: str
    """The time zone in which periods begin."""
    data: list[Goal]
    count: Count


# Values are read for the recent periods always, and for older ones, in two rounds, only if a streak of met
# periods may continue there. Each statement covers the periods of one kind, so it reads no further back than
# these need. Goals that count everything take the values of finished periods from the stored summaries, where
# these are up to date.


def _first(values: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statements that compute the instants of the periods of the first round."""
    query = answers["query"]
    # Tools have no such parameters, and always read everything.
    has_history, has_current = (
        values.get(name, True) for name in ("include_history", "include_current")
    )
    if not has_history:
        return _slots(query, query["data"], CURRENT) if has_current else {}
    return _slots(query, query["data"], (HISTORY if has_current else FINISHED)[0])


def _more(_: Mapping[str, Any], answers: Answers) -> dict[str, Step]:
    """Return the statements for the periods of the first round, then those for older ones."""
    query = answers["query"]
    goals = query["data"]
    answered = {name.split()[0] for name in answers}
    for when in _rounds(answers):
        if when not in answered:
            return _slots(query, goals, when)
        if f"{when}_reached" not in answered and (steps := _steps(answers, goals, when)):
            return steps
        goals = [goal for goal in goals if not _has_failed(goal, answers, when)]
    return {}


def _rounds(answers: Answers) -> tuple[str, ...]:
    """Return the rounds of a question, whose first one has been read if it has any."""
    read = {name.split()[0] for name in answers}
    return next((rounds for rounds in (HISTORY, FINISHED, (CURRENT,)) if rounds[0] in read), ())


def _has_failed(goal: Mapping[str, Any], answers: Answers, when: str) -> bool:
    """Tell whether one of the finished periods of a round has failed a goal."""
    slots = enumerate(_reached(goal, answers, when), ROUNDS[when][0])
    return any(age > 0 and _status(goal, age, slot) in _FAILED for age, slot in slots)


def _slots(
    query: Mapping[str, Any], goals: Iterable[Mapping[str, Any]], when: str
) -> dict[str, Step]:
    """Return the statements that compute the instants of the goals' periods, one for each kind."""
    steps: dict[str, Step] = {}
    for kind in sorted({goal["period"] for goal in goals}):
        periods = query["periods"][kind]
        # The newest come first, and slots are in order of time.
        looked_at = periods[slice(*ROUNDS[when])][::-1]
        if not looked_at:
            continue
        steps[f"{when} {kind}"] = (
            STATEMENTS["slots_of_periods"],
            {
                "first_days": [each["from"] for each in looked_at],
                "last_day": looked_at[-1]["to"],
                "tz": query["tz"],
            },
        )
    return steps


def _steps(answers: Answers, goals: Iterable[Mapping[str, Any]], when: str) -> dict[str, Step]:
    """Return the statements that compute the values of goals in periods whose values are not stored."""
    computed: dict[str, list[Mapping[str, Any]]] = {}
    for goal in goals:
        computed.setdefault(_step(goal, when), []).append(goal)
    steps: dict[str, Step] = {}
    for name, each in computed.items():
        answer = answers.get(f"{when} {each[0]['period']}")
        if answer is None:
            continue
        places = [n for n, stored in enumerate(_stored(each[0], answer, when)) if stored is None]
        if places:
            steps[name] = (
                STATEMENTS[metrics.METRICS[each[0]["metric"]].statement],
                metrics.values(
                    sorted({goal["metric"] for goal in each}),
                    {key: [values[n] for n in places] for key, values in answer["slots"].items()},
                    goals=[goal["id"] for goal in each],
                ),
            )
    return steps


def _step(goal: Mapping[str, Any], when: str) -> str:
    """Return the name of the step that computes values of a goal; goals of one step need the same periods."""
    statement = metrics.METRICS[goal["metric"]].statement
    return f"{when}_reached {statement} {goal['period']}{' stored' if _is_stored(goal) else ''}"


def _is_stored(goal: Mapping[str, Any]) -> bool:
    """Tell whether stored summaries may have the values of a goal: sums over days without a filter."""
    return goal["metric"] in STORED and not any(goal["filter"].values())


def _stored(goal: Mapping[str, Any], answer: Mapping[str, Any], when: str) -> list[int | None]:
    """Return the stored values of a goal in order of time; None where the value is computed.

    The value of the current period always is.
    """
    sums = answer["stored"]
    if not _is_stored(goal):
        return [None] * len(sums)
    values = [None if each is None else each[goal["metric"]] for each in sums]
    return [*values[:-1], None] if ROUNDS[when][0] == 0 else values


def _reached(goal: Mapping[str, Any], answers: Answers, when: str) -> Iterator[dict[str, Any]]:
    """Yield the values of a goal in each period that was read in a round, the newest first."""
    answer = answers.get(f"{when} {goal['period']}")
    if answer is None:
        return
    step = answers.get(_step(goal, when))
    computed = reversed(step["goals"][goal["id"]] if step is not None else [])
    for value in reversed(_stored(goal, answer, when)):
        yield next(computed) if value is None else {"value": value}


_FAILED: Final = ("missed", "exceeded")


def _status(goal: Mapping[str, Any], age: int, slot: Mapping[str, Any]) -> Status:
    """Return the status of a goal in the period that is ``age`` periods old."""
    is_minimum = goal["comparison"] == "at_least"
    if age in goal["skipped"]:
        return "skipped"
    if is_minimum and slot["value"] >= goal["target"]:
        return "met"
    if not is_minimum and slot["value"] > goal["target"]:
        return "exceeded"
    if age == 0:
        return "in_progress"
    return "missed" if is_minimum else "met"


def _finish(answers: Answers) -> dict[str, Any]:
    query = answers["query"]
    # A later round has no values of a goal that failed in an earlier one, and nothing asks for them.
    rounds = _rounds(answers)
    data = [
        _goal(
            goal,
            query,
            chain.from_iterable(_reached(goal, answers, when) for when in rounds),
            rounds,
        )
        for goal in query["data"]
    ]
    return {"tz": query["given_tz"], "data": data, "count": len(data)}


def _goal(
    goal: Mapping[str, Any],
    query: Mapping[str, Any],
    values: Iterator[dict[str, Any]],
    rounds: tuple[str, ...],
) -> dict[str, Any]:
    """Return a goal as answers have it. ``values`` are read no further than its streak goes."""
    periods = query["periods"][goal["period"]]
    progress = None
    if rounds in (HISTORY, (CURRENT,)):
        slot = next(values)
        progress = {
            "period": periods[0],
            "tz": query["given_tz"],
            "value": slot["value"],
            "target": goal["target"],
            "percent": slot["percent"],
            "status": _status(goal, 0, slot),
            "remaining": slot["remaining"],
        }
    slots = dict(enumerate(islice(values, RECENT - 1), 1))
    statuses = {age: _status(goal, age, slot) for age, slot in slots.items()}
    older = (_status(goal, age, slot) for age, slot in enumerate(values, RECENT))
    rest = {name: value for name, value in goal.items() if name not in ("skipped", "created_at")}
    return rest | {
        "progress": progress,
        "streak": _streak(chain(statuses.values(), older))
        if rounds in (HISTORY, FINISHED)
        else None,
        "history": [
            {**periods[age], "value": slots[age]["value"], "status": statuses[age]}
            for age in reversed(slots)
        ],
        "created_at": goal["created_at"],
    }


def _streak(statuses: Iterable[Status]) -> int:
    """Return how many periods were met in a row; skipped periods are ignored."""
    length = 0
    for status in statuses:
        if status in _FAILED:
            break
        length += status == "met"
    return length


ENDPOINTS: Final = [
    Endpoint(
        name="goals",
        path="/api/v1/goals",
        scope="read:activity",
        summary="Goals and their progress.",
        params=GoalsParams,
        body=GoalsBody,
        query=SQL["goals"],
        further=Further(STATEMENTS, _first, _finish, _more),
    ),
]
