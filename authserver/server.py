"""What every handler of the authorization server is given."""

from dataclasses import dataclass

from starlette.requests import Request

from authserver import pages, rows, sessions, throttle
from authserver.pages import Pages
from authserver.passwords import Hasher
from authserver.rows import Database
from authserver.sessions import Browser, Seal
from authserver.throttle import Throttle
from shared.settings import Settings


@dataclass(frozen=True)
class Server:
    """One process of the authorization server."""

    settings: Settings
    database: Database
    seal: Seal
    pages: Pages
    hasher: Hasher
    throttle: Throttle

    async def browser(self, request: Request) -> Browser:
        """Return who asks for a page."""
        return await sessions.browser(self.seal, self.database, request)


def server(chosen: Settings) -> Server:
    """Return a server for ``chosen``; Raises SettingsError."""
    database = rows.connect(chosen)
    seal = sessions.seal(chosen)
    return Server(
        settings=chosen,
        database=database,
        seal=seal,
        pages=pages.pages(seal),
        hasher=Hasher(),
        throttle=throttle.throttle(chosen, database),
    )
