"""What a view is: a page of figures and charts whose numbers are answers of the API's endpoints.

A view declares which endpoints it asks and with which parameters. All answers of a page come from one
transaction of the token's session, by the endpoints' own statements. A question whose scope the token lacks
is left out, and the page says so.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from starlette.datastructures import QueryParams

from resourceserver.api import parameters
from resourceserver.api.endpoint import Endpoint, parsed
from resourceserver.api.session import Question
from resourceserver.dashboard.figures import Answer, Figures
from resourceserver.dashboard.period import Address, Period
from resourceserver.endpoints import ENDPOINTS
from shared import pipeline, queries
from shared.pipeline import Statement, Step

_SCENE: Final = pipeline.statement(queries.load(Path(__file__).with_name("scene.sql"))["scene"])
_ENDPOINTS: Final[Mapping[str, Endpoint]] = {endpoint.name: endpoint for endpoint in ENDPOINTS}


@dataclass(frozen=True)
class Scene:
    """For whom and for when a view is: the calendar, the moment, the period and the scopes of the token."""

    tz: str
    today: date
    now: datetime
    """The beginning of the current minute, so that a page without new data stays the same within it."""
    week_starts_on: int
    scopes: frozenset[str]
    period: Period
    parts: Mapping[str, str]
    """The parts of the address, from its path and its query."""

    @property
    def day_query(self) -> dict[str, str]:
        """The days of the period as parameters of an endpoint that takes days, with the zone."""
        return {**self.period.day_query, "tz": self.tz}

    @property
    def instant_query(self) -> dict[str, str]:
        """The period as parameters of an endpoint that takes instants."""
        return self.period.instant_query(self.tz)

    @property
    def zoned_query(self) -> dict[str, str]:
        """The same for an endpoint that takes instants and a zone."""
        return {**self.instant_query, "tz": self.tz}

    @property
    def is_current(self) -> bool:
        """Whether the period contains today."""
        return self.period.first <= self.today <= self.period.last

    def link(self, path: str) -> str:
        """Return a path of the dashboard, with the zone if the address has one."""
        if "tz" not in self.parts:
            return path
        return f"{path}{'&' if '?' in path else '?'}{urlencode({'tz': self.tz})}"


@dataclass(frozen=True)
class Ask:
    """A question to an endpoint, with the parameters that a client would send."""

    endpoint: str
    """The name of the endpoint, its operation id."""
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def declaration(self) -> Endpoint:
        """The endpoint."""
        return _ENDPOINTS[self.endpoint]

    @property
    def path(self) -> str:
        """The path of the request, with its parameters."""
        return self.declaration.path + (f"?{urlencode(self.query)}" if self.query else "")

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the request needs."""
        endpoint = self.declaration
        return (*endpoint.scopes, *endpoint.params.scopes(QueryParams(self.query)))

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """The parameters of the statement. Raises ParameterProblem, as the endpoint does."""
        return parameters.parse(self.declaration.params, QueryParams(self.query)).values()


Asks = Mapping[str, Ask]
"""Questions by a short name, which is their name on the page."""


class Answers(Mapping[str, Answer]):
    """The answers of a view by the names of its questions; those whose scope is missing have none."""

    def __init__(self, answers: Mapping[str, Answer], missing: Mapping[str, str]) -> None:
        """``missing`` has the scope that the token lacks for each question without an answer."""
        self._answers = answers
        self.missing = missing

    def __getitem__(self, name: str) -> Answer:
        """Return an answer. Raises KeyError if its scope is missing."""
        return self._answers[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the answers that there are."""
        return iter(self._answers)

    def __len__(self) -> int:
        """Return the number of answers that there are."""
        return len(self._answers)


@dataclass(frozen=True)
class View:
    """One page of the dashboard, from which its routes, its questions and its tests derive."""

    name: str
    title: str
    """In the menu and as the heading."""
    paths: tuple[str, ...]
    """The addresses; ``{day}`` and the like are parts that ``address`` reads. The menu has the first one."""
    address: type[Address]
    endpoints: tuple[str, ...]
    """The names of all endpoints that it may ask."""
    asks: Callable[[Scene], Asks]
    """Returns the questions of the page."""
    show: Callable[[Scene, Answers], dict[str, Any]] = lambda _scene, _answers: {}
    """Returns what the template ``{name}.html`` needs besides ``scene`` and ``answers``, such as charts."""
    more: Callable[[Scene, Answers], Asks] | None = None
    """Returns further questions that depend on the answers of the first ones."""
    is_in_menu: bool = True
    is_waiting: Callable[[Answers], bool] = lambda _answers: False
    """Returns whether the page waits for the person's first data: then it loads itself again."""

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """All statements that an answer may consist of."""
        return tuple(
            statement
            for name in self.endpoints
            for statement in _ENDPOINTS[name].statements.values()
        )

    def question(self, address: Address, parts: Mapping[str, str]) -> Question:
        """Return the statements of a page for an address and its parts."""

        later: dict[str, Ask] | None = None

        def first(known: dict[str, Any]) -> dict[str, Step]:
            nonlocal later
            later = None
            return _steps(_allowed(self.asks(_scene(known, address, parts)), known["scopes"]))

        def more(answers: Mapping[str, bytes]) -> dict[str, Step]:
            nonlocal later
            if later is not None:
                return _further(later, answers)
            known = json.loads(answers["frame"])
            scene = _scene(known, address, parts)
            steps = _further(_allowed(self.asks(scene), known["scopes"]), answers)
            if steps or self.more is None:
                return steps
            later = _allowed(self.more(scene, self._read(scene, answers, "")), known["scopes"])
            return _steps(
                {name: ask for name, ask in later.items() if name not in answers}
            ) or _further(later, answers)

        return Question((_SCENE, {"tz": parts.get("tz")}), self.statements, first, more)

    def read(
        self,
        address: Address,
        parts: Mapping[str, str],
        answers: Mapping[str, bytes],
        base_url: str,
    ) -> tuple[Scene, Answers]:
        """Return the answers of a page as values, from those of its statements."""
        scene = _scene(json.loads(answers["frame"]), address, parts)
        first = self._read(scene, answers, base_url)
        if self.more is None:
            return scene, first
        asks = self.asks(scene)
        later = {name: ask for name, ask in self.more(scene, first).items() if name not in asks}
        rest = _answered(later, scene, answers, base_url)
        return scene, Answers({**first, **rest}, {**first.missing, **rest.missing})

    def _read(self, scene: Scene, answers: Mapping[str, bytes], base_url: str) -> Answers:
        return _answered(self.asks(scene), scene, answers, base_url)


def _scene(known: Mapping[str, Any], address: Address, parts: Mapping[str, str]) -> Scene:
    calendar = _Calendar(date.fromisoformat(known["today"]), known["week_starts_on"])
    return Scene(
        tz=known["tz"],
        today=calendar.today,
        now=datetime.fromisoformat(known["now"]).replace(second=0, microsecond=0),
        week_starts_on=calendar.week_starts_on,
        scopes=frozenset(known["scopes"]),
        period=address.period(calendar),
        parts=parts,
    )


@dataclass(frozen=True)
class _Calendar:
    today: date
    week_starts_on: int


def _allowed(asks: Asks, scopes: list[str]) -> dict[str, Ask]:
    return {name: ask for name, ask in asks.items() if not set(ask.scopes) - set(scopes)}


def _steps(asks: Asks) -> dict[str, Step]:
    return {name: (ask.declaration.statement, ask.values) for name, ask in asks.items()}


def _further(asks: Asks, answers: Mapping[str, bytes]) -> dict[str, Step]:
    """Return the next statements of endpoints that consist of several, by question and statement."""
    steps: dict[str, Step] = {}
    for name, ask in asks.items():
        further = ask.declaration.further
        if further is None:
            continue
        own = _own(name, answers)
        wanted = (
            further.next(ask.values, own)
            if len(own) > 1
            else further.first(ask.values, json.loads(own["query"]))
        )
        steps |= {f"{name}/{each}": step for each, step in wanted.items()}
    return steps


def _own(name: str, answers: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the answers of one question's statements by their own names; the first one is ``query``."""
    prefix = f"{name}/"
    rest = {
        each.removeprefix(prefix): answer
        for each, answer in answers.items()
        if each.startswith(prefix)
    }
    return {"query": answers[name], **rest}


def _answered(asks: Asks, scene: Scene, answers: Mapping[str, bytes], base_url: str) -> Answers:
    found, missing = {}, {}
    for name, ask in asks.items():
        lacking = [scope for scope in ask.scopes if scope not in scene.scopes]
        if lacking:
            missing[name] = lacking[0]
            continue
        further = ask.declaration.further
        body = (
            json.loads(answers[name])
            if further is None
            else further.finish(parsed(_own(name, answers)))
        )
        found[name] = Answer(name, base_url + ask.path, body)
    return Answers(found, missing)


def after_all(instants: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a list of instants, the newest first, for the page after its last row.

    Such a page has the totals of the whole range and no rows, of which there may be thousands.
    """
    start = datetime.fromisoformat(instants["from"]).astimezone(UTC)
    return {**instants, "cursor": parameters.cursor(start, str(UUID(int=0)))}


def figures(scene: Scene) -> Figures:
    """Return the writer of figures for the zone of a page."""
    return Figures(scene.tz)
