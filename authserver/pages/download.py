"""Settings → Account → Download: a token for ten minutes, with which everything can be fetched.

The form carries an id of its own, as that for any API token does, so that it makes one token however often
it is sent. Who has as many API tokens as there may be can still take their data along: some more are kept
free for this.
"""

from datetime import timedelta
from typing import Final
from uuid import uuid4, uuid5

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import InvalidRequest
from authserver.oauth import grants
from authserver.oauth.grants import APITokenExists, TooManyAPITokens
from authserver.pages import confirm
from authserver.people.sessions import StaleForm
from authserver.web.page import Page
from authserver.web.server import Server
from shared import scopes
from shared.scopes import SCOPES

PATH: Final = "/settings/account/download"
LIFETIME: Final = timedelta(minutes=10)

_MAX_DOWNLOAD_TOKENS: Final = 10
"""How many of these tokens there may be beside the most API tokens."""

_TOKEN_NAME: Final = "Download"  # noqa: S105 -- it is no secret: tokens are listed under their names
_ALREADY_CREATED: Final = (
    "This form has made its token already, and a token is shown only once. Make another one."
)
_TOO_MANY: Final = (
    f"You made {_MAX_DOWNLOAD_TOKENS} tokens for a download within the last ten minutes. Use one of them, "
    "or wait until they have ended."
)
_REQUIRED_SCOPE: Final = "read:activity"
"""Without it no token opens an export."""
_READING: Final = tuple(scope for scope in SCOPES if scope.startswith("read:"))


async def show(server: Server, request: Request) -> Response:
    """Explain the download, with all that can be read ticked."""
    visit = await server.visit(request, PATH, is_fresh=True)
    return server.pages.render(_page(_READING), visit.browser)


async def make_token(server: Server, request: Request) -> Response:
    """Make the token and show it, this once, with a button and a line that fetch everything."""
    form = await forms.read(request)
    form.check(ignoring=("scope",))
    visit = await server.visit(request, PATH)
    if not set(form.all("scope")) <= set(_READING):
        raise InvalidRequest("only what can be read can be downloaded")
    ticked = scopes.ordered(form.all("scope"))
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        page = _page(ticked, problem=confirm.problem(error), status=403)
        return server.pages.render(page, visit.browser)
    if _REQUIRED_SCOPE not in ticked:
        problem = f"Tick {_REQUIRED_SCOPE} too: every download holds what it opens."
        page = _page(ticked, scope_problem=problem if ticked else "Tick at least one.", status=400)
        return server.pages.render(page, visit.browser)
    user_id, draft_id = visit.person.user_id, form.get("draft")
    if draft_id is None:
        raise InvalidRequest("the parameter draft is missing")
    try:
        token = await grants.issue_api_token(
            server.database,
            user_id,
            name=_TOKEN_NAME,
            scopes=ticked,
            lifetime=LIFETIME,
            origin=events.request_origin(request),
            # The form's id alone would let somebody give their grant the id of another person's.
            grant_id=uuid5(user_id, f"download {draft_id}"),
            session=visit.browser.session,
            most=grants.MAX_API_TOKENS + _MAX_DOWNLOAD_TOKENS,
        )
    except APITokenExists:
        page = _page(ticked, problem=_ALREADY_CREATED, status=409)
        return server.pages.render(page, visit.browser)
    except TooManyAPITokens:
        page = _page(ticked, problem=_TOO_MANY, status=400)
        return server.pages.render(page, visit.browser)
    content = {"token": token.text, "address": f"{server.settings.base_url}/api/v1/export"}
    page = Page("account_download_token.html", content, may_fetch_data=True, current_path=PATH)
    return server.pages.render(page, visit.browser)


def _page(
    ticked: tuple[str, ...],
    *,
    problem: str | None = None,
    scope_problem: str | None = None,
    status: int = 200,
) -> Page:
    return Page(
        "account_download.html",
        {
            "draft_id": uuid4().hex,
            "scopes": [(scope, SCOPES[scope], scope in ticked) for scope in _READING],
            "problem": problem,
            "scope_problem": scope_problem,
        },
        status=status,
        current_path=PATH,
    )
