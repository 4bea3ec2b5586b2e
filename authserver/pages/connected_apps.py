"""Settings → Connected apps: the applications with live grants of a person.

Each consent creates a grant, so an application on two machines may have two. The page has one entry for each
application, with its connections below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import forms
from authserver.oauth import client_ids, grants, redirects
from authserver.oauth.grants import Grant
from authserver.pages import grant_list
from authserver.web.page import Page
from authserver.web.server import Server
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.scopes import SCOPES

PATH: Final = "/settings/apps"

DONE: Final = {
    "revoked": "The access is revoked. Every token of the application is refused from now on.",
    "disconnected": "The connection is ended. Every token of it is refused from now on.",
    "ended": "That access had ended already.",
}


@dataclass(frozen=True)
class Connection:
    """One grant of an application, from one consent."""

    grant: Grant
    destination: str | None
    """Where the code was sent, for people."""


@dataclass(frozen=True)
class App:
    """An application. Its name is its own claim, so several may have the same."""

    client_id: str
    name: str | None
    connections: list[Connection]
    number: int
    """Its number on the page, which distinguishes applications of the same name."""

    @property
    def is_built_in(self) -> bool:
        """Whether it is the dashboard, which is a part of the service."""
        return self.client_id == DASHBOARD_CLIENT_ID

    @property
    def document_host(self) -> str | None:
        """The host of the document that describes it, or None if it registered."""
        return client_ids.document_host(self.client_id)

    @property
    def last_used_at(self) -> datetime | None:
        """The latest use of a connection, or None if there was none."""
        return self.connections[0].grant.last_used_at


async def show(server: Server, request: Request) -> Response:
    """Show the applications with access, last used first."""
    visit = await server.visit(request, PATH)
    query = forms.decode(request.scope["query_string"])
    listed = apps(await grants.of_user(server.database, visit.person.user_id))
    search = grant_list.search(query, len(listed))
    content = {
        "done": DONE.get(query.get("done") or ""),
        "apps": [app for app in listed if search.finds(app.name, app.client_id)],
        "search": search,
        "sentences": SCOPES,
        "refresh_days": grants.REFRESH_TOKEN_LIFETIME.days,
    }
    return server.pages.render(
        Page("connected_apps.html", content, current_path=PATH), visit.browser
    )


def apps(granted: Sequence[Grant]) -> list[App]:
    """Group the grants of applications by application, last used first."""
    by_client: dict[str, list[Grant]] = {}
    for grant in grant_list.last_used_first(granted):
        if grant.client_id is not None:
            by_client.setdefault(grant.client_id, []).append(grant)
    return [
        App(
            client_id,
            None if held[0].title == client_id else held[0].title,
            [Connection(grant, _destination(grant)) for grant in held],
            number,
        )
        for number, (client_id, held) in enumerate(by_client.items(), 1)
    ]


def _destination(grant: Grant) -> str | None:
    return None if grant.redirect_uri is None else redirects.destination(grant.redirect_uri)
