"""What every handler of the authorization server is given."""

from dataclasses import dataclass

from starlette.requests import Request

from authserver import pages, sessions
from authserver.pages import Pages
from authserver.passwords import Hasher
from authserver.sessions import Browser, Seal
from shared import database
from shared.database import Pool
from shared.settings import Settings

CONNECTIONS = 10
"""Most connections of one process."""


@dataclass(frozen=True)
class Server:
    """One process of the authorization server."""

    settings: Settings
    pool: Pool
    seal: Seal
    pages: Pages
    hasher: Hasher

    async def browser(self, request: Request) -> Browser:
        """Return who asks for a page."""
        return await sessions.browser(self.seal, self.pool, request)


def server(chosen: Settings) -> Server:
    """Return a server for ``chosen``; its pool is still to be opened. Raises SettingsError."""
    seal = sessions.seal(chosen)
    return Server(
        settings=chosen,
        pool=database.pool(chosen, "authserver", size=CONNECTIONS),
        seal=seal,
        pages=pages.pages(seal),
        hasher=Hasher(),
    )
