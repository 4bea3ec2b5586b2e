"""What a read endpoint is: one declaration, from which its route, checks and description derive."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api import parameters, session
from resourceserver.api.errors import PRIVATE, ParameterProblem
from resourceserver.api.packing import packed
from resourceserver.api.parameters import Params
from resourceserver.api.session import Reader
from shared import pipeline
from shared.pipeline import Statement


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
    """A statement with one row, whose columns are the members of the body."""

    is_quick: bool = False
    """Whether an index answers it in a moment, so that it may share a connection with others."""
    finish: Callable[[bytes], bytes] | None = None
    """What is left for Python to do with what the query answered, where SQL is no language for it."""

    @cached_property
    def statement(self) -> Statement:
        """The query, wrapped so that its row comes back as one JSON object."""
        return pipeline.statement(session.SQL["as_json"].replace("--rows", self.query))


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
            # What is wrong with parameters is told to nobody but who may read.
            await reader.check(who)
            raise
        body = await reader.read(
            who, endpoint.statement, params.values(), is_quick=endpoint.is_quick
        )
        if endpoint.finish is not None:
            body = endpoint.finish(body)
        return packed(Response(body, headers=PRIVATE, media_type="application/json"))

    return Route(endpoint.path, answer, name=endpoint.name)
