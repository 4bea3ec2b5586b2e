"""Settings → Account → Delete. Operators have ``svc user delete``.

    account ──delete_account──► no account, no sign-in, no token; departed
                                           │  the janitor, a batch at a time
                                           ▼
                                 no row anywhere, a day later not even departed

The first arrow is one transaction (``sql/functions/deletion.sql``). After it, no session and no token of the
account is valid. The data may be millions of rows and is deleted in the background.
"""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import changes, events, forms, rows
from authserver.pages import confirm
from authserver.people.sessions import Browser, ConfirmationNeeded, Person, StaleForm
from authserver.web.page import Page
from authserver.web.server import Server
from shared import tokens

SQL: Final = rows.load("people/account.sql")

PATH: Final = "/settings/account/delete"


@dataclass(frozen=True)
class _Other:
    is_there: bool


async def show(server: Server, request: Request) -> Response:
    """Show what deleting the account means, and ask for its e-mail address."""
    visit = await server.visit(request, PATH, is_fresh=True)
    return server.pages.render(await _page(server, visit.person), visit.browser)


async def submit(server: Server, request: Request) -> Response:
    """Delete the account, and show the last page with a new anonymous session."""
    form = await forms.read(request)
    form.check()
    visit = await server.visit(request, PATH)
    typed = form.get("email") or ""
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        text = confirm.problem(error)
        page = await _page(server, visit.person, typed, problem=text, status=403)
        return server.pages.render(page, visit.browser)
    if typed.strip().lower() != visit.person.email:
        wrong = "This is not the e-mail address of your account. Nothing was deleted."
        page = await _page(server, visit.person, typed, email_problem=wrong, status=400)
        return server.pages.render(page, visit.browser)
    ended = await changes.run(
        server.database,
        SQL["delete_account"],
        visit.browser.session_parameters,
        events.request_origin(request),
    )
    if not ended:
        # The session has ended or become too old since it was checked.
        raise ConfirmationNeeded(visit.browser, PATH)
    anonymous = tokens.mint(tokens.SESSION, tokens.NOBODY)
    return server.pages.render(
        Page("goodbye.html", {}, shows_dashboard_image=True),
        Browser(anonymous, None, is_cookie_due=True),
    )


async def _page(
    server: Server,
    person: Person,
    typed: str = "",
    *,
    problem: str | None = None,
    email_problem: str | None = None,
    status: int = 200,
) -> Page:
    other = await rows.one(
        server.database, _Other, SQL["other_administrator"], {"user_id": person.user_id}
    )
    return Page(
        "account_delete.html",
        {
            "email": typed,
            "email_problem": email_problem,
            "problem": problem,
            "is_only_administrator": person.is_admin and not (other and other.is_there),
        },
        status=status,
        current_path=PATH,
    )
