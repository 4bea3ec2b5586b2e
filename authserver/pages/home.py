"""The start of the settings, and the way to the dashboard."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver.web.page import Page
from authserver.web.server import Server

PATH: Final = "/settings"


async def show(server: Server, request: Request) -> Response:
    """Redirect to the dashboard, or to sign-in if nobody is signed in."""
    visit = await server.visit(request, "/")
    return server.pages.redirect_browser(f"{server.settings.base_url}/", visit.browser)


async def show_settings(server: Server, request: Request) -> Response:
    """Show the sections of the settings."""
    visit = await server.visit(request, PATH)
    page = Page("home.html", {"base_url": server.settings.base_url}, current_path=PATH)
    return server.pages.render(page, visit.browser)
