"""Settings → Account → How you sign in: the password, the passkeys and the provider.

The page and its forms require a fresh sign-in.
"""

from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from authserver import forms
from authserver.errors import NotFound
from authserver.forms import Form
from authserver.pages import browsers, confirm
from authserver.people import accounts, identities, names, passkeys, passwords
from authserver.people.passkeys import ProofRefused
from authserver.people.passwords import UnacceptablePassword
from authserver.people.sessions import SignInNeeded, StaleForm, Visit
from authserver.web.page import Page
from authserver.web.server import Server

PATH: Final = "/settings/account/sign-in"

_DONE: Final = {
    "password": "Your password is changed. All other browsers are signed out.",
    "added": "The passkey is added. You can sign in with it from now on.",
    "removed": "The passkey is removed. It can no longer be used to sign in.",
    "connected": "It is connected. You can sign in through it from now on.",
    "disconnected": "It is disconnected. It can no longer be used to sign in here.",
}
_LAST_METHOD: Final = (
    "This is your only way to sign in, so it was not removed. "
    "Set a password or add another passkey first."
)


async def show(server: Server, request: Request) -> Response:
    """Show the sign-in methods."""
    visit = await server.visit(request, PATH, is_fresh=True)
    done = forms.decode(request.scope["query_string"]).get("done") or ""
    return await _render(server, visit, request, done=_DONE.get(done))


async def change_password(server: Server, request: Request) -> Response:
    """Change the password. This browser stays signed in; all others are signed out."""
    visit, form = await _read(server, request)
    try:
        server.check_fresh_form(request, form, visit)
        session = await accounts.change_own_password(
            server, visit, form.get("password") or "", request
        )
    except StaleForm as error:
        return await _render_refused(server, visit, request, error)
    except UnacceptablePassword as error:
        return await _render(server, visit, request, password_problem=str(error), status=400)
    if session is None:
        raise SignInNeeded(visit.browser, PATH)
    return server.pages.redirect(f"{PATH}?done=password", session, visit.browser.known_id)


async def add_passkey(server: Server, request: Request) -> Response:
    """Store a new passkey."""
    visit, form = await _read(server, request)
    name = (form.get("name") or "").strip()
    problem = names.problem(name)
    try:
        server.check_fresh_form(request, form, visit)
        if problem is None:
            await passkeys.add(server, visit, form.get("credential") or "", name, request)
    except StaleForm as error:
        return await _render_refused(server, visit, request, error, name)
    except ProofRefused as error:
        return await _render(server, visit, request, name=name, problem=str(error), status=400)
    if problem is not None:
        return await _render(server, visit, request, name=name, name_problem=problem, status=400)
    return server.pages.redirect_browser(f"{PATH}?done=added", visit.browser)


async def remove_passkey(server: Server, request: Request) -> Response:
    """Remove a passkey, unless it is the last sign-in method. Raises NotFound if it is not theirs."""
    visit, form = await _read(server, request)
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return await _render_refused(server, visit, request, error)
    passkey_id = _id(form.get("passkey") or "")
    if not await passkeys.remove(server, visit, passkey_id, request):
        known = await passkeys.of_user(server.database, visit.person.user_id)
        if passkey_id not in [each.passkey_id for each in known]:
            raise NotFound
        return await _render(server, visit, request, problem=_LAST_METHOD, status=400)
    return server.pages.redirect_browser(f"{PATH}?done=removed", visit.browser)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise NotFound from error


async def _read(server: Server, request: Request) -> tuple[Visit, Form]:
    form = await forms.read(request)
    form.check()
    return await server.visit(request, PATH), form


async def _render_refused(
    server: Server, visit: Visit, request: Request, error: StaleForm, name: str | None = None
) -> Response:
    text = confirm.problem(error)
    return await _render(server, visit, request, name=name, problem=text, status=403)


async def _render(
    server: Server,
    visit: Visit,
    request: Request,
    *,
    name: str | None = None,
    done: str | None = None,
    problem: str | None = None,
    password_problem: str | None = None,
    name_problem: str | None = None,
    status: int = 200,
) -> Response:
    """Return the page. ``name`` is the typed name of a new passkey, by default the browser's description."""
    known = await passkeys.of_user(server.database, visit.person.user_id)
    ways = await passkeys.sign_in_methods(server, visit.person.user_id)
    content = {
        "path": PATH,
        "has_password": ways.has_password,
        "connection": await identities.connection(
            server.database, visit.person.user_id, server.provider_issuer
        ),
        "passkeys": known,
        "may_remove": ways.count > 1,
        "add_options": passkeys.add_options(server.signer, visit.browser, visit.person, known),
        "are_passkeys_supported": passkeys.are_supported(server.signer),
        "name": browsers.describe(request.headers.get("user-agent")) if name is None else name,
        "min_characters": passwords.MIN_CHARACTERS,
        "done": done,
        "problem": problem,
        "password_problem": password_problem,
        "name_problem": name_problem,
    }
    page = Page(
        "sign_in_methods.html", content, status, may_end_at_provider=True, current_path=PATH
    )
    return server.pages.render(page, visit.browser)
