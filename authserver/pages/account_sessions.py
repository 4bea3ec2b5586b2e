"""Settings → Account → Where you are signed in."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import InvalidRequest
from authserver.pages import browsers, sign_in
from authserver.people import sessions
from authserver.people.sessions import SignIn, StaleForm, Visit
from authserver.web.page import Page
from authserver.web.server import Server

PATH: Final = "/settings/account/sessions"

_DONE: Final = {
    "ended": "That browser is signed out.",
    "others": "All other browsers are signed out.",
}
_GONE: Final = "That browser is not signed in any more. Nothing was changed."


async def show(server: Server, request: Request) -> Response:
    """List the browsers in which the person is signed in."""
    done = forms.decode(request.scope["query_string"]).get("done") or ""
    visit = await server.visit(request, PATH)
    return await _answer(server, visit, done=_DONE.get(done))


async def end(server: Server, request: Request) -> Response:
    """Sign out one browser, all other browsers, or all browsers."""
    form = await forms.read(request)
    form.check()
    visit = await server.visit(request, PATH)
    try:
        server.signer.check_form(request, form, visit.browser)
    except StaleForm:
        return await _answer(server, visit, problem=sign_in.OUT_OF_DATE, status=403)
    own = visit.browser.session
    user_id, origin = visit.person.user_id, events.request_origin(request)
    match form.get("what"):
        case "others":
            await sessions.sign_out_everywhere(server.database, user_id, origin, except_for=own)
            # This browser remains known to the account, from now on.
            return server.pages.redirect(f"{PATH}?done=others", own, visit.browser.known_id)
        case "all":
            await sessions.sign_out_everywhere(server.database, user_id, origin)
            # Pending requests of this browser move to its new anonymous session.
            anonymous = await sessions.sign_out(server.database, visit.browser, request)
            return server.pages.redirect(sign_in.SIGNED_OUT_EVERYWHERE, anonymous)
        case "one":
            return await _end_one(server, request, visit, form.get("session") or "")
        case _:
            raise InvalidRequest("what must be one, others or all")


async def _end_one(server: Server, request: Request, visit: Visit, key: str) -> Response:
    if key == visit.browser.session.hash.hex():
        anonymous = await sessions.sign_out(server.database, visit.browser, request)
        return server.pages.redirect(sign_in.SIGNED_OUT, anonymous)
    origin = events.request_origin(request)
    session_hash = _hash(key)
    if session_hash is not None and await sessions.end(
        server.database, visit.person.user_id, session_hash, origin
    ):
        return server.pages.redirect_browser(f"{PATH}?done=ended", visit.browser)
    return await _answer(server, visit, problem=_GONE, status=404)


def _hash(key: str) -> bytes | None:
    try:
        return bytes.fromhex(key)
    except ValueError:
        return None


async def _answer(
    server: Server,
    visit: Visit,
    *,
    done: str | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    own = visit.browser.session.hash
    found = await sessions.of_user(server.database, visit.person.user_id)
    content = {
        # This browser comes first, then the most recently used.
        "sign_ins": sorted(
            (_row(each, own) for each in reversed(found)),
            key=lambda row: not row["is_this"],
        ),
        "done": done,
        "problem": problem,
    }
    page = Page("account_sessions.html", content, status=status, current_path=PATH)
    return server.pages.render(page, visit.browser)


def _row(each: SignIn, own: bytes) -> dict[str, object]:
    return {
        # The hash of the session token. The cookie cannot be computed from it, and it only identifies a
        # session of the signed-in person.
        "key": each.session_hash.hex(),
        "device": browsers.describe(each.user_agent),
        "address": each.address,
        "created_at": each.created_at,
        "seen_at": each.seen_at,
        "is_this": each.session_hash == own,
    }
