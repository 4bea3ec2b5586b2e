"""Settings → Revoke: revoking a grant of an application or an API token, after a question."""

from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import NotFound
from authserver.forms import Form
from authserver.oauth import grants, redirects
from authserver.oauth.grants import Grant
from authserver.pages import api_access, connected_apps, sign_in
from authserver.people.sessions import StaleForm, Visit
from authserver.web.page import Page
from authserver.web.server import Server


@dataclass(frozen=True)
class _Subject:
    """The grant to revoke. ``grant`` is None if it has ended already."""

    grant_id: UUID
    grant: Grant | None
    list_path: str


async def show(server: Server, request: Request) -> Response:
    """Ask whether to revoke a grant. If it has ended already, go back to the list with a message."""
    visit = await server.visit(request, "/")
    subject = await _subject(server, visit, forms.decode(request.scope["query_string"]))
    return _ask(server, visit, subject)


async def revoke(server: Server, request: Request) -> Response:
    """Revoke the grant and go back to the list."""
    form = await forms.read(request)
    form.check()
    visit = await server.visit(request, "/")
    subject = await _subject(server, visit, form)
    try:
        server.signer.check_form(request, form, visit.browser)
    except StaleForm:
        return _ask(server, visit, subject, problem=sign_in.OUT_OF_DATE, status=403)
    is_revoked = await grants.revoke(
        server.database, visit.person.user_id, subject.grant_id, events.request_origin(request)
    )
    done = "revoked" if is_revoked else "ended"
    return server.pages.redirect_browser(f"{subject.list_path}?done={done}", visit.browser)


async def _subject(server: Server, visit: Visit, form: Form) -> _Subject:
    """Return the grant of a link or form. Raises NotFound, also for another person's grant."""
    try:
        grant_id = UUID(form.get("grant") or "")
    except ValueError:
        raise NotFound from None
    user_id = visit.person.user_id
    holder = await grants.holder(server.database, user_id, grant_id)
    if holder is None:
        raise NotFound
    live = await grants.of_user(server.database, user_id)
    return _Subject(
        grant_id,
        next((grant for grant in live if grant.grant_id == grant_id), None),
        api_access.PATH if holder.client_id is None else connected_apps.PATH,
    )


def _ask(
    server: Server,
    visit: Visit,
    subject: _Subject,
    *,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    grant = subject.grant
    if grant is None:
        return server.pages.redirect_browser(f"{subject.list_path}?done=ended", visit.browser)
    content = {
        "grant": grant,
        "destination": grant.redirect_uri and redirects.destination(grant.redirect_uri),
        "list_path": subject.list_path,
        "problem": problem,
    }
    page = Page("revoke.html", content, status, current_path=subject.list_path)
    return server.pages.render(page, visit.browser)
