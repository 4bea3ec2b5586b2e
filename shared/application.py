"""One of the two servers as an ASGI application: routes, and what every request goes through.

    request ──► RequestLog ──► error_middleware ──► Guard ──► route_middleware ──► route
                id, log line                        limits,                        looked up by
                                                    errors                         path and method

Starlette's own application searches its routes in order and wraps each request in three handlers of
exceptions. Here both are done once, which takes a third of the time. What is declared (routes, handlers of
exceptions, lifespan) stays Starlette's.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, ExceptionHandler, Receive, Scope, Send

from shared.web import RefusedBody, RequestLog, answer_has_started, error_log

MAX_ADDRESS_BYTES: Final = 16 * 1024
"""The path and the query of a request together, as they were sent."""
MAX_HEADER_BYTES: Final = 32 * 1024
"""Names and values of all headers of a request together."""

Handler = Callable[[Request], Awaitable[Response]]
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Refusals:
    """The answers that no route makes, each from the path of the request."""

    internal_error: Callable[[str], Response]
    """It says nothing of what went wrong."""
    headers_too_large: Callable[[str], Response]
    """For more headers than any client needs (431; RFC 6585, section 5)."""
    address_too_long: Callable[[str], Response] | None = None
    """For addresses longer than any that we give out (414; RFC 9110, section 15.5.15); None takes them."""


class Application(Starlette):
    """A Starlette application whose requests take the path above."""

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
        """Take what Starlette takes; ``error_middleware`` sees the answers to errors as well."""
        super().__init__(routes=routes, lifespan=lifespan)
        # A path with a slash too many is another path, and there is nothing.
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
        # Where Starlette's routes look for them, so that middleware of a route sees answers to errors too.
        scope["starlette.exception_handlers"] = (self.handlers, {})
        try:
            refused = self._refused(scope)
            if refused is None:
                await self.app(scope, receive, send)
            else:
                await refused(scope, receive, send)
        except Exception as error:
            if answer_has_started(scope):
                # The answer cannot be mended any more; its connection is broken off.
                error_log.exception("request_id=%s unexpected error", scope.get("svc.request_id"))
                raise
            answer = await self._answer(Request(scope, receive), error)
            await answer(scope, receive, send)

    def _refused(self, scope: Scope) -> Response | None:
        if self.refusals.address_too_long is not None:
            path = scope.get("raw_path") or scope["path"].encode()
            if len(path) + len(scope["query_string"]) > MAX_ADDRESS_BYTES:
                return self.refusals.address_too_long(scope["path"])
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            return self.refusals.headers_too_large(scope["path"])
        return None

    async def _answer(self, request: Request, error: Exception) -> Response:
        handler = next(
            (self.handlers[each] for each in type(error).__mro__ if each in self.handlers), None
        )
        if handler is not None:
            try:
                answer: Response = await handler(request, error)  # type: ignore[arg-type, misc]
            except Exception as another:
                error = another
            else:
                return answer
        error_log.error(
            "request_id=%s unexpected error", request.scope.get("svc.request_id"), exc_info=error
        )
        return self.refusals.internal_error(request.scope["path"])


@dataclass(frozen=True)
class Paths:
    """The routes of an application by their path and method.

    A route of a function without middleware is asked directly. All others, and every path that no route has,
    go to the router.
    """

    handlers: Mapping[str, Mapping[str, tuple[Route, Handler]]]
    """By path and method."""
    router: ASGIApp

    @classmethod
    def of(cls, routes: Sequence[BaseRoute], router: ASGIApp) -> "Paths":
        """Return the functions among ``routes``; the first one of a path and method counts."""
        handlers: dict[str, dict[str, tuple[Route, Handler]]] = {}
        for route in routes:
            # An application of its own, or one with middleware, is no function.
            if isinstance(route, Route) and inspect.isfunction(route.app):
                methods = handlers.setdefault(route.path, {})
                for method in route.methods or ():
                    methods.setdefault(method, (route, route.endpoint))
        return cls(handlers, router)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        methods = self.handlers.get(scope["path"]) if scope["type"] == "http" else None
        found = None if methods is None else methods.get(scope["method"])
        if found is None:
            await self.router(scope, receive, send)
            return
        route, handler = found
        scope["route"] = route
        scope["path_params"] = {}
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)
