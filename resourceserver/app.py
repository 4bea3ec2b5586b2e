"""The resource server: one person's data, to whoever holds a token of theirs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from resourceserver import endpoint, errors, ingest, metadata, probes
from resourceserver.endpoints import ENDPOINTS
from resourceserver.session import Reader
from shared import database, settings
from shared.settings import Settings
from shared.web import RequestLog

READERS = 10
"""Most connections of one process for reading; ingest has its own, so that neither starves the other."""
WRITERS = 5


def create(chosen: Settings | None = None) -> Starlette:
    """Return the application for ``chosen``, by default what the environment says."""
    chosen = chosen or settings.read()
    readers = database.pool(chosen, "reader", size=READERS)
    writers = database.pool(chosen, "ingester", size=WRITERS)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with readers, writers:
            yield

    app = Starlette(
        routes=[
            *endpoint.routes(ENDPOINTS, Reader(readers), chosen.base_url),
            *ingest.routes(chosen, writers),
            *metadata.routes(chosen),
            *probes.routes(chosen, readers),
        ],
        middleware=[Middleware(RequestLog), Middleware(GZipMiddleware, minimum_size=1024)],
        exception_handlers=errors.handlers(chosen),
        lifespan=lifespan,
    )
    # A path with a slash too many is another path, and there is nothing.
    app.router.redirect_slashes = False
    return app
