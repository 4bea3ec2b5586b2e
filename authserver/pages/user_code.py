"""The page at which a person enters the code that a device shows (RFC 8628, section 3.3).

A link with the code only fills it in: the page asks whether the device shows it, because the link may come
from another person, whose device would get the access (section 5.4).
"""

from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from authserver import errors, events, forms
from authserver.errors import TooManyRequests
from authserver.oauth import device
from authserver.people.sessions import Visit
from authserver.web.page import Page
from authserver.web.server import Server

PATH: Final = device.CODE_PATH

_NO_DEVICE: Final = (
    "No device waits with this code. Check the letters. A code works for 15 minutes; after that, let the "
    "device show another one."
)
_TOO_MANY: Final = "There were too many attempts. Wait a little, then try again."
_MAX_CHARACTERS: Final = 40


async def show(server: Server, request: Request) -> Response:
    """Show the form, or the code of a link with the question whether the device shows it."""
    text = forms.decode(request.scope["query_string"]).get("user_code")
    letters = device.parse_code(text or "")
    if letters is None:
        visit = await server.visit(request, PATH)
        return _render(server, visit)
    code = device.format_code(letters)
    visit = await server.visit(request, f"{PATH}?{urlencode({'user_code': code})}")
    return _render(server, visit, linked_code=code)


async def submit(server: Server, request: Request) -> Response:
    """Find the device of a code, and continue with the consent page."""
    visit = await server.visit(request, PATH)
    form = await forms.read(request)
    form.check()
    server.signer.check_form(request, form, visit.browser)
    typed = (form.get("user_code") or "")[:_MAX_CHARACTERS]
    address = events.request_origin(request).address
    try:
        counted = await server.throttle.count_user_code(visit.person.user_id, address)
        await server.throttle.count_authorization(visit.person.user_id, address)
    except TooManyRequests as error:
        refused = _render(server, visit, typed, problem=_TOO_MANY, status=error.status)
        refused.headers.update(errors.retry_after(error))
        return refused
    letters = device.parse_code(typed)
    request_id = None
    if letters is not None:
        request_id = await device.begin_consent(server, visit.browser.session, letters)
    if request_id is None:
        return _render(server, visit, typed, code_problem=_NO_DEVICE, status=400)
    await server.throttle.undo(counted)
    location = f"/oauth/consent?request={request_id.text}"
    return server.pages.redirect_browser(location, visit.browser)


def _render(
    server: Server,
    visit: Visit,
    typed: str = "",
    *,
    linked_code: str | None = None,
    problem: str | None = None,
    code_problem: str | None = None,
    status: int = 200,
) -> Response:
    content = {
        "typed": typed,
        "linked_code": linked_code,
        "problem": problem,
        "code_problem": code_problem,
    }
    return server.pages.render(Page("user_code.html", content, status), visit.browser)
