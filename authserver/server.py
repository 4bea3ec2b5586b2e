"""What every handler of the authorization server is given."""

from dataclasses import dataclass

from starlette.requests import Request

from authserver import pages, provider, rows, sessions, throttle
from authserver.pages import Pages
from authserver.passwords import Hasher
from authserver.provider import Provider
from authserver.rows import Database
from authserver.sessions import Browser, ConfirmationNeeded, Seal, SignInNeeded, Visit
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
    provider: Provider | None = None
    """Who else people may sign in through."""

    @property
    def provider_issuer(self) -> str | None:
        """Whose identities are a way in here."""
        return None if self.provider is None else self.provider.chosen.issuer

    async def browser(self, request: Request) -> Browser:
        """Return who asks for a page."""
        return await sessions.browser(self.seal, self.database, request)

    async def visit(self, request: Request, path: str, *, is_fresh: bool = False) -> Visit:
        """Return who asks for a page of their own; ``path`` is the one to come back to after sign-in.

        ``is_fresh``: they must have proved who they are a moment ago. Raises SignInNeeded,
        ConfirmationNeeded.
        """
        browser = await self.browser(request)
        if browser.person is None:
            raise SignInNeeded(browser, path)
        if is_fresh and not browser.person.is_fresh:
            raise ConfirmationNeeded(browser, path)
        return Visit(browser, browser.person)


def server(chosen: Settings) -> Server:
    """Return a server for ``chosen``; Raises SettingsError."""
    database = rows.connect(chosen)
    seal = sessions.seal(chosen)
    return Server(
        settings=chosen,
        database=database,
        seal=seal,
        pages=pages.pages(seal, chosen),
        hasher=Hasher(),
        throttle=throttle.throttle(chosen, database),
        provider=provider.provider(chosen),
    )
