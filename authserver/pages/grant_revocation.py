"""Settings → Revoke: ending access, after a question.

A link names what it ends: ``client``, all access of an application, or ``grant``, a single connection of an
application or an API token.
"""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import NotFound
from authserver.events import RequestOrigin
from authserver.forms import Form
from authserver.oauth import grants, redirects
from authserver.oauth.grants import Grant
from authserver.pages import api_access, connected_apps, grant_list, sign_in
from authserver.people.sessions import StaleForm, Visit
from authserver.web.page import Page
from authserver.web.server import Server


@dataclass(frozen=True)
class _Subject:
    """The access to end."""

    parameter: Literal["client", "grant"]
    value: str
    """The client id or the grant id."""
    grants: list[Grant]
    """The live grants, last used first; none if the access has ended already."""
    has_more: bool
    """Whether the application keeps other connections."""
    list_path: str

    @property
    def done(self) -> str:
        """The message of the list after the end."""
        return "disconnected" if self.has_more else "revoked"


async def show(server: Server, request: Request) -> Response:
    """Ask whether to end access. If it has ended already, go back to the list with a message."""
    visit = await server.visit(request, connected_apps.PATH)
    subject = await _subject(server, visit, forms.decode(request.scope["query_string"]))
    return _ask(server, visit, subject)


async def revoke(server: Server, request: Request) -> Response:
    """End the access and go back to the list."""
    form = await forms.read(request)
    form.check()
    visit = await server.visit(request, connected_apps.PATH)
    subject = await _subject(server, visit, form)
    try:
        server.signer.check_form(request, form, visit.browser)
    except StaleForm:
        return _ask(server, visit, subject, problem=sign_in.OUT_OF_DATE, status=403)
    is_revoked = await _revoke(server, visit, subject, events.request_origin(request))
    done = subject.done if is_revoked else "ended"
    return server.pages.redirect_browser(f"{subject.list_path}?done={done}", visit.browser)


async def _revoke(server: Server, visit: Visit, subject: _Subject, origin: RequestOrigin) -> bool:
    user_id = visit.person.user_id
    if subject.parameter == "client":
        return await grants.revoke_client(server.database, user_id, subject.value, origin)
    return await grants.revoke(server.database, user_id, UUID(subject.value), origin)


async def _subject(server: Server, visit: Visit, form: Form) -> _Subject:
    """Return what a link or form names. Raises NotFound, also for access that another person gave."""
    user_id = visit.person.user_id
    client_id = form.get("client")
    if client_id is not None:
        if not await grants.is_known_client(server.database, user_id, client_id):
            raise NotFound
        held = await _live(server, user_id, client_id)
        return _Subject("client", client_id, held, False, connected_apps.PATH)
    try:
        grant_id = UUID(form.get("grant") or "")
    except ValueError:
        raise NotFound from None
    holder = await grants.holder(server.database, user_id, grant_id)
    if holder is None:
        raise NotFound
    held = await _live(server, user_id, holder.client_id)
    return _Subject(
        "grant",
        str(grant_id),
        [grant for grant in held if grant.grant_id == grant_id],
        holder.client_id is not None and len(held) > 1,
        api_access.PATH if holder.client_id is None else connected_apps.PATH,
    )


async def _live(server: Server, user_id: UUID, client_id: str | None) -> list[Grant]:
    """Return the live grants of an application from a person, or those of all API tokens."""
    live = grant_list.last_used_first(await grants.of_user(server.database, user_id))
    return [grant for grant in live if grant.client_id == client_id]


def _ask(
    server: Server,
    visit: Visit,
    subject: _Subject,
    *,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    if not subject.grants:
        return server.pages.redirect_browser(f"{subject.list_path}?done=ended", visit.browser)
    grant = subject.grants[0]
    content = {
        "subject": subject,
        "grant": grant,
        "destinations": _destinations(subject.grants),
        "problem": problem,
    }
    page = Page("revoke.html", content, status, current_path=subject.list_path)
    return server.pages.render(page, visit.browser)


def _destinations(held: list[Grant]) -> list[str]:
    uris = (grant.redirect_uri for grant in held if grant.redirect_uri is not None)
    return list(dict.fromkeys(redirects.destination(uri) for uri in uris))
