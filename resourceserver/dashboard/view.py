"""What a view is: a page of figures and charts whose numbers are answers of the API's endpoints.

A view declares which endpoints it asks and with which parameters. All answers of a page come from one
transaction of the token's session, by the endpoints' own statements. A question whose scope the token lacks
is left out, and the page says so.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from pydantic_core import from_json
from starlette.datastructures import QueryParams

from resourceserver.api import parameters
from resourceserver.api.endpoint import Endpoint
from resourceserver.api.session import Question
from resourceserver.dashboard.figures import Answer, Figures
from resourceserver.dashboard.period import RANGES, Address, Period
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

    def ranges(self, path: str, *names: str, **query: str) -> dict[str, str]:
        """Return the addresses of ranges that end today, by these ``names`` in RANGES."""
        found = {}
        for name in names:
            first = self.today - timedelta(days=RANGES[name] - 1)
            days = {"from": str(first), "to": str(self.today)}
            found[name] = self.link(f"{path}?{urlencode({**query, **days})}")
        return found

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

    @cached_property
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

    def page(self, address: Address, parts: Mapping[str, str], base_url: str) -> "Page":
        """Return the page of an address and its parts; ``base_url`` is that of the API."""
        return Page(self, address, parts, base_url)


class Page:
    """One request of a view: its question to the database, then its answers.

    The steps of a question and the answers need the same values: each text is parsed once, and each body
    finished once, where possible while the database runs further steps.
    """

    def __init__(
        self, view: View, address: Address, parts: Mapping[str, str], base_url: str
    ) -> None:
        """Store what the page is about."""
        self._view = view
        self._address = address
        self._parts = parts
        self._base_url = base_url
        self._asks: Asks = {}
        self._later: Asks | None = None
        self._scene: Scene | None = None
        self._parsed: dict[bytes, Any] = {}
        self._finished: dict[str, Answer] = {}
        self._complete: set[str] = set()

    @property
    def question(self) -> Question:
        """The statements of the page."""
        frame = (_SCENE, {"tz": self._parts.get("tz")})
        return Question(frame, self._view.statements, self._first, self._more)

    def read(self, answers: Mapping[str, bytes]) -> tuple[Scene, Answers]:
        """Return the answers of the page as values, from those of its statements."""
        scene = self._scene or _scene(from_json(answers["frame"]), self._address, self._parts)
        first = self._answered(self._asks, scene, answers)
        later = {name: ask for name, ask in (self._later or {}).items() if name not in self._asks}
        rest = self._answered(later, scene, answers)
        return scene, Answers({**first, **rest}, {**first.missing, **rest.missing})

    def _first(self, known: dict[str, Any]) -> dict[str, Step]:
        # A repeated transaction begins here again, and its answers may differ.
        self._later = None
        self._parsed.clear()
        self._finished.clear()
        self._complete.clear()
        self._scene = _scene(known, self._address, self._parts)
        self._asks = self._view.asks(self._scene)
        return _steps(_allowed(self._asks, self._scene.scopes))

    def _more(self, answers: Mapping[str, bytes]) -> dict[str, Step]:
        steps = self._next(answers)
        if steps and self._scene is not None:
            asks = _allowed({**self._asks, **(self._later or {})}, self._scene.scopes)
            complete = {
                name: ask
                for name, ask in asks.items()
                if name in answers and (ask.declaration.further is None or name in self._complete)
            }
            scene = self._scene

            def finish() -> None:
                # ``read`` finishes what fails here again, and raises the error.
                with suppress(Exception):
                    self._answered(complete, scene, answers)

            # The event loop has nothing else to do for this page while the database runs these steps.
            asyncio.get_running_loop().call_soon(finish)
        return steps

    def _next(self, answers: Mapping[str, bytes]) -> dict[str, Step]:
        scene = self._scene or _scene(from_json(answers["frame"]), self._address, self._parts)
        if self._later is not None:
            return self._further(_allowed(self._later, scene.scopes), answers)
        steps = self._further(_allowed(self._asks, scene.scopes), answers)
        if steps or self._view.more is None:
            return steps
        self._later = self._view.more(scene, self._answered(self._asks, scene, answers))
        allowed = _allowed(self._later, scene.scopes)
        return _steps(
            {name: ask for name, ask in allowed.items() if name not in answers}
        ) or self._further(allowed, answers)

    def _further(self, asks: Asks, answers: Mapping[str, bytes]) -> dict[str, Step]:
        """Return the next statements of endpoints that consist of several, by question and statement."""
        steps: dict[str, Step] = {}
        for name, ask in asks.items():
            further = ask.declaration.further
            if further is None or name in self._complete:
                continue
            own = self._own(name, answers)
            if len(own) == 1:
                wanted = further.first(ask.values, own["query"])
            else:
                wanted = {} if further.more is None else further.more(ask.values, own)
            if not wanted:
                # It gets no further answers, so that it would return none again.
                self._complete.add(name)
            steps |= {f"{name}/{each}": step for each, step in wanted.items()}
        return steps

    def _own(self, name: str, answers: Mapping[str, bytes]) -> dict[str, Any]:
        """Return the answers of one question's statements by their own names; the first one is ``query``."""
        prefix = f"{name}/"
        rest = {
            each.removeprefix(prefix): self._value(each, answers)
            for each in answers
            if each.startswith(prefix)
        }
        return {"query": self._value(name, answers), **rest}

    def _value(self, name: str, answers: Mapping[str, bytes]) -> Any:
        # Questions with the same statement have the same text, which nobody changes once it is parsed.
        text = answers[name]
        if text not in self._parsed:
            self._parsed[text] = from_json(text)
        return self._parsed[text]

    def _answered(self, asks: Asks, scene: Scene, answers: Mapping[str, bytes]) -> Answers:
        missing = {}
        for name, ask in asks.items():
            lacking = [scope for scope in ask.scopes if scope not in scene.scopes]
            if lacking:
                missing[name] = lacking[0]
            elif name not in self._finished:
                further = ask.declaration.further
                own = self._own(name, answers)
                body = own["query"] if further is None else further.finish(own)
                self._finished[name] = Answer(name, self._base_url + ask.path, body)
        return Answers(
            {name: self._finished[name] for name in asks if name not in missing}, missing
        )


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


def _allowed(asks: Asks, scopes: Collection[str]) -> dict[str, Ask]:
    return {name: ask for name, ask in asks.items() if not set(ask.scopes) - set(scopes)}


def _steps(asks: Asks) -> dict[str, Step]:
    return {
        name: (ask.declaration.statement_for(ask.values), ask.values) for name, ask in asks.items()
    }


def after_all(instants: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a list of instants, the newest first, for the page after its last row.

    Such a page has the totals of the whole range and no rows, of which there may be thousands.
    """
    start = datetime.fromisoformat(instants["from"]).astimezone(UTC)
    return {**instants, "cursor": parameters.cursor(start, str(UUID(int=0)))}


def figures(scene: Scene) -> Figures:
    """Return the writer of figures for the zone of a page."""
    return Figures(scene.tz)
