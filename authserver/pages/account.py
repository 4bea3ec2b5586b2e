"""Settings → Account: the profile, and links to all other pages about the account."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from authserver import forms, rows
from authserver.forms import Form
from authserver.pages import sign_in
from authserver.people import names, zones
from authserver.people.sessions import SignInNeeded, StaleForm, Visit
from authserver.rows import Database
from authserver.web.page import Page
from authserver.web.server import Server

SQL: Final = rows.load("people/account.sql")

PATH: Final = "/settings/account"

_DONE: Final = {"saved": "Your changes are saved."}
_WEEKDAYS: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday"),
    *("Friday", "Saturday", "Sunday"),
)
"""In the order of ISO weekdays, which start at 1."""
_NO_SUCH_ZONE: Final = "This is not the name of a time zone."
_MAX_SUGGESTIONS: Final = 5


@dataclass(frozen=True)
class Profile:
    """The profile of a person."""

    display_name: str | None
    timezone: str
    week_starts_on: int
    """An ISO weekday: 1 is Monday."""


@dataclass(frozen=True)
class _Typed:
    """The submitted form and the problems with its fields."""

    display_name: str
    timezone: str
    week_starts_on: str
    problems: Mapping[str, str]


async def show(server: Server, request: Request) -> Response:
    """Show the profile and the links to the other pages about the account."""
    done = forms.decode(request.scope["query_string"]).get("done") or ""
    visit = await server.visit(request, PATH)
    stored = await rows.one(
        server.database, Profile, SQL["profile"], {"user_id": visit.person.user_id}
    )
    if stored is None:
        raise SignInNeeded(visit.browser, PATH)
    typed = _Typed(stored.display_name or "", stored.timezone, str(stored.week_starts_on), {})
    page = _page(typed, await server.zones.known(), done=_DONE.get(done))
    return server.pages.render(page, visit.browser)


async def save(server: Server, request: Request) -> Response:
    """Save the profile, or show the form again with a problem beside each wrong field."""
    form = await forms.read(request)
    form.check()
    visit = await server.visit(request, PATH)
    known = await server.zones.known()
    try:
        server.signer.check_form(request, form, visit.browser)
    except StaleForm:
        page = _page(_typed(form, {}), known, problem=sign_in.OUT_OF_DATE, status=403)
        return server.pages.render(page, visit.browser)
    wanted = _profile(form, known)
    if isinstance(wanted, _Typed):
        return server.pages.render(_page(wanted, known, status=400), visit.browser)
    await _save(server.database, visit, wanted)
    return server.pages.redirect_browser(f"{PATH}?done=saved", visit.browser)


async def _save(database: Database, visit: Visit, wanted: Profile) -> None:
    key: dict[str, UUID] = {"user_id": visit.person.user_id}
    if not await rows.execute(database, SQL["save_profile"], {**vars(wanted), **key}):
        raise SignInNeeded(visit.browser, PATH)


def _profile(form: Form, known: Mapping[str, str]) -> Profile | _Typed:
    """Return the submitted profile, or the form with its problems."""
    name = (form.get("display_name") or "").strip(" ")
    name_problem = names.problem(name) if name else None
    zone = known.get(zones.folded(form.get("timezone") or ""))
    weekday = _weekday(form.get("week_starts_on"))
    problems = {}
    if name_problem is not None:
        problems["display_name"] = name_problem
    if zone is None:
        problems["timezone"] = zone_problem(form.get("timezone") or "", known)
    if weekday is None:
        problems["week_starts_on"] = "Pick a day."
    if zone is None or weekday is None or problems:
        return _typed(form, problems)
    return Profile(name or None, zone, weekday)


def zone_problem(typed: str, known: Mapping[str, str]) -> str:
    """Return the message for an unknown zone, with suggestions: not every browser shows the list."""
    part = zones.folded(typed)
    near = [name for folded, name in known.items() if part and part in folded]
    if 1 <= len(near) <= _MAX_SUGGESTIONS:
        return f"{_NO_SUCH_ZONE} Did you mean {' or '.join(near)}?"
    return f"{_NO_SUCH_ZONE} Pick one from the list, such as Europe/Berlin."


def _weekday(text: str | None) -> int | None:
    days = {str(number): number for number in range(1, len(_WEEKDAYS) + 1)}
    return days.get(text or "")


def _typed(form: Form, problems: Mapping[str, str]) -> _Typed:
    return _Typed(
        form.get("display_name") or "",
        form.get("timezone") or "",
        form.get("week_starts_on") or "",
        problems,
    )


def _page(
    typed: _Typed,
    known: Mapping[str, str],
    *,
    done: str | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Page:
    return Page(
        "account.html",
        {
            "typed": typed,
            "zones": list(known.values()),
            "weekdays": [(str(number), day) for number, day in enumerate(_WEEKDAYS, 1)],
            "done": done,
            "problem": problem,
        },
        status=status,
        current_path=PATH,
    )
