"""Settings → API access: creating, listing and revoking API tokens for a person's own programs.

The form contains a random draft id. The grant id is computed from it and the user id, so that a form that is
submitted twice creates only one token.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID, uuid4, uuid5
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response

from authserver import events, forms
from authserver.errors import InvalidRequest
from authserver.forms import Form
from authserver.oauth import grants
from authserver.oauth.grants import APITokenExists, TooManyAPITokens
from authserver.pages import confirm, grant_list
from authserver.people import names
from authserver.people.sessions import Person, StaleForm, Visit
from authserver.web.page import Page
from authserver.web.server import Server
from shared import scopes, tokens
from shared.scopes import SCOPES, WITHOUT_ENDPOINT
from shared.tokens import Token

PATH: Final = "/settings/api-access"

DONE: Final = {
    "revoked": "The token is revoked. Programs that have it are refused from now on.",
    "ended": "That token had ended already.",
}

READING: Final = tuple(scope for scope in SCOPES if scope.startswith("read:"))
PRESETS: Final = {
    "reading": READING,
    "tracker": ("ingest:app_sessions", "ingest:coding_sessions"),
}
_CHOOSE: Final = "choose"
EXPIRIES: Final = {
    "7": "After 7 days",
    "30": "After 30 days",
    "90": "After 90 days",
    "date": "At the end of a day that you choose",
    "never": "Never, until you revoke it",
}
_MAX_DAYS: Final = 36_525
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_ALREADY_CREATED: Final = (
    "This form has created its token already, and a token is shown only once. If you do not have it, "
    "revoke it below and create another one."
)
_NO_SUCH_DATE: Final = "There is no such date. Write year, month and day like this: 2030-12-31."

# The example for a new token is the first one whose scope the token has.
_EXAMPLES: Final = {
    "read:profile": '"{base_url}/api/v1/me"',
    "read:activity": '"{base_url}/api/v1/analytics/daily?from={day}&to={day}&tz={zone}"',
    "ingest:app_sessions": (
        """-H "Content-Type: application/json" -d '{{"events": [{{"app": "First try", """
        """"device": "curl", "started_at": "{start}", "ended_at": "{end}"}}]}}' """
        '"{base_url}/api/v1/ingest/app-sessions"'
    ),
    "ingest:coding_sessions": (
        """-H "Content-Type: application/json" -d '{{"events": [{{"project": "first-try", """
        """"device": "curl", "started_at": "{start}", "ended_at": "{end}"}}]}}' """
        '"{base_url}/api/v1/ingest/coding-sessions"'
    ),
}


@dataclass(frozen=True)
class Draft:
    """The values of the form."""

    draft_id: str
    name: str = ""
    preset: str = ""
    ticked: frozenset[str] = frozenset()
    expiry: str = "90"
    date: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the token. The ticked boxes count only if no preset is chosen."""
        if self.preset in PRESETS:
            return PRESETS[self.preset]
        return scopes.ordered(self.ticked)


@dataclass(frozen=True, repr=False)
class NewToken:
    """A new token and a curl command that uses it. None: no example fits its scopes."""

    token: Token
    curl: str | None

    @property
    def adds_event(self) -> bool:
        """Whether the command adds an event."""
        return self.curl is not None and "/ingest/" in self.curl


class _DateProblem(ValueError):
    """The date is wrong. The message is for the person who typed it."""


async def show(server: Server, request: Request) -> Response:
    """Show the person's API tokens and the form for a new one."""
    visit = await server.visit(request, PATH)
    query = forms.decode(request.scope["query_string"])
    done = DONE.get(query.get("done") or "")
    return await _answer(server, visit, _new(), done=done, query=query)


async def create(server: Server, request: Request) -> Response:
    """Create a token and show it, or show the form again with its problems."""
    form = await forms.read(request)
    form.check(ignoring=("scope",))
    visit = await server.visit(request, PATH)
    draft = _draft(form)
    try:
        server.check_fresh_form(request, form, visit)
    except StaleForm as error:
        return await _answer(server, visit, draft, problem=confirm.problem(error), status=403)
    now = datetime.now(ZoneInfo(visit.person.timezone))
    problems = _problems(draft, now)
    if problems:
        return await _answer(server, visit, draft, problems=problems, status=400)
    try:
        token = await grants.issue_api_token(
            server.database,
            visit.person.user_id,
            name=draft.name,
            scopes=draft.scopes,
            lifetime=_lifetime(draft, now),
            origin=events.request_origin(request),
            grant_id=_grant_id(visit.person, draft),
            session=visit.browser.session,
        )
    except APITokenExists:
        return await _answer(server, visit, _new(), problem=_ALREADY_CREATED, status=409)
    except TooManyAPITokens as error:
        return await _answer(server, visit, draft, problem=error.description, status=400)
    new_token = NewToken(token, _curl(server.settings.base_url, token, draft.scopes, now))
    return await _answer(server, visit, _new(), new_token=new_token)


def _new() -> Draft:
    return Draft(uuid4().hex)


def _draft(form: Form) -> Draft:
    """Return the values of the form. Raises InvalidRequest for values that the page cannot send."""
    ticked = frozenset(form.all("scope"))
    draft = Draft(
        draft_id=form.get("draft") or "",
        name=(form.get("name") or "").strip(),
        preset=form.get("preset") or "",
        ticked=ticked,
        expiry=form.get("expiry") or "",
        date=(form.get("date") or "").strip(),
    )
    if not draft.draft_id:
        raise InvalidRequest("the parameter draft is missing")
    if draft.preset not in ("", _CHOOSE, *PRESETS):
        raise InvalidRequest(
            f"the parameter preset must be {_CHOOSE} or one of {', '.join(PRESETS)}"
        )
    if not ticked <= SCOPES.keys():
        raise InvalidRequest("only scopes of this service can be granted")
    if draft.expiry not in EXPIRIES:
        raise InvalidRequest(f"the parameter expiry must be one of {', '.join(EXPIRIES)}")
    return draft


def _grant_id(person: Person, draft: Draft) -> UUID:
    # With the draft id alone, a person could choose the id of another person's grant.
    return uuid5(person.user_id, draft.draft_id)


def _problems(draft: Draft, now: datetime) -> dict[str, str]:
    """Return the problems by field."""
    problems = {}
    name_problem = names.problem(draft.name)
    if name_problem is not None:
        problems["name"] = name_problem
    if not draft.scopes:
        problems["preset"] = (
            "Tick at least one thing that the token may do."
            if draft.preset == _CHOOSE
            else "Choose what the token may do."
        )
    try:
        _lifetime(draft, now)
    except _DateProblem as error:
        problems["date"] = str(error)
    return problems


def _lifetime(draft: Draft, now: datetime) -> timedelta | None:
    """Return the lifetime of the token, None without expiry. A date ends in the time zone of ``now``.

    Raises _DateProblem.
    """
    if draft.expiry == "never":
        return None
    if draft.expiry != "date":
        return timedelta(days=int(draft.expiry))
    if not draft.date:
        raise _DateProblem("Choose a date.")
    try:
        day = date.fromisoformat(draft.date if _DATE.fullmatch(draft.date) else "")
    except ValueError:
        raise _DateProblem(_NO_SUCH_DATE) from None
    if day < now.date():
        raise _DateProblem("That day is over. Choose today or a later one.")
    if day > now.date() + timedelta(days=_MAX_DAYS):
        raise _DateProblem("Choose a day within the next 100 years, or choose no expiry.")
    end = datetime.combine(day + timedelta(days=1), time.min, now.tzinfo)
    # In UTC, because the difference of two local times ignores changes of daylight saving time.
    return end.astimezone(UTC) - now.astimezone(UTC)


def _curl(base_url: str, token: Token, granted: Sequence[str], now: datetime) -> str | None:
    """Return a curl command that uses ``token``, or None."""
    example = next((_EXAMPLES[scope] for scope in _EXAMPLES if scope in granted), None)
    if example is None:
        return None
    end = now.astimezone(UTC)
    filled = example.format(
        base_url=base_url,
        day=now.date(),
        zone=now.tzinfo,
        start=f"{end - timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}",
        end=f"{end:%Y-%m-%dT%H:%M:%SZ}",
    )
    return f'curl -H "Authorization: Bearer {token.text}" {filled}'


async def _answer(
    server: Server,
    visit: Visit,
    draft: Draft,
    *,
    problems: dict[str, str] | None = None,
    problem: str | None = None,
    done: str | None = None,
    new_token: NewToken | None = None,
    query: Form | None = None,
    status: int = 200,
) -> Response:
    """Return the page with the form filled from ``draft``, or with the new token."""
    granted = await grants.of_user(server.database, visit.person.user_id)
    api_tokens = [grant for grant in grant_list.last_used_first(granted) if grant.client_id is None]
    search = grant_list.search(query or Form({}), len(api_tokens))
    content = {
        "done": done,
        "problem": problem or ("The token was not created. See below why." if problems else None),
        "problems": {"name": None, "preset": None, "date": None} | (problems or {}),
        "new_token": new_token,
        "draft": draft,
        "tokens": [each for each in api_tokens if search.finds(each.title, each.last_four)],
        "search": search,
        "docs_url": f"{server.settings.base_url}/docs",
        "prefix": tokens.ACCESS,
        "presets": PRESETS,
        "expiries": EXPIRIES,
        "reading": {scope: SCOPES[scope] for scope in READING},
        "without_endpoint": WITHOUT_ENDPOINT,
        "adding": {scope: SCOPES[scope] for scope in SCOPES if scope not in READING},
    }
    return server.pages.render(
        Page("api_access.html", content, status, current_path=PATH), visit.browser
    )
