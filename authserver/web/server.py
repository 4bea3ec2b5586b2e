"""What every handler of the authorization server is given."""

from dataclasses import dataclass

from starlette.requests import Request

from authserver import rows
from authserver.forms import Form
from authserver.people import provider, sessions, throttle
from authserver.people.passwords import Hasher
from authserver.people.provider import Provider
from authserver.people.sessions import (
    Browser,
    ConfirmationNeeded,
    OldSignIn,
    Signer,
    SignInNeeded,
    Visit,
)
from authserver.people.throttle import Throttle
from authserver.people.zones import Zones
from authserver.rows import Database
from authserver.web import page
from authserver.web.page import Pages
from shared.settings import Settings


@dataclass(frozen=True)
class Server:
    """One process of the authorization server."""

    settings: Settings
    database: Database
    signer: Signer
    pages: Pages
    hasher: Hasher
    throttle: Throttle
    zones: Zones
    slow: Database
    """For what may take long: nobody else waits on its connections."""
    provider: Provider | None = None
    """Who else people may sign in through."""

    @property
    def provider_issuer(self) -> str | None:
        """Whose identities are a way in here."""
        return None if self.provider is None else self.provider.chosen.issuer

    async def browser(self, request: Request) -> Browser:
        """Return who asks for a page."""
        return await sessions.browser(self.signer, self.database, request)

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

    def check_fresh_form(self, request: Request, form: Form, visit: Visit) -> None:
        """Return where ``form`` is good and its sender proved who they are a moment ago.

        Raises ForgedForm, StaleForm, and OldSignIn where nothing but the sign-in is too old: the form is
        then to be shown again with what was typed into it (``confirm.problem``).
        """
        self.signer.check_form(request, form, visit.browser)
        if not visit.person.is_fresh:
            raise OldSignIn


def server(chosen: Settings, hasher: Hasher | None = None) -> Server:
    """Return a server for ``chosen``, by default with a hasher of its own. Raises SettingsError."""
    database = rows.connect(chosen)
    signer = sessions.signer(chosen)
    return Server(
        settings=chosen,
        database=database,
        signer=signer,
        pages=page.pages(signer, chosen),
        hasher=hasher or Hasher(),
        throttle=throttle.throttle(chosen, database),
        zones=Zones(database),
        slow=rows.connect(chosen, size=chosen.auth_slow_connections, depth=1),
        provider=provider.provider(chosen),
    )
