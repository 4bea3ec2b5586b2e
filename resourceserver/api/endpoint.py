"""What a read endpoint is: one declaration, from which its route, checks and description derive."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import parameters, session
from resourceserver.api.errors import PRIVATE, ParameterProblem
from resourceserver.api.packing import packed
from resourceserver.api.parameters import Params
from resourceserver.api.session import Credential, Question, Reader
from shared import pipeline
from shared.pipeline import Statement, Step

Answers = Mapping[str, Any]
"""What the statements of an answer said, by name; what the query said is called ``query``."""


@dataclass(frozen=True)
class Further:
    """What is asked after the query of an endpoint, in the same transaction."""

    statements: Mapping[str, Statement]
    """All that may be asked, by the names of their texts."""
    steps: Callable[[Mapping[str, Any], Answers], Mapping[str, Step]]
    """Makes the first statements by name, from the parameters and the answer of the query."""
    finish: Callable[[Answers], dict[str, Any]]
    """Puts the body together from all answers."""
    more: Callable[[Mapping[str, Any], Answers], Mapping[str, Step]] | None = None
    """Makes the next ones from all answers so far, until it makes none."""

    def first(self, values: Mapping[str, Any], query: Any) -> Mapping[str, Step]:
        """Return the first statements, from the answer of the query."""
        return self.steps(values, {"query": query})

    def next(self, values: Mapping[str, Any], answers: Mapping[str, bytes]) -> Mapping[str, Step]:
        """Return the next statements, from all answers as they came."""
        return {} if self.more is None else self.more(values, parsed(answers))


def parsed(answers: Mapping[str, bytes]) -> dict[str, Any]:
    """Return answers of statements as values."""
    return {name: json.loads(answer) for name, answer in answers.items()}


@dataclass(frozen=True)
class Endpoint:
    """Parameters in, one JSON object out."""

    name: str
    """The operation id; the query has the same name."""
    path: str
    scope: str
    summary: str
    params: type[Params]
    body: type[BaseModel]
    """Describes the answer, which Postgres writes; tests hold every answer against it."""
    query: str
    """A statement with one row, the body as JSON; or what the statements after it need."""

    is_quick: bool = False
    """Whether an index answers it in a moment, so that it may share a connection with others."""
    further: Further | None = None
    """What else is asked, where the answer is more than one statement can say."""

    @cached_property
    def statement(self) -> Statement:
        """The query as a statement."""
        return pipeline.statement(self.query)

    @property
    def statements(self) -> dict[str, Statement]:
        """All statements that an answer may be made of, by name; ``query`` comes first."""
        further = {} if self.further is None else self.further.statements
        return {"query": self.statement, **further}

    async def read(self, reader: Reader, who: Credential, values: Mapping[str, Any]) -> bytes:
        """Return the body of an answer, as JSON. Raises what the reader does."""
        further = self.further
        if further is None:
            return await reader.read(who, self.statement, values, is_quick=self.is_quick)
        question = Question(
            (self.statement, values),
            tuple(further.statements.values()),
            lambda query: further.first(values, query),
            None
            if further.more is None
            else lambda answers: further.next(values, _with_query(answers)),
        )
        answers = await reader.read_parts(who, question)
        return written(further.finish(parsed(_with_query(answers))))

    async def read_with(
        self, ask: Callable[[Step], Awaitable[bytes]], values: Mapping[str, Any]
    ) -> bytes:
        """Return the body of an answer, as JSON, by what ``ask`` answers in an open session.

        It is empty where the query has no row, since its user is gone.
        """
        query = await ask((self.statement, values))
        if self.further is None or not query:
            return query
        answers = {"query": query}
        steps = self.further.first(values, json.loads(query))
        while steps:
            for name, step in steps.items():
                answers[name] = await ask(step)
            steps = self.further.next(values, answers)
        return written(self.further.finish(parsed(answers)))


def _with_query(answers: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return answers of which that of the query is called so, and not ``frame``."""
    rest = dict(answers)
    return {"query": rest.pop("frame"), **rest}


def written(body: Mapping[str, Any]) -> bytes:
    """Return a body that was put together, as JSON."""
    return json.dumps(body, separators=(",", ":")).encode()


def routes(endpoints: list[Endpoint], reader: Reader, resource: str) -> list[Route]:
    """Return a route for each declaration. ``resource`` is the audience that tokens may be bound to."""
    return [_route(endpoint, reader, resource) for endpoint in endpoints]


def _route(endpoint: Endpoint, reader: Reader, resource: str) -> Route:
    async def answer(request: Request) -> Response:
        scopes = (endpoint.scope, *endpoint.params.scopes(request.query_params))
        who = session.credential(request, scopes, (resource,))
        try:
            params = parameters.parse(endpoint.params, request.query_params)
        except ParameterProblem:
            # Mistakes in parameters are reported only after the token has been checked.
            await reader.check(who)
            raise
        body = await endpoint.read(reader, who, params.values())
        return packed(Response(body, headers=PRIVATE, media_type="application/json"))

    return Route(endpoint.path, answer, name=endpoint.name)
