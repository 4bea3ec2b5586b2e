"""Settings, connected apps: the applications that somebody let in, each with its grants."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import forms, grants, redirects
from authserver.grants import Grant
from authserver.pages import Page
from authserver.server import Server
from shared.scopes import SCOPES

PATH: Final = "/settings/apps"

DONE: Final = {
    "revoked": "The access is revoked. Whatever the application still holds is refused from now on.",
    "ended": "That access had ended already.",
}


@dataclass(frozen=True)
class Connection:
    """One grant of an application's: what a person agreed to at one time."""

    grant: Grant
    destination: str | None
    """Where the application's code was sent."""


@dataclass(frozen=True)
class App:
    """An application, under its own claim of what it is called."""

    title: str
    has_name: bool
    connections: list[Connection]


async def show(server: Server, request: Request) -> Response:
    """Show the applications that somebody let in, those let in last first."""
    visit = await server.visit(request, PATH)
    done = forms.decode(request.scope["query_string"]).get("done") or ""
    granted = await grants.of_user(server.database, visit.person.user_id)
    content = {
        "done": DONE.get(done),
        "apps": _apps(reversed(granted)),
        "sentences": SCOPES,
        "refresh_days": grants.REFRESH_TOKEN_LIFETIME.days,
    }
    return server.pages.render(Page("connected_apps.html", content, here=PATH), visit.browser)


def _apps(granted: Iterable[Grant]) -> list[App]:
    """Return the applications among those who hold ``granted``, in its order."""
    by_client: dict[str, App] = {}
    for grant in granted:
        if grant.client_id is None:
            continue
        app = by_client.setdefault(
            grant.client_id, App(grant.title, grant.title != grant.client_id, [])
        )
        destination = (
            None if grant.redirect_uri is None else redirects.destination(grant.redirect_uri)
        )
        app.connections.append(Connection(grant, destination))
    return list(by_client.values())
