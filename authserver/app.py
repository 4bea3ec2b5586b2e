"""The authorization server: who people are, and what they let applications do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from authserver import (
    authorize,
    consent,
    home,
    janitor,
    join,
    metadata,
    pages,
    registration,
    revocation,
    rows,
    sign_in,
    token,
)
from authserver.cors import OpenToAllOrigins
from authserver.errors import HeadersTooLarge, ServerError
from authserver.failures import Failures
from authserver.pages import OneName
from authserver.server import Server, server
from shared import settings
from shared.settings import Settings
from shared.web import HeaderLimit, LastResort, RequestLog


def create(
    chosen: Settings | None = None, *, clean_every: timedelta = janitor.INTERVAL
) -> Starlette:
    """Return the application for ``chosen``, by default what the environment says.

    While it runs, its janitor comes about every ``clean_every``.
    """
    this = server(chosen or settings.read())
    for_machines = machine_routes(this)
    machine_paths = frozenset(route.path for route in for_machines)
    failures = Failures(this.pages, machine_paths)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # The janitor has a connection of its own, so that no request waits behind what it does.
        async with (
            rows.connected(this.settings, size=1, depth=1) as own,
            janitor.at_work(own, clean_every),
        ):
            yield
        this.database.close()

    app = Starlette(
        routes=[*for_machines, *page_routes(this), static_files()],
        middleware=[
            Middleware(RequestLog),
            Middleware(OpenToAllOrigins, paths=machine_paths),
            Middleware(HeaderLimit, answer=failures.always(HeadersTooLarge())),
            Middleware(LastResort, answer=failures.always(ServerError())),
            Middleware(OneName, issuer=this.settings.auth_url, except_paths=machine_paths),
        ],
        exception_handlers=failures.handlers(),
        lifespan=lifespan,
    )
    # A path with a slash too many is another path, and there is nothing.
    app.router.redirect_slashes = False
    return app


def machine_routes(this: Server) -> list[Route]:
    """Return what applications talk to: any origin, no cookies, JSON."""
    return [
        Route(metadata.PATH, partial(metadata.show, this), name="metadata"),
        Route(
            "/oauth/register",
            partial(registration.register, this),
            methods=["POST"],
            name="register",
        ),
        Route("/oauth/token", partial(token.issue, this), methods=["POST"], name="token"),
        Route("/oauth/revoke", partial(revocation.revoke, this), methods=["POST"], name="revoke"),
    ]


def page_routes(this: Server) -> list[Route]:
    """Return what people look at, in the order in which a new one meets it."""
    return [
        Route("/join", partial(join.show, this), name="show_join"),
        Route("/join", partial(join.submit, this), methods=["POST"], name="join"),
        Route("/sign-in", partial(sign_in.show, this), name="show_sign_in"),
        Route("/sign-in", partial(sign_in.submit, this), methods=["POST"], name="sign_in"),
        Route("/sign-out", partial(sign_in.leave, this), methods=["POST"], name="sign_out"),
        Route("/", partial(home.show, this), name="home"),
        Route("/oauth/authorize", partial(authorize.show, this), name="authorize"),
        Route("/oauth/consent", partial(consent.show, this), name="show_consent"),
        Route("/oauth/consent", partial(consent.decide, this), methods=["POST"], name="consent"),
    ]


def static_files() -> Mount:
    """Return the style sheet's place."""
    return Mount("/static", StaticFiles(directory=pages.STATIC), name="static")
