"""Settings → Account → Download: a token for ten minutes, with which all data can be downloaded.

As on the page for API tokens, the form contains a random draft id, so that it creates only one token however
often it is submitted. A person with the most API tokens can still download their data: a few more tokens are
allowed for this.

The page says about how large the file will be: the number of rows, which costs little to estimate
(``sql/functions/export_rows.sql``), times the bytes of a row.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import uuid4, uuid5

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms, rows
from authserver.errors import InvalidRequest
from authserver.oauth import grants
from authserver.oauth.grants import APITokenExists, TooManyAPITokens
from authserver.pages import confirm
from authserver.people.sessions import StaleForm, Visit
from authserver.web.page import Page
from authserver.web.server import Server
from shared import scopes
from shared.scopes import SCOPES

SQL: Final = rows.load("pages/download.sql")

PATH: Final = "/settings/account/download"
LIFETIME: Final = timedelta(minutes=10)

_MAX_DOWNLOAD_TOKENS: Final = 10
"""How many download tokens are allowed in addition to the most API tokens."""

_TOKEN_NAME: Final = "Download"  # noqa: S105 -- it is no secret: tokens are listed under their names
_ALREADY_CREATED: Final = (
    "This form has created its token already, and a token is shown only once. Create another one."
)
_TOO_MANY: Final = (
    f"You made {_MAX_DOWNLOAD_TOKENS} tokens for a download within the last ten minutes. Use one of them, "
    "or wait until they have ended."
)
_REQUIRED_SCOPE: Final = "read:activity"
"""The export requires this scope."""
FORMATS: Final = {
    "json": "JSON: one object with everything",
    "ndjson": "NDJSON: JSON line by line",
    "csv": "CSV: one file for a spreadsheet",
    "zip": "Zip: a CSV file for each kind of data",
}
"""The formats of the export, and what they are."""
_ROW_BYTES: Final = {
    "app_sessions": (395, 420, 320, 52),
    "coding_sessions": (470, 495, 415, 65),
    "screen_times": (321, 347, 250, 39),
    "daily_summaries": (805, 828, 823, 150),
    "code_events": (535, 556, 539, 100),
    "health_samples": (429, 456, 411, 39),
    "heart_rates": (443, 467, 468, 36),
    "sleeps": (1115, 1137, 1137, 180),
    "listens": (385, 404, 367, 43),
    "locations": (468, 490, 463, 45),
    "location_events": (555, 580, 584, 85),
    "insights": (400, 429, 450, 300),
    "recordings": (535, 560, 536, 150),
    "plays": (350, 365, 391, 150),
    "calendar_events": (775, 800, 741, 110),
}
"""The bytes of a row in each format, in the order of ``FORMATS``.

Measured with 15 days of ``svc demo``: the size of an export of one resource, without its frame, by its rows.
Longer titles, and transcripts above all, make a file larger than this says.
"""
_OTHER_BYTES: Final = 10_000
"""The frame, and the lists that are short in every life: the size of an export without the rows above."""
_READING: Final = tuple(scope for scope in SCOPES if scope.startswith("read:"))


@dataclass(frozen=True)
class _Rows:
    resource: str
    scope: str
    row_count: int


async def show(server: Server, request: Request) -> Response:
    """Show the form, with all reading scopes ticked."""
    visit = await server.visit(request, PATH, is_fresh=True)
    sizes = await _sizes(server, visit, _READING)
    return server.pages.render(_page(_READING, sizes=sizes), visit.browser)


async def make_token(server: Server, request: Request) -> Response:
    """Create the token and show it once, with a download button and a curl command."""
    form = await forms.read(request)
    form.check(ignoring=("scope",))
    visit = await server.visit(request, PATH)
    if not set(form.all("scope")) <= set(_READING):
        raise InvalidRequest("only reading scopes can be granted to a download")
    ticked = scopes.ordered(form.all("scope"))
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        page = _page(ticked, problem=confirm.problem(error), status=403)
        return server.pages.render(page, visit.browser)
    if _REQUIRED_SCOPE not in ticked:
        problem = f"Tick {_REQUIRED_SCOPE} too: every download contains activity."
        page = _page(ticked, scope_problem=problem if ticked else "Tick at least one.", status=400)
        return server.pages.render(page, visit.browser)
    user_id, draft_id = visit.person.user_id, form.get("draft")
    if draft_id is None:
        raise InvalidRequest("the parameter draft is missing")
    # Before the token: an error afterwards would lose it.
    sizes = await _sizes(server, visit, ticked)
    try:
        token = await grants.issue_api_token(
            server.database,
            user_id,
            name=_TOKEN_NAME,
            scopes=ticked,
            lifetime=LIFETIME,
            origin=events.request_origin(request),
            # With the draft id alone, a person could choose the id of another person's grant.
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
    address = f"{server.settings.base_url}/api/v1/export"
    content = {
        "token": token.text,
        "address": address,
        "formats": FORMATS,
        "sizes": sizes,
        "texts": {name: size_text(size) for name, size in sizes.items()},
    }
    page = Page("account_download_token.html", content, may_fetch_data=True, current_path=PATH)
    return server.pages.render(page, visit.browser)


def size_text(size: int) -> str:
    """Return an estimated number of bytes in the words of the page."""
    megabytes = size / 1_000_000
    if megabytes < 1:
        return "less than 1 MB"
    if megabytes < 1000:
        return f"about {megabytes:.0f} MB"
    return f"about {megabytes / 1000:.1f} GB"


async def _sizes(server: Server, visit: Visit, granted: Collection[str]) -> Mapping[str, int]:
    """Return about how many bytes an export with these scopes has, by format."""
    counted = await rows.every(
        server.database, _Rows, SQL["export_rows"], visit.browser.session_parameters
    )
    return {
        name: _OTHER_BYTES
        + sum(
            kind.row_count * _ROW_BYTES[kind.resource][position]
            for kind in counted
            if kind.scope in granted
        )
        for position, name in enumerate(FORMATS)
    }


def _page(
    ticked: tuple[str, ...],
    *,
    sizes: Mapping[str, int] | None = None,
    problem: str | None = None,
    scope_problem: str | None = None,
    status: int = 200,
) -> Page:
    return Page(
        "account_download.html",
        {
            "draft_id": uuid4().hex,
            "scopes": [(scope, SCOPES[scope], scope in ticked) for scope in _READING],
            "sizes": {name: size_text(size) for name, size in (sizes or {}).items()},
            "problem": problem,
            "scope_problem": scope_problem,
        },
        status=status,
        current_path=PATH,
    )
