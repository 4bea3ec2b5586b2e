"""Settings → Account: what somebody says of themselves, and the way to everything about the account."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final
from uuid import UUID
from zoneinfo import available_timezones

from starlette.requests import Request
from starlette.responses import Response

from authserver import forms, names, rows, sign_in
from authserver.forms import Form
from authserver.pages import Page
from authserver.rows import Database
from authserver.server import Server
from authserver.sessions import SignInNeeded, StaleForm, Visit

SQL: Final = rows.load("account.sql")

PATH: Final = "/settings/account"

_DONE: Final = {"saved": "Your changes are saved."}
_WEEKDAYS: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday"),
    *("Friday", "Saturday", "Sunday"),
)
"""By ISO weekday, of which the first is 1."""


@dataclass(frozen=True)
class Profile:
    """What somebody says of themselves."""

    display_name: str | None
    timezone: str
    week_starts_on: int
    """An ISO weekday: 1 is Monday."""


@dataclass(frozen=True)
class _Zone:
    name: str


@dataclass(frozen=True)
class _Typed:
    """The form as it was sent, and what is wrong with it."""

    display_name: str
    timezone: str
    week_starts_on: str
    problems: Mapping[str, str]


async def show(server: Server, request: Request) -> Response:
    """Show the profile, and what else there is about the account."""
    done = forms.decode(request.scope["query_string"]).get("done") or ""
    visit = await server.visit(request, PATH)
    found = await rows.one(
        server.database, Profile, SQL["profile"], {"user_id": visit.person.user_id}
    )
    if found is None:
        raise SignInNeeded(visit.browser, PATH)
    typed = _Typed(found.display_name or "", found.timezone, str(found.week_starts_on), {})
    page = _page(typed, await zones(server.database), done=_DONE.get(done))
    return server.pages.render(page, visit.browser)


async def save(server: Server, request: Request) -> Response:
    """Take another profile, or show the form again with what is wrong beside each field."""
    form = await forms.read(request)
    form.check()
    visit = await server.visit(request, PATH)
    known = await zones(server.database)
    try:
        server.seal.check_form(request, form, visit.browser)
    except StaleForm:
        page = _page(_typed(form, {}), known, problem=sign_in.OUT_OF_DATE, status=403)
        return server.pages.render(page, visit.browser)
    wanted = _wanted(form, known)
    if isinstance(wanted, _Typed):
        return server.pages.render(_page(wanted, known, status=400), visit.browser)
    await _save(server.database, visit, wanted)
    return server.pages.redirect_browser(f"{PATH}?done=saved", visit.browser)


async def _save(database: Database, visit: Visit, wanted: Profile) -> None:
    whose: dict[str, UUID] = {"user_id": visit.person.user_id}
    if not await rows.execute(database, SQL["save_profile"], {**vars(wanted), **whose}):
        raise SignInNeeded(visit.browser, PATH)


async def zones(database: Database) -> dict[str, str]:
    """Return the time zones in which both the database and we can form days, by their folded names.

    The database forms the days of answers, and we show instants on pages.
    """
    found = await rows.every(database, _Zone, SQL["zones"], {})
    return {_folded(zone.name): zone.name for zone in found if zone.name in _zones_here()}


@cache
def _zones_here() -> frozenset[str]:
    return frozenset(available_timezones())


def _folded(zone: str) -> str:
    """Return a zone's name so that letter case and spaces make no difference."""
    return "_".join(zone.lower().split())


def _wanted(form: Form, known: Mapping[str, str]) -> Profile | _Typed:
    """Return the profile that was typed, or what is wrong with it."""
    name = (form.get("display_name") or "").strip(" ")
    name_problem = names.problem(name) if name else None
    zone = known.get(_folded(form.get("timezone") or ""))
    weekday = _weekday(form.get("week_starts_on"))
    problems = {}
    if name_problem is not None:
        problems["display_name"] = name_problem
    if zone is None:
        problems["timezone"] = (
            "This is not the name of a time zone. Pick one from the list, such as Europe/Berlin."
        )
    if weekday is None:
        problems["week_starts_on"] = "Pick a day."
    if zone is None or weekday is None or problems:
        return _typed(form, problems)
    return Profile(name or None, zone, weekday)


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
        here=PATH,
    )
