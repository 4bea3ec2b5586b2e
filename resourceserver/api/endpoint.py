"""The declaration of a read endpoint, from which its route, checks and description derive."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import parameters, session
from resourceserver.api.answer import JSONAnswers
from resourceserver.api.errors import ParameterProblem
from resourceserver.api.parameters import Params
from resourceserver.api.session import Credential, Question, Reader
from shared import pipeline
from shared.pipeline import Statement, Step

Answers = Mapping[str, Any]
"""The answers of the statements by name; the endpoint's query is called ``query``."""


@dataclass(frozen=True)
class Further:
    """Further statements of an endpoint, after its query and in the same transaction."""

    statements: Mapping[str, Statement]
    """All statements that may run, by name."""
    steps: Callable[[Mapping[str, Any], Answers], Mapping[str, Step]]
    """Returns the first statements by name, from the parameters and the answer of the query."""
    finish: Callable[[Answers], dict[str, Any]]
    """Combines all answers into the body."""
    more: Callable[[Mapping[str, Any], Answers], Mapping[str, Step]] | None = None
    """Returns the next statements from all answers so far; the last ones have run when it returns none."""

    def first(self, values: Mapping[str, Any], query: Any) -> Mapping[str, Step]:
        """Return the first statements, from the answer of the query."""
        return self.steps(values, {"query": query})

    def next(self, values: Mapping[str, Any], answers: Mapping[str, bytes]) -> Mapping[str, Step]:
        """Return the next statements, from all answers as JSON text."""
        return {} if self.more is None else self.more(values, parsed(answers))


def parsed(answers: Mapping[str, bytes]) -> dict[str, Any]:
    """Return answers of statements as values."""
    return {name: from_json(answer) for name, answer in answers.items()}


@dataclass(frozen=True)
class Endpoint:
    """One operation of the REST API: parameters in, one JSON object out."""

    name: str
    """The operation id; as a rule, the query has the same name."""
    path: str
    scope: str | None
    """None: any valid token opens it."""
    summary: str
    params: type[Params]
    body: type[BaseModel]
    """The model of the answer, which Postgres writes; tests validate every answer with it."""
    query: str
    """A statement with one row: the body as JSON, or the input of the statements after it."""

    is_quick: bool = False
    """Whether it needs only a short index search, so that it may share a connection with others."""
    further: Further | None = None
    """Further statements, if one is not enough."""
    rowless: str | None = None
    """The query for a page of a list before the start of the range, which can have no row: the same answer
    for less, since what is counted of the whole range may be kept."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that every request needs."""
        return () if self.scope is None else (self.scope,)

    @cached_property
    def statement(self) -> Statement:
        """The query as a statement."""
        return pipeline.statement(self.query)

    @cached_property
    def rowless_statement(self) -> Statement | None:
        """The query for a page without rows as a statement."""
        return None if self.rowless is None else pipeline.statement(self.rowless)

    def statement_for(self, values: Mapping[str, Any]) -> Statement:
        """Return the query that answers with these values."""
        if self.rowless_statement is not None and values["cursor_at"] <= values["from"]:
            return self.rowless_statement
        return self.statement

    @property
    def statements(self) -> dict[str, Statement]:
        """All statements that an answer may consist of, by name; ``query`` comes first."""
        further = {} if self.further is None else self.further.statements
        rowless = {} if self.rowless_statement is None else {"rowless": self.rowless_statement}
        return {"query": self.statement, **rowless, **further}

    async def read(self, reader: Reader, who: Credential, values: Mapping[str, Any]) -> bytes:
        """Return the body of an answer, as JSON. Raises the errors of the reader."""
        further = self.further
        if further is None:
            return await reader.read(
                who, self.statement_for(values), values, is_quick=self.is_quick
            )
        query: Any = None

        def first(given: Any) -> Mapping[str, Step]:
            # A large answer takes long to parse, so it is kept.
            nonlocal query
            query = given
            return further.first(values, query)

        question = Question(
            (self.statement_for(values), values),
            tuple(further.statements.values()),
            first,
            None
            if further.more is None
            else lambda answers: further.next(values, _with_query(answers)),
        )
        answers = await reader.read_parts(who, question)
        del answers["frame"]
        return written(further.finish({"query": query, **parsed(answers)}))

    async def read_with(
        self, ask: Callable[[Step], Awaitable[bytes]], values: Mapping[str, Any]
    ) -> bytes:
        """Return the body of an answer, as JSON; ``ask`` runs a statement in an open session.

        It is empty if the query has no row, because its user was deleted.
        """
        query = await ask((self.statement_for(values), values))
        if self.further is None or not query:
            return query
        answers = {"query": query}
        steps = self.further.first(values, from_json(query))
        while steps:
            for name, step in steps.items():
                answers[name] = await ask(step)
            steps = self.further.next(values, answers)
        return written(self.further.finish(parsed(answers)))


def _with_query(answers: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return answers in which that of the query has the name ``query`` instead of ``frame``."""
    rest = dict(answers)
    return {"query": rest.pop("frame"), **rest}


def written(body: Mapping[str, Any]) -> bytes:
    """Return a combined body as JSON."""
    return to_json(body)


_NO_QUERY: Final = QueryParams()
_ANSWERS: Final = JSONAnswers("Authorization")


def routes(endpoints: list[Endpoint], reader: Reader, resource: str) -> list[Route]:
    """Return a route for each declaration. ``resource`` is the audience to which tokens may be limited."""
    return [_route(endpoint, reader, resource) for endpoint in endpoints]


def _route(endpoint: Endpoint, reader: Reader, resource: str) -> Route:
    async def answer(request: Request) -> Response:
        query = request.query_params if request.scope["query_string"] else _NO_QUERY
        scopes = (*endpoint.scopes, *endpoint.params.scopes(query))
        who = session.credential(request, scopes, (resource,))
        try:
            params = parameters.parse(endpoint.params, query)
        except ParameterProblem:
            # Mistakes in parameters are reported only after the token has been checked.
            await reader.check(who)
            raise
        body = await endpoint.read(reader, who, params.values())
        headers = request.scope["headers"]
        codings = [value for name, value in headers if name == b"accept-encoding"]
        return _ANSWERS.of(body, codings)

    return Route(endpoint.path, answer, name=endpoint.name)
