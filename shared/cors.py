"""Cross-origin access to the routes for machines (the CORS protocol of the Fetch standard).

They use no cookies: a caller has a token of its own, or needs none. So pages of any origin may
call them and read every answer, without credentials in the sense of the standard. Pages for people have no
CORS headers: no other site may read the page of a signed-in person. The MCP endpoint has a list of origins,
and uploads are open to the pages of the authorization server alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS: Final = [
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"Content-Disposition, Export-Omitted, Export-Pending-Days, Export-Removed-Before, Retry-After,"
        b" WWW-Authenticate, X-Request-Id",
    ),
]
_PREFLIGHT_HEADERS: Final = [
    *_HEADERS,
    (b"access-control-allow-methods", b"GET, POST"),
    # The wildcard covers all headers except Authorization, which must be named.
    (b"access-control-allow-headers", b"*, Authorization"),
    (b"access-control-max-age", b"7200"),
    (b"vary", b"Access-Control-Request-Method, Access-Control-Request-Headers"),
]


@dataclass(frozen=True)
class OpenToAllOrigins:
    """Middleware that allows every origin to read the responses of some paths, including errors."""

    app: ASGIApp
    covers: Callable[[str], bool]
    """Whether a path is one of them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http" or not self.covers(scope["path"]):
            await self.app(scope, receive, send)
            return
        if _is_preflight(scope):
            await send(
                {"type": "http.response.start", "status": 204, "headers": list(_PREFLIGHT_HEADERS)}
            )
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self.app(scope, receive, send_open)


def _is_preflight(scope: Scope) -> bool:
    """Whether a browser asks if a page may send a request; another OPTIONS request is the application's."""
    return scope["method"] == "OPTIONS" and {name for name, _ in scope["headers"]} >= {
        b"origin",
        b"access-control-request-method",
    }


@dataclass(frozen=True)
class OpenToOneOrigin:
    """Middleware that allows the pages of one origin to call some paths and to read the responses."""

    app: ASGIApp
    covers: Callable[[str], bool]
    """Whether a path is one of them."""
    origin: str
    methods: tuple[str, ...]
    request_headers: tuple[str, ...]
    """The headers that its pages may send."""
    response_headers: tuple[str, ...]
    """The headers that its pages may read."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http" or not self.covers(scope["path"]):
            await self.app(scope, receive, send)
            return
        is_open = dict(scope["headers"]).get(b"origin") == self.origin.encode()
        if _is_preflight(scope):
            headers = [(b"vary", b"Origin"), *(self._preflight_headers() if is_open else ())]
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = self._headers() if is_open else []
                message["headers"] = [*message["headers"], *own]
                MutableHeaders(raw=message["headers"]).add_vary_header("Origin")
            await send(message)

        await self.app(scope, receive, send_open)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"access-control-allow-origin", self.origin.encode()),
            (b"access-control-expose-headers", ", ".join(self.response_headers).encode()),
        ]

    def _preflight_headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"access-control-allow-origin", self.origin.encode()),
            (b"access-control-allow-methods", ", ".join(self.methods).encode()),
            (b"access-control-allow-headers", ", ".join(self.request_headers).encode()),
            (b"access-control-max-age", b"7200"),
        ]
