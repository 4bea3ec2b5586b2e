"""The start page for signed-in people."""

from starlette.requests import Request
from starlette.responses import Response

from authserver.web.page import Page
from authserver.web.server import Server


async def show(server: Server, request: Request) -> Response:
    """Show the sections of the settings. Redirects to sign-in if nobody is signed in."""
    visit = await server.visit(request, "/")
    page = Page("home.html", {"base_url": server.settings.base_url}, current_path="/")
    return server.pages.render(page, visit.browser)
