"""The page that greets whoever is signed in."""

from starlette.requests import Request
from starlette.responses import Response

from authserver.web.page import Page
from authserver.web.server import Server


async def show(server: Server, request: Request) -> Response:
    """Show what somebody can do here; who is not signed in is sent to sign in."""
    visit = await server.visit(request, "/")
    page = Page("home.html", {"base_url": server.settings.base_url}, current_path="/")
    return server.pages.render(page, visit.browser)
