"""Settings → Connected apps: the applications with live grants of a person."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import forms
from authserver.oauth import grants, redirects
from authserver.oauth.grants import Grant
from authserver.web.page import Page
from authserver.web.server import Server
from shared.scopes import SCOPES

PATH: Final = "/settings/apps"

DONE: Final = {
    "revoked": "The access is revoked. Whatever the application still holds is refused from now on.",
    "ended": "That access had ended already.",
}


@dataclass(frozen=True)
class Connection:
    """One grant of an application, from one consent."""

    grant: Grant
    destination: str | None
    """Where the code was sent, for people."""
    number: int
    """Its number on the page, which distinguishes links for applications of the same name."""


@dataclass(frozen=True)
class App:
    """An application. Its name is its own claim, so several may have the same."""

    client_id: str
    name: str | None
    connections: list[Connection]


async def show(server: Server, request: Request) -> Response:
    """Show the applications with access, latest consent first."""
    visit = await server.visit(request, PATH)
    done = forms.decode(request.scope["query_string"]).get("done") or ""
    granted = await grants.of_user(server.database, visit.person.user_id)
    apps = _apps(reversed(granted))
    content = {
        "done": DONE.get(done),
        "apps": apps,
        "count": sum(len(app.connections) for app in apps),
        "sentences": SCOPES,
        "refresh_days": grants.REFRESH_TOKEN_LIFETIME.days,
    }
    return server.pages.render(
        Page("connected_apps.html", content, current_path=PATH), visit.browser
    )


def _apps(granted: Iterable[Grant]) -> list[App]:
    """Group the grants of applications by application, in the order of ``granted``."""
    by_client: dict[str, list[Grant]] = {}
    for grant in granted:
        if grant.client_id is not None:
            by_client.setdefault(grant.client_id, []).append(grant)
    numbers = count(1)
    return [
        App(
            client_id,
            None if held[0].title == client_id else held[0].title,
            [Connection(grant, _destination(grant), next(numbers)) for grant in held],
        )
        for client_id, held in by_client.items()
    ]


def _destination(grant: Grant) -> str | None:
    return None if grant.redirect_uri is None else redirects.destination(grant.redirect_uri)
