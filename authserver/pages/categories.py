"""Settings → Categories: category rules, and the productivity scores of categories.

The page begins with the time that has no category yet. A preview shows what a new rule would have matched in
the last 30 days. A link of the dashboard that names an application, a site or a window title leads to a page
with a button for each category. The role of this server may not read activity; it calls functions that check
the sign-in session themselves (``sql/functions/categories.sql``), on separate connections, because they may
take long.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit
from uuid import UUID

import psycopg
from starlette.requests import Request
from starlette.responses import Response

from authserver import forms, rows
from authserver.errors import InvalidRequest
from authserver.forms import Form
from authserver.pages import back, sign_in
from authserver.people import names
from authserver.people.sessions import SignInNeeded, Visit
from authserver.rows import Parameters, Row
from authserver.web.page import Page
from authserver.web.server import Server

SQL: Final = rows.load("pages/categories.sql")

PATH: Final = "/settings/categories"

FIELDS: Final = {"app": "Application", "domain": "Site", "title": "Window title"}
MATCHES: Final = {"exact": "is", "contains": "contains", "regex": "matches the expression"}
SCORES: Final = {
    2: "Very productive",
    1: "Productive",
    0: "Neutral",
    -1: "Distracting",
    -2: "Very distracting",
}
MAX_PATTERN: Final = 255
MAX_CATEGORY: Final = 64
USUAL: Final = "usual"
"""The form value for the default score of the service."""

PROBLEMS: Final = {
    "not_one": "This is not a regular expression that Postgres can work with.",
    "question_mark": "A group may begin with (?: but not with any other (? and an expression must not "
    "begin with ***. Upper and lower case are always the same.",
    "back_reference": r"An expression may not contain back references such as \1.",
    "repeated_anchor": r"An anchor, such as ^ $ or \y, cannot be repeated, neither by itself nor in a "
    "group.",
    "wide_range": "A range such as [a-z] may not contain so many letters.",
    "too_large": r"The expression is too large. It may have 4 anchors such as ^ and $, or 2 such as \y, "
    "25 parts with * + ? or {1,2}, and 255 characters, where a part with {9} counts nine times and a group "
    "with + twice.",
    "too_slow": "The expression takes too long to read. Make it simpler.",
    "slow_texts": "Some texts take too long to compare with the expression. Make it simpler, for example "
    "without a part such as [ab]{100} that may begin at many places of a text.",
    "slow_together": "Your expressions together would take too long to read. Make one of them simpler, or "
    "remove one.",
    "too_many": "There is room for 200 rules, of which 50 may be regular expressions, and for 200 scores of "
    "your own.",
    "exists": "A rule for that exists already. Remove it first.",
}
"""The message for each problem of a rule that the database reports (``svc.insert_rule``)."""
_BUSY: Final = "This is taking too long at the moment, and nothing was changed. Please try again."
_STEPS: Final = {"up": -1, "down": 1}
"""By how many positions each button moves a rule."""
_TIMED_OUT: Final = (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)
_GONE: Final = "That rule does not exist any more."

_DONE: Final = {
    "added": "The rule is added. It applies to everything that was ever recorded.",
    "put": "Done. It applies to everything that was ever recorded.",
    "removed": "The rule is removed.",
    "restored": "The rule is back in its place.",
    "saved": "The rule is saved. It applies to everything that was ever recorded.",
    "moved": "The rule is moved.",
    "scored": "The score is saved. It applies to everything that was ever recorded.",
}


@dataclass(frozen=True)
class Rule:
    """A category rule."""

    category_rule_id: UUID
    field: str
    match: str
    pattern: str
    category: str
    is_off: bool
    """Whether it was switched off, because it takes too long."""


@dataclass(frozen=True)
class Score:
    """The score of a category: the person's own, if any, and the default of the service."""

    category: str
    own: int | None
    usual: int


@dataclass(frozen=True)
class Uncategorized:
    """A site, or an application without a site, that has no category."""

    field: str
    name: str
    has_sites: bool
    """Whether it is an application of which other sessions have sites."""
    total_ms: int
    session_count: int
    name_count: int
    """The number of all such sites and applications."""


@dataclass(frozen=True)
class Preview:
    """What a rule would match, or why it is not acceptable."""

    problem: str | None
    total_ms: int | None
    session_count: int | None
    ruled_ms: int | None
    """The part of it for which existing rules decide."""
    name_count: int | None
    names: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True)
class Removed:
    """A rule that was just removed, and its place."""

    rule: Rule
    place: int


@dataclass(frozen=True)
class Draft:
    """The form values of a new rule."""

    field: str = "app"
    match: str = "exact"
    pattern: str = ""
    category: str = ""
    replaces: str = ""
    """The id of the rule that the form changes; empty: it adds one."""


@dataclass(frozen=True)
class ScoreChoice:
    """The form values of a score."""

    category: str = ""
    score: str = "2"


@dataclass(frozen=True)
class _Outcome:
    problem: str | None


@dataclass(frozen=True)
class _Change:
    is_done: bool


async def show(server: Server, request: Request) -> Response:
    """Show the time without a category, the rules in their order, and the scores; or what a link names."""
    query, linked, visit = await back.read_link(server, request, PATH, *FIELDS, "match")
    draft = _linked_draft(linked)
    if draft is not None:
        return await _choice(server, visit, draft)
    known = back.texts(query, "done", "rule", "into", "was")
    return await _answer(
        server,
        visit,
        done=_DONE.get(known.get("done", "")),
        added=known.get("rule", ""),
        was=known.get("was", ""),
        into=known.get("into", ""),
    )


def _linked_draft(linked: Mapping[str, str]) -> Draft | None:
    """Return the rule that a link is about, by default one for exactly the text that it names."""
    for field in FIELDS:
        if field in linked:
            match = linked.get("match", "exact")
            match = match if match in MATCHES else "exact"
            return Draft(field, match, pattern(field, match, linked[field]))
    return None


async def _choice(server: Server, visit: Visit, draft: Draft) -> Response:
    """Return the page with a button for each category. A rule of the person for the same text is replaced."""
    problems = _problems(draft, needs_category=False)
    if problems:
        return await _answer(server, visit, draft, problems=problems, status=400)
    rule = next((each for each in await _rules(server, visit) if _is_same(each, draft)), None)
    if rule is not None:
        draft = replace(draft, category=rule.category, replaces=str(rule.category_rule_id))
    preview = await _recent(server, visit, draft)
    if preview is not None and preview.problem is not None:
        problems = {"pattern": PROBLEMS[preview.problem]}
        return await _answer(server, visit, draft, problems=problems, status=400)
    scores = await rows.every(
        server.database, Score, SQL["scores"], visit.browser.session_parameters
    )
    content = {
        "back": visit.back,
        "draft": draft,
        "preview": preview,
        "scores": scores,
        "fields": FIELDS,
        "matches": MATCHES,
        "spent": spent,
    }
    page = Page("category.html", content, current_path=PATH)
    return server.pages.render(page, visit.browser)


def _is_same(rule: Rule, draft: Draft) -> bool:
    """Return whether a rule compares the same as a draft (``svc.insert_rule``)."""
    is_alike = (rule.field, rule.match) == (draft.field, draft.match)
    if rule.match == "regex":
        return is_alike and rule.pattern == draft.pattern
    return is_alike and rule.pattern.lower() == draft.pattern.lower()


async def add(server: Server, request: Request) -> Response:
    """Add a rule, also one that was just removed, or show a preview of it."""
    form, visit = await back.read_form(server, request, PATH)
    draft = _draft(form)
    if server.is_stale_form(request, form, visit):
        return await _out_of_date(server, visit, draft)
    is_for_preview = form.get("what") not in ("add", "restore")
    problems = _problems(draft, needs_category=not is_for_preview)
    if problems:
        return await _answer(server, visit, draft, problems=problems, status=400)
    if is_for_preview:
        return await _preview(server, visit, draft)
    before = await _rules(server, visit) if draft.replaces else []
    problem = await _add(server, visit, draft)
    if problem is not None:
        problems = {"pattern": problem}
        return await _answer(server, visit, draft, problems=problems, status=_status(problem))
    rule, last = await _place(server, visit, draft)
    if form.get("what") == "restore":
        by = _requested_place(form) - last
        if rule and by:
            await _query(server, visit, _Change, "move", {"rule": UUID(rule), "by": by})
        return _redirect(server, visit, {"done": "restored"}, "#rules")
    query = {"done": "added", "rule": rule}
    if draft.replaces:
        # Only a change of the category alone can be undone.
        was = next((each.category for each in before if _is_same(each, draft)), "")
        query = {"done": "saved"} | ({"rule": rule, "was": was} if was else {})
    return _redirect(server, visit, query)


async def put(server: Server, request: Request) -> Response:
    """Put a site or application without a category into one, by adding an exact rule."""
    form, visit = await back.read_form(server, request, PATH)
    field, _, quoted = (form.get("put") or "").partition(" ")
    # Browsers change line breaks in form values, so the page percent-encodes the name.
    name = unquote(quoted, errors="surrogateescape")
    draft = Draft(field, "exact", name, form.get("category") or "")
    is_ours = field in ("app", "domain") and forms.is_text(name)
    if not is_ours or _problems(draft, needs_category=True):
        raise InvalidRequest("the parameters put and category must be those of the page")
    if server.is_stale_form(request, form, visit):
        return await _out_of_date(server, visit, into=draft.category)
    problem = await _add(server, visit, draft)
    if problem is not None:
        status = _status(problem)
        return await _answer(server, visit, problem=problem, into=draft.category, status=status)
    rule, _ = await _place(server, visit, draft)
    return _redirect(server, visit, {"done": "put", "into": draft.category, "rule": rule})


async def change(server: Server, request: Request) -> Response:
    """Move a rule up or down, remove it, or fill the form with it."""
    form, visit = await back.read_form(server, request, PATH)
    what, rule = _requested_change(form)
    if server.is_stale_form(request, form, visit):
        return await _out_of_date(server, visit)
    before = await _rules(server, visit)
    if what == "edit":
        return await _edit(
            server, visit, next((r for r in before if r.category_rule_id == rule), None)
        )
    statement, given = ("remove", {}) if what == "remove" else ("move", {"by": _STEPS[what]})
    try:
        (changed,) = await _query(server, visit, _Change, statement, {"rule": rule, **given})
    except _TIMED_OUT:
        return await _answer(server, visit, problem=_BUSY, status=503)
    if not changed.is_done:
        return await _answer(server, visit, problem=_GONE, status=409)
    if what == "remove":
        # Without a redirect: the page has a form that adds the rule again.
        removed = next(
            (
                Removed(each, place)
                for place, each in enumerate(before, 1)
                if each.category_rule_id == rule
            ),
            None,
        )
        return await _answer(server, visit, done=_DONE["removed"], removed=removed)
    return _redirect(server, visit, {"done": "moved"}, "#rules")


def _redirect(
    server: Server, visit: Visit, parameters: Mapping[str, str], fragment: str = ""
) -> Response:
    """Return a redirect to the page, which keeps the way back."""
    location = back.address(PATH, parameters, visit.back) + fragment
    return server.pages.redirect_browser(location, visit.browser)


async def _edit(server: Server, visit: Visit, rule: Rule | None) -> Response:
    if rule is None:
        return await _answer(server, visit, problem=_GONE, status=409)
    draft = Draft(rule.field, rule.match, rule.pattern, rule.category, str(rule.category_rule_id))
    return await _answer(server, visit, draft)


async def score(server: Server, request: Request) -> Response:
    """Set the productivity score of a category."""
    form, visit = await back.read_form(server, request, PATH)
    score_choice = ScoreChoice(
        recorded_name(form.get("scored") or "", MAX_CATEGORY), form.get("score") or ""
    )
    scores = {str(number): number for number in SCORES}
    if score_choice.score != USUAL and score_choice.score not in scores:
        raise InvalidRequest("the parameter score must be one of the page")
    if server.is_stale_form(request, form, visit):
        return await _out_of_date(server, visit, score_choice=score_choice)
    problem = _category_problem(score_choice.category)
    if problem is None:
        wanted = {"category": score_choice.category, "score": scores.get(score_choice.score)}
        problem = await _outcome(server, visit, "score", wanted)
    if problem is not None:
        problems = {"scored": problem}
        return await _answer(
            server, visit, problems=problems, score_choice=score_choice, status=_status(problem)
        )
    return _redirect(server, visit, {"done": "scored"})


async def _rules(server: Server, visit: Visit) -> list[Rule]:
    return await rows.every(server.database, Rule, SQL["rules"], visit.browser.session_parameters)


async def _place(server: Server, visit: Visit, draft: Draft) -> tuple[str, int]:
    """Return the id and the place of a rule that was just added, or nothing if it is gone already."""
    for place, rule in enumerate(await _rules(server, visit), 1):
        if (rule.field, rule.match, rule.pattern) == (draft.field, draft.match, draft.pattern):
            return str(rule.category_rule_id), place
    return "", 0


def _requested_place(form: Form) -> int:
    """Return the place of a rule that is added again. Raises InvalidRequest."""
    place = form.get("place") or ""
    if not re.fullmatch(r"[1-9][0-9]{0,2}", place):
        raise InvalidRequest("the parameter place must be one of the page")
    return int(place)


def _requested_change(form: Form) -> tuple[Literal["up", "down", "remove", "edit"], UUID]:
    """Return the action and the rule of a button. Raises InvalidRequest for other values."""
    for what in ("up", "down", "remove", "edit"):
        rule = form.get(what)
        if rule is not None:
            try:
                return what, UUID(rule)
            except ValueError:
                break
    raise InvalidRequest("one of the parameters up, down, remove and edit must name a rule")


def _draft(form: Form) -> Draft:
    """Return the values of the form. Raises InvalidRequest for values that the page cannot send."""
    draft = Draft(
        form.get("field") or "",
        form.get("match") or "",
        form.get("pattern") or "",
        recorded_name(form.get("category") or "", MAX_CATEGORY),
        form.get("replaces") or "",
    )
    if not re.fullmatch("([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?", draft.replaces):
        raise InvalidRequest("the parameter replaces must be that of the page")
    if draft.field not in FIELDS:
        raise InvalidRequest(f"the parameter field must be one of {', '.join(FIELDS)}")
    if draft.match not in MATCHES:
        raise InvalidRequest(f"the parameter match must be one of {', '.join(MATCHES)}")
    return replace(draft, pattern=pattern(draft.field, draft.match, draft.pattern))


def pattern(field: str, match: str, text: str) -> str:
    """Return a rule's pattern in the form in which names are recorded. Titles are only trimmed."""
    if field == "title":
        return text.strip()
    name = recorded_name(text, MAX_PATTERN)
    return site(name) if field == "domain" and match == "exact" else name


def recorded_name(text: str, limit: int) -> str:
    """Return a name in the form in which names are recorded: trimmed, in Unicode form NFC.

    A text that is too long for ``limit`` characters in any form is not normalized: normalizing many
    combining marks takes quadratic time.
    """
    name = text.strip()
    return name if len(name) > 4 * limit else unicodedata.normalize("NFC", name)


def site(text: str) -> str:
    """Return the site of ``text`` in the form in which sites are recorded: the host without ``www.``.

    ``text`` may be a whole URL.
    """
    address = text if "://" in text else f"//{text}"
    try:
        host = urlsplit(address).hostname or text
    except ValueError:
        return text
    bare = host.rstrip(".").removeprefix("www.")
    return bare if "." in bare else host


def _problems(draft: Draft, *, needs_category: bool) -> dict[str, str]:
    """Return the problems by field."""
    problems = {}
    if not draft.pattern:
        problems["pattern"] = "Type the text to compare with."
    elif len(draft.pattern) > MAX_PATTERN:
        problems["pattern"] = f"This may have at most {MAX_PATTERN} characters."
    category_problem = _category_problem(draft.category)
    if category_problem is not None and (needs_category or draft.category):
        problems["category"] = category_problem
    return problems


def _category_problem(category: str) -> str | None:
    if len(category) > MAX_CATEGORY:
        return f"A category has at most {MAX_CATEGORY} characters; this one has {len(category)}."
    return names.problem(category)


async def _add(server: Server, visit: Visit, draft: Draft) -> str | None:
    """Add or replace a rule, or return the problem."""
    return await _outcome(server, visit, "replace" if draft.replaces else "add", vars(draft))


async def _query(
    server: Server, visit: Visit, shape: type[Row], statement: str, given: Parameters
) -> list[Row]:
    """Return the rows of a statement with a time limit. Raises psycopg.Error, including _TIMED_OUT."""
    return await rows.every(
        server.slow,
        shape,
        SQL[statement],
        {**visit.browser.session_parameters, **given},
        preceded_by=SQL["limit_time"],
    )


async def _outcome(server: Server, visit: Visit, statement: str, given: Parameters) -> str | None:
    """Run a change and return its problem as a message, or None. Raises SignInNeeded."""
    try:
        (outcome,) = await _query(server, visit, _Outcome, statement, given)
    except _TIMED_OUT:
        return _BUSY
    if outcome.problem == "signed_out":
        raise _signed_out(visit)
    return None if outcome.problem is None else PROBLEMS[outcome.problem]


def _status(problem: str) -> int:
    """Return the HTTP status for the problem of a change."""
    return 503 if problem == _BUSY else 400


async def _preview(server: Server, visit: Visit, draft: Draft) -> Response:
    given = {"field": draft.field, "match": draft.match, "pattern": draft.pattern}
    try:
        found = await _query(server, visit, Preview, "preview", given)
    except _TIMED_OUT:
        problems = {"pattern": _BUSY}
        return await _answer(server, visit, draft, problems=problems, is_slow=True, status=503)
    if not found:
        raise _signed_out(visit)
    if found[0].problem is not None:
        problems = {"pattern": PROBLEMS[found[0].problem]}
        return await _answer(server, visit, draft, problems=problems, status=400)
    return await _answer(server, visit, draft, preview=found[0])


async def _recent(server: Server, visit: Visit, draft: Draft) -> Preview | None:
    """Return what a rule would match; None: the query took too long."""
    given = {"field": draft.field, "match": draft.match, "pattern": draft.pattern}
    try:
        found = await _query(server, visit, Preview, "preview", given)
    except psycopg.OperationalError:
        # As in _uncategorized.
        return None
    if not found:
        raise _signed_out(visit)
    return found[0]


def _signed_out(visit: Visit) -> SignInNeeded:
    """Return the error for a session that has ended since the request began."""
    return SignInNeeded(visit.browser, back.address(PATH, {}, visit.back))


async def _uncategorized(server: Server, visit: Visit) -> list[Uncategorized] | None:
    """Return the time without a category; None: the query took too long."""
    try:
        return await _query(server, visit, Uncategorized, "uncategorized", {})
    except psycopg.OperationalError:
        # The query timed out, or all slow connections are busy.
        return None


async def _out_of_date(
    server: Server,
    visit: Visit,
    draft: Draft | None = None,
    *,
    score_choice: ScoreChoice | None = None,
    into: str = "",
) -> Response:
    problem = sign_in.OUT_OF_DATE
    return await _answer(
        server, visit, draft, problem=problem, score_choice=score_choice, into=into, status=403
    )


async def _answer(
    server: Server,
    visit: Visit,
    draft: Draft | None = None,
    *,
    problems: Mapping[str, str] | None = None,
    preview: Preview | None = None,
    score_choice: ScoreChoice | None = None,
    problem: str | None = None,
    done: str | None = None,
    added: str = "",
    was: str = "",
    removed: Removed | None = None,
    into: str = "",
    is_slow: bool = False,
    status: int = 200,
) -> Response:
    """Return the page with its forms filled from ``draft`` and ``score_choice``.

    ``added`` is the id of a rule that was just added, or changed from the category ``was``, and ``removed``
    one that was just removed: the page offers to undo that. ``is_slow``: a query of recent activity has just
    timed out, so the page does not try another one.
    """
    listed = await _rules(server, visit)
    content = {
        "done": done,
        "added": next((each for each in listed if str(each.category_rule_id) == added), None),
        "was": "" if _category_problem(was) else was,
        "removed": removed,
        "back": visit.back,
        "problem": problem or ("Nothing was changed. See below why." if problems else None),
        "problems": {"pattern": None, "category": None, "scored": None} | dict(problems or {}),
        "draft": draft or Draft(),
        "preview": preview,
        "score_choice": score_choice or ScoreChoice(),
        "into": into,
        "uncategorized": None if is_slow else await _uncategorized(server, visit),
        "rules": listed,
        "scores": await rows.every(
            server.database, Score, SQL["scores"], visit.browser.session_parameters
        ),
        "fields": FIELDS,
        "matches": MATCHES,
        "levels": SCORES,
        "usual": USUAL,
        "spent": spent,
    }
    return server.pages.render(
        Page("categories.html", content, status, current_path=PATH), visit.browser
    )


def spent(total_ms: int) -> str:
    """Return a duration as text for people."""
    minutes = (total_ms + 30_000) // 60_000
    if minutes == 0:
        return "less than a minute" if total_ms else "no time"
    hours, rest = divmod(minutes, 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest else [])])
