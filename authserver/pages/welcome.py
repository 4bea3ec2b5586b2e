"""Welcome: the way of a new person to their first event, in three steps.

    key for this computer ──► line to paste into a terminal ──► first event seen ──► dashboard

Each step says whether it is done. With JavaScript the page asks every two seconds, while it is visible, and
continues to the dashboard by itself. A person who has data is sent to the dashboard at once, except from the
page that connects one more computer.

The key is an API token. As on the page of API tokens, the form contains a random draft id from which the
grant id is computed, so that a form that is submitted twice creates one token.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4, uuid5

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from authserver import events, forms, rows
from authserver.errors import InvalidRequest
from authserver.oauth import grants
from authserver.oauth.grants import APITokenExists, TooManyAPITokens
from authserver.pages import api_access, browsers, confirm
from authserver.people import names
from authserver.people.sessions import Browser, StaleForm, Visit
from authserver.web.page import Page
from authserver.web.server import Server
from shared.tokens import Token

SQL: Final = rows.load("pages/welcome.sql")

PATH: Final = "/welcome"
ANOTHER: Final = "/welcome/another"
"""The page that connects one more computer."""
SCOPES: Final = api_access.PRESETS["tracker"]
EVENT_LENGTH: Final = timedelta(minutes=5)
"""The length of the first event: long enough to be seen on the page of the day."""

_ALREADY_CREATED: Final = (
    "This form has created its key already, and a key is shown only once. If you do not have its line, "
    "create another key; the one that you do not use can be revoked under API access."
)
# The name of the computer is filled in by the shell; POSIX has uname, and not hostname.
_EVENT: Final = (
    """curl -H "Authorization: Bearer {token}" -H "Content-Type: application/json" """
    """-d '{{"events": [{{"app": "First try", "device": "'"$(uname -n)"'", """
    """"started_at": "{start}", "ended_at": "{end}"}}]}}' """
    '"{base_url}/api/v1/ingest/app-sessions"'
)
_TRACKER: Final = "SVC_TOKEN={token} .venv/bin/svc bridge activitywatch --to {base_url}"


@dataclass(frozen=True)
class Progress:
    """How far a person has come."""

    has_key: bool
    is_key_used: bool
    has_event: bool

    @property
    def steps(self) -> dict[str, bool]:
        """Whether each step is done, by its name. The last use of a key may be known after its event."""
        is_sent = self.is_key_used or self.has_event
        return {"key": self.has_key or is_sent, "line": is_sent, "event": self.has_event}


@dataclass(frozen=True, repr=False)
class NewKey:
    """A new token by its name, and the lines that use it."""

    name: str
    event: str
    """The line that adds one event."""
    tracker: str
    """The line that sends what ActivityWatch records."""


async def show(server: Server, request: Request) -> Response:
    """Show the steps, or continue to the dashboard if the person has data."""
    is_another = request.scope["path"] == ANOTHER
    visit = await server.visit(request, request.scope["path"])
    progress = await _progress(server, visit.browser)
    if progress.has_event and not is_another:
        return _continue(server, visit)
    return _answer(server, visit, progress, is_another=is_another)


async def create(server: Server, request: Request) -> Response:
    """Create a key and show the lines that use it, or say why there is none."""
    form = await forms.read(request)
    form.check()
    is_another = request.scope["path"] == ANOTHER
    visit = await server.visit(request, request.scope["path"])
    draft = form.get("draft") or ""
    if not draft:
        raise InvalidRequest("the parameter draft is missing")
    progress = await _progress(server, visit.browser)
    if progress.has_event and not is_another:
        # The page would leave before the line could be copied.
        return _continue(server, visit)
    name = _name(request)
    new_key, problem, status = None, None, 200
    try:
        server.check_fresh_form(request, form, visit)
        token = await grants.issue_api_token(
            server.database,
            visit.person.user_id,
            name=name,
            scopes=SCOPES,
            lifetime=None,
            origin=events.request_origin(request),
            grant_id=uuid5(visit.person.user_id, draft),
            session=visit.browser.session,
        )
        new_key = _lines(server.settings.base_url, name, token)
        progress = await _progress(server, visit.browser)
    except StaleForm as error:
        problem, status = confirm.problem(error), 403
    except APITokenExists:
        problem, status = _ALREADY_CREATED, 409
    except TooManyAPITokens as error:
        problem, status = error.description, 400
    return _answer(
        server,
        visit,
        progress,
        is_another=is_another,
        new_key=new_key,
        problem=problem,
        status=status,
    )


async def seen(server: Server, request: Request) -> Response:
    """Answer the script of the page: whether each step is done."""
    browser = await server.browser(request)
    if browser.person is None:
        return _json({"problem": "You are signed out. Reload the page to sign in again."}, 401)
    return _json((await _progress(server, browser)).steps)


def _json(content: dict[str, bool] | dict[str, str], status: int = 200) -> Response:
    return JSONResponse(content, status, {"Cache-Control": "no-store"})


def _continue(server: Server, visit: Visit) -> Response:
    return server.pages.redirect_browser(f"{server.settings.base_url}/", visit.browser)


async def _progress(server: Server, browser: Browser) -> Progress:
    given = {**browser.session_parameters, "scopes": list(SCOPES)}
    (progress,) = await rows.every(server.database, Progress, SQL["progress"], given)
    return progress


def _name(request: Request) -> str:
    """Return the name of a key for the computer of a browser."""
    name = f"My computer ({browsers.describe(request.headers.get('user-agent'))})"
    return name if names.problem(name) is None else "My computer"


def _lines(base_url: str, name: str, token: Token) -> NewKey:
    end = datetime.now(UTC)
    event = _EVENT.format(
        token=token.text,
        base_url=base_url,
        start=f"{end - EVENT_LENGTH:%Y-%m-%dT%H:%M:%SZ}",
        end=f"{end:%Y-%m-%dT%H:%M:%SZ}",
    )
    return NewKey(name, event, _TRACKER.format(token=token.text, base_url=base_url))


def _answer(
    server: Server,
    visit: Visit,
    progress: Progress,
    *,
    is_another: bool,
    new_key: NewKey | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    steps = {"key": new_key is not None, "line": False, "event": False} if is_another else None
    content = {
        "steps": progress.steps if steps is None else steps,
        "is_another": is_another,
        "own_path": ANOTHER if is_another else PATH,
        "new_key": new_key,
        "problem": problem,
        "draft": uuid4().hex,
        "minutes": EVENT_LENGTH // timedelta(minutes=1),
    }
    page = Page("welcome.html", content, status, may_end_at_dashboard=True, may_ask_own_server=True)
    return server.pages.render(page, visit.browser)
