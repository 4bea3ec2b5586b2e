"""A bare application: one route of the same framework on the same web server, without middleware and log.

The difference between it and the servers is the cost of everything else in the path of a request.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

BODY = b'{"status": "ok"}'


def create() -> Starlette:
    """Return the application."""

    async def answer(_: Request) -> Response:
        return Response(BODY, media_type="application/json")

    return Starlette(routes=[Route("/", answer)])
