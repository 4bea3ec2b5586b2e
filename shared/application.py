"""One of the two servers as an ASGI application: its routes, and the layers that every request passes.

    request ──► RefusedBody ──► RequestLog ──► error_middleware ──► Guard ──► route_middleware ──► route
                rest of body    id, log line                        limits,                        found by
                                                                    errors                         path

Starlette's own application searches its routes in order, and wraps each request in three layers that handle
exceptions. Here one layer handles exceptions, and a dictionary finds the route: a request without a database
takes two thirds of the processor time. Routes, exception handlers and the lifespan are declared as in
Starlette, but in the constructor alone; ``add_exception_handler`` and ``add_middleware`` have no effect.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, ExceptionHandler, Receive, Scope, Send

from shared import priority
from shared.heads import UNREADABLE
from shared.web import RefusedBody, RequestLog, answer_has_started, error_log

MAX_ADDRESS_BYTES: Final = 16 * 1024
"""The path and the query of a request together, as they were sent."""
MAX_HEADER_BYTES: Final = 32 * 1024
"""Names and values of all headers of a request together."""

Handler = Callable[[Request], Awaitable[Response]]
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Refusals:
    """Answers that no route gives, each a function of the request's path."""

    internal_error: Callable[[str], Response]
    """The answer to an unexpected error; it says nothing about the cause."""
    headers_too_large: Callable[[str], Response]
    """For more headers than any client needs (431; RFC 6585, section 5)."""
    host_unclear: Callable[[str], Response]
    """For a request without a Host header, or with two (400; RFC 9112, section 3.2)."""
    unreadable: Callable[[str, int], Response]
    """For a request whose head the web server did not read to its end, or that it has no room for: a function
    of the path, which is empty if it is not known, and the status (400, 408, 431, 501, 503)."""
    address_too_long: Callable[[str], Response] | None = None
    """For addresses longer than any of the service's own (414; RFC 9110, section 15.5.15); None: no limit."""


class Application(Starlette):
    """A Starlette application in which requests pass the layers above."""

    def __init__(
        self,
        *,
        routes: Sequence[BaseRoute],
        refusals: Refusals,
        exception_handlers: Mapping[type[Exception], ExceptionHandler],
        lifespan: Lifespan,
        error_middleware: Sequence[Middleware] = (),
        route_middleware: Sequence[Middleware] = (),
    ) -> None:
        """Take the arguments of Starlette; ``error_middleware`` also handles the answers to errors."""
        super().__init__(routes=routes, lifespan=lifespan)
        priority.let_requests_interrupt_threads()
        # A path with an additional slash is another path, which does not exist.
        self.router.redirect_slashes = False
        paths = Paths.of(self.router.routes, self.router)
        guard = Guard(_wrapped(paths, route_middleware), refusals, exception_handlers)
        outermost = [Middleware(RefusedBody), Middleware(RequestLog)]
        self.middleware_stack = _wrapped(guard, [*outermost, *error_middleware])


def _wrapped(app: ASGIApp, middleware: Sequence[Middleware]) -> ASGIApp:
    """Return ``app`` behind ``middleware``, whose first is the outermost."""
    for layer in reversed(middleware):
        app = layer.cls(app, *layer.args, **layer.kwargs)
    return app


@dataclass(frozen=True)
class Guard:
    """A middleware that refuses too large requests and turns exceptions into answers.

    It stands inside RequestLog, so that these answers too have their id and their line.
    """

    app: ASGIApp
    refusals: Refusals
    handlers: Mapping[type[Exception], ExceptionHandler]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Starlette's routes read them here, so that middleware of a route handles answers to errors too.
        scope["starlette.exception_handlers"] = (self.handlers, {})
        try:
            refused = self._refused(scope)
            if refused is None:
                await self.app(scope, receive, send)
            else:
                await refused(scope, receive, send)
        except Exception as error:
            if answer_has_started(scope):
                # An answer that has begun cannot be replaced; its connection is broken off.
                error_log.exception("request_id=%s unexpected error", scope.get("svc.request_id"))
                raise
            answer = await self._answer(Request(scope, receive), error)
            await answer(scope, receive, send)

    def _refused(self, scope: Scope) -> Response | None:
        if UNREADABLE in scope:
            answer = self.refusals.unreadable(scope["path"], scope[UNREADABLE])
            answer.headers["Connection"] = "close"
            return answer
        if self.refusals.address_too_long is not None:
            path = scope.get("raw_path") or scope["path"].encode()
            if len(path) + len(scope["query_string"]) > MAX_ADDRESS_BYTES:
                return self.refusals.address_too_long(scope["path"])
        size = hosts = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            hosts += name == b"host"
        if size > MAX_HEADER_BYTES:
            return self.refusals.headers_too_large(scope["path"])
        # HTTP/1.0 does not know the header.
        if hosts > 1 or (not hosts and scope["http_version"] != "1.0"):
            return self.refusals.host_unclear(scope["path"])
        return None

    async def _answer(self, request: Request, error: Exception) -> Response:
        handler = next(
            (self.handlers[each] for each in type(error).__mro__ if each in self.handlers), None
        )
        try:
            if handler is None:
                raise error
            # Starlette's type allows handlers of websockets and without `await`; ours are neither.
            answer: Response = await handler(request, error)  # type: ignore[arg-type, misc]
        except Exception:
            error_log.exception(
                "request_id=%s unexpected error", request.scope.get("svc.request_id")
            )
            return self.refusals.internal_error(request.scope["path"])
        return answer


@dataclass(frozen=True)
class Paths:
    """The routes of an application by their path and method.

    An async function without middleware, and an application that answers every method, is called directly if
    its path has no parameters. All other routes, and paths without a route, are left to the router.
    """

    handlers: Mapping[str, Mapping[str, tuple[Route, Handler]]]
    """By path and method."""
    apps: Mapping[str, Route]
    """The routes of applications by path."""
    router: ASGIApp

    @classmethod
    def of(cls, routes: Sequence[BaseRoute], router: ASGIApp) -> "Paths":
        """Return the routes that can be called directly; the first one of a path and method counts.

        They come before the others, whatever the order of ``routes``.
        """
        handlers: dict[str, dict[str, tuple[Route, Handler]]] = {}
        apps: dict[str, Route] = {}
        for route in routes:
            if not isinstance(route, Route) or route.param_convertors:
                continue
            if _is_plain(route):
                methods = handlers.setdefault(route.path, {})
                for method in route.methods or ():
                    methods.setdefault(method, (route, route.endpoint))
            elif route.methods is None:
                apps.setdefault(route.path, route)
        return cls(handlers, apps, router)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        is_http = scope["type"] == "http"
        methods = self.handlers.get(scope["path"]) if is_http else None
        found = None if methods is None else methods.get(scope["method"])
        if found is not None:
            scope["route"], handler = found
            scope["path_params"] = {}
            response = await handler(Request(scope, receive, send))
            await response(scope, receive, send)
        elif is_http and (route := self.apps.get(scope["path"])) is not None:
            scope["route"], scope["path_params"] = route, {}
            await route.app(scope, receive, send)
        else:
            await self.router(scope, receive, send)


def _is_plain(route: Route) -> bool:
    endpoint = route.endpoint
    while isinstance(endpoint, partial):
        endpoint = endpoint.func
    # Middleware and applications are objects; Starlette wraps a function without middleware in a function.
    return inspect.isfunction(route.app) and inspect.iscoroutinefunction(endpoint)
