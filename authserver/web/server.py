"""The server object that all handlers of the authorization server receive."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from authserver import lineage, rows
from authserver.forms import Form
from authserver.lineage import Lineage
from authserver.people import external_sign_ins, sessions, throttle
from authserver.people.passwords import Hasher
from authserver.people.sessions import (
    Browser,
    ConfirmationNeeded,
    OldSignIn,
    Signer,
    SignInNeeded,
    StaleForm,
    Visit,
)
from authserver.people.throttle import Throttle
from authserver.people.zones import Zones
from authserver.rows import Database
from authserver.web import page
from authserver.web.page import Pages
from shared.settings import Settings

if TYPE_CHECKING:
    from authserver.people.provider import Provider


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
    lineage: Lineage
    slow: Database
    """Separate connections for slow statements, so that other requests do not wait behind them."""
    provider: "Provider | None" = None
    """The OpenID Connect provider, if one is configured."""

    @property
    def provider_issuer(self) -> str | None:
        """The issuer of the provider, if one is configured."""
        return None if self.provider is None else self.provider.chosen.issuer

    async def browser(self, request: Request) -> Browser:
        """Return the browser that sent a request."""
        return await sessions.browser(self.signer, self.database, request)

    async def visit(
        self, request: Request, path: str, *, is_fresh: bool = False, back: str = ""
    ) -> Visit:
        """Return the browser and person of a page for signed-in people. ``path`` is where sign-in returns to.

        ``is_fresh``: the person must have authenticated recently. ``back`` is the view that linked here.
        Raises SignInNeeded, ConfirmationNeeded.
        """
        browser = await self.browser(request)
        if browser.person is None:
            raise SignInNeeded(browser, path)
        if is_fresh and not browser.person.is_fresh:
            raise ConfirmationNeeded(browser, path)
        return Visit(browser, browser.person, back)

    def is_stale_form(self, request: Request, form: Form, visit: Visit) -> bool:
        """Return whether ``form`` is of an earlier session of its sender: then show the page again.

        Raises ForgedForm.
        """
        try:
            self.signer.check_form(request, form, visit.browser)
        except StaleForm:
            return True
        return False

    def check_fresh_form(self, request: Request, form: Form, visit: Visit) -> None:
        """Check ``form`` and that its sender authenticated recently.

        Raises ForgedForm, StaleForm, and OldSignIn if only the sign-in is too old: then show the form
        again with the typed values and ``confirm.problem``.
        """
        self.signer.check_form(request, form, visit.browser)
        if not visit.person.is_fresh:
            raise OldSignIn


def server(chosen: Settings, hasher: Hasher | None = None) -> Server:
    """Return the server for the settings ``chosen``. Raises SettingsError."""
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
        lineage=lineage.lineage(chosen),
        slow=rows.connect(chosen, size=chosen.auth_slow_connections, depth=1),
        provider=external_sign_ins.provider(chosen),
    )
