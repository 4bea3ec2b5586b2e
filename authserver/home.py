"""The page that greets whoever is signed in."""

from starlette.requests import Request
from starlette.responses import Response

from authserver.pages import Page
from authserver.server import Server


async def show(server: Server, request: Request) -> Response:
    """Show the service's addresses and a way out; who is not signed in is sent to sign in."""
    browser = await server.browser(request)
    if browser.person is None:
        return server.pages.redirect_browser("/sign-in", browser)
    return server.pages.render(Page("home.html", {"base_url": server.settings.base_url}), browser)
