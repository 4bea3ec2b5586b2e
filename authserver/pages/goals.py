"""Settings → Goals: what a person wants of their days, weeks and months.

The form reads as a sentence: "At least 3 hours of coding on weekdays". The sentence is the title of the goal,
unless the person gives it another one. A goal that is removed can be added again: the page that follows has
all of it in a form. The role of this server may not read activity; it calls functions that check the sign-in
session themselves (``sql/functions/goals.sql``).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, Self
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.requests import Request
from starlette.responses import Response

from authserver import forms, rows
from authserver.errors import InvalidRequest
from authserver.forms import Form
from authserver.pages import back, categories, sign_in
from authserver.people import names
from authserver.people.sessions import SignInNeeded, Visit
from authserver.rows import Parameters
from authserver.web.page import Page
from authserver.web.server import Server

SQL: Final = rows.load("pages/goals.sql")

PATH: Final = "/settings/goals"

COMPARISONS: Final = {"at_least": "At least", "at_most": "At most"}
UNITS: Final = {"hours": "hours", "minutes": "minutes", "times": "times"}
METRICS: Final = {
    "coding_ms": "coding",
    "focus_ms": "focus",
    "longest_focus_ms": "focus in one stretch",
    "productive_ms": "productive time",
    "distracted_ms": "distracting time",
    "neutral_ms": "neutral time",
    "tracked_ms": "tracked time",
    "session_count": "sessions",
    "app_switches": "switches between applications",
}
FILTERS: Final = {
    "": "all of it",
    "categories": "only the category",
    "apps": "only the application",
    "projects": "only the project",
    "languages": "only the language",
}
PERIODS: Final = {"day": "a day", "week": "a week", "month": "a month"}
DAYS: Final = {
    "1234567": "every day",
    "12345": "weekdays",
    "67": "weekends",
    "choose": "the days that I choose",
}
"""The form values of days: ISO weekdays, or that each day has a box."""
WEEKDAYS: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday"),
    *("Friday", "Saturday", "Sunday"),
)
EVERY_DAY: Final = (1, 2, 3, 4, 5, 6, 7)
MAX_NAME: Final = 255

_OF_TIME: Final = ("categories", "apps")
_OF_CODE: Final = ("projects", "languages")
_WITHOUT_FILTER: Final = frozenset({"app_switches", "focus_ms", "longest_focus_ms"})
_MS: Final = {"hours": 3_600_000, "minutes": 60_000}
_LONGEST_MS: Final = {"day": 24 * 3_600_000, "week": 168 * 3_600_000, "month": 744 * 3_600_000}
_MOST_TIMES: Final = 1_000_000
_MAX_TITLE: Final = 200

_PROBLEMS: Final = {
    "exists": "You have a goal for exactly that already.",
    "too_many": "There is room for 100 goals. Remove one first.",
}
_GONE: Final = "That goal does not exist any more."
_TOO_RICH: Final = (
    "This form cannot hold that goal, which is restricted to several things. Remove it."
)
_DONE: Final = {
    "added": "The goal is added.",
    "saved": "The goal is saved.",
    "paused": "The goal is paused.",
    "continued": "The goal counts again.",
    "removed": "The goal is removed.",
    "restored": "The goal is back.",
}

Weekday = Annotated[int, Field(ge=1, le=7)]


class Goal(BaseModel):
    """A goal as it is stored, and as the form of the button "Undo" sends it back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    goal_id: UUID
    title: Annotated[str, Field(min_length=1, max_length=_MAX_TITLE)]
    metric: Literal[
        "tracked_ms",
        "productive_ms",
        "distracted_ms",
        "neutral_ms",
        "coding_ms",
        "app_switches",
        "session_count",
        "focus_ms",
        "longest_focus_ms",
    ]
    comparison: Literal["at_least", "at_most"]
    target: Annotated[int, Field(ge=0, le=1_000_000_000_000)]
    period: Literal["day", "week", "month"]
    days_of_week: Annotated[tuple[Weekday, ...], Field(min_length=1, max_length=7)]
    categories: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    is_enabled: bool = True

    @model_validator(mode="after")
    def _is_storable(self) -> Self:
        """Check what the constraints of the table ``activity.goal`` say about several columns."""
        texts = (self.title, *self.categories, *self.apps, *self.projects, *self.languages)
        if not all(map(forms.is_text, texts)):
            raise ValueError("a text has NUL in it")
        if self.period != "day" and set(self.days_of_week) != set(EVERY_DAY):
            raise ValueError("only goals of a day can be for some days of the week")
        if any(kind not in filters(self.metric) for kind, _ in self.restrictions):
            raise ValueError("the metric cannot be restricted to that")
        return self

    @property
    def restrictions(self) -> list[tuple[str, str]]:
        """What the goal is restricted to: the kinds and the names."""
        return [(kind, name) for kind in FILTERS if kind for name in getattr(self, kind)]


@dataclass(frozen=True)
class Draft:
    """The form values of a goal."""

    goal: str = ""
    """The id of the goal that the form changes; empty: it adds one."""
    title: str = ""
    comparison: str = "at_least"
    amount: str = ""
    unit: str = "hours"
    metric: str = "coding_ms"
    filter: str = ""
    name: str = ""
    period: str = "day"
    days: str = "1234567"
    on: Sequence[str] = ()
    """The boxes of days that are ticked."""


@dataclass(frozen=True)
class _Outcome:
    problem: str | None


@dataclass(frozen=True)
class _Change:
    is_done: bool


def filters(metric: str) -> tuple[str, ...]:
    """Return what a metric can be restricted to (``activity.goal``)."""
    if metric in _WITHOUT_FILTER:
        return ()
    return _OF_CODE if metric == "coding_ms" else _OF_TIME


async def show(server: Server, request: Request) -> Response:
    """Show the goals and the form, which is empty or filled with the goal that the query names."""
    query, linked, visit = await back.read_link(server, request, PATH, "goal")
    done = _DONE.get(query.get("done") or "")
    chosen = _id(linked.get("goal"))
    if chosen is None:
        switched = _id(query.get("switched"))
        return await _answer(server, visit, done=done, switched=switched)
    goal = next((each for each in await _goals(server, visit) if each.goal_id == chosen), None)
    if goal is None:
        return await _answer(server, visit, problem=_GONE, status=404)
    draft = _filled(goal)
    if draft is None:
        return await _answer(server, visit, problem=_TOO_RICH, status=409)
    return await _answer(server, visit, draft)


async def save(server: Server, request: Request) -> Response:
    """Add a goal, or change the one that the form names."""
    form, visit = await back.read_form(server, request, PATH, ignoring=("on",))
    draft = _draft(form)
    if server.is_stale_form(request, form, visit):
        return await _answer(server, visit, draft, problem=sign_in.OUT_OF_DATE, status=403)
    before = None
    if draft.goal:
        before = next(
            (each for each in await _goals(server, visit) if str(each.goal_id) == draft.goal), None
        )
    wanted = _wanted(draft, is_enabled=before is None or before.is_enabled)
    if not isinstance(wanted, Goal):
        return await _answer(server, visit, draft, problems=wanted, status=400)
    problem = await _put(server, visit, wanted)
    if problem is not None:
        return await _answer(server, visit, draft, problem=problem, status=400)
    return _redirect(server, visit, {"done": "saved" if draft.goal else "added"})


async def change(server: Server, request: Request) -> Response:
    """Pause, continue or remove a goal."""
    form, visit = await back.read_form(server, request, PATH, ignoring=("on",))
    what, goal_id = _requested_change(form)
    if server.is_stale_form(request, form, visit):
        return await _answer(server, visit, problem=sign_in.OUT_OF_DATE, status=403)
    before = await _goals(server, visit)
    given: Parameters = {**visit.browser.session_parameters, "goal_id": goal_id}
    if what == "remove":
        changed = await rows.one(server.database, _Change, SQL["remove"], given)
    else:
        given = {**given, "is_enabled": what == "continue"}
        changed = await rows.one(server.database, _Change, SQL["switch"], given)
    if changed is None or not changed.is_done:
        return await _answer(server, visit, problem=_GONE, status=409)
    if what != "remove":
        done = {"pause": "paused", "continue": "continued"}[what]
        return _redirect(server, visit, {"done": done, "switched": str(goal_id)})
    # Without a redirect: the page has a form that adds the goal again.
    removed = next((each for each in before if each.goal_id == goal_id), None)
    return await _answer(server, visit, done=_DONE["removed"], removed=removed)


async def restore(server: Server, request: Request) -> Response:
    """Add a goal that was just removed."""
    form, visit = await back.read_form(server, request, PATH, ignoring=("on",))
    try:
        goal = Goal.model_validate_json(form.get("removed") or "")
    except ValidationError as error:
        raise InvalidRequest("the parameter removed must be that of the page") from error
    if server.is_stale_form(request, form, visit):
        return await _answer(server, visit, problem=sign_in.OUT_OF_DATE, removed=goal, status=403)
    problem = await _put(server, visit, goal)
    if problem is not None:
        return await _answer(server, visit, problem=problem, removed=goal, status=400)
    return _redirect(server, visit, {"done": "restored"})


def _wanted(draft: Draft, *, is_enabled: bool) -> Goal | dict[str, str]:
    """Return the goal that a form describes, or its problems by field."""
    target, problems = _target(draft)
    days = _days(draft)
    if not days:
        problems["days"] = "Tick at least one day."
    elif draft.period != "day" and days != EVERY_DAY:
        problems["days"] = "Days can be chosen only for a goal of each day."
    name = categories.recorded_name(draft.name, MAX_NAME) if draft.filter else ""
    name_problem = _name_problem(draft, name)
    if name_problem is not None:
        problems["name"] = name_problem
    title = draft.title.strip()
    title_problem = names.problem(title) if title else None
    if title_problem is not None:
        problems["title"] = title_problem
    if target is None or problems:
        return problems
    goal = Goal.model_validate(
        {
            "goal_id": draft.goal or uuid4(),
            "title": title or "-",
            "metric": draft.metric,
            "comparison": draft.comparison,
            "target": target,
            "period": draft.period,
            "days_of_week": days,
            "is_enabled": is_enabled,
            **({draft.filter: (name,)} if draft.filter else {}),
        }
    )
    return goal if title else goal.model_copy(update={"title": sentence(goal)[:_MAX_TITLE]})


def _target(draft: Draft) -> tuple[int | None, dict[str, str]]:
    """Return the amount of a goal in milliseconds or as a count, and the problem with it."""
    is_time = draft.metric.endswith("_ms")
    if is_time != (draft.unit != "times"):
        counted = METRICS[draft.metric].capitalize()
        unit = "in hours or minutes" if is_time else "in times"
        return None, {"unit": f"{counted} is counted {unit}."}
    typed = draft.amount.strip().replace(",", ".")
    # ASCII alone, and few digits: the numbers stay exact, whatever is typed.
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?" if is_time else r"[0-9]{1,9}", typed):
        example = "3 or 1.5" if is_time else "200"
        return None, {"amount": f"This must be a number such as {example}."}
    whole, _, decimals = typed.partition(".")
    thousandths = int(whole) * 1000 + int(decimals.ljust(3, "0"))
    target = thousandths * _MS[draft.unit] // 1000 if is_time else int(whole)
    if is_time and target > _LONGEST_MS[draft.period]:
        return None, {"amount": f"No {draft.period} is that long."}
    if target > _MOST_TIMES and not is_time:
        return None, {"amount": f"This may be {_MOST_TIMES:,} at most.".replace(",", " ")}
    if target == 0 and draft.comparison == "at_least":
        return None, {"amount": "A goal of at least nothing is always met."}
    return target, {}


def _days(draft: Draft) -> tuple[int, ...]:
    """Return the ISO weekdays of the form."""
    chosen = draft.on if draft.days == "choose" else draft.days
    return tuple(day for day in EVERY_DAY if str(day) in chosen)


def _name_problem(draft: Draft, name: str) -> str | None:
    """Return the problem of what the goal is restricted to, or None."""
    if not draft.filter:
        return (
            "In the field “counting”, choose what this is the name of."
            if draft.name.strip()
            else None
        )
    allowed = filters(draft.metric)
    if draft.filter not in allowed:
        kinds = " or ".join(FILTERS[each].removeprefix("only ") for each in allowed)
        counted = METRICS[draft.metric].capitalize()
        return (
            f"{counted} can be restricted to {kinds} only."
            if kinds
            else f"{counted} cannot be restricted: choose “{FILTERS['']}”."
        )
    if not name:
        return "Type the name."
    most = categories.MAX_CATEGORY if draft.filter == "categories" else MAX_NAME
    return f"This may have at most {most} characters." if len(name) > most else None


def sentence(goal: Goal) -> str:
    """Return a goal as a sentence, such as "At least 3 h of coding on weekdays"."""
    if goal.metric.endswith("_ms"):
        amount = f"{duration(goal.target)} of {METRICS[goal.metric]}"
    else:
        many = METRICS[goal.metric]
        one = many.replace("sessions", "session").replace("switches", "switch")
        amount = f"{goal.target} {one if goal.target == 1 else many}"
    words = [COMPARISONS[goal.comparison], amount, *_restriction(goal), _when(goal)]
    return " ".join(words)


def _restriction(goal: Goal) -> list[str]:
    """Return what a goal is restricted to as words."""
    kinds = {
        "categories": "in the category",
        "apps": "in",
        "projects": "on the project",
        "languages": "in",
    }
    return [
        f"{before} {' or '.join(getattr(goal, kind))}"
        for kind, before in kinds.items()
        if getattr(goal, kind)
    ]


def _when(goal: Goal) -> str:
    days = tuple(sorted(set(goal.days_of_week)))
    if goal.period != "day" or days == EVERY_DAY:
        return PERIODS[goal.period]
    known = DAYS.get("".join(map(str, days)))
    if known is not None:
        return f"on {known}"
    *before, last = [f"{WEEKDAYS[day - 1]}s" for day in days]
    return f"on {', '.join(before)} and {last}" if before else f"on {last}"


def duration(target_ms: int) -> str:
    """Return the target of a goal of time as text for people."""
    return "0 min" if target_ms == 0 else categories.spent(target_ms)


def _filled(goal: Goal) -> Draft | None:
    """Return the form values of a goal; None: it has more than the form can hold."""
    if len(goal.restrictions) > 1:
        return None
    kind, name = goal.restrictions[0] if goal.restrictions else ("", "")
    days = "".join(str(day) for day in sorted(set(goal.days_of_week)))
    unit = "times"
    if goal.metric.endswith("_ms"):
        unit = "minutes" if goal.target % _MS["hours"] else "hours"
    number = goal.target / _MS.get(unit, 1)
    return Draft(
        goal=str(goal.goal_id),
        title="" if goal.title == sentence(goal)[:_MAX_TITLE] else goal.title,
        comparison=goal.comparison,
        amount=f"{number:.3f}".rstrip("0").rstrip("."),
        unit=unit,
        metric=goal.metric,
        filter=kind,
        name=name,
        period=goal.period,
        days=days if days in DAYS else "choose",
        on=tuple(days),
    )


def _draft(form: Form) -> Draft:
    """Return the values of the form. Raises InvalidRequest for values that the page cannot send."""
    draft = Draft(
        goal=form.get("goal") or "",
        title=form.get("title") or "",
        comparison=form.get("comparison") or "",
        amount=form.get("amount") or "",
        unit=form.get("unit") or "",
        metric=form.get("metric") or "",
        filter=form.get("filter") or "",
        name=form.get("name") or "",
        period=form.get("period") or "",
        days=form.get("days") or "",
        on=tuple(form.all("on")),
    )
    for name, value, known in (
        ("comparison", draft.comparison, COMPARISONS),
        ("unit", draft.unit, UNITS),
        ("metric", draft.metric, METRICS),
        ("filter", draft.filter, FILTERS),
        ("period", draft.period, PERIODS),
        ("days", draft.days, DAYS),
    ):
        if value not in known:
            raise InvalidRequest(f"the parameter {name} must be one of the page")
    if draft.goal:
        goal_id = _id(draft.goal)
        if goal_id is None:
            raise InvalidRequest("the parameter goal must be that of the page")
        draft = replace(draft, goal=str(goal_id))
    return draft


def _requested_change(form: Form) -> tuple[Literal["pause", "continue", "remove"], UUID]:
    """Return the action and the goal of a button. Raises InvalidRequest for other values."""
    for what in ("pause", "continue", "remove"):
        goal_id = _id(form.get(what))
        if goal_id is not None:
            return what, goal_id
    raise InvalidRequest("one of the parameters pause, continue and remove must name a goal")


def _id(text: str | None) -> UUID | None:
    """Return an id from an address or a form, or None for anything else."""
    try:
        return UUID(text or "")
    except ValueError:
        return None


async def _goals(server: Server, visit: Visit) -> list[Goal]:
    return await rows.every(server.database, Goal, SQL["goals"], visit.browser.session_parameters)


async def _put(server: Server, visit: Visit, goal: Goal) -> str | None:
    """Write a goal, or return the problem. Raises SignInNeeded."""
    values = {
        name: [*map(str, value)] if isinstance(value, tuple) else value
        for name, value in goal.model_dump().items()
    }
    given = {**visit.browser.session_parameters, **values}
    outcome = await rows.one(server.database, _Outcome, SQL["put"], given)
    problem = "signed_out" if outcome is None else outcome.problem
    if problem == "signed_out":
        raise SignInNeeded(visit.browser, back.address(PATH, {}, visit.back))
    return None if problem is None else _PROBLEMS[problem]


def _redirect(server: Server, visit: Visit, parameters: Mapping[str, str]) -> Response:
    location = back.address(PATH, parameters, visit.back)
    return server.pages.redirect_browser(location, visit.browser)


async def _answer(
    server: Server,
    visit: Visit,
    draft: Draft | None = None,
    *,
    problems: Mapping[str, str] | None = None,
    problem: str | None = None,
    done: str | None = None,
    switched: UUID | None = None,
    removed: Goal | None = None,
    status: int = 200,
) -> Response:
    """Return the page with its form filled from ``draft``.

    ``switched`` is the id of a goal that was just paused or continued, and ``removed`` one that was just
    removed: the page offers to undo that.
    """
    listed = await _goals(server, visit)
    fields = ("title", "amount", "unit", "name", "days")
    content = {
        "back": visit.back,
        "done": done,
        "problem": problem or ("Nothing was changed. See below why." if problems else None),
        "problems": dict.fromkeys(fields) | dict(problems or {}),
        "draft": draft or Draft(),
        "goals": listed,
        "switched": next((each for each in listed if each.goal_id == switched), None),
        "removed": removed,
        "sentence": sentence,
        "comparisons": COMPARISONS,
        "units": UNITS,
        "metrics": METRICS,
        "filters": FILTERS,
        "periods": PERIODS,
        "days": DAYS,
        "weekdays": [(str(number), day) for number, day in enumerate(WEEKDAYS, 1)],
        "categories": await rows.every(
            server.database,
            categories.Score,
            categories.SQL["scores"],
            visit.browser.session_parameters,
        ),
    }
    page = Page("goals.html", content, status, current_path=PATH)
    return server.pages.render(page, visit.browser)
