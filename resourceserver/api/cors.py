"""Which page of which other origin may read an answer (the CORS protocol of the Fetch standard).

Only one does: the page of the authorization server on which somebody takes their data along. It sends the
token that it has just shown; cookies mean nothing here and are never asked for.
"""

from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_EXPOSED: Final = (
    b"Content-Disposition, Export-Omitted, Retry-After, WWW-Authenticate, X-Request-Id"
)


@dataclass(frozen=True)
class OpenTo:
    """A middleware that lets pages of one ``origin`` read the answers behind it, errors included."""

    app: ASGIApp
    origin: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        is_welcome = (b"origin", self.origin.encode()) in scope["headers"]

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], (b"vary", b"Origin")]
                if is_welcome:
                    headers += [
                        (b"access-control-allow-origin", self.origin.encode()),
                        (b"access-control-expose-headers", _EXPOSED),
                    ]
                message["headers"] = headers
            await send(message)

        await self.app(scope, receive, send_open)


def preflight(path: str, origin: str) -> Route:
    """Return the route that tells a browser that pages of ``origin`` may GET ``path`` with a token."""

    async def answer(request: Request) -> Response:
        asked = request.headers
        if asked.get("origin") != origin or asked.get("access-control-request-method") != "GET":
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Methods": "GET",
                "Access-Control-Allow-Headers": "Authorization",
                "Access-Control-Max-Age": "600",
                "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
            },
        )

    return Route(path, answer, methods=["OPTIONS"], name="export_preflight")
